"""A worker process of a DataLoader: it makes the batches it is asked for, until nobody is there to ask."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random as python_random
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from eagerjit.runtime import threads
from eagerjit.utils.data import channel
from eagerjit.utils.data.dataset import fetch

_WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself: its number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that this process is; None in the main process."""
    return _info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Seeds for NumPy in a worker, as PyTorch draws them."""
    words = worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]


class Exhausted:
    """What a worker sends once its part of an iterable dataset has ended."""


class Fetcher:
    """Makes batches: of samples at indices, or for an iterable dataset of as many samples as there are indices."""

    def __init__(self, dataset: Any, iterable: bool, batched: bool, collate: Any, drop_last: bool):
        self.dataset, self.batched, self.collate, self.drop_last = dataset, batched, collate, drop_last
        self.samples: Iterator[Any] | None = iter(dataset) if iterable else None
        self.ended = False

    def __call__(self, indices: Any) -> Any:
        if self.samples is None:
            return self.collate(fetch(self.dataset, indices) if self.batched else self.dataset[indices])
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate(next(self.samples))
        data = list(self._next(len(indices)))
        self.ended = len(data) < len(indices)
        if not data or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate(data)

    def _next(self, count: int) -> Iterator[Any]:
        """Some more samples; `islice` would ask for an iterator again, by which some begin anew."""
        assert self.samples is not None
        for _ in range(count):
            try:
                sample = next(self.samples)
            except StopIteration:
                return
            yield sample


class Failure:
    """An exception on its way to the main process, with the worker's traceback as text."""

    def __init__(self, error: BaseException, where: str):
        self.type, self.where = type(error), where
        self.text = "".join(traceback.format_exception(error))

    def raise_again(self) -> None:
        """Raise an exception of the same class; a RuntimeError where the class wants other arguments."""
        message = f"Caught {self.type.__name__} {self.where}.\nOriginal {self.text}"
        if self.type is KeyError:
            raise KeyError(_Plain(message))
        try:
            error = self.type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


class _Plain(str):
    """A text that KeyError prints as it is."""

    def __repr__(self) -> str:
        return self


@dataclass
class Settings:
    """What a worker is started with."""

    fetcher: tuple[Any, ...]
    id: int
    count: int
    base_seed: int
    init: Any


def run(settings: Settings, connection: Connection, others: list[Connection]) -> None:
    """The life of a worker."""
    for inherited in others:
        inherited.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, daemon=True).start()
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(connection, results), daemon=True)
    sender.start()
    _work(settings, connection, results)
    results.put(None)
    sender.join()


def _watch() -> None:
    """End the process when the one that started it is gone, whatever this one is busy with."""
    started_by, main = os.getppid(), multiprocessing.parent_process()
    while os.getppid() == started_by and (main is None or main.is_alive()):
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _send(connection: Connection, results: queue.SimpleQueue[Any]) -> None:
    """Send what the worker makes, so that it goes on listening while nobody takes it."""
    while (result := results.get()) is not None:
        value, where = result
        try:
            try:
                channel.send(connection, value)
            except OSError:
                raise
            except Exception as error:  # what pickle refuses
                channel.send(connection, Failure(error, where))
        except OSError:
            os._exit(0)


def _work(settings: Settings, connection: Connection, results: queue.SimpleQueue[Any]) -> None:
    where = f"in DataLoader worker process {settings.id}"
    failure, fetcher = None, None
    try:
        _prepare(settings)
    except Exception as error:
        failure = Failure(error, where)
    while True:
        try:
            new_epoch, indices = channel.receive(connection)
        except (EOFError, OSError):
            return
        result: Any = failure
        if failure is None:
            try:
                if fetcher is None or new_epoch:
                    fetcher = Fetcher(*settings.fetcher)
                result = fetcher(indices)
            except StopIteration as error:
                result = Exhausted() if settings.fetcher[1] else Failure(error, where)
            except Exception as error:
                result = Failure(error, where)
        results.put((result, where))


def _prepare(settings: Settings) -> None:
    """Seed every source of random numbers, compute on one thread, and run the user's function."""
    global _info
    from eagerjit.random import manual_seed

    seed = settings.base_seed + settings.id
    threads.set_num_threads(1)
    python_random.seed(seed)
    manual_seed(seed)
    np.random.seed(np.random.SeedSequence([settings.base_seed, settings.id]).generate_state(4))
    _info = WorkerInfo(settings.id, settings.count, seed, settings.fetcher[0])
    if settings.init is not None:
        settings.init(settings.id)
