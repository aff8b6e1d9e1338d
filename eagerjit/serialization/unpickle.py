"""A reader of pickles that builds data and nothing else.

The machine of pickle has about fifty instructions (Python's Lib/pickletools.py describes them). Here those that name
classes and functions find only what they are allowed to, and memory in use stays in proportion to the bytes read.
"""

from __future__ import annotations

import pickle
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from eagerjit.devices import Device
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor

_KEYS = (str, int, float, bool, bytes, type(None), DType, Device)
_KEY_DEPTH = 4
_MARK = object()


class LoadError(RuntimeError, pickle.UnpicklingError):
    """A file is damaged, or asks for something that loading does not give."""


class Finder(Protocol):
    """What an unpickler asks about the globals of its file."""

    trusted: bool

    def find(self, module: str, name: str, /) -> Any: ...

    def may_call(self, function: Any, /) -> bool: ...


class Unpickler:
    """Reads one pickle from `data`, beginning at `position`, which then is where it ended.

    known.find(module, name)     what a global stands for; raises LoadError for those that are not allowed
    known.may_call(function)     whether an instruction may call it
    known.trusted                whether objects of any class are keys, take items and get a state
    persistent(id)               an object kept outside of the pickle
    """

    def __init__(
        self,
        data: memoryview,
        known: Finder,
        persistent: Callable[[Any], Any],
        position: int = 0,
    ):
        self.data, self.position = data, position
        self.known, self.persistent = known, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.protocol = 0

    def load(self) -> Any:
        """The object. Raises LoadError for a pickle that is truncated or makes no sense."""
        try:
            while True:
                code = self.bytes(1)[0]
                if code == pickle.STOP[0]:
                    return self.stack.pop()
                instruction = _INSTRUCTIONS.get(code)
                if instruction is None:
                    raise LoadError(f"its pickle has an instruction {bytes([code])!r} that is not allowed")
                instruction(self)
        except LoadError:
            raise
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, struct.error, OverflowError) as error:
            raise LoadError(f"its pickle makes no sense: {type(error).__name__}: {error}") from None
        except (MemoryError, RecursionError, RuntimeError) as error:
            raise LoadError(f"its pickle asks for what cannot be made: {error}") from None

    def bytes(self, count: int) -> bytes:
        """The next bytes."""
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise LoadError("its pickle is truncated")
        found = bytes(self.data[self.position : end])
        self.position = end
        return found

    def line(self) -> str:
        """The text up to the next end of a line."""
        begin = self.position
        while self.bytes(1) != b"\n":
            pass
        return bytes(self.data[begin : self.position - 1]).decode("utf-8", "surrogatepass")

    def number(self, form: str) -> Any:
        """The next number, in a format of struct."""
        return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]

    def since_mark(self) -> list[Any]:
        """What was pushed after the last mark."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                found = self.stack[index + 1 :]
                del self.stack[index:]
                return found
        raise LoadError("its pickle makes no sense: a mark is missing")

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    # -- containers ---------------------------------------------------------------------------------------------------

    def append(self, values: list[Any]) -> None:
        """Add values to the list on the stack."""
        target = self.stack[-1]
        if not isinstance(target, list) and not (self.known.trusted and hasattr(target, "extend")):
            raise LoadError(f"its pickle appends to a {type(target).__name__}")
        target.extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Add keys and values to the dictionary on the stack."""
        target = self.stack[-1]
        takes_items = isinstance(target, dict) or (self.known.trusted and not isinstance(target, (list, Tensor)))
        if not takes_items or len(values) % 2:
            raise LoadError(f"its pickle sets items of a {type(target).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[checked_key(key, self.known.trusted)] = value

    def add_items(self) -> None:
        """Add values to the set on the stack."""
        values, target = self.since_mark(), self.stack[-1]
        if not isinstance(target, set):
            raise LoadError(f"its pickle adds to a {type(target).__name__}")
        target.update(checked_keys(values, self.known.trusted))

    # -- globals ------------------------------------------------------------------------------------------------------

    def call(self) -> None:
        """Call a function, if it may be called."""
        arguments, function = self.stack.pop(), self.stack.pop()
        self.push(self.called(function, arguments))

    def called(self, function: Any, arguments: Any, **keywords: Any) -> Any:
        """The result of a call that is allowed."""
        if not isinstance(arguments, tuple) or not self.known.may_call(function):
            name = getattr(function, "__qualname__", type(function).__name__)
            raise LoadError(f"its pickle calls {name}, which loading does not do")
        return function(*arguments, **keywords)

    def new_object(self, keywords: dict[str, Any] | None = None) -> None:
        """An instance of a class, made without calling the class."""
        arguments, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, type) or not self.known.may_call(kind):
            raise LoadError(f"its pickle makes a {getattr(kind, '__qualname__', kind)}, which loading does not do")
        self.push(kind.__new__(kind, *arguments, **(keywords or {})))

    def build(self) -> None:
        """Give the object on the stack its state."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, np.ndarray):
            set_array(target, state)
        elif isinstance(target, np.dtype):
            if not isinstance(state, tuple) or state[1] not in ("<", "|", "="):
                raise LoadError("it holds an array whose bytes are in another order")
        elif isinstance(target, OrderedDict) and isinstance(state, dict):
            target.__dict__.update({str(k): v for k, v in state.items()})
        elif isinstance(target, Tensor) or not (self.known.trusted or self.known.may_call(type(target))):
            raise LoadError(f"its pickle changes a {type(target).__name__}, which loading does not do")
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            _set_attributes(target, state)

    def memoize(self, index: int) -> None:
        """Remember the object on the stack."""
        self.memo[index] = self.stack[-1]


def _set_attributes(target: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        object.__setattr__(target, str(name), value)


def checked_key(key: Any, others: bool = False, depth: int = 0) -> Any:
    """A key of a dictionary or set: a plain value or a small tuple of these, so that hashing it is quick.

    `others`: objects that are no tuples, too.
    """
    if isinstance(key, _KEYS) or (others and not isinstance(key, tuple)):
        return key
    if type(key) is tuple and depth < _KEY_DEPTH and len(key) < 64:
        for part in key:
            checked_key(part, others, depth + 1)
        return key
    if isinstance(key, tuple) and depth == 0 and all(isinstance(k, int) for k in key):
        return key
    raise LoadError(f"its pickle uses a {type(key).__name__} as a key")


def checked_keys(keys: Iterable[Any], others: bool = False) -> list[Any]:
    """Keys of dictionaries or sets."""
    return [checked_key(key, others) for key in keys]


def set_array(array: np.ndarray, state: Any) -> None:
    """Fill a pickled ndarray."""
    _, shape, dtype, _, raw = state
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    plain = isinstance(dtype, np.dtype) and not dtype.hasobject and isinstance(raw, bytes)
    size = 1
    for d in shape:
        size *= d if isinstance(d, int) and d >= 0 else -1
    if not plain or size < 0 or size * dtype.itemsize != len(raw):
        raise LoadError("it holds an array whose size makes no sense")
    array.__setstate__((1, tuple(shape), dtype, bool(state[3]), raw))  # type: ignore[arg-type]


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _integer(text: str) -> Any:
    return {"00": False, "01": True}.get(text, None) if text in ("00", "01") else int(text)


def name_of_python_3(module: str, name: str) -> tuple[str, str]:
    """What Python 3 calls what pickles of protocols below 3 name as Python 2 did."""
    return NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))


def _protocol(u: Unpickler) -> None:
    u.protocol = u.bytes(1)[0]


def _global(u: Unpickler, module: Any, name: Any) -> None:
    if not isinstance(module, str) or not isinstance(name, str):
        raise LoadError("its pickle names a global that is no text")
    u.push(u.known.find(*(name_of_python_3(module, name) if u.protocol < 3 else (module, name))))


def _stack_global(u: Unpickler) -> None:
    name, module = u.stack.pop(), u.stack.pop()
    _global(u, module, name)


def _keyword_object(u: Unpickler) -> None:
    keywords = u.stack.pop()
    u.new_object({str(k): v for k, v in keywords.items()})


def _tuple(count: int) -> Callable[[Unpickler], None]:
    def make(u: Unpickler) -> None:
        if len(u.stack) < count:
            raise LoadError("its pickle makes no sense: values are missing")
        values = tuple(u.stack[-count:])
        del u.stack[-count:]
        u.push(values)

    return make


def _pairs(u: Unpickler) -> None:
    values = u.since_mark()
    u.push({})
    u.set_items(values)


def _long(u: Unpickler, count: int) -> None:
    u.push(int.from_bytes(u.bytes(count), "little", signed=True))


_INSTRUCTIONS: dict[int, Callable[[Unpickler], Any]] = {
    code[0]: instruction
    for code, instruction in {
        pickle.PROTO: _protocol,
        pickle.FRAME: lambda u: u.bytes(8),
        pickle.MARK: lambda u: u.push(_MARK),
        pickle.POP: lambda u: u.stack.pop(),
        pickle.POP_MARK: lambda u: u.since_mark(),
        pickle.DUP: lambda u: u.push(u.stack[-1]),
        pickle.NONE: lambda u: u.push(None),
        pickle.NEWTRUE: lambda u: u.push(True),
        pickle.NEWFALSE: lambda u: u.push(False),
        pickle.INT: lambda u: u.push(_integer(u.line())),
        pickle.LONG: lambda u: u.push(int(u.line().removesuffix("L"))),
        pickle.BININT: lambda u: u.push(u.number("<i")),
        pickle.BININT1: lambda u: u.push(u.number("<B")),
        pickle.BININT2: lambda u: u.push(u.number("<H")),
        pickle.LONG1: lambda u: _long(u, u.number("<B")),
        pickle.LONG4: lambda u: _long(u, u.number("<i")),
        pickle.FLOAT: lambda u: u.push(float(u.line())),
        pickle.BINFLOAT: lambda u: u.push(u.number(">d")),
        pickle.SHORT_BINSTRING: lambda u: u.push(_decoded(u.bytes(u.number("<B")))),
        pickle.BINSTRING: lambda u: u.push(_decoded(u.bytes(u.number("<i")))),
        pickle.SHORT_BINUNICODE: lambda u: u.push(_decoded(u.bytes(u.number("<B")))),
        pickle.BINUNICODE: lambda u: u.push(_decoded(u.bytes(u.number("<I")))),
        pickle.BINUNICODE8: lambda u: u.push(_decoded(u.bytes(u.number("<Q")))),
        pickle.SHORT_BINBYTES: lambda u: u.push(u.bytes(u.number("<B"))),
        pickle.BINBYTES: lambda u: u.push(u.bytes(u.number("<I"))),
        pickle.BINBYTES8: lambda u: u.push(u.bytes(u.number("<Q"))),
        pickle.BYTEARRAY8: lambda u: u.push(bytearray(u.bytes(u.number("<Q")))),
        pickle.EMPTY_LIST: lambda u: u.push([]),
        pickle.EMPTY_TUPLE: lambda u: u.push(()),
        pickle.EMPTY_DICT: lambda u: u.push({}),
        pickle.EMPTY_SET: lambda u: u.push(set()),
        pickle.LIST: lambda u: u.push(u.since_mark()),
        pickle.TUPLE: lambda u: u.push(tuple(u.since_mark())),
        pickle.TUPLE1: _tuple(1),
        pickle.TUPLE2: _tuple(2),
        pickle.TUPLE3: _tuple(3),
        pickle.DICT: _pairs,
        pickle.FROZENSET: lambda u: u.push(frozenset(checked_keys(u.since_mark(), u.known.trusted))),
        pickle.APPEND: lambda u: u.append([u.stack.pop()]),
        pickle.APPENDS: lambda u: u.append(u.since_mark()),
        pickle.SETITEM: lambda u: u.set_items([u.stack.pop(-2), u.stack.pop()]),
        pickle.SETITEMS: lambda u: u.set_items(u.since_mark()),
        pickle.ADDITEMS: lambda u: u.add_items(),
        pickle.GLOBAL: lambda u: _global(u, u.line(), u.line()),
        pickle.STACK_GLOBAL: _stack_global,
        pickle.REDUCE: lambda u: u.call(),
        pickle.NEWOBJ: lambda u: u.new_object(),
        pickle.NEWOBJ_EX: _keyword_object,
        pickle.BUILD: lambda u: u.build(),
        pickle.PUT: lambda u: u.memoize(int(u.line())),
        pickle.BINPUT: lambda u: u.memoize(u.number("<B")),
        pickle.LONG_BINPUT: lambda u: u.memoize(u.number("<I")),
        pickle.MEMOIZE: lambda u: u.memoize(len(u.memo)),
        pickle.GET: lambda u: u.push(u.memo[int(u.line())]),
        pickle.BINGET: lambda u: u.push(u.memo[u.number("<B")]),
        pickle.LONG_BINGET: lambda u: u.push(u.memo[u.number("<I")]),
        pickle.BINPERSID: lambda u: u.push(u.persistent(u.stack.pop())),
    }.items()
}
