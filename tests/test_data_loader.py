"""The DataLoader: batches as PyTorch's, from this process and from workers; what goes wrong in a worker; no orphans."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
from eagerjit.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
    get_worker_info,
)

ROOT = Path(__file__).resolve().parent.parent


class Rows(Dataset):
    """Row i is full of i, with its index and a name."""

    def __init__(self, count: int = 10, size: int = 4):
        self.count, self.size = count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int, str]:
        return ej.full((self.size,), float(index)), index, str(index)


class Stream(IterableDataset):
    """The numbers below a bound; every worker takes its share."""

    def __init__(self, count: int):
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))

    def __len__(self) -> int:
        return self.count


def indices(loader: Any) -> list[Any]:
    """The indices of all batches of Rows, whose content is checked."""
    found = []
    for rows, index, names in loader:
        assert rows.shape == (len(index), loader.dataset.size)
        assert rows.eq(index.unsqueeze(1)).all() and list(names) == list(map(str, index.tolist()))
        found.append(index.tolist())
    return found


BATCHES: list[dict[str, Any]] = [
    {},
    {"batch_size": 3},
    {"batch_size": 3, "drop_last": True},
    {"sampler": [4, 2, 7], "batch_size": 2},
    {"batch_sampler": [[1], [2, 3], [9, 8, 7]]},
]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", BATCHES, ids=str)
def test_batches_come_in_order(options: dict[str, Any], workers: int) -> None:
    expected = [b.tolist() for b in torch.utils.data.DataLoader(range(10), **options)]
    loader = DataLoader(Rows(), num_workers=workers, **options)
    assert indices(loader) == expected and len(loader) == len(expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_alone(workers: int) -> None:
    found = list(DataLoader(Rows(3), batch_size=None, num_workers=workers))
    assert [index for _, index, _ in found] == [0, 1, 2] and found[1][0].tolist() == [1.0] * 4


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_ways_of_starting_workers(start: str) -> None:
    loader = DataLoader(Rows(5, 20_000), 2, num_workers=1, multiprocessing_context=start)
    assert indices(loader) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("library", [ej, torch])
def test_what_cannot_be_pickled_is_warned_about(library: Any) -> None:
    class Local(library.utils.data.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            return index

    loader = library.utils.data.DataLoader(Local(), num_workers=1, multiprocessing_context="forkserver")
    with pytest.warns(UserWarning, match="pickle.*Python 3.14.*'forkserver'"), pytest.raises(
        (AttributeError, pickle.PicklingError)
    ):
        next(iter(loader))


@pytest.mark.parametrize("size", [1, 300_000])
def test_batches_of_workers_can_be_written(size: int) -> None:
    for rows, _, _ in DataLoader(Rows(2, size), num_workers=1):
        total = (rows.add_(1) * 2).sum().item()
        assert total == rows.sum().item() * 2


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_dtypes_travel(dtype: str) -> None:
    values = ej.arange(40_000).remainder(2).to(getattr(ej, dtype))
    (found,) = next(iter(DataLoader(TensorDataset(values), 40_000, num_workers=1)))
    assert found.dtype is values.dtype and ej.equal(found, values)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_shuffling_is_a_permutation_that_the_seed_repeats(workers: int) -> None:
    epochs = []
    for seed in (1, 1, 2):
        loader = DataLoader(Rows(), 4, True, num_workers=workers, generator=ej.Generator().manual_seed(seed))
        epochs.append([[i for batch in indices(loader) for i in batch] for _ in range(2)])
    assert epochs[0] == epochs[1] != epochs[2]
    assert all(sorted(e) == list(range(10)) for e in epochs[0]) and epochs[0][0] != epochs[0][1]
    ej.manual_seed(5)
    with_default = indices(DataLoader(Rows(), 10, True, num_workers=workers))
    ej.manual_seed(5)
    assert indices(DataLoader(Rows(), 10, True)) == with_default


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_iterable_datasets(workers: int, drop_last: bool) -> None:
    loader = DataLoader(Stream(11), 2, num_workers=workers, drop_last=drop_last)
    theirs = torch.utils.data.DataLoader(TorchStream(11), 2, num_workers=workers, drop_last=drop_last)
    assert [b.tolist() for b in loader] == [b.tolist() for b in theirs]
    assert len(loader) == len(theirs)


class TorchStream(torch.utils.data.IterableDataset):
    """Stream for PyTorch's loader."""

    def __init__(self, count: int):
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))

    def __len__(self) -> int:
        return self.count


