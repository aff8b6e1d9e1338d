"""Recording a call of a function: its arguments become inputs, its results and effects those of a compiled Variant."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eagerjit.autograd.node import GradNode, refresh_all
from eagerjit.autograd.release import first_freed
from eagerjit.compiled.joint import Backward, compile_call
from eagerjit.compiled.variants import Variant, freed_node
from eagerjit.compiler.ir import Node
from eagerjit.compiler.matching import is_same_recording
from eagerjit.effects.clocks import Readings
from eagerjit.effects.journal import Journal, Operation
from eagerjit.effects.modes_left import modes_kept
from eagerjit.effects.unseen import open_unseen
from eagerjit.effects.world import Heard, Inquiry, Rehearsed
from eagerjit.effects.world_recording import answers_of
from eagerjit.guards.asked_classes import asked_classes
from eagerjit.guards.comparing import Hooks, Unchanged, has_state
from eagerjit.guards.definitions import note_partials
from eagerjit.guards.likeness import likeness_of
from eagerjit.guards.lookup_guards import guard_records
from eagerjit.guards.structures import Structure, structure_of
from eagerjit.guards.surroundings import add_guards, guard_modules, inspect_code, unwrap
from eagerjit.guards.unread import unread
from eagerjit.recording import given_memory, gradients_of_results, related
from eagerjit.recording import results as call_results
from eagerjit.recording.arguments import arguments_of
from eagerjit.recording.further_results import finders
from eagerjit.recording.host_steps import HostSteps
from eagerjit.recording.identities import guard_identities
from eagerjit.recording.initial_state import Beginning
from eagerjit.recording.leaves import (
    key_of,
    kinds_that_vary,
    plain_call,
    traced_call,
)
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.reached import (
    check_leaks,
    guard_known,
    keep_arrays_shared,
    keep_constant_arrays_apart,
    tie_found,
)
from eagerjit.recording.rebuilding import Flattening, leaves_along
from eagerjit.recording.rebuilt import is_rebuilt
from eagerjit.recording.recording_lock import collecting_later, recording
from eagerjit.recording.replay import told_again
from eagerjit.recording.taking import taken_natively
from eagerjit.recording.trace import Tracer
from eagerjit.recording.varying import Known, Varying, unknown
from eagerjit.runtime import frames, mode
from eagerjit.runtime.interrupts import surely
from eagerjit.runtime.queued import Queued, queued_before
from eagerjit.runtime.records import record
from eagerjit.state import in_modes
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import Renewed, TraceBreak, is_internal
from eagerjit.watching.observer import Observer
from eagerjit.watching.slots import GradientOf, Slot

_MOST_UNSTABLE = 8
_MOST_ARRAYS = 8


@record
class _Recorded:
    """What came of the call: structures of arguments and results, leaves of both, and what it did to objects."""

    structure: Any
    shape: Any
    out: list[Any]
    leaves: list[Any]
    plain: bool
    operations: list[Operation]
    clocks: Readings
    inquiries: list[Inquiry]
    apart: dict[int, Any] | None
    beginning: Beginning


class Recording:
    """Records calls of one function."""

    def __init__(self, function: Callable[..., Any], name: str, options: Any):
        self.function, self.name, self.fullgraph, self.options = function, name, options.fullgraph, options
        self.stored: set[str] = set()
        self.known = Known()
        self.replaced: set[tuple[int, Any]] = set()  # slots that calls read before they put something else there
        self.unstable = 0
        self.recorded: set[tuple[Any, ...]] = set()  # kinds of calls whose checks are asked, not taken for granted

    def record(self, structure: Any, leaves: list[Any]) -> Variant:
        """Record and compile a call on these arguments; raises TraceBreak where that cannot be done."""
        return self.trace(structure, leaves, Rehearsed())()

    def trace(
        self, structure: Any, leaves: list[Any], heard: Heard, patience: float = -1.0, numbers_vary: bool = False
    ) -> Callable[[], Variant]:
        """Record a call on these arguments, which has heard this. What is returned compiles it: once, in any thread.

        With `numbers_vary`, functions of Python's own are called with the numbers of every call; see `python_number`.
        Raises Busy if another thread is recording for more than `patience` seconds (-1: without end).
        """
        arrays, began, kind = set(self.known.arrays), Queued(), (structure, key_of(leaves, kinds_that_vary(structure)))
        for left in range(_MOST_ARRAYS, -1, -1):
            tracer = Tracer(self.name, needs_grad=True, begins=self.where())
            tracer.asks_classes, tracer.trusting = True, kind not in self.recorded
            varying = Varying(numbers_vary, self.known)
            session = recording(patience, tracer)
            try:
                with session:
                    compile = self._traced(tracer, structure, leaves, varying, heard)
                    self.known.learn(varying)
                    self.known.slots |= self.replaced
                    self.known.unseen |= tracer.journal.unseen
                    tracer.arguments = None
                    check_leaks(tracer)
                self.recorded.add(kind)
                break
            except BaseException as ended:
                session.leave()  # an interrupt may have come before it was left
                if not isinstance(ended, Renewed) and tracer.journal is not None:
                    tracer.journal.beginning.empty_again()
                if not isinstance(ended, TraceBreak):
                    raise
                if ended.__cause__ is not None and queued_before(ended.__cause__, began):
                    raise ended.__cause__ from None
                if isinstance(ended, Renewed) and left:
                    continue
                written = {id(array) for array in getattr(tracer.journal, "arrays_written", ())}
                if (written <= self.known.arrays and varying.left <= self.known.left) or not left:
                    self.known.arrays = arrays if numbers_vary else self.known.arrays
                    raise
                self.known.arrays |= written  # recorded again, they are inputs
                self.known.left |= varying.left

        def variant() -> Variant:
            later = collecting_later()
            try:
                with later, tracer:
                    return compile()
            except BaseException:
                later.leave()  # an interrupt may have come before it was left
                raise

        return variant

    def where(self) -> str:
        """The line where the function begins."""
        code, _ = unwrap(self.function)
        while code is not None and is_internal(code.__code__) and hasattr(code, "__wrapped__"):
            code, _ = unwrap(code.__wrapped__)  # as `no_grad()` does
        return self.name if code is None else f"{code.__code__.co_filename}:{code.__code__.co_firstlineno}"

    def _traced(
        self, tracer: Tracer, structure: Any, leaves: list[Any], varying: Varying, heard: Heard
    ) -> Callable[[], Variant]:
        """Record; no traced tensor outlives this frame unless the function kept it."""
        grad_mode, stored = mode.gradients(), frozenset(self.stored)
        with tracer:
            tracer.arguments, tracer.fullgraph = leaves, self.fullgraph
            inputs = arguments_of(tracer, structure, leaves, self.where())
            observer, flattening, shape = self._run(tracer, structure, inputs, self.stored, varying, heard, grad_mode)
            if tracer.broken is not None:
                raise tracer.broken
            journal, out = observer.journal, flattening.leaves
            function, owner = unwrap(self.function)
            surroundings = inspect_code(function, observer, owners := [x for x in (owner, *leaves) if x is not None])
            guards = add_guards(tracer, surroundings, journal, out)
            guard_records(tracer, journal, structure)
            journal.beginning.refuse_filled()
            lists = [x for x in leaves if type(x) is list]
            guards += [Unchanged(x, journal.changing()) for x in lists if not journal.windows.histories.is_open(x)]
            owners += surroundings.owners
            owners += [tracer.objects[b.object] for b in tracer.bindings if hasattr(b, "object")]
            known = [*enumerate(inputs), *journal.world.tensors, *journal.opened.tensors]
            guard_known(tracer, known, owners, values := surroundings.values(journal.changing()))
            guard_identities(tracer, tracer.host.n_arguments)
            owners += [*journal.owners, *journal.objects_read.values()]
            owners = [*tracer.owners, *(o for o in owners if not (has_state(o) and journal.is_made(o)))]
            if reached := [t for t, _ in tracer.outside() if t._requires_grad]:
                owners.append(Hooks(reached))
            structure_now = structure_of(owners, journal.changing() | unread(owners, journal, varying))
            tie_found(tracer, [*values, *(g.value for g in guards if isinstance(g, Unchanged))], structure_now)
            guard_modules(tracer, journal, owners)
            alike = likeness_of(structure_now.owners, structure_now.changing, tracer.objects, observer.ran)
            keep_constant_arrays_apart(tracer)
            journal.world.guard_beginning()
            self._check_stability(journal, guards, varying)
            self.replaced |= journal.written.keys() & journal.read_first
            apart = journal.keep_apart(observer.globals.values())
            call_ = _Recorded(structure, shape, out, leaves, flattening.plain, journal.operations, journal.clocks,
                              journal.world.inquiries, apart, journal.beginning)  # fmt: skip
            journal.operations, steps = [], HostSteps(tracer.host.steps, tracer.host.errors)
            done = journal.world.inquiries, journal.beginning, steps, journal.memoized.given
            again = functools.partial(self._recorded_again, structure, stored, varying.settled(), done)
            varying.is_outside = unknown
            vars(observer).clear()  # CPython keeps the frame of an abandoned generator, and what watched it
            return self._variant(tracer, call_, grad_mode, guards, structure_now, alike, again)

    def _run(
        self, tracer: Tracer, structure: Any, inputs: list[Any], stored: set[str], varying: Varying, *world: Any
    ) -> tuple[Observer, Flattening, Any]:
        """Run the function and undo what it does to objects: its observer, its results and their structure."""
        if not frames.readable():
            python = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
            raise TraceBreak(f"{python} does not show what instructions read and change", self.where())
        call, tracer.numbers_vary = traced_call(structure, inputs), varying.functions
        observer = Observer(tracer, stored, varying)
        journal = tracer.journal = observer.journal
        journal.checks += tracer.checks
        note_partials(journal, self.function)
        journal.give(structure, call)
        journal.world.open(*world)
        open_unseen(journal, varying)
        try:
            with modes_kept(journal, self.where()), observer:
                result = self._call(*call)
            if tracer.broken is not None:
                raise tracer.broken
            given_memory.note_writes(tracer)
            journal.finished()
            journal.snapshots.renew_all()
            tracer.host.check()
            related.check(tracer, self.where())
            journal.clocks.check(tracer)
            flattening = Flattening(journal, self.where())
            shape = flattening.flatten((result, tuple([o.arguments for o in journal.operations])))
            refresh_all(flattening.leaves)
            given_memory.check(tracer, flattening.leaves)
            keep_arrays_shared(tracer, flattening.leaves)
        finally:
            observer.waiting.keep()
            surely(journal.undo)
        observer.waiting.check()
        return observer, flattening, shape

    def _check_stability(self, journal: Journal, guards: list[Callable[[], bool]], varying: Varying) -> None:
        """Refuse a function that in call after call changes what it depends on: each call would need a version."""
        assert self.known.seen is not None
        self.replaced |= journal.windows.found(self.known.seen, guards)
        changed = [source for slot, source in journal.written.items() if journal.is_observed(slot, guards)]
        changed += journal.windows.histories.settled()
        self.unstable += bool(changed)
        if changed and self.unstable > _MOST_UNSTABLE:
            raise TraceBreak("it depends on what it changes itself in every call", changed[0])
        for position, asked in enumerate(journal.tracer.questions):
            number = asked.size is None and asked.node.type.dtype.is_floating_point
            if number and not varying.keeps((asked.node.source, position), asked.bits):
                raise TraceBreak("it acts on another number in every call", str(asked.node.source))

    def _call(self, args: Any, kwargs: Any) -> Any:
        try:
            return self.function(*args, **kwargs)
        except Exception as error:
            raise TraceBreak(f"{type(error).__name__}: {error}", self.where()) from error

    def _variant(
        self,
        tracer: Tracer,
        call: _Recorded,
        grad_mode: int,
        guards: list[Callable[[], bool]],
        structure_now: Structure,
        alike: Any,
        again: Any,
    ) -> Callable[[], Variant]:
        """What compiles the recording to a Variant."""
        structure, out, inquiries, beginning = call.structure, call.out, call.inquiries, call.beginning
        unique, given = list({id(x): x for x in out}.values()), call.shape[2][0]
        order = [next(i for i, u in enumerate(unique) if u is x) for x in out]
        numbers = [i for i, x in enumerate(unique) if isinstance(x, (SymbolicInt, TracedFloat))]
        results, new_grads, own, notes = self._results(tracer, unique)
        kept, forward = gradients_of_results.retained(results), len(tracer.nodes)
        related, flags = call_results.relations(tracer, results), gradients_of_results.changed_flags(tracer)

        further = finders(tracer, results, len(unique))
        call.beginning.gradients = list(tracer.gradients_found.values())

        def rerun(arguments: Sequence[Any]) -> dict[int, Any]:
            call_args, call_kwargs = plain_call(structure, arguments)
            heard = answers_of(inquiries, arguments, {})
            with in_modes(beginning.modes), beginning.again(arguments):
                result = told_again(self.function, call_args, call_kwargs, heard)
                outputs = dict(enumerate({id(x): x for x in leaves_along(given, result)}.values()))
                outputs.update({i: find(outputs, arguments) for i, find in further.items()})
            return outputs

        conditions = {
            "grad_mode": grad_mode,
            "epoch": True,
            "gradients": new_grads,
            "fastmath": self.options.fastmath,
            "cuda_graphs": self.options.cuda_graphs,
            "distinct": taken_natively(structure) is not None,
        }
        compile = compile_call(tracer, tracer.host.n_arguments, results, forward, again, rerun, **conditions)
        freed = list(_freed(results))
        n_results, n_user, key = len(results), len(unique), key_of(call.leaves, kinds_that_vary(structure))
        commit, apart = [(o.apply, o.target) for o in call.operations], call.apart
        shape, whole = call.shape if commit else call.shape[2][0], bool(commit) or not call.plain
        slots, host = [s for s in tracer.slots.values() if type(s) is Slot], tracer.host.work()
        gradients = [s for s in tracer.slots.values() if type(s) is GradientOf]
        guards, clocks, catches = guards + tracer.guards, call.clocks, tracer.journal.catches
        kept_calls, asked = tracer.journal.memoized.calls, asked_classes(tracer)
        before: list[Any] = [*([gradients_of_results.RequireGradients(flags)] if flags else []), *related]
        before += call_results.classes(results)
        after: list[Any] = [gradients_of_results.KeepGradients(own, kept)] if own or kept else []
        after += gradients_of_results.required(results, tracer.begins)

        def compiled() -> Variant:
            executable, report, backward = compile()
            extra = n_results > n_user or backward is not None
            made = whole or is_rebuilt(shape, order, extra)
            read = gradients if backward is not None or before or after else []
            if backward is not None and commit:
                backward.changes = "Python objects"
            return Variant(
                executable, structure, shape, n_user, report, guards, structure_now, backward, freed, before, after,
                order if made else None, key, numbers, notes, commit, slots, clocks=clocks, calls=kept_calls,
                inquiries=inquiries, attributes=tracer.attributes, catches=catches, host=host, apart=apart, asked=asked,
                gradients=read, has_trusted=tracer.has_trusted, likeness=alike,
            )  # fmt: skip

        return compiled

    def _results(self, tracer: Tracer, unique: list[Any]) -> tuple[list[Any], Any, Any, Any]:
        """All that the call gives: what the function returned, then new gradients, and tensors that others need.

        With them what becomes of these: (leaf, result) for gradients of outside tensors, (result, result) for those of
        results, and (function, results) to be called.
        """
        results = [call_results.returned(tracer, related.original(tracer, x), self.where()) for x in unique]
        call_results.refuse_inner(tracer, results, self.where())
        new_grads = gradients_of_results.new_gradients(tracer, results)
        results += call_results.hidden_bases(tracer, results)
        own = gradients_of_results.own_gradients(results)
        notes = []
        for action, tensors in tracer.notes:
            notes.append((action, list(range(len(results), len(results) + len(tensors)))))
            results += tensors
        tracer.notes.clear()
        return results, new_grads, own, notes

    @contextmanager
    def _recorded_again(
        self,
        structure: Any,
        stored: frozenset[str],
        varying: Varying,
        done: Any,
        backward: Backward,
        arguments: Sequence[Any],
    ) -> Iterator[tuple[Tracer, list[Any]]]:
        """A second recording of a call that was compiled, within which its gradients can be recorded in other ways.

        `stored` are the names that code was known to assign when the first one began: it met the others on its way.
        """
        tracer = Tracer(self.name, needs_grad=True)
        tracer.asks_classes = True
        before = mode.set_grad_mode(True)
        try:
            with recording(-1.0, tracer), tracer, in_modes(done[1].modes):
                tracer.arguments, tracer.given, tracer.found = arguments, list(backward.answers), backward.where
                asked, beginning, work, kept = done
                inputs = arguments_of(tracer, structure, arguments, self.where(), work)
                world = answers_of(asked, arguments, kept), True, asked
                with beginning.again(arguments):
                    out = self._run(tracer, structure, inputs, set(stored), varying, *world)[1].leaves
                results, *_ = self._results(tracer, list({id(x): x for x in out}.values()))
                gradients_of_results.retained(results)
                if not is_same_recording(tracer.nodes, backward.forward):
                    raise RuntimeError(f"{self.name}: what the function reads has changed since it was called")
                yield tracer, results
        except TraceBreak as problem:
            raise RuntimeError(f"{self.name}: its gradient cannot be compiled: {problem}") from problem
        finally:
            mode.set_grad_mode(before)


def _freed(results: Sequence[Any]) -> Iterator[tuple[int, GradNode]]:
    """Which results have a history whose values a walk backwards has freed, with nodes that say so."""
    for position, result in enumerate(results):
        if not isinstance(result, Tensor) or type(result._data) is not Node or result._node is None:
            continue
        met = first_freed(result._node)
        if met is not None:
            yield position, freed_node(met.op.name, met.source)
