"""Which transform leads from unconstrained real numbers to a set: `biject_to` one-to-one, `transform_to` any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.distributions import constraints, transforms
from eagerjit.distributions.constraints import Constraint
from eagerjit.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Transforms by the classes of constraints."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Transform] | None = None) -> Any:
        """Note the function that gives a transform for constraints of a class, or of a constraint's; a decorator
        without `factory`. Raises TypeError for what is no constraint."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform to a constraint. Raises NotImplementedError where there is none."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Any], Any]:
    """Mark a function as what gives both the bijection and the transform for constraints."""

    def mark(factory: Any) -> Any:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return mark


@_both(constraints.real)
def _real(constraint: Any) -> Transform:
    return transforms.identity_transform


@_both(constraints.greater_than, constraints.greater_than_eq)
def _positive(constraint: Any) -> Transform:
    steps = [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    return transforms.ComposeTransform(steps)


@_both(constraints.less_than)
def _less(constraint: Any) -> Transform:
    steps = [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    return transforms.ComposeTransform(steps)


@_both(constraints.interval, constraints.half_open_interval)
def _interval(constraint: Any) -> Transform:
    lower, upper = constraint.lower_bound, constraint.upper_bound
    if type(lower) in (int, float) and type(upper) in (int, float) and (lower, upper) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(lower, upper - lower)]
    )


@biject_to.register(constraints.simplex)
def _sticks(constraint: Any) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _softmax(constraint: Any) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _cholesky(constraint: Any) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
def _positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@transform_to.register(constraints.positive_semidefinite)
def _positive_semidefinite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _correlation(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()


def _of_parts(registry: ConstraintRegistry) -> None:
    """Sets made of others, by the registry's own transforms of these."""

    @registry.register(constraints.independent)
    def _independent(constraint: Any) -> Transform:
        inner = registry(constraint.base_constraint)
        return transforms.IndependentTransform(inner, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def _cat(constraint: Any) -> Transform:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _stack(constraint: Any) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_of_parts(biject_to)
_of_parts(transform_to)
