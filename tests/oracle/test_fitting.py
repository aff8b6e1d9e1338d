"""Numbers that a dtype cannot hold: wrapped, refused or turned into infinity exactly as PyTorch does."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"]
NUMBERS = [
    -1, 0, 300, -129, -256, 70000, 2**31, 2**40, 2**64, -(2**63) - 1, True, 1.7, -1.7, 256.7, -300.5, 1e10,
    1e30, -1e30, float("inf"), float("nan"), 1 + 2j,
]  # fmt: skip


def zeros(t: Any, dtype: str) -> Any:
    return t.zeros(2, dtype=getattr(t, dtype))


def assigned(t: Any, dtype: str, key: Any, value: Any) -> Any:
    x = zeros(t, dtype)
    x[key] = value
    return x


CALLS: dict[str, Any] = {
    "tensor": lambda t, d, v: t.tensor([v], dtype=getattr(t, d)),
    "tensor nested": lambda t, d, v: t.tensor([[v, 1], [0, 1]], dtype=getattr(t, d)),
    "tensor 0-d": lambda t, d, v: t.tensor(v, dtype=getattr(t, d)),
    "as_tensor": lambda t, d, v: t.as_tensor([v], dtype=getattr(t, d)),
    "new_tensor": lambda t, d, v: zeros(t, d).new_tensor([v]),
    "full": lambda t, d, v: t.full((2,), v, dtype=getattr(t, d)),
    "new_full": lambda t, d, v: zeros(t, d).new_full((2,), v),
    "full_like": lambda t, d, v: t.full_like(zeros(t, d), v),
    "scalar_tensor": lambda t, d, v: t.scalar_tensor(v, dtype=getattr(t, d)),
    "fill_": lambda t, d, v: zeros(t, d).fill_(v),
    "assignment": lambda t, d, v: assigned(t, d, 0, v),
    "assignment by mask": lambda t, d, v: assigned(t, d, t.tensor([True, False]), v),
    "masked_fill": lambda t, d, v: zeros(t, d).masked_fill(t.tensor([True, False]), v),
    "masked_fill_": lambda t, d, v: zeros(t, d).masked_fill_(t.tensor([True, False]), v),
    "index_fill": lambda t, d, v: zeros(t, d).index_fill(0, t.tensor([0]), v),
    "clamp": lambda t, d, v: zeros(t, d).clamp(min=v),
    "where": lambda t, d, v: t.where(t.tensor([True, False]), zeros(t, d), v),
    "add": lambda t, d, v: zeros(t, d) + v,
}


def outcome(call: Any, library: Any, dtype: str, value: Any) -> Any:
    """The dtype and values of a result, or the class of the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(library, dtype, value)
        except Exception as error:
            return type(error)
    kind = str(found.dtype).rpartition(".")[2]
    if kind.startswith("complex"):
        return kind, found.tolist()
    return kind, (found.float() if kind == "bfloat16" else found).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_fit_as_in_torch(name: str, dtype: str) -> None:
    for value in NUMBERS if (name, dtype) != ("clamp", "bool") else []:
        if dtype == "float16" and isinstance(value, complex):
            continue  # refused by PyTorch in some functions, its imaginary part dropped in others
        if isinstance(value, complex) and (name in ("add", "where", "clamp") or dtype == "bool"):
            continue  # these give complex numbers, or have no meaning
        if type(value) is int and not -(2**63) <= value < 2**63 and (name == "add" or dtype in ("bool", "float16")):
            continue  # PyTorch computes with these as unsigned numbers of 64 bits
        found, expected = (outcome(CALLS[name], library, dtype, value) for library in (eagerjit, torch))
        assert found == expected, (value, found, expected)


@pytest.mark.parametrize("name", ["full", "fill_", "masked_fill", "clamp", "where", "assignment"])
def test_numbers_are_checked_in_compiled_functions(name: str) -> None:
    jitted = eagerjit.jit(lambda v: CALLS[name](eagerjit, "uint8", v))
    for value in (3, 300, 7, 256, -2, -256, 5):
        found = outcome(lambda t, d, v: jitted(v), eagerjit, "uint8", value)
        assert found == outcome(CALLS[name], torch, "uint8", value), value


@pytest.mark.parametrize("name", ["fill_", "masked_fill", "clamp"])
def test_integers_for_int64_need_no_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = eagerjit.Tensor.fill_ if name == "fill_" else getattr(eagerjit, name)
    CALLS[name](eagerjit, "int64", 3)
    with monkeypatch.context() as patched:
        patched.setattr(getattr(call, "shared", call), "slow", None)  # classes that override functions stand before it
        for value in (7, -(2**63), 2**63 - 1):
            assert outcome(CALLS[name], eagerjit, "int64", value) == outcome(CALLS[name], torch, "int64", value)
    for value in (2**63, -(2**63) - 1):
        assert isinstance(outcome(CALLS[name], eagerjit, "int64", value), type)


def test_arrays_are_converted_without_a_check() -> None:
    array = np.array([300.0, -1.0, 1.5])
    assert eagerjit.tensor(array, dtype=eagerjit.int16).tolist() == torch.tensor(array, dtype=torch.int16).tolist()


def test_integers_beyond_64_bits_meet_real_numbers_only() -> None:
    assert (eagerjit.ones(2) + 2**63).tolist() == (torch.ones(2) + 2**63).tolist()
    with pytest.raises(OverflowError):
        eagerjit.ones(2, dtype=eagerjit.int64) + 2**70
