"""Batches of two dimensions each, as inputs and as targets: they have as many elements, and share their loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as ej

Function = ej.nn.functional
WIDTH, CLASSES = 5, 7


def inputs(*sizes: int, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    x = ej.tensor(generator.normal(size=(*sizes[:2], WIDTH))).float()
    return x, ej.tensor(generator.integers(0, CLASSES, sizes[2:]))


def make() -> tuple[Any, Any]:
    head = ej.tensor(np.random.default_rng(3).normal(size=(CLASSES, WIDTH))).float().requires_grad_()

    def step(x: Any, targets: Any) -> Any:
        head.grad = None
        logits = Function.linear(x, head)
        loss = Function.cross_entropy(logits.reshape(-1, CLASSES), targets.reshape(-1))
        loss.backward()
        return loss, head.grad.clone()

    return step, ej.jit(step)


SIZES = [(2, 6, 2, 6), (3, 4, 3, 4), (3, 8, 3, 8), (2, 6, 3, 4), (6, 4, 2, 12), (1, 12, 12, 1)]


def test_numbers_are_the_eager_ones() -> None:
    plain, jitted = make()
    for sizes in SIZES:
        given = inputs(*sizes)
        for found, expected in zip(jitted(*given), plain(*given), strict=True):
            assert found._data.tobytes() == expected._data.tobytes()
    info = jitted.cache_info()
    assert info.eager_calls == 0 and info.compiles <= 3


def test_what_has_as_many_elements_shares_its_loops() -> None:
    _, jitted = make()
    given = inputs(*SIZES[1])
    jitted(*given)
    report = str(jitted.explain(*given))
    assert "other loops than [s0*s1, 7]" not in report and "s3*s4, 7" not in report
    assert "s0*s1 == s3*s4" in report or "s3*s4 == s0*s1" in report


def test_one_of_the_dimensions_may_be_known() -> None:
    """As that of learned positions is."""
    positions = ej.ones(6, WIDTH)

    def loss(x: Any, targets: Any) -> Any:
        x = (x + positions).requires_grad_()
        found = Function.cross_entropy(x.reshape(-1, WIDTH), targets.reshape(-1))
        return ej.autograd.grad(found, x)[0]

    jitted = ej.jit(loss)
    for sizes in ((2, 6, 2, 6), (4, 6, 4, 6), (4, 6, 3, 8)):
        x, targets = inputs(*sizes)
        targets = targets.clamp(max=WIDTH - 1)
        assert jitted(x, targets)._data.tobytes() == loss(x, targets)._data.tobytes()
    assert "s3*s4, 5" not in str(jitted.explain(x, targets)) and jitted.cache_info().compiles <= 2


def test_other_numbers_of_elements_are_the_eager_error() -> None:
    plain, jitted = make()
    jitted(*inputs(*SIZES[0]))
    for call in (plain, jitted):
        with pytest.raises(ValueError, match="batch_size"):
            call(*inputs(2, 6, 2, 5))


EQUATIONS = [
    ("lbd,l->bd", (3, 3, 16), (3,)),
    ("lbd,l->bd", (8, 8, 8), (8,)),
    ("bjm,bijm->bij", (2, 10, 16), (2, 1152, 10, 16)),
    ("bij,bijm->bjm", (2, 300, 10), (2, 300, 10, 16)),
]


@pytest.mark.parametrize(("equation", "left", "right"), EQUATIONS)
def test_gradients_of_vectors_times_matrices(equation: str, left: Any, right: Any) -> None:
    """BLAS adds in another order where a matrix lies in another one: what is a view in one call is one in the other."""
    generator = np.random.default_rng(1)
    given = [ej.tensor(generator.normal(size=sizes)).float().requires_grad_() for sizes in (left, right)]

    def step(x: Any, y: Any) -> Any:
        found = ej.einsum(equation, x, y)
        return found, *ej.autograd.grad(found.pow(2).mean(), (x, y))

    jitted = ej.jit(step)
    for found, expected in zip(jitted(*given), step(*given), strict=True):
        assert found._data.tobytes() == expected._data.tobytes()
    assert jitted.cache_info().eager_calls == 0


def test_views_of_memory_remain_views() -> None:
    """Where two products of sizes are equal, the one is not written for the other in a view of what has the other's."""

    def step(x: Any, y: Any) -> Any:
        rows = x.permute(1, 2, 0).flatten(0, 1)
        return rows.mT @ y.reshape(-1, 1)

    generator = np.random.default_rng(1)
    x, y = (ej.tensor(generator.normal(size=sizes)).float() for sizes in ((3, 3, 16), (4, 12)))
    jitted = ej.jit(step)
    assert jitted(y=y, x=x)._data.tobytes() == step(x, y)._data.tobytes()
    assert "cast" not in str(jitted.explain(x, y))
