"""Programs of several processes on CPUs: groups, and what their processes exchange (`torch.distributed`).

Processes find each other by a store (`rendezvous.py`, `stores.py`), a group has a connection between any two of its
processes (`links.py`), and what they compute together goes round on these (`collectives.py`). Tensors on a device go by
the host.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Sequence
from typing import Any

from eagerjit.distributed.collectives import ReduceOp
from eagerjit.distributed.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from eagerjit.distributed.exchange import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from eagerjit.distributed.groups import GroupMember, ProcessGroup, Work, default_pg_timeout, group, resolved, world
from eagerjit.distributed.messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from eagerjit.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from eagerjit.distributed.rendezvous import find
from eagerjit.distributed.stores import FileStore, HashStore, PrefixStore, Store, TCPStore

__all__ = [
    "Backend", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "GroupMember",
    "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp", "Store", "TCPStore", "Work", "all_gather",
    "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
    "supports_complex",
]  # fmt: skip


class Backend(str):
    """What processes talk through: `gloo`, for tensors on the CPU, and on a device by way of the CPU."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL, FAKE = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl", "fake"


_numbers = itertools.count(1)


def is_available() -> bool:
    """Whether this process is one of several, by its group or the environment that `torchrun` sets.

    Where it is True packages import what eagerjit has not (`fsdp`, `checkpoint`): a program of one process needs none
    of it.
    """
    return is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_initialized() -> bool:
    """Whether there is a default group."""
    return group.WORLD is not None


def is_gloo_available() -> bool:
    """True."""
    return True


def is_nccl_available() -> bool:
    """False."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Whether groups can have a backend: gloo."""
    return backend.lower() == Backend.GLOO


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether an operation reduces complex numbers."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)


def _backend_of(asked: Any) -> str:
    """The backend for what was asked for, as `gloo` or `cpu:gloo,cuda:nccl`. Raises where the CPU's is no gloo."""
    text = "gloo" if asked is None else str(asked).lower()
    parts = [p.rpartition(":") for p in text.split(",")]
    name = next((backend for device, _, backend in parts if device in ("", "cpu")), text)
    if name != Backend.GLOO:
        raise RuntimeError(f"eagerjit's processes exchange tensors by the backend gloo, not by {asked}")
    return text if ":" not in text else "gloo"


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1,
    rank: int = -1, store: Store | None = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Make the default group, waiting for all its processes.

    They find each other by a store or an `init_method` (`env://`, `tcp://host:port`, `file:///path`). Raises ValueError
    where there is a group already or something is missing, RuntimeError for other backends than gloo, DistNetworkError
    and DistStoreError where processes do not come within `timeout`.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name, limit = _backend_of(backend), timeout or default_pg_timeout
    if store is None:
        store, rank, world_size = _found(init_method, rank, world_size, limit)
    elif world_size <= 0 or rank < 0:
        raise AssertionError("world_size must be positive and rank non-negative if using store")
    if world_size == 1:
        store = None
    elif store is not None:
        store = PrefixStore("default_pg", store)
    group.WORLD = ProcessGroup(range(world_size), rank, store, limit, name, "0")


def _found(method: str | None, rank: int, size: int, limit: Any) -> tuple[Store | None, int, int]:
    """The store, and the numbers; one process alone needs none."""
    alone = size == 1 or (size < 0 and os.environ.get("WORLD_SIZE", "1") == "1")
    if method in (None, "env://") and alone and "MASTER_ADDR" not in os.environ:
        return None, 0, 1
    return find(method, rank, size, limit)


def destroy_process_group(group: Any = None) -> None:
    """End a group, or all. Raises ValueError where there is none."""
    ended = resolved(group)
    if ended is None:
        return
    if ended is GroupMember.WORLD:
        for made in _made:
            made.close()
        _made.clear()
        GroupMember.WORLD = None
    elif ended in _made:
        _made.remove(ended)
    ended.close()


_made: list[ProcessGroup] = []


