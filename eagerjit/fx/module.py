"""GraphModules: Modules whose `forward` is written from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import Any

from eagerjit.fx.graph import Graph
from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Parameter, Tensor

_numbers = itertools.count()
_HOOKS_KEPT = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
"""Hooks that deep copies have too; those of calls they lack, as in PyTorch."""


class _Attributes(Module):
    """What a GraphModule holds, without its code: copies are made of it."""

    def __init__(self, attributes: dict[str, Any]):
        super().__init__()
        self.__dict__ = attributes


class GraphModule(Module):
    """A Module with a graph, whose code is its `forward`. After changes to `graph` call `recompile()`.

    It takes from `root`, a Module or a dictionary of paths, what the graph names.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Packages tell such classes by this text, and replace `forward` in the class: `recompile` still replaces it.
        names = {"__module__": cls.__module__, "__qualname__": "GraphModule.__new__.<locals>.GraphModuleImpl"}
        own = type("GraphModuleImpl", (cls,), names)
        return object.__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        if not isinstance(root, (Module, dict)):
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        if isinstance(root, _Attributes):
            for name in (*root._modules, *root._buffers, *root._parameters):
                self._adopt(root, name)
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                self._adopt(root, node.target)
        self.graph = graph
        self.meta: dict[str, Any] = {}

    def _adopt(self, root: Any, target: str) -> None:
        """Let an attribute of the root be one here, at the same path."""
        value: Any = root
        path = target.split(".")
        if isinstance(root, dict):
            if target not in root:
                raise RuntimeError(f"GraphModule: the graph names {target}, which the dictionary has not")
            value = root[target]
        else:
            for part in path:
                value = getattr(value, part)
        owner: Any = self
        for part in path[:-1]:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            owner = getattr(owner, part)
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            owner.register_buffer(path[-1], value)
        elif not hasattr(owner, path[-1]) or getattr(owner, path[-1]) is not value:
            setattr(owner, path[-1], value)

    @property
    def graph(self) -> Graph:
        """The graph; another one that is assigned is compiled."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return self.__dict__["_code"]

    def recompile(self) -> Any:
        """Write `forward` anew from the graph."""
        made = self.graph.python_code("self")
        type(self).forward = _compiled(made.src, made.globals)  # type: ignore[method-assign]
        self.__dict__["_code"] = made.src
        return made

    def print_readable(self, print_output: bool = True) -> str:
        """The class with its `forward`, as text."""
        body = "\n".join(f"    {line}" for line in self.code.strip().splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a Module at a path; False where something else is in the way."""
        *parents, name = target.split(".")
        owner: Any = self
        for part in parents:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            owner = getattr(owner, part)
            if not isinstance(owner, Module):
                return False
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Drop the Module at a path; False where there is none."""
        *parents, name = target.split(".")
        owner: Any = self
        for part in parents:
            owner = getattr(owner, part, None)
        if owner is None or name not in owner._modules:
            return False
        del owner._modules[name]
        return True

    def delete_all_unused_submodules(self) -> None:
        """Drop the Modules that the graph does not call."""
        used = {n.target for n in self.graph.nodes if n.op in ("call_module", "get_attr")}
        keep = {path[:i] for path in (tuple(u.split(".")) for u in used) for i in range(1, len(path) + 1)}
        for name, _ in list(self.named_modules()):
            path = tuple(name.split("."))
            if name and path not in keep and not any(path[: len(u.split("."))] == tuple(u.split(".")) for u in used):
                self.delete_submodule(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        kind: Any = type(self).__mro__[1]
        made = kind.__new__(kind)
        memo[id(self)] = made
        attributes = {k: v for k, v in self.__dict__.items() if k != "_graph"}
        root = _Attributes(copy.deepcopy(attributes, memo))
        GraphModule.__init__(made, root, copy.deepcopy(self.graph, memo))
        made.meta = root.__dict__["meta"]
        made.__dict__.update({name: root.__dict__[name] for name in _HOOKS_KEPT if name in root.__dict__})
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = self.meta
        return made

    def __reduce__(self) -> Any:
        made = self.recompile()
        attributes = {k: v for k, v in self.__dict__.items() if k != "_graph"}
        return _loaded, (attributes, {k: v for k, v in made.globals.items() if k != "torch"})

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"


def _compiled(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `forward` of the source, whose lines tracebacks show."""
    file = f"<eagerjit.fx {next(_numbers)}>"
    text = source.strip() + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = dict(names)
    exec(compile(text, file, "exec"), space)
    # A traceback may ask for the lines as long as there is the code, and one holds the other.
    weakref.finalize(space["forward"].__code__, linecache.cache.pop, file, None)
    forward: Callable[..., Any] = space["forward"]
    return forward


def _loaded(attributes: dict[str, Any], names: dict[str, Any]) -> GraphModule:
    """A pickled GraphModule: its graph is traced from its code, where a call of a Module or a function is one Node."""
    import eagerjit
    from eagerjit.fx.tracer import Tracer

    class OneNodeEach(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    class Root(_Attributes):
        forward = _compiled(attributes["_code"], {"torch": eagerjit, **names})

    root = Root(attributes)
    made = GraphModule(root, OneNodeEach(autowrap_functions=filter(callable, names.values())).trace(root))
    for name, value in attributes.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made
