"""`torch.export.export`: a Module's call recorded as an ExportedProgram."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from eagerjit import fx, pytree
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.export.building import Builder, describe
from eagerjit.export.dims import Dim
from eagerjit.export.dynamic import dynamic_axes, leaves_of
from eagerjit.export.program import Contract, ExportedProgram, TensorGuard
from eagerjit.export.recording import Axes, Recorded, recorded
from eagerjit.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from eagerjit.nn.module import Module
from eagerjit.pytree import Structure
from eagerjit.state import state
from eagerjit.tensors.tensor import Parameter, Tensor

_WITHOUT_EFFECT = frozenset(("strict", "preserve_module_call_signature", "prefer_deferred_runtime_asserts_over_guards"))
"""Options of PyTorch's that are accepted and change nothing."""
_PREFIXES = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b", InputKind.CONSTANT_TENSOR: "c"}
"""What names of placeholders begin with."""
_BUILT = (tuple, list, dict)
"""Classes of containers that a call may be given and return."""


def export(
    mod: Any, args: Any, kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None, **options: Any
) -> ExportedProgram:
    """What a Module computes of these arguments, as an ExportedProgram.

    dynamic_shapes      sizes that differ from call to call, in the structure of the arguments: {dimension: Dim}

    Parameters and buffers stay those of the Module. What Python decides is decided once: what depends on values is a
    RuntimeError, and what depends on sizes is checked by every call of the program, as are the sizes that do not
    differ. Raises ValueError for what is no Module, TypeError for options that PyTorch's has not.
    """
    if unknown := options.keys() - _WITHOUT_EFFECT:
        raise TypeError(f"export() got an unexpected keyword argument '{min(unknown)}'")
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    kwargs = dict(kwargs or {})
    arguments = arguments_by_name(mod, args, kwargs)
    axes, dims = dynamic_axes(arguments, dynamic_shapes)
    before, state.exporting = state.exporting, True
    try:
        return exported("torch.export.export", mod, args, kwargs, arguments, axes, dims)
    finally:
        state.exporting = before


def arguments_by_name(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names of the parameters that take them."""
    names: list[str] = []
    for name, parameter in inspect.signature(mod.forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(args) - len(names))]
        elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            names.append(name)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def exported(
    asked: str, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: dict[str, Any],
    axes: list[Axes], dims: Mapping[str, Dim],
) -> ExportedProgram:  # fmt: skip
    """Record a call of a Module. RuntimeError, naming what was asked for, where it cannot be a graph."""
    given: list[Structure] = [_structure(asked, value) for value in arguments.values()]
    found = recorded(asked, mod, args, kwargs, axes)
    _check_structure(asked, found.structure)
    graph = fx.Graph()
    inputs: list[InputSpec] = []
    values: dict[Node, fx.Node] = {}
    constants: dict[str, Tensor] = {}
    nodes_of = {id(tensor): node for node, tensor in found.held.items()}
    for tensor, kind, path, persistent in _held(asked, mod, found):
        made = graph.placeholder(f"{_PREFIXES[kind]}_{path.replace('.', '_')}")
        inputs.append(InputSpec(kind, TensorArgument(made.name), path, persistent))
        node = nodes_of.get(id(tensor))
        if node is not None and node not in values:  # one that has several paths is read at the first
            values[node] = made
            describe(made, node, found.known)
        if kind is InputKind.CONSTANT_TENSOR or persistent is False:
            constants[path] = tensor
    nodes = iter(found.inputs)
    tensors, fixed = [], []
    for name, leaf in leaves_of(arguments):
        made = graph.placeholder(name)
        if isinstance(leaf, Tensor):
            given_node = next(nodes)
            values[given_node] = made
            describe(made, given_node, found.known)
            inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(made.name)))
            tensors.append(TensorGuard(name, leaf.dtype, _shape(given_node, found)))
        else:
            inputs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(made.name, leaf)))
            fixed.append((name, leaf))
    results = Builder(asked, found, graph, values).results()
    graph.output(tuple(results))
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, _argument(x)) for x in results]
    contract = _contract(found, tensors, fixed, dims)
    return ExportedProgram(
        graph, ExportGraphSignature(inputs, outputs), mod.state_dict(keep_vars=True), constants, contract,
        list(arguments), given, found.structure, (args, kwargs),
    )  # fmt: skip


def _argument(leaf: Any) -> TensorArgument | ConstantArgument:
    return TensorArgument(leaf.name) if isinstance(leaf, fx.Node) else ConstantArgument("", leaf)


def _structure(asked: str, value: Any) -> Structure:
    structure = pytree.flatten(value, [])
    _check_structure(asked, structure)
    return structure


def _check_structure(asked: str, structure: Structure) -> None:
    """Raise RuntimeError for containers whose classes another process may not have."""
    if type(structure) is not tuple:
        return
    kind, _, children = structure
    if kind not in _BUILT:
        raise RuntimeError(f"{asked}: calls are given and return tuples, lists and dictionaries, not a {kind.__name__}")
    for child in children:
        _check_structure(asked, child)


def _shape(node: Node, found: Recorded) -> tuple[int | str, ...]:
    return tuple(s if isinstance(s, int) else str(s) for s in (sizes.substitute(d, found.known) for d in node.shape))


def _contract(found: Recorded, tensors: list[TensorGuard], fixed: Any, dims: Mapping[str, Dim]) -> Contract:
    first: dict[str, str] = {}
    same = {symbol: first.setdefault(name, symbol) for symbol, (_, _, name) in found.varying.items()}
    for guard in tensors:
        guard.shape = tuple(same.get(str(size), size) for size in guard.shape)
    merged: dict[str, sizes.Expr] = {**found.known, **{symbol: sizes.symbol(other) for symbol, other in same.items()}}
    facts = [guard.replaced(merged) for guard in found.guards]
    names = {symbol: name for name, symbol in first.items()}
    ranges = {symbol: _limits(dims.get(name)) for name, symbol in first.items()}
    return Contract(tensors, fixed, [f for f in facts if not f.is_certain()], ranges, names)


def _limits(dim: Dim | None) -> tuple[int, int | None]:
    return (0 if dim is None or dim.min is None else dim.min), None if dim is None else dim.max


def _held(asked: str, mod: Module, found: Recorded) -> Iterator[tuple[Tensor, InputKind, str, bool | None]]:
    """The tensors that a Module has, and others that its call reads: kind, path, and of a buffer if it is saved."""
    state_dict = mod.state_dict()
    own: list[tuple[Tensor, InputKind, str, bool | None]] = []
    own += [(x, InputKind.PARAMETER, path, None) for path, x in mod.named_parameters(remove_duplicate=False)]
    own += [(x, InputKind.BUFFER, path, path in state_dict) for path, x in mod.named_buffers(remove_duplicate=False)]
    yield from own
    known = {id(entry[0]) for entry in own}
    attributes = {
        id(value): f"{prefix}.{name}".lstrip(".")
        for prefix, part in mod.named_modules() for name, value in vars(part).items() if isinstance(value, Tensor)
    }  # fmt: skip
    count = 0
    for tensor in found.held.values():
        if id(tensor) in known or getattr(tensor, "generator", False):
            continue
        if isinstance(tensor, Parameter):
            raise RuntimeError(f"{asked}: a parameter is read that the Module does not have")
        path = attributes.get(id(tensor))
        if path is None:
            path, count = f"lifted_tensor_{count}", count + 1
        yield tensor, InputKind.CONSTANT_TENSOR, path, None
