"""The parts of a tensor's text, under PyTorch's names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from eagerjit.runtime.records import as_dict
from eagerjit.tensors.printing import joined, options, set_printoptions, values_text
from eagerjit.tensors.tensor import Tensor

PRINT_OPTS = options


def get_printoptions() -> dict[str, Any]:
    """How tensors print."""
    return as_dict(options)


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """A context in which tensors print so."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements, lines after the first indented."""
    return values_text(self._data, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    """The elements with what is said about them, and a closing bracket."""
    return joined(tensor_str, suffixes, indent, force_newline)
