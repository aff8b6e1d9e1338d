"""In-place versions, under all of PyTorch's names, of functions that are rarely used that way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.calling.public import written
from eagerjit.ops import arithmetic, elementary
from eagerjit.ops.inplace import INPLACE, inplace
from eagerjit.ops.pointwise import POINTWISE
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor


def _of(name: str) -> Callable[..., Tensor]:
    """The in-place method of an elementary op."""
    return inplace(elementary.ELEMENTARY[name]).method()


acosh_, asinh_, atanh_, copysign_, deg2rad_ = map(_of, ("acosh", "asinh", "atanh", "copysign", "deg2rad"))
rad2deg_, frac_, logit_, sinc_ = map(_of, ("rad2deg", "frac", "logit", "sinc"))
xlogy_ = _of("xlogy")
arccosh_, arcsinh_, arctanh_ = acosh_, asinh_, atanh_
arccosh, arcsinh, arctanh = (elementary.ELEMENTARY[n] for n in ("acosh", "asinh", "atanh"))
arccos_, arcsin_, arctan_ = (INPLACE[n].method() for n in ("acos_", "asin_", "atan_"))
fix_, negative_ = INPLACE["trunc_"].method(), INPLACE["neg_"].method()
clamp_min_, clamp_max_ = written(arithmetic.clamp_min), written(arithmetic.clamp_max)
nan_to_num_ = written(arithmetic.nan_to_num)
fix = POINTWISE["trunc"]


def clip_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of `clamp`."""
    return self.clamp_(min, max)


def subtract_(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """In-place version of `sub`."""
    return self.sub_(other, alpha=alpha)


def divide_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of `div`."""
    return self.div_(other, rounding_mode=rounding_mode)


def true_divide_(self: Tensor, other: Any) -> Tensor:
    """In-place version of `div`."""
    return self.div_(other)


def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write values at the positions that the index tensors name, in place; or add them."""
    return self.index_put_(indices, values, accumulate)


def zero_(self: Tensor) -> Tensor:
    """Set all elements to 0, in place."""
    return self.zero_()


def detach_(self: Tensor) -> Tensor:
    """Drop the tensor's history in place."""
    return self.detach_()


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by a Python function of it."""
    values = [callable(x) for x in self.detach().reshape(-1).tolist()]
    return self.copy_(self.new_tensor(values).reshape(self.shape))


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by a Python function of it and of another tensor's."""
    other = tensor.detach().expand(self.shape).reshape(-1).tolist()
    values = [callable(x, y) for x, y in zip(self.detach().reshape(-1).tolist(), other, strict=True)]
    return self.copy_(self.new_tensor(values).reshape(self.shape))


def chalf(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor as complex32, which there are no tensors of: raises NotImplementedError."""
    return self.to(dtypes.NAMED["complex32"], memory_format=memory_format)


def cfloat(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor as complex64."""
    return self.to(dtypes.complex64, memory_format=memory_format)


def cdouble(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor as complex128."""
    return self.to(dtypes.complex128, memory_format=memory_format)
