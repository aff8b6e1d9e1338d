"""Borders around tensors: constants, reflections, copies of the edge, the other side."""

from __future__ import annotations

import operator
from typing import Any

from eagerjit.autograd.formal import Formal
from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.spatial import SpatialOp
from eagerjit.compiler.ops import indexing
from eagerjit.ops import index, views
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import SymbolicInt, expression, to_float
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.fitting import check_fit
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.tensor import Tensor

Numbers = tuple[Any, ...]


def shown(input: Tensor, shape: Any, starts: Any, steps: Any) -> Tensor:
    """Every step-th element from starts on along all dimensions, as many as `shape` says."""
    for d, (size, start, step) in enumerate(zip(shape, starts, steps, strict=True)):
        input = views.slice_dim(input, d, start, start + (size - 1) * step + 1, step)
    return input


def _replace_block(input: Tensor, src: Tensor, starts: Numbers, steps: tuple[int, ...]) -> Tensor:
    """input with a block of every step-th element from `starts` on replaced by src; it lies within input."""
    if any(n == 0 for n in src.shape):
        return input.clone()
    return emit(
        indexing.replace_block, input, as_dtype(src, input.dtype), starts=tuple(map(expression, starts)), steps=steps
    )


replace_block_op = Op(
    "replace_block",
    _replace_block,
    (
        lambda g, out, input, src, starts, steps: replace_block(g, g.new_zeros(src.shape), starts, steps),
        lambda g, out, input, src, starts, steps: shown(g, src.shape, starts, steps),
        None,
        None,
    ),
    shapes=("starts",),
)
replace_block = replace_block_op.call


def surrounded(input: Tensor, before: Any, after: Any, steps: Any = None, value: Any = 0) -> Tensor:
    """input with so many elements of one value before and after, per dimension, and steps - 1 between its elements."""
    steps = (1,) * input.ndim if steps is None else tuple(steps)
    sizes = zip(input.shape, before, after, steps, strict=True)
    shape = tuple((n - 1) * s + 1 + a + b for n, a, b, s in sizes)
    return replace_block(input.new_full(shape, value), input, tuple(before), steps)


