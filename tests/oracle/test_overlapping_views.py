"""Writes to parts of views that show elements of their base several times: gradients are those of the base's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit

PARTS: dict[str, Any] = {
    "expand": lambda y: y.expand(3, 2, 4)[1],
    "expand of a slice": lambda y: y[:, 1:].expand(4, 2, 3)[2].t(),
    "expand of a column": lambda y: y[:, :1].expand(2, 5)[:, 3],
    "unfold": lambda y: y.unfold(1, 2, 1)[:, 1],
    "unfold apart": lambda y: y.unfold(0, 2, 2)[0],
    "as_strided": lambda y: y.as_strided((2, 2), (4, 1), 1),
    "as_strided overlapping": lambda y: y.as_strided((3, 2), (1, 1), 1)[2],
    "as_strided of a transposed view": lambda y: y.t().as_strided((2, 2), (4, 1), 1),
}
WRITES: dict[str, Any] = {
    "mul_": lambda v, w: v.mul_(w),
    "copy_": lambda v, w: v.copy_(w),
    "zero_": lambda v, w: v.zero_(),
    "add_": lambda v, w: v.add_(w * 2),
}


def written(t: Any, part: str, write: str, weighted: bool, jitted: bool) -> tuple[Any, ...]:
    x, w = t.arange(8.0).reshape(2, 4).requires_grad_(), t.tensor(3.0, requires_grad=True)

    def call(x: Any, w: Any) -> Any:
        y = x * 1
        part_ = PARTS[part](y)
        WRITES[write](part_, w)
        return y, part_

    y, part_ = (eagerjit.jit(call) if jitted else call)(x, w)
    ((y * t.arange(8.0).reshape(2, 4) if weighted else y).sum() + part_.sum()).backward()
    return y.tolist(), part_.tolist(), x.grad.tolist(), None if w.grad is None else w.grad.item()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore:.*It runs eagerly")
def test_gradients_are_those_of_torch(part: str, write: str) -> None:
    for weighted in (True, False):
        expected = written(torch, part, write, weighted, False)
        assert written(eagerjit, part, write, weighted, False) == expected
        assert written(eagerjit, part, write, weighted, True) == expected


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int64"])
def test_one_element_is_a_tensor_of_no_dimension(dtype: str) -> None:
    found = []
    for t in (eagerjit, torch):
        x = t.arange(16).reshape(4, 4).to(getattr(t, dtype))
        found.append([(y.as_strided((), (), 3) + 1).tolist() for y in (x, x.t(), x[1:, ::2])])
    assert found[0] == found[1]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.filterwarnings("ignore:.*It runs eagerly")
def test_one_number_fills_what_lies_in_one_place(jitted: bool) -> None:
    """PyTorch fills it too, and then has no gradient."""

    def call(x: Any, v: Any) -> Any:
        y = x * 1
        wide = y.reshape(2, 4, 1).expand(2, 4, 3)
        wide[1].fill_(v)
        return y, wide

    x, v = eagerjit.arange(8.0, requires_grad=True), eagerjit.tensor(3.0, requires_grad=True)
    y, wide = (eagerjit.jit(call) if jitted else call)(x, v)
    (y * eagerjit.arange(8.0) + wide.sum(2).flatten()).sum().backward()
    assert y.tolist() == [0, 1, 2, 3, 3, 3, 3, 3]
    assert wide[1].tolist() == [[3, 3, 3]] * 4
    assert x.grad.tolist() == [3, 4, 5, 6, 0, 0, 0, 0]
    assert v.grad.item() == 4 + 5 + 6 + 7 + 12


def test_windows_read_the_sizes_of_what_they_show() -> None:
    def gradient(t: Any) -> Any:
        x = t.arange(5.0, requires_grad=True)
        y = x * 1
        windows = y.unfold(0, 3, 1).sum(1)
        y.mul_(2)
        (windows.sum() + y.sum()).backward()
        return x.grad.tolist()

    assert gradient(eagerjit) == gradient(torch)
