"""What NumPy computes at the beginning of a compiled call; see `host_work`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.evaluate import evaluate_graph
from eagerjit.compiler.ir import Graph
from eagerjit.recording.arrays import NUMBERS
from eagerjit.recording.leaves import over_array
from eagerjit.runtime import dtypes
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.slots import GradientOf, Item, Slot

REFUSED = object()
"""What a call gives whose computations NumPy refuses: the plain call raises, or warns."""

_MOST = 64
"""Numbers that one computation may give as Python's."""


class Call:
    """The leaves of one call, and what was computed so far: as NumPy has it, and as the compiled call takes it."""

    def __init__(self, leaves: Sequence[Any]):
        self.leaves, self.raw, self.results = leaves, list[Any](), list[Any]()
        self.read: list[np.ndarray] = []

    def owns(self, array: np.ndarray) -> bool:
        """Whether an array that NumPy gave lies in memory of its own."""
        if array.base is None:
            return not any(array is x for x in self.raw)
        known = (*self.read, *(x for x in self.raw if type(x) is np.ndarray))
        return not any(np.may_share_memory(array, x) for x in known)

    def memory(self, place: Any) -> np.ndarray:
        """A leaf as NumPy has it; raises TypeError where that lies on a device."""
        leaf = self.find(place)
        array = leaf._data if isinstance(leaf, Tensor) else np.asarray(leaf)
        if type(array) is not np.ndarray:
            raise TypeError("a tensor on a device is no array")
        self.read.append(array.view())  # so that what NumPy hands back as it is does not pass for a new array
        return self.read[-1]

    def find(self, place: Any) -> Any:
        """The leaf at a place."""
        if type(place) is int:
            return self.leaves[place]
        if type(place) is Item:
            return self.results[place.index]
        if type(place) is GradientOf:
            return place.read(self.leaves)
        return place.read() if type(place) is Slot else place


@record(frozen=True)
class Result:
    """A result of an earlier computation."""

    index: int

    def of(self, call: Call) -> Any:
        return call.raw[self.index]


@record(frozen=True)
class Value:
    """A value of the graph that NumPy computes as well: from these leaves, and sizes of others."""

    graph: Graph
    places: list[Any]
    sizes: dict[str, tuple[Any, int]]

    def of(self, call: Call) -> Any:
        found = [call.memory(place) for place in self.places]
        if not self.graph.nodes:
            return found[0]
        return evaluate_graph(self.graph, found, _measured(self.sizes, call))[0]


@record(frozen=True)
class Number:
    """A Python number of the call."""

    value: Value

    def of(self, call: Call) -> Any:
        return np.asarray(self.value.of(call)).item()


@record(frozen=True)
class Size:
    """An int that sizes of the call tell."""

    size: sizes.Size
    sizes: dict[str, tuple[Any, int]]

    def of(self, call: Call) -> int:
        return int(sizes.evaluate(self.size, _measured(self.sizes, call)))


@record(frozen=True)
class Scalar:
    """A number of NumPy's from Python's."""

    number: Any
    kind: type

    def of(self, call: Call) -> Any:
        return self.kind(self.number.of(call))


def _measured(places: dict[str, tuple[Any, int]], call: Call) -> dict[str, int]:
    found = {name: (call.find(place), axis) for name, (place, axis) in places.items()}
    return {name: leaf if axis < 0 else leaf._data.shape[axis] for name, (leaf, axis) in found.items()}


def _given(value: Any, call: Call) -> Any:
    """An argument of a computation in this call."""
    kind = type(value)
    if kind in _TAKEN:
        return value.of(call)
    if kind in (list, tuple):
        return kind([_given(v, call) for v in value])
    if kind is dict:
        return {k: _given(v, call) for k, v in value.items()}
    return slice(*_given((value.start, value.stop, value.step), call)) if kind is slice else value


_TAKEN = frozenset((Result, Value, Number, Size, Scalar))


@record
class Step:
    """One computation, and the kind of its result."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    source: str
    errors: dict[str, Any]
    kind: Any = None

    def run(self, call: Call) -> Any:
        """Its result; what is a warning otherwise is an error."""
        with np.errstate(**self.errors):
            return self.function(*_given(self.args, call), **_given(self.kwargs, call))


def kind_of(value: Any, call: Call) -> Any:
    """The kind of a result, whose parts are added to those of the call; None for one that no call can take."""
    kind = type(value)
    if kind is np.ndarray:
        tensor = over_array(value) if value.dtype in dtypes.BY_NUMPY else None
        if tensor is None:
            return None
        own = call.owns(value)
        call.raw.append(value)
        call.results.append(tensor)
        return kind, value.dtype, tuple([min(d, 2) for d in value.shape]), own, value.flags.writeable
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        parts = [kind_of(part, call) for part in value[: _MOST + 1]]
        return None if None in parts or len(parts) > _MOST else (kind, *parts)
    call.raw.append(value)
    call.results.append(value.item() if kind in NUMBERS else value)
    return kind if kind in NUMBERS or kind in _PLAIN or value is None else None


_PLAIN = frozenset((int, float, bool, np.bool_, str, type(None)))


@record
class HostSteps:
    """The computations of a compiled call, in order, and how NumPy treats errors around the call."""

    steps: list[Step]
    errors: dict[str, Any]

    def run(self, leaves: Sequence[Any]) -> Any:
        """The list of results for a call; MISS where one is of another kind, REFUSED where NumPy raises."""
        if np.geterr() != self.errors:
            return MISS
        call = Call(leaves)
        try:
            for step in self.steps:
                if kind_of(step.run(call), call) != step.kind:
                    return MISS
        except Exception:
            return REFUSED
        return call.results
