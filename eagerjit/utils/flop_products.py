"""Which products, convolutions and attentions an operation computes, as calls of PyTorch's operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from eagerjit.compiled.evaluated import operands
from eagerjit.utils.flop_formulas import shape_of

Sizes = Sequence[int]


class Product(NamedTuple):
    """A call of one of PyTorch's operators, with shapes for tensors."""

    name: str
    arguments: tuple[Any, ...]
    out: Any


_ATTENTIONS = frozenset("attention flash_attention flash_gradients".split())
_CONVOLUTIONS = frozenset(
    f"{kind}convolution{of}" for kind in ("", "depthwise_", "complex_") for of in ("", "_input", "_weight")
)
_UNCOUNTED = frozenset("addmv bilinear".split())
"""What PyTorch computes otherwise than by products of matrices."""


def products(op: Any, arguments: tuple[Any, ...], result: Any) -> Iterator[Product]:
    """What a call computes."""
    name = op.name.removesuffix("_backward")
    of_results = 2 * len(op.absent) if op.name != name else 0
    given = arguments[of_results:]
    if name in _CONVOLUTIONS:
        yield _convolution(op, name, given, arguments[0], result, of_results > 0)
    elif name in _ATTENTIONS:
        yield _attention(name, given, arguments[0], result, of_results > 0)
    elif name not in _UNCOUNTED and not _has_vector(name, given):
        for a, b in operands(op, arguments, "matmul"):
            yield _of_matrices(name, given, a, b, of_results > 0)


def _has_vector(name: str, given: tuple[Any, ...]) -> bool:
    """Whether a product is one with a vector, which PyTorch does not count."""
    if name not in ("matmul", "linear"):
        return False
    left, right = (x.ndim for x in given[:2])
    return right == 1 or (left == 1 and right > 2)


def _of_matrices(name: str, given: tuple[Any, ...], a: Sizes, b: Sizes, is_gradient: bool) -> Product:
    """A product of two matrices, or of two batches of them."""
    out = (*a[:-1], b[-1])
    if name in ("matmul", "linear") and min(x.ndim for x in given[:2]) <= 2 < len(a):
        a, b = (prod(a[:-1]), a[-1]), b[-2:]  # one of the two factors is the same for all of a batch
    elif len(a) > 2:
        a, b = ((prod(x[:-2]), *x[-2:]) for x in (a, b))
    elif name == "einsum":
        a, b = (1, *a), (1, *b)
    several = len(a) > 2
    added = name in ("addmm", "baddbmm") or (name == "linear" and given[2] is not None)
    if added and not is_gradient:
        return Product("baddbmm" if several else "addmm", (out, a, b), out)
    return Product("bmm" if several else "mm", (a, b), out)


def _attention(name: str, given: tuple[Any, ...], gradient: Any, result: Any, is_gradient: bool) -> Product:
    """An attention or its gradients, of whatever rank."""
    inner = name == "flash_gradients"
    query, key, value = (_four(x.shape) for x in given[inner : 3 + inner])
    operator = "_scaled_dot_product_flash_attention"
    if not (is_gradient or inner):
        return Product(operator, (query, key, value), shape_of(result[0]))
    return Product(f"{operator}_backward", ((*query[:3], value[3]), query, key, value), None)


def _four(shape: Sizes) -> Sizes:
    """A shape as (batch, heads, length, features)."""
    return (prod(shape[:-3]), *((1,) if len(shape) == 2 else ()), *shape[-3:])


def _convolution(
    op: Any, name: str, given: tuple[Any, ...], gradient: Any, result: Any, is_gradient: bool
) -> Product:
    """A convolution, transposed or not, or its gradients."""
    transposed = name.endswith("_input")
    if name.endswith("_weight"):  # an operation of its own where gradients are differentiated
        y, x = (shape_of(x) for x in given[:2])
        return Product("convolution_backward", (y, x, result.shape, *_how(False), (False, True)), (None, result.shape))
    x, w = (shape_of(x) for x in given[:2])
    if not is_gradient:
        return Product("convolution", (x, w, *_how(transposed)), result.shape)
    mask = op.pattern[:2]
    outs = (x if mask[0] else None, w if mask[1] else None)
    return Product("convolution_backward", (gradient.shape, x, w, *_how(transposed), mask), outs)


def _how(transposed: bool) -> tuple[Any, ...]:
    """The arguments of a convolution that its count does not depend on, and the one that it does."""
    return None, None, None, None, transposed, None, None
