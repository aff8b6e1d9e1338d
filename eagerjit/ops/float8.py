"""Products of matrices whose factors are floats of 8 bits with scales of their own.

Kernels know no such numbers: they read their bits as integers, multiply and add in float32, and write bits.
"""

from __future__ import annotations

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.public import public
from eagerjit.compiler.ops import bits
from eagerjit.ops.numeric import bitwise_left_shift, bitwise_right_shift
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reinterpreted import view_dtype
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.records import record
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


@record(frozen=True)
class Format:
    """How 7 of a number's 8 bits are its magnitude.

    fraction   bits of the fraction
    bias       what the exponent's bits are more than the exponent
    largest    the bits of the largest number
    infinity   whether the next bits are those of infinity; all that follow are NaNs
    """

    fraction: int
    bias: int
    largest: int
    infinity: bool


FORMATS = {
    dtypes.BY_NAME["float8_e4m3fn"]: Format(3, 7, 0x7E, False),
    dtypes.BY_NAME["float8_e5m2"]: Format(2, 15, 0x7B, True),
}


def _decoded(code: Tensor, format: Format) -> Tensor:
    """The numbers with these bits, in float32."""
    whole = as_dtype(code, dtypes.int32)
    magnitude = whole & 0x7F
    # At its place in float32 the exponent is too small by the difference of the biases, in subnormal numbers too.
    pattern = bitwise_left_shift.call(magnitude, 23 - format.fraction)
    value = emit(bits.bitcast, pattern, dtype=dtypes.float32) * 2.0 ** (127 - format.bias)
    beyond = (value * 0.0 + float("inf")).where(magnitude == format.largest + 1, float("nan"))
    value = value.where(magnitude <= format.largest, beyond if format.infinity else float("nan"))
    return value.where(whole < 0x80, -value)


def _encoded(x: Tensor, format: Format) -> Tensor:
    """The bits of the nearest numbers; beyond the largest one infinity, or the largest where there is none."""
    pattern = emit(bits.bitcast, x, dtype=dtypes.int32)
    magnitude, dropped = pattern & 0x7FFFFFFF, 23 - format.fraction
    last, half = bitwise_right_shift.call(magnitude, dropped) & 1, (1 << (dropped - 1)) - 1
    normal = bitwise_right_shift.call(magnitude + half + last, dropped) - ((127 - format.bias) << format.fraction)
    steps = (x.abs() * 2.0 ** (format.bias - 1 + format.fraction)).round()
    least = 2.0 ** (1 - format.bias)
    code = normal.where(x.abs() >= least, as_dtype(steps.where(x.abs() < least, 0.0), dtypes.int32))
    code = code.clamp(max=format.largest + format.infinity).where(x == x, 0x7F)
    return as_dtype(code | (bitwise_right_shift.call(pattern, 24) & 0x80), dtypes.uint8)


def _scaled_product(
    left: Tensor, right: Tensor, scale_left: Tensor, scale_right: Tensor, bias: Tensor | None, left_format: Format,
    right_format: Format, out_dtype: DType, out_format: Format | None,
) -> Tensor:  # fmt: skip
    """The product of numbers with these bits, times their scales, plus bias; of floats of 8 bits the bits."""
    # As bfloat16, which holds all of them, a GPU multiplies them exactly and adds in float32.
    factors = (as_dtype(_decoded(x, f), dtypes.bfloat16) for x, f in ((left, left_format), (right, right_format)))
    a, b = (as_dtype(x, dtypes.float32) for x in factors)
    out = a.matmul(b) * scale_left * scale_right
    if bias is not None:
        out = out + as_dtype(bias, dtypes.float32)
    return as_dtype(out, out_dtype) if out_format is None else _encoded(out, out_format)


scaled_product = Op("scaled_product", _scaled_product, differentiable=False)


@public
def _scaled_mm(
    self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
    scale_result: Tensor | None = None, out_dtype: DType | None = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """(self @ mat2) * scale_a * scale_b + bias of floats of 8 bits, summed in float32, in out_dtype or self's dtype.

    self (m, k) and mat2 (k, n) are float8_e4m3fn or float8_e5m2. The scales are float32: single numbers, or (m, 1) and
    (1, n), one for each row and column. bias (n,). `scale_result` and `use_fast_accum` change nothing. RuntimeError for
    shapes that do not match, ValueError for other dtypes and scales.
    """
    for name, x in (("mat1", self), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    (rows, inner), (other, columns) = self.shape, mat2.shape
    if inner != other:
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({rows}x{inner} and {other}x{columns})")
    _check_scales(self, mat2, scale_a, scale_b)
    if bias is not None and bias.numel() != columns:
        raise RuntimeError(f"Bias must be size {columns} but got {bias.numel()}")
    scales = [s.reshape((1, 1)) if s.numel() == 1 else s for s in (scale_a, scale_b)]
    added = None if bias is None else bias.reshape(-1)
    dtype = self.dtype if out_dtype is None else out_dtype
    factors = [view_dtype(x, dtypes.uint8) for x in (self, mat2)]
    formats = FORMATS[self.dtype], FORMATS[mat2.dtype]
    out = scaled_product.call(*factors, *scales, added, *formats, dtype, FORMATS.get(dtype))
    return view_dtype(out, dtype) if dtype in FORMATS else out


def _check_scales(self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor) -> None:
    rows, columns, scales = self.shape[0], mat2.shape[1], (scale_a, scale_b)
    known = self.dtype in FORMATS and mat2.dtype in FORMATS and all(s.dtype is dtypes.float32 for s in scales)
    by_row = scale_a.shape == (rows, 1) and scale_b.shape == (1, columns) and all(s.is_contiguous() for s in scales)
    if known and (by_row or all(s.numel() == 1 for s in scales)):
        return
    got = [
        f"{name}.dtype()={TYPE_NAMES[x.dtype]}" + (f", {scale}.dtype()={TYPE_NAMES[s.dtype]}, "
        f"{scale}.size()={list(s.shape)}{joint}{scale}.stride()={list(s.stride())}")
        for name, x, scale, s, joint in (
            ("mat_a", self, "scale_a", scale_a, ", "), ("mat_b", mat2, "scale_b", scale_b, " and "),
        )
    ]  # fmt: skip
    raise ValueError(
        "Invalid scaling configuration.\n"
        "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
        f"- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({rows}, 1) and "
        f"scale_b should be (1, {columns}), and both should be contiguous.\nGot {', '.join(got)}"
    )
