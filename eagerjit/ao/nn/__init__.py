"""`torch.ao.nn`: layers of quantized models."""

from eagerjit.ao.nn import quantized

__all__ = ["quantized"]
