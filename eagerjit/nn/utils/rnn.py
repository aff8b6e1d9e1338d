"""Sequences of different lengths: padded to one length, or packed without padding, step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

from eagerjit.devices import CPU
from eagerjit.ops.counted import measured, nonzero
from eagerjit.ops.index import cat
from eagerjit.ops.views import transpose
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.from_data import as_tensor
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Any
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences without padding: `data` holds all first elements, then all second ones, and so on, longest first.

    batch_sizes         how many sequences each step has, int64
    sorted_indices      the sequences' numbers from the longest to the shortest, None if they came in this order
    unsorted_indices    the inverse of that
    """

    __slots__ = ()

    def __new__(
        cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:  # fmt: skip
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor) -> PackedSequence:
        return PackedSequence(data, *self[1:])

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data converted as `Tensor.to` does; the sequences' numbers go where the data do, sizes stay."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return PackedSequence(data, self.batch_sizes, *(None if x is None else x.to(data.device) for x in self[2:]))

    def cpu(self) -> PackedSequence:
        """The sequences on the host."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> PackedSequence:
        """The sequences on a CUDA device, this thread's unless it is given."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def double(self) -> PackedSequence:
        """The data in float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """The data in float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """The data in float16."""
        return self.to(dtypes.float16)

    def pin_memory(self) -> PackedSequence:
        """The sequences in pinned memory, which devices read while the host goes on."""
        pinned = (None if x is None else x.pin_memory() for x in self[2:])
        return PackedSequence(self.data.pin_memory(), self.batch_sizes, *pinned)

    def is_pinned(self) -> bool:
        """Whether the data lie in pinned memory."""
        return self.data.is_pinned()  # type: ignore[no-any-return]

    @property
    def is_cuda(self) -> bool:
        """Whether the data lie on a CUDA device."""
        return self.data.is_cuda  # type: ignore[no-any-return]


def step_sizes(packed: PackedSequence) -> Any:
    """How many sequences each step has: a list of numbers, in a trace a tensor."""
    return packed.batch_sizes.tolist() if state.tracer is None else packed.batch_sizes


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    if permutation is None:
        return None
    positions = arange(permutation.shape[0], device=permutation.device)
    return permutation.new_zeros(permutation.shape).scatter(0, permutation, positions)


def _is_held(steps: Any, lengths: Tensor) -> Tensor:
    """Which places of a table (steps, sequences) hold data; lengths never grow."""
    return arange(steps, device=lengths.device).unsqueeze(1) < lengths


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack (steps, batch, ...), or (batch, steps, ...) with `batch_first`; `lengths` says how much of each is data.

    With `enforce_sorted` the longest sequence must come first. Raises RuntimeError for lengths that do not fit.
    """
    lengths = lengths.to(dtypes.int64) if isinstance(lengths, Tensor) else as_tensor(lengths, dtypes.int64, CPU)
    if not lengths.is_cpu:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D {lengths.device} Long tensor"
        )
    input = transpose(input, 0, 1) if batch_first else input
    order = None
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True, stable=True)
        order = order.to(input.device)
        input = input.index_select(1, order)
    steps, batch = input.shape[:2]
    if lengths.shape[0] != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} (batch_size={batch})"
        )
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if not passes((lengths > 0).all()):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if enforce_sorted and not passes((lengths[:-1] >= lengths[1:]).all()):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement."
        )
    longest = measured(lengths[0], "the longest sequence has so many steps")
    if longest > steps:
        raise RuntimeError(f"Expected lengths of at most {steps} steps, but got {longest}")
    held = _is_held(longest, lengths)
    places = nonzero(held.reshape(-1)).reshape(-1).to(input.device)
    table = input.reshape(steps * batch, *input.shape[2:])
    return PackedSequence(table.index_select(0, places), held.sum(1), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded sequences (steps, batch, ...), their lengths), the inverse of `pack_padded_sequence`.

    Raises ValueError if `total_length` is less than the longest sequence.
    """
    data, sizes = sequence.data, sequence.batch_sizes
    steps, batch = sizes.shape[0], measured(sizes[0], "the first step has so many sequences")
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    lengths = (sizes.unsqueeze(1) > arange(batch, device=sizes.device)).sum(0)
    held = _is_held(steps, lengths).reshape(-1)
    source = (held.cumsum(0) - 1).where(held, data.shape[0])
    padding = data.new_full((1, *data.shape[1:]), padding_value)
    table = cat.call([data, padding], 0).index_select(0, source.to(data.device))
    out = table.reshape(steps, batch, *data.shape[1:])
    if sequence.unsorted_indices is not None:
        out = out.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return transpose(out, 0, 1) if batch_first else out, lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences (length, ...) of different lengths as one tensor (longest, count, ...), or (count, longest, ...)."""
    if not isinstance(batch_first, int):
        kind = type(batch_first).__name__
        raise TypeError(f"pad_sequence(): argument 'batch_first' (position 2) must be bool, not {kind}")
    if isinstance(sequences, str):
        raise TypeError("pad_sequence(): argument 'sequences' (position 1) must be tuple of Tensors, not str")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, (list, tuple)):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if any(s.ndim == 0 for s in sequences):
        raise RuntimeError("pad_sequence: Expected sequences with at least one dimension")
    longest = max(int(s.shape[0]) for s in sequences)
    first = sequences[0]
    padding = first.new_full((longest - min(int(s.shape[0]) for s in sequences), *first.shape[1:]), padding_value)
    parts = []
    for s in sequences:
        missing = longest - int(s.shape[0])
        gap = [padding[:missing]] if missing else []
        parts += [*gap, s] if padding_side == "left" else [s, *gap]
    padded = cat.call(parts, 0).view(len(sequences), longest, *first.shape[1:])
    return padded if batch_first else padded.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding."""
    padded = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    counts = [measured(length, "the lengths of sequences are values") for length in lengths.unbind(0)]
    return [row[:count] for row, count in zip(padded.unbind(0), counts, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, ...)."""
    lengths = [int(s.shape[0]) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The packed sequences one by one."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
