"""A compiled version of a jitted function: what finishes a call of it, and its node on the tape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagerjit import pytree
from eagerjit.autograd import engine
from eagerjit.autograd.expansion import EXPANDED, GRADIENTS
from eagerjit.autograd.node import GradNode
from eagerjit.compilation import Report
from eagerjit.guards import Structure
from eagerjit.runtime import mode
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.source import here
from eagerjit.tensor import Tensor, share_storage


@dataclass
class Onto:
    """The same gradient added, use by use, to what reached a tensor before: so its sums are those of the plain call.

    targets     the tensors that the function uses more than once
    compile     makes the executable, at the first call that needs it
    """

    targets: list[Any]
    compile: Callable[[], Any]
    executable: Any = None


@dataclass
class Backward:
    """The gradient of a compiled call: an executable over gradients of outputs, kept values, ints, outside tensors."""

    name: str
    executable: Any
    roots: list[int]
    kept: list[int]
    integers: list[int]
    tensors: list[Any]
    targets: list[Any]
    report: Report
    rerun: Callable[..., Any]
    onto: Onto
    fastmath: bool = False
    gradient: Any = None


@dataclass
class Variant:
    """One compiled version of a function: how to run it, when it applies, and what came of compiling it."""

    executable: Any
    structure: Any
    result: Any
    n_user: int
    report: Report
    guards: list[Callable[[], bool]]
    state: Structure
    backward: Backward | None = None
    freed: list[int] = field(default_factory=list)
    aliases: list[tuple[int, Any]] = field(default_factory=list)
    rebuild: Callable[[Sequence[Any]], Any] | None = None
    key: tuple[Any, ...] = ()
    numbers: list[int] = field(default_factory=list)
    notes: list[tuple[Callable[..., None], list[int]]] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether the executable's result is the function's result."""
        return self.rebuild is None and self.backward is None and not (
            self.freed or self.aliases or self.numbers or self.notes
        )

    def finish(self, flat: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """The function's result from the executable's outputs."""
        for action, indices in self.notes:
            action(*[flat[i] for i in indices])
        for index in self.freed:
            flat[index]._node, flat[index]._requires_grad = freed_node(), True
        for index, base in self.aliases:
            share_storage(flat[index], flat[base] if isinstance(base, int) else base(arguments))
        if self.backward is not None and mode.grad_mode():
            self._connect(flat, arguments)
        user: Sequence[Any] = flat[: self.n_user]
        if self.numbers:
            user = tuple([x._data.item() if i in self.numbers else x for i, x in enumerate(user)])
        if self.rebuild is None:
            return user[0] if self.result == pytree.LEAF else user
        return self.rebuild(user)

    def _connect(self, flat: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Put the call on the tape as one node."""
        backward = self.backward
        assert backward is not None
        tensors = tuple(arguments[t] if isinstance(t, int) else t for t in backward.tensors)
        node = object.__new__(GradNode)
        node.op = CallOp(self, arguments)
        node.inputs = tensors
        node.output = tuple(flat[i]._data for i in backward.roots)
        node.sequence = mode.next_sequence()
        node.versions = tuple(0 if t._storage is None else t._storage.version for t in tensors)
        node.code, node.offset = here() or (None, None)
        node.hooks = node.overwritten = node.replaced = None
        node.op.kept = [*(flat[i] for i in backward.kept), *(arguments[i] for i in backward.integers)]
        for position, index in enumerate(backward.roots):
            out = flat[index]
            out._node, out._index, out._requires_grad = node, position, True


class CallOp:
    """The op of a node that is a compiled call."""

    rules = None
    fused_rules = False
    accumulates = True

    def __init__(self, variant: Variant, arguments: tuple[Any, ...]):
        assert variant.backward is not None
        self.variant, self.arguments = variant, arguments
        self.name = variant.backward.name
        self.kept: list[Any] = []

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Run the compiled gradient; for a gradient that is itself to be differentiated, run the function again."""
        backward = self.variant.backward
        assert backward is not None and node.inputs is not None
        found = MISS
        if not create_graph:
            found = backward.executable.run((*[g.contiguous() for g in grads], *self.kept), node.inputs)
        if found is MISS:
            found = self._differentiable(node, grads)
        values = iter(found if isinstance(found, tuple) else (found,))
        results = {t: next(values) for t in backward.targets}
        return tuple(results.get(t) for t in backward.tensors)

    def backward_onto(self, node: GradNode, grads: tuple[Any, ...], known: list[Any]) -> tuple[Any, ...]:
        """The gradients of the inputs added to those known, in the order in which the plain call adds them."""
        backward = self.variant.backward
        assert backward is not None and node.inputs is not None
        onto = backward.onto
        before = dict(zip(backward.tensors, known, strict=True))
        if not any(before.get(t) is not None for t in onto.targets):
            results = self.backward(node, grads, (), False)
            pairs = zip(known, results, strict=True)
            return tuple(g if k is None or g is None else k + g for k, g in pairs)
        if onto.executable is None:
            onto.executable = onto.compile()
        starts = [_start(before[t], node.inputs[backward.tensors.index(t)]) for t in onto.targets]
        found = onto.executable.run((*[g.contiguous() for g in grads], *starts, *self.kept), node.inputs)
        if found is MISS:
            raise RuntimeError(f"{self.name}: what the function reads has changed since it was called")
        totals = dict(zip(backward.targets, found if isinstance(found, tuple) else (found,), strict=True))
        results = []
        for t, k in zip(backward.tensors, known, strict=True):
            g = totals.get(t)
            results.append(g if t in onto.targets or k is None or g is None else k + g)
        return tuple(results)

    def _differentiable(self, node: GradNode, grads: tuple[Any, ...]) -> Any:
        """The gradients by a jitted function that computes them from the call's arguments: it has gradients itself."""
        variant, backward = self.variant, self.variant.backward
        assert backward is not None
        if variant.report.trace.writes:
            raise RuntimeError(
                f"{self.name}: a gradient of a gradient needs the function to run again, and it writes tensors in place"
            )
        if not all(guard() for guard in variant.guards) or variant.executable.run(self.arguments) is MISS:
            raise RuntimeError(f"{self.name}: what the function reads has changed since it was called")
        if backward.gradient is None:
            backward.gradient = _gradient_function(backward)
        found = backward.gradient(self.arguments, grads)
        made = next((g._node for g in found if g._node is not None and isinstance(g._node.op, CallOp)), None)
        if made is not None:
            again = functools.partial(_results_again, backward, self.arguments)
            positions = made.op.variant.backward.roots
            gradient_again = functools.partial(_gradients_again, node, backward, self.arguments, grads, positions)
            GRADIENTS[made] = node, again, gradient_again
        return found


def _results_again(backward: Backward, arguments: tuple[Any, ...]) -> list[Tensor]:
    """The results of a compiled call that have gradients, by the plain call."""
    before = mode.set_grad_mode(True)
    try:
        outputs = backward.rerun(arguments)
    finally:
        mode.set_grad_mode(before)
    return [outputs[i] for i in backward.roots]


def _gradients_again(
    node: GradNode, backward: Backward, arguments: tuple[Any, ...], grads: tuple[Any, ...], positions: list[int]
) -> list[Tensor]:
    """Its gradients, from the results that the plain call made."""
    wanted = [arguments[t] if isinstance(t, int) else t for t in backward.targets]
    found = engine.run(EXPANDED[node], list(grads), wanted, True, True)
    unique = list({id(g): g for g in found}.values())
    return [unique[i] for i in positions]


def _gradient_function(backward: Backward) -> Any:
    """A jitted function (arguments, gradients of results) -> gradients of the call's tensors."""
    from eagerjit.jit import JitFunction, Options

    def gradient(arguments: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        roots = _results_again(backward, arguments)
        wanted = [arguments[t] if isinstance(t, int) else t for t in backward.targets]
        return tuple(engine.run(roots, list(grads), wanted, True, mode.grad_mode()))

    gradient.__name__ = gradient.__qualname__ = f"{backward.name}_gradient"
    return JitFunction(gradient, Options(fullgraph=True, fastmath=backward.fastmath))


def _start(known: Any, tensor: Tensor) -> Any:
    """What a sum starts from: what is known, or -0.0, which added to anything leaves it as it is."""
    return known.contiguous() if known is not None else tensor.detach().new_full(tensor.shape, -0.0)


_freed: list[GradNode] = []


def freed_node() -> GradNode:
    """The node of a result whose graph was used up inside the function."""
    if not _freed:
        node = object.__new__(GradNode)
        node.op = _Used()
        node.inputs = node.output = node.versions = node.code = node.offset = None
        node.hooks = node.overwritten = node.replaced = None
        node.sequence = 0
        _freed.append(node)
    return _freed[0]


class _Used:
    name = "jit"
