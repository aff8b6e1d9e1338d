"""Operations on dtypes that they are rarely called with: complex numbers, integers, truth values; in place, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw

import eagerjit as ej

Call = Callable[..., Any]


def complex_numbers(*shape: int, seed: int = 1) -> np.ndarray:
    return draw(shape, "float64", -2, 2, seed) + 1j * draw(shape, "float64", -2, 2, seed + 1)


def compare_complex(call: Call, *arrays: np.ndarray, tolerance: float = 1e-9) -> None:
    """Results and gradients of complex numbers, whose gradients `compare` does not seed."""
    found = []
    for library in (ej, torch):
        tensors = [library.tensor(a, requires_grad=True) for a in arrays]
        out = call(library, *tensors)
        weight = library.tensor(complex_numbers(*out.shape, seed=9))
        total = (out * (weight if out.dtype.is_complex else weight.real)).sum()
        gradients = library.autograd.grad(total.real if total.dtype.is_complex else total, tensors)
        found.append([str(out.dtype).rpartition(".")[2], *(t.detach().numpy() for t in (out, *gradients))])
    assert found[0][0] == found[1][0]
    for ours, theirs in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


COMPLEX: dict[str, tuple[Call, list[tuple[int, ...]]]] = {
    "conv1d": (lambda t, x, w, b: t.nn.functional.conv1d(x, w, b, 2, 1), [(2, 4, 7), (6, 4, 3), (6,)]),
    "conv2d": (lambda t, x, w: t.nn.functional.conv2d(x, w, None, 1, "same", 2), [(1, 2, 5, 6), (3, 2, 3, 3)]),
    "conv2d grouped": (lambda t, x, w: t.conv2d(x, w, groups=4), [(4, 5, 6), (4, 1, 2, 3)]),
    "conv3d": (lambda t, x, w, b: t.nn.functional.conv3d(x, w, b), [(1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (2,)]),
    "conv_transpose1d": (lambda t, x, w, b: t.conv_transpose1d(x, w, b, 3, 1, 2), [(2, 4, 5), (4, 3, 4), (3,)]),
    "conv_transpose2d": (lambda t, x, w: t.conv_transpose2d(x, w, None, 2, groups=2), [(1, 4, 3, 3), (4, 2, 2, 3)]),
    "logsumexp": (lambda t, x: t.logsumexp(x * 3, 1), [(4, 5)]),
    "logaddexp": (lambda t, x, y: t.logaddexp(x, y), [(4, 5), (5,)]),
    "norm nuc": (lambda t, x: t.norm(x, "nuc"), [(4, 3)]),
    "exp2": (lambda t, x: t.exp2(x), [(7,)]),
    "softsign": (lambda t, x: t.nn.functional.softsign(x), [(7,)]),
    "float_power": (lambda t, x: t.float_power(x, 2.5), [(7,)]),
    "l1_loss": (lambda t, x, y: t.nn.functional.l1_loss(x, y), [(7,), (7,)]),
    "cov": (lambda t, x: t.cov(x), [(3, 6)]),
    "corrcoef": (lambda t, x: t.corrcoef(x), [(3, 6)]),
    "qr": (lambda t, x: sum(p.sum() for p in t.linalg.qr(x)), [(4, 4)]),
    "slogdet": (lambda t, x: t.linalg.slogdet(x)[0] * 2 + t.linalg.slogdet(x)[1], [(3, 3)]),
    "sgn_": (lambda t, x: (x * 1).sgn_(), [(7,)]),
    "istft": (
        lambda t, x: t.istft(x, 8, window=t.hann_window(8, dtype=t.float64), onesided=False), [(8, 9)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name: str) -> None:
    call, shapes = COMPLEX[name]
    arrays = [complex_numbers(*shape, seed=3 * i + 1) for i, shape in enumerate(shapes)]
    compare_complex(call, *arrays)
    tensors = [ej.tensor(a) for a in arrays]
    plain = call(ej, *tensors)
    np.testing.assert_array_equal(ej.jit(lambda *x: call(ej, *x))(*tensors).numpy(), plain.numpy())


@pytest.mark.parametrize("name", ["asinh_", "acosh_", "atanh_", "sgn_", "abs_", "exp2_", "pow_"])
def test_complex_numbers_in_place(name: str) -> None:
    arguments = (2.5,) if name == "pow_" else ()
    compare(lambda t, x: getattr(x, name)(*arguments), complex_numbers(4, 3), grad=False)


def test_silu_of_complex_numbers() -> None:
    compare(lambda t, x: t.nn.functional.silu(x), complex_numbers(4, 3), grad=False)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int32", "bool"])
def test_weighted_products_of_integers(dtype: str) -> None:
    matrix, vector = draw((3, 3), dtype, 0, 3, 1), draw((3,), dtype, 0, 3, 2)
    for beta, alpha in ((0.6, 2.7), (2, 3), (1, 1), (True, False), (0, 1)):
        how = {"beta": beta, "alpha": alpha}
        for name in ("addmm", "addmm_"):
            compare(lambda t, m, n=name, h=how: getattr(m.clone(), n)(m, m, **h), matrix)
        compare(lambda t, m, v, h=how: t.addmv(v, m, v, **h), matrix, vector)
        compare(lambda t, m, v, h=how: t.addr(m, v, v, **h), matrix, vector)
        compare(lambda t, m, h=how: t.addbmm(m, m.expand(2, 3, 3), m.expand(2, 3, 3), **h), matrix)
        compare(lambda t, m, h=how: t.baddbmm(m, m.expand(2, 3, 3), m.expand(2, 3, 3), **h), matrix)
    for name in ("mm", "matmul"):
        compare(lambda t, m, n=name: getattr(t, n)(m, m), matrix)
    compare(lambda t, v: v.dot(v), vector)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float16", "bfloat16", "float64"])
def test_extremes_keep_the_dtype(dtype: str) -> None:
    x, y = draw((3, 4), dtype, -5, 5, 1), draw((4,), dtype, -5, 5, 2)
    for name in ("fmax", "fmin"):
        compare(lambda t, x, y, n=name: getattr(t, n)(x, y), x, y, dtypes=(dtype, dtype))
    large = np.array([2**62 + 1, -(2**62) - 1])
    compare(lambda t, x: t.fmax(x, x - 1), large)


LOSSES: dict[str, Call] = {
    "cosine": lambda t, x, y: t.nn.functional.cosine_embedding_loss(x, x + 1, y * 0 + 1),
    "cosine none": lambda t, x, y: t.nn.functional.cosine_embedding_loss(x, x.flip(1), y * 0 - 1, reduction="none"),
    "ranking": lambda t, x, y: t.nn.functional.margin_ranking_loss(y, y + 2, y * 0 + 1, margin=0.0),
    "poisson": lambda t, x, y: t.nn.functional.poisson_nll_loss(x, x, full=True),
    "softsign": lambda t, x, y: t.nn.functional.softsign(x),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_integers(name: str) -> None:
    compare(LOSSES[name], draw((3, 4), "int64", 0, 4, 1), draw((3,), "int64", 0, 4, 2))


def test_writes_of_numbers_that_do_not_fit() -> None:
    x = draw((3,), "int64", 2, 5, 1)
    compare(lambda t, x: x.polygamma_(1), x)
    compare(lambda t, x: x.mvlgamma_(1), x)
    compare(lambda t, x: x.ldexp_(x), x)
    compare(lambda t, x: x.float_power_(2), x)


RANGES: list[Call] = [
    lambda t: t.arange(0.5, 5.5, 1.5, dtype=t.int32),
    lambda t: t.arange(0.5, 5.5, 1.5, dtype=t.int64),
    lambda t: t.arange(0.0, -8.000001, -4.0, dtype=t.int64),
    lambda t: t.arange(0, 64, 0.5, dtype=t.int64),
    lambda t: t.arange(0.9, 10, 2.9, dtype=t.int16),
    lambda t: t.linspace(4.3, 1, 50, dtype=t.int64),
    lambda t: t.linspace(-4.7, 3.9, 3, dtype=t.int32),
    lambda t: t.logspace(4.3, 0, 4, 5.0, dtype=t.int64),
    lambda t: t.logspace(t.tensor(0), t.tensor(3), 4, dtype=t.float64),
    lambda t: t.logspace(0, 3, -1),
    lambda t: t.logspace(t.tensor([1, 1]), t.tensor([1, 2]), 4),
    lambda t: t.linspace(t.tensor([1.0]), 3, 4),
]


@pytest.mark.parametrize("call", RANGES)
def test_ranges_of_integers(call: Call) -> None:
    compare(call)


def test_vectors_that_broadcast() -> None:
    x, y = draw((1, 2, 3), "float64", -2, 2, 1), draw((2, 1, 3), "float64", -2, 2, 2)
    for dim in (0, 1, -2, -1):
        compare(lambda t, x, y, d=dim: t.nn.functional.cosine_similarity(x, y, dim=d), x, y)


def test_polygamma_left_of_zero() -> None:
    x, poles = np.linspace(-9.3, 3.1, 50), np.array([-4.0, -1.0, 0.0, -0.0])
    for n in (1, 2, 3, 4, 7):
        compare(lambda t, x, n=n: t.polygamma(n, x), x, grad=False, tolerance=2e-6)
        if n > 1:
            compare(lambda t, x, n=n: t.polygamma(n, x), poles, grad=False)
    compare(lambda t, x: t.polygamma(2, x), x, tolerance=1e-4)


def test_weights_of_covariances() -> None:
    x = draw((2, 4), "float32", -2, 2, 1)
    weights, counts = draw((4,), "float64", 0.1, 2, 2), draw((4,), "int64", 1, 4, 3)
    compare(lambda t, x, w, c: t.cov(x, fweights=c, aweights=w.detach()), x, weights, counts, tolerance=1e-5)
    compare(lambda t, x, w, c: t.cov(x.bfloat16(), fweights=c), x, weights, counts, tolerance=5e-2)
    compare(lambda t, x, w, c: t.cov(x, fweights=-c), x, weights, counts)
    compare(lambda t, x, w, c: t.cov(x, aweights=-w.detach()), x, weights, counts)


def test_inverses_of_hermitian_matrices_read_a_triangle() -> None:
    for matrix in (draw((2, 4, 4), "float64", -2, 2, 1), complex_numbers(4, 4)):
        compare(lambda t, x: t.linalg.pinv(x, hermitian=True), matrix, grad=False, tolerance=1e-8)
    symmetric = draw((4, 4), "float64", -2, 2, 1)
    gradients = []
    for library in (ej, torch):
        x = library.tensor(symmetric + symmetric.T, requires_grad=True)
        (library.linalg.pinv(x, hermitian=True) * library.tensor(symmetric)).sum().backward()
        gradients.append((x.grad + x.grad.mT).numpy())
    np.testing.assert_allclose(*gradients, rtol=1e-9, atol=1e-9)


REFUSED: list[Call] = [
    lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.ones(2, 3), ignore_index=1),
    lambda t: t.nn.HuberLoss(delta=1 + 0j),
    lambda t: t.nn.functional.batch_norm(t.ones(2, 3), None, None, training=True, eps=0.0),
    lambda t: t.nn.functional.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), eps=-1.0),
    lambda t: t.nn.functional.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), eps=0.0),
    lambda t: t.nn.functional.adaptive_max_pool1d(t.ones(2, 2, 3), ()),
    lambda t: t.nn.functional.adaptive_avg_pool1d(t.ones(2, 2, 3), ()),
    lambda t: t.prelu(t.tensor(1.0), t.ones(2)),
    lambda t: t.prelu(t.ones(2, 3, 3), t.ones(2)),
    lambda t: t.prelu(t.ones(2, 4, 3), t.ones(2, 2)),
    lambda t: t.signal.windows.hann(3, dtype=t.bfloat16),
]


@pytest.mark.parametrize("call", REFUSED)
def test_options_that_are_refused(call: Call) -> None:
    compare(call)


def test_slopes_per_channel() -> None:
    x, slopes = draw((2, 3, 3), "float64", -2, 2, 1), draw((3,), "float64", 0, 1, 2)
    for call in (lambda t, x, w: t.prelu(x, w), lambda t, x, w: x.prelu(w), lambda t, x, w: x[0, 0, 0].prelu(w[:1])):
        compare(call, x, slopes)


def test_losses_of_single_numbers() -> None:
    x = np.float64(0.7).reshape(())
    compare(lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor(0)), x)
    compare(lambda t, x: t.nn.functional.multilabel_margin_loss(x, t.tensor(0)), x)
    for reduction in ("none", "mean", "sum"):
        compare(lambda t, x, r=reduction: t.nn.functional.multi_margin_loss(x, t.tensor([0]), reduction=r), x)
        scores = draw((5,), "float64", -2, 2, 1)
        compare(lambda t, x, r=reduction: t.nn.functional.multi_margin_loss(x, t.tensor([3]), reduction=r), scores)


def test_pools_at_random_places_of_one_example() -> None:
    x, samples = draw((4, 6, 5, 5), "float64", -2, 2, 1), draw((2, 4, 3), "float64", 0, 1, 2)

    def call(t: Any, x: Any, u: Any) -> Any:
        return t.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=u.detach())

    compare(call, x, samples)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_gradients_of_scores_by_ctc(reduction: str) -> None:
    """Of log probabilities themselves, whose rows PyTorch takes to be normalised, whether they are or not."""
    logs = draw((6, 3, 5), "float64", -3, 0, 1)

    def call(t: Any, x: Any) -> Any:
        targets = t.tensor([[1, 2], [3, 3], [4, 1]])
        return t.nn.functional.ctc_loss(x, targets, [6, 5, 4], [2, 2, 1], reduction=reduction)

    compare(call, logs, tolerance=1e-7)
    compare(lambda t, x: call(t, x.log_softmax(2)), logs, tolerance=1e-7)


@pytest.mark.parametrize("needed", [False, True])
def test_scores_by_ctc_whose_exponentials_are_infinite(needed: bool) -> None:
    found = []
    for t in (torch, ej):
        scores = (t.arange(40.0).reshape(5, 2, 4).sin() * 200).requires_grad_(needed)
        loss = t.nn.functional.ctc_loss(scores, t.tensor([[1, 2], [3, 3]]), [5, 4], [2, 2], reduction="none")
        found.append(loss.tolist())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_outer_products_of_integers_added_to_floats() -> None:
    compare(lambda t, x: t.addr(x, t.tensor([1, 0]), t.tensor([1, 2, 3]), beta=1.5), draw((2, 3), "float64", -3, 3, 1))


SMALL: list[Call] = [
    lambda t, x: t.gradient(x, spacing=None, dim=None)[0],
    lambda t, x: t.gradient(x.expand(3, 5), dim=(1, 1)),
    lambda t, x: t.istft(t.stft(x.repeat(4), 8, return_complex=True, onesided=False), 8),
    lambda t, x: t.linalg.vander(x[0], N=3),
    lambda t, x: t.linalg.lstsq(t.complex(x, x)[:, None], t.complex(x, x)[:, None], driver="gelsd"),
    lambda t, x: t.gather(x, 0, t.empty(0, dtype=t.uint8)),
    lambda t, x: (x * 1).round_(decimals=1),
    lambda t, x: t.special.legendre_polynomial_p(x, 3, out=t.empty(5, dtype=t.float64)),
    lambda t, x: t.nn.functional.max_unpool1d(x[None, :1, None], t.tensor([[[2]]]), 3, 2, output_size=(1, 1, 3)),
]


@pytest.mark.parametrize("call", SMALL)
def test_unusual_arguments(call: Call) -> None:
    compare(call, draw((5,), "float64", -2, 2, 1), grad=call is SMALL[0], tolerance=1e-7)


OF_FEW_DTYPES: dict[str, Call] = {
    "frac": lambda t, x: t.frac(x),
    "hypot": lambda t, x: t.hypot(x, x),
    "hypot of two dtypes": lambda t, x: t.hypot(x, x.float()),
    "logaddexp": lambda t, x: t.logaddexp(x, x),
    "logaddexp2": lambda t, x: t.logaddexp2(x, x),
    "trace": lambda t, x: t.trace(x),
    "isin": lambda t, x: t.isin(x, x),
    "smooth_l1_loss": lambda t, x: t.nn.functional.smooth_l1_loss(x, x, reduction="none"),
    "huber_loss": lambda t, x: t.nn.functional.huber_loss(x, x),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x, reduction="none"),
    "quotients cut to integers": lambda t, x: t.div(x, x, rounding_mode="trunc"),
    "quotients rounded down": lambda t, x: t.div(x, x, rounding_mode="floor"),
}


@pytest.mark.parametrize("name", OF_FEW_DTYPES)
def test_dtypes_that_are_refused(name: str) -> None:
    plain = OF_FEW_DTYPES[name]
    for dtype in ("bool", "uint8", "int64", "bfloat16", "float64", "complex64"):
        found = []
        for library, call in ((ej, plain), (ej, ej.jit(plain)), (torch, plain)):
            x = library.ones(2, 2).to(getattr(library, dtype))
            try:
                found.append(str(call(library, x).dtype).rpartition(".")[2])
            except Exception as error:
                found.append(type(error).__name__)
        assert found[0] == found[1] == found[2], dtype


def test_what_is_refused_is_refused_where_it_is_caught() -> None:
    def caught(x: ej.Tensor) -> str:
        try:
            ej.div(x, x, rounding_mode="trunc")
        except NotImplementedError as error:
            return str(error)
        return ""

    x = ej.ones(3, dtype=ej.bool)
    assert caught(x) == ej.jit(caught)(x) == "\"div_trunc_cpu\" not implemented for torch.bool"
