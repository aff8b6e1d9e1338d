"""Structured control flow: branches and loops that stay one graph inside of compiled functions."""

from eagerjit.control.branches import cond
from eagerjit.control.loops import map, scan
from eagerjit.control.repetition import while_loop

__all__ = ["cond", "map", "scan", "while_loop"]
