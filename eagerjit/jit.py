"""`jit`: records a function's first call on arguments of a kind, compiles it, and from then on runs the compiled call.

A call passes through native code alone while its guards hold. Where they don't, Python looks for another compiled
version, and records a new one if there is none. What a recording cannot represent runs eagerly, after one warning that
names the line; with `fullgraph=True` it is an error.

The module can be called: `eagerjit.jit` is the decorator and at the same time has the names of `torch.jit`.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from eagerjit import script as script_names
from eagerjit.compiled.background import Pending
from eagerjit.compiled.connecting import connection_of
from eagerjit.compiled.fallback import JitWarning
from eagerjit.compiled.options import Options
from eagerjit.compiled.rebinding import served
from eagerjit.compiled.recompiles import CacheInfo, Recompile, goes_astray, note_recompile, recompile
from eagerjit.compiled.variants import FAILED, Call, Variant
from eagerjit.effects.world import Heard, Rehearsed
from eagerjit.recording.leaves import flatten_call, kind_of, overlaps
from eagerjit.recording.opening import Opening
from eagerjit.recording.recorder import Recording
from eagerjit.recording.recording_lock import Busy
from eagerjit.recording.related import Related
from eagerjit.recording.replay import told_again
from eagerjit.recording.taking import taken_natively
from eagerjit.runtime import mode
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.function import Function
from eagerjit.runtime.source import warn
from eagerjit.script import export, ignore, is_scripting, is_tracing, script, trace, unused
from eagerjit.state import runs_plainly, state
from eagerjit.watching.observation import MadeText, NotYet, TraceBreak

if TYPE_CHECKING:
    from eagerjit.compiled.explain import Explanation
    from eagerjit.compiled.verification import Verification

__all__ = [
    "CacheInfo", "JitFunction", "JitWarning", "Recompile", "export", "ignore", "is_scripting", "is_tracing", "jit",
    "script", "trace", "unused",
]  # fmt: skip


PATIENCE = 1.0
"""Seconds that a call waits for another thread's recording; then it runs eagerly. That may wait for it."""

on_compiled: Callable[[Any, Variant], None] | None = None
"""Told of every function and its new version, if set."""


