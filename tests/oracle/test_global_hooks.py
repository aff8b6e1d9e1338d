"""Hooks of all Modules against PyTorch's, and with compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import eagerjit as ej
from eagerjit.state import Defaults

LIBRARIES = (ej, torch)


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    assert not Defaults.module_hooks


def agree(function: Callable[[Any, Any], Any]) -> None:
    """Both libraries give the same numbers and texts."""
    ours, theirs = (function(library, library.nn.modules.module) for library in LIBRARIES)
    assert ours == theirs


def model(library: Any) -> Any:
    network = library.nn.Sequential(library.nn.Linear(2, 2, bias=False), library.nn.ReLU())
    library.nn.init.eye_(network[0].weight)
    return network


def test_calls_pass_through_all_hooks_in_order() -> None:
    def run(library: Any, places: Any) -> Any:
        seen: list[Any] = []
        network = model(library)
        network[0].register_forward_pre_hook(lambda m, a: seen.append("own before"))
        network[0].register_forward_hook(lambda m, a, r: seen.append("own after"))
        handles = [
            places.register_module_forward_pre_hook(lambda m, a: seen.append((type(m).__name__, a[0].tolist()))),
            places.register_module_forward_pre_hook(lambda m, a: a[0] + 1 if isinstance(m, library.nn.ReLU) else None),
            places.register_module_forward_hook(lambda m, a, k, r: seen.append(sorted(k)), with_kwargs=True),
            places.register_module_forward_hook(lambda m, a, r: r * 2),
        ]
        results = [network(library.ones(1, 2)).tolist()]
        handles[3].remove()
        results.append(network(library.ones(1, 2)).tolist())
        for handle in handles:
            handle.remove()
        return seen, results, network(library.ones(1, 2)).tolist()

    agree(run)


def test_hooks_of_gradients() -> None:
    def run(library: Any, places: Any) -> Any:
        seen: list[Any] = []
        network = model(library)
        network[0].register_full_backward_hook(lambda m, gi, go: seen.append(("own", gi[0].tolist())))
        first = places.register_module_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        second = places.register_module_full_backward_hook(
            lambda m, gi, go: seen.append((type(m).__name__, gi[0].tolist(), go[0].tolist()))
        )
        x = library.ones(1, 2, requires_grad=True)
        out = network(x)
        first.remove()
        second.remove()
        out.sum().backward()  # the hooks of the call are those that there were then
        return seen, x.grad.tolist(), network[0].weight.grad.tolist()

    agree(run)


def test_hooks_called_after_errors() -> None:
    def run(library: Any, places: Any) -> Any:
        seen: list[Any] = []
        first = places.register_module_forward_hook(lambda m, a, r: seen.append("not"))
        second = places.register_module_forward_hook(lambda m, a, r: seen.append(r), always_call=True)
        with pytest.raises(NotImplementedError):
            library.nn.Module()(1)
        first.remove()
        second.remove()
        return seen

    agree(run)


def test_hooks_of_what_modules_get() -> None:
    def run(library: Any, places: Any) -> Any:
        seen: list[Any] = []

        def note(module: Any, name: str, value: Any) -> None:
            seen.append((type(module).__name__, name, type(value).__name__))

        def doubled(module: Any, name: str, value: Any) -> Any:
            return None if value is None else value * 2

        handles = [
            places.register_module_parameter_registration_hook(note),
            places.register_module_buffer_registration_hook(note),
            places.register_module_buffer_registration_hook(doubled),
            places.register_module_module_registration_hook(note),
            places.register_module_module_registration_hook(lambda m, n, v: library.nn.Tanh() if n == "b" else None),
        ]
        module = library.nn.Module()
        module.weight = library.nn.Parameter(library.ones(2))
        module.weight = None
        module.register_parameter("none", None)
        module.register_buffer("count", library.ones(2))
        module.count = library.ones(2) + 1
        module.register_buffer("nothing", None)
        module.a = library.nn.ReLU()
        module.a = None
        module.add_module("b", library.nn.ReLU())
        for handle in handles:
            handle.remove()
        return seen, module.count.tolist(), repr(module)

    agree(run)


def test_compiled_functions_meet_them() -> None:
    network = model(ej)
    compiled = ej.jit(network)
    x = ej.tensor([[1.0, -1.0]])
    plain = compiled(x)
    assert ej.equal(compiled(x), plain)
    seen: list[str] = []
    places = ej.nn.modules.module
    with places.register_module_forward_hook(lambda m, a, r: (seen.append(type(m).__name__), r + 1)[1]):
        assert ej.equal(compiled(x), network(x)) and not ej.equal(compiled(x), plain)
        assert seen == ["Linear", "ReLU", "Sequential"] * 3
    assert ej.equal(compiled(x), plain) and len(seen) == 9


def test_added_in_a_compiled_function() -> None:
    network = model(ej)

    @ej.jit
    def call(x: Any) -> Any:
        with ej.nn.modules.module.register_module_forward_hook(lambda m, a, r: r + 1):
            return network(x)

    x = ej.ones(1, 2)
    with pytest.warns(UserWarning, match="a hook of all Modules is added"):
        first = call(x)
    assert first.tolist() == call(x).tolist() == [[4.0, 4.0]]


def test_shared_memory_of_parameters() -> None:
    for library in LIBRARIES:
        network = model(library)
        assert network.share_memory() is network
        assert all(parameter.is_shared() for parameter in network.parameters())
