"""Values computed from positions alone: once where many elements read them, where they are read if that is cheap."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit

N = 40


def places(count: int, factor: float):
    """Eight operations on positions along one dimension."""
    at = ((eagerjit.arange(count) + 0.5) * factor - 0.5).clamp(min=0.0)
    return at.floor().long().clamp(max=N - 1)


def kernels_of(function, *arguments) -> list:
    jitted = eagerjit.jit(function)
    assert np.array_equal(jitted(*arguments).numpy(), function(*arguments).numpy())
    return [report.kernel for report in jitted.explain(*arguments).kernels]


def casts(kernel) -> int:
    return str(kernel).count("floor")


X = eagerjit.arange(6 * N).reshape(6, N).float()


def test_places_of_a_gather_are_computed_once() -> None:
    kernels = kernels_of(lambda x: x.gather(1, places(50, 0.8).expand(6, 50)), X)
    assert sorted(map(casts, kernels)) == [0, 1]


def test_weights_of_all_rows_are_computed_once() -> None:
    def weighted(x):
        at = (eagerjit.arange(N) + 0.5) * 0.3
        return x * (at - at.floor()).clamp(max=0.5)

    assert sorted(map(casts, kernels_of(weighted, X))) == [0, 1]


@pytest.mark.parametrize(
    "function",
    (
        lambda x: x * (eagerjit.arange(N) * 0.5).floor(),  # few operations
        lambda x: x + (places(6 * N, 0.9).reshape(6, N)).float(),  # as many values as are asked for
        lambda x: x * ((((x.new_zeros(()) + 0.5) * 2.0 - 0.25) * 1.5).floor() + 1.0).abs(),  # a number
    ),
)
def test_others_are_computed_where_they_are_read(function) -> None:
    assert len(kernels_of(function, X)) == 1


def test_a_table_that_is_a_result_is_computed_once() -> None:
    def both(x):
        at = places(50, 0.8)
        return x.gather(1, at.expand(6, 50)), at

    jitted = eagerjit.jit(both)
    for found, expected in zip(jitted(X), both(X), strict=True):
        assert np.array_equal(found.numpy(), expected.numpy())
    assert sum(casts(report.kernel) for report in jitted.explain(X).kernels) == 1


def test_sizes_that_vary_and_are_one_or_none() -> None:
    jitted = eagerjit.jit(lambda x, at: x.gather(1, places(at.shape[0], 0.8).expand(x.shape[0], at.shape[0])))
    for rows in (1, 2, 0):
        for count in (1, 2, 33, 0):
            x = X[:rows]
            wanted = places(count, 0.8).numpy()
            assert np.array_equal(jitted(x, eagerjit.zeros(count)).numpy(), x.numpy()[:, wanted])


def test_chains_of_any_length() -> None:
    """More operations than Python has frames."""

    def counted(x):
        at = eagerjit.arange(N)
        for _ in range(1500):
            at = at + 1
        return x + at

    assert np.array_equal(eagerjit.jit(counted)(X).numpy(), X.numpy() + np.arange(N) + 1500)


def test_a_part_of_a_concatenation_that_reads_nothing_has_no_kernel_of_its_own() -> None:
    def beside(x):
        return eagerjit.cat([x, eagerjit.arange(12.0).reshape(4, 3) * 2.0, eagerjit.ones_like(x)], 1)

    kernels = kernels_of(beside, eagerjit.arange(12.0).reshape(4, 3))
    assert kernels and all("cat" in kernel.name for kernel in kernels)
