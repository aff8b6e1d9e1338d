"""Gradients of convolutions as functions: for the input, of its sizes, and for the weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.ops.convolution import convolution_input, convolution_weight, numbers
from eagerjit.tensors.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _steps(rank: int, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple[Any, ...]:
    named = (("stride", stride), ("padding", padding), ("dilation", dilation))
    return (*(numbers(name, value, rank) for name, value in named), groups)


def _check(size: Any, given: Tensor, grad_output: Tensor, rank: int) -> None:
    """Refuse sizes and tensors that are not those of a convolution over so many dimensions."""
    if not len(size) == given.ndim == grad_output.ndim == rank + 2:
        raise RuntimeError(
            f"conv{rank}d: sizes {list(size)}, a tensor {list(given.shape)} and a gradient {list(grad_output.shape)} "
            f"are not all of {rank + 2} dimensions"
        )


def _functions(rank: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def for_input(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        _check(input_size, weight, grad_output, rank)
        steps = _steps(rank, stride, padding, dilation, groups)
        return convolution_input.call(grad_output, weight, None, tuple(input_size[2:]), *steps)  # type: ignore[no-any-return]

    def for_weight(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        _check(weight_size, input, grad_output, rank)
        steps = _steps(rank, stride, padding, dilation, groups)
        return convolution_weight.call(grad_output, input, tuple(weight_size[2:]), *steps)  # type: ignore[no-any-return]

    for function, of in ((for_input, "input"), (for_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{rank}d_{of}"
        function.__doc__ = f"The gradient of `conv{rank}d` for its {of}, from that of its result."
    return for_input, for_weight


conv1d_input, conv1d_weight = _functions(1)
conv2d_input, conv2d_weight = _functions(2)
conv3d_input, conv3d_weight = _functions(3)
