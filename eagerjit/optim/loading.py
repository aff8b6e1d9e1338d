"""Options and states that were saved, as an optimizer takes them over."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any

from eagerjit.guards.epochs import States, Table
from eagerjit.optim.groups import Group
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import tensor
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.optim.optimizer import Optimizer


def checked(saved: list[Any], own: list[Group]) -> None:
    """Refuse groups of another number, or of other numbers of parameters."""
    if len(saved) != len(own):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, own, strict=True)):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )


def taken_group(saved: dict[str, Any], own: Group) -> Group:
    """A saved group over the parameters of this one, whose options are none of its own; names stay."""
    names = {"param_names": own["param_names"]} if "param_names" in own and "param_names" not in saved else {}
    return Group({**deepcopy(saved), "params": own["params"], **names})


def taken_states(optimizer: Optimizer, saved: dict[Any, Any], groups: list[Any]) -> States:
    """Saved states as the optimizer's own; what belongs to no parameter is as it was."""
    parameters = chain.from_iterable(group["params"] for group in optimizer.param_groups)
    by_number = dict(zip(chain.from_iterable(group["params"] for group in groups), parameters, strict=True))
    group_of = {number: index for index, group in enumerate(groups) for number in group["params"]}
    steps: list[dict[Any, Tensor]] = [{} for _ in groups]  # every group updates its counts of its own
    states = States()
    for number, kept in saved.items():
        if number not in by_number:
            states[number] = kept
            continue
        parameter, shared = by_number[number], steps[group_of[number]]
        states[parameter] = Table({k: _taken(optimizer, k, v, parameter, shared) for k, v in kept.items()})
    return states


def _taken(optimizer: Optimizer, key: str, value: Any, parameter: Tensor, steps: dict[Any, Tensor]) -> Any:
    """A saved value, tensors in their parameter's dtype; equal counts of steps are shared again."""
    if isinstance(value, (list, tuple)):
        return type(value)([_taken(optimizer, "", v, parameter, steps) for v in value])
    if isinstance(value, dict):
        return {k: _taken(optimizer, k, v, parameter, steps) for k, v in value.items()}
    number = key in optimizer.counters and isinstance(value, (int, float))
    if not number and not isinstance(value, Tensor):
        return value
    if number or key == "step":
        value = tensor(float(value), dtype=dtypes.float32, device=parameter.device)
        together = key == "step" and optimizer.shares_steps()
        return steps.setdefault((value.item(), parameter.device), value) if together else value
    wanted = parameter.dtype if parameter.dtype.is_floating_point else value.dtype
    return value.detach().to(parameter.device, wanted, copy=True)
