"""Random programs under transforms: vmap against a loop, forward against reverse mode, compiled against eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.func import jvp, vjp, vmap
from tests.property.programs import ERRORS, SIZES, Generator, arguments, bits, tensors_of

SIZE = 3


def program(seed: int) -> tuple[Callable[..., Any], list[Any]] | None:
    """A random function of float64 tensors that leaves them alone, with arguments; None if it has no such form."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        generator = Generator(seed, values=False)
    if any(text in generator.source for text in (".backward(", "float16", "float32")):
        return None
    generator.dtypes, generator.grads = ["float64"] * len(generator.dtypes), [False] * len(generator.grads)
    numbers = [*generator.floats.values(), *generator.integers.values()]
    function, given = generator.function(), arguments(generator, SIZES[0], 0)

    def real(*tensors: Any) -> tuple[Any, ...]:
        found = tensors_of(function(*(t.clone() for t in tensors), *numbers))
        return tuple(t.double() for t in found if t.dtype.is_floating_point) or (tensors[0] * 1,)

    try:
        real(*given)
    except ERRORS:
        return None
    return real, given


PROGRAMS = {seed: found for seed in range(40) if (found := program(seed)) is not None}


def like(tensors: list[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [torch.tensor(random.standard_normal(tuple(t.shape))) for t in tensors]


def assert_close(actual: Any, expected: Any) -> None:
    """Equal up to rounding in proportion to the largest element; infinities and NaN are in the same places."""
    a, e = actual.numpy(), expected.numpy()
    assert a.shape == e.shape
    finite = np.isfinite(e)
    assert (np.isfinite(a) == finite).all()
    scale = max(np.abs(e[finite]).max(initial=0.0), 1.0)
    np.testing.assert_allclose(a[finite], e[finite], rtol=1e-7, atol=1e-7 * scale)


@pytest.mark.parametrize("seed", PROGRAMS)
def test_a_batch_is_a_loop(seed: int):
    function, given = PROGRAMS[seed]
    examples = [given, *(like(given, seed * 10 + i) for i in range(1, SIZE))]
    stacked = [torch.stack(list(column)) for column in zip(*examples, strict=True)]
    found = vmap(function)(*stacked)
    for i, example in enumerate(examples):
        for batch, alone in zip(found, function(*example), strict=True):
            assert_close(batch[i], alone)
    for actual, compiled in zip(found, torch.jit(vmap(function), fullgraph=True)(*stacked), strict=True):
        assert bits(actual) == bits(compiled)


@pytest.mark.parametrize("seed", PROGRAMS)
def test_both_modes_agree(seed: int):
    function, given = PROGRAMS[seed]
    tangents = like(given, seed)

    def forward(*values: Any) -> Any:
        return jvp(function, values[: len(given)], values[len(given) :])

    try:
        out, pushed = forward(*given, *tangents)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return  # the program overwrites what its derivative needs
    _, pull = vjp(function, *given)
    cotangents = tuple(like(list(out), seed + 1))
    pulled = pull(cotangents)
    left = sum(float((u * t).sum()) for u, t in zip(cotangents, pushed, strict=True))
    right = sum(float((g * t).sum()) for g, t in zip(pulled, tangents, strict=True))
    if np.isfinite(left) and np.isfinite(right):
        assert left == pytest.approx(right, rel=1e-7, abs=1e-7)
    again = torch.jit(forward, fullgraph=True)(*given, *tangents)
    for actual, compiled in zip((*out, *pushed), (*again[0], *again[1]), strict=True):
        assert bits(actual) == bits(compiled)
