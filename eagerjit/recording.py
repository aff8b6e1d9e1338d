"""Recording a call of a function: its arguments become inputs, its results and effects those of a compiled Variant."""

from __future__ import annotations

import enum
import functools
import gc
import operator
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import elementwise
from eagerjit.guards import Observer, Structure, add_guards, inspect_code, structure_of, unwrap
from eagerjit.joint import compile_call
from eagerjit.numbers import SymbolicInt, TracedFloat
from eagerjit.observation import TraceBreak
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.program import Op
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer
from eagerjit.variants import Variant

_VALUES = (str, bytes, np.dtype)


class _Hooks:
    """The hooks of outside tensors that gradients may reach: adding or removing one makes another version."""

    def __init__(self, tensors: list[Tensor]):
        self.tensors = tensors

    def _jit_state(self) -> Any:
        """Every tensor's hooks by kind, comparable."""
        return [[(k, list(hooks.values())) for k, hooks in (t._hooks or {}).items() if hooks] for t in self.tensors]


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Keep Python from looking for garbage: a recording makes many objects that live until it ends."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Recording:
    """Records calls of one function."""

    def __init__(self, function: Callable[..., Any], name: str, fullgraph: bool, fastmath: bool):
        self.function, self.name, self.fullgraph, self.fastmath = function, name, fullgraph, fastmath

    def record(self, structure: Any, leaves: list[Any]) -> Variant:
        """Record and compile a call on these arguments; raises TraceBreak where that cannot be done."""
        return self.trace(structure, leaves)()

    def trace(self, structure: Any, leaves: list[Any]) -> Callable[[], Variant]:
        """Record a call on these arguments. What is returned compiles it: once, in any thread."""
        tracer = Tracer(self.name, needs_grad=True)
        with _collecting_later():
            compile = self._traced(tracer, structure, leaves)
        tracer.arguments = None
        self._check_leaks(tracer)

        def variant() -> Variant:
            with _collecting_later(), tracer:
                return compile()

        return variant

    def where(self) -> str:
        """The line where the function begins."""
        return first_line(self.function, self.name)

    def _traced(self, tracer: Tracer, structure: Any, leaves: list[Any]) -> Callable[[], Variant]:
        """Record; no traced tensor outlives this frame unless the function kept it."""
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
                raise TraceBreak("it changes a list or dictionary that is an argument", self.where())
            out: list[Any] = []
            shape = pytree.flatten(result, out)
            function, owner = unwrap(self.function)
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
            reached = [t for t, _ in tracer.outside() if t._requires_grad]
            owners += [_Hooks(reached)] if reached else []
            structure_now = structure_of(owners)
            return self._variant(tracer, n_arguments, structure, shape, out, leaves, grad_mode, guards, structure_now)

    def _call(self, args: Any, kwargs: Any) -> Any:
        try:
            return self.function(*args, **kwargs)
        except TraceBreak:
            raise
        except Exception as error:
            raise TraceBreak(f"{type(error).__name__}: {error}", self.where()) from error

    def _variant(
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
    ) -> Callable[[], Variant]:
        """What compiles the recording to a Variant."""
        unique = list({id(x): x for x in out}.values())
        order = [next(i for i, u in enumerate(unique) if u is x) for x in out]
        results = [self._output(tracer, x) for x in unique]
        numbers = [i for i, x in enumerate(unique) if isinstance(x, (SymbolicInt, TracedFloat))]
        new_grads = self._new_gradients(tracer, results)
        notes = []
        for action, tensors in tracer.notes:
            notes.append((action, list(range(len(results), len(results) + len(tensors)))))
            results += tensors
        tracer.notes.clear()

        def rerun(arguments: Sequence[Any]) -> list[Any]:
            call_args, call_kwargs = pytree.unflatten(structure, arguments)
            again: list[Any] = []
            pytree.flatten(self.function(*call_args, **call_kwargs), again)
            return list({id(x): x for x in again}.values())

        conditions = {
            "grad_mode": grad_mode,
            "epoch": True,
            "gradients": new_grads,
            "fastmath": self.fastmath,
        }
        compile = compile_call(tracer, n_arguments, results, rerun, **conditions)
        freed = [
            i for i, r in enumerate(results[: len(unique)])
            if isinstance(r, Tensor) and r._node is not None and r._node.inputs is None and type(r._data) is Node
        ]  # fmt: skip
        n_results, n_user, aliases, key = len(results), len(unique), _aliases(tracer, unique), key_of(leaves)

        def compiled() -> Variant:
            executable, report, backward = compile()
            rebuild = _rebuilder(shape, order, n_results > n_user or backward is not None)
            return Variant(
                executable,
                structure,
                shape,
                n_user,
                report,
                guards,
                structure_now,
                backward,
                freed,
                aliases,
                rebuild,
                key,
                numbers,
                notes,
            )

        return compiled

    def _output(self, tracer: Tracer, value: Any) -> Any:
        """A result as something that a compiled call can return."""
        if isinstance(value, (SymbolicInt, TracedFloat)):
            dtype = dtypes.int64 if isinstance(value, SymbolicInt) else dtypes.float64
            node = tracer.constant(value, dtype)
            return tracer.wrap(tracer.record(elementwise.cast, (node,), dtype=dtype))
        if isinstance(value, (Iterator, Awaitable)):
            raise TraceBreak(f"it returns a {type(value).__name__}, whose code runs later", self.where())
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
            raise TraceBreak("an argument is a NumPy array, which is not traced", self.where())
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
            source = leaked[0]._data.source if type(leaked[0]._data) is Node else self.where()
            raise TraceBreak("a tensor made in the function is kept outside of it", source)


def first_line(function: Any, name: str) -> str:
    """`file:line` where a callable's code begins, or its name if it has none."""
    code, _ = unwrap(function)
    return name if code is None else f"{code.__code__.co_filename}:{code.__code__.co_firstlineno}"


def key_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """What a variant depends on at least: dtypes, ranks, sizes of 0 and 1, memory order and gradients of tensors."""
    out: list[Any] = []
    for x in leaves:
        if isinstance(x, Tensor):
            array = x._data
            sizes = tuple(min(d, 2) for d in array.shape)
            out.append((array.dtype, sizes, array.flags.c_contiguous, x._requires_grad))
        else:
            out.append(type(x) if type(x) in (int, float) else x)
    return tuple(out)


def _rebuilder(shape: Any, order: list[int], extra: bool) -> Callable[[Sequence[Any]], Any] | None:
    """What makes the function's result of its tensors; None where they are the executable's outputs as they come."""
    if shape == pytree.LEAF:
        return _first if extra else None
    in_order = len(order) != 1 and order == list(range(len(order)))
    if pytree.is_flat(shape) and shape[0] is tuple and in_order and not extra:
        return None
    return functools.partial(_restore, shape, order)


def _first(flat: Sequence[Any]) -> Any:
    return flat[0]


def _restore(shape: Any, order: list[int], flat: Sequence[Any]) -> Any:
    return pytree.unflatten(shape, [flat[i] for i in order])


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
