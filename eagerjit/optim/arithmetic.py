"""What all update rules are, and compute with: writes, counts, and the dtypes of numbers and tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.guards.likeness import share_memory
from eagerjit.ops import pointwise
from eagerjit.ops.complexes import view_as_real
from eagerjit.recording.leaves import overlaps
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.state import state
from eagerjit.tensors.from_data import tensor as new
from eagerjit.tensors.tensor import Tensor

Tensors = list[Tensor]


class UpdateRule(Op):
    """An op over (parameters, gradients, *states and options) that writes all but the gradients.

    Programs write no memory that they reach in two ways: where states or parameters share some, the body runs operation
    by operation.
    """

    def __init__(self, name: str, body: Callable[..., Any], numbers: Sequence[str]):
        super().__init__(name, body, None, numbers, differentiable=False)

    def is_taken_apart(self, arguments: tuple[Any, ...]) -> bool:
        """Whether what it writes shares memory with anything that it reaches."""
        parameters, gradients, *others = arguments
        listed = chain.from_iterable(x if isinstance(x, (list, tuple)) else (x,) for x in (parameters, *others))
        written = [x for x in listed if isinstance(x, Tensor)]
        reached = [*written, *gradients]
        return share_memory(reached) and any(i < len(written) for _, i in overlaps(reached))


def as_dtype(x: Any, dtype: DType) -> Tensor:
    """A tensor or number converted to a dtype."""
    if state.tracer is not None:
        return pointwise.as_dtype(x, dtype)
    return x.to(dtype) if isinstance(x, Tensor) else new(x, dtype=dtype)


def write(target: Tensor, value: Tensor) -> None:
    tracer = state.tracer
    if tracer is None:
        target.copy_(value)
    else:
        tracer.write(target, tracer.value(as_dtype(value, target.dtype)))


def wide(tensor: Tensor) -> Tensor:
    """A tensor in the dtype it is updated in."""
    half = tensor.dtype in (dtypes.float16, dtypes.bfloat16)
    return as_dtype(tensor, dtypes.float32) if half else tensor


def double(value: Any) -> Tensor:
    """An option in float64, in which PyTorch's Python code computes with it."""
    return as_dtype(value, dtypes.float64)


def counted(step: Tensor) -> Tensor:
    """One more step, written; as float64."""
    now = step + 1.0
    write(step, now)
    return double(now)


def real(value: Any) -> Any:
    """A complex tensor as pairs of real numbers, in its own memory: what update rules take it for."""
    return view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def refuse_capturable(present: list[tuple[Tensor, Tensor]]) -> None:
    """Refuse steps for graphs of a GPU where parameters are elsewhere."""
    if any(parameter.device.type == "cpu" for parameter, _ in present):
        raise AssertionError("If capturable=True, params and state_steps must be on supported devices: ['cuda'].")


def refuse_differentiable(present: list[tuple[Tensor, Tensor]]) -> None:
    """Refuse steps that gradients should flow through: updates are written, as they are without gradients."""
    if any(parameter.requires_grad for parameter, _ in present):
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if any(gradient.requires_grad for _, gradient in present):
        raise NotImplementedError("steps with differentiable=True are not recorded for gradients of their own")
