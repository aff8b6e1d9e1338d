"""Collective operations on tensors: every process of a group calls the same, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.autograd.graph import increment_version
from eagerjit.distributed import collectives
from eagerjit.distributed.collectives import ReduceOp
from eagerjit.distributed.groups import ProcessGroup, Work, place_in, resolved
from eagerjit.distributed.links import Links
from eagerjit.distributed.memory import of, written
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "gather", "monitored_barrier",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def _check(tensors: Any, what: str) -> list[Tensor]:
    """A list of tensors. Raises TypeError for anything else."""
    found = [tensors] if isinstance(tensors, Tensor) else tensors
    if not isinstance(found, (list, tuple)) or not all(isinstance(t, Tensor) for t in found):
        raise TypeError(f"Invalid function argument. Expected `{what}` to be a torch.Tensor or a list of them.")
    return list(found)


def _count(given: Sequence[Tensor], group: ProcessGroup, what: str) -> None:
    if len(given) != group.size():
        raise ValueError(f"{what} must have one tensor for each of {group.size()} processes, not {len(given)}")


def _alike(tensors: Sequence[Tensor], what: str) -> None:
    kinds = {(t.dtype, tuple(t.shape)) for t in tensors}
    if len(kinds) > 1:
        raise ValueError(f"{what}: tensors must have one dtype and shape, not {sorted(map(str, kinds))}")


def _reducible(tensor: Tensor, op: ReduceOp) -> None:
    if op is ReduceOp.PREMUL_SUM:
        raise NotImplementedError("ReduceOp.PREMUL_SUM is one of nccl alone")
    if tensor.dtype.is_complex and op not in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    if tensor.dtype.is_floating_point and op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        raise ValueError(f"Cannot use {op} with non-integral dtype {tensor.dtype}")


def _ask(
    group: ProcessGroup, tensors: Sequence[Tensor], do: Callable[[Links, list[np.ndarray]], None], aside: bool,
    changed: Sequence[Tensor],
) -> Work | None:  # fmt: skip
    """Do something with the memory of tensors, of which some are changed."""
    arrays = [of(t) for t in tensors]
    places = [i for i, t in enumerate(tensors) if any(t is c for c in changed)]

    def run(links: Links) -> list[Tensor]:
        do(links, arrays)
        for i in places:
            written(tensors[i], arrays[i])
        return list(changed or tensors)

    increment_version(list(changed))
    return group.ask(run, aside)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process's tensor becomes the reduction of all; `async_op`: a Work to wait for."""
    members = resolved(group)
    if members is None:
        return None
    _check(tensor, "tensor")
    _reducible(tensor, op)
    return _ask(members, [tensor], lambda links, a: collectives.all_reduce(links, a[0], op), async_op, [tensor])


