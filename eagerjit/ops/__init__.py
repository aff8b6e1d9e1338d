"""The public operations, by family. Importing this package declares them all."""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    """Operators of `torch.library` by the namespace of their names; `aten` has the library's own functions."""
    if name in ("aten", "load_library"):
        from eagerjit.namespace import packets

        return getattr(packets, name)
    library = sys.modules.get("eagerjit.library")
    if library is not None and any(known.startswith(f"{name}::") for known in library.OPERATORS):
        return library.Namespace(name)
    raise AttributeError(f"module 'eagerjit.ops' has no attribute {name!r}")
