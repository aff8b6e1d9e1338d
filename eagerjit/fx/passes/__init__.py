"""`torch.fx.passes`: what goes through a graph, notes something on its nodes, or puts them elsewhere."""

from eagerjit.fx.passes import shape_prop, split_module, utils

__all__ = ["shape_prop", "split_module", "utils"]
