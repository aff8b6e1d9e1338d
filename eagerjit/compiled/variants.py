"""A compiled version of a jitted function: what finishes a call of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from eagerjit.autograd.node import GradNode
from eagerjit.compiled.compilation import Report
from eagerjit.compiled.ending import ending_of
from eagerjit.compiled.joint import Backward
from eagerjit.compiled.tape import CallOp
from eagerjit.compiler.signature import Load
from eagerjit.effects.clocks import Readings
from eagerjit.effects.lru_caches import KeptCall, call_kept
from eagerjit.effects.world import Heard, Inquiry, follow
from eagerjit.effects.world_calls import containers_of
from eagerjit.guards.asked_classes import AskedClasses
from eagerjit.guards.forms import are_apart, container_places, copied
from eagerjit.guards.likeness import Likeness
from eagerjit.guards.structures import Structure
from eagerjit.pytree import part_of
from eagerjit.recording.host_steps import REFUSED, HostSteps
from eagerjit.recording.leaves import key_of, kinds_that_vary
from eagerjit.recording.rebuilding import finds_arguments
from eagerjit.recording.results import Finish
from eagerjit.recording.taking import Take, taking
from eagerjit.runtime import mode
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.program import Op
from eagerjit.runtime.queued import Queued, queued_before
from eagerjit.tensors.placement import host_array, store
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.slots import Arguments, GradientOf, Path, Slot, read_all

FAILED = object()


class Call(tuple[Any, ...]):
    """(args, kwargs, answers of the world) of a call as they were given, its leaves, and what clocks say around it.

    found   what the slots that are inputs held when it began
    kept    the arguments of functions that keep their results, as far as these depend on sizes
    gradients   what tensors had for gradients when it began
    """

    readings: list[Any]
    found: dict[Slot, Any]
    kept: Mapping[KeptCall, Any] = MappingProxyType({})
    gradients: Mapping[GradientOf, Any] = MappingProxyType({})
    leaves: Sequence[Any]

    @property
    def heard(self) -> Heard:
        """What the world answered."""
        return self[2]  # type: ignore[no-any-return]


@dataclass
class Variant:
    """One compiled version of a function: how to run it, when it applies, and what came of compiling it.

    order           which output each leaf of the result is; None where the outputs are the result as they come
    before, after   what is done to the results before and after the call is put on the tape
    commit          (action, target) of every change of Python objects; their arguments are part of what is rebuilt
    slots           where the call finds tensors and numbers that it changes
    gradients       those that it finds in tensors, where its results or their gradients depend on which these are
    clocks          what it asks of clocks
    inquiries       what it asks the world
    attributes      (argument, what has to hold of its own attributes)
    catches         whether an error may end inside of it
    calls           calls of functions that keep their results
    host            what NumPy computes before the rest
    entered         whether native code tries it by itself
    apart           containers that none of the arguments may be, nor may one be in two places; None: it does not matter
    asked           the classes of tensors that are asked before operations
    likeness        Modules and optimizers that calls find, and what others are to be like that it may be bound to
    has_trusted     whether its recording took checks for granted, which it asks when it runs
    """

    executable: Any
    structure: Any
    result: Any
    n_user: int
    report: Report
    guards: list[Callable[[], bool]]
    state: Structure
    backward: Backward | None = None
    freed: list[tuple[int, GradNode]] = field(default_factory=list)
    before: list[Finish] = field(default_factory=list)
    after: list[Finish] = field(default_factory=list)
    order: Sequence[int] | None = None
    key: tuple[Any, ...] = ()
    numbers: list[int] = field(default_factory=list)
    notes: list[tuple[Callable[..., None], list[int]]] = field(default_factory=list)
    commit: list[tuple[Callable[..., None], Any]] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    clocks: Readings = field(default_factory=Readings)
    calls: list[KeptCall] = field(default_factory=list)
    inquiries: list[Inquiry] = field(default_factory=list)
    attributes: list[tuple[int, Callable[[Any], bool]]] = field(default_factory=list)
    catches: bool = False
    host: HostSteps | None = None
    apart: dict[int, Any] | None = None
    asked: AskedClasses = field(default_factory=lambda: AskedClasses({}))
    entered: bool = False
    has_trusted: bool = False
    gradients: list[GradientOf] = field(default_factory=list)
    likeness: tuple[list[Any], Likeness] | None = None

    def __post_init__(self) -> None:
        self._sized = list(dict.fromkeys(call for call in self.calls if call.places))
        self._key_of = functools.partial(key_of, varying=kinds_that_vary(self.structure))

    @functools.cached_property
    def _finds_containers(self) -> bool:
        """Whether what a call returns or changes is found in the arguments, or in what slots held when it began."""
        return finds_arguments(self.result) or any(type(target) is Path for _, target in self.commit)

    @functools.cached_property
    def _containers(self) -> list[tuple[Any, ...]]:
        return list(container_places(self.structure))

    def begin(self) -> None:
        """Let native code know that all is as it was at the recording."""
        if len(self.executable.epochs):
            self.executable.epochs[0] = self.state.epoch

    @functools.cached_property
    def take(self) -> Take | None:
        """What takes the leaves of calls like this one at once."""
        return None if self.entered else taking(self.structure)

    def applies(self, leaves: Sequence[Any]) -> bool:
        """Check what native guards cannot, and let the native ones know of a new epoch."""
        if not self.guards_hold(leaves):
            return False
        epochs, epoch = self.executable.epochs, mode.epoch()  # read first: later changes by other threads count
        if len(epochs) and epochs[0] != epoch:
            if not self.state.holds():
                return False
            epochs[0] = epoch
        return True

    def guards_hold(self, leaves: Sequence[Any]) -> bool:
        """Whether everything that Python compares is as it was."""
        for guard in self.guards:
            if not guard():
                return False
        for i, holds in self.attributes:
            if not holds(vars(leaves[i])):
                return False
        if not self.asked.hold(leaves):
            return False
        return not self._sized or (self.key == self._key_of(leaves) and all(call.holds(leaves) for call in self._sized))

    @property
    def plain(self) -> bool:
        """Whether the executable's result is the function's result."""
        return self.order is None and self.backward is None and not (
            self.freed or self.before or self.after or self.numbers or self.notes or self.calls
        )

    @property
    def native(self) -> bool:
        """Whether native code can call it: it checks all guards, and nothing is to be done besides."""
        python = self.guards or self._sized or self.attributes or self.asked.met
        around: Any = self.notes or self.clocks.clocks or self.inquiries or self.host or self.gradients
        told_apart = self.apart is not None
        return not (python or around or told_apart or self._finds_containers)

    @property
    def is_repeated(self) -> bool:
        """Whether the plain call is made where a check fails: it does what comes before the error, and may catch it.

        Where several indices may be out of range, it meets the first one; a device tells of them after the call.
        """
        errors = [e for e in self.executable.program.errors if e.exception_class is not FloatingPointError]
        several = len(errors) > 1 and getattr(self.executable, "device", None) is None
        return bool(several or self.commit or self.report.trace.writes or self.catches or self.calls)

    def given(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The arguments of the compiled call: the leaves, and what NumPy computes of them."""
        if self.host is None:
            return leaves
        return (*leaves, self.host.run(leaves) if self.key == self._key_of(leaves) else MISS)

    def run(self, leaves: Sequence[Any], call: Call) -> Any:
        """Run the executable: its outputs, MISS, or FAILED.

        A check that fails in a kernel comes after what the function prints, does to objects and writes before it: that
        the plain call has to do, which then raises the error. Tensors are as before the call by then. A lost device
        is asked nothing more, and an error of earlier work is raised at once.
        """
        if self.apart is not None:
            given: list[Any] = [functools.reduce(part_of, place, call[:2]) for place in self._containers]
            given += [leaf for leaf in leaves if type(leaf) is list]
            if not are_apart(given, self.apart.keys(), [slot for slot in self.slots if not slot.path]):
                return FAILED
        if self.inquiries:
            outcome = follow(self.inquiries, leaves, call, functools.partial(self._known, leaves, call))
            if outcome is not None:
                return FAILED if outcome else MISS
            if any(answer.ran for answer in call.heard) and not all(guard() for guard in self.guards):
                name = self.report.traced.name
                raise RuntimeError(f"{name}: a function that keeps its results has changed what the call reads")
        call.leaves = leaves = self.given(leaves)
        if leaves and (leaves[-1] is MISS or leaves[-1] is REFUSED):
            return MISS if leaves[-1] is MISS else FAILED
        if self.clocks.clocks:
            call.readings = [clock() for clock in self.clocks.clocks[: self.clocks.n_before]]
        if self._sized:
            call.kept = {kept: kept.arguments(leaves) for kept in self._sized}
        if self.gradients:
            call.gradients = {place: place.read(leaves) for place in self.gradients}
        before = [(array, host_array(array).copy()) for array in self._written(leaves)] if self.notes else None
        began = Queued()
        plain = mode.set_plain(True) if self.asked.met else None
        try:
            return self.executable.run(tuple(leaves))
        except Exception as error:
            from eagerjit.runtime.gpu.errors import AcceleratorError

            if (before is None and not self.is_repeated) or isinstance(error, AcceleratorError):
                raise
            for array, values in before or ():
                store(array, values)
            if type(error) is MemoryError or queued_before(error, began):
                raise
            return FAILED
        finally:
            if plain is not None:
                mode.set_plain(plain)

    def _known(self, leaves: Sequence[Any], call: Call) -> set[int]:
        """The tensors of a call that no answer may be, and the containers that it changes, by identity."""
        places = {id(inquiry.place) for inquiry in self.inquiries}
        known = [*leaves, *self.report.objects, *[s.read() for s in self.slots if id(s.holder) not in places]]
        tensors = [x for x in known if isinstance(x, Tensor)]
        found = {*map(id, tensors), *(id(t._grad) for t in tensors), *containers_of(call[0]), *containers_of(call[1])}
        return found | {id(target) for _, target in self.commit if type(target) is not Path}

    def _written(self, leaves: Sequence[Any]) -> list[Any]:
        """The arrays that a call writes in place, among its arguments and captured tensors."""
        trace, objects = self.report.trace, self.report.objects
        loads = {b.leaf: b for b in trace.bindings if isinstance(b, Load)}

        def tensor(leaf: int) -> Any:
            if leaf < len(leaves):
                return leaves[leaf]
            load = loads[leaf]
            if load.op == Op.LOAD_GRAD:
                return tensor(load.operands[0])._grad
            return objects[load.operands[0]] if load.op == Op.LOAD_OBJECT else None

        found = [tensor(leaf) for leaf, _ in trace.writes]
        return [t._data for t in found if isinstance(t, Tensor)]

    def written_at(self) -> str:
        """The line that writes a tensor from outside."""
        trace = self.report.trace
        named = (self.report.objects[line] for line in trace.lines if line >= 0)
        return next(named, trace.graph.name)

    def finish(self, flat: tuple[Any, ...], arguments: tuple[Any, ...], originals: Any = None) -> Any:
        """The function's result from the executable's outputs; `originals` are (args, kwargs) as they were given."""
        if self.clocks.clocks:
            originals.readings += [clock() for clock in self.clocks.clocks[self.clocks.n_before :]]
        if self.calls:
            call_kept(self.calls, *(({}, {}) if originals is None else (originals.kept, originals.heard.kept)))
        read = self.backward is not None or self.before or self.after or self._finds_containers
        if self.gradients or (self.slots and read):
            found: dict[Any, Any] = read_all(self.slots)
            arguments = Arguments(arguments)
            arguments.slots = found if self.backward is None else {s: copied(value) for s, value in found.items()}
            if originals is not None:
                originals.found = found
            if self.gradients:
                arguments.slots = {**arguments.slots, **originals.gradients}
        for inquiry in self.inquiries:
            inquiry.forget()
        for action, indices in self.notes:
            action(*[flat[i] for i in indices])
        for index, node in self.freed:
            flat[index]._node, flat[index]._requires_grad = node, True
        for effect in self.before:
            effect(flat, arguments)
        if self.backward is not None:
            CallOp(self.backward, arguments).connect(flat)
        for effect in self.after:
            effect(flat, arguments)
        return self.end(flat, originals)

    @functools.cached_property
    def end(self) -> Callable[..., Any]:
        """What makes the result of the executable's outputs and (args, kwargs), and changes Python objects."""
        return ending_of(self)

    def ending(self) -> tuple[Callable[..., Any] | None, bool]:
        """What makes of the outputs of a call that native code serves its result, as `finish` does; whether it takes
        the arguments too. None where the outputs are the result.
        """
        if self.plain:
            return None, False
        more: Any = self.freed or self.before or self.after or self.calls or self.backward is not None
        if more or not self.native:
            return self.finish, True
        return self.end, False


def freed_node(name: str, source: str) -> GradNode:
    """The node of a result whose graph was used up inside the function: of which operation, on which line."""
    node = object.__new__(GradNode)
    node.op, node.code = _Used(name), source
    node.inputs = node.output = node.versions = node.offset = None
    node.hooks = node.overwritten = node.replaced = None
    node.sequence = 0
    return node


class _Used:
    def __init__(self, name: str):
        self.name = name
