"""Where user code is while it is traced, and what ends a trace."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NoReturn

from eagerjit.runtime import mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.source import is_library, line_here
from eagerjit.runtime.trace_functions import of_recording
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, is_asked


class TraceBreak(BaseException):
    """The function did something that a trace cannot represent; the call runs eagerly instead.

    No Exception, so that user code which catches what it does not know does not hide it; where it is hidden all the
    same (`except:`), `Tracer.broken` keeps it.
    """

    def __init__(self, reason: str, source: str):
        super().__init__(f"{source}: {reason}")
        self.reason, self.source = reason, source
        if state.tracer is not None:
            state.tracer.broken = state.tracer.broken or self


_MOST_MET = 32


class NotYet(TraceBreak):
    """What ends the recording of one call, which runs eagerly: the next one will be recorded.

    It is for what first calls do to set things up: imports, what happens under locks, parts that a Module is given.
    """

    def is_new(self, met: set[tuple[str, str]]) -> bool:
        """Whether it is for a first time, and not the last of ever new ones."""
        known = (self.reason, self.source) in met or len(met) >= _MOST_MET
        met.add((self.reason, self.source))
        return not known


class MadeText(TraceBreak):
    """What ends a recording that writes a tensor's values, as the message of an error does that the call may raise."""


class Renewed(TraceBreak):
    """What ends a recording that has changed what its call begins with: the call is recorded again."""


class ByIdentity(TraceBreak):
    """What ends a recording that asks which object an argument is, where it is a copy.

    kind    the class whose objects calls are to know by identity; None where they cannot
    """

    kind: type | None = None


class Evaluated(TraceBreak):
    """What ends a recording that has an operation which no kernel computes, but NumPy does."""


def refuse_evaluated(dtype: DType) -> NoReturn:
    """End a recording that has an operation on such numbers which no kernel computes."""
    raise Evaluated(f"{'complex' if dtype.is_complex else dtype} numbers are computed by NumPy", user_line())


def refuse_subclass(tensor: Tensor) -> None:
    """End a recording that meets a tensor of a class that is asked at every call, where it compiles nothing."""
    kind, tracer = type(tensor), state.tracer
    if is_asked(kind) and (hasattr(kind, "not_compiled") or tracer is None or not tracer.asks_classes):
        asked = f"{kind.__name__} has a __torch_function__, which is asked at every call"
        raise TraceBreak(getattr(kind, "not_compiled", asked), user_line())


WATCHED = (
    "eagerjit.amp.grad_scaler", "eagerjit.optim.lr_scheduler", "eagerjit.optim.lr_cycles", "eagerjit.optim.swa_utils",
    "eagerjit.nn.utils.norms", "eagerjit.nn.utils.prune", "eagerjit.utils.data.dataset", "eagerjit.utils.data.sampler",
    "eagerjit.library",
    "collections", "contextlib", "eagerjit.watching.library_in_python", "eagerjit.effects.shuffling",
    *(f"eagerjit.distributions.{name}" for name in (
        "bounded", "combined", "continuous", "counts", "discrete", "distribution", "gammas", "kl",
        "kl_pairs", "low_rank", "matrices", "multivariate", "relaxed", "transformed", "transforms.composed",
        "transforms.elementwise", "transforms.structure",
        "transforms.vectors",  # not `transforms.transform`, which keeps inverses and the last values
    )),
)  # fmt: skip
"""Modules of libraries whose objects are Python's as those of users are: what their code does is watched."""


@functools.cache
def _is_watched(file: str) -> bool:
    """Whether a file, whose code is there, is that of one of these modules."""
    return any(getattr(sys.modules.get(name), "__file__", None) == file for name in WATCHED)


def is_internal(code: CodeType) -> bool:
    """Whether this code belongs to the library, what it runs on, or the standard library rather than to the user.

    Code made of text is watched: the user may have made it, and methods of dataclasses read fields.
    """
    file = code.co_filename
    return file != "<string>" and is_library(file) and not _is_watched(file)


def pause_observation() -> Any:
    """Stop noting lines while the library's own code runs; `resume_observation` undoes it."""
    function = of_recording()
    if function is not None:
        sys.settrace(None)
    return function


def resume_observation(function: Any) -> None:
    """Note lines again."""
    if function is not None:
        sys.settrace(function)


def note_looked_up(owner: Any, name: str) -> None:
    """The library is about to call what an attribute of the user's holds, of which no instruction tells."""
    function = of_recording() or (None if state.tracer is None else state.tracer.observation)
    observer = getattr(function, "__self__", None)
    if observer is not None:
        observer.look_up(owner, name)


def call_back(function: Callable[..., Any], *args: Any) -> Any:
    """Call the user's function from code that is not watched: a hook, or the gradient of an operation of theirs."""
    tracer, plain = state.tracer, mode.set_plain(False)
    observation = None if tracer is None or sys.gettrace() is not None else tracer.observation
    watched = observation is not None
    if watched:
        sys.settrace(observation)
    try:
        return function(*args)
    finally:
        if watched:
            sys.settrace(None)
        mode.set_plain(plain)


def user_line() -> str:
    """`file:line` of the user's code that is running."""
    return line_here()


def source(frame: FrameType) -> str:
    """`file:line` of the instruction that a frame, or the user's that has called it, is about to execute."""
    while is_library(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
