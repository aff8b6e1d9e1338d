"""Exported programs in files: the graph as JSON, beside the tensors, so that no code of the model's is needed."""

from __future__ import annotations

import importlib
import json
import math
import operator
from collections.abc import Mapping
from typing import Any

from eagerjit import fx
from eagerjit.calling.dispatch import OPS
from eagerjit.compiler import size_text
from eagerjit.compiler.sizes import Guard
from eagerjit.export.called import called_functions, know_functions
from eagerjit.export.functions import FUNCTIONS, OpFunction, PrimitiveFunction, op_function, primitive
from eagerjit.export.program import Contract, ExportedProgram, TensorGuard
from eagerjit.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from eagerjit.namespace.packets import Packet, aten, function_of
from eagerjit.pytree import LEAF, Structure
from eagerjit.runtime.dtypes import BY_SHORT, DType
from eagerjit.serialization import load as load_file
from eagerjit.serialization import save as save_file

_FORMAT = "eagerjit.export 1"
_CONTAINERS = {"tuple": tuple, "list": list, "dict": dict}
_ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod", "neg", "getitem")


def save(ep: ExportedProgram, f: Any, *, extra_files: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Write an exported program to a path or file; `load` reads it in any process.

    extra_files     texts that are kept beside it, by name

    Raises TypeError for what is no ExportedProgram, and for nodes of a changed graph that call functions of the
    program's own.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save: 'ep' must be an ExportedProgram, got {type(ep).__name__}")
    tables = {"state_dict": dict(ep.state_dict), "constants": ep.constants, "example_inputs": ep.example_inputs}
    save_file({"format": _FORMAT, "program": program_text(ep), "extra_files": dict(extra_files or {}), **tables}, f)


def load(f: Any, *, extra_files: dict[str, Any] | None = None, **options: Any) -> ExportedProgram:
    """The exported program in a file that `save` wrote; `extra_files` is filled with texts kept beside it.

    Raises RuntimeError for other files.
    """
    found = contents(f, _FORMAT, "torch.export.load")
    for name in extra_files or ():
        if extra_files is not None and name in found["extra_files"]:
            extra_files[name] = found["extra_files"][name]
    return program_of(found["program"], found["state_dict"], found["constants"], found["example_inputs"])


def contents(f: Any, form: str, asked: str, map_location: Any = None) -> dict[str, Any]:
    """What a file of a form holds."""
    found = load_file(f, map_location=map_location)
    if not isinstance(found, dict) or found.get("format") != form:
        raise RuntimeError(f"{asked}: this file was not written by eagerjit's own save")
    return found


# -- the graph and what belongs to it ---------------------------------------------------------------------------------


def program_text(ep: ExportedProgram) -> str:
    """All of a program but its tensors."""
    c, signature = ep.contract, ep.graph_signature
    return json.dumps({
        "nodes": [[n.name, n.op, _target_text(n), _coded(n.args), _coded(n.kwargs)] for n in ep.graph.nodes],
        "inputs": [[s.kind.name, _argument(s.arg), s.target, s.persistent] for s in signature.input_specs],
        "outputs": [[s.kind.name, _argument(s.arg), s.target] for s in signature.output_specs],
        "tensors": [[g.name, g.dtype.short, list(g.shape)] for g in c.tensors],
        "values": _coded(c.values), "ranges": _coded(c.ranges), "names": c.names,
        "facts": [[g.relation, str(g.a), str(g.b), g.holds, g.source] for g in c.facts],
        "functions": called_functions(ep.graph),
        "arguments": ep.arguments, "given": [_structure(s) for s in ep.given], "returned": _structure(ep.returned),
    })  # fmt: skip


def program_of(text: str, state: Any, constants: Any, example_inputs: Any) -> ExportedProgram:
    """The program that a text describes, with these tensors."""
    said = json.loads(text)
    know_functions(said.get("functions", []))  # which files of earlier versions lack
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}
    for name, op, target, args, kwargs in said["nodes"]:
        decoded = _decoded(args, nodes), _decoded(kwargs, nodes)
        nodes[name] = graph.create_node(op, _target(op, target), *decoded, name)
    inputs = [InputSpec(InputKind[k], _argument_of(a), t, p) for k, a, t, p in said["inputs"]]
    outputs = [OutputSpec(OutputKind[k], _argument_of(a), t) for k, a, t in said["outputs"]]
    contract = Contract(
        [TensorGuard(name, BY_SHORT[dtype], tuple(shape)) for name, dtype, shape in said["tensors"]],
        _decoded(said["values"], nodes),
        [Guard(r, size_text.parse(a), size_text.parse(b), holds, source) for r, a, b, holds, source in said["facts"]],
        _decoded(said["ranges"], nodes), said["names"],
    )  # fmt: skip
    given = [_structure_of(s) for s in said["given"]]
    return ExportedProgram(graph, ExportGraphSignature(inputs, outputs), state, constants, contract, said["arguments"],
                           given, _structure_of(said["returned"]), example_inputs)  # fmt: skip


