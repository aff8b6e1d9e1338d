"""What this thread is doing: the trace being recorded. Grad mode lives in the runtime, where native code reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.debugging import is_debugged

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer


class _State(threading.local):
    tracer: Tracer | None = None
    inference: bool = False
    casting: Any = None
    """What autocast does to arguments, None while it is off."""
    device: Any = None
    """The device on which tensors are made that say no other, None for the host."""
    function_modes: tuple[Any, ...] = ()
    """What sees every call of a public function, innermost last."""
    saving: Any = None
    """What packs the values that operations keep for their gradients, None where nothing does."""
    counting: Any = None
    """What is told of every operation that is computed, None where nothing is."""
    begun: list[Any] | None = None
    """Tensors that began to require gradients here, None where nobody asks for them."""
    leaves: tuple[Tracer | None, list[Any]] | None = None
    """What records the function that a transform runs, and the leaves that it has made; None outside of any."""
    exporting: bool = False
    """Whether a model is recorded for another program: what it asks of itself may not depend on values."""
    taken_apart: bool = False
    """Whether the operations of a compiled call are made, for which those that it makes in turn are not compiled."""
    parametrized: dict[Any, Any] | None = None
    """What parametrizations have computed, None where it is not kept."""
    reparametrized: tuple[Any, ...] = ()
    """What gives Modules again the parameters that they have while they are called functionally, innermost last."""


state = _State()


class Defaults:
    """Process-wide defaults."""

    dtype = dtypes.float32
    anomaly: tuple[bool] | None = None
    """Whether a watched backward pass looks for NaN; None where none is watched."""
    module_hooks: ClassVar[dict[int, Any]] = {}
    """Hooks of all Modules."""
    device_of_type: Any = None
    """The device that `set_default_tensor_type` has chosen, None for the host."""
    methods = 0
    """How often methods of Tensor were replaced."""


def note_leaf(tensor: Any) -> Any:
    """Tell the transform that runs, if one does, of a tensor that was just made: no gradient leaves it to there."""
    if state.leaves is None:
        return tensor
    tracer, leaves = state.leaves
    if tracer is state.tracer:  # what is recorded meanwhile keeps its leaves to itself
        leaves.append(tensor)
    return tensor


def runs_plainly() -> bool:
    """Whether jitted functions run as they are in this thread: another one is recorded, or operations or lines are
    watched."""
    watched = Defaults.anomaly is not None or state.saving is not None or bool(state.function_modes)
    watched = watched or state.counting is not None or state.taken_apart
    watched = watched or bool(Defaults.module_hooks) or state.parametrized is not None
    return watched or state.tracer is not None or is_debugged()


def set_tracer(tracer: Tracer | None) -> Tracer | None:
    """Make `tracer` the one that records this thread's operations; returns the one before."""
    before = state.tracer
    state.tracer = tracer
    _close_fast_paths()
    return before


def note_methods() -> None:
    """Methods of Tensor are others now. Compiled calls look at them when the epoch has moved."""
    Defaults.methods += 1
    mode.bump_epoch()


def swap_device(device: Any) -> Any:
    """`set_device` for a while in which no compiled call looks at it."""
    before = state.device
    state.device = device
    mode.set_elsewhere(device is not None)
    return before


def set_device(device: Any) -> Any:
    """Make tensors on this device by default in this thread, None: on the host; returns the one before.

    Compiled calls look at it when the epoch has moved.
    """
    before = swap_device(device)
    if before is not device and state.tracer is None:
        mode.bump_epoch()
    return before


def keep_parametrized(values: dict[Any, Any] | None) -> None:
    """Keep in this dictionary what parametrizations compute in this thread; None: nowhere, from here on.

    Compiled calls look at it when the epoch has moved.
    """
    state.parametrized = values
    if values is not None and state.tracer is None:
        mode.bump_epoch()


def set_casting(casting: Any) -> Any:
    """Turn autocast on or off in this thread; returns what it was. Native code does not convert: Python does."""
    before = state.casting
    state.casting = casting
    mode.set_casting(casting is not None)
    return before


def modes() -> tuple[Any, ...]:
    """What operations depend on beside their arguments: autocast, where tensors are made, and in which dtype."""
    return state.casting, state.device, Defaults.dtype


@contextmanager
def in_modes(wanted: tuple[Any, ...]) -> Iterator[None]:
    """Let these be the modes for a while."""
    before = modes()
    _set_modes(wanted)
    try:
        yield
    finally:
        _set_modes(before)


def _set_modes(wanted: tuple[Any, ...]) -> None:
    from eagerjit import set_default_dtype

    set_casting(wanted[0])
    swap_device(wanted[1])
    set_default_dtype(wanted[2])


def set_saving(saving: Any) -> Any:
    """Pass values kept for gradients through hooks in this thread, or no longer; returns what it was."""
    before = state.saving
    state.saving = saving
    _close_fast_paths()
    return before


def set_counting(counting: Any) -> Any:
    """Tell this of every operation that this thread computes, or (None) nothing; returns what it was."""
    before = state.counting
    state.counting = counting
    _close_fast_paths()
    return before


def set_function_modes(modes: tuple[Any, ...]) -> None:
    """Let these see every call of a public function in this thread."""
    state.function_modes = modes
    _close_fast_paths()


def _close_fast_paths() -> None:
    """Native code computes on its own only where calls are neither recorded, nor packed, nor seen."""
    watching = state.tracer, state.saving, state.counting
    mode.set_tracing(any(x is not None for x in watching) or bool(state.function_modes) or state.taken_apart)


class untraced:
    """A context in which operations run eagerly although a trace is being recorded."""

    def __enter__(self) -> None:
        self._before = set_tracer(None)

    def __exit__(self, *exc: object) -> None:
        set_tracer(self._before)


class taken_apart:
    """A context in which compiled functions put all that they compute on the tape, as the plain ones do."""

    def __enter__(self) -> None:
        self._before, state.taken_apart = state.taken_apart, True
        _close_fast_paths()

    def __exit__(self, *exc: object) -> None:
        state.taken_apart = self._before
        _close_fast_paths()
