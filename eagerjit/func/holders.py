"""Objects that hold tensors and know what becomes of them in a `vmap`, as TensorDict does.

Their class has two methods: `_add_batch_dim` makes the object that stands for one example, `_maybe_remove_batch_dim`
the result for all examples of such an object. Both ask for tensors one by one, by functions that PyTorch has for this.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eagerjit.func.examples import Examples
from eagerjit.func.nesting import is_holder_class
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.utils._pytree import tree_leaves
from eagerjit.watching.observation import TraceBreak, user_line

_LEVEL = 1


class _Thread(threading.local):
    """The recording whose examples objects are asked for, and the values that tensors of it have for all examples."""

    def __init__(self) -> None:
        self.examples: Examples | None = None
        self.values: dict[int, tuple[Tensor, bool]] = {}


_thread = _Thread()


def is_holder(value: Any) -> bool:
    """Whether an object is of such a class."""
    return not isinstance(value, Tensor) and is_holder_class(type(value))


def tensors_of(holder: Any) -> list[Tensor]:
    """The tensors that it holds."""
    return [x for x in tree_leaves(holder) if isinstance(x, Tensor)]


@contextmanager
def _asked(examples: Examples) -> Iterator[None]:
    """A context in which an object's methods are called. To them it is an export, of which they keep nothing, and
    what they warn of in one does not matter here.
    """
    if state.tracer is not None and state.tracer.journal is not None:
        raise TraceBreak("vmap takes objects apart that hold tensors", user_line())
    before = _thread.examples, _thread.values, state.exporting
    _thread.examples, _thread.values, state.exporting = examples, {}, True
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            yield
    finally:
        _thread.examples, _thread.values, state.exporting = before


def example_of(examples: Examples, holder: Any, dim: int) -> Any:
    """The object for one example; dimension `dim` holds them. Outside of the recording."""
    with _asked(examples):
        return holder._add_batch_dim(in_dim=dim, vmap_level=_LEVEL)


def for_all(
    examples: Examples, holder: Any, values: list[tuple[Tensor, bool]], name: str, size: Any, dim: Any
) -> Any:  # fmt: skip
    """The object that a function has returned, with these values of its tensors. Outside of the recording."""
    with _asked(examples):
        _thread.values.update(zip(map(id, tensors_of(holder)), values, strict=True))
        return holder._maybe_remove_batch_dim(name, vmap_level=_LEVEL, batch_size=size, out_dim=dim)


def placed(value: Tensor, batched: bool, dim: Any, size: Any) -> Tensor:
    """A result with the batch dimension where `out_dims` wants it."""
    if dim is None:
        if batched:
            raise ValueError("vmap: out_dims is None for a result that depends on the mapped inputs")
        return value
    if not batched:
        value = value.expand(size, *value.shape)
    if not -value.ndim <= dim < value.ndim:
        raise IndexError(f"vmap: out_dim {dim} is out of range for a result of {value.ndim} dimensions")
    return value if dim == 0 else value.movedim(0, dim)


@contextmanager
def _outside_of_recording(name: str) -> Iterator[Examples]:
    """The recording that an object is asked for or, if it waits until the function runs, the one of this function."""
    if _thread.examples is not None:
        yield _thread.examples
        return
    if not isinstance(state.tracer, Examples):
        raise RuntimeError(f"{name}: there is no vmap that asks for it")
    examples = state.tracer
    with examples.suspended():
        yield examples


def _add_batch_dim(tensor: Tensor, in_dim: int, vmap_level: int) -> Tensor:
    """The tensor that stands for one example of a tensor; dimension `in_dim` holds them."""
    with _outside_of_recording("_add_batch_dim") as examples:
        if examples.is_own(tensor):
            ((tensor, _),) = examples.results([tensor])
        moved = tensor.movedim(in_dim, 0)
    return examples.argument(moved) if _thread.examples is examples else examples.example(moved)


def _remove_batch_dim(tensor: Tensor, vmap_level: int, batch_size: Any, out_dim: Any) -> Tensor:
    """The values of a tensor for all examples, side by side in dimension `out_dim`."""
    with _outside_of_recording("_remove_batch_dim") as examples:
        found = _thread.values.get(id(tensor))
        return placed(*(examples.results([tensor])[0] if found is None else found), out_dim, batch_size)


def _maybe_remove_batch_dim(name: str, batched_output: Any, vmap_level: int, batch_size: Any, out_dim: Any) -> Any:
    """The same, of what a function called `name` has returned: None where all share it. ValueError for no tensor."""
    if out_dim is None and not isinstance(batched_output, Tensor):
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}.")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
