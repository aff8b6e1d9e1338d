"""What NumPy computes in traced code of arrays that are inputs: done by every call before its own work.

A recording does each of these computations once, to see what kind of result it has, and goes on with a stand-in for it.
A compiled call does them in the same order; the list of their results is its last argument, in which it finds
arrays as tensors over their memory, and numbers. They read what the call was given, and write nothing: what NumPy
writes is computed on a copy, which the compiled call then writes. So a call that cannot go on (NumPy raises, or warns,
or gives something of another kind) has done nothing yet.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.compiler.unify import symbols_in
from eagerjit.recording.arrays import NUMBERS, TracedArray, TracedNumber, computed
from eagerjit.recording.host_steps import Call, HostSteps, Number, Result, Scalar, Size, Step, Value, kind_of
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.results import origins
from eagerjit.recording.traced_ranges import TracedRange
from eagerjit.runtime import dtypes
from eagerjit.runtime.program import Op
from eagerjit.state import set_tracer, state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line
from eagerjit.watching.slots import Item

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer

_EXACT = frozenset("argument constant size_value cast add sub mul div slice_scatter".split())
"""Primitives beside views that NumPy computes bit for bit as kernels do, for the dtypes below."""

_DTYPES = frozenset((dtypes.float32, dtypes.float64, dtypes.bool_, dtypes.uint8, dtypes.int32, dtypes.int64))
_CONSTANTS = (int, float, complex, str, bytes, type(None), type(Ellipsis), type, np.generic, np.dtype, np.ufunc)


class _Unknown(Exception):
    """An argument that calls cannot find."""


class HostWork:
    """What NumPy computes in one recording. With `before`, it is another recording of a call that did this work."""

    def __init__(self, tracer: Tracer, leaves: Sequence[Any], before: HostSteps | None = None):
        self.tracer, self.before = tracer, before
        self.leaf = tracer.new_leaf()
        self.steps: list[Step] = []
        self.errors: dict[str, Any] = dict(np.geterr())
        self._call = Call(leaves)
        self._known: dict[int, tuple[Tensor, int, bool]] = {}
        self._taken_up = 0

    @property
    def n_arguments(self) -> int:
        """The arguments of the compiled call, with the list of results where there are any."""
        return self.leaf + bool(self.steps)

    def perform(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A stand-in for what NumPy computes. Raises TraceBreak where compiled calls cannot do the same."""
        name = getattr(function, "__name__", "")
        if state.tracer is not self.tracer:
            raise computed(f"NumPy computes {name} of an array that is an input")
        try:
            step = Step(function, self._taken(args), self._taken(kwargs), user_line(), _raised())
        except _Unknown as problem:
            raise computed(f"NumPy computes {name} of {problem}") from None
        if self.before is None:
            step.kind = self._tried(step, name)
        else:
            step.kind = self.before.steps[len(self.steps)].kind
            self._call.results = self._call.leaves[self.leaf]
        self.steps.append(step)
        return self._stand_in(step.kind)

    def _tried(self, step: Step, name: str) -> Any:
        """The kind of a step's result, in the call being recorded."""
        tracer, observation = set_tracer(None), pause_observation()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                kind = kind_of(step.run(self._call), self._call)
            problem: Exception | None = None
        except Exception as error:
            kind, problem = None, error
        finally:
            set_tracer(tracer)
            resume_observation(observation)
        if problem is not None:
            raise computed(f"NumPy's {name} raises {type(problem).__name__}") from problem
        if kind is None:
            raise computed(f"NumPy computes {name} of an array that is an input")
        return kind

    def work(self) -> HostSteps | None:
        """What compiled calls do, without what belongs to the recording; None where that is nothing."""
        return HostSteps(self.steps, self.errors) if self.steps else None

    def is_new(self, tensor: Tensor) -> bool:
        """Whether a tensor lies over an array that NumPy made."""
        return id(tensor) in self._known and bool(self._known[id(tensor)][2])

    def check(self) -> None:
        """Refuse a call that writes arrays, and in which NumPy gave another view of what may be one of these."""
        shared = [step for step in self.steps if _is_shared(step.kind)]
        if self.tracer.written and shared:
            raise TraceBreak("NumPy gives a view of an array, and arrays are written", shared[0].source)

    def takes(self, args: Any) -> bool:
        """Whether these arguments can be had by every call."""
        try:
            self._taken(args)
        except _Unknown:
            return False
        return state.tracer is self.tracer

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _taken(self, value: Any) -> Any:
        """How a call finds an argument. Raises _Unknown for one that it cannot find."""
        kind = type(value)
        if kind is TracedArray or (isinstance(value, Tensor) and not value._requires_grad):
            return self._array(value.tensor if kind is TracedArray else value)
        if kind is TracedNumber:
            return Scalar(self._taken(value.number), value.kind)
        if kind is TracedFloat:
            return Number(self._value(value.node))
        if kind is SymbolicInt:
            return Size(value.expression, self._origins(sizes.symbols(value.expression)))
        if kind in (list, tuple):
            return kind([self._taken(v) for v in value])
        if kind is dict:
            return {k: self._taken(v) for k, v in value.items()}
        if kind is slice:
            return slice(*self._taken((value.start, value.stop, value.step)))
        if kind is np.ndarray:
            return value.copy()
        if kind is TracedRange:
            return value.tied()
        if isinstance(value, _CONSTANTS) or value is _NO_VALUE:
            return value
        raise _Unknown("a function" if callable(value) else f"a {kind.__name__}")

    def _array(self, tensor: Tensor) -> Any:
        node = self.tracer.value(tensor)
        known = self._known.get(id(tensor))
        if known is not None and self.tracer.writes_to(tensor) == 0:
            return Result(known[1])
        return self._value(node)

    def _value(self, node: Node) -> Value:
        used = ancestors([node])
        nodes = [n for n in self.tracer.nodes if n in used]
        if not all(n.op.family == "view" or _is_exact(n) for n in nodes):
            raise _Unknown("what kernels compute")
        inputs = [n for n in self.tracer.inputs if n in used]
        if not all("leaf" in n.attributes for n in inputs):
            raise _Unknown("a gradient")
        needed = {s for n in (*nodes, *inputs) for s in symbols_in((n.type.shape, tuple(n.attributes.values())))}
        places = [self._place(n.attributes["leaf"]) for n in inputs]
        return Value(Graph("numpy", inputs, nodes, [node]), places, self._origins(needed))

    def _place(self, leaf: int) -> Any:
        if leaf < self.leaf:
            return leaf
        found = self.tracer.slots.get(leaf)
        if found is None:
            found = next((t for t, known in self.tracer.outside() if known == leaf), None)
        if found is None:
            raise _Unknown("what an optimizer holds")
        return found

    def _origins(self, names: set[str] | frozenset[str]) -> dict[str, tuple[Any, int]]:
        found = origins(self.tracer)
        if not names <= found.keys():
            raise _Unknown("what depends on values")
        return {n: found[n] for n in names}

    # -- results ------------------------------------------------------------------------------------------------------

    def _stand_in(self, kind: Any) -> Any:
        """What the recorded code gets in place of a result."""
        if type(kind) is tuple and kind[0] is not np.ndarray:
            parts = [self._stand_in(part) for part in kind[1:]]
            return kind[0](*parts) if hasattr(kind[0], "_fields") else kind[0](parts)
        tracer, index = self.tracer, self._taken_up
        self._taken_up += 1
        value, leaf = self._call.results[index], tracer.new_leaf()
        tracer.load(leaf, Op.LOAD_ITEM, self.leaf, tracer.object(index))
        tracer.slots[leaf], tracer.begun[leaf] = Item(self.leaf, index), value
        if type(kind) is tuple:
            tracer.tensor_leaf(value, leaf, symbolic=True)
            self._known[id(value)] = value, index, kind[3]
            return TracedArray(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = tracer.float_leaf(value, leaf) if isinstance(value, float) else self._int(value, leaf)
            return TracedNumber(number, kind) if kind in NUMBERS else number
        tracer.guard_object(leaf, Op.EQUAL if isinstance(value, str) else Op.IS, value)
        return value

    def _int(self, value: int, leaf: int) -> Any:
        if not -(2**63) <= value < 2**63:
            raise computed("NumPy computes an int beyond 64 bits")
        return self.tracer.int_leaf(value, leaf)


_NO_VALUE = np._NoValue  # type: ignore[attr-defined]


def _raised() -> dict[str, Any]:
    """How NumPy treats errors here, where it would warn by raising: then the plain call warns."""
    return {what: how if how == "ignore" else "raise" for what, how in np.geterr().items()}


def _is_shared(kind: Any) -> bool:
    """Whether an array is among results of a kind that is no new one."""
    if type(kind) is not tuple:
        return False
    return not kind[3] if kind[0] is np.ndarray else any(map(_is_shared, kind[1:]))


def _is_exact(node: Node) -> bool:
    """Whether NumPy computes a node bit for bit as kernels do."""
    if node.op.name not in _EXACT:
        return False
    found = [node.type.dtype, *(i.type.dtype for i in node.inputs)]
    if node.op.name == "cast" and found[1].is_floating_point and not found[0].is_floating_point:
        return False
    moved = node.op.name in ("slice_scatter", "cast") and len(set(found)) == 1
    return moved or (set(found) <= _DTYPES and not (node.op.name == "div" and not found[0].is_floating_point))
