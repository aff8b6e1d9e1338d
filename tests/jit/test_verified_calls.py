"""`verify`: kernels against single operations against NumPy; and graphs from text, run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.compiled import verification
from eagerjit.compiler.ir import Graph


@torch.jit
def attention(x: Any, w: Any, scale: float) -> Any:
    scores = torch.softmax(torch.tanh(x @ w) * scale, dim=1)
    return scores.log().mean(), scores[1:]


def arguments() -> tuple[Any, Any, float]:
    torch.manual_seed(0)
    return torch.randn(6, 8), torch.randn(8, 5, requires_grad=True), 1.5


def test_what_agrees_is_ok_and_says_how_near_numpy_is() -> None:
    found = attention.verify(*arguments())
    assert found.ok and found.first is None and found.operations > 20, str(found)
    assert {"matmul", "tanh", "exp_sub", "log", "sum"} <= set(found.reference_ulps)
    assert found.reference_ulps["mul"] == 0.0 and 0 < found.reference_ulps["sum"]
    assert str(found).startswith("attention:") and "bit for bit" in str(found)
    assert attention.cache_info().compiles == 0


def test_modules_and_what_they_write() -> None:
    module = torch.jit(nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU()))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    found = module.verify(arguments()[0])
    assert found.ok, str(found)
    assert all((value == before[name]).all() for name, value in module.state_dict().items())


def test_what_fastmath_changes_is_a_divergence_at_its_line() -> None:
    @torch.jit(fastmath=True)
    def residual(a: Any, b: Any) -> Any:
        product = torch.exp(a) * b
        return product - a  # here

    found = residual.verify(torch.linspace(0, 1, 100), torch.linspace(1, 3, 100))
    assert not found.ok and found.first is not None
    number = next(i for i, text in enumerate(open(__file__), 1) if text.endswith("# here\n"))
    assert found.first.operation == "sub" and found.first.source == f"{__file__}:{number}"
    assert 0 < found.first.ulps < 1e4
    assert f"{Path(__file__).name}:{number}" in str(found) and "first divergence" in str(found)


@pytest.mark.parametrize("which", ["reference", "alone", "gradient"])
def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    if which == "gradient":
        record = attention._recording.record

        def wrong(structure: Any, leaves: Any) -> Any:
            variant = record(structure, leaves)
            run = variant.backward.executable.run
            variant.backward.executable.run = lambda *given: tuple(g + 1.0 for g in run(*given))
            return variant

        monkeypatch.setattr(attention._recording, "record", wrong)
    else:
        alone = verification._alone

        def off(node: Any, operands: Any) -> Any:
            value = alone(node, operands)
            factor = 2 if which == "reference" else 1 + 2**-20
            return value * np.float32(factor) if node.op.name == "tanh" else value

        monkeypatch.setattr(verification, "_alone", off)
    found = attention.verify(*arguments())
    assert not found.ok and found.first is not None
    if which == "gradient":
        assert {d.between for d in found.divergences} == {"the gradient, against operations alone"}
    else:
        expected = {"reference": "compiled alone, against NumPy", "alone": "fused with others, against alone"}
        assert (found.first.between, found.first.operation) == (expected[which], "tanh")


def test_graphs_run_from_their_text() -> None:
    @torch.jit
    def function(x: Any, y: Any) -> Any:
        return torch.exp(x) @ y, x.sum()

    x, y = torch.linspace(0, 1, 6).reshape(2, 3), torch.linspace(-1, 1, 12).reshape(3, 4)
    graph = Graph.parse(str(function.explain(x, y).graph))
    product, total = graph.run(x.numpy(), y.numpy())
    np.testing.assert_allclose(product, (torch.exp(x) @ y).numpy(), rtol=1e-4)
    np.testing.assert_allclose(total, 3.0)
    with pytest.raises(ValueError, match="2 inputs"):
        graph.run(x.numpy())
