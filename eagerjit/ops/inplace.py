"""In-place operations: an op's result written into its first argument, and what that does to the autograd graph.

A write gives the tensor a new history whose node remembers the tensor as it was. A write through a view rewrites the
history of the base (the base with the view overwritten), and every view is then read from its base's new history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from eagerjit.autograd.node import any_requires_grad, positions_read
from eagerjit.calling.dispatch import OPS, Op
from eagerjit.compiler.ir import Node
from eagerjit.ops.histories import mark_overwritten, record_write, refuse_made_without_grad
from eagerjit.ops.pointwise import as_dtype, is_operand
from eagerjit.ops.views import slice_dim
from eagerjit.ops.wording import also
from eagerjit.runtime import mode
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.layout import has_each_element_once
from eagerjit.runtime.native.context import AS_FOUND, PLAINLY, READS_RESULT
from eagerjit.state import state
from eagerjit.tensors.fitting import filled_fits
from eagerjit.tensors.mistakes import explained
from eagerjit.tensors.placement import beside, copied_array
from eagerjit.tensors.promotion import TYPE_NAMES, can_cast
from eagerjit.tensors.tensor import WRITTEN_SEVERAL_TIMES, Tensor, check_writable, new_tensor, share_storage
from eagerjit.watching.observation import TraceBreak, user_line

_WRITTEN = """\
Returns the tensor. Raises RuntimeError for a leaf that requires grad and for a result of another shape{}."""
_OF_DTYPE = ", or of\na dtype that the tensor's cannot hold: fractions in integers, complex numbers in real ones"


class InplaceOp(Op):
    """`functional` computed on (target, *rest) and written into target, which is returned."""

    writes = True
    described = ""
    """What the method's docstring says where there is no function that it is a version of."""
    keeps_history = False
    """Whether the tensor has the history it had, leaves included, as PyTorch has it for `logical_and_` and the like."""

    def __init__(self, functional: Op, converts: bool = False):
        self.functional, self.fitting, self.ordered = functional, functional.fitting, functional.ordered
        body = functional.body

        def write(self: Any, *rest: Any) -> Tensor:
            _store(self, body(self, *rest), converts)
            return self

        super().__init__(f"{functional.name}_", write, differentiable=False)
        self.parameters, self.defaults = ("self", *functional.parameters[1:]), functional.defaults
        self.numbers, self.steady, self.kinds = functional.numbers - {0}, functional.steady, functional.kinds
        self.entries = []
        self.call = self._written(self.slow, AS_FOUND)
        self.call.__doc__ = body.__doc__

    def method(self) -> Callable[..., Tensor]:
        """The Tensor method: the native call where no other tensor's history can depend on the memory written."""

        def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            (call if self._view is not None and _is_plain(self) else slow)(self, *args, **kwargs)
            return self

        call, slow = self.call, self.slow
        method = self._written(explained(inplace, self.name, like=self.functional.body), PLAINLY)
        method.__doc__ = also(
            self.described or f"In-place version of `{self.functional.name}`.",
            _WRITTEN.format("" if self.described else _OF_DTYPE),
        )
        return method

    def _written(self, slow: Callable[..., Any], writes: int) -> OpCall:
        described = self.parameters, self.defaults, self.numbers
        return OpCall(
            self.name, slow, self.functional, *described, record=False, writes=writes, copying=self._copying,
            siblings=self.entries,
        )  # fmt: skip

    def _copying(self) -> int:
        """A bit for each parameter whose gradient reads what was written over, and one where any reads the result."""
        rules = self.functional.rules
        if rules is None:
            return (1 << len(self.parameters)) - 1
        read = [positions_read(rule) if rule else frozenset() for rule in rules]
        copied = sum(1 << i for i, positions in enumerate(read) if 2 in positions)
        return copied | (READS_RESULT if any(1 in positions for positions in read) else 0)

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Write, and put the write on the tape where gradients flow."""
        target = arguments[0]
        if not self.keeps_history and mode.grad_mode() and any_requires_grad(arguments):
            record_write(self, target, arguments)
        else:
            if mode.grad_mode():
                refuse_made_without_grad(target)
            self.write(arguments)
        return target

    def write(self, arguments: tuple[Any, ...]) -> None:
        """Write without regard to gradients, noting on the node that made the memory that its output is gone."""
        target = arguments[0]
        if state.tracer is None and type(target._data) is not np.ndarray:
            self._noted(*arguments)
            return
        before = mode.set_grad_mode(False)
        try:
            if state.tracer is not None:
                mark_overwritten(target)
                self._recorded(arguments)
            elif _is_plain(target):
                self._direct(*arguments)
            else:
                self._noted(*arguments)
        finally:
            mode.set_grad_mode(before)

    def _recorded(self, arguments: tuple[Any, ...]) -> None:
        """Record the write; of several errors the one that a call meets first."""
        try:
            self.body(*arguments)
        except RuntimeError as error:
            if _shows_elements_several_times(arguments[0]):
                raise RuntimeError(WRITTEN_SEVERAL_TIMES) from None
            if str(error) == WRITTEN_SEVERAL_TIMES:
                raise TraceBreak("it writes a part of what shows elements several times", user_line()) from None
            raise

    @cached_property
    def _direct(self) -> OpCall:
        """The call that puts nothing on the tape."""
        made = self._written(self._noted, AS_FOUND)
        made.serve_as(self.call)
        return made

    def _noted(self, *arguments: Any) -> Any:
        mark_overwritten(arguments[0])
        return self.eager(arguments)

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


def _shows_elements_several_times(tensor: Tensor) -> bool:
    """Whether there are several elements along a dimension that are one in memory, as `check_writable` asks."""
    sizes = tensor.shape
    return 0 not in sizes and any(n > 1 and tensor.stride(d) == 0 for d, n in enumerate(sizes))


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


# -- writes that are nothing else -------------------------------------------------------------------------------------


def _copy(input: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """other in input's shape and dtype."""
    if not is_operand(other):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return as_dtype(other, input.dtype).expand(input.shape)


def _fill(input: Tensor, value: Any) -> Tensor:
    """A number everywhere."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return as_dtype(value, input.dtype).expand(input.shape)


_COPY_RULES = (
    lambda g, out, input, other, non_blocking: g.new_zeros(input.shape),
    lambda g, out, input, other, non_blocking: g,
    None,
)
_FILL_RULES = (lambda g, out, input, value: g.new_zeros(input.shape), lambda g, out, input, value: g.sum())


class _Copy(InplaceOp):
    """What is copied may lie elsewhere."""

    described = "Write other's elements here, broadcast and converted, from wherever they lie."

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

    described = "Write a number, or a tensor without dimensions, to all elements."

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
div_trunc floor_divide tril triu scatter_add""".split()
for _name in _ARITHMETIC:
    INPLACE[f"{_name}_"] = InplaceOp(OPS[_name])
    INPLACE[f"{_name}_"].keeps_history = _name.startswith("logical")
add_scaled_ = InplaceOp(OPS["add_scaled"])


def inplace(op: Op) -> InplaceOp:
    """Make the in-place version of an op."""
    made = INPLACE[f"{op.name}_"] = InplaceOp(op)
    return made
