"""What processes exchange with gradients (`torch.distributed.nn.functional`): results are new tensors."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.function import Function
from eagerjit.distributed import exchange
from eagerjit.distributed.collectives import ReduceOp
from eagerjit.distributed.groups import ProcessGroup, place_in, world
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
           "reduce_scatter", "scatter"]  # fmt: skip


class _AllReduce(Function):
    """A reduction of all processes' tensors; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        out = tensor.clone()
        exchange.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, gradient.contiguous())


class _Broadcast(Function):
    """The root's tensor; its gradient is the sum of all."""

    @staticmethod
    def forward(ctx: Any, root: int, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.root, ctx.group = root, group
        out = tensor.clone()
        exchange.broadcast(out, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        total = _Reduce.apply(ctx.root, ReduceOp.SUM, ctx.group, gradient.contiguous())
        return None, None, total if ctx.group.rank() == ctx.root else creation.zeros_like(total)


class _Reduce(Function):
    """The root's reduction; its gradient goes to all."""

    @staticmethod
    def forward(ctx: Any, root: int, op: ReduceOp, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.root, ctx.group = root, group
        out = tensor.clone()
        exchange.reduce(out, op=op, group=group, group_dst=root)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.root, ctx.group, gradient.contiguous())


class _AllToAll(Function):
    """Output k is process k's input of this one's number; its gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, outputs: list[Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        found = [creation.empty_like(t) for t in outputs]
        exchange.all_to_all(found, [t.contiguous() for t in tensors], group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        like = [creation.empty(tuple(shape), dtype=gradients[0].dtype) for shape in ctx.shapes]
        return None, None, *_AllToAll.apply(ctx.group, like, *(g.contiguous() for g in gradients))


class _AllToAllSingle(Function):
    """`_AllToAll` of parts along the first dimension."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, output: Tensor, into: Any, out: Any, tensor: Tensor) -> Tensor:
        ctx.group, ctx.sizes, ctx.shape = group, (into, out), tensor.shape
        found = creation.empty_like(output)
        exchange.all_to_all_single(found, tensor.contiguous(), into, out, group)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        like = creation.empty(tuple(ctx.shape), dtype=gradient.dtype)
        into, out = ctx.sizes
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, like, out, into, gradient.contiguous())


def _group(group: Any) -> ProcessGroup:
    return world() if group is None else group


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all processes' tensors."""
    return _AllReduce.apply(op, _group(group), tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """One process's tensor."""
    members = _group(group)
    return _Broadcast.apply(place_in(members, src, None, "src", None), members, tensor)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all processes' tensors in one of them; the tensor in others."""
    members = _group(group)
    return _Reduce.apply(place_in(members, dst, None, "dst", None), op, members, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The processes' tensors, all of one shape."""
    members = _group(group)
    return _AllToAll.apply(members, [tensor] * members.size(), *[tensor] * members.size())


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The processes' tensors in one of them; zeros in others."""
    members = _group(group)
    root = place_in(members, dst, None, "dst", None)
    sent = [tensor if k == root else creation.zeros_like(tensor) for k in range(members.size())]
    return _AllToAll.apply(members, [tensor] * members.size(), *sent)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """The tensor of this process's number in one process's list; lists have tensors of one shape in all processes."""
    members = _group(group)
    root = place_in(members, src, None, "src", None)
    return _AllToAll.apply(members, tensors, *tensors)[root]


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction of the tensors of this process's number in all lists."""
    members = _group(group)
    parts = _AllToAll.apply(members, [output] * members.size(), *input_list)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(f"reduce_scatter with gradients sums or averages: {op}")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total / members.size() if op is ReduceOp.AVG else total


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> tuple[Any, ...]:
    """Output k is the input of process k that has this process's number; outputs given say the shapes."""
    return _AllToAll.apply(_group(group), output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:
    """`all_to_all` of parts along the first dimension."""
    return _AllToAllSingle.apply(_group(group), output, output_split_sizes, input_split_sizes, input)
