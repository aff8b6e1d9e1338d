"""Tensors among other libraries' arrays: NumPy's functions on tensors, and the array API standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.ops.index import concrete
from eagerjit.recording.arrays import TracedArray
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors import creation
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor, new_tensor


def array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The functions of the Python array API standard. Raises ValueError for another version than theirs."""
    from eagerjit import array_api

    known = array_api.__array_api_version__
    if api_version not in (None, known):
        raise ValueError(f"tensors follow version {known} of the array API standard, not {api_version}")
    return array_api


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device: itself if it lies there. Raises ValueError for a stream."""
    if stream is not None:
        raise ValueError("work goes to the current stream; choose it with cuda.stream()")
    return self.to(device)


# -- NumPy's functions ------------------------------------------------------------------------------------------------

_NAMES = {
    "true_divide": "div", "divide": "div", "floor_divide": "floor_divide", "subtract": "sub", "multiply": "mul",
    "negative": "neg", "power": "pow", "float_power": "float_power", "absolute": "abs", "fabs": "abs",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "invert": "bitwise_not",
    "arctan2": "atan2", "rint": "round", "conjugate": "conj", "concatenate": "cat", "amax": "amax", "amin": "amin",
    "remainder": "remainder", "mod": "remainder", "clip": "clamp",
}  # fmt: skip
"""NumPy's names that differ from ours; others are looked up as they are."""

_REDUCTIONS = {"max": "amax", "min": "amin"}
_SAFE = frozenset(
    "add logaddexp logaddexp2 fmod hypot copysign maximum minimum fmax fmin exp exp2 expm1 log log2 log10 log1p sqrt "
    "square reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sign floor ceil trunc "
    "isnan isinf isfinite logical_and logical_or logical_xor logical_not deg2rad rad2deg heaviside gcd lcm matmul "
    "sum mean prod any all argmax argmin cumsum cumprod stack where einsum flip roll tile transpose reshape "
    "squeeze argsort diag trace tril triu kron atleast_1d atleast_2d atleast_3d vstack hstack dstack meshgrid "
    "broadcast_to nan_to_num".split()
)
"""Functions of NumPy that mean the same here, argument for argument."""


_METHODS = frozenset(
    "argmax argmin argsort clip transpose reshape squeeze cumsum cumprod round around repeat take swapaxes nonzero "
    "compress sum mean prod max min amax amin any all flip moveaxis std var ptp split array_split hsplit vsplit".split()
)
"""Functions that NumPy leaves to a method of its argument, or to slices of it, which give tensors."""


def _dot(a: Any, b: Any) -> Any:
    """NumPy's `dot` of vectors and matrices; a TypeError leaves others to NumPy."""
    _check_tensors(a, b)
    if not {a.ndim, b.ndim} <= {1, 2}:
        raise TypeError("NumPy's dot of other dimensions is no matrix product")
    return a @ b


def _outer(a: Any, b: Any) -> Any:
    _check_tensors(a, b)
    return a.reshape(-1).outer(b.reshape(-1))


def _matmul(a: Any, b: Any) -> Any:
    """NumPy's product, which promotes its operands."""
    _check_tensors(a, b)
    dtype = result_type(a, b)
    return a.to(dtype) @ b.to(dtype)


def _check_tensors(*operands: Any) -> None:
    if not all(isinstance(x, Tensor) for x in operands):
        raise TypeError("not all are tensors")


_OTHERWISE = {"dot": _dot, "outer": _outer, "matmul": _matmul}
"""Functions that NumPy has for more dimensions or dtypes than there are here."""


def _own(name: str) -> Any:
    import eagerjit

    if name in _OTHERWISE:
        return _OTHERWISE[name]
    known = _NAMES.get(name, name if name in _SAFE else None)
    return None if known is None else getattr(eagerjit, known, None)


_OF_TENSORS = frozenset(
    "maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 logical_and logical_or logical_xor gcd lcm heaviside "
    "nextafter".split()
)
"""Functions of two tensors, of which NumPy's take numbers too."""

_FIRST_IS_TENSOR = frozenset("fmod copysign greater greater_equal less less_equal equal not_equal".split())


