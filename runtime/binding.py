"""The classes of the layer above that a run creates and inspects, injected once by that layer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from eagerjit.runtime import mode
from eagerjit.runtime.records import record
from eagerjit.runtime.source import here


@record
class Binding:
    """`tensor_types[0]` is made for outputs, the others are accepted as arguments too; subclasses are not.

    `options` holds the tuples of numbers that operators were called with: one object for all of the same types and
    values, beside those that equal it and have other types. `subclasses`: there are classes whose instances pass for
    plain tensors where a thread says so.
    """

    tensor_types: tuple[type, ...] = ()
    tensor_defaults: dict[str, object] = field(default_factory=dict)
    node_type: type | None = None
    node_slots: tuple[str, ...] = ()
    storage_type: Any = None
    written: Callable[[Any, Any], None] | None = None
    view_type: Any = None
    shape_type: Any = None
    device_type: Any = None
    refresh: Any = None
    options: dict[tuple[Any, ...], tuple[tuple[Any, ...], ...]] = field(default_factory=dict)
    subclasses: bool = False
    generation: int = 0


bound = Binding()


def is_tensor(thing: object) -> bool:
    """Whether something is taken for a Tensor: its class is one of those accepted, or any that passes for plain."""
    if type(thing) in bound.tensor_types:
        return True
    return bound.subclasses and mode.plain() and isinstance(thing, bound.tensor_types[0])


def bind(
    tensor_types: tuple[type, ...],
    node_type: type,
    storage_type: type,
    written: Callable[[Any, Any], None] | None = None,
    view_type: type | None = None,
    shape_type: type | None = None,
    device_type: type | None = None,
    refresh: Callable[[Any], None] | None = None,
) -> None:
    """Injects the front layer's classes: Tensor with its exact siblings, autograd Node, and Storage.

    A Storage made without arguments must have `version` 0 and a `source`, where it was written last. `written(tensor,
    place)` is called when a Program has written the memory of a tensor with a history, or of a view. With a `view_type`
    (base, op, arguments, tracked) native code makes views; sizes are tuples or of the `shape_type`. What is of the
    `device_type` never changes. `refresh` brings the history of a view up to date before it is used. Call it before the
    first Program is loaded.
    """
    bound.tensor_types = tuple(tensor_types)
    bound.tensor_defaults = tensor_defaults()
    bound.node_type = node_type
    bound.node_slots = slot_names(node_type)
    bound.storage_type = storage_type
    bound.written = written
    bound.view_type, bound.shape_type, bound.device_type = view_type, shape_type, device_type
    bound.refresh = refresh
    bound.generation += 1


def slot_names(owner: type) -> tuple[str, ...]:
    """All names in the `__slots__` of a class and its bases that hold an object."""
    names = (name for base in owner.__mro__ for name in getattr(base, "__slots__", ()))
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def tensor_defaults() -> dict[str, object]:
    """What a fresh Tensor has in every slot but `_data`."""
    defaults: dict[str, object] = dict.fromkeys(slot_names(bound.tensor_types[0]))
    del defaults["_data"]
    return defaults | {"_index": 0, "_requires_grad": False}


def new_tensor(array: np.ndarray) -> Any:
    """A fresh Tensor over `array`, with every slot set."""
    tensor: Any = object.__new__(bound.tensor_types[0])
    for slot, default in bound.tensor_defaults.items():
        setattr(tensor, slot, default)
    tensor._data = array
    return tensor


def shared_storage(tensor: Any) -> Any:
    """The Storage that `tensor` shares with its views, made at the first need."""
    if tensor._storage is None:
        tensor._storage = bound.storage_type()
    return tensor._storage


def bump_version(tensor: Any, line: str | None = None, times: int = 1) -> None:
    """Notes that the tensor's memory was written in place, and where: on this line or where the user's code is."""
    storage = shared_storage(tensor)
    storage.version += times
    storage.source = here() if line is None else line
    if tensor._node is not None or tensor._view is not None:
        note_written(tensor, storage.source)


def note_written(tensor: Any, place: Any) -> None:
    """Tells the layer above that the memory of a tensor with a history, or of a view, was written there."""
    if bound.written is not None:
        bound.written(tensor, place)


def same_value(a: object, b: object) -> bool:
    """EQUAL: same type and value; floats by their bits, so that 0.0 is not -0.0 and a NaN equals itself.

    What lists and dictionaries hold is the same object, or a number or text of the same value.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and same_value([*a, *a.values()], [*b, *b.values()])
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        return all(x is y or (type(x) in (int, float, str) and same_value(x, y)) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex) and isinstance(b, complex):
        return same_value((a.real, a.imag), (b.real, b.imag))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, range) and isinstance(b, range):  # equal where they hold the same numbers
        return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
    return bool(a == b)
