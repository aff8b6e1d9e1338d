"""Turns native execution on: verifies where objects keep what native code reads, and tells it.

Nothing is assumed that can be looked at: fields of ndarrays are compared with what NumPy says of live arrays, slots are
found by storing objects in them. Where a fact does not hold the native executor stays off, with one line in the log.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
from typing import Any

import numpy as np

from eagerjit.runtime import dtypes, heap_types, log, memory, mode, source
from eagerjit.runtime.binding import bound, note_written, slot_names
from eagerjit.runtime.cpython import function, increment
from eagerjit.runtime.debugging import is_debugged
from eagerjit.runtime.native import context as c
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock

_VERSION, _ARRAY_TYPE, _NEW_FROM_DESCRIPTOR, _SET_BASE_OBJECT = 0, 2, 94, 282
"""Indices into NumPy's C API table."""
_ABI = 0x2000000

_alive: list[Any] = []  # what the context block points to, which is read for longer than this module lives
increment(_alive)
_filled_for = -1
_failure = ""


class LayoutError(Exception):
    """An object is not laid out as native code expects."""


def wanted() -> bool:
    """Whether EAGERJIT_NATIVE leaves native execution on and this interpreter is one we know."""
    return os.environ.get("EAGERJIT_NATIVE", "1") != "0" and heap_types.supported()


def ready() -> bool:
    """Whether native execution is on; the first call after `bind` verifies the layouts and loads native code."""
    global _failure, _filled_for
    if _filled_for == bound.generation:
        return True
    if not bound.tensor_types or not wanted():
        return False
    with lock:
        if _failure or _filled_for == bound.generation:
            return not _failure
        try:
            _fill()
        except LayoutError as reason:
            _failure = str(reason)
            log.write("compile", f"native execution is off: {reason}")
            return False
        _filled_for = bound.generation
    return True


def loaded() -> bool:
    """Whether native execution is on already."""
    return _filled_for == bound.generation


def serves(function: str) -> bool:
    """Whether native execution is on already, and has a function."""
    return loaded() and native().has(function)


def status() -> str:
    """Whether native execution is on, and if not, why."""
    if ready():
        return "on"
    if os.environ.get("EAGERJIT_NATIVE", "1") == "0":
        return "off: EAGERJIT_NATIVE=0"
    if not heap_types.supported():
        return "off: only CPython on 64-bit Linux or macOS, with the GIL and without debug fields, is supported"
    return f"off: {_failure or 'no classes are bound'}"


def accept(kind: type) -> bool:
    """Lets calls take instances of another Tensor class; whether there was room for it."""
    with lock:
        count = len(bound.tensor_types)
        if count == c.MAX_TENSOR_TYPES:
            return False
        bound.tensor_types += (kind,)
        if loaded():
            describe({c.TENSOR_TYPES + 8 * count: _keep(kind)})
            describe({c.N_TENSOR_TYPES: count + 1})  # last: other threads read the table meanwhile
        return True


def heed_subclasses() -> None:
    """Lets calls take instances of all subclasses of Tensor in threads where these pass for plain tensors."""
    with lock:
        bound.subclasses = True
        if loaded():
            describe({c.SUBCLASSES: 1})


def slot_of(owner: type, name: str) -> int:
    """The offset of a slot; LayoutError where it cannot be found."""
    try:
        return heap_types.slot_offset(owner, name)
    except RuntimeError as error:
        raise LayoutError(str(error)) from None


def describe(fields: dict[int, int]) -> None:
    """Stores words in the context block, by offset."""
    base = native().address("context")
    for offset, value in fields.items():
        ctypes.c_int64.from_address(base + offset).value = value


def _keep(*objects: Any) -> int:
    """The address of the first object, all of which now live as long as the process."""
    _alive.extend(objects)
    return id(objects[0])


