"""Which names of torch a program uses, read off its source: imports, their aliases, and attributes of these."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from eagerjit.runtime.records import record
from eagerjit.tools import names

_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@record(frozen=True)
class Missing:
    """A name that a program uses and eagerjit lacks. `caught`: the program handles the error."""

    path: Path
    line: int
    message: str
    caught: bool

    def __str__(self) -> str:
        note = " (the program catches the error)" if self.caught else ""
        return f"{self.path}:{self.line}: {self.message}{note}"


Scope = dict[str, str | None]
"""What names stand for: a dotted name of torch, or None for something else."""


def missing_names(path: Path) -> list[Missing]:
    """What a program and the modules beside it use and eagerjit lacks, in order of file and line.

    Raises OSError for files that can't be read, and SyntaxError for what isn't Python.
    """
    found: list[Missing] = []
    waiting, seen = [path], {path.resolve()}
    while waiting:
        file = waiting.pop(0)
        tree = ast.parse(file.read_bytes(), str(file))
        reader = _Reader(file)
        reader.body(tree, ({},), False)
        found += sorted(set(reader.missing), key=lambda m: (m.line, m.message))
        for module in _local_modules(tree, path.parent, file.parent):
            if module.resolve() not in seen:
                seen.add(module.resolve())
                waiting.append(module)
    return found


def _local_modules(tree: ast.Module, *folders: Path) -> Iterator[Path]:
    """Files beside the program that it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            asked = [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
        else:
            continue
        for name in asked:
            for folder in folders:
                place = folder.joinpath(*name.split(".")) if name else folder
                yield from (p for p in (place.with_suffix(".py"), place / "__init__.py") if name and p.is_file())


class _Reader:
    """Walks a program scope by scope, and looks every name of torch up."""

    def __init__(self, path: Path):
        self.path = path
        self.missing: list[Missing] = []

    def body(self, node: ast.AST, scopes: tuple[Scope, ...], caught: bool) -> None:
        """Everything in a module, function or class; `scopes` from the innermost, whose names are bound first."""
        for child in _within(node):
            _bind(child, scopes)
        self.children(node, scopes, caught)

    def children(self, node: ast.AST, scopes: tuple[Scope, ...], caught: bool) -> None:
        """Visit what is inside of a node."""
        for child in ast.iter_child_nodes(node):
            self.visit(child, scopes, caught)

    def visit(self, node: ast.AST, scopes: tuple[Scope, ...], caught: bool) -> None:
        """Look up the names in a node."""
        if isinstance(node, ast.Try):
            guarded = any(map(_handles, node.handlers))
            for part in node.body:
                self.visit(part, scopes, caught or guarded)
            for other in (*node.handlers, *node.orelse, *node.finalbody):
                self.visit(other, scopes, caught)
        elif isinstance(node, ast.If) and _asks(node.test):
            self.children(node, scopes, True)
        elif isinstance(node, _SCOPES):
            inner: Scope = {}
            if not isinstance(node, ast.ClassDef):
                given = node.args
                arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                inner = {a.arg: None for a in arguments if a is not None}
            self.body(node, (inner, *scopes), caught)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in _imported(node):
                self.look_up(name, node.lineno, caught)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            used = _dotted(node, scopes)
            if used is None:
                self.children(node, scopes, caught)
            else:
                self.look_up(used, node.lineno, caught)
        else:
            self.children(node, scopes, caught)

    def look_up(self, name: str, line: int, caught: bool) -> None:
        """Note a name that is missing. What belongs to an object rather than to a module or class isn't known here."""
        import eagerjit

        owner: object = eagerjit
        known = "torch"
        for part in name.split(".")[1:]:
            if not isinstance(owner, (ModuleType, type)) or part.startswith("__"):
                return
            try:
                owner = names.member(owner, known, part)
            except AttributeError as error:
                self.missing.append(Missing(self.path, line, str(error), caught))
                return
            known = f"{known}.{part}"


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of one scope, those of inner ones left out."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _within(child)


def _bind(node: ast.AST, scopes: tuple[Scope, ...]) -> None:
    """Note what a statement makes names of this scope stand for; once a name is torch's, it stays so."""
    scope = scopes[0]
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "torch":
                scope[alias.asname or "torch"] = alias.name if alias.asname else "torch"
    elif isinstance(node, ast.ImportFrom) and _of_torch(node):
        scope.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names if a.name != "*"})
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        target, name = node.targets[0].id, _dotted(node.value, scopes)
        if name is not None or target not in scope:
            scope[target] = name
    elif isinstance(node, (*_SCOPES, ast.Name)):
        bound = node.id if isinstance(node, ast.Name) else getattr(node, "name", None)
        if bound is not None and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
            scope.setdefault(bound, None)


def _of_torch(node: ast.ImportFrom) -> bool:
    return node.level == 0 and (node.module or "").split(".")[0] == "torch"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names of torch that an import asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.split(".")[0] == "torch"]
    if not _of_torch(node):
        return []
    return [f"{node.module}.{a.name}" if a.name != "*" else str(node.module) for a in node.names]


def _dotted(node: ast.AST, scopes: tuple[Scope, ...]) -> str | None:
    """The name of torch that an expression is, None for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    for scope in scopes:
        if node.id in scope:
            base = scope[node.id]
            return None if base is None else ".".join([base, *reversed(parts)])
    return None


def _handles(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches the error of a missing name."""
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(t, ast.Name) and t.id in _CATCHES for t in types)


def _asks(test: ast.AST) -> bool:
    """Whether a condition asks if something has an attribute."""
    calls = (n for n in ast.walk(test) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    return any(isinstance(c.func, ast.Name) and c.func.id == "hasattr" for c in calls)
