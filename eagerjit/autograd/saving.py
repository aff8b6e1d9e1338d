"""Values that operations keep for their gradients, passed through functions of the user's: packed when they are kept,
unpacked when a gradient reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eagerjit.autograd.node import GradNode, any_requires_grad, positions_read
from eagerjit.autograd.release import hollow, without_value
from eagerjit.runtime import mode
from eagerjit.state import set_saving, state
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, user_line

_refusals: list[str] = []


class saved_tensors_hooks:
    """A context in which what operations keep for their gradients is `pack_hook(tensor)`.

    pack_hook       tensor -> whatever is to be kept in its place
    unpack_hook     what was kept -> a tensor of the same shape and dtype

    Compiled calls run eagerly in it.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _refusals:
            raise RuntimeError(_refusals[-1])
        if state.tracer is not None:
            raise TraceBreak("values kept for gradients pass through functions of Python", user_line())
        self._before = set_saving(self)

    def __exit__(self, *exc: object) -> None:
        set_saving(self._before)

    def keep(self, node: GradNode) -> None:
        """Let a new node keep packed values."""
        op = node.op
        if getattr(op, "partial", False) or node.inputs is None:
            return
        read = _positions(op, node.inputs)
        inputs, packed = list(node.inputs), {}
        for position, x in enumerate(inputs):
            if isinstance(x, Tensor) and (read is None or position + 2 in read):
                packed[position] = self._pack(x._data)
                inputs[position] = x if x._node is None and x._requires_grad else without_value(x)
        results = node.output
        if (1 in read) if read is not None else not getattr(op, "derives", False):
            datas = results if type(results) is tuple else (results,)
            results = [self._pack(data) for data in datas]
            node.output = tuple(map(hollow, datas)) if type(node.output) is tuple else hollow(node.output)
        else:
            results = None
        node.inputs = tuple(inputs)
        node.op = _Packed(op, packed, results, self.unpack_hook)

    def _pack(self, data: np.ndarray) -> Any:
        with _plainly():
            return self.pack_hook(new_tensor(data))


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    """A context in which nothing is recorded and nothing packed."""
    before, saving = mode.set_grad_mode(False), set_saving(None)
    try:
        yield
    finally:
        set_saving(saving)
        mode.set_grad_mode(before)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A context in which `saved_tensors_hooks` raises RuntimeError."""
    _refusals.append(error_message)
    try:
        yield
    finally:
        _refusals.pop()


def _positions(op: Any, arguments: tuple[Any, ...]) -> frozenset[int] | None:
    """Which of (g, out, *arguments) the gradient reads, None for all."""
    if op.rules is None:
        return None
    used = [positions_read(r) for r, a in zip(op.rules, arguments, strict=False) if r and any_requires_grad((a,))]
    return frozenset().union(*used)


class _Packed:
    """Stands on the tape for an operation whose values are packed."""

    def __init__(self, op: Any, inputs: dict[int, Any], results: list[Any] | None, unpack: Callable[[Any], Tensor]):
        self._op, self._inputs, self._results, self._unpack = op, inputs, results, unpack

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)

    def backward(self, node: GradNode, grads: Any, needs: Any, create_graph: bool) -> Any:
        """The operation's gradients, from the values unpacked."""
        shown = object.__new__(GradNode)
        for slot in GradNode.__slots__:
            if slot != "__weakref__":
                setattr(shown, slot, getattr(node, slot))
        assert node.inputs is not None
        inputs = list(node.inputs)
        for position, packed in self._inputs.items():
            value, x = self._value(packed, inputs[position]), inputs[position]
            if x._node is not None or not x._requires_grad or not create_graph:
                value._node, value._index, value._requires_grad = x._node, x._index, x._requires_grad
                inputs[position] = value
        shown.op, shown.inputs = self._op, tuple(inputs)
        if self._results is not None:
            datas = tuple(self._value(p, o)._data for p, o in zip(self._results, node.outputs(), strict=True))
            shown.output = datas if type(node.output) is tuple else datas[0]
        return self._op.backward(shown, grads, needs, create_graph)

    def _value(self, packed: Any, like: Tensor) -> Tensor:
        with _plainly():
            found = self._unpack(packed)
        if not isinstance(found, Tensor):
            kind = type(found).__name__
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got {kind}")
        if tuple(found.shape) != tuple(like.shape) or found.dtype is not like.dtype:
            raise RuntimeError(
                f"unpack_hook gave a {found.dtype} tensor of shape {list(found.shape)} for a {like.dtype} one of shape "
                f"{list(like.shape)}"
            )
        return new_tensor(found._data)