def _target_text(node: fx.Node) -> str:
    target = node.target
    if node.op != "call_function":
        return str(target)
    kinds = (("aten", Packet), ("op", OpFunction), ("prim", PrimitiveFunction))
    kind = next((kind for kind, of in kinds if isinstance(target, of)), None)
    name = getattr(target, "__name__", "")
    if kind is None and FUNCTIONS.get(name) is target:
        kind = "function"
    if kind is None and name in _ARITHMETIC and getattr(operator, name) is target:
        kind = "operator"
    if kind is None:
        raise TypeError(f"the node {node.name} calls {target!r}, which other processes may not have")
    return f"{kind}:{OPS[name].body.__module__}:{name}" if kind == "op" else f"{kind}:{name}"


def _target(op: str, text: str) -> Any:
    if op != "call_function":
        return text
    kind, *module, name = text.split(":")
    try:
        if kind == "op" and module[0].startswith("eagerjit."):
            importlib.import_module(module[0])  # which declares the op
        if kind == "operator":
            return getattr(operator, name)
        if kind == "aten":
            if function_of(name) is None:
                raise KeyError(name)
            return getattr(aten, name)
        if kind == "function":
            return FUNCTIONS[name]
        return op_function(name) if kind == "op" else primitive(name)
    except (KeyError, ModuleNotFoundError):
        raise RuntimeError(f"this file needs {name}, which this version of eagerjit lacks") from None


def _argument(argument: Any) -> Any:
    return [argument.name, _coded(argument.value)] if isinstance(argument, ConstantArgument) else [argument.name]


def _argument_of(said: Any) -> TensorArgument | ConstantArgument:
    return ConstantArgument(said[0], _decoded(said[1], {})) if len(said) == 2 else TensorArgument(said[0])


def _structure(structure: Structure) -> Any:
    if type(structure) is not tuple:
        return LEAF
    kind, keys, children = structure
    return [kind.__name__, None if keys is None else _coded(tuple(keys)), [_structure(c) for c in children]]


def _structure_of(said: Any) -> Structure:
    if said == LEAF:
        return LEAF
    kind, keys, children = said
    return _CONTAINERS[kind], None if keys is None else _decoded(keys, {}), tuple(map(_structure_of, children))


def _coded(value: Any) -> Any:
    """An argument as JSON has it: what it lacks is an object with one key, which says what it is."""
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, DType):
        return {"dtype": value.short}
    if type(value) in (list, tuple):
        parts = [_coded(v) for v in value]
        return parts if type(value) is list else {"tuple": parts}
    if isinstance(value, dict):
        return {"dict": [[_coded(k), _coded(v)] for k, v in value.items()]}
    raise TypeError(f"an argument is a {type(value).__name__}, which a file cannot hold")


def _decoded(said: Any, nodes: Mapping[str, fx.Node]) -> Any:
    if isinstance(said, list):
        return [_decoded(v, nodes) for v in said]
    if not isinstance(said, dict):
        return said
    ((kind, value),) = said.items()
    if kind == "node":
        return nodes[value]
    if kind == "float":
        return float(value)
    if kind == "complex":
        return complex(*map(float, value))
    if kind == "dtype":
        return BY_SHORT[value]
    if kind == "tuple":
        return tuple(_decoded(v, nodes) for v in value)
    return {_decoded(k, nodes): _decoded(v, nodes) for k, v in value}
