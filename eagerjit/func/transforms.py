"""Derivatives of functions: gradients, products with the Jacobian from either side, and Jacobians.

Every transform starts from aliases of its arguments, so that transforms nest: each finds its own starting points on the
tape, and an alias passes on to the next outer transform what that one is looking for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eagerjit import pytree
from eagerjit.autograd import engine, walk_graph
from eagerjit.autograd.api import in_dtype_of
from eagerjit.autograd.expansion import current, expand_call
from eagerjit.autograd.forward import depends_on_others, push
from eagerjit.func.nesting import flatten
from eagerjit.func.repeated import known
from eagerjit.runtime import mode
from eagerjit.state import note_leaf, state
from eagerjit.tensors.tensor import Tensor


@dataclass
class Starts:
    """The tensors that a transform differentiates with respect to: aliases of what it was given."""

    structure: Any
    leaves: list[Tensor]
    private: set[int]
    """Those of them, and of the leaves that the function makes, of which nobody outside takes a gradient."""

    def arguments(self) -> Any:
        """The aliases nested as the arguments were."""
        return pytree.unflatten(self.structure, self.leaves)

    def restore(self, values: list[Any]) -> Any:
        """One value per leaf, nested as the arguments were."""
        return pytree.unflatten(self.structure, values)


def start(name: str, primals: Any, connect: bool = True) -> Starts:
    """Aliases of all tensors in `primals`; `connect`: those that need gradients pass them on."""
    leaves: list[Any] = []
    structure = flatten(primals, leaves)
    connected = connect and mode.grad_mode()  # an alias made under no_grad would pass nothing on, nor need a gradient
    aliases = []
    for x in leaves:
        if not isinstance(x, Tensor):
            kind = RuntimeError if name in ("jvp", "linearize", "jacfwd") else ValueError
            raise kind(f"{name}: Expected all inputs to be tensors, got {type(x).__name__}")
        if not x.dtype.is_differentiable:
            if name in ("jvp", "linearize"):
                raise ValueError(f"{name}: Expected primal to be floating point or complex, but got: {x.dtype}")
            wanted = "only Tensors of floating point and complex dtype can require gradients"
            raise RuntimeError(f"{name}: {wanted}, got {x.dtype}")
        aliases.append(x.view_as(x) if connected and x._requires_grad else x.detach().requires_grad_())
    return Starts(structure, aliases, {id(a) for a in aliases if a._node is None})


@dataclass
class Run:
    """One evaluation of a function on a tape: where it started, and what it returned."""

    starts: Starts
    structure: Any
    outputs: list[Tensor]
    aux: Any
    outer: bool
    """Whether gradients pass through to tensors outside."""

    def result(self) -> Any:
        """What the function returned, without this transform's part of the tape."""
        return pytree.unflatten(self.structure, [self.released(o) for o in self.outputs])

    def released(self, value: Any) -> Any:
        """A tensor without a history that nobody outside can use."""
        if not isinstance(value, Tensor) or not value._requires_grad:
            return value
        return value if self.outer and depends_on_others([value], self.starts.private) else value.detach()

    def released_aux(self) -> Any:
        """The auxiliary results, likewise."""
        leaves: list[Any] = []
        structure = flatten(self.aux, leaves)
        return pytree.unflatten(structure, [self.released(x) for x in leaves])

    def require_differentiable(self, name: str) -> None:
        """Raise RuntimeError for a result that can have no cotangent."""
        for x in self.outputs:
            if not x.dtype.is_differentiable:
                raise RuntimeError(f"{name}: All outputs of f must be floating-point or complex Tensors, got {x.dtype}")

    def recording(self, *given: Tensor) -> bool:
        """Whether derivatives are to be recorded for an outer transform."""
        return mode.grad_mode() and (self.outer or any(t._requires_grad for t in given))

    def take_apart(self) -> None:
        """Replace compiled calls and checkpoints by the operations that they stand for, whose own rules an outer
        transform then meets."""
        wanted = {walk_graph.key_of(leaf) for leaf in self.starts.leaves}
        roots = [o for o in self.outputs if o._requires_grad]
        while True:  # in a checkpoint there may be others
            nodes, _, several = walk_graph.collect(roots, wanted)
            found = several & walk_graph.relevant(nodes, wanted).keys()
            again = [node for node in found if node.op.repeatable and node.inputs is not None]
            for node in again:
                expand_call(node, nodes)
            if not again:
                break
            roots = [current(o) for o in roots]
        self.outputs = [current(o) for o in self.outputs]

    def pull(self, cotangents: list[Tensor]) -> list[Tensor]:
        """The product of cotangents with the Jacobian."""
        create = self.recording(*cotangents)
        if create and state.tracer is not None:
            self.take_apart()
        roots = [o for o in self.outputs if o._requires_grad]
        pairs = zip(self.outputs, cotangents, strict=True)
        given = [in_dtype_of(o, c) for o, c in pairs if o._requires_grad]
        found = engine.run(roots, given, self.starts.leaves, True, create)
        return [_zeros(x) if g is None else g for x, g in zip(self.starts.leaves, found, strict=True)]

    def push(self, tangents: list[Tensor]) -> list[Tensor]:
        """The product of the Jacobian with tangents, of which those of real numbers may be complex."""
        leaves = self.starts.leaves
        if not any(t.dtype.is_complex and not x.dtype.is_complex for x, t in zip(leaves, tangents, strict=True)):
            return self._pushed(tangents)
        # The Jacobian's rules are those of real numbers: it maps either part for itself.
        apart = [_parts(x, t) for x, t in zip(leaves, tangents, strict=True)]
        real, imaginary = self._pushed([r for r, _ in apart]), self._pushed([i for _, i in apart])
        return [r + i * 1j for r, i in zip(real, imaginary, strict=True)]

    def _pushed(self, tangents: list[Tensor]) -> list[Tensor]:
        pairs, create = list(zip(self.starts.leaves, tangents, strict=True)), self.recording(*tangents)
        if create:
            self.take_apart()
        found = push(self.outputs, pairs, create)
        return [_zeros(o) if t is None else t for o, t in zip(self.outputs, found, strict=True)]


