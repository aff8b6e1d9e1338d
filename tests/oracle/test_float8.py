"""Floats of 8 bits: conversions are PyTorch's bit for bit; the rest is what NumPy computes."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

import eagerjit
from eagerjit.jit import JitWarning

NAMES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
VALUES = np.array(
    [0.0, -0.0, 0.1, -3.7, 448.0, 449.0, 464.0, 465.0, -500.0, 57344.0, 61440.0, 1e9, 1e-4, 2.0**-9, 2.0**-10, 1e-45,
     0.75, 1.5, 3.0, -1.5, np.inf, -np.inf, np.nan, 240.0, 247.0, 0.0009765625],
    np.float32,
)  # fmt: skip


def pair(name: str) -> tuple[torch.Tensor, eagerjit.Tensor]:
    return torch.from_numpy(VALUES).to(getattr(torch, name)), eagerjit.from_numpy(VALUES).to(getattr(eagerjit, name))


@pytest.mark.parametrize("name", NAMES)
def test_conversions(name: str) -> None:
    expected, actual = pair(name)
    assert np.array_equal(expected.view(torch.uint8).numpy(), actual.view(eagerjit.uint8).numpy())
    for wide in ("float32", "float64", "bfloat16"):
        there = expected.to(getattr(torch, wide)).float().numpy()
        assert np.array_equal(there, actual.to(getattr(eagerjit, wide)).float().numpy(), equal_nan=True)
    half, own = torch.from_numpy(VALUES).bfloat16(), eagerjit.from_numpy(VALUES).bfloat16()
    there = half.to(getattr(torch, name)).float().numpy()
    assert np.array_equal(there, own.to(getattr(eagerjit, name)).float().numpy(), equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_descriptions(name: str) -> None:
    expected, actual = torch.finfo(getattr(torch, name)), eagerjit.finfo(getattr(eagerjit, name))
    assert (actual.bits, actual.max, actual.min) == (8, expected.max, expected.min)
    assert actual.eps == (0.25 if name == "float8_e5m2fnuz" else expected.eps)  # PyTorch's is another format's
    assert getattr(eagerjit, name).is_floating_point and getattr(eagerjit, name).itemsize == 1
    assert str(pair(name)[1][:2].dtype) == f"torch.{name}"


def test_mixing_with_other_dtypes_is_refused() -> None:
    for t in (torch, eagerjit):
        with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
            t.ones(2).to(t.float8_e5m2) + t.ones(2)


@pytest.mark.parametrize("name", ("float8_e4m3fn", "float8_e5m2"))
def test_files(name: str) -> None:
    expected, actual = pair(name)
    file = io.BytesIO()
    eagerjit.save({"w": actual}, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True)["w"].view(torch.uint8), expected.view(torch.uint8))
    file = io.BytesIO()
    torch.save(expected, file)
    file.seek(0)
    assert eagerjit.equal(eagerjit.load(file).view(eagerjit.uint8), actual.view(eagerjit.uint8))


def test_gradients_pass_and_compiled_functions_run_eagerly() -> None:
    x = eagerjit.tensor([0.3, 1.7], requires_grad=True)

    @eagerjit.jit
    def rounded(x: eagerjit.Tensor) -> eagerjit.Tensor:
        return x.to(eagerjit.float8_e4m3fn).float() * 2

    with pytest.warns(JitWarning, match="torch.float8_e4m3fn numbers are computed by NumPy"):
        y = rounded(x)
    y.sum().backward()
    assert y.tolist() == [0.625, 3.5] and x.grad.tolist() == [2.0, 2.0]
