"""What docstrings of elementwise ops say beside the formula: shapes, dtypes and errors."""

from __future__ import annotations

from inspect import cleandoc

from eagerjit.compiler.ops.declare import Primitive

_REAL = "integers and bools are computed in the default dtype"
_DTYPES = {"float": f"; {_REAL}", "arithmetic": ", in the dtype that both promote to", "bitwise": ", integers or bools"}

OF_REAL_NUMBERS = f"Tensors broadcast; {_REAL}, halves in float32."
OF_FLOATS = "Of every element; halves are computed in float32.\nRaises NotImplementedError for other than floats."


def also(doc: str | None, more: str) -> str:
    """A function's docstring with one more paragraph."""
    return f"{cleandoc(doc or '')}\n\n{more}"


def described(primitive: Primitive, errors: list[str]) -> str:
    """The docstring of a primitive's public op, which raises these errors, each for the kinds of numbers it names."""
    binary, promotion = len(primitive.derivative) == 2, primitive.promotion
    dtypes = _DTYPES.get(promotion, "") if binary or promotion != "arithmetic" else ", in its dtype"
    operands = "x of `input` and y of `other`, tensors or numbers" if binary else "element x of `input`"
    errors = [*errors, *["RuntimeError for shapes that do not broadcast"] * binary]
    raised = f"\nRaises {', '.join(errors)}." if errors else ""
    return also(primitive.doc, f"For every {operands}{dtypes}.{raised}")
