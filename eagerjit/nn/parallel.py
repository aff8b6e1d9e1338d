"""Modules over several devices, of which there is one, and over several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Tensor

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """The one part of tensors, all of them; containers of what is none are given to all devices.

    Raises NotImplementedError for a tensor and several devices: nothing is split.
    """
    if isinstance(inputs, Tensor):
        if len(target_gpus) != 1:
            raise NotImplementedError(f"scatter(): eagerjit splits tensors among no devices, {len(target_gpus)} given")
        return [inputs]
    if not isinstance(inputs, (tuple, list, dict)) or not (inputs or hasattr(inputs, "_fields")):
        return [inputs for _ in target_gpus]
    parts = inputs.items() if isinstance(inputs, dict) else inputs
    return [_again(inputs)(part) for part in zip(*[scatter(part, target_gpus, dim) for part in parts], strict=False)]


def _again(value: Any) -> Callable[[Any], Any]:
    """What makes a container of its parts."""
    if isinstance(value, tuple):
        return type(value)._make if hasattr(value, "_fields") else tuple  # type: ignore[attr-defined, no-any-return]
    return type(value) if isinstance(value, dict) else list


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Positional arguments and others, for each device."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    positional += [() for _ in named[len(positional) :]]
    named += [{} for _ in positional[len(named) :]]
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The one device's tensors, in the containers that they lie in. Raises NotImplementedError for several devices'."""
    first = outputs[0]
    if isinstance(first, Tensor):
        if len(outputs) != 1:
            raise NotImplementedError(f"gather(): eagerjit joins tensors of no devices, {len(outputs)} are given")
        return first
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(first) == len(other) for other in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([other[key] for other in outputs], target_device, dim)) for key in first)
    parts = (gather(part, target_device, dim) for part in zip(*outputs, strict=True))
    return type(first)._make(parts) if hasattr(first, "_fields") else type(first)(parts)


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """The Module itself, for the one device.

    Raises AssertionError where it lies on the CPU, NotImplementedError for several devices.
    """
    if not devices:
        return []
    if any(t.device.type == "cpu" for t in chain(network.parameters(), network.buffers())):
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    if len(devices) != 1:
        raise NotImplementedError(f"replicate(): eagerjit copies Modules to no devices, {len(devices)} are given")
    return [network]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[Any] | None = None, devices: Any = None
) -> list[Any]:
    """What Modules give for an input each, one after the other. Raises RuntimeError where there is no GPU."""
    from eagerjit import accelerator

    for kind, others in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if others is not None and len(modules) != len(others):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {kind} {len(others)}"
            )
    accelerator.current_stream()
    return [
        module(*(given if isinstance(given, (list, tuple)) else (given,)), **named)
        for module, given, named in zip(modules, inputs, kwargs_tup or [{}] * len(modules), strict=True)
    ]


class DataParallel(Module):
    """The Module itself: on the CPU nothing is split."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the Module gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """What the Module gives on the one GPU. Raises RuntimeError where there is none."""
    from eagerjit import accelerator

    if not accelerator.is_available():
        raise RuntimeError("device type could not be determined")
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    positional, named = scatter_kwargs(given, module_kwargs, device_ids or [0], dim)
    return module(*(positional[0] if positional else ()), **(named[0] if named else {}))


def __getattr__(name: str) -> Any:
    if name in ("DistributedDataParallel", "DistributedDataParallelCPU"):
        from eagerjit.nn.distributed import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
