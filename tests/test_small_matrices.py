"""Linear algebra of small matrices by a GPU's kernels, run by Triton's interpreter: against NumPy and definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.ops.host import BY_KERNELS
from eagerjit.jit import jit
from eagerjit.ops.polynomials import FAMILIES
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.runtime.program import Op

RANDOM = np.random.default_rng(5)
SHAPES = [(1, 1), (2, 3), (5, 2), (4, 7, 7), (2, 3, 4, 2), (33, 17), (0, 3, 3)]
SQUARE = [shape for shape in SHAPES if shape[-1] == shape[-2]] + [(17, 17)]
LARGE = [(64, 64), (64, 33)]
"""As large as kernels take them."""


def real(*shape: int, dtype: str = "float64") -> Any:
    return torch.tensor(RANDOM.normal(size=shape)).to(getattr(torch, dtype))


def definite(*shape: int) -> Any:
    x = RANDOM.normal(size=shape)
    return torch.tensor(x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1]))


def by_kernels(call: Callable[..., Any], *tensors: Any) -> Any:
    """What a function's kernels give, none of which the host runs."""
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*tensors)
    assert not any(code == Op.CALL for executable in made for code, *_ in executable.program.instructions)
    return result


def close(actual: Any, expected: Any, digits: float = 1e-10) -> None:
    assert actual.dtype is expected.dtype and actual.shape == expected.shape
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=digits, atol=digits)


@pytest.mark.parametrize("shape", [*SQUARE, LARGE[0]], ids=str)
def test_solutions_and_inverses(shape: tuple[int, ...]) -> None:
    a, b = definite(*shape) + real(*shape) * 0.1, real(*shape[:-1], 70)
    close(by_kernels(torch.linalg.solve, a, b), torch.linalg.solve(a, b))
    close(by_kernels(torch.linalg.inv, a), torch.linalg.inv(a))
    close(by_kernels(lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), a, b),
          torch.linalg.solve_triangular(a, b, upper=True))  # fmt: skip
    for given in (a.mT, a.float()):  # strided, and of less precision
        close(by_kernels(torch.linalg.inv, given), torch.linalg.inv(given), 1e-4)


@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_symmetric_matrices(shape: tuple[int, ...]) -> None:
    a = definite(*shape)
    close(by_kernels(torch.linalg.cholesky, a), torch.linalg.cholesky(a))
    mixed = real(*shape)
    for side in "LU":
        values, vectors = by_kernels(lambda x, side=side: torch.linalg.eigh(x, side), mixed)
        expected = torch.linalg.eigvalsh(mixed, side)
        close(values, expected, 1e-9)
        close(by_kernels(lambda x, side=side: torch.linalg.eigvalsh(x, side), mixed), expected, 1e-9)
        whole = mixed.tril() + mixed.tril(-1).mT if side == "L" else mixed.triu() + mixed.triu(1).mT
        close(vectors * values.unsqueeze(-2) @ vectors.mT, whole, 1e-9)
        close(vectors.mT @ vectors, torch.eye(shape[-1]).double().expand(shape))


@pytest.mark.parametrize("shape", [*SHAPES, *LARGE], ids=str)
def test_factors_of_any_shape(shape: tuple[int, ...]) -> None:
    a = real(*shape)
    factors, pivots = by_kernels(torch.linalg.lu_factor, a)
    close(factors, torch.linalg.lu_factor(a)[0])
    assert pivots.equal(torch.linalg.lu_factor(a)[1])
    for mode in ("reduced", "complete"):
        for found, expected in zip(
            by_kernels(lambda x, mode=mode: torch.linalg.qr(x, mode), a), torch.linalg.qr(a, mode), strict=True
        ):
            close(found, expected)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values(shape: tuple[int, ...], full: bool) -> None:
    a = real(*shape)
    if shape == (4, 7, 7):  # two of full rank, one of rank 2, one of zeros
        a[2] = a[2, :, :2] @ a[2, :2]
        a[3] = 0
    u, s, vh = by_kernels(lambda x: torch.linalg.svd(x, full), a)
    k = min(shape[-2:])
    close(s, torch.linalg.svdvals(a))
    close(by_kernels(torch.linalg.svdvals, a), torch.linalg.svdvals(a))
    close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a)
    for q in (u, vh.mT):
        close(q.mT @ q, torch.eye(q.shape[-1]).double().expand((*shape[:-2], q.shape[-1], q.shape[-1])))
    close(by_kernels(torch.linalg.pinv, a), torch.linalg.pinv(a), 1e-8)


def test_scales_of_singular_values() -> None:
    a = real(6, 6)
    for scale in (1e-200, 1e200):
        close(by_kernels(torch.linalg.svdvals, a * scale) / scale, torch.linalg.svdvals(a))
    values = torch.tensor([3.0, 1e-9, 2e-16, 0.0]).double()
    left, right = torch.linalg.qr(real(4, 4))[0], torch.linalg.qr(real(4, 4))[0]
    found = by_kernels(torch.linalg.svd, left * values @ right)
    close(found[1], values, 1e-15)
    close(found[0].mT @ found[0], torch.eye(4).double())


