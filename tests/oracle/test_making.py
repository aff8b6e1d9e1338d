"""Making tensors in less common ways, in-place versions, storages and limits, against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw, same

import eagerjit
from eagerjit.calling.dispatch import OPS

MADE: dict[str, Any] = {
    **{f"{name} {n} {periodic}": lambda t, name=name, n=n, periodic=periodic: getattr(t, f"{name}_window")(n, periodic)
       for name in ("hann", "hamming", "bartlett", "blackman", "kaiser") for n in (0, 1, 2, 7, 8)
       for periodic in (True, False)},
    "hamming options": lambda t: t.hamming_window(5, True, 0.5, 0.5, dtype=t.float64),
    "kaiser beta": lambda t: t.kaiser_window(5, True, 3.0),
    "tensor of sizes": lambda t: [t.tensor(t.ones(2, 3).shape) for _ in range(3)],
    "as_tensor of numbers": lambda t: [t.as_tensor(n) for n in ([1, 2], 2.5, [[1.5], [2]]) * 3],
    "types of old": lambda t: [(t.LongTensor([1, 2]), t.FloatTensor([[1], [2]]), t.Tensor([3])) for _ in range(3)],
    "new_tensor": lambda t: [t.ones(2).double().new_tensor([1, 2]) for _ in range(3)],
    "new_full": lambda t: [t.ones(2).half().new_full((2,), 3) for _ in range(3)],
    "sizes that fit": lambda t: [t.ones(3, 4).split(sizes, 1) for sizes in ([1, 3], (2, 2), [0, 4], [4]) * 3],
    "sizes that do not": lambda t: t.ones(3, 4).split([1, 1], 1),
    "sizes below zero": lambda t: t.ones(3, 4).split([5, -1], 1),
    "window of integers": lambda t: t.hann_window(5, dtype=t.int64),
    "negative window": lambda t: t.hann_window(-1),
    "scalar_tensor": lambda t: (t.scalar_tensor(3), t.scalar_tensor(2.5, dtype=t.float64)),
    "frombuffer": lambda t: t.frombuffer(bytearray(range(8)), dtype=t.int16, offset=2),
    "frombuffer count": lambda t: t.frombuffer(bytearray(range(8)), dtype=t.uint8, count=3),
    "frombuffer beyond": lambda t: t.frombuffer(bytearray(range(8)), dtype=t.int32, count=3),
    "frombuffer uneven": lambda t: t.frombuffer(bytearray(range(7)), dtype=t.int32),
    "empty_strided": lambda t: tuple(t.empty_strided((2, 3), (1, 2)).stride()),
    "empty_strided empty": lambda t: tuple(t.empty_strided((0, 3), (1, 2)).shape),
    "empty_strided uneven": lambda t: t.empty_strided((2, 3), (1,)),
    "new_empty_strided": lambda t: tuple(t.ones(1).double().new_empty_strided((2, 3), (3, 1)).shape),
    "empty_permuted": lambda t: tuple(t.empty_permuted((2, 3, 4), (0, 2, 1)).stride()),
    "fill": lambda t: t.fill(t.zeros(2, 2), 3.0),
    "zero_": lambda t: t.zero_(t.ones(2)),
    "asarray": lambda t: t.asarray([1, 2.5]),
    "complex zeros": lambda t: t.zeros(2, dtype=t.complex64).real,
    "full complex": lambda t: t.full((2,), 1j).imag,
    "linspace": lambda t: t.linspace(0, 1, 5, dtype=t.float64),
    "logspace": lambda t: t.logspace(0, 3, 4, base=2),
    "vander": lambda t: t.vander(t.tensor([1, 2, 3])),
    "finfo": lambda t: tuple(getattr(t.finfo(d), k) for d in (t.float16, t.bfloat16, t.float32, t.float64, t.complex64)
                             for k in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "dtype")),
    "finfo default": lambda t: t.finfo().bits,
    "finfo of integers": lambda t: t.finfo(t.int64),
    "iinfo": lambda t: tuple(getattr(t.iinfo(d), k) for d in (t.uint8, t.int8, t.int16, t.int32, t.int64)
                             for k in ("bits", "max", "min", "dtype")),
    "iinfo of floats": lambda t: t.iinfo(t.float32),
    "channels_last": lambda t: (t.ones(2, 3, 4, 5).is_contiguous(memory_format=t.channels_last),
                                t.ones(2, 4, 5, 3).permute(0, 3, 1, 2).is_contiguous(memory_format=t.channels_last)),
    "memory format": lambda t: t.ones(2, 3).contiguous(memory_format=t.contiguous_format),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    try:
        expected = MADE[name](torch)
    except Exception as error:  # whatever PyTorch raises is what is expected
        with pytest.raises(type(error)):
            MADE[name](eagerjit)
        return
    same(MADE[name](eagerjit), expected)


IN_PLACE = """asinh atanh deg2rad rad2deg erfc frac sinc arcsin arctan arcsinh arctanh fix negative nan_to_num erfinv
digamma lgamma i0""".split()


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    x = draw((3, 4), "float64", 0.1, 0.9, 1)
    # PyTorch has no derivative of the inverse hyperbolic ones in place.
    compare(lambda t, x: getattr(x * 1, f"{name}_")(), x, tolerance=1e-8, grad=not name.endswith("nh"))


IN_PLACE_PAIRS: dict[str, Any] = {
    "copysign_": lambda t, x, y: (x * 1).copysign_(y),
    "xlogy_": lambda t, x, y: (x * 1).xlogy_(y),
    "hypot_": lambda t, x, y: (x * 1).hypot_(y),
    "subtract_": lambda t, x, y: (x * 1).subtract_(y, alpha=2),
    "divide_": lambda t, x, y: (x * 1).divide_(y, rounding_mode="floor"),
    "true_divide_": lambda t, x, y: (x * 1).true_divide_(y),
    "clamp_min_": lambda t, x, y: (x * 1).clamp_min_(0.5),
    "clamp_max_": lambda t, x, y: t.clamp_max_(x * 1, 0.5),
    "clip_": lambda t, x, y: t.clip_(x * 1, 0.3, 0.5),
    "logit_": lambda t, x, y: (x * 1).logit_(0.2),
    "addmm_": lambda t, x, y: (x[:, :3] * 1).addmm_(x, y.T, beta=0.5, alpha=2),
    "addr_": lambda t, x, y: (x * 1).addr_(x[:, 0], y[0]),
    "baddbmm_": lambda t, x, y: (x[None, :, :3] * 1).baddbmm_(x[None], y.T[None]),
    "float_power_": lambda t, x, y: (x * 1).float_power_(2),
    "ldexp_": lambda t, x, y: (x * 1).ldexp_(t.tensor(2)),
    "renorm_": lambda t, x, y: (x * 1).renorm_(2, 0, 0.5),
    "apply_": lambda t, x, y: x.detach().clone().apply_(lambda v: v * 2 + 1),
    "map_": lambda t, x, y: x.detach().clone().map_(y.detach(), lambda v, w: v - w),
    "<<=": lambda t, x, y: (x.detach() * 9).long().bitwise_left_shift_(2),
}


@pytest.mark.parametrize("name", IN_PLACE_PAIRS)
def test_pairs_in_place(name: str) -> None:
    x, y = draw((3, 4), "float64", 0.1, 0.9, 1), draw((3, 4), "float64", 0.1, 0.9, 2)
    compare(IN_PLACE_PAIRS[name], x, y, grad=name != "divide_")


def test_storages() -> None:
    for t in (eagerjit, torch):
        x = t.arange(6, dtype=t.int16).reshape(2, 3)
        view = x[1:, 1:]
        assert view.untyped_storage().nbytes() == 12 and len(view.untyped_storage()) == 12
        assert view.untyped_storage().data_ptr() == x.data_ptr() == view.data_ptr() - 8
        assert view.storage_offset() == 4 and view.stride() == (3, 1)
        assert view.untyped_storage().tolist()[:4] == [0, 0, 1, 0]
    assert eagerjit.arange(3).storage().tolist() == [0, 1, 2]
    z = eagerjit.zeros(2)
    z.set_(eagerjit.arange(6.0).untyped_storage(), 1, (2, 2), (2, 1))
    assert z.tolist() == [[1.0, 2.0], [3.0, 4.0]]


DRAWS: dict[str, tuple[Any, float, float]] = {
    "poisson": (lambda t, n: t.poisson(t.full((n,), 3.5)), 3.5, 3.5),
    "poisson large": (lambda t, n: t.poisson(t.full((n,), 900.0)), 900, 900),
    "binomial": (lambda t, n: t.binomial(t.full((n,), 10.0), t.tensor(0.3)), 3, 2.1),
    "bernoulli": (lambda t, n: t.bernoulli(t.full((n,), 0.3)), 0.3, 0.21),
    "bernoulli p": (lambda t, n: t.empty(n).bernoulli(0.6), 0.6, 0.24),
    "geometric_": (lambda t, n: t.empty(n).geometric_(0.25), 4, 12),
    "log_normal_": (lambda t, n: t.empty(n).log_normal_(0, 0.5).log(), 0, 0.25),
    "cauchy_": (lambda t, n: t.empty(n).cauchy_(2, 0.5).sub(2).div(0.5).atan(), 0, np.pi**2 / 12),
    "exponential_": (lambda t, n: t.empty(n).exponential_(2.0), 0.5, 0.25),
    "random_": (lambda t, n: t.empty(n).random_(0, 10), 4.5, 8.25),
    "random_ uint8": (lambda t, n: t.empty(n, dtype=t.uint8).random_().float(), 127, 5400),
}


@pytest.mark.parametrize("name", DRAWS)
def test_moments(name: str) -> None:
    function, mean, variance = DRAWS[name]
    for t in (eagerjit, torch):
        t.manual_seed(3)
        drawn = function(t, 20000)
        deviation = (variance / 20000) ** 0.5
        assert abs(float(drawn.mean()) - mean) < 6 * deviation + 0.005 * abs(mean)
        assert abs(float(drawn.var()) / variance - 1) < 0.15


def test_counts_are_drawn_in_compiled_calls() -> None:
    functions = (lambda x: eagerjit.poisson(x * 40.0), lambda x: eagerjit.binomial((x * 90.0).ceil(), x / 2.0))
    for function in functions:
        results = []
        for call in (function, eagerjit.jit(function, fullgraph=True)):
            eagerjit.manual_seed(5)
            results.append([call(eagerjit.linspace(0.0, 1.0, 9)).tolist() for _ in range(2)])
        assert results[0] == results[1] and results[0][0] != results[0][1]
    for call in (functions[0], eagerjit.jit(functions[0])):
        with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
            call(eagerjit.linspace(-1.0, 1.0, 9))


WRONG_DRAWS: dict[str, Any] = {
    "poisson": lambda t: t.poisson(t.tensor([-1.0])),
    "poisson of NaN": lambda t: t.poisson(t.tensor([float("nan")])),
    "poisson of integers": lambda t: t.poisson(t.tensor([1])),
    "binomial of integers": lambda t: t.binomial(t.tensor([3]), t.tensor([0.5])),
    "binomial of other dtypes": lambda t: t.binomial(t.tensor([3.0]).double(), t.tensor([0.5])),
    "bernoulli": lambda t: t.ones(2).bernoulli(1.5),
    "geometric_": lambda t: t.ones(2).geometric_(1.5),
    "log_normal_": lambda t: t.ones(2).log_normal_(0, -1),
    "cauchy_": lambda t: t.ones(2).cauchy_(0, -1),
    "random_": lambda t: t.ones(2).random_(5, 2),
    "multinomial": lambda t: t.multinomial(t.ones(3), 5),
    "exponential_": lambda t: t.ones(2, dtype=t.int64).exponential_(),
    "cauchy_ of integers": lambda t: t.ones(2, dtype=t.int64).cauchy_(),
}


@pytest.mark.parametrize("name", WRONG_DRAWS)
def test_wrong_draws(name: str) -> None:
    with pytest.raises(Exception) as caught:
        WRONG_DRAWS[name](torch)
    with pytest.raises(caught.type):
        WRONG_DRAWS[name](eagerjit)


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("offset", [-9, -3, -1, 0, 1, 2, 6, 12])
def test_indices_of_triangles(name, offset):
    jitted = eagerjit.jit(lambda r, c: getattr(eagerjit, name)(r, c, offset))
    for rows, columns in itertools.product((0, 1, 2, 5, 7), repeat=2):
        expected = getattr(torch, name)(rows, columns, offset)
        for x in (getattr(eagerjit, name)(rows, columns, offset), jitted(rows, columns)):
            assert x.dtype is eagerjit.int64 and x.is_contiguous() and x.tolist() == expected.tolist()
            assert tuple(x.shape) == tuple(expected.shape)
    assert getattr(eagerjit, name)(3, 4, offset, dtype=eagerjit.int32).dtype is eagerjit.int32


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_indices_of_large_triangles_are_computed_by_one_program(name):
    for rows, columns, offset in ((4001, 4001, 1), (4000, 17, -5), (17, 4000, 30), (300, 200, -250), (64, 64, 0)):
        expected = getattr(torch, name)(rows, columns, offset).numpy()
        assert (getattr(eagerjit, name)(rows, columns, offset).numpy() == expected).all()
    assert OPS["triangle_indices"].programs.keys()


@pytest.mark.parametrize("make", ["Tensor(3)", "Tensor(2, 3)", "Tensor([1.0])", "Tensor()", "FloatTensor(3)"])
def test_the_old_constructor_leaves_default_devices_alone(make: str) -> None:
    for library in (torch, eagerjit):
        with library.device("meta"):
            assert library.zeros(1).device.type == "meta"
            assert eval(f"library.{make}", {"library": library}).device.type == "cpu"


@pytest.mark.parametrize("number", [1.5, 0.0, 2j])
def test_to_takes_a_number_for_a_tensor_of_it(number: complex) -> None:
    for kind in ("float32", "int32"):
        ours, theirs = (t.ones(2, dtype=getattr(t, kind)).to(number).dtype for t in (eagerjit, torch))
        assert str(ours) == str(theirs)


def test_complex_halves_say_that_there_are_none() -> None:
    with pytest.raises(NotImplementedError, match="complex32"):
        eagerjit.ones(2).chalf()
