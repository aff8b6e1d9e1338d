"""Attention whose scores and masks are functions of positions.

Both kinds of function are written for one position, `score_mod(score, b, h, q_idx, kv_idx)` and
`mask_mod(b, h, q_idx, kv_idx)`, and may index tensors of their surroundings. They are mapped over all positions by
`vmap`; within a compiled function everything becomes part of its kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from eagerjit.func import vmap
from eagerjit.tensors.creation import arange, zeros
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128
Mod = Callable[..., Tensor]
_Listed = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


class AuxRequest(NamedTuple):
    """What `flex_attention` returns besides: the logarithm of the softmax's sums, the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an AuxRequest, None for the rest."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _identity(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    """The score itself."""
    return score


def noop_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    """A mask that hides nothing."""
    return b.new_ones((), dtype=bool)


def and_masks(*mask_mods: Mod) -> Mod:
    """A mask that shows what all of these show."""
    return _combined(mask_mods, lambda x, y: x & y, True)


def or_masks(*mask_mods: Mod) -> Mod:
    """A mask that shows what any of these shows."""
    return _combined(mask_mods, lambda x, y: x | y, False)


def _combined(mask_mods: tuple[Mod, ...], combine: Callable[[Tensor, Tensor], Tensor], start: bool) -> Mod:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=bool)
        for mod in mask_mods:
            result = combine(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask_mod


def _mapped(mod: Mod, scores: bool) -> Mod:
    """A function of one position as one of (batch, heads, queries, keys)."""
    first = (0,) if scores else ()
    mapped = mod
    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        mapped = vmap(mapped, in_dims=(*first, *axes))
    return mapped


def create_mask(mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """What a mask_mod says of every position, of shape (B, H, Q_LEN, KV_LEN); None for B or H counts as 1."""
    positions = (arange(n, device=device) for n in (B or 1, H or 1, Q_LEN, KV_LEN))
    mask = _mapped(mod_fn, False)(*positions)
    return mask.bool().expand(B or 1, H or 1, Q_LEN, KV_LEN)


class BlockMask:
    """Which positions a mask_mod shows, and which blocks of queries and keys hold any of them.

    kv_num_blocks, kv_indices   of every block of queries: how many blocks of keys it sees in part, and which come first
    full_kv_num_blocks, ...     the same for blocks that are seen as a whole
    """

    def __init__(self, mask: Tensor, mask_mod: Mod, block_size: tuple[int, int], listed: _Listed | None = None):
        self.mask, self.mask_mod, self.BLOCK_SIZE = mask, mask_mod, block_size
        self.seq_lengths = (mask.shape[-2], mask.shape[-1])
        self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices = listed or self._blocks()
        self.q_num_blocks, self.q_indices = _turned(self.kv_num_blocks, self.kv_indices)
        self.full_q_num_blocks, self.full_q_indices = _turned(self.full_kv_num_blocks, self.full_kv_indices)

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None, seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
        **order: Any,
    ) -> BlockMask:  # fmt: skip
        """The BlockMask that shows what `mask_mod` does in some blocks, and all of others.

        kv_num_blocks, kv_indices   of every block of queries: how many blocks of keys it sees in part, and which
        full_kv_num_blocks, ...     the same for blocks that it sees as a whole
        seq_lengths                 numbers of queries and keys; those of whole blocks otherwise

        Raises RuntimeError for `kv_indices` of less than two dimensions, AssertionError for one of the full ones alone.
        """
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
        *batch, rows, columns = kv_indices.shape
        queries, keys = seq_lengths or (rows * size[0], columns * size[1])
        examples, heads = [1, 1, *batch][-2:]
        shown = create_mask(mask_mod or noop_mask, examples, heads, queries, keys, kv_indices.device)
        mask = shown.view(*batch, queries, keys) & _spread(_set(kv_num_blocks, kv_indices), size, queries, keys)
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            mask = mask | _spread(_set(full_kv_num_blocks, full_kv_indices), size, queries, keys)
        listed = kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices
        made = cls(mask, mask_mod or noop_mask, size, listed)
        if not compute_q_blocks:
            made.q_num_blocks = made.q_indices = made.full_q_num_blocks = made.full_q_indices = None
        return made

    def _blocks(self) -> _Listed:
        """The blocks that are seen in part, and those that are seen as a whole."""
        rows, columns = self.BLOCK_SIZE
        queries, keys = self.seq_lengths
        batch, blocks = self.mask.shape[:-2], (-(-queries // rows), -(-keys // columns))
        padded = zeros(*batch, blocks[0] * rows, blocks[1] * columns, device=self.mask.device).int()
        padded[..., :queries, :keys] = self.mask.int()
        seen = padded.view(*batch, blocks[0], rows, blocks[1], columns).sum((-3, -1))
        whole = rows * columns
        return (*_listed((seen > 0) & (seen < whole)), *_listed(seen == whole))

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return tuple(self.mask.shape)

    def to_dense(self) -> Tensor:
        """1 for every block of which anything is seen."""
        seen = _set(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            seen = seen | _set(self.full_kv_num_blocks, self.full_kv_indices)
        return seen.int()

    def numel(self) -> int:
        """The number of positions."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Percent of blocks that are hidden as a whole."""
        dense = self.to_dense()
        return 100.0 * (1.0 - float(dense.sum()) / dense.numel())

    def to(self, device: Any) -> BlockMask:
        """The mask on a device."""
        return self._with(lambda part: part.to(device))

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some of the batch, and of some heads."""
        indices = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in indices)
        return self._with(lambda part: part[kept])

    def _with(self, change: Callable[[Tensor], Tensor]) -> BlockMask:
        parts = self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices
        first, second, third, fourth = (None if part is None else change(part) for part in parts)
        assert first is not None and second is not None
        return BlockMask(change(self.mask), self.mask_mod, self.BLOCK_SIZE, (first, second, third, fourth))

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, block size {self.BLOCK_SIZE})"


def _set(numbers: Tensor, indices: Tensor) -> Tensor:
    """Which blocks of each row are listed."""
    columns = arange(indices.shape[-1], device=indices.device)
    return ((indices[..., None] == columns) & (columns[:, None] < numbers[..., None, None])).any(-2)


def _spread(blocks: Tensor, size: tuple[int, int], queries: int, keys: int) -> Tensor:
    """What is said of blocks, of the positions in them."""
    return blocks.repeat_interleave(size[0], -2).repeat_interleave(size[1], -1)[..., :queries, :keys]


def _turned(numbers: Tensor | None, indices: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The rows listed of each column, where columns are listed of each row."""
    return (None, None) if numbers is None or indices is None else _listed(_set(numbers, indices).mT)


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many are set in each row, and the columns, those that are set first."""
    order = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1).int(), order.int()


def create_block_mask(
    mask_mod: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False, **options: Any,
) -> BlockMask:  # fmt: skip
    """The BlockMask of a mask_mod for these numbers of examples, heads, queries and keys."""
    size = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, size)


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Mod | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(query @ key^T * scale)) @ value, for tensors of shape (batch, heads, length, size).

    Positions that `block_mask` hides count for nothing; a query that sees none gives zeros. With `enable_gqa` groups
    of heads of the query share one of key and value. Raises ValueError for shapes that do not fit.
    """
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if enable_gqa and query.shape[1] % key.shape[1]:
        heads = f"{query.shape[1]} and {key.shape[1]}"
        raise ValueError(f"heads of the query must be a multiple of those of the key, but there are {heads}")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.shape[1]} and "
            f"Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query.float() @ key.float().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    batch, heads, queries, keys = scores.shape
    if score_mod is not None:
        positions = [arange(n, device=query.device) for n in (batch, heads, queries, keys)]
        scores = _mapped(score_mod, True)(scores, *positions).float()
    if block_mask is not None:
        shown = block_mask.mask[..., :queries, :keys]
        if shown.shape[-2:] != scores.shape[-2:]:
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={queries} and "
                f"kv_len={keys}."
            )
        scores = scores.masked_fill(~shown, -math.inf)
    largest = scores.detach().amax(-1, keepdim=True)
    weights = (scores - largest.masked_fill(largest == -math.inf, 0.0)).exp()
    total = weights.sum(-1, keepdim=True)
    out = ((weights / total.masked_fill(total == 0, 1.0)).to(value.dtype) @ value).to(query.dtype)
    if not return_lse and return_aux is None:
        return out
    lse = (total.log() + largest.masked_fill(largest == -math.inf, 0.0)).squeeze(-1)
    if return_aux is None:
        return out, lse
    return out, AuxOutput(lse if return_aux.lse else None, largest.squeeze(-1) if return_aux.max_scores else None)
