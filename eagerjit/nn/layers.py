"""Layers with parameters, and what changes shapes."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.nn import init
from eagerjit.nn.affine import Affine
from eagerjit.nn.module import Module
from eagerjit.ops.linear import linear_
from eagerjit.ops.normalization import layer_norm, rms_norm, sizes_normalized
from eagerjit.tensors.creation import empty
from eagerjit.tensors.tensor import Parameter, Tensor


class Identity(Module):
    """Returns its argument."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """input @ weight.T + bias: (..., in_features) to (..., out_features).

    weight is (out_features, in_features), bias (out_features) or None; both are drawn uniform within 1 /
    sqrt(in_features). Raises RuntimeError for inputs of another last size or dtype.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform within 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        own = self._parameters  # one look-up instead of one for each: that is a third of a small call
        if "weight" in own and "bias" in own:
            return linear_.call(input, own["weight"], own["bias"])
        return linear_.call(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


@converting
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[k] @ input2 + bias[k] for every output k.

    (..., in1) and (..., in2) with weight (out, in1, in2) give (..., out). Raises RuntimeError for sizes that do not
    fit, and for several dtypes.
    """
    if tuple(input1.shape)[:-1] != tuple(input2.shape)[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    if input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise RuntimeError(
            f"bilinear(): input sizes {input1.shape[-1]} and {input2.shape[-1]} do not match weight's "
            f"{weight.shape[1]} and {weight.shape[2]}"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {list(bias.shape)} but expected {[weight.shape[0]]}"
        )
    given = sorted({str(x.dtype) for x in (input1, input2, weight, bias) if x is not None})
    if len(given) > 1:
        raise RuntimeError(f"bilinear(): all tensors must have the same dtype, got {', '.join(given)}")
    left = input1.unsqueeze(-2).unsqueeze(-2)
    out = left.matmul(weight).squeeze(-2).matmul(input2.unsqueeze(-1)).squeeze(-1)
    return out if bias is None else out + bias


class Bilinear(Module):
    """x1 @ weight @ x2 + bias: (..., in1_features) and (..., in2_features) to (..., out_features).

    weight is (out_features, in1_features, in2_features). Raises ValueError unless in1_features > 0.
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LayerNorm(Affine):
    """Mean 0 and variance 1 over the last dimensions, then times weight plus bias (Ba, Kiros and Hinton 2016).

    `normalized_shape` is these dimensions' sizes, which weight (ones at first) and bias (zeros) have; the result has
    input's shape. `nn.functional.layer_norm` says more.
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = sizes_normalized(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self._make_parameters(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(Module):
    """Divided by the root of the mean square over the last dimensions, then times weight (Zhang and Sennrich 2019).

    `normalized_shape` is these dimensions' sizes, which weight has; `nn.functional.rms_norm` says more.
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = sizes_normalized(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Flatten(Module):
    """Dimensions from start_dim to end_dim as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several."""

    def __init__(self, dim: int, unflattened_size: Any):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