def _operands(name: str, given: list[Any]) -> list[Any]:
    """The operands of a function, with tensors where it takes no numbers."""
    wanted = 2 if name in _OF_TENSORS else name in _FIRST_IS_TENSOR
    return [
        creation.full((), x, dtype=result_type(*given)) if i < wanted and not isinstance(x, Tensor) else x
        for i, x in enumerate(given)
    ]


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's elementwise functions on tensors: our own function where there is one, otherwise NumPy's on the values.

    The first is recorded for gradients; the second refuses tensors that require them.
    """
    out = kwargs.pop("out", None)
    if method == "__call__" and not kwargs and len(inputs) == ufunc.nin and not _any_array(out):
        function = _own(ufunc.__name__)
        if function is not None:
            result = function(*_operands(ufunc.__name__, [_tensor(x, inputs) for x in inputs]))
            return result if out is None else out[0].copy_(result)
    arrays = [_array(x, ufunc.__name__) for x in inputs]
    if out is not None:
        kwargs["out"] = tuple(_array(x, ufunc.__name__) for x in out)
    result = getattr(ufunc, method)(*arrays, **kwargs)
    if out is not None:
        return out[0] if len(out) == 1 else out
    return _wrapped(result)


def array_function(self: Tensor, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """NumPy's other functions on tensors, in the same way: results are arrays but where NumPy asks a tensor's method.

    Those that a gradient goes through are tensors.
    """
    name = _REDUCTIONS.get(func.__name__, func.__name__)
    own = _own(name) if func.__module__ == "numpy" else None
    own = own or (_own_reduction(name) if name in _REDUCTIONS.values() else None)
    gives_tensors = func.__name__ in _METHODS
    if own is not None and "out" not in kwargs:
        try:
            result = own(*args, **kwargs)
            return result if gives_tensors else _as_arrays(result)
        except TypeError:
            pass  # arguments that only NumPy's has
    result = func(*_arrays(args, func.__name__), **_arrays(kwargs, func.__name__))
    return _wrapped(result) if gives_tensors else result


def _as_arrays(result: Any) -> Any:
    if isinstance(result, Tensor):
        array: Any = result if result._requires_grad else result.numpy()
        return array[()] if result.ndim == 0 and array is not result else array
    return type(result)(map(_as_arrays, result)) if type(result) in (tuple, list) else result


def _own_reduction(name: str) -> Any:
    import eagerjit

    return getattr(eagerjit, name)


def _any_array(out: Any) -> bool:
    return out is not None and any(not isinstance(o, Tensor) for o in out)


def _tensor(value: Any, inputs: Sequence[Any]) -> Any:
    """An array among tensors as a tensor, also one in Python's lists, numbers as they are."""
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
        if state.tracer is not None and state.tracer.journal is not None:
            state.tracer.journal.own(value)
    if type(value) is TracedArray:
        return value.shared()
    if isinstance(value, np.ndarray):
        return creation.from_numpy(value if all(n >= 0 for n in value.strides) else value.copy())
    return value.item() if isinstance(value, np.generic) else value


def _array(value: Any, name: str) -> Any:
    if not isinstance(value, Tensor):
        return value
    if state.tracer is None and value._requires_grad:
        raise RuntimeError(
            f"Can't call numpy.{name} on Tensor that requires grad: it is NumPy's and records no gradient. "
            "Use tensor.detach() instead."
        )
    return concrete(value, f"numpy.{name} was called on a tensor")


def _arrays(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(v, name) for key, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_arrays(v, name) for v in value)
    return _array(value, name)


def _wrapped(result: Any) -> Any:
    """Arrays as tensors, inside of tuples and lists too; other results as they are."""
    if isinstance(result, (np.ndarray, np.generic)) and np.asarray(result).dtype in dtypes.BY_NUMPY:
        array = np.asarray(result)
        if any(s < 0 for s in array.strides):
            array = array.copy()
        return new_tensor(array.view(dtypes.BY_NUMPY[array.dtype].numpy))
    if type(result) in (tuple, list):
        return type(result)(map(_wrapped, result))
    return result


__array_namespace__ = array_namespace
__array_ufunc__, __array_function__ = array_ufunc, array_function
