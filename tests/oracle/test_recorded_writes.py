"""Writes in place of what has a history, first by Python, then by native code: gradients and errors as PyTorch's."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import draw, same

import eagerjit as ej

COLUMNS = (slice(None), slice(1, 3))
REPEATS = 4
"""The first calls compile; native code serves those after."""


def leaf(t: Any, seed: int, shape: tuple[int, ...] = (3, 4)) -> Any:
    return t.tensor(draw(shape, "float32", 0.5, 2, seed), requires_grad=True)


def alike(ours: list[Any], theirs: list[Any]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor):
            same(mine, other, 1e-5)
        else:
            assert mine == other


WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add_": lambda t, y, z: y.add_(z),
    "add_ of a number": lambda t, y, z: y.add_(2.5),
    "add_ scaled": lambda t, y, z: y.add_(z, alpha=0.5),
    "+=": lambda t, y, z: y.__iadd__(z),
    "-=": lambda t, y, z: y.__isub__(z),
    "*=": lambda t, y, z: y.__imul__(z),
    "mul_ of a number": lambda t, y, z: y.mul_(3),
    "div_": lambda t, y, z: y.div_(z),
    "pow_": lambda t, y, z: y.pow_(z),
    "pow_ of a number": lambda t, y, z: y.pow_(2),
    "exp_": lambda t, y, z: y.exp_(),
    "log_": lambda t, y, z: y.log_(),
    "relu_": lambda t, y, z: t.relu_(y),
    "sigmoid_": lambda t, y, z: y.sigmoid_(),
    "sqrt_": lambda t, y, z: y.sqrt_(),
    "clamp_": lambda t, y, z: y.clamp_(0.7, 1.5),
    "zero_": lambda t, y, z: y.zero_(),
    "fill_": lambda t, y, z: y.fill_(3.0),
    "fill_ of a tensor": lambda t, y, z: y.fill_(z.sum()),
    "copy_": lambda t, y, z: y.copy_(z),
    "copy_ of another dtype": lambda t, y, z: y.copy_(z.double()),
    "masked_fill_": lambda t, y, z: y.masked_fill_(z.detach() > 1, 0.5),
    "addcmul_": lambda t, y, z: y.addcmul_(z, z, value=0.5),
    "addcdiv_": lambda t, y, z: y.addcdiv_(z, z + 1),
    "lerp_": lambda t, y, z: y.lerp_(z, 0.3),
    "of itself": lambda t, y, z: y.add_(y),
    "+= of a row": lambda t, y, z: (y.__setitem__(0, y[0].__iadd__(1)), y)[1],
    "+= of columns": lambda t, y, z: (y.__setitem__(COLUMNS, y[COLUMNS].__iadd__(z[COLUMNS])), y)[1],
    "*= of a part of a part": lambda t, y, z: (y[1:].__setitem__(0, y[1:][0].__imul__(z[0])), y)[1],
    "a part of itself": lambda t, y, z: (y.__setitem__(0, y[0]), y)[1],
    "a row of another": lambda t, y, z: (y.__setitem__(0, y[1]), y)[1],
    "rows by numbers": lambda t, y, z: (y.__setitem__(t.tensor([0, 2]), z[:2]), y)[1],
    "a row": lambda t, y, z: y[0].mul_(2).sum() * 0 + y,
    "twice": lambda t, y, z: y.add_(z).mul_(z).exp_(),
    "a broadcast row": lambda t, y, z: y.add_(z[0]),
    "what has a view": lambda t, y, z: (lambda v: y.add_(z) * v.reshape(3, 4))(y.view(-1)),
    "what a hook has seen": lambda t, y, z: (y.register_hook(lambda g: g * 2), y.mul_(2))[1],
}


@pytest.mark.parametrize("name", WRITES)
def test_gradients(name: str) -> None:
    found: list[list[Any]] = []
    for t in (ej, torch):
        results = []
        for seed in range(REPEATS):
            x, z = leaf(t, seed), leaf(t, seed + 9)
            y = WRITES[name](t, x * 1.5, z)
            y.square().sum().backward()
            results += [y.detach(), x.grad, z.grad, y.grad_fn is not None, y.requires_grad]
        found.append(results)
    alike(*found)


@pytest.mark.parametrize("name", ["add_", "*=", "exp_", "relu_", "copy_", "zero_"])
def test_a_tensor_without_history_takes_one_over(name: str) -> None:
    found = []
    for t in (ej, torch):
        results = []
        for seed in range(REPEATS):
            y, z = leaf(t, seed).detach().clone(), leaf(t, seed + 9)
            y = WRITES[name](t, y, z)
            results.append(y.requires_grad)
            if y.requires_grad:
                y.square().sum().backward()
                results.append(z.grad)
        found.append(results)
    alike(*found)


REFUSED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a leaf": lambda t, x, z: x.add_(z),
    "a part of a leaf as it is": lambda t, x, z: x.__setitem__(0, x[0]),
    "a view of a leaf": lambda t, x, z: x[0].add_(1),
    "what a gradient reads": lambda t, x, z: (lambda y: (y.sin(), y.add_(1))[0].sum())(x * 1),
    "the result that a gradient reads": lambda t, x, z: (x * 1).exp().add_(1).sum(),
    "what was written over is read": lambda t, x, z: (lambda y: (y.mul_(z), z.detach().mul_(2))[0].sum())(x * 1),
    "one of several": lambda t, x, z: (x * 1).unbind(0)[0].add_(1).sum(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name: str) -> None:
    for t in (ej, torch):
        for seed in range(REPEATS):
            with pytest.raises(RuntimeError, match=r"in-?place|modified"):
                REFUSED[name](t, leaf(t, seed), leaf(t, seed + 9)).backward()


@pytest.mark.parametrize("name", ["add_", "*=", "pow_", "copy_", "fill_", "zero_", "a broadcast row", "of itself"])
def test_parameters_are_written_without_gradients(name: str) -> None:
    found = []
    for t in (ej, torch):
        results = []
        for seed in range(REPEATS):
            x, z = leaf(t, seed), leaf(t, seed + 9)
            y = x * 2
            with t.no_grad():
                WRITES[name](t, x, z)
                WRITES[name](t, y, z)
            results += [x.detach(), y.detach(), x._version, y._version]
            results += [tensor.requires_grad and tensor.is_leaf for tensor in (x, y)]
        found.append(results)
    alike(*found)


def test_what_was_overwritten_without_gradients_is_noticed() -> None:
    for t in (ej, torch):
        for seed in range(REPEATS):
            x = leaf(t, seed)
            y = (x * 1).exp()
            with t.no_grad():
                y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()


def test_assigning_a_part_to_itself_counts_as_a_write() -> None:
    for t in (ej, torch):
        for seed in range(REPEATS):
            x = leaf(t, seed).detach().clone()
            x[COLUMNS] += 1
            assert x._version == 2
            y = leaf(t, seed) * 1
            part = y[0]
            z = part.sin()
            y[0] = part
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.sum().backward()


@pytest.mark.parametrize("repeat", range(2))
def test_casting_in_between(repeat: int) -> None:
    """What autocast converts, native code does not serve while it is on."""
    for _ in range(REPEATS):
        x, w = leaf(ej, 1, (4, 4)), leaf(ej, 2, (4, 4))
        assert (x @ w).dtype is ej.float32
        with ej.autocast("cpu", dtype=ej.bfloat16):
            assert (x @ w).dtype is ej.nn.functional.linear(x, w).dtype is ej.bfloat16
            assert (x + w).dtype is x.relu().dtype is x.view(-1).dtype is ej.float32
            assert ej.cat([x, x.bfloat16()]).dtype is ej.float32 and (x.bfloat16() @ w).dtype is ej.bfloat16
            with ej.autocast("cpu", enabled=False):
                assert (x @ w).dtype is ej.float32
        conv = ej.nn.Conv2d(1, 2, 3)
        with ej.autocast("cpu", dtype=ej.bfloat16):
            assert conv(ej.ones(1, 1, 4, 4)).dtype is conv(ej.ones(1, 1, 4, 4).bfloat16()).dtype is ej.bfloat16
        with pytest.raises(RuntimeError, match="should be the same"):
            conv(ej.ones(1, 1, 4, 4).bfloat16())
        (x @ w).sum().backward()
        assert w.grad.dtype is ej.float32


KEPT_ALIVE = (*(name for name in WRITES if name != "what a hook has seen"), "of rows that stay")


@pytest.mark.parametrize("name", KEPT_ALIVE)
def test_histories_of_writes_keep_nothing_alive(name: str) -> None:
    """No history leads back to the tensor that has it: its memory is free when the tensor is."""
    for seed in range(REPEATS):
        x, z = leaf(ej, seed), leaf(ej, seed + 9)
        y = x * 1.5
        rows = [y[0], y[1:]]
        WRITES[name](ej, y, z) if name in WRITES else rows[1][0].mul_(2)
        assert y.requires_grad and rows[0].requires_grad
        gone = weakref.ref(y)
        gc.disable()
        try:
            del y, rows
            assert gone() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("name", ["logical_and_", "logical_or_", "logical_xor_", "logical_not_"])
def test_truth_written_leaves_histories(name: str) -> None:
    """A tensor has the history it had, whatever is written asks for; leaves may be written."""

    def written(t: Any, x: Any) -> Any:
        operands = () if name == "logical_not_" else (t.tensor([1.0, 0.0], requires_grad=True),)
        plain, made = t.ones(2), x * 2
        return [getattr(y, name)(*operands) for y in (plain, made, x)]

    def found(t: Any, call: Any) -> list[Any]:
        leaf = t.tensor([3.0, 4.0], requires_grad=True)
        plain, made, x = call(t, leaf)
        made.sum().backward()
        values = [(y.tolist(), y.requires_grad) for y in (plain, made, x)]
        return [x is leaf, leaf._version, leaf.grad.tolist(), *values]

    assert found(torch, written) == found(ej, written) == found(ej, ej.jit(written))
