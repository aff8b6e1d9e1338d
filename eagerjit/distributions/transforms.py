"""Transforms: invertible functions that know how they change densities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import broadcast_all, precision, smallest, sum_rightmost
from eagerjit.ops.activation import softplus
from eagerjit.tensor import Tensor


class Transform:
    """A function y = t(x) with its inverse and log|dy/dx|. `event_dim`: over how many trailing dimensions it works."""

    bijective = True
    sign: Any = 1
    domain: Any = constraints.real
    codomain: Any = constraints.real
    event_dim = 0

    def __init__(self, cache_size: int = 0):
        self._cache_size = cache_size

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        return _Inverse(self)

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        return self._call(x)

    def inverse(self, y: Tensor) -> Tensor:
        """x of y."""
        return self._inverse(y)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log|dy/dx|."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and not self._own() and not other._own())  # type: ignore[attr-defined]

    def _own(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_cache_size"}

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform):
        super().__init__()
        self.transform = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.event_dim, self.bijective, self.sign = transform.event_dim, transform.bijective, transform.sign

    @property
    def inv(self) -> Transform:
        return self.transform

    def _call(self, x: Tensor) -> Tensor:
        return self.transform._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.transform._call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.transform.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"{self.transform!r}.inv"


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max([0, *(p.event_dim for p in self.parts)])
        self.bijective = all(p.bijective for p in self.parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

    @property
    def sign(self) -> Any:  # type: ignore[override]
        """Whether it rises or falls."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        total: Any = 0
        for part in self.parts:
            after = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, after), self.event_dim - part.event_dim)
            x = after
        return total

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


class ExpTransform(Transform):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x ** exponent, of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid().clamp(smallest(x.dtype), 1.0 - precision(x.dtype))

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(smallest(y.dtype), 1.0 - precision(y.dtype))
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus.call(-x) - softplus.call(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus.call(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus.call(-x)


class TanhTransform(Transform):
    """tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus.call(-2.0 * x))


class AbsTransform(Transform):
    """|x|."""

    bijective = False
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def sign(self) -> Any:  # type: ignore[override]
        """Whether it rises or falls."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((a == b).all()) if isinstance(a == b, Tensor) else a == b for a, b in pairs)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            result = self.scale.abs().log().expand((x * self.scale).shape)
        else:
            result = x.new_full(x.shape, math.log(abs(self.scale)))
        return sum_rightmost(result, self.event_dim)


class SoftmaxTransform(Transform):
    """exp(x) normalised to sum to 1; logarithms are one of many inverses."""

    bijective = False
    domain, codomain = constraints.real_vector, constraints.simplex
    event_dim = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


identity_transform = ComposeTransform([])
