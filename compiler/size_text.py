"""Sizes from text: what `str` makes of a size, parsed back."""

from __future__ import annotations

import ast

from eagerjit.compiler import sizes


def parse(text: str) -> sizes.Expr:
    """The inverse of str."""
    return from_ast(ast.parse(text, mode="eval").body)


def from_ast(node: ast.expr) -> sizes.Expr:
    """The size that a Python expression denotes. Raises ValueError if it is none."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return sizes.symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return sizes.mul(from_ast(operand), -1)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = from_ast(left), from_ast(right)
            match op:
                case ast.Add():
                    return sizes.add(a, b)
                case ast.Sub():
                    return sizes.add(a, sizes.mul(b, -1))
                case ast.Mult():
                    return sizes.mul(a, b)
                case ast.FloorDiv():
                    return sizes.floordiv(a, b)
                case ast.Mod():
                    return sizes.mod(a, b)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[a, b]):
            return (sizes.minimum if name == "min" else sizes.maximum)(from_ast(a), from_ast(b))
    raise ValueError(f"not a size: {ast.unparse(node)}")
