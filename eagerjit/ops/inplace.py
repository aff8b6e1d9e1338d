"""In-place operations: an op's result written into its first argument, and what that does to the autograd graph.

A write gives the tensor a new history whose node remembers the tensor as it was. A write through a view rewrites the
history of the base (the base with the view overwritten), and every view is then read from its base's new history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from eagerjit.autograd.node import GradNode, any_requires_grad, positions_read, record
from eagerjit.compiler.ir import Node
from eagerjit.dispatch import OPS, Op
from eagerjit.ops.aliasing import overwriting
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.strided import place_within, strided_view
from eagerjit.ops.views import slice_dim
from eagerjit.runtime import mode
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.layout import has_each_element_once
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.fitting import filled_fits
from eagerjit.tensors.mistakes import explained
from eagerjit.tensors.placement import beside, copied_array
from eagerjit.tensors.promotion import TYPE_NAMES, can_cast
from eagerjit.tensors.tensor import Tensor, check_writable, new_tensor, note_written, share_storage
from eagerjit.watching.observation import TraceBreak, user_line


class InplaceOp(Op):
    """`functional` computed on (target, *rest) and written into target, which is returned."""

    needs_grad = True

    def __init__(self, functional: Op, converts: bool = False):
        self.functional, self.fitting, self.ordered = functional, functional.fitting, functional.ordered
        body = functional.body

        def write(self: Any, *rest: Any) -> Tensor:
            _store(self, body(self, *rest), converts)
            return self

        super().__init__(f"{functional.name}_", write, differentiable=False)
        self.parameters, self.defaults = ("self", *functional.parameters[1:]), functional.defaults
        self.numbers = functional.numbers - {0}
        self.call = OpCall(self.name, self.slow, self, self.parameters, self.defaults, self.numbers, record=False)
        self.call.__doc__ = body.__doc__
        self.entries = [self.call]

    def method(self) -> Callable[..., Tensor]:
        """The Tensor method: the native call where no other tensor's history can depend on the memory written."""

        def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            (call if self._view is not None and _is_plain(self) else slow)(self, *args, **kwargs)
            return self

        call, slow, described = self.call, self.slow, (self.parameters, self.defaults, self.numbers)
        told = explained(inplace, self.name, like=self.functional.body)
        method = OpCall(self.name, told, self, *described, record=False, writes=True)
        method.__doc__ = f"In-place version of `{self.functional.name}`."
        self.entries.append(method)
        return method

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Write, and put the write on the tape where gradients flow."""
        target = arguments[0]
        if mode.grad_mode() and any_requires_grad(arguments):
            _record_write(self, target, arguments)
        else:
            if mode.grad_mode() and _made_without_grad(target):
                _refuse_ambiguous()
            _mark_overwritten(target)
            self.write(arguments)
        return target

    def write(self, arguments: tuple[Any, ...]) -> None:
        """Write without regard to gradients."""
        if state.tracer is None:
            self.eager(arguments)
            return
        before = mode.set_grad_mode(False)
        try:
            self.body(*arguments)
        finally:
            mode.set_grad_mode(before)

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """Run the Program that writes; operands in the memory written are copied first."""
        target = arguments[0]
        check_writable(target._data)
        super().eager((_bare(target), *(_plain(a, target) for a in arguments[1:])))
        return target


def _is_plain(view: Tensor) -> bool:
    """Whether a view's memory may be written, each element once, and no history of its base's says that it must not."""
    array = view._data
    if type(array) is not np.ndarray or not array.flags.writeable:
        return False
    if not (array.flags.c_contiguous or has_each_element_once(array)):
        return False
    if not mode.grad_mode():
        return True
    while view._view is not None:
        if view._requires_grad:
            return False
        view = view._view.base
    return not view._requires_grad


def _plain(argument: Any, target: Tensor) -> Any:
    """An operand without history, in other memory than the target's."""
    if not isinstance(argument, Tensor):
        return argument
    if argument is target or np.may_share_memory(argument._data, target._data):
        return new_tensor(copied_array(argument._data))
    return _bare(argument)


def _bare(tensor: Tensor) -> Tensor:
    """A tensor that does not require grad, over the same memory."""
    if not tensor._requires_grad:
        return tensor
    bare = new_tensor(tensor._data)
    share_storage(bare, tensor)
    return bare


