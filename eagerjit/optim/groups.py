"""Options of an optimizer's groups: read by compiled calls as numbers, and checked when they are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerjit.effects.cautions import caution
from eagerjit.guards.comparing import Unchanged
from eagerjit.guards.epochs import Table
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import mode
from eagerjit.state import state as thread
from eagerjit.tensors.tensor import Tensor

LATER_WAYS: dict[str, Any] = {"foreach": None, "maximize": False, "differentiable": False}
LATER: dict[str, Any] = {**LATER_WAYS, "capturable": False}
"""Options that optimizers have had only since some release, and what steps were without them."""


class Group(Table):
    """The options of a group: compiled calls read floats at every call, other changes start a new epoch, as does an
    option that becomes zero or ceases to be: it decides on what an update has to do at all.

    `parts` holds the floats of options that are two, such as betas, and those of options that NumPy has made, where
    compiled calls find them.
    """

    holds_options = True
    """What tells code that is traced that items are read by the tracer."""

    def __init__(self, options: dict[str, Any] | None = None):
        super().__init__(options or {})
        self.parts: dict[str, float] = {}
        for key, value in self.items():
            self._note(key, value)

    def __setitem__(self, key: str, value: Any) -> None:
        before = self.get(key)
        dict.__setitem__(self, key, value)
        alike = type(value) is float and type(before) is float and bool(value) is bool(before)
        if alike and not self.parts and thread.tracer is None:
            return
        self._note(key, value)
        floats = type(value) is type(before) in (float, np.float64) and bool(value) is bool(before)
        if not (floats or (is_pair(value) and is_pair(before))):
            mode.bump_epoch()
        if thread.tracer is not None:
            thread.tracer.note_item(self, key, value)
            if is_pair(value):
                for index in (0, 1):
                    thread.tracer.note_item(self.parts, f"{key}[{index}]", value[index])

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The option, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take over options."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, options: Any) -> Any:  # type: ignore[misc]
        self.update(options)
        return self

    def _note(self, key: str, value: Any) -> None:
        if is_pair(value):
            self.parts[f"{key}[0]"], self.parts[f"{key}[1]"] = (float(x) if type(x) is int else x for x in value)
        if type(value) is np.float64:
            self.parts[key] = float(value)
        else:
            self.parts.pop(key, None)


def checked_group(given: Any, named: list[bool]) -> dict[str, Any]:
    """A new group, its parameters in a list and their names apart; `named` says whether those before have names."""
    if not isinstance(given, dict):
        raise TypeError(f"param_group must be a dict, but got {type(given)}")
    params = given["params"]
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    params = [params] if isinstance(params, Tensor) else list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    if names and len(names) < len(params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    group = {**given, "params": [p[1] if isinstance(p, tuple) else p for p in params]}
    if names:
        group["param_names"] = names
    if named and has_names(group) is not named[0]:
        how = "with" if names else "without"
        raise ValueError(
            "all optimizer param groups should be with/without names. cannot add param group "
            f"{how} names to the optimizer"
        )
    for parameter in group["params"]:
        if not isinstance(parameter, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}")
        if not parameter.is_leaf and not parameter.retains_grad:
            raise ValueError("can't optimize a non-leaf Tensor")
    if len(set(map(id, group["params"]))) < len(group["params"]):
        caution("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error")
    return group


def rounds(found: list[tuple[Tensor, Tensor | None]]) -> Iterator[tuple[list[tuple[Tensor, Tensor]], list[Tensor]]]:
    """What an update takes of parameters with their gradients, and the parameters that it leaves out.

    There is a further one for what is given twice: writes of one update to the same memory would have no order.
    """
    parts: dict[int, list[tuple[Tensor, Tensor]]] = {}
    times: Counter[int] = Counter()
    for parameter, gradient in found:
        if gradient is not None:
            parts.setdefault(times[id(parameter)], []).append((parameter, gradient))
            times[id(parameter)] += 1
    for present in parts.values():
        taken = {id(parameter) for parameter, _ in present}
        yield present, [parameter for parameter, _ in found if id(parameter) not in taken]


def numbered(groups: list[Group]) -> dict[int, int]:
    """The number of each parameter, by identity: in the first group that has it, its last place there."""
    numbers: dict[int, int] = {}
    start = 0
    for group in groups:
        numbers = {id(p): number for number, p in enumerate(group["params"], start)} | numbers
        start += len(group["params"])
    return numbers


def has_names(group: dict[str, Any]) -> bool:
    """Whether a group's parameters have names."""
    return "param_names" in group


def is_pair(value: Any) -> bool:
    """Whether an option is two numbers."""
    return type(value) is tuple and len(value) == 2 and all(type(x) in (float, int, TracedFloat) for x in value)


def number(group: Group, key: str) -> Any:
    """An option as a number; in a trace an input of the compiled call, read from the group each time."""
    tracer = thread.tracer
    value = group[key] if tracer is None else tracer.item_option(group, key, "option")
    value = value.number if type(value) is TracedNumber else value
    if type(value) is SymbolicInt:
        return tracer.float_of(value)  # type: ignore[union-attr]  # a traced number has a tracer
    return float(value) if type(value) is int else value


def pair(group: Group, key: str) -> tuple[float, float]:
    """An option that is two numbers, such as betas."""
    tracer, value = thread.tracer, group[key]
    if tracer is not None and not is_pair(value):  # a list, which may change
        tracer.journal.checks.append(Unchanged(value, frozenset()))
    if tracer is None or not is_pair(value):
        first, second = value
        return float(first), float(second)
    return tracer.item_pair(group, key)  # type: ignore[union-attr]  # there is one


def validated(name: str, value: Any, low: float = 0.0) -> None:
    """Refuse options that are negative or NaN, and learning rates of several elements."""
    if name == "learning rate" and isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not low <= value:
        raise ValueError(f"Invalid {name}: {value}")


def validated_betas(betas: Any) -> None:
    """Refuse shares outside of [0, 1)."""
    for index in (0, 1):
        if not 0.0 <= betas[index] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {betas[index]}")


def validated_ways(fused: Any, foreach: Any, differentiable: bool) -> None:
    """Refuse ways of computing a step that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
