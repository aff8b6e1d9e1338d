"""Functions of Python's library that change containers in C, as Python code: what that does is watched."""

from __future__ import annotations

import bisect
import collections
import heapq
import operator
from collections.abc import Callable
from typing import Any

from eagerjit.effects.clocks import Later
from eagerjit.recording.arrays import TracedArray, TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.traced_ranges import TracedRange
from eagerjit.recording.traced_texts import TracedText
from eagerjit.tensors.tensor import Tensor


def _count_elements(mapping: Any, elements: Any) -> None:
    for element in elements:
        mapping[element] = mapping.get(element, 0) + 1


def _insort(values: Any, x: Any) -> None:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if x < values[middle]:
            high = middle
        else:
            low = middle + 1
    values.insert(low, x)


def _heappush(heap: Any, item: Any) -> None:
    heap.append(item)
    _rise(heap, 0, len(heap) - 1)


def _heappop(heap: Any) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _sink(heap, 0)
    return first


def _rise(heap: Any, start: int, position: int) -> None:
    item = heap[position]
    while position > start:
        parent = (position - 1) >> 1
        if not item < heap[parent]:
            break
        heap[position] = heap[parent]
        position = parent
    heap[position] = item


def _sink(heap: Any, position: int) -> None:
    end, start, item = len(heap), position, heap[position]
    child = 2 * position + 1
    while child < end:
        if child + 1 < end and not heap[child] < heap[child + 1]:
            child += 1
        heap[position] = heap[child]
        position, child = child, 2 * child + 1
    heap[position] = item
    _rise(heap, start, position)


def _setitem(container: Any, key: Any, value: Any) -> None:
    container[key] = value


def _delitem(container: Any, key: Any) -> None:
    del container[key]


OF_ANY: dict[Any, Any] = {
    collections._count_elements: _count_elements,  # type: ignore[attr-defined]
    operator.setitem: _setitem, operator.delitem: _delitem,
}  # fmt: skip
OF_LISTS: dict[Any, Any] = {bisect.insort: _insort, heapq.heappush: _heappush, heapq.heappop: _heappop}

STAND_INS = (SymbolicInt, TracedFloat, TracedArray, TracedNumber, TracedText, TracedRange, Later)
"""What has another class than it shows."""


def of_stand_in(function: Any, value: Any) -> Callable[[Any], Any] | None:
    """What is called in place of `type` and `len`, of what stands for a value of the call; None for other functions."""
    if function is type:
        return _class_of if type(value) in STAND_INS else None
    return _length_of if function is len and isinstance(value, (Tensor, TracedArray)) else None


def _class_of(value: Any) -> Any:
    return value.__class__


def _length_of(value: Any) -> Any:
    return value.shape[0] if value.ndim else len(value)
