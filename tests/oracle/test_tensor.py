"""Making, converting and printing tensors, and random numbers, against PyTorch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import DTYPES, compare, draw, outcome, same

import eagerjit as ej

MADE: dict[str, Callable[[Any], Any]] = {
    "tensor int": lambda t: t.tensor(3),
    "tensor float": lambda t: t.tensor(2.5),
    "tensor bool": lambda t: t.tensor(True),
    "tensor nested": lambda t: t.tensor([[1, 2.0], [3, 4]]),
    "tensor mixed bool": lambda t: t.tensor([True, 2]),
    "tensor empty": lambda t: t.tensor([]),
    "tensor nested empty": lambda t: t.tensor([[], []]),
    "tensor tuple": lambda t: t.tensor((1, (2))),
    "tensor ragged": lambda t: t.tensor([[1, 2], [3]]),
    "tensor string": lambda t: t.tensor("a"),
    "tensor of tensors": lambda t: t.tensor([t.tensor(1.0), 2]),
    "tensor dtype": lambda t: t.tensor([1, 2], dtype=t.float16),
    "tensor float64 array": lambda t: t.tensor(np.arange(3.0)),
    "tensor int32 array": lambda t: t.tensor(np.arange(3, dtype=np.int32)),
    "tensor numpy scalar": lambda t: t.tensor(np.float32(2)),
    "as_tensor": lambda t: t.as_tensor([1, 2]),
    "from_numpy": lambda t: t.from_numpy(np.arange(6.0).reshape(2, 3).T),
    "from_numpy list": lambda t: t.from_numpy([1]),
    "from_numpy negative": lambda t: t.from_numpy(np.arange(3)[::-1]),
    "zeros": lambda t: t.zeros(2, 3),
    "zeros tuple": lambda t: t.zeros((2, 0)),
    "zeros scalar": lambda t: t.zeros(()),
    "zeros negative": lambda t: t.zeros(-1),
    "ones": lambda t: t.ones([2], dtype=t.int32),
    "full": lambda t: t.full((2,), 7),
    "full float": lambda t: t.full((2,), 7.0),
    "full bool": lambda t: t.full((2,), True),
    "full dtype": lambda t: t.full((2,), 1.5, dtype=t.bfloat16),
    "zeros_like": lambda t: t.zeros_like(t.ones(2, 3, dtype=t.int64)),
    "ones_like": lambda t: t.ones_like(t.zeros(3), dtype=t.bool),
    "full_like": lambda t: t.full_like(t.zeros(3), 2),
    "arange": lambda t: t.arange(5),
    "arange float": lambda t: t.arange(5.0),
    "arange range": lambda t: t.arange(2, 9, 3),
    "arange step": lambda t: t.arange(0, 1, 0.1),
    "arange down": lambda t: t.arange(5, 0, -2),
    "arange dtype": lambda t: t.arange(4, dtype=t.float64),
    "arange empty": lambda t: t.arange(0),
    "arange bad": lambda t: t.arange(0, 5, -1),
    "arange zero": lambda t: t.arange(0, 5, 0),
    "linspace": lambda t: t.linspace(-1, 2, 7),
    "linspace one": lambda t: t.linspace(3, 9, 1),
    "logspace": lambda t: t.logspace(0, 2, 3),
    "eye": lambda t: t.eye(3),
    "eye rectangle": lambda t: t.eye(2, 4, dtype=t.int64),
    "new_zeros": lambda t: t.ones(2, dtype=t.float64).new_zeros(3),
    "new_full": lambda t: t.ones(2, dtype=t.int32).new_full((2, 2), 7),
    "new_tensor": lambda t: t.ones(2, dtype=t.float64).new_tensor([1, 2]),
    "new_ones": lambda t: t.zeros(2, dtype=t.bool).new_ones((2,)),
    "legacy": lambda t: t.Tensor([1, 2]),
    "device": lambda t: t.zeros(2, device="cpu"),
    "device object": lambda t: t.ones(2, device=t.device("cpu")),
    "device wrong": lambda t: t.zeros(2, device="nonsense"),
    "requires_grad int": lambda t: t.zeros(2, dtype=t.int64, requires_grad=True),
}


@pytest.mark.parametrize("name", MADE)
def test_making(name: str) -> None:
    expected, error = outcome(MADE[name], torch, [])
    found, own_error = outcome(MADE[name], ej, [])
    if error is not None:
        assert isinstance(own_error, type(error)), f"{own_error!r} where PyTorch raises {error!r}"
        return
    assert own_error is None
    same(found, expected)


def test_memory_is_shared_or_not() -> None:
    array = np.zeros(3, np.float32)
    shared, copied = ej.from_numpy(array), ej.tensor(array)
    array[0] = 1
    assert shared[0] == 1 and copied[0] == 0
    shared.add_(1)
    assert array[1] == 1 and shared.numpy().base is not None
    assert ej.as_tensor(array).data_ptr() == array.ctypes.data


def test_copied_data_begins_with_a_cache_line() -> None:
    """NumPy's own arrays begin 16 bytes into one, and every vector of theirs would lie in two."""
    array = np.arange(1 << 17, dtype=np.float32)
    turned = array.reshape(64, -1).T
    given = (array, array[::2], array[:5000].tolist(), turned)
    made = [ej.tensor(data) for data in given]
    for tensor, data in zip(made, given, strict=True):
        assert tensor.data_ptr() % 64 == 0 and (tensor.numpy() == data).all()
    assert ej.eye(512).data_ptr() % 64 == ej.tensor(array, dtype=ej.int16).data_ptr() % 64 == 0


