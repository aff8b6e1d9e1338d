"""`jit`: records a function's first call on arguments of a kind, compiles it, and from then on runs the compiled call.

A call passes through native code alone while its guards hold. Where they don't, Python looks for another compiled
version, and records a new one if there is none. What a recording cannot represent runs eagerly, after one warning that
names the line; with `fullgraph=True` it is an error.

The module can be called: `eagerjit.jit` is the decorator and at the same time has the names of `torch.jit`.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from eagerjit import explain as reports
from eagerjit import pytree
from eagerjit.explain import Explanation, explain
from eagerjit.fallback import JitWarning, may_have_effects, observe
from eagerjit.observation import TraceBreak
from eagerjit.recompiles import Recompile, recompile
from eagerjit.recording import Recording, key_of
from eagerjit.runtime import log, mode
from eagerjit.runtime.entry import Function
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.source import warn
from eagerjit.script import export, ignore, is_scripting, is_tracing, script, trace, unused
from eagerjit.state import state
from eagerjit.variants import Variant

if TYPE_CHECKING:
    from eagerjit.verification import Verification

__all__ = [
    "CacheInfo", "JitFunction", "JitWarning", "Recompile", "export", "ignore", "is_scripting", "is_tracing", "jit",
    "script", "trace", "unused",
]  # fmt: skip


@dataclass(slots=True)
class CacheInfo:
    """What a jitted function has done: versions compiled, calls that Python saw them serve, and why it recompiled."""

    compiles: int = 0
    hits: int = 0
    recompiles: int = 0
    eager_calls: int = 0
    reasons: list[Recompile] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Options:
    """How a function is compiled; see `jit`."""

    fullgraph: bool = False
    on_recompile: str = "ignore"
    fastmath: bool = False

    def __post_init__(self) -> None:
        if self.on_recompile not in ("ignore", "warn", "error"):
            raise ValueError(f"on_recompile is 'ignore', 'warn' or 'error', not {self.on_recompile!r}")


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
        self._recording = Recording(function, self.__name__, self.options.fullgraph, self.options.fastmath)
        self._eager = False
        self._checked = False

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
        super().clear()
        self.variants.clear()
        self.info = CacheInfo()
        self._eager = self._checked = False

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What is compiled for a call with these arguments, as an object that prints as a report.

        The call itself is not made. Raises RuntimeError where the function cannot be compiled.
        """
        leaves: list[Any] = []
        structure = pytree.flatten((args, kwargs), leaves)
        variant = self._matching(structure, leaves) or self._record(structure, leaves)
        return explain(self, variant)

    def verify(self, *args: Any, **kwargs: Any) -> Verification:
        """Compare a call's compiled kernels with its operations run one by one, and those with NumPy; gradients too.

        Nothing that the function writes is written. Raises RuntimeError where the function cannot be compiled.
        """
        from eagerjit.verification import verify

        leaves: list[Any] = []
        structure = pytree.flatten((args, kwargs), leaves)
        try:
            variant = self._recording.record(structure, leaves)
        except TraceBreak as problem:
            raise RuntimeError(f"{self.__qualname__} cannot be compiled: {problem}") from problem
        if len(variant.executable.epochs):
            variant.executable.epochs[0] = variant.state.epoch
        return verify(self.__qualname__, variant, leaves)

    # -- the call that native code did not serve ----------------------------------------------------------------------

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        function = self.__wrapped__
        if state.tracer is not None or self._eager:
            self.info.eager_calls += self._eager
            return function(*args, **kwargs)
        if not self._checked:
            self._checked = True
            if may_have_effects(function, args, kwargs):
                result, effect = observe(function, args, kwargs)
                if effect is not None:
                    self._give_up(f"it {effect.what}, which compiled code would not do", effect.source)
                return result
        leaves: list[Any] = []
        structure = pytree.flatten((args, kwargs), leaves)
        for variant in self.variants:
            if variant.structure == structure and self._applies(variant):
                flat = variant.executable.run(tuple(leaves))
                if flat is not MISS:
                    self.info.hits += 1
                    return self._result(variant, flat, leaves)
        try:
            variant = self._record(structure, leaves)
        except TraceBreak as problem:
            if problem.__cause__ is None:
                return self._fall_back(problem.reason, problem.source, args, kwargs)
            result = function(*args, **kwargs)  # most likely raises the same error: then it is the function's own
            self._give_up(problem.reason, problem.source)
            return result
        flat = variant.executable.run(tuple(leaves))
        if flat is MISS:
            reason = "arguments share memory that the function writes"
            return self._fall_back(reason, self._recording.where(), args, kwargs)
        return self._result(variant, flat, leaves)

    def _result(self, variant: Variant, flat: Any, leaves: Sequence[Any]) -> Any:
        if variant.plain:
            return flat
        return variant.finish(flat if type(flat) is tuple else (flat,), tuple(leaves))

    def _matching(self, structure: Any, leaves: list[Any]) -> Variant | None:
        """A variant recorded for arguments like these; found by recording again only if there is none."""
        for variant in self.variants:
            if variant.structure == structure and self._applies(variant) and variant.key == key_of(leaves):
                return variant
        return None

    def _applies(self, variant: Variant) -> bool:
        """Check what native guards cannot, and let the native ones know of a new epoch."""
        if not all(guard() for guard in variant.guards):
            return False
        epochs = variant.executable.epochs
        if len(epochs) and epochs[0] != mode.epoch():
            if not variant.state.holds():
                return False
            epochs[0] = mode.epoch()
        return True

    # -- compiling ----------------------------------------------------------------------------------------------------

    def _record(self, structure: Any, leaves: list[Any]) -> Variant:
        started = time.perf_counter()
        variant = self._recording.record(structure, leaves)
        if len(variant.executable.epochs):
            variant.executable.epochs[0] = variant.state.epoch
        variant.report.seconds["total"] = time.perf_counter() - started
        if self.variants:
            self._note_recompile(recompile(self.__wrapped__, self.variants, variant))
        self._publish_variant(variant)
        return variant

    def _publish_variant(self, variant: Variant) -> None:
        self.info.compiles += 1
        self.variants.append(variant)
        if reports.directory is not None:
            reports.leave_report(self, variant)
        positional = variant.structure[2][0]
        flat = positional[0] is tuple and pytree.is_flat(positional) and not variant.structure[2][1][1]
        if flat and not variant.guards:
            if variant.plain:
                self.insert(variant.executable)
            else:
                self.insert(variant.executable, variant.finish, with_arguments=True)

    def _note_recompile(self, reason: Recompile) -> None:
        """Count a recompile; warn or raise if that is what the user asked for."""
        times = 1 + sum(r.what == reason.what for r in self.info.reasons)
        message = f"{self.__qualname__} is compiled again: {reason}"
        if times > 1:
            message += f" (change number {times} of {reason.what})"
        if self.options.on_recompile == "error":
            raise RuntimeError(message)
        self.info.recompiles += 1
        self.info.reasons.append(reason)
        if log.RECOMPILE:
            log.write("recompile", f"{self.__name__}: {reason}")
        if self.options.on_recompile == "warn":
            warn(message, JitWarning)

    # -- eager calls --------------------------------------------------------------------------------------------------

    def _fall_back(self, reason: str, source: str, args: Any, kwargs: Any) -> Any:
        self._give_up(reason, source)
        return self.__wrapped__(*args, **kwargs)

    def _give_up(self, reason: str, source: str) -> None:
        message = f"{self.__qualname__} cannot be compiled: {source}: {reason.rstrip('.')}"
        if self.options.fullgraph:
            raise RuntimeError(message)
        self._eager = True
        self.info.eager_calls += 1
        warn(f"{message}. It runs eagerly.", JitWarning)


