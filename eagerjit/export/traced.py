"""`torch.jit.trace` of Modules, and `save` and `load` of what it gives: the recorded call lies in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eagerjit import fx
from eagerjit.export.dynamic import leaves_of
from eagerjit.export.exporting import arguments_by_name, exported
from eagerjit.export.files import contents, program_of, program_text
from eagerjit.export.program import ExportedProgram
from eagerjit.export.recording import Axes
from eagerjit.nn.module import Module
from eagerjit.serialization import save as save_file
from eagerjit.tensors.tensor import Tensor

_FORMAT = "eagerjit.jit 1"


def _share(module: Module, other: Module) -> None:
    """Let a Module have the parameters, buffers and parts of another one."""
    for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
        module.__dict__[table] = other.__dict__[table]


class ScriptModule(Module):
    """What tracing and loading give, and scripting in PyTorch: scripted Modules stay what they are here."""


RecursiveScriptModule = ScriptFunction = CompilationUnit = ScriptModule


class TopLevelTracedModule(ScriptModule):
    """A Module with the arguments of one call: it calls the Module, and can be saved without the Module's code."""

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]):
        super().__init__()
        _share(self, module)
        self.__dict__.update(_traced=module, _examples=(args, kwargs), training=module.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the Module gives."""
        return self._traced(*args, **kwargs)

    def train(self, mode: bool = True) -> TopLevelTracedModule:
        """The Module's mode."""
        self._traced.train(mode)
        self.__dict__["training"] = mode
        return self

    def exported(self) -> ExportedProgram:
        """The call as a graph. RuntimeError where it cannot be one."""
        args, kwargs = self._examples
        arguments = arguments_by_name(self._traced, args, kwargs)
        *others, last = _axes(arguments)
        for axes in others:
            try:
                found = exported("torch.jit.save", self._traced, args, kwargs, arguments, axes, {})
                found.check(arguments)
            except Exception:  # whatever the Module raises where sizes of 1 are others
                continue
            return found
        return exported("torch.jit.save", self._traced, args, kwargs, arguments, last, {})

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """Write the call to a path or file, for `jit.load`. RuntimeError where it cannot be a graph."""
        save(self, f, _extra_files)

    @property
    def graph(self) -> fx.Graph:
        """What the call computes."""
        return self.exported().graph

    @property
    def code(self) -> str:
        """What the call computes, as Python."""
        return self.exported().module(check_guards=False).code


class LoadedModule(ScriptModule):
    """What a file of `jit.save` holds. The mode in which it was traced is that in which it computes."""

    def __init__(self, program: ExportedProgram, training: bool):
        super().__init__()
        computed = program.module(check_guards=False)
        _share(self, computed)
        self.__dict__.update(_program=program, _computed=computed, training=training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the traced Module gave. AssertionError for arguments that the recorded call does not serve."""
        program = self._program
        arguments = {**dict(zip(program.arguments, args, strict=False)), **kwargs}
        if len(args) > len(program.arguments) or arguments.keys() != set(program.arguments):
            raise TypeError(f"forward() takes {', '.join(program.arguments)}")
        program.check(arguments)
        return self._computed(**arguments)

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """Write it to a path or file, for `jit.load`."""
        save(self, f, _extra_files)

    @property
    def graph(self) -> fx.Graph:
        """What it computes."""
        return self._program.graph

    @property
    def code(self) -> str:
        """What it computes, as Python."""
        return self._computed.code


def trace_module_call(func: Any, example_inputs: Any, example_kwarg_inputs: dict[str, Any] | None) -> Any:
    """A Module with the arguments of a call; what is no Module, has no arguments or was traced already, itself."""
    given = example_inputs is not None or example_kwarg_inputs is not None
    if not given or not isinstance(func, Module) or isinstance(func, ScriptModule):
        return func
    positional = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    return TopLevelTracedModule(func, () if example_inputs is None else tuple(positional), example_kwarg_inputs or {})


def _axes(arguments: dict[str, Any]) -> Iterator[list[Axes]]:
    """Sizes that may differ: all of them, all but those of 1 after the first dimension, all but those of 1."""
    tensors = [(name, x) for name, x in leaves_of(arguments) if isinstance(x, Tensor)]
    for differs in (lambda dim, size: True, lambda dim, size: size != 1 or dim == 0, lambda dim, size: size != 1):
        yield [
            {dim: f"{name}_{dim}" for dim, size in enumerate(x.shape) if differs(dim, size)} for name, x in tensors
        ]


def save(m: Any, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
    """Write what `jit.trace` gave to a path or file, for `jit.load`.

    Sizes may be others than those traced; what the recorded call does not serve is an AssertionError when it is called.
    Raises RuntimeError for Modules that were not traced: their control flow is Python's, which a file does not hold.
    """
    if isinstance(m, TopLevelTracedModule):
        program = m.exported()
    elif isinstance(m, LoadedModule):
        program = m._program
    else:
        raise RuntimeError(
            f"torch.jit.save: a file holds a recorded call, and {type(m).__name__} has none: save "
            "torch.jit.trace(model, example_inputs), or the state_dict"
        )
    tables = {"state_dict": dict(program.state_dict), "constants": program.constants, "training": m.training}
    extra = dict(_extra_files or {})
    save_file({"format": _FORMAT, "program": program_text(program), "extra_files": extra, **tables}, f)


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None) -> LoadedModule:
    """What a file of `jit.save` holds, as a Module. RuntimeError for other files, PyTorch's own among them."""
    found = contents(f, _FORMAT, "torch.jit.load", map_location)
    if _extra_files is not None:
        _extra_files.update({name: found["extra_files"][name] for name in _extra_files if name in found["extra_files"]})
    program = program_of(found["program"], found["state_dict"], found["constants"], None)
    return LoadedModule(program, found["training"])
