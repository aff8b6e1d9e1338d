"""What functions that make tensors take beside sizes: dtype, layout, pinned memory, `out=`; and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

import eagerjit

FUNCTIONS: dict[str, Any] = {
    "zeros": (3,), "ones": (3,), "empty": (3,), "full": ((3,), 2.0), "arange": (3,), "linspace": (0, 1, 3),
    "logspace": (0, 1, 3), "eye": (2,), "rand": (3,), "randn": (3,), "randint": (0, 3, (3,)), "randperm": (3,),
    "bartlett_window": (3,), "kaiser_window": (3,), "scalar_tensor": (3,), "range": (0, 2), "tril_indices": (2, 2),
    "empty_strided": ((2,), (1,)),
}  # fmt: skip
LIKE = ["zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like"]
OPTIONS: dict[str, Any] = {
    "out": lambda t: {"out": t.zeros(3)},
    "out of another shape": lambda t: {"out": t.zeros(5)},
    "out and dtype": lambda t: {"out": t.zeros(3), "dtype": t.float32},
    "out and another dtype": lambda t: {"out": t.zeros(3), "dtype": t.float64},
    "out that is no tensor": lambda t: {"out": [1.0]},
    "unknown": lambda t: {"dtyp": 3},
    "layout": lambda t: {"layout": t.strided},
    "layout as text": lambda t: {"layout": "strided"},
    "not pinned": lambda t: {"pin_memory": False},
    "device": lambda t: {"device": "cpu"},
    "requires_grad": lambda t: {"requires_grad": False},
    "no dtype": lambda t: {"dtype": None},
    "Python's type": lambda t: {"dtype": int},
    "dtype as text": lambda t: {"dtype": "float"},
}
DRAWS = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"}


def outcome(t: Any, name: str, options: dict[str, Any]) -> Any:
    """Dtype, shape, values and whether `out` came back; or the class of the exception."""
    arguments = FUNCTIONS.get(name, (t.ones(3), 2) if name in ("full_like", "randint_like") else (t.ones(3),))
    try:
        found = getattr(t, name)(*arguments, **options)
    except Exception as error:
        return type(error)
    values = None if name in DRAWS or name.startswith("empty") else found.tolist()
    return str(found.dtype), tuple(found.shape), found is options.get("out"), values


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", [*FUNCTIONS, *LIKE])
def test_option(name: str, option: str) -> None:
    if (name, option) == ("range", "not pinned"):  # which PyTorch's deprecated function alone refuses
        return
    found, expected = (outcome(t, name, OPTIONS[option](t)) for t in (eagerjit, torch))
    if isinstance(expected, tuple) and expected[3] is not None and name.endswith("_window"):
        assert found[3] == pytest.approx(expected[3], abs=1e-6)
        found, expected = found[:3], expected[:3]
    assert found == expected


def test_out_of_draws_is_written() -> None:
    for name in ("rand", "randn"):
        out = eagerjit.full((3,), 9.0)
        getattr(eagerjit, name)(3, out=out)
        assert (out != 9.0).all()


def test_layouts() -> None:
    for t in (eagerjit, torch):
        x = t.ones(2)
        assert x.layout is t.strided
        assert isinstance(x.layout, t.layout)
        assert [repr(x.layout), str(t.sparse_coo), str(t.sparse_csr)] == [
            "torch.strided", "torch.sparse_coo", "torch.sparse_csr"
        ]  # fmt: skip
        assert repr(t.zeros(2, layout=t.sparse_coo).layout) == "torch.sparse_coo"
    assert pickle.loads(pickle.dumps(eagerjit.strided)) is eagerjit.strided
    with pytest.raises(NotImplementedError, match="sparse_coo"):
        eagerjit.ones(2, layout=eagerjit.sparse_coo)


def test_python_types_as_dtypes() -> None:
    for t in (eagerjit, torch):
        assert [t.tensor([1], dtype=kind).dtype for kind in (int, float, bool, complex)] == [
            t.int64, t.float64, t.bool, t.complex128
        ]  # fmt: skip
        assert t.ones(2).to(float).dtype == t.float64
        assert t.ones(2).new_zeros(2, dtype=int).dtype == t.int64


SIZES: dict[str, Any] = {
    "size": {"size": (2, 3)}, "a list": {"size": [2]}, "none": {"size": ()}, "a number": {"size": 3},
    "complex": {"size": (2,), "dtype": "complex64"},
}  # fmt: skip


@pytest.mark.parametrize("given", SIZES)
@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_sizes_given_by_name(name: str, given: str) -> None:
    def made(t: Any) -> Any:
        options = dict(SIZES[given])
        if "dtype" in options:
            options["dtype"] = getattr(t, options["dtype"])
        try:
            found = getattr(t, name)(**options)
        except TypeError:
            return TypeError
        return tuple(found.shape), str(found.dtype)

    assert made(eagerjit) == made(torch)


def test_complex_random_numbers_have_variance_1_and_their_places() -> None:
    eagerjit.manual_seed(0)
    for made in (
        eagerjit.randn(4000, dtype=eagerjit.complex64),
        eagerjit.zeros(4000, dtype=eagerjit.complex128).normal_(1 + 2j, 3.0) / 3 - (1 + 2j) / 3,
    ):
        values = made.numpy()
        assert abs(values.mean()) < 0.1
        assert abs(values.real.var() - 0.5) < 0.05
        assert abs(values.imag.var() - 0.5) < 0.05
    uniform = eagerjit.zeros(4000, dtype=eagerjit.complex64).uniform_(1.0, 3.0).numpy()
    for part in (uniform.real, uniform.imag):
        assert 1 <= part.min() < 1.1 < 2.9 < part.max() < 3
    jitted = eagerjit.jit(lambda: eagerjit.rand(3, dtype=eagerjit.complex64))
    eagerjit.manual_seed(3)
    expected = eagerjit.rand(3, dtype=eagerjit.complex64)
    eagerjit.manual_seed(3)
    assert jitted().tolist() == expected.tolist()


def test_as_array() -> None:
    x = eagerjit.ones(2, requires_grad=True)
    assert eagerjit.asarray(x) is x
    assert eagerjit.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert not eagerjit.asarray(x, requires_grad=False).requires_grad
    for options in ({"dtype": "float64", "copy": False}, {"copy": False}):
        for t in (eagerjit, torch):
            given = {k: getattr(t, v) if k == "dtype" else v for k, v in options.items()}
            with pytest.raises(ValueError, match="can't alias"):
                t.asarray([1.0, 2.0] if "dtype" not in given else t.ones(2), **given)


BOUNDS: dict[str, Any] = {
    "like, high by name": lambda t, x: t.randint_like(x, high=2),
    "like, both by name": lambda t, x: t.randint_like(input=x, low=5, high=9),
    "like, low in place, high by name": lambda t, x: t.randint_like(x, 5, high=9),
    "like, no bounds": lambda t, x: t.randint_like(x),
    "high in place, size by name": lambda t, x: t.randint(5, size=(30,)),
    "high and size by name": lambda t, x: t.randint(high=5, size=(30,)),
    "all by name": lambda t, x: t.randint(low=2, high=5, size=(30,)),
}


@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_of_integers(bounds: str) -> None:
    def drawn(t: Any) -> Any:
        try:
            found = BOUNDS[bounds](t, t.zeros(30))
        except Exception as error:
            return type(error)
        return str(found.dtype), sorted(set(found.tolist()))

    assert drawn(eagerjit) == drawn(torch)
