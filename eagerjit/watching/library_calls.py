"""What functions of Python's library read and call beside their arguments: classes, settings, functions they get."""

from __future__ import annotations

import abc
import builtins
import contextlib
import functools
import heapq
import itertools
import operator
import sys
import typing
from collections.abc import Callable, Iterable
from types import (
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from eagerjit.autograd.function import Function
from eagerjit.effects.journal import Journal
from eagerjit.effects.lru_caches import Remembering
from eagerjit.guards.comparing import (
    attributes_of,
    has_attributes,
    has_own_attributes,
    has_state,
    is_plain,
    stateful_in,
)
from eagerjit.guards.reads import KEYS
from eagerjit.recording.tensor_attributes import note_asked
from eagerjit.runtime.source import is_library
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching import lookup
from eagerjit.watching.containers import CONTAINERS, TAKING_ITEMS, in_python, is_consumed, items_of
from eagerjit.watching.implicit import note_attribute, note_entered, note_lacking, note_methods_asked
from eagerjit.watching.introspection import note_described
from eagerjit.watching.observation import is_internal, user_line
from eagerjit.watching.slots import ABSENT, look

_CALLING_FIRST = (map, filter, iter, functools.reduce, itertools.starmap, itertools.takewhile, itertools.dropwhile,
                  itertools.filterfalse)  # fmt: skip
_CALLING_SECOND = (itertools.groupby, itertools.accumulate)
_CALLING_KEY = (sorted, min, max, heapq.nlargest, heapq.nsmallest, itertools.groupby, itertools.accumulate)
_IN_C = (BuiltinFunctionType, MethodWrapperType, MethodDescriptorType, operator.attrgetter, functools.partial,
         Remembering)  # fmt: skip
_OF_BUFFERS = ("name", "tensor", "persistent")
"""What `register_buffer` is given."""

_BY_PYTHON = (GeneratorType, map, filter)
_METHODS = (BuiltinFunctionType, MethodDescriptorType)
_TOLD_OTHERWISE = frozenset(("is_grad_enabled", "is_available", "device_count"))
"""Functions that compiled calls need not ask: grad mode is a guard of its own, devices stay what they are."""


_WORLD = frozenset(
    "random time datetime os posix posixpath genericpath io _io threading _thread subprocess socket _socket select "
    "selectors tempfile shutil pathlib glob fileinput signal queue _queue multiprocessing concurrent asyncio gc atexit "
    "contextvars _contextvars secrets uuid ctypes _ctypes mmap sqlite3 _sqlite3 urllib http pickle _pickle csv _csv "
    "unittest doctest array importlib runpy code pdb bdb faulthandler tracemalloc resource zipfile tarfile gzip".split()
)
"""Modules whose functions look at the world outside of the process's objects, or change it."""

_PURE = frozenset(
    "abspath basename commonpath commonprefix dirname expanduser isabs join normcase normpath split splitdrive "
    "splitext fspath timedelta total_seconds dumps loads StringIO BytesIO PurePath PurePosixPath Path PosixPath "
    "with_suffix with_name as_posix relative_to joinpath is_absolute _make_child_relpath UUID".split()
)


def module_of(function: Any) -> str:
    """The name of the module that a callable comes from."""
    found = getattr(function, "__module__", None)
    own = getattr(function, "__globals__", {}).get("__name__", "")
    if own.startswith("eagerjit"):
        return str(own)  # `wraps` gives a function of the library the module of what it wraps
    if not isinstance(found, str):
        owner = getattr(function, "__self__", None)
        owner = getattr(function, "__objclass__", None) or (owner if isinstance(owner, type) else type(owner))
        found = owner.__module__ if owner is not type(None) else ""
    return "math" if found == "math.integer" else str(found)  # where CPython 3.15 has those of integers


def with_owner(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The Python function that runs when a method or an object with a `__call__` is called, and what it is given.

    Other callables are as they are.
    """
    found, owner = getattr(function, "__func__", None), getattr(function, "__self__", None)
    if not isinstance(function, (MethodType, type)) and not type(function).__module__.startswith("eagerjit"):
        call = look(type(function), "__call__", "attribute")
        found, owner = call, function
    return (found, (owner, *args)) if isinstance(found, FunctionType) else (function, args)


def switches_mode(function: Any) -> bool:
    """Whether a function was decorated with `no_grad()` and the like: what it wraps is watched itself."""
    return isinstance(function, FunctionType) and hasattr(function, "__wrapped__") and (
        function.__globals__["__name__"] in ("eagerjit.autograd.modes", "eagerjit.utils._contextlib")
    )


def is_of_the_world(module: str, name: str) -> bool:
    """Whether a function of a module looks at what is outside of the process's objects, or changes it."""
    if name in _PURE:
        return False
    return module.partition(".")[0] in _WORLD or module.startswith(("numpy.random", "eagerjit.random"))


def is_any_of(function: Any, known: Iterable[Any]) -> bool:
    """Whether a callable is one of these: users' objects may have an `==` of their own."""
    return any(function is f for f in known)


def calls_back(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], judged: Callable[[Any], Any]) -> Any:
    """What C code is given that calls functions of C: these, judged whenever it does. None where it calls none."""
    first = is_any_of(function, _CALLING_FIRST) and len(args) > 1
    first = first and (isinstance(args[0], _IN_C) or is_any_of(args[0], (str, float)))
    by_key = is_any_of(function, _CALLING_KEY) or (type(function) in _METHODS and function.__name__ == "sort")
    names = [n for n in ("key", "func") if by_key and isinstance(kwargs.get(n), _IN_C)]
    second = is_any_of(function, _CALLING_SECOND) and len(args) > 1 and isinstance(args[1], _IN_C)
    if not (first or names or second):
        return None
    place = 0 if first else 1 if second else -1

    def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(judged(a) if i == place else a for i, a in enumerate(args))
        return args, {n: judged(v) if n in names else v for n, v in kwargs.items()}

    return given


_PARTS_OF_FUNCTIONS = ("forward", "setup_context", "backward", "vmap", "generate_vmap_rule")
_COPYING = ("__copy__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")
_NOT_READING = frozenset(("isinstance", "issubclass", "type", "id", "hasattr", "getattr", "setattr", "callable"))
_ADDING = frozenset("append insert add appendleft setdefault discard remove pop index count get __setitem__".split())
_WHOLE = frozenset(("dict", "str", "repr", "format", "ascii", "map", "filter"))


class _Adding:
    """Takes the place of a list to which the items of an iterator are about to be added."""

    def __init__(self, target: list[Any], extend: Callable[[Any], None]):
        self._target, self._extend = target, extend

    def __iadd__(self, items: Any) -> list[Any]:
        self._extend(items)
        return self._target


class LibraryCalls:
    """Notes what such calls depend on."""

    journal: Journal
    when_called: Callable[..., Any]

    def _note_given(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Containers that something gets whose code is not watched, and which reads what they hold."""
        name, module = getattr(function, "__name__", ""), module_of(function)
        inner = function.__func__ if isinstance(function, MethodType) else function
        watched = isinstance(inner, FunctionType) and (not is_internal(inner.__code__) or switches_mode(inner))
        watched = watched or in_python(function, args, kwargs) is not None
        made = isinstance(inner, type) and has_own_attributes(inner)
        method = isinstance(function, (MethodDescriptorType, WrapperDescriptorType))
        adds = name in _ADDING and (method or isinstance(getattr(function, "__self__", None), CONTAINERS))
        if watched or made or adds or has_state(function) or (module == "builtins" and name in _NOT_READING):
            return
        if not module.startswith("eagerjit"):
            given = (*args, *kwargs.values(), getattr(function, "__self__", None))
            self.journal.whole |= {id(value) for value in given if has_state(value)}
        keys = getattr(builtins, name, None) is function and name not in _WHOLE
        options = bool(args) and lookup.holds_options(args[0]) and vars(type(args[0])).get(name) is function
        for value in (*args[method or options :], *kwargs.values()):
            note_asked(self.journal, value)
            if isinstance(value, CONTAINERS):
                self.journal.note_read(value, KEYS if keys and isinstance(value, dict) else None)

    def _takes_iterator(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a method changes a container from outside by the items of an iterator that the call has made."""
        if type(function) not in _METHODS or function.__name__ not in TAKING_ITEMS or not args or kwargs:
            return False
        owner = args[0] if type(function) is MethodDescriptorType else function.__self__
        taken = isinstance(owner, CONTAINERS) and is_consumed(args[-1])
        return taken and not self.journal.is_made(owner) and self.journal.is_made(args[-1])

    def adding(self, target: Any, method: str, items: Any, frame: Any, source: str) -> Any:
        """What takes the place of a list before `+=` of an iterator that the call has made; None before others."""
        if method != "__iadd__" or type(target) is not list or not self._takes_iterator(target.extend, (items,), {}):
            return None
        return _Adding(target, functools.partial(self.when_called, target.extend, frame, source))

    def _call_with_list(self, function: Any, frame: Any, source: str, *args: Any) -> Any:
        """Call such a method with a list of the items, which calls can give it again.

        Python code that makes items for a list finds those before in it.
        """
        owner = args[0] if type(function) is MethodDescriptorType else function.__self__
        if type(args[-1]) in _BY_PYTHON and function.__name__ == "extend" and type(owner) is list:
            for item in args[-1]:
                self.when_called(owner.append, frame, source, item)
            return None
        return self.when_called(function, frame, source, *args[:-1], self.when_called(list, frame, source, args[-1]))

    def note_class_asked(self, function: Any, args: tuple[Any, ...]) -> None:
        """`isinstance`, `issubclass`, `type`: objects and abstract classes may come to be others'; `callable`."""
        asks = is_any_of(function, (isinstance, type, callable)) and args
        if asks and has_own_attributes(args[0]) and not has_state(args[0]):
            self.journal.kinds_read[id(args[0])] = args[0]
        if len(args) and type(function) in (type, BuiltinFunctionType):
            note_methods_asked(self.journal, function, type(args[0]))
        if not is_any_of(function, (isinstance, issubclass)) or len(args) < 2:
            return
        kind = type(args[0]) if function is isinstance else args[0]
        for asked in args[1] if isinstance(args[1], tuple) else args[1:]:
            if not (isinstance(asked, abc.ABCMeta) and isinstance(kind, type)):
                continue
            if has_own_attributes(asked) or has_own_attributes(kind):  # Python's classes may take in the user's
                self.journal.checks.append(functools.partial(_is_subclass, kind, asked, issubclass(kind, asked)))
                of_object = kind is not args[0] and has_own_attributes(args[0]) and self.journal.is_outside(args[0])
                if of_object and getattr(asked, "_is_protocol", False):
                    before = _members(args[0], asked)
                    self.journal.checks.append(functools.partial(_has_members, args[0], asked, before))

    def _note_decorating(self, function: FunctionType) -> None:
        """A function of the library may enter the context that it was decorated with."""
        for cell in function.__closure__ or () if hasattr(function, "__wrapped__") else ():
            kept = look(cell, "contents", "cell")
            if hasattr(type(kept), "__enter__"):
                note_entered(self.journal, kept)

    def _note_own_gradient(self, owner: Any, name: str) -> None:
        """A `Function` is applied: its class holds what computes results and gradients, without a first argument."""
        if name == "apply" and isinstance(owner, type) and issubclass(owner, Function):
            for part in _PARTS_OF_FUNCTIONS:
                note_attribute(self.journal, owner, part)

    def _note_listed(self, owner: Any) -> None:
        """`dir` lists the names that an object has."""
        if isinstance(owner, Tensor):
            return note_attribute(self.journal, owner, "__dict__")
        names = dir(owner) if self.journal.is_outside(owner) else None
        if names is not None:
            self.journal.checks.append(lambda: dir(owner) == names)

    def _note_attributes_got(self, getter: Any, args: tuple[Any, ...]) -> None:
        """An `attrgetter` reads attributes by paths."""
        for path in getter.__reduce__()[1] if len(args) == 1 else ():
            owner = args[0]
            for name in path.split("."):
                note_attribute(self.journal, owner, name)
                owner = getattr(owner, name, None)

    def _notes_copied(self, value: Any) -> bool:
        """Note the Modules in what is copied, and what they hold; whether nothing else in it has a state of its own."""
        for found, within in _copied_with(value):
            note_lacking(self.journal, type(found), _COPYING)
            if has_attributes(found) and not (has_state(found) or within):
                self.journal.handed_over[id(found)] = found
        owners = stateful_in(value)
        for owner in owners:
            if not hasattr(owner, "modules"):
                return False
            self.journal.owners.append(owner)
            for held in (x for part in owner.modules() for x in vars(part).values()):
                if not (is_plain(held) or has_state(held) or hasattr(type(held), "notes_changes")):
                    self.journal.handed_over[id(held)] = held
                    owners += [x for x in stateful_in(held) if not any(x is known for known in owners)]
        return True

    def only_does_what_is_seen(self, name: str, args: Any, kwargs: Any) -> bool:
        """Whether a Module's method changes nothing but by writing in place, or by code of the user's that it calls."""
        if name == "apply":
            self.journal.owners.append(args[0])
            function = args[1] if len(args) > 1 else kwargs.get("fn")
            return isinstance(function, FunctionType) and not is_library(function.__code__.co_filename)
        if name == "register_buffer":
            positional = _OF_BUFFERS[: len(args) - 1]
            once = len(args) <= 4 and kwargs.keys().isdisjoint(positional) and kwargs.keys() <= {*_OF_BUFFERS}
            return once and {*positional, *kwargs} >= {"name", "tensor"} and self.replaces_buffer(*args, **kwargs)
        return name == "load_state_dict" and self.loads_in_place(*args, **kwargs)

    def replaces_buffer(self, owner: Any, name: Any, tensor: Any, persistent: Any = True) -> bool:
        """Whether a `register_buffer` puts a tensor, or None, in another's place, as an assignment would; noted as one.
        """
        kept = isinstance(name, str) and name in getattr(owner, "_buffers", ())
        given = tensor is None or type(tensor) is Tensor
        if not (kept and given) or bool(persistent) is (name in owner._non_persistent_buffers_set):
            return False
        if self.journal.is_made(owner) or not is_library(type(owner).__setattr__.__code__.co_filename):
            return False
        self.journal.owners.append(owner)  # which of its buffers are saved, too
        self.journal.assign(owner, name, tensor, "attribute", user_line())
        return True

    def loads_in_place(self, owner: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether a `load_state_dict` only writes to a Module's tensors; then calls depend on what the Module holds."""
        assigns = kwargs.get("assign") or args[2:]
        if assigns or not getattr(owner, "_loads_in_place", bool)():
            return False
        self.journal.owners.append(owner)
        return True

    def _tells(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """What is called in place of a function that, without arguments, can only tell how something is set."""
        name, module = getattr(function, "__name__", ""), module_of(function)
        note_described(self.journal, module, args)
        frames = module in ("inspect", "traceback")  # they look at their callers
        watched = isinstance(function, FunctionType) and not is_internal(function.__code__)
        if args or kwargs or isinstance(function, type) or name in _TOLD_OTHERWISE or frames or watched:
            return None
        return functools.partial(self._told, function)

    def _told(self, function: Callable[[], Any]) -> Any:
        answer = function()
        if _is_plain_answer(answer):
            self.journal.checks.append(lambda: bool(function() == answer))
        return answer


def _copied_with(value: Any) -> list[tuple[Any, bool]]:
    """The objects that are copied with one: itself, and those that it holds; whether within another with attributes."""
    waiting, met = [(value, False)], dict[int, tuple[Any, bool]]()
    while waiting:
        value, within = waiting.pop()
        if id(value) in met or is_plain(value) or isinstance(value, (Tensor, type, FunctionType, ModuleType)):
            continue
        met[id(value)] = value, within
        if isinstance(value, (*CONTAINERS, tuple)):
            held = dict.values(value) if isinstance(value, dict) else items_of(value)
            waiting += [(x, within) for x in held]
        elif has_attributes(value) and not has_state(value):
            waiting += [(x, True) for x in attributes_of(value).values()]
    return list(met.values())


def _is_plain_answer(answer: Any) -> bool:
    """Whether an answer can be compared with another one: a number, a string, a table of such."""
    if isinstance(answer, dict):
        return all(map(is_plain, (*answer, *answer.values())))
    return answer is not None and is_plain(answer)


def _is_subclass(kind: type, asked: type, before: bool) -> bool:
    return issubclass(kind, asked) is before


def _members(value: Any, protocol: Any) -> list[Any]:
    """What a protocol looks at of an object: where it has each of its names, and whether that holds anything."""
    names = sorted(typing._get_protocol_attrs(protocol))  # type: ignore[attr-defined]
    held = [lookup.own(value, name) for name in names]
    return [(h is ABSENT, h is None, lookup.inherited(value, name)) for h, name in zip(held, names, strict=True)]


def _has_members(value: Any, protocol: Any, before: list[Any]) -> bool:
    now = _members(value, protocol)
    return len(now) == len(before) and all(map(operator.is_, itertools.chain(*now), itertools.chain(*before)))


def registries(function: Any) -> list[Any]:
    """The tables in which generic functions and methods look for the function of a class."""
    if not isinstance(function, (FunctionType, MethodType)) and type(function).__module__ != "functools":
        return []
    owner = getattr(getattr(function, "register", None), "__self__", None)
    generic = owner.dispatcher if type(owner) is functools.singledispatchmethod else function
    return [generic.registry] if hasattr(generic, "registry") else []


OPENING = contextlib.contextmanager(lambda: iter(())).__code__
"""Makes a context manager of a call of its function, whose keyword arguments come last: nobody else has them."""


def is_of_interpreter(function: Any) -> bool:
    """Whether a function sees or sets what watches the program, or sees who has called it."""
    name = getattr(function, "__name__", "")
    if getattr(function, "__self__", None) is sys:
        return name in ("gettrace", "settrace", "getprofile", "setprofile", "_getframe", "_current_frames")
    return name in _SEEING_CALLERS.get(module_of(function), ())


_SEEING_CALLERS = {
    "inspect": ("currentframe", "stack", "getouterframes", "trace"),
    "traceback": ("extract_stack", "format_stack", "print_stack", "walk_stack"),
}
