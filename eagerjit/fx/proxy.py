"""Proxies: stand for values while a Module is traced, and note on a graph what is done with them."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Iterator
from typing import Any

from eagerjit.calling.overriding import begin
from eagerjit.fx.graph import Graph
from eagerjit.fx.node import Node, map_aggregate
from eagerjit.overrides import is_tensor_method_or_property


class TraceError(ValueError):
    """What a Module does that a graph without values cannot say."""


class TracerBase:
    """Makes Nodes of what Proxies are asked to do."""

    graph: Graph

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """A Node of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for a Node's value."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Proxy:
        """A Node with these arguments, and what stands for its value."""
        given, named = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        return self.proxy(self.create_node(kind, target, given, named, name, type_expr))

    def create_arg(self, a: Any) -> Any:
        """An argument of a Node: Proxies become their Nodes."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        return a.node if isinstance(a, Proxy) else a

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What a loop over a Proxy gets. Raises TraceError."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument."
        )

    def to_bool(self, obj: Proxy) -> bool:
        """What a condition on a Proxy gets. Raises TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def keys(self, obj: Proxy) -> Any:
        """What `**proxy` asks for."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds what is done with Proxies to a graph that there is."""

    def __init__(self, graph: Graph):
        self.graph = graph


class Proxy:
    """Stands for the value of a Node; what is done with it becomes Nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None):
        begin()
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The Node of a function of the library that was called with a Proxy."""
        if getattr(func, "__name__", "") == "einsum" and isinstance(args[1], (tuple, list)):
            args = args[0], *args[1]
        found: list[Proxy] = []
        map_aggregate((args, kwargs or {}), lambda a: found.append(a) if isinstance(a, Proxy) else None)
        of_tensor = is_tensor_method_or_property(func)
        kind, target = ("call_method", func.__name__) if of_tensor else ("call_function", func)
        return found[0].tracer.create_proxy(kind, target, args, kwargs or {})

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k.startswith("__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.offset >= frame.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
                return iter([self[i] for i in range(int(instruction.argval))])  # type: ignore[index]
            if instruction.offset > frame.f_lasti + 2:
                break
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing by default. Use x.shape[0] or size() instead.")

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})


class Attribute(Proxy):
    """An attribute of a Proxy, a Node only if it is more than the method of a call."""

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The Node that asks for the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _operator(name: str, reflected: bool) -> Any:
    function = getattr(operator, name)

    def method(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    return method


_BOTH = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor")
for _name in (*_BOTH, "eq", "ne", "lt", "le", "gt", "ge", "getitem", "neg", "pos", "invert", "abs"):
    setattr(Proxy, f"__{_name.rstrip('_')}__", _operator(_name, False))
for _name in _BOTH:
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _operator(_name, True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # comparing makes a Node
