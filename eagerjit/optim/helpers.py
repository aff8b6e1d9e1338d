"""What optimizers that programs write take from PyTorch's module of the class Optimizer."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagerjit.autograd.modes import set_grad_enabled
from eagerjit.ops.complexes import view_as_real
from eagerjit.ops.index import stack
from eagerjit.optim.hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from eagerjit.runtime import dtypes
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor
from eagerjit.utils._foreach_utils import (
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
    _group_tensors_by_device_and_dtype,
)

__all__ = [
    "ParamsT", "_capturable_doc", "_default_to_fused_or_foreach", "_device_dtype_check_for_fused",
    "_differentiable_doc", "_disable_dynamo_if_unsupported", "_dispatch_sqrt", "_foreach_doc", "_fused_doc",
    "_get_capturable_supported_devices", "_get_scalar_dtype", "_get_value", "_maximize_doc", "_params_doc",
    "_stack_if_compiling", "_to_scalar", "_use_grad_for_differentiable", "_view_as_real", "params_t",
    "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip

ParamsT = params_t = Iterable[Any]

_params_doc = "params (iterable): parameters, pairs of names and parameters, or dictionaries, one for each group"
_foreach_doc = "foreach (bool, optional): whether a step updates all parameters at once (default: None)"
_fused_doc = "fused (bool, optional): whether a step is one kernel (default: None)"
_capturable_doc = "capturable (bool, optional): whether a step may be captured as a graph of a GPU (default: False)"
_differentiable_doc = "differentiable (bool, optional): whether gradients flow through a step (default: False)"
_maximize_doc = "maximize (bool, optional): whether the objective grows (default: False)"


class Updates:
    """What a class of optimizers has for update rules that programs write."""

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False) -> Any:
        """Lists that belong together, place by place, in groups by device and dtype."""
        if not state.exporting:
            return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)
        return {(None, None): (tensorlistlist, list(range(len(tensorlistlist[0]))))}


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A step that records gradients where the optimizer is differentiable, and otherwise does not."""

    @functools.wraps(func)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer, tracer = args[0], state.tracer
        chosen = optimizer.defaults["differentiable"]
        if tracer is not None and not tracer.is_made(optimizer):
            tracer.journal.checks.append(lambda: optimizer.defaults.get("differentiable") is chosen)
        with set_grad_enabled(chosen):
            return func(*args, **kwargs)

    return step


def _get_value(x: Any) -> Any:
    """A tensor's number."""
    return x.item() if isinstance(x, Tensor) and not state.exporting else x


def _stack_if_compiling(x: Any) -> Any:
    """The list itself; stacked where a model is being exported."""
    return stack(x) if state.exporting else x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function itself: each compiles."""
    return lambda func: func


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Put pairs of real numbers, in the same memory, in the place of what is complex."""
    for place, parameter in enumerate(params):
        if parameter.is_complex():
            for listed in (params, *state_and_grads):
                listed[place] = view_as_real(listed[place])


def _default_to_fused_or_foreach(
    params: Sequence[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Which way PyTorch takes where a program says nothing: whether one kernel, and whether all parameters at once."""
    if differentiable:
        return False, False
    from eagerjit.nn.parameter import Parameter

    present = [p for p in params if p is not None]
    plain = all(type(p) in (Tensor, Parameter) for p in present)
    kinds = {p.device.type for p in present}
    fused = use_fused and plain and kinds <= {*_get_fused_kernels_supported_devices()}
    fused = fused and all(p.dtype.is_floating_point for p in present)
    return fused, not fused and plain and kinds <= {*_get_foreach_kernels_supported_devices()}


def _device_dtype_check_for_fused(p: Any, cuda_unsupported: bool = False) -> None:
    """Raises RuntimeError for a parameter that no fused kernel updates."""
    kinds = [kind for kind in _get_fused_kernels_supported_devices() if kind != "cuda" or not cuda_unsupported]
    if p.device.type not in kinds or not p.dtype.is_floating_point:
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"{kinds} but {p.dtype} and {p.device.type}"
        )


def _get_scalar_dtype(is_fused: Any = None) -> Any:
    """The dtype of counts of steps."""
    return dtypes.float64 if Defaults.dtype is dtypes.float64 and not is_fused else dtypes.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Kinds of devices on which a step may be captured as a graph."""
    return ["cuda"]


def _to_scalar(x: Any) -> Any:
    """An option: a tensor of one element without dimensions, what is no tensor itself."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x
