"""`torch.ao`: models whose numbers are smaller."""

from eagerjit.ao import nn, quantization

__all__ = ["nn", "quantization"]
