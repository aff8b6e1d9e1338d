"""Linear algebra against PyTorch: values, gradients, batches, empty matrices, wrong calls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw

import eagerjit
from eagerjit.autograd.check import gradgradcheck


def definite(t: Any, x: Any) -> Any:
    """A symmetric matrix with positive eigenvalues."""
    return x @ x.mT + t.eye(x.shape[-1], dtype=x.dtype) * 0.5


def symmetric(x: Any) -> Any:
    return x + x.mT


def shifted(t: Any, x: Any) -> Any:
    return x + 3 * t.eye(x.shape[-1], dtype=x.dtype)


SQUARE: dict[str, Any] = {
    "inv": lambda t, x: t.linalg.inv(x),
    "inverse": lambda t, x: x.inverse(),
    "inv_ex": lambda t, x: tuple(t.linalg.inv_ex(x)),
    "cholesky_ex": lambda t, x: tuple(t.linalg.cholesky_ex(definite(t, x))),
    "cholesky_ex upper": lambda t, x: tuple(t.linalg.cholesky_ex(definite(t, x), upper=True)),
    "solve_ex right": lambda t, x: tuple(t.linalg.solve_ex(x, x * 2, left=False)),
    "solve_ex vector": lambda t, x: tuple(t.linalg.solve_ex(x, x[..., 0])),
    "det": lambda t, x: t.linalg.det(x),
    "det method": lambda t, x: x.det(),
    "slogdet": lambda t, x: tuple(t.linalg.slogdet(x)),
    "logdet": lambda t, x: t.logdet(definite(t, x)),
    "cholesky": lambda t, x: t.linalg.cholesky(definite(t, x)),
    "cholesky upper": lambda t, x: t.linalg.cholesky(definite(t, x), upper=True),
    "torch.cholesky": lambda t, x: t.cholesky(definite(t, x)),
    "cholesky_inverse": lambda t, x: t.cholesky_inverse(t.linalg.cholesky(definite(t, x))),
    "eigh": lambda t, x: t.linalg.eigh(symmetric(x))[0],
    "eigenvectors": lambda t, x: t.linalg.eigh(symmetric(x))[1].abs(),
    "eigh upper": lambda t, x: t.linalg.eigh(symmetric(x), "U").eigenvalues,
    "eigvalsh": lambda t, x: t.linalg.eigvalsh(symmetric(x)),
    "matrix_exp": lambda t, x: t.linalg.matrix_exp(x),
    "matrix_power": lambda t, x: t.linalg.matrix_power(x, 3),
    "matrix_power 0": lambda t, x: t.linalg.matrix_power(x, 0),
    "matrix_power negative": lambda t, x: t.matrix_power(x, -2),
    "lu": lambda t, x: tuple(t.linalg.lu(x)),
    "lu_factor": lambda t, x: tuple(t.linalg.lu_factor(x)),
    "lu_solve": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x * 2),
    "lu_solve adjoint": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x * 2, adjoint=True),
    "solve_triangular": lambda t, x: t.linalg.solve_triangular(
        x.triu() + 3 * t.eye(x.shape[-1], dtype=x.dtype), x, upper=True
    ),
    "solve_triangular right": lambda t, x: t.linalg.solve_triangular(
        x + 3 * t.eye(x.shape[-1], dtype=x.dtype), x, upper=False, left=False
    ),
    "solve_triangular unit": lambda t, x: t.linalg.solve_triangular(x, x * 2, upper=True, unitriangular=True),
    "triangular_solve": lambda t, x: t.triangular_solve(x, x + 3 * t.eye(x.shape[-1], dtype=x.dtype), transpose=True)[
        0
    ],
    "cholesky_solve": lambda t, x: t.cholesky_solve(x, t.linalg.cholesky(definite(t, x))),
    "solve": lambda t, x: t.linalg.solve(x, x * x),
    "solve right": lambda t, x: t.linalg.solve(x, x * x, left=False),
    "solve_ex": lambda t, x: tuple(t.linalg.solve_ex(x, x * 2)),
    "cond 1": lambda t, x: t.linalg.cond(x, 1),
    "cond inf": lambda t, x: t.linalg.cond(x, math.inf),
    "cond fro": lambda t, x: t.linalg.cond(x, "fro"),
}
ANY: dict[str, Any] = {
    "qr": lambda t, x: tuple(t.linalg.qr(x)),
    "lu of any": lambda t, x: tuple(t.linalg.lu(x)),
    "lu_factor of any": lambda t, x: t.linalg.lu_factor(x)[0],
    "lu_factor_ex": lambda t, x: tuple(t.linalg.lu_factor_ex(x)),
    "householder_product": lambda t, x: (lambda y: t.linalg.householder_product(y, y[..., 0, :] * 0.3))(
        x if x.shape[-2] >= x.shape[-1] else x.mT
    ),
    "householder_product of fewer": lambda t, x: (lambda y: t.linalg.householder_product(y, y[..., 0, :1] * 0.3))(
        x if x.shape[-2] >= x.shape[-1] else x.mT
    ),
    "svd_lowrank": lambda t, x: (lambda u, s, v: ((u * s[..., None, :]) @ v.mT, s))(
        *t.svd_lowrank(x, min(x.shape[-2:]))
    ),
    "svd_lowrank mean": lambda t, x: t.svd_lowrank(x, min(x.shape[-2:]), M=x[..., :1, :] * 0.5)[1],
    "pca_lowrank": lambda t, x: t.pca_lowrank(x.detach(), min(x.shape[-2:]))[1],
    "pca_lowrank not centered": lambda t, x: t.pca_lowrank(x, min(x.shape[-2:]), center=False)[1],
    "qr complete": lambda t, x: tuple(y.detach() for y in t.linalg.qr(x, "complete")),
    "qr r": lambda t, x: t.linalg.qr(x.detach(), "r").R,
    "torch.qr": lambda t, x: tuple(t.qr(x)),
    "svd": lambda t, x: t.linalg.svd(x, full_matrices=False).S,
    "svd product": lambda t, x: (lambda u, s, v: (u * s[..., None, :]) @ v)(*t.linalg.svd(x, full_matrices=False)),
    "left vectors": lambda t, x: t.linalg.svd(x, full_matrices=False)[0].abs(),
    "right vectors": lambda t, x: t.linalg.svd(x, full_matrices=False)[2].abs(),
    "svd full": lambda t, x: [y.abs().shape for y in t.linalg.svd(x)] and t.linalg.svd(x)[1],
    "torch.svd": lambda t, x: [y.abs() for y in t.svd(x)],
    "svdvals": lambda t, x: t.linalg.svdvals(x),
    "pinv": lambda t, x: t.linalg.pinv(x),
    "pinv rtol": lambda t, x: t.linalg.pinv(x, rtol=0.3),
    "pinv rtol of each": lambda t, x: t.linalg.pinv(
        x, rtol=t.linspace(0.1, 0.5, len(x)).double() if x.ndim > 2 else 0.2
    ),
    "pinv atol": lambda t, x: t.linalg.pinv(x, atol=t.tensor(0.4, dtype=t.float64)),
    "pinverse": lambda t, x: x.pinverse(),
    "matrix_rank": lambda t, x: t.linalg.matrix_rank(x),
    "matrix_rank atol each": lambda t, x: t.linalg.matrix_rank(x, atol=t.ones(x.shape[:-2]) * 1.5),
    "matrix_rank tol each": lambda t, x: t.linalg.matrix_rank(x, t.ones(x.shape[:-2]) * 1.5),
    "matrix_rank limits each": lambda t, x: t.linalg.matrix_rank(
        x, atol=t.ones(x.shape[:-2]), rtol=t.ones(x.shape[:-2]) * 0.4
    ),
    "matrix_rank tol": lambda t, x: t.linalg.matrix_rank(x, tol=1.0),
    "cond": lambda t, x: t.linalg.cond(x),
    "cond-2": lambda t, x: t.linalg.cond(x, -2),
    "lstsq": lambda t, x: t.linalg.lstsq(x, x * x).solution,
    **{
        f"lstsq by {d}": (lambda t, x, d=d: [*t.linalg.lstsq(x, x * x, driver=d)][1:])
        for d in (None, "gels", "gelsy", "gelsd", "gelss")
    },
    "lstsq vector": lambda t, x: t.linalg.lstsq(x, x[..., 0]).solution,
    **{
        f"matrix_norm {o}": (lambda t, x, o=o: t.linalg.matrix_norm(x, o))
        for o in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf)
    },
    **{f"norm {o}": (lambda t, x, o=o: t.linalg.norm(x, o, dim=-1)) for o in (None, 2, 1, 0, 3, math.inf, -1)},
    "norm all": lambda t, x: t.linalg.norm(x),
    "norm dims": lambda t, x: t.linalg.norm(x, dim=(-2, -1), keepdim=True),
    "norm nuc": lambda t, x: t.linalg.norm(x, "nuc", dim=(-2, -1)),
    "vector_norm": lambda t, x: t.linalg.vector_norm(x, 3),
    "vector_norm dims": lambda t, x: t.linalg.vector_norm(x, math.inf, dim=(0, -1)),
    "matrix_norm keepdim": lambda t, x: t.linalg.matrix_norm(x, 2, keepdim=True),
    "torch.norm nuc": lambda t, x: t.norm(x, "nuc") if x.ndim == 2 else x.sum(),
    "torch.norm fro": lambda t, x: t.norm(x, "fro"),
    "vecdot": lambda t, x: t.linalg.vecdot(x, x * 2),
    "vander": lambda t, x: t.linalg.vander(x[..., 0], N=3),
    "diagonal": lambda t, x: t.linalg.diagonal(x, offset=1),
    "inner": lambda t, x: t.inner(x, x * 2),
    "kron": lambda t, x: t.kron(x, x[..., :2]),
    "cdist": lambda t, x: t.cdist(x, x * 2 + 1),
    "cdist1": lambda t, x: t.cdist(x, x * 2 + 1, p=1),
    "cdistinf": lambda t, x: t.cdist(x, x * 2 + 1, p=math.inf),
    "cdist3": lambda t, x: t.cdist(x, x[..., :2, :] + 1, p=3),
    "multi_dot": lambda t, x: t.linalg.multi_dot([x[..., 0, :] if x.ndim == 2 else x, x.mT, x]),
    "mH": lambda t, x: (x.mH, x.adjoint()),
    "lu values": lambda t, x: tuple(y.detach() for y in t.linalg.lu(x.detach())),
}
RANDOM = np.random.default_rng(3)
MATRICES = {
    "square": RANDOM.standard_normal((4, 4)),
    "batch": RANDOM.standard_normal((2, 3, 3)),
    "wide": RANDOM.standard_normal((3, 5)),
    "tall": RANDOM.standard_normal((5, 3)),
    "no matrices": np.zeros((0, 3, 3)),
    "no rows": np.zeros((0, 0)),
}
NO_GRADIENT = {"matrix_power 0", "norm 0", "cond 1", "cond inf", "cond fro", "vector_norm 0"}
NO_GRADIENT |= {n for n in ANY if n.startswith("lstsq by")}
"""PyTorch's own gradients of these are missing, or read what it has overwritten."""


