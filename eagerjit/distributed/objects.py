"""Python objects that processes exchange, pickled: only for processes that trust each other, as in PyTorch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from eagerjit.distributed import collectives
from eagerjit.distributed.groups import ProcessGroup, place_in, resolved
from eagerjit.distributed.links import Links

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
           "send_object_list"]  # fmt: skip


def _packed(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value), np.uint8)


def _unpacked(array: np.ndarray) -> Any:
    return pickle.loads(array.tobytes())


def _lengths(links: Links, own: int) -> list[int]:
    found = [np.empty(1, np.int64) for _ in range(links.size)]
    collectives.all_gather(links, found, np.asarray([own], np.int64))
    return [int(n[0]) for n in found]


def _everyones(links: Links, value: Any) -> list[np.ndarray]:
    own = _packed(value)
    arrays = [np.empty(n, np.uint8) for n in _lengths(links, own.nbytes)]
    collectives.all_gather(links, arrays, own)
    return arrays


def _result(members: ProcessGroup, do: Any) -> Any:
    """What the group's thread finds, waited for."""
    work = members.ask(do, True)
    assert work is not None
    return work.result()


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """A list's places become the processes' objects."""
    members = resolved(group)
    if members is None:
        return
    if len(object_list) != members.size():
        raise ValueError(f"object_list must have {members.size()} places, not {len(object_list)}")
    object_list[:] = map(_unpacked, _result(members, lambda links: _everyones(links, obj)))


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """The places of one process's list become the processes' objects."""
    members = resolved(group)
    if members is None:
        return
    root = place_in(members, dst, group_dst, "dst", 0)
    if (members.rank() == root) != (object_gather_list is not None):
        raise ValueError("Argument ``object_gather_list`` must be specified on the destination rank, and on no other.")

    def do(links: Links) -> list[np.ndarray]:
        own = _packed(obj)
        arrays = [np.empty(n, np.uint8) for n in _lengths(links, own.nbytes)]
        collectives.gather(links, arrays, own, root)
        return arrays

    found = _result(members, do)
    if object_gather_list is not None:
        object_gather_list[:] = map(_unpacked, found)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """A list's places become the objects of one process's list."""
    members = resolved(group)
    if members is None:
        return
    if not isinstance(object_list, list) or not object_list:
        raise ValueError("object_list must be a list of objects")
    root = place_in(members, src, group_src, "src", 0)

    def do(links: Links) -> Any:
        own = _packed(object_list if links.rank == root else None)
        array = own if links.rank == root else np.empty(0, np.uint8)
        length = np.asarray([array.nbytes], np.int64)
        collectives.broadcast(links, length, root)
        array = own.copy() if links.rank == root else np.empty(int(length[0]), np.uint8)
        collectives.broadcast(links, array, root)
        return array

    found = _result(members, do)
    if members.rank() != root:
        given = _unpacked(found)
        if len(given) != len(object_list):
            raise ValueError(f"object_list has {len(object_list)} places, that of process {root} {len(given)}")
        object_list[:] = given


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """The first place of a process's list becomes the object of its number in one process's list."""
    members = resolved(group)
    if members is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = place_in(members, src, group_src, "src", 0)
    given = scatter_object_input_list
    if members.rank() == root and (given is None or len(given) != members.size()):
        raise ValueError(f"scatter_object_input_list must have {members.size()} objects")

    def do(links: Links) -> np.ndarray:
        packed = [_packed(value) for value in given] if given is not None and links.rank == root else []
        length = np.empty(1, np.int64)
        collectives.scatter(links, length, [np.asarray([a.nbytes], np.int64) for a in packed], root)
        array = np.empty(int(length[0]), np.uint8)
        collectives.scatter(links, array, packed, root)
        return array

    scatter_object_output_list[0] = _unpacked(_result(members, do))


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None
) -> None:
    """Send a list's objects to a process."""
    members = resolved(group)
    if members is None:
        return
    to = place_in(members, dst, group_dst, "dst", None)
    packed = _packed(object_list)
    members.mailbox.send(np.asarray([packed.nbytes], np.int64), to, OBJECTS)
    members.mailbox.send(packed, to, OBJECTS)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> int:
    """Receive a list's objects from a process, or from any; from whom they came."""
    members = resolved(group)
    if members is None:
        return -1
    source = None if src is None and group_src is None else place_in(members, src, group_src, "src", None)
    length = np.empty(1, np.int64)
    found = members.mailbox.receive(length, source, OBJECTS)
    array = np.empty(int(length[0]), np.uint8)
    members.mailbox.receive(array, found, OBJECTS)
    object_list[:] = _unpacked(array)
    return members.ranks[found]


OBJECTS = -1
"""The tag of messages that are objects."""
