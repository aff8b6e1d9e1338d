"""Symbolic tracing: a Module is run on Proxies, and functions that meet one note a Node."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from eagerjit.calling import overriding
from eagerjit.fx.graph import Graph
from eagerjit.fx.module import GraphModule
from eagerjit.fx.node import Node, map_aggregate
from eagerjit.fx.proxy import Proxy, TracerBase
from eagerjit.namespace.checks import _assert
from eagerjit.nn.containers import Sequential
from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Parameter, Tensor

_wrapped: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: Any) -> Any:
    """Let a function of the calling module, or of its name, be one Node rather than be traced through.

    Raises NotImplementedError where functions call it, RuntimeError for what is neither.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((frame.f_back.f_globals, name))
    return fn_or_name


def _assert_is_none(value: Any, msg: str) -> None:
    """Raises AssertionError for what is not None."""
    if value is not None:
        raise AssertionError(msg)


def _without_stars(function: Any, count: int) -> FunctionType:
    """The function, whose `*args` and `**kwargs` are two more arguments by position."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_flags=flags, co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0)
    return FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)


def _proxy_in(args: Any, kwargs: Any) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate((args, kwargs), lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


class Tracer(TracerBase):
    """Runs a Module on Proxies; subclasses say what is a leaf, and what arguments and Nodes are."""

    def __init__(self, autowrap_modules: Any = (), autowrap_functions: Any = (), param_shapes_constant: bool = False):
        self.autowrap_modules, self.autowrap_functions = tuple(autowrap_modules), tuple(autowrap_functions)
        self.root: Module = Module()

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a Module is one Node rather than traced through: those of the library, but Sequential."""
        own = m.__module__.startswith(("eagerjit.nn.", "torch.nn."))
        return own and not isinstance(m, Sequential) and not isinstance(m, GraphModule)

    def path_of_module(self, mod: Module) -> str:
        """A Module's path in the root. Raises NameError for one that is not in it."""
        for name, found in self.root.named_modules():
            if found is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a call of a Module does while it is traced."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What an attribute of a Module is while it is traced: a Proxy of a parameter."""
        if not isinstance(attr_val, Parameter):
            return attr_val
        for name, parameter in self.root.named_parameters():
            if parameter is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
                return parameter_proxy_cache[name]
        return attr_val

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if not isinstance(a, (Tensor, Module)):
            return a
        for name, found in (*self.root.named_parameters(), *self.root.named_buffers(), *self.root.named_modules()):
            if found is a:
                return self.create_node("get_attr", name, (), {})
        known = [k for k, v in vars(self.root).items() if v is a]
        if not known:
            known = [f"_tensor_constant{sum(k.startswith('_tensor_constant') for k in vars(self.root))}"]
            setattr(self.root, known[0], a)
        return self.create_node("get_attr", known[0], (), {})

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a Module's `forward`, or of a function; `concrete_args` are values instead of inputs."""
        if not callable(root):
            raise AssertionError(f"Expected FunctionType, got {type(root)}")
        overriding.begin()  # else the first function that meets a proxy would be noted as what it was before
        self.root = root if isinstance(root, Module) else Module()
        function = type(root).forward if isinstance(root, Module) else root
        self.graph = Graph(self.root)
        with self._patched(function):
            args, kwargs, function = self._arguments(root, function, concrete_args or {})
            self.create_node("output", "output", (self.create_arg(function(*args, **kwargs)),), {})
        return self.graph

    def _arguments(self, root: Any, function: Any, concrete: dict[str, Any]) -> tuple[list[Any], dict[str, Any], Any]:
        """What the function is called with, and the function: one that takes its `*args` and `**kwargs` as Proxies."""
        parameters = list(inspect.signature(function).parameters.values())
        args: list[Any] = [root] if isinstance(root, Module) else []
        kwargs: dict[str, Any] = {}
        packed: list[Any] = []
        stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        for p in sorted(parameters[len(args) :], key=lambda p: p.kind in stars):
            default = () if p.default is p.empty else (p.default,)
            if p.kind in stars:
                packed.append(self.create_proxy("placeholder", stars[p.kind] + p.name, default, {}))
                continue
            if p.name in concrete:
                value = self._fixed(p.name, default, concrete[p.name])
            else:
                value = self.create_proxy("placeholder", p.name, default, {})
            if p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = value
            else:
                args.append(value)
        if not packed:
            return args, kwargs, function
        args = [*args, *kwargs.values(), *packed]
        return args, {}, _without_stars(inspect.unwrap(function), len(args))

    def _fixed(self, name: str, default: tuple[Any, ...], value: Any) -> Any:
        """A value instead of an input, which is still there, and must have it."""
        if isinstance(value, (tuple, list, dict, Tensor, Proxy)):
            return value
        given = self.create_proxy("placeholder", f"{name}_1", default, {})
        text = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (given, text), {})
        else:
            self.create_proxy("call_function", _assert, (given == value, text), {})
        return value

    @contextlib.contextmanager
    def _patched(self, function: Any) -> Iterator[None]:
        """Modules, parameters and the library's functions note Nodes in this context."""
        import eagerjit
        from eagerjit.nn import functional

        undo: list[tuple[Any, str, Any]] = []
        cache: dict[str, Any] = {}
        call, attribute = Module.__call__, Module.__getattr__

        def replace(owner: Any, name: str, value: Any) -> None:
            undo.append((owner, name, owner[name] if isinstance(owner, dict) else owner.__dict__.get(name)))
            _assign(owner, name, value)

        wrapped = {id(f) for f in self.autowrap_functions}

        def note_calls_in(function: Any, noted: set[int]) -> None:
            space = getattr(inspect.unwrap(function), "__globals__", {})
            for name, found in list(space.items()):
                if id(found) in noted and callable(found):
                    replace(space, name, self._noting(found))

        def module_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if wrapped:
                note_calls_in(type(module).forward, wrapped)
            return self.call_module(module, functools.partial(call, module), args, kwargs)

        replace(Module, "__call__", module_call)
        replace(Module, "__getattr__", lambda module, name: self.getattr(name, attribute(module, name), cache))
        for owner in (eagerjit, functional):
            for name in owner.__all__:
                found = getattr(owner, name)
                if callable(found) and not isinstance(found, (type, ModuleType)):
                    replace(owner, name, self._noting(found))
        ours = {id(before) for _, _, before in undo}
        for names, name in _wrapped:
            if name in names:
                replace(names, name, self._noting(names[name]))
        note_calls_in(function, ours | wrapped)
        try:
            yield
        finally:
            for owner, name, before in reversed(undo):
                _assign(owner, name, before)

    def _noting(self, function: Any) -> Any:
        @functools.wraps(function, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            if _proxy_in(args, kwargs) is None:
                return function(*args, **kwargs)
            return self.create_proxy("call_function", function, args, kwargs)

        return call


def _assign(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = value
    elif value is None:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A Module or function as a GraphModule: the same calls, as a graph that can be looked at and changed."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = ["Node", "Tracer", "symbolic_trace", "wrap"]
