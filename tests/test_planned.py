"""Functions that only plan: native code carries out plans that it knows, for just the arguments that they are for."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import eagerjit
from eagerjit.nn import functional
from eagerjit.runtime import layout
from eagerjit.runtime.answers import MAX_ANSWERS
from eagerjit.runtime.native import improving
from eagerjit.runtime.planned import Planned


def recorder() -> tuple[Planned, list[tuple[Any, ...]]]:
    """A planned function that gives what it planned with, and its plans so far."""
    assert layout.ready()
    improving.wait()  # where the disk does not have it, quick code carries out no plans
    plans: list[tuple[Any, ...]] = []

    def function(a: Any, b: Any = None, how: Any = "how") -> Any:
        plans.append((a, b, how))
        return (lambda *given: given), (b, how, a, len(plans))

    return Planned(function), plans


def test_a_plan_is_for_sizes_dtypes_layouts_and_options() -> None:
    call, plans = recorder()
    x, y, z = eagerjit.ones(2, 3), eagerjit.ones(2, 3), eagerjit.ones(3, 2)
    call(x, y)
    assert call(x, y) == (y, "how", x, 2) and call(y, x) == (x, "how", y, 2) and call(y, b=x, how="how")[3] == 2
    others: list[tuple[Any, ...]] = [
        (x, z), (z, z.clone()), (x, y.double()), (x, z.T), (x,), (x, 1), (x, 1.0), (x, True), (x, -0.0), (x, 0.0),
        (x, (1, 2)), (x, (1.0, 2)), (x, (True, 2)), (x, (1, 2, 3)), (x, ()), (x, y, "other"), (x, y, None),
        (y, x, eagerjit.float32), (x, "(1, 2)"), (x, eagerjit.ones(())), (x, eagerjit.ones(1)),
        (x, eagerjit.ones(2, dtype=eagerjit.complex64)),
        (x.clone().requires_grad_(), y), (x, y.clone().requires_grad_()),
    ]  # fmt: skip
    for number, arguments in enumerate(others, start=3):
        again = tuple(
            a.clone().requires_grad_(a.requires_grad) if hasattr(a, "clone") and a.is_contiguous() else a
            for a in arguments
        )
        assert call(*arguments)[3] == number == call(*again)[3], arguments
    assert call(x, [1, 2]) == call(x, (1, 2)) and len(plans) == len(others) + 2
    with eagerjit.no_grad():
        assert call(x.clone().requires_grad_(), y)[3] == 2, "no gradient is recorded"


def test_a_plan_of_ranks_is_for_all_sizes_of_a_rank() -> None:
    assert layout.ready()
    plans: list[Any] = []

    def function(a: Any, how: Any = 0) -> Any:
        plans.append(a.ndim)
        return (lambda *given: given), (a, how, len(plans))

    call = Planned(function, of_ranks=True)
    call(eagerjit.ones(()))  # from now on natively
    plans.clear()
    for shape in ((2, 3), (4, 1), (0, 7), (1, 1)):
        x = eagerjit.ones(shape)
        found = call(x)
        assert found[0] is x and found[1:] == (0, 1)
    rest = (eagerjit.ones(3), eagerjit.ones(2, 3, 1), eagerjit.ones(2, 3).double(), eagerjit.ones(2, 3).T)
    for number, x in enumerate(rest, start=2):
        assert call(x)[1:] == (0, number) == call(x)[1:]
    assert call(eagerjit.ones(2, 3), 5)[1:] == (5, 6) and plans == [2, 1, 3, 2, 2, 2]


def test_losses_warn_of_sizes_each_time() -> None:
    x, y = eagerjit.ones(4, 1), eagerjit.zeros(4)
    for _ in range(3):
        with pytest.warns(UserWarning, match="different to the input size"):
            assert functional.mse_loss(x, y).item() == 1.0


def test_what_native_code_does_not_know_is_planned_each_time() -> None:
    call, plans = recorder()
    x = eagerjit.ones(2)
    for arguments in (
        (x, object()),
        (x, [x]),
        (x, 1e300),
        (x, {}),
        (x, ((1,),)),
    ):
        before = len(plans)
        assert call(*arguments)[0] is arguments[1] or isinstance(arguments[1], list)
        call(*arguments)
        assert len(plans) == before + 2
    with pytest.raises(TypeError, match="missing"):
        call()
    with pytest.raises(TypeError, match="unexpected"):
        call(x, nothing=1)


def test_one_tensor_passed_twice_is_no_plan_for_two() -> None:
    call, plans = recorder()
    x, y = eagerjit.ones(2), eagerjit.zeros(2)
    for _ in range(2):
        assert call(x, x)[:3] == (x, "how", x)
    assert call(x, y)[0] is y and call(y, x)[0] is x and call(x, x)[0] is x
    assert len(plans) == 3


def test_one_tensor_passed_twice_is_planned_once() -> None:
    call, plans = recorder()
    x, y = eagerjit.ones(2, requires_grad=True), eagerjit.zeros(2)
    call(y)  # from now on natively
    call(x, x)
    known = len(plans)
    assert all(call(x, x)[:3] == (x, "how", x) for _ in range(3)) and len(plans) == known
    call(x, y), call(y, y)
    assert len(plans) == known + 3, "their gradients are recorded otherwise"
    grad = eagerjit.autograd.grad(eagerjit.outer(x, x).sum(), x)[0]
    assert grad.tolist() == eagerjit.autograd.grad(eagerjit.outer(x, x).sum(), x)[0].tolist() == [4.0, 4.0]


def test_tensors_of_a_plan_are_not_kept() -> None:
    made = Planned(lambda x: ((lambda y: y), (x * 2,)))
    x = eagerjit.ones(2)
    assert made(x).tolist() == made(x).tolist() == [2.0, 2.0] and made(eagerjit.zeros(2)).tolist() == [0.0, 0.0]


def test_errors_are_raised_each_time() -> None:
    x = eagerjit.ones(2, 3)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="Padding length"):
            functional.pad(x, (1,))
    assert functional.pad(x, (1, 1)).shape == functional.pad(x, [1, 1]).shape == (2, 5)


def test_numbers_one_by_one_are_those_of_a_sequence() -> None:
    x = eagerjit.arange(6).view(2, 3)
    for _ in range(3):
        for made in (
            x.flip(0, 1),
            x.flip((0, 1)),
            x.flip([0, -1]),
            eagerjit.flip(x, dims=(1, 0)),
            eagerjit.flip(x, [0, 1]),
        ):
            assert made.tolist() == [[5, 4, 3], [2, 1, 0]]
        assert x.flip(0).tolist() == [[3, 4, 5], [0, 1, 2]] and x.flip(()).tolist() == x.tolist()
        with pytest.raises(TypeError):
            x.flip()
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            eagerjit.bmm(x, 3)
        with pytest.raises(TypeError, match="must be Tensor, not list"):
            eagerjit.bmm(x, [3])
    batch = eagerjit.ones(1, 2, 2)
    assert eagerjit.bmm(batch, batch, out=eagerjit.empty(1, 2, 2)).tolist() == [[[2.0, 2.0], [2.0, 2.0]]]


def test_memory_of_plans_is_bounded() -> None:
    call, plans = recorder()
    x = eagerjit.ones(2)
    call(x)  # the first call of all is Python's
    for i in range(2 * MAX_ANSWERS + 10):
        assert call(x, i)[0] == i == call(x, i)[0]
    assert len(plans) == 2 * MAX_ANSWERS + 11
    assert call(x, 3)[0] == 3 and len(plans) == 2 * MAX_ANSWERS + 12


def test_in_a_trace_python_plans_and_under_autocast_plans_are_not_kept() -> None:
    call, plans = recorder()
    padded = eagerjit.jit(lambda x: functional.pad(x, (1, 1)) * 2)
    for size in (2, 3, 4):
        x = eagerjit.ones(2, size)
        assert padded(x).tolist() == (functional.pad(x, (1, 1)) * 2).tolist()
    x = eagerjit.ones(2)
    for _ in range(3):
        call(x)
    with eagerjit.autocast("cpu"):
        call(x)
        assert len(plans) == 2 and call(x)[3] == 2
        for _ in range(3):
            call(eagerjit.ones(2, 3))
    assert len(plans) == 5
    for _ in range(3):
        call(eagerjit.ones(2, 3))
    assert len(plans) == 6


def test_planned_functions_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(functional.pad)) is functional.pad


def test_adaptive_means_are_planned() -> None:
    for rank in (1, 2, 3):
        function = getattr(functional, f"adaptive_avg_pool{rank}d")
        assert isinstance(function, Planned), "calls need no Python"
        for channels in (2, 3):
            x = eagerjit.ones((channels, *(6,) * rank), requires_grad=True)
            for size in (1, 2, 4):
                first, second = function(x, size), function(x[None], size)[0]
                assert first.shape == second.shape == (channels, *(size,) * rank)
                assert first.tolist() == second.tolist() and first.sum().item() == channels * size**rank
