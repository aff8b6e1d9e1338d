"""What calling something does besides its result, as far as it is not Python code that can be watched itself."""

from __future__ import annotations

import builtins
import functools
import logging
import operator
import os
import warnings
import weakref
from collections.abc import Callable, Sized
from contextvars import ContextVar
from io import IOBase
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from eagerjit.effects.clocks import CLOCKS, NANOSECONDS, Later
from eagerjit.effects.deferred import PutOff, write_later
from eagerjit.effects.handled_errors import note_error_told
from eagerjit.effects.lru_caches import Remembering
from eagerjit.effects.world import is_watched
from eagerjit.effects.world_calls import only_looks, takes_items
from eagerjit.guards.comparing import has_attributes, has_own_attributes
from eagerjit.guards.value_guards import option_got
from eagerjit.recording import exact_sums, numpy_numbers, tensor_attributes
from eagerjit.recording.arrays import CONVERTING, LARGE, TracedArray, TracedNumber, by_host, converted, made_by_host
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.rounding import ROUNDED, as_float, of_math, rounded
from eagerjit.recording.traced_ranges import range_instead
from eagerjit.recording.traced_texts import tied_text
from eagerjit.runtime.source import is_library
from eagerjit.tensors.hooks import Handle
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching import lookup, texts
from eagerjit.watching.bytecode import BLIND
from eagerjit.watching.containers import CHANGING, CONTAINERS, in_python, is_changing, is_consumed, items_of
from eagerjit.watching.identities import note_called
from eagerjit.watching.implicit import note_attribute, note_presence
from eagerjit.watching.library_calls import (
    OPENING,
    LibraryCalls,
    calls_back,
    is_any_of,
    is_of_interpreter,
    is_of_the_world,
    module_of,
    registries,
    switches_mode,
    with_owner,
)
from eagerjit.watching.library_in_python import of_stand_in
from eagerjit.watching.observation import NotYet, TraceBreak, is_internal
from eagerjit.watching.plain_numbers import with_plain_numbers
from eagerjit.watching.slots import ABSENT
from eagerjit.watching.texts import LOGGED
from eagerjit.watching.tying import tied_for, with_tied

_READING = frozenset("get __getitem__ __contains__ __len__ __iter__ keys values items copy index count".split())
"""Methods of containers that tell what they hold."""

REFUSED = frozenset("open input exec eval compile breakpoint globals locals vars __import__ print".split())
_HARMLESS = frozenset(
    "len isinstance issubclass sum min max sorted enumerate zip range list tuple dict set frozenset iter map filter "
    "any all repr str getattr hasattr type id abs round super callable reversed bool int float format hash divmod pow "
    "slice property staticmethod classmethod object bytes ord chr bin hex oct ascii complex print".split()
)
_SETTINGS = frozenset(
    "set_default_dtype seed set_num_threads set_printoptions set_default_device "
    "use_deterministic_algorithms set_deterministic_debug_mode set_float32_matmul_precision set_default_tensor_type "
    "set_num_interop_threads set_warn_always".split()
)
_OBJECT_SETTINGS = frozenset(
    "load_state_dict register_forward_hook register_forward_pre_hook register_full_backward_hook register_buffer "
    "register_parameter register_module add_module add_param_group append extend insert update pop clear set_epoch "
    "__setitem__ __delitem__ apply _apply half float double bfloat16 to cpu share_memory".split()
)
_ADDING = frozenset("register_buffer register_parameter register_module add_module append extend insert".split())
"""Methods by which first calls add to what they are given: the next ones find it."""

_OF_MEMORY = frozenset("memoryview bytes bytearray id".split())
_NUMBERS = (SymbolicInt, TracedFloat, TracedNumber, Later)
_UNREAD = (type, FunctionType, ModuleType, Tensor)


