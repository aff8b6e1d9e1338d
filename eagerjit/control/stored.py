"""Structures as plain data, so that a file can hold what a process has recorded."""

from __future__ import annotations

from typing import Any

from eagerjit.compiler import size_text
from eagerjit.compiler.sizes import Guard
from eagerjit.compiler.text import parse_graph, print_graph
from eagerjit.control.branches import CondRunner
from eagerjit.control.code import Code
from eagerjit.control.repetition import WhileRunner
from eagerjit.control.reversal import ReversalRunner
from eagerjit.control.scanning import ScanRunner
from eagerjit.control.structure import Runner

_RUNNERS: dict[str, Any] = {c.__name__: c for c in (CondRunner, ReversalRunner, ScanRunner, WhileRunner)}


def described(part: Any) -> Any:
    """A runner, or one of the parts that it is made of, as JSON has it."""
    if isinstance(part, Runner):
        return {"runner": [type(part).__name__, *(described(getattr(part, name)) for name in part.made_of)]}
    if isinstance(part, Code):
        guards = [[g.relation, str(g.a), str(g.b), g.holds] for g in part.guards]
        return {"code": [print_graph(part.graph), list(part.symbols), guards, part.hints]}
    if isinstance(part, slice):
        return {"slice": [part.start, part.stop]}
    return list(map(described, part)) if isinstance(part, tuple) else part


def restored(said: Any) -> Any:
    """What `described` was given. Raises ValueError for graphs that this version cannot read."""
    if isinstance(said, list):
        return tuple(map(restored, said))
    if not isinstance(said, dict):
        return said
    ((kind, parts),) = said.items()
    if kind == "slice":
        return slice(*parts)
    if kind == "runner":
        return _RUNNERS[parts[0]](*map(restored, parts[1:]))
    text, symbols, guards, hints = parts
    known = [Guard(relation, size_text.parse(a), size_text.parse(b), holds) for relation, a, b, holds in guards]
    return Code(parse_graph(text), symbols, known, hints)
