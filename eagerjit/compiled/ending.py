"""What ends a call: Python code written for a version makes the result of its outputs, and changes Python objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.compiler.signature import Object
from eagerjit.guards.comparing import has_state
from eagerjit.guards.structures import Structure as State
from eagerjit.pytree import LEAF, Structure
from eagerjit.recording.rebuilt import Code
from eagerjit.runtime import mode
from eagerjit.tensors.placement import host_array
from eagerjit.watching.containers import call_method
from eagerjit.watching.slots import STORE, Path, own_method

if TYPE_CHECKING:
    from eagerjit.compiled.variants import Variant

_OWN_METHODS = (list, dict, set, deque)
"""Classes whose objects have no methods but those of the class."""


def ending_of(variant: Variant) -> Callable[..., Any]:
    """What makes a call's result of the executable's outputs and, where these lead to it, of its (args, kwargs)."""
    return _Ending(variant).ending(variant.result, variant.commit)


class _Ending(Code):
    """The lines of such a function. Numbers among the outputs are tensors of one element."""

    def __init__(self, variant: Variant):
        super().__init__(range(variant.n_user) if variant.order is None else variant.order)
        report = variant.report
        outputs = enumerate(report.trace.outputs[: variant.n_user])
        constants = {i: report.objects[output.object] for i, output in outputs if isinstance(output, Object)}
        self.texts = {i: value for i, value in constants.items() if type(value) is str}
        self.are_numbers = frozenset(variant.numbers)
        self.numbers_known: dict[int, str] = {}
        self.is_on_device = getattr(variant.executable, "device", None) is not None
        self.assign = _assigning(variant.state, variant.executable.epochs)

    def ending(self, structure: Structure, changes: Sequence[tuple[Callable[..., None], Any]]) -> Callable[..., Any]:
        """The function that makes all values, then the changes, and returns the first of the values."""
        if not changes:
            return self.function(structure)
        result, given = structure[2]
        returned = self.value(result)
        made = [self.change(*change, operands) for change, operands in zip(changes, given[2], strict=True)]
        targets = [self.constant(target) for _, target in changes]
        paths = [type(target) is Path for _, target in changes]
        targets = [self.variable(f"{t}.find(call)") if found else t for t, found in zip(targets, paths, strict=True)]
        for change, target in zip(made, targets, strict=True):
            self.lines += change(target)
        return self.finished(returned)

    def leaf(self) -> str:
        """The next leaf: an output, or the number that lies in it."""
        index = next(self.order)
        if index not in self.are_numbers:
            return f"flat[{index}]"
        if index not in self.numbers_known:
            array = f"flat[{index}]._data"
            array = f"{self.constant(host_array)}({array})" if self.is_on_device else array
            self.numbers_known[index] = self.variable(f"{array}.item()")
        return self.numbers_known[index]

    def change(self, action: Callable[..., None], target: Any, operands: Structure) -> Callable[[str], list[str]]:
        """What writes the lines of a change for the name of its target, after the lines that its operands need."""
        if action is call_method and type(target) in _OWN_METHODS and operands[2][0] == LEAF:
            return self.method(type(target), *operands[2])
        values = [self.value(child) for child in operands[2]]
        given = ", ".join(values)
        if action is STORE["item"]:
            return lambda name: [f"{name}[{values[0]}] = {values[1]}"]
        if action is STORE["cell"]:
            return lambda name: [f"{name}.cell_contents = {values[1]}"]
        if action is not STORE["attribute"] or type(target) is Path:
            return lambda name: [f"{self.constant(action)}({name}, {given})"]
        if has_state(target):
            return lambda name: [f"{self.constant(self.assign)}({name}, {given})"]
        plain = self.constant(object.__setattr__)
        return lambda name: [
            f"if {self.constant(type)}({name}).__setattr__ is {plain}: {plain}({name}, {given})",
            f"else: {self.constant(action)}({name}, {given})",
        ]

    def method(self, kind: type, _: Structure, args: Structure, kwargs: Structure) -> Callable[[str], list[str]]:
        """The same of a method of a container."""
        index = next(self.order)
        known, container = self.texts.get(index), self.constant(kind)
        method = f"{container}.{known}" if known else f"{self.constant(getattr)}({container}, flat[{index}])"
        given = [self.value(child) for child in args[2]]
        if kwargs[2]:
            given.append(f"**{self.value(kwargs)}")
        else:
            self.made.append("")  # a dictionary that nothing needs is counted as any other
        return lambda name: [f"{method}({', '.join([name, *given])})"]


def _assigning(state: State, epochs: Any) -> Callable[[Any, str, Any], None]:
    """What assigns attributes of Modules which a version need not find as they were: it goes on as long as nothing else
    changes.
    """
    known: dict[type, tuple[Any, Any]] = {}

    def assign(module: Any, name: str, value: Any) -> None:
        started, before = state.epochs_of(module, name, value), mode.epoch()
        first, store = known.get(kind := type(module), (None, None))
        if first is not kind.__setattr__:
            first, store = known[kind] = kind.__setattr__, own_method(module, "__setattr__")
        store(module, name, value)
        if started and len(epochs) and epochs[0] == before and mode.epoch() == before + started:
            epochs[0] = before + started

    return assign
