"""Sobol' sequences: PyTorch's points bit for bit; scrambled ones from the same matrices, and evenly spread."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import eagerjit as ej
from eagerjit.quasirandom import scrambled


def same(ours: ej.Tensor, theirs: torch.Tensor) -> None:
    assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    assert ours.numpy().tobytes() == theirs.numpy().tobytes()


@pytest.mark.parametrize("dimension", [1, 2, 7, 1111, 1112, 21201])
def test_points(dimension: int) -> None:
    ours, theirs = (t.quasirandom.SobolEngine(dimension) for t in (ej, torch))
    same(ours.sobolstate, theirs.sobolstate)
    for n in (1, 1, 3, 8, 0):
        same(ours.draw(n), theirs.draw(n))
    same(ours.fast_forward(5).draw(4, dtype=ej.float64), theirs.fast_forward(5).draw(4, dtype=torch.float64))
    same(ours.quasi, theirs.quasi)
    same(ours.reset().draw(2), theirs.reset().draw(2))
    same(ours.reset().fast_forward(1).draw(2), theirs.reset().fast_forward(1).draw(2))
    assert ours.num_generated == theirs.num_generated


@pytest.mark.parametrize("skipped", [0, 1, 2, 2**20 + 3])
def test_beginnings(skipped: int) -> None:
    ours, theirs = (t.quasirandom.SobolEngine(3).fast_forward(skipped) for t in (ej, torch))
    same(ours.draw(5), theirs.draw(5))


def test_options() -> None:
    ours, theirs = (t.quasirandom.SobolEngine(4) for t in (ej, torch))
    same(ours.draw_base2(3, dtype=ej.float64), theirs.draw_base2(3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"n to be a power of 2\. 8 points"):
        ours.draw_base2(1)
    out = ej.empty(0)
    assert ours.draw(2, out=out) is out and out.shape == (2, 4)
    same(out, theirs.draw(2))
    for make in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        same(make(ours).draw(3), copy.deepcopy(theirs).draw(3))
    for arguments in ((3,), (3, True), (3, True, 5)):
        assert repr(ej.quasirandom.SobolEngine(*arguments)) == repr(torch.quasirandom.SobolEngine(*arguments))
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="Supported range of dimensionality"):
            ej.quasirandom.SobolEngine(dimension)


def test_scrambling() -> None:
    plain = torch.quasirandom.SobolEngine(5).sobolstate
    matrices = torch.randint(2, (5, 30, 30), generator=torch.Generator().manual_seed(3)).tril()
    ours = scrambled(plain.numpy(), matrices.numpy())
    np.testing.assert_array_equal(ours, torch._sobol_engine_scramble_(plain.clone(), matrices, 5).numpy())


def test_scrambled_points() -> None:
    first, again, other = (ej.quasirandom.SobolEngine(3, scramble=True, seed=s) for s in (1, 1, 2))
    points = first.draw(64)
    assert ej.equal(points, again.draw(64)) and not ej.equal(points, other.draw(64))
    for column in points.unbind(1):
        assert sorted((column * 64).long().tolist()) == list(range(64))
    before = ej.get_rng_state()
    ej.quasirandom.SobolEngine(3, scramble=True, seed=1)
    assert ej.equal(before, ej.get_rng_state())
    ej.manual_seed(0)
    assert not ej.equal(ej.quasirandom.SobolEngine(3, scramble=True).draw(4), again.draw(4))


def test_compiled_functions_draw_on() -> None:
    engine, plain = ej.quasirandom.SobolEngine(2), ej.quasirandom.SobolEngine(2)
    with pytest.warns(ej.jit.JitWarning):
        found = [ej.jit(lambda: engine.draw(2) * 2.0)() for _ in range(2)]
    for points in found:
        assert ej.equal(points, plain.draw(2) * 2.0)
