"""DLPack with PyTorch, NumPy and JAX; NumPy's functions on tensors; memory that is shared both ways."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import outcome

import eagerjit as ej
from eagerjit.runtime import dtypes

NAMES = [d.name for d in dtypes.ALL]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)], ids=str)
def test_dlpack_with_torch(name: str, shape: tuple[int, ...]) -> None:
    ours = ej.ones(shape).to(getattr(ej, name))
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype is getattr(torch, name) and tuple(theirs.shape) == shape and theirs.tolist() == ours.tolist()
    back = ej.from_dlpack(theirs)
    assert back.dtype is ours.dtype and tuple(back.shape) == shape and back.tolist() == ours.tolist()
    ours.zero_()
    assert theirs.tolist() == back.tolist() == ours.tolist()
    theirs.fill_(1)
    assert back.tolist() == ours.tolist() == theirs.tolist()
    back.zero_()
    assert theirs.tolist() == ours.tolist()


def test_dlpack_keeps_strides_and_memory_alive() -> None:
    matrix = ej.arange(6.0).view(2, 3)
    theirs = torch.from_dlpack(matrix.T[1:])
    assert theirs.stride() == (1, 3) and theirs.tolist() == [[1, 4], [2, 5]]
    strided = ej.from_dlpack(torch.arange(12.0).view(3, 4).T[::2])
    assert strided.stride() == (2, 4) and strided.tolist() == [[0, 4, 8], [2, 6, 10]]
    expanded = torch.from_dlpack(ej.ones(1).expand(3))
    assert expanded.stride() == (0,) and expanded.tolist() == [1, 1, 1]
    del matrix
    assert theirs.tolist() == [[1, 4], [2, 5]]
    assert ej.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1, 1]
    assert torch.from_dlpack(ej.utils.dlpack.to_dlpack(ej.ones(2))).tolist() == [1, 1]


def test_dlpack_with_numpy() -> None:
    x = ej.arange(3.0)
    array = np.from_dlpack(x)
    x.add_(1)
    assert array.tolist() == [1, 2, 3] and ej.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    copied = ej.from_dlpack(np.ones(2), copy=True)
    assert copied.dtype is ej.float64 and x.__dlpack_device__() == (1, 0)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "gradient": lambda t: t.ones(2, requires_grad=True).__dlpack__(),
    "a number": lambda t: t.from_dlpack(3),
    "dtype": lambda t: t.from_dlpack(np.array(["a"])),
    "used up": lambda t: [t.from_dlpack(c) for c in [t.utils.dlpack.to_dlpack(t.ones(1))] * 2],
}


@pytest.mark.parametrize("name", REFUSED)
def test_dlpack_refuses(name: str) -> None:
    (_, found), (_, expected) = (outcome(REFUSED[name], library, []) for library in (ej, torch))
    assert expected is not None and type(found) is type(expected)


def test_dlpack_names_other_devices() -> None:
    with pytest.raises(BufferError, match="device"):
        ej.ones(2).__dlpack__(dl_device=(2, 0))


def unary(name: str) -> Callable[..., Any]:
    return lambda x, y: getattr(np, name)(x)


def binary(name: str) -> Callable[..., Any]:
    return lambda x, y: getattr(np, name)(x, y)


A = np.linspace(0.1, 0.9, 6).reshape(2, 3)
B = np.linspace(-2.0, 3.0, 6).reshape(2, 3) + 0.05

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: unary(name) for name in (
        "exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh "
        "arcsinh arctanh negative absolute fabs sign floor ceil trunc rint isnan isfinite sum mean prod max min "
        "any all argmax cumsum transpose cbrt median ptp ravel sort var std"
    ).split()},
    **{name: binary(name) for name in (
        "add subtract multiply divide true_divide floor_divide power maximum minimum fmax fmin arctan2 hypot logaddexp "
        "remainder greater less_equal equal not_equal logical_and heaviside copysign allclose array_equal"
    ).split()},
    "sum of an axis": lambda x, y: np.sum(x, axis=0),
    "mean keeping": lambda x, y: np.mean(x, axis=1, keepdims=True),
    "max of an axis": lambda x, y: np.max(x, axis=-1),
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "concatenate axis": lambda x, y: np.concatenate((x, y), axis=1),
    "stack": lambda x, y: np.stack([x, y], axis=1),
    "where": lambda x, y: np.where(y > 0, x, y),
    "clip": lambda x, y: np.clip(y, -1.0, 1.0),
    "matmul": lambda x, y: np.matmul(x, y.T),
    "dot": lambda x, y: np.dot(x[0], y[0]),
    "outer": lambda x, y: np.outer(x[0], y[0]),
    "dot of matrices": lambda x, y: np.dot(x, y.T),
    "dot of many": lambda x, y: np.dot(x[None], y[0]),
    "outer of matrices": np.outer,
    "outer with an array": lambda x, y: np.outer(A, y),
    "einsum": lambda x, y: np.einsum("ij,ij->i", x, y),
    "reshape": lambda x, y: np.reshape(x, (3, 2)),
    "array first": lambda x, y: A + x,
    "array second": lambda x, y: x * A,
    "0-d array": lambda x, y: x[0, 0] - np.asarray(2.0),
    "reversed array": lambda x, y: x + A[::-1],
    "number": lambda x, y: np.add(x, 2),
    "list": lambda x, y: np.subtract(x, [1, 2, 3]),
    "tuple first": lambda x, y: np.hypot((1.0, 2.0, 3.0), y),
    "list of rows": lambda x, y: np.less(x, [[0.5], [0.2]]),
    "list of elements": lambda x, y: np.maximum([x[0, 0], y[0, 1], x[0, 2]], y),
    "matmul with a list": lambda x, y: np.matmul(x, [1, 2, 3]),
    "float first": lambda x, y: np.float64(2.0) * x,
    "add reduce": lambda x, y: np.add.reduce(x),
    "percentile": lambda x, y: np.percentile(x, 30),
    "linalg norm": lambda x, y: np.linalg.norm(x),
    "histogram": lambda x, y: np.histogram(x, 3),
    "split": lambda x, y: np.split(x, 2),
}  # fmt: skip
PLAIN = {"allclose", "array_equal"}


def given_by_torch(name: str) -> Any:
    """Results of the function on PyTorch's tensors; None where it refuses them."""
    try:
        with np.errstate(all="ignore"):
            return FUNCTIONS[name](torch.tensor(A), torch.tensor(B))
    except (TypeError, ValueError, RuntimeError):
        return None


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_functions(name: str, compiled: bool) -> None:
    """Values are NumPy's; what PyTorch gives as arrays are arrays, compiled or not."""
    function = ej.jit(FUNCTIONS[name]) if compiled else FUNCTIONS[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's functions run eagerly
        expected = FUNCTIONS[name](A, B)
        found = function(ej.tensor(A), ej.tensor(B))
    if name in PLAIN:
        assert found == expected and not isinstance(found, ej.Tensor)
        return
    others = given_by_torch(name)
    if not isinstance(expected, (tuple, list)):
        found, expected, others = [found], [expected], [others]
    for ours, theirs, other in zip(found, expected, others or [None] * len(expected), strict=True):
        assert tuple(ours.shape) == np.shape(theirs)
        arrays = np.ndarray, np.generic
        assert type(ours) is type(other) or (isinstance(ours, ej.Tensor) and not isinstance(other, arrays))
        np.testing.assert_allclose(ours.numpy() if isinstance(ours, ej.Tensor) else ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("other", [[1, 2], (0.5, 2.0), [True, False], np.array([1.0, 3.0]), []], ids=str)
def test_numpy_functions_promote_lists_as_arrays(other: Any, compiled: bool) -> None:
    """Lists have NumPy's dtypes: Python's floats are float64."""
    x = np.float32([1, 2])[: len(other)]
    for function in (np.add, np.multiply, np.maximum, np.matmul):
        call = ej.jit(lambda t, given: function(t, given)) if compiled else function  # noqa: B023
        found = call(ej.tensor(x), other)
        expected = function(torch.tensor(x), other)
        if np.asarray(other).dtype.kind == "f":
            assert str(found.dtype) == str(expected.dtype)
        np.testing.assert_allclose(found.numpy(), expected.numpy())


def test_numpy_functions_refuse_lists_that_are_no_arrays() -> None:
    for other, error in (([[1.0], [1.0, 2.0]], ValueError), (["a", "b"], TypeError)):
        for ones in (torch.ones(2), ej.ones(2)):
            with pytest.raises(error):
                np.add(ones, other)


def test_numpy_functions_of_lists() -> None:
    parts = [ej.ones(2), ej.zeros(1)]
    assert np.concatenate(parts).astype(int).tolist() == [1, 1, 0]
    assert np.stack([p.sum() for p in parts]).tolist() == [2.0, 0.0]


RECORDED = [
    "exp",
    "log",
    "sqrt",
    "tanh",
    "arctan2",
    "sum",
    "mean of all",
    "concatenate",
    "where",
    "einsum",
    "array first",
]


@pytest.mark.parametrize("name", [n for n in RECORDED if n in FUNCTIONS])
def test_numpy_functions_record_gradients(name: str) -> None:
    x, y = ej.tensor(A, requires_grad=True), ej.tensor(B.copy())
    y = y if name != "log" else y.abs()
    result = FUNCTIONS[name](x, y)
    result.sum().backward()
    assert x.grad is not None and bool((x.grad != 0).any())
    if name == "exp":
        np.testing.assert_allclose(x.grad.numpy(), np.exp(A))


def test_numpy_functions_without_an_own_one_refuse_gradients() -> None:
    x = ej.ones(3, requires_grad=True)
    for function in (np.cbrt, np.median, np.sort):
        with pytest.raises(RuntimeError, match=r"Can't call numpy\.\w+ on Tensor that requires grad"):
            function(x)
    out = ej.zeros(2)
    assert np.add(ej.ones(2), 1, out=out) is out and out.tolist() == [2, 2]
    assert np.cbrt(ej.tensor([8.0, 27.0]), out=out).tolist() == pytest.approx([2, 3]) and out.tolist() == pytest.approx(
        [2, 3]
    )
    array = np.zeros(2)
    np.add(ej.ones(2), 1, out=array)
    assert array.tolist() == [2, 2]


def test_numpy_functions_stay_compiled() -> None:
    def function(x: Any) -> Any:
        return np.sum(np.exp(x) * 2 + np.where(x > 0, x, 0.0))

    jitted, x = ej.jit(function, fullgraph=True), ej.tensor([0.5, -1.0, 2.0])
    assert jitted(x).item() == function(x).item() and jitted.cache_info().compiles == 1


def test_arrays_share_memory_both_ways() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = ej.from_numpy(array)
    x.add_(1)
    assert array[0, 0] == 1 and x.numpy() is not array and np.shares_memory(x.numpy(), array)
    array[0, 0] = 7
    assert x[0, 0].item() == 7 and np.shares_memory(np.asarray(x.T), array)
    assert np.array(x).base is None and not np.shares_memory(np.array(x), array)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    "name",
    "maximum minimum fmax fmin arctan2 hypot logaddexp logical_and logical_xor fmod copysign greater equal".split(),
)
def test_numpys_functions_take_numbers_first_or_second(name):
    for arguments in (lambda x: (x, 0.5), lambda x: (0.5, x), lambda x: (x, x * 2)):
        found, expected = (getattr(np, name)(*arguments(t.ones(2, 3))) for t in (ej, torch))
        assert isinstance(found, ej.Tensor)
        np.testing.assert_allclose(found.tolist(), expected.tolist(), rtol=1e-6)


@pytest.mark.parametrize("t", [ej, torch])
def test_tensors_over_arrays_of_derived_classes(t: Any, tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "numbers", "float32", "w+", shape=(4,))
    matrix = np.matrix([[1.0, 2], [3, 4]], dtype=np.float32)
    for array, sums in ((mapped, [4.0]), (matrix, [4.0, 6.0]), (matrix.T, [3.0, 7.0])):
        x = t.from_numpy(array)
        if array is mapped:
            x += 1
        total = x.sum(0)
        assert np.asarray(array).tolist() == x.tolist() and x[0].ndim == x.ndim - 1
        assert total.reshape(-1).tolist() == sums
    view = t.from_numpy(matrix[:, 1:])
    view *= t.tensor([2])
    assert matrix.tolist() == [[1, 4], [3, 8]] and (view @ view.T).shape == (2, 2)
