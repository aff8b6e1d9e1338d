"""Transforms one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import sum_rightmost
from eagerjit.distributions.transforms.transform import Transform
from eagerjit.tensors.tensor import Tensor


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """That of the first part, over as many dimensions as any part needs."""
        if not self.parts:
            return constraints.real
        first, events = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            events = max(events + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return constraints.independent(first, events - first.event_dim) if events > first.event_dim else first

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        """That of the last part, over as many dimensions as any part needs."""
        if not self.parts:
            return constraints.real
        last, events = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            events = max(events + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return constraints.independent(last, events - last.event_dim) if events > last.event_dim else last

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        """1 if y rises with x, -1 if it falls."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _inverted(self) -> Transform:
        return ComposeTransform([p.inv for p in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        total: Any = 0
        events = self.domain.event_dim
        for index, part in enumerate(self.parts):
            after = y if index == len(self.parts) - 1 else part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, after), events - part.domain.event_dim)
            events += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(p) for p in self.parts)
        return f"ComposeTransform(\n    {inner}\n)"


identity_transform = ComposeTransform([])
