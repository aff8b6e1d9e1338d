"""Op declarations: one object holds all that is known about a primitive.

A family fixes what follows from little: an elementwise op has a type rule, a broadcast rule, a batching rule and a
fused lowering as soon as its scalar operation is named. Derivative rules are written in Tensor operations on whatever
they are given: on real tensors they compute, on traced tensors they record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.records import record

TABLE: dict[str, Primitive] = {}
"""Every primitive by name."""

Derivative = Callable[..., Any] | None


@record(frozen=True, eq=False)
class Primitive:
    """One operation of the Graph IR.

    family      elementwise, reduction, view, index, linear, host, argument, generator
    type_rule   (*input types, **attributes) -> TensorType; raises ValueError on a misfit
    reference   (*ndarrays, **attributes) -> ndarray, the oracle
    scalar      elementwise: the kernel IR operation; reduction: the accumulator; linear: the library's routine
    derivative  per input a rule (g, out, *inputs, **attributes) -> gradient, or None where it is zero. An elementwise
                rule is linear in g with a diagonal Jacobian, so the same rule is the VJP and the JVP
    layout      view: (sizes of the input, strides, offset, **attributes) -> (strides, offset), or None where only a
                copy will do
    index_map   view: (map, shape, input shape, loop extents, **attributes) -> map of the input, or None if not affine
    neutral     elementwise: the right operand that leaves the left one as it is, bit for bit, for floats and for other
                numbers; None where there is none
    compose     (input type, inner attributes, outer attributes) -> attributes of the one operation that does what two
                of its kind do in turn, or None
    overwrites  the view (of the first input, with these attributes) that is replaced by the second input
    promotion   which frontend promotion the inputs go through
    domain      interval from which test inputs are drawn, per input
    cost        scalar operations per element, for scheduling
    names       public names
    traits      what a pass may rely on:
                commutes      operands can change places, bit for bit
                exact         compiled code gives what the reference gives, bit for bit
                literal       a number known when tracing: the attribute `value`
                keeps_value   a copy where the result's type is the input's
                involution    applied twice it does nothing
                selects       the first input says which of the others is the result
                part, parts   reads the real or imaginary part of what lies in memory, writes both there
                wirtinger     its rules take and give gradients of complex numbers as PyTorch has them
                variadic      takes any number of inputs; its one derivative rule gives all their gradients
                checks_index, integer_zero_divisor, requires   may raise an error: never dead
    """

    name: str
    family: str
    type_rule: Callable[..., TensorType]
    reference: Callable[..., Any]
    doc: str
    scalar: str = ""
    derivative: tuple[Derivative, ...] = ()
    layout: Any = None
    index_map: Any = None
    neutral: tuple[float | None, int | None] | None = None
    compose: Callable[..., dict[str, Any] | None] | None = None
    overwrites: Primitive | None = None
    promotion: str = ""
    domain: tuple[tuple[float, float], ...] = ()
    cost: int = 1
    names: tuple[str, ...] = ()
    traits: frozenset[str] = field(default_factory=frozenset)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def declare(primitive: Primitive) -> Primitive:
    """Add a primitive to the table."""
    if primitive.name in TABLE:
        raise ValueError(f"op {primitive.name} is declared twice")
    TABLE[primitive.name] = primitive
    return primitive


def broadcast_shapes(shapes: list[tuple[sizes.Expr, ...]], name: str = "broadcast") -> tuple[sizes.Expr, ...]:
    """NumPy's broadcasting of shapes. Raises ValueError naming the op and the shapes."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[sizes.Expr] = []
    for axis in range(-rank, 0):
        size: sizes.Expr = 1
        for shape in shapes:
            if len(shape) < -axis or shape[axis] == 1:
                continue
            if size == 1:
                size = shape[axis]
            elif not sizes.equal(size, shape[axis]):
                raise ValueError(_mismatch(name, shapes, rank + axis, size, shape[axis]))
            elif isinstance(shape[axis], int):
                size = shape[axis]
        out.append(size)
    return tuple(out)


def _mismatch(name: str, shapes: list[tuple[sizes.Expr, ...]], axis: int, a: sizes.Expr, b: sizes.Expr) -> str:
    texts = " and ".join(str([sizes.hint(d) for d in s]) for s in shapes)
    return (
        f"{name}: the size of tensor a ({sizes.hint(a)}) must match the size of tensor b ({sizes.hint(b)}) "
        f"at non-singleton dimension {axis} (shapes {texts})"
    )


def same_dtype(name: str, types: tuple[TensorType, ...]) -> DType:
    """The dtype that all inputs share; primitives never promote."""
    dtypes = {t.dtype for t in types}
    if len(dtypes) != 1:
        raise ValueError(f"{name}: inputs of different dtypes {', '.join(t.dtype.short for t in types)}")
    return types[0].dtype
