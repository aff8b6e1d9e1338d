"""Backward hooks of modules: functions that change nothing but see the gradients that pass."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.function import Function
from eagerjit.nn.global_hooks import hooks_of
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import call_back


class Taps:
    """The hooks of one call of a module, around its arguments and its result."""

    def __init__(self, module: Any):
        self.before = [*(h.hook for h in hooks_of("backward_pre")), *module._backward_pre_hooks.values()]
        self.after = [*(h.hook for h in hooks_of("backward")), *module._backward_hooks.values()]
        self.called = bool(self.before or self.after)
        self.module = module
        self.grad_output: tuple[Any, ...] = ()
        self.entered = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, watched."""
        self.entered = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not self.entered:
            return args
        watched = iter(_Watch.apply(self.inputs, *tensors))
        return tuple(next(watched) if isinstance(a, Tensor) else a for a in args)

    def leave(self, result: Any) -> Any:
        """The result, watched."""
        single = isinstance(result, Tensor)
        results = [result] if single else list(result)
        watched = iter(_Watch.apply(self.outputs, *(r for r in results if isinstance(r, Tensor))))
        out = [next(watched) if isinstance(r, Tensor) else r for r in results]
        return out[0] if single else type(result)(out)

    def outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Note the gradients of the result, as hooks before leave them; with no argument to wait for, call the rest."""
        for hook in self.before:
            changed = call_back(hook, self.module, grads)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        self.grad_output = grads
        if not self.entered:
            self.inputs((None,))
        return grads

    def inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the hooks with the gradients of the arguments."""
        for hook in self.after:
            changed = call_back(hook, self.module, grads, self.grad_output)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        return grads


class _Watch(Function):
    """The identity; its backward goes through a function."""

    @staticmethod
    def forward(ctx: Any, through: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.through = through
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return (None, *ctx.through(grads))
