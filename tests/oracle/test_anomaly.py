"""Backward passes watched for NaN: what is raised, what the warning names, and that compiled functions are watched."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch

import eagerjit


def root(x: Any) -> Any:
    return (x.sqrt() * 0).sum()


def quotient(x: Any) -> Any:
    return (x * 0 / x).sum()


def listed(x: Any) -> Any:
    return (x.sqrt() * 0).sum() + 1


def watched(t: Any, function: Any) -> tuple[str, str]:
    """What a watched backward pass raises and warns."""
    x = t.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with t.autograd.detect_anomaly():
            assert t.is_anomaly_enabled()
            with pytest.raises(RuntimeError) as raised:
                function(x).backward()
    assert not t.is_anomaly_enabled()
    return str(raised.value), str(seen[-1].message)


@pytest.mark.parametrize("function", [root, quotient])
def test_the_operation_is_named(function: Any) -> None:
    (ours, warning), (theirs, _) = watched(eagerjit, function), watched(torch, function)
    assert ours == theirs
    line = inspect.getsourcelines(function)[1] + 1
    assert f"{__file__}:{line}" in warning


def test_compiled_functions_are_watched() -> None:
    jitted = eagerjit.jit(root)
    x = eagerjit.tensor([1.0, 4.0], requires_grad=True)
    for _ in range(3):
        jitted(x)
    assert watched(eagerjit, jitted) == watched(eagerjit, root)
    compiles = jitted.cache_info().compiles
    assert jitted(x).item() == 0.0 and jitted.cache_info().compiles == compiles


def test_steps_with_the_gradient_inside_are_watched() -> None:
    weight = eagerjit.zeros(2, requires_grad=True)

    @eagerjit.jit
    def step(x: Any) -> Any:
        weight.grad = None
        loss = root(weight * x)
        loss.backward()
        return weight.grad

    x = eagerjit.ones(2)
    assert step(x).isnan().all() and step(x).isnan().all()
    with eagerjit.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="SqrtBackward"):
        with pytest.raises(RuntimeError, match="nan values"):
            step(x)
    assert step(x).isnan().all()
    assert step.cache_info().compiles == 1


@pytest.mark.parametrize("t", [eagerjit, torch])
def test_switches(t: Any) -> None:
    x = t.tensor([0.0], requires_grad=True)
    t.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        assert t.is_anomaly_enabled() and not t.is_anomaly_check_nan_enabled()
        root(x).backward()
        assert x.grad.isnan().all()
    finally:
        t.autograd.set_detect_anomaly(False)
    with t.autograd.set_detect_anomaly(True):
        assert t.is_anomaly_enabled()
        y = t.ones(2, requires_grad=True)
        (gradient,) = t.autograd.grad(listed(y * 3), y)
    assert gradient.tolist() == [0.0, 0.0] and not t.is_anomaly_enabled()
