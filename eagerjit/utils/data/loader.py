"""DataLoader: batches of a dataset, made here or by worker processes ahead of need."""

from __future__ import annotations

import enum
import itertools
import multiprocessing
import os
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pickle import PicklingError
from typing import Any, Generic, TypeVar

from eagerjit.cuda.present import found
from eagerjit.random import Generator
from eagerjit.state import state
from eagerjit.utils.data import channel
from eagerjit.utils.data.collate import default_collate, default_convert
from eagerjit.utils.data.dataset import IterableDataset
from eagerjit.utils.data.pinning import batches
from eagerjit.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed
from eagerjit.utils.data.worker import Exhausted, Failure, Fetcher, Settings, run
from eagerjit.watching.observation import TraceBreak, user_line

T_co = TypeVar("T_co", covariant=True)

_GRACE_SECONDS = 1.0
"""How long a worker may take to end by itself."""

_connections: weakref.WeakSet[Connection] = weakref.WeakSet()

_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _Endless(Sampler[None]):
    """Stands for indices of an iterable dataset."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _DatasetKind(enum.IntEnum):
    """How samples of a dataset are had: at indices, or one after the other."""

    Map = 0
    Iterable = 1


class DataLoader(Generic[T_co]):
    """Batches of a dataset; an iteration over it is an epoch.

    The arguments are PyTorch's. `num_workers` processes make batches, each up to `prefetch_factor` (2) ahead; batches
    come in the sampler's order; worker i draws random numbers of its own from a seed that `generator` gives. `timeout`
    is in seconds, 0 for none. `pin_memory` puts batches into pinned memory where there is a CUDA device.
    """

    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._dataset_kind = _DatasetKind(isinstance(dataset, IterableDataset))
        if self._dataset_kind:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None and self._dataset_kind:
            sampler = _Endless()
        elif sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        default = default_convert if batch_sampler is None else default_collate
        self.collate_fn = default if collate_fn is None else collate_fn
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.multiprocessing_context = multiprocessing_context
        self._iterator: _Workers | None = None
        self.persistent_workers = persistent_workers
        self.__initialized = True  # derived classes that change what is fixed set it by its mangled name

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__initialized:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started: a context of multiprocessing, or None for the system's way."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            if context not in multiprocessing.get_all_start_methods():
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{multiprocessing.get_all_start_methods()!r}, but got multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string specifying the start "
                f"method, but got multiprocessing_context={context}"
            )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if state.tracer is not None and state.tracer.journal is not None:
            raise TraceBreak("it goes through a DataLoader: decorate the function that gets a batch", user_line())
        return batches(self._batches()) if self.pin_memory and found() is not None else self._batches()

    def _batches(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return _here(self)
        if not self.persistent_workers:
            return _Workers(self)
        if self._iterator is None:
            self._iterator = _Workers(self)
        else:
            self._iterator.start_epoch()
        return self._iterator

    def __len__(self) -> int:
        if not self._dataset_kind:
            return len(self._index_sampler)  # type: ignore[arg-type]
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _fetcher(loader: Any) -> tuple[Any, ...]:
    """What a Fetcher is made of. Packages give loaders of their own, which have these attributes of PyTorch's."""
    kind = loader._dataset_kind
    return loader.dataset, bool(kind), loader._auto_collation, loader.collate_fn, loader.drop_last


def _here(loader: Any) -> Iterator[Any]:
    """Batches made in this process."""
    draw_seed(loader.generator)  # so that the number of workers does not change what is drawn later
    return _made_here(Fetcher(*_fetcher(loader)), iter(loader._index_sampler))


def _made_here(fetcher: Fetcher, indices: Iterator[Any]) -> Iterator[Any]:
    for some in indices:
        try:
            batch = fetcher(some)
        except StopIteration:
            return
        yield batch


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {value}")