class JitFunction(Function):
    """A compiled function. Call it as the function it was made from."""

    def __init__(self, function: Callable[..., Any], options: Options | None = None):
        super().__init__(self._slow)
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = getattr(function, "__doc__", None)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", None) or ""
        self.options = options or Options()
        self.variants: list[Variant] = []
        self.info = CacheInfo()
        self._recording = Recording(function, self.__name__, self.options)
        self._eager = False
        self._lock = threading.RLock()
        self._pending = Pending()
        self._overlapping: set[Any] = set()
        self._awaited: set[tuple[str, str]] = set()
        self._related: Related | None = None
        self._opening = Opening()

    def __repr__(self) -> str:
        return f"<eagerjit.jit {self.__qualname__}>"

    def __reduce__(self) -> Any:
        """As functions are pickled: by name where the name finds it, else what it was made from."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else (JitFunction, (self.__wrapped__, self.options))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def cache_info(self) -> CacheInfo:
        """Counts of compiles, recompiles with their reasons, and calls that Python saw; native hits are not counted."""
        return self.info

    def clear(self) -> None:
        """Forget all compiled versions, counts, and that the function ran eagerly."""
        with self._lock:
            super().clear()
            self.variants, self._pending = [], Pending()  # other threads may still walk through the old ones
            self.info, self._eager, self._related, self._opening = CacheInfo(), False, None, Opening()
            self._overlapping.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for what compiles in the background, raise what it raised; False if `timeout` seconds pass before."""
        if ended := self._pending.wait(timeout):
            self._pending.raise_failure()
        return ended

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What is compiled for a call with these arguments, as an object that prints as a report.

        The call itself is not made. Raises RuntimeError where the function cannot be compiled.
        """
        from eagerjit.compiled.explain import explain

        structure, leaves = flatten_call(args, kwargs, self._opening.ways)
        self.wait()
        with self._lock:
            try:
                return explain(self, self._matching(structure, leaves) or self._record(structure, leaves, Rehearsed()))
            except TraceBreak as problem:
                raise RuntimeError(f"{self.__qualname__} cannot be compiled: {problem}") from problem

    def verify(self, *args: Any, **kwargs: Any) -> Verification:
        """Compare a call's compiled kernels with its operations run one by one, and those with NumPy; gradients too.

        Nothing that the function writes is written. Raises RuntimeError where the function cannot be compiled.
        """
        from eagerjit.compiled.verification import verified

        return verified(self.__qualname__, self._recording, *flatten_call(args, kwargs, self._opening.ways))

    # -- the call that native code did not serve ----------------------------------------------------------------------

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        if (modes := state.function_modes) and all(hasattr(one, "compiled_call") for one in modes):
            return modes[-1].compiled_call(self, args, kwargs)
        if self._eager or runs_plainly():
            self.info.eager_calls += self._eager
            return self.__wrapped__(*args, **kwargs)
        served = self._served_again(call := Call((args, kwargs, Heard())))
        return self._served_by_leaves(call) if served is MISS else served

    def _served_by_leaves(self, call: Call) -> Any:
        """The result of a call that is taken apart."""
        try:
            structure, leaves = flatten_call(call[0], call[1], self._opening.ways)
        except TraceBreak as problem:
            return self._plain_instead(problem, call)
        if self._related is not None:
            structure, leaves = self._related.call(structure, leaves)
        return self._served(structure, leaves, call)

    def _served_again(self, call: Call) -> Any:
        """The result of a call by the version that served the last one, MISS where that is not to be seen at once."""
        variant = self.variants[0] if self.variants and self._related is None else None
        leaves = variant.take(call[0], call[1]) if variant is not None and variant.take is not None else None
        if variant is None or leaves is None or not variant.applies(leaves):
            return MISS
        if (flat := variant.run(leaves, call)) is MISS:
            return MISS
        self.info.hits += 1
        return self._result(variant, flat, call)

    def _served(self, structure: Any, leaves: list[Any], call: Call) -> Any:
        """The result of a call by a version, or by the plain function, which is told what was asked for it so far."""
        function, made, problem = self.__wrapped__, None, None
        try:
            while made is None:
                known = len(self.variants)
                for variant in self.variants:
                    if variant.structure == structure and variant.applies(leaves):
                        flat = variant.run(leaves, call)
                        if flat is not MISS:
                            self.info.hits += 1
                            self._put_first(variant)
                            return self._result(variant, flat, call)
                if self._overlapping and kind_of(structure, leaves, overlaps(leaves)) in self._overlapping:
                    self.info.eager_calls += 1
                    return told_again(function, *call)
                if (bound := served(self, structure, leaves, call)) is not None:
                    return self._result(*bound, call)
                if self._opening.learn(self.variants, structure, leaves, call[:2]):
                    return self._served_by_leaves(call)
                made = self._another(structure, leaves, call.heard, known)
        except (Busy, TraceBreak) as ended:
            problem = ended.with_traceback(None)  # errors of the plain call are not to have it for their context
        if made is None:
            return self._plain_instead(problem, call)
        flat = made.run(leaves, call)
        if flat is MISS and self._is_overtaken(made):
            return told_again(function, *call)
        found = self._as_related(made, structure, leaves) if flat is MISS else None
        if found is not None:
            return self._served(found[0], found[1], call)
        if flat is MISS:
            self._warn("arguments share memory that it writes", made.written_at(), "Such calls run eagerly")
            self._overlapping.add(kind_of(structure, leaves, overlaps(leaves)))
            self._forget([made])  # it takes tensors for views of one another, which those that it would serve are not
            return told_again(function, *call)
        return self._result(made, flat, call)

    def _put_first(self, variant: Variant) -> None:
        """Let the next call begin with the version that served this one: what others compare may take long."""
        first = next(iter(self.variants), variant)  # none is left where another thread has just forgotten them
        if first is not variant and self._lock.acquire(blocking=False):
            self.variants = [v for v in self.variants if v is variant] + [v for v in self.variants if v is not variant]
            self._lock.release()

    def _plain_instead(self, problem: BaseException | None, call: Call) -> Any:
        """The plain call after this has ended a recording. Errors that it raises tell nothing of other calls."""
        ended = None if isinstance(problem, NotYet) and problem.is_new(self._awaited) else problem
        is_told = isinstance(ended, MadeText) and not self.options.fullgraph
        if isinstance(ended, TraceBreak) and ended.__cause__ is None and not is_told:
            if self._opening.close(ended):
                return self._served_by_leaves(call)
            self._give_up(ended.reason, ended.source)
        result = told_again(self.__wrapped__, *call)
        if isinstance(ended, TraceBreak) and not self._opening.close(ended):
            self._give_up(ended.reason, ended.source)
        return result

    def _is_overtaken(self, made: Variant) -> bool:
        """Whether a new version misses its own call: another thread has changed what it reads, or a check fails."""
        return made.has_trusted or not made.report.trace.writes or made.executable.epochs[0] != mode.epoch()

    def _as_related(self, made: Variant, structure: Any, leaves: list[Any]) -> tuple[Any, list[Any]] | None:
        """A call that a new version misses, with arguments that are views as such; calls are taken so from here on."""
        related = self._related = self._related or Related()
        related.learn(made)
        found = related.call(structure, leaves)
        return None if found[0] == structure else found

    def _result(self, variant: Variant, out: Any, call: Call) -> Any:
        if out is FAILED:
            return told_again(self.__wrapped__, *call)
        return out if variant.plain else variant.finish(out if type(out) is tuple else (out,), tuple(call.leaves), call)

    def _matching(self, structure: Any, leaves: list[Any]) -> Variant | None:
        """A variant recorded for arguments like these; found by recording again only if there is none."""
        kind = kind_of(structure, leaves)
        for variant in self.variants:
            if (variant.structure, variant.key) == kind and variant.applies(leaves):
                return variant
        return None

    # -- compiling ----------------------------------------------------------------------------------------------------

    def _another(self, structure: Any, leaves: list[Any], heard: Heard, known: int) -> Variant | None:
        """One more version; None where another thread has just added one, Busy where it takes time."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise Busy
        try:
            if len(self.variants) != known:
                return None
            if not self.options.fullgraph and goes_astray(self.variants, self.info.hits + self.served):
                ways = f"{known} versions were compiled, and most calls fitted none of those there were"
                raise TraceBreak(ways, self.info.reasons[-1].source or self._recording.where())
            if self.options.background:
                self._record_for_later(structure, leaves, heard)
                raise Busy
            return self._record(structure, leaves, heard)
        finally:
            self._lock.release()

    def _record(self, structure: Any, leaves: list[Any], heard: Heard) -> Variant:
        started = time.perf_counter()
        return self._compile(self._trace(structure, leaves, heard), started)

    def _trace(self, structure: Any, leaves: list[Any], heard: Heard) -> Callable[[], Variant]:
        """Record; a second call of the same kind tells that numbers vary, which not all uses of them allow."""
        kind = kind_of(structure, leaves)
        if any((v.structure, v.key) == kind for v in self.variants):
            try:
                return self._recording.trace(structure, leaves, heard, PATIENCE, True)
            except NotYet:
                raise
            except TraceBreak:
                pass
        return self._recording.trace(structure, leaves, heard, PATIENCE)

    def _record_for_later(self, structure: Any, leaves: list[Any], heard: Heard) -> None:
        """Record the call now, when all is as the call sees it, and compile in the background."""
        pending, kind = self._pending, kind_of(structure, leaves, mode.gradients())
        pending.raise_failure()
        if pending.knows(kind):
            return
        started = time.perf_counter()
        compile = self._trace(structure, leaves, heard)
        pending.submit(kind, lambda: self._compile(compile, started, pending))

    def _compile(self, compile: Callable[[], Variant], started: float, pending: Pending | None = None) -> Variant:
        """Compile and publish; not what was forgotten meanwhile."""
        variant = compile()
        variant.begin()
        variant.report.seconds["total"] = time.perf_counter() - started
        with self._lock:
            if pending is not None and pending is not self._pending:
                return variant
            if self.variants:
                reason = recompile(self.__wrapped__, self.variants, variant)
                note_recompile(self.info, reason, self, self.options)
            self.info.compiles += 1
            if on_compiled is not None:
                on_compiled(self, variant)
            self.publish(variant, self._opening.replaced(self.variants, variant))
        return variant

    def publish(self, variant: Variant, replaced: list[Variant]) -> None:
        """Let a version serve calls, in place of others."""
        with self._lock:
            self._forget(replaced)
            self.variants = [*self.variants, variant]
            self._enter(variant)

    def _forget(self, gone: list[Variant]) -> None:
        with self._lock:
            self.withdraw([v.executable for v in gone])
            self.variants = [v for v in self.variants if not any(v is one for one in gone)]

    def _enter(self, variant: Variant) -> None:
        taken = taken_natively(variant.structure)
        if taken is not None and variant.native:
            variant.entered, (finish, all_given), (arrays, plan) = True, variant.ending(), taken
            connection = connection_of(variant)
            self.insert(variant.executable, finish, all_given, arrays, variant.is_repeated, connection, plan)

    # -- eager calls --------------------------------------------------------------------------------------------------

    def _give_up(self, reason: str, source: str) -> None:
        with self._lock:  # threads that fail together warn once
            if not self._eager:
                self._warn(reason, source, "It runs eagerly")
            self._eager = True

    def _warn(self, reason: str, source: str, consequence: str) -> None:
        message = f"{self.__qualname__} cannot be compiled: {source}: {reason.rstrip('.')}"
        if self.options.fullgraph:
            raise RuntimeError(message)
        self.info.eager_calls += 1
        warn(f"{message}. {consequence}.", JitWarning)


