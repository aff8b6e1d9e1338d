"""How little Python runs in operations that are called often on small tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from python_calls import python_in

import eagerjit as torch
from eagerjit.nn import functional as F
from eagerjit.runtime.native import improving


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_with_a_factor(dtype: torch.dtype) -> None:
    x, y = torch.ones(3, dtype=dtype), torch.full((3,), 2.0, dtype=dtype)
    for _ in range(4):
        x.add_(y, alpha=0.5), x.sub_(y, alpha=0.25), torch.add(x, y, alpha=2), torch.sub(x, y, alpha=3)
    for call in (
        lambda: x.add_(y, alpha=0.5),
        lambda: x.sub_(y, alpha=0.25),
        lambda: torch.add(x, y, alpha=2),
        lambda: torch.sub(x, y, alpha=3),
    ):
        assert not {"factor", "result_type", "check_fit"} & {*python_in(call)}
    assert x.tolist() == [1 + 5 * 1.0 - 5 * 0.5] * 3
    assert torch.sub(x, y, alpha=3).tolist() == [x[0].item() - 6.0] * 3


def test_factors_that_the_dtype_cannot_hold_are_refused_as_before() -> None:
    x = torch.ones(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="overflow"):
            x.add_(x, alpha=1e300)
    assert x.double().add(x.double(), alpha=1e300).tolist() == [1e300] * 3
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        x.add(x, alpha=True)


def test_functions_of_lists_are_names_of_the_namespace() -> None:
    values = [torch.ones(2), torch.ones(3)]
    torch._foreach_mul_(values, 2.0)
    assert "_foreach_mul_" in vars(torch)
    names = python_in(lambda: torch._foreach_mul_(values, 2.0))
    assert "load" not in names and "<dictcomp>" not in names
    assert [v.tolist() for v in values] == [[4.0] * 2, [4.0] * 3]


def test_schedules_set_a_rate_in_few_steps() -> None:
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step(), schedule.step()
    names = python_in(schedule.step)
    assert "_note" not in names and "is_pair" not in names
    assert optimizer.param_groups[0]["lr"] == 0.125 and schedule.get_last_lr() == [0.125]


def of_known_calls(call: Callable[[], Any]) -> list[str]:
    """What Python runs in a call once native code serves all it can."""
    improving.wait()
    for _ in range(3):
        call()
    return python_in(call)


IMAGE, KERNEL = torch.arange(16.0).view(1, 1, 4, 4), torch.ones(1, 2, 3, 3)
CALLS: dict[str, Callable[[], Any]] = {
    "conv_transpose2d": lambda: F.conv_transpose2d(IMAGE, KERNEL, stride=2),
    "roll": lambda: torch.roll(IMAGE, (1, -1), (2, 3)),
    "nan_to_num": lambda: torch.nan_to_num(IMAGE),
    "full": lambda: torch.full((50, 100), 0.5),
    "ones": lambda: torch.ones(9000, dtype=torch.int16),
    "eye": lambda: torch.eye(70, 90),
}


@pytest.mark.parametrize("name", CALLS)
def test_native_code_serves(name: str) -> None:
    assert of_known_calls(CALLS[name]) == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int8, torch.int16, torch.bool])
@pytest.mark.parametrize("count", [1, 2, 1023, 1025, 4097, 1 << 16, (1 << 16) + 1])
def test_tensors_of_one_number(dtype: torch.dtype, count: int) -> None:
    made = torch.ones(count, dtype=dtype)
    assert made.dtype is dtype and made.numpy().tolist() == [1] * count
    if dtype is torch.float32:
        assert torch.full((count,), 0.25).numpy().tolist() == [0.25] * count


def test_larger_unit_matrices() -> None:
    for rows, columns in ((70, 90), (90, 70), (64, 64), (300, 300)):
        assert np.array_equal(torch.eye(rows, columns).numpy(), np.eye(rows, columns))


def test_many_pieces_are_made_by_native_code() -> None:
    x = torch.ones(300, 2)
    assert len(of_known_calls(lambda: x.split(2))) < 20 and len(of_known_calls(lambda: x.unbind())) < 20


def test_many_pieces() -> None:
    x = torch.arange(600.0).view(300, 2).requires_grad_()
    pieces = x.split(7)
    assert [len(p) for p in pieces] == [7] * 42 + [6]
    rows = x.unbind()
    (rows[299][1] * 3 + pieces[42].sum()).backward()
    assert x.grad is not None and x.grad[299].tolist() == [1.0, 4.0] and x.grad.sum() == 15.0


def test_rolled_by_ever_other_numbers() -> None:
    x = torch.arange(5)
    assert [torch.roll(x, i).tolist() for i in range(1100)] == [np.roll(x.numpy(), i).tolist() for i in range(1100)]


def test_parts_of_complex_numbers_lie_as_they_do() -> None:
    x = torch.complex(torch.arange(6.0), torch.ones(6)).view(2, 3)
    for shown in (x, x.t(), x[:, ::2], x[:1].t(), x.expand(2, 2, 3), x[0, 0], x[:0]):
        parts = torch.view_as_real(shown)
        assert parts.stride() == (*(2 * s for s in shown.stride()), 1)
        assert parts[..., 0].tolist() == shown.real.tolist() and parts[..., 1].tolist() == shown.imag.tolist()
        again = torch.view_as_complex(parts)
        assert again.stride() == shown.stride() and again.tolist() == shown.tolist()
    torch.view_as_real(x).mul_(2)
    assert x[1, 2] == 10 + 2j


def test_places_of_combinations_are_not_looked_at_one_by_one() -> None:
    x = torch.arange(20)
    torch.combinations(x)
    names = python_in(lambda: torch.combinations(x))
    assert len(names) < 100
    assert torch.combinations(x)[-1].tolist() == [18, 19]
    assert torch.combinations(x[:1]).shape == (0, 2)


def test_masks_of_a_tensors_own_shape_are_not_expanded() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    torch.masked_select(x, x > 2)
    names = python_in(lambda: torch.masked_select(x, x > 2))
    assert "broadcast_shapes" not in names
    assert torch.masked_select(x, x > 2).tolist() == [3.0, 4.0, 5.0]
    assert torch.masked_select(x.T, x.T > 2).tolist() == x.T[x.T > 2].tolist() == [3.0, 4.0, 5.0]
    assert torch.masked_select(x, x[0] > 0).tolist() == [1.0, 2.0, 4.0, 5.0]
    assert torch.masked_select(x[0, 0], x[0, 0] > 2).shape == (0,)
