"""PyTorch's place of some functions of the namespace."""

from __future__ import annotations

from typing import Any

import eagerjit

_NAMES = """Tensor atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist
chain_matmul einsum istft lu meshgrid norm pca_lowrank
split stft svd_lowrank tensordot unique unique_consecutive unravel_index""".split()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(eagerjit, name)
    raise AttributeError(f"module 'eagerjit.functional' has no attribute '{name}'")


def __dir__() -> list[str]:
    return _NAMES
