"""`jit`: records a function's first call on arguments of a kind, compiles it, and from then on runs the compiled call.

A call passes through native code alone while its guards hold. Where they don't, Python looks for another compiled version,
and records a new one if there is none. What a recording cannot represent runs eagerly, after one warning that names the
line; with `fullgraph=True` it is an error.
"""

from __future__ import annotations

import enum
import functools
import operator
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from eagerjit import explain as reports
from eagerjit import pytree
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import elementwise
from eagerjit.explain import Explanation, explain
from eagerjit.guards import Effect, Observer, Structure, add_guards, has_state, inspect_code, structure_of, unwrap
from eagerjit.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes, log, mode
from eagerjit.runtime.entry import Function
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.program import Op
from eagerjit.runtime.source import warn
from eagerjit.state import state
from eagerjit.tensor import Tensor
from eagerjit.trace import TraceBreak, Tracer
from eagerjit.variants import Variant, compile_call

_VALUES = (str, bytes, np.dtype)


class JitWarning(UserWarning):
    """A jitted function runs eagerly; the message says which line and why."""


@dataclass(slots=True)
class CacheInfo:
    """What a jitted function has done: versions compiled, calls served by them in Python's sight, and why it recompiled."""

    compiles: int = 0
    hits: int = 0
    recompiles: int = 0
    eager_calls: int = 0
    reasons: list[str] = field(default_factory=list)


