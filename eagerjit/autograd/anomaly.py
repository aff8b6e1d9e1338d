"""Backward under watch: the operation whose gradient is the first not to be a number is named, with its line."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eagerjit.autograd import walk_graph
from eagerjit.runtime import mode
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line


class set_detect_anomaly:
    """Turn the watch over gradients on or off, from here on or, as a context, until it ends.

    mode        whether a backward pass warns of the forward line of an operation whose gradient raises
    check_nan   whether a gradient that holds a NaN raises RuntimeError
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self.before = Defaults.anomaly
        switch_anomaly((check_nan,) if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        switch_anomaly(self.before)


class detect_anomaly:
    """A context in which a gradient that holds a NaN raises RuntimeError, naming the forward line it belongs to."""

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        message = "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled"
        warnings.warn(f"{message} for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        self.before = Defaults.anomaly
        switch_anomaly((self.check_nan,))

    def __exit__(self, *exc: object) -> None:
        switch_anomaly(self.before)


def is_anomaly_enabled() -> bool:
    """Whether gradients are watched."""
    return Defaults.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a gradient that holds a NaN raises."""
    return Defaults.anomaly is None or Defaults.anomaly[0]


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn the watch over gradients on or off."""
    switch_anomaly((check_nan,) if mode else None)


def switch_anomaly(wanted: tuple[bool] | None) -> None:
    """Watch gradients for NaN, or not for NaN, or (None) not at all."""
    if wanted != Defaults.anomaly:
        Defaults.anomaly = wanted
        mode.bump_epoch()  # compiled functions run eagerly meanwhile


class _Watched:
    """Stands for an operation on the tape while a walk is watched."""

    def __init__(self, op: Any, node: Any):
        self._op, self._node = op, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)

    def backward(self, *arguments: Any) -> Any:
        """The operation's gradients, if they are numbers."""
        return self._checked(self._op.backward, arguments)

    def backward_onto(self, *arguments: Any) -> Any:
        """The operation's gradients added to what is known, if they are numbers."""
        return self._checked(self._op.backward_onto, arguments)

    def _checked(self, backward: Any, arguments: tuple[Any, ...]) -> Any:
        name = repr(self._node)[1:-1]
        try:
            results = backward(*arguments)
        except Exception:
            self._warn(name)
            raise
        if is_anomaly_check_nan_enabled():
            for position, result in enumerate(results):
                if any(_has_nan(g) for g in (result if isinstance(result, list) else [result])):
                    self._warn(name)
                    raise RuntimeError(f"Function '{name}' returned nan values in its {position}th output.")
        return results

    def _warn(self, name: str) -> None:
        place = self._node.source or "an unknown line"
        warnings.warn(f"Error detected in {name}. The forward call that caused the error: {place}", stacklevel=2)


def _has_nan(gradient: Any) -> bool:
    if not isinstance(gradient, Tensor) or not gradient.dtype.is_differentiable:
        return False
    return bool((gradient != gradient).any())


@contextlib.contextmanager
def watched(roots: Sequence[Tensor], create_graph: bool) -> Iterator[None]:
    """A context in which a walk from these roots checks the gradient of every operation."""
    if state.tracer is not None:
        raise TraceBreak("a backward pass is watched for anomalies", user_line())
    with stood_in_for(roots, create_graph, _Watched):
        yield


@contextlib.contextmanager
def stood_in_for(roots: Sequence[Tensor], create_graph: bool, stand_in: Callable[[Any, Any], Any]) -> Iterator[None]:
    """A context in which stand_in(op, node) stands for each operation that a walk from these roots meets."""
    nodes = list(walk_graph.collect(roots, None, create_graph)[0])
    ops = [node.op for node in nodes]
    for node, op in zip(nodes, ops, strict=True):
        node.op = stand_in(op, node)
    try:
        yield
    finally:
        for node, op in zip(nodes, ops, strict=True):
            node.op = op
