"""Divergences between distributions of different kinds: the mean of -log q under p, less p's entropy.

What log q asks of p is its mean, its variance, the means of log x and log(1 - x), or that of exp(-x / s).
"""

from __future__ import annotations

import math
from typing import Any

from eagerjit.distributions import bounded, counts, discrete, gammas, matrices, transformed
from eagerjit.distributions import continuous as c
from eagerjit.distributions.distribution import ExponentialFamily, euler_constant, sum_rightmost
from eagerjit.distributions.kl import register_kl
from eagerjit.ops.gamma import mvlgamma
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor

Beta, Gamma, Pareto, ContinuousBernoulli = gammas.Beta, gammas.Gamma, transformed.Pareto, bounded.ContinuousBernoulli


def _mean_log(p: Any) -> Tensor:
    """The mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, c.Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _uniform_mean_log(p.low, p.high)


def _uniform_mean_log(low: Tensor, high: Tensor) -> Tensor:
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_exponential(p: Any, scale: Tensor) -> Tensor:
    """The mean of exp(-x / scale)."""
    if isinstance(p, c.Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Gamma):
        return (1 + 1 / (p.rate * scale)).pow(-p.concentration)
    if isinstance(p, c.Normal):
        return (0.5 * (p.scale / scale).square() - p.loc / scale).exp()
    return scale / (p.high - p.low) * ((-p.low / scale).exp() - (-p.high / scale).exp())


def _to_exponential(p: Any, q: Any) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


def _to_normal(p: Any, q: Any) -> Tensor:
    spread = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return 0.5 * spread + (math.sqrt(2 * math.pi) * q.scale).log() - p.entropy()


def _to_gamma(p: Any, q: Any) -> Tensor:
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return norm + (1 - q.concentration) * _mean_log(p) + q.rate * p.mean - p.entropy()


def _to_gumbel(p: Any, q: Any) -> Tensor:
    standard = (p.mean - q.loc) / q.scale
    return q.scale.log() + standard + (q.loc / q.scale).exp() * _mean_exponential(p, q.scale) - p.entropy()


def _to_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm() - p.entropy()


def _to_uniform(p: Any, q: Any) -> Tensor:
    return (q.high - q.low).log() - p.entropy()


for _first, _second, _rule in (
    *((first, c.Exponential, _to_exponential) for first in (Beta, ContinuousBernoulli, Gamma)),
    *((p, c.Normal, _to_normal) for p in (Beta, ContinuousBernoulli, c.Exponential, Gamma, c.Gumbel, c.Laplace)),
    *((first, Gamma, _to_gamma) for first in (Beta, c.Exponential)),
    *((first, c.Gumbel, _to_gumbel) for first in (c.Exponential, Gamma, c.Normal, c.Uniform)),
    *((first, ContinuousBernoulli, _to_continuous_bernoulli) for first in (Beta, ContinuousBernoulli)),
):
    register_kl(_first, _second)(_rule)


# -- where p may have values that q never takes ------------------------------------------------------------------------


@register_kl(c.Uniform, c.Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    return _to_exponential(p, q).masked_fill(p.low < 0, math.inf)


@register_kl(c.Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    return _to_gamma(p, q).masked_fill(p.low < 0, math.inf)


@register_kl(c.Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    first, second = q.concentration1, q.concentration0
    norm = first.lgamma() + second.lgamma() - (first + second).lgamma()
    logs = (1 - first) * _mean_log(p) + (1 - second) * _uniform_mean_log(1 - p.high, 1 - p.low)
    return (norm + logs - p.entropy()).masked_fill((p.high > 1) | (p.low < 0), math.inf)


@register_kl(c.Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return _to_continuous_bernoulli(p, q).masked_fill((p.high >= 1) | (p.low <= 0), math.inf)


@register_kl(c.Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    result = (q.alpha + 1) * _mean_log(p) - (q.alpha * q.scale.pow(q.alpha)).log() - p.entropy()
    return result.masked_fill(p.low < q.scale, math.inf)


@register_kl(Beta, c.Uniform)
@register_kl(ContinuousBernoulli, c.Uniform)
def _to_narrow_uniform(p: Any, q: Any) -> Tensor:
    return _to_uniform(p, q).masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(Pareto, c.Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    return _to_exponential(p, q).masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    return _to_gamma(p, q).masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, c.Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return _to_normal(p, q).masked_fill(p.alpha <= 2, math.inf)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, math.inf)


def _infinite(p: Any, q: Any) -> Tensor:
    """Where p has values that q never takes."""
    return p.mean.new_full(p.batch_shape, math.inf)


for _kind, _others in {
    c.Normal: (c.Exponential, c.Uniform, Beta, Gamma, ContinuousBernoulli, Pareto),
    c.Laplace: (c.Exponential, c.Uniform, Beta, Gamma, ContinuousBernoulli, Pareto),
    c.Gumbel: (c.Exponential, c.Uniform, Beta, Gamma, ContinuousBernoulli, Pareto),
    c.Exponential: (c.Uniform, Beta, ContinuousBernoulli, Pareto),
    Gamma: (c.Uniform, Beta, ContinuousBernoulli, Pareto),
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Pareto: (c.Uniform, Beta, ContinuousBernoulli),
    counts.Poisson: (discrete.Bernoulli, counts.Binomial),
}.items():
    for _other in _others:
        register_kl(_kind, _other)(_infinite)


# -- others -----------------------------------------------------------------------------------------------------------


@register_kl(c.Normal, c.Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    distance = (p.loc - q.loc) / p.scale
    bell = math.sqrt(2 / math.pi) * (-0.5 * distance.square()).exp()
    mean_distance = p.scale * (bell + distance * (math.sqrt(0.5) * distance).erf())
    return (2 * q.scale).log() + mean_distance / q.scale - p.entropy()


@register_kl(c.Cauchy, c.Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(matrices.Wishart, matrices.Wishart)
def _wishart(p: Any, q: Any) -> Tensor:
    half, other, size = p.df / 2, q.df / 2, p.event_shape[-1]
    steps = arange(size, dtype=p.df.dtype, device=p.df.device) / 2
    slopes = (half.unsqueeze(-1) - steps).digamma().sum(-1)
    spread = (q.precision_matrix @ p.covariance_matrix).diagonal(dim1=-2, dim2=-1).sum(-1) - size
    volumes = 2 * (q._log_scale() - p._log_scale())
    norms = mvlgamma(other, size) - mvlgamma(half, size)
    return other * volumes + half * spread + norms + (half - other) * slopes


@register_kl(discrete.Bernoulli, counts.Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(ExponentialFamily, ExponentialFamily)
def _same_family(p: Any, q: Any) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}: they are "
            "different exponential families"
        )
    parameters, normalizer, slopes = p._normalizer_slopes()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, slope in zip(parameters, q._natural_params, slopes, strict=True):
        result = result - sum_rightmost((other - mine) * slope, len(q.event_shape))
    return result