class Facts(Dataset):
    """What a worker knows and draws."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None and info.dataset is self
        drawn = ej.rand(()).item(), random.random(), float(np.random.rand())
        return info.id, info.num_workers, info.seed, ej.get_num_threads(), os.getpid(), drawn


def unchanged(batch: Any) -> Any:
    """Collate nothing."""
    return batch[0]


def test_workers_know_themselves_and_draw_numbers_of_their_own() -> None:
    epochs = []
    for seed in (1, 1, 2):
        generator = ej.Generator().manual_seed(seed)
        epochs.append(list(DataLoader(Facts(), num_workers=2, collate_fn=unchanged, generator=generator)))
    first = epochs[0]
    assert [f[0] for f in first] == [0, 1, 0, 1] and {f[1] for f in first} == {2} and {f[3] for f in first} == {1}
    assert (
        first[1][2] == first[0][2] + 1 and len({f[4] for f in first}) == 2 and os.getpid() not in {f[4] for f in first}
    )
    draws = [[f[5] for f in epoch] for epoch in epochs]
    assert draws[0] == draws[1] and not set(sum(draws[0], ())) & set(sum(draws[2], ()))
    assert len(set(sum(draws[0], ()))) == 12


def test_worker_init_fn_runs_first() -> None:
    def init(worker: int) -> None:
        random.seed(worker)

    found = list(DataLoader(Facts(), num_workers=2, collate_fn=unchanged, worker_init_fn=init))
    assert [f[5][1] for f in found[:2]] == [random.Random(0).random(), random.Random(1).random()]


def test_workers_are_told_to_end() -> None:
    loader = DataLoader(Facts(), num_workers=2, collate_fn=unchanged, persistent_workers=True)
    next(iter(loader))
    processes = list(loader._iterator.processes)
    loader._iterator._shutdown_workers()
    loader._iterator._shutdown_workers()
    assert not any(process.is_alive() for process in processes) and list(loader._iterator) == []
    with pytest.raises(RuntimeError, match="shut down"):
        iter(loader)


@pytest.mark.parametrize("library", [ej, torch])
def test_derived_loaders_change_what_is_fixed(library: Any) -> None:
    class Twice(library.utils.data.DataLoader):
        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **kwargs)
            self._DataLoader__initialized = False
            self.batch_sampler = [*self.batch_sampler, *self.batch_sampler]
            self._DataLoader__initialized = True

    loader = Twice([1, 2, 3], batch_size=2)
    assert [batch.tolist() for batch in loader] == [[1, 2], [3], [1, 2], [3]]
    with pytest.raises(ValueError, match="batch_sampler attribute should not be set after Twice is initialized"):
        loader.batch_sampler = []


def test_persistent_workers_live_on() -> None:
    loader = DataLoader(Facts(), num_workers=2, collate_fn=unchanged, persistent_workers=True)
    pids = [[f[4] for f in loader] for _ in range(3)]
    assert pids[0] == pids[1] == pids[2]
    partly = iter(loader)
    next(partly)
    assert [f[0] for f in loader] == [0, 1, 0, 1]  # what the epoch before left over is not seen
    streams = DataLoader(Stream(5), 2, num_workers=2, persistent_workers=True)
    assert [b.tolist() for b in streams] == [b.tolist() for b in streams] == [[0, 2], [1, 3], [4]]
    gone = [p.pid for p in multiprocessing.active_children()]
    assert len(gone) == 4
    del loader, partly, streams
    assert not multiprocessing.active_children()


class Failing(Dataset):
    """Raises an exception for index 2."""

    def __init__(self, error: BaseException):
        self.error = error

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise self.error
        return index


class Particular(Exception):
    """Takes more than a message."""

    def __init__(self, message: str, number: int):
        super().__init__(message, number)


@pytest.mark.parametrize("error", [ValueError("bad row"), KeyError("bad row"), Particular("bad row", 1)], ids=repr)
def test_exceptions_come_with_the_workers_traceback(error: Exception) -> None:
    loader = iter(DataLoader(Failing(error), num_workers=2))
    assert [next(loader).item(), next(loader).item()] == [0, 1]
    kind = RuntimeError if isinstance(error, Particular) else type(error)
    with pytest.raises(kind) as caught:
        next(loader)
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 0." in text
    assert "test_data_loader.py" in text and "in __getitem__" in text and "bad row" in text
    assert next(loader).item() == 3  # the worker is alive
    with pytest.raises(type(error), match="bad row"):
        list(DataLoader(Failing(type(error)(*error.args))))


def test_exceptions_of_a_workers_start_and_of_pickle() -> None:
    def init(worker: int) -> None:
        raise OSError("no such disk")

    with pytest.raises(OSError, match="Caught OSError in DataLoader worker process 0"):
        list(DataLoader(Rows(), num_workers=1, worker_init_fn=init))
    with pytest.raises(Exception, match=r"DataLoader worker process 0(.|\n)*pickle"):
        list(DataLoader(Rows(), num_workers=1, collate_fn=lambda batch: lambda: batch))


class Slow(Dataset):
    """Never gets done with index 1; index 2 kills the worker."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        if index == 1:
            time.sleep(100)
        if index == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_slow_and_dead_workers_are_noticed() -> None:
    loader = iter(DataLoader(Slow(), num_workers=1, timeout=2))
    assert next(loader).item() == 0
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 2 seconds"):
        next(loader)
    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: killed by signal 9"
    ):
        list(DataLoader(Slow(), sampler=[0, 2], num_workers=1))


