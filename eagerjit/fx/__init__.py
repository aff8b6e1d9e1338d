"""Modules as graphs of Python calls, to be looked at and rewritten, and written as Python again."""

from eagerjit.fx import graph, interpreter, node, proxy, subgraph_rewriter
from eagerjit.fx.graph import Graph
from eagerjit.fx.interpreter import Interpreter, Transformer
from eagerjit.fx.module import GraphModule
from eagerjit.fx.node import Node, has_side_effect, map_arg
from eagerjit.fx.proxy import Proxy
from eagerjit.fx.subgraph_rewriter import replace_pattern
from eagerjit.fx.tracer import Tracer, symbolic_trace, wrap

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "graph", "has_side_effect",
    "interpreter", "map_arg", "node", "proxy", "replace_pattern", "subgraph_rewriter", "symbolic_trace", "wrap",
]  # fmt: skip
