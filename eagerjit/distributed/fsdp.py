"""Names of `torch.distributed.fsdp`: programs ask whether a Module is divided among processes, and none is."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["FSDPModule", "FullyShardedDataParallel", "fully_shard"]


def fully_shard(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: every process holds every parameter."""
    raise NotImplementedError("eagerjit divides no Module among several processes")


class FSDPModule:
    """A Module in parts; nothing is an instance."""

    __init__ = fully_shard


class FullyShardedDataParallel:
    """A Module in parts, by the older name. Raises NotImplementedError where one is made."""

    __init__ = fully_shard
