"""Parts of a tensor written in place: what is not named is neither copied nor touched, errors change nothing at all."""

import numpy as np
import pytest
import torch

import eagerjit
from eagerjit.runtime.program import Op

RANDOM = np.random.default_rng(7)
BASE = RANDOM.normal(size=(6, 5)).astype(np.float32)
ROWS = RANDOM.normal(size=(3, 5)).astype(np.float32)
COLUMNS = RANDOM.normal(size=(6, 3)).astype(np.float32)
TWICE, ONCE = np.array([4, 0, 4]), np.array([1, 3, 0])
PLACES = np.array([[1, 3, 4], [0, 0, 0]])


def several(z, i, v):
    z.index_add_(0, i, v)
    z.index_add_(0, i, v)
    z.mul_(2.0)
    z.index_copy_(0, i[:1], v[:1])



WRITES = {
    "index_add_": (lambda z, i, v: z.index_add_(0, i, v), TWICE, ROWS),
    "index_add_ of columns": (lambda z, i, v: z.index_add_(1, i, v), TWICE, COLUMNS),
    "index_add_ with alpha": (lambda z, i, v: z.index_add_(0, i, v, alpha=0.5), TWICE, ROWS),
    "index_add_ of int32 places": (lambda z, i, v: z.index_add_(0, i, v), TWICE.astype(np.int32), ROWS),
    "index_add_ of nothing": (lambda z, i, v: z.index_add_(0, i[:0], v[:0]), TWICE, ROWS),
    "index_copy_": (lambda z, i, v: z.index_copy_(0, i, v), ONCE, ROWS),
    "index_copy_ of columns": (lambda z, i, v: z.index_copy_(-1, i, v), ONCE, COLUMNS),
    "index_fill_": (lambda z, i: z.index_fill_(0, i, 2.0), ONCE),
    "index_fill_ of columns": (lambda z, i: z.index_fill_(1, i, 2.0), ONCE),
    "scatter_": (lambda z, i, v: z.scatter_(1, i, v[:2, :3]), PLACES, ROWS),
    "scatter_ a number": (lambda z, i: z.scatter_(1, i, 2.0), PLACES),
    "scatter_ to rows": (lambda z, i, v: z.scatter_(0, i, v[:2, :3]), PLACES, ROWS),
    "scatter_ with reduce": (lambda z, i, v: z.scatter_(1, i, v[:2, :3], reduce="multiply"), PLACES, ROWS),
    "scatter_add_": (lambda z, i, v: z.scatter_add_(1, i, v[:2, :3]), PLACES, ROWS),
    "rows": (lambda z, i, v: z.__setitem__(i, v), np.array([-1, 3, 0]), ROWS),
    "rows of a number": (lambda z, i: z.__setitem__(i, 2.0), ONCE),
    "columns": (lambda z, i, v: z.__setitem__((slice(None), i), v), np.array([-1, 3, 0]), COLUMNS),
    "columns by a matrix of places": (lambda z, i: z.__setitem__((slice(None), i), 2.0), PLACES),
    "elements": (lambda z, i, v: z.__setitem__((i, i), v[0, :3]), ONCE, ROWS),
    "rows increased": (lambda z, i, v: z.__setitem__(i, z[i] + v), ONCE, ROWS),
    "index_put_ accumulating": (lambda z, i, v: z.index_put_((i,), v, accumulate=True), TWICE, ROWS),
    "index_put_ of pairs accumulating": (lambda z, i: z.index_put_((i, i), z.new_ones(3), accumulate=True), TWICE),
    "rows of a slice": (lambda z, i: z[1:].index_fill_(0, i, 2.0), ONCE),
    "rows of a transposed view": (lambda z, i: z.t().index_fill_(0, i, 2.0), ONCE),
    "every second column": (lambda z, i, v: z[:, ::2].index_add_(0, i, v[:, :3]), TWICE, ROWS),
    "several": (several, TWICE, ROWS),
}


def jitted(write):
    def call(*arguments):
        write(*arguments)

    return eagerjit.jit(call)


def tensors(t, arrays):
    return [t.tensor(array) for array in arrays]


@pytest.mark.parametrize("name", WRITES)
def test_as_torch(name):
    """Eagerly, and compiled on two calls."""
    write, *arrays = WRITES[name]
    expected, found = torch.tensor(BASE), eagerjit.tensor(BASE)
    write(expected, *tensors(torch, arrays))
    write(found, *tensors(eagerjit, arrays))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    compiled = jitted(write)
    for _ in range(2):
        other = eagerjit.tensor(BASE)
        compiled(other, *tensors(eagerjit, arrays))
        assert other.numpy().tobytes() == found.numpy().tobytes()


STRIDED = ("rows of a transposed view", "every second column", "rows of a slice")
IN_ONE = [n for n in WRITES if n not in (*STRIDED, "several", "rows increased", "columns by a matrix of places")]


@pytest.mark.parametrize("name", IN_ONE)
def test_nothing_else_is_copied(name):
    """No kernel copies the tensor: what runs before the change is made reads indices, and stores nothing."""
    write, *arrays = WRITES[name]
    report = jitted(write).explain(eagerjit.tensor(BASE), *tensors(eagerjit, arrays))
    assert Op.COPY not in {instruction[0] for instruction in report.program.instructions}
    before = [str(k.kernel) for k in report.kernels if k.name.endswith(".0")]
    assert len(before) == 1
    assert "check" in before[0] and "store" not in before[0]


