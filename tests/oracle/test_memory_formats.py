"""Strides and values in PyTorch's memory formats beside PyTorch's own, plain and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

IMAGES = np.random.default_rng(0).uniform(0.1, 0.9, (2, 4, 6, 5)).astype(np.float32)
VOLUMES = np.random.default_rng(1).uniform(0.1, 0.9, (2, 4, 6, 5, 4)).astype(np.float32)

LAYOUTS: dict[str, Any] = {
    "row_major": lambda x: x,
    "channels_last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "turned": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "part_of_channels_last": lambda x: x.repeat_interleave(2, 1).movedim(1, -1).contiguous().movedim(-1, 1)[:, ::2, 1:],
}

Call = Callable[[Any, Any, Any], Any]
FORMATS: dict[str, Call] = {
    "to": lambda t, x, last: x.to(memory_format=last),
    "to_itself": lambda t, x, last: x.to(memory_format=last).to(memory_format=last),
    "to_dtype": lambda t, x, last: x.to(t.float64, memory_format=last),
    "to_row_major": lambda t, x, last: x.to(memory_format=t.contiguous_format),
    "to_dtype_row_major": lambda t, x, last: x.to(t.float64, memory_format=t.contiguous_format),
    "to_copy": lambda t, x, last: x.to(t.float32, copy=True, memory_format=last),
    "to_preserved": lambda t, x, last: x.to(t.float64, memory_format=t.preserve_format),
    "cpu": lambda t, x, last: x.cpu(memory_format=last),
    "double": lambda t, x, last: x.double(memory_format=last),
    "float": lambda t, x, last: x.float(memory_format=last),
    "cfloat": lambda t, x, last: x.cfloat(memory_format=last),
    "contiguous": lambda t, x, last: x.contiguous(memory_format=last),
    "contiguous_again": lambda t, x, last: x.contiguous(memory_format=last).contiguous(memory_format=last),
    "contiguous_row_major": lambda t, x, last: x.contiguous(memory_format=last).contiguous(),
    "clone": lambda t, x, last: x.clone(memory_format=last),
    "clone_row_major": lambda t, x, last: x.clone(memory_format=t.contiguous_format),
    "zeros_like": lambda t, x, last: t.zeros_like(x, memory_format=last),
    "zeros_like_row_major": lambda t, x, last: t.zeros_like(x, memory_format=t.contiguous_format),
    "ones_like": lambda t, x, last: t.ones_like(x, dtype=t.int32, memory_format=last),
    "full_like": lambda t, x, last: t.full_like(x, 2.0, memory_format=last),
    "empty": lambda t, x, last: t.empty(x.shape, memory_format=last).fill_(1),
    "empty_of_numbers": lambda t, x, last: t.empty(*x.shape, memory_format=last, dtype=t.float64).fill_(1),
    "foreach": lambda t, x, last: t._foreach_clone([x], memory_format=last)[0],
    "asked": lambda t, x, last: t.tensor([x.is_contiguous(memory_format=f) for f in (last, t.contiguous_format)]),
    "in_an_expression": lambda t, x, last: (x.to(memory_format=last) * 2 + x).exp(),
}


def last_of(t: Any, x: Any) -> Any:
    return t.channels_last if x.ndim == 4 else t.channels_last_3d


def laid(x: Any) -> Any:
    """Shape and strides; those of dimensions of one size differ without meaning."""
    return tuple(x.shape), tuple(s for d, s in zip(x.shape, x.stride(), strict=True) if d != 1)


def check(made: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    assert laid(made) == laid(wanted)
    assert str(made.dtype).rpartition(".")[2] == str(wanted.dtype).rpartition(".")[2]
    np.testing.assert_allclose(made.detach().numpy(), wanted.detach().numpy(), tolerance, tolerance)


def compare(call: Callable[..., Any], *arrays: Any, layouts: Any = LAYOUTS, tolerance: float = 1e-5) -> None:
    """Compare a call with both libraries, of arrays in every layout; compiled, one function for all of these."""
    compiled = ej.jit(lambda *xs: call(ej, *xs))
    for layout in [*layouts.values(), *layouts.values()]:
        wanted = call(torch, *(layout(torch.tensor(a)) for a in arrays))
        xs = [layout(ej.tensor(a)) for a in arrays]
        check(call(ej, *xs), wanted, tolerance)
        check(compiled(*xs), wanted, tolerance)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_asked_for(name: str) -> None:
    for array in (IMAGES, VOLUMES):
        compare(lambda t, x: FORMATS[name](t, x, last_of(t, x)), array)


def test_what_has_the_format_already_is_no_copy() -> None:
    for t in (torch, ej):
        x = LAYOUTS["channels_last"](t.tensor(IMAGES))
        assert x.to(memory_format=t.channels_last) is x
        assert x.contiguous(memory_format=t.channels_last) is x
        assert x.to(memory_format=t.contiguous_format) is not x
        turned = LAYOUTS["turned"](t.tensor(IMAGES))
        assert turned.to(memory_format=t.contiguous_format) is turned


def test_drawn_tensors() -> None:
    for make in ("rand_like", "randn_like", "empty_like"):
        for call in (getattr(ej, make), ej.jit(getattr(ej, make))):
            assert call(ej.tensor(IMAGES), memory_format=ej.channels_last).stride() == (120, 1, 20, 4)
    assert ej.randint_like(ej.tensor(IMAGES), 3, memory_format=ej.channels_last).stride() == (120, 1, 20, 4)


def test_sizes_changed_in_place() -> None:
    for t in (torch, ej):
        x, last = t.tensor(IMAGES), t.channels_last
        assert t.empty(0).resize_(2, 3, 4, 5, memory_format=last).stride() == (60, 1, 15, 3)
        assert t.empty(0).resize_as_(LAYOUTS["channels_last"](x)).stride() == x.stride()
        like = t.empty(0).resize_as_(LAYOUTS["channels_last"](x), memory_format=t.preserve_format)
        assert like.stride() == (120, 1, 20, 4)


ERRORS: dict[str, Call] = {
    "contiguous": lambda t, x, last: x[0].contiguous(memory_format=last),
    "contiguous preserved": lambda t, x, last: x.mT.contiguous(memory_format=t.preserve_format),
    "contiguous 3d": lambda t, x, last: x.contiguous(memory_format=t.channels_last_3d),
    "contiguous 3": lambda t, x, last: x.contiguous(memory_format=3),
    "is_contiguous 3": lambda t, x, last: x.is_contiguous(memory_format=3),
    "clone": lambda t, x, last: x[0].clone(memory_format=last),
    "clone 3": lambda t, x, last: x.clone(memory_format=3),
    "to": lambda t, x, last: x[0].to(memory_format=last),
    "to 3": lambda t, x, last: x.to(memory_format=3),
    "bool": lambda t, x, last: x[0].bool(memory_format=last),
    "double 3": lambda t, x, last: x.double(memory_format=3),
    "empty": lambda t, x, last: t.empty(2, 3, memory_format=last),
    "empty 3": lambda t, x, last: t.empty(2, memory_format=3),
    "empty preserved": lambda t, x, last: t.empty(2, 3, 4, 5, memory_format=t.preserve_format),
    "zeros": lambda t, x, last: t.zeros(2, 3, 4, 5, memory_format=last),
    "zeros_like": lambda t, x, last: t.zeros_like(x[0], memory_format=last),
    "zeros_like 3": lambda t, x, last: t.zeros_like(x, memory_format=3),
    "resize_": lambda t, x, last: x.resize_(2, 3, memory_format=last),
    "resize_ preserved": lambda t, x, last: x.resize_(2, 3, memory_format=t.preserve_format),
    "resize_as_": lambda t, x, last: x.resize_as_(x[0], memory_format=last),
    "Conv3d": lambda t, x, last: t.nn.Conv3d(2, 3, 3).to(memory_format=last),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    with pytest.raises((RuntimeError, TypeError)) as raised:
        ERRORS[name](torch, torch.tensor(IMAGES), torch.channels_last)
    with pytest.raises(raised.type):
        ERRORS[name](ej, ej.tensor(IMAGES), ej.channels_last)


def test_modules() -> None:
    for t in (torch, ej):
        model = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.Flatten(), t.nn.Linear(4, 2))
        assert model.to(memory_format=t.channels_last) is model
        assert model[0].weight.stride() == (27, 1, 9, 3)
        assert [p.is_contiguous() for p in model.parameters()] == [False, True, True, True, True, True]
        assert model.to(memory_format=t.contiguous_format)[0].weight.stride() == (27, 9, 3, 1)
        convert = t.nn.utils.convert_conv2d_weight_memory_format
        assert convert(model, t.channels_last)[0].weight.stride() == (27, 1, 9, 3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_lie_as_their_leaves_do(layout: str) -> None:
    """Where a leaf fills its memory; the gradient of another one is row-major."""
    losses = [
        lambda t, x: (x * x).sum(), lambda t, x: x.sum(), lambda t, x: (x.mT.exp() * 2).mean(),
        lambda t, x: (x.clone(memory_format=t.contiguous_format) ** 3).sum(),
    ]  # fmt: skip
    for loss in losses:
        found = []
        for t, call in ((torch, loss), (ej, loss), (ej, ej.jit(loss))):
            x = LAYOUTS[layout](t.tensor(IMAGES)).detach().requires_grad_()
            call(t, x).backward()
            call(t, x).backward()
            found.append(x.grad)
            assert x.grad._base is None
        check(found[1], found[0])
        check(found[2], found[0])


def test_gradients_with_histories_lie_as_their_leaves_do() -> None:
    for t in (torch, ej):
        x = LAYOUTS["channels_last"](t.tensor(IMAGES)).requires_grad_()
        (x**3).sum().backward(create_graph=True)
        assert x.grad.stride() == x.stride()
        assert x.grad.requires_grad


def test_gradients_through_formats() -> None:
    def call(t: Any, x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = x.to(memory_format=t.channels_last).contiguous().clone(memory_format=t.channels_last)
        (y.double(memory_format=t.contiguous_format) ** 2).sum().backward()
        return x.grad

    compare(call, IMAGES)