@pytest.mark.parametrize("matrix", ["square", "batch", "no matrices", "no rows"])
@pytest.mark.parametrize("name", SQUARE)
def test_square(name: str, matrix: str) -> None:
    if name.startswith("cond") and matrix == "no rows":
        return  # PyTorch has no answer without elements
    compare(SQUARE[name], MATRICES[matrix], tolerance=1e-7, grad=name not in NO_GRADIENT)


@pytest.mark.parametrize("name", SQUARE)
def test_float32(name: str) -> None:
    compare(SQUARE[name], MATRICES["square"].astype(np.float32), tolerance=2e-3, grad=name not in NO_GRADIENT)


@pytest.mark.parametrize("matrix", ["square", "batch", "wide", "tall"])
@pytest.mark.parametrize("name", ANY)
def test_any_shape(name: str, matrix: str) -> None:
    compare(ANY[name], MATRICES[matrix], tolerance=1e-7, grad=name not in NO_GRADIENT)


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (3, 5)])
def test_dependent_columns_leave_no_residuals(shape: tuple[int, ...], driver: str) -> None:
    matrix = np.random.default_rng(3).standard_normal(shape)
    for _ in range(2):
        compare(lambda t, x: [t.linalg.lstsq(x, x * x, driver=driver).residuals.shape], matrix, grad=False)
        first = matrix[0] if matrix.ndim == 3 else matrix
        first[:, 1] = first[:, 0]


