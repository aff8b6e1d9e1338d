"""Transforms, constraints and what leads from the one to the other, against PyTorch's."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import same

import eagerjit as ej

LIBRARIES = (ej, torch)
Make = Callable[..., Any]

TRANSFORMS: dict[str, tuple[Make, list[float]]] = {
    "exp": (lambda t, m: m.ExpTransform(), [-1.0, 0.5]),
    "sigmoid": (lambda t, m: m.SigmoidTransform(), [-1.0, 0.5]),
    "tanh": (lambda t, m: m.TanhTransform(), [-1.0, 0.5]),
    "softplus": (lambda t, m: m.SoftplusTransform(), [-1.0, 0.5]),
    "affine": (lambda t, m: m.AffineTransform(t.tensor([1.0, 2.0]), -0.5), [-1.0, 0.5]),
    "affine event": (lambda t, m: m.AffineTransform(1.0, t.tensor([2.0, 3.0]), event_dim=1), [-1.0, 0.5]),
    "power": (lambda t, m: m.PowerTransform(t.tensor(2.5)), [0.3, 2.0]),
    "composed": (lambda t, m: m.ComposeTransform([m.AffineTransform(1.0, 2.0), m.ExpTransform()]), [-1.0, 0.5]),
    "inverse": (lambda t, m: m.ExpTransform().inv, [1.0, 0.5]),
    "abs": (lambda t, m: m.AbsTransform(), [-1.0, 0.5]),
    "softmax": (lambda t, m: m.SoftmaxTransform(), [-1.0, 0.5]),
    "stick breaking": (lambda t, m: m.StickBreakingTransform(), [-1.0, 0.5, 0.2]),
    "correlation": (lambda t, m: m.CorrCholeskyTransform(), [[-1.0, 0.5, 0.2], [0.3, 0.1, -2.0]]),
    "lower cholesky": (lambda t, m: m.LowerCholeskyTransform(), [[-1.0, 0.5], [0.2, 1.0]]),
    "positive definite": (lambda t, m: m.PositiveDefiniteTransform(), [[-1.0, 0.5], [0.2, 1.0]]),
    "cumulative": (lambda t, m: m.CumulativeDistributionTransform(t.distributions.Normal(0.5, 2.0)), [-1.0, 0.5]),
    "independent": (lambda t, m: m.IndependentTransform(m.ExpTransform(), 1), [[-1.0, 0.5], [0.2, 1.0]]),
    "reshape": (lambda t, m: m.ReshapeTransform((4,), (2, 2)), [[-1.0, 0.5, 0.2, 1.0]]),
    "cat": (
        lambda t, m: m.CatTransform([m.ExpTransform(), m.AffineTransform(1.0, 2.0)], -1, [1, 2]), [[-1.0, 0.5, 0.2]],
    ),
    "stack": (lambda t, m: m.StackTransform([m.ExpTransform(), m.TanhTransform()], 1), [[-1.0, 0.5], [0.2, 1.0]]),
    "composed of vectors": (
        lambda t, m: m.ComposeTransform([m.AffineTransform(0.0, 2.0), m.StickBreakingTransform()]), [-1.0, 0.5],
    ),
    "cached": (lambda t, m: m.TanhTransform(cache_size=1), [-1.0, 12.0]),
    "composed inverse": (
        lambda t, m: m.ComposeTransform([m.AffineTransform(1.0, 2.0), m.TanhTransform()]).inv, [0.1, 0.5],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    make, values = TRANSFORMS[name]
    outcomes = []
    for library in LIBRARIES:
        transform, x = make(library, library.distributions.transforms), library.tensor(values)
        y = transform(x)
        try:
            log: Any = transform.log_abs_det_jacobian(x, y)
        except NotImplementedError:
            log = NotImplementedError
        shapes = tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape))
        events = transform.domain.event_dim, transform.codomain.event_dim, transform.domain.is_discrete
        signs = transform.sign if name in ("exp", "affine", "composed", "inverse", "cumulative") else None
        outcomes.append([y, transform.inv(y), log, shapes, events, transform.bijective, signs, repr(transform)])
    same(*outcomes, 1e-5)


WRONG_TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "cache": lambda t, m: m.ExpTransform(cache_size=2),
    "reshape": lambda t, m: m.ReshapeTransform((3,), (2, 2)),
    "reshape of another shape": lambda t, m: m.ReshapeTransform((4,), (2, 2)).forward_shape((3,)),
    "square": lambda t, m: m.CorrCholeskyTransform().inverse_shape((2, 3)),
    "flattened": lambda t, m: m.CorrCholeskyTransform().forward_shape((5,)),
    "sign": lambda t, m: m.AbsTransform().sign,
    "few dimensions": lambda t, m: m.StickBreakingTransform().forward_shape(()),
    "event dimensions": lambda t, m: m.ReshapeTransform((4,), (2, 2)).event_dim,
    "no bijection": lambda t, m: t.distributions.biject_to(t.distributions.constraints.positive_definite),
    "no constraint": lambda t, m: t.distributions.transform_to.register(3, m.ExpTransform),
}


@pytest.mark.parametrize("name", WRONG_TRANSFORMS)
def test_wrong_transforms(name: str) -> None:
    outcomes = []
    for library in LIBRARIES:
        with pytest.raises(Exception) as caught:
            WRONG_TRANSFORMS[name](library, library.distributions.transforms)
        outcomes.append(caught.type)
    assert outcomes[0] is outcomes[1]


def test_cached_transforms_give_back_what_they_were_given() -> None:
    transform, x = ej.distributions.TanhTransform(cache_size=1), ej.tensor([20.0])
    assert transform.inv(transform(x)) is x and transform.with_cache(1) is transform
    assert ej.distributions.TanhTransform().inv(ej.distributions.TanhTransform()(x)) is not x


SETS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda t, c, name=name: getattr(c, name)
        for name in ("real", "real_vector", "positive", "nonnegative", "unit_interval", "simplex", "lower_cholesky",
                     "corr_cholesky", "positive_definite", "positive_semidefinite")
    },
    "less_than": lambda t, c: c.less_than(3.0),
    "greater_than": lambda t, c: c.greater_than(t.tensor([1.0, 2.0, 0.0])),
    "interval": lambda t, c: c.interval(-1.0, 3.0),
    "half_open_interval": lambda t, c: c.half_open_interval(0.0, 3.0),
    "independent": lambda t, c: c.independent(c.positive, 1),
    "cat": lambda t, c: c.cat([c.positive, c.real], 0, [1, 2]),
    "stack": lambda t, c: c.stack([c.positive, c.real, c.unit_interval], 0),
}  # fmt: skip


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", SETS)
def test_transforms_to_constraints(name: str, registry: str) -> None:
    outcomes = []
    for library in LIBRARIES:
        constraint = SETS[name](library, library.distributions.constraints)
        x = library.tensor([[0.3, -1.0, 0.4], [1.0, 0.2, 0.5], [2.0, 0.0, -0.7]], dtype=library.float64)
        try:
            transform = getattr(library.distributions, registry)(constraint)
        except NotImplementedError as error:
            outcomes.append([type(error)])
            continue
        y = transform(x if name != "corr_cholesky" else x[0])
        outcomes.append([y, transform.inv(y), constraint.check(y), repr(constraint), constraint.event_dim])
        assert bool(constraint.check(y).all())
    same(*outcomes, 1e-9)


CHECKED: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda t, c: c.square.check(t.ones(2, 3, 3)),
    "not square": lambda t, c: c.symmetric.check(t.ones(2, 3, 2)),
    "symmetric": lambda t, c: c.symmetric.check(t.tensor([[1.0, 2.0], [2.0, 1.0]])),
    "indefinite": lambda t, c: c.positive_semidefinite.check(t.tensor([[1.0, 2.0], [2.0, 1.0]])),
    "semidefinite": lambda t, c: c.positive_semidefinite.check(t.tensor([[1.0, 0.0], [0.0, 0.0]])),
    "definite": lambda t, c: c.positive_definite.check(t.tensor([[1.0, 0.0], [0.0, 0.0]])),
    "multinomial": lambda t, c: c.multinomial(3).check(t.tensor([[1.0, 2.0], [2.0, 2.0]])),
    "integers": lambda t, c: c.integer_interval(0, 3).check(t.tensor([1.0, 2.5, 4.0])),
    "positive integers": lambda t, c: c.positive_integer.check(t.tensor([1.0, 2.5, 0.0])),
    "nan": lambda t, c: c.real.check(t.tensor([1.0, float("nan")])),
    "one hot": lambda t, c: c.one_hot.check(t.tensor([[1.0, 0.0], [1.0, 1.0]])),
    "mixture": lambda t, c: c.MixtureSameFamilyConstraint(c.positive).check(t.tensor([1.0, -1.0])),
    "dependent": lambda t, c: c.is_dependent(c.dependent) and not c.is_dependent(c.real),
    "dependent check": lambda t, c: c.dependent.check(t.ones(2)),
    "property": lambda t, c: [c.is_dependent(s := t.distributions.Uniform.support), s.event_dim, s.is_discrete],
    "names": lambda t, c: [repr(x) for x in (c.boolean, c.dependent, c.independent(c.real, 2), c.less_than(2.0))],
    "pickled": lambda t, c: [repr(pickle.loads(pickle.dumps(x))) for x in (c.real, c.positive, c.simplex)],
}


@pytest.mark.parametrize("name", CHECKED)
def test_constraints(name: str) -> None:
    outcomes = []
    for library in LIBRARIES:
        try:
            outcomes.append([CHECKED[name](library, library.distributions.constraints)])
        except Exception as error:
            outcomes.append([type(error)])
    same(*outcomes)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("cache_size", [0, 1])
def test_a_transform_that_is_a_module(library: Any, cache_size: int) -> None:
    d, nn = library.distributions, library.nn

    class Stretched(d.Transform, nn.Module):  # type: ignore[misc]
        domain = codomain = d.constraints.real
        bijective = True

        def __init__(self) -> None:
            super().__init__(cache_size=cache_size)
            self.scale = nn.Parameter(library.tensor([2.0, 4.0]))
            self.within = nn.Linear(2, 2)

        def __hash__(self) -> int:
            return nn.Module.__hash__(self)  # type: ignore[no-any-return]

        def _call(self, x: Any) -> Any:
            return x * self.scale

        def _inverse(self, y: Any) -> Any:
            return y / self.scale

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return self.scale.log().expand(x.shape)

    stretched = Stretched()
    whole = d.TransformedDistribution(d.Normal(library.zeros(2), 1.0), [stretched])
    whole.log_prob(library.tensor([2.0, 4.0])).sum().backward()
    assert stretched.scale.grad.tolist() == [0.0, 0.0]
    assert sorted(stretched.state_dict()) == ["scale", "within.bias", "within.weight"]
    assert stretched.inv(library.tensor([2.0, 4.0])).tolist() == [1.0, 1.0]
    assert not stretched.eval().within.training and repr(stretched) == "Stretched()"


def test_texts_of_sets() -> None:
    for make in (lambda c: c.multinomial(3), lambda c: c.integer_interval(0, 3), lambda c: c.simplex):
        assert repr(make(ej.distributions.constraints)) == repr(make(torch.distributions.constraints))