def test_what_is_made_of_factors() -> None:
    a = real(5, 4, 4)
    a[1, 3] = a[1, 2]  # singular
    for call in (torch.linalg.det, torch.linalg.matrix_exp):
        close(by_kernels(call, a), call(a))
    with_gradient = torch.func.grad(lambda x: torch.linalg.det(x).sum())
    close(by_kernels(with_gradient, a), with_gradient(a))
    for found, expected in zip(by_kernels(torch.linalg.slogdet, a[2:]), torch.linalg.slogdet(a[2:]), strict=True):
        close(found, expected)
    b = real(5, 4, 3)
    close(by_kernels(lambda x, y: torch.linalg.lstsq(x, y)[0], a[..., :3], b), torch.linalg.lstsq(a[..., :3], b)[0])
    big = a * torch.tensor([0.0, 1e-3, 1.0, 30.0, 4.0]).double()[:, None, None]
    expected = torch.linalg.matrix_exp(big)
    largest = expected.abs().amax((-2, -1), keepdim=True)
    close(by_kernels(torch.linalg.matrix_exp, big) / largest, expected / largest, 1e-9)


def test_failures_are_those_of_the_host() -> None:
    a = definite(3, 4, 4)
    a[1, 2, 2] = -5.0
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        by_kernels(torch.linalg.cholesky, a)
    for found, expected in zip(by_kernels(torch.linalg.cholesky_ex, a), torch.linalg.cholesky_ex(a), strict=True):
        close(found, expected)
    a[1, 2] = 0.0
    for name in ("inv", "solve"):
        rest = (real(3, 4, 2),) * (name == "solve")
        with pytest.raises(torch.linalg.LinAlgError, match=f"linalg.{name}: .*singular"):
            by_kernels(getattr(torch.linalg, name), a, *rest)
        call = getattr(torch.linalg, f"{name}_ex")
        for found, expected in zip(by_kernels(call, a, *rest), call(a, *rest), strict=True):
            close(found, expected)
    a[0, 0, 0] = float("nan")
    for name in ("eigh", "svd"):
        with pytest.raises(torch.linalg.LinAlgError, match=f"linalg.{name}: The algorithm failed to converge"):
            by_kernels(getattr(torch.linalg, name), a)


def test_pivots_out_of_range() -> None:
    factors, pivots = torch.linalg.lu_factor(real(2, 5, 5))
    close(by_kernels(torch.lu_unpack, factors, pivots)[0], torch.lu_unpack(factors, pivots)[0])
    pivots[1, 2] = 6
    with pytest.raises(RuntimeError, match="pivots passed to lu_unpack"):
        by_kernels(torch.lu_unpack, factors, pivots)


@pytest.mark.parametrize("family", FAMILIES)
def test_polynomials(family: str) -> None:
    x, n = real(3, 50), torch.tensor(RANDOM.integers(-2, 40, 50))
    call = getattr(torch.special, family)
    close(by_kernels(call, x, n), call(x, n), 1e-12)


def test_larger_and_complex_matrices_are_the_hosts() -> None:
    for a in (definite(65, 65), definite(3, 3).to(torch.complex128)):
        with gpu_kernels.interpreted() as made:
            close(jit(torch.linalg.inv, fullgraph=True)(a), torch.linalg.inv(a))
        assert any(code == Op.CALL for code, *_ in made[0].program.instructions)


def test_what_kernels_replace_is_defined_by_numpy() -> None:
    a, b = real(2, 4, 4), real(2, 4, 3)
    factors, pivots = torch.linalg.lu_factor(a)
    solved = FUNCTIONS["substituted" + BY_KERNELS](*(x.numpy() for x in (factors, pivots, b)))
    np.testing.assert_allclose(a.numpy() @ solved, b.numpy(), atol=1e-10)
    both = np.concatenate([np.swapaxes(a.numpy(), -1, -2), np.broadcast_to(np.eye(4), (2, 4, 4))], -1)
    rows = FUNCTIONS["orthogonal_columns" + BY_KERNELS](both)
    np.testing.assert_allclose(rows[..., 4:] @ np.swapaxes(a.numpy(), -1, -2), rows[..., :4], atol=1e-10)
    gram = rows[..., :4] @ np.swapaxes(rows[..., :4], -1, -2)
    np.testing.assert_allclose(gram, gram * np.eye(4), atol=1e-10)


def test_second_derivatives_of_determinants() -> None:
    a = real(3, 4, 4)
    a[1, 3] = a[1, 2]  # singular
    hessian = torch.func.grad(lambda x: (torch.func.grad(lambda y: torch.linalg.det(y).sum())(x) ** 2).sum())
    close(by_kernels(hessian, a), hessian(a))


def test_a_function_of_any_size_goes_where_the_size_belongs() -> None:
    given = [definite(n, n) for n in (3, 5, 65, 4, 66)]
    expected = [torch.linalg.inv(a) + 1.0 for a in given]
    with gpu_kernels.interpreted() as made:
        call = jit(lambda x: torch.linalg.inv(x) + 1.0, fullgraph=True)
        found = [call(a) for a in given]
    for a, b in zip(found, expected, strict=True):
        close(a, b)
    assert [any(code == Op.CALL for code, *_ in e.program.instructions) for e in made] == [False, True]
