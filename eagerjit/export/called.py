"""Functions that a graph calls by name: files hold the recorded ones, and say where the library has the others."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from eagerjit import fx
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops.host import host
from eagerjit.control.stored import described, restored
from eagerjit.control.structure import Runner
from eagerjit.export.functions import primitive
from eagerjit.runtime.host import FUNCTIONS


def called_functions(graph: fx.Graph) -> list[list[Any]]:
    """[name, the recorded loop or branch, or else a module's name] for all that nodes call, and what those call."""
    found: dict[str, Any] = {}
    for node in graph.nodes:
        if node.target is primitive(host.name):
            _visit(str(node.kwargs["function"]), found)
    return [[name, what] for name, what in found.items()]


def _visit(name: str, found: dict[str, Any]) -> None:
    function: Any = FUNCTIONS[name]
    if name in found:
        return
    if not isinstance(function, Runner):
        found[name] = function.__module__
        return
    for inner in _names(node for graph in function.graphs for node in graph.nodes):
        _visit(inner, found)
    found[name] = described(function)


def _names(nodes: Iterable[Node]) -> Iterator[str]:
    return (node.attributes["function"] for node in nodes if node.op is host)


def know_functions(said: list[list[Any]]) -> None:
    """Have these functions, in the order in which `called_functions` gave them.

    Raises RuntimeError for those that are not what they were: of another version, or changed in the file.
    """
    for name, what in said:
        if name in FUNCTIONS:
            continue
        try:
            _make_known(name, what)
        except (KeyError, ValueError, ModuleNotFoundError):
            raise RuntimeError(f"this file needs {name}, which this version of eagerjit lacks") from None


def _make_known(name: str, what: Any) -> None:
    if not isinstance(what, str):
        runner = restored(what)
        FUNCTIONS[runner.key] = runner
    elif what.startswith("eagerjit."):
        importlib.import_module(what)
    if name not in FUNCTIONS:
        raise KeyError(name)
