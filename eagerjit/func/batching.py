"""`vmap`: a function of one example becomes a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit import pytree
from eagerjit.compiler.batch import batch
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.func.evaluate import run_graph
from eagerjit.func.inner import InnerTracer
from eagerjit.recording.numbers import TracedFloat, expression
from eagerjit.runtime import mode
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

Dims = Any


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Maps a function over a dimension of its arguments, without a loop: the function sees one example at a time.

    `in_dims` says which dimension of each argument holds the examples, None for arguments that all examples share;
    `out_dims` where results have it. Both may be nested as the arguments and results are. `randomness` is "error",
    "same" or "different"; `chunk_size` computes that many examples at once.
    Raises RuntimeError where the function looks at values, and ValueError for dimensions that do not fit.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        structure = pytree.flatten((args, kwargs), leaves)
        dims = _input_dims(in_dims, args, kwargs, leaves)
        moved = [x if d is None else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        size = _batch_size(moved, dims)
        call = functools.partial(_mapped, func, structure, dims, out_dims, randomness)
        if chunk_size is None or size <= chunk_size:
            return call(moved, size)
        return _in_chunks(call, moved, dims, out_dims, int(size), chunk_size)

    return mapped


def spread(prefix: Any, value: Any, what: str) -> list[Any]:
    """One dimension per leaf of `value`, from a nesting that may stop early."""
    if prefix is None or isinstance(prefix, int):
        leaves: list[Any] = []
        pytree.flatten(value, leaves)
        return [prefix] * len(leaves)
    if isinstance(prefix, dict) and isinstance(value, dict) and prefix.keys() == value.keys():
        return [d for key, v in value.items() for d in spread(prefix[key], v, what)]
    if isinstance(prefix, (tuple, list)) and isinstance(value, (tuple, list)) and len(prefix) == len(value):
        return [d for p, v in zip(prefix, value, strict=True) for d in spread(p, v, what)]
    raise ValueError(f"vmap: {what} is not compatible with the structure of what it describes: {prefix}")


def _input_dims(in_dims: Dims, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> list[Any]:
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap(f, in_dims={in_dims}, ...): expected `in_dims` to be int or a (potentially nested) tuple matching "
            f"the structure of inputs, got: {type(in_dims)}."
        )
    if not leaves:
        raise ValueError(
            "vmap(f)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs."
        )
    dims = spread(in_dims, args, f"in_dims={in_dims}") + spread(0, kwargs, "in_dims")
    out: list[Any] = []
    for x, d in zip(leaves, dims, strict=True):
        if d is None:
            out.append(None)
            continue
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap(f, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but the input is of type "
                f"{type(x)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -x.ndim <= d < x.ndim:
            raise ValueError(
                f"vmap(f, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for some input, but that input is a Tensor "
                f"of dimensionality {x.ndim} so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}."
            )
        out.append(d % x.ndim)
    return out


def _batch_size(moved: list[Any], dims: list[Any]) -> Any:
    found = [x.shape[0] for x, d in zip(moved, dims, strict=True) if d is not None]
    if not found:
        raise ValueError("vmap: at least one Tensor input must be mapped over: in_dims are all None")
    for size in found[1:]:
        if size != found[0]:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{[int(s) for s in found]} for the mapped dimension"
            )
    return found[0]


class _Examples(InnerTracer):
    """Records what happens to one example, and computes it for all."""

    single_example = True

    def __init__(self, name: str, size: Any, randomness: str):
        super().__init__(name, size if randomness == "different" else 1)
        self.size, self.randomness = size, randomness
        self.arguments: list[Tensor] = []
        self.mapped: set[int] = set()
        self.in_body = False
        self.differentiable: set[Node] = set()
        self.cuts: dict[Node, Tensor] = {}

    def example(self, outside: Tensor) -> Tensor:
        """A tensor that stands for one example of a batch, which is the first dimension."""
        type_ = self.type_outside(outside)
        self.mapped.add(len(self.inputs))
        tensor = self.wrap(self.input(outside, TensorType(type_.dtype, tuple(type_.shape[1:]))))
        tensor._requires_grad = outside._requires_grad
        return tensor

    def input(self, outside: Tensor, type_: TensorType) -> Node:
        """An input of the graph; gradients flow to it if they do outside."""
        node = super().input(outside, type_)
        if outside._requires_grad:
            self.differentiable.add(node)
        return node

    def record(self, primitive: Primitive, inputs: tuple[Node, ...], **attributes: Any) -> Node:
        """Append one primitive, and note whether gradients flow through it."""
        node = super().record(primitive, inputs, **attributes)
        if primitive is not elementwise.cut and not self.differentiable.isdisjoint(node.inputs):
            self.differentiable.add(node)
        return node

    def run_body(self, body: Callable[[tuple[Any, ...]], Any], arguments: tuple[Any, ...]) -> Any:
        """What an op gives that user code calls; what ops get in its body is no affair of the tape's."""
        arguments, before = self.as_taped(arguments), self.in_body
        self.in_body = True
        try:
            return body(arguments)
        finally:
            self.in_body = before

    def as_taped(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """An op's arguments, cut off where the tape has no gradient: then the batched graph has none either."""
        return arguments if self.in_body else tuple(map(self._as_taped, arguments))

    def _as_taped(self, argument: Any) -> Any:
        if type(argument) in (tuple, list):
            return type(argument)(map(self._as_taped, argument))
        if not isinstance(argument, Tensor) or argument._requires_grad:
            return argument
        node = self.value(argument)
        if node not in self.differentiable:
            return argument
        if node not in self.cuts:
            self.cuts[node] = self.wrap(self.record(elementwise.cut, (node,)))
        return self.cuts[node]

    def refuse_own_gradient(self, name: str, tensors: Sequence[Any]) -> None:
        """Refuse a function whose own gradient is not known where gradients are taken: outside."""
        if any(self.value(t) in self.differentiable for t in tensors):
            raise RuntimeError(
                f"You tried to vmap over {name}, but it does not have vmap support: its gradient would be taken "
                "outside of vmap, where only those of operations are known. Take it inside, as in vmap(grad(f))."
            )

    def argument(self, outside: Tensor) -> Tensor:
        """An example that the function is called with; all of these are made before anything else."""
        tensor = self.example(outside)
        self.arguments.append(tensor)
        return tensor

    def writes(self) -> list[tuple[int, Tensor]]:
        """(input, tensor) for what was written in place: arguments, and tensors from outside."""
        found = [(i, x) for i, x in enumerate(self.arguments) if self.value(x) is not self.inputs[i]]
        return found + self.written_outside()

    def computed(self, tensors: list[Tensor]) -> list[tuple[Tensor, bool]]:
        """The values of tensors for all examples, and whether they differ between these."""
        graph = self.graph(tensors)
        flags = [i in self.mapped for i in range(len(graph.inputs))]
        batched, has_batch = batch(graph, flags, expression(self.size), self.randomness)
        values = run_graph(batched, self.lifted[: len(flags)], [t._requires_grad for t in tensors])
        return list(zip(values, has_batch, strict=True))

    def outside_of(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of an op that needs values: what it reads is computed for all examples, then it runs on these."""
        if op.leading:
            return self._leading(op, arguments)
        if op.parameters[1:2] not in (("dim",), ("dims",)) or arguments[1] is None:
            return self._one_by_one(op, arguments)
        x, dim, *rest = arguments
        with self.suspended():
            ((value, has_batch),) = self.computed([x])
            if not has_batch:
                found = op.run((value, dim, *rest))
            elif isinstance(dim, tuple):
                found = op.run((value, tuple(d + 1 for d in dim), *rest))
            elif x.ndim == 0:
                found = _each(op.run((value.unsqueeze(1), 1, *rest)), lambda r: r.squeeze(1))
            else:
                found = op.run((value, dim + 1, *rest))
        return _each(found, self.example if has_batch else lambda r: self.wrap(self.value(r)))

    def _leading(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of an op whose tensors' leading dimensions are batches of their own: the examples' is one more."""
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        rank = max(x.ndim for x in tensors)
        with self.suspended():
            found = self.computed(tensors)
            mapped = any(has_batch for _, has_batch in found)
            aligned = []
            for value, has_batch in found:
                missing = rank + 1 - value.ndim
                shape = tuple(value.shape)
                aligned.append(value.reshape((shape[0], *(1,) * missing, *shape[1:])) if has_batch else value)
            values = iter(aligned)
            result = op.run(tuple(next(values) if isinstance(a, Tensor) else a for a in arguments))
        return _each(result, self.example if mapped else lambda r: self.wrap(self.value(r)))

    def _one_by_one(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of an op that takes no batches: computed for one example after the other."""
        from eagerjit.ops.index import stack

        with self.suspended():
            found = self.computed([a for a in arguments if isinstance(a, Tensor)])
            mapped = any(has_batch for _, has_batch in found)
            count = int(self.size) if mapped else 1
            results = []
            for i in range(max(count, 1)):
                values = iter([_at(v, i) if has_batch else v for v, has_batch in found])
                results.append(op.run(tuple([next(values) if isinstance(a, Tensor) else a for a in arguments])))
            if not mapped:
                return _each(results[0], lambda r: self.wrap(self.value(r)))
            if isinstance(results[0], tuple):
                result: Any = tuple([stack(parts)[:count] for parts in zip(*results, strict=True)])
            else:
                result = stack(results)[:count]
        return _each(result, self.example)

    def ask(self, node: Node, reason: str, known: Any = None) -> Any:
        """The number that a 0-d node has, if all examples have the same one."""
        with self.suspended():
            ((value, has_batch),) = self.computed([self.wrap(node)])
            if has_batch:
                raise TraceBreak(reason, user_line())
            if self.outer is not None:
                return self.outer.ask(self.outer.value(value), reason, known)
            return host_array(value._data).reshape(()).item()

    def python_call(self, function: Callable[..., Any], arguments: Sequence[Any], known: bool | None) -> Node:
        """Record a call of a Python function of floats that all examples share, where it is one for all of them."""
        if self.outer is None:
            return super().python_call(function, arguments, known)
        with self.suspended():
            node = self.outer.python_call(function, [self._shared(x) for x in arguments], known)
        return self.lift(node)

    def _shared(self, number: Any) -> Any:
        """A float as the enclosing trace has it."""
        if type(number) is not TracedFloat:
            return number
        assert self.outer is not None
        ((value, has_batch),) = self.computed([self.wrap(number.node)])
        if has_batch:
            raise TraceBreak("a Python function was called", user_line())
        return TracedFloat(self.outer.value(value), number.value)

    def measure(self, node: Node, reason: str, negative: bool = False) -> Any:
        """The int that a 0-d node has, if all examples have the same one."""
        with self.suspended():
            ((value, has_batch),) = self.computed([self.wrap(node)])
            if has_batch:
                raise TraceBreak(reason, user_line())
            if self.outer is not None:
                return self.outer.measure(self.outer.value(value), reason, negative)
            return int(host_array(value._data).reshape(()))


def _at(value: Tensor, number: int) -> Tensor:
    """One example of a batch; zeros where there is none, whose results have the shapes."""
    return value[number] if value.shape[0] != 0 else value.new_zeros(value.shape[1:])


def _each(results: Any, function: Callable[[Tensor], Tensor]) -> Any:
    return tuple(map(function, results)) if isinstance(results, tuple) else function(results)


def _mapped(
    func: Callable[..., Any],
    structure: Any,
    dims: list[Any],
    out_dims: Dims,
    randomness: str,
    moved: list[Any],
    size: Any,
) -> Any:
    """Record the function on one example, batch the recording and run it."""
    examples = _Examples(f"vmap_{getattr(func, '__name__', 'function')}", size, randomness)
    with examples:
        arguments = [x if d is None else examples.argument(x) for x, d in zip(moved, dims, strict=True)]
        args, kwargs = pytree.unflatten(structure, arguments)
        try:
            result = func(*args, **kwargs)
        except TraceBreak as problem:
            raise RuntimeError(
                f"vmap: {problem.source}: {problem.reason}. The function is recorded on a tensor that stands for every "
                "example, so data-dependent control flow and .item() are not supported in it."
            ) from None
        outputs: list[Any] = []
        shape = pytree.flatten(result, outputs)
        for x in outputs:
            if not isinstance(x, Tensor):
                raise ValueError(f"vmap(f, ...): `f` must only return Tensors, got type {type(x)} as a return.")
        places = spread(out_dims, result, f"out_dims={out_dims}")
        writes = examples.writes()
        with examples.suspended():
            targets = [(p, examples.lifted[p]) for p, _ in writes]
            for position, target in targets:
                examples.lifted[position] = target.clone()  # a gradient will need what is overwritten
            values = examples.computed([*outputs, *(t for _, t in writes)])
    _write_back(examples, targets, values[len(outputs) :])
    placed = [_placed(*value, dim, size) for value, dim in zip(values, places, strict=False)]
    return pytree.unflatten(shape, placed)


def _placed(value: Tensor, batched: bool, dim: Any, size: Any) -> Tensor:
    """A result with the batch dimension where `out_dims` wants it."""
    if dim is None:
        if batched:
            raise ValueError("vmap: out_dims is None for a result that depends on the mapped inputs")
        return value
    if not batched:
        value = value.expand(size, *value.shape)
    if not -value.ndim <= dim < value.ndim:
        raise IndexError(f"vmap: out_dim {dim} is out of range for a result of {value.ndim} dimensions")
    return value if dim == 0 else value.movedim(0, dim)


def _write_back(
    examples: _Examples, targets: list[tuple[int, Tensor]], values: list[tuple[Tensor, bool]]
) -> None:
    """In-place writes of the function: to its examples, and to tensors that all examples share."""
    before = mode.set_grad_mode(mode.grad_mode() and any(v._requires_grad for v, _ in values))
    try:
        for (position, target), (value, has_batch) in zip(targets, values, strict=True):
            if has_batch and position not in examples.mapped:
                raise RuntimeError(
                    "vmap: inplace arithmetic(self, *extra_args) is not possible because self is shared by all "
                    "examples and what would be written differs between them"
                )
            target.copy_(value)
    finally:
        mode.set_grad_mode(before)


def _in_chunks(
    call: Callable[..., Any], moved: list[Any], dims: list[Any], out_dims: Dims, size: int, chunk_size: int
) -> Any:
    """The results of consecutive parts of the batch, joined."""
    from eagerjit.ops.index import cat

    parts: list[list[Any]] = []
    results: Any = None
    shape: Any = None
    for start in range(0, size, chunk_size):
        stop = min(start + chunk_size, size)
        pieces = [x if d is None else x[start:stop] for x, d in zip(moved, dims, strict=True)]
        results = call(pieces, stop - start)
        leaves: list[Any] = []
        shape = pytree.flatten(results, leaves)
        parts.append(leaves)
    places = spread(out_dims, results, f"out_dims={out_dims}")
    joined = [
        p[0] if d is None else cat.call(list(p), d) for p, d in zip(zip(*parts, strict=True), places, strict=True)
    ]
    return pytree.unflatten(shape, joined)
