"""Complex numbers: their parts, what they are made of, and the operations that are others for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import COMPLEX_FORMS, Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.calling.public import public, written
from eagerjit.compiler import sizes
from eagerjit.compiler.ops import complexes
from eagerjit.ops.aliasing import ViewOp, by_ops, in_units
from eagerjit.ops.index import stack_op
from eagerjit.ops.inplace import InplaceOp
from eagerjit.ops.pointwise import POINTWISE
from eagerjit.ops.reduce import extent
from eagerjit.runtime import device_array, dtypes
from eagerjit.tensors.tensor import Tensor

# -- made of parts ----------------------------------------------------------------------------------------------------


def _complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + imag * i."""
    return emit(complexes.make_complex, real, imag)


_made = ElementwiseOp("complex", _complex, complexes.make_complex.derivative)
_made.wirtinger = True


def _checked(name: str, first: Tensor, second: Tensor) -> None:
    if not first.dtype.is_floating_point or not second.dtype.is_floating_point:
        raise RuntimeError(
            f"{name}(): Expected both inputs to be Half, Float or Double tensors but got "
            f"{first.dtype} and {second.dtype}"
        )
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"{name}(): Expected object of scalar type {first.dtype} but got scalar type {second.dtype} for second "
            "argument"
        )
    if first.dtype not in dtypes.COMPLEX_OF:
        raise NotImplementedError(f"{name}(): there are no complex numbers of {first.dtype}")


@public
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers of real and imaginary parts."""
    _checked("complex", real, imag)
    return _made.call(real, imag)


@converting
@public
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers of absolute values and angles, which are in radians."""
    _checked("polar", abs, angle)
    return _made.call(abs * angle.cos(), abs * angle.sin())


# -- parts that share memory ------------------------------------------------------------------------------------------


_REAL_OF: dict[Any, Any] = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
_COMPLEX_OF = {real: whole for whole, real in _REAL_OF.items()}


def _as_real(array: np.ndarray) -> np.ndarray:
    if type(array) is np.ndarray and array.flags.c_contiguous and array.dtype in _REAL_OF:
        made = array.reshape((*array.shape, 1)).view(_REAL_OF[array.dtype])
        if made.strides[:-1] == array.strides:  # not where dimensions of one element have others
            return made
    part = array.real
    item = part.itemsize
    return device_array.as_strided(part, (*array.shape, 2), (*array.strides, item))


def _as_complex(array: np.ndarray) -> np.ndarray:
    return array.view(_COMPLEX_OF.get(array.dtype) or np.result_type(array.dtype, np.complex64))[..., 0]


def _parts(input: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts in a trace, which copies them."""
    return emit(complexes.real, input), emit(complexes.imag, input)


def _stacked(input: Tensor) -> Tensor:
    return stack_op.call(list(_parts(input)), -1)


def _joined(input: Tensor) -> Tensor:
    return emit(complexes.make_complex, input.select(-1, 0), input.select(-1, 1))


real_view = ViewOp(
    "real",
    lambda array: array.real,
    by_ops(lambda input: _parts(input)[0]),
    by_ops(lambda input, value: emit(complexes.make_complex, value, _parts(input)[1])),
    lambda g, out, input: g.to(dtypes.COMPLEX_OF[g.dtype]),
    lambda g: _made.call(g.real * 0.0, g.imag),
)
imag_view = ViewOp(
    "imag",
    lambda array: array.imag,
    by_ops(lambda input: _parts(input)[1]),
    by_ops(lambda input, value: emit(complexes.make_complex, _parts(input)[0], value)),
    lambda g, out, input: g.to(dtypes.COMPLEX_OF[g.dtype]) * 1j,
    lambda g: _made.call(g.real, g.imag * 0.0),
)
as_real_view = ViewOp(
    "view_as_real",
    _as_real,
    by_ops(_stacked),
    by_ops(lambda input, value: _joined(value)),
    lambda g, out, input: as_complex_view(g.contiguous()),
)
as_complex_view = ViewOp(
    "view_as_complex",
    _as_complex,
    by_ops(_joined),
    by_ops(lambda input, value: _stacked(value)),
    lambda g, out, input: as_real_view(g),
)
for _view in (real_view, imag_view, as_real_view, as_complex_view):
    _view.in_place = False
real_view.strides = imag_view.strides = lambda shape, strides: tuple(sizes.mul(s, 2) for s in strides)
as_real_view.strides = lambda shape, strides: (*(sizes.mul(s, 2) for s in strides), 1)
as_complex_view.strides = lambda shape, strides: in_units(strides[:-1], 2)


@public
def real(input: Tensor) -> Tensor:
    """The real parts: a view; a real tensor itself."""
    return real_view(input) if input.dtype.is_complex else input


@public
def imag(input: Tensor) -> Tensor:
    """The imaginary parts: a view. Raises RuntimeError for a real tensor."""
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return imag_view(input)


@public
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary parts along a new last dimension: a view."""
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return as_real_view(input)


@converting
@public
def view_as_complex(input: Tensor) -> Tensor:
    """The complex numbers whose parts lie along the last dimension: a view."""
    if input.dtype not in dtypes.COMPLEX_OF:
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of {input.dtype}"
        )
    if input.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.stride(-1) != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return as_complex_view(input)


