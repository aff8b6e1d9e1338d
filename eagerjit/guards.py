"""What a traced function read from its surroundings, and what it did to them: found in the code that ran.

While a function is traced, every line of the user's code that runs is noted. The instructions on these lines say which
globals, closure cells and attributes were read (each becomes a guard of the compiled call) and whether anything outside
was changed (then the function is not compiled: dropping an effect would be wrong).
"""

from __future__ import annotations

import builtins
import dis
import functools
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from eagerjit.runtime import mode
from eagerjit.runtime.program import Op
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer, is_internal

_PLAIN = (int, float, str, bool, bytes, type(None), complex)
_IMPURE_BUILTINS = frozenset({"print", "open", "input", "exec", "eval", "setattr", "delattr", "globals"})
_IMPURE_MODULES = (random, time, np.random)
_MUTATORS = frozenset(
    "append extend insert remove pop clear update setdefault add discard popitem sort reverse write writelines "
    "debug info warning error critical exception log appendleft popleft send throw close put".split()
)
_TENSOR_ATTRIBUTES = frozenset({"grad", "requires_grad"})


@dataclass(slots=True)
class Effect:
    """Something that a function does to its surroundings."""

    what: str
    source: str


@dataclass(slots=True)
class Access:
    """A chain of names read: its root ("global", "free" or "local"), the root's name, and attributes."""

    kind: str
    name: str
    attributes: tuple[str, ...]
    line: int


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> list[tuple[int, str, Any]]:
    """(line, operation, operand) of every instruction."""
    out = []
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        position = instruction.positions.lineno if instruction.positions is not None else None
        line = position or line
        out.append((line, instruction.opname, instruction.argval))
    return out


def instructions_at(code: CodeType, lines: set[int] | None) -> Iterator[tuple[int, str, Any]]:
    """The instructions of a code object on these lines (all for None): line, operation, operand."""
    for line, name, operand in _instructions(code):
        if lines is None or line in lines:
            yield line, name, operand


def accesses(code: CodeType, lines: set[int] | None) -> list[Access]:
    """The chains of names that code reads."""
    found: list[Access] = []
    current: Access | None = None
    for line, name, operand in instructions_at(code, lines):
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = Access("global", operand, (), line)
            found.append(current)
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF") and operand in code.co_freevars:
            current = Access("free", operand, (), line)
            found.append(current)
        elif name.startswith("LOAD_FAST") and isinstance(operand, str):
            current = Access("local", operand, (), line)
            found.append(current)
        elif name in ("LOAD_ATTR", "LOAD_METHOD") and current is not None:
            current.attributes = (*current.attributes, operand)
        elif name not in ("CACHE", "PUSH_NULL", "PRECALL", "RESUME", "NOP", "EXTENDED_ARG"):
            current = None
    return found


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
        elif access.attributes and access.attributes[-1] in _MUTATORS and access.kind != "local":
            owner = values(Access(access.kind, access.name, access.attributes[:-1], access.line))
            if not isinstance(owner, (Tensor, ModuleType)):
                note(f"calls {'.'.join((access.name, *access.attributes))}", access.line)
        if access.kind == "global" and access.attributes:
            if any(values(access) is getattr(m, access.attributes[-1], _MISSING) for m in _IMPURE_MODULES):
                note(f"calls {'.'.join((access.name, *access.attributes))}", access.line)
    return found


_MISSING = object()


class Observer:
    """Notes the lines of user code that run in this thread while it is entered."""

    def __init__(self) -> None:
        self.lines: dict[CodeType, set[int]] = {}
        self.globals: dict[CodeType, dict[str, Any]] = {}

    def __enter__(self) -> Observer:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if is_internal(code):
            frame.f_trace_lines = False
            return None
        if code not in self.lines:
            self.lines[code] = {code.co_firstlineno}
            self.globals[code] = frame.f_globals
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines[frame.f_code].add(frame.f_lineno)
        return self._line


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
        elif isinstance(getattr(type(function), "__call__", None), FunctionType):
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
    """("global", dictionary, name, attributes) or ("cell", cell, None, attributes)."""


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


