"""Exported programs: a graph with its inputs lifted, the tensors that it reads, and Modules made of both."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from eagerjit import fx, pytree
from eagerjit.compiler import sizes
from eagerjit.export.signature import ConstantArgument, ExportGraphSignature, InputKind
from eagerjit.nn.module import Module
from eagerjit.pytree import Structure
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Parameter, Tensor


@record
class TensorGuard:
    """What a tensor of the call has to be: its dtype, and its sizes, by symbol where they differ from call to call."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]


@record
class Contract:
    """What every call has to fulfil.

    tensors     of each tensor
    values      (name, value) of arguments that are no tensors
    facts       what the graph takes for granted of symbols
    ranges      of symbols: the least and the greatest
    names       of symbols, as errors call them
    """

    tensors: list[TensorGuard]
    values: list[tuple[str, Any]]
    facts: list[sizes.Guard]
    ranges: dict[str, tuple[int, int | None]]
    names: dict[str, str]

    def check(self, tensors: list[Tensor], values: list[Any]) -> None:
        """Raise AssertionError for a call that the graph does not serve."""
        found: dict[str, int] = {}
        for guard, tensor in zip(self.tensors, tensors, strict=True):
            if not isinstance(tensor, Tensor) or tensor.dtype is not guard.dtype:
                raise _failed(f"{guard.name}.dtype == {guard.dtype}")
            if tensor.ndim != len(guard.shape):
                raise _failed(f"{guard.name}.dim() == {len(guard.shape)}")
            for dim, (wanted, size) in enumerate(zip(guard.shape, tensor.shape, strict=True)):
                place = f"{guard.name}.size()[{dim}]"
                known = wanted if isinstance(wanted, int) else found.setdefault(wanted, size)
                if size != known:
                    raise _failed(f"{place} == {known}")
                self._check_range(place, wanted, size)
        for (name, wanted_value), value in zip(self.values, values, strict=True):
            if value != wanted_value:
                raise _failed(f"{name} == {wanted_value!r}")
        for fact in self.facts:
            a, b = sizes.evaluate(fact.a, found), sizes.evaluate(fact.b, found)
            if (a == b if fact.relation == "==" else a < b) != fact.holds:
                raise _failed(str(fact.replaced({s: sizes.symbol(name) for s, name in self.names.items()})))

    def _check_range(self, place: str, symbol: int | str, size: int) -> None:
        least, most = self.ranges.get(str(symbol), (0, None))
        if size < least:
            raise _failed(f"{place} >= {least}")
        if most is not None and size > most:
            raise _failed(f"{place} <= {most}")


def _failed(what: str) -> AssertionError:
    return AssertionError(f"Guard failed: {what}")


class GuardsFn(Module):
    """Checks the leaves of a call."""

    def __init__(self, contract: Contract):
        super().__init__()
        self.contract = contract

    def forward(self, tensors: Any, values: Any) -> None:
        """Raises AssertionError for a call that the graph does not serve."""
        self.contract.check(list(tensors), list(values))


