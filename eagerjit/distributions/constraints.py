"""Constraints: sets that parameters and samples have to lie in."""

from __future__ import annotations

from typing import Any

from eagerjit.tensor import Tensor


class Constraint:
    """A set of values. `event_dim` trailing dimensions make up one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether values lie in the set, as a tensor without the event dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_").removesuffix("_constraint") + "()"


class _Named(Constraint):
    """A set given by a function."""

    def __init__(self, name: str, check: Any, discrete: bool = False, event_dim: int = 0):
        self.name, self.test, self.is_discrete, self.event_dim = name, check, discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        return self.test(value)

    def __repr__(self) -> str:
        return self.name


class _Dependent(Constraint):
    """A set that depends on other parameters."""

    def __init__(self, is_discrete: bool = False, event_dim: int = 0):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")

    def __call__(self, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete, event_dim)


class _Bounds(Constraint):
    """Numbers between bounds; a bound of None is none."""

    def __init__(
        self, lower: Any = None, upper: Any = None, open_lower: bool = False, open_upper: bool = False,
        integers: bool = False,
    ):  # fmt: skip
        self.lower_bound, self.upper_bound = lower, upper
        self.open_lower, self.open_upper, self.is_discrete = open_lower, open_upper, integers

    def check(self, value: Tensor) -> Tensor:
        inside = value == value
        if self.lower_bound is not None:
            inside = inside & (value > self.lower_bound if self.open_lower else value >= self.lower_bound)
        if self.upper_bound is not None:
            inside = inside & (value < self.upper_bound if self.open_upper else value <= self.upper_bound)
        return inside & (value % 1 == 0) if self.is_discrete else inside

    def __repr__(self) -> str:
        bounds = [
            f"{k}={v}"
            for k, v in (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
            if v is not None
        ]
        kind = "IntegerInterval" if self.is_discrete else "Interval"
        if self.upper_bound is None:
            kind = "GreaterThan" if self.open_lower else "GreaterThanEq"
        elif self.lower_bound is None:
            kind = "LessThan" if self.open_upper else "LessThanEq"
        return f"{kind}({', '.join(bounds)})"


class independent(Constraint):
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


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from lower to upper."""
    return _Bounds(lower_bound, upper_bound)


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from lower to less than upper."""
    return _Bounds(lower_bound, upper_bound, open_upper=True)


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Integers from lower to upper."""
    return _Bounds(lower_bound, upper_bound, integers=True)


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers greater than a bound."""
    return _Bounds(lower_bound, open_lower=True)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers from a bound on."""
    return _Bounds(lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers less than a bound."""
    return _Bounds(None, upper_bound, open_upper=True)


def _is_simplex(value: Tensor) -> Tensor:
    return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


def _is_one_hot(value: Tensor) -> Tensor:
    return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


def _is_lower_cholesky(value: Tensor) -> Tensor:
    lower = (value.tril() == value).flatten(-2).all(-1)
    return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _is_symmetric(value: Tensor) -> Tensor:
    return ((value - value.mT).abs() <= 1e-6 * value.abs() + 1e-6).flatten(-2).all(-1)


def _is_positive_definite(value: Tensor) -> Tensor:
    from eagerjit import linalg

    return _is_symmetric(value) & (linalg.eigvalsh(value) > 0).all(-1)


boolean = _Named("Boolean()", lambda value: (value == 0) | (value == 1), discrete=True)
one_hot = _Named("OneHot()", _is_one_hot, discrete=True, event_dim=1)
real = _Named("Real()", lambda value: value == value)
real_vector = independent(real, 1)
simplex = _Named("Simplex()", _is_simplex, event_dim=1)
lower_cholesky = _Named("LowerCholesky()", _is_lower_cholesky, event_dim=2)
lower_triangular = _Named("LowerTriangular()", lambda v: (v.tril() == v).flatten(-2).all(-1), event_dim=2)
symmetric = _Named("Symmetric()", _is_symmetric, event_dim=2)
positive_definite = _Named("PositiveDefinite()", _is_positive_definite, event_dim=2)
nonnegative_integer = _Bounds(0, integers=True)
positive_integer = _Bounds(1, integers=True)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
dependent = _Dependent()
