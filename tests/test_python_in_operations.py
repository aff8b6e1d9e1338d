"""How little Python runs in operations that are called often on small tensors."""

from __future__ import annotations

import pytest
from python_calls import python_in

import eagerjit as torch


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
