"""Random programs give the same eagerly and jitted, bit for bit, and as NumPy does; see `programs` and `reference`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.property import programs, reference
from tests.property.programs import Generator, difference

GROUPS, EACH = 20, 50


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_thousand_programs(hasty: None, group: int) -> None:
    """Groups of seeds far apart; with the calls of each program the sizes, layouts and numbers change."""
    first = group * 1_000_003
    found = [difference(seed, 2 + seed % 4, 3)[0] for seed in range(first, first + EACH)]
    assert [f for f in found if f is not None] == []


def test_picked_rows_of_turned_memory_may_be_viewed() -> None:
    """NumPy's lie as the memory that they are picked from."""
    assert difference(230_000_790, 10)[0] is None


@pytest.mark.parametrize("seed", [3, 14, 15])
def test_long_programs_with_all_calls(seed: int) -> None:
    found, _ = difference(seed, 14)
    assert found is None, found


def test_the_comparison_notices_differences(monkeypatch):
    """A jitted function that adds one to a result, or writes an argument, differs."""

    def wrong(function):
        def changed(*arguments):
            result = function(*arguments)
            for tensor in programs.tensors_of(result):
                tensor.detach().logical_not_() if tensor.dtype is programs.torch.bool else tensor.detach().add_(1)
            return result

        return changed

    monkeypatch.setattr(programs, "jit", wrong)
    assert all(difference(seed, 4)[0] is not None for seed in range(5))


