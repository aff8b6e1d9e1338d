"""Functions and Modules whose work on a device is captured, and launched as a whole by later calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.autograd import api
from eagerjit.cuda.present import needed
from eagerjit.jit import jit
from eagerjit.nn.module import Module
from eagerjit.tensors.creation import empty_like
from eagerjit.tensors.tensor import Tensor
from eagerjit.utils._pytree import tree_leaves

__all__ = ["make_graphed_callables"]


def make_graphed_callables(
    callables: Any, sample_args: tuple[Any, ...], num_warmup_iters: int = 3, allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:  # fmt: skip
    """A function or Module, or a tuple of several, whose calls launch graphs, gradients included.

    sample_args         tensors that each one is called with first, a tuple of tuples for several
    num_warmup_iters    how often
    allow_unused_input  whether results may depend on no tensor of these that requires grad

    Of a Module it is the forward that becomes another, and the Module is given back. A graph is made for every kind of
    arguments, by `jit(cuda_graphs=True)`: later calls may have others than the samples, and nothing is overwritten that
    the program still holds. `pool` is not needed for that.
    """
    needed()
    if not isinstance(callables, tuple):
        return _graphed(callables, sample_args, num_warmup_iters, allow_unused_input)
    for function, arguments in zip(callables, sample_args, strict=False):
        _check(function, arguments)
    return tuple(
        _graphed(function, arguments, num_warmup_iters, allow_unused_input)
        for function, arguments in zip(callables, sample_args, strict=False)
    )


def _check(function: Any, arguments: tuple[Any, ...]) -> None:
    """Raise AssertionError for Modules with hooks or trainable buffers, and for arguments that are no tensors."""
    if isinstance(function, Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise AssertionError(
                "Modules must not have hooks registered at the time they are passed. However, registering hooks "
                "on modules after passing them through make_graphed_callables is allowed."
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise AssertionError(
                "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
                "trainable. All buffers must have ``requires_grad=False``."
            )
    if not all(isinstance(leaf, Tensor) for leaf in tree_leaves(arguments)):
        raise AssertionError(
            "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
        )


def _graphed(function: Any, arguments: tuple[Any, ...], times: int, allow_unused: bool) -> Any:
    _check(function, arguments)
    is_module = isinstance(function, Module)
    call = jit(function.forward if is_module else function, cuda_graphs=True)
    given = [*tree_leaves(arguments), *(function.parameters() if is_module else ())]
    for _ in range(times):
        _warm(call, arguments, [tensor for tensor in given if tensor.requires_grad], allow_unused)
    if not is_module:
        return call
    function.forward = call
    return function


def _warm(call: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[Tensor], allow_unused: bool) -> None:
    """Call a function and its gradient. Raises RuntimeError where an input is not used and that is not allowed."""
    results = [result for result in tree_leaves(call(*arguments)) if result.requires_grad]
    if results:
        api.grad(results, inputs, [empty_like(result) for result in results], allow_unused=allow_unused)
