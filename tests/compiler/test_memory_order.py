"""Tensors that do not lie in row-major order: reductions copy them first, writes go through memory in its order."""

import numpy as np
import pytest

import eagerjit as torch

N, M = 130, 70


def permuted(kind: str, seed: int = 0, dtype=None):
    """A tensor of three dimensions in one of several orders, and one like it in row-major order."""
    torch.manual_seed(seed)
    x = torch.randn(5, N, M).to(dtype or torch.float32)
    view = {
        "transposed": lambda: x.transpose(1, 2),
        "reversed": lambda: x.permute(2, 1, 0),
        "first last": lambda: x.permute(2, 0, 1),
        "one": lambda: x[:1].transpose(1, 2),
        "slice": lambda: x.transpose(1, 2)[:, :, ::2],
        "part": lambda: x[:, :, 3:40].transpose(1, 2),
        "flipped": lambda: x.flip(1).transpose(1, 2),
        "expanded": lambda: x[:1].expand(5, N, M).transpose(1, 2),
    }[kind]()
    return view


KINDS = ["transposed", "reversed", "first last", "one", "slice", "part", "flipped", "expanded"]


def bits(x) -> bytes:
    return np.ascontiguousarray(x.detach().numpy()).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_reductions_add_in_the_order_of_the_indices(kind, dims):
    x = permuted(kind)
    y = x.contiguous().clone()
    functions = (
        lambda v: v.sum(dims), lambda v: v.std(dims), lambda v: (v * v + 1).sum(dims), lambda v: v.amax(dims),
        lambda v: (v - v.mean(dims, keepdim=True)).exp().sum(dims), lambda v: v.softmax(dims[0]),
        lambda v: v.norm(dim=dims),
    )  # fmt: skip
    for f in functions:
        assert bits(f(x)) == bits(f(y)) == bits(torch.jit(f)(x)) == bits(torch.jit(lambda v, f=f: f(v))(y))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_what_is_the_same_in_any_order(kind, dims):
    x = permuted(kind)
    y = x.contiguous().clone()
    row = torch.linspace(-1, 1, x.shape[-1])
    functions = (
        lambda v: (v > row).any(dims), lambda v: (v < 3).all(dims, keepdim=True), lambda v: v.count_nonzero(dims),
        lambda v: (v * 9).int().sum(dims), lambda v: (v * 9).int().amax(dims), lambda v: (v * 9).long().amin(dims),
        lambda v: ((v * 3).long() * 5 + 1).prod(dims[0]), lambda v: (v > 1).sum(dims, keepdim=True) + v.isnan().any(),
    )  # fmt: skip
    for f in functions:
        assert bits(f(x)) == bits(f(y)) == bits(torch.jit(f)(x)) == bits(torch.jit(lambda v, f=f: f(v))(y))


@pytest.mark.parametrize(
    ("turned", "plain"),
    [
        (lambda v: (v.t() > 1).any(), lambda v: (v > 1).any()),
        (lambda v: v.t().count_nonzero(0), lambda v: v.count_nonzero(1)),
        (lambda v: (v.t().long() + 1).amax(1), lambda v: (v.long() + 1).amax(0)),
    ],
)
def test_what_is_the_same_in_any_order_goes_through_memory_as_it_lies(turned, plain):
    x = torch.randn(N, M)
    found, expected = ([k.ir for k in torch.jit(f).explain(x).kernels] for f in (turned, plain))
    assert found == expected


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_results_in_any_order_are_row_major(dim, keepdim):
    x = torch.arange(60).reshape(3, 5, 4).permute(2, 1, 0)
    for reduce in (lambda x: x.amax(dim, keepdim), lambda x: (x > 7).any(dim, keepdim), lambda x: x.sum(dim, keepdim)):
        expected = reduce(x.contiguous())
        for found in (reduce(x), torch.jit(reduce)(x)):
            assert torch.equal(found, expected) and found.stride() == expected.stride()


def test_what_others_read_too_is_computed_once():
    def work(x):
        y = (x.t() * 3).int()
        return y, y.sum(0), y.amax()

    x = torch.randn(N, M)
    for found, expected in zip(torch.jit(work)(x), work(x), strict=True):
        assert bits(found) == bits(expected)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "expanded"])
@pytest.mark.parametrize("jitted", [False, True])
def test_writes_go_where_the_tensor_lies(kind, jitted):
    def work(x, y, row):
        x.add_(1.0)
        x.mul_(y)
        x.copy_(y * 2 + x)
        x.clamp_(max=row)
        x.masked_fill_(y > 1, 0.5)
        x.sub_(x.flip(0) * row)
        x.sigmoid_()
        return x + y

    x, y, row = permuted(kind), permuted(kind, 1).contiguous(), torch.linspace(1, 2, permuted(kind).shape[-1])
    memory = x if x._base is None else x._base
    before = memory.clone()
    other = before.as_strided(x.shape, x.stride(), x.storage_offset()) if kind != "flipped" else None
    expected = x.contiguous().clone()
    result = (torch.jit(work) if jitted else work)(x, y, row)
    assert bits(result) == bits(work(expected, y, row))
    assert bits(x) == bits(expected)
    if other is not None:  # what lies between is left alone
        other.copy_(expected)
        assert bits(memory) == bits(before)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_tensor_is_written_that_is_read_in_the_other_order(jitted):
    def work(x):
        x.t().add_(x)
        x.t().mul_(x + x.t())

    x = torch.randn(N, N)
    a = x.numpy().copy()
    (torch.jit(work) if jitted else work)(x)
    b = (a.T + a).T
    b = (b.T * (b + b.T)).T
    assert bits(x) == np.ascontiguousarray(b).tobytes()