def _store(target: Tensor, value: Tensor, converts: bool) -> None:
    """Make `value` the target's, if its dtype and shape allow."""
    if not converts and not can_cast(value.dtype, target.dtype):
        source, wanted = TYPE_NAMES[value.dtype], TYPE_NAMES[target.dtype]
        raise RuntimeError(f"result type {source} can't be cast to the desired output type {wanted}")
    if value.shape != target.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    tracer = state.tracer
    assert tracer is not None
    tracer.write(target, tracer.value(as_dtype(value, target.dtype)))


# -- gradients of writes ----------------------------------------------------------------------------------------------


def _lineage(target: Tensor) -> tuple[list[Tensor], Tensor]:
    """The chain of views that leads to a tensor, itself first, and the base they are views of."""
    chain = []
    while target._view is not None and target._view.tracked:
        chain.append(target)
        target = target._view.base
    return chain, target


def _check_target(target: Tensor, chain: list[Tensor], root: Tensor) -> None:
    """Refuse writes that have no gradient."""
    if any(x._node is None and x._requires_grad for x in (*chain, root)):
        what = "a view of a leaf Variable" if chain else "a leaf Variable"
        raise RuntimeError(f"{what} that requires grad is being used in an in-place operation.")
    for view in chain:
        if view._view.among is not None:
            raise RuntimeError(
                f"An output of {view._view.among.__name__} is a view and is being modified inplace. This view is the "
                "output of a function that returns multiple views. Such functions do not allow the output views to be "
                "modified inplace. You should replace the inplace operation by an out-of-place one."
            )
    if _made_without_grad(root):
        _refuse_ambiguous()
    if state.tracer is not None and type(root._data) is not Node:
        raise TraceBreak(
            "an in-place operation gives a tensor from outside the function a gradient history", user_line()
        )


def check_history(target: Tensor) -> None:
    """Refuse a change in place that gives a tensor another history where writes to it would be refused."""
    if mode.grad_mode() and target._requires_grad:
        _check_target(target, *_lineage(target))
    elif mode.grad_mode() and _made_without_grad(target):
        _refuse_ambiguous()


def _refuse_ambiguous() -> NoReturn:
    raise RuntimeError(
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
        "case is ambiguous and error-prone, it is forbidden. Clone the view, or make it with gradients enabled."
    )


def _made_without_grad(tensor: Tensor) -> bool:
    """Whether a tensor is a view, made without gradients, of one that requires grad; detached ones are meant to be."""
    while tensor._view is not None and tensor._view.op.name != "alias":
        tensor = tensor._view.base
        if tensor._requires_grad:
            return True
    return False


def _record_write(op: InplaceOp, target: Tensor, arguments: tuple[Any, ...]) -> None:
    chain, root = _lineage(target)
    _check_target(target, chain, root)
    functional = op.functional
    read = _positions(functional, arguments)
    copied = any(i in read for i in range(2, 2 + len(arguments)) if arguments[i - 2] is target)
    old = _snapshot(target, copied)
    result = new_tensor(target._data)
    record(functional, tuple(old if a is target else a for a in arguments), result, replaced=old)
    _mark_overwritten(target)
    op.write(arguments)
    node = result._node
    if node is None:
        return
    if state.tracer is not None:
        node.output = state.tracer.value(target)
    elif chain and 1 in read:
        node.output = copied_array(target._data)
    if chain:
        _rebase(chain, result)
    else:
        _adopt(target, node)
    _refresh_views(root)


def record_written(op: Any, arguments: tuple[Any, ...], target: Tensor, old: Tensor) -> None:
    """Put a write that has happened on the tape: `old` is the target as it was."""
    chain, root = _lineage(target)
    _check_target(target, chain, root)
    result = new_tensor(target._data)
    record(op, arguments, result, replaced=old)
    node = result._node
    if node is None:
        return
    if state.tracer is not None:
        node.output = state.tracer.value(target)
    if chain:
        _rebase(chain, result)
    else:
        _adopt(target, node)
    _refresh_views(root)


def _positions(op: Op, arguments: tuple[Any, ...]) -> frozenset[int]:
    """Which of (g, out, *arguments) the gradient of a call reads."""
    if op.rules is None:
        return frozenset(range(2, 2 + len(arguments)))
    used = [positions_read(r) for r, a in zip(op.rules, arguments, strict=True) if r and any_requires_grad((a,))]
    return frozenset().union(*used)


