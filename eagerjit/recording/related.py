"""Arguments that are views of one memory, as a call takes them that writes it: by what they view, and how.

A compiled call refuses tensors that overlap where it writes one of them. Related, such a call has a structure of its
own: the mark of an argument says by which steps it views which tensor (another argument, a tensor that the function
reaches by itself, or one that comes after the arguments), and the numbers of these steps come after the arguments too.
So its recording sees the writes to one in all others, and holds for other places of the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiled.variants import Variant
from eagerjit.compiler.signature import Load
from eagerjit.ops.aliasing import alias_view, expand_view, permute_view, reshape_view, select_view, slice_view
from eagerjit.ops.strided import root_of
from eagerjit.pytree import LEAF, Structure
from eagerjit.recording.leaves import marks_of, with_marks
from eagerjit.runtime import mode
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer

_NUMBERS = {
    alias_view: (), reshape_view: (True,), permute_view: (False,), expand_view: (True,),
    slice_view: (False, True, True, False), select_view: (False, True),
}  # fmt: skip
"""Which arguments of a view are numbers that calls may change."""


@record(frozen=True)
class Step:
    """One view: its arguments with None for numbers that come with the call."""

    op: Any
    arguments: tuple[Any, ...]
    tracked: bool

    def made(self, base: Tensor, numbers: Any) -> Tensor:
        """The view of another base, with the next of these numbers."""
        before = mode.set_grad_mode(self.tracked)
        try:
            return self.op(base, *_filled(self.arguments, numbers))
        finally:
            mode.set_grad_mode(before)


@record(frozen=True)
class ViewOf:
    """The mark of an argument that is a view: of an argument, of an additional one, or of a tensor from outside."""

    base: int | None
    outside: int
    steps: tuple[Step, ...]

    @property
    def count(self) -> int:
        """How many numbers its steps take."""
        return sum(_open(s.arguments) for s in self.steps)


def _open(arguments: tuple[Any, ...]) -> int:
    return sum(_open(a) if isinstance(a, tuple) else a is None for a in arguments)


def _filled(arguments: tuple[Any, ...], numbers: Any) -> tuple[Any, ...]:
    return tuple([
        _filled(a, numbers) if isinstance(a, tuple) else next(numbers) if a is None else a for a in arguments
    ])


class Related:
    """What a function's calls share memory with: the tensors that it reaches by itself, by their roots."""

    def __init__(self) -> None:
        self.outside: dict[int, Tensor] = {}

    def learn(self, variant: Variant) -> None:
        """Note the tensors that a variant finds by itself."""
        for binding in variant.report.trace.bindings:
            if isinstance(binding, Load) and binding.op == Op.LOAD_OBJECT:
                found = variant.report.objects[binding.operands[0]]
                if isinstance(found, Tensor) and found._view is None:
                    self.outside[id(found)] = found

    def call(self, structure: Structure, leaves: Sequence[Any]) -> tuple[Structure, list[Any]]:
        """The structure and leaves of a call, with arguments that share memory related to what they view."""
        marks = list(marks_of(structure))
        plain = [i for i, mark in enumerate(marks) if mark == LEAF and isinstance(leaves[i], Tensor)]
        plain = [i for i in plain if not getattr(type(leaves[i]), "is_recorded", False)]
        roots = {i: root_of(leaves[i]) for i in plain}
        shared = [id(root) for root in roots.values()]
        places = {id(leaves[i]): i for i in plain}
        bases, numbers = list[Tensor](), list[int]()
        for i, root in roots.items():
            known = shared.count(id(root)) > 1 or id(root) in self.outside
            own = leaves[i]._storage is not root._storage or not (_is_plain(root) and _is_plain(leaves[i]))
            if root is leaves[i] or not known or own:
                continue
            steps, found = _steps(leaves[i])
            if steps is None:
                continue
            position = places.get(id(root))
            if position is None and id(root) not in self.outside:
                position = len(marks) + _position(bases, root)
            marks[i] = ViewOf(position, id(root) if position is None else 0, steps)
            numbers += found
        return with_marks(structure, iter(marks)), [*leaves, *bases, *numbers]


def _position(bases: list[Tensor], root: Tensor) -> int:
    for position, known in enumerate(bases):
        if known is root:
            return position
    bases.append(root)
    return len(bases) - 1


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is its memory and nothing else: no gradient, hook or attribute goes with it."""
    if type(tensor) is not Tensor or tensor._requires_grad or tensor._grad is not None or tensor._hooks:
        return False
    return not tensor.__dict__ and type(tensor._data) is np.ndarray


def _steps(tensor: Tensor) -> tuple[tuple[Step, ...] | None, list[int]]:
    """How a tensor views its root, and the numbers of that; None where it no longer lies there, or in another way."""
    views = []
    view = tensor._view
    while view is not None:
        views.append(view)
        view = view.base._view
    views.reverse()
    array, steps, numbers = views[0].base._data, list[Step](), list[int]()
    for view in views:
        kinds = _NUMBERS.get(view.op)
        if kinds is None or view.base._requires_grad:
            return None, []
        array = view.op.view_eager(array, *view.arguments)
        given = zip(view.arguments, kinds, strict=True)
        steps.append(Step(view.op, tuple([_template(a, k, numbers) for a, k in given]), view.tracked))
    own = tensor._data
    alike = array.ctypes.data == own.ctypes.data and array.shape == own.shape and array.strides == own.strides
    return (tuple(steps) if alike else None), numbers


def _template(argument: Any, is_number: bool, numbers: list[int]) -> Any:
    """An argument with its numbers taken out."""
    if isinstance(argument, tuple):
        return tuple([_template(a, is_number, numbers) for a in argument])
    if not is_number:
        return argument
    numbers.append(int(argument))
    return None


def additional(marks: Sequence[Any]) -> int:
    """How many leaves come after the arguments."""
    views = [mark for mark in marks if type(mark) is ViewOf]
    return len({m.base for m in views if m.base is not None and m.base >= len(marks)}) + sum(m.count for m in views)


def relate(tracer: Tracer, marks: Sequence[Any], leaves: Sequence[Any], inputs: list[Any], more: Sequence[Any]) -> None:
    """Make the arguments that are views stand-ins, from the inputs of the trace that come after the arguments."""
    numbers = iter([x for x in more if not isinstance(x, Tensor)])
    for position, mark in enumerate(marks):
        if type(mark) is ViewOf:
            made = root_of(leaves[position])
            for step in mark.steps:
                made = step.made(made, numbers)
            tracer.originals[id(made)] = made, leaves[position]
            tracer.leaf_of[id(leaves[position])] = position
            inputs[position] = made


def original(tracer: Tracer, value: Any) -> Any:
    """The argument that a stand-in is for; other values themselves."""
    return tracer.originals.get(id(value), (None, value))[1]


def check(tracer: Tracer, where: str) -> None:
    """Refuse a call that gives an argument related to others more than elements."""
    for made, _ in tracer.originals.values():
        if made._requires_grad or made._node is not None or made._grad is not None or made._hooks or made.__dict__:
            raise TraceBreak("it changes more than the elements of a view whose memory is written elsewhere", where)