def jit(
    function: Any = None,
    *,
    fullgraph: bool = False,
    on_recompile: str = "ignore",
    fastmath: bool = False,
    background: bool = False,
    cuda_graphs: bool = False,
) -> Any:
    """Compile a function, method or other callable (else TypeError): results are those of the plain call, bit for bit.

    A Module comes back as a Module with the same parameters, attributes and names, whose calls are compiled.

    fullgraph       what would make a call run eagerly is a RuntimeError that names the line
    on_recompile    "warn" or "error" when another version has to be compiled, saying what changed
    fastmath        lets products be fused with sums (one rounding for two): faster, and no longer bit for bit
    background      calls run eagerly while another thread compiles: the first ones wait for the recording only, and
                    `wait()` for the rest; what compiling raises, the next call raises
    cuda_graphs     on a device, work that never waits for the host is captured and launched as a whole; results stay
                    what they are, since a graph whose results somebody holds is not replayed
    """
    options = Options(fullgraph, on_recompile, fastmath, background, cuda_graphs)
    return functools.partial(jit_with, options=options) if function is None else jit_with(function, options)


def jit_with(function: Any, options: Options) -> Any:
    """`jit` with its options as one object."""
    from eagerjit.nn.module import Module

    if isinstance(function, JitFunction):
        return function
    if isinstance(function, Module):
        from eagerjit.nn.jitted import jit_module

        return jit_module(function, options)
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(jit_with(function.__func__, options))
    if not callable(function):
        raise TypeError(f"jit takes a function, a Module or another callable, not {type(function).__name__}")
    return JitFunction(function, options)


class _Callable(ModuleType):
    """This module's class: calling the module is calling `jit`; TorchScript's names are `script.py`'s."""

    __call__ = staticmethod(jit)

    def __getattr__(self, name: str) -> Any:
        return script_names.rarer(name)


sys.modules[__name__].__class__ = _Callable
