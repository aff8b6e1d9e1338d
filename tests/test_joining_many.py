"""Lists of ever other lengths and sizes are joined without a program for each; what comes again has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.ops import index


def tensors(sizes: list[int], dtype: Any = torch.float32) -> list[Any]:
    return [(torch.arange(n * 3.0).reshape(n, 3) + i).to(dtype) for i, n in enumerate(sizes)]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operations that are compiled from here on."""
    names: list[str] = []
    for op in (index.cat, index.stack_op):
        monkeypatch.setattr(op, "programs", {})
        monkeypatch.setattr(op, "entries", [])  # of native code, which would know the programs later
        monkeypatch.setattr(op.once, "counts", {})
        op.call.clear()
        before = op.compile
        monkeypatch.setattr(op, "compile", lambda *a, op=op, before=before: names.append(op.name) or before(*a))
    return names


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "uint8", "complex64", "float16"])
def test_lists_that_come_once(compiled: list[str], dtype: str) -> None:
    kind = getattr(torch, dtype)
    for n in range(8, 20):
        given = tensors([i % 4 for i in range(n)], kind)
        expected = np.concatenate([x.numpy() for x in given])
        joined = torch.cat(given)
        assert joined.dtype is kind and joined.numpy().tobytes() == expected.tobytes()
        rows = tensors([2] * n, kind)
        for dim in (0, 1, -1):
            stacked = torch.stack(rows, dim)
            assert stacked.is_contiguous() and (stacked.numpy() == np.stack([x.numpy() for x in rows], dim)).all()
    assert not compiled


def test_lists_that_come_again_have_a_program(compiled: list[str]) -> None:
    given = tensors([2] * 9)
    results = [torch.cat(given, 1).tolist() for _ in range(40)]
    assert compiled == ["cat"] and all(r == results[0] for r in results)


def test_layouts_and_gradients(compiled: list[str]) -> None:
    given = [x.t().requires_grad_() for x in tensors([2] * 10)]
    joined = torch.cat(given, 1)
    assert joined.is_contiguous() and joined.shape == (3, 20)
    (joined * torch.arange(60.0).reshape(3, 20)).sum().backward()
    assert given[3].grad.tolist() == [[6.0, 7.0], [26.0, 27.0], [46.0, 47.0]]
    stacked = torch.stack(given, 1)
    assert stacked.is_contiguous() and stacked._version == 0 and stacked.requires_grad
    stacked.mul_(2).sum().backward()
    assert given[0].grad[0, 0].item() == 2.0
    assert "cat" not in compiled and "stack" not in compiled


def test_what_does_not_fit_is_refused() -> None:
    for bad in ([*tensors([2] * 8), torch.ones(2)], [torch.ones(2)] * 8 + [torch.ones(3, 1)]):
        with pytest.raises(RuntimeError):
            torch.cat(bad)
        with pytest.raises(RuntimeError):
            torch.stack(bad)
    for dim in (2, -3):
        with pytest.raises(IndexError):
            torch.cat(tensors([2] * 8), dim)
    with pytest.raises(RuntimeError):
        torch.cat([torch.tensor(1.0)] * 9)
    assert torch.cat([torch.ones(0), *tensors([2] * 8)]).shape == (16, 3)
    assert torch.cat([torch.ones(2, dtype=torch.int64), *[torch.ones(1)] * 8]).dtype is torch.float32


def test_padding_of_ever_other_lengths(compiled: list[str]) -> None:
    for shift in range(6):
        given = tensors([1 + (5 * i + shift * i * i) % 7 for i in range(9)])
        padded = nn.utils.rnn.pad_sequence(given, batch_first=True, padding_value=-1.0)
        for row, x in zip(padded, given, strict=True):
            assert torch.equal(row[: len(x)], x) and bool((row[len(x) :] == -1).all())
    assert "cat" not in compiled


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64", "uint8"])
@pytest.mark.parametrize("borders", [(1, 0), (0, 1), (1, 1), (2, 3), (16, 1), (0, 0)], ids=str)
def test_rows_with_borders(dtype: str, borders: tuple[int, int]) -> None:
    """Narrow parts are written along with the longer one, parts of no width by nobody."""
    random = np.random.default_rng(0)
    before, after = borders
    for shape in ((5, 1), (2, 3, 7), (33, 16), (1, 17), (64, 40), (0, 4), (4, 0)):
        x = random.integers(0, 99, shape).astype(dtype)

        def joined(x: Any) -> Any:
            left, right = (x[..., :1].expand(*x.shape[:-1], n) if x.shape[-1] else x for n in (before, after))
            return torch.cat([left, x, right, x[..., :0]], -1)

        edges = [np.repeat(x[..., :1], n, -1) for n in borders]
        expected = np.concatenate([edges[0], x, edges[1]], -1)
        for call in (joined, torch.jit(joined)):
            np.testing.assert_array_equal(call(torch.tensor(x)).numpy(), expected)
