"""What a function asks of the world: random numbers, items of iterators, files, the date.

Every call asks anew, in the order of the code and before its work; the answers are inputs of the compiled function.
What was recorded before a question has to hold before it is asked, which a small program of its own checks. What a call
has heard it keeps: other versions, a recording, and the plain call where it comes to that are told the same, so that
nothing is drawn or taken twice.
"""

from __future__ import annotations

import copy
import datetime
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

from eagerjit import pytree
from eagerjit.effects import shuffling
from eagerjit.effects.clocks import is_clock
from eagerjit.effects.lru_caches import Remembering
from eagerjit.effects.world_calls import asked_of, containers_of, draws, is_harmless, method, sources_of, takes_items
from eagerjit.recording.leaves import flatten_call, key_of
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.records import record
from eagerjit.runtime.source import is_library
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak

ONE = flatten_call((0.0,), {})[0]
"""The structure of an answer that is a leaf."""

_NOTHING = pytree.flatten(((), {}), [])
"""The structure of no arguments."""


@record
class Answer:
    """What the world said: the method `name` of `owner` was called, and gave a value or raised an error.

    `ran`: code of the user's ran for it, which may have changed anything.
    """

    owner: Any
    name: str
    arguments: Any
    value: Any = None
    error: Exception | None = None
    ran: bool = False

    def given(self) -> Any:
        """The value; raises the error."""
        if is_end(self.error):
            raise StopIteration
        if self.error is not None:
            raise self.error
        return self.value


class Heard(list[Answer]):
    """The answers that one call was given, in order.

    kept    what functions that keep their results were called for beside, by function and arguments: its recording has
            made these calls
    """

    is_over = False
    """Whether the call has ended, and is recorded again."""

    def __init__(self, kept: dict[Any, Any] | None = None) -> None:
        self.kept: dict[Any, Any] = {} if kept is None else kept

    def answer(self, position: int, owner: Any, name: str, arguments: Any) -> Answer | None:
        """The answer to the question at this position, asked now if it was not; None where another one was asked."""
        if position == len(self):
            self.append(self.asked(owner, name, arguments))
            return self[position]
        found = self[position]
        same = found.owner is owner and found.name == name and repr(found.arguments) == repr(arguments)
        return found if same else None

    def asked(self, owner: Any, name: str, arguments: Any) -> Answer:
        """Ask."""
        args, kwargs = arguments
        answer = Answer(owner, name, arguments)
        misses = owner.cache_info().misses if type(owner) is Remembering else 0
        try:
            answer.value = method(owner, name)(*args, **kwargs)
            answer.ran = type(owner) is Remembering and owner.cache_info().misses != misses
        except Exception as error:
            answer.error = error.with_traceback(None)  # whose frames hold the variables of all callers
        return answer


