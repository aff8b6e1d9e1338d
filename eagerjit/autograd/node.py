"""GradNode: one public operation on the tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from eagerjit.autograd import node_hooks
from eagerjit.autograd.leaf_nodes import accumulator
from eagerjit.compiler.ir import Node
from eagerjit.runtime import mode
from eagerjit.runtime.entry import is_recorded_natively
from eagerjit.runtime.instructions import instructions
from eagerjit.runtime.native.agreed import KIND_STRANGE
from eagerjit.runtime.native.context import MOST_BITS
from eagerjit.runtime.source import Place, here, line_of
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import pause_observation, resume_observation

_SHAPE_ATTRIBUTES = ("shape", "dtype", "ndim")


AFTER_ALL_HOOKS = 1 << 62
"""Hooks of nodes whose numbers are from here on are called behind all others."""


class GradNode:
    """A recorded operation: what it was called with and what it returned.

    op          the operation, or what stands for one on the tape, such as a compiled call
    inputs      the call's arguments, tensors among them
    output      data of the result (a tuple for several results): not the Tensor, which would make a cycle
    sequence    position in execution order; the engine goes through nodes backwards in this order
    versions    per input how often its memory had been written, None where never
    replaced    for an in-place operation the tensor as it was before
    overwritten where the result was overwritten in place later
    code        the user's code that called it, in a trace its line
    offset      the instruction in that code
    """

    __slots__ = (
        "__weakref__",
        "code",
        "hooks",
        "inputs",
        "offset",
        "op",
        "output",
        "overwritten",
        "replaced",
        "sequence",
        "versions",
    )

    op: Any
    inputs: tuple[Any, ...] | None
    output: Any
    sequence: float
    versions: tuple[int, ...] | None
    code: CodeType | str | None
    offset: int | None
    hooks: dict[int, dict[int, Callable[..., Any]]] | None
    replaced: Tensor | None
    overwritten: Place | None

    def name(self) -> str:
        """What the gradient of the operation is called."""
        known_as = getattr(self.op, "on_tape", self.op.name)
        default = f"{''.join(word.capitalize() for word in known_as.split('_'))}Backward0"
        return str(getattr(self.op, "backward_name", None) or default)

    @property
    def source(self) -> str:
        """`file:line` of the call in the user's code."""
        code = self.code
        return (code or "") if code is None or isinstance(code, str) else line_of((code, self.offset or 0))

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def overwrite(self, index: int, place: Any) -> None:
        """Note where this result was overwritten, if its gradient reads it."""
        if self.reads_result(index):
            self.overwritten = place
        if (note := getattr(self.op, "note_overwritten", None)) is not None:
            note(index, place)

    def reads_result(self, index: int) -> bool:
        """Whether gradient rules that read results read this one."""
        read = getattr(self.op, "results_read", None)
        return read is None or index in read

    def outputs(self) -> tuple[Tensor, ...]:
        """The results; those that have gradients are connected to this node."""
        datas = self.output if type(self.output) is tuple else (self.output,)
        tensors = []
        for index, data in enumerate(datas):
            tensor = new_tensor(data)
            if tensor.dtype.is_differentiable:
                tensor._node, tensor._index, tensor._requires_grad = self, index, True
            tensors.append(tensor)
        return tuple(tensors)

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Calls fn(gradients of arguments, of results) whenever the former are computed; a tuple replaces these."""
        return node_hooks.register(self, node_hooks.AFTER, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Calls fn(gradients of results) before those of the arguments are computed; a tuple replaces these."""
        return node_hooks.register(self, node_hooks.BEFORE, fn)

    @property
    def n_outputs(self) -> int:
        """The number of results."""
        return len(self.output) if type(self.output) is tuple else 1

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that the gradients of tensors go to, with the index of their result; None where none flows."""
        given = [x for x in _flat(self.inputs or ()) if isinstance(x, Tensor) and x.dtype.is_differentiable]
        return tuple(_end(edge(x, self)) for x in given)


def _flat(arguments: Sequence[Any]) -> Iterator[Any]:
    for x in arguments:
        if type(x) in (list, tuple):
            yield from x
        else:
            yield x


def _end(tensor: Tensor | None) -> tuple[Any, int]:
    """What a gradient of the tensor goes to."""
    if tensor is None:
        return None, 0
    return (accumulator(tensor), 0) if tensor._node is None else (tensor._node, tensor._index)


class Several:
    """The op of a node that stands for several operations.

    Its gradients are added to what has reached its inputs before, use by use, as those of the operations would be.

    walked_as       what it is to a walk by native code
    """

    rules = None
    partial = True
    walked_as = KIND_STRANGE
    __slots__ = ()

    @property
    def inner(self) -> tuple[int, ...]:
        """Which of its results others depend on."""
        return ()

    @property
    def repeatable(self) -> bool:
        """Whether `again` makes its results by the operations that it stands for."""
        return False

    def n_outputs(self, node: GradNode) -> int:
        """How many results gradients may reach."""
        raise NotImplementedError

    def check(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """Refuse values that were overwritten after they were saved."""

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients for the node's inputs."""
        return self.backward_onto(node, grads, needs, [None] * len(needs), create_graph)

    def backward_onto(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """Gradients for the inputs that need one, added to those known in the order in which the plain call adds."""
        raise NotImplementedError

    def uses(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool
    ) -> Sequence[Sequence[Any]]:
        """Gradients for the inputs that need one, use by use where the node knows these apart."""
        return [[] if g is None else [g] for g in self.backward(node, tuple(grads), needs, create_graph)]

    def release(self, node: GradNode, gone: Collection[GradNode]) -> bool:
        """Note that what was walked last is used up, after the nodes gone; whether nothing is left to walk."""
        return True


def record(op: Any, arguments: tuple[Any, ...], result: Any, replaced: Tensor | None = None) -> None:
    """Put a call on the tape if an argument needs a gradient and a result can have one."""
    tracer = state.tracer
    refresh_all(arguments)
    watched = state.saving is not None or state.counting is not None
    if tracer is None and not watched and is_recorded_natively(op, arguments, result, replaced):
        return
    if not any_requires_grad(arguments):
        return
    results = result if type(result) is tuple else (result,)
    if not any(isinstance(r, Tensor) and r.dtype.is_differentiable for r in results):
        return
    node = object.__new__(GradNode)
    node.op, node.inputs = op, arguments
    node.output = tuple(r._data for r in results) if type(result) is tuple else result._data
    node.sequence = mode.next_sequence()
    node.versions = versions_of(arguments)
    if tracer is not None and tracer.source is not None:
        node.code, node.offset = tracer.source, None
    else:
        node.code, node.offset = here() or (None, None)
    node.hooks = node.overwritten = None
    node.replaced = replaced
    if state.saving is not None and tracer is None:
        state.saving.keep(node)
    if state.counting is not None and tracer is None:
        state.counting.recorded(node)
    for index, r in enumerate(results):
        if r.dtype.is_differentiable:
            r._node, r._index, r._requires_grad = node, index, True


def refresh(tensor: Tensor) -> None:
    """Bring the history of a view up to date: where its base was written since, it is read from there anew.

    Views wait until they are used: so a write costs the same however many there are. The order of gradients does not
    depend on that: the node gets the place right behind the write that was kept for it.
    """
    view, root = tensor._view, tensor
    while root._view is not None and root._view.tracked:
        root = root._view.base
    if root is tensor or (written := root._node) is None or not tensor.dtype.is_differentiable:
        return
    if tensor._node is not None and tensor._node.sequence >= written.sequence:
        return
    if state.tracer is not None and type(tensor._data) is not Node:  # the node of the compiled call sees to it
        return
    refresh(view.base)
    if view.base._requires_grad:
        plain = mode.set_plain(True)  # classes of views are not asked
        try:
            record(view.op, (view.base, *view.arguments), tensor, replaced=as_it_is(tensor))
        finally:
            mode.set_plain(plain)
        tensor._node.sequence = written.sequence + 1 + view.number


def refresh_all(values: Any) -> None:
    """The same for all tensors among values, and in lists among them."""
    for x in values:
        if type(x) in (tuple, list):
            refresh_all(x)
        elif isinstance(x, Tensor) and x._view is not None:
            refresh(x)


def as_it_is(tensor: Tensor, data: Any = None) -> Tensor:
    """Another tensor with the history that this one has now, over its value or other data."""
    tracer, data = state.tracer, tensor._data if data is None else data
    made: Tensor = new_tensor(data) if tracer is None else tracer.wrap(tracer.value(tensor))
    made._node, made._index, made._requires_grad = tensor._node, tensor._index, tensor._requires_grad
    return made


def noted(op: Any, arguments: tuple[Any, ...], result: Any) -> Any:
    """The result of a call, put on the tape. An argument that is the result itself, as gradients and tangents of sums
    are, has a history already: the result is another tensor then.
    """
    if any_requires_grad(arguments):
        result = _told_from(result, arguments)
        record(op, arguments, result)
    return result


def _told_from(result: Any, arguments: tuple[Any, ...]) -> Any:
    if isinstance(result, tuple):
        parts = [_told_from(part, arguments) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return result.detach() if any(result is a for a in arguments) else result


def edge(tensor: Tensor, node: GradNode, found: dict[int, tuple[float, Tensor]] | None = None) -> Tensor | None:
    """The tensor as it was when `node` read it, if a gradient flows to it: in-place writes changed its history.

    A walk keeps in `found` what it has found for a node, from where the search goes on for nodes before that.
    """
    read, reshaped = tensor, False
    if found is not None and (last := found.get(id(tensor))) is not None and last[0] >= node.sequence:
        tensor = last[1]
    while tensor._node is not None and tensor._node.sequence > node.sequence:
        before = tensor._node.replaced
        if before is None:
            return None
        reshaped = reshaped or hasattr(tensor._node.op, "view_eager")
        tensor = before
    if found is not None and not reshaped:
        found[id(read)] = node.sequence, tensor
    if reshaped:
        node.inputs = tuple([_exchanged(x, read, tensor) for x in node.inputs or ()])
    return tensor if tensor._requires_grad else None


def _exchanged(argument: Any, tensor: Tensor, other: Tensor) -> Any:
    """An argument with another tensor in a tensor's place."""
    if type(argument) in (tuple, list):
        return type(argument)(_exchanged(x, tensor, other) for x in argument)
    return other if argument is tensor else argument


def described(tensor: Tensor) -> str:
    """A tensor in an error's message."""
    return f"a {tensor.dtype.name} tensor of shape {list(tensor.shape)}"


def overwritten(what: str, name: str, recorded: str, place: Place | None) -> str:
    """The message about a value that a gradient needs and that is gone."""
    return (
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {what} of "
        f"{name} "
        f"(recorded at {recorded or 'an unknown line'}), was overwritten at {line_of(place) or 'an unknown line'}. "
        "Clone it before the in-place operation."
    )


def any_requires_grad(arguments: Any) -> bool:
    """Whether a tensor among the arguments, or in a list among them, needs a gradient."""
    for a in arguments:
        if isinstance(a, Tensor):
            if a._requires_grad:
                return True
        elif type(a) in (tuple, list) and any_requires_grad(a):
            return True
    return False


def versions_of(arguments: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Per argument how often its memory has been written; None where none ever was."""
    storages = [a._storage if isinstance(a, Tensor) else None for a in arguments]
    if not any(storages):
        return None
    return tuple([0 if storage is None else storage.version for storage in storages])


@lru_cache(maxsize=4096)
def positions_read(rule: Callable[..., Any]) -> frozenset[int]:
    """The positions of the parameters whose values a gradient rule reads, apart from their shapes and dtypes."""
    observation = pause_observation()  # which would take what `dis` makes for the program's
    try:
        return _positions_in(rule.__code__)
    finally:
        resume_observation(observation)


def _positions_in(code: CodeType) -> frozenset[int]:
    names = set(code.co_cellvars)
    previous: list[str] = []
    for instruction in instructions(code):
        if instruction.opname.startswith("LOAD_ATTR") and instruction.argval in _SHAPE_ATTRIBUTES:
            previous = previous[:-1]
        names.update(previous)
        previous = []
        if instruction.opname.startswith("LOAD_FAST"):
            value = instruction.argval
            previous = list(value) if isinstance(value, tuple) else [value]
    names.update(previous)
    positions = {i for i, name in enumerate(code.co_varnames[: code.co_argcount]) if name in names}
    if code.co_flags & inspect.CO_VARARGS and code.co_varnames[code.co_argcount + code.co_kwonlyargcount] in names:
        positions.update(range(code.co_argcount, 64))
    return frozenset(positions)


def arguments_read(rules: Sequence[Any] | None, count: int = MOST_BITS) -> tuple[Sequence[int | None], ...] | None:
    """Per argument the positions of those that its gradient's rule reads, None among them where it reads results; None
    as a whole without rules. `count` is how many arguments there are.
    """
    if rules is None:
        return None
    read = [() if rule is None else positions_read(rule) for rule in rules]
    return tuple([[None if p == 1 else p - 2 for p in positions if 0 < p < count + 2] for positions in read])


def used_up(node: GradNode) -> RuntimeError:
    """What a walk says that meets a node whose values a walk before has freed."""
    name, source = getattr(node.op, "end", None) or (node.op.name, node.source)
    return RuntimeError(
        f"Trying to backward through the graph a second time: the values saved by {name} (recorded at "
        f"{source or 'an unknown line'}) have been freed. Specify retain_graph=True if you need to backward "
        "through the graph a second time."
    )


def filled(node: GradNode, received: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """What reached a node's results, with zeros where nothing did, unless its gradient takes None."""
    if all([g is not None for g in received]) or getattr(node.op, "absent_gradients", False):
        return tuple(received)
    pairs = zip(received, node.outputs(), strict=True)
    return tuple([g if g is not None else o.detach().new_zeros(o.shape) for g, o in pairs])
