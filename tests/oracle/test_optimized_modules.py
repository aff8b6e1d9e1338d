"""What `compile` makes of a Module, against PyTorch's OptimizedModule: names, attributes, hooks, copies, state."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from test_module_api import agree

import eagerjit as ej


def compiled(t: Any, module: Any) -> Any:
    return t.compile(module) if t is ej else t.compile(module, backend="eager")


def pair(t: Any) -> tuple[Any, Any]:
    """A Module with parameters, a buffer and a number, and what `compile` makes of it."""

    class Net(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.scale = t.nn.Linear(2, 3), 5
            self.register_buffer("shift", t.ones(1))

        def forward(self, x: Any) -> Any:
            return self.layer(x) * self.scale + self.shift

        def described(self) -> str:
            return f"{type(self).__name__} scaled by {self.scale}"

    module = Net()
    return module, compiled(t, module)


def names(t: Any, module: Any, made: Any) -> Any:
    return [
        list(made.state_dict()), [name for name, _ in made.named_parameters()], [n for n, _ in made.named_buffers()],
        [name for name, _ in made.named_modules()], [name for name, _ in made.named_children()], repr(made),
        list(t.nn.Sequential(made).state_dict()), [type(m).__name__ for m in made.modules()],
    ]  # fmt: skip


def classes(t: Any, module: Any, made: Any) -> Any:
    optimized = t._dynamo.OptimizedModule
    return type(made).__name__, isinstance(made, type(module)), isinstance(made, optimized), made._orig_mod is module


def read(t: Any, module: Any, made: Any) -> Any:
    same = made.layer is module.layer, made.shift is module.shift
    return made.scale, made.described(), same, "described" in dir(made)


def written(t: Any, module: Any, made: Any) -> Any:
    made.scale, made.new, made.weight = 7, 3, t.nn.Parameter(t.zeros(1))
    made.register_buffer("outside", t.ones(1))
    del made.shift
    return module.scale, module.new, "new" in made.__dict__, list(made.state_dict()), hasattr(module, "shift")


def modes(t: Any, module: Any, made: Any) -> Any:
    found = [made.eval() is made, module.training, made.training, module.layer.training]
    module.train()
    return [*found, made.training, made.double() is made, str(module.layer.weight.dtype)[-8:]]


def hooks(t: Any, module: Any, made: Any) -> Any:
    called: list[str] = []
    module.register_forward_hook(lambda *given: called.append("inside"))
    made.register_forward_hook(lambda *given: called.append("outside"))
    made(t.ones(1, 2))
    return called


def copies(t: Any, module: Any, made: Any) -> Any:
    copied = copy.deepcopy(made)
    copied.scale = 6
    return type(copied).__name__, copied._orig_mod is module, list(copied.state_dict()), made.scale


def loaded(t: Any, module: Any, made: Any) -> Any:
    return str(made.load_state_dict(made.state_dict())), str(module.load_state_dict(made._orig_mod.state_dict()))


def loaded_without_prefix(t: Any, module: Any, made: Any) -> Any:
    made.load_state_dict(module.state_dict())


def loaded_with_prefix(t: Any, module: Any, made: Any) -> Any:
    module.load_state_dict(made.state_dict())


def lengths(t: Any, module: Any, made: Any) -> Any:
    return len(compiled(t, t.nn.Sequential(t.nn.ReLU())))


def no_length(t: Any, module: Any, made: Any) -> Any:
    return len(made)


def no_items(t: Any, module: Any, made: Any) -> Any:
    return compiled(t, t.nn.Sequential(t.nn.ReLU()))[0]


def found_by_path(t: Any, module: Any, made: Any) -> Any:
    return made.get_parameter("_orig_mod.layer.weight") is module.layer.weight, made.get_submodule("layer") is None


def another(t: Any, module: Any, made: Any) -> Any:
    made._orig_mod = t.nn.Linear(1, 1)
    return list(made.state_dict()), made.in_features


def in_place(t: Any, module: Any, made: Any) -> Any:
    found = module.compile() if t is ej else module.compile(backend="eager")
    return found, type(module).__name__, list(module.state_dict()), tuple(module(t.ones(1, 2)).shape)


CASES: list[Callable[..., Any]] = [
    names, classes, read, written, modes, hooks, copies, loaded, loaded_without_prefix, loaded_with_prefix, lengths,
    no_length, no_items, found_by_path, another, in_place,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_compiled_module(case: Callable[..., Any]) -> None:
    agree(lambda t: case(t, *pair(t)))


def test_what_is_compiled_stays_so() -> None:
    """Also in a jitted step: what is written through it is seen, and what it reads is not stale."""
    module, made = pair(ej)
    assert ej.compile(made) is made
    step = ej.jit(lambda x: made(x))
    x = ej.ones(4, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (5, 6, 7):
            made.scale = scale
            assert step(x).tolist() == module(x).tolist() == made(x).tolist()
    assert made.cache_info().eager_calls == 0 and "Linear" in repr(made)
