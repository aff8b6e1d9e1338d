"""What all transforms have in common."""

from __future__ import annotations

import weakref
from typing import Any

from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import user_line


class Transform:
    """A function y = t(x) with its inverse and log|dy/dx|.

    `domain` and `codomain` are the sets that x and y lie in; their `event_dim` says how many trailing dimensions make
    up one value. With `cache_size=1` the last x and y are kept, so that `t.inv(t(x)) is x`.
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)
        self._inv: Any = None
        super().__init__()  # of what a class is derived from besides, a Module

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_inv": None}

    @property
    def event_dim(self) -> int:
        """How many trailing dimensions make up one value, of x and of y. Raises ValueError if these differ."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        recorded = state.tracer is not None  # a version would keep it alive
        made = None if self._inv is None or recorded else self._inv()
        if made is None:
            made = self._inverted()
            self._inv = self._inv if recorded else weakref.ref(made)
            made._inv = weakref.ref(self) if made._inv is None else made._inv
        return made

    def _inverted(self) -> Transform:
        """The inverse transform, made anew."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 if y rises with x, -1 if it falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(type(self))

    def _refuse_in_trace(self) -> None:
        """End a recording that would find, and leave, other values here than the next call."""
        journal = getattr(state.tracer, "journal", None)
        if journal is not None and journal.is_outside(self):
            journal.save(self, "_cached_x_y", "attribute")
            journal.refuse("a transform keeps its last values for its inverse", user_line())

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if self._cache_size == 0:
            return self._call(x)
        self._refuse_in_trace()
        known, y = self._cached_x_y
        if x is not known:
            y = self._call(x)
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """x of y."""
        if self._cache_size == 0:
            return self._inverse(y)
        self._refuse_in_trace()
        x, known = self._cached_x_y
        if y is not known:
            x = self._inverse(y)
            self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log|dy/dx|."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for x of a shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for y of a shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SameByType(Transform):
    """Transforms without parameters: all of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = Transform.__hash__


class _InverseTransform(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform):
        super().__init__(transform._cache_size)
        self._inv: Any = transform

    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)  # type: ignore[assignment]
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"