def test_compiled_calls_ask_for_residuals_anew() -> None:
    compiled = eagerjit.jit(lambda x: eagerjit.linalg.lstsq(x, x * x, driver="gelsd").residuals)
    whole = eagerjit.tensor(np.random.default_rng(3).standard_normal((5, 3)))
    dependent = whole.clone()
    dependent[:, 1] = dependent[:, 0]
    assert [tuple(compiled(x).shape) for x in (whole, dependent, whole)] == [(3,), (0,), (3,)]


def test_examples_of_vmap_have_residuals() -> None:
    matrices = eagerjit.tensor(np.random.default_rng(3).standard_normal((2, 5, 3)))
    residuals = eagerjit.vmap(lambda x: eagerjit.linalg.lstsq(x, x, driver="gelsd").residuals)(matrices)
    assert residuals.shape == (2, 3)


PAIRS: dict[str, Any] = {
    "solve": lambda t, x, y: t.linalg.solve(x, y),
    "solve vector": lambda t, x, y: t.linalg.solve(x, y[:, 0]),
    "lstsq": lambda t, x, y: t.linalg.lstsq(x, y)[0],
    "solve_triangular": lambda t, x, y: t.linalg.solve_triangular(x, y, upper=False),
    "addmv": lambda t, x, y: t.addmv(y[:, 0], x, y[:, 1], beta=0.5, alpha=2),
    "addr": lambda t, x, y: t.addr(x, x[0], x[1], alpha=0.3),
    "vdot": lambda t, x, y: t.vdot(x[0], y[:, 0]),
    "chain_matmul": lambda t, x, y: t.chain_matmul(x, x, y),
    "tensorsolve": lambda t, x, y: t.linalg.tensorsolve(x.reshape(2, 2, 4), y[:, 0].reshape(2, 2)),
    "tensorinv": lambda t, x, y: t.linalg.tensorinv(x.reshape(2, 2, 4)),
    "cross": lambda t, x, y: t.linalg.cross(x[:, :3], y),
    "cross namespace": lambda t, x, y: t.cross(x[:, :3], y),
    "cross dim": lambda t, x, y: t.cross(y.T, x[:3, :], dim=0),
    "addbmm": lambda t, x, y: t.addbmm(y, x[None].expand(2, 4, 4), y[None].expand(2, 4, 3)),
    "baddbmm": lambda t, x, y: t.baddbmm(y[None], x[None].expand(2, 4, 4), y[None].expand(2, 4, 3), beta=0.3),
    "pdist": lambda t, x, y: t.nn.functional.pdist(y) if hasattr(t.nn.functional, "pdist") else t.pdist(y),
}


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 3, 0), (0, 2, 2), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_norms_of_matrices_without_elements(order: Any, shape: tuple[int, ...]) -> None:
    compare(lambda t, x: t.linalg.matrix_norm(x, order), np.zeros(shape), grad=False)


