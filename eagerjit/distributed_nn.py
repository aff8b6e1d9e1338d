"""Names of `torch.distributed.nn`: what processes exchange with gradients, in a group of one."""

from __future__ import annotations

from typing import Any

from eagerjit.distributed import _check
from eagerjit.tensors.tensor import Tensor

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


def all_reduce(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor: there is nobody to add. Raises ValueError without a group, as the other functions here."""
    _check()
    return tensor.clone()


broadcast = all_reduce
reduce = all_reduce


def all_gather(tensor: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The tensor alone."""
    return (all_reduce(tensor),)


gather = all_gather


def reduce_scatter(output: Tensor, input_list: list[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The one tensor of the list."""
    return all_reduce(input_list[0])


def scatter(tensors: list[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The one tensor of the list."""
    return all_reduce(tensors[0])


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], *args: Any) -> tuple[Tensor, ...]:
    """The one tensor of the list."""
    return all_gather(input_tensor_list[0])
