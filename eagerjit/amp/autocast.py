"""autocast: in its context matrix products compute in half precision, and what needs it in float32.

The lists are those of PyTorch on the CPU, for devices too. Conversions are ops on the tape, so gradients come in the
dtypes of what was converted. Ops that convert (`eagerjit/casts.py`) leave the native fast path while it is on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from eagerjit.calling.casts import CASTS, LOWER, WIDE
from eagerjit.cuda.present import found
from eagerjit.effects.cautions import caution
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.dtypes import DType
from eagerjit.state import set_casting, state
from eagerjit.tensors.placement import device_of, tensors_among
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "xla", "mtia", "meta", "maia")


class Casting:
    """What autocast does to the arguments of ops, by where they lie; two are the same if they convert to the same."""

    __slots__ = ("wanted",)

    def __init__(self, wanted: dict[str, DType]):
        self.wanted = wanted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Casting) and other.wanted == self.wanted

    def __hash__(self) -> int:
        return hash(tuple(self.wanted.items()))

    def dtype_for(self, arguments: Any) -> DType | None:
        """The lower precision where these arguments lie, None where autocast is off."""
        if len(self.wanted) == 1 and "cpu" in self.wanted and not DeviceArray.exist:
            return self.wanted["cpu"]
        kinds = {device_of(t).type for t in tensors_among(arguments)} - {"cpu"}
        return self.wanted.get(kinds.pop() if kinds else "cpu")

    def convert(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of an op in the dtypes that it computes with."""
        if name not in CASTS:
            return arguments
        dtype = self.dtype_for(arguments)
        if dtype is None:
            return arguments
        if name in LOWER:
            return tuple([_cast(a, dtype) for a in arguments])
        if name in WIDE:
            return tuple([_cast(a, dtypes.float32) for a in arguments])
        return _alike(arguments)

    def lower(self, tensors: Any) -> list[Any]:
        """Tensors in the lower precision."""
        dtype = self.dtype_for(tensors)
        return list(tensors) if dtype is None else [_cast(t, dtype) for t in tensors]


def _cast(value: Any, dtype: DType) -> Any:
    if isinstance(value, Tensor):
        kind = value.dtype
        if kind is dtype or kind is dtypes.float64 or not kind.is_floating_point:
            return value
        return value.to(dtype)
    return type(value)([_cast(v, dtype) for v in value]) if type(value) in (list, tuple) else value


def _alike(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    tensors = [t for a in arguments for t in (a if type(a) in (list, tuple) else [a]) if isinstance(t, Tensor)]
    kinds = {t.dtype for t in tensors if t.dtype.is_floating_point}
    if len(kinds) < 2 or dtypes.float64 in kinds:
        return arguments
    return tuple(_cast(a, dtypes.float32) for a in arguments)


class Defaults:
    """Process-wide defaults: the dtype per kind of device."""

    dtype: ClassVar[dict[str, DType]] = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a kind of device."""
    return device_type in _DEVICES


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a kind of device; for CUDA unless it is given."""
    return state.casting is not None and (device_type or "cuda") in state.casting.wanted


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    return is_autocast_enabled("cpu")


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype of the lower precision: now, or when autocast is turned on."""
    if is_autocast_enabled(device_type):
        return state.casting.wanted[device_type]  # type: ignore[no-any-return]
    if device_type not in Defaults.dtype:
        raise RuntimeError(f"unsupported scalarType for autocast on device type {device_type!r}")
    return _default(device_type)


def _default(device_type: str) -> DType:
    """The lower precision where none is named: a compiled call has to find it again."""
    dtype = Defaults.dtype.get(device_type, dtypes.bfloat16)
    if state.tracer is not None and (journal := state.tracer.journal) is not None:
        journal.checks.append(lambda: Defaults.dtype.get(device_type, dtypes.bfloat16) is dtype)
    return dtype


def get_autocast_cpu_dtype() -> DType:
    """The dtype of the lower precision."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """The dtype of the lower precision on CUDA devices."""
    return get_autocast_dtype("cuda")


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Make another dtype the lower precision."""
    Defaults.dtype[device_type] = dtype


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turn autocast on or off until further notice, for a kind of device; `set_autocast_enabled(True)` for CUDA."""
    if state.tracer is not None:
        raise TraceBreak("autocast is turned on or off for what comes after the function", user_line())
    kind, wanted = ("cuda", bool(device_type)) if enabled is None else (device_type, bool(enabled))
    kept = {} if state.casting is None else {k: v for k, v in state.casting.wanted.items() if k != kind}
    if wanted:
        kept[kind] = Defaults.dtype.get(kind, dtypes.bfloat16)
    switch(Casting(kept) if kept else None)


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled` for the CPU."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype` for the CPU."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype` for CUDA devices."""
    set_autocast_dtype("cuda", dtype)


def clear_autocast_cache() -> None:
    """Nothing: converted parameters are not kept."""


def switch(casting: Casting | None) -> Casting | None:
    """Turn autocast on or off; compiled calls look at it when the epoch has moved."""
    before = set_casting(casting)
    if ((before is None) is not (casting is None) or before != casting) and state.tracer is None:
        mode.bump_epoch()
    return before


class autocast:
    """In this context matrix products, convolutions and attention compute in a lower precision.

    autocast("cuda"), autocast("cpu", dtype=eagerjit.bfloat16), autocast("cpu", enabled=False); a decorator too.
    It is for tensors on devices of that kind; one that there is none of turns it off with a warning.
    """

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _DEVICES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device, self.fast_dtype = device_type, dtype or _default(device_type)
        self._enabled = bool(enabled)
        if self._enabled and device_type != "cpu" and not (device_type == "cuda" and found() is not None):
            name = device_type.upper()
            caution(
                f"User provided device_type of '{device_type}', but {name} is not available. Disabling"
            )
            self._enabled = False
        if self._enabled and self.fast_dtype not in (dtypes.bfloat16, dtypes.float16):
            name = device_type.upper()
            caution(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast only "
                "supports dtype of torch.bfloat16, torch.float16 currently."
            )
            self._enabled = False
        self._before: list[Casting | None] = []

    def __enter__(self) -> autocast:
        wanted = {} if state.casting is None else {k: v for k, v in state.casting.wanted.items() if k != self.device}
        if self._enabled:
            wanted[self.device] = self.fast_dtype
        self._before.append(switch(Casting(wanted) if wanted else None))
        return self

    def __exit__(self, *exc: object) -> None:
        switch(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str = "cpu", cast_inputs: DType | None = None
) -> Any:
    """Decorates a Function's forward: with `cast_inputs` it runs without autocast, on floating inputs of that dtype."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function = fwd

    @functools.wraps(function)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        casting = state.casting
        ctx._casting = casting if cast_inputs is None else None
        if cast_inputs is None or casting is None:
            return function(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return function(ctx, *_cast(args, cast_inputs), **{k: _cast(v, cast_inputs) for k, v in kwargs.items()})

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Any:
    """Decorates a Function's backward: it runs under the autocast that its forward ran under."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    function = bwd

    @functools.wraps(function)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        before = switch(ctx._casting)
        try:
            return function(ctx, *args, **kwargs)
        finally:
            switch(before)

    return backward
