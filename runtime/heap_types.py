"""Classes whose instances native code calls and reads, made with CPython's type API through ctypes.

Two steps keep importing cheap and memory management CPython's own. A *raw base* adds 64-bit words at fixed offsets; a
Python class on top of it adds objects and methods, as any class with `__slots__` does. Once native code is loaded,
`vectorcall_type` derives a type of the same layout that is called through one of those words, and instances move to
it by assigning `__class__`.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from types import FunctionType
from typing import Any

from eagerjit.runtime.cpython import function

HEAD_BYTES = object.__basicsize__

_T_LONGLONG, _T_PYSSIZET, _READONLY = 17, 19, 1
_TP_CALL, _TP_DESCR_GET, _TP_MEMBERS = 50, 54, 72
_DEFAULT, _BASETYPE, _HAVE_VECTORCALL, _METHOD_DESCRIPTOR = 1 << 18, 1 << 10, 1 << 11, 1 << 17
_METH_NOARGS, _METH_O = 4, 8


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_immortal: list[Any] = []  # what types point to for as long as the process lives


def supported() -> bool:
    """Whether this interpreter is one whose object layout we know: CPython with a GIL, 64 bits, no debug fields."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and sys.maxsize == 2**63 - 1
        and HEAD_BYTES == 16
        and not hasattr(sys, "gettotalrefcount")
        and sys.platform != "win32"
    )


def _make(name: str, size: int, flags: int, slots: list[tuple[int, int]], base: type | None) -> type:
    table = (_Slot * (len(slots) + 1))(*(_Slot(*slot) for slot in slots))
    spec = _Spec(name.encode(), size, 0, flags, table)
    _immortal.extend((table, spec))
    make = function("PyType_FromSpecWithBases", ctypes.py_object, ctypes.c_void_p, ctypes.py_object)
    made: type = make(ctypes.addressof(spec), (base or object,))
    return made


def _members(entries: list[tuple[str, int, int, int]]) -> int:
    table = (_Member * (len(entries) + 1))(*(_Member(n.encode(), t, at, f, None) for n, t, at, f in entries))
    _immortal.append(table)
    return ctypes.addressof(table)


def raw_base(name: str, words: tuple[str, ...]) -> Any:
    """A class whose instances begin with these words, integer attributes at offsets 16, 24, ..., all zero at first."""
    if not supported():
        return type(name, (), {"__slots__": words})
    entries = [(word, _T_LONGLONG, HEAD_BYTES + 8 * i, 0) for i, word in enumerate(words)]
    size = HEAD_BYTES + 8 * len(words)
    return _make(f"eagerjit.runtime.{name}", size, _DEFAULT | _BASETYPE, [(_TP_MEMBERS, _members(entries))], None)


def _slot_of(owner: type, slot: int) -> int:
    """A C function in a type's slot."""
    get = function("PyType_GetSlot", ctypes.c_void_p, ctypes.py_object, ctypes.c_int)
    return int(get(owner, slot))


def vectorcall_type(base: type) -> Any:
    """A subclass of `base` with the same layout, called through the function address in its first word.

    Instances stored on a class bind like functions, and are called as methods without a bound method being made.
    """
    members = _members([("__vectorcalloffset__", _T_PYSSIZET, HEAD_BYTES, _READONLY)])
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
    assert call is not None
    slots = [(_TP_CALL, call), (_TP_DESCR_GET, _slot_of(FunctionType, _TP_DESCR_GET)), (_TP_MEMBERS, members)]
    flags = _DEFAULT | _HAVE_VECTORCALL | _METHOD_DESCRIPTOR
    made = _make(f"{base.__module__}.{base.__name__}", base.__basicsize__, flags, slots, base)
    made.__doc__ = base.__doc__
    return made


def install_native_method(owner: type, name: str, address: int, doc: str, arguments: bool = True) -> None:
    """Makes machine code `PyObject *f(PyObject *self, PyObject *argument)` a method of a class.

    Without `arguments` it is called with none, and its own is null.
    """
    definition = _Method(name.encode(), address, _METH_O if arguments else _METH_NOARGS, doc.encode())
    _immortal.append(definition)
    make = function("PyDescr_NewMethod", ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
    setattr(owner, name, make(owner, ctypes.addressof(definition)))


def slot_offset(owner: type, name: str) -> int:
    """Where instances of a class with `__slots__` keep slot `name`, found by storing an object there and looking.

    RuntimeError where the object does not show up in exactly one word.
    """
    return slot_in(object.__new__(owner), name)


def slot_in(instance: Any, name: str) -> int:
    """As `slot_offset`, with an instance whose slot may be changed to None."""
    owner, mark = type(instance), object()
    setattr(instance, name, mark)
    words = (ctypes.c_int64 * (owner.__basicsize__ // 8)).from_address(id(instance))
    found = [8 * i for i, word in enumerate(words) if word == id(mark)]
    setattr(instance, name, None)
    if len(found) != 1:
        raise RuntimeError(f"cannot find slot {name} in instances of {owner.__name__}")
    return found[0]
