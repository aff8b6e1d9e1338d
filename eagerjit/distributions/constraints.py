"""Constraints: sets that parameters and samples have to lie in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.tensors.conversion import passes
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values. `event_dim` trailing dimensions make up one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether values lie in the set, as a tensor without the event dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        kind = self.is_discrete if is_discrete is None else is_discrete
        return _Dependent(is_discrete=kind, event_dim=self.event_dim if event_dim is None else event_dim)


class _DependentProperty(property, _Dependent):  # type: ignore[misc]
    """A property whose value is the set; asked of the class it is a dependent set."""

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0):
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a set depends on other parameters."""
    return isinstance(constraint, _Dependent)


# -- bounds -----------------------------------------------------------------------------------------------------------


class _Bounded(Constraint):
    """Numbers between bounds, of which there are one or two."""

    names: tuple[str, ...] = ("lower_bound", "upper_bound")
    lower_bound: Any
    upper_bound: Any

    def __init__(self, *bounds: Any, **named: Any):
        given = dict(zip(self.names, bounds, strict=False)) | named
        if given.keys() != set(self.names) or len(bounds) + len(named) != len(self.names):
            raise TypeError(f"{type(self).__name__.lstrip('_')}() takes the arguments {', '.join(self.names)}")
        self.__dict__.update(given)

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={self.__dict__[name]}" for name in self.names)
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Interval(_Bounded):
    """Numbers from lower to upper."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """Numbers from lower to less than upper."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Bounded):
    """Integers from lower to upper."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _GreaterThan(_Bounded):
    """Numbers greater than a bound."""

    names = ("lower_bound",)

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    """Numbers from a bound on."""

    names = ("lower_bound",)

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    """Numbers less than a bound."""

    names = ("upper_bound",)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _IntegerGreaterThan(_Bounded):
    """Integers from a bound on."""

    names = ("lower_bound",)
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Multinomial(_Bounded):
    """Counts that sum to at most a bound."""

    names = ("upper_bound",)
    is_discrete = True
    event_dim = 1
    __repr__ = Constraint.__repr__

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# -- sets given by a question -----------------------------------------------------------------------------------------


def _set(name: str, test: Callable[[Tensor], Tensor], event_dim: int = 0, is_discrete: bool = False) -> Any:
    """The only element of a class of its own, by which bijections are registered."""
    check = staticmethod(test)
    doc = {"__doc__": f"{name}: see `constraints`.", "__module__": __name__}
    kind = type(f"_{name}", (Constraint,), {"check": check, "event_dim": event_dim, "is_discrete": is_discrete} | doc)
    globals()[kind.__name__] = kind  # where pickle looks for it
    return kind()


def _is_triangular(value: Tensor) -> Tensor:
    return (value.tril() == value).flatten(-2).all(-1)


def _is_cholesky(value: Tensor) -> Tensor:
    return _is_triangular(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _is_correlation_cholesky(value: Tensor) -> Tensor:
    from eagerjit.tensors.limits import finfo

    tolerance = finfo(value.dtype).eps * int(value.shape[-1]) * 10
    rows = (value.detach().square().sum(-1).sqrt() - 1).abs() <= tolerance
    return rows.all(-1) & _is_cholesky(value)


def _is_square(value: Tensor) -> Tensor:
    return value.new_full(value.shape[:-2], value.shape[-2] == value.shape[-1]).bool()


def _is_symmetric(value: Tensor) -> Tensor:
    if value.shape[-2] != value.shape[-1]:
        return _is_square(value)
    return ((value - value.mT).abs() <= 1e-5 * value.mT.abs() + 1e-6).flatten(-2).all(-1)


def _smallest_eigenvalue(value: Tensor) -> Tensor:
    from eagerjit import linalg

    return linalg.eigvalsh(value)[..., 0]


def _is_positive_definite(value: Tensor) -> Tensor:
    symmetric = _is_symmetric(value)
    return symmetric & (_smallest_eigenvalue(value) > 0) if passes(symmetric.all()) else symmetric


def _is_positive_semidefinite(value: Tensor) -> Tensor:
    symmetric = _is_symmetric(value)
    return symmetric & (_smallest_eigenvalue(value) >= 0) if passes(symmetric.all()) else symmetric


boolean = _set("Boolean", lambda value: (value == 0) | (value == 1), is_discrete=True)
one_hot = _set("OneHot", lambda v: ((v == 0) | (v == 1)).all(-1) & (v.sum(-1) == 1), 1, is_discrete=True)
real = _set("Real", lambda value: value == value)
simplex = _set("Simplex", lambda v: (v >= 0).all(-1) & ((v.sum(-1) - 1).abs() < 1e-6), 1)
lower_triangular = _set("LowerTriangular", _is_triangular, 2)
lower_cholesky = _set("LowerCholesky", _is_cholesky, 2)
corr_cholesky = _set("CorrCholesky", _is_correlation_cholesky, 2)
square = _set("Square", _is_square, 2)
symmetric = _set("Symmetric", _is_symmetric, 2)
positive_semidefinite = _set("PositiveSemidefinite", _is_positive_semidefinite, 2)
positive_definite = _set("PositiveDefinite", _is_positive_definite, 2)


# -- sets made of others ----------------------------------------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """A set of values whose trailing dimensions all lie in another set."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        for _ in range(self.reinterpreted_batch_ndims):
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that lie in a set for every component of a mixture."""

    def __init__(self, base_constraint: Constraint):
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)  # type: ignore[assignment]
    event_dim = property(lambda self: self.base_constraint.event_dim)  # type: ignore[assignment]

    def check(self, value: Tensor) -> Tensor:
        each = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return each.flatten(-1).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Joined(Constraint):
    """Values side by side along a dimension, each in a set of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0):
        self.cseq, self.dim = list(cseq), dim
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise TypeError(f"{type(self).__name__.lstrip('_')}() takes Constraints, not {self.cseq}")
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)

    def _parts(self, value: Tensor) -> Any:
        raise NotImplementedError

    def _checks(self, value: Tensor) -> list[Tensor]:
        return [c.check(part) for c, part in zip(self.cseq, self._parts(value), strict=True)]


class _Cat(_Joined):
    """Parts of these lengths along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def _parts(self, value: Tensor) -> Any:
        return value.split(self.lengths, self.dim)

    def check(self, value: Tensor) -> Tensor:
        from eagerjit.ops.index import cat as joined

        return joined.call(self._checks(value), self.dim)


class _Stack(_Joined):
    """The slices of a dimension."""

    def _parts(self, value: Tensor) -> Any:
        return value.unbind(self.dim)

    def check(self, value: Tensor) -> Tensor:
        from eagerjit.ops.index import stack as stacked

        return stacked(self._checks(value), self.dim)


independent, multinomial, cat, stack = _IndependentConstraint, _Multinomial, _Cat, _Stack
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
dependent, dependent_property = _Dependent(), _DependentProperty
real_vector = independent(real, 1)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
positive, nonnegative, unit_interval = greater_than(0.0), greater_than_eq(0.0), interval(0.0, 1.0)
