"""Where a plain call leaves what the compiled one gives besides the function's results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.recording.results import is_traced
from eagerjit.recording.trace import Tracer
from eagerjit.watching.slots import GradientOf

Find = Callable[[dict[int, Any], Sequence[Any]], Any]
"""Finds such a tensor, with the results by position and the arguments of the call."""


def finders(tracer: Tracer, results: list[Any], count: int) -> dict[int, Find]:
    """What finds the results from `count` on: gradients of tensors from outside or of results, and what these view."""
    known: dict[int, Find] = {}
    for index, result in enumerate(results):
        if not is_traced(result):
            continue
        known.setdefault(id(result._grad), functools.partial(_gradient, index))
        viewed, depth = result, 0
        while is_traced(viewed) and viewed._view is not None:
            viewed, depth = viewed._view.base, depth + 1
            known.setdefault(id(viewed), functools.partial(_viewed, index, depth))
    for tensor, gradient in tracer.gradients.values():
        known[id(gradient)] = functools.partial(_gradient_outside, tracer.gradient_of(tensor))
    return {i: known[id(r)] for i, r in enumerate(results) if i >= count and id(r) in known}


def _gradient(index: int, results: dict[int, Any], arguments: Sequence[Any]) -> Any:
    return results[index]._grad


def _gradient_outside(gradient: GradientOf, results: dict[int, Any], arguments: Sequence[Any]) -> Any:
    return gradient.read(arguments)


def _viewed(index: int, depth: int, results: dict[int, Any], arguments: Sequence[Any]) -> Any:
    found = results[index]
    for _ in range(depth):
        found = found._view.base
    return found