@pytest.mark.parametrize("order", [0, 1, 2, -1, math.inf, -math.inf])
def test_norms_of_no_vectors(order: Any) -> None:
    compare(lambda t, x: t.linalg.vector_norm(x, order, dim=1), np.zeros((0, 3)), grad=False)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    compare(PAIRS[name], MATRICES["square"], RANDOM.standard_normal((4, 3)), tolerance=1e-8)


@pytest.mark.parametrize("name", [*SQUARE, *(n for n in ANY if n != "vander")])
def test_vectors_are_refused(name: str) -> None:
    function = {**SQUARE, **ANY}[name]
    compare(function, np.arange(4.0), tolerance=1e-7, grad=name not in NO_GRADIENT)


@pytest.mark.parametrize("name", [n for n in SQUARE if n not in ("lu", "lu_factor")])
def test_rectangles_are_refused(name: str) -> None:
    compare(SQUARE[name], MATRICES["wide"], tolerance=1e-7, grad=name not in NO_GRADIENT)


WRONG: dict[str, Any] = {
    "integers": lambda t, x: t.linalg.inv(x.long()),
    "half precision": lambda t, x: t.linalg.inv(x.half()),
    "qr mode": lambda t, x: t.linalg.qr(x, "foo"),
    "uplo": lambda t, x: t.linalg.eigh(x, "Q"),
    "matrix_norm order": lambda t, x: t.linalg.matrix_norm(x, 5),
    "norm order": lambda t, x: t.linalg.norm(x, "foo"),
    "solve dtypes": lambda t, x: t.linalg.solve(x, x.float()),
    "solve batches": lambda t, x: t.linalg.solve(t.stack([x, x]), t.stack([x, x, x])),
    "solve_ex dtypes": lambda t, x: t.linalg.solve_ex(x, x.float()),
    "solve_ex of too few rows": lambda t, x: t.linalg.solve_ex(x, x[:2]),
    "solve_ex of too few columns": lambda t, x: t.linalg.solve_ex(x, x[:, :2], left=False),
    "solve_ex of a long vector": lambda t, x: t.linalg.solve_ex(x, t.cat([x[0], x[0]])),
    "solve_ex of rows": lambda t, x: t.linalg.solve_ex(x, x[0], left=False),
    "solve_ex of a number": lambda t, x: t.linalg.solve_ex(x, x[0, 0]),
    "solve_ex batches": lambda t, x: t.linalg.solve_ex(t.stack([x, x]), t.stack([x, x, x])),
    "lu_solve of few pivots": lambda t, x: t.linalg.lu_solve(x, t.tensor([1, 2], dtype=t.int32), x),
    "lu_solve of other batches": lambda t, x: t.linalg.lu_solve(x, t.tensor([[1, 2, 3]] * 2, dtype=t.int32), x),
    "lu_solve of long pivots": lambda t, x: t.linalg.lu_solve(x, t.tensor([1, 2, 3]), x),
    "lu_solve of a vector": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x[0]),
    "lu_solve of other dtypes": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x.float()),
    "lu_solve of other sizes": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x[:2]),
    "det of zeros": lambda t, x: t.linalg.det(x * 0),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name: str) -> None:
    compare(WRONG[name], MATRICES["square"])


