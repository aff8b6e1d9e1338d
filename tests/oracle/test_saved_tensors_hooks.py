"""Values kept for gradients that pass through functions of the user's, against PyTorch."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

HOOKS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "the same": lambda t: (lambda x: x, lambda x: x),
    "arrays": lambda t: (lambda x: x.detach().numpy().copy(), lambda a: t.tensor(a)),
    "doubled": lambda t: (lambda x: x * 2, lambda x: x / 2),
    "half precision": lambda t: (lambda x: (x.dtype, x.to(t.float16)), lambda p: p[1].to(p[0])),
}
MODELS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda n: n.Sequential(n.Linear(4, 5), n.Tanh(), n.LayerNorm(5), n.Linear(5, 3)),
    "convolution": lambda n: n.Sequential(
        n.Unflatten(1, (1, 4)), n.Conv1d(1, 3, 2), n.BatchNorm1d(3), n.ReLU(inplace=True), n.Flatten()
    ),
    "recurrent": lambda n: n.LSTM(4, 3),
    "attention": lambda n: n.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
    "in place": lambda n: n.Sequential(n.Linear(4, 4), n.Hardtanh(inplace=True), n.Sigmoid(), n.Linear(4, 2)),
}


def gradients(t: Any, model: str, hooks: Any) -> list[Any]:
    made = MODELS[model](t.nn)
    for position, parameter in enumerate(made.parameters()):
        value = np.random.default_rng(position).normal(size=tuple(parameter.shape)).astype(np.float32)
        with t.no_grad():
            parameter.copy_(t.tensor(value))
    x = t.tensor(np.random.default_rng(9).normal(size=(3, 4)).astype(np.float32), requires_grad=True)
    graph = importlib.import_module(f"{t.__name__}.autograd.graph")
    with graph.saved_tensors_hooks(*hooks(t)):
        y = made(x)
        loss = ((y[0] if isinstance(y, tuple) else y).exp() * x.sum()).mean()
    loss.backward()
    return [x.grad.numpy(), *(p.grad.numpy() for p in made.parameters())]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("hooks", [name for name in HOOKS if name != "half precision"])
def test_gradients(hooks: str, model: str) -> None:
    if (hooks, model) == ("doubled", "recurrent"):  # PyTorch's keeps bytes that stand for no numbers
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = (gradients(t, model, HOOKS[hooks]) for t in (eagerjit, torch))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_rounded_values_give_rounded_gradients() -> None:
    found, expected = (gradients(t, "linear", HOOKS["half precision"]) for t in (eagerjit, torch))
    exact = gradients(eagerjit, "linear", HOOKS["the same"])
    assert any((a != b).any() for a, b in zip(found, exact, strict=True))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("t", [eagerjit, torch])
def test_what_is_kept_decides(t: Any) -> None:
    graph = importlib.import_module(f"{t.__name__}.autograd.graph")
    x = t.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda kept: kept * 0, lambda kept: kept):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    with graph.saved_tensors_hooks(lambda kept: kept, lambda kept: 3):
        y = x * x
    with pytest.raises(TypeError):
        y.sum().backward()
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept):
            pass
    with graph.saved_tensors_hooks(lambda kept: kept.clone(), lambda kept: kept):
        y = x.pow(3)
    (first,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = t.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]


def test_compiled_functions_run_eagerly_meanwhile() -> None:
    from eagerjit.autograd.graph import saved_tensors_hooks
    from eagerjit.jit import JitWarning

    jitted = eagerjit.jit(lambda x: (x * x).exp().sum())
    x = eagerjit.tensor([1.0, 2.0], requires_grad=True)
    jitted(x)
    with saved_tensors_hooks(lambda kept: kept * 0, lambda kept: kept):
        y = jitted(x)
    y.backward()
    assert x.grad.tolist() == [0.0, 0.0]

    @eagerjit.jit
    def inside(x: Any) -> Any:
        with saved_tensors_hooks(lambda kept: kept * 0, lambda kept: kept):
            return (x * x).sum()

    x.grad = None
    with pytest.warns(JitWarning, match="pass through functions of Python"):
        inside(x).backward()
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("t", [torch, eagerjit], ids=["torch", "eagerjit"])
def test_values_go_through_once_however_new_a_gradient_is(t: Any) -> None:
    graph = importlib.import_module(f"{t.__name__}.autograd.graph")
    if t is eagerjit:
        # The first gradient of a kind is recorded, which keeps values of its own.
        eagerjit.calling.dispatch.forget_programs()
    kept: list[list[float]] = []
    for _ in range(2):
        x = t.tensor([1.0, 2.0, 4.0], requires_grad=True)
        with graph.saved_tensors_hooks(lambda value: (kept.append(value.tolist()), value)[1], lambda value: value):
            x.var().backward()
    assert kept == [[1.0, 2.0, 4.0]] * 2
