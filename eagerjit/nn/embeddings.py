"""Tables of vectors: read by number, or summed by bags of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.autograd.modes import no_grad
from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import indexing
from eagerjit.nn import init
from eagerjit.nn.module import Module
from eagerjit.ops import counted
from eagerjit.ops.conditions import required
from eagerjit.ops.reduce import norm
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.planned import Plan
from eagerjit.state import state
from eagerjit.tensors.creation import empty, tensor, zeros
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.tensor import Parameter, Tensor

_NEGATIVE, _TOO_LARGE = "Class values must be non-negative.", "Class values must be smaller than num_classes."


def _embedding(
    weight: Tensor, input: Tensor, padding_idx: int | None, by_frequency: bool = False, error: str = "IndexError"
) -> Tensor:
    """Rows of weight; unlike in indexing, numbers do not count from the end. Others raise the error named."""
    return emit(indexing.take_rows, weight, input, error=error)


def _embedding_rule(
    g: Any, out: Any, weight: Any, input: Any, padding_idx: int | None, by_frequency: bool, error: str
) -> Any:
    if padding_idx is not None:
        g = g.where((input != padding_idx).unsqueeze(-1), 0.0)
    if by_frequency:
        counts = g.new_zeros(weight.shape[:1]).add_rows(input, g.new_ones(input.shape))
        g = g / counts.take_rows(input).unsqueeze(-1)
    return g.new_zeros(weight.shape).add_rows(input, g)


_embedding_op = Op("embedding", _embedding, (_embedding_rule, None, None, None, None))


def _looked_up(
    weight: Tensor, input: Tensor, padding_idx: int | None, by_frequency: bool, error: str, sparse: bool
) -> Tensor:
    """Rows of weight; the gradient of one that no operation has made is sparse on request."""
    if sparse and weight._requires_grad and weight._node is None and mode.grad_mode():
        from eagerjit.sparse.lookups import looked_up

        return looked_up(_embedding_op, weight, input, padding_idx, by_frequency, error)
    return _embedding_op.call(weight, input, padding_idx, by_frequency, error)


def _check_numbers(input: Tensor, weight: Tensor, name: str) -> None:
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype} instead (while checking arguments for {name})"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")


def _padding(padding_idx: int | None, weight: Tensor) -> int | None:
    """The padding row, counted from the beginning."""
    if padding_idx is None:
        return None
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return int(padding_idx % int(weight.shape[0]))


@no_grad()
def _renormalise(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are read down to the greatest norm, in place."""
    used = zeros(weight.shape[0], dtype=dtypes.int64, device=weight.device).add_rows(
        input.reshape(-1).long(), input.reshape(-1).long() * 0 + 1
    )
    lengths = norm(weight, norm_type, 1)
    factor = (max_norm / (lengths + 1e-7)).where((used > 0).logical_and(lengths > max_norm), 1.0)
    weight.copy_(weight * factor.unsqueeze(1))