PROBLEMS = {
    "inv": lambda t, x: t.linalg.inv(x * 0),
    "inv of one": lambda t, x: t.linalg.inv(t.stack([shifted(t, x), x * 0])),
    "solve": lambda t, x: t.linalg.solve(x * 0, x),
    "cholesky": lambda t, x: t.linalg.cholesky(-x @ x.mT),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_matrices_without_an_answer(name: str) -> None:
    with pytest.raises(torch.linalg.LinAlgError):
        PROBLEMS[name](torch, torch.eye(3))
    with pytest.raises(eagerjit.linalg.LinAlgError, match=f"linalg.{name.split()[0]}") as caught:
        PROBLEMS[name](eagerjit, eagerjit.eye(3))
    assert isinstance(caught.value, RuntimeError)
    assert ("Batch element 1" in str(caught.value)) == (name == "inv of one")


SINGULAR: dict[str, Any] = {
    "lu_factor": lambda t, x: t.linalg.lu_factor(x),
    "lu_factor of several": lambda t, x: t.linalg.lu_factor(t.stack([t.eye(3), x])),
    "lu_factor of a rectangle": lambda t, x: t.linalg.lu_factor(x[:2] * 0),
    "lu_factor_ex": lambda t, x: tuple(t.linalg.lu_factor_ex(x)),
    "lu_factor_ex, checked": lambda t, x: t.linalg.lu_factor_ex(x, check_errors=True),
    "lu_factor_ex of several, checked": lambda t, x: t.linalg.lu_factor_ex(t.stack([t.eye(3), x]), check_errors=True),
    "lu": lambda t, x: tuple(t.linalg.lu(x)),
    "det": lambda t, x: t.linalg.det(x),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_factors_of_singular_matrices(name: str) -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [1.0, 1.0, 1.0]], np.float32)
    compare(SINGULAR[name], matrix, grad=False)
    jitted = eagerjit.jit(lambda x: SINGULAR[name](eagerjit, x))
    compare(lambda t, x: jitted(x) if t is eagerjit else SINGULAR[name](t, x), matrix, grad=False)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 40])
