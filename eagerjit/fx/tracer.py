"""Symbolic tracing: a Module is run on Proxies, and functions that meet one note a Node."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from eagerjit.calling import overriding
from eagerjit.fx.graph import Graph
from eagerjit.fx.module import GraphModule
from eagerjit.fx.node import Node, map_aggregate
from eagerjit.fx.proxy import Proxy, TracerBase
from eagerjit.nn.containers import Sequential
from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Parameter, Tensor

_wrapped: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: Any) -> Any:
    """Let a function of the calling module, or of its name, be one Node rather than be traced through."""
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    _wrapped.append((frame.f_back.f_globals, name))
    return fn_or_name


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
            args, kwargs = self._arguments(root, function, concrete_args or {})
            self.create_node("output", "output", (self.create_arg(function(*args, **kwargs)),), {})
        return self.graph

    def _arguments(self, root: Any, function: Any, concrete: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        parameters = list(inspect.signature(function).parameters.values())
        args: list[Any] = [root] if isinstance(root, Module) else []
        kwargs: dict[str, Any] = {}
        for p in parameters[len(args) :]:
            if p.name in concrete:
                value = concrete[p.name]
            else:
                stars: dict[Any, str] = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}
                star = stars.get(p.kind, "")
                default = () if p.default is p.empty else (p.default,)
                value = self.create_proxy("placeholder", star + p.name, default, {})
            if p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = value
            elif p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                args.append(value)
        return args, kwargs

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

        def module_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(module, functools.partial(call, module), args, kwargs)

        replace(Module, "__call__", module_call)
        replace(Module, "__getattr__", lambda module, name: self.getattr(name, attribute(module, name), cache))
        for owner in (eagerjit, functional):
            for name in owner.__all__:
                found = getattr(owner, name)
                if callable(found) and not isinstance(found, type) and type(found).__name__ != "module":
                    replace(owner, name, self._noting(found))
        ours = {id(before) for _, _, before in undo}
        space = getattr(inspect.unwrap(function), "__globals__", {})
        for names, name in _wrapped:
            if name in names:
                replace(names, name, self._noting(names[name]))
        for name, found in list(space.items()):
            if (id(found) in ours and callable(found)) or found in self.autowrap_functions:
                replace(space, name, self._noting(found))
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
