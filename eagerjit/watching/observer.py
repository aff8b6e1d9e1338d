"""Watches user code while it is traced: which instructions run, what they read, and what each is about to do."""

from __future__ import annotations

import collections
import functools
import importlib._bootstrap
import os
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from eagerjit.effects.deferred import Refusing
from eagerjit.effects.importing import Imports
from eagerjit.effects.journal import Journal
from eagerjit.effects.presence import tie_presence
from eagerjit.effects.world_recording import World
from eagerjit.guards.comparing import is_library_name, is_plain
from eagerjit.guards.reads import KEYS
from eagerjit.guards.value_guards import kind_of_option
from eagerjit.recording import tensor_attributes
from eagerjit.recording.array_slots import is_picked, read_array
from eagerjit.recording.arrays import TracedArray
from eagerjit.recording.trace import Tracer
from eagerjit.recording.traced_texts import plain_key
from eagerjit.recording.varying import Varying
from eagerjit.runtime import frames
from eagerjit.runtime.trace_functions import Onlooker
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching import lookup
from eagerjit.watching.bytecode import catches, chain_from, stored_names, use_of_result, variables_looked_into
from eagerjit.watching.callables import Calls
from eagerjit.watching.containers import CHANGING, CONTAINERS
from eagerjit.watching.identities import note_searched
from eagerjit.watching.implicit import Implicit, note_attribute, note_entered
from eagerjit.watching.instructions import handlers, is_evaluated_later
from eagerjit.watching.library_in_python import STAND_INS
from eagerjit.watching.observation import NotYet, TraceBreak, is_internal, source
from eagerjit.watching.slots import ABSENT, is_key, look, position
from eagerjit.watching.waiting import Waiting

_STAND_INS = (Tensor, *STAND_INS)


