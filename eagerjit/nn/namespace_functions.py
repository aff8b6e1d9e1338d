"""Functions of networks that PyTorch has in its main namespace too, with arguments of their own."""

from __future__ import annotations

from typing import Any

from eagerjit.nn import batch, dropouts
from eagerjit.nn.activation_functions import rrelu
from eagerjit.ops import adaptive, normalization
from eagerjit.ops.linear import linear_
from eagerjit.ops.padding import pad as padded
from eagerjit.ops.sampling import affine_grid, grid_sample
from eagerjit.tensors.tensor import Tensor

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest numbers of `output_size` windows that cover the last dimension evenly, and where they are."""
    return adaptive.adaptive_max_pool1d(input, output_size, return_indices=True)


def _gates(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> tuple[Tensor, Tensor]:
    """What input and state add to the gates."""
    return linear_.call(x, w_ih, b_ih), linear_.call(h, w_hh, b_hh)


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """tanh of the sum of both linear maps: (batch, hidden)."""
    first, second = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return (first + second).tanh()


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """The positive part of the sum of both linear maps: (batch, hidden)."""
    first, second = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return (first + second).relu()


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """A step of a gated recurrent unit, as `nn.GRUCell` takes it: (batch, hidden)."""
    first, second = (x.chunk(3, -1) for x in _gates(input, hx, w_ih, w_hh, b_ih, b_hh))
    reset, update = (first[0] + second[0]).sigmoid(), (first[1] + second[1]).sigmoid()
    new = (first[2] + reset * second[2]).tanh()
    return (hx - new) * update + new


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A step of long short-term memory, as `nn.LSTMCell` takes it, from hx = (h, c): the new h and c."""
    h, c = hx
    first, second = _gates(input, h, w_ih, w_hh, b_ih, b_hh)
    enter, forget, new, leave = (first + second).chunk(4, -1)
    cell = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample` with numbers for its modes: bilinear, nearest, bicubic; zeros, border, reflection."""
    return grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`."""
    return affine_grid(theta, size, align_corners)


def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """`nn.functional.pad` with a constant."""
    return padded(input, pad, "constant", value)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm`; there is no other way to compute it that could be enabled."""
    return batch.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm`; there is no other way to compute it that could be enabled."""
    return batch.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.layer_norm`; there is no other way to compute it that could be enabled."""
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.group_norm`; there is no other way to compute it that could be enabled."""
    return batch.group_norm(input, num_groups, weight, bias, eps)


def _checked(p: float) -> float:
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    return p


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout`."""
    return dropouts.dropout(input, _checked(p), train)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    return dropouts.alpha_dropout(input, _checked(p), train)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Channels of (batch, channels, ...) zeroed with probability p, the others scaled by 1 / (1 - p)."""
    return dropouts.feature_dropout(input, _checked(p), train)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    return dropouts.feature_alpha_dropout(input, _checked(p), train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` in place."""
    return dropouts.dropout(input, _checked(p), train, True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` in place."""
    return dropouts.alpha_dropout(input, _checked(p), train, True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place."""
    return dropouts.feature_dropout(input, _checked(p), train, True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout` in place."""
    return dropouts.feature_alpha_dropout(input, _checked(p), train, True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)