def test_default_dtype() -> None:
    assert (ej.arange(3) / 2).dtype is ej.float32
    try:
        ej.set_default_dtype(ej.float64)
        assert ej.tensor(1.0).dtype is ej.float64 and ej.zeros(1).dtype is ej.float64
        assert (ej.arange(3) / 2).dtype is ej.float64
    finally:
        ej.set_default_dtype(ej.float32)
    assert (ej.arange(3) / 2).dtype is ej.float32
    with pytest.raises(TypeError):
        ej.set_default_dtype(ej.int64)


CONVERTED: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda t, x: x[0, 0].item(),
    "item many": lambda t, x: x.item(),
    "tolist": lambda t, x: x.detach().tolist(),
    "float()": lambda t, x: float(x[0, 1]),
    "int()": lambda t, x: int(x[0, 1] * 10),
    "bool()": lambda t, x: bool(x[0, 0] > 0),
    "bool many": lambda t, x: bool(x > 0),
    "bool none": lambda t, x: bool(x[:0]),
    "index": lambda t, x: [10, 11, 12][t.tensor(1)],
    "index float": lambda t, x: [10, 11, 12][x[0, 0]],
    "len": lambda t, x: len(x),
    "len scalar": lambda t, x: len(x[0, 0]),
    "iterate": lambda t, x: [r * 2 for r in x],
    "iterate scalar": lambda t, x: list(x[0, 0]),
    "contains": lambda t, x: 5.0 in x,
    "format": lambda t, x: f"{x[0, 0].detach():.3f}",
    "numpy of grad": lambda t, x: x.numpy(),
    "to": lambda t, x: x.to(t.float64),
    "to device": lambda t, x: x.to("cpu", t.float16),
    "to other": lambda t, x: x.to(t.zeros(1, dtype=t.int64)),
    "to keywords": lambda t, x: x.to(dtype=t.float64, device="cpu", copy=True),
    "to same": lambda t, x: x.to(t.float32) is x,
    "double": lambda t, x: x.double(),
    "half": lambda t, x: x.half(),
    "long": lambda t, x: x.long(),
    "bool dtype": lambda t, x: x.bool(),
    "type_as": lambda t, x: x.type_as(t.zeros(1, dtype=t.float64)),
    "clone": lambda t, x: x.clone(),
    "detach": lambda t, x: x.detach(),
    "cpu": lambda t, x: x.cpu(),
    "facts": lambda t, x: [x.dim(), x.ndim, x.numel(), x.nelement(), x.element_size(), x.is_floating_point()],
    "shape": lambda t, x: [tuple(x.shape), x.size(1), x.shape[0], x.shape.numel(), tuple(x.stride())],
    "flags": lambda t, x: [x.is_leaf, x.requires_grad, x.is_cuda, x.grad is None, x.grad_fn is None],
    "storage_offset": lambda t, x: x[1:].storage_offset(),
    "requires_grad_ of result": lambda t, x: (x * 2).requires_grad_(False),
    "allclose": lambda t, x: t.allclose(x, x + 1e-9),
    "equal": lambda t, x: [t.equal(x, x), t.equal(x, x[:1])],
    "is_tensor": lambda t, x: [t.is_tensor(x), t.is_tensor(1)],
    "hash": lambda t, x: {x: 1}[x],
}