def _constant(input: Tensor, amounts: Numbers, value: Any) -> Tensor:
    before, after = ([0] * input.ndim for _ in range(2))
    out = input
    for number in range(len(amounts) // 2):
        d = input.ndim - 1 - number
        left, right = amounts[2 * number : 2 * number + 2]
        out = views.slice_dim(out, d, max(-left, 0), out.shape[d] - max(-right, 0))
        before[d], after[d] = max(left, 0), max(right, 0)
    if all(type(n) is int and n == 0 for n in (*before, *after)):
        return out.clone()
    return surrounded(out, before, after, value=value) if out.numel() else out.new_full(
        tuple(n + a + b for n, a, b in zip(out.shape, before, after, strict=True)), value
    )


def _border(input: Tensor, d: int, count: Any, mode: str, last: bool) -> Tensor:
    """What stands before the first element, or after the last."""
    size = input.shape[d]
    if mode == "replicate":
        edge = views.narrow(input, d, size - 1 if last else 0, 1)
        return edge.expand(tuple(count if i == d else n for i, n in enumerate(input.shape)))
    if mode == "circular":
        return views.narrow(input, d, 0 if last else size - count, count)
    return views.narrow(input, d, size - 1 - count if last else 1, count).flip(d)


def _pad(input: Tensor, amounts: Numbers, mode: str, value: Any) -> Tensor:
    """input with a border; see `pad`."""
    if mode == "constant":
        return _constant(input, amounts, value)
    return _bordered(input, amounts, mode)


def _bordered(input: Tensor, amounts: Numbers, mode: str) -> Tensor:
    """input with a border from itself: its parts along the outermost dimension, each with a border along the others."""
    if not amounts:
        return input
    d = input.ndim - len(amounts) // 2
    left, right = amounts[-2:]
    parts = [views.slice_dim(input, d, max(-left, 0), input.shape[d] - max(-right, 0))]
    source = parts[0] if mode == "circular" else input  # PyTorch wraps what has been cut, and mirrors what has not
    if left > 0:
        parts.insert(0, _border(source, d, left, mode, False))
    if right > 0:
        parts.append(_border(source, d, right, mode, True))
    return index.cat.call([_bordered(part, amounts[:-2], mode) for part in parts], d)


pad_op = SpatialOp("pad", _pad, numbers=("value",), shapes=("amounts",))
pad_op.lays_out, pad_op.follows = (lambda arguments: arguments[2] != "circular"), True
pad_op.saved_by = ()  # the gradient, though derived, reads sizes alone
pad_op.formal = Formal((0,), mode=(2, ("reflect", "replicate")))


@converting
def mirrored(input: Tensor, amounts: Any, mode: str, value: Any) -> Tensor:
    """A border of what lies inside."""
    return pad_op.call(input, amounts, mode, value)


def _check_borders(input: Tensor, amounts: Numbers, mode: str) -> None:
    """The errors of modes that take elements from the tensor itself."""
    spatial = len(amounts) // 2
    if spatial not in (1, 2, 3) or input.ndim not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {len(amounts)} is not supported for {input.ndim}D input tensor: the mode {mode} pads the "
            "last dimension of 2D or 3D, the last two of 3D or 4D, the last three of 4D or 5D tensors"
        )
    if mode == "reflect" and input.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"reflection_pad{spatial}d\" not implemented for 'Bool'")
    if mode != "circular" and any(d == 0 for d in input.shape[-spatial - 1 :]):
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    for number in range(spatial):
        d = input.ndim - 1 - number
        pair = amounts[2 * number : 2 * number + 2]
        size = input.shape[d]
        if mode == "reflect" and any(p >= size for p in pair):
            raise RuntimeError(
                f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"{pair} at dimension {d} of input {list(input.shape)}"
            )
        if mode == "circular" and any(p > size for p in pair):
            raise RuntimeError(
                f"Padding value causes wrapping around more than once: padding {pair} at dimension {d} of input "
                f"{list(input.shape)}"
            )
        if mode == "replicate" and size == 0:
            raise RuntimeError(f"replication_pad{spatial}d: cannot take an edge of input {list(input.shape)}")


def _cut_within(input: Tensor, amounts: Numbers) -> Numbers:
    """Cuts of no more than there is: one of more leaves a border of the other side's edge, so much narrower."""
    found: list[Any] = []
    for number in range(len(amounts) // 2):
        before, after, size = *amounts[2 * number : 2 * number + 2], input.shape[input.ndim - 1 - number]
        if before < -size:
            before, after = -size, after + before + size
        elif after < -size:
            before, after = before + after + size, -size
        found += before, after
    return tuple(found)


@planned
def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Plan:
    """A border: (left, right) of the last dimension, then of the one before it, and so on; negative numbers cut.

    `mode` is "constant" (of `value`), "reflect", "replicate" or "circular"; all but the first pad one to three spatial
    dimensions. Raises RuntimeError for paddings that do not fit, NotImplementedError for modes that are none.
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    amounts = tuple(p if isinstance(p, SymbolicInt) else operator.index(p) for p in pad)
    if len(amounts) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but is {len(amounts)}")
    if len(amounts) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(amounts)} and input of dimension {input.ndim}"
        )
    if mode != "constant":
        if value is not None and value != 0:
            raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
        _check_borders(input, amounts, mode)
    if mode == "replicate":
        amounts = _cut_within(input, amounts)
    for number in range(len(amounts) // 2):
        before, after, size = amounts[2 * number], amounts[2 * number + 1], input.shape[input.ndim - 1 - number]
        if min(before, after) < -size or size + before + after < 0 or (size == 0 and (before < 0 or after < 0)):
            raise RuntimeError(f"pad: padding {list(amounts)} leaves less than nothing of input {list(input.shape)}")
    if isinstance(value, complex):
        raise TypeError("pad(): argument 'value' must be float, not complex")
    if value is not None:
        check_fit(number := to_float(value), input.dtype)
        value = number if input.dtype.is_differentiable else value
    function = mirrored if mode in ("reflect", "replicate") else pad_op.call
    return function, (input, amounts, mode, 0 if value is None else value)
