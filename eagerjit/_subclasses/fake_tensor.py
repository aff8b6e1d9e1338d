"""Names of `torch._subclasses.fake_tensor`: no tensor here is a stand-in without values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class FakeTensor:
    """What PyTorch's compiler traces with; nothing is an instance."""


def is_fake(x: Any) -> bool:
    """False."""
    return False


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[None]:
    """Does nothing: no mode makes such tensors."""
    yield
