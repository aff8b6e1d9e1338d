"""Modules around others that keep less for their gradient, and the parts of programs for several devices."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.algorithms._checkpoint.checkpoint_wrapper as theirs
import torch.nn.parallel.scatter_gather

import eagerjit as ej
import eagerjit.distributed.algorithms._checkpoint.checkpoint_wrapper as ours
import eagerjit.nn.parallel

LIBRARIES: Any = ((torch, theirs), (ej, ours))
Pair = collections.namedtuple("Pair", "first second")


def model(t: Any) -> Any:
    made = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Sequential(t.nn.Tanh(), t.nn.Linear(4, 4)), t.nn.Linear(4, 2))
    with t.no_grad():
        for i, parameter in enumerate(made.parameters()):
            g = np.random.default_rng(i)
            parameter.copy_(t.from_numpy(g.standard_normal(tuple(parameter.shape)).astype(np.float32)))
    return made


def wrappers(module: Any) -> Any:
    implementations = module.CheckpointImpl
    return {
        "plain": module.checkpoint_wrapper,
        "reentrant": lambda part: module.checkpoint_wrapper(part, implementations.REENTRANT, preserve_rng_state=False),
        "own": lambda part: module.checkpoint_wrapper(part, checkpoint_fn=lambda f, *a, scale: f(*a) * scale, scale=2),
        "offload": module.offload_wrapper,
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["plain", "reentrant", "own", "offload"])
def test_values_gradients_and_names(name: str) -> None:
    found = []
    for t, module in LIBRARIES:
        plain, whole = model(t), model(t)
        module.apply_activation_checkpointing(whole, wrappers(module)[name], lambda part: len([*part.children()]) == 0)
        x = t.ones(2, 3, requires_grad=True)
        out = whole(x)
        out.sum().backward()
        state = whole.state_dict()
        whole.load_state_dict({k: v + 1 for k, v in plain.state_dict().items()})
        plain.load_state_dict(whole.state_dict())
        kinds = [type(part).__name__ for part in whole.modules()]
        names = [n for n, _ in whole.named_parameters()]
        reached = [whole[0].in_features, type(whole[1][0]).__name__, tuple(whole[2].weight.shape)]
        found.append([[*state], kinds, names, reached, str(whole), out.detach().numpy(), x.grad.numpy(), *(
            p.grad.numpy() for p in whole.parameters()
        )])  # fmt: skip
        if t is ej:
            assert ej.equal(ej.jit(whole)(x), whole(x))
    for a, b in zip(*found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
        else:
            assert a == b


def test_which_parts_are_wrapped() -> None:
    def policy(module: Any, recurse: bool, nonwrapped_numel: int) -> bool:
        return nonwrapped_numel > 15 or (recurse and nonwrapped_numel > 100)

    found: list[Any] = []
    for t, module in LIBRARIES:
        whole = model(t)
        module.apply_activation_checkpointing(whole, auto_wrap_policy=policy)
        found.append(str(whole))
        everything = model(t)
        module.apply_activation_checkpointing(everything)
        found[-1] += str(everything)
        with pytest.raises(ValueError, match="callable"):
            module.apply_activation_checkpointing(whole, auto_wrap_policy=3)
        with pytest.raises(AssertionError, match="already wrapped"):
            module.apply_activation_checkpointing(whole, module.CheckpointWrapper)
        assert not hasattr(whole[1], "absent")
    assert found[0] == found[1]


def test_names_of_arguments_reach_a_part_that_runs_again() -> None:
    class Scaled(ej.nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:
            return (x * scale).tanh()

    x = ej.ones(2, requires_grad=True)
    for kind in ours.CheckpointImpl:
        assert ej.equal(ours.checkpoint_wrapper(Scaled(), kind)(x, scale=x + 1), (x * (x + 1)).tanh())


GIVEN: Any = [3, [3, "a", {"a": 5}], (3, (), {}), {"a": [1, 2]}, Pair(1, [2]), collections.OrderedDict(b=1), []]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_is_no_tensor_goes_to_all_devices(given: Any) -> None:
    parts = (torch.nn.parallel.scatter_gather, eagerjit.nn.parallel)
    theirs, ours = (part.scatter(given, [0, 1]) for part in parts)
    assert ours == theirs and [*map(type, ours)] == [*map(type, theirs)]
    for args, kwargs in ((given,), None), ((), {"a": given}), ((1, given), {"a": 2}), ((), {}):
        theirs, ours = (part.scatter_kwargs(args, kwargs, [0, 1]) for part in parts)
        assert ours == theirs


def test_one_device_keeps_containers() -> None:
    x, parts = ej.ones(2), eagerjit.nn.parallel
    assert parts.scatter({"a": (x, 3)}, [0])[0]["a"][0] is x
    assert parts.gather([Pair(x, [x, None])], 0).second[0] is x and parts.gather([{"a": x}], 0)["a"] is x


@pytest.mark.skipif(ej.cuda.is_available(), reason="says what machines without a GPU do")
def test_what_needs_a_device_says_so() -> None:
    for t in (torch, ej):
        parts, layer = t.nn.parallel, t.nn.Linear(1, 1)
        for expected, call in (
            (RuntimeError, lambda p=parts, m=layer, t=t: p.data_parallel(m, t.ones(1, 1))),
            (RuntimeError, lambda p=parts, m=layer, t=t: p.parallel_apply([m], [t.ones(1, 1)])),
            (AssertionError, lambda p=parts, m=layer: p.parallel_apply([m, m], [1])),
            (AssertionError, lambda p=parts, m=layer: p.parallel_apply([m], [1], [{}, {}])),
            (AssertionError, lambda p=parts, m=layer: p.replicate(m, [0])),
            (ValueError, lambda p=parts: p.gather([{"a": None}, {}], "cpu")),
        ):
            with pytest.raises(expected):
                call()
        assert parts.replicate(layer, []) == [] and parts.gather([{"a": None}] * 2, "cpu") == {"a": None}
