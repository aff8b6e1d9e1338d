"""In-place writes to the outputs of functions that return several views are refused where PyTorch refuses them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit
from eagerjit.jit import jit

VIEWS: dict[str, Any] = {
    "split": lambda x: x.split(1),
    "split along columns": lambda x: x.split(1, 1),
    "split in sizes": lambda x: x.split([1, 1]),
    "chunk": lambda x: x.chunk(2),
    "unbind": lambda x: x.unbind(),
    "iteration": lambda x: list(x),
    "tensor_split": lambda x: x.tensor_split(2),
    "hsplit": lambda x: x.hsplit(3),
    "unsafe_split": lambda x: x.unsafe_split(1),
    "unsafe_chunk": lambda x: x.unsafe_chunk(2),
    "rows": lambda x: [x[0], x[1]],
    "slices": lambda x: [x[:1], x[1:]],
}
WRITES: dict[str, Any] = {
    "mul_": lambda v: v.mul_(2),
    "zero_": lambda v: v.zero_(),
    "copy_": lambda v: v.copy_(v.detach() + 1),
    "assignment": lambda v: v.__setitem__(0, 5.0),
    "through another view": lambda v: v.view(-1).mul_(2),
    "squeeze_": lambda v: v.squeeze_(),
    "relu_": lambda v: v.relu_(),
    "detached": lambda v: v.detach().mul_(2),
    "a clone": lambda v: v.clone().mul_(2),
}


def outcome(t: Any, view: str, write: str, kind: str, made: bool, written: bool) -> Any:
    """The memory after the write, or the class of the exception and what it is about."""
    x = t.arange(6.0).reshape(2, 3).clone()
    if kind != "constant":
        x.requires_grad_()
    base = x * 1 if kind == "result" else x
    try:
        with t.set_grad_enabled(made):
            part = VIEWS[view](base)[0]
        with t.set_grad_enabled(written):
            WRITES[write](part)
    except RuntimeError as error:
        return next(text for text in ("leaf", "multiple views", "no_grad mode", "inference") if text in str(error))
    return base.detach().tolist()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_refused_as_in_torch(view: str, write: str) -> None:
    for kind in ("leaf", "result", "constant"):
        for made, written in ((True, True), (True, False), (False, False), (False, True)):
            if (kind == "leaf" and made and written) or (view.startswith("unsafe") and kind != "constant"):
                continue  # refused with one reason or the other; unsafe parts are no views to PyTorch's tape
            found, expected = (outcome(t, view, write, kind, made, written) for t in (eagerjit, torch))
            assert found == expected, (kind, made, written)


@pytest.mark.parametrize("view", VIEWS)
def test_a_leaf_stays_as_it_is(view: str) -> None:
    x = eagerjit.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"in-place|inplace"):
        VIEWS[view](x)[0].mul_(2)
    assert x.tolist() == [[1.0] * 3] * 2


@pytest.mark.filterwarnings("ignore::eagerjit.jit.JitWarning")
@pytest.mark.parametrize("library", [torch, eagerjit])
def test_refused_in_compiled_functions(library: Any) -> None:
    def step(x: Any) -> Any:
        first, second = (x * 1).chunk(2)
        first.mul_(2)
        return second

    call = jit(step) if library is eagerjit else step
    with pytest.raises(RuntimeError, match="multiple views"):
        call(library.ones(4, requires_grad=True))
    assert call(library.ones(4)).tolist() == [1.0, 1.0]


def test_indices_out_of_range() -> None:
    for t in (eagerjit, torch):
        x, far = t.arange(4.0), t.tensor([7])
        with pytest.raises(IndexError):
            x.index_reduce(0, far, t.ones(1), "amax")
        with pytest.raises(RuntimeError):
            t.nn.functional.embedding_bag(far.view(1, 1), t.ones(3, 2))
        with pytest.raises(RuntimeError):
            t.nn.functional.max_unpool2d(t.ones(1, 1, 1, 1), far.view(1, 1, 1, 1), 2)
        with pytest.raises(RuntimeError):
            x.gather(0, far)
