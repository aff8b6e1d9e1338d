"""What a sample is: a call, the tensors it is given, and the kinds of tensors that are made of one description.

A tensor is described by letters for its sizes, `Of("ab")`; one description gives usual sizes, empty ones, sizes of one,
none at all, and tensors that are transposed, strided or expanded. Whatever PyTorch does with one of them, raising
included, is what is expected.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from oracle import DTYPES, FLOATS, draw

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5, "e": 6, "n": 2, "h": 6, "w": 7}
"""Sizes by letter; digits stand for themselves."""

KINDS = ("usual", "empty", "0-d", "size-1", "transposed", "strided", "expanded", "broadcast", "mixed dtypes")
LAYOUTS = ("transposed", "strided", "expanded")


@dataclass(frozen=True)
class Of:
    """A tensor: its sizes as letters, its range, and its dtype if that is not the sample's to choose.

    `below` is a letter: values are indices into a dimension of that size.
    """

    sizes: str = "ab"
    low: float = -2.0
    high: float = 2.0
    dtype: str | None = None
    below: str = ""
    grad: bool = True

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Numbers for the letters."""
        return tuple(int(s) if s.isdigit() else sizes[s] for s in self.sizes)

    def values(self, sizes: dict[str, int], dtype: str, seed: int) -> np.ndarray:
        """The tensor's values; bfloat16 ones as float32."""
        high = max(sizes[self.below] - 1, 0) if self.below else self.high
        return draw(self.shape(sizes), dtype, 0 if self.below else self.low, high, seed)


@dataclass(frozen=True)
class Variation:
    """One way to call a name.

    function    (library, the name's function, *tensors) -> results; a name that is no function comes as None
    inputs      descriptions of the tensors
    module      library -> the Module that is called instead; `function` calls it
    broadcast   sizes of all tensors, once more for each entry; of one tensor alone these are other sizes, which may
                be empty ones, those of one, or none
    mixed       dtypes of all tensors, once more for each entry
    dtypes      what the tensors that leave it open are tried with
    random      whether numbers are drawn: only dtypes, shapes, integers' ranges and booleans are compared
    strides     whether results have PyTorch's strides: those of views
    kinds       kinds of tensors that are tried
    eager       what the warning says of calls that run eagerly in compiled functions
    on_gpu      whether it is also run as on a GPU
    """

    function: Callable[..., Any]
    inputs: tuple[Of, ...]
    module: Callable[[Any], Any] | None = None
    broadcast: tuple[tuple[str, ...], ...] = ()
    mixed: tuple[tuple[str, ...], ...] = ()
    dtypes: tuple[str, ...] = DTYPES
    random: bool = False
    strides: bool = False
    kinds: tuple[str, ...] = KINDS
    sizes: dict[str, int] = field(default_factory=dict)
    tolerance: float | None = None
    eager: str = ""
    on_gpu: bool = True

    def samples(self, first: bool = True) -> Iterator[Sample]:
        """Every kind in float32, and the usual one in every dtype; in two more for later variations."""
        usual = {**SIZES, **self.sizes}
        letters = sorted({s for i in self.inputs for s in i.sizes if not s.isdigit()})
        base = Sample("usual", self, self.inputs, usual)
        made = [base]
        made += [replace(base, kind="empty", sizes={**usual, letter: 0}) for letter in letters[:1] + letters[1:][-1:]]
        if letters:
            made += [replace(base, kind="size-1", sizes={**usual, **dict.fromkeys(letters, 1)})]
            made += [replace(base, kind="0-d", inputs=tuple(replace(i, sizes="") for i in self.inputs))]
            made += [replace(base, kind=layout, layout=layout) for layout in LAYOUTS]
        made = [sample for sample in made if sample.kind in self.kinds]
        for shapes in self.broadcast if "broadcast" in self.kinds else ():
            inputs = tuple(replace(i, sizes=s) for i, s in zip(self.inputs, shapes, strict=True))
            made.append(replace(base, kind=_kind_of(shapes), inputs=inputs))
        for dtypes in self.mixed if "mixed dtypes" in self.kinds else ():
            inputs = tuple(replace(i, dtype=d) for i, d in zip(self.inputs, dtypes, strict=True))
            made.append(replace(base, kind="mixed dtypes", inputs=inputs))
        yield from made
        if any(i.dtype is None for i in self.inputs):
            dtypes = [d for d in self.dtypes if first or d in ("bfloat16", "int64")]
            yield from (replace(base, dtype=dtype) for dtype in dtypes if dtype != "float32")