@pytest.mark.parametrize("name", CONVERTED)
def test_converting(name: str) -> None:
    compare(CONVERTED[name], draw((2, 3), "float32", 0.5, 2, 1))


PRINTED: dict[str, Callable[[Any], Any]] = {
    "integers": lambda t: t.arange(12).view(3, 4),
    "whole floats": lambda t: t.arange(6.0).view(2, 3),
    "floats": lambda t: t.tensor([[1.5, -2.25], [100.125, 0.0]]),
    "wide range": lambda t: t.tensor([1e-6, 1.0, 1e6]),
    "large": lambda t: t.tensor([1e10, 2.0]),
    "small": lambda t: t.tensor([1e-5, 2e-5]),
    "special": lambda t: t.tensor([1.5, float("nan"), float("inf"), -float("inf")]),
    "only special": lambda t: t.tensor([float("nan"), float("inf")]),
    "scalar": lambda t: t.tensor(3.14159),
    "int scalar": lambda t: t.tensor(7),
    "bool": lambda t: t.tensor([True, False]),
    "empty": lambda t: t.tensor([]),
    "empty shape": lambda t: t.zeros(2, 0),
    "empty int": lambda t: t.zeros(0, dtype=t.int64),
    "float64": lambda t: t.tensor([1.0], dtype=t.float64),
    "int32": lambda t: t.tensor([1], dtype=t.int32),
    "requires_grad": lambda t: t.ones(2, requires_grad=True),
    "grad_fn": lambda t: t.ones(2, requires_grad=True) + 1,
    "long": lambda t: t.arange(2000),
    "long float": lambda t: t.arange(3000.0).view(3, 1000) / 7,
    "long matrix": lambda t: t.arange(10000).view(100, 100),
    "lines": lambda t: t.arange(60) * 1000,
    "3d": lambda t: t.arange(24).view(2, 3, 4),
    "4d": lambda t: t.arange(16).view(2, 2, 2, 2),
    "negative": lambda t: t.tensor([-1.0, 1.5]),
    "half": lambda t: t.tensor([1.5, 2.0], dtype=t.float16),
    "bfloat16": lambda t: t.tensor([1.5, 2.0], dtype=t.bfloat16),
    "parameter": lambda t: t.nn.Parameter(t.ones(2)),
    "size": lambda t: t.ones(2, 3).shape,
    "device": lambda t: t.ones(1).device,
    "dtype": lambda t: t.float32,
    "result": lambda t: tuple(t.tensor([[1, 2]]).max(1)),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printing(name: str) -> None:
    assert repr(PRINTED[name](ej)) == repr(PRINTED[name](torch))


def test_copy_and_pickle() -> None:
    x = ej.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin is not x and ej.equal(twin, x) and twin.requires_grad
        assert twin.data_ptr() != x.data_ptr()
    assert ej.equal(copy.deepcopy(x).grad, x.grad)
    parameter = pickle.loads(pickle.dumps(ej.nn.Parameter(ej.ones(2))))
    assert isinstance(parameter, ej.nn.Parameter) and parameter.requires_grad
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 1)


# -- random numbers: not PyTorch's, but as spread out ------------------------------------------------------------------

