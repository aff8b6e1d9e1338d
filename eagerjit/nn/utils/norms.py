"""Weights in terms of others: length and direction (weight norm), or divided by the largest singular value."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.effects.cautions import caution
from eagerjit.nn.distances import normalize
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


class WeightNorm:
    """Computes a weight of its lengths and directions before every call of its Module."""

    def __init__(self, name: str, dim: int):
        self.name, self.dim = name, dim

    def compute_weight(self, module: Any) -> Tensor:
        """The weight of the lengths and directions as they are."""
        return weight_of(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a weight by its lengths `name_g` and directions `name_v` (Salimans and Kingma 2016).

    The weight itself is an attribute, computed before every call.
    """
    caution(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    if _hook_of(module, WeightNorm, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, hook.dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, None)
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight, as lengths and directions are now, a parameter again."""
    key = _hook_of(module, WeightNorm, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = module._forward_pre_hooks.pop(key).compute_weight(module)
    for suffix in ("", "_g", "_v"):
        delattr(module, name + suffix)
    setattr(module, name, Parameter(weight.detach()))
    return module


def _hook_of(module: Any, kind: type[WeightNorm | SpectralNorm], name: str) -> Any:
    """The key of the hook that computes an attribute of a Module."""
    hooks = module._forward_pre_hooks.items()
    return next((key for key, hook in hooks if isinstance(hook, kind) and hook.name == name), None)


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


class SpectralNorm:
    """Divides a weight before every call of its Module; in training the singular value is known better each time."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """The weight divided by the singular value, after power iterations if asked for."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        if do_power_iteration:
            matrix = as_matrix(weight.detach(), self.dim)
            power_iterations(matrix.t(), v, u, self.n_power_iterations, self.eps)
        return divided(weight, u, v, self.dim)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def default_dim(module: Any) -> int:
    """The dimension of a weight's outputs."""
    return 1 if type(module).__name__.startswith("ConvTranspose") else 0


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value, known better with every call in training (Miyato et al. 2018).

    The weight itself is an attribute, computed before every call.
    """
    if _hook_of(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    for part, size in zip("uv", as_matrix(weight.detach(), hook.dim).shape, strict=True):
        drawn = randn(int(size), dtype=weight.dtype, device=weight.device)
        module.register_buffer(f"{name}_{part}", normalize(drawn, dim=0, eps=eps))
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight, divided by the singular value as it is known, a parameter again."""
    key = _hook_of(module, SpectralNorm, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    with no_grad():
        weight = module._forward_pre_hooks.pop(key).compute_weight(module, do_power_iteration=False)
    for suffix in ("", "_u", "_v", "_orig"):
        delattr(module, name + suffix)
    setattr(module, name, Parameter(weight))
    return module
