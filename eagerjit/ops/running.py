"""Extremes so far along a dimension, and the logarithm of a running sum of exponentials."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.autograd.primitives import RULES
from eagerjit.calling import RETURNED, ValuesIndices, public
from eagerjit.compiler.ops import elementwise, indexing, searches
from eagerjit.dispatch import Op, emit
from eagerjit.ops import views
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.searching import before_along, keys
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor

# -- extremes -------------------------------------------------------------------------------------------------


def _extremes(name: str, largest: bool, doc: str) -> Any:
    def body(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if input.ndim == 0:
            return emit(elementwise.cast, input, dtype=input.dtype), as_dtype(0, dtypes.int64)
        found = emit(searches.running, keys(input), dim=dim, largest=largest)
        return emit(indexing.gather, input, found, dim=dim), found

    op = Op(name, body, (_extremes_rule, None))
    op.results_read = (1,)
    kind = RETURNED[name]

    def call(input: Tensor, dim: int) -> ValuesIndices:
        return kind(*op.call(input, views.dimension(dim, input.ndim)))

    call.__name__, call.__doc__ = name, doc
    return public(call)


def _extremes_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    return g[0].new_zeros(input.shape).scatter_add(dim, out[1], g[0]) if input.ndim else g[0]


cummax = _extremes(
    "cummax", True, "The largest element up to each along a dimension, with where it is (the last one of equals)."
)
cummin = _extremes(
    "cummin", False, "The smallest element up to each along a dimension, with where it is (the last one of equals)."
)


# -- linear recurrences -----------------------------------------------------------------------------------------------


def _recurrence(factors: Tensor, terms: Tensor, dim: int) -> Tensor:
    """h[i] = factors[i] * h[i-1] + terms[i] along dim, from 0 on, in double precision."""
    return emit(searches.recurrence, factors, terms, dim=dim)


def _later(factors: Any, dim: int) -> Any:
    """The factor after each, in the other direction."""
    return _before_op.call(factors.flip(dim), dim)


def later_sums(factors: Any, terms: Any, dim: int) -> Any:
    """h[i] = factors[i+1] * h[i+1] + terms[i] along dim, from the last one on."""
    return _recurrence_op.call(_later(factors, dim), terms.flip(dim), dim).flip(dim)


def _recurrence_terms(g: Any, out: Any, factors: Any, terms: Any, dim: int) -> Any:
    return later_sums(factors, g, dim)


def _recurrence_factors(g: Any, out: Any, factors: Any, terms: Any, dim: int) -> Any:
    first = arange(out.shape[dim]).reshape(tuple(-1 if i == dim else 1 for i in range(out.ndim))) == 0
    return _recurrence_terms(g, out, factors, terms, dim) * (out * 0.0).where(first, _before_op.call(out, dim))


def _before_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    place = (arange(input.shape[dim]) - 1).clamp(min=0).reshape(tuple(-1 if i == dim else 1 for i in range(input.ndim)))
    return g.new_zeros(input.shape).scatter_add(dim, place.expand(input.shape), g)


_before_op = Op("element_before", before_along, (_before_rule, None))
_recurrence_op = Op("linear_recurrence", _recurrence, (_recurrence_factors, _recurrence_terms, None))
RULES[searches.recurrence] = _recurrence_factors, _recurrence_terms


def _logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Sums of exp(input - the largest so far), which shrink where there is a larger one."""
    if input.ndim == 0:
        return emit(elementwise.cast, input, dtype=input.dtype)
    x = as_dtype(input, dtypes.float64)
    largest = emit(indexing.gather, x, emit(searches.running, x, dim=dim, largest=True), dim=dim)
    before = before_along(largest, dim)
    level = largest.where(largest.isfinite(), 0.0)
    factors = (before.where(before.isfinite(), 0.0) - level).exp().where(before != -math.inf, 0.0)
    sums = emit(searches.recurrence, factors, (x - level).exp(), dim=dim)
    return as_dtype(sums.log() + level, input.dtype)


def _logcumsumexp_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """Sums of g * exp(input - out) over all later places; out only grows, so no exponential does."""
    if not g.ndim:
        return g
    sums, x = out.double(), input.double()
    level = sums.where(sums != -math.inf, 0.0)  # then all elements so far are -inf, whose slopes are 0
    factors = (_before_op.call(level, dim) - level).exp()
    total = _recurrence_op.call(_later(factors, dim), g.double().flip(dim), dim).flip(dim)
    return (total * (x - level).exp()).to(g.dtype)


_logcumsumexp_op = Op("logcumsumexp", _logcumsumexp, (_logcumsumexp_rule, None))


@public
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the sum of all exponentials up to each along a dimension."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"logcumsumexp_out_cpu" not implemented for {input.dtype}')
    return _logcumsumexp_op.call(input, views.dimension(dim, input.ndim))
