"""The arguments of a call as leaves: NumPy's arrays as tensors, its numbers as Python's.

The structure says at each leaf what it is: LEAF, Again (a tensor met before, by the number of its leaf), a class of
NumPy's, or `str` for a text that is another one in other calls. So calls with one tensor in two places, or with an
array where others have a tensor, are of different kinds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from types import MethodType
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.guards.comparing import is_by_value
from eagerjit.pytree import (
    LEAF,
    LEAVES,
    NO_WAYS,
    ONLY_ADDED_TO,
    SEQUENCES,
    Again,
    Attributes,
    Derived,
    Structure,
    Ways,
    nodes_in,
    part_of,
    steps_of,
)
from eagerjit.recording.arrays import NUMBERS, TracedArray, TracedNumber
from eagerjit.runtime.native.context import MOST_ARRAYS
from eagerjit.tensors.creation import from_numpy
from eagerjit.tensors.placement import place_number
from eagerjit.tensors.tensor import Parameter, Shape, Tensor
from eagerjit.watching.observation import TraceBreak, user_line

LEAVES.update((Tensor, Parameter))
SEQUENCES.add(Shape)


_MOST_LEAVES = 1000


_OF_PYTHON = frozenset((str, list))


def _known_at(places: Iterable[tuple[Any, ...]], call: Any, ways: Ways) -> Ways:
    """The same ways for a call whose lists at these places are only added to."""
    added_to = {id(x): ONLY_ADDED_TO for x in (_part_at(call, place) for place in places) if type(x) is list}
    return ways._replace(lists={**ways.lists, **added_to})


def _part_at(value: Any, place: tuple[Any, ...]) -> Any:
    """What lies at a place, None if there is none."""
    try:
        return functools.reduce(part_of, place, value)
    except (LookupError, TypeError, AttributeError):
        return None


def flatten_call(args: Any, kwargs: Any, ways: Ways = NO_WAYS) -> tuple[Structure, list[Any]]:
    """The structure of a call's (args, kwargs), and its leaves. Raises TraceBreak where one of them holds itself.

    Objects that `ways` takes apart are leaves after all where one of them lies in two places, or where they hold much.
    """
    leaves: list[Any] = []
    known = _known_at(ways.added_to, (args, kwargs), ways) if ways.added_to else ways
    try:
        structure = pytree.flatten((args, kwargs), leaves, known)
        opens = not ways.opened <= _OF_PYTHON
        if opens and (len(leaves) > _MOST_LEAVES or _lie_twice(structure, (args, kwargs))):
            return flatten_call(args, kwargs, ways._replace(opened=ways.opened & _OF_PYTHON))
    except RecursionError:
        raise TraceBreak("an argument holds itself, or is nested very deeply", user_line()) from None
    met = [id(x) for x in leaves if isinstance(x, Tensor)]
    kinds = set(map(type, leaves))
    others, texts = kinds - LEAVES, str in kinds and str in ways.opened
    plain = len(set(met)) == len(met) and not texts
    if plain and not any(issubclass(kind, (np.ndarray, np.generic)) for kind in others):
        return structure, leaves
    kept: list[Any] = []
    numbers: dict[int, int] = {}
    marks = iter([_mark(x, kept, numbers, texts) for x in leaves])
    return with_marks(structure, marks), kept


def _lie_twice(structure: Structure, call: Any) -> bool:
    """Whether an object that is taken apart into its attributes lies in two places."""
    met = [id(part) for _, node, part in nodes_in(structure, call) if type(node[1]) in (Attributes, Derived)]
    return len(set(met)) != len(met)


def _mark(value: Any, kept: list[Any], known: dict[int, int], texts: bool) -> Structure:
    """What a leaf is; it is kept as a compiled call takes it."""
    if id(value) in known:
        kept.append(kept[known[id(value)]])
        return Again(known[id(value)])
    mark: Any = str if texts and type(value) is str else LEAF
    if isinstance(value, Tensor) or type(value) is np.ndarray:
        known[id(value)] = len(kept)
    if type(value) is np.ndarray:
        made = over_array(value)
        value, mark = (value, mark) if made is None else (made, np.ndarray)
    elif type(value) in NUMBERS:
        number = value.item()
        if isinstance(number, float) or -(2**63) <= number < 2**63:
            value, mark = number, type(value)
    kept.append(value)
    return mark


def over_array(array: np.ndarray) -> Tensor | None:
    """A tensor over an array's memory, None for arrays that tensors cannot lie over."""
    try:
        return from_numpy(array)
    except (TypeError, ValueError):
        return None


