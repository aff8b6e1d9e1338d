"""Gradient checkpoints: parts of a computation that keep only their inputs, and run again for their gradient."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from eagerjit import pytree
from eagerjit.amp.autocast import switch
from eagerjit.autograd import engine, walk_graph
from eagerjit.autograd.expansion import CHECKPOINTS
from eagerjit.autograd.node import GradNode, Several, described, overwritten, refresh_all
from eagerjit.autograd.stale import check_inputs
from eagerjit.effects.cautions import caution
from eagerjit.generator import Snapshot, default_streams
from eagerjit.runtime import mode
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, version_of
from eagerjit.utils.checkpoint_options import (
    CheckpointPolicy,
    DefaultDeviceType,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from eagerjit.watching.observation import TraceBreak, call_back, user_line

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "SelectiveCheckpointContext",
    "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """The second run of a part gives something else than the first."""


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The CUDA devices that tensors among the arguments lie on, and the states of their generators."""
    import eagerjit.cuda as cuda

    devices = sorted({a.get_device() for a in args if isinstance(a, Tensor) and a.is_cuda})
    return devices, [cuda.get_rng_state(device) for device in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: Any = None) -> None:
    """Gives the generators of CUDA devices the states that `get_device_states` found."""
    import eagerjit.cuda as cuda

    for device, saved in zip(devices, states, strict=True):
        cuda.set_rng_state(saved, device)


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose gradient runs it again instead of keeping what it computed on the way.

    use_reentrant       whether the result needs gradients only if an argument does, as PyTorch's older variant; one of
                        the two must be chosen
    context_fn          gives two contexts: for the first run, and for the one that computes the gradient
    preserve_rng_state  whether the second run draws the random numbers of the first
    determinism_check   "default": the gradient raises CheckpointError where the second run's results have other shapes
                        or dtypes; "none": nothing is compared
    The others are accepted and change nothing. In a compiled function the compiler itself chooses what is kept.
    """
    if use_reentrant is None:
        caution(
            "checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended"
        )
        use_reentrant = True
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        if mode.grad_mode():
            caution("None of the inputs have requires_grad=True. Gradients will be None")
        before = mode.set_grad_mode(False)
        try:
            return function(*args, **kwargs)
        finally:
            mode.set_grad_mode(before)
    first, second = context_fn()
    is_compared = determinism_check == "default" and not use_reentrant
    if state.tracer is not None:
        return _recorded(_Checkpoint(function, args, kwargs, second, False, is_compared), first, preserve_rng_state)
    if not mode.grad_mode():
        with first:
            return function(*args, **kwargs)
    return _Checkpoint(function, args, kwargs, second, preserve_rng_state, is_compared).run(first)


def _recorded(part: _Checkpoint, context: Any, preserve: bool) -> Any:
    """The results of a part in a call being recorded, whose operations are the call's: what is kept is the compiler's.

    A part that changes what lives on is a node of its own, for its gradient changes that once more.
    """
    tracer: Any = state.tracer
    began, changes, written, drawn = mode.next_sequence(), _changes(tracer), *_writes(tracer)
    with context:
        found = part.function(*part.args, **part.kwargs)
    if part.written_argument() is not None:
        raise TraceBreak("a checkpoint overwrites what it is given", user_line())
    written_now, drawn_now = _writes(tracer)
    changed, draws = written_now != written or _changes(tracer) != changes, drawn_now != drawn
    if not mode.grad_mode() or not (changed or (draws and not preserve)):
        return found
    if draws or tracer.journal is None:
        raise TraceBreak("a checkpoint changes what lives on, which its gradient does once more", user_line())
    return part.node_of(found, began)


def _changes(tracer: Any) -> int:
    """How often a recording has changed Python objects that live on, arguments among them."""
    journal = tracer.journal
    return 0 if journal is None else sum(not journal.is_made(operation.target) for operation in journal.operations)


def _writes(tracer: Any) -> tuple[dict[int, int], dict[int, int]]:
    """How often a recording has written to tensors that were there before it, and to states of random numbers."""
    streams = {id(stream.state) for stream in default_streams()}
    counts = {key: tracer.writes_to(tensor) for key, tensor in tracer.written.items()}
    drawn = {key: counts.pop(key) for key in streams & counts.keys()}
    return counts, drawn


class _Checkpoint(Several):
    """The op of a node that stands for a part of the tape: the part is made again when its gradient is asked for."""

    name = "checkpoint"

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, context: Any, preserve: bool, is_compared: bool
    ):
        self.function, self.args, self.kwargs, self.context = function, args, kwargs, context
        self.is_compared, self.is_recorded = is_compared, state.tracer is not None
        self.given = [(t, version_of(t)) for t in _leaves((args, kwargs)) if isinstance(t, Tensor) and t._requires_grad]
        self.random = Snapshot() if preserve else None
        self.casting, self.reparametrized = state.casting, state.reparametrized
        self.positions: list[int] = []
        self.kinds: list[Any] = []

    def run(self, context: Any) -> Any:
        """The results, on the tape as those of one node."""
        began = mode.next_sequence()
        with context:
            found = self.function(*self.args, **self.kwargs)
        return self.node_of(found, began)

    def node_of(self, found: Any, began: float) -> Any:
        """The results that a run which began then has given, as those of one node."""
        leaves: list[Any] = []
        structure = pytree.flatten(found, leaves)
        refresh_all(leaves)
        made = [isinstance(x, Tensor) and x._node is not None and x._node.sequence > began for x in leaves]
        self.positions = [i for i, is_made in enumerate(made) if is_made]
        if not self.positions:
            return found
        results = [leaves[i] for i in self.positions]
        self.kinds = _kinds(results)
        node = object.__new__(GradNode)
        node.op = self
        node.inputs = tuple(_outside(results, began))
        node.output = tuple(r._data for r in results)
        node.sequence = mode.next_sequence()
        node.versions = tuple(map(version_of, node.inputs))
        node.code, node.offset = here() or (None, None)
        node.hooks = node.overwritten = node.replaced = None
        CHECKPOINTS.add(node)
        for index, position in enumerate(self.positions):
            out = leaves[position] = results[index].detach()
            out._node, out._index, out._requires_grad = node, index, True
        return pytree.unflatten(structure, leaves)

    @property
    def repeatable(self) -> bool:
        """Whether a transform may make its part again: one that is recorded is so to change something once more."""
        return not self.is_recorded

    def n_outputs(self, node: GradNode) -> int:
        """How many results have gradients."""
        return len(self.positions)

    def written_argument(self) -> Tensor | None:
        """An argument that needs a gradient and was overwritten since, maybe by the part itself."""
        return next((t for t, version in self.given if version_of(t) != version), None)

    def check(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """Refuse inputs that were overwritten: another run would compute something else."""
        check_inputs(node)
        if (argument := self.written_argument()) is not None:
            assert argument._storage is not None
            what, place = f"{described(argument)}, an argument", argument._storage.source
            raise RuntimeError(overwritten(what, self.name, node.source, place))

    def backward_onto(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """Run the function again and go back through what it does, adding use by use to what is known."""
        return tuple(self._walk(node, grads, create_graph, None, known)[1])

    def uses(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool
    ) -> Sequence[Sequence[Any]]:
        """The gradients of the inputs by each of their uses in another run."""
        trail: engine.Trail = {}
        targets, _ = self._walk(node, grads, create_graph, trail, None)
        return [trail[walk_graph.key_of(t)] for t in targets]

    def _walk(
        self, node: GradNode, grads: Sequence[Any], create_graph: bool, trail: engine.Trail | None, starts: Any
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """What the second run depends on in place of the node's inputs, and their gradients."""
        self.check(node, grads, ())
        began, before = mode.next_sequence(), state.begun
        made: list[Tensor] = []
        state.begun = made
        try:
            results = self.again()
        finally:
            state.begun = before
        pairs = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None]
        roots, given = [r for r, _ in pairs], [g for _, g in pairs]
        targets = self._counterparts(list(node.inputs or ()), results, began, made)
        if trail is not None:
            trail.update({walk_graph.key_of(t): [] for t in targets})
        found = engine.run(roots, given, targets, True, create_graph, trail, began, starts)
        if self.is_compared and any(g is None for g in found):
            self._compare_inputs(targets, _outside(results, began))
        return targets, found

    def _counterparts(
        self, first: list[Tensor], results: list[Tensor], began: float, made: list[Tensor]
    ) -> list[Tensor]:
        """The same tensors, but those leaves of the second run in whose places it has made others."""
        if not made:
            return first
        own, second = set(map(id, made)), _outside(results, began)
        reached = set(map(walk_graph.key_of, second))
        again = [t for t in second if id(t) in own]
        absent = [t for t in first if t._node is None and id(t) not in reached]
        if _kinds(again) != _kinds(absent):
            return first
        places = {id(t): other for t, other in zip(absent, again, strict=True)}
        return [places.get(id(t), t) for t in first]

    def _compare_inputs(self, first: list[Tensor], second: list[Tensor]) -> None:
        """Refuse results that depend on other tensors than those of the first run: these would get no gradient."""
        reached = set(map(walk_graph.key_of, second))
        missing = next((t for t in first if walk_graph.key_of(t) not in reached), None)
        if missing is not None:
            raise CheckpointError(
                "torch.utils.checkpoint: the second run does not depend on a tensor that the first depended on: "
                f"{described(missing)}; was a parameter replaced since?"
            )

    def _compare(self, kinds: list[Any]) -> None:
        """Refuse results of other kinds than those of the first run."""
        if kinds != self.kinds:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values have different metadata than during the forward pass: "
                f"{kinds} instead of {self.kinds}"
            )

    def again(self) -> list[Tensor]:
        """The results by a second run, with the random numbers, the precision and the parameters of the first."""
        before, now = mode.set_grad_mode(True), None if self.random is None else Snapshot()
        casting = switch(self.casting)
        try:
            if self.random is not None:
                self.random.restore()
            with contextlib.ExitStack() as contexts:
                for again in self.reparametrized:
                    contexts.enter_context(again())
                contexts.enter_context(self.context)
                found = call_back(partial(self.function, *self.args, **self.kwargs))
        finally:
            switch(casting)
            mode.set_grad_mode(before)
            if now is not None:
                now.restore()
        leaves = _leaves(found)
        results = [leaves[i] for i in self.positions]
        if self.is_compared:
            self._compare(_kinds(results))
        return results


