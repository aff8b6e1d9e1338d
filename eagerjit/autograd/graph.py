"""The tape seen from outside: its nodes and edges, hooks on several tensors, versions of memory, and where saved values
are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from eagerjit.autograd.callbacks import at_end_of_walk, waiting
from eagerjit.autograd.leaf_nodes import AccumulateGrad, accumulator
from eagerjit.autograd.node import GradNode as Node
from eagerjit.autograd.node import used_up
from eagerjit.autograd.saving import disable_saved_tensors_hooks, saved_tensors_hooks
from eagerjit.tensors.tensor import Tensor, note_written, storage_of

__all__ = [
    "GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


def increment_version(tensor: Any) -> None:
    """Count a write to a tensor's memory, or to several tensors', that happened behind the library's back."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        storage_of(each).version += 1
        note_written(each, None)


def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Any:
    """A context in which what operations keep for their gradients lies on the CPU; without a device it does anyway."""
    from eagerjit.cuda.present import found

    if found() is None:
        return contextlib.nullcontext()
    return saved_tensors_hooks(lambda x: (x.device, x.cpu()), lambda kept: kept[1].to(kept[0]))


# -- edges ------------------------------------------------------------------------------------------------------------


class GradientEdge(NamedTuple):
    """Where on the tape a tensor's gradient arrives: `grad` and `backward` take it in the tensor's place."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor, which need not be kept alive for it. Raises RuntimeError without a gradient."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn
    return GradientEdge(accumulator(tensor), 0) if node is None else GradientEdge(node, tensor._index)


def tensor_of(edge: GradientEdge) -> Tensor:
    """A tensor whose gradient arrives at the edge. Raises RuntimeError where a walk has freed it."""
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable
    if edge.node.output is None:
        raise used_up(edge.node)
    return edge.node.outputs()[edge.output_nr]


# -- hooks ------------------------------------------------------------------------------------------------------------


class _Handles:
    """The handle of hooks that belong together."""

    def __init__(self, handles: Sequence[Any]):
        self._handles = handles

    def remove(self) -> None:
        """Remove them all."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class _Gathered:
    """What one walk has brought to the tensors of a hook: when it has come to all of them, or at its end.

    A walk that fails takes it along.
    """

    def __init__(self, key: object, fn: Callable[..., None] | None, count: int):
        self.key, self._fn = key, fn
        self.gradients: list[Tensor | None] = [None] * count
        self._missing = count

    def bring(self, index: int, gradient: Tensor) -> None:
        """The gradient of one of the tensors."""
        self._missing -= self.gradients[index] is None
        self.gradients[index] = gradient
        if not self._missing:
            self()

    def __call__(self) -> None:
        fn, self._fn = self._fn, None
        if fn is not None:
            fn(self.gradients)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> _Handles:
    """Call `fn` once in a backward walk, with the gradients of several tensors.

    "all": fn(gradients) when the walk has come to all, or at its end, None for those it has not come to; "any":
    fn(gradient) at the first one. Gives a handle whose `remove()` takes the hook away. Raises ValueError for other
    modes.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    key = object()

    def hook_of(index: int) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            gathered = next((c for c in waiting() if isinstance(c, _Gathered) and c.key is key), None)
            if gathered is None:
                gathered = _Gathered(key, fn if mode == "all" else None, len(tensors))
                at_end_of_walk(gathered)
                if mode == "any":
                    fn(gradient)
            gathered.bring(index, gradient)

        return hook

    return _Handles([tensor.register_hook(hook_of(i)) for i, tensor in enumerate(tensors)])
