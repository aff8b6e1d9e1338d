"""Views and sizes from native code are those of PyTorch, however often they are asked for."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch

import eagerjit as ej
from eagerjit.runtime import layout
from eagerjit.runtime.answers import MAX_ANSWERS
from eagerjit.runtime.native import improving
from eagerjit.tensors.tensor import Tensor

VIEWS: dict[str, Any] = {
    "view": lambda x: x.view(2, -1),
    "view of a list": lambda x: x.view([6, 4]),
    "reshape": lambda x: x.reshape(4, 6),
    "reshape of columns": lambda x: x.transpose(0, 1).reshape(6, 4),
    "transpose": lambda x: x.transpose(0, 1),
    "transpose by name": lambda x: x.transpose(dim0=0, dim1=-1),
    "permute": lambda x: x.permute(2, 0, 1),
    "movedim": lambda x: x.movedim(0, 2),
    "T": lambda x: x[0].T,
    "mT": lambda x: x.mT,
    "t": lambda x: x[1].t(),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x[:1].squeeze(),
    "squeeze dims": lambda x: x[:1].squeeze(dim=(0,)),
    "expand": lambda x: x[:1].expand(3, -1, 4),
    "expand more": lambda x: x.expand(2, *x.shape),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(2, -1),
    "split": lambda x: x.split(2, 1),
    "chunk": lambda x: x.chunk(2, dim=-1),
    "unbind": lambda x: x.unbind(1),
    "int": lambda x: x[-1],
    "bool": lambda x: x[True],
    "number one": lambda x: x[1],
    "slice": lambda x: x[:, 1:],
    "steps": lambda x: x[0, ::2, 1:-1:2],
    "none": lambda x: x[None, :, None],
    "ellipsis": lambda x: x[..., 0],
    "empty": lambda x: x[:, 3:],
    "list": lambda x: x[[0, 1]],
    "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "chain": lambda x: x[1:, ..., None, 2],
}
SIZES: dict[str, Any] = {
    "shape": lambda x: x.shape,
    "size": lambda x: x.size(),
    "size of a dimension": lambda x: x.size(-1) if x.ndim else None,
    "ndim": lambda x: (x.ndim, x.dim()),
    "numel": lambda x: x.numel(),
    "stride": lambda x: x.stride(),
    "contiguous": lambda x: x.is_contiguous(),
}


def native() -> bool:
    """Whether native code serves views and sizes; where the disk does not have it, quick code does not."""
    found = layout.ready()
    improving.wait()
    return found


def several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def described(t: Any, x: Any, result: Any) -> list[Any]:
    """What there is to see of views, and their gradients."""
    out: list[Any] = []
    for r in several(result):
        offset = r.data_ptr() - x.data_ptr()
        aliases = offset if r.numel() and 0 <= offset < 4 * x.numel() else None
        out += [tuple(r.shape), r.stride() if r.numel() else None, aliases, r.tolist()]
        if t.is_grad_enabled():
            out += [r.requires_grad, r.is_leaf]
        if t.is_grad_enabled() and r.requires_grad:
            (grad,) = t.autograd.grad((r * r).sum(), x, retain_graph=True)
            out.append(grad.tolist())
    return out


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("recording", [False, True])
def test_views(name: str, grad: bool, recording: bool) -> None:
    found: dict[Any, list[Any]] = {ej: [], torch: []}
    for t in (ej, torch):
        for i in range(4):
            leaf = (t.arange(24.0) + i).reshape(2, 3, 4).clone().requires_grad_(grad)
            with t.set_grad_mode(recording) if hasattr(t, "set_grad_mode") else t.set_grad_enabled(recording):
                found[t] += described(t, leaf, VIEWS[name](leaf))
    assert found[ej] == found[torch]


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    def answers(t: Any) -> list[Any]:
        x = t.arange(24.0).reshape(2, 3, 4)
        tensors = [x, x.transpose(0, 2), x[:, 1], x[0, 0, 0], x[:0], x.to(t.int8), x] * 3
        return [SIZES[name](tensor) for tensor in tensors]

    assert [tuple(a) if isinstance(a, tuple) else a for a in answers(ej)] == [
        tuple(a) if isinstance(a, tuple) else a for a in answers(torch)
    ]


NOT_WRITTEN = "list", "contiguous", "detach", "expand", "expand more", "split", "chunk", "unbind"


@pytest.mark.parametrize("name", [n for n in VIEWS if n not in NOT_WRITTEN])
def test_writes_through_views_have_gradients(name: str) -> None:
    found: dict[Any, list[Any]] = {ej: [], torch: []}
    for t in (ej, torch):
        for _ in range(4):
            leaf = t.arange(24.0).reshape(2, 3, 4).clone().requires_grad_()
            x = leaf * 2
            result = VIEWS[name](x)
            result.mul_(3)
            x.sum().backward()
            assert leaf.grad is not None
            found[t] += [x.tolist(), leaf.grad.tolist(), x._version]
    assert found[ej] == found[torch]


def test_bools_and_numbers_are_told_apart() -> None:
    x = ej.arange(6).reshape(2, 3)
    for _ in range(3):
        assert x[True].shape == (1, 2, 3) and x[1].shape == (3,)
        assert x[False].shape == (0, 2, 3) and x[0].shape == (3,)


def test_errors_are_raised_every_time() -> None:
    x = ej.zeros(2, 3)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="invalid for input of size 6"):
            x.view(4, 2)
        with pytest.raises(IndexError):
            x.transpose(0, 5)
        with pytest.raises(IndexError):
            x[2]


def test_a_view_keeps_nothing_but_its_base_alive() -> None:
    for _ in range(3):
        x = ej.zeros(4, 5)
        reference = weakref.ref(x)
        y = x.t()
        assert y._base is x
        del x, y
        gc.collect()
        assert reference() is None


def test_more_sizes_than_are_remembered() -> None:
    native()
    x = ej.zeros(2 * MAX_ANSWERS + 5, 2)
    for _ in range(2):
        for i in range(len(x)):
            assert x[:i].size(0) == i
    assert len(Tensor.size._answers) <= MAX_ANSWERS  # type: ignore[attr-defined]


def test_repeated_questions_are_answered_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    if not native():
        assert ej.zeros(2, 3).stride() == (3, 1)
        return
    x = ej.zeros(7, 5)
    for _ in range(3):
        assert x.stride() == (5, 1)

    def refused(*_: Any) -> Any:
        raise AssertionError("Python was asked again")

    monkeypatch.setattr(Tensor.stride, "function", refused)
    monkeypatch.setattr(Tensor.stride, "learner", refused)
    assert x.stride() == (5, 1) and ej.ones(7, 5).stride() == (5, 1)


def test_threads_learn_at_the_same_time() -> None:
    failures: list[Any] = []

    def work(seed: int) -> None:
        for i in range(400):
            rows = 1 + (i * seed) % 37
            x = ej.zeros(rows, 4)
            if x.t().shape != (4, rows) or x[: rows - 1].shape[0] != rows - 1 or x.view(-1).numel() != 4 * rows:
                failures.append(rows)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_functions_keep_their_names() -> None:
    assert ej.transpose.__name__ == "transpose" and ej.Tensor.view.__doc__.startswith("The same memory")
    import copy
    import pickle

    assert pickle.loads(pickle.dumps(ej.numel)) is ej.numel
    assert copy.deepcopy(ej.numel) is ej.numel


def test_the_base_of_a_view_of_a_view_is_no_view() -> None:
    x = ej.randn(5, 3, requires_grad=True)
    assert x[1:].t()._base is x
    assert x.chunk(2)[0][:, 1:]._base is x
    assert x._base is None
    detached = x.detach()
    assert detached._base is None
    assert detached[1:].t()._base is detached


def test_views_of_another_dtype_by_name() -> None:
    x = ej.randn(3, 4)
    assert x.view(dtype=ej.int32).equal(x.view(ej.int32))
    assert x.view(dtype=ej.int32).data_ptr() == x.data_ptr()


def test_a_view_of_what_was_resized_tells_its_place_in_the_memory_it_lies_in() -> None:
    base = ej.arange(6.0)
    view, other = base[2:], ej.zeros(4)
    base.resize_(1000)
    assert view.storage_offset() == 2 and view.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert view.as_strided((2,), (2,), 1).tolist() == [1.0, 3.0]
    base = ej.arange(6.0)
    view = base[3:]
    base.set_(other)
    assert view.storage_offset() == 3 and base.storage_offset() == 0