def test_no_worker_outlives_its_loader() -> None:
    for loader in (DataLoader(Rows(), num_workers=2), DataLoader(Slow(), num_workers=1)):
        for _ in loader:
            break
        gc.collect()
        assert not multiprocessing.active_children()
    list(DataLoader(Rows(), num_workers=2))
    assert not multiprocessing.active_children()


PARENT = """
import sys, time
import eagerjit as torch
from multiprocessing import active_children

class Sleepy(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, index):
        if index > 4: time.sleep(1000)
        return index

if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Sleepy(), num_workers=2, multiprocessing_context=sys.argv[1])
    batches = iter(loader)
    next(batches)
    print(*(p.pid for p in active_children()), flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_no_worker_outlives_a_killed_parent(start: str, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    call = [sys.executable, str(tmp_path / "parent.py"), start]
    parent = subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(p) for p in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    assert len(workers) == 2
    until = time.monotonic() + 30
    while any(map(alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, workers))


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


WRONG: list[dict[str, Any]] = [
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"num_workers": 1, "prefetch_factor": -1},
    {"persistent_workers": True},
    {"sampler": [1], "shuffle": True},
    {"batch_sampler": [[1]], "batch_size": 2},
    {"batch_sampler": [[1]], "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"multiprocessing_context": "fork"},
    {"num_workers": 1, "multiprocessing_context": "teleport"},
    {"num_workers": 1, "multiprocessing_context": 3},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(Exception) as expected:
        torch.utils.data.DataLoader(range(3), **options)
    with pytest.raises(type(expected.value)):
        DataLoader(range(3), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}], ids=str)
def test_iterable_datasets_have_an_order_of_their_own(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="DataLoader with IterableDataset"):
        DataLoader(Stream(3), **options)


def test_some_attributes_are_fixed() -> None:
    loader = DataLoader(Rows(), pin_memory=True, pin_memory_device="cuda", in_order=False)
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 3
    loader.collate_fn = unchanged
    assert indices_of(loader) == list(range(10))


def indices_of(loader: Any) -> list[int]:
    return [index for _, index, _ in loader]


class Restarting(IterableDataset):
    """Its own iterator, which begins anew whenever it is asked for."""

    def __iter__(self) -> Any:
        self.next = 0
        return self

    def __next__(self) -> int:
        self.next += 1
        if self.next > 5:
            raise StopIteration
        return self.next


def test_an_iterable_dataset_is_asked_for_an_iterator_once() -> None:
    assert [b.tolist() for b in DataLoader(Restarting(), batch_size=2)] == [[1, 2], [3, 4], [5]]


class Foreign:
    """What a package's own loader gives PyTorch's iterators."""

    num_workers, generator, timeout, persistent_workers, prefetch_factor = 0, None, 0, False, None
    worker_init_fn, multiprocessing_context, pin_memory, drop_last = None, None, False, False
    _dataset_kind, _auto_collation, _index_sampler = _DatasetKind.Iterable, False, range(3)
    dataset = (10, 20, 30)

    @staticmethod
    def collate_fn(sample: int) -> int:
        return sample + 1


def test_iterators_take_loaders_of_packages() -> None:
    assert list(_SingleProcessDataLoaderIter(Foreign())) == [11, 21, 31]
    several = Foreign()
    several.num_workers = 1
    assert list(_MultiProcessingDataLoaderIter(several)) == [11, 21, 31]
