"""Calls of functions behind `functools.lru_cache`, recorded.

Where the arguments are the same in every call, what the function keeps is an object from outside, known by where it is
kept. Where sizes are among them, the function behind is recorded as any other: every call compares what is kept for its
sizes with that. A function for which neither will do is asked by every call, as the world is; where nothing can be
asked any more, what it keeps for the sizes of this call is known by its place, in a version of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from eagerjit.calling.twofold import Public
from eagerjit.compiler import sizes
from eagerjit.effects.lru_caches import (
    ABSENT,
    Cache,
    KeptCall,
    Raised,
    given,
    is_plain,
    places_of,
    symbols_in,
    with_numbers,
)
from eagerjit.guards.serialized import text_of
from eagerjit.recording.arrays import TracedArray, TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime.program import Op
from eagerjit.state import set_tracer, state
from eagerjit.tensors.tensor import Shape, Tensor
from eagerjit.watching.containers import CONTAINERS
from eagerjit.watching.observation import (
    NotYet,
    TraceBreak,
    is_internal,
    pause_observation,
    resume_observation,
    user_line,
)
from eagerjit.watching.slots import Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_STAND_INS = (Tensor, SymbolicInt, TracedFloat, TracedArray, TracedNumber)


class Memoized:
    """The calls of such functions in one recording."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.calls: list[KeptCall] = []
        self.given: dict[tuple[Any, Any], Any] = {}
        self.recording: Any = None  # the function whose code is recorded in the place of a call
        self._known: dict[Any, KeptCall] = {}
        self._texts: list[tuple[KeptCall, bytes, str]] = []
        self._parts: dict[int, Any] = {}

    def instead(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Any:
        """What is called in place of a function that keeps its results; None for one that the recorded code makes."""
        if self.journal.is_made(function):
            return None
        journal, cache, values = self.journal, Cache(function), (*args, *kwargs.values())
        if self.recording is not None:
            raise self.ask_instead(self.recording, source)
        for path in filter(None, (journal.paths.get(id(v)) for v in values)):
            if type(path[0]) is Slot:  # a copy of an object that calls find replaced: recorded again, it is itself
                journal.varying.left.add((id(path[0].holder), path[0].key))
                raise journal.refuse(f"it calls {function.__name__} with an object that is replaced", source)
        known = cache.keeps and journal.world.heard is not None
        if known and all(self._is_constant(v, SymbolicInt) for v in values):
            left = (id(function), "kept") in journal.varying.left
            if not left and not any(symbols_in(values)):
                return lambda *_, **__: self._kept(cache, args, kwargs, source)
            called, in_place = cache.called, state.tracer is journal.tracer
            if not left and in_place and type(called) is FunctionType and not is_internal(called.__code__):
                return lambda *_, **__: self._recorded(cache, args, kwargs, source)
            asks_too_late = journal.world.has_changed_something
            if (
                not is_plain(with_numbers(values, journal.tracer.assumptions.hints))
                or (asks_too_late() and self._keeps_a_tensor(cache, args, kwargs, source))
            ):  # fmt: skip
                return lambda *_, **__: self._kept_for_sizes(cache, args, kwargs, source)
        return lambda *_, **__: journal.world.ask(function, "__call__", *args, **kwargs)

    def _is_constant(self, value: Any, *allowed: type) -> bool:
        """Whether an argument is the same in every call: a plain value, or an object that is nothing but itself."""
        kind = type(value)
        if kind in (tuple, frozenset, Shape):
            return all(self._is_constant(x, *allowed) for x in value)
        if kind in allowed or is_plain(value):
            return True
        itself = (kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__) or issubclass(kind, Public)
        return itself and not isinstance(value, _STAND_INS) and self.journal.is_outside(value)

    def _keeps_a_tensor(self, cache: Cache, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> bool:
        """Whether what it keeps for the sizes of this call is nothing but itself. NotYet where it keeps nothing."""
        args, kwargs = with_numbers((args, kwargs), self.journal.tracer.assumptions.hints)
        kept = cache.result(cache.key(args, kwargs))
        if kept is ABSENT:
            raise self._first_time(cache, args, source)
        return isinstance(kept, Tensor)

    def ask_instead(self, function: Any, source: str) -> TraceBreak:
        """Record again, and have every call ask the function."""
        self.journal.varying.left.add((id(function), "kept"))
        return self.journal.refuse(f"it calls {function.__name__}, which keeps an object that may change", source)

    # -- arguments that are the same in every call ---------------------------------------------------------------------

    def _kept(self, cache: Cache, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Any:
        """What the function keeps, or keeps from here on."""
        journal, key = self.journal, cache.key(args, kwargs)
        name, heard = (cache.function, key), journal.world.heard
        result = heard.kept[name] if name in heard.kept else cache.result(key)
        if result is ABSENT:
            result = heard.kept[name] = self._made(cache, args, kwargs, source)
        if type(result) is Raised:
            journal.refuse(f"it calls {cache.function.__name__}, which raises an error", source)
        result, entry = given(result), cache.entries.get(key, ABSENT)
        if not heard.is_over:
            if entry is ABSENT or cache.result(key) is not result or not journal.varying.keeps(name, id(entry)):
                raise self.ask_instead(cache.function, source)
            if name not in self.given:
                self._guard(cache.entries, key, entry)
        self.given[name] = result
        self.calls.append(KeptCall(cache, args, kwargs))
        if isinstance(result, (*CONTAINERS, tuple)) and not is_plain(result):
            journal.handed_over[id(result)] = result  # no name may lead to it
        return result

    def _guard(self, entries: dict[Any, Any], key: Any, entry: Any) -> None:
        """Guard that the same is kept in the same place."""
        tracer = self.journal.tracer
        holder, leaf = tracer.new_leaf(), tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(entries))
        tracer.load(leaf, Op.LOAD_ITEM, holder, tracer.object(key))
        tracer.guard_object(leaf, Op.IS, entry)

    def _made(self, cache: Cache, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Any:
        """The result of a first call. It runs outside of the recording, so that the function may keep what it makes."""
        journal = self.journal
        changes = any(journal.is_outside(operation.target) for operation in journal.operations)
        if changes or journal.inputs or journal.tracer.written:
            raise self._first_time(cache, args, source)
        tracer, observation = set_tracer(None), pause_observation()
        try:
            return journal.made_outside(functools.partial(cache.function, *args, **kwargs))
        except Exception as error:
            return Raised(error)
        finally:
            set_tracer(tracer)
            resume_observation(observation)

    def _first_time(self, cache: Cache, args: tuple[Any, ...], source: str) -> NotYet:
        title = f"{cache.function.__name__}{args}"
        return NotYet(f"it calls {title} for the first time, after it has changed something", source)

    def _kept_for_sizes(self, cache: Cache, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Any:
        """What it keeps for the sizes of this call, to which the recording is tied then."""
        for name in set(symbols_in((args, kwargs))):
            int(SymbolicInt(sizes.symbol(name)))
        args, kwargs = with_numbers((args, kwargs), self.journal.tracer.assumptions.hints)
        if not self.journal.varying.keeps(cache.function, cache.key(args, kwargs)):
            raise self.journal.refuse(f"it calls {cache.function.__name__} for ever new sizes", source)
        return self._kept(cache, args, kwargs, source)

    # -- arguments with sizes of the call ------------------------------------------------------------------------------

    def _recorded(self, cache: Cache, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Any:
        """What the code behind the function gives, if it keeps nothing else for these sizes."""
        journal, tracer = self.journal, self.journal.tracer
        form = cache.function, _form((args, kwargs))
        if form in self._known:
            call = self._known[form]
            self.calls.append(call)
            return call.result
        kept = cache.result(cache.key(*with_numbers((args, kwargs), tracer.assumptions.hints)))
        older, effects, n_operations = journal.young(), self._effects(), len(journal.operations)
        journal.called[id(cache.called)] = cache.called
        self.recording = cache.function
        try:
            made = cache.called(*args, **kwargs)
        except Exception:
            journal.refuse(f"it calls {cache.function.__name__}, which raises an error", source)
            raise
        finally:
            self.recording = None
        symbols = set(symbols_in((args, kwargs, made)))
        places, text = places_of(symbols, tracer.bindings, len(tracer.arguments or ())), self._text(made)
        differs = kept is not ABSENT and text_of(kept) != text and not journal.world.heard.is_over
        changed = [o.target for o in journal.operations[n_operations:]]
        differs = differs or any(id(x) in older or journal.is_outside(x) for x in changed)
        if places is None or text is None or differs or self._effects() != effects:
            raise self.ask_instead(cache.function, source)
        call = self._known[form] = KeptCall(cache, args, kwargs, places, made)
        self.calls.append(call)
        self._texts.append((call, text, source))
        self._parts |= {id(x): x for x in _containers(made) if not journal.is_outside(x)}
        return made

    def _text(self, made: Any) -> bytes | None:
        """What the code has given, with the numbers of the call being recorded."""
        return text_of(with_numbers(made, self.journal.tracer.assumptions.hints))

    def _effects(self) -> tuple[int, ...]:
        """How much was recorded so far besides reads, questions about sizes and changes of objects."""
        journal, tracer = self.journal, self.journal.tracer
        return (
            len(journal.switched), len(journal.clocks.clocks), len(journal.world.inquiries), len(journal.inputs),
            len(tracer.nodes), len(tracer.inputs), len(tracer.questions), len(tracer.written),
        )  # fmt: skip

    def note_read(self, holder: Any, key: Any) -> None:
        """The code behind a function reads something: compiled calls may run it after all that they have changed."""
        written = self.journal.written
        changed = (id(holder), key) in written or (id(holder), None) in written or (
            key is None and any(changed == id(holder) for changed, _ in written)
        )
        if changed and self.journal.is_outside(holder):
            raise self.ask_instead(self.recording, user_line())

    def compare(self, operands: Sequence[Any], source: str) -> None:
        """Code asks whether an object is another one."""
        containers = all(isinstance(x, (list, tuple, dict)) for x in operands)
        if containers and operands[0] is not operands[1] and any(map(self.is_part, operands)):
            self.journal.refuse("it asks which object a function keeps", source)

    def is_part(self, value: Any) -> bool:
        """Whether a list, dictionary or tuple stands for one that a function keeps."""
        return id(value) in self._parts

    def finished(self) -> None:
        """Refuse a function that changes what stands for something kept, or arguments that could be it."""
        journal = self.journal
        changed = [o.target for o in journal.operations if isinstance(o.target, (list, dict))]
        of_arguments = any(map(journal.is_given, changed))
        changed = [x for x in changed if journal.is_outside(x)]
        for call, text, source in self._texts:
            if of_arguments or self._text(call.result) != text:
                raise self.ask_instead(call.cache.function, source)
            call.changed = frozenset(map(id, changed))


def _form(value: Any) -> Any:
    """Arguments, comparable: sizes by what they are of the call's, objects by identity."""
    kind = type(value)
    if kind is SymbolicInt:
        return kind, sizes.simplified(value.expression)
    if isinstance(value, (tuple, frozenset)):
        return kind, tuple(map(_form, value))
    if kind is dict:
        return kind, tuple((k, _form(v)) for k, v in value.items())
    return (kind, repr(value)) if kind in (int, float, complex, bool, str, bytes) else (kind, id(value))


def _containers(value: Any) -> Iterator[Any]:
    """A value and what lies in it, as far as these are tuples, lists and dictionaries."""
    if isinstance(value, (tuple, list, dict)):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from _containers(part)
