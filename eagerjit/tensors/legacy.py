"""Types of tensors by their old names: `FloatTensor(2, 3)`, `LongTensor([1, 2])`, `isinstance(x, FloatTensor)`."""

from __future__ import annotations

from typing import Any

from eagerjit.devices import CPU
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.state import Defaults, state
from eagerjit.tensors import creation
from eagerjit.tensors.elements import is_sequence
from eagerjit.tensors.placement import moved, wanted
from eagerjit.tensors.tensor import Parameter, Shape, Tensor, new_tensor


def construct(dtype: DType, *args: Any, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of sizes (uninitialised), of data, or over a tensor of this dtype."""
    place = wanted(device)
    if place is not None:
        return creation.finish(moved(construct(dtype, *args, device=CPU), place), requires_grad)
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype is not dtype:
            raise TypeError(f"expected a tensor of dtype {dtype} (got {args[0].dtype})")
        return args[0].detach()
    if len(args) == 1 and hasattr(args[0], "untyped"):
        return args[0].tensor(dtype)  # type: ignore[no-any-return]
    if len(args) == 1 and not _is_size(args[0]):
        _check_data(args[0])
        return creation.finish(creation.tensor(args[0], dtype=dtype, device=device), requires_grad)
    return creation.empty(*args or (0,), dtype=dtype, device=device, requires_grad=requires_grad)


def _is_size(argument: Any) -> bool:
    return isinstance(argument, Shape) or (isinstance(argument, int) and not isinstance(argument, bool))


def _check_data(data: Any) -> None:
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not is_sequence(data):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")


class TensorType(type):
    """The class of types by old names."""

    dtype: DType
    is_cuda: bool

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if not cls.is_cuda:
            return construct(cls.dtype, *args, **{"device": CPU, **kwargs})
        from eagerjit.cuda.present import found

        if found() is None:
            raise TypeError(
                f"type {cls.__module__}.{cls.__name__} not available. Torch not compiled with CUDA enabled."
            )
        return construct(cls.dtype, *args, **{"device": "cuda", **kwargs})

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.is_cuda == cls.is_cuda and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


NAMES = {
    "Float": dtypes.float32, "Double": dtypes.float64, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16,
    "Long": dtypes.int64, "Int": dtypes.int32, "Short": dtypes.int16, "Char": dtypes.int8, "Byte": dtypes.uint8,
    "Bool": dtypes.bool_,
}  # fmt: skip


def _types(module: str, cuda: bool) -> dict[str, TensorType]:
    return {
        f"{name}Tensor": TensorType(
            f"{name}Tensor",
            (),
            {"dtype": d, "is_cuda": cuda, "__module__": module, "__doc__": f"What makes tensors of {d.name}, of old."},
        )
        for name, d in NAMES.items()
    }


TYPES = _types("torch", False)
CUDA_TYPES = _types("torch.cuda", True)
globals().update(TYPES)


def device_of_type(kind: Any) -> str:
    """Where tensors of a type lie: `"cuda"` for `"torch.cuda.FloatTensor"`."""
    return "cuda" if "cuda" in (kind.__module__ if isinstance(kind, type) else str(kind)) else "cpu"


def type_of(kind: Any) -> DType:
    """The dtype that a type's name or a type stands for: `"torch.FloatTensor"`. Raises ValueError for others."""
    if isinstance(kind, DType):
        return kind
    if isinstance(kind, TensorType):
        if kind.is_cuda:
            wanted("cuda")
        return kind.dtype
    if kind is Tensor:
        return dtypes.float32
    name = str(kind).removeprefix("torch.")
    if name.startswith("cuda."):
        wanted("cuda")
        name = name.removeprefix("cuda.")
    if not isinstance(kind, (str, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    if not isinstance(kind, str) or name not in TYPES:
        raise ValueError(f"invalid type: {kind!r}")
    return TYPES[name].dtype


def _chosen(device: Any) -> Any:
    """Where `Tensor(...)` lies: `torch.device` as a context and the default device count for nothing, as in PyTorch."""
    if device is not None:
        return wanted(device)
    return None if state.device is None else Defaults.device_of_type


def legacy_tensor(cls: type, *args: Any, **kwargs: Any) -> Tensor:
    """Tensor(2, 3) is uninitialised; Tensor([1, 2]) holds data, both of the default dtype."""
    place = _chosen(kwargs.pop("device", None))
    if place is not None:
        made = legacy_tensor(cls, *args, **kwargs, device=CPU)
        made._data = moved(made, place)._data
        return made
    if kwargs:
        raise TypeError(f"Tensor() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if len(args) == 1 and isinstance(args[0], Tensor):
        if cls is not Tensor and state.tracer is not None:
            return state.tracer.silence(args[0].detach(), cls)
        if cls is not Tensor:
            return new_tensor(args[0]._data, cls)
        return args[0].detach() if type(args[0]) in (Tensor, Parameter) else args[0].detach().as_subclass(Tensor)
    if len(args) == 1 and hasattr(args[0], "untyped"):
        return new_tensor(args[0].tensor(Defaults.dtype)._data, cls)
    if len(args) == 1 and not _is_size(args[0]):
        _check_data(args[0])
        made = creation.tensor(args[0], dtype=Defaults.dtype, device=CPU)
    else:
        made = creation.empty(*args or (0,), dtype=Defaults.dtype, device=CPU)
    return made if cls is Tensor else legacy_tensor(cls, made)
