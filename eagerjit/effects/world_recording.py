"""How the questions of a function to the world are recorded."""

from __future__ import annotations

import datetime
import enum
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from eagerjit import pytree
from eagerjit.compiled.answers import answer
from eagerjit.compiled.compilation import executable_of
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.passes.dead import may_raise
from eagerjit.compiler.signature import Fresh, Output, Trace
from eagerjit.effects.clocks import ACTED_ON, acted_on, is_clock
from eagerjit.effects.journal import Journal
from eagerjit.effects.world import Answer, Heard, Inquiry, Listener, Number, Range, is_end
from eagerjit.effects.world_calls import SHUFFLED, containers_of, gives_by_code, is_constant, is_harmless, sources_of
from eagerjit.effects.world_guards import beginning
from eagerjit.guards.comparing import Unchanged
from eagerjit.pytree import Again
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.leaves import flatten_call, marks_of, plain_call, traced_call
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.trace import Tracer
from eagerjit.recording.traced_ranges import is_range
from eagerjit.runtime import dtypes
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import replace
from eagerjit.state import set_tracer, state, untraced
from eagerjit.tensors.tensor import Shape, Tensor
from eagerjit.watching.containers import CONTAINERS, is_consumed
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line
from eagerjit.watching.slots import Path, Slot

_COMPARED = (int, str, bytes, datetime.date, frozenset)
_TRACED = (SymbolicInt, TracedFloat, TracedNumber)