def with_marks(structure: Structure, marks: Iterator[Structure]) -> Structure:
    """A structure with other marks at its leaves."""
    if type(structure) is not tuple:
        return next(marks)
    kind, keys, children = structure
    return kind, keys, tuple([with_marks(c, marks) for c in children])


def arrays_among(marks: Sequence[Structure]) -> int | None:
    """Bits for the arrays among arguments that native code takes; None where it does not take one of these."""
    plain = all(mark == LEAF or type(mark) is Again or mark in (np.ndarray, str) for mark in marks)
    arrays = sum(1 << i for i, mark in enumerate(marks) if _is_array(marks, mark))
    return arrays if plain and (not arrays or len(marks) <= MOST_ARRAYS) else None


def _is_array(marks: Sequence[Structure], mark: Structure) -> bool:
    return (marks[mark] if type(mark) is Again else mark) is np.ndarray


def marks_of(structure: Structure) -> Iterator[Structure]:
    """What each leaf of a structure is, in order."""
    if type(structure) is not tuple:
        yield structure
        return
    for child in structure[2]:
        yield from marks_of(child)


def places_of(structure: Structure, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each leaf of a structure lies: positions, keys and names."""
    if type(structure) is not tuple:
        yield place
        return
    for step, child in zip(steps_of(structure), structure[2], strict=True):
        yield from places_of(child, (*place, step))


def _call(structure: Structure, leaves: Sequence[Any], convert: Callable[[Any, Any], Any]) -> Any:
    out: list[Any] = []
    for mark, leaf in zip(marks_of(structure), leaves, strict=False):  # a call may have more than its arguments
        out.append(out[mark] if type(mark) is Again else convert(mark, leaf))
    return pytree.unflatten(structure, out)


def traced_call(structure: Structure, inputs: Sequence[Any]) -> Any:
    """(args, kwargs) for the function that is recorded, from the inputs of the trace."""
    return _call(structure, inputs, _stand_in)


def plain_call(structure: Structure, leaves: Sequence[Any]) -> Any:
    """(args, kwargs) of a plain call, from leaves."""
    return _call(structure, leaves, _original)


def _stand_in(mark: Any, value: Any) -> Any:
    if mark is np.ndarray:
        return TracedArray(value)
    return TracedNumber(value, mark) if isinstance(mark, type) and mark is not str else value


def _original(mark: Any, value: Any) -> Any:
    if mark is np.ndarray:
        return value._data.view()
    return mark(value) if isinstance(mark, type) else value


def kinds_that_vary(structure: Structure) -> frozenset[type]:
    """`str`, where texts among the leaves are others in other calls."""
    return frozenset(mark for mark in marks_of(structure) if mark is str)


def key_of(leaves: Sequence[Any], varying: Set[type] = frozenset()) -> tuple[Any, ...]:
    """What a variant depends on at least: dtypes, ranks, sizes of 0 and 1, memory order and gradients of tensors.

    Of leaves of classes `varying` calls have others.
    """
    out: list[Any] = []
    for x in leaves:
        if isinstance(x, Tensor):
            array = x._data
            sizes = tuple(min(d, 2) for d in array.shape)
            out.append((array.dtype, sizes, array.flags.c_contiguous, x._requires_grad, place_number(x)))
        elif type(x) in (int, float) or type(x) in varying:
            out.append(type(x))
        elif isinstance(x, MethodType):  # made anew whenever it is read
            out.append((id(x.__self__), id(x.__func__)))
        else:
            out.append(x if is_by_value(x) else (type(x), id(x)))
    return tuple(out)


def kind_of(structure: Structure, leaves: Sequence[Any], *besides: Any) -> tuple[Any, ...]:
    """What calls have in common that one version may serve."""
    return structure, key_of(leaves, kinds_that_vary(structure)), *besides


def overlaps(leaves: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """The pairs of tensors among the leaves that may share memory."""
    arrays = [(i, x._data) for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    pairs = ((i, j) for n, (i, a) in enumerate(arrays) for j, b in arrays[:n] if np.may_share_memory(a, b))
    return tuple(pairs)
