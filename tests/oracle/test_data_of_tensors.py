"""What `tensor` and its like take for data, and what they refuse, against PyTorch."""

from __future__ import annotations

import array
from collections import UserDict, UserList, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracle import agree

import eagerjit


class Pair:
    """A sequence of two numbers."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> float:
        return (1, 2.5)[i]


TENSORS: tuple[Callable[[Any], Any], ...] = (
    lambda t: [t.tensor([1.0]), t.tensor([2.0])],
    lambda t: [t.tensor([1.0]), 2],
    lambda t: [2, t.tensor([[1.5]], dtype=t.float64)],
    lambda t: [t.ones(2), t.ones(2)],
    lambda t: [t.tensor([])],
    lambda t: [[t.tensor([1.0])], [t.tensor([[2]])]],
    lambda t: [[1, 2], t.ones(2)],
    lambda t: [[1, 2], t.ones(2, 1)],
    lambda t: [[1, 2], t.ones(3)],
    lambda t: [[1, 2], t.tensor(3)],
    lambda t: [t.ones(2), [1, 2]],
    lambda t: [t.tensor(1, dtype=t.uint8), t.tensor([2], dtype=t.int16)],
    lambda t: [t.tensor(1.0, dtype=t.float16), t.tensor(2.0, dtype=t.bfloat16)],
    lambda t: [t.tensor(1.5, requires_grad=True)],
    lambda t: [t.tensor(True), t.tensor(300)],
    lambda t: [t.tensor(2.5j), 1],
)
DATA: tuple[Any, ...] = (
    deque([1, 2]), array.array("d", [1, 2]), array.array("i", [1, 2]), memoryview(b"ab"), bytearray(b"ab"), Pair(),
    [Pair(), (3, 4)], UserList([1, 2.5]), UserDict({0: 1}), UserDict({1: 1}), {0: 1}, [[1], {2: 3}], {1, 2}, b"ab",
    [b"ab"], "ab", None, Fraction(1, 2), [Fraction(1, 2)], [Decimal("0.5")], ["a", "b"], ["1.5", "2"], [1, "a"],
    [[1, "a"]], [""], [1.0, None], [None, 1.0], [None], [object()], [1, [2]], [[1], 2], [[1], [2, 3]], [[1], [[2]]],
    [[], [1]], [[1], []], [[], []], [], [[1, 2], "ab"], np.array([1, 2], dtype=object), np.array(["1"]),
    [np.array([1, 2], dtype=object)], [np.float32(1.5)], [np.float64(1.5)], np.float32(1.5), [np.float64(300)],
    [np.int64(300)], [np.int64(-1)], [np.array([300])], [np.array([1.5, 2], np.float32), [1, 2]], [np.array(1.5), 1],
    [np.bool_(True)], [np.complex64(1)], [np.int32(1), 2.5], [10**400], [2**63], [1e39, 1], [float("nan")], [1j], 1j,
    [True, 1.5], [True, 2], range(3), [range(2), [3, 4]],
)  # fmt: skip
DTYPES = (None, "float32", "float16", "int64", "uint8", "bool", "complex64")


def _real_of_complex(made: Any, dtype: str | None) -> bool:
    return made is TENSORS[-1] and dtype in ("float32", "float16")  # refused here by another class of errors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", range(len(TENSORS)))
@pytest.mark.filterwarnings("ignore")
def test_tensors_in_lists_are_numbers(number: int, dtype: str | None) -> None:
    data = TENSORS[number]
    if not _real_of_complex(data, dtype):
        agree(lambda t: t.tensor(data(t), dtype=getattr(t, str(dtype), None)))


@pytest.mark.parametrize("number", range(len(TENSORS)))
@pytest.mark.parametrize("name", ["as_tensor", "asarray", "FloatTensor", "LongTensor", "Tensor", "new_tensor"])
def test_tensors_in_lists_are_numbers_elsewhere(name: str, number: int) -> None:
    data = TENSORS[number]
    if not (data is TENSORS[-1] and name in ("FloatTensor", "Tensor", "new_tensor")):
        agree(lambda t: t.ones(2).new_tensor(data(t)) if name == "new_tensor" else getattr(t, name)(data(t)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("data", DATA, ids=lambda data: type(data).__name__)
@pytest.mark.filterwarnings("ignore")
def test_data(data: Any, dtype: str | None) -> None:
    agree(lambda t: t.tensor(data, dtype=getattr(t, str(dtype), None)))


@pytest.mark.parametrize("data", [["a"], [None], Pair(), b"ab", deque([1, 2]), bytearray(b"ab"), {1: 2}, None, 1.5])
@pytest.mark.parametrize("name", ["FloatTensor", "Tensor", "as_tensor"])
def test_data_of_old_types(name: str, data: Any) -> None:
    agree(lambda t: getattr(t, name)(data))


@pytest.mark.parametrize("value", ["a", "1", b"1", None, [1], object(), np.array(1.0), np.str_("1"), np.float32(2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_fill(value: Any, dtype: str | None) -> None:
    agree(lambda t: t.full((2,), value, dtype=getattr(t, str(dtype), None)))
    agree(lambda t: t.full((5000,), value, dtype=getattr(t, str(dtype), None)))
    agree(lambda t: t.full_like(t.ones(2), value, dtype=getattr(t, str(dtype), None)))


def test_tensors_that_fill() -> None:
    agree(lambda t: t.full((2,), t.tensor(2)))
    agree(lambda t: t.full((2,), t.ones(1)))


def test_jitted_lists_of_tensors() -> None:
    def joined(x: Any, y: Any) -> Any:
        return eagerjit.tensor([x, y, 1])

    jitted = eagerjit.jit(joined)
    for x, y in ((eagerjit.ones(1, requires_grad=True), eagerjit.ones(1, 1).double()), (eagerjit.tensor(2), 3)):
        expected = joined(x, y)
        for _ in range(2):
            found = jitted(x, y)
            assert found.dtype is expected.dtype and found.equal(expected) and not found.requires_grad
    with pytest.raises(ValueError, match="one element"):
        jitted(eagerjit.ones(2), eagerjit.ones(2))


def test_jitted_sequences_are_read_at_every_call() -> None:
    numbers = deque([1.0, 2.0])
    jitted = eagerjit.jit(lambda x: x + eagerjit.tensor(numbers), fullgraph=True)
    assert jitted(eagerjit.ones(2)).tolist() == [2.0, 3.0]
    numbers[0] = 9.0
    assert jitted(eagerjit.ones(2)).tolist() == [10.0, 3.0]
    numbers.appendleft(4)
    assert jitted(eagerjit.ones(3)).tolist() == [5.0, 10.0, 3.0]
