"""Elements scattered along a dimension with others behind it: tasks take ranges of those, and change no bit."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch

CASES = [
    ((5,), (9,), 0), ((7, 300), (4, 200), 0), ((3, 7, 130), (3, 9, 130), 1), ((3, 7, 130), (2, 9, 100), 1),
    ((3, 7, 130), (3, 1, 130), 1), ((2, 4, 5, 66), (2, 9, 4, 65), 1), ((3, 4, 5), (3, 4, 8), 2),
    ((1, 4, 70), (1, 6, 70), 1), ((4, 1, 70), (9, 1, 70), 0), ((4, 0), (3, 0), 0), ((4, 5), (0, 5), 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("shape", "given", "dim"), CASES, ids=str)
def test_every_range_adds_its_own_in_order(shape, given, dim, dtype):
    rng = np.random.default_rng(0)
    base, source = ((rng.standard_normal(s) * 99).astype(dtype) for s in (shape, given))
    index = rng.integers(0, shape[dim], given)
    places = list(np.indices(given))
    places[dim] = index
    expected = base.copy()
    np.add.at(expected, tuple(places), source)
    arguments = [torch.from_numpy(a) for a in (base, index, source)]

    def work(x, i, y):
        return x.scatter_add(dim, i, y), x.scatter(dim, i, y)

    added, written = work(*arguments)
    assert added.numpy().tobytes() == expected.tobytes()
    for place in np.ndindex(given):
        expected[(*place[:dim], index[place], *place[dim + 1 :])] = source[place]
    changed = np.isin(written.numpy(), source)
    assert (written.numpy()[changed] == expected[changed]).all()
    for mine, other in zip(torch.jit(work)(*arguments), (added, written), strict=True):
        assert mine.numpy().tobytes() == other.numpy().tobytes()


def test_tasks_are_ranges():
    shape = (4, 640)
    x, index = torch.ones(shape), torch.zeros(shape, dtype=torch.int64)
    program = torch.jit(lambda x, i: x.scatter_add(0, i, x)).explain(x, index)
    (kernel,) = [k.kernel for k in program.kernels if k.name.endswith(".1")]
    (tasks,) = [s for s in kernel.body if getattr(s, "kind", "") == "tasks"]
    loops = [s for s in tasks.body if getattr(s, "kind", "") == "serial"]
    assert [s.kind for s in loops[0].body if hasattr(s, "kind")] == ["serial"]  # entries, and what lies beside each


@pytest.mark.parametrize("bad", [-1, 4])
def test_indices_out_of_range_are_refused(bad):
    x, index = torch.ones(4, 130), torch.zeros(2, 130, dtype=torch.int64)
    index[1, 129] = bad
    for call in (lambda: x.scatter_add(0, index, x), lambda: torch.jit(lambda a, i: a.scatter_add(0, i, a))(x, index)):
        with pytest.raises(RuntimeError, match="out of range"):
            call()
