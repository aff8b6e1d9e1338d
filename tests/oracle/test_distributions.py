"""Distributions against PyTorch's: values, gradients and errors; samples by their moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from oracle import same

import eagerjit as ej

LIBRARIES = (ej, torch)
A, B = [0.3, 1.2, 2.5], [0.7, 1.5, 3.0]
P = [0.2, 0.5, 0.9]
ROWS = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]
MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]]
CORRELATED = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, -0.6, 0.8]]
LOWER = [[1.4, 0.0, 0.0], [0.3, 1.0, 0.0], [0.1, -0.2, 1.5]]

Make = Callable[..., Any]
DISTRIBUTIONS: dict[str, tuple[Make, list[Any], Any]] = {
    "Normal": (lambda d, a, b: d.Normal(a, b), [A, B], [0.1, -1.0, 4.0]),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), [A, B], [0.1, -1.0, 4.0]),
    "Cauchy": (lambda d, a, b: d.Cauchy(a, b), [A, B], [0.1, -1.0, 4.0]),
    "Gumbel": (lambda d, a, b: d.Gumbel(a, b), [A, B], [0.1, -1.0, 4.0]),
    "Uniform": (lambda d, a, b: d.Uniform(a, b), [A, B], [0.5, 1.3, 2.75]),
    "Exponential": (lambda d, a: d.Exponential(a), [B], [0.1, 1.0, 4.0]),
    "HalfNormal": (lambda d, a: d.HalfNormal(a), [B], [0.1, 1.0, 4.0]),
    "HalfCauchy": (lambda d, a: d.HalfCauchy(a), [B], [0.1, 1.0, 4.0]),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), [A, B], [0.1, 1.0, 4.0]),
    "Chi2": (lambda d, a: d.Chi2(a), [B], [0.1, 1.0, 4.0]),
    "StudentT": (lambda d, a, b, c: d.StudentT(a, b, c), [[2.5, 3.0, 9.0], A, B], [0.1, -1.0, 4.0]),
    "Beta": (lambda d, a, b: d.Beta(a, b), [A, B], [0.1, 0.5, 0.9]),
    "Dirichlet": (lambda d, a: d.Dirichlet(a), [[A, B]], ROWS),
    "LogNormal": (lambda d, a, b: d.LogNormal(a, b), [A, [0.2, 0.5, 1.0]], [0.1, 1.0, 4.0]),
    "Weibull": (lambda d, a, b: d.Weibull(a, b), [A, B], [0.1, 1.0, 4.0]),
    "Pareto": (lambda d, a, b: d.Pareto(a, b), [A, [2.5, 3.5, 5.0]], [0.4, 2.0, 4.0]),
    "Kumaraswamy": (lambda d, a, b: d.Kumaraswamy(a, b), [A, B], [0.1, 0.5, 0.9]),
    "Bernoulli": (lambda d, a: d.Bernoulli(a), [P], [0.0, 1.0, 1.0]),
    "Bernoulli logits": (lambda d, a: d.Bernoulli(logits=a), [[-1.0, 0.2, 3.0]], [0.0, 1.0, 1.0]),
    "Geometric": (lambda d, a: d.Geometric(a), [P], [0.0, 3.0, 1.0]),
    "Categorical": (lambda d, a: d.Categorical(a), [ROWS], [2.0, 0.0]),
    "Categorical logits": (lambda d, a: d.Categorical(logits=a), [[[1.0, -2.0, 0.5]]], [[0.0], [1.0]]),
    "OneHotCategorical": (lambda d, a: d.OneHotCategorical(a), [ROWS], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "OneHotCategoricalStraightThrough": (
        lambda d, a: d.OneHotCategoricalStraightThrough(a), [ROWS], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    ),
    "Poisson": (lambda d, a: d.Poisson(a), [A], [0.0, 1.0, 4.0]),
    "Binomial": (lambda d, a: d.Binomial(5, a), [P], [0.0, 3.0, 5.0]),
    "NegativeBinomial": (lambda d, a: d.NegativeBinomial(5, a), [P], [0.0, 3.0, 5.0]),
    "Multinomial": (lambda d, a: d.Multinomial(4, a), [ROWS], [[1.0, 3.0, 0.0], [4.0, 0.0, 0.0]]),
    "RelaxedBernoulli": (lambda d, a: d.RelaxedBernoulli(torch_like(a, 0.7), a), [P], [0.1, 0.5, 0.9]),
    "LogitRelaxedBernoulli": (
        lambda d, a: d.relaxed_bernoulli.LogitRelaxedBernoulli(torch_like(a, 0.7), a), [P], [0.1, -0.5, 0.9],
    ),
    "RelaxedOneHotCategorical": (lambda d, a: d.RelaxedOneHotCategorical(torch_like(a, 0.7), a), [ROWS], ROWS),
    "MultivariateNormal": (lambda d, a, b: d.MultivariateNormal(a, b), [[A, B], MATRIX], [B, A]),
    "MultivariateNormal tril": (lambda d, a, b: d.MultivariateNormal(a, scale_tril=b), [A, LOWER], [B, A]),
    "MultivariateNormal precision": (
        lambda d, a, b: d.MultivariateNormal(a, precision_matrix=b), [A, MATRIX], [B, A],
    ),
    "ContinuousBernoulli": (lambda d, a: d.ContinuousBernoulli(a), [[0.2, 0.4, 0.9]], [0.1, 0.5, 0.9]),
    "ContinuousBernoulli logits": (lambda d, a: d.ContinuousBernoulli(logits=a), [[-1.0, 1e-3, 3.0]], [0.1, 0.5, 0.9]),
    "FisherSnedecor": (lambda d, a, b: d.FisherSnedecor(a, b), [[1.5, 2.5, 5.0], [3.5, 6.0, 20.0]], [0.1, 1.0, 4.0]),
    "InverseGamma": (lambda d, a, b: d.InverseGamma(a, b), [[5.0, 6.2, 9.5], B], [0.1, 1.0, 4.0]),
    "LogisticNormal": (lambda d, a, b: d.LogisticNormal(a, b), [[0.1, -0.4], [0.5, 1.0]], ROWS),
    "LKJCholesky": (lambda d, a: d.LKJCholesky(3, a), [[0.7, 1.5]], CORRELATED),
    "LowRankMultivariateNormal": (
        lambda d, a, b, c: d.LowRankMultivariateNormal(a, b, c), [[A, B], [[0.5], [1.0], [-0.3]], B], [B, A],
    ),
    "Wishart": (lambda d, a, b: d.Wishart(a, b), [[4.0, 6.5], MATRIX], MATRIX),
    "Wishart tril": (lambda d, a, b: d.Wishart(a, scale_tril=b), [[5.0], LOWER], MATRIX),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), [[A, B], [B, B]], [B, A]),
    "Transformed": (
        lambda d, a, b: d.TransformedDistribution(
            d.Normal(a, b), [d.transforms.AffineTransform(1.0, -0.5), d.transforms.SigmoidTransform()]
        ),
        [A, B], [0.1, 0.5, 0.9],
    ),
    "Tanh of Normal": (
        lambda d, a, b: d.Independent(d.TransformedDistribution(d.Normal(a, b), d.transforms.TanhTransform()), 1),
        [A, B], [0.1, -0.5, 0.9],
    ),
    "Mixture": (
        lambda d, p, a, b: d.MixtureSameFamily(d.Categorical(p), d.Normal(a, b)), [[0.2, 0.3, 0.5], A, B], [0.1, 2.0],
    ),
    "Mixture of vectors": (
        lambda d, p, a, b: d.MixtureSameFamily(d.Categorical(p), d.Independent(d.Normal(a, b), 1)),
        [[0.4, 0.6], [A, B], [B, B]], [B, A],
    ),
}  # fmt: skip
CONTINUOUS = [n for n in DISTRIBUTIONS if n not in ("Cauchy", "HalfCauchy")]


def torch_like(tensor: Any, value: float) -> Any:
    """A number as a tensor of the library that the other tensor is of."""
    return tensor.new_tensor(value)


def made(library: Any, name: str, dtype: str = "float64", grad: bool = True) -> tuple[Any, list[Any], Any]:
    """A distribution of a library, its parameters, and a value."""
    make, parameters, value = DISTRIBUTIONS[name]
    kind = getattr(library, dtype)
    tensors = [library.tensor(p, dtype=kind, requires_grad=grad) for p in parameters]
    return make(library.distributions, *tensors), tensors, library.tensor(value, dtype=kind)


def facts(what: str, library: Any, name: str, dtype: str) -> Any:
    """A property or function of a distribution, with the gradients of the parameters; or the class of its error."""
    distribution, parameters, value = made(library, name, dtype)
    try:
        found = getattr(distribution, what)
        if callable(found):
            probability = library.tensor(P, dtype=value.dtype)
            found = found(probability if what == "icdf" else value) if what in ("log_prob", "cdf", "icdf") else found()
        if found.requires_grad:
            found.sum().backward()
    except NotImplementedError:
        return NotImplementedError
    gradients = []
    if found.requires_grad:
        gradients = [library.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    return [found.detach(), *gradients]


@pytest.mark.parametrize("what", ["log_prob", "cdf", "icdf", "entropy", "mean", "variance", "stddev", "mode"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.filterwarnings("ignore")
def test_values_and_gradients(name: str, what: str) -> None:
    for dtype, tolerance in (("float64", 1e-8), ("float32", 1e-4)):
        found, expected = (facts(what, library, name, dtype) for library in LIBRARIES)
        if expected is NotImplementedError:
            assert found is NotImplementedError
            return
        same(found, expected, tolerance, f"{name} {what} {dtype}")


SINGLE: dict[str, tuple[Make, list[Any], Any]] = {
    # PyTorch compares the concentration with a number of float32.
    "GeneralizedPareto": (
        lambda d, a, b, c: d.GeneralizedPareto(a, b, c), [A, B, [-0.3, 0.0, 0.4]], [0.5, 1.7, 4.0],
    ),
    # PyTorch's Bessel functions have seven digits.
    "VonMises": (lambda d, a, b: d.VonMises(a, b), [A, B], [0.1, -1.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("what", ["log_prob", "cdf", "icdf", "entropy", "mean", "variance", "stddev", "mode"])
@pytest.mark.parametrize("name", SINGLE)
def test_values_in_single_precision(name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISTRIBUTIONS, name, SINGLE[name])
    found, expected = (facts(what, library, name, "float32") for library in LIBRARIES)
    if expected is NotImplementedError:
        assert found is NotImplementedError
        return
    same(found, expected, 1e-5)
    ours, theirs = (made(library, name, "float32", grad=False)[0] for library in LIBRARIES)
    assert text(ej, ours) == text(torch, theirs)
    ej.manual_seed(0)
    drawn = ours.expand((2, 3)).sample((50_000,)).numpy()
    if name == "VonMises":
        turned = drawn - np.array(A)
        np.testing.assert_allclose(np.sin(turned).mean((0, 1)), 0, atol=0.02)
        np.testing.assert_allclose(np.cos(turned).mean((0, 1)), 1 - theirs.variance.numpy(), atol=0.02)
    else:
        np.testing.assert_allclose(drawn.mean((0, 1)), theirs.mean.numpy(), rtol=0.1)


def text(library: Any, distribution: Any) -> list[Any]:
    """Shapes and what prints."""
    support: Any = None
    try:
        support = (distribution.support.event_dim, distribution.support.is_discrete)
    except NotImplementedError:
        pass
    flags = distribution.has_rsample, distribution.has_enumerate_support
    return [tuple(distribution.batch_shape), tuple(distribution.event_shape), support, flags]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_shapes_and_expansion(name: str) -> None:
    ours, theirs = (made(library, name, grad=False)[0] for library in LIBRARIES)
    if "Mixture" not in name:
        assert text(ej, ours) == text(torch, theirs)
        batch = (4, *theirs.batch_shape)
        wide, expected = ours.expand(batch), theirs.expand(batch)
        assert text(ej, wide) == text(torch, expected)
        value = theirs.sample().numpy()
        same(wide.log_prob(ej.from_numpy(value)), expected.log_prob(torch.from_numpy(value)), 1e-8)
        assert wide.sample((2,)).shape == expected.sample((2,)).shape
    for shape in ((), (5,), (2, 3)):
        drawn, reference = ours.sample(shape), theirs.sample(shape)
        assert tuple(drawn.shape) == tuple(reference.shape) and str(drawn.dtype) == str(reference.dtype)
        assert not drawn.requires_grad


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_have_the_moments(name: str) -> None:
    ej.manual_seed(0)
    distribution = made(ej, name, grad=False)[0]
    reference = made(torch, name, grad=False)[0]
    count = 20_000
    drawn = distribution.sample((count,)).numpy().astype(np.float64)
    try:
        mean, variance = reference.mean.numpy(), reference.variance.numpy()
    except NotImplementedError:
        other = reference.sample((count,)).numpy()
        mean, variance = other.mean(0), other.var(0)
    if "Categorical" in name and "OneHot" not in name:
        probs = reference.probs.numpy()
        frequencies = np.stack([(drawn == k).mean(0) for k in range(3)], -1)
        np.testing.assert_allclose(frequencies, probs, atol=0.02)
        return
    finite = np.isfinite(variance)
    error = 6 * np.sqrt(np.where(finite, variance, 0) / count) * (2 if "Relaxed" in name or "Tanh" in name else 1)
    assert np.all(np.abs(drawn.mean(0) - mean)[finite] <= error[finite] + 1e-12)
    np.testing.assert_allclose(drawn.var(0)[finite], variance[finite], rtol=0.25)
    assert (
        reference.support is None or "Mixture" in name or bool(reference.support.check(torch.from_numpy(drawn)).all())
    )


_HARD = ("Relaxed", "Straight", "Transformed", "Tanh", "StudentT", "LogisticNormal", "ContinuousBernoulli logits")
REPARAMETERISED = [n for n in CONTINUOUS if made(torch, n)[0].has_rsample and not any(w in n for w in _HARD)]


@pytest.mark.parametrize("name", REPARAMETERISED)
def test_gradients_of_samples_are_those_of_the_mean(name: str) -> None:
    ej.manual_seed(1)
    distribution, parameters, _ = made(ej, name)
    distribution.rsample((40_000,)).mean(0).sum().backward()
    expected, references, _ = made(torch, name)
    mean = expected.mean.sum()
    if not mean.requires_grad:
        return
    mean.backward()
    for ours, theirs in zip(parameters, references, strict=True):
        wanted = np.zeros(theirs.shape) if theirs.grad is None else theirs.grad.numpy()
        got = np.zeros(theirs.shape) if ours.grad is None else ours.grad.numpy()
        np.testing.assert_allclose(got, wanted, atol=0.05, rtol=0.08)


def test_relaxed_and_straight_through_samples_pass_gradients() -> None:
    for name in ("RelaxedBernoulli", "RelaxedOneHotCategorical", "OneHotCategoricalStraightThrough", "StudentT"):
        distribution, parameters, _ = made(ej, name)
        weights = ej.arange(1.0, 4.0, dtype=ej.float64)
        (distribution.rsample((100,)) * weights).sum().backward()
        assert parameters[0].grad is not None and bool((parameters[0].grad != 0).any()), name
    with pytest.raises(NotImplementedError):
        ej.distributions.Bernoulli(0.5).rsample()


def test_gamma_samples_have_exact_slopes() -> None:
    from eagerjit.ops.samplers import gamma_slope

    def slopes(concentration: Any, x: Any) -> Any:
        return gamma_slope.call(ej.from_numpy(concentration), ej.from_numpy(x)).numpy()

    generator = np.random.default_rng(0)
    for a in (0.01, 0.3, 1.0, 7.0, 60.0, 1e4):
        concentration = np.full(500, a)
        x = np.maximum(generator.standard_gamma(concentration), 1e-300)
        expected = torch._standard_gamma_grad(torch.from_numpy(concentration), torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(slopes(concentration, x), expected, rtol=1e-3)
    exact = {(1.0, 1.0): 0.9230103, (2.0, 5.0): 1.7224036}  # from a difference of 30 digits
    for (a, x), slope in exact.items():
        step = 1e-4
        difference = _slope_by_difference(a, x, step)
        np.testing.assert_allclose(slopes(np.array([a]), np.array([x])), [difference], rtol=1e-6)
        assert slope > 0


def _slope_by_difference(a: float, x: float, step: float) -> float:
    import mpmath

    def below(b: float) -> Any:
        return mpmath.gammainc(b, 0, x, regularized=True)

    density = x ** (a - 1) * math.exp(-x) / math.gamma(a)
    return float(-(below(a + step) - below(a - step)) / (2 * step) / density)


KINDS = {name.split()[0] for name in DISTRIBUTIONS if getattr(torch.distributions, name.split()[0], None)}
REGISTERED = sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)
PAIRS = [
    *((p, q) for p, q in REGISTERED if p in KINDS and q in KINDS),
    ("LogNormal", "LogNormal"), ("MultivariateNormal", "MultivariateNormal tril"), ("Chi2", "Chi2"),
    ("Bernoulli", "Bernoulli logits"), ("Transformed", "LogNormal"), ("Wishart", "LKJCholesky"),
    ("StudentT", "Normal"),
]  # fmt: skip
INSIDE = {"Uniform": [[0.2, 0.3, -0.5], [0.4, 0.9, 2.0]], "Pareto": [[0.1, 0.2, 0.3], [2.5, 3.5, 1.5]]}
"""Parameters at which most divergences are finite."""


def divergence(library: Any, first: str, second: str) -> Any:
    p, parameters, _ = made(library, first)
    make, values, _ = DISTRIBUTIONS[second]
    shifted = [library.tensor(v, dtype=library.float64) for v in values]
    if second not in ("MultivariateNormal tril", "Uniform"):
        shifted[0] = shifted[0] * 0.8 + (0.1 if library.tensor(values[0]).ndim == 1 else 0.2 / 3)
    q = make(library.distributions, *shifted)
    try:
        found = library.distributions.kl_divergence(p, q)
    except NotImplementedError:
        return NotImplementedError
    if found.requires_grad:
        found.sum().backward()
    return [found.detach(), *(library.zeros_like(x) if x.grad is None else x.grad for x in parameters)]


@pytest.mark.parametrize("first, second", PAIRS)
def test_divergences(first: str, second: str) -> None:
    found, expected = (divergence(library, first, second) for library in LIBRARIES)
    if expected is NotImplementedError:
        assert found is NotImplementedError
    else:
        same(found, expected, 1e-8)


@pytest.mark.parametrize(
    "second", ["Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Gumbel", "Pareto", "Uniform"]
)
@pytest.mark.parametrize("first", ["Uniform", "Pareto", "Beta", "ContinuousBernoulli"])
def test_divergences_where_one_covers_the_other(first: str, second: str) -> None:
    outcomes = []
    for library in LIBRARIES:
        kinds = []
        for name in (first, second):
            values = INSIDE.get(name, DISTRIBUTIONS[name][1])
            tensors = [library.tensor(v, dtype=library.float64, requires_grad=True) for v in values]
            kinds.append((DISTRIBUTIONS[name][0](library.distributions, *tensors), tensors))
        try:
            found = library.distributions.kl_divergence(kinds[0][0], kinds[1][0])
        except NotImplementedError:
            outcomes.append([NotImplementedError])
            continue
        if found.requires_grad:
            found.masked_fill(found.isinf(), 0).sum().backward()
        outcomes.append([found, *(library.zeros_like(x) if x.grad is None else x.grad for x in kinds[0][1])])
    same(*outcomes, 1e-8)


def test_an_exponential_family_of_a_user() -> None:
    outcomes = []
    for library in LIBRARIES:

        class Decay(library.distributions.ExponentialFamily):  # type: ignore[name-defined]
            arg_constraints: ClassVar[dict[str, Any]] = {}
            support = library.distributions.constraints.positive

            def __init__(self, rate: Any):
                self.rate = rate
                super().__init__(rate.shape, validate_args=False)

            _natural_params = property(lambda self: (-self.rate,))
            _mean_carrier_measure = 0

            def _log_normalizer(self, x: Any) -> Any:
                return -(-x).log()

        p, q = (Decay(library.tensor(v, dtype=library.float64)) for v in (A, B))
        outcomes.append([p.entropy(), library.distributions.kl_divergence(p, q)])
    same(*outcomes, 1e-10)


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "scale": lambda t, d: d.Normal(0.0, -1.0),
    "nan": lambda t, d: d.Normal(float("nan"), 1.0),
    "probs": lambda t, d: d.Bernoulli(t.tensor([0.5, 1.5])),
    "both": lambda t, d: d.Bernoulli(0.5, 0.5),
    "neither": lambda t, d: d.Categorical(),
    "scalar": lambda t, d: d.Categorical(t.tensor(0.5)),
    "simplex": lambda t, d: d.Dirichlet(t.tensor([1.0, -1.0])),
    "bounds": lambda t, d: d.Uniform(1.0, 0.0),
    "rate": lambda t, d: d.Poisson(-1.0),
    "value": lambda t, d: d.Exponential(1.0).log_prob(t.tensor(-1.0)),
    "value of kind": lambda t, d: d.Bernoulli(0.5).log_prob(t.tensor(0.5)),
    "category": lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "number": lambda t, d: d.Normal(0.0, 1.0).log_prob(1.0),
    "event": lambda t, d: d.Dirichlet(t.ones(3)).log_prob(t.ones(2) / 2),
    "batch": lambda t, d: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
    "unchecked": lambda t, d: d.Normal(0.0, -1.0, validate_args=False).log_prob(t.tensor(0.0)).shape,
    "text": lambda t, d: d.Normal("a", 1.0),
    "covariance": lambda t, d: d.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]])),
    "two matrices": lambda t, d: d.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)),
    "tril": lambda t, d: d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2, 2)),
    "independent": lambda t, d: d.Independent(d.Normal(t.zeros(2), 1.0), 2),
    "transform": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), 3),
    "mixture": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(3)), d.Normal(t.zeros(2), 1.0)),
    "enumerate": lambda t, d: d.Normal(0.0, 1.0).enumerate_support(),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    outcomes = []
    for library in LIBRARIES:
        try:
            outcomes.append(repr(WRONG[name](library, library.distributions)))
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]


def test_errors_name_the_parameter_and_its_constraint() -> None:
    with pytest.raises(ValueError, match=r"Expected parameter scale .* to satisfy the constraint GreaterThan"):
        ej.distributions.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match=r"value argument .* within the support \(Boolean\(\)\)"):
        ej.distributions.Bernoulli(0.5).log_prob(ej.tensor(0.5))


def test_samples_follow_the_seed_and_the_jit_draws_anew() -> None:
    gamma = ej.distributions.Gamma(ej.tensor([0.5, 2.0]), 1.0)
    drawn = []
    for _ in range(2):
        ej.manual_seed(7)
        drawn.append([gamma.sample().tolist() for _ in range(2)])
    assert drawn[0] == drawn[1] and drawn[0][0] != drawn[0][1]
    normal = ej.distributions.Normal(ej.zeros(3), ej.ones(3))

    def step(x: Any) -> Any:
        inner = ej.distributions.Normal(x, 1.0, validate_args=False)
        return inner.log_prob(inner.rsample()).sum()

    jitted, x = ej.jit(step), ej.ones(3)
    values = []
    for function in (step, jitted):
        ej.manual_seed(3)
        values.append([function(x).item() for _ in range(3)])
    assert values[0] == values[1] and len(set(values[0])) == 3
    assert bool(ej.isfinite(normal.entropy()).all())


def test_enumeration() -> None:
    for name in ("Bernoulli", "Categorical", "OneHotCategorical"):
        for expand in (True, False):
            ours, theirs = (made(library, name, grad=False)[0].enumerate_support(expand) for library in LIBRARIES)
            same(ours, theirs)


def test_divergences_of_absolute_values() -> None:
    """That of Cauchy numbers is theirs; one of a normal and a Cauchy number has no rule."""
    for first in ("HalfNormal", "HalfCauchy"):
        for second in ("HalfNormal", "HalfCauchy"):
            found, expected = (
                outcome_of_divergence(getattr(d, first)(s(0.7)), getattr(d, second)(s(2.0)))
                for d, s in ((library.distributions, library.tensor) for library in LIBRARIES)
            )
            assert found == pytest.approx(expected) if isinstance(expected, float) else found is expected


def outcome_of_divergence(p: Any, q: Any) -> Any:
    library = ej if isinstance(p, ej.distributions.Distribution) else torch
    try:
        return float(library.distributions.kl_divergence(p, q))
    except NotImplementedError as error:
        return type(error)


def test_divergences_of_binomials_with_other_counts() -> None:
    for first, second in ((3, 5), (5, 3), (4, 4)):
        found, expected = (
            outcome_of_divergence(*(d.Binomial(n, s(0.3)) for n in (first, second)))
            for d, s in ((library.distributions, library.tensor) for library in LIBRARIES)
        )
        assert found == expected


def test_expanded_mixtures_and_counts() -> None:
    results = []
    for library in LIBRARIES:
        d = library.distributions
        mixture = d.MixtureSameFamily(
            d.Categorical(library.tensor([0.2, 0.8])), d.Normal(library.tensor([0.0, 3.0]), library.ones(2))
        ).expand((4,))
        with pytest.raises(RuntimeError):
            mixture.expand((7,))
        counts = d.Multinomial(4, library.tensor([0.2, 0.8]))
        with pytest.raises(ValueError):
            counts.log_prob(library.tensor([3.0, 3.0]))
        shapes = tuple(counts.param_shape), tuple(d.OneHotCategorical(library.ones(2, 3)).param_shape)
        values = mixture.mean.tolist(), mixture.log_prob(library.zeros(4)).tolist(), tuple(mixture.sample((2,)).shape)
        results.append((shapes, values[2], np.round(values[0], 5).tolist(), np.round(values[1], 4).tolist()))
    assert results[0] == results[1]


def test_expanding_subclasses() -> None:
    for library in LIBRARIES:
        normal = library.distributions.Normal

        class Mine(normal):  # type: ignore[misc, valid-type]
            def expand(self, batch_shape: Any, _instance: Any = None, normal: Any = normal) -> Any:
                return normal.expand(self, batch_shape, self._get_checked_instance(Mine, _instance))

        class Another(Mine):
            def __init__(self) -> None:
                super().__init__(0.0, 1.0)

        assert type(Mine(0.0, 2.0).expand((3,))) is Mine and Mine(0.0, 2.0).expand((3,)).stddev.tolist() == [2.0] * 3
        with pytest.raises(NotImplementedError, match="Subclass Another of Mine that defines a custom __init__"):
            Another().expand((2,))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.filterwarnings("ignore:Singular sample")
def test_expanded_subclasses_have_their_class(name: str) -> None:
    outcomes = []
    for library in LIBRARIES:
        distribution, _, value = made(library, name)
        kind = type(distribution)

        class Plain(kind):  # type: ignore[misc, valid-type]
            pass

        class Other(kind):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                raise AssertionError

        class Given(Other):
            arg_constraints: ClassVar[dict[str, Any]] = {}

            def expand(self, batch_shape: Any, _instance: Any = None, kind: Any = kind) -> Any:
                return kind.expand(self, batch_shape, self._get_checked_instance(Given, _instance))

        shape = (1, 1, *distribution.batch_shape)
        found: list[Any] = []
        for changed in (Plain, Other, Given):
            distribution.__class__ = changed
            try:
                wide = distribution.expand(shape)
                found.append((type(wide) is changed, tuple(wide.batch_shape), tuple(wide.log_prob(value).shape)))
            except NotImplementedError:
                found.append(NotImplementedError)
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] is NotImplementedError


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_distribution_of_nothing_in_particular(library: Any) -> None:
    class Bare(library.distributions.Distribution):  # type: ignore[misc]
        arg_constraints: ClassVar[dict[str, Any]] = {}

    for ask in (lambda: Bare().support, lambda: Bare().expand((2,))):
        with pytest.raises(NotImplementedError):
            ask()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_distribution_that_is_a_module(library: Any) -> None:
    class Learned(library.distributions.Normal, library.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(library.zeros(2), 1.0)
            self.shift = library.nn.Parameter(library.ones(2))

        def log_prob(self, value: Any) -> Any:
            return super().log_prob(value - self.shift)

    learned = Learned()
    learned.log_prob(library.zeros(2)).sum().backward()
    assert [(name, p.grad.tolist()) for name, p in learned.named_parameters()] == [("shift", [-1.0, -1.0])]


def test_divergence_of_wishart_distributions() -> None:
    found = []
    for library in LIBRARIES:
        matrix = library.tensor(MATRIX, dtype=library.float64)
        p = library.distributions.Wishart(library.tensor(4.5, dtype=library.float64), matrix)
        q = library.distributions.Wishart(library.tensor(5.5, dtype=library.float64), matrix * 1.5)
        found.append([library.distributions.kl_divergence(*pair).detach() for pair in ((p, q), (q, p), (p, p))])
    same(*found, 1e-8)


@pytest.mark.parametrize("library", LIBRARIES)
def test_wishart_samples_that_are_not_corrected(library: Any) -> None:
    library.manual_seed(0)
    wishart = library.distributions.Wishart(library.tensor([4.0, 5.0]), library.eye(2) * 3)
    found = wishart._bartlett_sampling(library.Size((3,)))
    assert found.shape == (3, 2, 2, 2) and (library.linalg.eigvalsh(found) > 0).all()
    with library.random.fork_rng():
        drawn = wishart._bartlett_sampling(library.Size())
    assert drawn.shape == (2, 2, 2) and (drawn == drawn.mT).all()


def test_divergence_of_wishart_distributions_has_gradients() -> None:
    def divergence(df: Any, factor: Any) -> Any:
        matrix = ej.tensor(MATRIX, dtype=ej.float64)
        q = ej.distributions.Wishart(ej.tensor([4.0, 5.0], dtype=ej.float64), matrix)
        return ej.distributions.kl_divergence(ej.distributions.Wishart(df, matrix * factor), q)

    given = [ej.tensor(v, dtype=ej.float64, requires_grad=True) for v in (4.5, 1.2)]
    assert ej.autograd.gradcheck(divergence, given)


@pytest.mark.parametrize("library", LIBRARIES)
def test_matrices_of_derived_classes(library: Any) -> None:
    lazy_property = library.distributions.utils.lazy_property

    class Known(library.distributions.MultivariateNormal):
        @lazy_property
        def covariance_matrix(self) -> Any:
            return super().covariance_matrix * 2

        @property
        def broken(self) -> Any:
            return self.covariance_matrix.not_there

    known = Known(library.zeros(2), scale_tril=library.eye(2) * 3)
    assert known.covariance_matrix.tolist() == [[18.0, 0.0], [0.0, 18.0]]
    assert known.covariance_matrix is known.covariance_matrix
    assert known.precision_matrix is known.precision_matrix
    with pytest.raises(AttributeError, match="not_there"):
        _ = known.broken


@pytest.mark.parametrize("library", LIBRARIES)
def test_halves_are_transformed_distributions(library: Any) -> None:
    d = library.distributions
    for kind, base in ((d.HalfNormal, d.Normal), (d.HalfCauchy, d.Cauchy)):
        half = kind(library.tensor([1.0, 2.0]))
        assert isinstance(half, d.TransformedDistribution) and type(half.base_dist) is base
        half.base_dist.scale = library.tensor([4.0, 5.0])
        assert half.scale.tolist() == [4.0, 5.0]
        assert tuple(half.expand((3, 2)).scale.shape) == (3, 2)
        with pytest.raises(ValueError, match=f"parameter scale .* of distribution {kind.__name__}"):
            kind(library.tensor([-1.0]), validate_args=True)
