"""The array API's linear algebra: against array-api-strict, by what defines results, compiled, gradients, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from array_oracle import (
    COMPLEX,
    CUBE,
    INTEGERS,
    MATRIX,
    RANDOM,
    SMALL,
    VECTOR,
    Case,
    check,
    check_compiled,
    check_gradient,
    check_sizes,
    first_of_each,
    tensors,
)

import eagerjit as ej
from eagerjit import array_api as xp

L = xp.linalg

SQUARE = RANDOM.standard_normal((3, 3)) + 2 * np.eye(3)
STACK = RANDOM.standard_normal((2, 4, 3, 3)) + 3 * np.eye(3)
TALL = RANDOM.standard_normal((2, 5, 3)).astype(np.float32)
WIDE = np.swapaxes(TALL, 1, 2).copy()
COMPLEX_SQUARE = RANDOM.standard_normal((2, 3, 3)) + 1j * RANDOM.standard_normal((2, 3, 3)) + 2 * np.eye(3)
EMPTY_STACK = np.zeros((0, 3, 3))
EMPTY_MATRICES = np.zeros((2, 0, 0))
LOW = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
TRIPLES = RANDOM.standard_normal((4, 3))
ORDERS = (0, 1, 2, 3, 0.5, -1, -2, math.inf, -math.inf)


def _definite(x: np.ndarray) -> np.ndarray:
    return x @ np.swapaxes(x.conj(), -1, -2) + np.eye(x.shape[-1])


def _hermitian(x: np.ndarray) -> np.ndarray:
    return x + np.swapaxes(x.conj(), -1, -2)


SQUARES = {
    "square": SQUARE,
    "stack": STACK,
    "float32": STACK.astype(np.float32),
    "complex": COMPLEX_SQUARE,
    "complex64": COMPLEX_SQUARE.astype(np.complex64),
    "empty stack": EMPTY_STACK,
    "empty matrices": EMPTY_MATRICES,
}
RECTANGLES = {"square": SQUARE, "tall": TALL, "wide": WIDE, "complex": COMPLEX, "empty stack": EMPTY_STACK}

CASES: dict[str, Case] = {
    "matmul": (lambda t, x, y: t.matmul(x, y), [MATRIX, MATRIX.T.copy()]),
    "matmul vectors": (lambda t, x: t.matmul(x, x), [VECTOR]),
    "matmul vector and stack": (lambda t, x, y: t.matmul(x, y), [CUBE[0, :, 0], CUBE]),
    "matmul stack and vector": (lambda t, x, y: t.matmul(x, y), [CUBE, VECTOR]),
    "matmul broadcasts": (lambda t, x, y: t.matmul(x, y), [STACK, STACK[:, :1]]),
    "matmul promotes": (lambda t, x, y: t.matmul(x, y), [MATRIX, VECTOR]),
    "matmul integers": (lambda t, x, y: t.matmul(x, y), [INTEGERS, INTEGERS.T.astype(np.int64)]),
    "matmul int8 wraps": (lambda t, x: t.matmul(x, x), [SMALL]),
    "matmul complex": (lambda t, x: t.matmul(x, t.matrix_transpose(x)), [COMPLEX]),
    "matmul real and complex": (lambda t, x, y: t.matmul(x, y), [MATRIX, COMPLEX.T.copy()]),
    "matmul of nothing": (lambda t, x, y: t.matmul(x, y), [MATRIX[:, :0], MATRIX[:0]]),
    "linalg.matmul": (lambda t, x: t.linalg.matmul(x, x), [SQUARE]),
    "matrix_transpose": (lambda t, x: t.matrix_transpose(x), [CUBE]),
    "matrix_transpose complex": (lambda t, x: t.linalg.matrix_transpose(x), [COMPLEX]),
    "tensordot": (lambda t, x, y: t.tensordot(x, y), [CUBE, CUBE[0]]),
    "tensordot 0": (lambda t, x, y: t.tensordot(x, y, axes=0), [MATRIX, VECTOR.astype(np.float32)]),
    "tensordot 1": (lambda t, x, y: t.tensordot(x, y, axes=1), [CUBE, VECTOR]),
    "tensordot 3": (lambda t, x: t.tensordot(x, x, axes=3), [CUBE]),
    "tensordot axes": (lambda t, x, y: t.tensordot(x, y, axes=((1, 0), (0, 1))), [CUBE, CUBE[..., 0].T.copy()]),
    "tensordot negative axes": (lambda t, x: t.tensordot(x, x, axes=([-1, 0], [2, -3])), [CUBE]),
    "tensordot no axes": (lambda t, x: t.tensordot(x, x, axes=((), ())), [VECTOR]),
    "tensordot integers": (lambda t, x: t.linalg.tensordot(x, x, axes=((0,), (0,))), [INTEGERS]),
    "tensordot promotes": (lambda t, x, y: t.tensordot(x, y, axes=1), [MATRIX, VECTOR]),
    "tensordot complex": (lambda t, x: t.tensordot(x, x), [COMPLEX]),
    "tensordot of nothing": (lambda t, x, y: t.tensordot(x, y, axes=1), [MATRIX[:, :0], MATRIX[:0]]),
    "vecdot": (lambda t, x: t.vecdot(x, x), [CUBE]),
    "vecdot axis": (lambda t, x, y: t.vecdot(x, y, axis=-2), [CUBE, CUBE[0]]),
    "vecdot broadcasts": (lambda t, x, y: t.vecdot(x, y), [CUBE, VECTOR]),
    "vecdot vectors": (lambda t, x: t.vecdot(x, x), [VECTOR]),
    "vecdot conjugates the first": (lambda t, x, y: t.vecdot(x, y), [COMPLEX, COMPLEX[::-1] * 1j]),
    "vecdot of real and complex": (lambda t, x, y: t.linalg.vecdot(y, x), [MATRIX, COMPLEX]),
    "vecdot of nothing": (lambda t, x: t.vecdot(x, x), [MATRIX[:, :0]]),
    "cross": (lambda t, x, y: t.linalg.cross(x, y), [TRIPLES, TRIPLES[::-1].copy()]),
    "cross axis": (lambda t, x, y: t.linalg.cross(x, y, axis=-2), [CUBE, CUBE[::-1].copy()]),
    "cross broadcasts": (lambda t, x, y: t.linalg.cross(x, y), [TRIPLES, TRIPLES[0]]),
    "cross broadcasts both": (lambda t, x, y: t.linalg.cross(x, y), [TRIPLES[:, None], TRIPLES[None, :2]]),
    "cross vectors": (lambda t, x, y: t.linalg.cross(x, y), [TRIPLES[0], TRIPLES[1]]),
    "cross integers": (lambda t, x, y: t.linalg.cross(x, y), [INTEGERS, INTEGERS[::-1].copy()]),
    "cross complex": (lambda t, x, y: t.linalg.cross(x, y), [COMPLEX[:, :3].copy(), COMPLEX[:, 1:].copy()]),
    "outer": (lambda t, x, y: t.linalg.outer(x, y), [VECTOR, TRIPLES[0]]),
    "outer promotes": (lambda t, x, y: t.linalg.outer(x, y), [INTEGERS[0], SMALL[0]]),
    "outer complex": (lambda t, x: t.linalg.outer(x, x), [COMPLEX[0]]),
    "outer of nothing": (lambda t, x, y: t.linalg.outer(x, y), [VECTOR, VECTOR[:0]]),
    "diagonal": (lambda t, x: t.linalg.diagonal(x), [CUBE]),
    "diagonal above": (lambda t, x: t.linalg.diagonal(x, offset=2), [CUBE]),
    "diagonal below": (lambda t, x: t.linalg.diagonal(x, offset=-1), [COMPLEX]),
    "diagonal outside": (lambda t, x: t.linalg.diagonal(x, offset=9), [CUBE]),
    "trace": (lambda t, x: t.linalg.trace(x), [CUBE]),
    "trace above": (lambda t, x: t.linalg.trace(x, offset=1), [MATRIX]),
    "trace int8": (lambda t, x: t.linalg.trace(x), [SMALL]),
    "trace uint16": (lambda t, x: t.linalg.trace(x), [np.abs(INTEGERS).astype(np.uint16)]),
    "trace in int8": (lambda t, x: t.linalg.trace(x, dtype=t.int8, offset=0), [SMALL]),
    "trace in float64": (lambda t, x: t.linalg.trace(x, dtype=t.float64), [MATRIX]),
    "trace complex": (lambda t, x: t.linalg.trace(x), [COMPLEX]),
    "trace of nothing": (lambda t, x: t.linalg.trace(x), [EMPTY_MATRICES]),
    **{
        f"{name} {kind}": (lambda t, x, name=name: getattr(t.linalg, name)(x), [array])
        for name in ("det", "slogdet", "inv")
        for kind, array in SQUARES.items()
    },
    "slogdet singular": (lambda t, x: t.linalg.slogdet(x), [SINGULAR * 0]),
    "slogdet complex singular": (lambda t, x: t.linalg.slogdet(x), [SINGULAR * 0j]),
    "det singular": (lambda t, x: t.linalg.det(x), [SINGULAR]),
    **{
        f"{name} {kind}{' upper' * upper}": (
            lambda t, x, upper=upper: t.linalg.cholesky(x, upper=upper),
            [_definite(array)],
        )
        for name in ("cholesky",)
        for kind, array in SQUARES.items()
        for upper in (False, True)
    },
    **{
        f"{name} {kind}": (lambda t, x, name=name: getattr(t.linalg, name)(x), [_hermitian(array)])
        for name in ("eigh", "eigvalsh")
        for kind, array in SQUARES.items()
    },
    **{
        f"matrix_power {n} {kind}": (lambda t, x, n=n: t.linalg.matrix_power(x, n), [array])
        for n in (-3, -1, 0, 1, 2, 5)
        for kind, array in SQUARES.items()
    },
    **{
        f"{name} {kind} {options}": (lambda t, x, name=name, o=options: getattr(t.linalg, name)(x, **o), [array])
        for name, options in (
            ("qr", {}),
            ("qr", {"mode": "complete"}),
            ("svd", {}),
            ("svd", {"full_matrices": False}),
            ("svdvals", {}),
            ("pinv", {}),
            ("pinv", {"rtol": 0.5}),
            ("matrix_rank", {}),
            ("matrix_rank", {"rtol": 0.6}),
        )
        for kind, array in RECTANGLES.items()
    },
    "matrix_rank low": (lambda t, x: t.linalg.matrix_rank(x), [LOW]),
    "matrix_rank none": (lambda t, x: t.linalg.matrix_rank(x), [LOW * 0]),
    "matrix_rank limits": (lambda t, x, r: t.linalg.matrix_rank(x, rtol=r), [STACK, np.array([0.1, 0.5, 0.7, 0.9])]),
    "pinv low": (lambda t, x: t.linalg.pinv(x), [LOW]),
    "solve": (lambda t, x, y: t.linalg.solve(x, y), [SQUARE, TRIPLES.T.copy()]),
    "solve vector": (lambda t, x, y: t.linalg.solve(x, y), [SQUARE, TRIPLES[0]]),
    "solve stack and vector": (lambda t, x, y: t.linalg.solve(x, y), [STACK, TRIPLES[0]]),
    "solve stacks": (lambda t, x, y: t.linalg.solve(x, y), [STACK, STACK[:, ::-1].copy()]),
    "solve broadcasts": (lambda t, x, y: t.linalg.solve(x, y), [STACK, STACK[:, :1, :, :2].copy()]),
    "solve one for many": (lambda t, x, y: t.linalg.solve(x, y), [SQUARE, STACK]),
    "solve what looks like vectors": (lambda t, x, y: t.linalg.solve(x, y), [STACK[0, :3], SQUARE]),
    "solve promotes": (lambda t, x, y: t.linalg.solve(x, y), [SQUARE, SQUARE.astype(np.float32)]),
    "solve complex": (lambda t, x, y: t.linalg.solve(x, y), [COMPLEX_SQUARE, SQUARE]),
    "solve nothing": (lambda t, x, y: t.linalg.solve(x, y), [EMPTY_STACK, SQUARE]),
    **{
        f"vector_norm {o} over {axis}": (
            lambda t, x, o=o, axis=axis: t.linalg.vector_norm(x, ord=o, axis=axis, keepdims=axis == -1),
            [CUBE],
        )
        for o in ORDERS
        for axis in (None, -1, (0, 2))
    },
    **{f"vector_norm {o} complex": (lambda t, x, o=o: t.linalg.vector_norm(x, ord=o), [COMPLEX]) for o in ORDERS},
    "vector_norm": (lambda t, x: t.linalg.vector_norm(x), [MATRIX]),
    "vector_norm all kept": (lambda t, x: t.linalg.vector_norm(x, keepdims=True), [MATRIX]),
    "vector_norm of nothing": (lambda t, x: t.linalg.vector_norm(x, axis=1), [MATRIX[:, :0]]),
    **{
        f"matrix_norm {o} {kind}": (
            lambda t, x, o=o, kind=kind: t.linalg.matrix_norm(x, ord=o, keepdims=kind == "tall"),
            [array],
        )
        for o in ("fro", "nuc", 1, 2, -1, -2, math.inf, -math.inf)
        for kind, array in RECTANGLES.items()
    },
    "matrix_norm": (lambda t, x: t.linalg.matrix_norm(x), [STACK]),
    "matrix_norm none": (lambda t, x: t.linalg.matrix_norm(x, ord=None), [STACK]),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_strict_namespace(name: str) -> None:
    check(CASES[name], 2e-4 if "tall" in name or "wide" in name or "float32" in name or "64" in name else 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_compiled_gives_the_same_bits(name: str) -> None:
    check_compiled(CASES[name])


@pytest.mark.parametrize("name", first_of_each(CASES))
def test_compiled_serves_other_sizes(name: str) -> None:
    check_sizes(CASES[name])


# -- what defines the results -----------------------------------------------------------------------------------------


def _close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", RECTANGLES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(kind: str, mode: str) -> None:
    (x,) = tensors([RECTANGLES[kind]])
    found = L.qr(x, mode=mode)
    assert found._fields == ("Q", "R")
    k = x.shape[-2] if mode == "complete" else min(x.shape[-2:])
    assert found.Q.shape[-1] == found.R.shape[-2] == k
    _close(found.Q @ found.R, x.numpy())
    _close(found.Q.mH @ found.Q, np.broadcast_to(np.eye(k), (*x.shape[:-2], k, k)))
    _close(found.R.tril(-1), np.zeros(found.R.shape))


@pytest.mark.parametrize("kind", RECTANGLES)
@pytest.mark.parametrize("full", [True, False])
def test_svd(kind: str, full: bool) -> None:
    (x,) = tensors([RECTANGLES[kind]])
    found = L.svd(x, full_matrices=full)
    assert found._fields == ("U", "S", "Vh")
    m, n = x.shape[-2:]
    k = min(m, n)
    assert tuple(found.U.shape[-2:]) == (m, m if full else k)
    assert tuple(found.Vh.shape[-2:]) == (n if full else k, n)
    assert found.S.dtype.is_floating_point
    assert found.S.dtype.bits == x.dtype.bits // (2 if x.dtype.is_complex else 1)
    _close((found.U[..., :k] * found.S.unsqueeze(-2)) @ found.Vh[..., :k, :], x.numpy())
    assert bool((found.S[..., 1:] <= found.S[..., :-1]).all())
    _close(L.svdvals(x), found.S.numpy())


@pytest.mark.parametrize("kind", SQUARES)
def test_eigh(kind: str) -> None:
    (x,) = tensors([_hermitian(SQUARES[kind])])
    found = L.eigh(x)
    assert found._fields == ("eigenvalues", "eigenvectors")
    assert found.eigenvalues.dtype.is_floating_point
    assert found.eigenvectors.dtype is x.dtype
    _close((found.eigenvectors * found.eigenvalues.unsqueeze(-2)) @ found.eigenvectors.mH, x.numpy())
    _close(L.eigvalsh(x), found.eigenvalues.numpy())


def test_slogdet_names_its_results() -> None:
    (x,) = tensors([COMPLEX_SQUARE.astype(np.complex64)])
    found = L.slogdet(x)
    assert found._fields == ("sign", "logabsdet")
    assert found.sign.dtype is xp.complex64
    assert found.logabsdet.dtype is xp.float32
    _close(found.sign * found.logabsdet.exp(), L.det(x).numpy())


def test_slogdet_of_singular_matrices() -> None:
    sign, logarithm = L.slogdet(ej.zeros(2, 2))
    assert (sign.item(), logarithm.item()) == (0.0, -math.inf)


def test_pinv_takes_a_limit_for_each_matrix() -> None:
    (x,) = tensors([STACK])
    limits = ej.tensor([0.1, 0.5, 0.7, 0.9], dtype=ej.float64)
    found = L.pinv(x, rtol=limits)
    for i, limit in enumerate(limits.tolist()):
        _close(found[:, i], np.linalg.pinv(STACK[:, i], rcond=limit))
    assert ej.jit(lambda a, r: L.pinv(a, rtol=r))(x, limits).tolist() == found.tolist()


def test_matrices_that_fail_in_compiled_calls_raise_as_eagerly() -> None:
    for call in (L.inv, L.cholesky, lambda x: L.solve(x, x)):
        compiled = ej.jit(call)
        compiled(ej.eye(2))
        with pytest.raises(ej.linalg.LinAlgError):
            compiled(ej.tensor(SINGULAR * -1).float())


# -- gradients --------------------------------------------------------------------------------------------------------

_T = torch.linalg
GRADIENTS: dict[str, tuple[Any, Any, list[np.ndarray]]] = {
    "matmul": (lambda x, y: xp.matmul(x, y), lambda x, y: x @ y, [STACK, STACK[:, :1]]),
    "matrix_transpose": (lambda x: xp.matrix_transpose(x), lambda x: x.mT, [CUBE]),
    "tensordot": (lambda x, y: xp.tensordot(x, y), lambda x, y: torch.tensordot(x, y), [CUBE, CUBE[0]]),
    "vecdot": (lambda x, y: xp.vecdot(x, y), lambda x, y: _T.vecdot(x, y), [CUBE, VECTOR]),
    "cross": (lambda x, y: L.cross(x, y), lambda x, y: _T.cross(x, y.expand(4, 3)), [TRIPLES, TRIPLES[0]]),
    "outer": (lambda x, y: L.outer(x, y), torch.outer, [VECTOR, TRIPLES[0]]),
    "diagonal": (lambda x: L.diagonal(x, offset=1), lambda x: x.diagonal(1, -2, -1), [CUBE]),
    "trace": (lambda x: L.trace(x), lambda x: x.diagonal(0, -2, -1).sum(-1), [CUBE]),
    "det": (L.det, _T.det, [STACK]),
    "slogdet": (lambda x: L.slogdet(x)[1], lambda x: _T.slogdet(x)[1], [STACK]),
    "inv": (L.inv, _T.inv, [STACK]),
    "matrix_power": (lambda x: L.matrix_power(x, -2), lambda x: _T.matrix_power(x, -2), [STACK]),
    "cholesky": (
        lambda x: L.cholesky(x @ x.mT, upper=True),
        lambda x: _T.cholesky(x @ x.mT, upper=True),
        [STACK],
    ),
    "qr": (lambda x: L.qr(x).R.abs(), lambda x: _T.qr(x).R.abs(), [STACK]),
    "eigh": (lambda x: L.eigh(x + x.mT)[1].abs(), lambda x: _T.eigh(x + x.mT)[1].abs(), [SQUARE]),
    "eigvalsh": (lambda x: L.eigvalsh(x + x.mT), lambda x: _T.eigvalsh(x + x.mT), [STACK]),
    "svd": (
        lambda x: L.svd(x, full_matrices=False).U.abs(),
        lambda x: _T.svd(x, full_matrices=False).U.abs(),
        [CUBE],
    ),
    "svdvals": (L.svdvals, _T.svdvals, [CUBE]),
    "pinv": (L.pinv, _T.pinv, [CUBE]),
    "solve": (L.solve, lambda x, y: _T.solve(x, y.expand(2, 4, 3, 2)), [STACK, STACK[:, :1, :, :2].copy()]),
    "solve broadcasting x1": (L.solve, lambda x, y: _T.solve(x.expand(2, 4, 3, 3), y), [SQUARE, STACK]),
    "solve vector": (L.solve, lambda x, y: _T.solve(x, y.expand(2, 4, 3)), [STACK, TRIPLES[0]]),
    "vector_norm": (lambda x: L.vector_norm(x, axis=(0, 2), ord=3), lambda x: _T.vector_norm(x, 3, (0, 2)), [CUBE]),
    "matrix_norm": (lambda x: L.matrix_norm(x, ord="nuc"), lambda x: _T.matrix_norm(x, "nuc"), [CUBE]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    check_gradient(*GRADIENTS[name])


# -- wrong calls ------------------------------------------------------------------------------------------------------

LINALG_ERROR = ej.linalg.LinAlgError
MATRICES = (
    "cholesky", "det", "diagonal", "eigh", "eigvalsh", "inv", "matrix_norm", "matrix_rank", "matrix_transpose", "pinv",
    "qr", "slogdet", "svd", "svdvals", "trace",
)  # fmt: skip
WRONG: dict[str, tuple[Any, Any]] = {
    **{f"{name} of a vector": (lambda v, m, n=name: getattr(L, n)(v), (ValueError, RuntimeError)) for name in MATRICES},
    **{f"{name} of a list": (lambda v, m, n=name: getattr(L, n)([[1.0]]), TypeError) for name in MATRICES},
    **{
        f"{name} of rectangles": (lambda v, m, n=name: getattr(L, n)(m), RuntimeError)
        for name in ("cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet")
    },
    "matrix_power of rectangles": (lambda v, m: L.matrix_power(m, 2), RuntimeError),
    "matrix_power of a fraction": (lambda v, m: L.matrix_power(m @ m.mT, 0.5), TypeError),
    "inv of a singular matrix": (lambda v, m: L.inv(ej.tensor(SINGULAR)), LINALG_ERROR),
    "cholesky of an indefinite matrix": (lambda v, m: L.cholesky(-ej.eye(2)), LINALG_ERROR),
    "solve a singular matrix": (lambda v, m: L.solve(ej.tensor(SINGULAR), ej.eye(2).double()), LINALG_ERROR),
    "solve a rectangle": (lambda v, m: L.solve(m, v), RuntimeError),
    "solve what does not fit": (lambda v, m: L.solve(ej.eye(3).double(), v), ValueError),
    "solve a number": (lambda v, m: L.solve(ej.eye(3).double(), v.sum()), ValueError),
    "matmul of numbers": (lambda v, m: xp.matmul(v.sum(), m), RuntimeError),
    "matmul that does not fit": (lambda v, m: xp.matmul(m, m), RuntimeError),
    "matmul of vectors that do not fit": (lambda v, m: xp.matmul(v, v[:3]), RuntimeError),
    "matmul of stacks that do not fit": (lambda v, m: xp.matmul(ej.ones(2, 3, 3), ej.ones(4, 3, 3)), RuntimeError),
    "tensordot that does not fit": (lambda v, m: xp.tensordot(m, m.mT), ValueError),
    "tensordot does not broadcast": (lambda v, m: xp.tensordot(m[:, :1], m, axes=1), ValueError),
    "tensordot of too many axes": (lambda v, m: xp.tensordot(v, v, axes=2), ValueError),
    "tensordot of a negative number": (lambda v, m: xp.tensordot(v, v, axes=-1), ValueError),
    "tensordot of other counts": (lambda v, m: xp.tensordot(m, m, axes=((0, 1), (0,))), ValueError),
    "tensordot repeated": (lambda v, m: xp.tensordot(m, m, axes=((0, 0), (0, 0))), ValueError),
    "tensordot at no axis": (lambda v, m: xp.tensordot(m, m, axes=((2,), (0,))), IndexError),
    "vecdot that does not fit": (lambda v, m: xp.vecdot(v, v[:3]), ValueError),
    "vecdot does not broadcast its axis": (lambda v, m: xp.vecdot(v, v[:1]), ValueError),
    "vecdot at a positive axis": (lambda v, m: xp.vecdot(m, m, axis=0), ValueError),
    "vecdot at no axis": (lambda v, m: xp.vecdot(m, v, axis=-2), IndexError),
    "vecdot of numbers": (lambda v, m: xp.vecdot(v.sum(), v.sum()), IndexError),
    "cross of four": (lambda v, m: L.cross(v, v), ValueError),
    "cross does not broadcast its axis": (lambda v, m: L.cross(v[:3], v[:1]), ValueError),
    "cross at a positive axis": (lambda v, m: L.cross(m, m, axis=0), ValueError),
    "cross at no axis": (lambda v, m: L.cross(v[:3], v[:3], axis=-2), IndexError),
    "outer of matrices": (lambda v, m: L.outer(m, v), ValueError),
    "qr in another mode": (lambda v, m: L.qr(m, mode="r"), ValueError),
    "vector_norm of integers": (lambda v, m: L.vector_norm(m.int()), RuntimeError),
    "vector_norm at no axis": (lambda v, m: L.vector_norm(m, axis=2), IndexError),
    "vector_norm of another order": (lambda v, m: L.vector_norm(v, ord="fro"), TypeError),
    "matrix_norm of another order": (lambda v, m: L.matrix_norm(m, ord="max"), RuntimeError),
    "matrix_norm of the third order": (lambda v, m: L.matrix_norm(m, ord=3), RuntimeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise(name: str) -> None:
    call, error = WRONG[name]
    with pytest.raises(error):
        call(*tensors([VECTOR, MATRIX.astype(np.float64)]))
