"""Tables of vectors as PyTorch's main namespace reads them: the table first, modes as numbers."""

from __future__ import annotations

from eagerjit.autograd.modes import no_grad
from eagerjit.nn import embeddings
from eagerjit.tensors.creation import empty_like
from eagerjit.tensors.tensor import Tensor

_MODES = ("sum", "mean", "max")


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of weight by number; the row `padding_idx` gets no gradient, and a negative one is none."""
    padding = padding_idx if 0 <= padding_idx < weight.shape[0] else None
    return embeddings.embedding(indices, weight, padding, None, 2.0, scale_grad_by_freq, sparse)


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(sums, means or maxima by bag; the bag of each element; sizes of bags; the rows that hold the maxima).

    The mode is 0 for sums, which know of no bags and sizes, 1 for means and 2 for maxima.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    if per_sample_weights is not None and mode != 0:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    indices = indices.reshape(-1)
    found = embeddings.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, _MODES[mode], sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )  # fmt: skip
    bag, bags = embeddings.bag_numbers(indices.shape[0], offsets, include_last_offset)
    bag, none = bag.to(offsets.dtype), offsets.new_zeros(bags)
    if mode == 0:
        return found, bag if padding_idx is not None else bag[:0], none, none.clone()
    counted = empty_like(bag).fill_(1) if padding_idx is None else (indices != padding_idx).to(bag.dtype)
    sizes = none.index_add(0, bag, counted)
    if mode == 1:
        return found, bag, sizes, sizes.clone()
    return found, bag, sizes, _rows_of_maxima(weight, indices, offsets, include_last_offset, padding_idx)


@no_grad()
def _rows_of_maxima(
    weight: Tensor, indices: Tensor, offsets: Tensor, include_last_offset: bool, padding_idx: int | None
) -> Tensor:
    """(bags, features) numbers of rows, 0 for bags without elements."""
    numbers, valid = embeddings.padded_bags(indices, offsets, include_last_offset, padding_idx)
    rows = weight.take_rows(numbers).where(valid.unsqueeze(-1), -float("inf"))
    return numbers.gather(1, rows.argmax(1)).where(valid.any(1).unsqueeze(-1), 0).to(offsets.dtype)
