"""What `vmap` records: what happens to a tensor that stands for each of many examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from eagerjit import pytree
from eagerjit.autograd import walk_graph
from eagerjit.autograd.node import GradNode, record
from eagerjit.compiler.batch import RANDOMNESS_ERROR
from eagerjit.compiler.ir import Node, TensorType, ancestors
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.func.mapped import Mapped
from eagerjit.func.nesting import flatten_for_vmap
from eagerjit.func.taped import TapedTracer
from eagerjit.recording.numbers import TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line


def spread(prefix: Any, value: Any, what: str) -> list[Any]:
    """One dimension per leaf of `value`, from a nesting that may stop early."""
    if prefix is None or isinstance(prefix, int):
        leaves: list[Any] = []
        flatten_for_vmap(value, leaves)
        return [prefix] * len(leaves)
    if isinstance(prefix, dict) and isinstance(value, dict) and prefix.keys() == value.keys():
        return [d for key, v in value.items() for d in spread(prefix[key], v, what)]
    if isinstance(prefix, (tuple, list)) and isinstance(value, (tuple, list)) and len(prefix) == len(value):
        return [d for p, v in zip(prefix, value, strict=True) for d in spread(p, v, what)]
    raise ValueError(f"vmap: {what} is not compatible with the structure of what it describes: {prefix}")


def refusal(problem: TraceBreak, examples: Examples) -> RuntimeError:
    """What the user is told of a recording that has ended early; if code catches it, those around it end all the same.
    """
    outer = examples.outer
    while outer is not None:
        outer.broken = outer.broken or problem
        outer = getattr(outer, "outer", None)
    return RuntimeError(
        f"vmap: {problem.source}: {problem.reason}. The function is recorded on a tensor that stands for every "
        "example, so data-dependent control flow and .item() are not supported in it."
    )


class VmapInfo(NamedTuple):
    """What a function's own rule for many examples is told of them."""

    batch_size: int
    randomness: str


