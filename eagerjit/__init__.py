"""eagerjit: tensors with PyTorch's interface, eager by default, compiled by `@eagerjit.jit`.

    import eagerjit as torch
"""

from __future__ import annotations

import importlib
import math as _math
import sys as _sys
from typing import Any

from eagerjit import compiler as _compiler
from eagerjit import random
from eagerjit.autograd import enable_grad, grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from eagerjit.autograd.node import GradNode as _GradNode
from eagerjit.autograd.node import refresh as _refresh
from eagerjit.calling.dispatch import forget_programs as _forget_programs
from eagerjit.devices import Device as device
from eagerjit.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from eagerjit.namespace import late as _late
from eagerjit.ops import activation, composite, index, linear, normalization
from eagerjit.runtime import binding as _binding
from eagerjit.runtime import dtypes as _dtypes
from eagerjit.runtime import mode as _mode
from eagerjit.state import Defaults as _Defaults
from eagerjit.tensors import creation, from_data, methods, places
from eagerjit.tensors.making import strided
from eagerjit.tensors.mistakes import explained_functions as _explained_functions
from eagerjit.tensors.mistakes import only_tensor as _only_tensor
from eagerjit.tensors.promotion import can_cast as _can_cast
from eagerjit.tensors.promotion import promote_types as _promote_types
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Parameter as _Parameter
from eagerjit.tensors.tensor import Shape as Size
from eagerjit.tensors.tensor import Storage as _Storage
from eagerjit.tensors.tensor import Tensor
from eagerjit.tensors.tensor import View as _View
from eagerjit.tensors.tensor import note_written as _note_written
from eagerjit.version import __version__

__all__ = [
    "Function",
    "Generator",
    "Size",
    "Tensor",
    "__version__",
    "can_cast",
    "default_generator",
    "device",
    "dtype",
    "e",
    "enable_grad",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "grad",
    "inf",
    "inference_mode",
    "initial_seed",
    "is_floating_point",
    "is_grad_enabled",
    "is_tensor",
    "manual_seed",
    "nan",
    "newaxis",
    "no_grad",
    "pi",
    "promote_types",
    "result_type",
    "seed",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_rng_state",
    "strided",
]

_binding.bind((Tensor, _Parameter), _GradNode, _Storage, _note_written, _View, Size, device, _refresh)

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None
dtype = _dtypes.DType

