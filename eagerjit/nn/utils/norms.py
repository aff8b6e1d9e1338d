"""Weights in terms of others: length and direction (weight norm), or divided by the largest singular value."""

from __future__ import annotations

from functools import partial
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.nn.distances import normalize
from eagerjit.nn.utils.computed import compute, forget
from eagerjit.ops.reduce import norm
from eagerjit.random import randn
from eagerjit.tensors.tensor import Parameter, Tensor


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of all slices along a dimension, the whole norm for -1; dimensions are kept with size 1."""
    if dim == -1:
        return norm(v, pow)
    if v.ndim == 1:
        return norm(v.unsqueeze(1), pow, 1)
    return norm(v, pow, tuple(d for d in range(v.ndim) if d != dim % v.ndim), keepdim=True)


def weight_of(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """The weight of direction v and lengths g."""
    return v * (g / norm_except_dim(v, 2, dim))


def _weight_of_module(name: str, dim: int, module: Any) -> Tensor:
    return weight_of(getattr(module, f"{name}_v"), getattr(module, f"{name}_g"), dim)


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a weight by its lengths `name_g` and directions `name_v` (Salimans and Kingma 2016)."""
    axis = -1 if dim is None else dim
    if f"{name}_g" in module._parameters:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, axis).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    compute(module, name, partial(_weight_of_module, name, axis))
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again."""
    if f"{name}_g" not in module._parameters:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = getattr(module, name).detach()
    forget(module, name)
    for suffix in ("_g", "_v"):
        delattr(module, name + suffix)
    setattr(module, name, Parameter(weight))
    return module


# -- spectral norm ----------------------------------------------------------------------------------------------------


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with one dimension as rows and all others as columns."""
    if dim % weight.ndim:
        weight = weight.permute(dim, *[d for d in range(weight.ndim) if d != dim % weight.ndim])
    return weight.reshape(weight.shape[0], -1)


@no_grad()
def power_iterations(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Move u and v, in place, towards the singular vectors of the largest singular value."""
    for _ in range(count):
        u.copy_(normalize(matrix.matmul(v), dim=0, eps=eps))
        v.copy_(normalize(matrix.t().matmul(u), dim=0, eps=eps))


def divided(weight: Tensor, u: Tensor, v: Tensor, dim: int) -> Tensor:
    """The weight divided by the singular value that u and v tell; both are copied, as they move on."""
    return weight / u.clone().dot(as_matrix(weight, dim).matmul(v.clone()))


def _divided_of_module(name: str, dim: int, module: Any) -> Tensor:
    weight, u, v = (getattr(module, f"{name}_{part}") for part in ("orig", "u", "v"))
    return divided(weight, u, v, dim)


class _Iterate:
    """Power iterations before each call of a training module."""

    def __init__(self, name: str, count: int, eps: float, dim: int):
        self.name, self.count, self.eps, self.dim = name, count, eps, dim

    @no_grad()
    def __call__(self, module: Any, args: Any) -> None:
        if not module.training:
            return
        matrix = as_matrix(getattr(module, f"{self.name}_orig"), self.dim)
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        for _ in range(self.count):
            v.copy_(normalize(matrix.t().matmul(u), dim=0, eps=self.eps))
            u.copy_(normalize(matrix.matmul(v), dim=0, eps=self.eps))


def default_dim(module: Any) -> int:
    """The dimension of a weight's outputs."""
    return 1 if type(module).__name__.startswith("ConvTranspose") else 0


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value, known better with every call in training (Miyato et al. 2018)."""
    if n_power_iterations <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
    if f"{name}_orig" in module._parameters:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    axis = default_dim(module) if dim is None else dim
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for part, size in zip("uv", as_matrix(weight.detach(), axis).shape, strict=True):
        drawn = randn(int(size), dtype=weight.dtype, device=weight.device)
        module.register_buffer(f"{name}_{part}", normalize(drawn, dim=0, eps=eps))
    iterate = _Iterate(name, n_power_iterations, eps, axis)
    module.__dict__.setdefault("_spectral", {})[name] = module.register_forward_pre_hook(iterate).id
    compute(module, name, partial(_divided_of_module, name, axis))
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight, as it is now, a parameter again."""
    if f"{name}_orig" not in module._parameters:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    weight = getattr(module, name).detach()
    forget(module, name)
    del module._forward_pre_hooks[module._spectral.pop(name)]
    for part in ("orig", "u", "v"):
        delattr(module, f"{name}_{part}")
    setattr(module, name, Parameter(weight))
    return module
