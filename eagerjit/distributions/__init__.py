"""Probability distributions: samples with gradients, densities, entropies, divergences."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.distributions import constraints, kl, transforms
from eagerjit.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from eagerjit.distributions.counts import Binomial, Geometric, Multinomial, NegativeBinomial, Poisson
from eagerjit.distributions.discrete import (
    Bernoulli,
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from eagerjit.distributions.distribution import Distribution, ExponentialFamily
from eagerjit.distributions.gammas import Beta, Chi2, Dirichlet, Gamma, StudentT
from eagerjit.distributions.kl import kl_divergence, register_kl
from eagerjit.distributions.relaxed import (
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from eagerjit.distributions.transformed import (
    Independent,
    Kumaraswamy,
    LogNormal,
    MixtureSameFamily,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from eagerjit.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpRelaxedCategorical",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "LogitRelaxedBernoulli",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "constraints",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "transforms",
]


_PLACES = {
    "continuous": "normal laplace cauchy gumbel uniform exponential half_normal half_cauchy",
    "gammas": "gamma chi2 studentT dirichlet beta",
    "discrete": "bernoulli categorical one_hot_categorical",
    "counts": "geometric poisson binomial negative_binomial multinomial",
    "relaxed": "relaxed_bernoulli relaxed_categorical",
    "transformed": "transformed_distribution independent mixture_same_family log_normal weibull pareto kumaraswamy",
    "multivariate": "multivariate_normal",
    "distribution": "exp_family utils",
}
"""Where the classes are that PyTorch has in modules of these names."""

_HOMES = {name: f"eagerjit.distributions.{module}" for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """What needs linear algebra comes when it is first used, and modules under PyTorch's names."""
    if name == "MultivariateNormal":
        return importlib.import_module("eagerjit.distributions.multivariate").MultivariateNormal
    if name in _HOMES:
        return importlib.import_module(_HOMES[name])
    raise AttributeError(f"module 'eagerjit.distributions' has no attribute '{name}'")
