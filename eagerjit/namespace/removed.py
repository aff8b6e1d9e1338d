"""Functions that PyTorch has taken out: calling one says what has taken its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def _removed(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torch.{name} was deprecated since version 1.9 and is now removed: {instead}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raises RuntimeError: {instead}."
    return refuse


eig = _removed("eig", "torch.linalg.eig gives complex values and vectors")
lstsq = _removed("lstsq", "torch.linalg.lstsq takes its arguments in reverse order")
matrix_rank = _removed("matrix_rank", "torch.linalg.matrix_rank calls `symmetric` hermitian")
solve = _removed("solve", "torch.linalg.solve takes its arguments in reverse order")
symeig = _removed("symeig", "torch.linalg.eigh reads the lower triangle unless it is told otherwise")