class Calls(PutOff, LibraryCalls):
    """Judges the calls of user code: which are noted, which are put off, which end the recording."""

    use = "read"
    """How the result of the call that is about to happen is used: see `use_of_result`."""

    def about_to(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, source: str
    ) -> Callable[..., Any] | None:
        """Note what a call will do. Returns what is to be called instead, None for the callable itself."""
        adding = exact_sums.in_place_of(function)
        if adding is not None:
            return self.about_to(adding, args, kwargs, frame, source) or adding
        if self._takes_iterator(function, args, kwargs):
            return functools.partial(self._call_with_list, function, frame, source)
        world, histories = self.journal.world, self.journal.windows.histories
        if (own := tied_for(function, args, kwargs)) is not None:
            instead = self.about_to(function, *own, frame, source)
            return with_tied(function if instead is None else instead)
        instead = histories.called(function, args, kwargs)
        if instead is None:
            self._note_given(function, args, kwargs)
        instead = instead or world.instead(function, args, kwargs)
        instead = instead or self._judged(function, args, kwargs, frame, source)
        if instead is None and not any(map(world.is_taken, args)):
            instead = texts.instead(function, args, kwargs, self.journal.is_outside)
        instead = instead or world.with_items(function, args, kwargs)
        given = calls_back(function, args, kwargs, lambda f: functools.partial(self.when_called, f, frame, source))
        if given is None:
            return instead  # type: ignore[no-any-return]

        def called(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = given(*args, **kwargs)
            return (instead or function)(*args, **kwargs)

        return called

    def when_called(self, function: Any, frame: FrameType, source: str, *args: Any, **kwargs: Any) -> Any:
        """Judge a call when others make it, and make it."""
        self.use = "read"
        instead = self.about_to(function, args, kwargs, frame, source)
        return (function if instead is None else instead)(*args, **kwargs)

    def _judged(self, function: Any, args: Any, kwargs: Any, frame: FrameType, source: str) -> Any:
        """What is to be called instead of a callable that is no question, None for itself."""
        while type(function) is functools.partial:
            self.journal.partials[id(function)] = function
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        if hasattr(type(function), "_jit_state"):
            self.journal.owners.append(function)
            return None
        bound = getattr(function, "__self__", None)
        if isinstance(function, MethodType) and type(function.__func__) is Remembering:
            function, args, bound = function.__func__, (bound, *args), None
        for registry in registries(function):
            self.journal.look_behind(registry)
        function, args = with_owner(function, args)
        note_called(self.journal, function, args, kwargs, source)
        note_error_told(self.journal, function, args, source)
        if (instead := with_plain_numbers(function, args, kwargs)) is not None:
            return instead
        if isinstance(function, FunctionType):
            return self._method(function, args, kwargs, frame, source)
        if isinstance(function, (MethodDescriptorType, WrapperDescriptorType)) and args:
            return self.builtin_method(function.__name__, args[0], args[1:], kwargs, source)
        bound_native = isinstance(function, (BuiltinFunctionType, MethodType, MethodWrapperType)) and bound is not None
        if bound_native and not isinstance(bound, ModuleType):
            by_key = function.__name__ == "get" and isinstance(bound, dict) and not kwargs
            by_key = by_key and self.journal.keyed.method("get", bound, args, "read", source)
            if isinstance(bound, CONTAINERS) and not (by_key or is_changing(bound, function.__name__)):
                self.journal.handed_over[id(bound)] = bound  # no name may lead to it
            return self.builtin_method(function.__name__, bound, args, kwargs, source)
        if type(function).__module__.startswith("eagerjit"):
            return None
        return self._function(function, args, kwargs, frame, source)

    def _function(self, function: Any, args: Any, kwargs: Any, frame: FrameType, source: str) -> Any:
        name, module = getattr(function, "__name__", ""), module_of(function)
        journal = self.journal
        if function is builtins.print:
            return self._print(args, kwargs, source)
        if function is warnings.warn:
            return self._warn(args, kwargs, frame, source)
        if is_any_of(function, (setattr, delattr)) and len(args) > 1 and isinstance(args[1], str):
            self.attribute(args[0], args[1], args[2] if function is setattr else ABSENT, source)
            return None
        if is_any_of(function, (getattr, hasattr)) and len(args) > 1 and isinstance(args[1], str):
            (note_presence if function is hasattr else note_attribute)(journal, args[0], args[1])
            return None
        if not kwargs and any(isinstance(x, Tensor) or type(x) in _NUMBERS for x in args):
            if function is float or is_any_of(function, ROUNDED):
                return as_float if function is float else functools.partial(rounded, function)
            if module == "math" or (function is pow and len(args) == 3):
                return of_math(function)
        if module == "builtins" and name in REFUSED and getattr(builtins, name, None) is function:
            return self.refused(f"calls {name}", source)
        if function is id and any(isinstance(a, Tensor) for a in args):
            journal.tracer.compares_identities = True
        if len(args) == 1 and (instead := of_stand_in(function, args[0])) is not None:
            return instead
        if isinstance(function, type) and isinstance(getattr(function, "__del__", None), FunctionType):
            return self.refused(f"makes a {name}, whose __del__ runs when nobody holds it", source)
        instead = numpy_numbers.instead(function, args, kwargs) or in_python(function, args, kwargs)
        if instead := instead or range_instead(function, args, self.use):
            return instead
        if made_by_host(function, args, kwargs):
            return functools.partial(by_host, function)
        if is_any_of(function, CONVERTING) and len(args) == 1 and type(args[0]) is TracedArray:
            return functools.partial(converted, function)
        if name in _OF_MEMORY and any(type(x) in (TracedArray, TracedNumber) for x in args):
            return self.refused(f"calls {name} of an array that is an input", source)
        if self._reads_iterator(function, args, kwargs):
            return self.refused("reads an iterator", source)
        if type(function) is weakref.ref:
            return self.refused("follows a weak reference, whose object it would keep alive", source)
        if type(function) is Remembering:
            return journal.memoized.instead(function, args, kwargs, source)
        if module == "time" and function in CLOCKS | NANOSECONDS:
            return functools.partial(journal.clocks.read, journal.tracer, function)
        if is_of_the_world(module, name):
            return self.refused(f"calls {module}.{name}".replace("posix.", "os."), source)
        if is_of_interpreter(function):
            return self.refused(f"calls {module}.{name}", source)
        if type(function) is operator.attrgetter:
            return self._note_attributes_got(function, args)
        if function is dir and args:
            self._note_listed(args[0])
        if module == "builtins" and name in _HARMLESS:
            self.note_class_asked(function, args)
            for value in args:
                journal.look_behind(value)
            return None
        if isinstance(function, type) and has_own_attributes(function):
            journal.classes_read |= {(id(function), n): function for n in ("__init__", "__new__")}
        if frame.f_code is OPENING:
            journal.own(args[-1])
        refused = self._probe((*args, *kwargs.values()), source) or self._tells(function, args, kwargs)
        numpys = module.partition(".")[0] == "numpy" and not isinstance(function, type)
        return refused or (functools.partial(journal.making, function) if numpys else None)

    def _method(self, function: Any, args: Any, kwargs: Any, frame: FrameType, source: str) -> Any:
        """A Python function: the user's is watched itself; of libraries some do what cannot be watched."""
        if not is_library(function.__code__.co_filename):
            self.journal.called[id(function)] = function
            return None
        self._note_decorating(function)
        if switches_mode(function):
            return None
        owner, name, module = args[0] if args else None, function.__name__, module_of(function)
        if not (module.startswith("eagerjit") or is_internal(function.__code__)):
            return None
        if isinstance(owner, logging.Logger) or (module == "logging" and name in (*LOGGED, "getLevelName")):
            return self._log(owner, function, args, kwargs, frame, source)
        if owner is os.environ or function is os.getenv:
            before = dict(os.environ)
            self.journal.checks.append(lambda: dict(os.environ) == before)
            if name in ("get", "getenv", "__contains__", "__getitem__", "copy", "keys", "items", "values"):
                return None
        if module.startswith("eagerjit"):
            self._note_own_gradient(owner, name)
            if hasattr(type(owner), "notes_changes") and name in CHANGING[dict]:
                return self.builtin_method(name, owner, args[1:], kwargs, source)
            if name in ("__setattr__", "__delattr__") and len(args) > 1 and not isinstance(owner, Tensor):
                value = args[2] if name == "__setattr__" else ABSENT  # by a `__setattr__` of the program's own
                self.journal.assign(owner, args[1], value, "attribute", source)
                return None
            if name in ("train", "eval") and hasattr(type(owner), "_jit_state") and self.journal.is_outside(owner):
                return self._switch(owner, function, source)
            changes = hasattr(type(owner), "_jit_state") and name in _OBJECT_SETTINGS
            if changes and self.only_does_what_is_seen(name, args, kwargs):
                return None
            if name in _SETTINGS or (changes and self.journal.is_outside(owner)):
                named = f" {args[1]!r}" if len(args) > 1 and isinstance(args[1], str) else ""
                count = f" of {len(owner)} parts" if changes and isinstance(owner, Sized) else ""
                return self.refused(f"calls {name}{named}{count}", source, NotYet if name in _ADDING else TraceBreak)
            if isinstance(owner, Handle) and name == "remove" and self.journal.is_outside(owner):
                self.journal.method(owner._hooks, "pop", (owner.id, None), {}, source)
            return self._tells(function, args, kwargs)
        if is_of_the_world(module, name) or is_of_interpreter(function):
            return self.refused(f"calls {module}.{name}", source)
        if self._reads_iterator(function, args, kwargs):
            return self.refused("reads an iterator", source)
        if module == "copy" and not all(map(self._notes_copied, args)):
            return self.refused(f"calls copy.{name} of an optimizer", source)
        return self._probe((*args, *kwargs.values()), source) or self._tells(function, args, kwargs)

    def _reads_iterator(self, function: Any, args: Any, kwargs: Any) -> bool:
        """Whether a library gets an iterator from outside, and may do more than look at it or take its items."""
        known = only_looks(function) or takes_items(function) or is_watched(function)
        return not known and any(map(self.journal.world.is_taken, (*args, *kwargs.values())))

    def _switch(self, owner: Any, function: Any, source: str) -> Any:
        """A Module's `train` or `eval`, which sets an attribute of all its parts."""
        parts = list(owner.modules()) if hasattr(owner, "modules") else []
        if not parts:
            return self.refused(f"calls {function.__name__}", source)
        self.journal.owners.append(owner)
        self.journal.switch(parts, source)
        return None

    def builtin_method(self, name: str, owner: Any, args: Any, kwargs: Any, source: str) -> Any:
        journal = self.journal
        if name in ("get", "setdefault") and isinstance(owner, dict) and not kwargs:
            self.compare(args[0] if args else None, owner)
            if args and lookup.holds_options(owner):
                return option_got(journal, owner, name, args, source)
            if journal.keyed.method(name, owner, args, self.use, source):
                return None
        for container, names in CHANGING.items():
            if isinstance(owner, container) and name in names:
                if any(is_consumed(a) for a in args):
                    return None if journal.is_made(owner) else self.refused(f"calls {name} with an iterator", source)
                if name not in BLIND and not (name == "__setitem__" and isinstance(owner, dict)):
                    journal.note_read(owner, None)
                journal.method(owner, name, args, kwargs, source)
                return None
        if lookup.holds_options(owner) and name in ("items", "values", "copy"):
            return self.refused(f"calls {name} of an optimizer's options", source)
        if name in _READING and isinstance(owner, CONTAINERS):
            key = args[0] if args and name in ("get", "__getitem__", "__contains__") else None
            self.compare(key, owner)
            journal.note_asked(owner, name, key)
        if name in ("__getattribute__", "__getattr__") and args and isinstance(args[0], str):
            note_attribute(journal, owner, args[0])
        if name in ("__setattr__", "__delattr__") and args:
            self._own_attribute(owner, args[0], args[1] if len(args) > 1 else ABSENT, source)
            return None
        instead = journal.variables.method(owner, name, args, source) if isinstance(owner, ContextVar) else None
        if instead is not None:
            return instead
        if name in ("write", "flush") and isinstance(owner, IOBase) and all(isinstance(a, (str, bytes)) for a in args):
            if journal.is_made(owner):
                return None if name == "flush" else lambda *given: owner.write(tied_text(given[-1]))
            return functools.partial(write_later, journal, getattr(owner, name), source)
        if is_consumed(owner) and journal.is_outside(owner):
            return self.refused(f"calls {type(owner).__name__}.{name}", source)
        kind: type = owner if isinstance(owner, type) else type(owner)
        if is_of_the_world(kind.__module__, name) and (owner is kind or journal.is_outside(owner)):
            return self.refused(f"calls {kind.__name__}.{name}", source)
        if type(owner).__module__.startswith("numpy.random"):
            return self.refused(f"calls {type(owner).__name__}.{name}", source)
        if name == "__subclasses__" and isinstance(owner, type):
            known: list[Any] = type.__subclasses__(owner)
            journal.checks.append(lambda: type.__subclasses__(owner) == known)
        return self._probe((*([owner] if isinstance(owner, np.ndarray) else []), *args, *kwargs.values()), source)

    def compare(self, key: Any, holder: Any) -> None:
        """Code is about to ask whether a tensor is another one, or among others."""
        if not isinstance(key, Tensor) or type(key._data) is not np.ndarray:  # what is made inside is no other one
            return
        others: Any = [holder]
        if isinstance(holder, (*CONTAINERS, tuple)):
            others = dict.keys(holder) if isinstance(holder, dict) else items_of(holder)
        tracer = self.journal.tracer
        tracer.compares_identities = True
        tracer.compared += [(key, x) for x in others if isinstance(x, Tensor) and type(x._data) is np.ndarray]

    def attribute(self, owner: Any, name: str, value: Any, source: str) -> None:
        """An attribute is about to be assigned or deleted, as the class of its object does that."""
        method, given = ("__delattr__", (name,)) if value is ABSENT else ("__setattr__", (name, value))
        found = lookup.inherited(owner, method)
        if isinstance(found, FunctionType) and not is_internal(found.__code__):
            return  # its own code is watched
        if isinstance(found, WrapperDescriptorType) and found.__name__ not in ("__setattr__", "__delattr__"):
            self.builtin_method(found.__name__, owner, given, {}, source)  # `__setattr__ = dict.__setitem__`
            return
        self._own_attribute(owner, name, value, source)

    def _own_attribute(self, owner: Any, name: str, value: Any, source: str) -> None:
        """The same past what the user's class does, which is watched itself."""
        if isinstance(owner, Tensor):
            if tensor_attributes.is_assigned(owner, name):
                tensor_attributes.note_assigned(self.journal, owner, name, value, source)
            return
        if lookup.assigns(owner, name):
            return
        is_function = isinstance(owner, (FunctionType, BuiltinFunctionType))
        if is_function and name.startswith("__") and self.journal.is_outside(owner):
            self.journal.refuse(f"it assigns {name} of a function", source)  # at the end: until then it is assigned
        self.journal.assign(owner, name, value, "attribute", source)

    def makes_input(self, array: np.ndarray, what: str, source: str) -> Callable[..., Any]:
        """What is called where an array from outside would be written or picked of: recorded again, it is an input."""
        self.journal.arrays_written.append(array)
        return self.refused(f"{what} a NumPy array", source)

    def _probe(self, values: Any, source: str) -> Any:
        """Note objects that something unknown gets, and might change."""
        for value in values:
            if type(value) is TracedArray:
                continue
            if isinstance(value, np.ndarray) and value.nbytes > LARGE and self.journal.is_outside(value):
                return self.refused("reads a large NumPy array", source)
            while type(value) is functools.partial:
                value = value.func
            if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, CONTAINERS):
                value = value.__self__
            if isinstance(value, (*CONTAINERS, np.ndarray)):
                self.journal.probe(value, source)
            elif has_attributes(value) and not (isinstance(value, _UNREAD) or type(value).__module__ == "typing"):
                self.journal.handed_over[id(value)] = value
        return None
