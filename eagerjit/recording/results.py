"""What the results of a compiled call are besides values: views of other tensors, counts of writes, classes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.signature import IntLeaf, TensorLeaf
from eagerjit.ops.strided import memory_of
from eagerjit.recording.memory_order import views_copy
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import dtypes, mode
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.tensor import Parameter, Storage, Tensor, View, share_storage, storage_of
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.slots import Slot, value_at

Finish = Callable[[Sequence[Any], Sequence[Any]], None]
"""What is done to (results, arguments) when a compiled call has run."""


def returned(tracer: Tracer, value: Any, where: str) -> Any:
    """A result as something that a compiled call can return."""
    if isinstance(value, (SymbolicInt, TracedFloat)):
        dtype = dtypes.int64 if isinstance(value, SymbolicInt) else dtypes.float64
        return tracer.wrap(tracer.record(elementwise.cast, (tracer.constant(value, dtype),), dtype=dtype))
    if isinstance(value, (Generator, Awaitable)):
        raise TraceBreak(f"it returns a {type(value).__name__}, whose code runs later", where)
    return value


def is_traced(value: Any) -> bool:
    """Whether a result was made in the trace."""
    return isinstance(value, Tensor) and type(value._data) is Node


def refuse_inner(tracer: Tracer, results: Sequence[Any], where: str) -> None:
    """End the recording where a tensor has left the function that `vmap` or a loop has recorded for itself."""
    known = {*tracer.inputs, *tracer.nodes}
    values = {tracer.value(result) for result in results if is_traced(result)}
    made = {*tracer.nodes} - known  # views, whose bases may lie in that function
    if not known.issuperset((values | {x for node in made for x in node.inputs}) - made):
        raise TraceBreak("a tensor left the function that a transform has recorded", where)


def hidden_bases(tracer: Tracer, results: Sequence[Any]) -> list[Tensor]:
    """Tensors that results view and that are no results: what several view, so that a write to one reaches the others.

    And those whose views compiled code computes apart from them, see `_Related`, or whose writes count for themselves,
    or are refused as those to one of several views and to views of leaves are.
    """
    found: dict[int, Tensor] = {}
    views: dict[int, int] = {}
    known = set(map(id, results))
    for result in filter(is_traced, results):
        refuse_unassignable(type(result), result._data.source or tracer.begins)
        base, steps = _base(tracer, result, known)
        if base is not result and is_traced(base) and id(base) not in known:
            found[id(base)] = base
            refused = result.requires_grad and any(step.among is not None for step in steps)
            apart = refused or _is_leaf(base) or tracer.is_silent(base) or _is_copied(tracer, result, base)
            views[id(base)] = views.get(id(base), 0) + (2 if apart else 1)
    return [t for t in found.values() if views[id(t)] > 1]


def refuse_unassignable(kind: type, where: str) -> None:
    """Raise TraceBreak for a class of which a tensor cannot be made an instance: one with slots."""
    if kind.__basicsize__ != Parameter.__basicsize__ and kind is not Tensor:
        raise TraceBreak(f"a {kind.__name__}, whose class has slots, outlives the call", where)


def _is_leaf(tensor: Tensor) -> bool:
    return tensor._requires_grad and tensor._node is None


def _base(tracer: Tracer, result: Tensor, known: set[int]) -> tuple[Tensor, list[View]]:
    """The first other result, leaf or outside tensor that a result views, else what it is made of; the way there."""
    steps: list[View] = []
    base = result
    while base._view is not None and is_traced(base) and not tracer.is_silent(base):
        steps.append(base._view)
        base = base._view.base
        if id(base) in known or (is_traced(base) and _is_leaf(base)):
            break
    return base, steps[::-1]


def _depth(result: Any) -> int:
    """How many views lead to a result."""
    depth = 0
    while is_traced(result) and result._view is not None:
        result, depth = result._view.base, depth + 1
    return depth


def _is_copied(tracer: Tracer, view: Tensor, base: Tensor) -> bool:
    """Whether compiled code computes a view of a tensor apart from it."""
    return layout(tracer.place(view)).root is not layout(tracer.place(base)).root


def relations(tracer: Tracer, results: list[Any]) -> list[Finish]:
    """What makes results views of arguments, of outside tensors and of each other, and gives them their versions.

    Sizes that the call measures and that such views are made with are added to the results.
    """
    out: list[Finish] = []
    positions = {id(r): i for i, r in enumerate(results)}
    for index, result in sorted(enumerate(list(results)), key=lambda found: _depth(found[1])):
        if not is_traced(result):
            continue
        base, steps = _base(tracer, result, set(positions))
        if tracer.is_silent(base) and views_copy(base):
            raise TraceBreak("the data of a view that compiled code copies is returned", tracer.begins)
        if base is not result and (id(base) in positions or not is_traced(base)):
            copied = views_copy(result) or _is_copied(tracer, result, base)
            source = positions.get(id(base))
            leaf = -1 if source is not None else tracer.leaf_of[id(base)]
            outside = tracer.slots.get(leaf, base) if source is None else None
            found, measured = _origins(tracer, steps, results)
            out.append(_Related(index, source, leaf, outside, steps, found, measured, copied))
        elif tracer.is_silent(result):
            root = tracer.memory_of(result)
            source, leaf = positions.get(id(root)), tracer.leaf_of.get(id(root), -1)
            outside = None if is_traced(root) else tracer.slots.get(leaf, root)
            out.append(_Apart(index, result._storage.version, source, leaf, outside))
        elif result._storage is not None and result._storage.version:
            out.append(_Written(index, result._storage.version))
    # A base has the versions of its writes before it shares them, and its memory before others view that.
    return sorted(out, key=lambda effect: isinstance(effect, _Related))


def classes(results: Sequence[Any]) -> list[Finish]:
    """What makes results Parameters, or instances of other classes, that were such in the recording."""
    found = [(i, type(r)) for i, r in enumerate(results) if is_traced(r) and type(r) is not Tensor]
    return [_OfClasses(found)] if found else []


def origins(tracer: Tracer) -> dict[str, tuple[Any, int]]:
    """Where a call finds the sizes and ints that are symbols: (place, dimension or -1); see `value_at`."""
    known: dict[str, tuple[Any, int]] = {}
    for b in tracer.bindings:
        if not isinstance(b, (IntLeaf, TensorLeaf)):
            continue
        place = tracer.slots.get(b.leaf, b.leaf)
        if isinstance(b, IntLeaf):
            known[str(b.size)] = place, -1
        else:
            known.update({str(d): (place, i) for i, d in enumerate(b.node.type.shape) if isinstance(d, sizes.Size)})
    return known


def _origins(
    tracer: Tracer, steps: list[View], results: list[Any]
) -> tuple[dict[str, tuple[Any, int]], dict[str, int]]:
    """Where a call finds the sizes that these views are made with, and which results those are that it measures."""
    known, needed = origins(tracer), set[str]()
    for step in steps:
        for x in _flat(step.arguments):
            if isinstance(x, SymbolicInt):
                needed |= sizes.symbols(x.expression)
    measured = dict[str, int]()
    for asked in tracer.questions:
        if (name := str(asked.size)) in needed - known.keys():
            measured[name] = len(results)
            results.append(tracer.wrap(asked.node))
    if not needed <= known.keys() | measured.keys():
        raise TraceBreak("a view whose size depends on values is returned", tracer.begins)
    return {name: known[name] for name in needed & known.keys()}, measured


def _flat(arguments: tuple[Any, ...]) -> list[Any]:
    return [x for a in arguments for x in (_flat(a) if isinstance(a, tuple) else [a])]


@dataclass
class _Written:
    """A result in new memory that was written in place."""

    index: int
    version: int

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        storage_of(flat[self.index]).version = self.version


@dataclass
class _Apart:
    """A result that shows the memory of another tensor (`x.data`) and has a count of writes of its own.

    That memory is another result's (`source`), an argument's (`leaf`), an `outside` tensor's, or nothing else's.
    """

    index: int
    version: int
    source: int | None
    leaf: int
    outside: Tensor | Slot | None

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        storage = flat[self.index]._storage = Storage()
        storage.version = self.version
        owner = flat[self.source] if self.source is not None else value_at(self.outside, arguments)
        if 0 <= self.leaf < len(arguments):
            owner = arguments[self.leaf]
        if owner is not None:
            storage.whole = memory_of(owner)[0]


@dataclass
class _OfClasses:
    """Makes results Parameters, or instances of other classes."""

    results: list[tuple[int, type]]

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        for index, kind in self.results:
            flat[index].__class__ = kind


@dataclass
class _Related:
    """A result that views another result (`source`), an argument (`leaf`) or an `outside` tensor, by these steps.

    The sizes that these are made with lie at `origins`; those that the call measures are results.
    `copied`: compiled code has no such view, and gave a copy, in whose place the view comes.
    """

    index: int
    source: int | None
    leaf: int
    outside: Tensor | Slot | None
    steps: list[View]
    origins: dict[str, tuple[Any, int]]
    measured: dict[str, int]
    copied: bool

    def __post_init__(self) -> None:
        # What the views were made of belongs to the trace.
        self.steps = [View(None, s.op, tuple(map(_kept, s.arguments)), s.tracked, s.among) for s in self.steps]  # type: ignore

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        base: Any = flat[self.source] if self.source is not None else value_at(self.outside, arguments)
        if self.source is None and self.leaf < len(arguments):
            base = arguments[self.leaf]
        values = {n: _number(value_at(place, arguments), axis) for n, (place, axis) in self.origins.items()}
        values |= {name: host_array(flat[i]._data).item() for name, i in self.measured.items()}
        result = flat[self.index]
        share_storage(result, base)
        for step in self.steps[:-1]:
            before = mode.set_grad_mode(step.tracked)
            try:
                base = step.op(base, *(_evaluated(a, values) for a in step.arguments))
            finally:
                mode.set_grad_mode(before)
            base._view.among = step.among
        last = self.steps[-1]
        arguments = tuple(_evaluated(a, values) for a in last.arguments)
        if self.copied:
            result._data = last.op.view_eager(base._data, *arguments)
        result._view = View(base, last.op, arguments, last.tracked, last.among)
        if last.tracked:
            result._storage.register(result)


def _number(argument: Any, axis: int) -> int:
    return argument if axis < 0 else argument._data.shape[axis]


def _kept(argument: Any) -> Any:
    """An argument of a view as an expression in sizes."""
    if isinstance(argument, tuple):
        return tuple(map(_kept, argument))
    return argument.expression if isinstance(argument, SymbolicInt) else argument


def _evaluated(argument: Any, values: dict[str, int]) -> Any:
    if isinstance(argument, tuple):
        return tuple(_evaluated(a, values) for a in argument)
    return sizes.evaluate(argument, values) if isinstance(argument, sizes.Size) else argument


# -- gradients of results ---------------------------------------------------------------------------------------------