class Observer(Implicit, Imports):
    """Watches this thread while it is entered. With a tracer, changes of objects go into a journal."""
    is_recording = True

    def __init__(self, tracer: Tracer, stored: set[str], varying: Varying) -> None:
        self.ran: dict[CodeType, set[int]] = {}  # offsets of instructions
        self.globals: dict[CodeType, dict[str, Any]] = {}
        self.locals: dict[tuple[CodeType, str], dict[int, Any]] = {}
        self.closures: dict[CodeType, list[dict[str, Any]]] = {}
        self.stored, self.varying, self.journal = stored, varying, Journal(tracer)
        self.calls, self.journal.world = Calls(self.journal), World(tracer, self.journal)
        self.journal.begin(varying)
        self.methods, self._formatting, self._importing, self.waiting, self._offset = {}, set(), False, Waiting(), -1
        self._names: dict[CodeType, frozenset[str]] = {}
        self._read: tuple[FrameType, Any, Any, str] | None = None
        self._making: dict[FrameType, tuple[Any, Any, str]] = {}
        self._changing: dict[FrameType, int] = {}

    def __enter__(self) -> Observer:
        self._onlooker = Onlooker(self._called)
        return self

    def __exit__(self, *exc: object) -> None:
        if sys.gettrace() != self._called:  # CPython watches no more where an interrupt came while this watched
            self.journal.refuse("an interrupt ended the watching of its code", self.journal.tracer.begins, NotYet)
        self._onlooker.let_watch()

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code is _IMPORT and not self._importing:
            frame.f_trace_lines, self._importing = False, True
            return self._imported
        library = is_internal(code) or self._importing
        if library or (code.co_filename == "<string>" and is_library_name(frame.f_globals.get("__name__", ""))):
            frame.f_trace_lines = False
            return None
        if code not in self.ran:
            self.ran[code] = set()
            self.globals[code] = frame.f_globals
            self._names[code] = variables_looked_into(code)
            self.stored |= stored_names(code)
            self.journal.catches |= catches(code)
        self._note_cells(frame)
        self._note_method(frame)
        frame.f_trace = self._event  # CPython 3.13 reports instructions of frames that have a trace already
        frame.f_trace_opcodes, self._offset = True, -1
        self._note(frame, event, argument)
        return self._event

    def _event(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.ran[frame.f_code].add(frame.f_lasti)
            if self._read is not None and self._read[0] is frame:
                self._after_read(frame)
            if is_evaluated_later(frame.f_code):
                self.tell_number(frame, None)
            if frame in self._making:
                self._after_making(frame)
            if frame in self._formatting:
                self._after_formatting(frame)
            self.journal.step += 1
            self._offset, handler = frame.f_lasti, handlers(frame.f_code).get(frame.f_lasti)
            if handler is not None:
                self._look_at(frame, *handler)
            return self._event
        if event == "exception":
            self.note_error(frame, argument[0], self._changing.get(frame, -1))
        self._note(frame, event, argument)
        return self._event

    def _look_at(self, frame: FrameType, method: str, operand: Any) -> None:
        """Look at an instruction that comes next; what ends a recording here waits for what code does as it is left."""
        known, look_at = len(self.journal.operations), getattr(self, method)
        try:
            look_at(frame, operand)
        except TraceBreak as broken:  # in a trace function an exception ends the watching as well
            if not frames.is_left_with_care(frame):
                raise
            self.journal.problem = self.journal.problem or broken
            look_at(frame, operand)
        except Exception as error:  # code of the program's must not take it for one of its own
            raise TraceBreak(f"{type(error).__name__}: {error}", source(frame)) from error
        self._changing[frame] = frame.f_lasti if len(self.journal.operations) > known else -1

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        """Remember objects in local variables whose attributes the code reads."""
        self._onlooker.tell(frame, event, argument)
        if event == "return":  # a frame that is kept keeps generators, which would be closed after the recording
            self._changing.pop(frame, None)
            self.waiting.left(frame, self._offset)
        names = self._names[frame.f_code]
        for name, value in frames.variables(frame) if names else ():
            if name in names and not is_plain(value) and not isinstance(value, (type, FunctionType, *_STAND_INS)):
                self.locals.setdefault((frame.f_code, name), {})[id(value)] = value

    # -- reads --------------------------------------------------------------------------------------------------------

    def _after_read(self, frame: FrameType) -> None:
        """The value that the last instruction read is on top of the stack: it may become an input."""
        assert self._read is not None
        (_, holder, key, kind), self._read = self._read, None
        (value,) = frames.stack(frame, 1)
        depth = int(value is frames.NoValue)  # where a callable's first argument would be, above the callable
        value = frames.stack(frame, 2)[0] if depth else value
        if kind in ("option", "pair"):
            made = self.journal.tracer.item_option(holder, key, kind)
        else:
            read = read_array if type(value) is np.ndarray else Journal.input
            made = read(self.journal, holder, key, value, kind)
        if made is not value:
            frames.replace(frame, depth, made)

    def _after_making(self, frame: FrameType) -> None:
        """Reading has made what was missing: an item of a defaultdict, a cached property."""
        holder, key, kind = self._making.pop(frame)
        if (value := look(holder, key, kind)) is not ABSENT:
            self.journal.assign(holder, key, value, kind, source(frame), made=True)

    def load_attribute(self, frame: FrameType, name: str) -> None:
        (owner,) = frames.stack(frame, 1)
        tensor_attributes.note_read(self.journal, owner, name)
        if is_plain(owner) or isinstance(owner, _STAND_INS):
            return
        if name == "__dict__":
            self.journal.note_table(owner)
        if type(owner) is super:
            return self._note_super(owner, name)
        note_attribute(self.journal, owner, name, chain_from(frame.f_code, frame.f_lasti))
        if lookup.is_cached_later(owner, name):
            self.journal.save(owner, name, "attribute")
            self._making[frame] = owner, name, "attribute"
        if owner is os and name == "environ":
            self.journal.checks.append(functools.partial(os.environ.__eq__, dict(os.environ)))
        if (builtin := lookup.by_builtin(owner, name)) is not None:
            self.calls.builtin_method(builtin.__name__, owner, (name,), {}, source(frame))
            held = look(owner, name, "item") if isinstance(owner, dict) else ABSENT
            if held is not ABSENT and (name in self.stored or self.varying.is_input(owner, name, held)):
                self._read = frame, owner, name, "item"
        elif self._is_input(owner, name):
            self._read = frame, owner, name, "attribute"

    def load_global(self, frame: FrameType, name: str) -> None:
        if self.is_local_name(frame, name):
            return
        if name not in frame.f_globals:
            if (id(frame.f_globals), name) not in self.journal.written:
                self.journal.not_global[id(frame.f_globals), name] = name, frame.f_globals, frame.f_builtins
        else:
            self.journal.note_read(frame.f_globals, name)
            if name in self.stored or self.varying.is_input(frame.f_globals, name, frame.f_globals[name]):
                self._read = frame, frame.f_globals, name, "item"

    def load_cell(self, frame: FrameType, name: str) -> None:
        if self.is_local_name(frame, name):
            return
        cell = frames.cell(frame, name)
        self.journal.note_read(cell, "contents")
        self.journal.cells_read[id(cell)] = cell
        if look(cell, "contents", "cell") is ABSENT and (id(cell), "contents") not in self.journal.written:
            self.journal.checks.append(lambda: look(cell, "contents", "cell") is ABSENT)
        if name in self.stored or self.varying.is_input(cell, "contents", look(cell, "contents", "cell")):
            self._read = frame, cell, "contents", "cell"

    def load_item(self, frame: FrameType, augmented: bool) -> None:
        container, key = self._with_key(frame)
        if self.journal.windows.histories.take(container, key):
            return
        if not isinstance(container, (dict, list)):
            if isinstance(container, collections.deque):
                self.journal.note_read(container, None)
            elif is_picked(self.journal, container, key):
                return self._stop(frame, 1, self.calls.makes_input(container, "picks of", source(frame)))
            return self.journal.look_behind(container)
        self.calls.compare(key, container)
        key = plain_key(key) if isinstance(container, dict) else position(container, key)
        if isinstance(container, collections.defaultdict) and key not in container:
            self.make_missing(container)
            self._making[frame] = container, key, "item"
        if kind := kind_of_option(self.journal, container, key):
            self._read = frame, container, key, kind
            return
        use = "replaced" if augmented else use_of_result(frame.f_code, frame.f_lasti)
        if isinstance(container, dict) and self.journal.keyed.item(container, key, use):
            return
        self.journal.note_read(container, key if type(key) in (str, int, bool) else None)
        if isinstance(container, list) and not (type(key) is int and 0 <= key < len(container)):
            return
        if (held := look(container, key, "item")) is ABSENT:
            self.journal.lacking(container, key) if augmented and isinstance(container, dict) else None
        elif augmented or self.varying.is_input(container, key, held):
            self._read = frame, container, key, "item"

    # -- writes -------------------------------------------------------------------------------------------------------

    def store_attribute(self, frame: FrameType, name: str) -> None:
        value, owner = frames.stack(frame, 2)
        self.calls.attribute(owner, name, value, source(frame))

    def delete_attribute(self, frame: FrameType, name: str) -> None:
        self.calls.attribute(frames.stack(frame, 1)[0], name, ABSENT, source(frame))

    def store_global(self, frame: FrameType, name: str) -> None:
        self.journal.assign(frame.f_globals, name, frames.stack(frame, 1)[0], "item", source(frame))

    def delete_global(self, frame: FrameType, name: str) -> None:
        self.journal.assign(frame.f_globals, name, ABSENT, "item", source(frame))

    def store_cell(self, frame: FrameType, name: str) -> None:
        self.journal.assign(frames.cell(frame, name), "contents", frames.stack(frame, 1)[0], "cell", source(frame))

    def delete_cell(self, frame: FrameType, name: str) -> None:
        self.journal.assign(frames.cell(frame, name), "contents", ABSENT, "cell", source(frame))

    def store_item(self, frame: FrameType, _: None) -> None:
        value, container, key = frames.stack(frame, 3)
        if isinstance(container, dict) and not is_key(key):
            return
        if (number := self.journal.keyed.assign(container, key, value, source(frame))) is not None:
            return frames.replace(frame, 0, number)
        container, key = self._with_key(frame)
        self._stop(frame, 1, self._item(container, key, value, source(frame)))

    def load_slice(self, frame: FrameType, _: None) -> None:
        container, *ends = frames.stack(frame, 3)
        if isinstance(container, list) and not self.journal.windows.histories.take(container, slice(*ends)):
            self.journal.note_read(container, None)

    def store_slice(self, frame: FrameType, _: None) -> None:
        value, container, *ends = frames.stack(frame, 4)
        self._stop(frame, 2, self._item(container, slice(*ends), value, source(frame)))

    def delete_item(self, frame: FrameType, _: None) -> None:
        container, key = self._with_key(frame)
        if is_key(key) or not isinstance(container, dict):
            self._stop(frame, 1, self._item(container, key, ABSENT, source(frame)))

    def _stop(self, frame: FrameType, depth: int, refused: Any) -> None:
        """Put what refuses to be used in the place of what must not be."""
        if refused is not None:
            frames.replace(frame, depth, Refusing(refused))

    def _item(self, container: Any, key: Any, value: Any, where: str) -> Any:
        """Note that an item is about to be assigned or deleted; what is to be called where it must not be."""
        if isinstance(container, _STAND_INS):
            return None
        method = "__delitem__" if value is ABSENT else "__setitem__"
        found = getattr(type(container), method, None)
        if isinstance(found, FunctionType) and not is_internal(found.__code__):
            return None
        in_list = type(container) is list and type(key) is int and 0 <= key < len(container) and value is not ABSENT
        if in_list or isinstance(container, (dict, type(os.environ))):
            self.journal.assign(container, key, value, "item", where)
        elif type(container) in CHANGING:
            if isinstance(key, slice) or value is ABSENT:
                self.journal.note_read(container, None)
            tie_presence(self.journal, container, key, "item", value is ABSENT)
            self.journal.method(container, method, (key,) if value is ABSENT else (key, value), {}, where)
        elif isinstance(container, np.ndarray) and self.journal.is_outside(container):
            return self.calls.makes_input(container, "writes", where)
        elif self.journal.is_outside(container):
            return self.calls.refused(f"changes an item of a {type(container).__name__}", where)
        return None

    def change_in_place(self, frame: FrameType, method: str) -> None:
        target, value = frames.stack(frame, 2)
        self._note_all([value])
        if (adding := self.calls.adding(target, method, value, frame, source(frame))) is not None:
            return frames.replace(frame, 1, adding)
        if isinstance(target, np.ndarray) and type(target) is not TracedArray and self.journal.is_outside(target):
            self._stop(frame, 1, self.calls.makes_input(target, "writes", source(frame)))
            return
        for kind, names in CHANGING.items():
            if isinstance(target, kind) and method in names:
                type(target) in CHANGING or self.journal.note_read(target, None)
                self.journal.method(target, method, (value,), {}, source(frame))

    # -- calls and iterators ------------------------------------------------------------------------------------------

    def call(self, frame: FrameType, operand: tuple[int, tuple[str, ...] | None]) -> None:
        count, names = operand
        if names is None:
            *_, names = frames.stack(frame, 1)
            lower, upper, *args = frames.stack(frame, count + 3)[:-1]
        else:
            lower, upper, *args = frames.stack(frame, count + 2)
        # Below the arguments lie a callable and its first argument, or one and nothing, in an order that differs.
        plain = upper is frames.NoValue if _CALLABLE_FIRST else lower is frames.NoValue
        function = upper if plain and not _CALLABLE_FIRST else lower
        args = args if plain else [upper, *args]
        positional = tuple(args[: len(args) - len(names)])
        keywords = dict(zip(names, args[len(args) - len(names) :], strict=True))
        self.calls.use = use_of_result(frame.f_code, frame.f_lasti)
        instead = self.calls.about_to(function, positional, keywords, frame, source(frame))
        self._note_got(function, positional)
        if instead is not None:
            above = count + (operand[1] is None)
            frames.replace(frame, above if plain and not _CALLABLE_FIRST else above + 1, instead)

    def call_with(self, frame: FrameType, has_keywords: int) -> None:
        depth, where = 1 + has_keywords + _CALLABLE_FIRST, source(frame)  # an empty place may lie above the callable
        function, *_, args = frames.stack(frame, depth + 1)[: depth + 1 - has_keywords]
        rest = [found for found in frames.stack(frame, has_keywords) if found is not frames.NoValue]
        if isinstance(args, (list, tuple)):
            self._note_all([args] if isinstance(args, list) else ())
            instead = self.calls.about_to(function, tuple(args), dict(*rest), frame, where)
        else:
            self._take(frame, has_keywords, args)
            instead = functools.partial(self.calls.when_called, function, frame, where)
        if instead is not None:
            frames.replace(frame, depth, instead)

    def iterate(self, frame: FrameType, _: None) -> None:
        self._take(frame, 0, value := frames.stack(frame, 1)[0])
        if isinstance(value, range):  # of its iterator, which the collector does not track, nobody has to find the age
            frames.replace(frame, 0, self.journal.own(iter(value)))

    def _take(self, frame: FrameType, depth: int, value: Any) -> None:
        """Items of a value on the stack are about to be taken."""
        self.journal.look_behind(value)
        self.note_lacking(type(value), ("__iter__",))
        if isinstance(value, CONTAINERS):
            self.journal.note_read(value, KEYS if isinstance(value, dict) else None)
        if (instead := self.journal.world.items(value)) is not value:
            frames.replace(frame, depth, instead)

    def enter(self, frame: FrameType, _: None) -> None:
        kind = type(owner := frames.stack(frame, 1)[0])
        note_entered(self.journal, owner)
        if kind.__module__.partition(".")[0] in ("_thread", "threading", "multiprocessing", "asyncio"):
            self._stop(frame, 0, self.calls.refused(f"uses a {kind.__name__}", source(frame), NotYet))

    def search(self, frame: FrameType, _: None) -> None:
        self.tie_text(frame, 1)
        key, holder = frames.stack(frame, 2)
        note_searched(self.journal, key, holder, source(frame))
        self.calls.compare(key, holder)
        if holder is sys.modules:
            self.journal.note_module(key)
        elif isinstance(holder, CONTAINERS):
            if not (isinstance(holder, dict) and self.journal.keyed.look_for(holder, key)):
                named = isinstance(holder, dict) and type(key) in (str, int, bool)
                self.journal.note_read(holder, key if named else None)
        else:
            self.note_lacking(type(holder), ("__contains__",))
            self._take(frame, 0, holder)


_IMPORT = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]
_CALLABLE_FIRST = sys.version_info >= (3, 13)
