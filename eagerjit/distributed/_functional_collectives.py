"""Collectives that return their results (`torch.distributed._functional_collectives`): those that packages import."""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.distributed import nn
from eagerjit.distributed.groups import ProcessGroup
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor

__all__ = ["all_to_all_single_autograd", "wait_tensor"]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it was waited for."""
    return tensor


def all_to_all_single_autograd(
    self: Tensor, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None,
    group: ProcessGroup | None, tag: str = "",
) -> Tensor:  # fmt: skip
    """What `all_to_all_single` writes to its output; gradients go back."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    output = creation.empty((rows, *self.shape[1:]), dtype=self.dtype, device=self.device)
    return nn.all_to_all_single(output, self, output_split_sizes, input_split_sizes, group)
