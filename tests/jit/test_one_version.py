"""What one version serves: sizes that vary, counters of decorated methods; and calls of the host that are made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit import nn

OF_SIZES: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "trace": (torch.trace, lambda n: torch.arange(float(n * n)).reshape(n, n)),
    "diagonal": (lambda x: x.diagonal() * 2.0, lambda n: torch.arange(float(n * n)).reshape(n, n)),
    "diagonal of a wide one": (lambda x: x.diagonal(1) * 2.0, lambda n: torch.arange(n * (n + 3.0)).reshape(n, n + 3)),
    "diagonal of a tall one": (lambda x: x.diagonal(-1).sum(), lambda n: torch.arange(n * (n + 3.0)).reshape(n + 3, n)),
    "batches": (lambda x: x.diagonal(0, 1, 2).cumsum(-1), lambda n: torch.arange(2.0 * n * n).reshape(2, n, n)),
    "diag": (torch.diag, lambda n: torch.arange(float(n * n)).reshape(n, n)),
    "written": (lambda x: torch.diagonal_scatter(x, x[0]), lambda n: torch.arange(float(n * n)).reshape(n, n)),
    "rfft": (lambda x: torch.fft.rfft(x).abs(), lambda n: torch.arange(float(n))),
    "fft": (lambda x: torch.fft.fft(x).abs(), lambda n: torch.arange(float(n))),
    "combinations": (torch.combinations, lambda n: torch.arange(float(n))),
    "combinations of three": (lambda x: torch.combinations(x, 3, True).sum(1), lambda n: torch.arange(float(n))),
    "ifft": (lambda x: torch.fft.ifft(x).abs(), lambda n: torch.arange(float(n))),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_sizes(name: str) -> None:
    function, make = OF_SIZES[name]
    jitted = torch.jit(function)
    for n in range(3, 14):
        assert jitted(make(n)).tolist() == function(make(n)).tolist()
    assert jitted.cache_info().compiles <= 2


@pytest.mark.parametrize("mode", [torch.no_grad(), torch.enable_grad(), torch.inference_mode(), torch.no_grad])
def test_counters_of_decorated_methods(mode: Any) -> None:
    class Average:
        steps = 0

        @mode
        def update(self, x: Any, values: Any) -> Any:
            self.steps += 1
            return x * values[0] + self.steps

    average = Average()
    jitted = torch.jit(lambda x: average.update(x, [2.0, x]))
    found = [jitted(torch.ones(2)).tolist() for _ in range(6)]
    assert found == [[2.0 + i] * 2 for i in range(1, 7)] and average.steps == 6
    assert jitted.cache_info().compiles <= 2


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_run_once_forward_and_once_backward(kind: Any) -> None:
    layer, x = kind(4, 3), torch.randn(5, 2, 4)

    def step() -> Any:
        layer.zero_grad()
        loss = layer(x)[0].sum()
        loss.backward()
        return loss, [p.grad.clone() for p in layer.parameters()]

    jitted = torch.jit(step)
    (loss, grads), (plain_loss, plain_grads) = jitted(), step()
    assert loss.item() == plain_loss.item()
    assert [g.tolist() for g in grads] == [g.tolist() for g in plain_grads]
    names = Counter(k.name for k in jitted.explain().kernels)
    assert names["recurrent_layer"] == names["recurrent_layer_gradient"] == 1
