"""Element types: one object per dtype, shared by every layer."""

from __future__ import annotations

from typing import NoReturn

import ml_dtypes
import numpy as np


class DType:
    """An element type. `name` is PyTorch's, `short` is what the IR prints, `code` is its number in Programs."""

    __slots__ = ("bits", "code", "kind", "name", "numpy", "short")

    def __init__(self, name: str, short: str, kind: str, numpy_type: type, code: int):
        self.name, self.short, self.kind, self.code = name, short, kind, code
        self.numpy = np.dtype(numpy_type)
        self.bits = self.numpy.itemsize * 8

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.numpy.itemsize

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_differentiable(self) -> bool:
        """Whether elements can have gradients: real and complex numbers."""
        return self.kind in ("float", "complex")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "complex")

    def fits_in(self, other: DType) -> bool:
        """Whether the other dtype has every value of this one."""
        if self is other:
            return True
        if "float" in (self.kind, other.kind):
            if other.kind != "float":
                return False
            return self._digits <= other._digits and self._range <= other._range
        return self._digits <= other._digits and other.kind != "bool" and (self.kind != "int" or other.kind == "int")

    @property
    def _digits(self) -> int:
        """Significant bits."""
        if self.kind == "float":
            return ml_dtypes.finfo(self.numpy).nmant + 1
        return 1 if self.kind == "bool" else self.bits - (self.kind == "int")

    @property
    def _range(self) -> int:
        """The exponent of the first power of two out of range."""
        return ml_dtypes.finfo(self.numpy).maxexp if self.kind == "float" else self._digits

    def to_real(self) -> DType:
        """The dtype of a complex one's parts, any other itself."""
        return REAL_OF.get(self, self)

    def to_complex(self) -> DType:
        """The complex dtype with parts of this one, a complex one itself. Raises RuntimeError if there is none."""
        if self.is_complex:
            return self
        if self not in COMPLEX_OF:
            raise RuntimeError(f"there is no complex dtype with parts of {self!r}")
        return COMPLEX_OF[self]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self):
        return (by_name, (self.name,))


class Absent(DType):
    """A dtype that programs may name, compare and pass on; there are no tensors of it, so asking for its code raises.

    Raises NotImplementedError wherever elements of it are asked for.
    """

    __slots__ = ("_bits",)

    def __init__(self, name: str, kind: str, bits: int):
        self.name, self.short, self.kind, self._bits = name, name, kind, bits

    def refuse(self) -> NoReturn:
        """Say that there are no tensors of it."""
        raise NotImplementedError(f"eagerjit has no tensors of {self!r}")

    numpy = property(refuse)  # type: ignore[assignment]
    code = property(refuse)  # type: ignore[assignment]
    bits = property(lambda self: self._bits)  # type: ignore[assignment]
    itemsize = property(lambda self: max(self._bits // 8, 1))  # type: ignore[assignment]

    @property
    def is_signed(self) -> bool:
        """Raises RuntimeError for quantized dtypes, as PyTorch does."""
        if self.kind == "quantized":
            raise RuntimeError(f"isSignedType not supported for quantized types, of which {self!r} is one")
        return self.kind in ("int", "float", "complex")


def by_name(name: str) -> DType:
    """The dtype with this PyTorch name."""
    return NAMED[name]


bool_ = DType("bool", "bool", "bool", np.bool_, 0)
uint8 = DType("uint8", "u8", "uint", np.uint8, 1)
int8 = DType("int8", "i8", "int", np.int8, 2)
int16 = DType("int16", "i16", "int", np.int16, 3)
int32 = DType("int32", "i32", "int", np.int32, 4)
int64 = DType("int64", "i64", "int", np.int64, 5)
uint16 = DType("uint16", "u16", "uint", np.uint16, 6)
uint32 = DType("uint32", "u32", "uint", np.uint32, 7)
uint64 = DType("uint64", "u64", "uint", np.uint64, 8)
float16 = DType("float16", "f16", "float", np.float16, 9)
bfloat16 = DType("bfloat16", "bf16", "float", ml_dtypes.bfloat16, 10)
float32 = DType("float32", "f32", "float", np.float32, 11)
float64 = DType("float64", "f64", "float", np.float64, 12)

ALL = (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64)
"""What kernels compute with."""

complex64 = DType("complex64", "c64", "complex", np.complex64, 13)
complex128 = DType("complex128", "c128", "complex", np.complex128, 14)
COMPLEX = (complex64, complex128)
HELD = (*ALL, *COMPLEX)
"""What Programs have in memory; of complex numbers kernels compute with the parts."""
FLOAT8 = tuple(
    DType(name, name.removeprefix("float8_"), "float", getattr(ml_dtypes, name), 15 + i)
    for i, name in enumerate(
        ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    )
)
EVALUATED = (*COMPLEX, *FLOAT8)
"""What NumPy computes with."""

ABSENT = (
    Absent("complex32", "complex", 32),
    Absent("float4_e2m1fn_x2", "float", 8),
    *(Absent(name, "quantized", bits) for name, bits in (
        ("quint8", 8), ("qint8", 8), ("qint32", 32), ("quint4x2", 8), ("quint2x4", 8),
    )),
    *(Absent(f"int{bits}", "int", 8) for bits in range(1, 8)),
    *(Absent(f"uint{bits}", "uint", 8) for bits in range(1, 8)),
    *(Absent(name, "bits", bits) for name, bits in (
        ("bits1x8", 8), ("bits2x4", 8), ("bits4x2", 8), ("bits8", 8), ("bits16", 16),
    )),
)  # fmt: skip
"""What programs name and nothing computes with."""

REAL_OF = {complex64: float32, complex128: float64}
COMPLEX_OF = {float32: complex64, float64: complex128}
BY_NAME = {d.name: d for d in (*ALL, *EVALUATED)}
NAMED = BY_NAME | {d.name: d for d in ABSENT}
BY_SHORT = {d.short: d for d in (*ALL, *EVALUATED)}
BY_NUMPY = {d.numpy: d for d in (*ALL, *EVALUATED)}
