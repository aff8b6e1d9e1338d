"""Kullback and Leibler's divergence between distributions: the mean of log p - log q under p."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.distributions import combined, counts, discrete, gammas, transformed
from eagerjit.distributions import continuous as c
from eagerjit.distributions.distribution import Distribution, sum_rightmost
from eagerjit.distributions.halves import Half
from eagerjit.distributions.kl_rules import RULES as _KL_REGISTRY  # noqa: F401
from eagerjit.distributions.kl_rules import register_kl as register_kl
from eagerjit.distributions.kl_rules import rule_of
from eagerjit.ops.activation import softplus
from eagerjit.tensors.tensor import Tensor


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean of log(p / q) under p, in nats: of the shape that both batch shapes broadcast to.

    Raises NotImplementedError for pairs of classes without a rule; `register_kl` adds one.
    """
    return rule_of(type(p), type(q))(p, q)


@register_kl(c.Normal, c.Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(Half, Half)
def _half(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(c.Laplace, c.Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(c.Gumbel, c.Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, first, second = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    rest = (first + (1 + ratio).lgamma() - second).exp() - (1 + c._EULER)
    return -ratio.log() - first + second + ratio * c._EULER + rest


@register_kl(c.Uniform, c.Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(c.Uniform, c.Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width, middle = p.high - p.low, (p.high + p.low) / 2
    spread = (middle - q.loc).square() + width.square() / 12
    return (math.sqrt(2 * math.pi) * q.scale / width).log() + 0.5 * spread / q.scale.square()


@register_kl(c.Exponential, c.Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(gammas.Gamma, gammas.Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    rates = q.concentration * (p.rate / q.rate).log() + (q.rate - p.rate) * (p.concentration / p.rate)
    shapes = q.concentration.lgamma() - p.concentration.lgamma()
    return rates + shapes + (p.concentration - q.concentration) * p.concentration.digamma()


@register_kl(gammas.Beta, gammas.Beta)
def _beta(p: Any, q: Any) -> Tensor:
    a, b, x, y = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    norms = x.lgamma() + y.lgamma() + (a + b).lgamma() - (x + y).lgamma() - a.lgamma() - b.lgamma()
    return norms + (a - x) * a.digamma() + (b - y) * b.digamma() + (x + y - a - b) * (a + b).digamma()


@register_kl(gammas.Dirichlet, gammas.Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(discrete.Bernoulli, discrete.Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    one = p.probs * (softplus.call(-q.logits) - softplus.call(-p.logits))
    one = one.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zero = (1 - p.probs) * (softplus.call(q.logits) - softplus.call(p.logits))
    return one + zero.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(discrete.Categorical, discrete.Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill((q.probs == 0).expand(terms.shape), math.inf)
    return terms.masked_fill((p.probs == 0).expand(terms.shape), 0).sum(-1)


@register_kl(discrete.OneHotCategorical, discrete.OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(counts.Geometric, counts.Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(counts.Poisson, counts.Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(counts.Binomial, counts.Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    terms = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return terms.masked_fill((p.total_count > q.total_count).expand(terms.shape), math.inf)


@register_kl(transformed.TransformedDistribution, transformed.TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between distributions with different transforms")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(combined.Independent, combined.Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents of different dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
