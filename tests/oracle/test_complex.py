"""Complex numbers against PyTorch: values, dtypes, gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit
from eagerjit.jit import JitWarning, jit
from eagerjit.ops.pointwise import POINTWISE

RANDOM = np.random.default_rng(0)
Z, Y = (RANDOM.standard_normal((3, 3)) + 1j * RANDOM.standard_normal((3, 3)) for _ in range(2))
X = RANDOM.standard_normal((3, 3))


INFINITY, NAN = float("inf"), float("nan")


def weighed(t: Any, results: list[Any]) -> Any:
    """A real number that depends on all parts of all results."""
    total: Any = 0
    for i, y in enumerate(results):
        weights = np.random.default_rng(7 + i).standard_normal(tuple(y.shape))
        if y.is_complex():
            total = total + (y.real * t.tensor(weights)).sum() + (y.imag * t.tensor(weights * 0.7 + 0.1)).sum()
        elif y.requires_grad:
            total = total + (y * t.tensor(weights).to(y.dtype)).sum()
    return total


def outcome(t: Any, function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> tuple[Any, Any, Any]:
    """(results, gradients, error)."""
    tensors = [t.tensor(a).requires_grad_() for a in arrays]
    try:
        found = function(t, *tensors)
    except Exception as error:  # whatever the other library raises is what is expected
        return None, None, error
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    if any(r.requires_grad for r in results):
        weighed(t, results).backward()
    return results, [x.grad for x in tensors], None


def compare(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    ours, own_gradients, own_error = outcome(eagerjit, function, arrays)
    theirs, gradients, error = outcome(torch, function, arrays)
    if error is not None:
        assert isinstance(own_error, type(error)), f"{own_error!r} where PyTorch raises {error!r}"
        return
    if own_error is not None:
        raise own_error
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).rpartition(".")[2] == str(b.dtype).rpartition(".")[2]
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().resolve_conj().numpy(), rtol=1e-8, atol=1e-8)
    for a, b in zip(own_gradients, gradients, strict=True):
        if b is None:
            assert a is None
        else:
            np.testing.assert_allclose(a.numpy(), b.resolve_conj().numpy(), rtol=1e-8, atol=1e-8)


NAMES = """abs conj angle exp log sin cos tan sinh cosh tanh sqrt rsqrt reciprocal square neg sgn sum mean prod real
imag asin acos atan asinh acosh atanh log2 log10 sigmoid log1p expm1 isfinite isnan isreal var std norm clone tril triu
flipud diagonal""".split()
CASES: dict[str, Any] = {
    **{name: lambda t, z, name=name: getattr(t, name)(z) for name in NAMES},
    "cumsum": lambda t, z: t.cumsum(z, 1),
    "cumprod": lambda t, z: t.cumprod(z, 1),
    "logcumsumexp": lambda t, z: t.logcumsumexp(z, 1),
    "logcumsumexp of large ones": lambda t, z: t.logcumsumexp(z * 30, 0),
    "logcumsumexp of a number": lambda t, z: t.logcumsumexp(z[0, 0], 0),
    "logcumsumexp of what turns": lambda t, z: t.logcumsumexp(z * t.tensor([1, 9j, -7j]), 1),
    "logcumsumexp of infinities": lambda t, z: t.logcumsumexp(
        t.tensor([complex(-INFINITY, 0), 1, 3j, complex(INFINITY, 3), 2, complex(0, NAN), 1]), 0
    ),
    "var1": lambda t, z: z.var(1),
    "vr": lambda t, z: t.view_as_real(z),
    "vc": lambda t, z: t.view_as_complex(t.view_as_real(z) * 2),
    "pow2": lambda t, z: z**2,
    "pow3": lambda t, z: z**3,
    "pow.5": lambda t, z: z**0.5,
    "powc": lambda t, z: z ** (1 + 2j),
    "rpow": lambda t, z: (2 + 1j) ** z,
    "scal": lambda t, z: (2 - 1j) * z + 3,
    "div": lambda t, z: 1 / z,
    "divc": lambda t, z: z / (1 + 1j),
    "re": lambda t, z: z.real * z.imag,
    "H": lambda t, z: z.H @ z,
    "idx": lambda t, z: z[1:, [0, 2]],
    "cat": lambda t, z: t.cat([z, z.conj()]),
    "stack": lambda t, z: t.stack([z, z]),
    "abs2": lambda t, z: z.abs() ** 2,
    "sub": lambda t, z: z - z.mean(0),
    "mT": lambda t, z: z.mT * z,
    "einsum": lambda t, z: t.einsum("ij,kj->ik", z, z.conj()),
    "gather": lambda t, z: z.gather(1, t.tensor([[0], [1], [2]])),
    "where": lambda t, z: t.where(z.real > 0, z, 0),
    "where of a real tensor": lambda t, z: t.where(z.real > 0, z.real, 1j) + t.where(z.real > 0, 2 - 1j, z.imag),
    "where of integers": lambda t, z: t.where(z.real > 0, (z.real > 1).int(), 1j),
    "mf": lambda t, z: z.masked_fill(z.real > 0, 2j),
    "lt": lambda t, z: z < z,
    "max": lambda t, z: z.max(),
    "floor": lambda t, z: z.floor(),
    "isclose": lambda t, z: t.isclose(z, z),
    "eq": lambda t, z: z == z,
    "tof": lambda t, z: z.to(t.complex64),
    "sort": lambda t, z: z.sort(),
    "vecdot": lambda t, z: t.linalg.vecdot(z, z),
    "norm1": lambda t, z: t.linalg.norm(z, 1, dim=1),
    "inner": lambda t, z: t.inner(z, z),
    "vdot": lambda t, z: t.vdot(z[0], z[1]),
    "rsum": lambda t, z: z.sum((0, 1)),
    "exp2d": lambda t, z: (z * z.conj()).real,
    "index_add": lambda t, z: z.index_add(0, t.tensor([0, 0]), z[:2]),
    "expand": lambda t, z: z[0].expand(3, 3) * z,
    "kron": lambda t, z: t.kron(z, z),
    "outer": lambda t, z: t.outer(z[0], z[1]),
    "repeat": lambda t, z: z.repeat(2, 1),
    "flip": lambda t, z: z.flip(0),
    "trace": lambda t, z: z.trace(),
    "logical": lambda t, z: t.logical_not(z),
    "nonzero": lambda t, z: t.nonzero(z),
    "inv": lambda t, z: t.linalg.inv(z),
    "det": lambda t, z: t.linalg.det(z),
    "logdet": lambda t, z: t.logdet(z),
    "slogdet": lambda t, z: t.linalg.slogdet(z)[1],
    "solve": lambda t, z: t.linalg.solve(z, z @ z),
    "qr": lambda t, z: t.linalg.qr(z)[1].abs(),
    "svd": lambda t, z: t.linalg.svdvals(z),
    "svdp": lambda t, z: (lambda u, s, v: (u * s) @ v)(*t.linalg.svd(z)),
    "eigh": lambda t, z: t.linalg.eigvalsh(z + z.mH),
    "chol": lambda t, z: t.linalg.cholesky(z @ z.mH + t.eye(3, dtype=z.dtype)),
    "pinv": lambda t, z: t.linalg.pinv(z),
    "mexp": lambda t, z: t.linalg.matrix_exp(z),
    "eigv": lambda t, z: t.linalg.eigvals(z).abs().sum(),
    "st": lambda t, z: t.linalg.solve_triangular(z + 3 * t.eye(3, dtype=z.dtype), z, upper=True),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    compare(CASES[name], Z)


PAIRS: dict[str, Any] = {
    "add": lambda t, a, b: a + b,
    "mul": lambda t, a, b: a * b,
    "div": lambda t, a, b: a / b,
    "mm": lambda t, a, b: a @ b,
    "sub": lambda t, a, b: a - b * 2,
    "pow": lambda t, a, b: a**b,
    "addmm": lambda t, a, b: t.addmm(a, a, b, beta=0.5, alpha=2),
    "where": lambda t, a, b: t.where(a.abs() > 1, a, b),
    "dot": lambda t, a, b: t.dot(a[0], b[0]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    compare(PAIRS[name], Z, Y)
    if name not in ("mm", "addmm", "dot", "where"):  # PyTorch refuses one real operand, or its gradient
        compare(PAIRS[name], Z, X)
        compare(PAIRS[name], np.abs(X), Z)


MADE: dict[str, Any] = {
    "complex": lambda t, a, b: t.complex(a, b),
    "polar": lambda t, a, b: t.polar(a.abs(), b),
    "mixed": lambda t, a, b: t.complex(a, b.float()),
}


@pytest.mark.parametrize("name", MADE)
def test_made_of_parts(name: str) -> None:
    compare(MADE[name], X, X * 2)


REAL: dict[str, Any] = {
    "angle": lambda t, x: t.angle(x),
    "conj": lambda t, x: x.conj(),
    "real": lambda t, x: x.real * 2,
    "imag": lambda t, x: x.imag,
    "xz": lambda t, x: (x * 1j).abs(),
    "toc": lambda t, x: x.to(t.complex128) * (1 + 1j),
    "eig": lambda t, x: t.linalg.eigvals(x).abs().sum(),
    "eigvec": lambda t, x: t.linalg.eig(x)[1].abs(),
    "vc": lambda t, x: t.view_as_complex(x[:, :2].contiguous()),
    "vcbad": lambda t, x: t.view_as_complex(x),
}


@pytest.mark.parametrize("name", REAL)
def test_of_real_numbers(name: str) -> None:
    compare(REAL[name], X)


EMPTY = {name: CASES[name] for name in ("abs", "exp", "sum", "conj", "real", "angle", "mean")}
EMPTY["logcumsumexp"] = lambda t, z: t.logcumsumexp(z, 0)


@pytest.mark.parametrize("shape", [(0, 3), (), (1,)])
@pytest.mark.parametrize("name", EMPTY)
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    compare(EMPTY[name], np.full(shape, 0.5 - 2j))


def test_parts_share_memory() -> None:
    for t in (eagerjit, torch):
        z = t.tensor(Z)
        z.real.mul_(2)
        z.imag[0] = 3
        t.view_as_real(z)[1].zero_()
        z.add_(1j)
        z[2] *= 2 - 1j
        if t is eagerjit:
            found = z.numpy()
    np.testing.assert_allclose(found, z.numpy())
    pairs = np.arange(6.0).reshape(3, 2)
    shared = eagerjit.view_as_complex(eagerjit.from_numpy(pairs))
    shared *= 2
    assert pairs[1].tolist() == [4.0, 6.0]


def test_types() -> None:
    operands = [lambda t: 1j, lambda t: t.tensor(1j), lambda t: t.ones(2), lambda t: t.ones(2).double(),
                lambda t: t.ones(2, dtype=t.complex64), lambda t: t.tensor(2),
                lambda t: t.ones(2, dtype=t.complex128)]  # fmt: skip
    for first in operands:
        for second in operands:
            ours, theirs = ((first(t), second(t)) for t in (eagerjit, torch))
            if not any(isinstance(x, torch.Tensor) for x in theirs):
                continue
            assert eagerjit.result_type(*ours).name == str(torch.result_type(*theirs)).removeprefix("torch.")
    assert eagerjit.tensor([1, 2j]).dtype is eagerjit.complex64 and eagerjit.tensor(1 + 2j).item() == 1 + 2j
    assert eagerjit.complex64.is_complex and not eagerjit.complex64.is_floating_point
    assert repr(eagerjit.tensor([1 + 2j, 0.5 - 1j])) == repr(torch.tensor([1 + 2j, 0.5 - 1j]))


EAGERLY = dict.fromkeys(("prod", "cumprod", "sort"), "complex numbers are computed by NumPy")
"""What a compiled function says of operations that have no form in real and imaginary parts."""


def both(function: Callable[..., Any]) -> Any:
    """Results of a function of a complex matrix, and the gradient."""
    z = eagerjit.tensor(Z).requires_grad_()
    results = function(z)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    if any(r.requires_grad for r in results):
        weighed(eagerjit, results).backward()
    found = [r.detach().contiguous().numpy() for r in (*results, z.grad) if r is not None]
    return [(a.dtype, a.shape, a.tobytes()) for a in found]


@pytest.mark.parametrize("name", CASES)
def test_jitted_is_eager(name: str) -> None:
    def plain(z: Any) -> Any:
        return CASES[name](eagerjit, z)

    try:
        expected = both(plain)
    except (NotImplementedError, RuntimeError) as error:
        with pytest.raises(type(error)):
            both(jit(plain))
        return
    if name in EAGERLY:
        with pytest.warns(JitWarning, match=EAGERLY[name]):
            assert both(jit(plain)) == expected
    else:
        assert both(jit(plain, fullgraph=True)) == expected


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e18])
@pytest.mark.parametrize("name", "abs sqrt log exp tanh tan asin acos atan asinh acosh atanh reciprocal".split())
def test_parts_in_single_precision_are_exact_to_some_bits(name: str, scale: float) -> None:
    """Near poles and zeros, and where squares overflow: against double precision."""
    random = np.random.default_rng(0)
    parts = random.standard_normal((2, 2000)) * scale
    z = (parts[0] + 1j * parts[1] * 10.0 ** random.integers(-3, 4, 2000)).astype(np.complex64)
    expected = getattr(torch, name)(torch.tensor(z.astype(np.complex128))).numpy()
    found = getattr(eagerjit, name)(eagerjit.tensor(z)).numpy()
    normal = (np.abs(expected) < 3e38) & (np.abs(expected) > 1e-37)
    errors = np.abs(found[normal] - expected[normal]) / np.abs(expected[normal])
    assert errors.max(initial=0.0) < 5e-6


def test_numbers_compile_once() -> None:
    z = eagerjit.tensor(Z)
    operation = type(z).__mul__
    for k in range(5):
        np.testing.assert_allclose(operation(z, complex(0.5, k)).numpy(), Z * complex(0.5, k), rtol=1e-14)
    before = len(POINTWISE["mul"].programs)
    (z * (3 + 4j)), (z * 1j)
    assert len(POINTWISE["mul"].programs) == before


def test_parts_are_written_in_compiled_functions() -> None:
    def write(z: Any) -> Any:
        z.real.add_(1.0)
        z.imag[0] = 3.0
        eagerjit.view_as_real(z)[1, 1] = 7.0
        return z.sum()

    for given in (Z, Z.T):
        ours, other = (eagerjit.from_numpy(given.copy(order="K")) for _ in range(2))
        assert write(ours).item() == jit(write, fullgraph=True)(other).item()
        assert ours.tolist() == other.tolist() and ours.tolist() != given.tolist()


TANGENTS = {
    "product": lambda t, x: x * x,
    "size": lambda t, x: x.abs(),
    "quotient": lambda t, x: x / (1 + x),
    "conjugate": lambda t, x: x.conj() * x,
    "parts": lambda t, x: t.complex(x.real, x.imag * 2),
    "transform": lambda t, x: t.fft.fft(x).abs(),
    "angle": lambda t, x: t.angle(x),
    "power": lambda t, x: x**3,
    "view": lambda t, x: t.view_as_real(x),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_tangents_at_complex_points(name):
    def tangent(t):
        x, v = t.tensor([1 + 2j, 0.5 - 1j]), t.tensor([1j, 1.0 + 0.5j])
        return t.func.jvp(lambda x: TANGENTS[name](t, x), (x,), (v,))

    for found, expected in zip(tangent(eagerjit), tangent(torch), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limits", [{"max": 1j}, {"min": 1j}, {"min": 0, "max": 1j}])
def test_complex_limits_are_refused(limits):
    def clamped(t, x):
        return x.clamp(**limits)

    with pytest.raises(NotImplementedError):
        torch.arange(3).clamp(**limits)
    with pytest.raises(NotImplementedError):
        clamped(eagerjit, eagerjit.arange(3))
    with pytest.raises(NotImplementedError):
        eagerjit.jit(clamped)(eagerjit, eagerjit.arange(3))
