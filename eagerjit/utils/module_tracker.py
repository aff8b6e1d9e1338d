"""`torch.utils.module_tracker`: which Modules are running, forward or backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from eagerjit import pytree
from eagerjit.autograd.callbacks import at_end_of_walk, walks
from eagerjit.autograd.graph import register_multi_grad_hook
from eagerjit.nn.global_hooks import register_module_forward_hook, register_module_forward_pre_hook
from eagerjit.tensors.tensor import Tensor

__all__ = ["ModuleTracker"]

_GLOBAL = "Global"


class ModuleTracker:
    """Tracks the Modules that are running, by name: a context.

    parents     names of the Modules that are running, and "Global". The first Module that is called has its class's
                name, those in it are found under that. Going backward, a Module runs from when the gradients of its
                results are known until those of its inputs are.
    """

    def __init__(self) -> None:
        self.parents = {_GLOBAL}
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._seen: WeakSet[Any] = WeakSet()  # whose parts have names
        self._handles: list[Any] = []
        self._awaits_end = False

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is under way."""
        return walks.waiting is not None

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._enter_forward), register_module_forward_hook(self._leave_forward)
        ]  # fmt: skip
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _name_of(self, module: Any) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child, part in module.named_children():
                self._names[part] = f"{name}.{child}"
                self._name_of(part)
        return name

    def _enter_forward(self, module: Any, given: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        self._at_gradients(given, lambda grads: self.parents.discard(name))

    def _leave_forward(self, module: Any, given: Any, result: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        self._at_gradients(result, lambda grads: self._enter_backward(name))

    def _enter_backward(self, name: str) -> None:
        if not self._awaits_end:
            self._awaits_end = True
            at_end_of_walk(self._end_backward)
        self.parents.add(name)

    def _end_backward(self) -> None:
        self.parents, self._awaits_end = {_GLOBAL}, False

    def _at_gradients(self, value: Any, function: Callable[[Any], None]) -> None:
        leaves: list[Any] = []
        pytree.flatten(value, leaves)
        tensors = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, function))
