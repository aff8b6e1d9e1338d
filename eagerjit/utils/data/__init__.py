"""Datasets, samplers and the DataLoader."""

from collections.abc import Callable as _Callable
from collections.abc import Iterator as _BaseDataLoaderIter  # noqa: F401  # asked for by its name
from typing import Any as _Any

from eagerjit.utils.data.collate import default_collate, default_convert
from eagerjit.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from eagerjit.utils.data.loader import DataLoader, _DatasetKind  # noqa: F401  # the second by its name too
from eagerjit.utils.data.loader import _here as _SingleProcessDataLoaderIter  # noqa: F401
from eagerjit.utils.data.loader import _Workers as _MultiProcessingDataLoaderIter  # noqa: F401
from eagerjit.utils.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from eagerjit.utils.data.worker import get_worker_info

_collate_fn_t = _Callable[[list[_Any]], _Any]

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
