"""Functions with a gradient of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.node import GradNode, described, overwritten, record, refresh
from eagerjit.runtime import mode
from eagerjit.runtime.source import here, line_of
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, new_tensor, version_of
from eagerjit.watching.observation import call_back, note_looked_up


class Context:
    """What a Function's forward leaves for its backward."""

    def __init__(self, name: str, needs_input_grad: tuple[bool, ...]):
        self._name, self._place = name, here()
        self.needs_input_grad = needs_input_grad
        self._saved: tuple[tuple[Tensor | None, int], ...] = ()
        self._pushed: tuple[tuple[Tensor | None, int], ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors; reading them back checks that they were not overwritten since."""
        self._saved = _versioned(tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, which reads them as `saved_tensors`."""
        self._pushed = _versioned(tensors)

    def kept(self) -> tuple[Tensor | None, ...]:
        """What `save_for_backward` kept, overwritten or not."""
        return tuple(t for t, _ in self._saved)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What `save_for_backward` kept."""
        for tensor, version in self._saved:
            if tensor is not None and version_of(tensor) != version:
                assert tensor._storage is not None
                versions = f"now at version {version_of(tensor)} (expected {version})"
                what = f"{described(tensor)}, {versions}, saved for the gradient"
                raise RuntimeError(overwritten(what, self._name, line_of(self._place), tensor._storage.source))
        return tuple(t for t, _ in self._saved)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self._constant = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that forward has written these arguments in place; they are results too."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that nothing reached come as zeros (the default) or None."""
        self._materialize = value


def _versioned(tensors: tuple[Tensor | None, ...]) -> tuple[tuple[Tensor | None, int], ...]:
    return tuple((t, 0 if t is None else version_of(t)) for t in tensors)


class FunctionOp:
    """The op that the tape's node of one call refers to.

    places  which of what forward has returned are tensors: the node's results
    """

    rules = ()

    def __init__(self, function: type[Function], context: Context, results: list[Any]):
        self.name, self.function, self.context = function.__name__, function, context
        self.backward_name = f"{self.name}Backward"
        self.places = [i for i, r in enumerate(results) if isinstance(r, Tensor)]
        self.count = len(results)
        self.absent_gradients = not context._materialize

    @property
    def saved_by(self) -> tuple[()] | None:
        """None where the context has kept tensors."""
        return None if self.context.kept() else ()

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """What the user's backward returns, one gradient per argument."""
        by_place = dict(zip(self.places, grads, strict=True))
        note_looked_up(self.function, "backward")
        results = call_back(self.function.backward, self.context, *map(by_place.get, range(self.count)))
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        count = len(needs)
        if len(results) > count and all(r is None for r in results[count:]):
            results = results[:count]
        if len(results) != count:
            raise RuntimeError(
                f"function {self.backward_name} returned an incorrect number of gradients (expected {count}, got "
                f"{len(results)})"
            )
        fitted = enumerate(zip(results, node.inputs or (), needs, strict=False))
        return [self._fitting(i, r, x) if need and r is not None else r for i, (r, x, need) in fitted]

    def push(self, node: GradNode, tangents: list[Any]) -> list[Tensor]:
        """The tangents of the results by the user's `jvp`; what has none comes as zeros, and is returned as None."""
        context, inputs = self.context, node.inputs or ()
        real = [context._materialize and isinstance(x, Tensor) and x.dtype.is_differentiable for x in inputs]
        whole = zip(tangents, inputs, real, strict=True)
        given = [x.detach().new_zeros(x.shape) if t is None and needed else t for t, x, needed in whole]
        before = context._saved
        context._saved = context._pushed or before
        try:
            found = call_back(self.function.jvp, context, *given)
        finally:
            context._saved = before
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        pairs = [(results[place], o) for place, o in zip(self.places, node.outputs(), strict=True)]
        return [o.detach().new_zeros(o.shape) if r is None else r for r, o in pairs if o.dtype.is_differentiable]

    def _fitting(self, index: int, grad: Any, input: Tensor) -> Tensor:
        """A gradient in the shape and dtype of its input: added up where that was broadcast."""
        if not isinstance(grad, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
        shape, wanted = tuple(grad.shape), tuple(input.shape)
        if shape != wanted:
            pairs = zip(reversed(wanted), reversed(shape), strict=False)
            if len(wanted) > len(shape) or not all(a in (1, b) for a, b in pairs):
                raise RuntimeError(
                    f"Function {self.name}Backward returned an invalid gradient at index {index} - got {list(shape)} "
                    f"but expected shape compatible with {list(wanted)}"
                )
            grad = grad.sum_to_size(wanted)
        if grad.dtype.is_complex and not input.dtype.is_complex:
            raise RuntimeError(f"Function {self.name}Backward returned a complex gradient for {described(input)}")
        return grad if grad.dtype is input.dtype else grad.to(input.dtype)


NO_TANGENTS = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."

FunctionCtx = Context
"""PyTorch's name, for annotations."""


class Function:
    """An operation with a hand-written gradient: define `forward(ctx, ...)` and `backward(ctx, *grads)`, call `apply`.

    `setup_context(ctx, inputs, output)` may be defined instead of giving `forward` the context. Under `func.vmap` all
    three see one example at a time; where `vmap(info, in_dims, *args)` is defined, it computes the results instead, for
    all examples: args have these in the dimensions that in_dims names (None: they are shared), info tells their number
    (`batch_size`) and `randomness`, and what is returned is (results, their dimensions of examples).
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Compute the results for all examples."""
        raise NotImplementedError("vmap is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients for the arguments from those of the results."""
        raise NotImplementedError("You must implement the backward function for your custom autograd.Function.")

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Tangents of the results from those of the arguments."""
        raise NotImplementedError(NO_TANGENTS)

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward and record backward."""
        if cls.setup_context is not Function.setup_context and cls.forward.__defaults__:
            given = inspect.signature(cls.forward).bind(*args)
            given.apply_defaults()
            args = given.args
        context = Context(cls.__name__, tuple(isinstance(a, Tensor) and a._requires_grad for a in args))
        before = mode.set_grad_mode(False)
        try:
            histories = {id(a): _history(a) for a in args if isinstance(a, Tensor)}
            if cls.setup_context is Function.setup_context:
                result = cls.forward(context, *args)
            else:
                result = cls._computed(args)
                cls.setup_context(context, args, result)
        finally:
            mode.set_grad_mode(before)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        dirty = {id(t) for t in context._dirty}
        returned = {id(a) for a in args if isinstance(a, Tensor)} - dirty
        results = [r.detach() if id(r) in returned else r for r in results]
        if before and any(context.needs_input_grad):
            if (tracer := state.tracer) is not None:
                results = [tracer.own_result(r) if isinstance(r, Tensor) and id(r) not in dirty else r for r in results]
            op = FunctionOp(cls, context, results)
            if dirty:
                _record_dirty(op, args, results, context._dirty, histories)
            else:
                told = [r for r in results if isinstance(r, Tensor)]
                record(op, args, tuple(told) if len(told) != 1 else told[0])
            for r in results:
                if any(r is c for c in context._constant):
                    r._node, r._requires_grad = None, False
        return tuple(results) if isinstance(result, (tuple, list)) else results[0]

    @classmethod
    def _computed(cls, args: tuple[Any, ...]) -> Any:
        """What forward returns; for one of many examples what the function computes for all."""
        tracer = state.tracer
        if tracer is None or not tracer.single_example or cls.vmap is Function.vmap:
            return cls.forward(*args)
        if cls.generate_vmap_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden "
                "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
                "avoid ambiguity."
            )
        return tracer.by_own_rule(cls.vmap, cls.forward, args)


def _history(tensor: Tensor) -> Tensor:
    """A tensor's memory with the history that it has now."""
    refresh(tensor)
    old = new_tensor(tensor._data)
    old._node, old._index, old._requires_grad = tensor._node, tensor._index, tensor._requires_grad
    return old


def _record_dirty(
    op: FunctionOp, args: tuple[Any, ...], results: list[Any], dirty: tuple[Tensor, ...], histories: dict[int, Tensor]
) -> None:
    """Give an argument that forward has written the history of being the result."""
    from eagerjit.ops.histories import record_written

    if len(results) != 1 or len(dirty) != 1 or results[0] is not dirty[0] or id(dirty[0]) not in histories:
        raise RuntimeError(f"{op.name}: a function that marks an argument as dirty returns it, and nothing else")
    target = dirty[0]
    old = histories[id(target)]
    record_written(op, tuple(old if a is target else a for a in args), target, old)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward whose own gradient does not exist: it runs without recording."""

    @functools.wraps(function)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        before = mode.set_grad_mode(False)
        try:
            return function(ctx, *grads)
        finally:
            mode.set_grad_mode(before)

    return wrapped
