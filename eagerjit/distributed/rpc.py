"""`torch.distributed.rpc`: not available, so that there is nothing else in it, as in a PyTorch built without it."""

from __future__ import annotations


def is_available() -> bool:
    """False: programs here are one process."""
    return False
