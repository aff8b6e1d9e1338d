"""The names in files that loading knows: data, tensors, arrays; and classes that a program adds."""

from __future__ import annotations

import functools
import importlib
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from eagerjit.devices import Device
from eagerjit.runtime import dtypes
from eagerjit.runtime.public_names import by_public_name
from eagerjit.serialization import storages
from eagerjit.serialization.unpickle import LoadError, checked_key, checked_keys
from eagerjit.tensors.making import LAYOUTS, layout_named
from eagerjit.tensors.tensor import Parameter, Shape, Tensor


def _ordered(pairs: Iterable[Any] = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(key), value) for key, value in pairs)


def _counter(counts: dict[Any, Any] | None = None) -> Counter[Any]:
    return Counter({checked_key(k): v for k, v in (counts or {}).items()})


def _set(values: Iterable[Any] = ()) -> set[Any]:
    return set(checked_keys(values))


def _bytes_of(text: Any, encoding: str = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise LoadError("it encodes something that is no text")
    return text.encode(encoding)


def _bytearray(data: Any = b"", encoding: str = "latin1") -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _bytes_of(data, encoding))


def _array(kind: Any, shape: Any, code: Any) -> np.ndarray:
    """An ndarray that gets its shape and bytes later."""
    if kind is not np.ndarray:
        raise LoadError("it describes an array of an unknown class")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _numpy_dtype(code: Any, align: Any = False, copy: Any = True) -> np.dtype:
    if not isinstance(code, str) or not re.fullmatch(r"[?biufcSU]\d{0,9}", code):
        raise LoadError(f"it holds an array of an unknown dtype {code!r}")
    return np.dtype(code, copy=True)  # type: ignore[call-overload]


def _numpy_scalar(dtype: Any, raw: Any = b"") -> Any:
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(raw, bytes) or len(raw) != dtype.itemsize:
        raise LoadError("it holds a number of NumPy's that makes no sense")
    return np.frombuffer(raw, dtype)[0]


def _device(type: str, index: int | None = None) -> Device:
    return Device(type, index)


def _size(sizes: Iterable[int] = ()) -> Shape:
    return Shape(sizes)


def _layout(name: str) -> Any:
    if str(name).removeprefix("torch.") not in LAYOUTS:
        raise LoadError(f"it names an unknown layout {name!r}")
    return layout_named(name.removeprefix("torch."))


def _default(factory: Any = None) -> defaultdict[Any, Any]:
    if factory not in (None, list, dict, int, float, set):
        raise LoadError("it holds a defaultdict with an unknown factory")
    return defaultdict(factory)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "collections.defaultdict": _default,
    "builtins.set": _set,
    "builtins.frozenset": lambda values=(): frozenset(checked_keys(values)),
    "builtins.bytearray": _bytearray,
    "builtins.complex": complex,
    "builtins.slice": slice,
    "_codecs.encode": _bytes_of,
    "torch._utils._rebuild_tensor": storages.rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": storages.rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": storages.rebuild_typed_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": storages.rebuild_without_memory,
    "torch._utils._rebuild_parameter": storages.rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": storages.rebuild_parameter,
    "torch._utils._rebuild_sparse_tensor": storages.rebuild_sparse,
    "torch._utils._rebuild_nested_tensor": storages.rebuild_blocks,
    "torch.nested._internal.nested_tensor._rebuild_njt": storages.rebuild_jagged,
    "torch._dynamo.decorators._DimRange": storages.DynamicRange,
    "torch.serialization._get_layout": _layout,
    "torch._tensor._rebuild_from_type_v2": storages.rebuild_with_attributes,
    "torch.Size": _size,
    "torch.device": _device,
    f"{by_public_name.__module__}.{by_public_name.__name__}": by_public_name,
    "numpy.dtype": _numpy_dtype,
    "numpy.core.multiarray._reconstruct": _array,
    "numpy._core.multiarray._reconstruct": _array,
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
}
"""What a file may call, under the names files use."""

_PYTHONS = ("builtins", "collections")
"""Modules whose functions a trusted file calls as they are, with keys of any kind."""

_VALUES: dict[str, Any] = {
    "numpy.ndarray": np.ndarray,
    "torch.Tensor": Tensor,
    "torch._tensor.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.nested._internal.nested_tensor.NestedTensor": Tensor,
    **{f"builtins.{kind.__name__}": kind for kind in (list, dict, int, float)},
    **{f"torch.{dtype.name}": dtype for dtype in (*dtypes.ALL, *dtypes.EVALUATED)},
}
"""What a file may name without calling it."""

_added: dict[str, Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make instances of these classes, and call these functions; also (object, name) for another name."""
    for entry in safe_globals:
        known, name = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        _added[name] = known


def get_safe_globals() -> list[Any]:
    """What was added."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Forget what was added."""
    _added.clear()


class safe_globals:
    """A context in which `load` also makes instances of these classes."""

    def __init__(self, safe_globals: list[Any]):
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self.before = dict(_added)
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exc: object) -> None:
        clear_safe_globals()
        _added.update(self.before)


class Known:
    """Finds the globals of one file. `trusted`: all that can be imported count, as for Python's own pickles."""

    def __init__(self, trusted: bool):
        self.trusted = trusted
        self.callable: set[int] = {id(function) for function in _FUNCTIONS.values()}

    def find(self, module: str, name: str) -> Any:
        """What a global stands for. Raises LoadError, which names it, if it is not known."""
        full = f"{module}.{name}"
        if full in _added:
            self.callable.add(id(_added[full]))
            return _added[full]
        if full in _FUNCTIONS and not (self.trusted and module in _PYTHONS):
            return _FUNCTIONS[full]
        if full in _VALUES:
            return _VALUES[full]
        if module in ("torch", "torch.cuda", "torch.storage"):
            found = storages.storage_type(name)
            if found is not None:
                return found
        if self.trusted:
            known = _imported(module, name)
            self.callable.add(id(known))
            return known
        raise LoadError(
            f"it asks for {full}, which loading does not give. If it is a class of yours that you trust with what the "
            f"file says, allow it with eagerjit.serialization.add_safe_globals([{name}])"
        )

    def may_call(self, function: Any) -> bool:
        """Whether a file may call something that it named, or change an object of a class."""
        return id(function) in self.callable


def _imported(module: str, name: str) -> Any:
    """What a module has under a name. Raises LoadError where there is no such thing."""
    is_torch = module.split(".")[0] in ("torch", "eagerjit")
    try:
        if is_torch:
            from eagerjit.standin import module_for

            place: Any = module_for("torch" + module.removeprefix("torch").removeprefix("eagerjit"))
        else:
            place = importlib.import_module(module)
        return functools.reduce(getattr, name.split("."), place)
    except (ImportError, AttributeError, ValueError) as error:
        raise LoadError(f"it asks for {module}.{name}, which is not here ({error})") from None
