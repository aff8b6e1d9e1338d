"""What code of the program's reads that runs with a gradient: hooks, and gradients of its own operations.

A gradient outside of its compiled call runs when a walk comes to it, and such code reads what is there by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eagerjit.compiler.signature import Load, ObjectGuard
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import execute
from eagerjit.runtime.program import MISS, Program


class LateReads:
    """Whether a walk finds what the recording of its gradient has read: by guards made since there were so many."""

    def __init__(self, tracer: Tracer, bindings: int, checks: Sequence[Callable[[], bool]]):
        steps: list[tuple[int, ...]] = []
        for made in tracer.bindings[bindings:]:
            if isinstance(made, Load):
                steps.append((made.op, made.leaf, *made.operands))
            elif isinstance(made, ObjectGuard):
                steps.append((made.op, made.leaf, made.object))
        program = Program(0, tracer.n_leaves, 0, 0, steps, [])
        self._executable, self._checks = execute.load(program, [], tracer.objects), tuple(checks)

    def hold(self) -> bool:
        """Whether all of it is as it was."""
        return self._executable.run(()) is not MISS and all(check() for check in self._checks)
