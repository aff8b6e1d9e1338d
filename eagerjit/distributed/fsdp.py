"""Names of `torch.distributed.fsdp`: programs ask whether a Module is divided among processes, and none is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from eagerjit.runtime.dtypes import DType

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy",
    "fully_shard",
]  # fmt: skip


def fully_shard(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: every process holds every parameter."""
    raise NotImplementedError("eagerjit divides no Module among several processes")


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which a Module in parts would compute."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Where a Module in parts would keep these: where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """On the CPU."""

    pin_memory: bool = True


class FSDPModule:
    """A Module in parts; nothing is an instance."""

    __init__ = fully_shard


class FullyShardedDataParallel:
    """A Module in parts, by the older name. Raises NotImplementedError where one is made."""

    __init__ = fully_shard
