"""Refusing values that a node's gradient reads and that were overwritten after the node was recorded."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.node import GradNode, described, overwritten, positions_read
from eagerjit.autograd.reads import reader_of
from eagerjit.tensors.tensor import Tensor, version_of


def check_versions(node: GradNode, edges: list[Any]) -> None:
    """Refuse values that were overwritten after they were saved."""
    op = node.op
    needs = tuple([e is not None for e in edges])
    read = None if op.rules is None else _positions_read(tuple(op.rules), needs)
    reader = functools.partial(_reads, op, node.inputs or (), edges)
    reads_output = 1 in read if read is not None else not getattr(op, "derives", False)
    if node.overwritten is not None and reads_output and reader(1):
        what = f"{described(node.outputs()[0])}, the output"
        raise RuntimeError(overwritten(what, node.op.name, node.source, node.overwritten))
    for index, x in enumerate(node.inputs or ()):
        if not isinstance(x, Tensor) or x._storage is None:
            continue
        saved = node.versions[index] if node.versions is not None else 0
        if x._storage.version == saved:
            continue
        if (read is None or index + 2 in read) and reader(index + 2):
            raise stale_value(node, index, x, saved)


@functools.lru_cache(maxsize=4096)
def _positions_read(rules: tuple[Any, ...], needs: tuple[bool, ...]) -> frozenset[int]:
    """The positions of the values that the rules read which are needed."""
    used = [positions_read(rule) for rule, needed in zip(rules, needs, strict=False) if rule and needed]
    return frozenset().union(*used)


def _reads(op: Any, inputs: Sequence[Any], edges: Sequence[Any], position: int) -> bool:
    """Whether the gradient reads a value, as far as that can be told."""
    reader = reader_of(op, inputs, edges)
    return reader is None or reader.reads(position)


def check_inputs(node: GradNode) -> None:
    """Refuse inputs that were overwritten after the node was recorded."""
    for index, (x, saved) in enumerate(zip(node.inputs or (), node.versions or (), strict=True)):
        if version_of(x) != saved:
            raise stale_value(node, index, x, saved)


def stale_value(node: GradNode, index: int, value: Tensor, saved: int) -> RuntimeError:
    """What a walk says to an input that was overwritten after it was saved."""
    assert value._storage is not None
    versions = f"at version {value._storage.version} (expected {saved})"
    what = f"{described(value)}, now {versions}, input {index}"
    return RuntimeError(overwritten(what, node.op.name, node.source, value._storage.source))
