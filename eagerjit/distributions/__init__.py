"""Probability distributions: samples with gradients, densities, entropies, divergences."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.distributions import constraint_registry, constraints, kl, transforms
from eagerjit.distributions import kl_pairs as kl_pairs
from eagerjit.distributions.bounded import ContinuousBernoulli, GeneralizedPareto, VonMises
from eagerjit.distributions.combined import Independent, MixtureSameFamily
from eagerjit.distributions.constraint_registry import biject_to, transform_to
from eagerjit.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    Normal,
    Uniform,
)
from eagerjit.distributions.counts import Binomial, Geometric, Multinomial, NegativeBinomial, Poisson
from eagerjit.distributions.discrete import Bernoulli, Categorical, OneHotCategorical, OneHotCategoricalStraightThrough
from eagerjit.distributions.distribution import Distribution, ExponentialFamily
from eagerjit.distributions.gammas import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, StudentT
from eagerjit.distributions.halves import HalfCauchy, HalfNormal
from eagerjit.distributions.kl import kl_divergence, register_kl
from eagerjit.distributions.low_rank import LowRankMultivariateNormal
from eagerjit.distributions.matrices import LKJCholesky, Wishart
from eagerjit.distributions.multivariate import MultivariateNormal
from eagerjit.distributions.relaxed import (
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from eagerjit.distributions.transformed import (
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from eagerjit.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet",
    "Distribution", "ExpRelaxedCategorical", "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor",
    "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LogitRelaxedBernoulli", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "PositiveDefiniteTransform", "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform",
    "VonMises", "Weibull", "Wishart", "biject_to", "constraint_registry", "constraints", "identity_transform", "kl",
    "kl_divergence", "register_kl", "transform_to", "transforms",
]  # fmt: skip


_PLACES = {
    "bounded": "continuous_bernoulli generalized_pareto von_mises",
    "continuous": "normal laplace cauchy gumbel uniform exponential",
    "halves": "half_normal half_cauchy",
    "gammas": "gamma chi2 studentT dirichlet beta fishersnedecor",
    "discrete": "bernoulli categorical one_hot_categorical",
    "counts": "geometric poisson binomial negative_binomial multinomial",
    "relaxed": "relaxed_bernoulli relaxed_categorical",
    "combined": "independent mixture_same_family",
    "transformed": "transformed_distribution log_normal weibull pareto kumaraswamy inverse_gamma logistic_normal",
    "multivariate": "multivariate_normal",
    "low_rank": "lowrank_multivariate_normal",
    "matrices": "lkj_cholesky wishart",
    "distribution": "exp_family utils",
}
"""Where the classes are that PyTorch has in modules of these names."""

_HOMES = {name: f"eagerjit.distributions.{module}" for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Modules under PyTorch's names."""
    if name in _HOMES:
        return importlib.import_module(_HOMES[name])
    raise AttributeError(f"module 'eagerjit.distributions' has no attribute '{name}'")