_LAZY = {
    "jit": "eagerjit.jit", "debug": "eagerjit.debug", "nn": "eagerjit.nn", "optim": "eagerjit.optim",
    "func": "eagerjit.func", "linalg": "eagerjit.linalg", "fft": "eagerjit.fft", "special": "eagerjit.special",
    "autograd": "eagerjit.autograd", "array_api": "eagerjit.array_api", "version": "eagerjit.version",
    "utils": "eagerjit.utils", "control": "eagerjit.control", "_higher_order_ops": "eagerjit._higher_order_ops",
    **{_name: f"eagerjit.{_name}" for _name in (
        "_C", "__config__", "_dynamo", "_inductor", "_utils", "accelerator", "amp", "backends", "cpu", "cuda",
        "distributed", "distributions", "export", "functional", "futures", "fx", "hub", "library", "mps", "mtia",
        "masked", "multiprocessing", "nested", "onnx",
        "overrides", "profiler", "quasirandom", "return_types", "serialization", "signal", "sparse", "testing", "types",
        "xpu",
    )},
}  # fmt: skip
_LAZY_NAMES = {
    **dict.fromkeys((
        "autocast", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_available",
        "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_dtype", "clear_autocast_cache",
        "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_enabled", "set_autocast_gpu_dtype",
    ), "eagerjit.amp.autocast"),
    "Function": "eagerjit.autograd.function", "is_inference_mode_enabled": "eagerjit.autograd.modes",
    **dict.fromkeys((
        "is_anomaly_enabled", "is_anomaly_check_nan_enabled", "set_anomaly_enabled",
    ), "eagerjit.autograd.anomaly"),
    "Event": "eagerjit.cuda", "Stream": "eagerjit.cuda", "GradScaler": "eagerjit.amp",
    **dict.fromkeys((
        "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all",
        "_assert", "_assert_async", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
    ), "eagerjit.namespace.checks"),
    "_scaled_mm": "eagerjit.ops.float8", "_int_mm": "eagerjit.ops.products",
    "_grouped_mm": "eagerjit.ops.grouped",
    **dict.fromkeys(
        (f"{kind}Type" for kind in (
            "Any Bool Class Complex DeviceObj Dict Enum Float Future Int Interface List None Number Optional PyObject "
            "StreamObj String Tensor Tuple Union"
        ).split()), "eagerjit.script.types",
    ),
    "SymBool": "eagerjit.types", "SymFloat": "eagerjit.types", "SymInt": "eagerjit.types",
    "Future": "eagerjit.futures", "compile": "eagerjit.compiling", "vmap": "eagerjit.func",
    "cond": "eagerjit.control", "while_loop": "eagerjit.control",
    **dict.fromkeys(("AcceleratorError", "OutOfMemoryError"), "eagerjit.runtime.gpu.errors"),
    "PyTorchFileReader": "eagerjit.serialization.reader", "ScriptModule": "eagerjit.script",
    "save": "eagerjit.serialization", "load": "eagerjit.serialization",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Modules that cost time to import come when they are first used."""
    if name in _LAZY:
        return importlib.import_module(_LAZY[name])
    home = "eagerjit.ops.foreach" if name.startswith("_foreach_") else _late.HOMES.get(name)
    if home is not None:
        globals()[name] = value = _late.load(home, name)
        return value
    if name in _LAZY_NAMES:
        value = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
        globals()[name] = value
        return value
    from eagerjit.tools.names import no_such_name

    raise no_such_name(_sys.modules[__name__], "torch", name)


def _compiler_name(name: str) -> Any:
    """PyTorch's `torch.compiler` has the name of the layer below, which knows nothing of PyTorch's functions."""
    if not name.startswith("_"):
        compiling = importlib.import_module("eagerjit.compiling")
        if name in compiling.__all__:
            return getattr(compiling, name)
    raise AttributeError(f"module 'eagerjit.compiler' has no attribute '{name}'")


_compiler.__getattr__ = _compiler_name  # type: ignore[method-assign]


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def get_default_dtype() -> Any:
    """The dtype of new floating point tensors."""
    return _Defaults.dtype


def set_default_dtype(d: Any) -> None:
    """Make another floating dtype that of new tensors."""
    if not isinstance(d, _dtypes.DType) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    if d is not _Defaults.dtype:
        _Defaults.dtype = d
        _mode.set_default_dtype(d)
        _forget_programs()
        _mode.bump_epoch()


def get_num_threads() -> int:
    """How many threads compute."""
    from eagerjit.runtime import threads

    return threads.get_num_threads()


def set_num_threads(count: int) -> None:
    """Compute with this many threads."""
    from eagerjit.runtime import threads

    if count < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    threads.set_num_threads(count)


def can_cast(from_: _dtypes.DType, to: _dtypes.DType) -> Any:
    """Whether an in-place operation may store values of one dtype in a tensor of another."""
    return _can_cast(from_, to)


def promote_types(type1: _dtypes.DType, type2: _dtypes.DType) -> Any:
    """The smallest dtype that holds both. RuntimeError for uint64 and a signed one, which no dtype does."""
    return _promote_types(type1, type2)


def numel(input: Tensor) -> Any:
    """The number of elements."""
    return input.numel()


def is_floating_point(input: Tensor) -> Any:
    """Whether a tensor's elements are real numbers."""
    _only_tensor("is_floating_point", input)
    return input.dtype.is_floating_point


_functions: dict[str, Any] = {**methods.OPS, **methods.FUNCTIONS}
for _name in ("take_rows", "add_rows", "put_rows", "replace_slice", "div_trunc"):
    _functions.pop(_name)
for _module, _names in {
    creation: "tensor as_tensor from_numpy zeros ones full empty zeros_like ones_like full_like empty_like arange "
    "linspace logspace eye",
    random: "rand randn randint rand_like randn_like randint_like randperm normal",
    index: "stack",
    composite: "meshgrid",
    normalization: "softmax log_softmax",
}.items():
    _functions.update({_name: getattr(_module, _name) for _name in _names.split()})
_functions.update(
    cat=index.cat.call, concat=index.cat.call, concatenate=index.cat.call, relu=activation.relu.call,
    addmm=linear.addmm.call,
    asarray=from_data.asarray, softplus=activation.softplus.call,
)  # fmt: skip
_functions.update(places.FUNCTIONS)
_functions.update({_name: _write for _name, _write in methods.WRITES.items() if _name != "copy_"})
_functions["round_"] = methods.METHODS["round_"]
_functions.update(_dtypes.NAMED)
_functions.update(
    float=_dtypes.float32, double=_dtypes.float64, half=_dtypes.float16, long=_dtypes.int64, int=_dtypes.int32,
    short=_dtypes.int16, cfloat=_dtypes.complex64, cdouble=_dtypes.complex128, chalf=_dtypes.NAMED["complex32"],
)  # fmt: skip
_functions.update(can_cast=can_cast, promote_types=promote_types)
_functions = _explained_functions(_functions, __name__)
globals().update(_functions)
__all__ += sorted({*_functions, *_late.HOMES, *_LAZY, *_LAZY_NAMES})
