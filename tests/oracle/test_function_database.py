"""PyTorch's own database of functions with gradients of their own: its source with this library in its place."""

from __future__ import annotations

import functools
import itertools
import re
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from database import Converter, array_of, from_torch, is_same, outcome, tensors
from torch.testing._internal import autograd_function_db as database

import eagerjit as ej

STATED = {
    "what marks an argument as dirty is not differentiated in place under vmap": {
        ("NumpyExpMarkDirtyAutogradFunction", "gradient of examples"),
    },
    "under vmap what depends on no example is recorded too, and not an array": {
        ("NumpyMulAutogradFunction", "gradient of examples"), ("NumpyTakeAutogradFunction", "gradient of examples"),
    },
}  # fmt: skip
"""What differs, by reason. What no longer does has to leave it."""


def _functions() -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Every entry of the database, with the function that its source makes here."""
    with open(database.__file__) as file:
        text, table = file.read().replace("import torch\n", "import eagerjit as torch\n", 1).split(
            "autograd_function_db = ["
        )
    module = types.ModuleType("functions_of_the_database")
    exec(compile(text, database.__file__, "exec"), vars(module))
    made = [eval(line, vars(module)) for line in re.findall(r"op=(.*),\n", table)]
    return {info.name: (info, op) for info, op in zip(database.autograd_function_db, made, strict=True)}


FUNCTIONS = _functions()


def _requiring(value: Any) -> list[Any]:
    return [t for t in tensors(value) if t.requires_grad]


def _gradients(library: Any, call: Callable[..., Any], given: list[Any], seeds: list[Any]) -> Iterator[Any]:
    """What is called gives: results, and gradients of them and of those."""
    leaves, found = _requiring(given), call(*given)
    yield "result", found
    roots = _requiring(found)
    first = library.autograd.grad(roots, leaves, seeds[: len(roots)], create_graph=True, allow_unused=True)
    yield "gradient", [g for g in first if g is not None]
    again = _requiring(list(first))
    if again:
        starts = [library.ones_like(t) for t in again]
        second = library.autograd.grad(again, leaves, starts, allow_unused=True)
        pairs = zip(second, leaves, strict=True)
        yield "second gradient", [library.zeros_like(x) if g is None else g for g, x in pairs]


def _transformed(library: Any, call: Callable[..., Any], given: list[Any], seed: Any) -> Iterator[Any]:
    """Calls for tangents, and for results and gradients of several examples."""
    first, *rest = [x.detach() if isinstance(x, library.Tensor) else x for x in given]
    rows = library.stack([first, first + 1, first * 2])

    def of_one(row: Any) -> Any:
        return call(row, *rest)

    yield "tangent", lambda: library.func.jvp(of_one, (first,), (seed,))
    yield "examples", lambda: library.vmap(of_one)(rows)
    yield "gradient of examples", lambda: library.vmap(library.func.grad(lambda x: tensors(of_one(x))[0].sum()))(rows)


def _check_compiled(call: Callable[..., Any], given: list[Any], expected: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = ej.jit(call)(*given)
    for a, b in zip(tensors(compiled), tensors(expected), strict=True):
        assert array_of(a).tobytes() == array_of(b).tobytes() and a.requires_grad == b.requires_grad


def _differences(info: Any, function: Callable[..., Any]) -> dict[str, str]:
    out: dict[str, str] = {}
    for sample in itertools.islice(info.sample_inputs("cpu", torch.float64, requires_grad=True), 4):
        convert, given = Converter(), [sample.input, *sample.args]
        own = convert(given)
        calls = functools.partial(info.op, **sample.kwargs), functools.partial(function, **convert(sample.kwargs))
        seeds = [torch.randn(t.shape, dtype=torch.float64) for t in tensors(calls[0](*given))]
        expected = dict(_gradients(torch, calls[0], given, seeds))
        found = dict(_gradients(ej, calls[1], own, convert(seeds)))
        out |= {k: "other values" for k, v in expected.items() if k not in found or not is_same(found[k], v)}
        _check_compiled(calls[1], own, found["result"])
        seed = torch.randn(given[0].shape, dtype=torch.float64)
        theirs = _transformed(torch, calls[0], given, seed)
        ours = _transformed(ej, calls[1], own, from_torch(seed))
        for (kind, expected_call), (_, call) in zip(theirs, ours, strict=True):
            (wanted, refused), (value, error) = outcome(expected_call), outcome(call)
            if refused is None and (error is not None or not is_same(value, wanted)):
                out[kind] = repr(error)
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    found = _differences(*FUNCTIONS[name])
    stated = {kind for pairs in STATED.values() for known, kind in pairs if known == name}
    assert {kind: what for kind, what in found.items() if kind not in stated} == {}
    assert stated <= set(found)