def _fill() -> None:
    from eagerjit.runtime.binding import same_value
    from eagerjit.runtime.entry import record_node
    from eagerjit.runtime.program import MISS

    _verify_head()
    _verify_arrays()
    table = _numpy_table()
    kinds = bound.tensor_types
    if len(kinds) > c.MAX_TENSOR_TYPES:
        raise LayoutError(f"{len(kinds)} Tensor classes are too many")
    fields = {c.N_TENSOR_TYPES: len(kinds), c.SUBCLASSES: int(bound.subclasses)}
    fields |= {c.TENSOR_TYPES + 8 * i: _keep(kind) for i, kind in enumerate(kinds)}
    for dtype in dtypes.HELD:
        fields[c.DESCRIPTORS + 8 * dtype.code] = _keep(dtype.numpy)
        fields[c.ITEM_SIZES + 8 * dtype.code] = dtype.itemsize
        fields[c.DTYPES + 8 * dtype.code] = _keep(dtype)
    fields |= {
        c.ARRAY_TYPE: id(np.ndarray),
        c.VERSION: _version_offset(),
        c.NONE: id(None),
        c.TRUE: id(True),
        c.ELLIPSIS: id(Ellipsis),
        c.OPTIONS: _keep(bound.options),
        c.DEVICE_TYPE: _keep(bound.device_type),
        c.SAME_VALUE: _keep(same_value),
        c.MISS: _keep(MISS),
        c.RECORD_NODE: _keep(record_node),
        c.NOTE_WRITTEN: _keep(note_written),
        c.CODE_FILE: _file_offset(),
        c.LIBRARY_FILES: _keep(source.files),
        c.IS_LIBRARY: _keep(source.is_library),
        c.NEW_FROM_DESCRIPTOR: table[_NEW_FROM_DESCRIPTOR],
        c.SET_BASE_OBJECT: table[_SET_BASE_OBJECT],
        c.MEMORY_HANDLER: _keep(memory.handler_capsule()),
        c.NO_MEMORY: _keep(memory.NoMemory),
        c.MODE_WORDS: mode.words_address,
        c.FLAGS_KEY: mode.flags_key,
        c.MODULES: _keep(sys.modules),
        c.IS_DEBUGGED: _keep(is_debugged),
        c.GET_TRACE: _keep(sys.gettrace),
    }
    if (monitoring := getattr(sys, "monitoring", None)) is not None:
        fields |= {c.GET_TOOL: _keep(monitoring.get_tool), c.DEBUGGER: _keep(monitoring.DEBUGGER_ID)}
    fields |= _tensor_fields() | _node_fields() | _view_fields()
    describe(fields)


_SLICE = slice(1, 2, 3)


def _verify_head() -> None:
    number = 1234.5
    if ctypes.c_int64.from_address(id(number) + c.OBJECT_TYPE).value != id(float):
        raise LayoutError("an object's class is not where it was")
    if ctypes.c_double.from_address(id(number) + c.FLOAT_VALUE).value != number:
        raise LayoutError("floats keep their value elsewhere")
    parts = [ctypes.c_int64.from_address(id(_SLICE) + at).value for at in (c.SLICE_START, c.SLICE_STOP, c.SLICE_STEP)]
    if parts != [id(_SLICE.start), id(_SLICE.stop), id(_SLICE.step)]:
        raise LayoutError("slices keep their bounds elsewhere")
    if object.__basicsize__ != c.VECTORCALL:
        raise LayoutError("plain objects are larger than expected")
    held = object()
    count = ctypes.c_int32.from_address(id(held) + c.OBJECT_REFERENCES)
    before, holders = count.value, [held]
    if before < 1 or count.value != before + len(holders):
        raise LayoutError("an object's references are not counted where they were")


