"""What native code computes of small matrices and few numbers, without Python: against NumPy, and eager against jit."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
import eagerjit.fft  # has ops of its own
from eagerjit.calling.dispatch import OPS
from eagerjit.runtime import direct, host

LINALG = torch.linalg
KINDS = [torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPES = [(1, 1), (2, 2), (5, 5), (16, 16), (530, 530), (3, 4, 4), (2, 3, 7, 7)]


def matrices(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal(shape), rng.standard_normal(shape)
    values = parts[0] + 1j * parts[1] if dtype.is_complex else parts[0]
    return torch.from_numpy(values.astype(dtype.numpy))


def tolerance(dtype):
    return 2e-3 if dtype in (torch.float32, torch.complex64) else 1e-9


def hermitian(a):
    return a @ a.mH + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype)


def same(function, *arguments):
    """What eager and compiled calls give, the same bit for bit."""
    eager, compiled = function(*arguments), torch.jit(function)(*arguments)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (eager, compiled)), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
        assert a.is_contiguous()
    return eager


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_of_square_matrices(shape, dtype) -> None:
    a = matrices(shape, dtype)
    n, close = shape[-1], {"atol": tolerance(dtype), "rtol": tolerance(dtype)}
    unit = torch.eye(n, dtype=dtype).expand(shape)
    assert torch.allclose(same(lambda x: LINALG.inv(x), a) @ a, unit, atol=tolerance(dtype) * 10)
    b = matrices((*shape[:-1], 3), dtype, 1)
    assert torch.allclose(a @ same(lambda x, y: LINALG.solve(x, y), a, b), b, atol=tolerance(dtype) * 10)
    found = same(lambda x: LINALG.det(x), a)
    np.testing.assert_allclose(found.numpy(), np.linalg.det(a.numpy()), rtol=tolerance(dtype) * 5)
    sign, logarithm = same(lambda x: LINALG.slogdet(x), a)
    wanted = np.linalg.slogdet(a.numpy())
    np.testing.assert_allclose(sign.numpy(), wanted[0], atol=tolerance(dtype))
    np.testing.assert_allclose(logarithm.numpy(), wanted[1], rtol=tolerance(dtype), atol=tolerance(dtype) * 10)
    factors, pivots = same(lambda x: LINALG.lu_factor(x), a)
    assert pivots.dtype is torch.int32
    p, lower, upper = torch.lu_unpack(factors, pivots)
    assert torch.allclose(p @ lower @ upper, a, **close)
    positive = hermitian(a)
    lower = same(lambda x: LINALG.cholesky(x), positive)
    assert torch.allclose(lower @ lower.mH, positive, atol=tolerance(dtype) * n, rtol=tolerance(dtype))
    assert (lower.triu(1) == 0).all()
    values, vectors = same(lambda x: LINALG.eigh(x), positive)
    spread = torch.diag_embed(values).to(dtype)
    assert torch.allclose(vectors @ spread @ vectors.mH, positive, atol=tolerance(dtype) * n, rtol=tolerance(dtype))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(1, 3), (5, 2), (2, 5), (4, 4), (2, 6, 3), (3, 3, 8), (530, 3)])
@pytest.mark.parametrize("full", [False, True])
def test_factors_of_matrices_of_any_shape(shape, dtype, full) -> None:
    a, close = matrices(shape, dtype), {"atol": tolerance(dtype), "rtol": tolerance(dtype)}
    m, n = shape[-2:]
    least = min(m, n)
    q, r = same(lambda x: LINALG.qr(x, "complete" if full else "reduced"), a)
    assert q.shape[-1] == (m if full else least)
    assert torch.allclose(q @ r, a, **close)
    assert (r.tril(-1) == 0).all()
    u, s, vh = same(lambda x: LINALG.svd(x, full), a)
    assert torch.allclose((u[..., :least] * s.unsqueeze(-2).to(dtype)) @ vh[..., :least, :], a, **close)
    factors, pivots = same(lambda x: LINALG.lu_factor(x), a)
    p, lower, upper = torch.lu_unpack(factors, pivots)
    assert torch.allclose(p @ lower @ upper, a, **close)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangles(dtype, upper, unitriangular) -> None:
    for shape, right in [((4, 4), (4, 2)), ((3, 5, 5), (5, 1)), ((5, 5), (2, 3, 5, 2)), ((2, 1, 3, 3), (4, 3, 3))]:
        a = matrices(shape, dtype) * 0.1 + 2 * torch.eye(shape[-1], dtype=dtype)
        b = matrices(right, dtype, 1)
        x = same(lambda a, b: LINALG.solve_triangular(a, b, upper=upper, unitriangular=unitriangular), a, b)
        read = a.triu() if upper else a.tril()
        if unitriangular:
            read = read - torch.diag_embed(read.diagonal(dim1=-2, dim2=-1)) + torch.eye(shape[-1], dtype=dtype)
        assert torch.allclose(read @ x, b.expand(x.shape), atol=1e-3)
        assert torch.allclose(a @ same(lambda a, b: LINALG.solve(a, b), a, b), b.expand(x.shape), atol=1e-3)


def test_what_fails_says_which_matrix() -> None:
    good = hermitian(matrices((3, 4, 4), torch.float32))
    bad = good.clone()
    bad[1] = 0.0
    for function in (LINALG.inv, LINALG.cholesky, torch.jit(lambda x: LINALG.inv(x))):
        with pytest.raises(LINALG.LinAlgError, match=r"\(Batch element 1\)"):
            function(bad)
        assert function(good).isfinite().all()
    assert LINALG.det(bad)[1] == 0
    sign, logarithm = LINALG.slogdet(bad)
    assert sign[1] == 0
    assert logarithm[1] == -torch.inf


def test_nothing_and_other_orders() -> None:
    assert LINALG.inv(torch.zeros(0, 3, 3)).shape == (0, 3, 3)
    assert LINALG.det(torch.zeros(2, 0, 0)).tolist() == [1.0, 1.0]
    a = matrices((5, 5), torch.float32)
    assert LINALG.inv(a.t()).numpy().tobytes() == LINALG.inv(a.t().contiguous()).numpy().tobytes()
    assert torch.allclose(LINALG.inv(a.t()), LINALG.inv(a).t(), atol=1e-4)


def test_gradients_pass_through() -> None:
    a = matrices((4, 4), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(LINALG.inv, (a,))
    assert torch.autograd.gradcheck(lambda x: LINALG.slogdet(x)[1], (a,))
    assert torch.autograd.gradcheck(lambda x: torch.fft.rfft(x).abs(), (a,))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 30, 49, 60, 100, 128, 1000, 2047, 2048])
@pytest.mark.parametrize("double", [False, True])
def test_transforms_of_few_numbers(n, double) -> None:
    rng = np.random.default_rng(n)
    real = rng.standard_normal((3, n)).astype(np.float64 if double else np.float32)
    complex_ = (real + 1j * rng.standard_normal((3, n))).astype(np.complex128 if double else np.complex64)
    close = {"atol": 1e-8 if double else 2e-3, "rtol": 1e-8 if double else 1e-3}
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        if n == 1 and name in ("irfft", "hfft"):
            continue
        given = real if name in ("rfft", "ihfft") else complex_
        for x, dim in ((given, -1), (given[0], 0), (np.ascontiguousarray(given.T), 0)):
            for norm in (None, "ortho", "forward"):
                function, wanted = getattr(torch.fft, name), getattr(np.fft, name)(x, axis=dim, norm=norm)
                for _ in range(2):  # the second time native code knows the length
                    found = same(lambda t, f=function, d=dim, m=norm: f(t, dim=d, norm=m), torch.from_numpy(x))
                    np.testing.assert_allclose(found.numpy(), wanted, **close)


def test_transforms_along_several_dimensions() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, 6, 5)) + 1j * rng.standard_normal((4, 6, 5))).astype(np.complex64)
    for _ in range(2):
        for dims in ((0, 1), (2, 0), (-1,), (1, 2, 0), None):
            for name in ("fftn", "ifftn", "rfftn", "irfftn"):
                given = np.ascontiguousarray(x.real) if name == "rfftn" else x
                found = same(lambda t, n=name, d=dims: getattr(torch.fft, n)(t, dim=d), torch.from_numpy(given))
                axes = dims or tuple(range(3))
                np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(given, axes=axes), atol=1e-3)
        np.testing.assert_allclose(torch.fft.irfft(torch.from_numpy(x), n=7).numpy(), np.fft.irfft(x, n=7), atol=1e-4)


def test_python_gives_what_native_code_gives(monkeypatch) -> None:
    """Programs that Python runs, and calls that native code declines, compute the same bits."""
    a = matrices((6, 6), torch.float32).numpy()
    signal = matrices((3, 12), torch.complex64).numpy()
    calls = [("linalg_inv", (a,)), ("linalg_det", (a,)), ("linalg_svd", (a, True)), ("linalg_qr", (a, "reduced"))]
    calls += [("fft_full", (signal, (1,), True, 0.5)), ("fft_full", (signal, (0, 1), False, 1.0))]
    for name, arguments in calls:
        by_python = host.FUNCTIONS[name](*arguments)
        given = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arguments]
        by_program = OPS[name].call(*given)
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (by_python, by_program)), strict=True):
            assert np.asarray(x).tobytes() == y.numpy().tobytes()


def test_large_matrices_are_left_to_python() -> None:
    call = direct.HostCall("linalg_lu_factor", (("$tensor", 11, 2, False),), ((0, 11, 2), (1, 3, 1)))
    assert direct.description(call, direct.QUICK)[2] < direct.description(call, direct.ANY)[2]
    a = matrices((300, 200), torch.float64)
    factors, pivots = LINALG.lu_factor(a)
    p, lower, upper = torch.lu_unpack(factors, pivots)
    assert torch.allclose(p @ lower @ upper, a)


def test_some_of_the_results() -> None:
    """A compiled call that needs one result alone leaves the rest out: Python computes it, to the same bits."""
    a = hermitian(matrices((6, 6), torch.complex64))
    same(lambda x: LINALG.eigh(x).eigenvalues, a)
    same(lambda x: LINALG.eigh(x).eigenvectors, a)
    same(lambda x: LINALG.slogdet(x).sign, a)
    same(lambda x: LINALG.slogdet(x).logabsdet, a)
    same(lambda x: LINALG.svd(x).S, a)
    same(lambda x: LINALG.svd(x).Vh, a)
    same(lambda x: LINALG.qr(x).Q, a)
    same(lambda x: LINALG.lu_factor(x).LU, a)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 6, 3), (3, 3, 8), (2, 2, 4, 4), (530, 3), (0, 3, 3), (2, 0, 0)])
def test_values_without_vectors(shape, dtype) -> None:
    a, close = matrices(shape, dtype), {"atol": tolerance(dtype), "rtol": tolerance(dtype)}
    found = same(lambda x: LINALG.svdvals(x), a)
    np.testing.assert_allclose(found.numpy(), np.linalg.svd(a.numpy(), compute_uv=False), **close)
    assert torch.allclose(LINALG.svdvals(a.clone().requires_grad_()), found, **close)
    if shape[-1] != shape[-2] or a.numel() == 0:
        return
    for half in "LU":
        found = same(lambda x, half=half: LINALG.eigvalsh(x, half), a)
        np.testing.assert_allclose(found.numpy(), np.linalg.eigvalsh(a.numpy(), half), **close)
        assert torch.allclose(LINALG.eigvalsh(a.clone().requires_grad_(), half), found, **close)
    found = same(lambda x: LINALG.eigvals(x), a)
    for values, matrix in zip(found.reshape(-1, shape[-1]), a.reshape(-1, *shape[-2:]), strict=True):
        assert torch.allclose(values.sum(), matrix.diagonal().sum().to(values.dtype), atol=tolerance(dtype) * 10)
    assert torch.equal(LINALG.eigvals(a.clone().requires_grad_()).detach(), LINALG.eig(a).eigenvalues)


def test_values_that_fail_say_which_function() -> None:
    bad = torch.full((3, 3), float("nan"))
    for function, name in ((LINALG.svdvals, "svdvals"), (LINALG.eigvals, "eig")):
        for x in (bad, bad.clone().requires_grad_()):
            with pytest.raises(LINALG.LinAlgError, match=rf"linalg.{name}"):
                function(x)


def test_gradients_of_values() -> None:
    a = matrices((3, 4, 4), torch.float64)
    for function in (LINALG.svdvals, lambda x: LINALG.eigvalsh(x + x.mT), lambda x: LINALG.eigvals(x).abs()):
        x = a.clone().requires_grad_()
        assert torch.autograd.gradcheck(function, (x,))
        assert torch.autograd.gradgradcheck(function, (x,))
        compiled, (expected,) = torch.jit(lambda x, f=function: f(x).sum()), torch.autograd.grad(function(x).sum(), x)
        assert torch.autograd.grad(compiled(x), x)[0].numpy().tobytes() == expected.numpy().tobytes()
        found = torch.func.grad(lambda x, f=function: f(x).sum())(a)
        assert torch.allclose(found, expected)
        assert torch.allclose(torch.vmap(torch.func.grad(lambda x, f=function: f(x).sum()))(a), expected)
    unit = torch.eye(3, dtype=torch.float64, requires_grad=True)  # all values are one: its vectors turn as they like
    LINALG.svdvals(unit).sum().backward()
    assert torch.allclose(unit.grad, torch.eye(3, dtype=torch.float64))
    assert torch.autograd.grad(LINALG.matrix_norm(unit, "nuc"), unit)[0].isfinite().all()


@pytest.mark.parametrize(
    "shape", [(1, 1), (4, 4), (3, 5, 5), (2, 6, 3), (2, 3, 6), (2, 0, 3), (2, 3, 0), (0, 3, 3), (600, 2)]
)
def test_exchanges_of_rows(shape) -> None:
    a = matrices(shape, torch.float64)
    p, lower, upper = same(lambda x: LINALG.lu(x), a)
    assert torch.allclose(p @ lower @ upper, a)
    assert (p.sum(-1) == 1).all() and (p.sum(-2) == 1).all()
    order = a.new_zeros(a.shape[:-2])
    assert same(lambda x: torch.lu_unpack(*LINALG.lu_factor(x))[0], a).shape == (*order.shape, shape[-2], shape[-2])


@pytest.mark.parametrize(
    "rows", [[1, 2, 3, 5], [0, 1, 2, 3], [-(2**31), 1, 2, 3], [1, 2, 2**31 - 1, 4], [1, 2, 3, 4, 5]]
)
def test_rows_that_there_are_not_are_not_exchanged(rows) -> None:
    factors, pivots = matrices((4, 4), torch.float64), torch.tensor(rows, dtype=torch.int32)
    for function in (torch.lu_unpack, torch.jit(lambda x, y: torch.lu_unpack(x, y))):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="must be between 1 and"):
                function(factors, pivots)
    with pytest.raises(RuntimeError, match=r"torch\.int32"):
        torch.lu_unpack(factors, torch.tensor([1, 2, 3, 4]))


def test_what_is_not_wanted_of_factors_is_empty() -> None:
    factors, pivots = LINALG.lu_factor(matrices((4, 3), torch.float32))
    p, lower, upper = torch.lu_unpack(factors, pivots)
    parts = torch.lu_unpack(factors, pivots, unpack_data=False)
    assert torch.equal(parts.P, p) and parts.L.shape == parts.U.shape == (0,)
    parts = torch.lu_unpack(factors, pivots, unpack_pivots=False)
    assert parts.P.shape == (0,) and torch.equal(parts.L, lower) and torch.equal(parts.U, upper)


@pytest.mark.parametrize("size", [1e-20, 0.1, 1.0, 8.0])
def test_exponentials(size) -> None:
    a = matrices((2, 5, 5), torch.float64) * size
    values, vectors = LINALG.eigh(a + a.mT)
    expected = vectors @ torch.diag_embed(values.exp()) @ vectors.mT
    found = same(lambda x: LINALG.matrix_exp(x + x.mT), a)
    assert ((found - expected).abs() <= 1e-10 * expected.abs().max()).all()
    assert LINALG.matrix_exp(torch.zeros(2, 3, 3)).eq(torch.eye(3)).all()
    assert LINALG.matrix_exp(torch.zeros(2, 0, 0)).shape == (2, 0, 0)
