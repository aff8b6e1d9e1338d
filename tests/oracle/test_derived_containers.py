"""Sizes, dimensions and tensors in lists and tuples of classes of their own, against PyTorch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import same

import eagerjit

Pair = namedtuple("Pair", "first second")


class Tracked(list):
    """A list that compares its items, and has no hash."""

    __hash__ = None  # type: ignore[assignment]


class Fixed(tuple):
    __slots__ = ()


KINDS = (Tracked, Fixed, lambda items: Pair(*items))
OF_DIMENSIONS: tuple[Callable[..., Any], ...] = (
    lambda t, x, kind: x.mean(kind((0, 1))),
    lambda t, x, kind: t.sum(x, kind((0, 2))),
    lambda t, x, kind: x.amax(dim=kind((0, 1))),
    lambda t, x, kind: x.logsumexp(kind((0, 1))),
    lambda t, x, kind: t.var_mean(x, kind((0, 1))),
    lambda t, x, kind: x.flip(kind((0, 1))),
    lambda t, x, kind: x.reshape(kind((6, 4))),
)
OF_TENSORS: tuple[Callable[..., Any], ...] = (
    lambda t, x, kind: t.cat(kind((x, x * 2))),
    lambda t, x, kind: t.stack(kind((x, x * 2)), 1),
    lambda t, x, kind: t.hstack(kind((x, x * 2))),
)


def computed(t: Any, call: Callable[..., Any], kind: Any) -> Any:
    results = []
    for factor in (1.0, 3.0):
        x = (t.arange(24.0).reshape(2, 3, 4) * factor).requires_grad_()
        result = call(t, x, kind)
        parts = result if isinstance(result, tuple) else (result,)
        sum((part * part).sum() for part in parts).backward()
        results.append((*(part.detach() for part in parts), x.grad))
    return results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", OF_DIMENSIONS + OF_TENSORS)
def test_lists_and_tuples_of_any_class(call: Callable[..., Any], kind: Any) -> None:
    theirs, ours = (computed(t, call, kind) for t in (torch, eagerjit))
    jitted = eagerjit.jit(lambda t, x, k: call(t, x, k))
    compiled = computed(eagerjit, jitted, kind)
    for expected, plain, recorded in zip(theirs, ours, compiled, strict=True):
        for e, p, s in zip(expected, plain, recorded, strict=True):
            same(p, e)
            same(s, e)
