"""Jitted functions in front of loaded Programs: executables are tried in order (`native/entry.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from eagerjit.runtime import heap_types, mode
from eagerjit.runtime.debugging import is_debugged
from eagerjit.runtime.directly_called import DirectlyCalled
from eagerjit.runtime.execute import MISS, NativeExecutable
from eagerjit.runtime.native import context as c
from eagerjit.runtime.once import lock
from eagerjit.runtime.queued import Queued, queued_before

if TYPE_CHECKING:
    from eagerjit.runtime.connections import Connection

Finish = Callable[..., Any]


class Plan:
    """Where the leaves of a call lie in its arguments (`native/taking.py`): words, in whose place objects may be."""

    __slots__ = ("_held", "address")

    def __init__(self, words: Sequence[Any]):
        table = (ctypes.c_int64 * len(words))(*[word if type(word) is int else id(word) for word in words])
        self._held = words, table
        self.address = ctypes.addressof(table)


class _Entry(NamedTuple):
    executable: Any
    finish: Finish | None
    with_arguments: bool
    arrays: int
    repeated: bool
    connection: Connection | None
    plan: Plan | None


class Function(DirectlyCalled, heap_types.raw_base("FunctionBase", c.FUNCTION_FIELDS)):  # type: ignore[misc]
    """A jitted function: `insert` adds an executable; a call that none serves is `fallback(*args, **kwargs)`.

    Positional arguments are the executable's leaves, unless a plan says where these lie. Like a function it binds to
    instances when stored on a class.
    """

    __slots__ = ("__dict__", "__weakref__", "_entries", "_words", "fallback")
    native_slots: ClassVar = {c.FUNCTION_FALLBACK: "fallback"}

    def __init__(self, fallback: Callable[..., Any]):
        self.fallback = fallback
        self._entries: list[_Entry] = []
        self._n_served = 0

    def insert(
        self,
        executable: Any,
        finish: Finish | None = None,
        with_arguments: bool = False,
        arrays: int = 0,
        repeated: bool = False,
        connection: Connection | None = None,
        plan: Plan | None = None,
    ) -> None:
        """Tries `executable` after those inserted before.

        `finish` turns the tuple of its outputs, and with `with_arguments` that of the arguments, into the result. The
        bits of `arrays` say which arguments have to be ndarrays: the executable and `finish` get tensors over them.
        With `repeated`, calls in which the executable raises an Exception are left to the fallback, but
        for errors of work that was queued before. Native code does by a `connection` what `finish` does,
        and alone serves calls whose leaves lie as a `plan` says.
        """
        with lock:
            entry = _Entry(executable, finish, with_arguments, arrays, repeated, connection, plan)
            self._entries = [*self._entries, entry]
            self._publish()

    def clear(self) -> None:
        """Forgets all executables."""
        with lock:
            forgotten, self._entries = self._entries, []
            self._publish()
        forgotten.clear()  # not before native code knows

    def withdraw(self, executables: list[Any]) -> None:
        """Forgets some of them."""
        if not executables:
            return
        with lock:
            before, gone = self._entries, set(map(id, executables))
            self._entries = [entry for entry in before if id(entry[0]) not in gone]
            self._publish()  # `before` keeps them until native code knows

    @property
    def served(self) -> int:
        """How many calls the executables have served."""
        return self._n_served

    @property
    def executables(self) -> list[Any]:
        """What `insert` added, in order."""
        return [executable for executable, *_ in self._entries]

    def _publish(self) -> None:
        """Tells native code the entries; one that is not native keeps the whole function in Python."""
        words = [len(self._entries)]
        for executable, finish, with_arguments, arrays, repeated, connection, plan in self._entries:
            if not isinstance(executable, NativeExecutable):
                self._call_in_python()
                return
            single, arguments = c.SINGLE_OUTPUT * (executable.n_outputs == 1), c.WITH_ARGUMENTS * with_arguments
            flags = executable.n_arguments | single | arguments | c.REPEATED * repeated | arrays << c.ARRAYS
            flags |= c.CONNECTED * (connection is not None)
            ends = connection or finish
            words += (id(executable), flags, 0 if ends is None else id(ends), 0 if plan is None else plan.address)
        if not self._is_native() and not self._entries:
            return
        table = (ctypes.c_int64 * len(words))(*words)
        self._table = ctypes.addressof(table)
        self._words = table
        self._call_natively("function_call")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or mode.tracing() or mode.casting() or is_debugged():
            return self.fallback(*args, **kwargs)
        for executable, finish, with_arguments, arrays, repeated, _, plan in self._entries:
            if executable.n_arguments != len(args) or arrays or plan is not None:
                continue
            began = Queued()
            try:
                result = executable.run(args)
            except Exception as error:
                if not repeated or type(error) is MemoryError or queued_before(error, began):
                    raise
                break
            if result is MISS:
                continue
            self._n_served += 1
            if finish is None:
                return result
            flat = (result,) if executable.n_outputs == 1 else result
            return finish(flat, args) if with_arguments else finish(flat)
        return self.fallback(*args)
