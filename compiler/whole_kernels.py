"""Kernel IR for GPUs: statements that are all of a kernel. Memory is a parameter's name, a size that or a number."""

from __future__ import annotations

from eagerjit.runtime.records import record


@record(frozen=True)
class Along:
    """out = op of x along lines of `extent` elements, `inner` apart; a task is a line.

    "add" and "mul" combine all elements up to each, floats in double precision. With `totals` programs share a line:
    there is what each piece comes to, of PIECE elements or more. Without `out` those are computed. Products of floats
    are factors from 1 to 2 there, and `powers` has the powers of 2 that belong to them.
    """

    out: str
    x: str
    op: str
    extent: int | str
    inner: int | str
    dtype: str
    totals: str = ""
    powers: str = ""


@record(frozen=True)
class Search:
    """A search (`ops/searches.py`) as all of a kernel: `memory` is its result, then its inputs.

    "search", "search right"         sizes: elements and values per row; a task is a value
    "running max", "running min", "recurrence"   sizes: elements per line, how far apart; a task is a line. More memory,
        if there is any, has what pieces come to; "ahead" behind these: that is the result (as of `Along`)
    "count flags"                    sizes: flags; a task counts those of FLAGS that hold
    "positions"                      sizes: flags, and how many hold; a task is FLAGS of them, and reads those counts,
        of PIECE counts or more one of their sums so far
    """

    op: str
    memory: tuple[str, ...]
    sizes: tuple[int | str, ...]
    dtype: str


@record(frozen=True)
class Weighted:
    """Weighted rows (`ops/sparse.py`) as all of a kernel; a task is a row of out, of so many `columns`."""

    out: str
    weights: str
    x: str
    starts: str
    places: str
    columns: int | str
    entries: int | str
    dtype: str


@record(frozen=True)
class Sort:
    """A step of finding where the first `count` elements of lines of x are in order: sorted runs of `run` elements.

    Without `source`, (keys, places) in memory, runs are made of x; else of runs of `part` elements there. What is
    not sorted yet after this step goes to `target`, the same; the rest to out.
    """

    out: str
    x: str
    op: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    part: int
    run: int
    extent: int | str
    inner: int | str
    count: int | str
    dtype: str


@record(frozen=True)
class Convolution:
    """One of a convolution's three tensors from the others: `result` is "y", "x" or "w"; a task is a group.

    `sizes` are images, and channels and rows per group; `spatial` per dimension, the outermost of three first, input,
    kernel, output, stride, padding and dilation. All memory is contiguous; `last`: of what is multiplied, without
    groups, after the channels for "y", or the rows of w for "x", have become the last dimension.
    """

    result: str
    x: str
    w: str
    y: str
    sizes: tuple[int | str, ...]
    spatial: tuple[tuple[int | str, ...], ...]
    dtype: str
    last: bool = False


@record(frozen=True)
class Attention:
    """Attention ("forward") or gradients of it ("query", "key_value") for a block of rows, of keys; a task is a head.

    q, k, v and what else there is of mask, out, lse, g, delta, dq, dk and dv are matrices, or columns of numbers, of
    every head: `memory` has for each its name here, its parameter, the steps along its two dimensions and along
    `batch`. `sizes` are rows, keys, and features of q and of v.
    """

    kind: str
    memory: tuple[tuple[str, str, tuple[int | str, ...]], ...]
    sizes: tuple[int | str, ...]
    batch: tuple[int | str, ...]
    causal: bool
    scale: float
    dtype: str


@record(frozen=True)
class Matrices:
    """What a function of small matrices computes (`lower/matrices.py`), as all of a kernel; a task is a matrix.

    `memory` has (NAME, PARAM) of its inputs and of those results that are wanted.
    """

    op: str
    memory: tuple[tuple[str, str], ...]
    sizes: tuple[int | str, ...]
    numbers: tuple[float, ...]


@record(frozen=True)
class Joined:
    """What `Ordered` left in `parts` combined with rows of out, as all of a kernel; a task is a piece but the first.

    `sizes` are out's rows, entries and columns.
    """

    op: str
    out: str
    keys: str
    order: str
    parts: str
    sizes: tuple[int | str, ...]
    dtype: str
