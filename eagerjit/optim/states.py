"""The states of parameters as their first step finds them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from eagerjit.autograd.modes import no_grad
from eagerjit.compiler.ir import Node
from eagerjit.guards.epochs import Table
from eagerjit.optim.groups import Group
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.state import state as thread
from eagerjit.state import untraced
from eagerjit.tensors.creation import zeros
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import Renewed, TraceBreak, user_line
from eagerjit.watching.slots import ABSENT

if TYPE_CHECKING:
    from eagerjit.optim.optimizer import Optimizer


def begin(optimizer: Optimizer, group: Group, fresh: list[Tensor], leaving: dict[Tensor, Tensor]) -> None:
    """Make the states of new parameters, and counts of their own for those that stop sharing these counts of steps.

    For a recorded call they were there before, unless it has made the optimizer: then each call makes them.
    """
    tracer = thread.tracer
    if tracer is None or tracer.is_made(optimizer):
        return _make(optimizer, group, fresh, leaving)
    if any(type(p._data) is Node for p in fresh):
        raise TraceBreak("an optimizer keeps the state of a parameter that is made in the function", user_line())
    options = Group({key: _of_this_call(value) for key, value in group.items()})
    held = {p: optimizer.state.get(p, ABSENT) for p in fresh}
    with untraced():
        tracer.journal.made_outside(partial(_make, optimizer, options, fresh, leaving))
    tracer.journal.beginning.filled.append((optimizer.state, held, user_line()))
    if any(id(step) in tracer.written for step in leaving.values()):  # by a step for all, when each had its own count
        raise Renewed("an optimizer's count of steps is divided after the call has taken a step", user_line())


def begun(optimizer: Optimizer) -> list[Tensor]:
    """Make the states of an optimizer that has none, as its first step does; of the parameters whose these are."""
    if optimizer.state or not optimizer.shares_steps():  # where a program defines the step, that makes them
        return []
    fresh = [(group, [p for p in group["params"] if p._requires_grad]) for group in optimizer.param_groups]
    for group, parameters in fresh:
        _make(optimizer, group, parameters, {})
    return list(optimizer.state)


def _of_this_call(option: Any) -> Any:
    """An option with its numbers as they are in the call being recorded: states are made for that call alone."""
    if type(option) is tuple:
        return tuple(map(_of_this_call, option))
    option = option.number if type(option) is TracedNumber else option
    if type(option) is SymbolicInt:
        return option._known()
    if type(option) is TracedFloat:
        return option._value() if option.value is None else option.value
    return option


@no_grad()
def _make(optimizer: Optimizer, group: Group, fresh: list[Tensor], leaving: dict[Tensor, Tensor]) -> None:
    steps = {parameter.device: zeros((), dtype=dtypes.float32, device=parameter.device) for parameter in fresh}
    for parameter in fresh:
        made, counts = optimizer.new_state(group, parameter), optimizer.counts_steps(group)
        if made or counts:
            optimizer.state[parameter] = Table()
        if counts:
            optimizer.count_from(parameter, steps[parameter.device])
        if made:
            optimizer.state[parameter].update(made)
    for parameter, step in leaving.items():
        optimizer.count_from(parameter, step.clone())