class _Given:
    """What makes an argument of the function of a leaf of the recording: it is none itself, and may be overwritten."""

    name, rules, linear = "example", (lambda g, out, x: g,), True

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The gradient of the leaf."""
        return grads

    def __call__(self, tangent: Tensor) -> Tensor:
        """The tangent of the argument."""
        return tangent


_GIVEN = _Given()


class Examples(TapedTracer):
    """Records what happens to one example, and computes it for all."""

    single_example = True

    def __init__(self, name: str, size: Any, randomness: str):
        super().__init__(name, size if randomness == "different" else 1)
        self.size, self.randomness = size, randomness
        self.arguments: list[Tensor] = []
        self.mapped: set[int] = set()
        self.asked = 0  # how often values were asked for, which are those of one call

    def example(self, outside: Tensor) -> Tensor:
        """A tensor that stands for one example of a batch, which is the first dimension."""
        type_ = self.type_outside(outside)
        self.mapped.add(len(self.inputs))
        tensor = self.wrap(self.input(outside, TensorType(type_.dtype, tuple(type_.shape[1:]))))
        tensor._requires_grad = outside._requires_grad
        self.leaves[tensor._data] = tensor
        return tensor

    def record(self, primitive: Primitive, inputs: tuple[Node, ...], **attributes: Any) -> Node:
        """Append one primitive."""
        if primitive is elementwise.random_bits and self.randomness == "error":
            raise RuntimeError(RANDOMNESS_ERROR)
        return super().record(primitive, inputs, **attributes)

    def argument(self, outside: Tensor) -> Tensor:
        """An example that the function is called with; all of these are made before anything else."""
        tensor = self.example(outside)
        if outside._node is not None:
            leaf, tensor = tensor, self.wrap(tensor._data)
            record(_GIVEN, (leaf,), tensor)
        self.arguments.append(tensor)
        return tensor

    @contextmanager
    def holding(self, nodes: Sequence[Node], batched: Sequence[bool], values: Sequence[Any]) -> Iterator[None]:
        """A context in which these inputs have the values of one call."""
        positions = [n.attributes["leaf"] for n in nodes]
        before = [self.lifted[p] for p in positions]
        for position, has_batch, value in zip(positions, batched, values, strict=True):
            self.lifted[position] = value
            if has_batch:
                self.mapped.add(position)
        try:
            yield
        finally:
            for position, value in zip(positions, before, strict=True):
                self.lifted[position] = value

    def is_mapped(self, node: Node) -> bool:
        """Whether an input differs between examples."""
        return node.attributes["leaf"] in self.mapped

    def writes(self) -> list[tuple[int, Tensor]]:
        """(input, tensor) for what was written in place: arguments, and tensors from outside."""
        found = [(i, x) for i, x in enumerate(self.arguments) if self.value(x) is not self.inputs[i]]
        return found + self.written_outside()

    def computed(self, tensors: list[Tensor]) -> list[tuple[Tensor, bool]]:
        """The values of tensors for all examples, without a tape, and whether they differ between these."""
        self.asked += 1
        mapped = self._mapped(tensors, alone=True)
        return list(zip(mapped.computed(self.lifted[: len(self.inputs)]), mapped.has_batch, strict=True))

    def results(self, tensors: list[Tensor]) -> list[tuple[Tensor, bool]]:
        """The same with the gradients that the recording knows; an input that is returned is what was given for it."""
        tensors = [self._as_given(t) for t in self.isolate(tensors)]
        positions = {node: i for i, node in enumerate(self.inputs)}
        keys = [walk_graph.key_of(t) if t._requires_grad else t._data for t in tensors]
        made = {k: t for k, t in zip(keys, tensors, strict=True) if t._node is not None or t._data not in positions}
        apart = self._same_for_all(made)
        found: dict[Any, tuple[Tensor, bool]] = {}
        for alone, chosen in ((False, [k for k in made if k not in apart]), (True, apart)):
            if chosen:
                mapped = self._mapped([made[k] for k in chosen], alone)
                found.update(zip(chosen, zip(mapped.run(self.lifted), mapped.has_batch, strict=True), strict=True))
        for key, t in zip(keys, tensors, strict=True):
            if key not in found:
                position = positions[t._data]
                given = self.lifted[position]
                value = given if t._requires_grad or not given._requires_grad else given.detach()
                found[key] = value, position in self.mapped
        return [found[k] for k in keys]

    def _as_given(self, tensor: Tensor) -> Tensor:
        """The leaf that a tensor is made of, if it is an argument of the function."""
        node = tensor._node
        return node.inputs[0] if node is not None and node.op is _GIVEN and node.inputs is not None else tensor

    def _same_for_all(self, tensors: dict[Any, Tensor]) -> list[Any]:
        """Those of tensors with gradients that are computed once, as their gradients are."""
        own = {node for i, node in enumerate(self.inputs) if i in self.mapped}
        if self.randomness == "different":
            own.update(n for n in self.nodes if n.op is elementwise.random_bits)
        taped = [(k, t) for k, t in tensors.items() if t._requires_grad]
        return [k for k, t in taped if own.isdisjoint(ancestors([t._data])) and own.isdisjoint(self.reached(t))]

    def _mapped(self, tensors: list[Tensor], alone: bool = False) -> Mapped:
        for t in tensors:
            self.value(t)  # those from outside become inputs
        batched = [i in self.mapped for i in range(len(self.inputs))]
        wanted = [True if t._requires_grad and not alone else None for t in tensors]
        return Mapped(self, self.inputs, batched, tensors, wanted, alone)

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.outer = None
        del self._before

    @contextmanager
    def reopened(self, recorded: bool) -> Iterator[None]:
        """A context in which more is recorded, on the tape or not, long after the function has returned."""
        self.enclose(state.tracer)
        final = [self.value(t) for t in self.written.values()]
        before = [(storage, storage.version) for storage, _ in self.ended]
        for storage, version in self.ended:
            storage.version = version
        try:
            with self.with_gradients(recorded):
                yield
                if final != [self.value(t) for t in self.written.values()]:
                    raise RuntimeError(f"{self.name}: its gradient writes to tensors from outside of vmap")
        except TraceBreak as problem:
            raise refusal(problem, self) from None
        finally:
            for storage, version in before:
                storage.version = version

    def captured(self, outputs: Sequence[Tensor], known: Sequence[Node]) -> dict[Node, Tensor]:
        """The inputs beside those known that outputs are computed from, with what is given for them."""
        needed = ancestors([t._data for t in outputs]).difference(known)
        return {n: t for n, t in zip(self.inputs, self.lifted, strict=True) if n in needed}

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

    def by_own_rule(self, rule: Callable[..., Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The results of a function that has a rule for many examples; of the function where all are the same."""
        with self.suspended():
            found = self.computed([a for a in arguments if isinstance(a, Tensor)])
            if not any(has_batch for _, has_batch in found):
                dims = None
            else:
                values = iter(found)
                pairs = [next(values) if isinstance(a, Tensor) else (a, False) for a in arguments]
                info = VmapInfo(self.size, self.randomness)
                in_dims = tuple([0 if has_batch else None for _, has_batch in pairs])
                result, out_dims = rule(info, in_dims, *(value for value, _ in pairs))
                leaves: list[Any] = []
                structure = flatten_for_vmap(result, leaves)
                dims = spread(out_dims, result, f"out_dims={out_dims}")
                moved = [x if d is None else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        if dims is None:
            return function(*arguments)
        own = [self.wrap(self.value(x)) if d is None else self.example(x) for x, d in zip(moved, dims, strict=True)]
        return pytree.unflatten(structure, own)

    def ask(self, node: Node, reason: str, known: Any = None, likely: Any = None) -> Any:
        """The number that a 0-d node has, if all examples have the same one."""
        with self.suspended():
            ((value, has_batch),) = self.computed([self.wrap(node)])
            if has_batch:
                raise TraceBreak(reason, user_line())
            if self.outer is not None:
                return self.outer.ask(self.outer.value(value), reason, known, likely)
            return host_array(value._data).reshape(()).item()

    def python_call(
        self, function: Callable[..., Any], arguments: Sequence[Any], known: bool | None, dtype: Any = dtypes.float64
    ) -> Node:
        """Record a call of a Python function of numbers that all examples share, where it is one for all of them."""
        if self.outer is None:
            return super().python_call(function, arguments, known, dtype)
        with self.suspended():
            node = self.outer.python_call(function, [self._shared(x) for x in arguments], known, dtype)
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

    def measure(self, node: Node, reason: str, negative: bool = False, known: int | None = None) -> Any:
        """The int that a 0-d node has, if all examples have the same one."""
        with self.suspended():
            ((value, has_batch),) = self.computed([self.wrap(node)])
            if has_batch:
                raise TraceBreak(reason, user_line())
            if self.outer is not None:
                return self.outer.measure(self.outer.value(value), reason, negative, known)
            return int(host_array(value._data).reshape(()))


def _at(value: Tensor, number: int) -> Tensor:
    """One example of a batch; zeros where there is none, whose results have the shapes."""
    return value[number] if value.shape[0] != 0 else value.new_zeros(value.shape[1:])


def _each(results: Any, function: Callable[[Tensor], Tensor]) -> Any:
    return tuple(map(function, results)) if isinstance(results, tuple) else function(results)
