"""What `dynamic_shapes` says of the sizes of a call's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eagerjit.export.dims import Dim
from eagerjit.export.recording import Axes
from eagerjit.tensors.tensor import Tensor

Leaf = tuple[str, Any]
"""A leaf of the arguments, with its name in the graph."""


def leaves_of(arguments: dict[str, Any]) -> list[Leaf]:
    """The leaves of all arguments, in order."""
    return [leaf for name, value in arguments.items() for leaf in _leaves(name, value)]


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    if isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            yield from _leaves(f"{name}_{index}", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(f"{name}_{key}", part)
    else:
        yield name, value


def dynamic_axes(arguments: dict[str, Any], said: Any) -> tuple[list[Axes], dict[str, Dim]]:
    """Per tensor its sizes that differ from call to call, and the Dims by name. RuntimeError where they do not fit."""
    axes: list[Axes] = []
    dims: dict[str, Dim] = {}
    if said is None:
        return [{} for _, leaf in leaves_of(arguments) if isinstance(leaf, Tensor)], dims
    named = said if isinstance(said, dict) else dict(zip(arguments, said, strict=False))
    if len(said) != len(arguments) or set(named) != set(arguments):
        raise RuntimeError(
            f"torch.export.export: dynamic_shapes must say something of {', '.join(arguments)}, but it is {said!r}"
        )
    for name, value in arguments.items():
        _visit(name, value, named[name], axes, dims)
    return axes, dims


def _visit(name: str, value: Any, said: Any, axes: list[Axes], dims: dict[str, Dim]) -> None:
    if isinstance(value, Tensor):
        axes.append(_axes(name, value, said, dims))
    elif isinstance(value, (tuple, list, dict)):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if not isinstance(said, (dict if isinstance(value, dict) else (tuple, list))) or len(said) != len(value):
            raise RuntimeError(
                "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
                f"{name} is a {type(value)}, but `dynamic_shapes` has {said!r} for it"
            )
        for key in keys:
            _visit(f"{name}_{key}", value[key], said[key], axes, dims)


def _axes(name: str, tensor: Tensor, said: Any, dims: dict[str, Dim]) -> Axes:
    if isinstance(said, (tuple, list)):
        if len(said) != tensor.ndim:
            raise RuntimeError(f"torch.export.export: {name} has {tensor.ndim} dimensions, dynamic_shapes {len(said)}")
        said = dict(enumerate(said))
    axes = {}
    for dim, wanted in (said or {}).items():
        if not -tensor.ndim <= dim < tensor.ndim:
            raise RuntimeError(f"torch.export.export: dynamic_shapes has dimension {dim} of {name}, not in its shape")
        if not isinstance(wanted, Dim) or wanted.is_static:
            continue
        axis = wanted.__name__ or f"{name}_{dim}"
        dims[axis] = wanted
        axes[dim % tensor.ndim] = axis
    return axes
