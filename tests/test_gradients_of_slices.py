"""Gradients of several slices of one tensor: added in place, with the bits that sums of whole tensors have."""

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.autograd import placed


def rows_written(x, factor):
    out = x * 1.0
    for i in range(5):
        out[i + 1] = out[i] * factor + x[i]
    return (out * x).sum()


def columns_written(x):
    out = torch.zeros_like(x)
    for i in range(5):
        out[:, i : i + 2] = out[:, i : i + 1] * -0.0 + x[:, i, None]
        out[3:5] = out[4:6] * 0.5 + x[3]
    return (out * x).sum() + (out[1] * -0.0).sum()


FUNCTIONS = {
    "rows written": lambda x: rows_written(x, 0.9),
    "rows written and negative zeros": lambda x: rows_written(x, -0.0) * -0.0,
    "columns written": columns_written,
    "chunks": lambda x: torch.prod(torch.stack(x.chunk(2, 1)), 0).sum(),
    "halves across": lambda x: (x[: len(x) // 2] * x[len(x) // 2 :]).sum(),
    "rows": lambda x: sum((row * k).sum() for k, row in enumerate(x.unbind(0)[:5])),
    "columns": lambda x: (x[:, 0] * x[:, 1] - x[:, 2]).sum(),
    "neighbours": lambda x: (x[:, 1:] - x[:, :-1]).square().sum(),
    "overlapping": lambda x: (x[2:9] * 2).sum() + x[5:].square().sum() + (x[7] * 3).sum(),
    "steps": lambda x: (x[:, ::2] * x[:, 1::2]).sum(),
    "diagonals": lambda x: (x.diagonal() * x.diagonal(1, 0, 1)[0]).sum() + (x.diagonal(-2) * 2).sum(),
    "slices of slices": lambda x: (x[1:, 2:][:, :3] * 2).sum() + (x[1:, 2:][3] * 3).sum() + x[1:].exp().sum(),
    "negative zeros": lambda x: (x[3:6] * -0.0).sum() + (x[4] * -0.0).sum() + (x[:, 1] * -0.0).sum(),
    "one negative zero": lambda x: (x[3:6] * -0.0).sum(),
    "the whole too": lambda x: x.sin().sum() + (x[3] * 2).sum() + (x[4:] * 2).sum(),
    "the whole between": lambda x: (x[3] * 2).sum() + (x * -0.0).sum() + (x[4:] * -0.0).sum(),
    "of a result": lambda x: (lambda y: (y[3] * y[4]).sum() + y[:, ::3].square().sum())(x * 2.0),
}


def numbers(shape, dtype):
    return torch.from_numpy(np.random.default_rng(2).standard_normal(shape)).to(dtype).requires_grad_()


def bits(x) -> bytes:
    return x.detach().numpy(force=True).tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_bits_are_those_of_sums(name, dtype, monkeypatch):
    function = FUNCTIONS[name]
    if dtype.is_complex and name == "chunks":
        return
    for side in (10, 70):
        x, y = numbers((side, side), dtype), numbers((side, side), dtype)
        found = function(x).real if dtype.is_complex else function(x)
        found.backward()
        (torch.jit(lambda z: function(z).real if z.dtype.is_complex else function(z))(y)).backward()
        assert bits(x.grad) == bits(y.grad)
        with monkeypatch.context() as context:
            context.setattr(placed, "FEW", 1 << 40)
            (plain,) = torch.autograd.grad(function(y).real if dtype.is_complex else function(y), y)
        assert bits(plain) == bits(x.grad)


def test_what_came_in_is_not_written():
    x = torch.randn(100, 100, requires_grad=True)
    whole, part = torch.ones(100, 100), torch.ones(50, 100)
    torch.autograd.backward([x[:], x[:50], x[50:]], [whole, part, part * 2])
    assert (whole == 1).all() and (part == 1).all()
    assert (x.grad[:50] == 2).all() and (x.grad[50:] == 3).all()


def test_hooks_and_other_targets_see_whole_gradients():
    x = torch.randn(100, 100, requires_grad=True)
    y = x * 1.0
    seen = []
    y.register_hook(lambda g: seen.append(g.clone()))
    x.register_hook(lambda g: seen.append(g.clone()))
    a, b = y.chunk(2)
    (a.sum() + (b * 2).sum()).backward(retain_graph=True)
    found, of_a = torch.autograd.grad(a.sum() + (b * 2).sum() + (y[1:3] * 3).sum(), [y, a], retain_graph=True)
    expected = torch.cat([torch.ones(50, 100), torch.full((50, 100), 2.0)])
    assert all((s == expected).all() for s in seen[:2]) and (x.grad == expected).all()
    expected[1:3] += 3
    assert (found == expected).all() and (of_a == 1).all()


def test_gradients_of_gradients_keep_their_history():
    x = torch.randn(80, 80, requires_grad=True, dtype=torch.float64)
    (g,) = torch.autograd.grad((x[:40] ** 2 * x[40:]).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert torch.allclose(h, torch.cat([2 * x[40:] + 2 * x[:40], 2 * x[:40]]).detach())


def test_rows_written_one_by_one_make_no_whole_tensor_to_add(monkeypatch):
    x, shapes = torch.randn(100, requires_grad=True), []
    plain = torch.Tensor.__add__
    monkeypatch.setattr(torch.Tensor, "__add__", lambda a, b: (shapes.append(tuple(a.shape)), plain(a, b))[1])
    out = torch.zeros(100, 100)
    for i in range(9):
        out[i + 1] = out[i] * 0.5 + x
    out.sum().backward()
    assert (100, 100) not in shapes and x.grad.tolist() == [sum(2 - 0.5**i for i in range(9))] * 100


def test_a_sum_of_slices_makes_no_whole_tensor_for_each(monkeypatch):
    x, shapes = torch.randn(100, 100, requires_grad=True), []
    plain = torch.Tensor.__add__
    monkeypatch.setattr(torch.Tensor, "__add__", lambda a, b: (shapes.append(tuple(a.shape)), plain(a, b))[1])
    y = torch.cat(x.split(10))
    y.backward(torch.ones(100, 100))
    assert (100, 100) not in shapes and (x.grad == 1).all()
