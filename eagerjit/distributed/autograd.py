"""`torch.distributed.autograd`: not available, as in a PyTorch built without it."""

from __future__ import annotations

from typing import Any

from eagerjit.distributed.rpc import is_available as is_available


class context:
    """A walk backward through several processes. Raises NotImplementedError where one is entered."""

    def __enter__(self) -> int:
        raise NotImplementedError("no graph is divided among several processes here")

    def __exit__(self, *exc: Any) -> None:
        """Never reached."""
