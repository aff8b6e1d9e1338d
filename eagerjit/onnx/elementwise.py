"""Elementwise primitives in ONNX's operators."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.compiler.ir import Node
from eagerjit.onnx.rules import Rule, cast, registering
from eagerjit.onnx.writer import Writer
from eagerjit.runtime import dtypes

RULES: dict[str, Rule] = {}
rule = registering(RULES)

_SAME = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt",
    "reciprocal": "Reciprocal", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "isnan": "IsNaN", "isinf": "IsInf", "erf": "Erf", "add": "Add", "sub": "Sub",
    "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min", "eq": "Equal", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "where": "Where",
}  # fmt: skip
_ON_BOOLEANS = {"bitwise_not": "Not", "bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}
_BITWISE = {
    "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "bitwise_not": "BitwiseNot",
}  # fmt: skip
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}
_NUMBERS_ALONE = frozenset({"add", "mul", "maximum", "minimum"})


@rule(*_SAME, *_BITWISE)
def _same(w: Writer, node: Node, *inputs: str) -> str:
    name = node.op.name
    if node.inputs[-1].dtype is dtypes.bool_ and name != "where":
        if name in _ON_BOOLEANS:
            return w.node(_ON_BOOLEANS[name], *inputs)
        if name != "eq":
            wide = [cast(w, x, dtypes.int32) for x in inputs]
            found = w.node(_SAME[name], *wide)
            return cast(w, found, dtypes.bool_) if name in _NUMBERS_ALONE else found
    if name not in _SAME:
        w.since(18, "combining bits")
    return w.node(_SAME.get(name) or _BITWISE[name], *inputs)


@rule(*_LOGICAL)
def _logical(w: Writer, node: Node, *inputs: str) -> str:
    pairs = zip(node.inputs, inputs, strict=True)
    given = [x if n.dtype is dtypes.bool_ else cast(w, x, dtypes.bool_) for n, x in pairs]
    return w.node(_LOGICAL[node.op.name], *given)


@rule("ne")
def _ne(w: Writer, node: Node, a: str, b: str) -> str:
    return w.node("Not", w.node("Equal", a, b))


@rule("isfinite")
def _isfinite(w: Writer, node: Node, x: str) -> str:
    return w.node("Not", w.node("Or", w.node("IsNaN", x), w.node("IsInf", x)))


@rule("signbit")
def _signbit(w: Writer, node: Node, x: str) -> str:
    zero = w.constant(0, node.inputs[0].dtype)
    below = w.node("Less", x, zero)
    if not node.inputs[0].dtype.is_floating_point:
        return below
    return w.node("Or", below, w.node("And", w.node("Equal", x, zero), w.node("Less", w.node("Reciprocal", x), zero)))


@rule("trunc")
def _trunc(w: Writer, node: Node, x: str) -> str:
    return w.node("Where", w.node("Less", x, w.constant(0, node.dtype)), w.node("Ceil", x), w.node("Floor", x))


@rule("rsqrt")
def _rsqrt(w: Writer, node: Node, x: str) -> str:
    return w.node("Reciprocal", w.node("Sqrt", x))


@rule("exp_sub")
def _exp_sub(w: Writer, node: Node, a: str, b: str) -> str:
    return w.node("Exp", w.node("Sub", a, b))


@rule("exp2")
def _exp2(w: Writer, node: Node, x: str) -> str:
    return w.node("Pow", w.constant(2, node.dtype), x)


@rule("log2", "log10")
def _log(w: Writer, node: Node, x: str) -> str:
    base = 2 if node.op.name == "log2" else 10
    return w.node("Mul", w.node("Log", x), w.constant(1 / math.log(base), node.dtype))


@rule("expm1")
def _expm1(w: Writer, node: Node, x: str) -> str:
    """tanh(x / 2) (exp(x) + 1), exact near 0."""
    half = w.node("Tanh", w.node("Mul", x, w.constant(0.5, node.dtype)))
    return w.node("Mul", half, w.node("Add", w.node("Exp", x), w.constant(1, node.dtype)))


@rule("log1p")
def _log1p(w: Writer, node: Node, x: str) -> str:
    """log(u) x / (u - 1) for u = 1 + x as it is rounded (Kahan), exact near 0."""
    one = w.constant(1, node.dtype)
    u = w.node("Add", x, one)
    found = w.node("Mul", w.node("Log", u), w.node("Div", x, w.node("Sub", u, one)))
    as_it_is = w.node("Or", w.node("Equal", u, one), w.node("IsInf", u))
    return w.node("Where", as_it_is, x, found)


@rule("erfc")
def _erfc(w: Writer, node: Node, x: str) -> str:
    return w.node("Sub", w.constant(1, node.dtype), w.node("Erf", x))


@rule("cast")
def _cast(w: Writer, node: Node, x: str) -> str:
    return x if node.inputs[0].dtype is node.dtype else cast(w, x, node.dtype)


def _signs_differ(w: Writer, a: str, b: str, dtype: Any) -> str:
    zero = w.constant(0, dtype)
    return w.node("Xor", w.node("Less", a, zero), w.node("Less", b, zero))


@rule("floordiv")
def _floordiv(w: Writer, node: Node, a: str, b: str) -> str:
    if node.dtype.is_floating_point:
        return w.node("Floor", w.node("Div", a, b))
    quotient = w.node("Div", a, b)
    if str(node.dtype.short).startswith("u"):
        return quotient
    rest = w.node("Sub", a, w.node("Mul", quotient, b))
    inexact = w.node("Not", w.node("Equal", rest, w.constant(0, node.dtype)))
    below = w.node("And", inexact, _signs_differ(w, a, b, node.dtype))
    return w.node("Sub", quotient, cast(w, below, node.dtype))


@rule("fmod")
def _fmod(w: Writer, node: Node, a: str, b: str) -> str:
    return w.node("Mod", a, b, fmod=1)


@rule("remainder")
def _remainder(w: Writer, node: Node, a: str, b: str) -> str:
    if not node.dtype.is_floating_point:
        return w.node("Mod", a, b)
    rest = w.node("Mod", a, b, fmod=1)
    inexact = w.node("Not", w.node("Equal", rest, w.constant(0, node.dtype)))
    other = w.node("And", inexact, _signs_differ(w, rest, b, node.dtype))
    return w.node("Where", other, w.node("Add", rest, b), rest)


@rule("atan2")
def _atan2(w: Writer, node: Node, y: str, x: str) -> str:
    """2 atan(y / (|(x, y)| + x)); 0 or pi, with y's sign, where y is 0."""
    length = w.node("Sqrt", w.node("Add", w.node("Mul", x, x), w.node("Mul", y, y)))
    half = w.node("Atan", w.node("Div", y, w.node("Add", length, x)))
    found = w.node("Mul", half, w.constant(2, node.dtype))
    zero = w.constant(0, node.dtype)
    flat = w.node("Equal", y, zero)
    below = w.node("Less", w.node("Reciprocal", y), zero)
    half_turn = w.node("Where", below, w.constant(-math.pi, node.dtype), w.constant(math.pi, node.dtype))
    return w.node("Where", flat, w.node("Where", w.node("Less", x, zero), half_turn, y), found)
