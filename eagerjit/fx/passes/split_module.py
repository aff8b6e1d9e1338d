"""`torch.fx.passes.split_module`: a GraphModule in parts, each of which is one too."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from eagerjit.fx.graph import Graph
from eagerjit.fx.module import GraphModule
from eagerjit.fx.node import Node, map_arg
from eagerjit.nn.module import Module

__all__ = ["Partition", "split_module"]


class Partition:
    """One part: its Nodes, what it gets and gives, and the parts that it needs and that need it."""

    def __init__(self, name: str):
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


class _Split:
    """A graph, the parts that its Nodes go to, and the graph that calls those."""

    def __init__(self, m: GraphModule, callback: Callable[[Node], Any], affix: str | None):
        self.module, self.nodes = m, {node.name: node for node in m.graph.nodes}
        self.parts: dict[str, Partition] = {}
        self.place: dict[Node, Partition] = {}
        for node in m.graph.nodes:
            if node.op not in ("placeholder", "get_attr", "output"):
                name = str(callback(node)) if affix is None else f"{affix}_{callback(node)}"
                part = self.place[node] = self.parts.setdefault(name, Partition(name))
                part.node_names.append(node.name)
        for node in m.graph.nodes:
            if node.op not in ("placeholder", "get_attr"):
                map_arg((node.args, node.kwargs), functools.partial(self._use, node))
        self.graph = Graph()
        self.made: dict[str, Node] = {}
        self.attributes: dict[str, Any] = {}

    def _use(self, by: Node, used: Node) -> Node:
        """What a part needs of another one, or of the whole."""
        giver, taker = self.place.get(used), self.place.get(by)
        if giver is taker:
            return used
        if giver is not None:
            giver.outputs.setdefault(used.name)
        if taker is not None:
            taker.inputs.setdefault(used.name)
        if giver is not None and taker is not None:
            giver.dependents.setdefault(taker.name)
            taker.dependencies.setdefault(giver.name)
        return used

    def sorted_parts(self) -> list[Partition]:
        """The parts, those first that others need. Raises RuntimeError where two need each other."""
        waiting = {name: dict(part.dependencies) for name, part in self.parts.items()}
        ready = [name for name, needed in waiting.items() if not needed]
        done = []
        while ready:
            part = self.parts[ready.pop()]
            done.append(part)
            for name in part.dependents:
                waiting[name].pop(part.name)
                if not waiting[name]:
                    ready.append(name)
        if len(done) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return done

    def attribute(self, path: str) -> Any:
        """What lies at a path in the GraphModule."""
        found: Any = self.module
        for name in path.split("."):
            if not hasattr(found, name):
                raise AttributeError(f"Node target {path} not found!")
            found = getattr(found, name)
        return found

    def take_inputs(self, part: Partition, keep_names: bool) -> None:
        """A part's inputs; Modules that it needs are its own."""
        taken: dict[str, None] = {}
        nodes = [self.nodes[name] for name in part.inputs]
        modules = [n for n in nodes if n.op == "get_attr" and isinstance(self.attribute(n.target), Module)]
        for node in (n for n in nodes if n not in modules):
            name = node.name if keep_names else f"arg_{len(taken)}"
            part.environment[node] = part.graph.placeholder(name, type_expr=node.type)
            taken[node.name] = None
        for node in modules:
            part.environment[node] = part.graph.get_attr(node.target)
            part.targets[node.target] = self.attribute(node.target)
        for node in nodes:
            part.environment[node].meta = dict(node.meta)
        part.inputs = taken

    def copy_nodes(self, names: dict[str, str] | None, keep_names: bool) -> None:
        """The Nodes, each in its part; `names` gets the new paths of Modules and their old ones."""
        for node, part in self.place.items():
            target = node.target
            if node.op == "call_module":
                target = node.target.replace(".", "_")
                part.targets[target] = self.attribute(node.target)
                if names is not None:
                    names[f"{part.submod_name}.{target}"] = node.target
            args, kwargs = map_arg((node.args, node.kwargs), part.environment.__getitem__)
            made = part.graph.create_node(
                node.op, target, args, kwargs, node.name if keep_names else None, type_expr=node.type
            )
            made.meta = dict(node.meta)
            part.environment[node] = made

    def take(self, node: Node, keep_names: bool) -> None:
        """An input or attribute of the whole, where it is one and not there yet."""
        if node.name in self.made or node.op not in ("placeholder", "get_attr"):
            return
        if node.op == "get_attr":
            made = self.graph.get_attr(node.target)
            self.attributes[node.target] = self.attribute(node.target)
        else:
            name = node.name if keep_names else node.target
            made = self.graph.create_node("placeholder", name, node.args, type_expr=node.type)
        made.meta = dict(node.meta)
        self.made[node.name] = made

    def call(self, part: Partition, as_tuple: bool) -> None:
        """The part's outputs, and its call."""
        values = tuple(part.environment[self.nodes[name]] for name in part.outputs)
        one = len(values) == 1 and not as_tuple
        part.graph.output(values[0] if one else values)
        self.attributes[part.submod_name] = GraphModule(part.targets, part.graph)
        result = self.graph.call_module(part.submod_name, tuple(self.made[name] for name in part.inputs))
        for place, name in enumerate(part.outputs):
            self.made[name] = result if one else self.graph.call_function(operator.getitem, (result, place))


def split_module(
    m: GraphModule, root_m: Any, split_callback: Callable[[Node], Any], qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False, keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True, *, partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """A GraphModule of GraphModules `submod_...`, to each of which go the Nodes for which `split_callback` says so.

    qualname_map                    gets the new paths of Modules, and the old ones
    keep_original_order             parts are called in the order of their first Nodes, not of what they need
    keep_original_node_name         Nodes keep their names
    keep_original_input_name        inputs of parts have the names of what they get, not `arg_0`
    partition_affix                 is put before what `split_callback` gives
    tuple_return                    parts with one result give a tuple too

    Raises RuntimeError where two parts need each other.
    """
    keep_names = bool(keep_original_node_name)
    split = _Split(m, split_callback, partition_affix)
    parts = split.sorted_parts()
    for part in parts:
        split.take_inputs(part, keep_original_input_name)
    split.copy_nodes(qualname_map, keep_names)
    for node in m.graph.nodes:
        if node.op == "placeholder" or not keep_original_order or not parts:
            split.take(node, keep_names)
    for part in split.parts.values() if keep_original_order else parts:
        for name in part.inputs:
            split.take(split.nodes[name], keep_names)
        split.call(part, tuple_return)
    split.graph.output(map_arg(m.graph.output_node().args[0], lambda node: split.made[node.name]))
    return GraphModule(split.attributes, split.graph)
