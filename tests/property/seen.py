"""What a script shows of its tensors, in this library and in PyTorch, and where two showings part."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

PLACE = re.compile(r" \((?:\w+|[^()]*\.py:\d+)\)(?=: the dimension has size)")
ADDRESS = re.compile(" at 0x[0-9a-f]+")
"""Where an index was out of range: plain calls name the operation, compiled ones the line."""


class Showing:
    """Copies of everything a program can see of objects: tensors by their contents and by what they have in common.

    The same number stands for the same object or the same memory.
    Strides along dimensions of size 1 are left out, and so are those of tensors without elements.
    """

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.kept: list[Any] = []

    def __call__(self, value: Any) -> Any:
        if hasattr(value, "untyped_storage"):
            return self.tensor(value)
        if isinstance(value, Mapping):
            return ["dict", *((self.key(k), self(v)) for k, v in value.items())]
        if isinstance(value, (list, tuple, collections.deque)):
            return ["list" if type(value) is list else "tuple", *map(self, value)]
        if hasattr(value, "named_buffers"):
            tensors = (*value.named_parameters(), *value.named_buffers())
            return [type(value).__name__, value.training, *((k, self(v)) for k, v in tensors)]
        if hasattr(value, "initial_seed"):
            return ["generator", self(value.get_state())]
        if isinstance(value, BaseException):
            return ["error", type(value).__name__, PLACE.sub("", str(value))]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [type(value).__name__, *((k, self(v)) for k, v in vars(value).items())]
        if hasattr(value, "__dict__") and not callable(value):
            return [type(value).__name__, *((k, self(v)) for k, v in sorted(vars(value).items()))]
        return ADDRESS.sub("", repr(value))

    def key(self, key: Any) -> Any:
        """A key of a dictionary: a tensor's text would round its numbers."""
        return self.tensor(key) if hasattr(key, "untyped_storage") else repr(key)

    def number(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def tensor(self, t: Any) -> Any:
        # An id is one object's as long as the object is there, and so is an address that of one piece of memory.
        self.kept += (t, t.detach())
        try:
            values = repr(t.detach().tolist())
        except RuntimeError as error:  # a view of several whose base was overwritten
            return ["tensor", ("object", self.number(id(t))), ("unreadable", type(error).__name__)]
        strides = [s if n > 1 else None for s, n in zip(t.stride(), t.shape, strict=True)] if t.numel() else None
        grad = t.grad if t.is_leaf else None
        return [
            "tensor",
            ("dtype", str(t.dtype).rpartition(".")[2]),
            ("shape", tuple(t.shape)),
            ("requires_grad", t.requires_grad),
            ("values", values),
            ("strides", strides),
            ("object", self.number(id(t))),
            ("memory", self.number(("memory", t.untyped_storage().data_ptr())) if t.numel() else None),
            ("version", t._version),
            ("leaf", t.is_leaf),
            ("grad", None if grad is None else self(grad)),
        ]


def parting(a: Any, b: Any, path: str = "") -> str | None:
    """Where two showings part."""
    if a == b:
        return None
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        for i, (p, q) in enumerate(zip(a, b, strict=False)):
            if p != q:
                return parting(p, q, f"{path}.{a[0] if i == 1 and isinstance(a[0], str) else i}")
    return f"at {path}: {str(a)[:300]} | {str(b)[:300]}"


def parting_from_torch(a: Any, b: Any, path: str = "", dtype: str = "") -> str | None:
    """Where a showing parts from PyTorch's: values within a tolerance, errors by their class alone."""
    if not (isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))):
        return None if a == b else f"at {path}: {str(a)[:300]} | {str(b)[:300]}"
    if a[:1] == b[:1] == ["generator"]:
        return None  # random states are of another size
    if a[:1] == b[:1] == ["error"]:
        return None if a[1] == b[1] else f"at {path}: {a[1:]} | {b[1:]}"
    if a[:1] == b[:1] == ("version",) or (a[:1] == b[:1] == ("requires_grad",) and _is_whole(dtype)):
        return None  # versions are counted otherwise, and integers that require grad have no gradients
    if a[:1] == b[:1] == ("values",):
        return None if near(a[1], b[1], dtype) else f"at {path}: {a[1][:300]} | {b[1][:300]} ({dtype})"
    a, b = ([part for part in showing if not _is_private(part)] for showing in (a, b))
    for i, (p, q) in enumerate(zip(a, b, strict=False)):
        if isinstance(p, tuple) and p[:1] == ("dtype",):
            dtype = p[1]
        found = parting_from_torch(p, q, f"{path}.{a[0] if i == 1 and isinstance(a[0], str) else i}", dtype)
        if found is not None:
            return found
    return None if len(a) == len(b) else f"at {path}: {str(a)[:300]} | {str(b)[:300]}"


def _is_whole(dtype: str) -> bool:
    return dtype == "bool" or "int" in dtype


def _is_private(part: Any) -> bool:
    """Whether part of a showing is an attribute of an object, such as an optimizer, that no user reads."""
    return isinstance(part, tuple) and len(part) == 2 and str(part[0]).startswith("_")


def near(a: str, b: str, dtype: str) -> bool:
    """Whether values are the same but for rounding, which long chains of operations make larger."""
    if a == b:
        return True
    if _is_whole(dtype):
        return False
    nan, inf = float("nan"), float("inf")
    scope = {"nan": nan, "inf": inf, "nanj": complex(0, nan), "infj": complex(0, inf)}
    p, q = (_flat(eval(text, scope)) for text in (a, b))
    finite = [abs(x) for x in q if abs(x) < 1e30]
    bound = {"bfloat16": 0.1, "float16": 0.02}.get(dtype, 1e-3) * (1 + max(finite, default=0))
    pairs = list(zip(p, q, strict=False))
    return len(p) == len(q) and all(x == y or (x != x and y != y) or abs(x - y) <= bound for x, y in pairs)


def _flat(values: Any) -> list[Any]:
    return [x for v in values for x in _flat(v)] if isinstance(values, list) else [values]
