"""Graphs of Python calls: built node by node, changed, checked, and printed as the Python code that they mean."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from eagerjit.effects.cautions import caution
from eagerjit.fx.node import Node, map_arg
from eagerjit.runtime.dtypes import DType

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
    "le": "<=", "ge": ">=",
}  # fmt: skip
_INPLACE = {"iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ipow": "**=", "imatmul": "@="}
_PREFIX = {"neg": "-", "pos": "+", "invert": "~"}


_RESERVED = ("self", "torch", "device", "inf", "nan")


class PythonCode(NamedTuple):
    """Source text, and the names that it takes for granted."""

    src: str
    globals: dict[str, Any]


class NodeList:
    """The Nodes of a graph as they are while a loop runs: it comes by those that are added ahead, not those erased."""

    def __init__(self, graph: Graph, direction: str = "_next"):
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        node = getattr(self.graph._root, self.direction)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> Iterator[Node]:
        return iter(NodeList(self.graph, "_prev" if self.direction == "_next" else "_next"))


class InsertPoint:
    """Where a graph's next Nodes come, from now until the end of a `with` statement, or for good without one."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]):
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        self.graph._insert = self.before


class Graph:
    """Nodes in the order in which they run."""

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None):
        self._root = Node(self, "", "root", "", (), {})
        self._names: set[str] = set()
        self._insert: Callable[[Node], None] = self._root.prepend
        self.owning_module = owning_module

    @property
    def nodes(self) -> NodeList:
        """The Nodes in order."""
        return NodeList(self)

    # -- making ----------------------------------------------------------------------------------------------------

    def create_node(
        self, op: str, target: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """One more Node, at the end or where `inserting_before` or `inserting_after` says."""
        made = Node(self, self._name(name or _wanted(op, target)), op, target, tuple(args or ()), dict(kwargs or {}),
                    type_expr)  # fmt: skip
        self._insert(made)
        return made

    def _name(self, wanted: str) -> str:
        base = re.sub(r"[^0-9a-zA-Z_]+", "_", wanted)
        base = f"_{base}" if base[:1].isdigit() else base or "node"
        reserved = keyword.iskeyword(base) or base in vars(builtins) or base in _RESERVED
        name = f"{base}_1" if reserved else base
        stem, count = re.sub(r"_\d+$", "", name), 1
        while name in self._names:
            name, count = f"{stem}_{count}", count + 1
        self._names.add(name)
        return name

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input of the graph."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the Module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None,
                      type_expr: Any = None) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a Module, named by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the graph returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's Node, its arguments replaced by a function of them."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copies of all Nodes of another graph but its output, whose value is returned."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        made = Graph()
        copied = made.graph_copy(self, {} if memo is None else memo, True)
        if copied is not None:
            result, output = copied
            made.output(result, output.type).meta = dict(output.meta)
        return made

    # -- changing --------------------------------------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """New Nodes come before this one, each after the last of them; without one, at the front as `inserting_after`.

        In a `with` statement until its end, otherwise from now on. Raises AssertionError for a Node of another graph.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """New Nodes come right after this one, each before the last of them; without one, at the end.

        In a `with` statement until its end, otherwise from now on. Raises AssertionError for a Node of another graph.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Drop a Node, with a warning if it is gone. Raises RuntimeError for one that others use or another graph's."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            caution(f"erase_node({to_erase}) on an already erased node")
            return
        to_erase._leave()
        to_erase._erased = True
        to_erase._set(map_arg(to_erase.args, lambda n: None), map_arg(to_erase.kwargs, lambda n: None))

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Drop Nodes that nothing uses and that change nothing; whether there were any."""
        impure = is_impure_node or Node.is_impure
        dead = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                dead = True
        return dead

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The Nodes of a kind, and with a target."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The Node that says what is returned."""
        return self.find_nodes(op="output")[-1]

    def lint(self) -> None:
        """Raise RuntimeError unless Nodes come after those that they use, names differ, and Modules exist."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                found = self.owning_module
                for part in node.target.split("."):
                    if not hasattr(found, part):
                        raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part}")
                    found = getattr(found, part)

    # -- printing --------------------------------------------------------------------------------------------------

    def python_code(self, root_module: str = "self") -> PythonCode:
        """The graph as a function `forward` of the Module."""
        return _Printer(self, root_module).code()

    def print_tabular(self) -> None:
        """Print the Nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, tuple("-" * w for w in widths))  # type: ignore[arg-type]
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(n.format_node() for n in self.nodes)])


def _wanted(op: str, target: Any) -> str:
    """The name that a Node gets if it is free."""
    if op == "call_function":
        name = getattr(target, "__name__", "call")
    else:
        name = str(target).replace(".", "_")
    name = name.strip("_") if op == "call_method" and name.startswith("__") else name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() if op != "placeholder" else name


