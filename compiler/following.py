"""What follows a product in its kernel: how much that is, and when it is done while tensor cores multiply.

Products of 16-bit factors have little time beside them: on an H100 one of 8192 x 8192 x 8192 took 1.28 ms, and with
bias and GELU of each tile after its sum 1.54 ms.
"""

from __future__ import annotations

from eagerjit.compiler.loops import Kernel, Let, walk
from eagerjit.compiler.ops import TABLE

DEAR = 16
"""What operations on a result cost at least, so that tensor cores would wait for them."""
LONG = 2048
"""Terms of a sum that take long enough for another tile to be finished meanwhile."""
LARGE = 2 * 132 * 128 * 256
"""Elements of a result that are tiles enough for it: two of the largest for each multiprocessor of an H100."""


def is_dear(kernel: Kernel) -> bool:
    """Whether a kernel computes much of an element."""
    lets = [s for s in walk(kernel.body) if isinstance(s, Let)]
    return sum(TABLE[s.op].cost if s.op in TABLE else 1 for s in lets) > DEAR
