"""Names of `torch.futures`: values that are there later, with PyTorch's rules for errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that somebody sets once and others wait for, in any thread."""

    def __init__(self, *, devices: Any = None):
        self._changing, self._ready = threading.Lock(), threading.Event()
        self._callbacks: list[Callable[[Future[T]], Any]] = []
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._ready.is_set()

    def wait(self) -> T:
        """The result, once it is there. Raises the error that was set instead."""
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def value(self) -> T:
        """The result, or its error. Raises RuntimeError where there is neither yet."""
        if not self.done():
            raise RuntimeError("Future.value(): the future is not completed")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Give the result. Raises RuntimeError the second time."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error for a result."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, result: Any, error: BaseException | None) -> None:
        with self._changing:
            if self.done():
                raise RuntimeError("Attempting to mark a completed Future as complete again.")
            self._result, self._error = result, error
            self._ready.set()
        for callback in self._callbacks:
            self._call(callback)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call a function with this future when it is done, or now; its errors are logged."""
        with self._changing:
            if not self.done():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _call(self, callback: Callable[[Future[T]], Any]) -> None:
        try:
            callback(self)
        except Exception:
            logging.getLogger(__name__).exception("a callback of a future failed")

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """The future of what a function gives for this one when it is done; RuntimeError stands for its errors."""
        following: Future[Any] = Future()

        def run(future: Future[T]) -> None:
            try:
                result = callback(future)
            except Exception as error:
                kind = type(error).__name__
                failed = RuntimeError(f"Got the following error when running the callback: {kind}: {error}")
                failed.__cause__ = error
                following.set_exception(failed)
            else:
                following.set_result(result)

        self.add_done_callback(run)
        return following


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of all of them done. It has the first error that one of them has."""
    collected: Future[list[Future[Any]]] = Future()
    left, counting = len(futures), threading.Lock()

    def count(_: Any = None) -> None:
        nonlocal left
        with counting:
            left -= 1
            if left:
                return
        error = next((f._error for f in futures if f._error is not None), None)
        collected._complete(futures, error)

    if not futures:
        collected.set_result(futures)
    for future in futures:
        future.add_done_callback(count)
    return collected


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all, once they are there. Raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
