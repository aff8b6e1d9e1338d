"""Parametrizations: parameters of a module computed from others, by modules that are chained."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.nn.containers import ModuleDict, ModuleList
from eagerjit.nn.module import Module
from eagerjit.nn.utils.computed import compute, forget, plain_class
from eagerjit.runtime import mode
from eagerjit.state import keep_parametrized, state
from eagerjit.tensors.tensor import Parameter, Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip


@contextmanager
def cached() -> Iterator[None]:
    """In this context every parametrized parameter is computed once. Compiled functions called in it run eagerly."""
    is_outermost = state.parametrized is None
    if is_outermost:
        keep_parametrized({})
    try:
        yield
    finally:
        if is_outermost:
            keep_parametrized(None)


class ParametrizationList(ModuleList):
    """The modules that make a parameter, and what it is made from: `original`, or `original0`, `original1`, ..."""

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False):
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = tuple(original.shape), original.dtype
        value: Any = original
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                with contextlib.suppress(NotImplementedError):
                    value = module.right_inverse(value.detach() if isinstance(value, Tensor) else value)
        if not isinstance(value, (Tensor, tuple, list)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(value).__name__}"
            )
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        if isinstance(value, Tensor):
            if value.dtype is not dtype and not unsafe:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\noriginal.dtype: "
                    f"{dtype}\nright_inverse(original).dtype: {value.dtype}"
                )
            kept = original if value is original else _like(original, value)
            self._register("original", kept, isinstance(original, Parameter))
        else:
            for index, part in enumerate(value):
                self._register(f"original{index}", part, isinstance(original, Parameter))
        if not unsafe:
            made = self()
            if not isinstance(made, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
            if made.dtype is not dtype or tuple(made.shape) != shape:
                raise ValueError(
                    f"Registering a parametrization may not change the dtype or the shape of the tensor: it was "
                    f"{dtype} of {shape} and would be {made.dtype} of {tuple(made.shape)}"
                )

    def _register(self, name: str, value: Tensor, parameter: bool) -> None:
        if parameter:
            self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value.detach()))
        else:
            self.register_buffer(name, value)

    def originals(self) -> list[Tensor]:
        """What the parameter is made from."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Set what the parameter is made from so that it becomes this value."""
        with no_grad():
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            for target, part in zip(self.originals(), [found] if self.is_tensor else found, strict=True):
                target.copy_(part)

    def forward(self) -> Tensor:
        """The parameter."""
        modules = list(self)
        made = modules[0](*self.originals())
        for module in modules[1:]:
            made = module(made)
        return made


def _like(original: Tensor, value: Tensor) -> Tensor:
    """The parameter that was there, with another value."""
    if isinstance(original, Parameter):
        original.data = value.detach()
        return original
    return value


class _Attribute:
    """Computes a parametrized attribute; an object rather than a closure, so that modules can be pickled."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, module: Any) -> Tensor:
        made, kept = module.parametrizations[self.name], state.parametrized
        if kept is None:
            return made()
        key = state.tracer, id(module), self.name
        if key not in kept:
            kept[key] = made()
        return kept[key]

    def complete(self, kind: Any) -> None:
        """The class's name says that it is parametrized, as PyTorch's does; assignments go to the originals."""
        kind.__name__ = f"Parametrized{kind._plain_class.__name__}"
        kind.__setattr__ = _assign


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a module compute a parameter or buffer of another one; a second one computes from what the first gives.

    With `unsafe` nothing checks that dtype and shape stay the same.
    """
    given, module = module, inspect.unwrap(module)  # type: ignore[arg-type]
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        made: Any = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            if tuple(after.shape) != tuple(before.shape) or after.dtype is not before.dtype:
                raise ValueError("Registering a parametrization may not change the dtype or the shape of the tensor")
        if hasattr(parametrization, "right_inverse"):
            made.right_inverse(parametrization.right_inverse(getattr(module, tensor_name).detach()))
        made.append(parametrization)
        made.unsafe |= unsafe
        mode.bump_epoch()
        return given
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made
    compute(module, tensor_name, _Attribute(tensor_name))
    return given


def _assign(self: Any, name: str, value: Any) -> None:
    modules = self.__dict__["_modules"]
    if "parametrizations" in modules and name in modules["parametrizations"]:
        modules["parametrizations"][name].right_inverse(value)
    else:
        plain_class(self).__setattr__(self, name, value)  # type: ignore[call-arg]


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of this attribute."""
    known = module._modules.get("parametrizations")
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make an attribute a parameter again: with its present value, or what it was made from."""
    given, module = module, inspect.unwrap(module)  # type: ignore[arg-type]
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and not made.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    original = made.originals()[0]
    value = made().detach() if leave_parametrized else original.detach()
    if isinstance(original, Parameter) and made.is_tensor:
        original.data = value
    elif isinstance(original, Parameter):
        original = Parameter(value)
    else:
        original = value
    del module.parametrizations[tensor_name]
    forget(module, tensor_name)
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
    return given


def type_before_parametrizations(module: Module) -> type:
    """The module's class without parametrizations."""
    return plain_class(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another one of its class, with what their parameters are made from."""
    if not is_parametrized(from_module):
        return to_module
    for name in [tensor_name] if tensor_name is not None else list(from_module.parametrizations):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        source: Any = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
        target: Any = to_module.parametrizations[name]
        for mine, value in zip(target.originals(), source.originals(), strict=True):
            mine.data = value.detach().clone()
    return to_module
