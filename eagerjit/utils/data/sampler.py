"""Samplers: the order in which samples are taken."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from eagerjit import random
from eagerjit.random import Generator
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import as_tensor

T_co = TypeVar("T_co", covariant=True)

_CHUNK = 32
"""Indices with replacement are drawn this many at a time."""


def draw_seed(generator: Generator | None = None) -> int:
    """A seed from a generator, the default one if there is none."""
    found = random.randint(2**53, (), generator=generator, device=_place(generator)).item()
    return found  # type: ignore[return-value]  # an integer


def _place(generator: Generator | None) -> Any:
    """Where indices are drawn: where the generator is, by default where tensors are made."""
    return None if generator is None else generator.device


class Sampler(Generic[T_co]):
    """What gives indices, or lists of these: subclasses have `__iter__`, and `__len__` where it is known."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 and so on."""

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order, or `num_samples` of them; with replacement each is drawn independently."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ):
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator, n = self.generator, len(self.data_source)
        if generator is None:
            generator = Generator().manual_seed(draw_seed())
        left = self.num_samples
        while left > 0:
            if self.replacement:
                count = min(_CHUNK, left)
                indices = random.randint(n, (_CHUNK,), generator=generator, device=generator.device).tolist()
            else:
                if n == 0:
                    raise ZeroDivisionError("there is nothing to draw from")
                count = min(n, left)
                indices = random.randperm(n, generator=generator, device=generator.device).tolist()
            yield from indices[:count]
            left -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = random.randperm(len(self.indices), generator=self.generator, device=_place(self.generator))
        for i in order.tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities proportional to weights."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ):
        if type(num_samples) is not int or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            shape = tuple(self.weights.shape)
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {shape}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = random.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Indices of another sampler in lists of `batch_size`; a shorter last list is kept or dropped."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _of_group(name: str, alone: int) -> int:
    """What the default group of processes answers, or one process that has none."""
    from eagerjit import distributed

    return getattr(distributed, name)() if distributed.is_initialized() else alone


class DistributedSampler(Sampler[int]):
    """One process's part of the indices, in the order that belongs to the epoch set by `set_epoch`.

    Without `num_replicas` and `rank` they are those of the default group.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        self.num_replicas = _of_group("get_world_size", 1) if num_replicas is None else num_replicas
        self.rank = _of_group("get_rank", 0) if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        count = len(dataset)
        rounded = math.floor if drop_last else math.ceil
        self.num_samples: int = rounded(count / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        indices = list(range(count))
        if self.shuffle:
            indices = random.randperm(count, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        if not self.drop_last and indices:
            indices = list(itertools.islice(itertools.cycle(indices), self.total_size))
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next epoch."""
        self.epoch = epoch
