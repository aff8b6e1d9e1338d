"""`torch.masked`, compared with PyTorch's: results, dtypes, gradients and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.masked

import eagerjit as ej

MASK = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0]], bool)
REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "logsumexp", "norm", "var", "std")
ALONG = ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")


def given(t: Any, dtype: str) -> Any:
    return t.from_numpy((np.random.default_rng(0).normal(size=(3, 4)) * 5).astype(np.float32)).to(getattr(t, dtype))


def outcome(t: Any, name: str, dtype: str, mask: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """(result, gradient), or the class of an error."""
    x = given(t, dtype)
    if "dtype" in options:
        options = {**options, "dtype": getattr(t, options["dtype"])}
    x = x.requires_grad_() if dtype.startswith("float") else x
    flags = None if mask is None else t.from_numpy(mask)
    try:
        result = getattr(t.masked, name)(x, *args, mask=flags, **options)
    except Exception as error:  # the class is compared
        return type(error)
    if not result.requires_grad:
        return str(result.dtype), result.numpy(), None
    # What is hidden has no part in a loss.
    shown = result.where(flags, 0.0) if result.shape == x.shape and flags is not None else result
    shown.where(shown.isfinite(), 0.0).sum().backward()
    return str(result.dtype), result.detach().numpy(), x.grad.nan_to_num().numpy()


def assert_alike(name: str, dtype: str, mask: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    ours, theirs = (outcome(t, name, dtype, mask, args, options) for t in (ej, torch))
    if isinstance(theirs, type):
        assert ours is theirs or (isinstance(ours, type) and issubclass(theirs, ours))
        return
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [None, MASK, MASK[0], MASK[:, :1], np.ones((2, 3, 4), bool)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: str, mask: Any) -> None:
    before = (2.0,) if name == "norm" else ()
    for dim in (None, 1, -1, (0, 1), (), (0, 0), 2):
        for options in ({}, {"keepdim": True}, {"dtype": "float64"}):
            if name == "logsumexp" and dtype == "float32" and mask is not None and dim in (1, -1) and MASK is mask:
                continue  # a row without elements has a gradient of NaN there
            assert_alike(name, dtype, mask, (*before, dim), options)


@pytest.mark.parametrize("mask", [None, MASK, MASK[0]])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", [*ALONG, "argmax", "argmin", "median"])
def test_along_one_dimension(name: str, dtype: str, mask: Any) -> None:
    for dim in (0, 1, -1, 2):
        assert_alike(name, dtype, mask, (dim,), {})


def test_of_variances_and_norms() -> None:
    for options in ({"unbiased": False}, {"correction": 2}, {"correction": 0}, {"unbiased": True, "correction": 1}):
        for name in ("var", "std"):
            assert_alike(name, "float32", MASK, (1,), options)
    for order in (1, np.inf, -np.inf, 3.0):
        assert_alike("norm", "float32", MASK, (order, 0), {})
        assert_alike("normalize", "float32", MASK, (order, 0), {})
    found = []
    for t in (ej, torch):
        x, flags = t.tensor([-100.0, -200.0, -300.0]), t.tensor([True, False, True])
        found.append(t.masked.logaddexp(x, x / 9, input_mask=flags).numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("name", [*REDUCTIONS, *ALONG, "argmax", "median"])
def test_compiled_calls_give_the_same(name: str) -> None:
    function = getattr(ej.masked, name)
    args = (2.0, 1) if name == "norm" else (1,)
    x, flags = given(ej, "float32"), ej.from_numpy(MASK)
    compiled = ej.jit(lambda x, flags: function(x, *args, mask=flags), fullgraph=True)
    assert ej.equal(compiled(x, flags).nan_to_num(), function(x, *args, mask=flags).nan_to_num())
