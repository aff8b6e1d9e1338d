"""einsum and tensordot as batched matrix products."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops import views
from eagerjit.state import state
from eagerjit.tensors.mistakes import only_tensors
from eagerjit.tensors.tensor import Tensor

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_LETTERS = _LOWER + _LOWER.upper()


def einsum(equation: Any = None, *operands: Any) -> Tensor:
    """Sums of products by index letters, as in "bij,bjk->bik"; "..." stands for broadcast dimensions.

    Or by numbers: operands each followed by a list of them (and Ellipsis), then that of the result.

    Of repeated letters the diagonal is taken; those that the result lacks are summed over. Raises RuntimeError for an
    equation that does not fit the operands' number, dimensions or sizes, ValueError without operands.
    """
    if not operands:
        raise ValueError("einsum(): must specify the equation string and at least one operand")
    if not isinstance(equation, str):
        equation, operands = _lettered((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if len(operands) == 1:  # without sums, a view
        return _contraction(equation, operands)
    if state.casting is not None or not 1 <= len(operands) <= 3:  # autocast converts what is multiplied
        return _contraction(equation, operands)
    return einsum_op.call(equation, *operands)


def _few(equation: str, first: Tensor, second: Tensor | None = None, third: Tensor | None = None) -> Tensor:
    """Sums of products of up to three tensors, by index letters."""
    return _contraction(equation, [x for x in (first, second, third) if x is not None])


def _contraction(equation: str, tensors: Any) -> Tensor:
    """Sums of products by index letters."""
    only_tensors(tensors)
    inputs, output = _parsed(equation, tensors)
    order = list(dict.fromkeys([*output, *(letter for term in inputs for letter in term)]))
    current, letters = _single(tensors[0], inputs[0])
    for number in range(1, len(tensors)):
        other, more = _single(tensors[number], inputs[number])
        later = zip(tensors[number + 1 :], inputs[number + 1 :], strict=True)
        kept = set(output).union(*(_met(x, names, [*letters, *more]) for x, names in later))
        current, letters = _contracted(current, letters, other, more, kept, order)
    gone = [i for i, letter in enumerate(letters) if letter not in output]
    if gone:
        current = current.sum(tuple(gone))
        letters = [letter for letter in letters if letter in output]
    return current.permute([letters.index(letter) for letter in output])


einsum_op = Op("einsum", _few)
einsum_op.saved_by = (), (2, 3), (1, 3), (1, 2)


def _lettered(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation in letters, and the operands, of arguments with lists of numbers."""
    if not isinstance(arguments[0], Tensor):
        raise TypeError(f"einsum(): the first argument must be a str or a Tensor, not {type(arguments[0]).__name__}")

    def letters(numbers: Any) -> str:
        for n in numbers:
            if n is not Ellipsis and not 0 <= n < len(_LETTERS):
                raise ValueError(f"einsum(): subscript {n} is not within the valid range [0, 52)")
        return "".join("..." if n is Ellipsis else _LETTERS[n] for n in numbers)

    count = len(arguments) // 2
    left = ",".join(letters(arguments[2 * i + 1]) for i in range(count))
    right = f"->{letters(arguments[-1])}" if len(arguments) % 2 else ""
    return left + right, tuple(arguments[2 * i] for i in range(count))


def _parsed(equation: str, tensors: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Per operand its index letters, and those of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    for position, letter in enumerate(left + right):
        if letter not in _LETTERS and letter not in ".,":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {position} in the equation string, subscripts must be in "
                "[a-zA-Z]"
            )
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise RuntimeError(f"einsum(): fewer or more operands ({len(tensors)}) were provided than the equation names")
    free = [c for c in _LETTERS if c not in equation]
    widest = max(
        (x.ndim - len(t.replace("...", "")) for t, x in zip(terms, tensors, strict=True) if "..." in t), default=0
    )
    dots = free[:widest]
    inputs = []
    for term, x in zip(terms, tensors, strict=True):
        count = x.ndim - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term):
            raise RuntimeError(f"einsum(): the number of subscripts in {term!r} does not match {x.ndim} dimensions")
        inputs.append(list(term.replace("...", "".join(dots[len(dots) - count :]))))
    if arrow:
        output = list(right.replace("...", "".join(dots)))
    else:
        counted = [c for term in inputs for c in term]
        output = [*dots, *sorted(c for c in set(counted) if counted.count(c) == 1 and c not in dots)]
    unknown = [c for c in output if not any(c in term for term in inputs)]
    if unknown or len(set(output)) != len(output):
        raise RuntimeError(f"einsum(): output subscripts {''.join(output)!r} do not match the operands")
    return inputs, output