class JitFunction(Function):
    """A compiled function. Call it as the function it was made from."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False):
        super().__init__(self._slow)
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = getattr(function, "__doc__", None)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", None)
        self.fullgraph = fullgraph
        self.variants: list[Variant] = []
        self.info = CacheInfo()
        self._eager = False
        self._checked = False

    def __repr__(self) -> str:
        return f"<eagerjit.jit {self.__qualname__}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def cache_info(self) -> CacheInfo:
        """Counts of compiles, recompiles with their reasons, and calls that Python saw; native hits are not counted."""
        return self.info

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What is compiled for a call with these arguments, as an object that prints as a report.

        The call itself is not made. Raises RuntimeError where the function cannot be compiled.
        """
        leaves: list[Any] = []
        structure = pytree.flatten((args, kwargs), leaves)
        variant = self._matching(structure, leaves) or self._record(structure, leaves)
        return explain(self, variant)

    # -- the call that native code did not serve ----------------------------------------------------------------------

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        function = self.__wrapped__
        if state.tracer is not None or self._eager:
            self.info.eager_calls += self._eager
            return function(*args, **kwargs)
        if not self._checked and self._has_effects(args, kwargs):
            return self._observe(args, kwargs)
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
            return self._fall_back("arguments share memory that the function writes", self._where(), args, kwargs)
        return self._result(variant, flat, leaves)

    def _result(self, variant: Variant, flat: Any, leaves: Sequence[Any]) -> Any:
        if variant.plain:
            return flat
        return variant.finish(flat if type(flat) is tuple else (flat,), tuple(leaves))

    def _matching(self, structure: Any, leaves: list[Any]) -> Variant | None:
        """A variant recorded for arguments like these; found by recording again only if there is none."""
        for variant in self.variants:
            if variant.structure == structure and self._applies(variant) and variant.key == _key(leaves):
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

    # -- recording ----------------------------------------------------------------------------------------------------

    def _record(self, structure: Any, leaves: list[Any]) -> Variant:
        started = time.perf_counter()
        tracer = Tracer(self.__name__, needs_grad=True)
        collecting = gc.isenabled()
        gc.disable()  # a recording makes many objects that live until it ends
        try:
            variant = self._traced(tracer, structure, leaves)
        finally:
            if collecting:
                gc.enable()
        self._check_leaks(tracer)
        if len(variant.executable.epochs):
            variant.executable.epochs[0] = variant.state.epoch
        self._publish_variant(variant, time.perf_counter() - started)
        return variant

    def _traced(self, tracer: Tracer, structure: Any, leaves: list[Any]) -> Variant:
        """Record and compile; no traced tensor outlives this frame unless the function kept it."""
        grad_mode = mode.grad_mode()
        with tracer:
            tracer.arguments, tracer.fullgraph = leaves, self.fullgraph
            inputs = [self._argument(tracer, leaf) for leaf in leaves]
            n_arguments = tracer.n_leaves
            call_args, call_kwargs = pytree.unflatten(structure, inputs)
            with Observer() as observer:
                result = self._call(call_args, call_kwargs)
            after: list[Any] = []
            if pytree.flatten((call_args, call_kwargs), after) != structure or any(map(operator.is_not, after, inputs)):
                raise TraceBreak("it changes a list or dictionary that is an argument", self._where())
            out: list[Any] = []
            shape = pytree.flatten(result, out)
            function, owner = unwrap(self.__wrapped__)
            owners = [x for x in (owner, *leaves) if x is not None]
            guards: list[Callable[[], bool]] = []
            if function is not None:
                surroundings = inspect_code(function, observer, owners)
                if surroundings.effects:
                    effect = surroundings.effects[0]
                    raise TraceBreak(f"it {effect.what}, which compiled code would not do", effect.source)
                guards = add_guards(tracer, surroundings)
                owners += surroundings.owners
            owners += [tracer.objects[b.object] for b in tracer.bindings if hasattr(b, "object")]
            owners += tracer.owners
            structure_now = structure_of(owners)
            return self._compile(tracer, n_arguments, structure, shape, out, leaves, grad_mode, guards, structure_now)

    def _call(self, args: Any, kwargs: Any) -> Any:
        try:
            return self.__wrapped__(*args, **kwargs)
        except TraceBreak:
            raise
        except Exception as error:
            raise TraceBreak(f"{type(error).__name__}: {error}", self._where()) from error

    def _compile(
        self,
        tracer: Tracer,
        n_arguments: int,
        structure: Any,
        shape: Any,
        out: list[Any],
        leaves: list[Any],
        grad_mode: bool,
        guards: list[Callable[[], bool]],
        structure_now: Structure,
    ) -> Variant:
        unique = list({id(x): x for x in out}.values())
        order = [next(i for i, u in enumerate(unique) if u is x) for x in out]
        results = [self._output(tracer, x) for x in unique]
        numbers = [i for i, x in enumerate(unique) if isinstance(x, (SymbolicInt, TracedFloat))]
        new_grads = self._new_gradients(tracer, results)

        def rerun(arguments: Sequence[Any]) -> list[Any]:
            call_args, call_kwargs = pytree.unflatten(structure, arguments)
            again: list[Any] = []
            pytree.flatten(self.__wrapped__(*call_args, **call_kwargs), again)
            return list({id(x): x for x in again}.values())

        conditions = {
            "grad_mode": grad_mode,
            "epoch": True,
            "gradients": new_grads,
        }
        executable, report, backward = compile_call(tracer, n_arguments, results, rerun, **conditions)
        freed = [
            i for i, r in enumerate(results[: len(unique)])
            if isinstance(r, Tensor) and r._node is not None and r._node.inputs is None and type(r._data) is Node
        ]  # fmt: skip
        single = shape == pytree.LEAF
        extra = len(results) > len(unique) or backward is not None
        rebuild = None
        if not single or extra:
            if single:
                rebuild = _first
            elif not (pytree.is_flat(shape) and shape[0] is tuple and order == list(range(len(unique))) and not extra):
                rebuild = functools.partial(_restore, shape, order)
        return Variant(
            executable,
            structure,
            shape,
            len(unique),
            report,
            guards,
            structure_now,
            backward,
            freed,
            _aliases(tracer, unique),
            rebuild,
            _key(leaves),
            numbers,
        )

    def _output(self, tracer: Tracer, value: Any) -> Any:
        """A result as something that a compiled call can return."""
        if isinstance(value, (SymbolicInt, TracedFloat)):
            dtype = dtypes.int64 if isinstance(value, SymbolicInt) else dtypes.float64
            node = tracer.constant(value, dtype)
            return tracer.wrap(tracer.record(elementwise.cast, (node,), dtype=dtype))
        if isinstance(value, (Iterator, Awaitable)):
            raise TraceBreak(f"it returns a {type(value).__name__}, whose code runs later", self._where())
        return value

    def _new_gradients(self, tracer: Tracer, results: list[Any]) -> list[tuple[int, int]]:
        """Gradients that the call leaves in tensors from outside, added to its results."""
        out = []
        for tensor, grad in tracer.gradients.values():
            if grad is tensor._grad:
                continue
            if grad is None:
                out.append((tracer.leaf_of[id(tensor)], -1))
                continue
            found = next((i for i, r in enumerate(results) if r is grad), None)
            if found is None:
                results.append(grad)
                found = len(results) - 1
            out.append((tracer.leaf_of[id(tensor)], found))
        return out

    def _argument(self, tracer: Tracer, value: Any) -> Any:
        """Make an argument an input or a guard of the trace."""
        leaf = tracer.new_leaf()
        kind = type(value)
        if isinstance(value, Tensor):
            if id(value) not in tracer.leaf_of:
                tracer.tensor_leaf(value, leaf, symbolic=True)
            else:
                tracer.guard_object(leaf, Op.IS, value)
            return value
        if kind is float:
            return tracer.float_leaf(value, leaf)
        if kind is int:
            return tracer.int_leaf(value, leaf)
        if isinstance(value, np.ndarray):
            raise TraceBreak("an argument is a NumPy array, which is not traced", self._where())
        by_value = isinstance(value, _VALUES) and not isinstance(value, (enum.Enum, np.dtype))
        tracer.guard_object(leaf, Op.EQUAL if by_value else Op.IS, value)
        return value

    def _check_leaks(self, tracer: Tracer) -> None:
        """Refuse a function that kept a traced tensor somewhere: the next call could not renew it."""
        leaked = tracer.leaked()
        if leaked:
            del leaked
            gc.collect()
            leaked = tracer.leaked()
        if leaked:
            source = leaked[0]._data.source if type(leaked[0]._data) is Node else self._where()
            raise TraceBreak("a tensor made in the function is kept outside of it", source)

    def _publish_variant(self, variant: Variant, seconds: float) -> None:
        self.info.compiles += 1
        if self.variants:
            self.info.recompiles += 1
            reason = reports.difference(self.variants, variant)
            self.info.reasons.append(reason)
            if log.RECOMPILE:
                log.write("recompile", f"{self.__name__}: {reason}")
        variant.report.seconds["total"] = seconds
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

    # -- eager calls --------------------------------------------------------------------------------------------------

    def _has_effects(self, args: Any, kwargs: Any) -> bool:
        """Whether the code that the function may reach could change something that a trace does not see."""
        self._checked = True
        function, _ = unwrap(self.__wrapped__)
        if function is None:
            return False
        reachable = inspect_code(function, None)
        for owner in [*reachable.owners, *args, *kwargs.values()]:
            for method in _forward_methods(owner):
                reachable.effects += inspect_code(method, None).effects
        return bool(reachable.effects)

    def _observe(self, args: Any, kwargs: Any) -> Any:
        """Run eagerly once and see which effects really happen."""
        with Observer() as observer:
            result = self.__wrapped__(*args, **kwargs)
        function, owner = unwrap(self.__wrapped__)
        assert function is not None
        found: list[Effect] = inspect_code(function, observer, [owner, *args, *kwargs.values()]).effects
        if found:
            self._give_up(f"it {found[0].what}, which compiled code would not do", found[0].source)
        return result

    def _fall_back(self, reason: str, source: str, args: Any, kwargs: Any) -> Any:
        self._give_up(reason, source)
        return self.__wrapped__(*args, **kwargs)

    def _give_up(self, reason: str, source: str) -> None:
        message = f"{self.__qualname__} cannot be compiled: {source}: {reason.rstrip('.')}"
        if self.fullgraph:
            raise RuntimeError(message)
        self._eager = True
        self.info.eager_calls += 1
        warn(f"{message}. It runs eagerly.", JitWarning)

    def _where(self) -> str:
        function, _ = unwrap(self.__wrapped__)
        if function is None:
            return self.__qualname__
        return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def _key(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """What a variant depends on at least: dtypes, ranks, sizes of 0 and 1, memory order and gradients of the tensors."""
    out: list[Any] = []
    for x in leaves:
        if isinstance(x, Tensor):
            array = x._data
            sizes = tuple(min(d, 2) for d in array.shape)
            out.append((array.dtype, sizes, array.flags.c_contiguous, x._requires_grad))
        else:
            out.append(type(x) if type(x) in (int, float) else x)
    return tuple(out)


def _first(flat: Sequence[Any]) -> Any:
    return flat[0]


def _restore(shape: Any, order: list[int], flat: Sequence[Any]) -> Any:
    return pytree.unflatten(shape, [flat[i] for i in order])


def _forward_methods(owner: Any) -> list[FunctionType]:
    """The methods that calling a Module or a callable object runs."""
    if isinstance(owner, (type, FunctionType, BuiltinFunctionType, Tensor)):
        return []
    modules = owner.modules() if has_state(owner) and hasattr(owner, "modules") else [owner]
    found = {type(m).__dict__.get("forward") or type(m).__dict__.get("__call__") for m in modules}
    return [f for f in found if isinstance(f, FunctionType)]


def _aliases(tracer: Tracer, results: list[Any]) -> list[tuple[int, Any]]:
    """Results that view an argument, or another result: they share its count of in-place writes."""
    out: list[tuple[int, Any]] = []
    for index, result in enumerate(results):
        if not isinstance(result, Tensor) or result._view is None or type(result._data) is not Node:
            continue
        base = result
        while base._view is not None and type(base._data) is Node:
            base = base._view.base
        position = next((i for i, r in enumerate(results) if r is base), None)
        if position is not None:
            out.append((index, position))
        elif id(base) in tracer.leaf_of and type(base._data) is not Node:
            leaf = tracer.leaf_of[id(base)]
            out.append((index, functools.partial(_outside_base, leaf, base)))
    return out


def _outside_base(leaf: int, base: Tensor, arguments: Sequence[Any]) -> Tensor:
    return arguments[leaf] if leaf < len(arguments) else base


def jit(function: Callable[..., Any] | None = None, *, fullgraph: bool = False) -> Any:
    """Compile a function (or Module, or any callable): results are those of the plain call, bit for bit.

    `fullgraph=True` turns whatever would make a call run eagerly into a RuntimeError that names the line.
    """
    if function is None:
        return functools.partial(jit, fullgraph=fullgraph)
    if isinstance(function, JitFunction):
        return function
    if not callable(function):
        raise TypeError(f"jit takes a function, a Module or another callable, not {type(function).__name__}")
    return JitFunction(function, fullgraph)
