"""cdist and pdist against PyTorch: shapes, orders, modes, gradients, errors."""

import math

import numpy as np
import pytest
import torch

import eagerjit as ej

SHAPES = [
    ((4, 3), (5, 3)), ((2, 4, 3), (5, 3)), ((3, 1, 40, 6), (2, 30, 6)), ((0, 3), (4, 3)), ((4, 0), (3, 0)),
    ((30, 3), (0, 3)), ((1, 2), (1, 2)),
]  # fmt: skip
ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def values(*shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    if a.size and b.size:  # a distance of zero, and one that is zero along a dimension
        b[..., 0, :] = a[..., 0, :] if a.shape[:-2] == b.shape[:-2] else b[..., 0, :]
        a[..., -1, 0] = b[..., -1, 0] = 0.25
    return a, b


def computed(library, a, b, p, mode):
    x, y = (library.tensor(v, requires_grad=True) for v in (a, b))
    found = library.cdist(x, y, p=p, compute_mode=mode)
    weights = library.arange(found.numel(), dtype=found.dtype).reshape(found.shape) / 7
    (found * weights).sum().backward()
    return [v.detach().numpy() for v in (found, x.grad, y.grad)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_distances_and_gradients(shapes, p, mode):
    a, b = values(*shapes)
    for mine, other in zip(computed(ej, a, b, p, mode), computed(torch, a, b, p, mode), strict=True):
        # From products a distance of zero is one of rounding, with a slope that means nothing.
        many = mode == MODES[1] or max(a.shape[-2], b.shape[-2]) > 25
        near = p == 2 and many and mode != MODES[2]
        np.testing.assert_allclose(mine, other, atol=1e-6 if not near else 1e-3, rtol=1e-5 if not near else 10.0)


@pytest.mark.parametrize("p", ORDERS)
def test_pairs_of_one_tensor(p):
    a, _ = values((7, 3), (1, 3))
    results = []
    for library in (ej, torch):
        x = library.tensor(a, requires_grad=True)
        found = library.nn.functional.pdist(x, p)
        found.sum().backward()
        results.append((found.detach().numpy(), x.grad.numpy()))
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("rows", [6, 40])
def test_compiled_as_eagerly(p, rows):
    def work(x, y):
        found = ej.cdist(x, y, p=p)
        return found, *ej.autograd.grad((found * found).sum(), (x, y))

    x, y = ej.randn(2, rows, 5, requires_grad=True), ej.randn(2, 9, 5, requires_grad=True)
    for mine, other in zip(ej.jit(work)(x, y), work(x, y), strict=True):
        assert mine.detach().numpy().tobytes() == other.detach().numpy().tobytes()


def test_second_derivatives():
    x, y = (ej.randn(4, 3, dtype=ej.float64, requires_grad=True) for _ in range(2))
    for p in (1.5, 2.0, 3.0):
        assert ej.autograd.gradgradcheck(lambda a, b, p=p: ej.cdist(a, b, p=p), (x, y))
    assert ej.autograd.gradgradcheck(lambda a, b: ej.cdist(a, b, compute_mode=MODES[1]), (x, y))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda t: t.cdist(t.ones(2, 2), t.ones(2, 2), compute_mode="fast"), ValueError, "not a valid value"),
        (lambda t: t.cdist(t.ones(2, 2).long(), t.ones(2, 2)), RuntimeError, "floating-point"),
        (lambda t: t.cdist(t.ones(2, 2), t.ones(2, 2).double()), RuntimeError, None),
        (lambda t: t.cdist(t.ones(2, 2, 2), t.ones(3, 2, 2)), RuntimeError, None),
    ],
)
def test_errors(call, kind, words):
    for library in (ej, torch):
        with pytest.raises(kind, match=words):
            call(library)


@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_counts_of_what_is_no_number_have_no_slope(name):
    x = ej.tensor([[1.0, math.nan], [math.inf, 3.0], [2.0, 3.0]], requires_grad=True)
    found = ej.cdist(x, x + 1.0, p=0.0) if name == "cdist" else ej.nn.functional.pdist(x, p=0.0)
    found.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_counts_of_differences_keep_what_is_no_number(name):
    def distances(t):
        x = t.tensor([[1.0, math.nan], [math.inf, 3.0], [2.0, 3.0]])
        return t.cdist(x, x + 0.25, p=0.0) if name == "cdist" else t.nn.functional.pdist(x, p=0.0)

    np.testing.assert_array_equal(distances(ej).numpy(), distances(torch).numpy())
