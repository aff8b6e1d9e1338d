"""Graphs as text, and text as Graphs: `parse_graph(print_graph(g))` has the structure of `g` and prints the same.

graph     ::= "graph" NAME line*
line      ::= NODE ": " TYPE " = " OP "(" argument, ... ")" [comment]     argument nodes are the graph's inputs
            | "write" NODE "<-" NODE          the input's value after the call
            | "return" NODE, ...
            | "# " FILE ": " PATH             what a file in the comments is called in full
NODE      ::= "%" and a word
TYPE      ::= DTYPE "[" SIZE, ... "]"
argument  ::= NODE | NAME "=" value           an attribute that is None is not printed: it is as good as absent
value     ::= SIZE | DTYPE | float | complex(float, float) | True | False | string | "(" value, ... ")"
SIZE      ::= a polynomial in symbols, such as 2*s0 + (s1 // 2)
comment   ::= "# " FILE ":" LINE              the user's line that recorded the node
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.size_text import from_ast
from eagerjit.runtime.dtypes import BY_SHORT, Absent, DType

WIDEST = 80
"""Comments stand in one column; lines longer than this are not waited for."""


def print_graph(graph: Graph) -> str:
    """The graph as readable text, one node per line, with the user's source lines."""
    nodes = [*graph.inputs, *graph.nodes]
    lines = list(_body(graph))
    commented = [line for line, node in zip(lines, nodes, strict=False) if node.source]
    width = max((len(line) for line in commented if len(line) <= WIDEST), default=0)
    files = _short_names(dict.fromkeys(n.source.rpartition(":")[0] for n in nodes if n.source))
    for i, node in enumerate(nodes):
        if node.source:
            file, _, number = node.source.rpartition(":")
            lines[i] = f"{lines[i]:<{width}}  # {files[file]}:{number}"
    table = [f"# {short}: {file}" for file, short in files.items() if short != file]
    return "\n  ".join([f"graph {graph.name}", *lines, *table]) + "\n"


def graph_key(graph: Graph) -> str:
    """A digest of what the graph computes: equal for graphs that differ in name and source lines only."""
    import hashlib

    return hashlib.blake2b("\n".join(_body(graph)).encode(), digest_size=16).hexdigest()


def node_names(graph: Graph) -> dict[Node, str]:
    """How every input and node is called in the graph's text."""
    return {node: f"%{i}" for i, node in enumerate((*graph.inputs, *graph.nodes))}


def print_node(node: Node, names: Mapping[Node, str]) -> str:
    """One node's line without its source; `%?` stands for a node that is not in the graph."""
    arguments = [names.get(n, "%?") for n in node.inputs]
    if node.attributes:
        arguments += print_attributes(node.attributes)
    return f"{names.get(node, '%?')}: {node.type} = {node.op.name}({', '.join(arguments)})"


def print_attributes(attributes: Mapping[str, Any]) -> list[str]:
    """`name=value` for every attribute that is not None; equal text means equal attributes."""
    return [f"{name}={_print_value(value)}" for name, value in attributes.items() if value is not None]


def _body(graph: Graph) -> Iterable[str]:
    """Lines without sources, the nodes' first."""
    names = node_names(graph)
    for node in names:
        yield print_node(node, names)
    for target, value in graph.writes:
        yield f"write {names.get(target, '%?')} <- {names.get(value, '%?')}"
    yield " ".join(["return", ", ".join(names.get(n, "%?") for n in graph.outputs)]).rstrip()


def _print_value(value: Any) -> str:
    kind = type(value)
    if kind is DType:
        return value.short
    if kind is Absent:
        value.refuse()
    if kind in (int, bool, sizes.Size):
        return str(value)
    if kind in (float, str):
        return repr(value)
    if kind is complex:
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_print_value, value))}{',' * (len(value) == 1)})"
    raise TypeError(f"an attribute of type {kind.__name__} has no text: {value!r}")