def _leaves(value: Any) -> list[Any]:
    leaves: list[Any] = []
    pytree.flatten(value, leaves)
    return leaves


def _kinds(results: Sequence[Tensor]) -> list[Any]:
    """Shapes and dtypes."""
    return [(tuple(x.shape), x.dtype) for x in results]


def _outside(results: Sequence[Tensor], began: float) -> list[Tensor]:
    """The tensors from before that results depend on."""
    found: dict[walk_graph.Key, Tensor] = {}
    seen: set[GradNode] = set()
    stack = [r._node for r in results]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for tensor in walk_graph.edges_of(node):
            if tensor._node is not None and tensor._node.sequence > began:
                stack.append(tensor._node)
            else:
                found[walk_graph.key_of(tensor)] = tensor
    return list(found.values())


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a Sequential (or a list of functions) in so many parts; all but the last are checkpoints."""
    steps: list[Callable[..., Any]] = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(steps) // segments
    end = 0
    for begin in range(0, size * (segments - 1), size):
        end = begin + size
        input = checkpoint(_in_turn(steps[begin:end]), input, use_reentrant=use_reentrant, **kwargs)
    return _in_turn(steps[end:])(input)


def _in_turn(steps: Iterable[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(input: Any) -> Any:
        for step in steps:
            input = step(input)
        return input

    return run


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with tensors cut off their history that require gradients where they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


class CheckpointFunction:
    """The older variant under the name that it has as a custom function."""

    @staticmethod
    def apply(run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """`checkpoint(run_function, *args, use_reentrant=True)`."""
        return checkpoint(run_function, *args, use_reentrant=True, preserve_rng_state=preserve_rng_state)