class ExportedProgram:
    """What a Module computes, as a graph whose parameters and buffers are inputs; `module()` can be called.

    graph_module        the graph as a Module; `graph` is its graph
    graph_signature     what the graph's inputs and outputs are
    state_dict          the Module's parameters and buffers, and `constants` the other tensors that the graph reads
    example_inputs      the call that was recorded: positional arguments, and those by name
    range_constraints   the least and the greatest of the sizes that differ from call to call, by name
    """

    def __init__(
        self, graph: fx.Graph, graph_signature: ExportGraphSignature, state_dict: Mapping[str, Tensor],
        constants: Mapping[str, Tensor], contract: Contract, arguments: list[str], given: list[Structure],
        returned: Structure, example_inputs: Any = None,
    ):  # fmt: skip
        self.graph_module = fx.GraphModule({}, graph)
        self.graph_signature, self.state_dict, self.constants = graph_signature, dict(state_dict), dict(constants)
        self.contract, self.arguments, self.given, self.returned = contract, arguments, given, returned
        self.example_inputs = example_inputs

    @property
    def graph(self) -> fx.Graph:
        """The graph, whose parameters and buffers are inputs."""
        return self.graph_module.graph

    @property
    def range_constraints(self) -> dict[str, tuple[int, int | None]]:
        """The least and the greatest of the sizes that differ from call to call, by name."""
        return {self.contract.names[symbol]: limits for symbol, limits in self.contract.ranges.items()}

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters that the graph reads, with their paths."""
        for path in self.graph_signature.parameters:
            yield path, self._held(path)

    def parameters(self) -> Iterator[Parameter]:
        """Parameters that the graph reads."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Buffers that the graph reads, with their paths."""
        for path in self.graph_signature.buffers:
            yield path, self._held(path)

    def buffers(self) -> Iterator[Tensor]:
        """Buffers that the graph reads."""
        for _, buffer in self.named_buffers():
            yield buffer

    def _held(self, path: str) -> Any:
        return self.state_dict[path] if path in self.state_dict else self.constants[path]

    def run_decompositions(self, decomp_table: Any = None, **options: Any) -> ExportedProgram:
        """The program itself: its graph writes to nothing but buffers, and its ops are the library's."""
        return self

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise AssertionError for arguments that the graph does not serve."""
        leaves: list[Any] = []
        given = [pytree.flatten(arguments[name], leaves) for name in self.arguments]
        if given != self.given:
            raise AssertionError(f"Guard failed: {', '.join(self.arguments)} are nested as in the example")
        specs = [s for s in self.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        fixed = [isinstance(s.arg, ConstantArgument) for s in specs]
        tensors, values = ([x for x, f in zip(leaves, fixed, strict=True) if f is kind] for kind in (False, True))
        self.contract.check(tensors, values)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> fx.GraphModule:
        """A Module that computes it, with the parameters and buffers of the program."""
        graph = fx.Graph()
        arguments = [graph.placeholder(name) for name in self.arguments]
        leaves = list(_taken_apart(graph, self.given, arguments))
        root: dict[str, Any] = {}
        values: dict[fx.Node, Any] = {}
        placeholders = self.graph.find_nodes(op="placeholder")
        users = iter(leaves)
        for node, spec in zip(placeholders, self.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                values[node] = next(users)
            else:
                assert spec.target is not None
                root[spec.target] = self._held(spec.target)
                values[node] = graph.get_attr(spec.target)
        if check_guards:
            root["_guards_fn"] = GuardsFn(self.contract)
            specs = [s for s in self.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
            constant = [isinstance(s.arg, ConstantArgument) for s in specs]
            split = ([x for x, c in zip(leaves, constant, strict=True) if c is kind] for kind in (False, True))
            graph.call_module("_guards_fn", tuple(split))
        results = graph.graph_copy(self.graph, values)
        graph.output(pytree.unflatten(self.returned, results))
        made = fx.GraphModule(root, graph)
        for path in self.state_dict.keys() - root.keys():
            made._adopt(self.state_dict, path)
        made.train, made.eval = _fixed_mode("train"), _fixed_mode("eval")  # type: ignore[method-assign]
        for spec in self.graph_signature.input_specs:
            if spec.target is not None and (spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False):
                path, _, name = spec.target.rpartition(".")
                made.get_submodule(path)._non_persistent_buffers_set.add(name)
        return made

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        limits = {name: f"VR[{a}, {'int_oo' if b is None else b}]" for name, (a, b) in self.range_constraints.items()}
        ranges = ", ".join(f"{name}: {limit}" for name, limit in limits.items())
        return f"ExportedProgram:\n    {code}\nGraph signature: \n    {signature}\nRange constraints: {{{ranges}}}\n"

    __repr__ = __str__


def _fixed_mode(name: str) -> Any:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return refuse


def _taken_apart(graph: fx.Graph, structure: Structure, values: list[fx.Node]) -> Iterator[fx.Node]:
    """The leaves of nested arguments, as nodes."""
    for child, value in zip(structure, values, strict=True):
        yield from _parts(graph, child, value)


def _parts(graph: fx.Graph, structure: Structure, value: fx.Node) -> Iterator[fx.Node]:
    if type(structure) is not tuple:
        yield value
        return
    kind, keys, children = structure
    for place, child in zip(keys if issubclass(kind, dict) else range(len(children)), children, strict=True):
        yield from _parts(graph, child, graph.call_function(operator.getitem, (value, place)))