def _short_names(files: Iterable[str]) -> dict[str, str]:
    """A file's last part, or its path where two files end alike."""
    short: dict[str, str] = {}
    ends = [file.rpartition("/")[2] for file in files]
    for file, end in zip(files, ends, strict=True):
        short[file] = end if ends.count(end) == 1 else file
    return short


# -- parsing ----------------------------------------------------------------------------------------------------------

_LINE = r"%(\w+): (\w+)\[([^\]]*)\] = (\w+)(\(.*)"
_CODE = r"""(?:[^'"#]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*"""
_NODE_OR_STRING = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|%(?=\w)"""
_PREFIX = "node_"


def parse_graph(text: str) -> Graph:
    """The graph that prints as `text`. Raises ValueError naming a line that is none."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines or not lines[0].startswith("graph "):
        raise ValueError("a graph begins with 'graph' and its name")
    graph = Graph(lines[0].removeprefix("graph "), [], [], [])
    files = dict(line.removeprefix("# ").split(": ", 1) for line in lines if line.startswith("# "))
    nodes: dict[str, Node] = {}
    for line in lines[1:]:
        if line and not line.startswith("# "):
            try:
                _parse_line(graph, line, nodes, files)
            except (KeyError, ValueError, SyntaxError) as error:
                raise ValueError(f"not a line of a graph: {line} ({type(error).__name__}: {error})") from None
    return graph


def _parse_line(graph: Graph, line: str, nodes: dict[str, Node], files: Mapping[str, str]) -> None:
    comment = re.sub(_CODE, "", line, count=1)
    code = line.removesuffix(comment).strip()
    if code == "return" or code.startswith("return "):
        graph.outputs = [nodes[name.strip().removeprefix("%")] for name in code[7:].split(",") if name]
    elif code.startswith("write "):
        target, value = (nodes[name.strip().removeprefix("%")] for name in code[6:].split("<-"))
        graph.writes.append((target, value))
    else:
        name, node = _parse_node(code, nodes, _full_source(comment.removeprefix("# "), files))
        if name in nodes:
            raise ValueError(f"%{name} has a value already")
        nodes[name] = node
        (graph.inputs if node.op.family == "argument" else graph.nodes).append(node)


def _full_source(comment: str, files: Mapping[str, str]) -> str:
    file, colon, number = comment.rpartition(":")
    return f"{files.get(file, file)}{colon}{number}"


def _parse_node(code: str, nodes: Mapping[str, Node], source: str) -> tuple[str, Node]:
    match = re.fullmatch(_LINE, code)
    if match is None:
        raise ValueError("expected %name: type = operation(...)")
    name, dtype, shape, operation, arguments = match.groups()
    python = re.sub(_NODE_OR_STRING, lambda m: m[1] or _PREFIX, arguments)
    call = ast.parse("_" + python, mode="eval").body
    if not isinstance(call, ast.Call):
        raise ValueError("expected %name: type = operation(...)")
    type_ = TensorType(BY_SHORT[dtype], tuple(map(from_ast, _parse_sizes(shape))))
    inputs = tuple(nodes[_node_name(argument)] for argument in call.args)
    attributes = {str(keyword.arg): _parse_value(keyword.value) for keyword in call.keywords}
    return name, Node(TABLE[operation], inputs, attributes, type_, source)


def _node_name(argument: ast.expr) -> str:
    if not isinstance(argument, ast.Name) or not argument.id.startswith(_PREFIX):
        raise ValueError(f"expected a node, not {ast.unparse(argument)}")
    return argument.id.removeprefix(_PREFIX)


def _parse_sizes(shape: str) -> list[ast.expr]:
    tree = ast.parse(f"[{shape}]", mode="eval").body
    return tree.elts if isinstance(tree, ast.List) else []


def _parse_value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, bool | int | float | str):
            return value
        case ast.Tuple(elts=elements):
            return tuple(map(_parse_value, elements))
        case ast.Call(func=ast.Name(id="complex"), args=[re, im]):
            return complex(_parse_value(re), _parse_value(im))
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.Name(id=name) if name in BY_SHORT:
            return BY_SHORT[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float(value))):
            return -value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -math.inf
    return from_ast(node)
