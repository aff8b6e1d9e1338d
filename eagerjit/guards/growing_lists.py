"""Lists that grow from call to call: compiled calls look at their lengths, sums and last items, not at all of them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from types import FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.recording import exact_sums
from eagerjit.recording.exact_sums import exact_sum
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.bytecode import uses_of
from eagerjit.watching.observation import ByIdentity, NotYet, TraceBreak, is_internal, user_line
from eagerjit.watching.slots import Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal
    from eagerjit.recording.varying import Varying

GROWS = "grows"
"""The key of what is known of a list that calls have found longer than others did."""

_ADDING = frozenset(("append", "extend", "__iadd__"))
_FOLDED = (len, sum, exact_sum, min, max)
"""Functions whose result for a list is that for its beginning, taken further by each item that follows."""

_MAKING_CONTEXT: Any = contextlib.contextmanager(lambda: iter(())).__code__  # type: ignore[attr-defined]
"""The code of a function that `contextmanager` makes of a generator, which gets the arguments."""

_LOOKED_AT = ("asked", "item", "given")
"""What calls look at, or the instructions that follow: how code may use such a list."""

MOST_ITEMS = 128


def _passes_on(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: list[Any]) -> bool:
    """Whether a function whose code is watched does nothing with a list but what each instruction tells of."""
    if isinstance(function, MethodType):
        function, args = function.__func__, (function.__self__, *args)
    if not isinstance(function, FunctionType) or is_internal(function.__code__):
        return False
    code = function.__code__
    if code is _MAKING_CONTEXT and function.__closure__ is not None:
        return _passes_on(function.__closure__[0].cell_contents, args, kwargs, value)
    if any(argument is value for argument in args[code.co_argcount :]):
        return False
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = {name for name, argument in zip(named, args, strict=False) if argument is value}
    given |= {name for name, argument in kwargs.items() if argument is value}
    uses = set().union(*[uses_of(code, name) for name in given])
    adding = {((name,), "got") for name in ("append", "extend")}
    return given <= {*named} and all(not of and use in _LOOKED_AT for of, use in uses - adding)


def _ties(guard: sizes.Guard, length: str, hints: Mapping[str, int]) -> bool:
    """Whether an equation holds for no other length: unlike that of a remainder, which comes back."""
    if length not in sizes.symbols(guard.a) | sizes.symbols(guard.b):
        return False
    others = ({**hints, length: hints[length] + more} for more in range(1, MOST_ITEMS))
    return not any(sizes.evaluate(guard.a, other) == sizes.evaluate(guard.b, other) for other in others)


class Filling(NotYet):
    """What ends the recording of a call that finds a window not full yet, once for every number of items."""

    def is_new(self, met: set[tuple[str, str]]) -> bool:
        """Whoever raises it knows for which numbers it did."""
        return True


def wait_until_full(container: Any, missing: int, seen: dict[Any, Any] | None) -> None:
    """Let calls run eagerly until a window has the few items that it lacks: each would need a version."""
    waited = id(container), ("filled", len(container))
    if 0 < missing <= MOST_ITEMS and seen is not None and waited not in seen:
        seen[waited] = True
        raise Filling(f"it waits for {missing} more items of a {type(container).__name__}", user_line())


class Measured:
    """What is asked of a list before calls begin; as a guard it asks again."""

    def __init__(self, container: list[Any]):
        self.container = container
        self.asked: list[Callable[[Any], Any]] = []

    def __call__(self) -> bool:
        return all([self.ask(function, self.container) for function in self.asked])

    def ask(self, function: Callable[[Any], Any], items: list[Any]) -> bool:
        """Keep what a function gives for these items, under its name; whether that is a number that can be an input."""
        numbers = function is len or {*map(type, items)} <= {int, float}
        if not numbers or (function in (min, max) and not items):
            return False
        number = function(items)
        setattr(self, function.__name__, number)
        return type(number) is float or -(2**63) <= number < 2**63


class History:
    """One of these lists in a recording.

    size        how many items of it were there when the call began and still are
    before      these
    is_new      whether the call has emptied it, so that all it holds was added since
    numbers     what functions gave for it at the beginning, as inputs
    taken       its items that are inputs: from the end of those that were there, or with 0 and more from their start
    """

    def __init__(self, container: list[Any]):
        self.container, self.before = container, list(container)
        self.size, self.is_new = len(container), False
        self.measured = Measured(container)
        self.numbers: dict[Any, Any] = {}
        self.taken: set[int] = set()


class Histories:
    """Those of one recording: known from earlier recordings, which found them shorter or longer."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: set[int] = set()
        self._open: dict[int, History] = {}

    def open(self, varying: Varying) -> None:
        """Begin with what is known of the recordings before."""
        self.varying = varying
        self.known = {holder for holder, key in varying.slots - varying.left if key == GROWS}

    def of(self, value: Any) -> History | None:
        """What this recording knows of a list, None for anything else."""
        if id(value) in self.journal.added_to:
            raise self._to_be_known()
        if id(value) not in self.known or type(value) is not list:
            return None
        if id(value) not in self._open:
            if not self.journal.is_outside(value):
                return None
            self.journal.save_contents(value)
            self.journal.read_first.add((id(value), GROWS))
            self._open[id(value)] = History(value)
        return self._open[id(value)]

    def knows(self, value: Any) -> bool:
        """Whether a value is such a list, or one to which the function only adds."""
        return id(value) in self.journal.added_to or self.of(value) is not None

    def _to_be_known(self) -> TraceBreak:
        """What ends a recording that reads a list of which calls were taken to add to it alone."""
        problem = self.journal.refuse("it reads a list that grows, and that each call gives", user_line(), ByIdentity)
        if isinstance(problem, ByIdentity):
            problem.kind = list
        return problem

    def covers(self, value: Any, attributes: tuple[str, ...], use: str) -> bool:
        """Whether code at the end of a chain of names asks nothing of a list but what calls look at."""
        return not attributes and use in _LOOKED_AT and id(value) in self._open

    # -- what code does with them -------------------------------------------------------------------------------------

    def changes(self, container: Any, method: str) -> bool:
        """Code is about to call a method that changes a container, or with "" to read it; whether it is such a list."""
        if id(container) in self.journal.added_to and method in _ADDING:
            return True
        history = self.of(container)
        if history is None:
            return False
        if method == "clear":
            history.size, history.is_new = 0, True
        elif method not in _ADDING:
            self._close(history)
        return True

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """What is called in place of a function of such a list; None for other calls."""
        is_method = isinstance(function, (MethodDescriptorType, WrapperDescriptorType))
        given = args[1:] if is_method else args
        for value in (*given, *kwargs.values()) if self.known or self.journal.added_to else ():
            passed_on = type(value) is list and _passes_on(function, args, kwargs, value)
            history = None if passed_on and id(value) in self.journal.added_to else self.of(value)
            if history is None or passed_on:
                continue
            if len(args) > 1 or kwargs or not any(function is known for known in _FOLDED):
                self._close(history)
            return function if history.is_new else functools.partial(self._folded, function, history)  # type: ignore
        return None

    def size(self, value: Any) -> Any:
        """The length of such a list, None for anything else."""
        history = self.of(value)
        return None if history is None or history.is_new else self._folded(len, history, value)

    def take(self, container: Any, key: Any) -> bool:
        """Code is about to read an item of a container, or the last ones; whether it is such a list."""
        history = self.of(container)
        if history is None:
            return False
        end = len(container)
        if type(key) is slice and key.stop is None and key.step is None and type(key.start) is int and key.start < 0:
            if end + key.start < 0 and not history.is_new:
                wait_until_full(container, -key.start - end, self.varying.seen)
                self._close(history)
            places = range(max(end + key.start, 0), end)
        elif type(key) is int and 0 <= (place := key if key >= 0 else end + key) < end:
            places = range(place, place + 1)
        else:
            self._close(history)
        for place in places:
            if place < history.size:
                self._take(history, place, place if type(key) is int and key >= 0 else place - history.size)
            elif type(key) is int and key >= 0 and not history.is_new:
                int(self._asked(history, len))
        return True

    def is_open(self, value: Any) -> bool:
        """Whether a value is such a list, of which calls find what the code reads."""
        return id(value) in self._open

    def settled(self) -> list[str]:
        """The lines that make the recording one for lists of a single length."""
        assumptions = self.journal.tracer.assumptions
        guards = [g for g in assumptions.guards if g.relation == "==" and g.holds]
        lengths = ((h.container, str(h.numbers[len].expression)) for h in self._open.values() if len in h.numbers)
        ties = [c for c, length in lengths if any(_ties(guard, length, assumptions.hints) for guard in guards)]
        self.varying.left |= {(id(container), GROWS) for container in ties}
        return [self.journal.written.get((id(container), None), self.journal.tracer.begins) for container in ties]

    # -- inputs -------------------------------------------------------------------------------------------------------

    def _folded(self, function: Any, history: History, container: list[Any]) -> Any:
        """What a function gives for a list: from what it gave at the beginning, and the items added since."""
        if function is exact_sum:
            return self._summed(history, container)
        first, added = self._asked(history, function), container[history.size :]
        if function is len:
            return first + len(added)
        return sum(added, first) if function is sum else function([first, *added])

    def _summed(self, history: History, container: list[Any]) -> Any:
        """`sum` of a list, where that keeps what rounding loses."""
        total = self._asked(history, exact_sums.total)
        loss = self._asked(history, exact_sums.loss) if type(total) is TracedFloat else 0.0
        running = exact_sums.RunningSum(total, loss)
        for item in container[history.size :]:
            running.add(item)
        return running.result()

    def _asked(self, history: History, function: Any) -> Any:
        """What a function gives for a list as the call finds it, an input."""
        if function in history.numbers:
            return history.numbers[function]
        measured, tracer, name = history.measured, self.journal.tracer, function.__name__
        if not measured.ask(function, history.before):
            self._close(history)
        if not measured.asked:
            self.journal.checks.append(measured)
        measured.asked.append(function)
        value, leaf = getattr(measured, name), self.journal.load(measured, name, "attribute")
        tracer.slots[leaf], tracer.begun[leaf] = Slot(measured, name, "attribute"), value
        made = tracer.float_leaf(value, leaf) if type(value) is float else tracer.int_leaf(value, leaf)
        history.numbers[function] = made
        return made

    def _take(self, history: History, position: int, place: int) -> None:
        """Make an item an input, where it lies: a number, or a tensor that has no gradient."""
        if place in history.taken:
            return
        container, tracer, journal = history.container, self.journal.tracer, self.journal
        value = container[position]
        if type(value) in (SymbolicInt, TracedFloat):
            int(self._asked(history, len))  # the last and the first one are the same in a list of this length
            return
        number = type(value) is float or (type(value) is int and -(2**63) <= value < 2**63)
        plain = type(value) is Tensor and not value._requires_grad and type(value._data) is not Node
        if not number and (not plain or id(value) in tracer.leaf_of):
            self._close(history)
        leaf = journal.load(container, place, "item")
        tracer.slots[leaf], tracer.begun[leaf] = Slot(container, place, "item"), value
        journal.beginning.slots.append((container, place, "item", value))
        history.taken.add(place)
        if not number:
            tracer.tensor_leaf(value, leaf, symbolic=True)
            journal.opened.tensors.append((leaf, value))
            return
        container[position] = tracer.float_leaf(value, leaf) if type(value) is float else tracer.int_leaf(value, leaf)

    def _close(self, history: History) -> NoReturn:
        """End the recording; in the next one the list is known by all it holds."""
        self.varying.left.add((id(history.container), GROWS))
        self.known.discard(id(history.container))
        raise self.journal.refuse("it reads a list that grows, in ways that depend on all of it", user_line())