@pytest.mark.parametrize("kind", ["any", "pairs", "singular"])
def test_factors_of_indefinite_matrices(kind: str, size: int, dtype: str, hermitian: bool) -> None:
    generator = np.random.default_rng(size)
    numbers = generator.normal(size=(2, size, size)) + 1j * generator.normal(size=(2, size, size))
    numbers += numbers.conj().swapaxes(1, 2) if hermitian else numbers.swapaxes(1, 2)
    if kind == "pairs":
        numbers *= 1 - np.eye(size)
    elif kind == "singular":
        numbers[1, :1] = numbers[1, :, :1] = 0
    matrices = (numbers if "complex" in dtype else numbers.real).astype(dtype)

    def solved(t: Any, x: Any) -> Any:
        found = t.linalg.ldl_factor_ex(x, hermitian=hermitian)
        whole = t.linalg.ldl_factor(x[:1], hermitian=hermitian)
        return *found, t.linalg.ldl_solve(*found[:2], x + 1, hermitian=hermitian)[:1], *whole

    compare(solved, matrices, grad=False, tolerance=1e-2 if dtype == "float32" else 1e-8)
    if kind == "any":
        x = eagerjit.tensor(matrices)
        found = zip(solved(eagerjit, x), eagerjit.jit(lambda x: solved(eagerjit, x))(x), strict=True)
        assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in found)


