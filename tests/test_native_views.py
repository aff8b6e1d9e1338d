"""Views that native code makes are those that Python makes: sizes, strides, memory, and what they remember."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.ops import pieces, subscript, views
from eagerjit.ops.aliasing import expand_view
from eagerjit.runtime import layout

SOURCES = {
    "vector": lambda: torch.arange(12.0),
    "matrix": lambda: torch.arange(12.0).reshape(3, 4),
    "ones": lambda: torch.arange(12.0).reshape(1, 3, 1, 4, 1),
    "transposed": lambda: torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
    "columns": lambda: torch.arange(40.0).reshape(2, 4, 5)[:, :, 1:4],
    "steps": lambda: torch.arange(48).reshape(4, 12)[::2, ::3],
    "expanded": lambda: torch.arange(3.0).reshape(3, 1).expand(2, 3, 4),
    "scalar": lambda: torch.tensor(2.0),
    "empty": lambda: torch.zeros(0, 3),
    "half": lambda: torch.zeros(2, 6, dtype=torch.bfloat16),
    "complex": lambda: torch.zeros(2, 6, dtype=torch.complex64),
}

CALLS = {
    "view": [
        (-1,),
        (3, 4),
        (2, 6),
        ((4, -1),),
        ([2, 2, 3],),
        (1, 12, 1),
        (),
        (5, -1),
        (-1, -1),
        (0, -1),
        (3, -2),
        (24,),
    ],
    "reshape": [(-1,), (2, 3, 2), (3, 1, 4), (6, 4), (8, 1), ("a",), (2.0, 6), (12, 2, 1), (1, -1, 4), (2**70,)],
    "permute": [(1, 0), ((2, 0, 1),), (-1, 0), (0, 0), (0,), (), (2, 1, 0), (0, 3), (4, 3, 2, 1, 0)],
    "expand": [(3, 4), (2, -1, -1), (-1, 3), (2, 12), (5, 3, 4), (0, 12), (2, 1, 3, 2, 4, 3), (2,), (-1,)],
    "transpose": [(0, 1), (-1, 0), (0, 0), (1, 2), (5, 0), (0.0, 1)],
    "reversed_dims": [()],
    "unsqueeze": [(0,), (1,), (-1,), (2,), (7,), (-7,)],
    "squeeze": [(), (0,), (1,), (-1,), (2,), (9,), ((0, 2),)],
    "flatten": [(), (1,), (0, 1), (1, -1), (1, 0), (9,), (-2,)],
    "detach": [()],
    "select": [(0, 1), (-1, -1), (0, -3), (1, 5), (0, 99), (7, 0)],
    "narrow": [(0, 0, 1), (-1, 1, 2), (0, -1, 1), (0, 0, 0), (0, 2, 5), (1, 0, -1)],
    "split": [(1,), (2,), (5,), (2, 1), (1, -1), ([1, 2],), (0,), (-1,), (3, 9)],
    "chunk": [(1,), (2,), (3, 1), (5, -1), (0,), (2, 9)],
    "unbind": [(), (1,), (-1,), (4,)],
}

KEYS = [
    0, -1, 99, slice(None), slice(1, None), slice(None, -1), slice(-2, 99), slice(2, 1), slice(None, None, 2),
    slice(None, None, -1), slice(0, 3, 0), None, ..., (), (0, 1), (..., 0), (slice(None), 1), (None, 0), (0, None, ...),
    (slice(1, 3), slice(None, 2)), (..., slice(1, 2), None), (..., ...), (0, 0, 0, 0, 0, 0), (slice(None), slice(None)),
    (slice(0, 2), None, slice(1, 3)), True, 1.5, "a", (slice("a"),), (np.int64(1),), [0, 1], (2**80,),
]  # fmt: skip


def described(result):
    """What a view is, apart from its identity."""
    if isinstance(result, tuple):
        return [described(part) for part in result]
    array = result._data
    steps = [(s, n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    chain, tensor = [], result
    while tensor._view is not None:
        view = tensor._view
        chain.append((view.op.name, view.arguments, view.tracked, tensor._storage is view.base._storage))
        tensor = view.base
    node = None if result._node is None else (result._node.op.name, result._node.inputs[1:], result._node.versions)
    return (
        (array.shape, steps, array.ctypes.data, array.dtype, array.flags.writeable),
        (chain, node, result._index, result.requires_grad, result._storage.version),
    )


def outcome(function, *arguments):
    """A description, or the error."""
    try:
        return described(function(*arguments))
    except Exception as error:
        return type(error), str(error)


def both(call, slow, x, *arguments):
    made = outcome(call, x, *arguments)
    assert made == outcome(slow, x, *arguments)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "recording"])
@pytest.mark.parametrize("source", SOURCES)
def test_native_views_are_those_of_python(source, grad):
    x = SOURCES[source]()
    if grad and x.dtype.is_differentiable:
        x = x.detach().requires_grad_()
    for name, calls in CALLS.items():
        call = getattr(views, name, None) or getattr(pieces, name)
        for arguments in calls:
            both(call, call.slow, x, *arguments)
    for key in KEYS:
        both(subscript.get_item, subscript.get_item.slow, x, key)
    with torch.no_grad():
        for key in KEYS:
            both(subscript.get_item, subscript.get_item.slow, x, key)


def test_the_calls_are_native():
    torch.arange(4.0).view(2, 2)[0].unsqueeze(0)
    native = layout.ready()
    for call in (views.view, subscript.get_item, views.unsqueeze):
        assert hasattr(type(call), "__vectorcalloffset__") == native


def test_keywords_and_wrong_calls():
    x = torch.arange(12.0).reshape(3, 4)
    assert x.transpose(dim0=0, dim1=1).shape == (4, 3) == torch.transpose(x, 1, dim1=0).shape
    assert [p.shape for p in x.chunk(chunks=2, dim=1)] == [(3, 2), (3, 2)]
    assert [p.shape for p in torch.split(x, 3, dim=-1)] == [(3, 3), (3, 1)]
    assert x.unsqueeze(dim=1).shape == (3, 1, 4) and x.flatten(start_dim=0).shape == (12,)
    assert x.narrow(dim=1, start=1, length=2).shape == (3, 2) and x.unbind(dim=1)[3].tolist() == [3.0, 7.0, 11.0]
    for wrong in (
        lambda: x.transpose(0),
        lambda: x.unsqueeze(),
        lambda: x.chunk(2, dims=1),
        lambda: x.flatten(0, 1, 2),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_views_forgotten_are_dropped_from_their_storage():
    x = torch.arange(12.0)
    kept = [x[i : i + 2] for i in range(3)]
    for _ in range(3000):
        x.view(3, 4)
    assert len(x._storage.views) < 2048
    alive = {id(r()) for r in x._storage.views}
    assert all(id(k) in alive for k in kept)


def test_a_write_through_a_native_view_reaches_the_gradient():
    x = torch.ones(3, 4, requires_grad=True)
    y = x * 1.0
    y[1, 2:].mul_(3.0)
    y.T[0].view(3).add_(1.0)
    (y * y).sum().backward()
    expected = np.full((3, 4), 2.0)
    expected[1, 2:] = 18.0
    expected[:, 0] = 4.0
    assert x.grad.tolist() == expected.tolist()


def test_a_list_changed_after_the_call_changes_no_gradient():
    for _ in range(2):
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        parts = [a, b]
        out = torch.cat(parts)
        parts[0] = b
        parts.append(a)
        out.sum().backward()
        assert a.grad.tolist() == b.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize(("call", "expected"), [
    (lambda h: h.transpose(1, 2).reshape(6, -1), lambda a: a.swapaxes(1, 2).reshape(6, -1)),
    (lambda h: h.transpose(1, 2).flatten(1), lambda a: a.swapaxes(1, 2).reshape(2, 12)),
    (lambda h: h.mT.reshape(-1), lambda a: a.swapaxes(1, 2).ravel()),
    (lambda h: h.mT.flatten(), lambda a: a.swapaxes(1, 2).ravel()),
    (lambda h: h.mT.contiguous(), lambda a: a.swapaxes(1, 2)),
    (lambda h: h.expand(2, 2, 3, 4).reshape((4, 12)), lambda a: np.broadcast_to(a, (2, 2, 3, 4)).reshape(4, 12)),
])  # fmt: skip
def test_what_has_no_such_view_is_copied(call, expected, dtype):
    base = torch.arange(24).reshape(2, 3, 4).to(dtype)
    wanted = expected(base.numpy().copy())
    made = call(base)
    assert made.numpy().tolist() == wanted.tolist() and made.is_contiguous()
    before = base.tolist()
    made.fill_(1)
    assert base.tolist() == before
    if dtype.is_floating_point:
        base.requires_grad_()
        weight = torch.arange(made.numel()).reshape(made.shape).float()
        call(base).mul(weight).sum().backward()
        gradient = np.zeros(24)
        np.add.at(gradient, expected(np.arange(24).reshape(2, 3, 4)), weight.numpy())
        assert base.grad.ravel().tolist() == gradient.tolist()
    with pytest.raises(RuntimeError, match="invalid"):
        base.mT.reshape(5, -1)
    with pytest.raises(RuntimeError, match="view"):
        base.detach().transpose(1, 2).view(6, -1)


def test_expanded_dimensions_of_one_element() -> None:
    """They keep their strides, whoever makes the view: what Python made for a first call had others."""
    base = torch.ones(1).view(1, 1)
    first = expand_view.view_eager(base._data, (1, 3))
    assert tuple(s // first.itemsize for s in first.strides) == base.expand(1, 3).stride() == (1, 0)


@pytest.mark.parametrize("decorate", [lambda function: function, torch.jit])
def test_new_dimensions_of_one_element(decorate) -> None:
    """Their strides go over all that is behind them; those of what has no dimensions are 0. As in PyTorch."""
    expected = {
        ((2, 3), (1, 2, 3)): (6, 3, 1),
        ((2, 3), (1, 1, 2, 3)): (6, 6, 3, 1),
        ((2, 3), (4, 1, 2, 3)): (0, 6, 3, 1),
        ((1, 3), (1, 2, 3)): (0, 0, 1),
        ((1, 3), (1, 4, 1, 3)): (0, 0, 3, 1),
        ((), (1, 1)): (0, 0),
    }
    for (own, wanted), strides in expected.items():
        expand = decorate(lambda x, wanted=wanted: x.expand(wanted))
        for _ in range(2):
            assert expand(torch.ones(own)).stride() == strides
        assert expand_view.view_eager(torch.ones(own)._data, wanted).strides == tuple(4 * s for s in strides)
