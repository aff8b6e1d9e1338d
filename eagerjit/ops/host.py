"""Operations that NumPy computes: sorting, scans, and what else no kernel of ours does. Compiled calls call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.autograd.node import record
from eagerjit.calling import ValuesIndices
from eagerjit.compiler.ops.host import NONE, NUMBER, TENSOR, host
from eagerjit.dispatch import Op, emit
from eagerjit.numbers import SymbolicInt, TracedFloat, expression
from eagerjit.ops import views
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.state import state
from eagerjit.tensor import Tensor, new_tensor


class HostOp(Op):
    """An op whose results NumPy computes from arrays.

    function        (*arguments with contiguous ndarrays for tensors) -> an ndarray, or a tuple of them
    types           (*arguments) -> (dtype, shape) of the result, or a list of them for a tuple: what a trace, which
                    has no arrays, records

    Under vmap its first parameter is the one tensor, its second the dimension along which it works; or, with
    `leading`, its tensors broadcast along leading dimensions, of which the examples' is one more.
    """

    leading = False

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        rules: Any = None,
        doc: str = "",
        differentiable: bool = True,
        *,
        types: Callable[..., Any],
    ):
        super().__init__(name, function, rules, differentiable=differentiable, fused_rules=False)
        self.call.__doc__ = doc or function.__doc__
        self.function, self.types = function, types
        self.leading = self.leading or types is broadcast
        self.body = self._call
        FUNCTIONS[name] = function

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """NumPy's result as tensors."""
        with np.errstate(all="ignore"):
            result = self.function(*map(_plain, arguments))
        return tuple(map(_tensor, result)) if isinstance(result, tuple) else _tensor(result)

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Compute or record; under vmap, compute for all examples outside of it."""
        tracer = state.tracer
        if tracer is None or not tracer.single_example:
            return super().run(arguments)
        result = tracer.outside_of(self, arguments)
        if self.differentiable and mode.grad_mode():
            record(self, arguments, result)
        return result

    def _call(self, *arguments: Any) -> Any:
        """Record the call."""
        inputs: list[Tensor] = []
        template = tuple([_recorded(a, inputs) for a in arguments])
        found = self.types(*arguments)
        results = [
            emit(
                host,
                *inputs,
                function=self.name,
                arguments=template,
                result=position,
                dtype=dtype,
                shape=tuple(map(expression, shape)),
            )
            for position, (dtype, shape) in enumerate(found if isinstance(found, list) else [found])
        ]
        return tuple(results) if isinstance(found, list) else results[0]


def _plain(argument: Any) -> Any:
    """An argument as the function takes it: row-major always, for NumPy's results may depend on the order in memory."""
    if isinstance(argument, Tensor):
        array = argument._data
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if type(argument) in (tuple, list):
        return tuple(map(_plain, argument))
    return argument


def _recorded(argument: Any, inputs: list[Tensor]) -> Any:
    """What the graph holds for an argument; tensors and numbers of the call become inputs."""
    if isinstance(argument, Tensor):
        inputs.append(argument)
        return TENSOR
    if isinstance(argument, TracedFloat):
        assert state.tracer is not None
        inputs.append(state.tracer.wrap(state.tracer.constant(argument, dtypes.float64)))
        return NUMBER
    if isinstance(argument, SymbolicInt):
        return argument.expression
    if type(argument) in (tuple, list):
        return tuple([_recorded(a, inputs) for a in argument])
    if argument is None:
        return NONE
    return f"={argument}" if isinstance(argument, str) else argument


def like(input: Tensor, *rest: Any) -> Any:
    """The type of a result that is as the first argument is."""
    return input.dtype, input.shape


def like_with_order(input: Tensor, *rest: Any) -> Any:
    """The types of two results: one as the first argument is, and int64 of its shape."""
    return [(input.dtype, input.shape), (dtypes.int64, input.shape)]


def broadcast(input: Tensor, other: Tensor, *rest: Any) -> Any:
    """The type of a result that two arguments of one dtype broadcast to."""
    from eagerjit.ops.subscript import broadcast_shapes

    return input.dtype, broadcast_shapes(tuple(input.shape), tuple(other.shape))


def _tensor(array: np.ndarray) -> Tensor:
    return new_tensor(np.ascontiguousarray(array).reshape(np.shape(array)))


