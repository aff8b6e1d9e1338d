"""What native code knows of compiled calls on the tape (`native/connect.py`): how they get there, their gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.execute import NativeExecutable
from eagerjit.runtime.native import context as c
from eagerjit.runtime.once import lock
from eagerjit.runtime.program import Op

_SHARED = {
    "arguments": c.CALL_ARGUMENTS,
    "kept": c.CALL_KEPT,
    "known": c.CALL_KNOWN,
    "freed": c.CALL_FREED,
    "last": c.CALL_LAST,
    "overwritten": c.CALL_OVERWRITTEN,
    "values": c.CALL_VALUES,
}
_OF_GRADIENTS = {"call": c.GRADIENT_OP_CALL, "call_node": c.GRADIENT_OP_NODE, "twice": c.GRADIENT_OP_TWICE}
_DEFAULTS: dict[str, object] = {"kept": (), "freed": (), "values": ()}
_described: set[type] = set()


class History(heap_types.raw_base("HistoryBase", c.HISTORY_FIELDS)):  # type: ignore[misc]
    """How native code puts the gradients of a compiled call on the tape, where these have a history.

    twice       what the op of their node says of it
    known       the gradients of that node
    flags       which of the gradients that come in need a gradient in turn
    hidden      which results of the call's node they depend on, values inside the call among them
    outputs     which results of the executable have a history
    n_results   how many of them are gradients; the others are kept
    """

    __slots__ = ("_held",)

    def __init__(
        self,
        twice: object,
        known: KnownGradients,
        flags: Sequence[bool],
        hidden: Sequence[int],
        outputs: Sequence[int],
        n_results: int,
    ):
        tables = _words(flags), _words(hidden), _words(outputs)
        of_flags, of_hidden, of_outputs = map(ctypes.addressof, tables)
        words = (id(twice), id(known), of_flags, of_hidden, len(hidden), of_outputs, len(outputs), n_results)
        for name, word in zip(c.HISTORY_FIELDS, words, strict=True):
            setattr(self, name, word)
        self._held = (twice, known, tables)


class KnownGradient(heap_types.raw_base("KnownGradientBase", c.KNOWN_FIELDS)):  # type: ignore[misc]
    """Gradients of a compiled call, or of such gradients, that one executable computes.

    It takes values that the op of the node was made from, the gradients that come in, what it adds to, values that the
    op keeps, and what it is given besides.

    n_values    how many the first are
    present     the results of the node that have gradients; `of_call`: those of the call that is walked through too
    starts      per input which of those it is, `n_starts` in all, that it adds to what has reached them, -1 for none
    kept        which of the values that the op keeps it takes
    given       what it is given: arguments of the call by position, or objects
    targets     per input of the node which result of the executable is its gradient, NO_GRADIENT or NOT_WANTED
    repeated    per input whether each use's gradient is added by itself to what reached it before
    visit       what the walk goes through inside of the call; None for the gradient of a gradient
    freed       what it frees of that where no node before is gone; `depends`: whether it matters which of these are
    ends        whether nothing is left to walk then, while `n_hidden` values inside the call are results of its node
    history     how the gradients get on the tape, if they do
    """

    __slots__ = ("_held",)

    def __init__(
        self,
        executable: NativeExecutable,
        n_values: int,
        present: Sequence[int],
        of_call: Sequence[int],
        starts: Sequence[int],
        n_starts: int,
        kept: Sequence[int],
        given: Sequence[Any],
        targets: Sequence[int],
        repeated: Sequence[bool],
        visit: object,
        freed: object,
        depends: bool,
        ends: bool,
        n_hidden: int,
        history: History | None,
    ):
        lists = (present, of_call, starts, kept)
        tables = *map(_words, lists), _places(given), _words(targets), _words(repeated)
        addresses = list(map(ctypes.addressof, tables))
        counts = len(present), len(of_call), n_starts, len(kept)
        counted = [word for pair in zip(addresses[:4], counts, strict=True) for word in pair]
        wanted = sum(target != c.NOT_WANTED for target in targets)
        words = (
            *(id(executable), n_values, *counted, addresses[4], len(given), addresses[5], addresses[6], wanted),
            *(0 if visit is None else id(visit), id(freed), int(depends), 1 + n_hidden if ends else 0),
            0 if history is None else id(history),
        )
        for name, word in zip(c.KNOWN_FIELDS, words, strict=True):
            setattr(self, name, word)
        self._held = (executable, *given, visit, freed, history, tables)


class KnownGradients(heap_types.raw_base("KnownGradientsBase", c.GRADIENTS_FIELDS)):  # type: ignore[misc]
    """The gradients of calls of one kind, or of such gradients, that native code finds by itself."""

    __slots__ = ("_held", "_keys")

    def __init__(self) -> None:
        self._held: list[Any] = []  # a walk may read what is replaced
        self._keys: dict[bool, dict[Hashable, KnownGradient | None]] = {False: {}, True: {}}

    def knows(self, key: Hashable, joined: bool = False) -> bool:
        """Whether something was noted under a key."""
        return key in self._keys[joined]

    def add(self, key: Hashable, gradient: KnownGradient | None, joined: bool = False) -> None:
        """Note a gradient, of the node alone or `joined` with its call's; None: it is left to Python."""
        with lock:
            self._keys[joined][key] = gradient
            found = [known for known in self._keys[joined].values() if known is not None]
            table = _words([len(found), *map(id, found)])
            self._held.append((table, gradient))
            self._say(**{"_joined" if joined else "_alone": ctypes.addressof(table)})

    def describe(self, hidden: int, inner: bool) -> None:
        """Say how many values inside the call are results of the node, and whether results depend on others.

        Gradients that were found when there were other values are found anew.
        """
        with lock:
            if self._hidden != hidden:
                self.forget()
            self._say(_hidden=hidden, _inner=int(inner))

    def _say(self, **words: int) -> None:
        for name, word in words.items():
            setattr(self, name, word)

    def forget(self) -> None:
        """Find all of them anew."""
        with lock:
            self._say(_alone=0, _joined=0)
            self._keys = {False: {}, True: {}}