class World(Listener):
    """The questions of one recording."""

    def __init__(self, tracer: Tracer, journal: Journal):
        self.tracer, self.journal = tracer, journal
        self.heard: Heard | None = None
        self.grad_mode = True
        self.known: Sequence[Inquiry] = ()
        self.inquiries: list[Inquiry] = []
        self.tensors: list[tuple[int, Tensor]] = []
        self._others: set[int] = set()
        self._sources: set[int] = set()
        self._checked: tuple[int, ...] = ()
        self._looked_at = 0
        self._read_at: int | None = None
        self._given_at = ""
        self._given: dict[int, tuple[Inquiry, int]] = {}
        self._alive: list[Any] = []

    def open(self, heard: Heard, grad_mode: bool, known: Sequence[Inquiry] = ()) -> None:
        """Let questions be asked: `heard` is what the call was answered before; `known` are the questions of a call
        that is recorded again."""
        self.heard, self.grad_mode, self.known = heard, grad_mode, known

    def is_taken(self, value: Any) -> bool:
        """Whether a value is an iterator from outside, which no code of the user's gives: that is watched."""
        return is_consumed(value) and not gives_by_code(value) and self.journal.is_outside(value)

    def reads(self, clock: Any) -> bool:
        """Whether the function acts on what clocks say. TraceBreak where it has worked since it looked at one."""
        asked = ACTED_ON in self.journal.varying.left
        since = self.tracer.nodes[self._read_at :] if asked and self._read_at is not None else ()
        if any(node.type.shape != () for node in since):
            raise acted_on()
        self._read_at = len(self.tracer.nodes) if asked and self._read_at is None else self._read_at
        return asked

    def ask(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Ask, and make the answer an input. TraceBreak where calls cannot ask the same."""
        tracer, source, title = self.tracer, user_line(), _title(owner, name)
        if self.heard is None or state.tracer is not tracer or self._compares():
            raise TraceBreak(f"it calls {title} where compiled code cannot", source)
        if tracer.host.steps:
            raise TraceBreak(f"it calls {title} after NumPy has computed", source)
        if isinstance(owner, Iterator) and not is_harmless(owner, bool(tracer.written)):
            raise TraceBreak("it reads an iterator that may do more than give items", source)
        if name == "__call__" and not is_clock(owner) and self.has_changed_something():
            raise TraceBreak(f"it calls {title} after it has changed something", source)
        self._watch(owner, name)
        inquiry, given = self._inquiry(owner, name, (args, kwargs), source)
        before, observation = set_tracer(None), pause_observation()
        try:
            said = self.heard.answer(len(self.inquiries), owner, name, given)
        finally:
            set_tracer(before)
            resume_observation(observation)
        if said is None:
            raise TraceBreak(f"it calls {title}, and called something else before", source)
        self.inquiries.append(inquiry)
        if said.error is not None and not is_end(said.error):
            TraceBreak(f"{title} raises {type(said.error).__name__}", source)
        return self._input(inquiry, said.given(), source)

    def has_changed_something(self) -> bool:
        """Whether code of the user's would see the world as it was before the call, if it was asked now."""
        return bool(self.journal.operations or self.tracer.written)

    def _watch(self, owner: Any, name: str) -> None:
        """Guard that a module still has the function under its name."""
        module = {"random": sys.modules.get("random"), "numpy.random.mtrand": sys.modules.get("numpy.random")}.get(
            type(owner).__module__
        )
        called = "shuffle" if name == SHUFFLED else name
        function = getattr(module, called, None)
        if function is not None and getattr(function, "__self__", None) is owner:
            self.journal.checks.append(lambda: getattr(module, called, None) is function)

    def _compares(self) -> bool:
        """Whether code has asked which tensors are the same, of those that are others in every call."""
        tracer = self.tracer
        found = (*(tracer.arguments or ()), *(tracer.begun.get(leaf) for leaf in tracer.slots))
        changing = {id(t) for t in found if isinstance(t, Tensor)}
        compared = {id(t) for pair in tracer.compared for t in pair}
        return not changing.isdisjoint(compared | tracer.hashed)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _inquiry(self, owner: Any, name: str, arguments: Any, source: str) -> tuple[Inquiry, Any]:
        """The question, with the program that says whether a call comes to it; its arguments in this call."""
        leaves: list[Any] = []
        structure = pytree.flatten(_with_plain_shapes(arguments), leaves)
        for value in leaves:
            if type(value) not in _TRACED and not is_range(value) and not is_constant(value):
                raise TraceBreak(f"it calls {_title(owner, name)} with a {type(value).__name__}", source)
        for value in arguments[0]:
            if isinstance(value, CONTAINERS) and self.journal.is_outside(value):
                self.journal.checks.append(Unchanged(value, frozenset()))
        kept, values = list(map(_kept, leaves)), list(map(self._value_of, leaves))
        parts = [part for x in leaves for part in (x.parts() if is_range(x) else (x,))]
        nodes = [self._number(part) for part in parts if type(part) in _TRACED]
        if len(self.inquiries) < len(self.known):
            return self.known[len(self.inquiries)], pytree.unflatten(structure, values)
        inquiry = Inquiry(owner, name, (structure, kept), None if not self._is_news(nodes) else self._check(nodes))
        return inquiry, pytree.unflatten(structure, values)

    def _value_of(self, number: Any) -> Any:
        """What a number or range of the call is in the call being recorded; other values as they are."""
        tracer = self.tracer
        if is_range(number):
            return range(*map(self._value_of, number.parts()))
        if type(number) is TracedNumber:
            return number.kind(self._value_of(number.number))
        if type(number) is SymbolicInt:
            return int(sizes.evaluate(number.expression, tracer.assumptions.hints))
        if type(number) is TracedFloat and number.value is None:
            return tracer.value_now(number.node, "a tensor's value is an argument").item()
        return number.value if type(number) is TracedFloat else number

    def _number(self, number: Any) -> Node:
        number = number.number if type(number) is TracedNumber else number
        dtype = dtypes.int64 if isinstance(number, int) else dtypes.float64
        node = self.tracer.constant(number, dtype)
        return self.tracer.record(elementwise.cast, (node,), dtype=dtype)

    def _counts(self) -> tuple[int, ...]:
        tracer = self.tracer
        return len(tracer.bindings), len(tracer.assumptions.guards), len(tracer.questions)

    def _is_news(self, nodes: list[Node]) -> bool:
        """Whether a call may come as far as to the question before, and not to this one."""
        new = self.tracer.nodes[self._looked_at :]
        return bool(nodes) or self._counts() != self._checked or any(map(may_raise, new))

    def _check(self, nodes: list[Node]) -> Any:
        """The program that checks what was recorded so far, and calculates these numbers."""
        tracer = self.tracer
        known = self._checked[2] if self._checked else 0
        asked = [replace(q) for i, q in enumerate(tracer.questions) if i >= known or q.size is not None]
        raising = [n for n in tracer.nodes[self._looked_at :] if may_raise(n)]
        results = [*nodes, *(q.node for q in asked)]
        used = ancestors([*results, *raising])
        graph = Graph(f"{tracer.name}_check", tracer.inputs, [n for n in tracer.nodes if n in used], results)
        outputs: list[Output] = [Fresh(n, False, tracer.is_on_host(n)) for n in nodes]
        bindings, guards = [replace(b) for b in tracer.bindings], list(tracer.assumptions.guards)
        n_arguments, hints = len(tracer.arguments or ()), dict(tracer.assumptions.hints)
        trace = Trace(graph, n_arguments, tracer.n_leaves, bindings, outputs, guards, hints, self.grad_mode)
        trace.questions, trace.device = asked, tracer.device
        self._checked, self._looked_at = self._counts(), len(tracer.nodes)
        before, observation = set_tracer(None), pause_observation()
        try:
            for node in raising:
                answer(tracer, node)
            return executable_of(trace, graph, list(tracer.objects), pending=True)[0]
        except Exception as error:
            raise TraceBreak("it ends in an error before", tracer.begins) from error
        finally:
            set_tracer(before)
            resume_observation(observation)

    def guard_beginning(self) -> None:
        """Let calls look before they ask. Call it when all guards are known."""
        if self.inquiries:
            self.inquiries[0].begins = beginning(self.tracer, {id(i.place) for i in self.inquiries}, self.grad_mode)

    # -- what is answered ---------------------------------------------------------------------------------------------

    def _input(self, inquiry: Inquiry, value: Any, source: str) -> Any:
        """An answer as an input: what stands for it in the recorded code."""
        tracer, position = self.tracer, len(self.inquiries) - 1
        with untraced():
            structure, leaves = flatten_call((value,), {})
        tensors = {id(x) for x in leaves if isinstance(x, Tensor)}
        held = containers_of(value) | (tensors - self._given.keys())
        if not held.isdisjoint(self._others | tracer.leaf_of.keys()):
            raise TraceBreak("it gets an item that it has already", source)
        self._others |= held
        self._sources |= {*containers_of(value), *sources_of(inquiry.owner)}
        inquiry.structure, inquiry.key = structure, inquiry.known_by(leaves)
        inquiry.tell(leaves)
        holder = tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(inquiry.place))
        inputs: list[Any] = []
        for i, (mark, leaf) in enumerate(zip(marks_of(structure), leaves, strict=True)):
            inputs.append(inputs[mark] if type(mark) is Again else self._leaf(inquiry, holder, i, leaf, source))
        if not any(map(is_guarded, leaves)):
            self._checked = self._counts()
        (made,), _ = traced_call(structure, inputs)
        self._alive.append(value)
        self.journal.give(structure[2][0][2][0], made, (2, position, "value"))
        return made

    def _leaf(self, inquiry: Inquiry, holder: int, position: int, value: Any, source: str) -> Any:
        if isinstance(value, Tensor) and id(value) in self._given:
            inquiry.again[position] = self._given[id(value)]
            return value
        tracer, name = self.tracer, f"leaf{position}"
        leaf, kind = tracer.new_leaf(), type(value)
        tracer.load(leaf, Op.LOAD_ATTRIBUTE, holder, tracer.object(name))
        tracer.begun[leaf] = value
        if is_guarded(value):
            if not is_constant(value):
                raise TraceBreak(f"it gets a {kind.__name__}, which calls cannot compare", source)
            by_value = isinstance(value, _COMPARED) and not isinstance(value, enum.Enum)
            tracer.guard_object(leaf, Op.EQUAL if by_value else Op.IS, value)
            return value
        tracer.slots[leaf] = Slot(inquiry.place, name, "attribute")
        if isinstance(value, Tensor):
            self.tensors.append((leaf, value))
            self._given[id(value)], self._given_at = (inquiry, position), source
            tracer.tensor_leaf(value, leaf, symbolic=True)
            return value
        return tracer.float_leaf(value, leaf) if kind is float else tracer.int_leaf(value, leaf)

    def finished(self) -> None:
        """Refuse a function that changes what items are taken of, or asks which tensors among them are the same."""
        changed = [source for (holder, _), source in self.journal.written.items() if holder in self._sources]
        if self._sources:
            changed += [o.source for o in self.journal.operations if type(o.target) is Path and o.target[0] != 2]
        if changed:
            raise TraceBreak("it changes what an iterator takes its items of, or may do so", changed[0])
        if self.tensors and self._compares():
            raise TraceBreak("it asks which of the tensors that an iterator gives are the same", self._given_at)


