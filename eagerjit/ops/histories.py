"""The histories of tensors that are written in place: what gradients of writes go through."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

from eagerjit.autograd.node import GradNode, any_requires_grad, as_it_is, positions_read, record, refresh, refresh_all
from eagerjit.calling.dispatch import Op
from eagerjit.compiler.ir import Node
from eagerjit.ops.aliasing import overwriting
from eagerjit.ops.strided import place_within, strided_view
from eagerjit.runtime import mode
from eagerjit.runtime.layout import has_each_element_once
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.placement import copied_array
from eagerjit.tensors.tensor import Tensor, new_tensor, note_written, share_storage
from eagerjit.watching.observation import TraceBreak, user_line


def _lineage(target: Tensor) -> tuple[list[Tensor], Tensor]:
    """The chain of views that leads to a tensor, itself first, and the base they are views of."""
    chain = []
    while target._view is not None and target._view.tracked:
        chain.append(target)
        target = target._view.base
    return chain, target


def _checked(target: Tensor) -> tuple[list[Tensor], Tensor]:
    """The lineage of a tensor that may be written. RuntimeError for writes that have no gradient."""
    chain, root = _lineage(target)
    tracer = state.tracer
    outside = None
    if tracer is not None and type(root._data) is not Node:
        outside = tracer.broken = TraceBreak(
            "an in-place operation gives a tensor from outside the function a gradient history", user_line()
        )
    for x in (*chain, root):
        if x._node is None and x._requires_grad:
            what = "a view of a leaf Variable" if chain else "a leaf Variable"
            raise RuntimeError(f"{what} that requires grad is being used in an in-place operation.")
    for view in chain:
        if view._view.among is not None:
            raise RuntimeError(
                f"An output of {view._view.among.__name__} is a view and is being modified inplace. This view is the "
                "output of a function that returns multiple views. Such functions do not allow the output views to be "
                "modified inplace. You should replace the inplace operation by an out-of-place one."
            )
    if made_without_grad(root):
        refuse_ambiguous()
    if outside is not None:
        raise outside
    return chain, root


def check_history(target: Tensor) -> None:
    """Refuse a change in place that gives a tensor another history where writes to it would be refused."""
    if mode.grad_mode() and target._requires_grad:
        _checked(target)
    elif mode.grad_mode():
        refuse_made_without_grad(target)


def refuse_made_without_grad(target: Tensor) -> None:
    """Refuse a write, while gradients are recorded, to a view that was made while they were not."""
    tracer, ambiguous = state.tracer, made_without_grad(target)
    outside = None if tracer is None or not tracer.needs_grad else _found_outside(tracer, target)
    if tracer is not None and outside is not None:
        if ambiguous:
            tracer.broken = TraceBreak("a view from outside the function was made without gradients", user_line())
        else:
            tracer.value(outside)
            tracer.guard_writable(outside)
    if ambiguous:
        refuse_ambiguous()


def _found_outside(tracer: Any, tensor: Tensor) -> Tensor | None:
    """The tensor from outside a recording that one is, or is a view of."""
    while type(tensor._data) is Node and id(tensor) not in tracer.leaf_of:
        if tensor._view is None or tensor._view.op.detaches:
            return None
        tensor = tensor._view.base
    return tensor


def refuse_ambiguous() -> NoReturn:
    """Raise RuntimeError for a write with gradients to a view made without."""
    raise RuntimeError(
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
        "case is ambiguous and error-prone, it is forbidden. Clone the view, or make it with gradients enabled."
    )


def made_without_grad(tensor: Tensor) -> bool:
    """Whether a tensor is a view, made without gradients, of one that requires grad; detached ones are meant to be."""
    while tensor._view is not None and not tensor._view.op.detaches:
        tensor = tensor._view.base
        if tensor._requires_grad:
            return True
    return False


def record_write(op: Any, target: Tensor, given: tuple[Any, ...]) -> None:
    """Write by an op in place, and put that on the tape."""
    chain, root = _checked(target)
    refresh_all(given)
    needs = tuple([any_requires_grad((a,)) for a in given])
    reads_result, reads = _read(op.functional, needs)
    copied, arguments = any([read and a is target for read, a in zip(reads, given, strict=True)]), given
    before: dict[int, Tensor] = {}
    if state.tracer is None:
        before[id(root)] = snapshot(root)
        arguments = tuple([_as_before(a, root, before) if isinstance(a, Tensor) else a for a in arguments])
    known = before.get(id(target), target)
    old = snapshot(known, copied) if known is target or copied else known
    result = new_tensor(target._data)
    record(op.functional, tuple([old if a is known else a for a in arguments]), result, replaced=old)
    op.write(given)
    if chain and reads_result and result._node is not None and state.tracer is None:
        result._node.output = copied_array(target._data)
    _take_over(target, chain, root, result, before)


def record_written(op: Any, arguments: tuple[Any, ...], target: Tensor, old: Tensor) -> None:
    """Put a write that has happened on the tape: `old` is the target as it was."""
    chain, root = _checked(target)
    result = new_tensor(target._data)
    record(op, arguments, result, replaced=old)
    _take_over(target, chain, root, result)


def _as_before(tensor: Tensor, root: Tensor, before: dict[int, Tensor]) -> Tensor:
    """An operand as it is before a write: of the tensor that is written, or a view of that, another one.

    The history of what is written would lead to itself otherwise, and both would keep each other alive.
    """
    chain, base = _lineage(tensor)
    if base is not root:
        return tensor
    for x in reversed(chain):
        if id(x) in before:
            continue
        old = before[id(x)] = snapshot(x)
        if old._requires_grad:
            record(x._view.op, (before[id(x._view.base)], *x._view.arguments), old)
    return before[id(tensor)]


def _take_over(
    target: Tensor, chain: list[Tensor], root: Tensor, result: Tensor, before: dict[int, Tensor] | None = None
) -> None:
    """Give a tensor that was written the history of what was written there; `before` are its bases as they were."""
    node = result._node
    if node is None:
        return
    if state.tracer is not None:
        node.output = state.tracer.value(target)
    had_history = root._requires_grad
    if chain:
        _rebase(chain, result, before or {})
    else:
        _adopt(target, node)
    if root._storage is not None:
        mode.reserve_sequences(root._storage.registered)
    if not had_history:
        _refresh_views(root)


@lru_cache(maxsize=1024)
def _read(op: Op, needs: tuple[bool, ...]) -> tuple[bool, list[bool]]:
    """Whether the gradients for the arguments that need one read the call's result, and which arguments they read."""
    if op.rules is None:
        return False, [True] * len(needs)
    read = set().union(*[positions_read(rule) for rule, need in zip(op.rules, needs, strict=True) if rule and need])
    return 1 in read, [2 + i in read for i in range(len(needs))]


