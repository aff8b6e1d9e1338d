"""Structured control flow under the name of PyTorch's module."""

from eagerjit.control import cond, map, scan, while_loop

__all__ = ["cond", "map", "scan", "while_loop"]
