"""Fusion: assigns every node to a kernel, greedily and in program order.

A node joins the kernels of its operands, merging them where it reads several, as long as the loops agree and no other
step would have to run in between. What could not be fused says why (`Group.reasons`).
"""

from __future__ import annotations

from collections.abc import Collection

from eagerjit.compiler import sizes
from eagerjit.compiler.affine import broadcast_map, without_ones
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.dependencies import Dependencies
from eagerjit.compiler.lower.groups import (
    Access,
    Group,
    HostStep,
    Library,
    Region,
    Step,
    ends,
    everywhere,
    in_memory,
    is_inline,
    joined_again,
    parts,
    refined,
)
from eagerjit.compiler.lower.kinds import has_middle, reduction_kind
from eagerjit.compiler.lower.memory_order import rows_apart
from eagerjit.compiler.lower.ordering import ordered
from eagerjit.compiler.lower.phases import Phases
from eagerjit.compiler.ops.host import same_call
from eagerjit.compiler.shapes import Shape

MAX_NODES = 400
MAX_COST = 600
"""Beyond these a kernel gains nothing from growing, and compiling it takes more than its share of time."""

MOST_ROWS_APART = 4
"""Beyond these it takes longer to read values element by element than to write what is computed of them, and read that.
"""


class Scheduler:
    """Builds the steps of a graph."""

    def __init__(
        self, graph: Graph, phases: Phases, apart: Collection[Node], inline: dict[Node, bool],
        again: Collection[Node] = (), element_by_element: bool = False,
    ):  # fmt: skip
        """Elementwise nodes that are `apart` have kernels of their own; those of `inline` are so, or lie in memory.

        Those to be computed `again` are so wherever they are read. `element_by_element`: kernels find each of the
        elements by itself, so that it makes no difference to them whether rows lie apart.
        """
        self.graph, self.phases, self.apart, self.again = graph, phases, apart, again
        self.element_by_element = element_by_element
        self.steps: dict[int, Step] = {}
        self.dependencies = Dependencies(self.steps)
        self.step_of: dict[Node, int] = {}
        self.inline: dict[Node, bool] = dict.fromkeys(joined_again(graph), True) | inline
        self.access = Access(self.inline)
        self.reason: dict[Node, str] = {}
        self._merged: dict[int, int] = {}
        self._count = 0
        self._order = {n: i for i, n in enumerate(graph.nodes)}
        in_memory(graph.nodes, self.inline)
        if again:
            everywhere(graph.nodes, again, self.inline)

    def run(self) -> list[Step]:
        """The steps in an order in which each finds what it needs."""
        for node in self.graph.nodes:
            self._place(node)
        self._merge_readers()
        self._store_inline_results()
        return ordered(self.steps, self.origins)

    def find(self, number: int) -> int:
        """The step that a merged step became part of."""
        while number in self._merged:
            number = self._merged[number]
        return number

    def _place(self, node: Node) -> None:
        if is_inline(node, self.inline):
            return
        family = node.op.family
        if family == "view":
            return
        if family in ("linear", "routine"):
            self._new_step(Library(self._count, node), node)
        elif family == "host":
            self._place_host(node)
        elif family == "index" and "gathers" not in node.op.traits:
            self._new_step(Region(self._count, node), node)
        elif family == "reduction":
            self._place_reduction(node)
        elif node in self.apart:
            self._new_group(node, node.type.shape, "a reduction would read it across memory").apart = True
        else:
            self._place_elementwise(node)

    # -- dependencies -------------------------------------------------------------------------------------------------

    def origins(self, node: Node) -> set[int]:
        """The steps whose results a node reads, through views and inlined nodes."""
        out: set[int] = set()
        seen: set[Node] = set()
        stack = list(node.inputs)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            number = self.step_of.get(value)
            if number is not None:
                out.add(self.find(number))
            else:
                stack += value.inputs
        return out

    def _new_step(self, step: Step, node: Node) -> None:
        self.steps[step.number] = step
        self.dependencies.add(step, self.origins(node))
        self.step_of[node] = step.number
        self.phases.note(step.number, (node,))
        self._count += 1

    def _new_group(self, node: Node, shape: Shape, why: str) -> Group:
        group = Group(self._count, without_ones(shape), again=self.again)
        group.reasons.append(why)
        self._new_step(group, node)
        group.take(node)
        if node.op.family == "reduction":
            self._note_reduction(node, group)
        else:
            group.full.add(node)
        return group

    # -- joining ------------------------------------------------------------------------------------------------------

    def _candidate(self, node: Node) -> tuple[Group | None, str]:
        """The group that computes the node's operands, after merging them; or why there is none."""
        groups = [s for n in sorted(self.origins(node)) if isinstance(s := self.steps[n], Group)]
        if not groups:
            return None, "reads only memory"
        host = groups[-1]
        for other in reversed(groups[:-1]):
            self._try_merge(host, other)
        return host, ""

    def _joinable(self, node: Node, group: Group) -> str:
        """Why the node's other operands keep it out of the group; empty if they do not."""
        mark, origins = 1 << group.number, self.origins(node)
        if not self.phases.allow((node,), mark, group.needs | self.dependencies.of(origins), self.steps):
            return "it needs a size that is known only when this kernel has run"
        if group.apart or len(group.nodes) >= MAX_NODES or group.cost >= MAX_COST:
            return "the kernel only brings a value into order" if group.apart else "the kernel is large already"
        later = any(number != group.number and self.steps[number].needs & mark for number in origins)
        return "an operand is computed by a step that runs after this kernel" if later else ""

    def _place_elementwise(self, node: Node) -> None:
        group, why = self._candidate(node)
        if group is not None:
            why = self._join_elementwise(node, group)
            if not why:
                return
        for number in sorted(self.origins(node), reverse=True):
            other = self.steps[number]
            if isinstance(other, Group) and other is not group and not self._join_elementwise(node, other):
                return
        self._new_group(node, node.type.shape, why)

    def _join_elementwise(self, node: Node, group: Group) -> str:
        why = self._joinable(node, group)
        if why:
            return why
        shape = node.type.shape
        as_row = group.rows is not None and node.type.numel == group.rows and group.rows != sizes.product(group.dims)
        if not as_row and node.type.numel != sizes.product(group.dims):
            return f"its {node.type} has other loops than {list(group.dims)}"
        before = group.dims
        rows_shape = self._row_dims(group, shape) if as_row else refined(group, shape)
        if rows_shape is None:
            return f"the shape {list(shape)} does not nest in the loops {list(group.dims)}"
        group.dims = rows_shape
        map_ = group.row_map(shape) if as_row else group.full_map(shape)
        if map_ is None or not self._all_reached(node, map_, group):
            group.dims = before
            return "an operand is read in another order than it is computed"
        (group.row if as_row else group.full).add(node)
        self._adopt(node, group)
        return ""

    def _row_dims(self, group: Group, shape: Shape) -> Shape | None:
        split = group.split()
        probe = Group(-1, group.dims[:split])
        rows = refined(probe, shape)
        return None if rows is None else (*rows, *group.dims[split:])

    def _all_reached(self, node: Node, map_, group: Group) -> bool:
        if "gathers" in node.op.traits:
            table, index = node.inputs
            if self._inside(table, group):
                return False
            index_map = map_[: len(index.type.shape)] if "rows" in node.op.traits else map_
            return self.access.reaches(index, index_map, group)
        if node.op.family == "generator":
            return not any(self._inside(i, group) for i in node.inputs)
        shape = node.type.shape
        return all(self.access.reaches(i, broadcast_map(map_, shape, i.type.shape), group) for i in node.inputs)

    def _inside(self, node: Node, group: Group) -> bool:
        """Whether a value is made in this very kernel, so that it cannot be read from memory at any place."""
        root = layout(node).root
        made = (group.full, group.row, group.columns, group.total)
        return is_inline(root, self.inline) or any(root in values for values in made)

    def _adopt(self, node: Node, group: Group) -> None:
        self.dependencies.add(group, self.origins(node))
        group.take(node)
        self.step_of[node] = group.number
        self.phases.note(group.number, (node,))

    def _place_host(self, node: Node) -> None:
        for step in self.steps.values():
            if isinstance(step, HostStep) and same_call(step.node, node):
                step.nodes.append(node)
                self.step_of[node] = step.number
                self.phases.note(step.number, (node,))
                return
        self._new_step(HostStep(self._count, [node]), node)

    # -- reductions ---------------------------------------------------------------------------------------------------

    def _place_reduction(self, node: Node) -> None:
        group, why = self._candidate(node)
        if group is not None:
            why = self._join_reduction(node, group)
            if not why:
                return
        self._new_group(node, node.inputs[0].type.shape, why)

    def _join_reduction(self, node: Node, group: Group) -> str:
        why = self._joinable(node, group)
        if why:
            return why
        operand = node.inputs[0]
        shape = operand.type.shape
        if operand.type.numel != sizes.product(group.dims):
            return f"it reduces {operand.type}, the loops are {list(group.dims)}"
        kind, rows = reduction_kind(node)
        if kind == "middle":
            return "it reduces dimensions in the middle"
        if group.total or (kind == "total" and (group.rows is not None or group.columns)):
            return "a total reduction has a kernel of its own"
        if group.rows is not None and group.rows != rows:
            return f"its rows are {rows}, the kernel's are {group.rows}"
        if kind != "columns" and self._reads_rows_apart(node, group):
            return "it would read elements of many values one by one, whose rows lie apart"
        dims = refined(group, shape)
        if dims is None:
            return f"the shape {list(shape)} does not nest in the loops {list(group.dims)}"
        before, group.dims = group.dims, dims
        map_ = group.full_map(shape)
        if map_ is None or not self.access.reaches(operand, map_, group):
            group.dims = before
            return "the operand is read in another order than it is computed"
        self._note_reduction(node, group)
        self._adopt(node, group)
        return ""

    def _reads_rows_apart(self, node: Node, group: Group) -> bool:
        def elsewhere(value: Node) -> bool:
            number = self.step_of.get(value)
            return number is not None and self.find(number) != group.number

        return not self.element_by_element and rows_apart(node, elsewhere) > MOST_ROWS_APART

    def _note_reduction(self, node: Node, group: Group) -> None:
        kind, rows = reduction_kind(node)
        if kind == "total":
            group.total.add(node)
        elif kind == "rows":
            group.row.add(node)
            group.rows = rows
        else:
            group.columns.add(node)
            group.rows = rows if kind == "columns" else None

    # -- merging ------------------------------------------------------------------------------------------------------

    def _merge_readers(self) -> None:
        """Reductions of rows that read the same tensor from memory share a pass over it."""
        readers: dict[Node, int] = {}
        for step in list(self.steps.values()):
            if not isinstance(step, Group) or step.rows is None or step.columns:
                continue
            count = sizes.product(step.dims)
            for root in dict.fromkeys(layout(i).root for n in step.nodes for i in n.inputs):
                if root not in self.step_of and not is_inline(root, self.inline) and root.type.numel == count:
                    other = self.steps[self.find(readers.setdefault(root, step.number))]
                    here = self.steps[self.find(step.number)]
                    if other is not here and isinstance(other, Group) and isinstance(here, Group):
                        self._try_merge(other, here)

    def _try_merge(self, host: Group, other: Group) -> None:
        """Make two groups one, if nothing has to run between them."""
        large = len(host.nodes) + len(other.nodes) > MAX_NODES or host.cost + other.cost > MAX_COST
        both = 1 << host.number | 1 << other.number
        if large or host.apart or other.apart or not self.phases.allow((), both, host.needs | other.needs, self.steps):
            return
        if sizes.product(host.dims) != sizes.product(other.dims):
            return
        if host.rows is not None and other.rows is not None and host.rows != other.rows:
            return
        if (host.total or other.total) and (host.rows is not None or other.rows is not None):
            return
        if has_middle(host.columns | other.columns):
            return
        if self.dependencies.lies_between(host, other) or self.dependencies.lies_between(other, host):
            return
        if self._reads_finished(host, other) or self._reads_finished(other, host):
            return
        dims = refined(host, other.dims)
        if dims is None:
            return
        trial = Group(host.number, dims)
        trial.full, trial.row = host.full | other.full, host.row | other.row
        trial.columns, trial.total = host.columns | other.columns, host.total | other.total
        trial.rows = host.rows if host.rows is not None else other.rows
        # Loops that stay as they are reach what they reached; only values of the other group are new to them.
        crossing = (host.needs >> other.number | other.needs >> host.number) & 1
        for group in (other, host):
            if (crossing or dims != group.dims) and not all(self._still_reaches(n, trial) for n in group.nodes):
                return
        host.dims, host.rows = dims, trial.rows
        host.full, host.row, host.columns, host.total = trial.full, trial.row, trial.columns, trial.total
        host.nodes = sorted(host.nodes + other.nodes, key=self._order.__getitem__)
        host.cost += other.cost
        self._absorb(host, other)

    def _absorb(self, host: Group, other: Group) -> None:
        self._merged[other.number] = host.number
        self.phases.merge(other.number, host.number)
        self.dependencies.merge(host, other)

    def _reads_finished(self, reader: Group, writer: Group) -> bool:
        """Whether a node of `reader` reads a result of `writer` that takes a second kernel to finish."""
        if not writer.columns and not writer.total:
            return False
        finished = writer.columns | writer.total
        return any(self._roots(i) & finished for n in reader.nodes for i in n.inputs)

    def _roots(self, node: Node) -> set[Node]:
        return {n for n in ends(node, self.step_of) if n in self.step_of}

    def _still_reaches(self, node: Node, group: Group) -> bool:
        if node.op.family == "reduction":
            shape = node.inputs[0].type.shape
            map_ = group.full_map(shape)
            return map_ is not None and self.access.reaches(node.inputs[0], map_, group)
        map_ = group.row_map(node.type.shape) if node in group.row else group.full_map(node.type.shape)
        return map_ is not None and self._all_reached(node, map_, group)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _store_inline_results(self) -> None:
        """Inlined nodes that must exist in memory get kernels of their own, which run before those that read them."""
        wanted: list[tuple[Step | None, Node]] = [(None, n) for n in self.graph.results()]
        for step in list(self.steps.values()):
            if not isinstance(step, Group):
                wanted += [(step, n) for n in parts(step.node, self.inline)]
            else:
                wanted += [(step, n.inputs[0]) for n in step.nodes if "gathers" in n.op.traits]
        for reader, value in wanted:
            root = value
            while root.op.family == "view" and root not in self.step_of:
                root = root.inputs[0]
            number = root.attributes.get("number", False)
            if root not in self.step_of and (number or root.op.family != "argument"):
                why = "a number that is a result" if number else "a result that reads nothing"
                self._new_group(root, root.type.shape, why)
            if reader is not None and root in self.step_of:
                self.dependencies.add(reader, [self.find(self.step_of[root])])
