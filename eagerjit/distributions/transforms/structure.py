"""Transforms that change shapes, or apply others to parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import sum_rightmost
from eagerjit.distributions.transforms.transform import Transform
from eagerjit.ops.index import cat, stack
from eagerjit.tensors.tensor import Tensor


class IndependentTransform(Transform):
    """A transform whose last batch dimensions are taken as event dimensions."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)  # type: ignore[assignment]
    sign = property(lambda self: self.base_transform.sign)
    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(
        lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)
    )

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The trailing dimensions in another shape."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(tuple(x.shape[: x.ndim - len(self.in_shape)]) + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(tuple(y.shape[: y.ndim - len(self.out_shape)]) + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(tuple(x.shape[: x.ndim - len(self.in_shape)]))

    def forward_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
    if len(shape) < len(before):
        raise ValueError("Too few dimensions on input")
    first = len(shape) - len(before)
    if tuple(shape[first:]) != before:
        raise ValueError(f"Shape mismatch: expected {tuple(shape[first:])} but got {before}")
    return (*shape[:first], *after)


class _Parted(Transform):
    """Transforms of parts of a tensor along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0):
        if not all(isinstance(t, Transform) for t in tseq):
            raise TypeError(f"{type(self).__name__}() takes Transforms, not {tseq}")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))  # type: ignore[assignment]

    def _parts(self, x: Tensor) -> Any:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)])


class CatTransform(_Parted):
    """Transforms of parts of these lengths along a dimension."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform() has {len(self.transforms)} transforms, but {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:
        """The most that any part needs."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of the dimension."""
        return sum(self.lengths)

    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> Any:
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return cat.call(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        logs = [sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.domain.event_dim) for t, a, b in triples]
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return cat.call(logs, dim)
        total: Any = 0
        for one in logs:
            total = total + one
        return total


class StackTransform(_Parted):
    """Transforms of the slices of a dimension."""

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Tensor) -> Any:
        return x.unbind(self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return stack([t.log_abs_det_jacobian(a, b) for t, a, b in triples], self.dim)
