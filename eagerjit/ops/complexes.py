"""Parts of complex numbers. Real tensors are complex numbers without an imaginary part."""

from __future__ import annotations

from eagerjit.calling import public
from eagerjit.tensor import Tensor


@public
def conj(input: Tensor) -> Tensor:
    """Complex conjugates; a real tensor itself."""
    return input


resolve_conj = resolve_neg = conj_physical = conj