SECOND = {
    "inv": lambda t, x: t.linalg.inv(shifted(t, x)),
    "det": lambda t, x: t.linalg.det(x),
    "slogdet": lambda t, x: t.linalg.slogdet(shifted(t, x)).logabsdet,
    "solve": lambda t, x: t.linalg.solve(shifted(t, x), x),
    "cholesky": lambda t, x: t.linalg.cholesky(definite(t, x)),
    "eigvalsh": lambda t, x: t.linalg.eigvalsh(symmetric(x)),
    "svdvals": lambda t, x: t.linalg.svdvals(x),
    "qr": lambda t, x: t.linalg.qr(x).R,
    "pinv": lambda t, x: t.linalg.pinv(x),
    "matrix_exp": lambda t, x: t.linalg.matrix_exp(x),
    "lu": lambda t, x: t.linalg.lu_factor(x).LU,
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    x = eagerjit.tensor(np.random.default_rng(5).standard_normal((3, 3))).requires_grad_()
    assert gradgradcheck(lambda x: SECOND[name](eagerjit, x), (x,))


@pytest.mark.parametrize("name", SECOND)
def test_examples_of_a_batch(name: str) -> None:
    x = eagerjit.tensor(np.random.default_rng(5).standard_normal((2, 3, 3)))
    found = eagerjit.func.vmap(lambda x: SECOND[name](eagerjit, x))(x)
    expected = eagerjit.stack([SECOND[name](eagerjit, one) for one in x])
    assert eagerjit.allclose(found, expected)


@pytest.mark.parametrize("name", SECOND)
def test_compiled(name: str) -> None:
    x = eagerjit.tensor(np.random.default_rng(5).standard_normal((3, 3)), requires_grad=True)
    plain = SECOND[name](eagerjit, x)
    jitted = eagerjit.jit(lambda x: SECOND[name](eagerjit, x), fullgraph=True)(x)
    assert plain.detach()._data.tobytes() == jitted.detach()._data.tobytes()
    first, second = (eagerjit.autograd.grad(r.sum(), x)[0] for r in (plain, jitted))
    assert first._data.tobytes() == second._data.tobytes()


FAILING: dict[str, Any] = {
    "cholesky": lambda t, x: t.linalg.cholesky_ex(x).info,
    "inverse": lambda t, x: t.linalg.inv_ex(x).info,
    "solution": lambda t, x: t.linalg.solve_ex(x, x).info,
    "lu": lambda t, x: t.linalg.lu_factor_ex(x).info,
    "principal components": lambda t, x: t.pca_lowrank(x, q=9),
    "wide reflectors": lambda t, x: t.linalg.householder_product(x[..., :1, :], x[..., 0, :]),
    "reflectors of a batch": lambda t, x: t.linalg.householder_product(x, x[0, 0]),
    "more reflectors": lambda t, x: t.linalg.householder_product(x, t.cat([x, x], -1)[..., 0, :]),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_says_so_in_numbers(name: str) -> None:
    good = np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 1.0]])
    indefinite = np.array([[2.0, 0.5, 0.1], [0.5, -3.0, 0.2], [0.1, 0.2, 1.0]])
    singular = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    compare(FAILING[name], np.stack([good, indefinite, singular, np.zeros((3, 3))]), grad=False)


@pytest.mark.parametrize("name", ["cholesky_ex", "inv_ex", "lu_factor_ex"])
def test_what_fails_raises_where_it_is_asked_to(name: str) -> None:
    for library in (eagerjit, torch):
        error = RuntimeError if name == "lu_factor_ex" else library.linalg.LinAlgError
        with pytest.raises(error, match=name):
            getattr(library.linalg, name)(library.zeros(2, 2), check_errors=True)


@pytest.mark.parametrize("call", [lambda t, x: t.linalg.eigvalsh(x), lambda t, x: t.linalg.eigh(x)[0]])
def test_gradients_of_eigenvalues_that_are_the_same(call):
    def gradient(t):
        x = t.eye(3).requires_grad_()
        (call(t, x) * t.tensor([1.0, 2.0, 3.0])).sum().backward()
        return x.grad.numpy()

    np.testing.assert_allclose(gradient(eagerjit), gradient(torch))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_of_eigenvectors_are_hermitian(dtype):
    def gradient(t):
        x = t.tensor(np.diag([1.0, 2.0, 4.0]) + 0.3, dtype=getattr(t, dtype))
        x = (x + t.tensor([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]) * (1j if dtype == "complex128" else 0)).to(x.dtype)
        x.requires_grad_()
        values, vectors = t.linalg.eigh(x)
        (vectors.abs() * t.arange(9.0).reshape(3, 3)).sum().add((values**3).sum()).backward()
        return x.grad.numpy()

    np.testing.assert_allclose(gradient(eagerjit), gradient(torch), atol=1e-12)


