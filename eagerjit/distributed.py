"""Programs of one process: a group of size 1 can be made and asked, and what needs others says so."""

from __future__ import annotations

import datetime
import importlib
import os
from enum import Enum
from typing import Any

from eagerjit.tensors.tensor import Tensor

_MISSING = "Default process group has not been initialized, please make sure to call init_process_group."
default_pg_timeout = datetime.timedelta(minutes=30)


class ReduceOp(Enum):
    """How values of several processes are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


class Backend(str):
    """What processes talk through."""

    GLOO, NCCL, MPI, UCC = "gloo", "nccl", "mpi", "ucc"


class ProcessGroup:
    """A group of this one process."""

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1


class _Done:
    """An operation that has been done."""

    def wait(self, timeout: Any = None) -> bool:
        """True."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True


class group:
    """The default group."""

    WORLD: ProcessGroup | None = None


GroupMember = group
_backend = "gloo"


def is_available() -> bool:
    """False, as packages import more than a group of one process where it is True; such a group can be made."""
    return False


def is_initialized() -> bool:
    """Whether there is a group."""
    return group.WORLD is not None


def is_gloo_available() -> bool:
    """True: what a group of one process needs of it is there."""
    return True


def is_nccl_available() -> bool:
    """False."""
    return False


is_xccl_available = is_mpi_available = is_ucc_available = is_torchelastic_launched = is_nccl_available


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    **ignored: Any,
) -> None:
    """Make the group of this process. Raises RuntimeError if it should have several."""
    global _backend
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    size = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", "1"))
    if size != 1:
        raise RuntimeError(f"eagerjit runs programs of one process: a group of {size} cannot be made")
    _backend = backend or "gloo"
    group.WORLD = ProcessGroup()


def destroy_process_group(group_: Any = None) -> None:
    """Forget the group."""
    _check()
    group.WORLD = None


def _check() -> None:
    if not is_initialized():
        raise ValueError(_MISSING)


def get_rank(group: Any = None) -> int:
    """0. Raises ValueError without a group."""
    _check()
    return 0


def get_world_size(group: Any = None) -> int:
    """1. Raises ValueError without a group."""
    _check()
    return 1


def get_backend(group: Any = None) -> str:
    """The backend that the group was made with."""
    _check()
    return _backend


def get_default_backend_for_device(device: Any) -> str:
    """The backend for a kind of device: gloo for the CPU."""
    from eagerjit.devices import Device

    return {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}.get(Device(device).type, "gloo")


def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> ProcessGroup | None:
    """The group of this process."""
    _check()
    return group.WORLD


def barrier(*args: Any, **kwargs: Any) -> None:
    """Nobody else is waited for."""
    _check()


monitored_barrier = barrier


def _same(tensor: Any, *args: Any, async_op: bool = False, **kwargs: Any) -> _Done | None:
    """The tensor keeps its value: it is the only one."""
    _check()
    return _Done() if async_op else None


all_reduce = reduce = broadcast = all_reduce_coalesced = _same


def all_gather(tensor_list: list[Tensor], tensor: Tensor, *args: Any, async_op: bool = False) -> _Done | None:
    """The list's one tensor becomes a copy."""
    _check()
    tensor_list[0].copy_(tensor)
    return _Done() if async_op else None


def all_gather_into_tensor(output: Tensor, input: Tensor, *args: Any, async_op: bool = False) -> _Done | None:
    """The output becomes a copy."""
    _check()
    output.copy_(input.reshape(output.shape))
    return _Done() if async_op else None


def reduce_scatter_tensor(output: Tensor, input: Tensor, *args: Any, async_op: bool = False) -> _Done | None:
    """The output becomes a copy."""
    return all_gather_into_tensor(output, input, async_op=async_op)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, *args: Any, async_op: bool = False, **kwargs: Any
) -> _Done | None:
    """The list's one tensor becomes a copy."""
    _check()
    if gather_list:
        gather_list[0].copy_(tensor)
    return _Done() if async_op else None


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, *args: Any, async_op: bool = False, **kwargs: Any
) -> _Done | None:
    """The tensor becomes a copy of the list's one."""
    _check()
    if scatter_list:
        tensor.copy_(scatter_list[0])
    return _Done() if async_op else None


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The list's one place holds the object."""
    _check()
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], *args: Any, **kwargs: Any) -> None:
    """The objects stay."""
    _check()


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, *args: Any, **kwargs: Any) -> None:
    """The list's one place holds the object."""
    _check()
    if object_gather_list:
        object_gather_list[0] = obj


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, *args: Any, **kwargs: Any
) -> None:
    """The one list's first place holds the other's one object."""
    _check()
    if scatter_object_input_list:
        scatter_object_output_list[0] = scatter_object_input_list[0]


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> _Done | None:
    """The one list's tensor becomes a copy of the other's."""
    return all_gather(output_tensor_list, input_tensor_list[0], async_op=async_op)


def all_to_all_single(output: Tensor, input: Tensor, *args: Any, async_op: bool = False, **kwargs: Any) -> _Done | None:
    """The output becomes a copy."""
    return all_gather_into_tensor(output, input, async_op=async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], *args: Any, async_op: bool = False, **kwargs: Any
) -> _Done | None:
    """The output becomes a copy of the list's one tensor."""
    return all_gather_into_tensor(output, input_list[0], async_op=async_op)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank of a group's process among all: 0."""
    _check()
    if group_rank != 0:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return 0


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank of a process in a group: 0."""
    return get_global_rank(group, global_rank)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks in a group."""
    _check()
    return [0]


_OF_SEVERAL = ("tensor", "device_mesh", "algorithms", "checkpoint")


def __getattr__(name: str) -> Any:
    if name in ("autograd", "elastic", "fsdp", "nn", "optim", "rpc"):
        return importlib.import_module(f"eagerjit.distributed_{name}")
    if name.startswith("_") or name in _OF_SEVERAL:
        raise AttributeError(f"eagerjit has no torch.distributed.{name}: it runs programs of one process")
    from eagerjit.tools.names import nearest

    near = nearest(name, (n for n in globals() if not n.startswith("_")))
    hint = f"; the nearest name it has is torch.distributed.{near}" if near else ""
    raise AttributeError(f"eagerjit has no torch.distributed.{name}: it runs programs of one process{hint}")
