"""Scalar operations of kernel IR in Triton: an operator where Triton's means the same, else a function of the file.

The functions come from the table that the CPU's code comes from (`compiler/codegen/scalar.py`), so an operation that is
added there exists here.
"""

from __future__ import annotations

import functools

from eagerjit.compiler.codegen.builder import FLOATS, Value
from eagerjit.compiler.codegen.cast import HALF_FORMATS, cast
from eagerjit.compiler.codegen.scalar import SCALAR_OPS
from eagerjit.compiler.codegen.triton.values import TYPES, TritonBuilder, literal
from eagerjit.runtime.records import record

HALVES = {"f16": "tl.float16", "bf16": "tl.bfloat16"}
INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
BITWISE = {"and": "&", "or": "|", "xor": "^"}
UNROUNDED = frozenset(("add", "sub", "mul", "div"))
REPEATING = (
    "pow", "fmod", "rem", "floordiv", "gcd", "lcm", "gamma_series", "gamma_fraction", "gamma_series_slope",
    "gamma_fraction_slope", "gamma_draw", "von_mises_draw", "poisson_draw", "binomial_draw",
)  # fmt: skip
"""Operations with loops, which carry blocks of one shape."""
EITHER = "@triton.jit\ndef either(a, b):\n    return a | b\n"


@record(frozen=True)
class Function:
    """A device function: its text, and whether it reads the tables of elementary functions."""

    name: str
    text: str
    uses_tables: bool = False


def rounded(text: str, dtype: str) -> str:
    """An f32 expression rounded to a 16-bit format."""
    return f"{text}.to({HALVES[dtype]}).to(tl.float32)" if dtype in HALVES else text


def infix(op: str, operands: tuple[str, ...], dtypes: tuple[str, ...]) -> str | None:
    """The operation as one Python expression of texts, if Triton's operator means the same."""
    first = dtypes[0]
    if op == "where":
        return f"tl.where({', '.join(operands)})"
    if op in BITWISE:
        return f"{operands[0]} {BITWISE[op]} {operands[1]}"
    if op == "not" and first == "bool":
        return f"~{operands[0]}"
    if op in INFIX and first != "bool":
        return f"{operands[0]} {INFIX[op]} {operands[1]}"
    if op == "neg" and first in FLOATS:
        return f"{operands[0]} * -1.0"
    if op == "abs" and first in FLOATS:
        return f"tl.abs({operands[0]})"
    if op == "div" and first in FLOATS:
        return f"{operands[0]} / {operands[1]}" if first == "f64" else f"tl.div_rn({operands[0]}, {operands[1]})"
    if op == "sqrt":
        return f"tl.sqrt({operands[0]})" if first == "f64" else f"tl.sqrt_rn({operands[0]})"
    if op in ("floor", "ceil") and first in FLOATS:
        return f"tl.{op}({operands[0]})"
    return None


def conversion(text: str, source: str, dtype: str) -> str | None:
    """A cast as one expression, if Triton's means the same."""
    if source == dtype:
        return text
    if dtype == "bool":
        return f"{text} != 0"
    if source in FLOATS and dtype not in FLOATS:
        return None
    if dtype in HALVES:
        return rounded(f"{text}.to(tl.float32)" if TYPES[source] != "tl.float32" else text, dtype)
    return text if TYPES[source] == TYPES[dtype] else f"{text}.to({TYPES[dtype]})"


@functools.cache
def function(op: str, dtypes: tuple[str, ...], dtype: str) -> Function:
    """The device function of an operation."""
    b = TritonBuilder()
    names = ("x", "y", "z")[: len(dtypes)]
    arguments: tuple[Value, ...] = tuple(Value(b, d, 0, n, 0) for n, d in zip(names, dtypes, strict=True))
    name = f"{op}_{dtypes[0]}"
    if op in REPEATING:
        for _ in names[1:]:  # the last pass brings the shape of all to those in front
            for other in names[1:]:
                b.emit(f"x, {other} = tl.broadcast(x, {other})")
    if op == "cast":
        name = f"{dtypes[0]}_to_{dtype}"
        result = cast(arguments[0], dtype)
    elif op == "bitcast":
        name = f"bits_of_{dtypes[0]}_as_{dtype}"
        result = _bits(b, arguments[0], dtype)
    else:
        views = (v.view("f32") if v.dtype in HALF_FORMATS else v for v in arguments)
        entry = SCALAR_OPS[op]
        result = entry.emit(*views)
        if dtype in HALVES and not entry.exact:
            result = b.named("f32", rounded(b.typed(result), dtype))
    parameters = ", ".join((*names, "tables") if b.uses_tables else names)
    returned = b.typed(result)
    lines = [f"@triton.jit\ndef {name}({parameters}):", *b.lines, f"    return {returned}\n"]
    return Function(name, "\n".join(lines), b.uses_tables)


def _bits(b: TritonBuilder, value: Value, dtype: str) -> Value:
    """The bits as they lie in memory, read as another dtype of the same size."""
    text = value.text
    if value.dtype in HALVES:
        text = f"{text}.to({HALVES[value.dtype]})"
    elif value.dtype == "bool":
        text = f"{text}.to(tl.uint8)"
    if dtype == "bool":
        return b.named(dtype, f"{text}.to(tl.uint8, bitcast=True) != 0")
    if dtype in HALVES:
        return b.named(dtype, f"{text}.to({HALVES[dtype]}, bitcast=True).to(tl.float32)")
    return b.named(dtype, f"{text}.to({TYPES[dtype]}, bitcast=True)")


def plain(dtype: str, value: int | float | bool) -> str | None:
    """A constant's text where an operator's other side gives it the right type, else None."""
    text = literal(dtype, _in_format(dtype, value))
    return None if text == "-0.0" else text


def full(dtype: str, value: int | float | bool) -> str:
    """A constant's text with its type."""
    text = literal(dtype, _in_format(dtype, value))
    return f"(tl.full((), 0.0, {TYPES[dtype]}) * -1.0)" if text == "-0.0" else f"tl.full((), {text}, {TYPES[dtype]})"


def _in_format(dtype: str, value: int | float | bool) -> int | float | bool:
    """A number rounded to a 16-bit format."""
    if dtype not in HALVES:
        return TritonBuilder().constant(dtype, value).text == "True" if dtype == "bool" else _wrapped(dtype, value)
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(value).astype(HALF_FORMATS[dtype]))


def _wrapped(dtype: str, value: int | float | bool) -> int | float | bool:
    return value if dtype in FLOATS else int(TritonBuilder().constant(dtype, value).text)
