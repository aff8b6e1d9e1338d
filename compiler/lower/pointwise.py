"""Kernels without reductions: one value per point, stored anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import Affine, address
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.accesses import Access
from eagerjit.compiler.lower.build import Blocking, Built, Writer, blocks_of, merge_loops, tasks_loop
from eagerjit.compiler.lower.emit import BODY, ROW, Argument, Emitter, Failures
from eagerjit.compiler.lower.groups import Group
from eagerjit.compiler.shapes import Shape
from eagerjit.runtime.records import record


@record
class Target:
    """Where a value goes: memory, strides per dimension of the value, offset."""

    node: Node
    argument: Argument
    strides: Shape
    offset: sizes.Expr = 0


def pointwise(
    name: str, group: Group, targets: list[Target], inline: dict[Node, bool], failures: Failures, blocking: Blocking
) -> Built:
    """A kernel that stores each target's value over the group's loops."""
    return over(name, group, lambda emitter: store_all(emitter, targets), inline, failures, blocking)


def over(
    name: str, group: Group, emit: Callable[[Emitter], None], inline: dict[Node, bool], failures: Failures,
    blocking: Blocking,
) -> Built:  # fmt: skip
    """A kernel that does over the group's loops what `emit` says."""
    probe = Emitter(group, 0, inline, failures)
    emit(probe)
    merged = merge_loops(probe, None)
    emitter = probe
    if merged.inner or not group.dims:
        emitter = Emitter(group, merged.inner or 1, inline, failures)
        emit(emitter)
    writer = Writer(emitter, merged)
    count = sizes.product(group.dims)
    work = sizes.mul(count, cost_of(group))
    sources = tuple(dict.fromkeys(n.source for n in group.nodes if n.source))
    if not group.dims:
        body = writer.written(emitter.row)
        kernel = writer.finish(name, [tasks_loop(body)])
        return Built(kernel, list(emitter.arguments), 1, work, 0, sources, tuple(group.reasons))
    inner = merged.between(merged.inner, len(group.dims))[0]
    outer = merged.between(0, merged.inner)
    if blocking.lines:
        outer = _by_lines(writer, outer, inner)
    extent = writer.extent[inner]
    writer.variable[inner] = "i"
    row: list[loops.Stmt] = []
    start: int | str
    if outer:
        writer.unflatten(outer, "t", row)
        tasks: sizes.Expr = sizes.product(tuple(writer.extent[k] for k in outer))
        start, stop = 0, emitter.amount(extent)
    else:
        tasks = blocks_of(extent, blocking.flat)
        start, stop = writer.block("t", extent, blocking.flat, row)
    row += writer.written(emitter.row)
    vector = loops.Loop("vector", "i", start, stop, tuple(writer.written(emitter.body)), blocking.lanes)
    kernel = writer.finish(name, [tasks_loop([*row, vector])])
    return Built(kernel, list(emitter.arguments), tasks, work, 0, sources, tuple(group.reasons))


def _by_lines(writer: Writer, outer: list[int], inner: int) -> list[int]:
    """The outer loops, last that whose neighbours lie beside each other where the inner loop reads across memory."""
    beside: Counter[int] = Counter()
    for access in writer.emitter.body:
        steps = writer.steps(access.place) if isinstance(access, Access) else {}
        if steps.get(inner, 0) not in (0, 1):
            beside.update(k for k, step in steps.items() if step == 1)
    across = [k for k in outer if beside[k]]
    if not across or outer[-1] in across:
        return outer
    last = max(across, key=beside.__getitem__)
    return [*(k for k in outer if k != last), last]


def store_all(emitter: Emitter, targets: list[Target]) -> None:
    """All values, then the stores: one may go where another is read."""
    group = emitter.group
    level = BODY if len(group.dims) > emitter.inner else ROW
    maps = [group.full_place(target.node.type.shape) for target in targets]
    values = [emitter.value(target.node, map_) for target, map_ in zip(targets, maps, strict=True)]
    for target, map_, value in zip(targets, maps, values, strict=True):
        place = address(map_, target.strides, target.offset)
        emitter.store(target.argument, Affine(place.terms, place.offset), target.node.dtype.short, value, level)


def cost_of(group: Group) -> int:
    """Scalar operations per point."""
    return max(1, sum(n.op.cost for n in group.nodes))