class _Printer:
    """Writes a graph as Python."""

    def __init__(self, graph: Graph, root: str):
        import eagerjit

        self.graph, self.root = graph, root
        self.globals: dict[str, Any] = {"torch": eagerjit, "inf": float("inf"), "nan": float("nan")}

    def code(self) -> PythonCode:
        last: dict[Node, Node] = {}
        for node in self.graph.nodes:
            for used in node.all_input_nodes:
                last[used] = node
        inputs, lines = [], []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                inputs.append(node.target + (f" = {self.value(node.args[0])}" if node.args else ""))
                if node.target.lstrip("*") != node.name:
                    lines.append(f"{node.name} = {node.target.lstrip('*')}")
                continue
            if node.op == "output":
                lines.append(f"return {self.value(node.args[0])}")
                continue
            gone = [used.name for used in node.all_input_nodes if last[used] is node]
            unused = [] if node.users else [node.name]
            dropped = f";  {' = '.join([*gone, *unused])} = None" if gone or unused else ""
            lines.append(self.line(node) + dropped)
        body = "".join(f"\n    {line}" for line in lines or ["pass"])
        text = f"\n\n\ndef forward({', '.join([self.root, *inputs])}):{body}\n    "
        return PythonCode(text, self.globals)

    def line(self, node: Node) -> str:
        args, name = node.args, node.name
        if node.op == "get_attr":
            return f"{name} = {_path(self.root, node.target)}"
        if node.op == "call_module":
            return f"{name} = {_path(self.root, node.target)}({self.arguments(args, node.kwargs)})"
        if node.op == "call_method":
            return f"{name} = {self.value(args[0])}.{node.target}({self.arguments(args[1:], node.kwargs)})"
        target = node.target
        plain = getattr(target, "__module__", "") in ("_operator", "operator") and not node.kwargs
        kind = getattr(target, "__name__", "")
        if plain and kind in _INFIX:
            return f"{name} = {self.value(args[0])} {_INFIX[kind]} {self.value(args[1])}"
        if plain and kind in _INPLACE:
            return f"{self.value(args[0])} {_INPLACE[kind]} {self.value(args[1])};  {name} = {self.value(args[0])}"
        if plain and kind in _PREFIX:
            return f"{name} = {_PREFIX[kind]}{self.value(args[0])}"
        if target is operator.getitem and not node.kwargs:
            return f"{name} = {self.value(args[0])}[{self.value(args[1])}]"
        if target is getattr and isinstance(args[1], str) and args[1].isidentifier() and len(args) == 2:
            return f"{name} = {self.value(args[0])}.{args[1]}"
        return f"{name} = {self.function(target)}({self.arguments(args, node.kwargs)})"

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{k} = {self.value(v)}" for k, v in kwargs.items())])

    def value(self, a: Any) -> str:
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple) and not hasattr(a, "_fields"):
            return f"({', '.join(map(self.value, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.value, a))}]"
        if isinstance(a, dict):
            return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in a.items())}}}"
        if isinstance(a, slice):
            return f"slice({self.value(a.start)}, {self.value(a.stop)}, {self.value(a.step)})"
        if isinstance(a, (bool, int, float, complex, str, bytes, type(None), type(...), DType)):
            return repr(a)
        return self.function(a) if callable(a) else self.constant(a)

    def constant(self, value: Any) -> str:
        return self.known(f"_{type(value).__name__.lower()}", value)

    def function(self, target: Any) -> str:
        found = public_name(target)
        name = f"{getattr(target, '__module__', '')}_{getattr(target, '__name__', 'call')}"
        return found if found is not None else self.known(name.replace(".", "_").strip("_"), target)

    def known(self, wanted: str, value: Any) -> str:
        name, count = wanted, 1
        while self.globals.setdefault(name, value) is not value:
            name, count = f"{wanted}_{count}", count + 1
        return name


def public_name(target: Any) -> str | None:
    """Where the library, or Python, has a function for all to see."""
    import eagerjit
    from eagerjit.namespace.packets import Packet
    from eagerjit.nn import functional

    name = getattr(target, "__name__", "call")
    if isinstance(target, Packet):
        return f"torch.ops.aten.{name}.default"
    if getattr(builtins, name, None) is target:
        return name
    for prefix, module in (("torch", eagerjit), ("torch.nn.functional", functional)):
        if getattr(module, name, None) is target:
            return f"{prefix}.{name}"
    return None


def _path(root: str, target: str) -> str:
    """An attribute by its path; parts that are no names are asked for by getattr."""
    text = root
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text
