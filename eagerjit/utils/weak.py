"""Weak references and dictionaries that know objects by identity: tensors among them, which compare by elements."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from eagerjit.tensors.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that equals others to the same object, and itself alone when that is gone."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        found = self()
        if found is None or not isinstance(other, WeakIdRef):
            return self is other
        return found is other()


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"a tensor is referred to, and not {type(tensor)}")
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Values by objects, known by identity, that the dictionary does not keep alive."""

    def __init__(self, dict: Any = None):
        self.data: dict[WeakIdRef, Any] = {}
        self.update(dict or {})

    def _reference(self, key: Any, callback: Any = None) -> WeakIdRef:
        return WeakIdRef(key, callback)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[self._reference(key)]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        data = weakref.ref(self)

        def forget(reference: Any) -> None:
            held = data()
            if held is not None:
                held.data.pop(reference, None)

        self.data[self._reference(key, forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self._reference(key)]

    def __iter__(self) -> Iterator[Any]:
        return (key for key in [reference() for reference in self.data] if key is not None)

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: Any) -> bool:
        return self._reference(key) in self.data


class WeakTensorKeyDictionary(WeakIdKeyDictionary):
    """Values by tensors."""

    def _reference(self, key: Any, callback: Any = None) -> WeakIdRef:
        if not isinstance(key, Tensor):
            raise TypeError(f"keys are tensors, and not {type(key)}")
        return WeakIdRef(key, callback)
