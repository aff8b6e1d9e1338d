"""What a traced function read from its surroundings, and what it did to them: found in the code that ran.

While a function is traced, every line of the user's code that runs is noted. The instructions on these lines say which
globals, closure cells and attributes were read (each becomes a guard of the compiled call) and whether anything outside
was changed (then the function is not compiled: dropping an effect would be wrong).
"""

from __future__ import annotations

import builtins
import functools
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from eagerjit.bytecode import Access, Observer, accesses, enclosed, instructions_at
from eagerjit.observation import TraceBreak, is_internal
from eagerjit.runtime import mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.program import Op
from eagerjit.state import Defaults, state
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer

_PLAIN = (int, float, str, bool, bytes, type(None), complex)
_IMPURE_BUILTINS = frozenset({"print", "open", "input", "exec", "eval", "setattr", "delattr", "globals"})
_IMPURE_MODULES = (random, time, np.random)
_IMPURE_TYPES = (random.Random, np.random.Generator, np.random.RandomState)
_MUTATORS = frozenset(
    "append extend insert remove pop clear update setdefault add discard popitem sort reverse write writelines "
    "debug info warning error critical exception log appendleft popleft send throw close put".split()
)
_LARGE = 1 << 16
_TENSOR_ATTRIBUTES = frozenset({"grad", "requires_grad"})


@dataclass(slots=True)
class Effect:
    """Something that a function does to its surroundings."""

    what: str
    source: str


def effects(code: CodeType, lines: set[int] | None, values: Callable[[Access], Any]) -> list[Effect]:
    """What code on these lines does to things outside of it."""
    found: list[Effect] = []

    def note(what: str, line: int) -> None:
        found.append(Effect(what, f"{code.co_filename}:{line}"))

    for line, name, target in instructions_at(code, lines):
        if name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            note(f"assigns the global {target}", line)
        elif name in ("STORE_DEREF", "DELETE_DEREF") and target in code.co_freevars:
            note(f"assigns the enclosing function's {target}", line)
        elif name in ("STORE_ATTR", "DELETE_ATTR") and target not in _TENSOR_ATTRIBUTES:
            note(f"assigns the attribute {target}", line)
        elif name == "IMPORT_NAME":
            note(f"imports {target}", line)
    for access in accesses(code, lines):
        if access.kind == "global" and not access.attributes and access.name in _IMPURE_BUILTINS:
            if values(access) in (getattr(builtins, access.name), _MISSING):
                note(f"calls {access.name}", access.line)
        elif access.attributes:
            owner = values(Access(access.kind, access.name, access.attributes[:-1], access.line))
            changes = access.attributes[-1] in _MUTATORS and not isinstance(owner, (Tensor, ModuleType))
            if access.kind == "local" and owner is _MISSING:
                # Before the function runs, what a local variable's attribute holds might be from outside.
                changes = changes and lines is None and len(access.attributes) > 1
            if changes or isinstance(owner, _IMPURE_TYPES):
                note(f"calls {'.'.join((access.name, *access.attributes))}", access.line)
        if access.kind == "global" and access.attributes:
            if any(values(access) is getattr(m, access.attributes[-1], _MISSING) for m in _IMPURE_MODULES):
                note(f"calls {'.'.join((access.name, *access.attributes))}", access.line)
    return found


_MISSING = object()


def unwrap(function: Any) -> tuple[FunctionType | None, Any]:
    """The Python function behind a callable, and the object it is bound to."""
    owner = None
    while True:
        if isinstance(function, MethodType):
            owner, function = function.__self__, function.__func__
        elif isinstance(function, FunctionType):
            return function, owner
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(getattr(type(function), "__call__", None), FunctionType):  # noqa: B004
            owner, function = function, type(function).__call__
        else:
            return None, owner


@dataclass
class Surroundings:
    """Everything that the observed code read: found functions by their code, and problems."""

    functions: dict[CodeType, FunctionType] = field(default_factory=dict)
    owners: list[Any] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    reads: list[tuple[str, Any, Any, tuple[str, ...]]] = field(default_factory=list)
    """("global", dictionary, name, attributes), ("cell", cell, None, attributes) or
    ("object", object, None, attributes)."""

    def values(self) -> list[Any]:
        """Every object that was read, along all chains of attributes."""
        bases = [(_BASES[kind](container, name), path) for kind, container, name, path in self.reads]
        return [_value(base, path[:depth]) for base, path in bases for depth in range(len(path) + 1)]


def _value(base: Any, attributes: tuple[str, ...]) -> Any:
    for name in attributes:
        try:
            base = getattr(base, name)
        except Exception:
            return _MISSING
    return base


