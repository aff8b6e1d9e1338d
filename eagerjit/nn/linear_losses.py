"""Cross entropy of a linear layer's logits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from eagerjit.nn.layers import Linear
from eagerjit.nn.losses import _WeightedLoss
from eagerjit.ops.classification import cross_entropy
from eagerjit.ops.linear import linear_
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch cuts the batch into pieces to save memory: results are the same, and nothing is cut here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`.

    input is (features) or (batch, features), linear_weight (classes, *sizes, features); target holds class numbers
    (batch, *sizes) or probabilities (batch, classes, *sizes). Raises RuntimeError for sizes that do not fit.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    batch, outputs = tuple(input.shape[:-1]), tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != outputs:
        raise RuntimeError(f"expected linear_bias shape {outputs}, got {tuple(linear_bias.shape)}")
    if len(outputs) > 1 and not batch:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"got unbatched input with shape {tuple(input.shape)}"
        )
    if ignore_index is not None and tuple(target.shape) == (*batch, *outputs):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    logits = linear_.call(input, flat, None if linear_bias is None else linear_bias.reshape(-1))
    return cross_entropy(
        logits.reshape(*batch, *outputs), target, weight, reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index, label_smoothing=label_smoothing,
    )  # fmt: skip


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer without or with a bias, and the cross entropy of its logits: `linear` holds the parameters."""

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ):  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        layer, sizes = self.linear, (self.num_classes, *self.out_features)
        return linear_cross_entropy(
            input, layer.weight.reshape(*sizes, layer.in_features), target,
            linear_bias=None if layer.bias is None else layer.bias.reshape(sizes), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
            options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        layer, names = self.linear, ("out_features", "reduction", "ignore_index", "label_smoothing", "options")
        parts = {
            "in_features": layer.in_features, "num_classes": self.num_classes, "out_features": self.out_features,
            "bias": layer.bias is not None, **{name: getattr(self, name) for name in names},
        }  # fmt: skip
        return ", ".join(f"{name}={value}" for name, value in parts.items())
