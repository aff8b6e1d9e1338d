"""Names of tensors that several processes hold: programs ask whether something is one, and nothing is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from eagerjit.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
    "implicit_replication", "init_device_mesh", "parallelize_module",
]  # fmt: skip


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: every process holds whole tensors."""
    raise NotImplementedError("eagerjit divides no tensor among several processes")


class DTensor:
    """A tensor in parts; nothing is an instance."""

    __init__ = from_local = _refuse


class Placement:
    """How a tensor is divided."""


@dataclass(frozen=True)
class Shard(Placement):
    """Along a dimension."""

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Along a dimension, of which each process holds several pieces."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Not at all: every process holds all of it."""


@dataclass(frozen=True)
class Partial(Placement):
    """As terms of a reduction."""

    reduce_op: str = "sum"


compute_local_shape_and_global_offset = implicit_replication = _refuse
distribute_tensor = distribute_module = parallelize_module = _refuse
