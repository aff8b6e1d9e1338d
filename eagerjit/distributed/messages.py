"""Messages from one process of a group to another."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

from eagerjit.autograd.graph import increment_version
from eagerjit.distributed.groups import Work, place_in, resolved
from eagerjit.distributed.memory import of, written
from eagerjit.tensors.tensor import Tensor

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


_ITSELF = "Invalid {0} rank: {0} rank should not be the same as the rank of the current process."


def _aside(do: Any, source: int = -1) -> Work:
    work = Work(source)
    Thread(target=work._run, args=(do,), daemon=True).start()
    return work


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to a process, which receives it. Raises ValueError for this process itself."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """`send`, to be waited for."""
    members = resolved(group)
    if members is None:
        return None
    to = place_in(members, dst, group_dst, "dst", None)
    if to == members.rank():
        raise ValueError(_ITSELF.format("destination"))
    array, mailbox = of(tensor), members.mailbox
    return _aside(lambda: mailbox.send(array, to, tag))


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from a process, or from any; from whom it came, -1 in a group without this process."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """`recv`, to be waited for."""
    members = resolved(group)
    if members is None:
        return None
    source = None if src is None and group_src is None else place_in(members, src, group_src, "src", None)
    if source == members.rank():
        raise ValueError(_ITSELF.format("source"))
    array, mailbox = of(tensor), members.mailbox

    def do() -> int:
        found = mailbox.receive(array, source, tag)
        written(tensor, array)
        return members.ranks[found]

    increment_version(tensor)
    return _aside(do)


class P2POp:
    """One of `isend` and `irecv`, with its arguments."""

    def __init__(
        self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ):  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``irecv``.")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin all of these; what can be waited for."""
    if not p2p_op_list or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    works = (p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list)
    return [work for work in works if work is not None]
