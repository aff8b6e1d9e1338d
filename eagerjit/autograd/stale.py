"""Refusing values that a node's gradient reads and that were overwritten after the node was recorded."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.node import GradNode, described, overwritten, positions_read
from eagerjit.autograd.reads import reader_of
from eagerjit.tensors.tensor import Tensor, version_of


def check_versions(node: GradNode, edges: list[Any]) -> None:
    """Refuse values that were overwritten after they were saved."""
    op = node.op
    read = None
    if op.rules is not None:
        used = [positions_read(rule) for rule, e in zip(op.rules, edges, strict=False) if rule and e is not None]
        read = frozenset().union(*used)
    reads_output = 1 in read if read is not None else not getattr(op, "derives", False)
    reader = reader_of(op, node.inputs or (), edges)
    if node.overwritten is not None and reads_output and (reader is None or reader.reads(1)):
        what = f"{described(node.outputs()[0])}, the output"
        raise RuntimeError(overwritten(what, node.op.name, node.source, node.overwritten))
    for index, x in enumerate(node.inputs or ()):
        if not isinstance(x, Tensor) or x._storage is None:
            continue
        saved = node.versions[index] if node.versions is not None else 0
        if x._storage.version == saved:
            continue
        if read is not None and index + 2 not in read:
            continue
        if reader is not None and not reader.reads(index + 2):
            continue
        raise stale_value(node, index, x, saved)


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