def get_rank(group: Any = None) -> int:
    """This process's number in a group, -1 if it is not in it. Raises ValueError without a default group."""
    members = resolved(group)
    return -1 if members is None else members.rank()


def get_world_size(group: Any = None) -> int:
    """A group's number of processes, -1 if this one is not in it. Raises ValueError without a default group."""
    members = resolved(group)
    return -1 if members is None else members.size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine, which `torchrun` sets."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank")
    return int(fallback_rank)


def get_backend(group: Any = None) -> str:
    """The backend that a group was made with."""
    members = resolved(group)
    if members is None:
        raise ValueError("Invalid process group specified")
    return members.backend


def get_default_backend_for_device(device: Any) -> str:
    """The backend for a kind of device: gloo for the CPU."""
    from eagerjit.devices import Device

    return {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}.get(Device(device).type, "gloo")


def get_process_group_ranks(group: Any) -> list[int]:
    """The numbers among all processes of a group's."""
    members = resolved(group)
    return [] if members is None else list(members.ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """A process's number in a group from that among all. Raises ValueError if it is not in it."""
    if group is None or global_rank not in group.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return int(group.ranks.index(global_rank))


def get_global_rank(group: Any, group_rank: int) -> int:
    """A process's number among all from that in a group. Raises ValueError if it has no such."""
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return int(group.ranks[group_rank])


def get_pg_count() -> int:
    """The number of groups."""
    return len(_made) + is_initialized()


def new_group(
    ranks: Sequence[int] | None = None, timeout: Any = None, backend: Any = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None,
) -> Any:  # fmt: skip
    """A group of some processes, by their numbers among all; all processes make it, those outside get no member of it.

    Raises ValueError without a default group and for ranks that there are not.
    """
    default = world()
    chosen = sorted(default.ranks if ranks is None else ranks)
    if len(set(chosen)) != len(chosen) or any(not 0 <= r < default.size() for r in chosen):
        raise ValueError("the new group's rank should be within the world_size set by init_process_group")
    name = _backend_of(backend) if backend is not None else default.backend
    number = "_".join(map(str, chosen)) if use_local_synchronization else str(next(_numbers))
    if default.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    store = None if len(chosen) == 1 else default.store
    made = ProcessGroup(chosen, default.rank(), store, timeout or default_pg_timeout, name, f"group {number}")
    _made.append(made)
    return made


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: Any = None, backend: Any = None, pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of so many processes after each other: (this process's own, all)."""
    size = get_world_size()
    if group_size is None or group_size <= 0 or size % group_size:
        raise ValueError(f"The world size {size} must be divisible by group_size={group_size}")
    lists = [list(range(first, first + group_size)) for first in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: Any = None, backend: Any = None, pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of these processes: (this process's own, all)."""
    given = [r for ranks in ranks_per_subgroup_list for r in ranks]
    if len(set(given)) != len(given):
        raise ValueError("Rank has appeared in more than one subgroup")
    groups = [new_group(ranks, timeout, backend) for ranks in ranks_per_subgroup_list]
    own = [g for ranks, g in zip(ranks_per_subgroup_list, groups, strict=True) if get_rank() in ranks]
    return (own[0] if own else None), groups


def __getattr__(name: str) -> Any:
    if name in (
        "_functional_collectives", "algorithms", "autograd", "checkpoint", "elastic", "fsdp", "nn", "optim", "rpc",
        "run", "tensor",
    ):  # fmt: skip
        return importlib.import_module(f"eagerjit.distributed.{name}")
    if name == "init_device_mesh" or name == "DeviceMesh":
        from eagerjit.distributed import tensor

        return getattr(tensor, name)
    if name == "_get_default_group":
        return world
    if name.startswith("_"):
        raise AttributeError(f"eagerjit has no torch.distributed.{name}")
    from eagerjit.tools.names import nearest

    near = nearest(name, (n for n in globals() if not n.startswith("_")))
    hint = f"; the nearest name it has is torch.distributed.{near}" if near else ""
    raise AttributeError(f"eagerjit has no torch.distributed.{name}{hint}")
