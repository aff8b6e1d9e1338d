"""The driver: libcuda's functions with their statuses turned into exceptions. Needs no headers and no C compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from eagerjit.runtime.gpu.errors import OUT_OF_MEMORY, AcceleratorError, OutOfMemoryError
from eagerjit.runtime.gpu.functions import PROTOTYPES

LIBRARY = "libcuda.so.1"


class Library(Protocol):
    """Where the driver's functions come from."""

    def bind(self, name: str, prototype: Any) -> Callable[..., int]:
        """The function under this name; AttributeError where there is none."""
        ...

    def address(self, name: str, prototype: Any) -> int:
        """Where the function lies."""
        ...


class SharedLibrary:
    """Functions of a shared library; OSError where it cannot be loaded."""

    def __init__(self, name: str = LIBRARY):
        self._library = ctypes.CDLL(name)

    def bind(self, name: str, prototype: Any) -> Callable[..., int]:
        """The function at the address that the library has under this name."""
        return prototype((name, self._library))  # type: ignore[no-any-return]

    def address(self, name: str, prototype: Any) -> int:
        """Where the library has it."""
        return ctypes.cast(prototype((name, self._library)), ctypes.c_void_p).value or 0


class Statuses:
    """The functions as they are: each returns its status. A function is looked up when it is first used."""

    def __init__(self, library: Library):
        self._library = library

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in PROTOTYPES:
            raise AttributeError(name)
        function = self._library.bind(name, PROTOTYPES[name])
        setattr(self, name, function)
        return function


class Driver:
    """`driver.cuInit(0)` calls the function and raises what its status means; `driver.status.cuInit(0)` returns it."""

    def __init__(self, library: Library):
        self._library, self.status = library, Statuses(library)

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self.status, name)

        def checked(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise self.error(status, name)

        setattr(self, name, checked)
        return checked

    def error(self, status: int, function: str) -> RuntimeError:
        """The exception for a status that a function returned."""
        message = f"CUDA error: {self._text('cuGetErrorString', status)}"
        message += f" ({self._text('cuGetErrorName', status)}, reported by {function})"
        return OutOfMemoryError(message) if status == OUT_OF_MEMORY else AcceleratorError(message, status)

    def _text(self, function: str, status: int) -> str:
        text = ctypes.c_char_p()
        if getattr(self.status, function)(status, ctypes.byref(text)) or text.value is None:
            return f"status {status}"
        return text.value.decode()

    def address(self, name: str) -> int:
        """Where a function lies, for native code."""
        return self._library.address(name, PROTOTYPES[name])

    def integer(self, name: str, *arguments: Any) -> int:
        """What a function stores through its first argument, a pointer to a number or a handle; NULL is 0."""
        result = PROTOTYPES[name]._argtypes_[0]._type_()
        getattr(self, name)(ctypes.byref(result), *arguments)
        return int(result.value or 0)