def jit(
    function: Any = None, *, fullgraph: bool = False, on_recompile: str = "ignore", fastmath: bool = False
) -> Any:
    """Compile a function, method or other callable: results are those of the plain call, bit for bit.

    A Module comes back as a Module with the same parameters, attributes and names, whose calls are compiled.

    fullgraph       what would make a call run eagerly is a RuntimeError that names the line
    on_recompile    "warn" or "error" when another version has to be compiled, saying what changed
    fastmath        lets products be fused with sums (one rounding for two): faster, and no longer bit for bit
    """
    options = Options(fullgraph, on_recompile, fastmath)
    if function is None:
        return functools.partial(jit, fullgraph=fullgraph, on_recompile=on_recompile, fastmath=fastmath)
    return jit_with(function, options)


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


def compile(model: Any = None, *, fullgraph: bool = False, **ignored: Any) -> Any:
    """`jit` under PyTorch's name; arguments of other compilers (dynamic, backend, mode, options) change nothing."""
    unknown = ignored.keys() - {"dynamic", "backend", "mode", "options", "disable"}
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument '{min(unknown)}'")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, **ignored)
    return model if ignored.get("disable") else jit(model, fullgraph=fullgraph)


class _Callable(ModuleType):
    """This module's class: calling the module is calling `jit`."""

    __call__ = staticmethod(jit)


sys.modules[__name__].__class__ = _Callable