def inspect_code(function: FunctionType, observed: Observer | None) -> Surroundings:
    """Reads and effects of a function: of the lines that ran, or before it ran of all code that it may reach."""
    out = Surroundings()
    pending: list[FunctionType] = [function]
    nested: set[CodeType] = set()
    seen: set[CodeType] = set()

    def scan(code: CodeType, globals_: dict[str, Any], owner: FunctionType | None, lines: set[int] | None) -> None:
        seen.add(code)
        nested.update(c for c in code.co_consts if isinstance(c, CodeType))

        def values(access: Access) -> Any:
            return _value(_root(access, code, globals_, owner), access.attributes)

        out.effects += effects(code, lines, values)
        for access in accesses(code, lines):
            root = _root(access, code, globals_, owner)
            if root is _MISSING or access.name == "__class__":
                continue
            if access.kind == "global" and access.name in globals_:
                out.reads.append(("global", globals_, access.name, access.attributes))
            elif access.kind == "free" and owner is not None and owner.__closure__ is not None:
                cell = owner.__closure__[code.co_freevars.index(access.name)]
                out.reads.append(("cell", cell, None, access.attributes))
            for depth in range(len(access.attributes) + 1):
                found, bound = unwrap(_value(root, access.attributes[:depth]))
                if found is not None and not is_internal(found.__code__):
                    pending.append(found)
                if bound is not None:
                    out.owners.append(bound)

    while pending:
        current = pending.pop()
        code = current.__code__
        if code in seen or is_internal(code):
            continue
        out.functions[code] = current
        if observed is None:
            scan(code, current.__globals__, current, None)
        elif code in observed.lines:
            scan(code, current.__globals__, current, observed.lines[code])
    for code, lines in (observed.lines if observed is not None else {}).items():
        if code not in seen:
            scan(code, observed.globals[code], None, lines)
    return out


def add_guards(tracer: Tracer, surroundings: Surroundings) -> list[Callable[[], bool]]:
    """Guards for what was read: native ones in the tracer; those that need Python are returned."""
    python: list[Callable[[], bool]] = []
    leaves: dict[tuple[int, Any, tuple[str, ...]], int] = {}
    for kind, container, name, attributes in surroundings.reads:
        base = container.get(name, _MISSING) if kind == "global" else container.cell_contents
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
    """Whether reading an attribute makes a new object every time, as bound methods and properties do: the code behind it
    was observed itself."""
    return not isinstance(value, _PLAIN) and _value(base, attributes) is not value


def _load(tracer: Tracer, kind: str, container: Any, name: Any, parent: int | None, attributes: tuple[str, ...]) -> int:
    leaf = tracer.new_leaf()
    if attributes:
        assert parent is not None
        tracer.load(leaf, Op.LOAD_ATTRIBUTE, parent, tracer.object(attributes[-1]))
    elif kind == "global":
        holder = tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(container))
        tracer.load(leaf, Op.LOAD_ITEM, holder, tracer.object(name))
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
    if isinstance(value, (list, dict, set)):
        before = contents(value)
        return lambda: contents(value) == before
    return None


def contents(value: Any) -> Any:
    """What a container holds, comparable: numbers and strings by value, other things by identity."""
    if isinstance(value, dict):
        return tuple((k, contents(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(contents(v) for v in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(contents(v) for v in value)
    return (type(value), value) if isinstance(value, _PLAIN) else id(value)


def has_state(value: Any) -> bool:
    """Whether an object tells the structure that compiled calls depend on, as Modules and Optimizers do."""
    return hasattr(type(value), "_jit_state")


@dataclass(slots=True)
class Structure:
    """Modules and optimizers that a trace went through, as they were: checked when the global epoch has moved."""

    owners: list[Any]
    states: list[Any]
    epoch: int

    def holds(self) -> bool:
        """Whether they still are as they were."""
        return all(o._jit_state() == s for o, s in zip(self.owners, self.states, strict=True))


def structure_of(owners: list[Any]) -> Structure:
    """The present structure of these objects."""
    epoch = mode.epoch()
    unique = list({id(o): o for o in owners if has_state(o)}.values())
    return Structure(unique, [o._jit_state() for o in unique], epoch)