def snapshot(tensor: Tensor, copied: bool = False) -> Tensor:
    """A tensor with the history that this one has now; its memory too unless it is copied."""
    refresh(tensor)
    old = as_it_is(tensor, copied_array(tensor._data) if copied and state.tracer is None else None)
    if not copied:
        share_storage(old, tensor)
    return old


def _adopt(tensor: Tensor, node: GradNode) -> None:
    tensor._node, tensor._index, tensor._requires_grad = node, 0, True


def mark_overwritten(target: Tensor) -> None:
    """Note on the node that made this memory that its output is gone; a compiled call does so when it has written."""
    if state.tracer is None or type(target._data) is Node:
        note_written(target, here())


def _rebase(chain: list[Tensor], value: Tensor, before: dict[int, Tensor]) -> None:
    """Give the base of a chain of views the history of having been overwritten with `value` in the innermost view."""
    for base, view, arguments in _steps(chain):
        old = before[id(base)] if before else snapshot(base)
        written = new_tensor(base._data)
        record(overwriting(view), (old, value, *arguments), written, replaced=old)
        value = written
    if value._node is not None:
        _adopt(chain[-1]._view.base, value._node)


def _steps(chain: list[Tensor]) -> list[tuple[Tensor, Any, tuple[Any, ...]]]:
    """(base, view, arguments) per view of a chain. A written part of a view that shows an element of its base several
    times is a view of that base by strides: the other places where the element shows are no values of their own.
    """
    steps = [(view.base, view.op, view.arguments) for view in (tensor._view for tensor in chain)]
    if state.tracer is None:  # a trace refuses such writes
        for last in range(len(chain) - 1, 0, -1):
            if not has_each_element_once(chain[last]._data):
                base = steps[last][0]
                return [(base, strided_view, place_within(chain[0], base)), *steps[last + 1 :]]
    return steps


def _refresh_views(root: Tensor) -> None:
    """Read the views of a base that has its first history from there; those that had one see to it when next used."""
    for reference in list(root._storage.views) if root._storage is not None else ():
        view = reference()
        if view is not None:
            refresh(view)
