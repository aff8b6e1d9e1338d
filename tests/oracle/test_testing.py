"""`torch.testing`: assertions on tensors, and tensors for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import result

import eagerjit as ej

LIBRARIES = (ej, torch)


CLOSE: dict[str, Callable[[Any], Any]] = {
    "equal": lambda t: (t.ones(2), t.ones(2)),
    "near": lambda t: (t.ones(2), t.ones(2) + 1e-6),
    "not near": lambda t: (t.ones(2), t.ones(2) + 1e-4),
    "bfloat16": lambda t: (t.ones(2).bfloat16(), t.tensor([1.0, 1.0078125]).bfloat16()),
    "dtype": lambda t: (t.ones(2), t.ones(2).double()),
    "shape": lambda t: (t.ones(2), t.ones(1)),
    "integers": lambda t: (t.tensor([1, 2]), t.tensor([1, 3])),
    "nan": lambda t: (t.tensor([float("nan")]), t.tensor([float("nan")])),
    "inf": lambda t: (t.tensor([float("inf")]), t.tensor([float("inf")])),
    "numbers": lambda t: (1.0, 1.0 + 1e-9),
    "lists": lambda t: ([t.ones(1), 1], [t.ones(1), 2]),
    "lengths": lambda t: ([1], [1, 2]),
    "mappings": lambda t: ({"a": t.ones(1)}, {"a": t.ones(1)}),
    "keys": lambda t: ({"a": 1}, {"b": 1}),
    "none": lambda t: (None, None),
    "none and one": lambda t: (None, 1),
    "text": lambda t: ("a", object()),
    "number and tensor": lambda t: (1.0, t.tensor(1.0)),
    "whole number and fraction": lambda t: (1, 1.0),
    "number of NumPy": lambda t: (np.float32(1), 1.0),
    "array and tensor": lambda t: (np.ones(2), t.ones(2).double()),
    "arrays": lambda t: (np.ones(2), np.ones(2)),
    "parameter": lambda t: (t.nn.Parameter(t.ones(2), False), t.ones(2)),
    "device": lambda t: (t.ones(2, device="meta"), t.ones(2)),
    "on meta": lambda t: (t.ones(2, device="meta"), t.zeros(2, device="meta")),
    "layout": lambda t: (t.eye(2), t.eye(2).to_sparse()),
    "layout and values": lambda t: (t.eye(2), (t.eye(2) * 2).to_sparse()),
    "sparse": lambda t: (t.eye(2).to_sparse(), t.eye(2).to_sparse()),
    "sparse places": lambda t: (t.tensor([1.0, 0.0]).to_sparse(), t.tensor([0.0, 1.0]).to_sparse()),
    "sparse values": lambda t: (t.eye(2).to_sparse_csr(), (t.eye(2) * 2).to_sparse_csr()),
    "sparse entries": lambda t: (t.sparse_coo_tensor([[0, 0]], t.ones(2), (2,)), t.tensor([2.0, 0.0]).to_sparse()),
    "by columns": lambda t: (t.eye(2).to_sparse_csc(), t.eye(2).to_sparse_csc()),
}


@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize(
    "options", [
        {}, {"rtol": 0.1, "atol": 0.1}, {"equal_nan": True}, {"check_dtype": False}, {"check_device": False},
        {"check_layout": False}, {"allow_subclasses": False},
    ], ids=str,
)
def test_assert_close(name: str, options: dict[str, Any]) -> None:
    found, expected = (
        result(lambda t: t.testing.assert_close(*CLOSE[name](t), **options), library) for library in LIBRARIES
    )
    assert found == expected


def test_assert_close_says_what_differs() -> None:
    with pytest.raises(
        AssertionError, match=r"Mismatched elements: 1 / 3 \(33\.3%\)\n.*absolute difference: 2\.0 at index \(1,\)"
    ):
        ej.testing.assert_close(ej.tensor([1.0, 2, 3]), ej.tensor([1.0, 4, 3]))
    with pytest.raises(AssertionError, match=r"^mine$"):
        ej.testing.assert_close(ej.ones(1), ej.zeros(1), msg="mine")
    with pytest.raises(ValueError, match="got no atol"):
        ej.testing.assert_close(ej.ones(1), ej.zeros(1), rtol=1)
    ej.testing.assert_allclose(ej.ones(2), np.ones(2))


MADE: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "complex": ({"dtype": "complex64", "low": 1, "high": 2}, lambda x: ((x.real >= 1) & (x.imag >= 1)).all().item()),
    "truths": ({"dtype": "bool"}, lambda x: x.any().item() and not x.all().item()),
    "unsigned": ({"dtype": "uint8"}, lambda x: x.max().item() < 10),
    "no zeros": ({"dtype": "float32", "low": 0, "high": 0, "exclude_zero": True}, lambda x: x.min().item()),
    "nothing between": ({"dtype": "int64", "low": 4, "high": 4}, bool),
    "gradients of integers": ({"dtype": "int64", "requires_grad": True}, bool),
    "two layouts": ({"dtype": "float32", "noncontiguous": True, "memory_format": "contiguous_format"}, bool),
    "unknown": ({"dtype": "float32", "deterministic": True}, bool),
}


@pytest.mark.filterwarnings("ignore:Passing .low==high")
@pytest.mark.parametrize("name", MADE)
def test_make_tensor(name: str) -> None:
    options, fact = MADE[name]

    def made(t: Any) -> Any:
        given = {k: getattr(t, v) if isinstance(v, str) else v for k, v in options.items()}
        return fact(t.testing.make_tensor(60, device="cpu", **given))

    assert result(made, ej) == result(made, torch)


def test_make_tensor_has_no_order() -> None:
    made = ej.testing.make_tensor((3, 4), dtype=ej.float32, low=1, high=2, requires_grad=True, noncontiguous=True)
    assert made.shape == (3, 4) and made.requires_grad and not made.is_contiguous() and bool((made >= 1).all())
