"""Normalisation over batches and over groups of channels."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.creation import empty, ones, tensor, zeros
from eagerjit.dispatch import Op
from eagerjit.nn import init
from eagerjit.nn.module import Module
from eagerjit.ops.activation import widened
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reduce import extent
from eagerjit.runtime import dtypes
from eagerjit.tensor import Parameter, Tensor


def _channels(x: Tensor, vector: Tensor) -> Tensor:
    """A vector over channels, shaped so that it broadcasts against x."""
    return vector.view((1, -1, *(1,) * (x.ndim - 2)))


def _normalise(input: Tensor, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias; statistics of the batch where none are given."""
    x, mean, variance, weight, bias = widened(input, mean, variance, weight, bias)
    if mean is None:
        axes = (0, *range(2, x.ndim))
        count = extent(x, axes)
        centered = x - x.sum(axes, keepdim=True) / count
        scale = ((centered * centered).sum(axes, keepdim=True) / count + eps).rsqrt()
    else:
        centered = x - _channels(x, mean)
        scale = (_channels(x, variance) + eps).rsqrt()
    out = centered * scale
    out = out if weight is None else out * _channels(x, weight)
    return as_dtype(out if bias is None else out + _channels(x, bias), input.dtype)


_normalise_op = Op("batch_norm", _normalise)


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per channel, over the batch while training; running statistics are updated in place."""
    if not training:
        return _normalise_op.call(input, running_mean, running_var, weight, bias, eps)
    count = input.numel() // input.shape[1]
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    if running_mean is not None and running_var is not None:
        with no_grad():
            axes = (0, *range(2, input.ndim))
            running_mean.lerp_(input.mean(axes).to(running_mean.dtype), momentum)
            running_var.lerp_(input.var(axes).to(running_var.dtype), momentum)
    return _normalise_op.call(input, None, None, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 within groups of channels."""
    from eagerjit.ops.normalization import layer_norm

    if input.shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    groups = input.reshape(input.shape[0], num_groups, -1)
    out = layer_norm(groups, (groups.shape[-1],), eps=eps).reshape(tuple(input.shape))
    out = out if weight is None else out * _channels(input, weight)
    return out if bias is None else out + _channels(input, bias)


class _BatchNorm(Module):
    ranks: tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name in ("weight", "bias"):
            made = Parameter(empty(num_features, device=device, dtype=dtype)) if affine else None
            self.register_parameter(name, made)
        kept = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype) if kept else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype) if kept else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=dtypes.int64) if kept else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """weight 1, bias 0, no statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {'D or '.join(map(str, self.ranks))}D input (got {input.ndim}D input)")
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.to(dtypes.float32)
        batch = self.training or self.running_mean is None
        tracked = self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if tracked else (None, None)
        return batch_norm(input, mean, var, self.weight, self.bias, batch, momentum, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Normalisation over the batch of (batch, channels) or (batch, channels, length)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalisation over the batch of (batch, channels, height, width)."""

    ranks = (4,)


class GroupNorm(Module):
    """Normalisation within groups of channels of (batch, channels, ...)."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name in ("weight", "bias"):
            made = Parameter(empty(num_channels, device=device, dtype=dtype)) if affine else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"
