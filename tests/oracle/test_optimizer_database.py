"""PyTorch's own database of optimizers as oracle: what each computes, keeps and refuses, plain and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from database import Converter, array_of, from_torch, outcome, tensors
from torch.testing._internal.common_optimizers import optim_db

import eagerjit as ej

KNOWN = {info.name: info for info in optim_db}
CLOSE = {"Muon": 1e-2, "ASGD": 1e-6, "NAdam": 1e-6, "LBFGS": 1e-4}
"""How close parameters come where PyTorch computes in halves or keeps single numbers, or where searches end."""


def trained(library: Any, name: str, options: dict[str, Any], start: list[Any], compiled: bool = False) -> Any:
    """Parameters and what the optimizer keeps after three steps."""
    parameters = [library.nn.Parameter(s) for s in start]
    optimizer = getattr(library.optim, name)(parameters, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum(((p * 0.7 - 0.3) ** 2).sum() for p in parameters)
        loss.backward()
        return loss

    def step() -> Any:
        return optimizer.step(closure)

    run = ej.jit(step) if compiled else step
    losses = [run().detach() for _ in range(3)]
    return [p.detach() for p in parameters], losses, optimizer.state_dict()


def described(x: Any) -> Any:
    """What is kept, with the dtypes and shapes of tensors."""
    if isinstance(x, (torch.Tensor, ej.Tensor)):
        return str(x.dtype).rpartition(".")[2], tuple(x.shape)
    if isinstance(x, (list, tuple)):
        return [described(value) for value in x]
    return {key: described(value) for key, value in x.items()} if isinstance(x, dict) else (type(x), x)


@pytest.mark.parametrize("name", [name for name, info in KNOWN.items() if not info.only_supports_sparse_grads])
def test_steps_and_states(name: str) -> None:
    info = KNOWN[name]
    for number, sample in enumerate(info.optim_inputs_func(device="cpu")):
        torch.manual_seed(number)
        start = [torch.randn(shape, dtype=torch.float64) for shape in ((3, 4), (4, 2))]
        options = {**sample.kwargs, **({"foreach": True} if number % 2 and "foreach" in info.supported_impls else {})}
        own = Converter()(options)
        expected, wanted = outcome(trained, torch, name, options, [s.clone() for s in start])
        found, error = outcome(trained, ej, name, own, [from_torch(s) for s in start])
        assert error is wanted is None or (wanted is not None and isinstance(error, type(wanted))), sample
        if wanted is not None:
            continue
        limit = CLOSE.get(name, 1e-9)
        for a, b in zip(tensors(found[:2]), tensors(expected[:2]), strict=True):
            np.testing.assert_allclose(array_of(a), array_of(b), limit, limit, err_msg=str(sample))
        if name != "LBFGS":  # which keeps as many vectors as its search takes steps
            assert described(found[2]) == described(expected[2])
        compiled = trained(ej, name, Converter()(options), [from_torch(s) for s in start], compiled=True)
        bits = [[array_of(t).tobytes() for t in tensors(list(result))] for result in (found, compiled)]
        assert bits[0] == bits[1], sample


def given(convert: Converter, x: Any) -> Any:
    """Parameters, or groups of them, converted."""
    if isinstance(x, torch.Tensor):
        return convert(x)
    if isinstance(x, (list, tuple)):
        return type(x)(given(convert, value) for value in x)
    return {key: given(convert, value) for key, value in x.items()} if isinstance(x, dict) else convert(x)


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "SparseAdam"])
def test_what_is_refused(name: str) -> None:
    for bad in KNOWN[name].optim_error_inputs_func(device="cpu", dtype=torch.float32):
        sample, convert = bad.optimizer_error_input, Converter()
        parameters = sample.params or [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(3, 2))]

        def stepped(library: Any, parameters: Any, options: Any) -> None:
            optimizer = getattr(library.optim, name)(parameters, **options)
            for parameter in optimizer.param_groups[0]["params"]:
                if parameter.is_complex():  # which some refuse in the step alone
                    parameter.grad = library.ones_like(parameter)
                    optimizer.step()

        own = given(convert, parameters), given(convert, sample.kwargs)
        _, wanted = outcome(stepped, torch, parameters, sample.kwargs)
        _, error = outcome(stepped, ej, *own)
        assert type(error).__name__ == type(wanted).__name__, (sample.desc, error, wanted)
