"""Many tensors joined by copies: lists of ever other lengths and sizes would each be compiled for one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler.shapes import inverse
from eagerjit.debug import CHECKS
from eagerjit.recording.channels_last import array_lies_last, last_order
from eagerjit.tensors.tensor import Parameter, Tensor, new_tensor

_MANY, _OFTEN = 8, 16
"""Tensors that are many, and calls of one kind after which a program is worth what compiling it takes."""

_MOST_KINDS = 4096
_COPIED = "biufc"


class Copies:
    """What computes the first calls of a kind, `join(arguments)`, and counts them."""

    def __init__(self, join: Callable[[tuple[Any, ...]], Tensor | None]):
        self.join = join
        self.counts: dict[Any, int] = {}

    def __call__(self, key: Any, arguments: tuple[Any, ...]) -> Tensor | None:
        """The result; None for calls that get a program."""
        made = self.join(arguments) if self.counts.get(key, 0) < _OFTEN else None
        if made is not None:
            if len(self.counts) >= _MOST_KINDS:
                self.counts.clear()
            self.counts[key] = self.counts.get(key, 0) + 1
        return made


def concatenated(arguments: tuple[Any, ...]) -> Tensor | None:
    """`cat(tensors, dim)` as NumPy copies them; None for few tensors, for misfits, and off the CPU."""
    arrays, dim = _arrays(arguments[0]), arguments[1]
    rank = arrays[0].ndim if arrays else 0
    if arrays is None or type(dim) is not int or not -rank <= dim < rank:
        return None
    dim %= rank
    others = {a.shape[:dim] + a.shape[dim + 1 :] for a in arrays}
    if len(others) > 1 or len({a.ndim for a in arrays}) > 1:
        return None
    shape = list(arrays[0].shape)
    shape[dim] = sum(a.shape[dim] for a in arrays)
    return _joined(np.concatenate, arrays, dim, shape)


def stacked(arguments: tuple[Any, ...]) -> Tensor | None:
    """`stack(tensors, dim)` in the same way."""
    arrays, dim = _arrays(arguments[0]), arguments[1]
    rank = arrays[0].ndim + 1 if arrays else 0
    if arrays is None or type(dim) is not int or not -rank <= dim < rank or len({a.shape for a in arrays}) > 1:
        return None
    dim %= rank
    shape = list(arrays[0].shape)
    shape.insert(dim, len(arrays))
    return _joined(np.stack, arrays, dim, shape)


def _arrays(tensors: Any) -> list[np.ndarray] | None:
    """The arrays of many tensors of one dtype on the CPU."""
    if CHECKS or type(tensors) not in (tuple, list) or len(tensors) < _MANY:
        return None
    if not all(type(x) in (Tensor, Parameter) and type(x._data) is np.ndarray for x in tensors):
        return None
    dtype = tensors[0]._data.dtype
    alike = dtype.kind in _COPIED and all(x._data.dtype == dtype for x in tensors)
    return [x._data for x in tensors] if alike else None


def _joined(join: Callable[..., Any], arrays: list[np.ndarray], dim: int, shape: list[int]) -> Tensor:
    if join is np.concatenate and all(map(array_lies_last, arrays)):
        order = last_order(len(shape))
        made = np.empty([shape[d] for d in order], arrays[0].dtype).transpose(inverse(order))
    else:
        made = np.empty(shape, arrays[0].dtype)
    join(arrays, axis=dim, out=made)
    return new_tensor(made)