@pytest.mark.parametrize("name", ["normal_", "uniform_", "bernoulli_", "exponential_"])
def test_random_numbers_are_those_of_the_indices(name):
    def work(x):
        return getattr(x, name)()

    drawn = []
    for x in (torch.empty(N, M), torch.empty(M, N).t()):
        for f in (work, torch.jit(work)):
            torch.manual_seed(3)
            drawn.append(bits(f(x)))
    assert len(set(drawn)) == 1


def test_what_is_written_to_a_permuted_tensor_is_one_kernel():
    x, y = torch.randn(N, M).t(), torch.randn(M, N)
    report = torch.jit(lambda x, y: x.mul_(2).add_(y.exp()))
    assert len(report.explain(x, y).kernels) == 1
    assert len(torch.jit(lambda z, y: z.t().mul_(2).add_(y)).explain(torch.randn(N, M), y).kernels) == 1


def test_two_writes_share_what_they_are_computed_from():
    def work(p, m, g):
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.1)

    results = []
    for f in (work, torch.jit(work)):
        torch.manual_seed(0)
        p, m, g = torch.randn(N, M).t(), torch.randn(N, M).t(), torch.randn(M, N)
        for _ in range(3):
            f(p, m, g)
        results.append(bits(p) + bits(m))
    torch.manual_seed(0)
    p, m, g = torch.randn(N, M).t().contiguous(), torch.randn(N, M).t().contiguous(), torch.randn(M, N)
    for _ in range(3):
        work(p, m, g)
    assert {bits(p) + bits(m)} == set(results)


@pytest.mark.parametrize("dtype", ["int64", "int8", "bool", "float64", "bfloat16", "complex64"])
def test_dtypes(dtype):
    x = permuted("transposed", dtype=getattr(torch, dtype))
    y = x.contiguous().clone()
    for f in (lambda v: v.sum(2), lambda v: v.sum(), lambda v: v.sum(1)):
        assert bits(f(x).real if dtype == "complex64" else f(x).float()) == bits(
            f(y).real if dtype == "complex64" else f(y).float()
        )
    if dtype != "bool":
        x.add_(y)
        assert torch.equal(x, y + y)


def test_an_integer_division_by_zero_in_a_write_is_an_error_and_writes_nothing():
    x, y = torch.ones(M, N, dtype=torch.int64).t(), torch.zeros(N, M, dtype=torch.int64)
    for f in (lambda x, y: x.floor_divide_(y), torch.jit(lambda x, y: x.floor_divide_(y))):
        with pytest.raises(RuntimeError, match="ZeroDivision"):
            f(x, y)
        assert bool((x == 1).all())


def test_several_layouts_one_after_another():
    f = torch.jit(lambda x: (x * 2).sum(0))
    for kind in (*KINDS, *KINDS):
        x = permuted(kind)
        assert bits(f(x)) == bits((x.contiguous() * 2).sum(0))


@pytest.mark.parametrize("turned", [False, True])
def test_a_long_chain_of_operations_is_written(turned):
    def work(x, y):
        for _ in range(1500):
            y = y * 1.0001
        x.copy_(y)

    x, y, expected = torch.zeros(5, 4).t() if turned else torch.zeros(4, 5), torch.ones(4, 5), torch.zeros(4, 5)
    torch.jit(work)(x, y)
    work(expected, y)
    assert bits(x) == bits(expected)


@pytest.mark.parametrize("size", [(3, 4), (40, 33), (300, 64)])
def test_rows_across_memory_calculate_with_numbers_of_their_own(size):
    def parts(x):
        return torch.einsum("ij->ji", x) * 1, torch.einsum("ij->i", x), torch.einsum("...j->...", x)

    def gradient(x):
        return torch.autograd.grad([part.sum() for part in parts(x)], [x])[0]

    for given in (torch.randn(size), torch.randn(size[::-1]).t()):
        for found, expected in zip(torch.jit(parts)(given), parts(given), strict=True):
            assert bits(found) == bits(expected)
        given.requires_grad_()
        outside = torch.jit(parts)(given)
        sum(part.sum() for part in outside).backward()
        assert bits(torch.jit(gradient)(given)) == bits(gradient(given)) == bits(given.grad)


@pytest.mark.parametrize("copy", [lambda v: v.t().contiguous(), lambda v: v.t() * 2 + 1, lambda v: v.t() * v.t()])
def test_squares_of_which_little_is_computed_stay_in_registers(copy):
    for size in ((16, 16), (N, M), (33, 257)):
        x = torch.randn(size)
        (kernel,) = torch.jit(copy).explain(x).kernels
        assert "alloca [" not in kernel.source
        assert bits(torch.jit(copy)(x)) == bits(copy(x)) == bits(copy(x.t().contiguous().t()))
        assert np.array_equal(x.t().contiguous().numpy(), x.numpy().T)
