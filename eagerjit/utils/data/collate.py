"""From a list of samples to a batch."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import eagerjit
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor, is_asked, new_tensor

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
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """A batch from a list of samples, made by the function that is given for their class or a base of it.

    Samples of no such class that are mappings or sequences are collated key by key and position by position.
    """
    first = batch[0]
    found = None if collate_fn_map is None else _function_for(type(first), collate_fn_map)
    if found is not None:
        return found(batch, collate_fn_map=collate_fn_map)

    def part(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _mapping(first, {key: part([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(part(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [part(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _sequence(first, columns)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found " + str(type(first))
    )


def _function_for(kind: type, functions: Mapping[Any, Any]) -> Any:
    return functions.get(kind) or next((f for base, f in functions.items() if issubclass(kind, base)), None)


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Tensors stacked."""
    return _stacked(batch)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Arrays as tensors, collated. Raises TypeError for those of text or objects."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
            + str(batch[0].dtype)
        )
    return collate([creation.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Numbers of NumPy as a tensor."""
    return creation.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Floats as a tensor of float64."""
    return creation.tensor(batch, dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Integers as a tensor."""
    return creation.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts as they are."""
    return batch


default_collate_fn_map: dict[Any, Any] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""What `default_collate` makes batches with, by the class of the samples."""


def _stacked(samples: Sequence[Tensor]) -> Tensor:
    """`stack`; by NumPy, which compiles nothing, where it comes to the same."""
    first = samples[0]
    if state.tracer is not None:
        return eagerjit.stack(list(samples), 0)
    alike = all(type(s._data) is np.ndarray and s.dtype is first.dtype and not s._requires_grad for s in samples)
    if not alike or any(is_asked(type(s)) or s.shape != first.shape for s in samples):
        return eagerjit.stack(list(samples), 0)
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
