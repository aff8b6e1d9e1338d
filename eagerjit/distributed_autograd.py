"""`torch.distributed.autograd`: not available, as in a PyTorch built without it."""

from __future__ import annotations

from typing import Any

from eagerjit.distributed_rpc import is_available as is_available


class context:
    """A walk backward through several processes. Raises NotImplementedError where one is entered."""

    def __enter__(self) -> int:
        raise NotImplementedError("eagerjit runs programs of one process: no graph is divided among several")

    def __exit__(self, *exc: Any) -> None:
        """Never reached."""
