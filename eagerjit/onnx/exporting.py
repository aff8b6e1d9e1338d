"""`torch.onnx.export`: a Module as an ONNX file."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops.elementwise import argument
from eagerjit.export.recording import Axes, Call, Recorded, nodes_in
from eagerjit.nn.module import Module
from eagerjit.onnx import elementwise, operations, primitives
from eagerjit.onnx.recording import recorded_tensors
from eagerjit.onnx.writer import Writer, element_type
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

OLDEST, NEWEST, USUAL = 13, 23, 18
"""Versions of ONNX's operators that are written."""
RULES = {**elementwise.RULES, **primitives.RULES}
_WITHOUT_EFFECT = frozenset(
    "dynamo custom_translation_table report optimize verify profile dump_exported_program artifacts_dir fallback "
    "operator_export_type do_constant_folding custom_opsets export_modules_as_functions autograd_inlining "
    "use_external_data_format example_outputs enable_onnx_checker strip_doc_string".split()
)
"""Options of PyTorch's, now and before, that are accepted and change nothing."""
_LARGE = 2_000_000_000
"""Bytes beyond which tensors lie in a file of their own: a message of protobuf has at most 2 GB."""


class ONNXProgram:
    """An exported model: `model_proto` is onnx's ModelProto, `save` writes it."""

    def __init__(self, model_proto: Any):
        self.model_proto = model_proto

    def save(self, destination: Any, *, external_data: bool | None = None, **options: Any) -> None:
        """Write the file; large tensors lie in `<name>.data` beside it."""
        import onnx

        large = self.model_proto.ByteSize() > _LARGE if external_data is None else external_data
        if hasattr(destination, "write"):
            destination.write(self.model_proto.SerializeToString())
        elif large:
            location = f"{Path(destination).name}.data"
            onnx.save_model(self.model_proto, destination, save_as_external_data=True, location=location)
        else:
            onnx.save_model(self.model_proto, destination)

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return f"ONNXProgram({graph.name!r}, {len(graph.node)} nodes, {len(graph.initializer)} initializers)"


def export(
    model: Any, args: Any = (), f: Any = None, *, kwargs: Mapping[str, Any] | None = None, export_params: bool = True,
    verbose: bool | None = None, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamic_axes: Any = None, dynamic_shapes: Any = None,
    keep_initializers_as_inputs: bool = False, external_data: bool | None = None, training: Any = None,
    **options: Any,
) -> ONNXProgram:  # fmt: skip
    """What a call of a model computes, as an ONNX file; needs the package `onnx` (`eagerjit[onnx]`).

    args                a tuple of arguments, a dictionary at its end being those by name, or one tensor
    f                   a path or a file to write to
    input_names         of the tensors among the arguments, in order
    dynamic_axes        sizes that differ from call to call: {tensor's name: {dimension: name} or [dimensions]}
    dynamic_shapes      the same as a tuple or dictionary like the arguments, of {dimension: name or Dim}
    export_params       without them parameters are inputs of the graph, by their names
    opset_version       13 to 23; for older ones a warning says that it is 13
    training            None and EVAL: in evaluation mode; PRESERVE and TRAINING: as in that mode

    The call is recorded as in `torch.jit.trace`: what Python decides is decided once, and what the model assigns to its
    attributes is taken back. Raises RuntimeError for a call that cannot be recorded, NotImplementedError naming the
    operation and its line for one that ONNX cannot say, TypeError for options that PyTorch's has not.
    """
    if unknown := options.keys() - _WITHOUT_EFFECT:
        raise TypeError(f"export() got an unexpected keyword argument '{min(unknown)}'")
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError("torch.onnx.export needs the package onnx: pip install onnx", name="onnx") from None
    model, positional, named = _on_host(model, *_arguments(args, kwargs))
    names = _input_names(positional, named, input_names)
    axes = _axes(names, positional, named, dynamic_axes, dynamic_shapes)
    wanted = USUAL if opset_version is None else opset_version
    if wanted < OLDEST:
        warnings.warn(f"torch.onnx.export: opset_version {wanted} is too old, the file has {OLDEST}", stacklevel=2)
        wanted = OLDEST
    if wanted > NEWEST:
        raise ValueError(f"torch.onnx.export: opset_version {wanted} is newer than {NEWEST}, the newest written")
    with _mode(model, training):
        found = recorded_tensors(model, positional, named, axes)
    proto = _model(model, found, names, output_names, wanted, keep_initializers_as_inputs, export_params)
    if proto.ByteSize() < _LARGE:
        onnx.checker.check_model(proto)
    program = ONNXProgram(proto)
    if verbose:
        print(onnx.printer.to_text(program.model_proto))
    if f is not None:
        program.save(f, external_data=external_data)
    return program


def _arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if kwargs is None and given and isinstance(given[-1], dict):
        return given[:-1], dict(given[-1])
    return given, dict(kwargs or {})