def _zeros(like: Tensor) -> Tensor:
    return like.detach().new_zeros(like.shape)


def _parts(primal: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of a tangent that are pushed one after the other."""
    if tangent.dtype.is_complex and not primal.dtype.is_complex:
        return tangent.real, tangent.imag
    return tangent, _zeros(tangent)


def run(name: str, function: Callable[..., Any], starts: Starts, has_aux: bool = False) -> Run:
    """Evaluate `function()` with gradients recorded."""
    outside, around = mode.set_grad_mode(True), state.leaves
    made: list[Tensor] = []
    state.leaves = state.tracer, made
    try:
        result = function()
    finally:
        mode.set_grad_mode(outside)
        state.leaves = around
    starts.private.update(map(id, made))
    for leaf in made:
        note_leaf(leaf)
    aux = None
    if has_aux:
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
        result, aux = result
    outputs: list[Any] = []
    structure = flatten(result, outputs)
    for x in outputs:
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{name}: Expected f(*args) to return only tensors, got unsupported type {type(x).__name__}"
            )
    outer = outside and depends_on_others(outputs, starts.private)
    return Run(starts, structure, outputs, aux, outer)


def matching(name: str, what: str, given: Any, structure: Any, tensors: list[Tensor]) -> list[Tensor]:
    """The leaves of `given`, which must be nested and shaped as `tensors` are."""
    leaves: list[Any] = []
    found = flatten(given, leaves)
    if found != structure and len(leaves) != len(tensors):
        raise RuntimeError(f"{name}: Expected {what} to have the same structure as what they belong to")
    for x, like in zip(leaves, tensors, strict=True):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: Expected {what} to contain only tensors, got {type(x).__name__}")
        if tuple(x.shape) != tuple(like.shape):
            raise RuntimeError(f"{name}: {what} of shape {list(x.shape)} for a tensor of shape {list(like.shape)}")
    return leaves


# -- the public transforms --------------------------------------------------------------------------------------------


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes (gradient, value) of a scalar function; with `has_aux` (gradient, (value, aux))."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        starts, given = start_at("grad", argnums, args)
        done = run("grad_and_value", lambda: func(*given, **kwargs), starts, has_aux)
        output = done.outputs[0] if len(done.outputs) == 1 else None
        if output is None or done.structure != pytree.LEAF:
            raise RuntimeError("Expected the given function to return a scalar tensor")
        if output.ndim != 0:
            raise RuntimeError(
                f"Expected the function given to grad to return a scalar tensor (0-dimensional), but it returned a "
                f"tensor of {output.ndim} dimensions"
            )
        if output.is_complex():
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
            )
        gradients = starts.restore(done.pull([output.detach().new_ones(())]))
        value = done.released(output)
        return chosen(argnums, gradients), ((value, done.released_aux()) if has_aux else value)

    return known(functools.partial(grad_and_value, argnums=argnums, has_aux=has_aux), func, wrapped)


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of a scalar function; with `has_aux` (gradient, aux).

    `argnums` says with respect to which arguments, each a tensor or a nesting of tensors.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return known(functools.partial(grad, argnums=argnums, has_aux=has_aux), func, wrapped)


def start_at(name: str, argnums: Any, args: tuple[Any, ...]) -> tuple[Starts, list[Any]]:
    """Aliases of the arguments that `argnums` names, and all arguments with these in place."""
    positions = _positions(argnums, len(args))
    starts = start(name, tuple(args[p] for p in positions))
    aliases = dict(zip(positions, starts.arguments(), strict=True))
    return starts, [aliases.get(i, a) for i, a in enumerate(args)]


def _positions(argnums: Any, count: int) -> list[int]:
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    if not chosen:
        raise RuntimeError("argnums must be non-empty")
    for p in chosen:
        if not isinstance(p, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got {argnums}")
        if not -count <= p < count:
            raise RuntimeError(f"Got argnum={p}, but only {count} positional inputs")
    positions = [p % count for p in chosen]
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return positions


def chosen(argnums: Any, values: tuple[Any, ...]) -> Any:
    """One value for a single argument, else a tuple."""
    return values[0] if isinstance(argnums, int) else tuple(values)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function from cotangents of the result to those of the primals[, aux])."""
    starts = start("vjp", primals)
    done = run("vjp", lambda: func(*starts.arguments()), starts, has_aux)
    done.require_differentiable("vjp")

    def pullback(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        leaves = matching("vjp", "cotangents", given, done.structure, done.outputs)
        found = starts.restore(done.pull(leaves))
        return found

    return (done.result(), pullback, done.released_aux()) if has_aux else (done.result(), pullback)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(func(*primals), the product of its Jacobian with the tangents[, aux]).

    `strict` raises RuntimeError for results that do not depend on the primals.
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or not primals:
        raise RuntimeError("jvp: Expected primals and tangents to be non-empty tuples")
    starts = start("jvp", primals)
    given = matching("jvp", "tangents", tangents, starts.structure, starts.leaves)
    for tangent in given:
        if not tangent.dtype.is_differentiable:
            raise ValueError(f"jvp: Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    done = run("jvp", lambda: func(*starts.arguments()), starts, has_aux)
    if strict and not all(o._requires_grad for o in done.outputs):
        raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs")
    pushed = pytree.unflatten(done.structure, done.push(given))
    return (done.result(), pushed, done.released_aux()) if has_aux else (done.result(), pushed)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), a function from tangents to the product of the Jacobian with them): runs `func` once."""
    starts = start("linearize", primals)
    done = run("linearize", lambda: func(*starts.arguments()), starts)

    def pushforward(*tangents: Any) -> Any:
        leaves = matching("linearize", "tangents", tangents, starts.structure, starts.leaves)
        for tangent, primal in zip(leaves, starts.leaves, strict=True):
            if tangent.dtype is not primal.dtype:
                raise RuntimeError(f"linearize: a tangent of {tangent.dtype} for a primal of {primal.dtype}")
        return pytree.unflatten(done.structure, done.push(leaves))

    return done.result(), pushforward


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function with the same results and the same changes of its arguments.

    Whoever records it sees no writes without this: recorded graphs hold none. Raises RuntimeError for another `remove`
    than "mutations" and "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations' remove='mutations_and_views'"
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call
