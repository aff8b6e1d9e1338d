"""Names of `torch.utils.flop_counter`."""

from __future__ import annotations

from typing import Any


class FlopCounterMode:
    """What counts the operations of each call in PyTorch. Raises NotImplementedError where it is entered."""

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None):
        self.mods, self.depth, self.display = mods, depth, display

    def __enter__(self) -> Any:
        raise NotImplementedError("eagerjit has no dispatch that a FlopCounterMode could take part in")

    def __exit__(self, *exc: object) -> None:
        """It was never entered."""