def _snapshot(tensor: Tensor, copied: bool = False) -> Tensor:
    """A tensor with the history that this one has now; its memory too unless it is copied."""
    tracer = state.tracer
    if tracer is not None:
        old = tracer.wrap(tracer.value(tensor))
    else:
        old = new_tensor(copied_array(tensor._data) if copied else tensor._data)
        if not copied:
            share_storage(old, tensor)
    old._node, old._index, old._requires_grad = tensor._node, tensor._index, tensor._requires_grad
    return old


def _adopt(tensor: Tensor, node: GradNode) -> None:
    tensor._node, tensor._index, tensor._requires_grad = node, 0, True


def _mark_overwritten(target: Tensor) -> None:
    """Note on the node that made this memory that its output is gone; a compiled call does so when it has written."""
    if state.tracer is None or type(target._data) is Node:
        note_written(target, here())


def _rebase(chain: list[Tensor], value: Tensor) -> None:
    """Give the base of a chain of views the history of having been overwritten with `value` in the innermost view."""
    for base, view, arguments in _steps(chain):
        old = _snapshot(base)
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
    """Read the views of a base from its new history."""
    for reference in list(root._storage.views) if root._storage is not None else ():
        view = reference()
        if view is not None and view is not root and view._view.tracked and _lineage(view)[1] is root:
            old = _snapshot(view)
            record(view._view.op, (view._view.base, *view._view.arguments), view, replaced=old)


# -- writes that are nothing else -------------------------------------------------------------------------------------


def _copy(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """src in input's shape and dtype."""
    return as_dtype(src, input.dtype).expand(input.shape)


def _fill(input: Tensor, value: Any) -> Tensor:
    """A number everywhere."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return as_dtype(value, input.dtype).expand(input.shape)


_COPY_RULES = (
    lambda g, out, input, src, non_blocking: g.new_zeros(input.shape),
    lambda g, out, input, src, non_blocking: g,
    None,
)
_FILL_RULES = (lambda g, out, input, value: g.new_zeros(input.shape), lambda g, out, input, value: g.sum())


class _Copy(InplaceOp):
    """What is copied may lie elsewhere."""

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Write what is copied, moved to where the target lies."""
        target, source, *rest = arguments
        if isinstance(source, Tensor):
            source = beside(source, target)
        return super().run((target, source, *rest))


def _views(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor and what it is a view of, as far as that is a view."""
    while tensor._view is not None:
        yield tensor
        tensor = tensor._view.base


class _Fill(InplaceOp):
    """Several elements of what is filled may lie in one place."""

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Write the number once to each place."""
        target, value = arguments
        if value is None or isinstance(value, (str, list, tuple)):
            raise TypeError(f"fill_(): argument 'value' must be Tensor or Number, not {type(value).__name__}")
        if type(target._data) is Node:
            if any(view._view.op.name == "expand" for view in _views(target)):
                raise TraceBreak("a number is written where several elements lie in one place", user_line())
            return super().run(arguments)
        places = target
        for dim, (size, stride) in enumerate(zip(target._data.shape, target._data.strides, strict=True)):
            if size > 1 and stride == 0:
                places = slice_dim(places, dim, 0, 1)
        super().run((places, value))
        return target


copy_ = _Copy(Op("copy", _copy, _COPY_RULES), converts=True)
fill = Op("fill", _fill, _FILL_RULES, ("value",))
fill.fitting = filled_fits
fill_ = _Fill(fill, converts=True)

INPLACE: dict[str, InplaceOp] = {"copy_": copy_, "fill_": fill_}
"""In-place ops by method name."""

_ARITHMETIC = """abs neg sign floor ceil trunc round sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p
sin cos tan asin acos atan sinh cosh tanh sigmoid erf erfc erfinv logical_not bitwise_not add sub mul div floordiv
remainder fmod pow atan2 eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
div_trunc tril triu scatter_add""".split()
for _name in _ARITHMETIC:
    INPLACE[f"{_name}_"] = InplaceOp(OPS[_name])
add_scaled_ = InplaceOp(OPS["add_scaled"])


def inplace(op: Op) -> InplaceOp:
    """Make the in-place version of an op."""
    made = INPLACE[f"{op.name}_"] = InplaceOp(op)
    return made
