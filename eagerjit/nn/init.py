"""Initial values of parameters, written in place."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.effects.cautions import caution
from eagerjit.tensors.tensor import Tensor


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor that keeps the variance through a nonlinearity (He et al. 2015 for relu and leaky_relu).

    `param` is leaky_relu's slope. Raises ValueError for names of none.
    """
    if nonlinearity in ("linear", "sigmoid") or str(nonlinearity).startswith("conv"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of a weight."""
    return _fans(tensor)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The inputs or the outputs of a weight."""
    return _fan(tensor, mode.lower())


def _fans(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of a weight."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode == "fan_out"]


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b), written in place; returned, as by all functions here."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with a mean and a standard deviation. RuntimeError for a negative one."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal, conditioned on [a, b]: the inverse of its distribution function at uniform numbers.

    Raises RuntimeError for other than floating point tensors.
    """
    if not tensor.is_floating_point():
        raise RuntimeError(f"trunc_normal_: numbers are drawn for floating-point tensors, not for {tensor.dtype}")

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    drawn = tensor.detach().double().uniform_(2 * below(a) - 1, 2 * below(b) - 1, generator=generator)
    return tensor.copy_((drawn.erfinv() * (std * math.sqrt(2.0)) + mean).clamp(a, b))


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere, written in place; returns the tensor."""
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones everywhere, written in place; returns the tensor."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros everywhere, written in place; returns the tensor."""
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix. Raises ValueError for other than two dimensions."""
    from eagerjit.tensors import creation

    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(creation.eye(*tensor.shape, device=tensor.device))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance gain**2 * 2 / (inputs + outputs) (Glorot and Bengio 2010).

    Of a weight (outputs, inputs, taps...), taps count in both. Raises ValueError for fewer than two dimensions.
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance gain**2 * 2 / (inputs + outputs) (Glorot and Bengio 2010); see `xavier_uniform_`."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform with variance gain**2 / fan, which a nonlinearity keeps (He et al. 2015).

    fan is a weight's inputs times taps, or with mode "fan_out" its outputs times taps; the gain is that of
    `nonlinearity`, of which `a` is the slope. Raises ValueError for other modes and fewer than two dimensions.
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with variance gain**2 / fan, which a nonlinearity keeps (He et al. 2015); see `kaiming_uniform_`."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Orthogonal rows or columns times gain, all such matrices equally likely (Saxe et al. 2013).

    By QR of a normal matrix; dimensions after the first count as one. Raises ValueError for fewer than two.
    """
    from eagerjit import linalg
    from eagerjit.random import randn

    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = int(tensor.shape[0]), math.prod(map(int, tensor.shape[1:]))
    shape = max(rows, columns), min(rows, columns)
    q, r = linalg.qr(randn(shape, generator=generator, dtype=tensor.dtype, device=tensor.device))
    q = q * r.diagonal().sign()
    return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape) * gain)


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that pass on as many channels as they can: 1 at the middle tap of channel i to i, else 0.

    Raises ValueError for other than 3 to 5 dimensions, and where groups do not divide the first.
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = int(tensor.shape[0]) // groups
    middle = tuple(int(d) // 2 for d in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(each, int(tensor.shape[1]))):
            tensor[(group * each + channel, channel, *middle)] = 1.0
    return tensor


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with a share of zeros in every column (Martens 2010). Raises ValueError for other than two dimensions."""
    from eagerjit.random import randperm

    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = map(int, tensor.shape)
    absent = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        order = randperm(rows, generator=generator, device=tensor.device)
        tensor[order[:absent], column] = 0.0
    return tensor


def _older(function: Any) -> Any:
    """The older name of a function, without its underscore."""

    def renamed(*args: Any, **kwargs: Any) -> Any:
        name = function.__name__
        caution(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.", FutureWarning
        )
        return function(*args, **kwargs)

    renamed.__name__, renamed.__doc__ = function.__name__[:-1], function.__doc__
    return renamed


uniform, normal, constant, eye, dirac = map(_older, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal, orthogonal = map(_older, (xavier_uniform_, xavier_normal_, orthogonal_))
kaiming_uniform, kaiming_normal, sparse = map(_older, (kaiming_uniform_, kaiming_normal_, sparse_))