@pytest.mark.parametrize("name", ["tanh", "sum", "transpose", "add_"])
def test_the_comparison_with_numpy_notices_differences(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A value off by more than rounding, a dtype, a shape or an alias that is not there: each is found."""
    right = getattr(reference.Array, name)

    def wrong(self: reference.Array, *args: object, **kwargs: object) -> reference.Array:
        out = right(self, *args, **kwargs)
        data = {
            "tanh": lambda: out.data + np.asarray(1e-3, out.dtype),
            "sum": lambda: out.data.astype(np.int16),
            "transpose": lambda: out.data[..., None],
            "add_": lambda: out.data.copy(),
        }[name]()
        if name == "add_":
            self.data = data
            data -= np.asarray(1, data.dtype)
        return reference.Array(data)

    lines = {
        "tanh": ["v = x.tanh()"], "sum": ["v = x.sum()"], "transpose": ["v = x.transpose(0, 1)"],
        "add_": ["v = x.t()", "x.add_(1)"],
    }[name]  # fmt: skip
    scope = {"x": programs.torch.linspace(0, 1, 6).reshape(2, 3)}

    def problems() -> list[str | None]:
        beside = reference.Reference(scope)
        found = []
        for line in lines:
            exec(line, scope)
            found.append(beside.step(line, scope))
        return found

    assert problems() == [None] * len(lines)
    monkeypatch.setattr(reference.Array, name, wrong)
    assert problems()[-1] is not None


def test_programs_are_many_and_do_much(hasty: None):
    """The generator reaches the operations that it knows."""
    text = "\n".join(Generator(seed).source for seed in range(150))
    wanted = (
        ".add_( .copy_( .zero_( .backward() @ .sum( .permute( .expand( .where( .cat( .stack( .gather( .to(torch. if "
        "while for try .item() int( torch.rand( dropout .nonzero() .unique() .sort( .cumsum( > 0]"
    ).split()
    assert [w for w in wanted if w not in text] == []


# -- what random programs have found -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_a_row_of_an_expanded_tensor_can_be_written() -> None:
    def rows(x):
        row = x.expand(2, -1)[0]
        row.detach().add_(1)
        return row

    for function in (rows, programs.jit(rows)):
        x = programs.torch.ones(3)
        assert function(x).tolist() == x.tolist() == [2.0] * 3


def test_dropout_takes_floats_and_squares_of_bools_are_integers() -> None:
    torch = programs.torch
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.nn.functional.dropout(torch.ones(3, dtype=torch.int64), 0.5)
    assert torch.nn.functional.dropout(torch.ones(3, dtype=torch.int64), 1.0).tolist() == [0, 0, 0]
    assert torch.tensor([True, False]).square().dtype is torch.int64


def test_one_tensor_given_twice_gets_the_sum_of_its_gradients() -> None:
    """A version compiled for two tensors would leave the second one's gradient in place of the first one's."""
    torch = programs.torch

    def function(x, y):
        ((x * 2).sum() + (y * 3).sum()).backward()

    jitted = programs.jit(function)
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    jitted(x, y)
    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0, 2.0], [3.0, 3.0])
    for _ in range(2):
        z = torch.ones(2, requires_grad=True)
        jitted(z, z)
        assert z.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("reduce", ["amin", "logsumexp"])
def test_overwriting_what_a_gradient_needs_is_an_error_in_a_jitted_function(reduce: str) -> None:
    def function(x):
        lowest = getattr(x, reduce)(0, keepdim=True)
        lowest.fill_(0)
        (x.sum() + lowest.sum()).backward()

    for called in (function, programs.jit(function)):
        with pytest.raises(RuntimeError, match=f"the output of {reduce} .* was overwritten at"):
            called(programs.torch.ones(3, 5, requires_grad=True))


def test_negative_numbers_in_unsigned_tensors_wrap_and_too_large_ones_are_refused() -> None:
    torch = programs.torch
    x = torch.zeros(3, dtype=torch.uint8)
    x[0] = -1
    assert x.tolist() == [255, 0, 0]
    assert torch.full((2,), -2, dtype=torch.uint8).tolist() == [254, 254]
    with pytest.raises(RuntimeError, match="cannot be converted to type uint8_t without overflow"):
        x[0] = 300


@pytest.mark.parametrize("needs_grad", [False, True])
def test_an_error_in_what_nobody_uses_is_raised(needs_grad: bool) -> None:
    torch = programs.torch

    def function(x, index):
        x[index]
        return x * 2

    jitted = programs.jit(function)
    x = torch.ones(3, requires_grad=needs_grad)
    assert jitted(x, torch.tensor([0, 2])).tolist() == [2.0] * 3
    with pytest.raises(IndexError):
        jitted(x, torch.tensor([0, 3]))


def test_a_view_of_a_result_in_another_shape_stays_a_view_of_it() -> None:
    torch = programs.torch

    def function(x, y):
        product = (x * y).view(3, -1) * 1
        return product, product.permute(0, 1)

    for called in (function, programs.jit(function)):
        first, second = called(torch.ones(3), torch.ones(4, 3))
        first.add_(1)
        assert second.tolist() == [[2.0] * 4] * 3


def test_a_row_that_is_turned_is_viewed_as_its_size_says() -> None:
    torch = programs.torch

    def function(x):
        return x.transpose(0, -1).view(3, -1) * 1

    jitted = programs.jit(function, fullgraph=True)
    for columns in (3, 6, 3):
        x = torch.arange(columns)[None]
        assert jitted(x).tolist() == function(x).tolist() == x.reshape(3, -1).tolist()


def test_the_error_of_a_freed_graph_names_the_same_operation() -> None:
    torch = programs.torch

    def function(x):
        y = x.logsumexp(0)
        z = y * 2
        y.sum().backward()
        return z

    messages = []
    for called in (function, programs.jit(function)):
        x = torch.ones(3, 4, requires_grad=True)
        with pytest.raises(RuntimeError) as caught:
            called(x).sum().backward()
        messages.append(str(caught.value).partition(" (recorded")[0])
    assert "logsumexp" in messages[0] and messages[0] == messages[1]


def test_an_angle_of_half_precision_by_a_bool_is_compiled() -> None:
    found, given = programs.difference(30003190, 4, 3)
    assert found is None and not given


def test_gradients_do_not_repeat_comparisons_of_sizes() -> None:
    found, _ = difference(100_003_738, 5, 3)
    assert found is None, found