def _root(access: Access, code: CodeType, globals_: dict[str, Any], function: FunctionType | None) -> Any:
    if access.kind == "global":
        if access.name in globals_:
            return globals_[access.name]
        return getattr(builtins, access.name, _MISSING)
    if access.kind == "free" and function is not None and function.__closure__ is not None:
        cell = function.__closure__[code.co_freevars.index(access.name)]
        try:
            return cell.cell_contents
        except ValueError:
            return _MISSING
    return _MISSING


class _Inspection:
    """Finds what code read and did. `known` are the objects that were there before the call."""

    def __init__(self, observed: Observer | None, outside: Sequence[Any]):
        self.observed, self.out = observed, Surroundings()
        self.known = {id(x): x for x in outside}
        self.pending: list[FunctionType] = []
        self.scanned: dict[CodeType, tuple[dict[str, Any], FunctionType | None, set[int] | None]] = {}
        self.followed: set[tuple[int, tuple[str, ...]]] = set()

    def run(self, function: FunctionType) -> Surroundings:
        """Everything about a function and what it reaches."""
        self.pending.append(function)
        self._drain()
        if self.observed is not None:
            self._follow_locals()
            for code, lines in self.observed.lines.items():
                if code not in self.scanned:
                    around = [owner for _, owner, _ in self.scanned.values() if owner is not None]
                    self._scan(code, self.observed.globals[code], enclosed(code, around), lines)
            self._follow_locals()
        for code, (globals_, owner, scanned) in self.scanned.items():
            values = functools.partial(self._access_value, code, globals_, owner)
            self.out.effects += effects(code, scanned, values)
        return self.out

    def _drain(self) -> None:
        while self.pending:
            current = self.pending.pop()
            code = current.__code__
            if code in self.scanned or is_internal(code):
                continue
            self.out.functions[code] = current
            if self.observed is None:
                self._scan(code, current.__globals__, current, None)
            elif code in self.observed.lines:
                self._scan(code, current.__globals__, current, self.observed.lines[code])

    def _scan(
        self, code: CodeType, globals_: dict[str, Any], owner: FunctionType | None, lines: set[int] | None
    ) -> None:
        self.scanned[code] = globals_, owner, lines
        for access in accesses(code, lines):
            root = _root(access, code, globals_, owner)
            if root is _MISSING or access.name == "__class__":
                continue
            if access.kind == "global" and access.name in globals_:
                self.out.reads.append(("global", globals_, access.name, access.attributes))
            elif access.kind == "free" and owner is not None and owner.__closure__ is not None:
                cell = owner.__closure__[code.co_freevars.index(access.name)]
                self.out.reads.append(("cell", cell, None, access.attributes))
            self._visit(root, access, code)

    def _visit(self, root: Any, access: Access, code: CodeType) -> None:
        """Note every object along a chain of attributes."""
        for depth in range(len(access.attributes) + 1):
            value = _value(root, access.attributes[:depth])
            if value is _MISSING:
                return
            self.known[id(value)] = value
            if isinstance(value, Iterator):
                self.out.effects.append(Effect("reads an iterator", f"{code.co_filename}:{access.line}"))
            found, bound = unwrap(value)
            if found is not None and not is_internal(found.__code__):
                self.pending.append(found)
            if bound is not None:
                self.out.owners.append(bound)

    def _follow_locals(self) -> None:
        """Attributes that were read, through local variables, from objects of outside."""
        progress = True
        while progress:
            progress = False
            for code, (_, _, lines) in list(self.scanned.items()):
                for access in accesses(code, lines):
                    for value in self._local_values(code, access):
                        key = id(value), access.attributes
                        if key in self.followed or not access.attributes or not _has_own_attributes(value):
                            continue
                        self.followed.add(key)
                        self.out.reads.append(("object", value, None, access.attributes))
                        self._visit(value, access, code)
                        progress = True
            self._drain()

    def _local_values(self, code: CodeType, access: Access) -> list[Any]:
        if access.kind == "global" or self.observed is None:
            return []
        return [v for k, v in self.observed.locals.get((code, access.name), {}).items() if k in self.known]

    def _access_value(
        self, code: CodeType, globals_: dict[str, Any], owner: FunctionType | None, access: Access
    ) -> Any:
        found = self._local_values(code, access)
        root = found[0] if found else _root(access, code, globals_, owner)
        return _value(root, access.attributes) if root is not _MISSING else _MISSING


def inspect_code(function: FunctionType, observed: Observer | None, outside: Sequence[Any] = ()) -> Surroundings:
    """Reads and effects of a function: of the lines that ran, or before it ran of all code that it may reach.

    `outside` are objects that the call got: attributes that are read of them count as surroundings.
    """
    return _Inspection(observed, outside).run(function)