class _Workers:
    """An epoch whose batches worker processes make. Task after task goes to the next worker that has samples left."""

    def __init__(self, loader: Any):
        # It keeps no reference to the loader: without a cycle, workers end when the loader is forgotten.
        self.source, self.timeout, self.persistent = loader._index_sampler, loader.timeout, loader.persistent_workers
        self.ahead = loader.prefetch_factor or 1
        count = loader.num_workers
        context = loader.multiprocessing_context or multiprocessing
        seed = draw_seed(loader.generator)
        self.processes: list[Any] = []
        self.connections: list[Connection] = []
        self._stop = weakref.finalize(self, _shut_down, self.processes, self.connections, os.getpid())
        for i in range(count):
            ours, theirs = context.Pipe(duplex=True)
            settings = Settings(_fetcher(loader), i, count, seed, loader.worker_init_fn)
            self.connections.append(ours)
            _connections.add(ours)
            process = context.Process(target=run, args=(settings, theirs, _inherited(context)), daemon=True)
            _start(process)
            theirs.close()
            self.processes.append(process)
        self.waiting: deque[int] = deque()
        self.start_epoch()

    def start_epoch(self) -> None:
        """Begin anew; what workers still make for an epoch that was left early is thrown away.

        Raises RuntimeError where the workers were told to end.
        """
        if not self.processes:
            raise RuntimeError("DataLoader's workers were shut down, and make no further batches")
        while self.waiting:
            self._receive(self.waiting.popleft())
        count = len(self.processes)
        self.indices = iter(self.source)
        self.active, self.fresh, self.next = [True] * count, [True] * count, 0
        for _ in range(count * self.ahead):
            self._send()

    def _shutdown_workers(self) -> None:
        self.waiting.clear()
        self._stop()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.source)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        while self.waiting:
            worker = self.waiting.popleft()
            result = self._receive(worker)
            if isinstance(result, Exhausted):
                self.active[worker] = False
                self._send()
                continue
            self._send()
            if isinstance(result, Failure):
                result.raise_again()
            return result
        if not self.persistent:
            self._stop()
        raise StopIteration

    def _send(self) -> None:
        """Give the next task to the next worker."""
        count = len(self.processes)
        worker = next((w % count for w in range(self.next, self.next + count) if self.active[w % count]), None)
        if worker is None:
            return
        try:
            indices = next(self.indices)
        except StopIteration:
            return
        self.next = worker + 1
        try:
            channel.send(self.connections[worker], (self.fresh[worker], indices))
        except OSError:
            self._died(worker)
        self.fresh[worker] = False
        self.waiting.append(worker)

    def _receive(self, worker: int) -> Any:
        connection, timeout = self.connections[worker], self.timeout
        if not wait([connection], timeout if timeout > 0 else None):
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        try:
            return channel.receive(connection)
        except (EOFError, OSError):
            return self._died(worker)

    def _died(self, worker: int) -> Any:
        process = self.processes[worker]
        process.join(_GRACE_SECONDS)
        code = process.exitcode
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        self._stop()
        raise RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly: {how}") from None


def _start(process: Any) -> None:
    """Start a worker. Most have never pickled what it is given: up to CPython 3.13 workers are forked by default."""
    try:
        process.start()
    except (TypeError, AttributeError, PicklingError):
        warnings.warn(
            "A worker process could not be started: what it is given (the dataset, functions) could not be pickled. "
            "Python 3.14 and newer pickle it, as they start processes by 'forkserver'; "
            "DataLoader(..., multiprocessing_context='fork') does not",
            stacklevel=5,
        )
        raise


def _inherited(context: Any) -> list[Connection]:
    """This process's ends of all connections, which a forked worker has to close."""
    return list(_connections) if context.get_start_method() == "fork" else []


def _shut_down(processes: list[Any], connections: list[Connection], owner: int) -> None:
    """End all workers: those that wait for tasks at once, those that are busy soon."""
    if os.getpid() != owner:
        return
    for connection in connections:
        connection.close()
    until = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.terminate()
    for process in processes:
        process.join(_GRACE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
    processes.clear()
