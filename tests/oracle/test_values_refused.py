"""Values that PyTorch refuses, and others at the edge that it takes: eagerly and in compiled calls."""

import pytest
import torch

import eagerjit

REFUSED = {
    "binary cross entropy of what is above 1": lambda t, x: t.nn.functional.binary_cross_entropy(x * 1.5, x),
    "binary cross entropy of what is negative": lambda t, x: t.nn.functional.binary_cross_entropy(-x, x),
    "binary cross entropy of NaN": lambda t, x: t.nn.functional.binary_cross_entropy(x * float("nan"), x),
    "binary cross entropy, a target above 1": lambda t, x: t.nn.functional.binary_cross_entropy(x, x * 2),
    "bernoulli": lambda t, x: t.bernoulli(x * 2),
    "bernoulli of NaN": lambda t, x: t.bernoulli(x * float("nan")),
    "bernoulli_": lambda t, x: t.zeros(3).bernoulli_(x - 1),
    "normal": lambda t, x: t.normal(t.zeros(3), x - 1),
    "normal of a number": lambda t, x: t.normal(0.0, x - 1),
    "backward from a complex number": lambda t, x: t.complex(x, x).requires_grad_().sum().backward(),
    "negative variances": lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, x - 1),
    "more steps than there are": lambda t, x: t.nn.functional.ctc_loss(
        t.zeros(3, 1, 4), t.tensor([[1, 2]]), t.tensor([5]), t.tensor([2])
    ),
    "a zero point that is no step": lambda t, x: t.fake_quantize_per_tensor_affine(x, 0.1, 9, -4, 3),
    "no steps": lambda t, x: t.fake_quantize_per_tensor_affine(x, 0.1, 0, 4, 3),
    "zero points that are no steps": lambda t, x: t.fake_quantize_per_channel_affine(
        x, x, t.tensor([0, 5, 0], dtype=t.int32), 0, -4, 3
    ),
    "zero points of int64": lambda t, x: t.fake_quantize_per_channel_affine(x, x, t.tensor([0, 1, 0]), 0, -4, 3),
    "hardtanh, limits exchanged": lambda t, x: t.nn.functional.hardtanh(x, 2.0, 1.0),
    "hardtanh of bools": lambda t, x: t.nn.functional.hardtanh(x > 0),
    "hardtanh of complex numbers": lambda t, x: t.nn.functional.hardtanh(t.complex(x, x)),
    "softshrink by less than nothing": lambda t, x: t.nn.functional.softshrink(x, -1.0),
    "softshrink of integers": lambda t, x: t.nn.functional.softshrink(x.long()),
    "hardshrink of bools": lambda t, x: t.nn.functional.hardshrink(x > 0),
    "cholesky of NaN": lambda t, x: t.linalg.cholesky(t.diag(x) * float("nan")),
    "cholesky of NaN below the diagonal": lambda t, x: t.linalg.cholesky(t.eye(2) + t.tensor([[0, 0], [t.nan, 0]])),
    "quantiles above 1": lambda t, x: t.quantile(x, x + 0.1, interpolation="lower"),
    "quantiles below 0": lambda t, x: t.nanquantile(x, x - 0.3, interpolation="higher"),
    "a number of counts": lambda t, x: t.nn.functional.poisson_nll_loss(x, 1.0),
    "counts that are a list": lambda t, x: t.nn.functional.poisson_nll_loss(x, [1.0, 0.0, 2.0]),
    "a number of signs": lambda t, x: t.nn.functional.soft_margin_loss(x, 1.0),
    "a distance from a number": lambda t, x: t.nn.functional.pairwise_distance(x, 1.0),
    "rows of nothing": lambda t, x: t.zeros(0, 3).__setitem__([1, 0], t.zeros(0, 3)),
    "rows of nothing, a number": lambda t, x: t.zeros(0, 3).__setitem__([1, 0], 1.0),
    "quantiles of no number": lambda t, x: t.nanquantile(x * float("nan"), x * float("nan")),
}
TAKEN = {
    "binary cross entropy": lambda t, x: t.nn.functional.binary_cross_entropy(x, x),
    "binary cross entropy at the ends": lambda t, x: t.nn.functional.binary_cross_entropy(x.round(), x),
    "bernoulli": lambda t, x: t.bernoulli(x.round()),
    "bernoulli_": lambda t, x: t.zeros(3).bernoulli_(x.round()),
    "no rows of nothing": lambda t, x: t.zeros(0, 3).__setitem__(t.zeros(0, dtype=t.int64), t.zeros(0, 3)),
    "masked rows of nothing": lambda t, x: t.zeros(0, 3).__setitem__(t.zeros(0, dtype=t.bool), x),
    "quantiles at the ends": lambda t, x: t.quantile(x, x.round()),
    "normal": lambda t, x: t.normal(x, t.zeros(3)),
    "variances": lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, (x - 0.25) * float("nan")),
    "steps": lambda t, x: t.nn.functional.ctc_loss(
        t.zeros(3, 1, 4), t.tensor([[1, 2]]), t.tensor([3]), t.tensor([2])
    ),
    "cholesky of NaN above the diagonal": lambda t, x: t.linalg.cholesky(
        t.eye(2) + t.tensor([[0, t.nan], [0, 0]])
    )[1],
    "orders of minors": lambda t, x: t.linalg.cholesky_ex(t.diag(t.tensor([1.0, t.nan]))).info,
    "backward from a complex number": lambda t, x: (
        t.complex(x, x).requires_grad_().sum().backward(t.tensor(1j))
    ),
}  # fmt: skip


def outcome(t, function):
    try:
        found = function(t.tensor([0.25, 0.75, 1.0]))
        return found if found is None else found.tolist()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        known = (ValueError, TypeError, IndexError)
        return next((kind.__name__ for kind in known if isinstance(error, kind)), "RuntimeError")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("calls", [REFUSED, TAKEN], ids=["refused", "taken"])
def test_as_torch(calls):
    for name, call in calls.items():
        expected = outcome(torch, lambda x, call=call: call(torch, x))
        assert isinstance(expected, str) is (calls is REFUSED), name

        def function(x, call=call):
            return call(eagerjit, x)

        for tried in (function, eagerjit.jit(function)):
            assert [outcome(eagerjit, tried) for _ in range(2)] == [pytest.approx(expected, nan_ok=True)] * 2, name