def add_guards(tracer: Tracer, surroundings: Surroundings) -> list[Callable[[], bool]]:
    """Guards for what was read: native ones in the tracer; those that need Python are returned."""
    python: list[Callable[[], bool]] = []
    leaves: dict[tuple[int, Any, tuple[str, ...]], int] = {}
    for kind, container, name, attributes in surroundings.reads:
        base = _BASES[kind](container, name)
        parent: int | None = None
        for depth in range(len(attributes) + 1):
            value = _value(base, attributes[:depth])
            if value is _MISSING or _is_fresh(value, base, attributes[:depth]):
                break
            key = (id(container), name, attributes[:depth])
            if key not in leaves:
                leaves[key] = _load(tracer, kind, container, name, parent, attributes[:depth])
                check = _guard_value(tracer, leaves[key], value)
                if check is not None:
                    python.append(check)
            parent = leaves[key]
            if not _has_own_attributes(value):
                break
    return python


def _is_fresh(value: Any, base: Any, attributes: tuple[str, ...]) -> bool:
    """Whether reading an attribute makes a new object each time, as bound methods and properties do: the code behind it
    was observed itself."""
    return not isinstance(value, _PLAIN) and _value(base, attributes) is not value


def _global(container: dict[str, Any], name: str) -> Any:
    return container.get(name, _MISSING)


def _contents(cell: Any, name: None) -> Any:
    return cell.cell_contents


def _itself(value: Any, name: None) -> Any:
    return value


_BASES: dict[str, Callable[[Any, Any], Any]] = {"global": _global, "cell": _contents, "object": _itself}


def _load(tracer: Tracer, kind: str, container: Any, name: Any, parent: int | None, attributes: tuple[str, ...]) -> int:
    leaf = tracer.new_leaf()
    if attributes:
        assert parent is not None
        tracer.load(leaf, Op.LOAD_ATTRIBUTE, parent, tracer.object(attributes[-1]))
    elif kind == "global":
        holder = tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(container))
        tracer.load(leaf, Op.LOAD_ITEM, holder, tracer.object(name))
    elif kind == "object":
        tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(container))
    else:
        tracer.load(leaf, Op.LOAD_CELL, tracer.object(container))
    return leaf


def _has_own_attributes(value: Any) -> bool:
    """Whether attributes read from a value need guards: not those of tensors, library objects, types and functions."""
    if isinstance(value, (Tensor, type, FunctionType, BuiltinFunctionType, MethodType, *_PLAIN)):
        return False
    if isinstance(value, ModuleType):
        return not _is_library(value)
    return not type(value).__module__.startswith("eagerjit") and not has_state(value)


def _is_library(module: ModuleType) -> bool:
    name = module.__name__.partition(".")[0]
    return name in sys.stdlib_module_names or name in ("eagerjit", "numpy", "torch")


def _guard_value(tracer: Tracer, leaf: int, value: Any) -> Callable[[], bool] | None:
    if isinstance(value, _PLAIN) and not isinstance(value, (bool, type(None), complex, bytes)):
        tracer.guard_object(leaf, Op.EQUAL, value)
        return None
    if isinstance(value, MethodType):
        return None
    tracer.guard_object(leaf, Op.IS, value)
    if isinstance(value, np.ndarray) and value.nbytes > _LARGE:
        raise TraceBreak("it reads a large NumPy array, whose contents may change", "")
    if isinstance(value, (list, dict, set, np.ndarray)):
        return _Unchanged(value)
    return None


class _Unchanged:
    """Whether a container holds what it held; what it held is kept alive, so that identities mean something."""

    def __init__(self, value: Any):
        self.kept: list[Any] = []
        self.value, self.before = value, contents(value, self.kept)

    def __call__(self) -> bool:
        return bool(contents(self.value) == self.before)


def contents(value: Any, kept: list[Any] | None = None) -> Any:
    """What a container holds, comparable: numbers and strings by value, others by identity; `kept` keeps these."""
    if isinstance(value, dict):
        return tuple((k, contents(v, kept)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(contents(v, kept) for v in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(contents(v, kept) for v in value)
    if isinstance(value, np.ndarray) and value.nbytes <= _LARGE:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, _PLAIN):
        return type(value), value
    if kept is not None:
        kept.append(value)
    return id(value)


def has_state(value: Any) -> bool:
    """Whether an object tells the structure that compiled calls depend on, as Modules and Optimizers do."""
    return hasattr(type(value), "_jit_state")


@dataclass(slots=True)
class Structure:
    """Modules and optimizers that a trace went through and defaults, as they were: checked when the epoch has moved."""

    owners: list[Any]
    states: list[Any]
    epoch: int
    dtype: DType
    casting: Any

    def holds(self) -> bool:
        """Whether they still are as they were."""
        return self.dtype is Defaults.dtype and self.casting == state.casting and all(
            o._jit_state() == s for o, s in zip(self.owners, self.states, strict=True)
        )


def structure_of(owners: list[Any]) -> Structure:
    """The present structure of these objects."""
    epoch = mode.epoch()
    unique = list({id(o): o for o in owners if has_state(o)}.values())
    return Structure(unique, [o._jit_state() for o in unique], epoch, Defaults.dtype, state.casting)
