"""backward and grad: the engine's two entry points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.effects.cautions import caution
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor, new_tensor


def _sequence(tensors: Any) -> list[Tensor]:
    """Tensors given one or several; edges of the tape, which are tuples too, stand for theirs."""
    if isinstance(tensors, Tensor):
        return [tensors]
    return [_tensor_of(x) for x in ([tensors] if hasattr(tensors, "output_nr") else tensors)]


def _tensor_of(given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given
    if not hasattr(given, "output_nr"):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(given).__name__}")
    from eagerjit.autograd.graph import tensor_of

    return tensor_of(given)


def _gradients(given: Any) -> list[Tensor | None]:
    """Gradients given one or several, None for those that are not. Raises TypeError for what is neither."""
    found = [given] if isinstance(given, Tensor) else list(given)
    for grad in found:
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    return found


_ones: dict[np.dtype, np.ndarray] = {}


def _start(array: np.ndarray) -> Tensor | None:
    """The 1 that a walk from a real 0-d result starts with, in memory of its own: who gets it may write it."""
    if array.ndim or type(array) is not np.ndarray or array.dtype.kind == "c":
        return None
    one = _ones.get(array.dtype)
    if one is None:
        one = _ones[array.dtype] = np.ones((), array.dtype)
    return new_tensor(one.copy())


def _initial(roots: Sequence[Tensor], grads: Any) -> list[Tensor]:
    """The gradients that the walk starts from: those given, ones for scalars."""
    if grads is None and len(roots) == 1 and state.tracer is None and roots[0]._requires_grad:
        start = _start(roots[0]._data)
        if start is not None:
            return [start]
    from eagerjit.tensors.creation import ones_like

    given = [None] * len(roots) if grads is None else _gradients(grads)[: len(roots)]  # PyTorch ignores the rest
    if len(given) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    out = []
    for index, (root, grad) in enumerate(zip(roots, given, strict=True)):
        if not root._requires_grad:
            raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            if root.numel() != 1:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs, not for one of shape {list(root.shape)}"
                )
            if root.dtype.is_complex:
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {root.dtype}"
                )
            grad = ones_like(root)
        elif tuple(grad.shape) != tuple(root.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{index}] has a shape of {list(grad.shape)} and output[{index}] has a "
                f"shape of {list(root.shape)}."
            )
        out.append(in_dtype_of(root, grad))
    return out


def in_dtype_of(root: Tensor, grad: Tensor) -> Tensor:
    """A gradient in its tensor's dtype. Raises RuntimeError if one of them is complex and the other is not."""
    if grad.dtype is root.dtype:
        return grad
    if grad.dtype.is_complex != root.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"a gradient of {grad.dtype} for an output of {root.dtype}."
        )
    return grad.to(root.dtype)


_run: list[Any] = []
"""The engine's walk, from the first one on: programs without gradients need no engine."""


def _engine() -> Any:
    from eagerjit.autograd import engine

    _run.append(engine.run)
    return engine.run


def _walk(roots: Sequence[Tensor], grads: Any, targets: Any, retain: bool, create_graph: bool) -> Any:
    """The engine's walk, watched where anomalies are to be detected or operations counted."""
    run = _run[0] if _run else _engine()
    if state.counting is not None and state.tracer is None:
        with state.counting.walk(roots, create_graph):
            return run(roots, grads, targets, retain, create_graph)
    if Defaults.anomaly is None:
        return run(roots, grads, targets, retain, create_graph)
    from eagerjit.autograd.anomaly import watched

    with watched(roots, create_graph):
        return run(roots, grads, targets, retain, create_graph)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves they depend on, or of `inputs` alone.

    `grad_tensors` are what the gradients start from, of the tensors' shapes, ones where they have one element. What the
    walk read is dropped unless `retain_graph`; with `create_graph` gradients can be differentiated in turn. Raises
    RuntimeError for tensors without history, for several elements without a gradient, and for a second walk.
    """
    roots = (tensors,) if isinstance(tensors, Tensor) else _sequence(tensors)
    grads = _initial(roots, grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _walk(roots, grads, None, retain, create_graph)
        return
    targets = _sequence(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    found = _walk(roots, grads, targets, retain, create_graph)
    from eagerjit.autograd.accumulation import accumulate

    for target, gradient in zip(targets, found, strict=True):
        if gradient is not None:
            accumulate(target, gradient, create_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` is left alone.

    `grad_outputs`, `retain_graph` and `create_graph` are as in `backward`. With `is_grads_batched` the first dimension
    of `grad_outputs` is one of examples, and of the gradients too. An input that the outputs do not depend on is a
    RuntimeError; with `allow_unused` its gradient is None, with `materialize_grads` zeros.
    """
    if not only_inputs:
        caution("only_inputs argument is deprecated and is ignored now (defaults to True)", FutureWarning)
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, create_graph, materialize_grads)
    roots, targets = _sequence(outputs), _sequence(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = _initial(roots, grad_outputs)
    for index, target in enumerate(targets):
        if not target._requires_grad:
            raise RuntimeError(f"One of the differentiated Tensors does not require grad: the one at index {index}")
    retain = create_graph if retain_graph is None else retain_graph
    found = _walk(roots, grads, targets, retain, create_graph)
    if materialize_grads:
        from eagerjit.tensors.creation import zeros_like

        found = [zeros_like(t) if g is None else g for t, g in zip(targets, found, strict=True)]
    elif not allow_unused and any(g is None for g in found):
        index = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(
            f"The differentiated Tensor at index {index} (shape {list(targets[index].shape)}) appears to not have "
            "been used in the graph. Set allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def _batched(
    outputs: Any, inputs: Any, grad_outputs: Any, create_graph: bool, materialize: bool
) -> tuple[Tensor | None, ...]:
    """The gradients for each of several gradients of the outputs, one walk after the other."""
    from eagerjit.ops.index import stack

    given = _sequence(grad_outputs)
    rows = [
        grad(
            outputs, inputs, [g[i] for g in given], True, create_graph, allow_unused=True, materialize_grads=materialize
        )
        for i in range(given[0].shape[0])
    ]
    return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))