def test_tangents_of_large_exponentials():
    rows = np.random.default_rng(0).uniform(-9, 9, (2, 5, 5))

    def tangent(t: Any) -> Any:
        x, v = t.tensor(rows), t.tensor(rows[::-1].copy() / 9)
        return t.func.jvp(t.linalg.matrix_exp, (x,), (v,))[1].numpy()

    expected = tangent(torch)
    np.testing.assert_allclose(tangent(eagerjit), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


FACTORED = {
    "lu_factor": lambda t, x: t.linalg.lu_factor(x)[0][..., 0],
    "lu of the rest": lambda t, x: t.linalg.lu_factor(x)[0][..., 1:, 1:],
}
SOLVED = {
    "inv": lambda t, x: t.linalg.inv(x),
    "inv_ex": lambda t, x: t.linalg.inv_ex(x)[0],
    "solve": lambda t, x: t.linalg.solve(x, x[..., :2]),
}


@pytest.mark.parametrize(
    "name, size", [*((n, s) for n in SOLVED for s in (2, 5, 600)), *((n, s) for n in FACTORED for s in (2, 5))]
)
def test_a_first_pivot_that_is_no_number(name: str, size: int) -> None:
    matrices = np.stack([draw((size, size), "float64", -1, 1, 4) + size * np.eye(size)] * 2)
    matrices[0, 0, 0] = np.nan
    call = {**SOLVED, **FACTORED}[name]
    found = call(eagerjit, eagerjit.tensor(matrices)).isnan()
    assert found[0].all() and not found[1].any()
    assert (found == eagerjit.jit(lambda x: call(eagerjit, x))(eagerjit.tensor(matrices)).isnan()).all()


def test_the_gradient_of_determinants_beside_one_of_no_number() -> None:
    def slopes(t: Any) -> Any:
        x = t.tensor([[[1.0, 2.0], [3.0, 4.0]], [[math.nan, 1.0], [2.0, 3.0]]], requires_grad=True)
        t.linalg.det(x).sum().backward()
        return x.grad.numpy()

    found = slopes(eagerjit)
    np.testing.assert_allclose(found[0], slopes(torch)[0], rtol=1e-5)
    assert np.isnan(found[1]).any()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_exponentials_beside_large_ones_and_ones_of_no_number(dtype: str) -> None:
    def exponentials(t: Any, call: Any) -> Any:
        x = t.tensor(np.stack([draw((3, 3), "float64", -2, 2, 5)] * 5)).to(getattr(t, dtype))
        scale = t.tensor([1.0, 1e30, math.nan, math.inf, -1.0]).reshape(5, 1, 1).to(x.dtype)
        return call(x * scale)[[0, 4]].numpy()

    expected = exponentials(torch, torch.linalg.matrix_exp)
    call = eagerjit.linalg.matrix_exp
    for found in (exponentials(eagerjit, call), exponentials(eagerjit, eagerjit.jit(call))):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["pinv", "lstsq"])
def test_no_number_is_an_error_of_the_library(name: str) -> None:
    def decomposed(t: Any) -> Any:
        x = t.tensor([[1.0, math.nan], [0.0, 1.0]])
        return t.linalg.pinv(x) if name == "pinv" else t.linalg.lstsq(x, t.eye(2))

    with pytest.raises(RuntimeError):
        decomposed(torch)
    with pytest.raises(eagerjit.linalg.LinAlgError, match=f"linalg.{name}"):
        decomposed(eagerjit)


@pytest.mark.parametrize("name", ["slogdet", "logdet"])
def test_the_gradient_of_logarithms_of_determinants_beside_that_of_a_singular_matrix(name: str) -> None:
    def slopes(t: Any, jit: Any) -> Any:
        x = t.tensor([[[4.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [2.0, 4.0]]], requires_grad=True)
        call = jit(lambda x: t.linalg.slogdet(x)[1] if name == "slogdet" else t.logdet(x))
        call(x).sum().backward()
        return x.grad.numpy()

    for jit in (lambda f: f, eagerjit.jit):
        found = slopes(eagerjit, jit)
        np.testing.assert_allclose(found[0], slopes(torch, lambda f: f)[0], rtol=1e-5)
        assert not np.isfinite(found[1]).any()
