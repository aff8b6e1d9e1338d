"""What an operator's table knows arguments by: the words that native code makes too (`native/operators.py`)."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from eagerjit.runtime import dtypes
from eagerjit.runtime.binding import bound, is_tensor
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.native.agreed import (
    EXPONENT_BIAS,
    FLOATS,
    HASH_FACTOR,
    HASH_SEED,
    INT_LIMIT,
    INTS,
    KIND_FLOAT,
    KIND_INT,
    KIND_LARGE,
    LARGEST_BFLOAT16,
    MAX_KEY_NDIM,
    NOT_FINITE,
    SIZES,
    TENSORS,
)

_CODES = {d.numpy: d.code for d in dtypes.HELD}
NUMBER_KINDS = (float, int)


def settled(argument: Any) -> Any:
    """An argument that nobody changes later: a tuple for a list."""
    return tuple(argument) if type(argument) is list else argument


def holds_tensors(argument: tuple[Any, ...]) -> bool:
    return len(argument) > 0 and is_tensor(argument[0])


def is_option(argument: object) -> bool:
    """Whether an argument is a tuple of numbers, bools and None, known by its value."""
    return type(argument) is tuple and all(map(_option_word, argument))


def _option_word(thing: object) -> int:
    """The word of None, a bool, or a number that is known by its value; 0 for anything else."""
    return id(thing) if thing is None or type(thing) is bool else value_word(thing)


def flat(arguments: tuple[Any, ...], leaves: tuple[int, ...]) -> tuple[Any, ...]:
    """The leaves one by one; of sizes those that are over 1."""
    parts = [arguments[i] if isinstance(arguments[i], tuple) else (arguments[i],) for i in leaves]
    several = [isinstance(arguments[i], tuple) for i in leaves]
    return tuple(
        x
        for part, many in zip(parts, several, strict=True)
        for x in part
        if not many or is_tensor(x) or x > 1
    )


SINGLETONS: set[type] = set()
"""Classes of the layers above whose few instances live as long as the process."""


def key_word(argument: Any, is_number: bool, sizes: bool = False) -> int:
    """What an operator's table knows an argument by; 0 where only Python can serve it.

    For a Tensor, from the low bits on: dtype code (4), dimensions (3), C-contiguous (1), then 2 bits per dimension: its
    extent up to 2; from bit 16 on 1 and the number of its device.
    """
    if isinstance(argument, tuple) and (sizes or holds_tensors(argument)):
        return _digest(argument, sizes)
    if is_option(argument):
        return id(known) if (known := _like(argument)) is not None else 0
    if not is_tensor(argument):
        if is_number and type(argument) in NUMBER_KINDS:
            return KIND_INT if type(argument) is int else _float_kind(argument)
        return value_word(argument) or id(argument)
    array = argument._data
    place = _place(array)
    if place < 0 or array.ndim > MAX_KEY_NDIM or array.dtype not in _CODES:
        return 0
    word = place << 16 | _CODES[array.dtype] | array.ndim << 4 | array.flags.c_contiguous << 7
    for axis, extent in enumerate(array.shape):
        word |= min(extent, 2) << (8 + 2 * axis)
    return word


def _float_kind(value: float) -> int:
    """Whether a run-time float is one that floats of 16 and 32 bits may lack."""
    return KIND_LARGE if LARGEST_BFLOAT16 < abs(value) < math.inf else KIND_FLOAT


def _place(array: Any) -> int:
    """0 for an array of the host, one more than its number for memory of a device, -1 for anything else."""
    if type(array) is np.ndarray:
        return 0
    return getattr(array.memory, "place", -1) if type(array) is DeviceArray else -1


def _like(option: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The one that stands for all options of these types and values; None where there is none yet."""
    words = list(map(_option_word, option))
    return next((x for x in bound.options.get(option, ()) if list(map(_option_word, x)) == words), None)


def keep_option(option: tuple[Any, ...]) -> None:
    """Makes an option the one that stands for all like it, unless there is one."""
    if _like(option) is None:
        bound.options[option] = (*bound.options.get(option, ()), option)


def value_word(argument: object) -> int:
    """The word of an exact int or float that is known by its value; 0 for anything else."""
    if type(argument) is int:
        return INTS | (argument & (INTS - 1)) if -INT_LIMIT <= argument < INT_LIMIT else 0
    if type(argument) is not float:
        return 0
    (bits,) = struct.unpack("<Q", struct.pack("<d", argument))
    sign, fraction, exponent = bits >> 63, bits & (2**52 - 1), (bits >> 52 & 2047) - EXPONENT_BIAS
    if exponent == 2047 - EXPONENT_BIAS:
        exponent = NOT_FINITE
    elif argument == 0:
        exponent = 0
    elif not 0 < exponent < NOT_FINITE:
        return 0
    return FLOATS | sign << 61 | exponent << 52 | fraction


def _digest(argument: tuple[Any, ...], sizes: bool) -> int:
    """The word of a tuple of Tensors or of run-time sizes; 0 where it is neither."""
    mixed = HASH_SEED ^ len(argument)
    for x in argument:
        if sizes:
            word = min(x, 2) if type(x) is int and x >= 0 else -1
        else:
            word = key_word(x, False) if is_tensor(x) else 0
        if word < 0 or (word == 0 and not sizes):
            return 0
        mixed = ((mixed ^ word) * HASH_FACTOR) & (2**64 - 1)
    return _signed(mixed >> 2 | (SIZES if sizes else TENSORS % 2**64))


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def hash_of(key: tuple[int, ...]) -> int:
    mixed = HASH_SEED
    for word in key:
        mixed = ((mixed ^ word) * HASH_FACTOR) & (2**64 - 1)
    return mixed >> 32
