"""Data pipes, as PyTorch still has them: the class of them all, and the one that shuffles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeVar

from eagerjit.runtime.dtypes import int64
from eagerjit.tensors import creation
from eagerjit.utils.data.dataset import IterableDataset

__all__ = ["IterDataPipe", "Shuffler", "ShufflerIterDataPipe"]

T_co = TypeVar("T_co", covariant=True)


class IterDataPipe(IterableDataset[T_co]):
    """Samples one after another, often of another pipe's."""


class ShufflerIterDataPipe(IterDataPipe[T_co]):
    """Samples of another pipe in random order, drawn from a buffer of `buffer_size`."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0):
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        if unbatch_level:
            raise NotImplementedError("ShufflerIterDataPipe: eagerjit takes no batches apart; unbatch_level was given")
        self.datapipe, self.buffer_size = datapipe, buffer_size
        self._enabled = True
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe[T_co]:
        """Whether to shuffle; returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe[T_co]:
        """The seed of the next iteration; returns the pipe."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[T_co]:
        if not self._enabled:
            yield from self.datapipe
            return
        seed = int(creation.empty((), dtype=int64).random_()) if self._seed is None else self._seed
        self._seed, numbers = None, random.Random(seed)
        buffer: list[T_co] = []
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            place = numbers.randint(0, len(buffer) - 1)
            drawn, buffer[place] = buffer[place], sample
            yield drawn
        while buffer:
            yield buffer.pop(numbers.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return len(self.datapipe)


Shuffler = ShufflerIterDataPipe
