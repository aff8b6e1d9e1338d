"""The named tuples that functions with several results return, under PyTorch's names and with its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from eagerjit.tensors.tensor import Tensor

_Results = TypeVar("_Results")

RETURNED: dict[str, Any] = {}
"""What functions with several results return, by PyTorch's names."""


def returned(name: str) -> Callable[[type[_Results]], type[_Results]]:
    """Decorates a class of named tuples: it has PyTorch's name, prints so and is found in `return_types`."""

    def named(kind: Any) -> Any:
        kind.__name__ = kind.__qualname__ = name
        kind.__module__, kind.__repr__ = "eagerjit.return_types", _printed
        RETURNED[name] = kind
        return kind

    return named


def _printed(self: Any) -> str:
    results = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{results})"


class ValuesIndices(NamedTuple):
    """Values with where they were found."""

    values: Tensor
    indices: Tensor


for _name in "cummax cummin kthvalue max median min mode nanmedian sort topk".split():
    returned(_name)(type(_name, (ValuesIndices,), {"__slots__": ()}))