class Rehearsed(Heard):
    """Answers for a call that is not made: nothing is drawn or taken for it."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[int, Any] = {}

    def asked(self, owner: Any, name: str, arguments: Any) -> Answer:
        """Ask a copy."""
        if isinstance(owner, Iterator):
            raise TraceBreak("it takes items of an iterator, as the first call of a kind does", "")
        if draws(type(owner)):
            owner = self.copies.setdefault(id(owner), copy.deepcopy(owner))
        return super().asked(owner, name, arguments)


@dataclass(eq=False)
class Inquiry:
    """A question that every call asks.

    arguments   the structure of (args, kwargs), and its leaves; a `Number` is found by the check, as those of a `Range`
    check       the program that tells whether the call comes here, and with which numbers
    structure   what the answer looks like; None where the iterator has ended
    again       the leaves of the answer that are tensors which an answer before had: of which question, which leaf
    place       where compiled code finds the leaves of the answer that its thread's call was given
    begins      of the first one, the program that tells whether the call finds what the recording has found but answers
    """

    owner: Any
    name: str
    arguments: tuple[Any, list[Any]]
    check: Any = None
    structure: Any = None
    key: tuple[Any, ...] = ()
    again: dict[int, tuple[Inquiry, int]] = field(default_factory=dict)
    place: threading.local = field(default_factory=threading.local)
    begins: Any = None

    def is_followed(self, numbers: Any, position: int, call: Any, others: Callable[[], set[int]]) -> bool:
        """Whether a call, in which the check gives these numbers, is given an answer like the recorded one."""
        if isinstance(self.owner, Iterator) and not is_harmless(self.owner):
            return False
        found = call.heard.answer(position, self.owner, self.name, self.with_numbers(numbers))
        return found is not None and self.accepts(found, others)

    def with_numbers(self, numbers: Any) -> Any:
        """The arguments, with the numbers of a call."""
        structure, leaves = self.arguments
        if structure == _NOTHING:
            return (), {}
        numbers = iter(numbers if type(numbers) is tuple else (numbers,))
        made = [x.of(numbers) if type(x) in (Number, Range) else x for x in leaves]
        return pytree.unflatten(structure, made)

    def accepts(self, answer: Answer, known: Callable[[], set[int]]) -> bool:
        """Whether the answer is like the recorded one."""
        if self.structure is None or answer.error is not None:
            return self.structure is None and is_end(answer.error)
        if type(answer.value) in (int, float) and not isinstance(self.owner, Iterator):  # which needs no look at others
            if self.structure != ONE or self.key[0] is not type(answer.value):
                return False
            self.place.__dict__["leaf0"] = answer.value
            return True
        others = known()
        structure, leaves = flatten_call((answer.value,), {})
        if structure != self.structure or self.known_by(leaves) != self.key:
            return False
        same = all(getattr(before.place, f"leaf{j}", None) is leaves[i] for i, (before, j) in self.again.items())
        held = containers_of(answer.value) | {
            id(x) for i, x in enumerate(leaves) if isinstance(x, Tensor) and i not in self.again
        }
        if not same or not others.isdisjoint(held | sources_of(self.owner)):
            return False
        others |= held
        self.tell(leaves)
        return True

    def known_by(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """What an answer is known by: the day by its date, since each asking makes one."""
        return tuple(leaves) if self.owner is datetime.date else key_of(leaves)

    def tell(self, leaves: Sequence[Any]) -> None:
        """Lay the leaves of an answer where compiled code finds them."""
        self.place.__dict__.update({f"leaf{i}": x for i, x in enumerate(leaves)})

    def forget(self) -> None:
        """Let go of them."""
        self.place.__dict__.clear()


def follow(
    inquiries: Sequence[Inquiry], leaves: Sequence[Any], call: Any, known: Callable[[], set[int]]
) -> bool | None:
    """Ask what a version of a function asks, as far as a call goes its way: None where it does so to the end.

    False where it goes another way, True where it ends in an error before. `known` gives the tensors that no answer may
    be, and the containers that the call changes.
    """
    others = functools.cache(known)
    for position, inquiry in enumerate(inquiries):
        if inquiry.begins is not None and inquiry.begins.run(tuple(leaves)) is MISS:
            return False
        try:
            numbers = () if inquiry.check is None else inquiry.check.run(tuple(leaves))
        except Exception:
            return True
        if numbers is MISS or not inquiry.is_followed(numbers, position, call, others):
            return False
    return None if len(call.heard) == len(inquiries) else False


@record(frozen=True)
class Number:
    """An argument that is a number of the call; `kind` is its class where NumPy has it."""

    kind: type | None = None

    def of(self, values: Iterator[Tensor]) -> Any:
        """The number, from what a program gives next."""
        number = next(values).item()
        return number if self.kind is None else self.kind(number)


@record(frozen=True)
class Range:
    """An argument that is a range, of which some of start, stop and step are numbers of the call."""

    parts: tuple[Any, ...]

    def of(self, values: Iterator[Tensor]) -> range:
        """The range, from what a program gives next."""
        return range(*[part.of(values) if type(part) is Number else part for part in self.parts])


def is_end(error: Exception | None) -> bool:
    """Whether an iterator has no more items."""
    return type(error) is StopIteration and error.value is None


class Items:
    """Takes the place of an iterator of which items are taken: each one is asked for."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[], Any]):
        self.take = take

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> Any:
        return self.take()


class Listener:
    """Finds the questions among the calls of user code."""

    def is_taken(self, value: Any) -> bool:
        """Whether items that are taken of a value are answers of the world."""
        raise NotImplementedError

    def ask(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """The answer to a question."""
        raise NotImplementedError

    def reads(self, clock: Any) -> bool:
        """Whether what a clock says is an answer of the world."""
        raise NotImplementedError

    def items(self, value: Any) -> Any:
        """What takes the place of an iterator; other values as they are."""
        return Items(functools.partial(self.ask, value, "__next__")) if self.is_taken(value) else value

    def instead(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """What is called in place of a callable that asks; None for others."""
        found = (function, "__call__", 0) if is_clock(function) and self.reads(function) else asked_of(function, args)
        if found is None or (found[1] == "__next__" and not self.is_taken(found[0])):
            return shuffling.instead(function, args, kwargs, self.ask)
        owner, name, bound = found
        return lambda *given, **named: self.ask(owner, name, *given[bound:], **named)

    def with_items(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """What is called in place of a function that takes items of iterators; None for others."""
        called, items, given_count = function, self.items, len(args)
        while type(function) is functools.partial:
            args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
        if not takes_items(function) or not any(map(self.is_taken, (*args, *kwargs.values()))):
            return None
        if called is not function:
            own = {k: items(v) for k, v in called.keywords.items()}
            called = functools.partial(function, *map(items, args[: len(args) - given_count]), **own)
        return lambda *given, **named: called(*map(items, given), **{k: items(v) for k, v in named.items()})


def is_watched(function: Any) -> bool:
    """Whether a callable runs code of the user's, which is watched itself."""
    kind = function if isinstance(function, type) else type(function)
    names = ("__new__", "__init__") if isinstance(function, type) else ("__call__",)
    found = [function.__func__ if isinstance(function, MethodType) else function, *(getattr(kind, n) for n in names)]
    return any(isinstance(f, FunctionType) and not is_library(f.__code__.co_filename) for f in found)
