"""`torch.ao.nn.quantized`: of its layers those of `dynamic`."""

from eagerjit.ao.nn.quantized import dynamic

__all__ = ["dynamic"]
