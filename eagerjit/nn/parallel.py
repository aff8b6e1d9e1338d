"""Modules over several devices, of which there is one, and over several processes."""

from __future__ import annotations

from typing import Any

from eagerjit.nn.module import Module


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The one part of the inputs, all of them. Raises NotImplementedError for several devices: nothing is split."""
    if len(target_gpus) != 1:
        raise NotImplementedError(f"scatter(): eagerjit splits inputs among no devices, {len(target_gpus)} are given")
    return [inputs]


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The one device's result. Raises NotImplementedError for several."""
    if len(outputs) != 1:
        raise NotImplementedError(f"gather(): eagerjit joins results of no devices, {len(outputs)} are given")
    return outputs[0]


class DataParallel(Module):
    """The Module itself: on the CPU nothing is split."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the Module gives."""
        return self.module(*inputs, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from eagerjit.nn.distributed import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
