"""Dual numbers: tensors that carry a tangent through ordinary code."""

from __future__ import annotations

import threading
from typing import NamedTuple

from eagerjit.autograd.forward import depends_on_others, push
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None where it has none."""

    primal: Tensor
    tangent: Tensor | None


class _Levels(threading.local):
    def __init__(self) -> None:
        self.open: list[list[tuple[Tensor, Tensor]]] = []


_levels = _Levels()


def enter_dual_level() -> int:
    """Open a level of forward differentiation; returns its number."""
    if _levels.open:
        raise RuntimeError("Nested forward mode AD is not supported at the moment: use func.jvp")
    _levels.open.append([])
    return len(_levels.open) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level."""
    if not _levels.open:
        raise RuntimeError("Trying to exit a forward AD level that does not exist")
    if level is not None and level != len(_levels.open) - 1:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    _levels.open.pop()


class dual_level:
    """A context in which `make_dual` and `unpack_dual` work. Tangents follow the tape: there are none under no_grad."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The tensor with a tangent, which every operation passes on. Raises RuntimeError outside of a level."""
    if not _levels.open:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for x in (tensor, tangent):
        if not x.dtype.is_differentiable:
            raise ValueError(f"Expected tensors to be floating point, but got: {x.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(f"Expected tangent of shape {list(tensor.shape)}, but got {list(tangent.shape)}")
    dual = tensor.view_as(tensor) if tensor._requires_grad else tensor.detach().requires_grad_()
    _levels.open[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor and the tangent that has reached it."""
    if not _levels.open:
        return UnpackedDualTensor(tensor, None)
    leaves = _levels.open[-1]
    private = {id(leaf) for leaf, _ in leaves if leaf._node is None}
    outer = mode.grad_mode() and depends_on_others([tensor], private)
    recording = mode.grad_mode() and (outer or any(t._requires_grad for _, t in leaves))
    (tangent,) = push([tensor], leaves, recording)
    return UnpackedDualTensor(tensor if outer else tensor.detach(), tangent)
