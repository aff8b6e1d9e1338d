"""Compiling the most common eager operations ahead, so that programs find them in the disk cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import eagerjit as torch
from eagerjit.runtime.native import improving
from eagerjit.tensors.tensor import Tensor

DTYPES = (torch.float32, torch.float64, torch.int64)

_BINARY = "add sub mul div pow maximum minimum eq ne lt le gt ge".split()
_UNARY = "neg abs sqrt exp log sin cos tanh sigmoid relu floor square".split()
_REDUCTIONS = "sum mean amax amin argmax var".split()
_INPLACE = "add_ sub_ mul_ div_ copy_".split()
_COMPOSITE = "softmax log_softmax".split()


def _pairs(dtype: Any) -> Iterator[tuple[Any, Any]]:
    """Operands of the usual classes: equal shapes, rows and columns broadcast, numbers, 0-d."""
    line, table, row, column = (torch.ones(shape, dtype=dtype) for shape in ((3,), (2, 3), (1, 3), (2, 1)))
    yield from ((line, line), (table, table), (table, line), (table, row), (table, column), (column, line))
    yield from ((torch.ones((), dtype=dtype), line), (line, torch.ones((), dtype=dtype)))
    for x in (line, table):
        yield from ((x, 2), (x, 2.0))


def _calls(dtype: Any) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    for name in _BINARY:
        function = getattr(torch, name)
        for a, b in _pairs(dtype):
            yield function, (a, b)
    for shape in ((3,), (2, 3)):
        x = torch.ones(shape, dtype=dtype)
        for name in _UNARY:
            yield getattr(torch, name), (x,)
        for name in _REDUCTIONS:
            yield getattr(torch, name), (x,)
            for dim in range(-1, x.ndim):
                yield getattr(torch, name), (x, dim)
        for name in _INPLACE:
            yield getattr(Tensor, name), (x.clone(), torch.ones(shape, dtype=dtype))
        for name in _COMPOSITE:
            yield getattr(torch, name), (x, -1)
    table = torch.ones(2, 3, dtype=dtype)
    yield torch.matmul, (table, torch.ones(3, 2, dtype=dtype))
    yield torch.matmul, (table, torch.ones(3, dtype=dtype))
    yield torch.nn.functional.linear, (table, torch.ones(4, 3, dtype=dtype), torch.ones(4, dtype=dtype))


def warm() -> int:
    """Run every common operation on every common class of arguments, with gradients; returns how many calls there were.

    What PyTorch's rules refuse for a dtype (the mean of integers, say) is left out.
    """
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            for function, arguments in _calls(dtype):
                try:
                    _run(function, arguments)
                except (RuntimeError, TypeError, IndexError):
                    continue
                count += 1
    improving.wait()
    return count


def _run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """One call, and one with its gradient where there is one."""
    function(*arguments)
    tensors = [a.detach().requires_grad_() if _differentiable(a) else a for a in arguments]
    if function.__name__.endswith("_") or not any(a is not t for a, t in zip(arguments, tensors, strict=True)):
        return
    result = function(*tensors)
    if isinstance(result, Tensor) and result.requires_grad:
        result.sum().backward()


def _differentiable(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.dtype.is_floating_point
