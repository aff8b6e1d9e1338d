"""Modules that hold parameters, and any other values beside them."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from eagerjit.nn.module import Module
from eagerjit.nn.parameter import is_lazy
from eagerjit.tensors.tensor import Parameter, Tensor


def _parameter(value: Any) -> Any:
    """Tensors become parameters; whatever else there is stays what it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(key: Any, value: Any, kind_of: Callable[[Tensor], Any]) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    if is_lazy(value):
        return f"  ({key}): {kind} containing: {value!r}"
    return f"  ({key}): {kind} containing: [{kind_of(value)} of size {'x'.join(map(str, value.shape))}]"


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, index: int) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), _parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Add a parameter at the end."""
        setattr(self, str(self._size), _parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(i, value, lambda t: t.dtype) for i, value in enumerate(self))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters, in the order of insertion."""

    def __init__(self, parameters: Any = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"Index given to ParameterDict should be a string but got {type(key).__name__}")
        self._keys[key] = None
        setattr(self, key, _parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Another dictionary of the same parameters."""
        return ParameterDict(self.items())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter under a name, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter under a name, or `default`."""
        return self[key] if key in self else default

    def pop(self, key: str) -> Any:
        """Take a parameter out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last name and parameter out."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Take all parameters out."""
        for key in list(self._keys):
            del self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dictionary of these names with one value."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return [self[key] for key in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return [(key, self[key]) for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add or replace parameters, from pairs or a mapping; those of a plain dict come in order of names."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(parameters).__name__}"
            )
        pairs = parameters
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value, lambda t: t.type()) for key, value in self.items())

    def forward(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
