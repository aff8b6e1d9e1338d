"""Module: parameters, buffers and submodules under names, and a forward function.

Every change of what a jitted call depends on (an attribute, a parameter, a hook, `training`) starts a new epoch;
compiled calls then compare `_jit_state()` with what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from types import FunctionType
from typing import Any, Self

from eagerjit._nn import _parse_to
from eagerjit.autograd.modes import no_grad
from eagerjit.guards.epochs import Table, noted
from eagerjit.nn.calls import HOOKS, Calls
from eagerjit.nn.global_hooks import registered
from eagerjit.nn.parameter import Buffer
from eagerjit.nn.state import State
from eagerjit.nn.tree import Tree
from eagerjit.runtime import mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.meta_array import NO_DATA
from eagerjit.tensors.placement import NOWHERE, moved, wanted
from eagerjit.tensors.tensor import Parameter, Tensor

_TABLES = ("_parameters", "_buffers", "_modules")
_NOTED = frozenset((*_TABLES, *HOOKS))
_PACKAGE = __name__.partition(".")[0]


def _is_namespaced(value: Any) -> bool:
    """Whether something is a function that a module of the library has, and no method."""
    return (
        type(value) is FunctionType
        and (value.__module__ or "").partition(".")[0] == _PACKAGE
        and value.__qualname__ == value.__name__
    )


class Module(Calls, Tree, State):
    """Base class of all networks: assign Parameters, Tensors and Modules as attributes and define `forward`.

    A subclass calls `super().__init__()` before it assigns any, else AttributeError. A call runs `forward`, and hooks
    around it; `training` says which of `train()` and `eval()` came last.
    """

    training: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            if _is_namespaced(value):  # PyTorch's, which are C's, bind to no instance
                setattr(cls, name, staticmethod(value))

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        for table in (*_TABLES, *HOOKS):
            own[table] = Table()
        for names in ("_non_persistent_buffers_set", "_hooks_with_kwargs", "_hooks_always_called"):
            own[names] = set()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; subclasses define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: noted(value) if name in _NOTED else value for name, value in state.items()})

    # -- attributes ---------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_modules" in own:
            if name in (parameters := own["_parameters"]):
                return parameters[name]
            if name in (buffers := own["_buffers"]):
                return buffers[name]
            if name in (modules := own["_modules"]):
                return modules[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, (Parameter, Module)):
                kind = "parameters" if isinstance(value, Parameter) else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            object.__setattr__(self, name, value)
            return
        if isinstance(value, (Parameter, Module)):
            own.pop(name, None)
            table = "_parameters" if isinstance(value, Parameter) else "_modules"
            if name not in own[table]:
                self._remove(name)
            if isinstance(value, Parameter):
                self.register_parameter(name, value)  # which programs replace, to put parameters elsewhere
                return
            own[table][name] = registered("module", self, name, value)
        elif name in own["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' (torch.nn.Parameter or None "
                    "expected)"
                )
            own["_parameters"][name] = None
        elif name in own["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (torch.nn.Module or None "
                    "expected)"
                )
            own["_modules"][name] = registered("module", self, name, None)
        elif isinstance(value, Tensor) and isinstance(value, Buffer):
            if name not in own["_buffers"]:
                own.pop(name, None)
            self.register_buffer(name, value, value.persistent)
        elif name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' object to buffer '{name}' (torch.Tensor or None required)"
                )
            if value is own["_buffers"][name]:  # after `self.count += 1`
                return
            own["_buffers"][name] = registered("buffer", self, name, value)
        elif name not in own or own[name] is not value:
            object.__setattr__(self, name, noted(value) if name in _NOTED else value)
        else:
            return
        mode.bump_epoch()

    def __delattr__(self, name: str) -> None:
        if not self._remove(name):
            object.__delattr__(self, name)
        mode.bump_epoch()

    def _remove(self, name: str) -> bool:
        """Take a name out of all tables; whether it was in one."""
        own = self.__dict__
        found = [table for table in _TABLES if name in own[table]]
        for table in found:
            del own[table][name]
        own["_non_persistent_buffers_set"].discard(name)
        return bool(found)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        return sorted(names.union(*(self.__dict__[table] for table in _TABLES)))

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name.

        Raises TypeError for what is no Parameter, KeyError for a name that is taken, is empty or has a dot, ValueError
        for the result of an operation.
        """
        self._check_name("parameter", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (torch.nn.Parameter or None "
                "required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = None if param is None else registered("parameter", self, name, param)
        mode.bump_epoch()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; `persistent` ones are saved.

        Raises TypeError for what is no tensor, KeyError for a name that is taken, is empty or has a dot.
        """
        self._check_name("buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        self._non_persistent_buffers_set.discard(name) if persistent else self._non_persistent_buffers_set.add(name)
        mode.bump_epoch()

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under any name. TypeError for what is no Module, KeyError for names as in `register_buffer`.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name)
        self._modules[name] = registered("module", self, name, module)
        mode.bump_epoch()

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under any name."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: Any) -> None:
        """Refuse names that are none, and those of other attributes."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if hasattr(self, name) and name not in self.__dict__[f"_{kind}s"]:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name or name == "":
            raise KeyError(f'{kind} name can\'t contain "." or be empty, got: {name!r}')

    # -- state --------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training (or evaluation). ValueError for a mode that is no bool."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Switch this module and all below it to evaluation."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                with no_grad():
                    parameter.grad.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the memory of all parameters, their gradients and buffers."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for name, parameter in self._parameters.items():
                if parameter is not None:
                    self._parameters[name] = made = _with_memory(parameter, fn(parameter.data))
                    if parameter.grad is not None:
                        made.grad = _with_memory(parameter.grad, fn(parameter.grad.data))
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = _with_memory(buffer, fn(buffer.data))
        mode.bump_epoch()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers, and convert floating point and complex ones to a dtype, in place.

        to(dtype), to(device, dtype), to(tensor); to(memory_format=...) lays out those of 4 and 5 dimensions. Raises
        TypeError for a dtype of integers or truth values, and RuntimeError for a format of another rank.
        """
        device, dtype, _, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not dtype.is_differentiable:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if device is not None:
            place = wanted(device)
            self._apply(lambda t: _moved(t, place))
        if memory_format is not None:
            self._apply(lambda t: t.to(memory_format=memory_format) if t.ndim in (4, 5) else t)
        return self if dtype is None else self._convert(dtype)

    def _convert(self, dtype: DType) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.dtype.is_differentiable else t)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give all parameters and buffers new memory with undefined contents."""
        return self._apply(lambda t: t.new_empty(t.shape, device=device), recurse)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to a dtype, in place."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Convert floating point parameters and buffers to float32, in place."""
        return self._apply(lambda t: t.float() if t.dtype.is_floating_point else t)

    def double(self) -> Self:
        """Convert floating point parameters and buffers to float64, in place."""
        return self._apply(lambda t: t.double() if t.dtype.is_floating_point else t)

    def half(self) -> Self:
        """Convert floating point parameters and buffers to float16, in place."""
        return self._apply(lambda t: t.half() if t.dtype.is_floating_point else t)

    def bfloat16(self) -> Self:
        """Convert floating point parameters and buffers to bfloat16, in place."""
        return self._apply(lambda t: t.bfloat16() if t.dtype.is_floating_point else t)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a CUDA device. Raises AssertionError where there is none."""
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self) -> Self:
        """Move parameters and buffers into memory that processes forked from now on share, in place."""
        return self._apply(lambda t: t.share_memory_())

    def _replicate_for_data_parallel(self) -> Self:
        """A Module with the same attributes, tables of its own and no parameters, which whoever asks puts there."""
        replica = self.__new__(type(self))
        replica.__dict__.update(self.__dict__)
        replica._parameters = {}
        replica._buffers, replica._modules = dict(self._buffers), dict(self._modules)
        replica._is_replica = True
        return replica

    def _jit_state(self, changing: Set[tuple[int, Any]] = frozenset()) -> Any:
        """What compiled calls of this module depend on, comparable; without (dictionary, key) that are `changing`."""
        from eagerjit.guards.comparing import contents

        return tuple(
            (path, id(module), type(module), contents(module.__dict__, None, changing))
            for path, module in self.named_modules()
        )

    # -- repr ---------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What to show between the parentheses."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        name = self._get_name()
        children = [f"({key}): " + repr(module).replace("\n", "\n  ") for key, module in self._modules.items()]
        extra = self.extra_repr()
        lines = [*(extra.split("\n") if extra else []), *children]
        if len(lines) == 1 and not children:
            return f"{name}({extra})"
        return f"{name}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _with_memory(tensor: Any, made: Tensor) -> Any:
    """The tensor with other memory; what goes to the meta device or comes from there is another tensor."""
    if tensor.is_meta is made.is_meta:
        tensor.data = made
        return tensor
    return Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made


def _moved(tensor: Tensor, place: Any) -> Tensor:
    """A parameter or buffer in another place. Raises NotImplementedError for one on meta."""
    if tensor.is_meta and place is not NOWHERE:
        raise NotImplementedError(
            f"{NO_DATA} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from "
            "meta to a different device."
        )
    return moved(tensor, place)
