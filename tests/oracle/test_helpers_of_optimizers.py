"""What optimizers that programs write import from PyTorch's module of the class Optimizer."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
import eagerjit.optim.optimizer

LIBRARIES = (torch, ej)


def pieces(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.optim.optimizer")


def momentum(t: Any) -> Any:
    """An optimizer as programs write it, from PyTorch's own pieces."""
    o = pieces(t)

    class Momentum(o.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1, differentiable: bool = False):
            super().__init__(params, {"lr": lr, "differentiable": differentiable})

        @o._use_grad_for_differentiable
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                grads = [p.grad for p in params]
                for p in params:
                    if not self.state[p]:
                        self.state[p]["step"] = t.tensor(0.0, dtype=o._get_scalar_dtype())
                        self.state[p]["average"] = t.zeros_like(p)
                steps, averages = ([self.state[p][k] for p in params] for k in ("step", "average"))
                grouped = o.Optimizer._group_tensors_by_device_and_dtype([params, grads, averages, steps])
                for (some, grad, average, step), _ in grouped.values():
                    self.update(some, grad, average, step, group["lr"])

        @staticmethod
        def update(params: Any, grads: Any, averages: Any, steps: Any, lr: float) -> None:
            params, grads, averages = [*params], [*grads], [*averages]
            o._view_as_real(params, grads, averages)
            for p, g, average, step in zip(params, grads, averages, steps, strict=True):
                step += 1
                average.lerp_(g, 0.1)
                count = o._get_value(step)
                p.add_(average, alpha=-lr * (1 - 0.9**count) ** 0.5)

    return Momentum


def trained(t: Any, compiled: bool = False, between: Any = None) -> Any:
    made = [t.tensor(v, requires_grad=True) for v in (np.ones(3, np.float32), np.ones(2, np.complex64))]
    optimizer = momentum(t)(made)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = ((made[0] * x) ** 2).sum() + (made[1].abs() ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = ej.jit(step) if compiled else step
    for i in range(4):
        if between is not None and i == 2:
            between(optimizer)
        run(t.arange(3.0) + i)
    return [p.detach().numpy() for p in made]


def test_an_optimizer_of_a_program() -> None:
    theirs, ours, compiled = trained(torch), trained(ej), trained(ej, True)
    for a, b, c in zip(theirs, ours, compiled, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)
        assert np.array_equal(b, c)


def test_whether_it_is_differentiable_is_seen_by_compiled_calls() -> None:
    for compiled in (False, True):
        with pytest.raises(RuntimeError, match="leaf"):
            trained(ej, compiled, lambda optimizer: optimizer.defaults.update(differentiable=True))


def answers(t: Any) -> Any:
    o, x = pieces(t), t.ones(2)
    yield o._get_value(t.tensor(3.5)), o._get_value(2), o._stack_if_compiling([x])[0] is x
    yield [o._default_to_fused_or_foreach(*given) for given in (([x], True), ([x], False, True), ([None, x], False))]
    yield [o._default_to_fused_or_foreach([x.int()], False, True), o._default_to_fused_or_foreach([], False)]
    yield o._to_scalar(t.ones(1)).shape == (), o._to_scalar(0.5)
    yield str(o._get_scalar_dtype()), str(o._get_scalar_dtype(True))
    function = o._disable_dynamo_if_unsupported(single_tensor_fn=answers)(lambda params, state_steps: len(params))
    yield function([1, 2], state_steps=[]), all(isinstance(getattr(o, n), str) for n in ("_params_doc", "_foreach_doc"))
    grouped = o.Optimizer._group_tensors_by_device_and_dtype([[x, x.double(), x], [None, x, x]], with_indices=True)
    yield sorted((str(k[1]), indices, [len(part) for part in parts]) for k, (parts, indices) in grouped.items())
    o._device_dtype_check_for_fused(x)
    with pytest.raises(RuntimeError, match="fused=True"):
        o._device_dtype_check_for_fused(x.int())


def test_answers() -> None:
    theirs, ours = ([*answers(t)] for t in LIBRARIES)
    assert ours == theirs
    o = eagerjit.optim.optimizer
    assert o._dispatch_sqrt(4.0) == 2.0 == o._dispatch_sqrt(ej.tensor(4.0)) and o.params_t is o.ParamsT
