"""`torch.fx.passes`: what goes through a graph and notes something on its nodes."""

from eagerjit.fx.passes import shape_prop

__all__ = ["shape_prop"]