def _on_host(model: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The model and its arguments, or copies of those that lie on a device."""
    if isinstance(model, Module) and any(not x.is_cpu for x in (*model.parameters(), *model.buffers())):
        model = copy.deepcopy(model).cpu()
    leaves: list[Any] = []
    structure = pytree.flatten((positional, named), leaves)
    here = [x.cpu() if isinstance(x, Tensor) else x for x in leaves]
    return model, *pytree.unflatten(structure, here)


def _tensors(value: Any) -> list[Tensor]:
    leaves: list[Any] = []
    pytree.flatten(value, leaves)
    return [x for x in leaves if isinstance(x, Tensor)]


def _input_names(positional: tuple[Any, ...], named: dict[str, Any], wanted: Sequence[str] | None) -> list[str]:
    """One per tensor: those given, then those of arguments by name, then numbered ones."""
    count = len(_tensors(positional))
    names = [f"input_{i}" if count > 1 else "input" for i in range(count)]
    for key, value in named.items():
        several = len(_tensors(value))
        names += [f"{key}_{i}" if several > 1 else key for i in range(several)]
    given = list(wanted or ())
    if len(given) > len(names):
        raise RuntimeError(f"number of input names provided ({len(given)}) exceeded number of inputs ({len(names)})")
    return given + names[len(given) :]


def _axes(names: list[str], positional: Any, named: Any, by_name: Any, by_place: Any) -> list[Axes]:
    tensors = _tensors((positional, named))
    found: list[Axes] = [{} for _ in tensors]
    if by_place is not None:
        by_name = dict(zip(names, _spread(positional, named, by_place), strict=True))
    for name, wanted in (by_name or {}).items():
        if name not in names:
            continue  # dynamic_axes may name results, whose sizes follow
        index = names.index(name)
        for dim, axis in _named(name, wanted):
            rank = tensors[index].ndim
            if not -rank <= dim < rank:
                raise RuntimeError(f"torch.onnx.export: dimension {dim} of {name}, which has {rank}")
            found[index][dim % rank] = axis
    return found


def _spread(positional: Any, named: dict[str, Any], by_place: Any) -> list[Any]:
    """What `dynamic_shapes` says of each tensor, in order."""
    given = list(by_place.values()) if isinstance(by_place, dict) else [by_place] if named else list(by_place)
    values = [*positional, *named.values()]
    if isinstance(by_place, dict) and named:
        given = [*list(by_place.values())[: len(positional)], *(by_place.get(key) for key in named)]
    found: list[Any] = []
    for value, said in zip(values, given, strict=False):
        if isinstance(value, Tensor):
            found.append(said)
        else:
            inner = list(said.values() if isinstance(said, dict) else said or ())
            count = len(_tensors(value))
            found += inner + [None] * (count - len(inner))
    return found + [None] * (len(_tensors((positional, named))) - len(found))


def _named(tensor: str, wanted: Any) -> Iterator[tuple[int, str]]:
    """(dimension, name) of the sizes that differ; a `Dim` has a name, those without one are numbered."""
    if isinstance(wanted, dict):
        pairs = list(wanted.items())
    elif all(type(d) is int for d in wanted or ()):
        pairs = [(d, "") for d in wanted or ()]  # a list of dimensions
    else:
        pairs = list(enumerate(wanted))
    for dim, said in pairs:
        if said is None or type(said) is int or getattr(said, "is_static", False):
            continue
        name = said if isinstance(said, str) else getattr(said, "__name__", "")
        yield dim, name or f"{tensor}_dynamic_axes_{dim}"


@contextlib.contextmanager
def _mode(model: Any, training: Any) -> Iterator[None]:
    """The model evaluated, or as it is wanted, and as it was afterwards."""
    wanted = getattr(training, "name", "EVAL")
    modules = list(model.modules()) if isinstance(model, Module) and wanted != "PRESERVE" else []
    before = [m.training for m in modules]
    state.exporting = True
    try:
        if modules:
            model.train(wanted == "TRAINING")
        yield
    finally:
        state.exporting = False
        for module, mode in zip(modules, before, strict=True):
            module.training = mode


def _model(
    model: Any, found: Recorded, names: list[str], output_names: Sequence[str] | None, opset: int, as_inputs: bool,
    with_parameters: bool,
) -> Any:  # fmt: skip
    from onnx import helper

    from eagerjit.version import __version__

    places = {symbol: (names[number], dim) for symbol, (number, dim, _) in found.varying.items()}
    w = Writer(opset, found.known, places, found.calls)
    for name in names:
        if w.fresh(name) != name:
            raise RuntimeError(f"torch.onnx.export: two inputs are called {name}")
    values = _Values(w, found, dict(zip(found.inputs, names, strict=True)), _paths(model))
    outputs = _outputs(w, values, found, output_names)
    inputs = [_described(w, found, node, name) for node, name in zip(found.inputs, names, strict=True)]
    nodes, constants = w.needed([o.name for o in outputs])
    left_out = set() if with_parameters else values.parameters
    for tensor in constants:
        if as_inputs or tensor.name in left_out:
            inputs.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    constants = [tensor for tensor in constants if tensor.name not in left_out]
    title = getattr(model, "__name__", type(model).__name__)
    graph = helper.make_graph(nodes, title, inputs, outputs, initializer=constants)
    made = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(made)
    return helper.make_model(
        graph, opset_imports=made, ir_version=version, producer_name="eagerjit", producer_version=__version__
    )


def _outputs(w: Writer, values: _Values, found: Recorded, wanted: Sequence[str] | None) -> list[Any]:
    from onnx import helper

    count = len(found.outputs)
    names = list(wanted or ())
    if len(names) > count:
        raise RuntimeError(f"number of output names provided ({len(names)}) exceeded number of outputs ({count})")
    names += [f"output_{i}" if count > 1 else "output" for i in range(len(names), count)]
    described = []
    for node, name in zip(found.outputs, names, strict=True):
        if w.fresh(name) != name:
            raise RuntimeError(f"torch.onnx.export: two tensors are called {name}")
        w.nodes.append(helper.make_node("Identity", [values(node)], [name], name=w.fresh("node_Identity")))
        described.append(_described(w, found, node, name))
    return described


def _described(w: Writer, found: Recorded, node: Node, name: str) -> Any:
    """A tensor's type; sizes that differ are named, or unknown where they are computed."""
    from onnx import helper

    axes = {symbol: axis for symbol, (_, _, axis) in found.varying.items()}
    shape = [d if isinstance(d, int) else axes.get(str(d)) for d in map(w.settled, node.shape)]
    return helper.make_tensor_value_info(name, element_type(node.dtype), shape)


def _paths(model: Any) -> dict[int, str]:
    """Names of a model's parameters and buffers, by the tensor."""
    if not isinstance(model, Module):
        return {}
    return {id(x): name for name, x in (*model.named_parameters(), *model.named_buffers())}


class _Values:
    """Names of nodes' values; what a node needs is written when it is first asked for."""

    def __init__(self, w: Writer, found: Recorded, names: dict[Node, str], paths: dict[int, str]):
        self.w, self.found, self.names, self.paths = w, found, names, paths
        self._operators: dict[int, list[str] | None] = {}
        self.parameters: set[str] = set()
        self._plain: set[Node] = set()  # results of ops that no operator of ONNX computes

    def __call__(self, node: Node) -> str:
        """The name, with all that it is computed from before it."""
        pending = [node]
        while pending:
            current = pending[-1]
            if current in self.names:
                pending.pop()
                continue
            missing = [n for n in self._needed(current) if n not in self.names]
            if missing:
                pending += missing
            else:
                self.names[current] = self._written(current)
                pending.pop()
        return self.names[node]

    def _call(self, node: Node) -> Call | None:
        """The op that the node is a result of, its arguments, and which one, where ONNX has an operator for it."""
        call = None if node in self._plain else self.found.calls.get(node)
        if call is None or call.op not in operations.RULES or node.dtype not in operations.FLOATS:
            return None
        return call if not call.number or call.op in operations.SEVERAL else None

    def _needed(self, node: Node) -> tuple[Node, ...]:
        call = self._call(node)
        return node.inputs if call is None else tuple(nodes_in(call.arguments))

    def _written(self, node: Node) -> str:
        self.w.source = node.source
        if node.op is argument:
            return self._held(node)
        if (call := self._call(node)) is not None:
            written = self._of_one_operator(*call)
            if written is not None:
                return written
            self._plain.add(node)
            return self(node)
        if node.op.name not in RULES:
            raise self._unknown(node, "")
        try:
            return RULES[node.op.name](self.w, node, *(self.names[n] for n in node.inputs))
        except NotImplementedError as error:
            raise self._unknown(node, f": {error}") from None

    def _of_one_operator(self, op: str, arguments: tuple[Any, ...], number: int | None) -> str | None:
        if id(arguments) not in self._operators:
            with contextlib.suppress(NotImplementedError):  # its primitives will do, or say what is missing
                written = operations.RULES[op](self.w, self.names.__getitem__, *arguments)
                self._operators[id(arguments)] = [written] if isinstance(written, str) else written
        written = self._operators.get(id(arguments))
        return None if written is None else written[number or 0]

    def _unknown(self, node: Node, why: str) -> NotImplementedError:
        function = node.attributes.get("function")
        name = function if isinstance(function, str) else node.op.name
        return NotImplementedError(f"torch.onnx.export: ONNX cannot say {name} ({node.source}){why}")

    def _held(self, node: Node) -> str:
        tensor = self.found.held[node]
        array = np.asarray(tensor.detach().numpy())
        name = self.w.initializer(array, self.paths.get(id(tensor), "constant"))
        if id(tensor) in self.paths:
            self.parameters.add(name)
        return name