# -- functions --------------------------------------------------------------------------------------------------------

_conj = ElementwiseOp("conj", lambda input: emit(complexes.conj, input), (lambda g, out, input: g.conj(),))
_conj.wirtinger = True


@public
def conj(input: Tensor) -> Tensor:
    """Complex conjugates; a real tensor itself."""
    return _conj.call(input) if input.dtype.is_complex else input


@public
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are computed at once."""
    return input


resolve_neg = resolve_conj
conj_physical_ = written(conj, "conj_physical_")


@public
def conj_physical(input: Tensor) -> Tensor:
    """Complex conjugates."""
    return conj(input)


@public
def angle(input: Tensor) -> Tensor:
    """The angle of complex numbers, in radians; of real ones pi below 0 and else 0."""
    if input.dtype.is_complex:
        return POINTWISE["atan2"].call(imag(input), real(input)).contiguous()
    x = input if input.dtype.is_floating_point else input.float()
    return x.round().where(x.isnan(), x.new_zeros(()).where(x >= 0, np.pi))


def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once."""
    return False


is_neg = is_conj


def _form(
    name: str, body: Any, rules: Any = None, differentiable: bool = True, writes: bool = True,
    kind: type[Op] = ElementwiseOp,
) -> Op:  # fmt: skip
    """What an op, and its in-place version if it has one, is for complex numbers."""
    made = COMPLEX_FORMS[name] = kind(f"complex_{name}", body, rules, differentiable=differentiable)
    made.wirtinger = True
    if writes:
        COMPLEX_FORMS[f"{name}_"] = InplaceOp(made)
    return made


class _NoMagnitudes:
    """Stands for the in-place version of `abs`: real numbers do not take the place of complex ones."""

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Refused."""
        raise RuntimeError("In-place abs is not supported for complex tensors.")

    _run_casting = run


def _unit(input: Tensor) -> Tensor:
    """input / |input|, 0 at 0."""
    size = emit(complexes.magnitude, input)
    return input * (1.0 / size).where(size != 0.0, 0.0)


def _variance(input: Tensor, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Tensor:
    """Mean square distance from the mean: a real number."""
    centered = input - input.mean(dim, True)
    parts = centered.real * centered.real + centered.imag * centered.imag
    return parts.sum(dim, keepdim) / max(extent(input, dim) - correction, 0)


def _power_input(g: Any, out: Any, input: Any, exponent: Any) -> Any:
    slope = exponent * input ** (exponent - 1)
    return g * slope.conj() if isinstance(slope, Tensor) else g * slope.conjugate()


def _power_exponent(g: Any, out: Any, input: Any, exponent: Any) -> Any:
    base = input.to(out.dtype) if isinstance(input, Tensor) else out.new_full((), input)
    zero = base == 0.0
    return g * (out * base.where(zero.logical_not(), 1.0).log()).where(zero.logical_not(), 0.0).conj()


_form("abs", lambda input: emit(complexes.magnitude, input), complexes.magnitude.derivative, writes=False)
COMPLEX_FORMS["abs_"] = _NoMagnitudes()  # type: ignore[assignment]
_form("sign", _unit)
_form("asinh", lambda input: emit(complexes.asinh, input), complexes.asinh.derivative)
_form("acosh", lambda input: emit(complexes.acosh, input), complexes.acosh.derivative)
_form("atanh", lambda input: emit(complexes.atanh, input), complexes.atanh.derivative)
def _logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)), the one with the larger real part taken out."""
    first = input.real >= other.real
    larger, smaller = input.where(first, other), other.where(first, input)
    out = larger + (1.0 + (smaller - larger).exp()).log()
    return out.where(larger.real != -math.inf, larger)


_form("logaddexp", _logaddexp, writes=False)
_form("silu", lambda input: input * input.sigmoid())
_form("exp2", lambda input: (input * math.log(2)).exp())
_form("var", _variance, writes=False, kind=Op)
_form(
    "std",
    lambda input, dim=None, correction=1, keepdim=False: _variance(input, dim, correction, keepdim).sqrt(),
    writes=False,
    kind=Op,
)
_form("pow", lambda input, exponent: POINTWISE["pow"].body(input, exponent), (_power_input, _power_exponent))


def _isclose(input: Tensor, other: Tensor, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"isclose(): {input.dtype} did not match {other.dtype}")
    return (input == other).logical_or((input - other).abs() <= atol + rtol * other.abs())


_form("isclose", _isclose, differentiable=False, writes=False)