def all_reduce_coalesced(
    tensors: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors."""
    members = resolved(group)
    if members is None:
        return None
    given = _check(tensors, "tensors")
    for tensor in given:
        _reducible(tensor, op)

    def do(links: Links, arrays: list[np.ndarray]) -> None:
        for array in arrays:
            collectives.all_reduce(links, array, op)

    return _ask(members, given, do, async_op, given)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """One process's tensor becomes the reduction of all."""
    members = resolved(group)
    if members is None:
        return None
    _check(tensor, "tensor")
    _reducible(tensor, op)
    root = place_in(members, dst, group_dst, "dst", None)
    changed = [tensor] if root == members.rank() else []
    return _ask(members, [tensor], lambda links, a: collectives.reduce(links, a[0], op, root), async_op, changed)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Every process's tensor becomes that of one."""
    members = resolved(group)
    if members is None:
        return None
    _check(tensor, "tensor")
    root = place_in(members, src, group_src, "src", None)
    changed = [] if root == members.rank() else [tensor]
    return _ask(members, [tensor], lambda links, a: collectives.broadcast(links, a[0], root), async_op, changed)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The tensors of a list become those of the processes."""
    members = resolved(group)
    if members is None:
        return None
    outputs = _check(tensor_list, "tensor_list")
    _check(tensor, "tensor")
    _count(outputs, members, "tensor_list")
    _alike([*outputs, tensor], "all_gather")
    given = [tensor, *outputs]
    return _ask(members, given, lambda links, a: collectives.all_gather(links, a[1:], a[0]), async_op, outputs)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_gather` of several tensors; output_tensor_lists[process][tensor]."""
    works = []
    for place, tensor in enumerate(_check(input_tensor_list, "input_tensor_list")):
        works.append(all_gather([outputs[place] for outputs in output_tensor_lists], tensor, group, async_op))
    return works[-1] if works else None


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """A tensor becomes those of the processes, one after the other along its first dimension or along a new one."""
    members = resolved(group)
    if members is None:
        return None
    _fits(output_tensor, input_tensor, members, "all_gather_into_tensor")

    def do(links: Links, arrays: list[np.ndarray]) -> None:
        collectives.all_gather(links, np.split(arrays[1], links.size), arrays[0])

    return _ask(members, [input_tensor, output_tensor], do, async_op, [output_tensor])


all_gather_single = all_gather_into_tensor


def _fits(whole: Tensor, part: Tensor, members: ProcessGroup, name: str) -> None:
    _check([whole, part], "tensor")
    if whole.dtype != part.dtype:
        raise TypeError(f"{name}: tensors of {whole.dtype} and {part.dtype}")
    if whole.numel() != part.numel() * members.size():
        raise ValueError(
            f"{name}: {tuple(whole.shape)} has {whole.numel()} elements, not {members.size()} times those of "
            f"{tuple(part.shape)}"
        )


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """The tensors of one process's list become those of the processes."""
    members = resolved(group)
    if members is None:
        return None
    _check(tensor, "tensor")
    root = place_in(members, dst, group_dst, "dst", 0)
    outputs = _of_root(gather_list, members, root, "gather_list", "destination")
    _alike([*outputs, tensor], "gather")
    given = [tensor, *outputs]
    return _ask(members, given, lambda links, a: collectives.gather(links, a[1:], a[0], root), async_op, outputs)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """A process's tensor becomes the one of its number in one process's list."""
    members = resolved(group)
    if members is None:
        return None
    _check(tensor, "tensor")
    root = place_in(members, src, group_src, "src", 0)
    inputs = _of_root(scatter_list, members, root, "scatter_list", "source")
    _alike([*inputs, tensor], "scatter")
    given = [tensor, *inputs]
    return _ask(members, given, lambda links, a: collectives.scatter(links, a[0], a[1:], root), async_op, [tensor])


def _of_root(given: Any, members: ProcessGroup, root: int, what: str, role: str) -> list[Tensor]:
    """The list of the process that has one."""
    if members.rank() != root:
        if given:
            raise ValueError(f"Argument ``{what}`` must NOT be specified on non-{role} ranks.")
        return []
    if given is None:
        raise ValueError(f"Argument ``{what}`` must be specified on {role} rank.")
    found = _check(given, what)
    _count(found, members, what)
    return found


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """A process's tensor becomes the reduction of those of its number in all lists."""
    members = resolved(group)
    if members is None:
        return None
    inputs = _check(input_list, "input_list")
    _check(output, "output")
    _reducible(output, op)
    _count(inputs, members, "input_list")

    def do(links: Links, arrays: list[np.ndarray]) -> None:
        collectives.reduce_scatter(links, arrays[0], arrays[1:], op)

    return _ask(members, [output, *inputs], do, async_op, [output])


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """A process's tensor becomes the reduction of the parts of its number of all inputs."""
    members = resolved(group)
    if members is None:
        return None
    _fits(input, output, members, "reduce_scatter_tensor")
    _reducible(output, op)

    def do(links: Links, arrays: list[np.ndarray]) -> None:
        collectives.reduce_scatter(links, arrays[0], np.split(arrays[1], links.size), op)

    return _ask(members, [output, input], do, async_op, [output])


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Output k becomes the input of process k that has this process's number."""
    members = resolved(group)
    if members is None:
        return None
    outputs, inputs = _check(output_tensor_list, "output_tensor_list"), _check(input_tensor_list, "input_tensor_list")
    _count(outputs, members, "output_tensor_list")
    _count(inputs, members, "input_tensor_list")
    given = [*outputs, *inputs]
    count = len(outputs)
    return _ask(
        members, given, lambda links, a: collectives.all_to_all(links, a[:count], a[count:]), async_op, outputs
    )


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """`all_to_all` of parts of tensors along their first dimension: of equal sizes, or of these."""
    members = resolved(group)
    if members is None:
        return None
    _check([output, input], "tensor")
    bounds = [
        _bounds(t, sizes, members.size()) for t, sizes in ((output, output_split_sizes), (input, input_split_sizes))
    ]

    def do(links: Links, arrays: list[np.ndarray]) -> None:
        into, out = (np.split(a, b) for a, b in zip(arrays, bounds, strict=True))
        collectives.all_to_all(links, into, out)

    return _ask(members, [output, input], do, async_op, [output])


def _bounds(tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """Where a flat tensor is cut into parts of these sizes along its first dimension."""
    extent = tensor.shape[0] if tensor.ndim else 1
    if not sizes:
        if extent % count:
            raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size: {extent} by {count}")
        sizes = [extent // count] * count
    if len(sizes) != count:
        raise RuntimeError(f"Number of tensor splits not equal to group size: {len(sizes)}, {count}")
    if sum(sizes) != extent:
        raise RuntimeError(f"Split sizes doesn't match total dim 0 size: {list(sizes)}, {extent}")
    inner = tensor.numel() // extent if extent else 0
    return [int(n) for n in np.cumsum(np.asarray(sizes) * inner)[:-1]]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes of a group are here."""
    members = resolved(group)
    return None if members is None else members.ask(collectives.barrier, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """`barrier`; the error of one that fails says whom it waits for."""
    members = resolved(group)
    if members is None:
        return
    work = members.ask(collectives.barrier, timeout is not None)
    if work is not None:
        work.wait(timeout)