@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "jitted"))
@pytest.mark.parametrize(
    "name", ("index_add_", "index_add_ of columns", "index_copy_", "index_fill_", "scatter_", "rows")
)
def test_an_index_out_of_range_changes_nothing(name, compiled):
    write, index, *rest = WRITES[name]
    call = jitted(write) if compiled else write
    index = index.copy()
    index[..., -1] = 9
    z = eagerjit.tensor(BASE)
    error = RuntimeError if name == "scatter_" else IndexError
    for _ in range(2):
        with pytest.raises(error, match="out of range"):
            call(z, *tensors(eagerjit, (index, *rest)))
        assert z.numpy().tobytes() == BASE.tobytes()


@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "jitted"))
def test_operands_in_the_memory_written(compiled):
    """What is written is read before: values and indices that lie in the target are those it had."""

    def from_itself(z):
        z.index_copy_(0, eagerjit.tensor([2, 1, 0]), z[1:4])

    def by_itself(n):
        n.index_fill_(0, n[:3], 7)

    for write, start, expected in (
        (from_itself, BASE, BASE[[3, 2, 1, 3, 4, 5]]),
        (by_itself, np.array([1, 3, 0, 5]), np.array([7, 7, 0, 7])),
    ):
        call = eagerjit.jit(write) if compiled else write
        for _ in range(2):
            z = eagerjit.tensor(start)
            call(z)
            assert z.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "name", ("index_add_", "index_copy_ of columns", "index_fill_ of columns", "scatter_", "columns")
)
def test_gradients(name):
    """Of the tensor before and of what is written, through a write that is on the tape."""
    write, *arrays = WRITES[name]
    found = []
    for t in (torch, eagerjit):
        z = t.tensor(BASE).requires_grad_()
        rest = [a.requires_grad_() if a.is_floating_point() else a for a in tensors(t, arrays)]
        changed = z * 1.5
        write(changed, *rest)
        (changed * changed).sum().backward()
        found.append([x.grad.numpy() for x in (z, *rest) if x.is_floating_point()])
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_sources_of_other_sizes_are_refused():
    z = eagerjit.tensor(BASE)
    with pytest.raises(RuntimeError):
        z.index_add_(1, eagerjit.tensor([0, 1]), eagerjit.ones(4, 2))
    with pytest.raises(RuntimeError):
        z.index_copy_(1, eagerjit.tensor([0, 1]), eagerjit.ones(4, 2))
    assert z.numpy().tobytes() == BASE.tobytes()


def filled(t, x, steps):
    out = t.zeros(steps + 1, x.shape[0])
    for i in range(steps):
        out[i + 1] = out[i] * 0.5 + x
    return out


def overwritten(t, x):
    """Values that are read before, between and after the changes, one of which is a result itself."""
    first = x * 2.0
    total = first.sum()
    first[1:3] = 0.0
    kept = first.clone()
    first[0] = kept[1] + 1.0
    again = first + 1.0
    first.index_add_(0, t.tensor([0, 3]), t.ones(2))
    return total, kept, again, first, (x @ x.reshape(-1, 1)).index_fill_(0, t.tensor([0]), 5.0)


def moved(t, x):
    """What is written is read from the memory that is written, elsewhere."""
    y = x + 1.0
    y[1:] = y[:-1] * 3.0
    z = y.clone()
    z[t.tensor([0, 1])] = z[t.tensor([2, 3])]
    x.copy_(z * 2.0)
    x[0] = x[1] * 4.0
    x.index_fill_(0, t.tensor([5]), 1.0)
    return y, z, x.sum()


@pytest.mark.parametrize(
    "function", (lambda t, x: filled(t, x, 7), overwritten, moved), ids=("filled", "overwritten", "moved")
)
def test_values_made_inside_are_changed_where_they_are(function):
    start = RANDOM.normal(size=6).astype(np.float32)
    compiled = eagerjit.jit(lambda x: function(eagerjit, x))
    for _ in range(2):
        tensors_ = [torch.tensor(start), eagerjit.tensor(start), eagerjit.tensor(start)]
        calls = (lambda x: function(torch, x), lambda x: function(eagerjit, x), compiled)
        results = [call(x) for call, x in zip(calls, tensors_, strict=True)]
        flat = [r if isinstance(r, tuple) else (r,) for r in results]
        for expected, eager, jitted in zip(*flat, strict=True):
            np.testing.assert_allclose(eager.numpy(), expected.numpy(), rtol=1e-5)
            assert jitted.numpy().tobytes() == eager.numpy().tobytes()
        assert tensors_[2].numpy().tobytes() == tensors_[1].numpy().tobytes()


def test_a_loop_that_fills_a_tensor_copies_nothing():
    report = eagerjit.jit(lambda x: filled(eagerjit, x, 4)).explain(eagerjit.ones(6))
    assert Op.COPY not in {instruction[0] for instruction in report.program.instructions}
    assert sum(k.name.endswith("slice_scatter.0") for k in report.kernels) == 1  # the zeros
