"""Extremes so far along a dimension, and the logarithm of a running sum of exponentials."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.autograd.primitives import RULES
from eagerjit.calling.dispatch import COMPLEX_FORMS, Op, emit
from eagerjit.calling.public import public
from eagerjit.calling.results import RETURNED, ValuesIndices
from eagerjit.compiler.ops import complexes, elementwise, indexing, searches
from eagerjit.ops import views
from eagerjit.ops.complexes import complex as torch_complex
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.searching import before_along, keys, place_along
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

# -- extremes -------------------------------------------------------------------------------------------------


def _extremes(name: str, largest: bool, doc: str) -> Any:
    def body(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if input.dtype.is_complex:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{TYPE_NAMES[input.dtype]}'")
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
    return linear_recurrence.call(_later(factors, dim), terms.flip(dim), dim).flip(dim)


def _recurrence_terms(g: Any, out: Any, factors: Any, terms: Any, dim: int) -> Any:
    return later_sums(factors, g, dim)


def _recurrence_factors(g: Any, out: Any, factors: Any, terms: Any, dim: int) -> Any:
    first = arange(out.shape[dim]).reshape(tuple(-1 if i == dim else 1 for i in range(out.ndim))) == 0
    return _recurrence_terms(g, out, factors, terms, dim) * (out * 0.0).where(first, _before_op.call(out, dim))


def _before_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    place = (arange(input.shape[dim]) - 1).clamp(min=0).reshape(tuple(-1 if i == dim else 1 for i in range(input.ndim)))
    return g.new_zeros(input.shape).scatter_add(dim, place.expand(input.shape), g)


_before_op = Op("element_before", before_along, (_before_rule, None))
linear_recurrence = Op("linear_recurrence", _recurrence, (_recurrence_factors, _recurrence_terms, None))
RULES[searches.recurrence] = _recurrence_factors, _recurrence_terms


def _shrinking(largest: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """What sums of exp(x - level) shrink by where there is a larger element, and the level: the largest so far."""
    before = before_along(largest, dim)
    level = largest.where(largest.isfinite(), 0.0)
    return (before.where(before.isfinite(), 0.0) - level).exp().where(before != -math.inf, 0.0), level


def _logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Sums of exp(input - the largest so far), which shrink where there is a larger one."""
    if input.ndim == 0:
        return emit(elementwise.cast, input, dtype=input.dtype)
    x = as_dtype(input, dtypes.float64)
    largest = emit(indexing.gather, x, emit(searches.running, x, dim=dim, largest=True), dim=dim)
    factors, level = _shrinking(largest, dim)
    sums = emit(searches.recurrence, factors, (x - level).exp(), dim=dim)
    return as_dtype(sums.log() + level, input.dtype)


def _logcumsumexp_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """Sums of g * exp(input - out) over all later places; out only grows, so no exponential does."""
    if not g.ndim:
        return g
    sums, x = out.double(), input.double()
    level = sums.where(sums != -math.inf, 0.0)  # then all elements so far are -inf, whose slopes are 0
    factors = (_before_op.call(level, dim) - level).exp()
    total = linear_recurrence.call(_later(factors, dim), g.double().flip(dim), dim).flip(dim)
    return (total * (x - level).exp()).to(g.dtype)


_logcumsumexp_op = Op("logcumsumexp", _logcumsumexp, (_logcumsumexp_rule, None))


def _parts(input: Tensor) -> tuple[Tensor, Tensor]:
    return as_dtype(emit(complexes.real, input), dtypes.float64), as_dtype(emit(complexes.imag, input), dtypes.float64)


def _turns(angle: Tensor) -> Tensor:
    """How many times an angle goes round."""
    return (angle / (2.0 * math.pi)).round()


def _complex_logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """As of real numbers, in parts. Angles are not reduced: each is near that of the larger of what it is made of."""
    if input.ndim == 0:
        return emit(elementwise.cast, input, dtype=input.dtype)
    x, angle = _parts(input)
    found = emit(searches.running, x, dim=dim, largest=True)
    largest = emit(indexing.gather, x, found, dim=dim)
    factors, level = _shrinking(largest, dim)
    size = (x - level).exp()
    real, imag = (emit(searches.recurrence, factors, size * f, dim=dim) for f in (angle.cos(), angle.sin()))
    total, turned = (real * real + imag * imag).sqrt().log() + level, imag.atan2(real)
    begins = (place_along(x, dim) == 0).logical_or(x >= before_along(total, dim))
    near = angle.where(begins, before_along(turned, dim))
    same = as_dtype(begins.logical_not(), dtypes.float64)
    turns = emit(searches.recurrence, same, _turns(near - turned), dim=dim)
    at_largest = (largest == math.inf).logical_or(place_along(x, dim) == 0)
    total = largest.where(at_largest, total)
    turned = emit(indexing.gather, angle, found, dim=dim).where(at_largest, turned + turns * (2.0 * math.pi))
    unknown = emit(searches.running, x + angle * 0.0, dim=dim, largest=True)
    lost = (emit(indexing.gather, x + angle * 0.0, unknown, dim=dim) + turned).isnan()
    total, turned = (as_dtype(p.masked_fill(lost, math.nan), dtypes.REAL_OF[input.dtype]) for p in (total, turned))
    return emit(complexes.make_complex, total, turned)


def _complex_logcumsumexp_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """Sums of g times the conjugate of exp(input - out) over all later places."""
    if not g.ndim:
        return g
    level = input.real.double().cummax(dim).values
    level = level.where(level.isfinite(), 0.0)
    shrunk = (_before_op.call(level, dim) - level).exp()
    terms = g.to(dtypes.complex128) * (level - out).exp().conj()
    total = torch_complex(later_sums(shrunk, terms.real, dim), later_sums(shrunk, terms.imag, dim))
    return (total * (input - level).exp().conj()).to(g.dtype)


COMPLEX_FORMS["logcumsumexp"] = Op("complex_logcumsumexp", _complex_logcumsumexp, (_complex_logcumsumexp_rule, None))
COMPLEX_FORMS["logcumsumexp"].wirtinger = True


@public
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the sum of all exponentials up to each along a dimension."""
    if not input.dtype.is_differentiable:
        raise NotImplementedError(f'"logcumsumexp_out_cpu" not implemented for {input.dtype}')
    return _logcumsumexp_op.call(input, views.dimension(dim, input.ndim))