class Connection(heap_types.raw_base("ConnectionBase", c.CONNECTION_FIELDS)):  # type: ignore[misc]
    """How native code puts a compiled call on the tape, and makes the function's result.

    backward    what the op of the call's node says of the gradient
    known       the gradients that native code finds by itself
    inputs      the node's: arguments by position, or tensors
    roots       which results of the executable have a gradient; `kept`: which are kept for it
    n_user      how many of them the user gets, as a tuple; None: the first one itself
    rebuild     makes the function's result of that tuple and None
    """

    __slots__ = ("_held",)

    def __init__(
        self,
        backward: object,
        known: KnownGradients,
        inputs: Sequence[Any],
        roots: Sequence[int],
        kept: Sequence[int],
        n_user: int | None,
        rebuild: Callable[[Sequence[Any], Any], Any] | None,
    ):
        tables = _places(inputs), _words(roots), _words(kept)
        of_inputs, of_roots, of_kept = map(ctypes.addressof, tables)
        words = (
            *(id(backward), id(known), of_inputs, len(inputs), of_roots, len(roots), of_kept, len(kept)),
            *(-1 if n_user is None else n_user, 0 if rebuild is None else id(rebuild)),
        )
        for name, word in zip(c.CONNECTION_FIELDS, words, strict=True):
            setattr(self, name, word)
        self._held = (backward, known, *inputs, rebuild, tables)


def connects(call: type, gradient: type) -> bool:
    """Whether native code puts calls on the tape, and their gradients, whose nodes have ops of these classes."""
    if not layout.ready() or not layout.serves("connected"):
        return False
    with lock:
        if call not in _described:
            fields = {offset: layout.slot_of(call, name) for name, offset in _SHARED.items()}
            if any(layout.slot_of(gradient, name) != fields[offset] for name, offset in _SHARED.items()):
                return False
            address, count = layout.defaults_of(call, _DEFAULTS)
            fields |= {c.CALL_TYPE: id(call), c.CALL_DEFAULTS: address, c.N_CALL_DEFAULTS: count}
            fields[c.CALL_BACKWARD] = layout.slot_of(call, "differentiable")
            address, count = layout.defaults_of(gradient, _DEFAULTS)
            fields |= {offset: layout.slot_of(gradient, name) for name, offset in _OF_GRADIENTS.items()}
            fields |= {c.GRADIENT_OP_TYPE: id(gradient), c.GRADIENT_OP_DEFAULTS: address}
            fields[c.N_GRADIENT_OP_DEFAULTS] = count
            layout.describe(fields)
            _described.add(call)
    return True


def runs_in_native_code(executable: Any) -> bool:
    """Whether nothing of an executable is Python's, nor depends on whether gradients are recorded."""
    if not isinstance(executable, NativeExecutable) or executable.program.calls:
        return False
    return all(code != Op.GRAD_MODE for code, *_ in executable.program.instructions)


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def _places(places: Sequence[Any]) -> Any:
    """Positions as negative words, which no address is."""
    return _words([-1 - place if type(place) is int else id(place) for place in places])