def is_guarded(value: Any) -> bool:
    """Whether an answer has to be the same in every call."""
    return not (isinstance(value, Tensor) or type(value) is float or (
        type(value) is int and -(2**63) <= value < 2**63
    ))  # fmt: skip


def _kept(value: Any) -> Any:
    """What is kept of an argument for calls to find theirs."""
    if is_range(value):
        return Range(tuple(map(_kept, value.parts())))
    return Number(value.kind if type(value) is TracedNumber else None) if type(value) in _TRACED else value


def _with_plain_shapes(value: Any) -> Any:
    """Arguments with tuples in the place of sizes of tensors."""
    if isinstance(value, dict):
        return {key: _with_plain_shapes(v) for key, v in value.items()}
    if type(value) in (tuple, list, Shape):
        return (list if type(value) is list else tuple)(map(_with_plain_shapes, value))
    return value


def _title(owner: Any, name: str) -> str:
    return f"{getattr(owner, '__name__', type(owner).__name__)}{'' if name == '__call__' else '.' + name}"


class Given(Heard):
    """The answers of a call that is recorded again, whatever is asked."""

    is_over = True

    def answer(self, position: int, owner: Any, name: str, arguments: Any) -> Answer:
        """The answer at this position."""
        return self[position]


def answers_of(inquiries: Sequence[Inquiry], arguments: Any, kept: dict[Any, Any]) -> Given:
    """What a call was answered whose arguments and slots are known."""
    out = Given(kept)
    for inquiry in inquiries:
        if inquiry.structure is None:
            out.append(Answer(inquiry.owner, inquiry.name, None, None, StopIteration()))
            continue
        places = [Slot(inquiry.place, f"leaf{i}", "attribute") for i in range(len(inquiry.key))]
        leaves = [arguments.slots.get(place, x) for place, x in zip(places, inquiry.key, strict=True)]
        (value,), _ = plain_call(inquiry.structure, leaves)
        out.append(Answer(inquiry.owner, inquiry.name, None, value))
    return out
