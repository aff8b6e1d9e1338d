"""What the inputs and outputs of an exported graph are."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from eagerjit.runtime.records import record


class InputKind(enum.Enum):
    """What a placeholder stands for."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """What a result is for."""

    USER_OUTPUT = enum.auto()


class TensorArgument(NamedTuple):
    """A tensor, by its node's name."""

    name: str


class ConstantArgument(NamedTuple):
    """A value that is the same in every call."""

    name: str
    value: Any


class InputSpec(NamedTuple):
    """A placeholder: what it is, its node, and where the Module has it."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None


class OutputSpec(NamedTuple):
    """A result."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None


@record
class ExportGraphSignature:
    """The inputs and outputs of a graph, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _named(self, *kinds: InputKind) -> dict[str, str]:
        return {s.arg.name: s.target for s in self.input_specs if s.kind in kinds and s.target is not None}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Paths of parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Paths of buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Paths of buffers that are not part of a state_dict."""
        return tuple(s.target for s in self.input_specs if s.target is not None and s.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of other tensors that the model had found."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Paths of parameters by their nodes' names."""
        return self._named(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Paths of buffers by their nodes' names."""
        return self._named(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """Names of other tensors by their nodes' names."""
        return self._named(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Names of the nodes of what a call is given, or the values that are the same in every call."""
        return tuple(_shown(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Names of the nodes of what a call returns, or the values that are the same in every call."""
        return tuple(_shown(s.arg) for s in self.output_specs)

    def __str__(self) -> str:
        lines = ["# inputs"]
        for s in self.input_specs:
            place = "" if s.target is None else f" target={s.target!r}"
            kept = "" if s.persistent is None else f" persistent={s.persistent}"
            lines.append(f"{s.arg.name}: {s.kind.name}{place}{kept}")
        lines += ["", "# outputs", *(f"{s.arg.name}: {s.kind.name}" for s in self.output_specs)]
        return "\n".join(lines) + "\n"


def _shown(argument: TensorArgument | ConstantArgument) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name
