"""The operations that a Module runs, seen while it runs once, as a graph that TensorBoard shows by Modules."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from eagerjit.autograd.modes import no_grad
from eagerjit.nn.global_hooks import register_module_forward_hook, register_module_forward_pre_hook
from eagerjit.nn.module import Module
from eagerjit.overrides import TorchFunctionMode, resolve_name
from eagerjit.pytree import flatten
from eagerjit.tensors.tensor import Tensor

__all__ = ["graph"]


def graph(model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[GraphDef, RunMetadata]:
    """What a Module or function computes of a tensor, or of a tuple or list of arguments, and where it ran.

    The Module runs once, in evaluation and without gradients. Results may be of any structure, strict or not.
    """
    given = tuple(args) if isinstance(args, (tuple, list)) else () if args is None else (args,)
    recorder = _Recorder(model)
    recorder.add_inputs(given)
    with _evaluating(model), no_grad(), recorder.following_modules(), recorder:
        results = model(*given)
    recorder.add_results(results)
    made = GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))
    if verbose:
        print(made)
    return made, RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    training = [module for module in model.modules() if module.training] if isinstance(model, Module) else []
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _paths(model: Any) -> dict[Any, str]:
    """Modules by names that hold those of the Modules around them: `Net/Sequential[body]/Linear[0]`."""
    if not isinstance(model, Module):
        return {}
    paths: dict[str, str] = {}
    by_module: dict[Any, str] = {}
    for name, module in model.named_modules():
        parent, _, last = name.rpartition(".")
        kind = type(module).__name__
        paths[name] = by_module[module] = f"{paths[parent]}/{kind}[{last}]" if name else kind
    return by_module


def _stored(paths: dict[Any, str]) -> dict[int, tuple[str, str]]:
    """The names and kinds of the Modules' parameters and buffers by their addresses."""
    found: dict[int, tuple[str, str]] = {}
    for module, path in paths.items():
        for kind, tensors in (("Parameter", module._parameters), ("Buffer", module._buffers)):
            for name, tensor in tensors.items():
                found.setdefault(id(tensor), (f"{path}/{name}", kind))
    return found


def _tensors(value: Any) -> list[Tensor]:
    leaves: list[Any] = []
    flatten(value, leaves)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a call was given beside tensors."""
    plain = [repr(value) for value in args if not _tensors(value)]
    return ", ".join(plain + [f"{name}={value!r}" for name, value in kwargs.items() if not _tensors(value)])


class _Recorder(TorchFunctionMode):
    """Notes a node for each function that gives tensors, in the scope of the Module that calls it."""

    def __init__(self, model: Any):
        self.model = model
        self.nodes: list[NodeDef] = []
        self.uses: Counter[str] = Counter()
        self.paths = _paths(model)
        self.stored = _stored(self.paths)
        name = type(model).__name__ if self.paths else getattr(model, "__name__", "function").strip("<>")
        self.scopes = [name]
        self.places: dict[int, str] = {}
        self.kept: list[Tensor] = []  # so that no address is used again

    @contextmanager
    def following_modules(self) -> Iterator[None]:
        """Nodes are in the scopes of the Modules that run."""

        def enter(module: Any, args: Any) -> None:
            self.scopes.append(self.paths.get(module, f"{self.scopes[-1]}/{type(module).__name__}"))

        def leave(module: Any, args: Any, result: Any) -> None:
            self.scopes.pop()

        hooks = register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "call")
        if name == "__get__":  # of an attribute, as `x.mT`
            name = (resolve_name(func) or "torch.attribute.get").split(".")[-2]
        # The one function that changes a tensor and does not return it.
        made = [args[0]] if name == "__setitem__" else _tensors(result)
        if made and name != "__set__":
            self._add_call(name, made, args, kwargs)
        return result

    def _add_call(self, name: str, made: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = [self._place(tensor) for tensor in _tensors((args, kwargs))]
        node = self._add(f"{self.scopes[-1]}/{name}", f"aten::{name}", inputs, made, _options(args, kwargs))
        for index, tensor in enumerate(made):
            self._put(tensor, f"{node.name}:{index}" if index else node.name)

    def _place(self, tensor: Tensor) -> str:
        """The node that made a tensor; one that nothing was seen to make gets a node of its own."""
        if id(tensor) not in self.places:
            name, kind = self.stored.get(id(tensor), (f"{self.scopes[-1]}/constant", "Constant"))
            self._put(tensor, self._add(name, kind, [], [tensor]).name)
        return self.places[id(tensor)]

    def _put(self, tensor: Tensor, place: str) -> None:
        self.places[id(tensor)] = place
        self.kept.append(tensor)

    def _add(self, name: str, kind: str, inputs: list[str], made: list[Tensor], options: str = "") -> NodeDef:
        self.uses[name] += 1
        unique = f"{name}_{self.uses[name] - 1}" if self.uses[name] > 1 else name
        node = NodeDef(name=unique, op=kind, input=inputs)
        node.attr["attr"].s = f"{{{options}}}".encode()
        for tensor in made:
            sizes = [TensorShapeProto.Dim(size=size) for size in tensor.shape]
            node.attr["_output_shapes"].list.shape.append(TensorShapeProto(dim=sizes))
        self.nodes.append(node)
        return node

    def add_inputs(self, given: tuple[Any, ...]) -> None:
        """A node for each tensor that the model is called with."""
        parameters = inspect.signature(self.model.forward if self.paths else self.model).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for index, argument in enumerate(given):
            name = names[index] if index < len(names) else f"argument_{index}"
            for tensor in _tensors(argument):
                self._put(tensor, self._add(f"input/{name}", "IO Node", [], [tensor]).name)

    def add_results(self, results: Any) -> None:
        """A node for each tensor that the model has returned."""
        for index, tensor in enumerate(_tensors(results), 1):
            self._add(f"output/output.{index}", "IO Node", [self._place(tensor)], [tensor])
