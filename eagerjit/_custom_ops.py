"""Names of `torch._custom_ops`, the older form of `torch.library`."""

from __future__ import annotations

from typing import NoReturn


def get_ctx() -> NoReturn:
    """Raises RuntimeError, as in PyTorch: nothing calls functions registered for shapes."""
    raise RuntimeError("get_ctx() must be called inside of a function registered for shapes; eagerjit calls none")
