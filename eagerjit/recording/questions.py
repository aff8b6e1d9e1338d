"""Numbers that Python code asks of a call being traced: conditions, or sizes, of the compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.signature import Question
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.state import set_tracer
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line
from eagerjit.watching.values_asked import ValueAsked

_COUNTING = 10
"""Operations between a mask and its count, at most."""


def _meaning(node: Node, depth: int = _COUNTING) -> Any:
    """The same for nodes that calculate the same of the same values: a mask that is used again is not counted again."""
    if depth == 0 or not (node.op.family in ("elementwise", "reduction", "view") or "literal" in node.op.traits):
        return node
    # As text 0.0 differs from -0.0, and 1 from True.
    attributes = [(k, repr(v) if isinstance(v, (bool, int, float)) else v) for k, v in node.attributes.items()]
    return node.op, tuple(sorted(attributes)), tuple([_meaning(n, depth - 1) for n in node.inputs])


class Questions:
    """What a tracer has been asked, and the answers of the call being recorded."""

    def __init__(self) -> None:
        self.assumptions = sizes.Assumptions(where=user_line)
        self.fullgraph = False
        self.trusting = False
        """Whether what nearly every call finds is taken for granted: the compiled call asks."""
        self.has_trusted = False
        self.arguments: Sequence[Any] | None = None
        self.questions: list[Question] = []
        self.values: list[np.ndarray] = []
        self.given: list[np.ndarray] = []
        self.compares_identities = False
        self.hashed: set[int] = set()
        self.formatted: list[Any] = []  # texts whose marks are being formatted
        self.compared: list[tuple[Any, Any]] = []
        self.host: Any = None  # what NumPy computes for the recorded function
        self.originals: dict[int, tuple[Any, Any]] = {}
        """Stand-ins for arguments that are views of others, with these arguments."""
        self.constant_arrays: dict[int, np.ndarray] = {}
        """Arrays whose contents are those of every call, since each call compares them."""
        self.shown_arrays: dict[int, tuple[Any, np.ndarray, str]] = {}
        """Tensors over arrays that are no inputs, with these arrays and the lines that made them."""
        self.begun: dict[int, Any] = {}
        """What the slots that are inputs held when the call began: the function may have changed them since."""
        self.answered: dict[Node, Any] = {}
        """Values of the call that were computed for its questions, as tensors."""
        self.asking: dict[str, Any] = {}
        """What computes them, by the key of its program."""
        self._answers: dict[Node, Any] = {}
        self._sizes: dict[Any, Any] = {}
        self._symbols = 0

    def new_symbol(self, prefix: str, hint: int) -> sizes.Size:
        """A size known only at run time, with this call's value."""
        name = f"{prefix}{self._symbols}"
        self._symbols += 1
        self.assumptions.hints[name] = hint
        return sizes.symbol(name)

    def ask(self, node: Node, reason: str, known: Any = None, likely: Any = None) -> Any:
        """The number that a 0-d node has in this call; the recording holds for calls where it is the same.

        `known` is that number where it was calculated from Python's numbers alone, `likely` what nearly every call
        finds. Otherwise TraceBreak is raised where it cannot be had: in an op's own body, or with `fullgraph`.
        """
        if node not in self._answers:
            if self.fullgraph and known is None:
                raise TraceBreak(reason, user_line())
            if known is None and likely is not None and self.trusting:
                known, self.has_trusted = likely, True
            array = self.value_now(node, reason) if known is None else self._known(node, known)
            bits = int.from_bytes(array.tobytes(), "little", signed=array.itemsize == 8)
            self.questions.append(Question(node, bits))
            self._answers[node] = array.reshape(()).item()
        return self._answers[node]

    def measure(self, node: Node, reason: str, negative: bool = False, known: int | None = None) -> Any:
        """The int that a 0-d int64 node has, as a size that the compiled call learns while it runs.

        `known` is that int where it was calculated from Python's numbers alone. Raises TraceBreak in an op's own body.
        """
        meaning = _meaning(node)
        if meaning not in self._sizes:
            array = self.value_now(node, reason) if known is None else self._known(node, known)
            size = self.new_symbol("n" if negative else "d", int(array.reshape(())))
            self.questions.append(Question(node, size=size))
            self._sizes[meaning] = SymbolicInt(size)
        return self._sizes[meaning]

    def asks_beyond(self, count: int) -> bool:
        """Whether other questions were asked after so many."""
        known = {_meaning(q.node) for q in self.questions[:count]}
        return any(_meaning(q.node) not in known for q in self.questions[count:])

    def _known(self, node: Node, value: Any) -> np.ndarray:
        """A number as an answer; in a call recorded again, the value that it had first."""
        if self.given:
            return self.given.pop(0)
        self.values.append(np.asarray(value, node.type.dtype.numpy))
        return self.values[-1]

    def value_now(self, node: Node, reason: str) -> np.ndarray:
        """A node's value in the call being recorded; in one recorded again, the value that it had first."""
        if self.given:
            return self.given.pop(0)
        if self.arguments is None:
            raise ValueAsked(reason, node=node)
        from eagerjit.compiled.answers import answer

        before, observation = set_tracer(None), pause_observation()
        try:
            self.values.append(answer(self, node))  # type: ignore[arg-type]
            return self.values[-1]
        finally:
            set_tracer(before)
            resume_observation(observation)
