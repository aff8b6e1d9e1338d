"""What the processes of a group compute together, on contiguous ndarrays of one dimension.

Every process gets the same bits: an element is reduced in one order, and copied from where that was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise

import numpy as np

from eagerjit.distributed.links import Links

SMALL = 1 << 15
"""Bytes up to which every process sends all it has to all others, and adds by itself."""


class ReduceOp(Enum):
    """How values of several processes are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


_COMBINE: dict[ReduceOp, Callable[..., np.ndarray]] = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum, ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip


def _combine(op: ReduceOp, into: np.ndarray, other: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        _COMBINE[op](into, other, out=into)


def _finish(op: ReduceOp, array: np.ndarray, size: int) -> None:
    if op is ReduceOp.AVG:
        array[...] = array // size if array.dtype.kind in "iu" else array / array.dtype.type(size)


def _chunks(array: np.ndarray, count: int) -> list[np.ndarray]:
    bounds = [len(array) * i // count for i in range(count + 1)]
    return [array[a:b] for a, b in pairwise(bounds)]


def all_reduce(links: Links, array: np.ndarray, op: ReduceOp) -> None:
    """Every process's array becomes the reduction of all."""
    if links.size == 1:
        return
    if array.nbytes <= SMALL:
        others = {k: np.empty_like(array) for k in links.peers}
        links.exchange(dict.fromkeys(others, array.copy()), others)
        parts = [array.copy() if k == links.rank else others[k] for k in range(links.size)]
        array[...] = parts[0]
        for part in parts[1:]:
            _combine(op, array, part)
    else:
        chunks = _chunks(array, links.size)
        _reduce_round(links, chunks, op)
        _gather_round(links, chunks)
    _finish(op, array, links.size)


def _reduce_round(links: Links, chunks: Sequence[np.ndarray], op: ReduceOp) -> None:
    """Chunk r of all processes is reduced in process r: each passes on what it has of a chunk with its own added."""
    size, rank = links.size, links.rank
    other = np.empty(max(map(len, chunks)), chunks[0].dtype)
    for step in range(1, size):
        sent, got = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        links.exchange({(rank + 1) % size: sent}, {(rank - 1) % size: other[: len(got)]})
        _combine(op, got, other[: len(got)])


def _gather_round(links: Links, chunks: Sequence[np.ndarray]) -> None:
    """Every process's chunk goes round."""
    size, rank = links.size, links.rank
    for step in range(size - 1):
        sent, got = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        links.exchange({(rank + 1) % size: sent}, {(rank - 1) % size: got})


def reduce(links: Links, array: np.ndarray, op: ReduceOp, root: int) -> None:
    """The root's array becomes the reduction of all; what others have stays."""
    result = array if links.rank == root else array.copy()
    all_reduce(links, result, op)


def broadcast(links: Links, array: np.ndarray, root: int) -> None:
    """Every process's array becomes the root's: those who have it pass it on, twice as many in every step."""
    size = links.size
    place = (links.rank - root) % size
    have = 1
    while have < size:
        if place < have and place + have < size:
            links.exchange({(links.rank + have) % size: array}, {})
        elif have <= place < 2 * have:
            links.exchange({}, {(links.rank - have) % size: array})
        have *= 2


def all_gather(links: Links, outputs: Sequence[np.ndarray], array: np.ndarray) -> None:
    """The outputs become the processes' arrays."""
    outputs[links.rank][...] = array
    _gather_round(links, outputs)


def reduce_scatter(links: Links, output: np.ndarray, inputs: Sequence[np.ndarray], op: ReduceOp) -> None:
    """A process's output becomes the reduction of the inputs of its number."""
    chunks = [a.copy() for a in inputs]
    if links.size > 1:
        _reduce_round(links, chunks, op)
        _finish(op, chunks[links.rank], links.size)
    output[...] = chunks[links.rank]


def gather(links: Links, outputs: Sequence[np.ndarray], array: np.ndarray, root: int) -> None:
    """The root's outputs become the processes' arrays."""
    if links.rank != root:
        links.exchange({root: array}, {})
        return
    outputs[root][...] = array
    links.exchange({}, {k: outputs[k] for k in links.peers})


def scatter(links: Links, output: np.ndarray, inputs: Sequence[np.ndarray], root: int) -> None:
    """A process's output becomes the root's input of its number."""
    if links.rank != root:
        links.exchange({}, {root: output})
        return
    links.exchange({k: inputs[k] for k in links.peers}, {})
    output[...] = inputs[root]


def all_to_all(links: Links, outputs: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
    """Output k becomes process k's input of this one's number."""
    outputs[links.rank][...] = inputs[links.rank]
    links.exchange({k: inputs[k] for k in links.peers}, {k: outputs[k] for k in links.peers})


def barrier(links: Links) -> None:
    """Wait until all processes are here."""
    tokens = {k: np.empty(1, np.uint8) for k in links.peers}
    links.exchange(dict.fromkeys(tokens, np.zeros(1, np.uint8)), tokens)
