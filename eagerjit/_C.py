"""The few names of PyTorch's compiled core that programs in Python ask for."""

from __future__ import annotations

from enum import Enum
from typing import Any

from eagerjit import _functorch as _functorch
from eagerjit import _nn as _nn
from eagerjit.backends import cudnn
from eagerjit.ops.storages import StorageBase as StorageBase
from eagerjit.runtime import mode
from eagerjit.script import types as script_types
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor, plain_function

_TensorMeta = type(Tensor)
globals().update({name: getattr(script_types, name) for name in (*script_types.NAMES, "JitType")})


class Graph:
    """What TorchScript makes of a function; nothing is an instance, nor of what it consists of."""


class Node(Graph):
    """An operation there."""


class Value(Graph):
    """A result there."""


class _distributed_rpc:
    """What calls of functions in other processes consist of, which there are none of."""

    class PyRRef:
        """An object in another process; nothing is an instance."""


def _log_api_usage_once(*event: Any) -> None:
    """Nothing: no usage is logged."""


_jit_set_profiling_executor = _jit_set_profiling_mode = _jit_set_texpr_fuser_enabled = _log_api_usage_once
_log_api_usage_metadata = _log_api_usage_once


def _are_functorch_transforms_active() -> bool:
    """Whether a function transform runs in this thread."""
    from eagerjit.func.inner import InnerTracer

    return isinstance(state.tracer, InnerTracer)


def _get_cudnn_enabled() -> bool:
    """The switch `torch.backends.cudnn.enabled`."""
    return bool(cudnn.enabled)


def _set_cudnn_enabled(arg: bool) -> None:
    """Set that switch."""
    cudnn.enabled = arg


def _get_default_device() -> str:
    """The kind of device that `set_default_tensor_type` has chosen."""
    chosen = Defaults.device_of_type
    return "cpu" if chosen is None else str(chosen.type)


def _is_tracing() -> bool:
    """False: nothing is ever traced for TorchScript."""
    return False


def _get_tracing_state() -> None:
    """None: `torch.jit.trace` gives functions back as they are."""


def _is_alias_of(data: Tensor, other: Tensor) -> bool:
    """Whether two tensors see the same memory, each some of it."""
    return bool(data.untyped_storage()._cdata == other.untyped_storage()._cdata)


def _is_torch_function_enabled() -> bool:
    """Whether classes with `__torch_function__` are asked in this thread."""
    return not mode.plain()


def _is_torch_function_mode_enabled() -> bool:
    """Whether a `TorchFunctionMode` is asked for every call of this thread."""
    return bool(state.function_modes) and not mode.plain()


class DisableTorchFunctionSubclass:
    """A context in which no class is asked: operations on instances of subclasses are the plain ones."""

    def __enter__(self) -> None:
        self._before = mode.set_plain(True)

    def __exit__(self, *exc: object) -> None:
        mode.set_plain(self._before)


DisableTorchFunction = DisableTorchFunctionSubclass

_disabled_torch_function_impl = plain_function

DispatchKey = Enum("DispatchKey", (
    "Undefined CompositeExplicitAutograd CompositeImplicitAutograd BackendSelect ADInplaceOrView Python "
    "PythonDispatcher Functionalize Autograd AutogradCPU AutogradCUDA AutogradXPU AutogradMPS AutocastCPU "
    "AutocastCUDA AutocastXPU AutocastMPS CPU CUDA XPU MPS Meta"
))  # fmt: skip
"""Names of the layers that a call goes through in PyTorch; here there are none."""


class DispatchKeySet(frozenset[Any]):
    """Some of these names: of one key, joined with `|`."""

    def __new__(cls, *keys: Any) -> DispatchKeySet:
        return super().__new__(cls, keys)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(*self, *other)

    def add(self, key: Any) -> DispatchKeySet:
        """These and another."""
        return DispatchKeySet(*self, key)

    def has(self, key: Any) -> bool:
        """Whether a name is among them."""
        return key in self
