"""How tensors print, character by character as in PyTorch."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

LIBRARIES = (ej, torch)
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    for library in LIBRARIES:
        library.set_printoptions(profile="default")


def same(function: Callable[[Any], Any], **options: Any) -> None:
    texts = []
    for library in LIBRARIES:
        library.set_printoptions(**options)
        texts.append(repr(function(library)))
    assert texts[0] == texts[1]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"precision": 2},
    {"precision": 0},
    {"precision": 8},
    {"threshold": 10},
    {"threshold": 10, "edgeitems": 1},
    {"threshold": 3, "edgeitems": 0},
    {"linewidth": 30},
    {"linewidth": 200},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "short", "precision": 6},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_on_random_tensors(options: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    for trial in range(60):
        shape = tuple(int(n) for n in generator.integers(0, 9, generator.integers(0, 4)))
        values = generator.normal(size=shape) * 10.0 ** generator.integers(-6, 10)
        if trial % 3 == 0:
            values = np.round(values)
        if trial % 5 == 0 and values.size:
            values.reshape(-1)[0] = [np.nan, np.inf, -np.inf, 0.0][trial % 4]
        dtype = FLOATS[trial % 4]
        same(lambda t, v=values, d=dtype: t.tensor(v, dtype=getattr(t, d)), **options)
        whole = np.clip(np.abs(np.nan_to_num(values)), 0, 100)
        for kind in ("int64", "int32", "uint8", "bool"):
            same(lambda t, v=whole, d=kind: t.tensor(v).to(getattr(t, d)), **options)


@pytest.mark.parametrize("options", [{}, {"linewidth": 40}, {"profile": "short"}], ids=str)
def test_long_tensors(options: dict[str, Any]) -> None:
    for shape in ((1001,), (40, 40), (3, 500), (500, 3), (7, 7, 30), (12, 3, 3, 12), (2, 0, 600)):
        same(lambda t, s=shape: t.arange(float(np.prod(s))).reshape(s) / 7, **options)
        same(lambda t, s=shape: t.arange(int(np.prod(s))).reshape(s), **options)


SPECIAL: dict[str, Callable[[Any], Any]] = {
    "nan": lambda t: t.tensor(float("nan")),
    "inf": lambda t: t.tensor([float("inf"), -float("inf"), float("nan")]),
    "infs and numbers": lambda t: t.tensor([float("inf"), 1.0, 2.5]),
    "infs and whole numbers": lambda t: t.tensor([float("inf"), 1.0, 2.0]),
    "zeros": lambda t: t.zeros(2, 2),
    "negative zero": lambda t: t.tensor([-0.0, 1.0]),
    "0-d": lambda t: t.tensor(3),
    "0-d float": lambda t: t.tensor(2.5),
    "0-d whole": lambda t: t.tensor(2.0),
    "0-d double": lambda t: t.tensor(1e-9, dtype=t.float64),
    "0-d bool": lambda t: t.tensor(True),
    "large": lambda t: t.tensor([1e9, 1.0]),
    "small": lambda t: t.tensor([1e-5, 1.0]),
    "ratio": lambda t: t.tensor([1e-3, 1.0, 0.5]),
    "largest": lambda t: t.tensor([3.4e38, -3.4e38]),
    "smallest": lambda t: t.tensor([1e-45]),
    "bools": lambda t: t.tensor([True, False]),
    "empty": lambda t: t.tensor([]),
    "empty 2-d": lambda t: t.ones(2, 0),
    "empty integers": lambda t: t.ones(0, 3, dtype=t.int32),
    "empty long": lambda t: t.ones(0, dtype=t.int64),
    "gradient": lambda t: t.ones(2, requires_grad=True),
    "grad_fn": lambda t: t.ones(2, requires_grad=True) * 2,
    "grad_fn of a matrix": lambda t: (t.arange(12.0).view(3, 4).requires_grad_() + 0.5),
    "long line": lambda t: (t.arange(13.0) / 3).double().requires_grad_() * 2,
    "double gradient": lambda t: t.ones(5, 5, dtype=t.float64, requires_grad=True) / 3,
    "parameter": lambda t: t.nn.Parameter(t.arange(3.0)),
    "frozen parameter": lambda t: t.nn.Parameter(t.ones(2, 2), requires_grad=False),
    "transposed": lambda t: t.arange(6.0).view(2, 3).T,
    "list": lambda t: [t.ones(1), t.tensor(2)],
    "dictionary": lambda t: {"a": t.ones(2, dtype=t.float16)},
    "format": lambda t: f"{t.tensor(1.23456):.2f} {t.tensor(3)} {t.ones(2)}",
    "text": lambda t: str(t.tensor([1.5, 2.0])),
    "default dtype": lambda t: (
        t.set_default_dtype(t.float64), t.ones(2), t.ones(2).float(), t.set_default_dtype(t.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    same(SPECIAL[name])


def test_complex_numbers_whose_parts_differ() -> None:
    """Both parts have a format of their own."""
    generator = np.random.default_rng(1)
    for trial in range(60):
        shape = [(trial % 12 + 1,), (5, 3), (2, 2, 9)][trial % 3]
        values = generator.normal(size=shape) * 10.0 ** generator.integers(-6, 9) + 0j
        values.imag = generator.normal(size=shape) * 10.0 ** generator.integers(-6, 9)
        values.real = values.real.round() if trial % 2 else values.real
        values.imag = values.imag.round() if trial % 5 == 0 else values.imag
        values.reshape(-1)[0] = [1 - 0.0j, complex(np.nan, -np.inf), complex(-np.inf, np.nan), 1e-7j][trial % 4]
        same(lambda t, values=values: t.tensor(values.astype(np.complex64)))
        same(lambda t, values=values: t.tensor(values.reshape(-1)[-1]))


RETURNED = {
    "max": lambda x: x.max(0),
    "min of rows": lambda x: x.min(1, keepdim=True),
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(1),
    "kthvalue": lambda x: x.kthvalue(1),
    "median": lambda x: x.median(0),
    "median of integers": lambda x: x.long().median(1),
    "nanmedian": lambda x: x.nanmedian(1, True),
    "mode": lambda x: x.mode(),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(1),
    "a number": lambda x: x.sum().kthvalue(1),
    "aminmax": lambda x: x.aminmax(),
    "frexp": lambda x: x.frexp(),
    "histogram": lambda x: x.histogram(2),
    "svd": lambda x: linear(x).svd(x[:1, :1]),
    "slogdet": lambda x: linear(x).slogdet(linear(x).inv(x).round(decimals=2)),
    "eigh": lambda x: linear(x).eigh(x[:1, :1]),
    "eig": lambda x: linear(x).eig(x[:1, :1]),
    "qr": lambda x: linear(x).qr(x[:1, :1]),
    "qr by its old name": lambda x: x[:1, :1].qr(),
    "inv_ex": lambda x: linear(x).inv_ex(x[:1, :1]),
    "cholesky_ex": lambda x: linear(x).cholesky_ex(x[:1, :1]),
    "lu_factor": lambda x: linear(x).lu_factor(x[:1, :1]),
    "lu": lambda x: linear(x).lu(x[:1, :1]),
    "svd by its old name": lambda x: x[:1, :1].svd(),
    "geqrf": lambda x: x[:1, :1].geqrf(),
}


def linear(x: Any) -> Any:
    return (ej if isinstance(x, ej.Tensor) else torch).linalg


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RETURNED)
def test_several_results(name: str) -> None:
    """Named after the function, whether compiled or not, and copies too."""
    theirs = RETURNED[name](torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    for function in (RETURNED[name], ej.jit(RETURNED[name])):
        for _ in range(2):
            ours = function(ej.tensor([[1.0, 2.0], [3.0, 0.0]]))
        kind = getattr(ej.return_types, type(theirs).__name__)
        assert repr(ours) == repr(theirs) and type(pickle.loads(pickle.dumps(ours))) is type(ours) is kind
