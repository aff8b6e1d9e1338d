"""Module: parameters, buffers and submodules under names, and a forward function.

Every change of what a jitted call depends on (an attribute, a parameter, a hook, `training`) starts a new epoch;
compiled calls then compare `_jit_state()` with what it was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from eagerjit.autograd.modes import no_grad
from eagerjit.methods import Handle, add_hook
from eagerjit.nn.calls import CompiledCalls
from eagerjit.nn.taps import Taps
from eagerjit.runtime import mode
from eagerjit.tensor import Parameter, Tensor

_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks")


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(CompiledCalls):
    """Base class of all networks: assign Parameters, Tensors and Modules as attributes and define `forward`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        for table in (*_TABLES, *_HOOKS):
            own[table] = {}
        own["_transient"] = set()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; subclasses define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if not (own["_forward_pre_hooks"] or own["_forward_hooks"] or own["_backward_hooks"]):
            return self.forward(*args, **kwargs)
        return self._hooked(args, kwargs)

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        taps = Taps(self) if self._backward_hooks else None
        if taps is not None:
            args = taps.enter(args)
        result = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result if taps is None else taps.leave(result)

    # -- attributes ---------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in _TABLES:
            if table in own and name in own[table]:
                return own[table][name]
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
            own[table][name] = value
        elif name in own["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' (torch.nn.Parameter or None "
                    "expected)"
                )
            own["_parameters"][name] = None
        elif name in own["_modules"] and value is None:
            own["_modules"][name] = None
        elif name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' object to buffer '{name}' (torch.Tensor or None required)"
                )
            own["_buffers"][name] = value
        elif name not in own or own[name] is not value:
            object.__setattr__(self, name, value)
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
        own["_transient"].discard(name)
        return bool(found)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        return sorted(names.union(*(self.__dict__[table] for table in _TABLES)))

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name."""
        if "." in name or name == "":
            raise KeyError('parameter name can\'t contain "." or be empty')
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}'")
        self._parameters[name] = param
        mode.bump_epoch()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; `persistent` ones are saved."""
        if "." in name or name == "":
            raise KeyError('buffer name can\'t contain "." or be empty')
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}'")
        self._buffers[name] = tensor
        self._transient.discard(name) if persistent else self._transient.add(name)
        mode.bump_epoch()

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under any name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module
        mode.bump_epoch()

    register_module = add_module

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, args) before forward; what it returns takes the place of the arguments."""
        return add_hook(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, args, result) after forward; what it returns takes the place of the result."""
        return add_hook(self._forward_hooks, hook)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, grad_input, grad_output) in backward; what it returns takes the place of grad_input."""
        return add_hook(self._backward_hooks, hook)

    # -- walking ------------------------------------------------------------------------------------------------------

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with their dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules right below this one."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules right below this one."""
        return (module for _, module in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, value in module.__dict__[table].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names, each once."""
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names, each once."""
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module with this dotted name."""
        module = self
        for name in target.split(".") if target else ():
            if module._modules.get(name) is None:
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = module._modules[name]  # type: ignore[assignment]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with this dotted name."""
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._parameters[name]  # type: ignore[return-value]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with this dotted name."""
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._buffers[name]  # type: ignore[return-value]

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call fn on every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- state --------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Switch all modules to training (or evaluation)."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switch all modules to evaluation."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
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

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Tensor]:
        """All parameters and persistent buffers by dotted name, sharing their memory."""
        out: OrderedDict[str, Tensor] = OrderedDict()
        for path, module in self._paths(prefix):
            for name, value in {**module._parameters, **module._buffers}.items():
                if value is not None and name not in module._transient:
                    out[path + name] = value if keep_vars else value.detach()
        return out

    def _paths(self, prefix: str) -> Iterator[tuple[str, Module]]:
        """Every module under every name it has."""
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module._paths(f"{prefix}{name}.")

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copy values into parameters and buffers by name.

        Raises RuntimeError naming every key that is missing or unknown (with `strict`) and every shape that differs.
        """
        own = self.state_dict(keep_vars=True)
        missing = [k for k in own if k not in state_dict]
        unexpected = [k for k in state_dict if k not in own]
        errors = []
        if strict and unexpected:
            errors.append(f"Unexpected key(s) in state_dict: {', '.join(map(_quoted, unexpected))}. ")
        if strict and missing:
            errors.append(f"Missing key(s) in state_dict: {', '.join(map(_quoted, missing))}. ")
        for name, target in own.items():
            if name in state_dict and tuple(state_dict[name].shape) != tuple(target.shape):
                errors.append(
                    f"size mismatch for {name}: copying a param with shape {state_dict[name].shape} from checkpoint, "
                    f"the shape in current model is {target.shape}."
                )
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        with no_grad():
            for name, target in own.items():
                if name in state_dict:
                    _load(target, state_dict[name], assign)
        return IncompatibleKeys(missing, unexpected)

    def _apply(self, function: Callable[[Tensor], Tensor]) -> Module:
        """Replace the memory of all parameters, their gradients and buffers."""
        with no_grad():
            for parameter in self.parameters():
                parameter.data = function(parameter.data)
                if parameter.grad is not None:
                    parameter.grad.data = function(parameter.grad.data)
            for buffer in self.buffers():
                buffer.data = function(buffer.data)
        mode.bump_epoch()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Convert floating point parameters and buffers to a dtype, in place."""
        return self._apply(lambda t: t.to(*args, **kwargs) if t.dtype.is_floating_point else t)

    def type(self, dst_type: Any) -> Module:
        """Convert all parameters and buffers to a dtype, in place."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self) -> Module:
        """Convert floating point parameters and buffers to float32, in place."""
        return self._apply(lambda t: t.float() if t.dtype.is_floating_point else t)

    def double(self) -> Module:
        """Convert floating point parameters and buffers to float64, in place."""
        return self._apply(lambda t: t.double() if t.dtype.is_floating_point else t)

    def half(self) -> Module:
        """Convert floating point parameters and buffers to float16, in place."""
        return self._apply(lambda t: t.half() if t.dtype.is_floating_point else t)

    def bfloat16(self) -> Module:
        """Convert floating point parameters and buffers to bfloat16, in place."""
        return self._apply(lambda t: t.bfloat16() if t.dtype.is_floating_point else t)

    def cpu(self) -> Module:
        """The module itself: it lives on the CPU."""
        return self

    def _jit_state(self) -> Any:
        """What compiled calls of this module depend on, comparable."""
        from eagerjit.guards import contents

        return tuple(
            (path, id(module), type(module), contents(module.__dict__)) for path, module in self.named_modules()
        )

    # -- repr ---------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What to show between the parentheses."""
        return ""

    def __repr__(self) -> str:
        children = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        extra = self.extra_repr()
        lines = [*(extra.split("\n") if extra else []), *children]
        if len(lines) == 1 and not children:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _load(target: Tensor, value: Tensor, assign: bool) -> None:
    if assign:
        target.data = value.detach()
    else:
        target.copy_(value)


def _quoted(name: str) -> str:
    return f'"{name}"'