def _version_offset() -> int:
    """Where classes keep a number that any change of theirs or of a base sets to 0, and the next look to a new one.

    0: nowhere.
    """

    class Base:
        pass

    class Derived(Base):
        pass

    def rebase() -> None:
        Derived.__bases__ = Base, *Derived.__bases__[1:]

    changes = functools.partial(setattr, Derived, "forward", 1), functools.partial(setattr, Base, "forward", 2), rebase
    size: Any = type.__basicsize__
    numbers = (ctypes.c_uint32 * (size // 4)).from_address(id(Derived))
    looked, changed = [], []
    for change in (*changes, *changes):
        hasattr(Derived, "forward")
        looked.append(list(numbers))
        change()
        changed.append(list(numbers))
    rising = [0 < a[0] and all(x < y for x, y in itertools.pairwise(a)) for a in zip(*looked, strict=True)]
    zero = [not any(c) for c in zip(*changed, strict=True)]
    found = [4 * i for i in range(len(numbers)) if rising[i] and zero[i]]
    return found[0] if len(found) == 1 else 0


_CODES = (_verify_head.__code__, dtypes.DType.__init__.__code__)


def _file_offset() -> int:
    """Where code objects keep the name of their file."""
    places = []
    for code in _CODES:
        words = (ctypes.c_int64 * (type(code).__basicsize__ // 8)).from_address(id(code))
        places.append([8 * i for i, word in enumerate(words) if word == id(code.co_filename)])
    if len(places[0]) != 1 or places[0] != places[1]:
        raise LayoutError("code objects keep the name of their file elsewhere")
    return places[0][0]


def _numpy_table() -> Any:
    """NumPy's C API table, of an ABI we know."""
    get_pointer = function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    address = get_pointer(np._core.multiarray._ARRAY_API, None)  # type: ignore[attr-defined]
    table = (ctypes.c_int64 * (_SET_BASE_OBJECT + 1)).from_address(address)
    abi = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_VERSION])()
    if abi != _ABI or table[_ARRAY_TYPE] != id(np.ndarray):
        raise LayoutError(f"NumPy {np.__version__} has an unknown ABI {abi:#x}")
    return table


def _verify_arrays() -> None:
    """Compares the fields of live ndarrays of different kinds with what NumPy says of them."""
    whole = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    frozen = np.zeros((2, 2), np.int64)
    frozen.flags.writeable = False
    for array in (whole, whole[::-1, 1:3], whole.T, frozen, np.empty((0, 3), np.float16), np.zeros((), np.bool_)):
        if not _array_agrees(array):
            raise LayoutError(f"ndarrays of NumPy {np.__version__} are laid out differently")
    ours = memory.empty((3,), dtypes.float32.numpy)
    if ctypes.c_int64.from_address(id(ours) + c.ARRAY_HANDLER).value != id(memory.handler_capsule()):
        raise LayoutError(f"ndarrays of NumPy {np.__version__} keep their memory handler elsewhere")


def _array_agrees(array: np.ndarray) -> bool:
    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(id(array) + offset).value

    def words(address: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * array.ndim).from_address(address)) if array.ndim else ()

    flags = ctypes.c_int32.from_address(id(array) + c.ARRAY_FLAGS).value
    stated = (
        (c.CONTIGUOUS_FLAG, array.flags.c_contiguous),
        (c.OWNS_DATA_FLAG, array.flags.owndata),
        (c.ALIGNED_FLAG, array.flags.aligned),
        (c.WRITEABLE_FLAG, array.flags.writeable),
    )
    return (
        array.__class__.__basicsize__ >= c.ARRAY_HANDLER + 8
        and word(c.ARRAY_DATA) == array.ctypes.data
        and ctypes.c_int32.from_address(id(array) + c.ARRAY_NDIM).value == array.ndim
        and words(word(c.ARRAY_DIMS)) == array.shape
        and words(word(c.ARRAY_STRIDES)) == array.strides
        and word(c.ARRAY_DESCRIPTOR) == id(array.dtype)
        and word(c.ARRAY_BASE) == (0 if array.base is None else id(array.base))
        and all(bool(flags & bit) == said for bit, said in stated)
    )


def defaults_of(owner: type, others: dict[str, object]) -> tuple[int, int]:
    """The address and length of a table of (offset of a slot, its default), which is None but for these others."""
    return _defaults(owner, dict.fromkeys(slot_names(owner)) | others)


def _defaults(owner: type, defaults: dict[str, object]) -> tuple[int, int]:
    pairs = [(slot_of(owner, slot), _keep(default)) for slot, default in defaults.items()]
    table = (ctypes.c_int64 * max(2 * len(pairs), 1))(*(word for pair in pairs for word in pair))
    _keep(table)
    return ctypes.addressof(table), len(pairs)


def _tensor_fields() -> dict[int, int]:
    kind = bound.tensor_types[0]
    for other in bound.tensor_types[1:]:
        for slot in slot_names(kind):
            if slot_of(other, slot) != slot_of(kind, slot):
                raise LayoutError(f"{other.__name__} and {kind.__name__} keep {slot} in different places")
    address, count = _defaults(kind, bound.tensor_defaults)
    return {
        c.TENSOR_DEFAULTS: address,
        c.N_TENSOR_DEFAULTS: count,
        c.DATA: slot_of(kind, "_data"),
        c.NODE: slot_of(kind, "_node"),
        c.INDEX: slot_of(kind, "_index"),
        c.REQUIRES_GRAD: slot_of(kind, "_requires_grad"),
        c.GRAD: slot_of(kind, "_grad"),
        c.STORAGE: slot_of(kind, "_storage"),
        c.VIEW: slot_of(kind, "_view"),
        c.HOOKS: slot_of(kind, "_hooks"),
    }


def _node_fields() -> dict[int, int]:
    assert bound.node_type is not None
    address, count = defaults_of(bound.node_type, {})
    names: dict[str, int] = {
        "op": c.NODE_OP,
        "inputs": c.NODE_INPUTS,
        "output": c.NODE_OUTPUT,
        "sequence": c.NODE_SEQUENCE,
        "versions": c.NODE_VERSIONS,
        "code": c.NODE_CODE,
        "offset": c.NODE_OFFSET,
        "hooks": c.NODE_HOOKS,
        "overwritten": c.NODE_OVERWRITTEN,
        "replaced": c.NODE_REPLACED,
    }
    fields = {offset: slot_of(bound.node_type, name) for name, offset in names.items()}
    return fields | {
        c.NODE_TYPE: _keep(bound.node_type),
        c.NODE_DEFAULTS: address,
        c.N_NODE_DEFAULTS: count,
        c.STORAGE_TYPE: _keep(bound.storage_type),
        c.STORAGE_VERSION: slot_of(bound.storage_type, "version"),
        c.STORAGE_SOURCE: slot_of(bound.storage_type, "source"),
    }


def _view_fields() -> dict[int, int]:
    kind = bound.view_type
    if kind is None:
        return {c.VIEW_TYPE: 0}
    address, count = defaults_of(kind, {"tracked": False, "number": 0})
    names = {"base": c.VIEW_BASE, "op": c.VIEW_OP, "arguments": c.VIEW_ARGUMENTS, "tracked": c.VIEW_TRACKED}
    names |= {"among": c.VIEW_AMONG, "number": c.VIEW_NUMBER}
    return {offset: slot_of(kind, name) for name, offset in names.items()} | {
        c.VIEW_TYPE: _keep(kind),
        c.VIEW_DEFAULTS: address,
        c.N_VIEW_DEFAULTS: count,
        c.STORAGE_VIEWS: slot_of(bound.storage_type, "views"),
        c.STORAGE_REGISTERED: slot_of(bound.storage_type, "registered"),
        c.REGISTER_VIEW: _keep(bound.storage_type.register),
        c.REFRESH_VIEW: _keep(bound.refresh),
        c.SHAPE_TYPE: _keep(bound.shape_type),
    }


def has_each_element_once(array: np.ndarray) -> bool:
    """Whether every stride leads beyond all that smaller ones reach."""
    reach = array.itemsize
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return False
            reach += stride * (size - 1)
    return True
