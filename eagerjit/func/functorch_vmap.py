"""Names of PyTorch's `vmap` and of its parts, for packages that extend it.

What they put in the place of parts is not called: objects that hold tensors say by their own methods what `vmap` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.func.batching import vmap as vmap
from eagerjit.func.holders import _add_batch_dim as _add_batch_dim
from eagerjit.func.holders import _maybe_remove_batch_dim as _maybe_remove_batch_dim
from eagerjit.func.holders import _remove_batch_dim as _remove_batch_dim
from eagerjit.tensors.tensor import Tensor as Tensor
from eagerjit.utils._pytree import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from eagerjit.utils._pytree import tree_flatten as tree_flatten
from eagerjit.utils._pytree import tree_unflatten as tree_unflatten


def _get_name(func: Callable[..., Any]) -> str:
    """What a function is called in messages."""
    return getattr(func, "__name__", None) or repr(func)