def _single(x: Tensor, letters: list[str]) -> tuple[Tensor, list[str]]:
    """An operand whose letters differ: repeated ones are its diagonal."""
    letters = list(letters)
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(f"einsum(): subscript {letter} is repeated with sizes that differ")
            x = x.diagonal(0, first, second)
            letters = [c for i, c in enumerate(letters) if i not in (first, second)] + [letter]
    return x, letters


def _contracted(
    a: Tensor, left: list[str], b: Tensor, right: list[str], kept: set[str], order: list[str]
) -> tuple[Tensor, list[str]]:
    """The product of two operands, summed over the letters that nothing after needs, and its letters in memory.

    Letters of one operand alone lie in the order of the result; those of the second operand come first where the
    result has them so.
    """
    lasting = kept | _met(b, right, left)
    a, left, b, right = *_summed(a, left, lasting), *_summed(b, right, kept | _met(a, left, right))
    shared = [c for c in order if c in left and c in right]
    batch = [c for c in shared if c in kept]
    inner = [c for c in left if c in shared and c not in kept]
    rows, columns = ([c for c in order if c in own and c not in shared] for own in (left, right))
    if rows and columns and [*columns, *rows] == [c for c in order if c in (*columns, *rows)]:
        a, left, rows, b, right, columns = b, right, columns, a, left, rows
    sizes = _sizes(a, left, b, right)
    first = _ordered(a, left, batch, rows, inner, sizes)
    second = _ordered(b, right, batch, inner, columns, sizes)
    product = first.matmul(second) if inner else first * second  # which promotes them
    letters = [*batch, *rows, *columns]
    return product.reshape([sizes[c] for c in letters]), letters


def _met(x: Tensor, letters: list[str], others: list[str]) -> set[str]:
    """The letters that meet more than one element of this operand: sums over others need none of it."""
    return {c for c, size in zip(letters, x.shape, strict=True) if c in others and size != 1}


def _summed(x: Tensor, letters: list[str], lasting: set[str]) -> tuple[Tensor, list[str]]:
    """The sum over all letters but these; where there is one element, it is its own sum in its own dtype."""
    gone = [i for i, c in enumerate(letters) if c not in lasting]
    summed = tuple(i for i in gone if x.shape[i] != 1)
    if summed:
        x = x.sum(summed, keepdim=True)
    return x.squeeze(tuple(gone)) if gone else x, [c for c in letters if c in lasting]


def _sizes(a: Tensor, left: list[str], b: Tensor, right: list[str]) -> dict[str, Any]:
    sizes = dict(zip(left, a.shape, strict=True))
    for letter, size in zip(right, b.shape, strict=True):
        known = sizes.get(letter, 1)
        if known != 1 and size != 1 and known != size:
            raise RuntimeError(f"einsum(): operands do not broadcast: subscript {letter} has sizes {known} and {size}")
        sizes[letter] = size if known == 1 else known
    return sizes


def _ordered(
    x: Tensor, letters: list[str], batch: list[str], second: list[str], third: list[str], sizes: dict[str, Any]
) -> Tensor:
    """x as (batch..., second flattened, third flattened)."""
    order = [*batch, *second, *third]
    moved = views.permute(x, [letters.index(c) for c in order]).expand([sizes[c] for c in order])
    flat = [math.prod(sizes[c] for c in group) for group in (second, third)]
    return moved.reshape([*(sizes[c] for c in batch), *flat])


def _dimensions_named(dims: Any, a: Tensor, b: Tensor) -> tuple[list[int], list[int]]:
    """The dimensions of each operand that `tensordot` sums over, from the front. Raises as `tensordot` does."""
    if not isinstance(dims, (list, tuple)) or len(dims) != 2:
        raise RuntimeError(f"tensordot expects dims to be int or tuple[list[int], list[int]], but got {dims!r}")
    left, right = ([views.dimension(d, x.ndim) for d in ds] for ds, x in zip(dims, (a, b), strict=True))
    if len(left) != len(right):
        raise RuntimeError(f"tensordot: both dimension lists should have same length, but got {left} and {right}")
    for found in (left, right):
        if len(set(found)) != len(found):
            raise RuntimeError(f"tensordot: a dimension appears multiple times in {found}")
    return left, right


@public
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over the last `dims` dimensions of a and the first of b, or over those named.

    The result has the other dimensions of a, then those of b. Raises RuntimeError for sizes that differ and
    for dimensions named twice, IndexError for those that do not exist.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else dims.__index__()
    if isinstance(dims, int):
        if dims > min(a.ndim, b.ndim) or dims < 0:
            raise RuntimeError(f"tensordot expects dims <= ndim_a or ndim_b, but got {dims=}")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = _dimensions_named(dims, a, b)
    first = list(_LOWER[: a.ndim])
    second = list(_LOWER.upper()[: b.ndim])
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    rest = [c for i, c in enumerate(first) if i not in left] + [c for j, c in enumerate(second) if j not in right]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(rest)}", a, b)
