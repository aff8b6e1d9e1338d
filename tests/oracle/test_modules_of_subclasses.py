"""Every module of PyTorch's database, given instances of a subclass of Tensor: what it gives are such, too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from database import Unknown, outcome
from module_database import ModuleComparison, ModuleConverter, loaded, modules

import eagerjit as ej

GROUPS = 2
OF_DOUBLES = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"}
"""Modules that keep random samples, in the database in double precision."""


class Theirs(torch.Tensor):
    pass


@pytest.fixture
def ours() -> type:
    """A class of the test's own: the first one lets all functions of the process ask."""
    return type("Ours", (ej.Tensor,), {})


def given(value: Any, base: type, kind: type) -> Any:
    if isinstance(value, base):
        of_kind = value.detach().as_subclass(kind).requires_grad_(value.requires_grad)
        return of_kind if value.is_floating_point() else value
    if type(value) in (list, tuple):
        return type(value)([given(part, base, kind) for part in value])
    return {name: given(part, base, kind) for name, part in value.items()} if type(value) is dict else value


def classes(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [*map(classes, value)]
    return type(value).__name__.replace("Theirs", "Ours")


@pytest.mark.parametrize("group", range(GROUPS))
def test_results_are_of_the_class(group: int, ours: type) -> None:
    different = {}
    for name in sorted(modules())[group::GROUPS]:
        info = modules()[name]
        dtype = torch.float64 if name in OF_DOUBLES else torch.float32
        for sample in ModuleComparison(info)._inputs(dtype, False)[:1]:
            made_of, call, convert = sample.constructor_input, sample.forward_input, ModuleConverter()
            try:
                args, kwargs = convert(list(made_of.args)), convert(dict(made_of.kwargs))
                arguments, named = convert(list(call.args)), convert(dict(call.kwargs))
            except Unknown:
                continue
            theirs = info.module_cls(*made_of.args, **made_of.kwargs).to(dtype).eval()
            own = getattr(ej.nn, info.module_cls.__name__)(*args, **kwargs).eval()
            own = own.double() if name in OF_DOUBLES else own
            own = own if info.is_lazy else loaded(own, theirs)
            expected, _ = outcome(theirs, *given(list(call.args), torch.Tensor, Theirs), **call.kwargs)
            found, error = outcome(own, *given(arguments, ej.Tensor, ours), **named)
            if error is not None or classes(found) != classes(expected):
                different[name] = classes(found), classes(expected), error
    assert different == {}