@planned
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Plan:  # fmt: skip
    """Rows of weight by number; the row `padding_idx` gets no gradient.

    `max_norm` first scales the rows read, in place; `scale_grad_by_freq` divides gradients by how often a number came.
    With `sparse` the gradient of a leaf is a sparse tensor of the rows read.
    """
    _check_numbers(input, weight, "embedding")
    padding_idx = _padding(padding_idx, weight)
    if max_norm is None and not sparse:
        return _embedding_op.call, (weight, input, padding_idx, scale_grad_by_freq)
    return _renormalised, (weight, input, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


def _renormalised(
    weight: Tensor, input: Tensor, padding_idx: int | None, max_norm: float | None, norm_type: float,
    by_frequency: bool, sparse: bool,
) -> Tensor:  # fmt: skip
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    return _looked_up(weight, input, padding_idx, by_frequency, "IndexError", sparse)


# -- bags -------------------------------------------------------------------------------------------------------------


def bag_numbers(count: Any, offsets: Tensor, include_last_offset: bool) -> tuple[Tensor, Any]:
    """(the bag of every element, the number of bags)."""
    starts = offsets[:-1] if include_last_offset else offsets
    bags = starts.shape[0]
    marks = zeros(count + 1, dtype=dtypes.int64, device=starts.device).add_rows(starts.long(), starts.long() * 0 + 1)
    return marks.cumsum(0)[:count] - 1, bags


def _reduced(rows: Tensor, valid: Tensor, mode: str) -> Tensor:
    """Rows (bags, elements, features) reduced over elements that are valid; 0 for a bag that has none."""
    mask = valid.unsqueeze(-1)
    if mode == "max":
        largest = rows.where(mask, -float("inf")).max(1)
        return (largest.values if hasattr(largest, "values") else largest).where(valid.any(1).unsqueeze(-1), 0.0)
    total = rows.where(mask, 0.0).sum(1)
    return total if mode == "sum" else total / valid.sum(1).clamp(min=1).unsqueeze(-1).to(rows.dtype)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of rows of weight, by bags: (bags, elements) numbers, or (elements) with bags' `offsets`.

    Elements that are `padding_idx` count for nothing; `per_sample_weights` scale rows (only with mode "sum").
    """
    if input.dtype in (dtypes.int64, dtypes.int32) and weight.dtype in (dtypes.int64, dtypes.int32):
        input, weight = weight, input  # the order of arguments in old programs
    _check_numbers(input, weight, "embedding_bag")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if per_sample_weights is not None:
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must "
                f"have the same shape as the input ({list(input.shape)})"
            )
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                f"(got mode='{mode}')."
            )
    padding = _padding(padding_idx, weight)
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch")
        numbers, valid = input, input != (-1 if padding is None else padding)
    elif input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        if mode != "max":
            rows = _looked_up(weight, input, padding, scale_grad_by_freq, "RuntimeError", sparse)
            return _flat_bags(rows, input, offsets, mode, per_sample_weights, include_last_offset, padding)
        numbers, valid = padded_bags(input, offsets, include_last_offset, padding)
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    rows = _looked_up(weight, numbers, padding, scale_grad_by_freq, "RuntimeError", sparse)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(-1)
    return _reduced(rows, valid, mode)


def _flat_bags(
    rows: Tensor, input: Tensor, offsets: Tensor, mode: str, scales: Tensor | None, include_last_offset: bool,
    padding: int | None,
) -> Tensor:  # fmt: skip
    """Rows (elements, features) added up by bag."""
    bag, bags = bag_numbers(input.shape[0], offsets, include_last_offset)
    rows = rows if scales is None else rows * scales.unsqueeze(-1)
    valid = (input != (-1 if padding is None else padding)).to(rows.dtype)
    rows = rows if padding is None else rows * valid.unsqueeze(-1)
    total = rows.new_zeros((bags, rows.shape[1])).index_add(0, bag, rows)
    if mode == "sum":
        return total
    counts = rows.new_zeros((bags,)).index_add(0, bag, valid)
    return total / counts.clamp(min=1.0).unsqueeze(-1)


def padded_bags(
    input: Tensor, offsets: Tensor, include_last_offset: bool, padding: int | None
) -> tuple[Tensor, Tensor]:
    """(numbers (bags, longest), which of them there are)."""
    starts = offsets.tolist()
    ends = starts[1:] if include_last_offset else [*starts[1:], int(input.shape[0])]
    longest = max((b - a for a, b in zip(starts, ends, strict=False)), default=0) or 1
    last = max(int(input.shape[0]) - 1, 0)
    places = [[min(a + i, last) for i in range(longest)] for a, _ in zip(starts, ends, strict=False)]
    present = [[a + i < b for i in range(longest)] for a, b in zip(starts, ends, strict=False)]
    numbers = input.take_rows(tensor(places, dtype=dtypes.int64))
    valid = tensor(present, dtype=dtypes.bool_)
    return numbers, valid if padding is None else valid.logical_and(numbers != padding)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 vectors with a 1 at each class number: (...) to (..., num_classes), which -1 makes the largest number and
    1.

    Raises RuntimeError for numbers that are not int64, negative, or too large.
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, but got {tensor.dtype}")
    if num_classes == -1:
        return _one_hot.call(tensor, (_classes_in(tensor),))
    if num_classes <= 0:
        _only_any(tensor)
        num_classes = 0
    try:
        return _one_hot.call(tensor, (num_classes,))
    except RuntimeError:
        if state.tracer is None:
            _check_classes(host_array(tensor._data), num_classes)
        raise


def _check_classes(classes: np.ndarray[Any, Any], count: int) -> None:
    """Say what is wrong in PyTorch's words, without the op's name behind them."""
    if classes.min() < 0:
        raise RuntimeError(_NEGATIVE)
    if classes.max() >= count:
        raise RuntimeError(_TOO_LARGE)


def _only_any(tensor: Tensor) -> None:
    if not tensor.numel():
        raise RuntimeError("Can not infer total number of classes from empty tensor.")


def _classes_in(tensor: Tensor) -> Any:
    """The largest number and 1."""
    _only_any(tensor)
    classes = counted.bins(tensor, 0, "the number of classes depends on values")
    if classes < 0:
        raise RuntimeError(_NEGATIVE)
    return classes


def _one_hot_body(input: Tensor, classes: Any) -> Tensor:
    """Zeros, and a 1 at each class number; that one is negative comes before that another is too large."""
    known = required((input >= 0).all().expand(input.shape), input, "RuntimeError", _NEGATIVE)
    known = required(known < classes[0], known, "RuntimeError", _TOO_LARGE)
    return input.new_zeros(*input.shape, *classes).scatter(-1, known.unsqueeze(-1), 1)


_one_hot = Op("one_hot", _one_hot_body, None, differentiable=False, shapes=("classes",))


# -- modules ----------------------------------------------------------------------------------------------------------


class _Table(Module):
    """A table of vectors and how it is read."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, _weight: Tensor | None, freeze: bool,
        device: Any, dtype: Any, **options: Any,
    ):  # fmt: skip
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        for name, value in options.items():
            setattr(self, name, value)
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype), not freeze)
            self.reset_parameters()
            return
        if tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(_weight, not freeze)

    def reset_parameters(self) -> None:
        """Draw the table anew, standard normal; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def _shown(self, **defaults: Any) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += [f"{k}={getattr(self, k)!r}" for k, v in defaults.items() if getattr(self, k) != v]
        return ", ".join(parts)


class Embedding(_Table):
    """A table of vectors, weight (num_embeddings, embedding_dim), read by number: (...) to (..., embedding_dim).

    The row `padding_idx` is 0 at first and gets no gradient; rows whose norm is above `max_norm` are scaled down to it,
    in place, when they are read; with `sparse` weight's gradient is sparse. The table is drawn standard normal. Raises
    IndexError for numbers beyond the table, AssertionError for a `padding_idx` that is none.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype, max_norm=max_norm,
            norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """A table of given vectors, fixed unless `freeze` is False."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        return cls(
            rows, width, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings,
            _freeze=freeze,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        return self._shown(padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, sparse=False)


class EmbeddingBag(_Table):
    """A table of vectors, of which bags of numbers read the sum, mean or maximum; see `nn.functional.embedding_bag`."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype, max_norm=max_norm,
            norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse,
            include_last_offset=include_last_offset,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """A table of given vectors, fixed unless `freeze` is False."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse)
        made = cls(rows, width, *options, embeddings, include_last_offset, padding_idx)
        made.weight.requires_grad_(not freeze)
        return made

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        shown = self._shown(max_norm=None, norm_type=2, scale_grad_by_freq=False)
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{shown}, mode={self.mode!r}{padding}"
