"""Optimizer: groups of parameters with options, and state per parameter.

A step is one op over all parameters of a group. Learning rates and the like are run-time numbers, and the count of
steps is a tensor, so steps never compile anew. Changes of structure start a new epoch, as with Modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from eagerjit._C import DisableTorchFunctionSubclass
from eagerjit.autograd.modes import enable_grad, no_grad
from eagerjit.guards.epochs import States, Table, noted
from eagerjit.optim import again, helpers
from eagerjit.optim.arithmetic import real, refuse_capturable, refuse_differentiable
from eagerjit.optim.groups import Group, checked_group, has_names, is_pair, numbered, rounds
from eagerjit.optim.hooks import common, hook_step, hooked
from eagerjit.optim.loading import checked, taken_group, taken_states
from eagerjit.optim.states import begin as begin_states
from eagerjit.optim.states import begun
from eagerjit.runtime import mode
from eagerjit.runtime.binding import bound
from eagerjit.runtime.program import Op
from eagerjit.state import state as thread
from eagerjit.tensors.hooks import Handle, add_hook
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

_APART = frozenset(("state", "param_groups", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"))
REQUIRED = required = object()
"""Stands for an option that every group must give."""


class Optimizer(helpers.Updates):
    """Base class of optimizers: subclasses define `update(group, parameters, gradients, states)`, or `step` itself.

    `params` are tensors, pairs of a name and a tensor, or dictionaries of "params" and options, one for each group.
    Raises TypeError for one tensor or what is none, ValueError for no parameters, for results of operations, for a
    parameter in two groups, and for options that a group lacks.
    """

    counters: tuple[str, ...] = ()
    """What is kept as a tensor without dimensions; states that are loaded may have it as a Python number."""

    later_options: ClassVar[dict[str, Any]] = {}
    """Options that groups in older files lack, and what they were when these were written."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self.defaults = defaults
        self.state: Any = States()
        self.param_groups: list[Group] = []
        self._state_hooks: dict[str, dict[int, Any]] = {
            moment: {} for moment in ("before saving", "save", "before loading", "load")
        }
        self._optimizer_step_pre_hooks: dict[int, Any] = Table()
        self._optimizer_step_post_hooks: dict[int, Any] = Table()
        self._patch_step_function()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize more parameters, with options of their own."""
        group = Group(checked_group(param_group, [*map(has_names, self.param_groups)]))
        known = set(map(id, chain.from_iterable(g["params"] for g in self.param_groups)))
        if known & set(map(id, group["params"])):
            raise ValueError("some parameters appear in more than one parameter group")
        for name, default in self.defaults.items():
            if default is REQUIRED and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        self.param_groups.append(group)
        mode.bump_epoch()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or fill them with zeros."""
        filled: list[Tensor] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif (gradient := parameter.grad) is not None:
                    filled.append(gradient)
        with no_grad():
            for gradient in filled:
                gradient.zero_()

    @hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; returns what the closure, run first, returns."""
        if type(self).update is Optimizer.update:
            raise NotImplementedError
        if thread.tracer is not None:
            if not all(isinstance(group, Group) for group in self.param_groups):
                raise TraceBreak("an optimizer's options are in a dictionary that the program has made", user_line())
            if not self._is_made():
                thread.tracer.owners.append(self)
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad(), DisableTorchFunctionSubclass():
            for group in self.param_groups:
                if thread.tracer is None and again.update_again(self, group):
                    continue
                for present, absent in rounds([(p, p.grad) for p in group["params"]]):
                    if group.get("differentiable"):
                        refuse_differentiable(present)
                    if group.get("capturable"):
                        refuse_capturable(present)
                    self._prepare(group, [p for p, _ in present], absent)
                    self._update_alike(group, present)
        if thread.tracer is not None and not self._is_made():
            self._guard_contents(thread.tracer)
        return loss

    def _is_made(self) -> bool:
        """Whether a call that is recorded has made this optimizer: each call makes one, and its states, anew."""
        return thread.tracer is not None and thread.tracer.is_made(self)

    def _guard_contents(self, tracer: Any) -> None:
        """Guard the lists, and dictionaries that the program has put here itself: nobody notes their changes."""
        for listed in (self.param_groups, *(group["params"] for group in self.param_groups)):
            leaf = tracer.new_leaf()
            tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(listed))
            tracer.guard_object(leaf, Op.EQUAL, listed.copy())
        if all(isinstance(kept, Table) for kept in self.state.values()):
            return
        before, alive = self._jit_state(), [[*kept.values()] for kept in self.state.values()]
        tracer.journal.checks.append(lambda: self._jit_state() == before and alive is not None)

    def _update_alike(self, group: Group, present: list[tuple[Tensor, Tensor]]) -> None:
        """One update per set of parameters with a common count of steps."""
        alike: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for parameter, gradient in present:
            alike.setdefault(id(self._kept(parameter).get("step")), []).append((parameter, gradient))
        again.forget(self, group)
        for pairs in alike.values():
            parameters, gradients = [p for p, _ in pairs], [g for _, g in pairs]
            states = [self._kept(p) for p in parameters]
            if bound.subclasses:
                parameters, gradients, states = self._without_sparse(group, parameters, gradients, states)
                if not parameters:
                    continue
            if any(p.is_complex() for p in parameters):
                parameters, gradients = [*map(real, parameters)], [*map(real, gradients)]
                states = [{name: real(value) for name, value in kept.items()} for kept in states]
            elif len(alike) == 1 and thread.tracer is None and again.is_dense(gradients):
                again.keep(self, group, [p._grad for p in group["params"]], states)
            self.update(group, parameters, gradients, states)

    def _without_sparse(
        self, group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Any]
    ) -> tuple[list[Tensor], list[Tensor], list[Any]]:
        """What has dense gradients; what has sparse ones is updated."""
        from eagerjit.sparse.updates import split

        dense, sparse = split(gradients)
        chosen = [([x[i] for i in dense], [x[i] for i in sparse]) for x in (parameters, gradients, states)]
        if sparse:
            self.update_sparse(group, chosen[0][1], chosen[1][1], chosen[2][1], not dense)
        return chosen[0][0], chosen[1][0], chosen[2][0]

    def update_sparse(
        self, group: Group, parameters: list[Tensor], gradients: list[Any], states: list[Any], alone: bool
    ) -> None:
        """Write the new parameters and states where gradients are sparse.

        `alone`: no dense ones come after these, which would count the step.
        """
        name = type(self).__name__
        if name in ("Adam", "AdamW"):
            raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
        raise RuntimeError(f"{name} does not support sparse gradients")

    def _kept(self, parameter: Tensor) -> dict[str, Any]:
        """A parameter's state, which update rules without any don't make."""
        return self.state.get(parameter, {})

    def count_from(self, parameter: Tensor, step: Tensor) -> None:
        """Keep a count of steps."""
        self.state[parameter]["step"] = step

    def update(self, group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Any]) -> None:
        """Write the new parameters and states."""
        raise NotImplementedError

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """A parameter's state before its first step, without the count of steps."""
        return {}

    def has_state(self, group: Group, parameter: Tensor) -> bool:
        """Whether the state of a parameter has all that the options now ask for."""
        return bool(self.state.get(parameter))

    def counts_steps(self, group: Group) -> bool:
        """Whether the state has a count of steps."""
        return True

    def shares_steps(self) -> bool:
        """Whether parameters may have one count of steps: a `step` of a program's own adds to each."""
        return type(self).update is not Optimizer.update

    def _prepare(self, group: Group, present: list[Tensor], absent: list[Tensor]) -> None:
        """Make the state of new parameters; those without a gradient now stop sharing their count of steps."""
        fresh = [p for p in present if not self.has_state(group, p)]
        shared = {id(self._kept(p)["step"]) for p in present if "step" in self._kept(p)}
        counts = {p: self._kept(p).get("step") for p in absent if p in self.state}
        leaving = {p: step for p, step in counts.items() if step is not None and id(step) in shared}
        if not fresh and not leaving:
            return
        begin_states(self, group, fresh, leaving)
        mode.bump_epoch()

    def begin_states(self) -> list[Tensor]:
        """Make all states, where there are none, as the first step does; of the parameters whose these are."""
        return begun(self)

    # -- state --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.state = States({p: noted(kept) for p, kept in self.state.items()})
        self.param_groups = [g if isinstance(g, Group) else Group(g) for g in self.param_groups]
        for group in self.param_groups:
            for name, value in self.later_options.items():
                group.setdefault(name, value)
        self._optimizer_step_pre_hooks = noted(self._optimizer_step_pre_hooks)
        self._optimizer_step_post_hooks = noted(self._optimizer_step_post_hooks)
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        """Make the class's step call hooks: for subclasses whose `__init__` leaves this one out."""
        hook_step(type(self))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state" and isinstance(value, dict) and not isinstance(value, States):
            value = States(value)
        if self.__dict__.get(name, self) is not value:
            object.__setattr__(self, name, value)
            mode.bump_epoch()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        mode.bump_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Options and state, parameters by number."""
        for hook in self._state_hooks["before saving"].values():
            hook(self)
        if thread.tracer is not None and thread.tracer.journal is not None:
            thread.tracer.journal.beginning.note_contents(self.state)
        self._note_read()
        numbers = numbered(self.param_groups)
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers.get(id(p), p): _apart(s) for p, s in self.state.items()}
        saved = {"state": state, "param_groups": groups}
        for hook in self._state_hooks["save"].values():
            changed = hook(self, saved)
            saved = saved if changed is None else changed
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state; tensors are copied, in their parameter's dtype."""
        state_dict = dict(state_dict)
        for hook in self._state_hooks["before loading"].values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = state_dict["param_groups"]
        checked(groups, self.param_groups)
        states = taken_states(self, state_dict["state"], groups)
        taken = [*map(taken_group, groups, self.param_groups)]
        self.__setstate__({"state": states, "param_groups": taken})  # where classes complete old files
        mode.bump_epoch()
        for hook in self._state_hooks["load"].values():
            hook(self)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(optimizer, args, kwargs) before every step."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(optimizer, args, kwargs) after every step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(optimizer) before the state is saved."""
        return add_hook(self._state_hooks["before saving"], hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(optimizer, state_dict) after the state was saved; what it returns takes its place."""
        return add_hook(self._state_hooks["save"], hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(optimizer, state_dict) before a state is loaded; what it returns takes its place."""
        return add_hook(self._state_hooks["before loading"], hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(optimizer) after a state was loaded."""
        return add_hook(self._state_hooks["load"], hook, prepend)

    def _jit_state(self, changing: Set[tuple[int, Any]] = frozenset()) -> Any:
        """What compiled calls of this optimizer depend on, comparable; floats in groups are read at every call."""
        library = next(kind for kind in type(self).__mro__ if kind.__module__.startswith("eagerjit."))
        read = () if library is Optimizer else self.defaults  # by the library's code, which is not watched

        def seen(group: Any, key: str, value: Any) -> Any:
            if key == "params":
                return id(value), *(map(id, value) if isinstance(value, (list, tuple)) else ())
            return int if type(value) is int and key not in read and (id(group), key) in changing else _kept(value)

        groups = tuple((id(g), *((k, seen(g, k, v)) for k, v in g.items())) for g in self.param_groups)
        table = id(self.state)
        states = tuple((_place(p), _held(s, changing)) for p, s in self.state.items() if (table, p) not in changing)
        own_hooks = (self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks)
        hooks = *(tuple(map(id, table.values())) for table in own_hooks), common()
        own = vars(self)
        plain = tuple((k, _value(v)) for k, v in own.items() if k not in _APART and (id(own), k) not in changing)
        return id(self.param_groups), groups, states, hooks, plain

    def _note_read(self) -> None:
        """In a recording: all options are read at once."""
        journal: Any = None if thread.tracer is None else thread.tracer.journal
        if journal is not None:
            for group in self.param_groups:
                journal.note_read(group, None)

    def __repr__(self) -> str:
        self._note_read()
        groups = []
        for index, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            groups.append("\n".join([f"\nParameter Group {index}", *lines, ""]))
        return f"{type(self).__name__} (" + "".join(groups) + ")"


def __getattr__(name: str) -> Any:
    """What programs find beside the class."""
    if name not in helpers.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(helpers, name)


def _value(value: Any) -> Any:
    """What an attribute is, comparable."""
    return (type(value), repr(value)) if isinstance(value, (bool, int, float, str)) else id(value)


def _place(key: Any) -> Any:
    """A key of the state, comparable: a parameter's own identity."""
    return key if isinstance(key, str) else id(key)


def _held(state: Any, changing: Set[tuple[int, Any]]) -> Any:
    """What is kept for a parameter, or by a program under a name of its own, comparable."""
    if not isinstance(state, dict):
        return _value(state)
    return tuple((k, id(v)) for k, v in state.items() if (id(state), k) not in changing)


def _kept(value: Any) -> Any:
    """What of an option compiled calls depend on: of floats, which they read at every call, whether they are zero."""
    if type(value) in (float, np.float64):
        return type(value), bool(value)
    if isinstance(value, (np.generic, np.ndarray, Tensor)):  # of which a comparison is no bool
        return id(value)
    return "two floats" if is_pair(value) else value


def _apart(state: Any) -> Any:
    """A parameter's state with a count of steps of its own: in PyTorch each parameter increases its own."""
    if not isinstance(state, dict):  # a program's own, beside the parameters
        return state
    return {k: v.clone() if k == "step" and isinstance(v, Tensor) else v for k, v in state.items()}
