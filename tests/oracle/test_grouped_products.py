"""Products of groups of matrices, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

SHAPES: dict[str, Any] = {
    "rows": ((12, 16), (3, 16, 24), [3, 8, 12]),
    "an empty group": ((12, 16), (3, 16, 24), [5, 5, 12]),
    "columns": ((3, 16, 8), (8, 24), [8, 24, 24]),
    "both": ((16, 16), (16, 24), [4, 4, 16]),
    "whole": ((3, 8, 16), (3, 16, 24), None),
}


def operands(t: Any, first: Any, second: Any, ends: Any, dtype: str) -> list[Any]:
    g = np.random.default_rng(0)
    made = [t.tensor(g.standard_normal(s).astype(np.float32)).to(getattr(t, dtype)) for s in (first, second)]
    return [*(m.requires_grad_() for m in made), None if ends is None else t.tensor(ends, dtype=t.int32)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", SHAPES)
def test_values_and_gradients(name: str, dtype: str) -> None:
    found = []
    for t in (torch, ej):
        a, b, offs = operands(t, *SHAPES[name], dtype)
        out = t.nn.functional.grouped_mm(a, b, offs=offs)
        weights = t.arange(out.numel()).view(out.shape).to(out.dtype) / max(out.numel(), 1)
        out.backward(weights.contiguous())
        found.append([out.detach(), a.grad, b.grad])
    for theirs, ours in zip(*found, strict=True):
        assert str(theirs.dtype) == str(ours.dtype) and theirs.shape == ours.shape
        near = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
        np.testing.assert_allclose(ours.float().numpy(), theirs.float().numpy(), rtol=near, atol=10 * near)


def test_rows_behind_the_last_group_are_zeros() -> None:
    a, b, _ = operands(ej, (12, 16), (2, 16, 8), None, "float32")
    out = ej._grouped_mm(a, b, ej.tensor([3, 9], dtype=ej.int32))
    assert not out[9:].any() and out.shape == (12, 8)
    out.sum().backward()
    assert not a.grad[9:].any() and a.grad[:9].all()


def test_compiled_calls_see_where_groups_end() -> None:
    compiled = ej.jit(lambda a, b, offs: ej.nn.functional.grouped_mm(a, b, offs=offs))
    a, b, _ = operands(ej, (12, 16), (3, 16, 24), None, "float32")
    for ends in ([3, 8, 12], [5, 5, 12], [0, 1, 9], [3, 8, 12]):
        offs = ej.tensor(ends, dtype=ej.int32)
        assert ej.equal(compiled(a, b, offs), ej.nn.functional.grouped_mm(a, b, offs=offs))


@pytest.mark.parametrize(
    "changed",
    [
        lambda t, a, b, offs: (a.double(), b, offs),
        lambda t, a, b, offs: (a, b.half(), offs),
        lambda t, a, b, offs: (a, b, None),
        lambda t, a, b, offs: (a[None], b[:1], offs),
        lambda t, a, b, offs: (a[None], b, None),
        lambda t, a, b, offs: (a, b, offs.long()),
        lambda t, a, b, offs: (a, b, offs[None]),
        lambda t, a, b, offs: (a, b, offs[:2]),
        lambda t, a, b, offs: (a, b[:, :8], offs),
        lambda t, a, b, offs: (a[0], b, offs),
        lambda t, a, b, offs: (a, b, offs, b[:, 0]),
        lambda t, a, b, offs: (a, b, offs, None, t.float64),
    ],
)
def test_refusals(changed: Any) -> None:
    for t in (torch, ej):
        given = changed(t, *operands(t, *SHAPES["rows"], "float32"))
        with pytest.raises(RuntimeError):
            t._grouped_mm(*given)
