"""What the user calls what a compiled version depends on: `x`, `model.0.weight`, `optimizer.param_groups[0]['lr']`."""

from __future__ import annotations

import inspect
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from eagerjit import pytree
from eagerjit.compiler.signature import Fresh, Load, ObjectGuard
from eagerjit.compiler.text import node_names
from eagerjit.generator import default_streams
from eagerjit.guards.surroundings import accesses, unwrap
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.compiled.compilation import Report
    from eagerjit.compiled.joint import Backward
    from eagerjit.compiler.signature import Trace

MOST_VISITED = 10_000
"""Objects that are looked at to find names for others: beyond, things go by their kind."""

PLAIN = (int, float, complex, str, bytes, ModuleType, type, type(None))
"""Classes of what is not walked through."""

TABLES = ("_parameters", "_buffers", "_modules")
"""Attributes of Modules whose items are attributes themselves."""


class Names:
    """Names for what versions of a function depend on; made when somebody asks, as it walks through objects."""

    def __init__(self, function: Callable[..., Any], trace: Trace, objects: Sequence[Any]):
        self._function = function
        self._code, owner = unwrap(function)
        self._closure = {}
        if self._code is not None:
            self._closure = dict(
                zip(map(id, self._code.__closure__ or ()), self._code.__code__.co_freevars, strict=True)
            )
        self._paths = _paths_from(self._roots(owner, trace, objects))
        self._paths |= {id(stream.state): ("the random state", False) for stream in default_streams()}

    def leaves(self, structure: Any, trace: Trace, objects: Sequence[Any]) -> dict[int, tuple[str, str]]:
        """The name of each leaf of a version, and the line of the function that reads it where it is no argument."""
        names = dict(enumerate(argument_names(self._function, structure)))
        tables: dict[int, Any] = {}
        for b in trace.bindings:
            match b:
                case Load(leaf, Op.LOAD_ITEM, (parent, key)):
                    names[leaf] = self._item(tables.get(parent), names.get(parent, ""), objects[key])
                case Load(leaf, Op.LOAD_ATTRIBUTE, (parent, name)):
                    names[leaf] = f"{names.get(parent, '')}.{objects[name]}"
                case Load(leaf, Op.LOAD_GRAD, (parent,)):
                    names[leaf] = f"{names.get(parent, '')}.grad"
                case Load(leaf, _, (constant,)):
                    tables[leaf] = objects[constant]
                    names[leaf] = self._named(objects[constant])
        lines = self._lines()
        return {leaf: (name, lines.get(name, "") if leaf >= trace.n_arguments else "") for leaf, name in names.items()}

    def _roots(self, owner: Any, trace: Trace, objects: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Objects that the function knows by names: what it is bound to, closes over, and reads among globals."""
        if self._code is None:
            return
        if owner is not None:
            yield "self", owner
        for name, cell in zip(self._code.__code__.co_freevars, self._code.__closure__ or (), strict=True):
            yield from _content(name, cell)
        known = {b.leaf: objects[b.object] for b in trace.bindings if isinstance(b, ObjectGuard) and b.op is Op.IS}
        tables: dict[int, Any] = {}
        for b in trace.bindings:
            if isinstance(b, Load) and b.op is Op.LOAD_OBJECT:
                tables[b.leaf] = objects[b.operands[0]]
            if isinstance(b, Load) and b.op is Op.LOAD_ITEM and b.leaf in known:
                table = tables.get(b.operands[0])
                if table is not None and _is_namespace(table):
                    yield self._global(table, objects[b.operands[1]]), known[b.leaf]

    def _global(self, namespace: dict[str, Any], name: str) -> str:
        assert self._code is not None
        own = namespace is self._code.__globals__ or namespace["__name__"] == "builtins"
        return name if own else f"{namespace['__name__']}.{name}"

    def _item(self, table: Any, name: str, key: Any) -> str:
        if _is_namespace(table) and self._code is not None:
            return self._global(table, key)
        path = self._paths.get(id(table))
        if path is not None and isinstance(key, Tensor):  # which would be shown with its values
            return f"{path[0]}[{self._named(key)}]"
        return _member(*path, key) if path is not None else _member(name, False, key) if table is None else str(key)

    def _named(self, value: Any) -> str:
        if id(value) in self._closure:
            return self._closure[id(value)]
        if id(value) in self._paths:
            return self._paths[id(value)][0]
        if _is_namespace(value):
            return f"module {value['__name__']}"
        own = isinstance(value, (FunctionType, type))
        return value.__qualname__ if own else f"a {type(value).__name__}"

    def _lines(self) -> dict[str, str]:
        lines: dict[str, str] = {}
        if self._code is None:
            return lines
        for access in accesses(self._code.__code__):
            for depth in range(len(access.attributes) + 1):
                path = ".".join((access.name, *access.attributes[:depth]))
                lines.setdefault(path, f"{self._code.__code__.co_filename}:{access.line}")
        return lines


def gradient_names(backward: Backward, forward: Report, names: Mapping[int, str]) -> dict[int, str]:
    """What the leaves of a call's gradient are: gradients that come in, values that the call kept, its own leaves."""
    cut, graph = backward.executable, forward.compiled.graph
    called = node_names(graph)
    before = 0 if not backward.kept else sum(isinstance(o, Fresh) for o in forward.trace.outputs[: backward.kept[0]])
    kept = [f"{called[graph.outputs[before + i]]} of {graph.name}" for i in cut.kept]
    own = [names.get(leaf, "") for leaf in cut.leaves]
    incoming = len(cut.report.trace.bindings) - len(kept) - len(own)
    coming = [f"gradient of result {backward.roots[i]}" for i in range(min(incoming, len(backward.roots)))]
    return dict(enumerate([*coming, *[""] * (incoming - len(coming)), *kept, *own]))


def argument_names(function: Callable[..., Any], structure: Any) -> list[str]:
    """How the user calls each leaf of the arguments: `x`, `batch['image']`, `xs[0]`."""
    _, _, (positional, keywords) = structure
    try:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    out: list[str] = []
    for position, child in enumerate(positional[2]):
        out += _parts(names[position] if position < len(names) else f"args[{position}]", child)
    for name, child in zip(keywords[1], keywords[2], strict=True):
        out += _parts(name, child)
    return out


def _parts(name: str, structure: Any) -> Iterator[str]:
    if type(structure) is not tuple:
        yield name
        return
    kind, keys, children = structure
    named = keys is not None and not issubclass(kind, (dict, list))
    for key, child in zip(keys if named and keys else pytree.steps_of(structure), children, strict=True):
        yield from _parts(_member(name, named or type(key) is pytree.Attribute, key), child)


def _member(name: str, is_attribute: bool, key: Any) -> str:
    return f"{name}.{key}" if is_attribute else f"{name}[{key!r}]"


def _is_namespace(value: Any) -> bool:
    return type(value) is dict and "__name__" in value and ("__builtins__" in value or "__spec__" in value)


def _paths_from(roots: Iterator[tuple[str, Any]]) -> dict[int, tuple[str, bool]]:
    """Names of what named objects hold, by identity, short ones first; whether members are written as attributes."""
    paths: dict[int, tuple[str, bool]] = {}
    waiting = deque((name, value, False) for name, value in roots)
    keyed: list[tuple[str, dict[Any, Any]]] = []
    while waiting and len(paths) < MOST_VISITED:
        name, value, is_attribute = waiting.popleft()
        if id(value) not in paths and not issubclass(type(value), PLAIN) and not _is_of_compiler(type(value)):
            paths[id(value)] = name, is_attribute
            waiting.extend(_members(name, value, is_attribute))
            if issubclass(type(value), dict):
                keyed.append((name, value))
        if not waiting:  # the keys have their names by now
            waiting.extend(member for table in keyed for member in _by_objects(*table, paths))
            keyed = []
    return paths


def _is_of_compiler(kind: type) -> bool:
    """Whether objects of a class belong to compiled versions, which a compiled function among the objects holds."""
    return str(kind.__module__).startswith(("eagerjit.compiled.", "eagerjit.recording."))


def _by_objects(
    name: str, table: dict[Any, Any], paths: dict[int, tuple[str, bool]]
) -> Iterator[tuple[str, Any, bool]]:
    """The items under keys that are objects with names, as an optimizer's state by Parameter."""
    for key, item in _first(dict.items(table)):
        if not isinstance(key, (str, int)) and id(key) in paths:
            yield f"{name}[{paths[id(key)][0]}]", item, False


def _members(name: str, value: Any, is_attribute: bool) -> Iterator[tuple[str, Any, bool]]:
    """What an object holds: name, value, whether its members are written as attributes. No code of its class runs."""
    kind = type(value)
    if issubclass(kind, dict):
        for key, item in _first(dict.items(value)):
            if isinstance(key, (str, int)):
                yield _member(name, is_attribute, key), item, False
    elif issubclass(kind, (list, tuple)):
        held = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        for position, item in enumerate(_first(held)):
            yield f"{name}[{position}]", item, False
    elif kind is FunctionType:
        for free, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield from ((*found, False) for found in _content(f"{name}.{free}", cell))
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return
    if type(own) is not dict:
        return
    if getattr(kind, "holds_options", False):  # of an optimizer: floats of pairs are in a table of their own
        yield name, own["parts"], False
    for table in TABLES:
        if table in own:
            yield name, own[table], True
    yield name, own, True


def _first(items: Iterable[Any]) -> list[Any]:
    """As many as are looked at, taken at once: other threads may change the container."""
    return list(itertools.islice(items, MOST_VISITED))


def _content(name: str, cell: Any) -> Iterator[tuple[str, Any]]:
    try:
        yield name, cell.cell_contents
    except ValueError:  # empty
        return
