"""From a list of samples to a batch."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from eagerjit import creation
from eagerjit.ops import index
from eagerjit.runtime import dtypes
from eagerjit.tensor import Tensor, is_asked, new_tensor

np_str_obj_array_pattern = re.compile(r"[SaUO]")
"""What arrays' types have in them that become no tensors, under PyTorch's name."""


def default_convert(data: Any) -> Any:
    """Arrays in nested data as tensors, the rest as it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if np_str_obj_array_pattern.search(data.dtype.str) else creation.as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return list(map(default_convert, data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence(data, list(map(default_convert, data)))
    return data


def default_collate(batch: Any) -> Any:
    """A batch from a list of samples.

    Tensors and arrays are stacked, numbers become tensors, strings stay lists; mappings and sequences are collated key
    by key and position by position. Raises TypeError for samples of other kinds.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if isinstance(first, np.ndarray) and not np_str_obj_array_pattern.search(first.dtype.str):
        return _stacked([creation.as_tensor(b) for b in batch])
    if isinstance(first, np.generic) and first.dtype.kind in "biuf" and not isinstance(first, float):
        return creation.as_tensor(np.asarray(batch))
    if isinstance(first, float):
        return creation.tensor(batch, dtype=dtypes.float64)
    if isinstance(first, int):
        return creation.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _sequence(first, columns)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found " + str(type(first))
    )


def _stacked(samples: Sequence[Tensor]) -> Tensor:
    """`stack`; by NumPy, which compiles nothing, where it comes to the same."""
    first = samples[0]
    alike = all(type(s._data) is np.ndarray and s.dtype is first.dtype and not s._requires_grad for s in samples)
    if not alike or any(is_asked(type(s)) or s.shape != first.shape for s in samples):
        return index.stack(list(samples), 0)
    return new_tensor(np.stack([s._data for s in samples]))


def _mapping(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """A mapping of the class of another, a plain dictionary where that cannot be."""
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)
            made.update(values)
            return made
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _sequence(like: Sequence[Any], values: list[Any]) -> Any:
    """A sequence of the class of another, a list where that cannot be."""
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)
            made[:] = values
            return made
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:
        return values
