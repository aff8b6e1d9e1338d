"""Switches that programs set in passing: what they ask for here always holds, or has no bearing on the CPU."""

from __future__ import annotations

from typing import Any

from eagerjit.devices import CPU, Device
from eagerjit.effects.cautions import caution
from eagerjit.runtime.gpu.precision import precision as precision_
from eagerjit.state import Defaults, set_device, state
from eagerjit.tensors.placement import wanted

_deterministic = {"enabled": False, "warn_only": False}
_warn_always = False
_interop_threads = 1


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Noted: every result is deterministic anyway."""
    _deterministic.update(enabled=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given."""
    return _deterministic["enabled"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was given."""
    return _deterministic["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """One of "default", "warn" and "error", or 0 to 2."""
    modes = ("default", "warn", "error")
    if debug_mode not in (*modes, 0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected one of {modes} or 0 to 2, but got {debug_mode}")
    number = modes.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2."""
    return 0 if not _deterministic["enabled"] else 2 - _deterministic["warn_only"]


def set_float32_matmul_precision(precision: str) -> None:
    """How exactly GPUs multiply float32: "highest" as it is, "high" and "medium" as TF32."""
    if precision not in ("highest", "high", "medium"):
        text = f"{precision!r} is not one of 'highest', 'high', or 'medium'; the current choice is {precision_.name!r}."
        caution(text)
        return
    precision_.name = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given."""
    return precision_.name


def set_default_device(device: Any) -> None:
    """Make tensors on this device where no other is asked for, in this thread; None: on the CPU."""
    set_device(None if device is None else wanted(device))


def get_default_device() -> Device:
    """Where tensors are made that ask for no device."""
    return CPU if state.device is None else state.device


def set_default_tensor_type(t: Any) -> None:
    """Make a floating type's dtype and place those of new tensors: `"torch.cuda.DoubleTensor"` or the type."""
    import eagerjit
    from eagerjit.tensors.legacy import device_of_type, type_of

    dtype, place = type_of(t), wanted(device_of_type(t))
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    eagerjit.set_default_dtype(dtype)
    if place is not None or state.device is Defaults.device_of_type:
        set_device(place)
        Defaults.device_of_type = place


def set_num_interop_threads(num: int) -> None:
    """Noted: operations run one after the other."""
    global _interop_threads
    if num < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop_threads = num


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given."""
    return _interop_threads


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the normal range are always kept."""
    return False


def set_warn_always(b: bool) -> None:
    """Noted."""
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return _warn_always


def is_storage(obj: Any) -> bool:
    """Whether an object is what `storage` or `untyped_storage` gives."""
    from eagerjit.ops.storages import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


def get_device_module(device: Any = None) -> Any:
    """The module of a device: `eagerjit.cpu` or `eagerjit.cuda`."""
    import importlib

    return importlib.import_module(f"eagerjit.{CPU.type if device is None else Device(device).type}")


def typename(obj: Any) -> str:
    """The full name of a tensor's type, a class or an object's class."""
    from eagerjit.tensors.tensor import Tensor

    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"


def compiled_with_cxx11_abi() -> bool:
    """True, as of PyTorch's own builds."""
    return True