DISTRIBUTIONS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda t: t.rand(300, 400),
    "rand float64": lambda t: t.rand(300, 400, dtype=t.float64),
    "rand float16": lambda t: t.rand(300, 400, dtype=t.float16).float(),
    "rand bfloat16": lambda t: t.rand(300, 400, dtype=t.bfloat16).float(),
    "randn": lambda t: t.randn((300, 400)),
    "randn float64": lambda t: t.randn(120000, dtype=t.float64),
    "randint": lambda t: t.randint(-3, 9, (300, 400)).double(),
    "randint large": lambda t: t.randint(2**40, (300, 400)).double() / 2**40,
    "rand_like": lambda t: t.rand_like(t.zeros(300, 400)),
    "randn_like": lambda t: t.randn_like(t.zeros(300, 400)),
    "normal": lambda t: t.normal(2.0, 3.0, (300, 400)),
    "normal tensors": lambda t: t.normal(t.full((120000,), 2.0), 0.5),
    "bernoulli": lambda t: t.bernoulli(t.full((300, 400), 0.3)),
    "uniform_": lambda t: t.empty(300, 400).uniform_(-2, 5),
    "normal_": lambda t: t.empty(300, 400).normal_(1, 2),
    "exponential_": lambda t: t.empty(300, 400).exponential_(0.5),
    "bernoulli_": lambda t: t.empty(300, 400).bernoulli_(0.7),
    "dropout": lambda t: t.nn.functional.dropout(t.ones(300, 400), 0.25),
    "multinomial": lambda t: t.multinomial(t.tensor([[1.0, 2.0, 5.0]]).repeat(60000, 1), 1).double(),
    "multinomial many": lambda t: t.multinomial(t.tensor([1.0, 2.0, 5.0]), 60000, replacement=True).double(),
    "multinomial distinct": lambda t: t.multinomial(t.tensor([[1.0, 2.0, 5.0]]).repeat(60000, 1), 2)[:, 1].double(),
    "randperm": lambda t: (t.randperm(60000)[:30000] % 100).double(),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name: str) -> None:
    ej.manual_seed(5)
    torch.manual_seed(5)
    found, expected = DISTRIBUTIONS[name](ej), DISTRIBUTIONS[name](torch)
    assert (
        tuple(found.shape) == tuple(expected.shape)
        and str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    )
    spread = expected.std().item()
    assert abs(found.mean().item() - expected.mean().item()) < 0.02 * spread
    assert abs(found.std().item() / spread - 1) < 0.02
    if len(np.unique(found.numpy())) < 200:
        return  # steps of discrete distributions lie anywhere
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    ours, theirs = (np.quantile(x.numpy(), quantiles) for x in (found, expected))
    np.testing.assert_allclose(ours, theirs, atol=0.05 * spread)


def test_uniform_numbers_stay_below_one() -> None:
    for dtype in (ej.float16, ej.bfloat16, ej.float32, ej.float64):
        drawn = ej.rand(100_000, dtype=dtype)
        assert drawn.min() >= 0 and drawn.max() < 1


def test_neighbouring_numbers_are_independent() -> None:
    ej.manual_seed(1)
    x = ej.randn(200_000, dtype=ej.float64).numpy()
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01
    first, second = ej.rand(100_000).numpy(), ej.rand(100_000).numpy()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02


def test_seeds() -> None:
    ej.manual_seed(3)
    a, b = ej.rand(5), ej.rand(5)
    assert ej.initial_seed() == 3 and not ej.equal(a, b)
    ej.manual_seed(3)
    assert ej.equal(ej.rand(5), a) and ej.equal(ej.rand(5), b)
    state = ej.get_rng_state()
    c = ej.randn(4)
    ej.set_rng_state(state)
    assert ej.equal(ej.randn(4), c)
    own = ej.Generator().manual_seed(3)
    assert ej.equal(ej.rand(5, generator=own), a)
    ej.manual_seed(3)
    assert ej.equal(ej.rand(2, 5)[0], a), "the count of elements drawn is what matters"
    ej.manual_seed(2**64 - 1)
    assert ej.initial_seed() == 2**64 - 1
    assert sorted(ej.randperm(50).tolist()) == list(range(50))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_facts(dtype: str) -> None:
    ours, theirs = getattr(ej, dtype), getattr(torch, dtype)
    assert (ours.itemsize, ours.is_floating_point, ours.is_signed) == (
        theirs.itemsize,
        theirs.is_floating_point,
        theirs.is_signed,
    )
    assert repr(ours) == repr(theirs) and copy.deepcopy(ours) is ours


def test_namespace() -> None:
    assert all(hasattr(ej, name) for name in ej.__all__)
    assert ej.__version__ == f"{torch.version.__version__.split('+')[0]}+eagerjit.{ej.version.eagerjit}"
    with pytest.raises(AttributeError):
        _ = ej.nothing


def test_views_copied_deeply() -> None:
    """Views of a tensor that is copied too are views of its copy; Parameters lie alone, tensors kept twice once."""

    def written(t: Any) -> Any:
        x = t.arange(6).view(2, 3)
        a, b, c, d, e = copy.deepcopy([x, x.view(6), x[:, 1:], x.t(), x])
        b[2] = 70
        c.mul_(2)
        weight = t.nn.Parameter(t.ones(2))
        alone, _part, whole = copy.deepcopy([weight, weight.data[1:], weight.data])
        alone.data.mul_(3)
        whole.mul_(5)
        layer = t.nn.Linear(2, 2, bias=False)
        state = copy.deepcopy(t.nn.ModuleList([layer, layer]).state_dict())
        state["0.weight"].fill_(4)
        return [n.tolist() for n in (a, b, c, d, alone, whole, state["1.weight"])], a is e, d.stride()

    assert written(ej) == written(torch)