def _kind_of(shapes: tuple[str, ...]) -> str:
    """The kind of sizes that were given as such: of one tensor there is nothing to broadcast."""
    if len(shapes) > 1:
        return "broadcast"
    (shape,) = shapes
    if not shape:
        return "0-d"
    return "empty" if "0" in shape else "size-1" if "1" in shape else "usual"


@dataclass(frozen=True)
class Sample:
    """One call: a variation with sizes, a dtype and a layout."""

    kind: str
    variation: Variation
    inputs: tuple[Of, ...]
    sizes: dict[str, int]
    dtype: str = "float32"
    layout: str = "contiguous"

    def __str__(self) -> str:
        shapes = " ".join(f"{i.dtype or self.dtype}{list(i.shape(self.sizes))}" for i in self.inputs)
        return f"{self.kind}: {shapes}"

    def jitted(self, first: bool = True) -> bool:
        """Whether it is compiled too: every kind, and one dtype of each sort; of later variations some."""
        if first:
            return self.dtype in ("float32", "bfloat16", "int64")
        return self.dtype == "float32" and self.kind in ("usual", "size-1", "transposed")

    def tensors(self, library: Any) -> list[Any]:
        """The tensors, those of floating point requiring a gradient."""
        return [self._tensor(library, i, position) for position, i in enumerate(self.inputs)]

    def _tensor(self, library: Any, given: Of, position: int) -> Any:
        name = given.dtype or self.dtype
        array = given.values(self.sizes, name, zlib.crc32(f"{position}{self.kind}".encode()))
        if self.layout == "transposed":
            array = array.T.copy()
        elif self.layout == "strided" and array.ndim:
            array = np.repeat(array, 2, axis=-1)
        elif self.layout == "expanded" and array.ndim:
            array = array[..., :1].copy()
        tensor = library.tensor(array).to(getattr(library, name))
        if self.layout == "transposed" and tensor.ndim:
            tensor = tensor.permute(tuple(reversed(range(tensor.ndim))))
        elif self.layout == "strided" and tensor.ndim:
            tensor = tensor[..., ::2]
        elif self.layout == "expanded" and tensor.ndim:
            tensor = tensor.expand(given.shape(self.sizes))
        tensor = tensor.detach()
        return tensor.requires_grad_() if given.grad and name in FLOATS else tensor


def call(function: Callable[..., Any], *inputs: str | Of, **options: Any) -> Variation:
    """A variation; a tensor of random numbers may be described by its sizes alone."""
    return Variation(function, tuple(Of(i) if isinstance(i, str) else i for i in inputs), **options)


def pair(function: Callable[..., Any], low: float = -2.0, high: float = 2.0, **options: Any) -> Variation:
    """A variation of two tensors that broadcast against each other and whose dtypes are promoted."""
    shapes = (("a1", "1b"), ("ab", "b"), ("ab", ""), ("", "ab"), ("ab", "ba"), ("0b", "1b"))
    dtypes = (
        ("float32", "int64"),
        ("int64", "bool"),
        ("bfloat16", "float32"),
        ("float16", "bfloat16"),
        ("uint8", "int8"),
    )
    options = {"broadcast": shapes, "mixed": dtypes, **options}
    return call(function, Of("ab", low, high), Of("ab", low, high), **options)


def module(make: Callable[[Any], Any], *inputs: str | Of, **options: Any) -> Variation:
    """A variation that calls a Module."""
    return call(lambda t, f, *tensors: f(*tensors), *inputs, module=make, **options)


Table = dict[str, Sequence[Variation]]
