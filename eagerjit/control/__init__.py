"""Structured control flow: branches and loops that stay one graph inside of compiled functions.

    @torch.jit
    def states(xs, weight):
        def step(h, x):
            h = torch.tanh(h @ weight + x)
            return h, h                        # what the next run gets, and what is stacked

        last, all_states = torch.control.scan(step, torch.zeros(weight.shape[0]), xs)
        return all_states

One version serves every length. The function is recorded once, so Python code in it runs once per recording rather than
once per element; it may read any tensor, and writes in place only those that it made. Random numbers are those that a
Python loop would draw. Derivatives of any order, vmap and forward mode go through.
"""

from eagerjit.control.associative import associative_scan
from eagerjit.control.branches import cond
from eagerjit.control.loops import map, scan
from eagerjit.control.repetition import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
