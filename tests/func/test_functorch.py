"""Names of `functorch`, against PyTorch's package."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch._functorch.deprecated as theirs
from torch import nn

import eagerjit
from eagerjit.func import functorch as ours

X = np.arange(12.0, dtype=np.float32).reshape(4, 3) / 10


def filled(module: Any, t: Any, shift: float = 0.0) -> Any:
    with t.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(t.arange(parameter.numel()).reshape(parameter.shape) * 0.1 + shift - number)
    return module


def pairs() -> Any:
    return (eagerjit, eagerjit.nn, ours), (torch, nn, theirs)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_modules_as_functions() -> None:
    found = []
    for t, layers, functorch in pairs():
        model = filled(layers.Sequential(layers.Linear(3, 2), layers.Tanh()), t)
        function, parameters = functorch.make_functional(model)
        assert all(p is not q for p, q in zip(parameters, model.parameters(), strict=True))
        function(parameters, t.tensor(X)).sum().backward()
        found.append([p.grad.numpy() for p in parameters])
        assert model[0].weight.grad is None
        assert not any(p.requires_grad for p in functorch.make_functional(model, True)[1])
        with pytest.raises(RuntimeError, match="has buffers"):
            functorch.make_functional(layers.BatchNorm1d(2))
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_several_modules_at_once() -> None:
    found = []
    for t, layers, functorch in pairs():
        models = [filled(layers.Sequential(layers.Linear(3, 2), layers.BatchNorm1d(2)), t, i).eval() for i in (0, 1, 2)]
        function, parameters, buffers = functorch.combine_state_for_ensemble(models)
        assert not any(p.requires_grad for p in parameters)
        found.append(functorch.vmap(function, (0, 0, None))(parameters, buffers, t.tensor(X)).detach().numpy())
        function, parameters, buffers = functorch.make_functional_with_buffers(models[1])
        np.testing.assert_allclose(function(parameters, buffers, t.tensor(X)).detach().numpy(), found[-1][1], rtol=1e-6)
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_every_name_warns() -> None:
    for t, _, functorch in pairs():
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            assert functorch.grad(lambda x: x * x)(t.tensor(3.0)).item() == 6
        assert [w.category for w in noted] == [FutureWarning] and "torch.func.grad" in str(noted[0].message)


class Holder(nn.Module):
    """Reads a tensor that is no parameter, and one that it may not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.plain = nn.Linear(2, 1), torch.ones(1)

    def forward(self, x: Any) -> Any:
        return self.layer(x) * 0 + self.plain + getattr(self, "other", 5)


class OwnHolder(eagerjit.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.plain = eagerjit.nn.Linear(2, 1), eagerjit.ones(1)

    forward = Holder.forward


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "names",
    [("plain",), ("other",), ("layer.other",), ("layer",), ("",), ("missing.weight",), ("layer.in_features",), (),
     ("layer.weight", "layer.bias"), ("layer.weight", "layer.bias", "other")],
    ids=str,
)  # fmt: skip
def test_names_that_are_no_parameters(names: tuple[str, ...], strict: bool) -> None:
    found = []
    for t, holder in ((eagerjit, OwnHolder()), (torch, Holder())):
        values = {name: t.zeros(1, 2) if name.endswith("weight") else t.zeros(1) for name in names}
        try:
            found.append(t.func.functional_call(holder, values, (t.ones(1, 2),), strict=strict).tolist())
        except (KeyError, AttributeError, TypeError, RuntimeError) as error:
            found.append(type(error))
        assert holder.plain.item() == 1 and not hasattr(holder, "other") and not hasattr(holder.layer, "other")
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["grad", "grad_and_value", "jacrev", "jacfwd", "hessian"])
def test_complex_functions_are_refused_as_in_pytorch(name: str) -> None:
    def message(t: Any) -> str:
        x = t.ones(3, dtype=t.complex64)
        with pytest.raises(RuntimeError) as refused:
            getattr(t.func, name)(lambda p: (p * p).sum())(x)
        return str(refused.value).split("torch.")[0]

    assert message(eagerjit) == message(torch)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_of_complex_outputs_are_refused_as_in_pytorch(name: str) -> None:
    def message(t: Any) -> str:
        with pytest.raises(RuntimeError) as refused:
            getattr(t.func, name)(lambda p: p * 1j)(t.ones(3))
        return str(refused.value)

    assert message(eagerjit) == message(torch)
