"""Running graphs node by node, and rewriting them while they run."""

from __future__ import annotations

from typing import Any

from eagerjit.fx.graph import Graph
from eagerjit.fx.module import GraphModule
from eagerjit.fx.node import Node, map_arg
from eagerjit.fx.proxy import Proxy
from eagerjit.fx.tracer import Tracer
from eagerjit.nn.module import Module


class Interpreter:
    """Runs a GraphModule's Nodes one by one; subclasses define what a kind of Node does."""

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None):
        self.module, self.garbage_collect_values = module, garbage_collect_values
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The graph's result for these arguments."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(args)
        last = {used: node for node in self.graph.nodes for used in node.all_input_nodes}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for used in node.all_input_nodes:
                    if last[used] is node:
                        self.env.pop(used, None)
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The same for a list of arguments, which is emptied: they may be forgotten once they are used."""
        given = args_list.copy()
        args_list.clear()
        return self.run(*given)

    def run_node(self, n: Node) -> Any:
        """A Node's value."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument, or the default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            message = f"Expected positional argument for parameter {target}, but one was not passed in!"
            raise RuntimeError(message) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The Module's attribute."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The method's result."""
        first, *rest = args
        return getattr(first, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The Module's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The Module's attribute at a path."""
        found: Any = self.module
        for position, part in enumerate(target.split(".")):
            if not hasattr(found, part):
                path = ".".join(target.split(".")[: position + 1])
                raise RuntimeError(f"Node referenced nonexistent target {path}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """A Node's arguments as values."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Nested arguments with values for Nodes."""

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose")
            return self.env[used]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Runs a graph on Proxies, and so makes another one: what the methods do instead is in it."""

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()

        class _Tracer(Tracer):
            def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
                return True

        self.tracer = _Tracer()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Proxy:
        """An input of the new graph."""
        return self.tracer.create_proxy("placeholder", target, args, {})

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Proxy:
        """An attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A Module's call in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's call in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new graph as a GraphModule."""
        result = super().run()
        if result is not None:
            self.new_graph.output(self.tracer.create_arg(result))
        return GraphModule(self.module, self.new_graph)
