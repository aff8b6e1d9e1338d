"""Normalisation over batches, over groups of channels, over each channel, and over neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.calling.dispatch import Op
from eagerjit.effects.cautions import caution
from eagerjit.nn.affine import Affine
from eagerjit.nn.module import Module
from eagerjit.nn.parameter import is_lazy
from eagerjit.ops import views
from eagerjit.ops.arithmetic import lerp
from eagerjit.ops.channels import batch_norm_op, group_norm_op, known_norm
from eagerjit.ops.index import cat
from eagerjit.ops.inplace import InplaceOp
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.runtime.mode import set_grad_mode
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.creation import ones, tensor, zeros
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.tensor import Tensor


def _running_statistic(input: Tensor, batch: Tensor, factor: float | None, momentum: Any) -> Tensor:
    """A statistic, moved towards that of a batch, or a multiple of it."""
    return lerp.call(input, as_dtype(batch if factor is None else batch * factor, input.dtype), momentum)


move_statistic = InplaceOp(Op("running_statistic", _running_statistic, None, ("factor", "momentum"))).method()


def _check_channels(called: str, input: Tensor, statistics: Sequence[Tensor | None]) -> None:
    """Raises RuntimeError where a mean, a variance, a weight or a bias is of another number of channels."""
    for name, given in zip(("running_mean", "running_var", "weight", "bias"), statistics, strict=True):
        if given is not None and given.numel() != input.shape[1]:
            raise RuntimeError(f"{called}(): {name} should contain {input.shape[1]} elements not {given.numel()}")


def _of_nothing(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """A result without elements, to which parameters of any size belong: their gradients are 0."""
    out = input * 1.0
    for parameter in (weight, bias):
        out = out if parameter is None else out * parameter.sum()
    return out


@planned
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> Plan:  # fmt: skip
    """Mean 0 and variance 1 per channel, over the batch while training; running statistics are updated in place.

    (input - mean) / sqrt(variance + eps) * weight + bias (Ioffe and Szegedy 2015) of (batch, channels, ...), the others
    (channels). Running statistics move by `momentum` towards the batch's, whose variance is divided by N - 1 there;
    without training they are what is subtracted and divided by. Raises ValueError for one value per channel in training
    and for a negative eps, RuntimeError for statistics of another size or, without training, none.
    """
    if eps < 0.0 or (training and eps == 0.0):
        least = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {least}, but got {eps}")
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        if input.numel() == 0:
            return _of_nothing, (input, weight, bias)
        _check_channels("batch_norm", input, (running_mean, running_var, weight, bias))
        return known_norm.call, (input, running_mean, running_var, weight, bias, eps)
    if (running_mean is None) is not (running_var is None):
        raise ValueError("batch_norm(): running_mean and running_var must either both be None or neither be None")
    if input.numel() == 0:  # leaves the running statistics as they are
        return _of_nothing, (input, weight, bias)
    count = input.numel() // input.shape[1]
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    _check_channels("batch_norm", input, (running_mean, running_var, weight, bias))
    known = (None, None) if running_mean is None or running_var is None else (running_mean, running_var)
    return _trained, (input, weight, bias, eps, *known, momentum, count / (count - 1))


def _trained(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: Any, correction: Any,
) -> Tensor:  # fmt: skip
    """The normalised batch; its mean and its variance move what is known of batches."""
    out, mean, variance = batch_norm_op.call(input, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        before = set_grad_mode(False)
        try:
            move_statistic(running_mean, mean.detach(), None, momentum)
            move_statistic(running_var, variance.detach(), correction, momentum)
        finally:
            set_grad_mode(before)
    return out


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 within groups of channels (Wu and He 2018).

    input is (batch, channels, ...), weight and bias (channels). Raises RuntimeError where groups do not divide
    channels and for weights and biases of other shapes, ValueError where a group has a single value.
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if input.shape[0] * input.shape[1] // num_groups == 1 and all(d == 1 for d in input.shape[2:]):
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    if input.shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    return group_norm_op.call(input, num_groups, weight, bias, eps)[0]


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per channel of each example; running statistics are updated in place.

    Of (batch, channels, ...) (Ulyanov et al. 2016); the others are (channels), as in `batch_norm`. Raises ValueError
    for a single value per channel, RuntimeError for missing statistics unless `use_input_stats`.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return known_norm.call(input, running_mean, running_var, weight, bias, eps)
    if input.numel() == 0:
        if input.shape[1] == 0:
            _check_channels("instance_norm", input, (running_mean, running_var, None, None))
        return _of_nothing(input, weight, bias)
    count = input.numel() // (input.shape[0] * input.shape[1])
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if running_mean is not None:
        _check_channels("instance_norm", input, (running_mean, running_var, None, None))
    out, mean, variance = group_norm_op.call(input, None, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        with no_grad():
            running_mean.lerp_(mean.mean(0).to(running_mean.dtype), momentum)
            running_var.lerp_((variance.mean(0) * (count / (count - 1))).to(running_var.dtype), momentum)
    return out


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input / (k + alpha * mean square of `size` neighbouring channels) ** beta (Krizhevsky et al. 2012)."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    squares = input * input
    before, after = size // 2, (size - 1) // 2
    shape = tuple(input.shape)
    borders = [input.new_zeros((shape[0], n, *shape[2:])) for n in (before, after)]
    wide = cat.call([x for x in (borders[0], squares, borders[1]) if x.shape[1]], 1)
    total = views.narrow(wide, 1, 0, shape[1])
    for shift in range(1, size):
        total = total + views.narrow(wide, 1, shift, shape[1])
    return input / (total / size * alpha + k) ** beta


class _NormBase(Affine):
    """Statistics and parameters per channel."""

    _version = 2

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._make_parameters(num_features, affine, affine and bias, device, dtype)
        kept = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if kept else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if kept else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=dtypes.int64, device=device) if kept else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """No statistics yet."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """weight 1, bias 0, no statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        """States saved by version 1 have no count of batches."""
        name = f"{prefix}num_batches_tracked"
        if local_metadata.get("version") is None or local_metadata["version"] < 2:
            if self.track_running_stats and name not in state_dict:
                known = self.num_batches_tracked
                state_dict[name] = tensor(0, dtype=dtypes.int64) if known is None else known
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    ranks: tuple[int, ...] = ()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {'D or '.join(map(str, self.ranks))}D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        mean, var, training = self.running_mean, self.running_var, self.training
        if training and self.track_running_stats and (seen := self.num_batches_tracked) is not None:
            seen.add_(1)
            if self.momentum is None:
                momentum = 1.0 / seen.to(dtypes.float32)
        batch = training or (mean is None and var is None)
        if training and not self.track_running_stats:
            mean = var = None
        return batch_norm(input, mean, var, self.weight, self.bias, batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """`nn.functional.batch_norm` of (batch, channels) or (batch, channels, length); ValueError for other ranks.

    `momentum=None` averages all batches alike; without `track_running_stats` every batch is normalised by itself.
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """`nn.functional.batch_norm` of (batch, channels, height, width); ValueError for other ranks. See `BatchNorm1d`."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """`nn.functional.batch_norm` of (batch, channels, depth, height, width); ValueError for other ranks."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Normalisation over the batch of (batch, channels, ...) that all processes of a group have together."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """The normalised batch; in one process, and with statistics that are known, what BatchNorm gives."""
        from eagerjit import distributed

        in_batch = self.training or self.running_mean is None
        group = self.process_group
        if not in_batch or not distributed.is_initialized() or distributed.get_world_size(group) < 2:
            return super().forward(input)
        from eagerjit.nn.distributed import normalized_together

        self._check_input_dim(input)
        return normalized_together(self, input, group)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a SyncBatchNorm of the same state in place of every BatchNorm."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            options = (module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            made = cls(module.num_features, *options, bias=module.bias is not None)
            made.training = module.training
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
        for name, child in list(module.named_children()):
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    rank = 0

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self.rank - 1, self.rank):
            raise ValueError(f"expected {self.rank - 1}D or {self.rank}D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.ndim == self.rank - 1
        x = input.unsqueeze(0) if single else input
        if x.shape[1] != self.num_features and not is_lazy(self.weight):
            dim = 0 if single else 1
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{x.shape[1]}."
                )
            caution(f"input's size at dim={dim} does not match num_features, which is not used because affine=False")
        of_input = self.training or not self.track_running_stats
        state = (self.running_mean, self.running_var, self.weight, self.bias)
        out = instance_norm(x, *state, of_input, 0.0 if self.momentum is None else self.momentum, self.eps)
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Normalisation of each channel of each example, (batch, channels, length)."""

    rank = 3


class InstanceNorm2d(_InstanceNorm):
    """Normalisation of each channel of each example, (batch, channels, height, width)."""

    rank = 4


class InstanceNorm3d(_InstanceNorm):
    """Normalisation of each channel of each example, (batch, channels, depth, height, width)."""

    rank = 5


class GroupNorm(Affine):
    """Normalisation within groups of channels of (batch, channels, ...); see `nn.functional.group_norm`.

    Raises ValueError where num_groups does not divide num_channels.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make_parameters(num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class LocalResponseNorm(Module):
    """input / (k + alpha * mean square of `size` neighbouring channels) ** beta (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
