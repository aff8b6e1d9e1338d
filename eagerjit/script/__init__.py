"""Names of `torch.jit`: what marks code for TorchScript there has nothing to do here, and gives its function back."""

from __future__ import annotations

import builtins
import typing
from typing import Any, NoReturn

from eagerjit.futures import Future

RARER = frozenset(
    "_get_trace_graph _overload _overload_method _script_if_tracing Attribute Error Final ScriptWarning TracerWarning "
    "annotate fork freeze interface isinstance optimize_for_inference script_if_tracing script_method trace_module "
    "wait".split()
)
"""Names that `torch.jit` has only when they are asked for: one is that of a builtin."""
_OF_TRACED = frozenset(
    "CompilationUnit RecursiveScriptModule ScriptFunction ScriptModule TopLevelTracedModule load save".split()
)
"""Names of what is traced, saved and loaded."""


def rarer(name: str) -> Any:
    """What one of the rarer names stands for."""
    if name in RARER:
        return globals()[name]
    return __getattr__(name)


def __getattr__(name: str) -> Any:
    if name not in _OF_TRACED:
        raise AttributeError(f"module 'eagerjit.jit' has no attribute '{name}'")
    from eagerjit.export import traced

    return getattr(traced, name)


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function, Module or class itself."""
    return obj


def trace(
    func: Any, example_inputs: Any = None, *args: Any, example_kwarg_inputs: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    """A Module that calls the given one, and that `save` can write to a file; a function itself."""
    from eagerjit.export.traced import trace_module_call

    return trace_module_call(func, example_inputs, example_kwarg_inputs)


def trace_module(mod: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The Module itself."""
    return mod


def _get_trace_graph(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError("eagerjit gives no TorchScript graph; jit(f).explain(...).graph is what f computes")


class TracerWarning(Warning):
    """What tracing warns of in PyTorch; nothing is traced so."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """There are none."""


ScriptWarning = TracerWarning


class Error(Exception):
    """What scripted code raises in PyTorch; here errors keep their classes."""


def fork(func: Any, *args: Any, **kwargs: Any) -> Future[Any]:
    """What a function gives, as a future: it is called at once."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """The future's value."""
    return future.wait()


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself; also with an argument, as a decorator."""
    return drop if callable(drop) else _same


def unused(fn: Any) -> Any:
    """The function itself."""
    return fn


def export(fn: Any) -> Any:
    """The function itself."""
    return fn


def is_scripting() -> bool:
    """False: nothing is ever scripted."""
    return False


def is_tracing() -> bool:
    """False, while a function is recorded too: programs do the same compiled and not."""
    return False


def _same(fn: Any) -> Any:
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself."""
    return the_value


Final = typing.Final


class Attribute(typing.NamedTuple):
    """A value and its type, for scripted classes."""

    value: Any
    type: Any


script_method = script_if_tracing = _script_if_tracing = interface = _overload = _overload_method = unused


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The Module itself."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The Module itself."""
    return mod


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type; of generic ones the container alone is looked at."""
    kinds = target_type if type(target_type) is tuple else (target_type,)
    containers: tuple[Any, ...] = tuple(typing.get_origin(kind) or kind for kind in kinds)
    return builtins.isinstance(obj, containers)
