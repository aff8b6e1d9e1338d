"""The CPU under the names that devices' modules have."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The name `cpu`."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one."""


def synchronize(device: Any = None) -> None:
    """Nothing is ever outstanding."""


def is_initialized() -> bool:
    """True."""
    return True


class Stream:
    """A queue of work, of which there is one: everything is done when a call returns."""

    def __init__(self, priority: int = -1):
        """Of any priority."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing is ever outstanding."""

    def wait_event(self, event: Any) -> None:
        """Nothing is ever outstanding."""

    def record_event(self) -> None:
        """Nothing is ever outstanding."""


class Event:
    """A moment in a queue of work; it has always come."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Marks the moment."""

    def synchronize(self) -> None:
        """Nothing is ever outstanding."""

    def wait(self, stream: Any = None) -> None:
        """Nothing is ever outstanding."""


_current = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream of the innermost `with stream(...)`."""
    return _current


class StreamContext:
    """Makes a stream the current one within `with`; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream
        self._before: list[Stream] = []

    def __enter__(self) -> None:
        global _current
        self._before.append(_current)
        _current = _current if self.stream is None else self.stream

    def __exit__(self, *raised: object) -> None:
        global _current
        _current = self._before.pop()


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream is the current one."""
    return StreamContext(stream)


def __getattr__(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module("eagerjit.amp.cpu")
    raise AttributeError(f"module 'eagerjit.cpu' has no attribute '{name}'")
