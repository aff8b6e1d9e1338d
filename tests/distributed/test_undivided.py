"""States of Modules that no processes divide among themselves, and collectives that return results: PyTorch's."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed
import torch.distributed._functional_collectives
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp

import eagerjit as ej
import eagerjit.distributed.checkpoint

LIBRARIES = (torch, ej)


@pytest.fixture(autouse=True)
def groups() -> Iterator[None]:
    for library in LIBRARIES:
        store = library.distributed.HashStore()
        library.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    for library in LIBRARIES:
        library.distributed.destroy_process_group()


def states(t: Any) -> Any:
    home = "distributed.checkpoint.state_dict" if t is torch else "distributed.checkpoint"
    return importlib.import_module(f"{t.__name__}.{home}")


def network(t: Any, device: str = "cpu") -> Any:
    made = t.nn.Sequential(t.nn.Linear(2, 3, device=device), t.nn.BatchNorm1d(3, device=device))
    made[0].bias.requires_grad_(False)
    return made


def seen(state: dict[str, Any]) -> dict[str, Any]:
    return {name: (tuple(value.shape), value.tolist()) for name, value in state.items()}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"ignore_frozen_params": True}, {"full_state_dict": True, "cpu_offload": True}], ids=str
)
def test_states(wrapped: bool, options: dict[str, bool]) -> None:
    found = []
    for t in LIBRARIES:
        tools, model = states(t), network(t)
        with t.no_grad():
            model[0].weight.fill_(0.5)
            model[0].bias.fill_(1.5)
        given = t.nn.parallel.DistributedDataParallel(model) if wrapped else model
        state = tools.get_model_state_dict(given, options=tools.StateDictOptions(**options))
        found.append(seen(state))
    assert found[0] == found[1]


STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
GIVEN: dict[str, tuple[dict[str, bool], list[str]]] = {
    "all": ({}, [f"{n}.{kind}" for n in "01" for kind in ("weight", "bias")] + [f"1.{kind}" for kind in STATISTICS]),
    "too few": ({}, ["0.weight"]),
    "too few, not strict": ({"strict": False}, ["0.weight", "elsewhere"]),
    "of all processes": ({"full_state_dict": True}, ["0.weight"]),
    "of all processes and others": ({"full_state_dict": True}, ["0.weight", "elsewhere"]),
    "nothing": ({}, []),
    "nothing, not strict": ({"strict": False}, []),
}


CASES = [
    *((what, "cpu", False) for what in GIVEN), ("of all processes", "meta", False),
    ("of all processes and others", "meta", False), ("all", "cpu", True),
]  # fmt: skip


@pytest.mark.parametrize(("what", "device", "wrapped"), CASES, ids=str)
def test_loading(what: str, device: str, wrapped: bool) -> None:
    options, names = GIVEN[what]
    found = []
    for t in LIBRARIES:
        tools, model = states(t), network(t, device)
        other = {**network(t).state_dict(), "elsewhere": t.ones(1)}
        given = {name: t.full_like(other[name], 2) for name in names}
        target = t.nn.parallel.DistributedDataParallel(model) if wrapped else model
        try:
            keys = tools.set_model_state_dict(target, given, options=tools.StateDictOptions(**options))
        except RuntimeError as error:
            found.append(type(error).__name__)
            continue
        state = {name: value for name, value in model.state_dict().items() if not value.is_meta and name in names}
        found.append([list(keys.missing_keys), list(keys.unexpected_keys), seen(state)])
    assert found[0] == found[1]


def test_parts_are_refused() -> None:
    tools = states(ej)
    with pytest.raises(NotImplementedError, match="set_model_state_dict"):
        tools.set_model_state_dict(network(ej), {}, options=tools.StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(NotImplementedError, match="get_model_state_dict"):
        tools.get_model_state_dict(network(ej), submodules={ej.nn.ReLU()})
    with pytest.raises(NotImplementedError):
        tools.HuggingFaceStorageReader("folder")


def test_collectives_that_return_results() -> None:
    found = []
    for t in LIBRARIES:
        tools = importlib.import_module(f"{t.__name__}.distributed._functional_collectives")
        x = t.arange(6.0).reshape(3, 2).requires_grad_()
        group = t.distributed.group.WORLD
        whole = tools.wait_tensor(tools.all_to_all_single_autograd(x * 2, None, None, group))
        parts = tools.wait_tensor(tools.all_to_all_single_autograd(x * 3, [3], [3], group))
        (whole.square().sum() + parts.sum()).backward()
        found.append([whole.tolist(), parts.tolist(), x.grad.tolist(), whole.requires_grad])
    assert found[0] == found[1]


def test_policies() -> None:
    found = []
    for t in LIBRARIES:
        tools = importlib.import_module(f"{t.__name__}.distributed.fsdp")
        policy = tools.MixedPrecisionPolicy(param_dtype=t.bfloat16)
        found.append([
            str(policy.param_dtype), policy.reduce_dtype, policy.cast_forward_inputs,
            tools.CPUOffloadPolicy().pin_memory, isinstance(tools.CPUOffloadPolicy(), tools.OffloadPolicy),
            tools.MixedPrecisionPolicy() == policy,
        ])  # fmt: skip
    assert found[0] == found[1]