def _descending_order(keys: np.ndarray, dim: int) -> np.ndarray:
    """Stable order from the largest to the smallest; NaN counts as the largest."""
    flipped = np.flip(keys, dim)
    order = np.flip(np.argsort(flipped, dim, kind="stable"), dim)
    return keys.shape[dim] - 1 - order


def _sort_arrays(input: np.ndarray, dim: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values and where they were."""
    if input.ndim == 0:
        return input.copy(), np.zeros((), np.int64)
    keys = input.astype(np.float32) if input.dtype == dtypes.bfloat16.numpy else input
    order = _descending_order(keys, dim) if descending else np.argsort(keys, dim, kind="stable")
    return np.take_along_axis(input, order, dim), order.astype(np.int64, copy=False)


def _unsorted(g: Any, out: Any, input: Any, dim: int, *rest: Any) -> Any:
    if input.ndim == 0:
        return g[0]
    return g[0].new_zeros(input.shape).scatter_add(dim, out[1], g[0])


_sort = HostOp("sort", _sort_arrays, (_unsorted, None, None), types=like_with_order)


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """Elements in order along a dimension, with where each was; equal ones keep theirs."""
    if input.dtype.is_complex:
        raise RuntimeError(f"sort(): {input.dtype} has no order")
    return ValuesIndices(*_sort.call(input, views.dimension(dim, input.ndim), bool(descending)))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The order that sorts a dimension."""
    return sort(input, dim, descending).indices


def _topk_arrays(input: np.ndarray, dim: int, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    values, order = _sort_arrays(input, dim, largest)
    kept = (slice(None),) * dim + (slice(0, k),)
    return (values, order) if input.ndim == 0 else (values[kept], order[kept])


def _topk_types(input: Tensor, dim: int, k: int, largest: bool) -> Any:
    shape = input.shape if input.ndim == 0 else (*input.shape[:dim], k, *input.shape[dim + 1 :])
    return [(input.dtype, shape), (dtypes.int64, shape)]


_topk = HostOp("topk", _topk_arrays, (_unsorted, None, None, None), types=_topk_types)


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements along a dimension, with where they were."""
    d = views.dimension(dim, input.ndim)
    if not 0 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    return ValuesIndices(*_topk.call(input, d, k, bool(largest)))


def _summed_dtype(input: Any, dtype: Any) -> Any:
    wanted = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.int64)
    return input.to(wanted)


def _cumsum_array(input: np.ndarray, dim: int) -> np.ndarray:
    """Sums of all elements up to each along a dimension."""
    if input.ndim == 0:
        return input.copy()
    wide = input.astype(np.float64) if input.dtype.kind in "fV" else input
    return np.cumsum(wide, dim).astype(input.dtype)


def _cumsum_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    return g.flip(dim).cumsum(dim).flip(dim) if g.ndim else g


_cumsum = HostOp("cumsum", _cumsum_array, (_cumsum_rule, None), types=like)


def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Sums of all elements up to each along a dimension."""
    return _cumsum.call(_summed_dtype(input, dtype), views.dimension(dim, input.ndim))


def _cumprod_array(input: np.ndarray, dim: int) -> np.ndarray:
    """Products of all elements up to each along a dimension."""
    if input.ndim == 0:
        return input.copy()
    wide = input.astype(np.float64) if input.dtype.kind in "fV" else input
    return np.cumprod(wide, dim).astype(input.dtype)


def _cumprod_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """Later products without this factor: quotients before the first zero, and what that zero has hidden from it on."""
    if not g.ndim:
        return g
    zero = input == 0
    count = zero.long().cumsum(dim)
    first = zero.logical_and(count == 1)
    factor = input.where(zero.logical_not(), 1.0)
    before = _cumsum_rule(g * out, None, g, dim) / factor
    rest = _cumsum_rule(g * cumprod(input.where(first.logical_not(), 1.0), dim), None, g, dim)
    # After the first zero all is 0, but as a product with that zero: it has a derivative.
    after = (rest * (input * first).sum(dim, keepdim=True) / factor).where(zero.logical_not(), 0.0)
    return before.where(count == 0, rest.where(first, after))


_cumprod = HostOp("cumprod", _cumprod_array, (_cumprod_rule, None), types=like)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Products of all elements up to each along a dimension."""
    d = views.dimension(dim, input.ndim)
    return _cumprod.call(_summed_dtype(input, dtype), d)
