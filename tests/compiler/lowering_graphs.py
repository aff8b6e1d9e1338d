"""Random recordings for the lowering: every family of operations, on arrays of awkward sizes and strides."""

from __future__ import annotations

import math
import random

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import TABLE
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import dtypes

LENGTHS = (1, 2, 3, 5, 7, 31, 32, 33, 64, 65, 127, 130)
LONG = (257, 1000, 8191, 8192, 8193, 20000)
FLOATS = (dtypes.float32, dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8)
UNARY = ("neg", "abs", "sign", "exp", "tanh", "sqrt", "sigmoid", "log1p", "reciprocal", "floor", "sin")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "add", "mul")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
LIMIT = 60_000


class RecordingBuilder:
    """The recording with this number: the same operations whenever it is asked for, whatever is symbolic."""

    def __init__(self, seed: int, operations: int = 12):
        self.seed, self.operations = seed, operations
        self.random = random.Random(seed)
        self.arrays = [self.array() for _ in range(self.random.randint(1, 4))]
        self.writes = [k for k, a in enumerate(self.arrays) if a.flags.writeable and self.random.random() < 0.15][:2]

    # -- arguments ----------------------------------------------------------------------------------------------------

    def array(self) -> np.ndarray:
        """An argument: contiguous, transposed, sliced, expanded or not aligned."""
        choose = self.random.choice
        if not hasattr(self, "shape"):
            rank = choose((1, 1, 2, 2, 2, 3, 3, 4))
            self.shape = [choose(LENGTHS) for _ in range(rank)]
            self.shape[choose(range(rank))] = choose((*LENGTHS, *LONG))
            while math.prod(self.shape) > LIMIT:
                self.shape[max(range(rank), key=self.shape.__getitem__)] //= 2
            self.main = choose((*FLOATS, *FLOATS, *INTEGERS))
        shape = list(self.shape)
        if self.random.random() < 0.4:
            shape = shape[self.random.randrange(len(shape)) :]
            for axis in range(len(shape)):
                if self.random.random() < 0.4:
                    shape[axis] = 1
        dtype = self.main if self.random.random() < 0.8 else choose((*FLOATS, *INTEGERS, dtypes.bool_))
        generator = np.random.default_rng(self.random.randrange(2**32))
        kind = choose(("plain", "plain", "plain", "transposed", "strided", "expanded", "offset"))
        return strided(generator, tuple(shape), dtype, kind)

    # -- operations ---------------------------------------------------------------------------------------------------

    def record(self, tracer: Tracer, inputs: list[Node]) -> list[Node]:
        """Record the operations; the results are some values, and the values to be written last."""
        self.random = random.Random(self.seed + 1)
        self.tracer, self.pool = tracer, list(inputs)
        for _ in range(self.random.randint(1, self.operations)):
            self.grow()
        made = self.pool[len(inputs) :] or [self.apply("eq", inputs[0], inputs[0])]
        count = self.random.randint(1, 4)
        results = self.random.sample(made[-6:], min(count, len(made[-6:])))
        return [*results, *(self.written(inputs[k]) for k in self.writes)]

    def written(self, target: Node) -> Node:
        """A value that fits an input, from the latest values."""
        for value in reversed(self.pool):
            if value is target or not self.broadcasts(value, target):
                continue
            if len(value.shape) <= len(target.shape) and self.hints(self.joint(value, target)) == self.hints(target):
                found = value if value.dtype is target.dtype else self.apply("cast", value, dtype=target.dtype)
                return self.apply("where", self.apply("ne", target, target), target, found)
        return self.apply("abs", target) if target.dtype is not dtypes.bool_ else self.apply("logical_not", target)

    def joint(self, a: Node, b: Node) -> Node:
        return self.tracer.record(TABLE["eq"], (self.cast(a, dtypes.float32), self.cast(b, dtypes.float32)))

    def hints(self, node: Node) -> tuple[int, ...]:
        return tuple(sizes.hint(d) for d in node.shape)

    def apply(self, name: str, *inputs: Node, **attributes) -> Node:
        return self.tracer.record(TABLE[name], inputs, **attributes)

    def cast(self, x: Node, dtype: dtypes.DType) -> Node:
        return x if x.dtype is dtype else self.apply("cast", x, dtype=dtype)

    def literal(self, dtype: dtypes.DType) -> Node:
        number = np.asarray(self.random.choice((0, 1, 2, 3, 0.5, 0.1))).astype(dtype.numpy).item()
        return self.apply("constant", value=float(number) if dtype.is_floating_point else number, dtype=dtype)

    def floating(self, x: Node) -> Node:
        return x if x.dtype.is_floating_point else self.cast(x, dtypes.float32)

    def broadcasts(self, a: Node, b: Node) -> bool:
        pairs = zip(reversed(self.hints(a)), reversed(self.hints(b)), strict=False)
        return all(p == q or p == 1 or q == 1 for p, q in pairs)

    def partner(self, x: Node) -> Node:
        """Another operand of x's dtype: a value that broadcasts with it, or a number."""
        fitting = [n for n in self.pool if self.broadcasts(n, x) and self.product(n, x) <= LIMIT]
        if not fitting or self.random.random() < 0.25:
            return self.literal(x.dtype)
        return self.cast(self.random.choice(fitting), x.dtype)

    def product(self, a: Node, b: Node) -> int:
        p, q = self.hints(a), self.hints(b)
        rank = max(len(p), len(q))
        p, q = (1,) * (rank - len(p)) + p, (1,) * (rank - len(q)) + q
        return math.prod(map(max, p, q))

    def grow(self) -> None:
        """One more value."""
        choose = self.random.choice
        x = choose([choose(self.pool), self.pool[-1], self.pool[-1]])
        kinds = ["unary"] * 3 + ["binary"] * 5 + ["view"] * 5 + ["reduce"] * 5 + ["cast", "where", "compare"]
        kinds += ["index", "matmul", "scatter", "cat", "bits"]
        node = getattr(self, f"_{choose(kinds)}")(x)
        if node is not None and math.prod(self.hints(node)) <= LIMIT:
            self.pool.append(node)

    def _unary(self, x: Node) -> Node:
        return self.apply(self.random.choice(UNARY), self.floating(x))

    def _binary(self, x: Node) -> Node:
        x = self.cast(x, dtypes.int32) if x.dtype is dtypes.bool_ else x
        name = self.random.choice(BINARY)
        x = self.floating(x) if name == "div" else x
        pair = [x, self.partner(x)]
        self.random.shuffle(pair)
        return self.apply(name, *pair)

    def _compare(self, x: Node) -> Node:
        return self.apply(self.random.choice(COMPARE), x, self.partner(x))

    def _bits(self, x: Node) -> Node:
        x = self.cast(x, self.random.choice((dtypes.bool_, dtypes.int32, dtypes.uint8)))
        kind = "logical" if x.dtype is dtypes.bool_ else "bitwise"
        return self.apply(f"{kind}_{self.random.choice(('and', 'or', 'xor'))}", x, self.partner(x))

    def _cast(self, x: Node) -> Node:
        return self.apply("cast", x, dtype=self.random.choice((*FLOATS, *INTEGERS, dtypes.bool_)))

    def _where(self, x: Node) -> Node:
        other = self.partner(x)
        conditions = [n for n in self.pool if self.broadcasts(n, x) and self.broadcasts(n, other)]
        condition = self.random.choice(conditions) if conditions else x
        both = self.apply("where", self.literal(dtypes.bool_), x, other)
        if not self.broadcasts(condition, both):
            return both
        return self.apply("where", self.cast(condition, dtypes.bool_), x, other)

    def _view(self, x: Node) -> Node | None:
        choose, rank = self.random.choice, len(x.shape)
        match choose(("permute", "reshape", "reshape", "expand", "slice", "slice", "flip", "unsqueeze", "split")):
            case "permute" if rank > 1:
                return self.apply("permute", x, dims=tuple(self.random.sample(range(rank), rank)))
            case "reshape" if rank > 1:
                first = choose(range(rank - 1))
                last = choose(range(first + 1, rank))
                merged = sizes.product(x.shape[first : last + 1])
                return self.apply("reshape", x, shape=(*x.shape[:first], merged, *x.shape[last + 1 :]))
            case "expand" if x.type.numel != 0:
                front = choose(((), (2,), (3,)))
                shape = tuple(choose((1, 3)) if d == 1 else d for d in x.shape)
                if math.prod(sizes.hint(d) for d in (*front, *shape)) <= LIMIT:
                    return self.apply("expand", x, shape=(*front, *shape))
            case "slice" if rank:
                dim = choose(range(rank))
                size = sizes.hint(x.shape[dim])
                start = self.random.randint(0, max(size - 1, 0))
                step = choose((1, 1, 2, 3))
                if self.random.random() < 0.5:
                    stop = self.random.randint(start, size)
                    return self.apply("slice", x, dim=dim, start=start, stop=stop, step=step)
                return self.apply("slice", x, dim=dim, start=start, stop=x.shape[dim], step=step)
            case "flip" if rank:
                return self.apply("flip", x, dims=tuple(sorted(self.random.sample(range(rank), choose((1, rank))))))
            case "unsqueeze":
                at = self.random.randint(0, rank)
                return self.apply("reshape", x, shape=(*x.shape[:at], 1, *x.shape[at:]))
            case "split" if rank:
                dim = choose(range(rank))
                for part in (2, 5, 32):
                    quotient = sizes.floordiv(x.shape[dim], part)
                    if sizes.hint(quotient) * part == sizes.hint(x.shape[dim]) > 0:
                        return self.apply("reshape", x, shape=(*x.shape[:dim], quotient, part, *x.shape[dim + 1 :]))
        return None

    def _reduce(self, x: Node) -> Node | None:
        if not x.shape:
            return None
        first = self.random.randrange(len(x.shape))
        last = self.random.choice((first, len(x.shape) - 1, self.random.randrange(first, len(x.shape))))
        axes = tuple(range(self.random.choice((0, first)), last + 1))
        names = ("any", "all") if x.dtype is dtypes.bool_ else ("sum", "sum", "sum", "amax", "amin", "argmax", "prod")
        name = self.random.choice(names)
        if name not in ("any", "all", "sum", "prod") and 0 in self.hints(x):
            return None
        if name == "argmax":
            axes = tuple(range(axes[0], len(x.shape)))
        node = self.apply(name, x, axes=axes)
        if self.random.random() < 0.6:
            kept = tuple(1 if k in axes else d for k, d in enumerate(x.shape))
            node = self.apply("reshape", node, shape=kept)
        return node

    def _indices(self, size: int, shape: tuple, like: Node) -> Node:
        """Indices below a size: from a run of numbers, repeating."""
        flat = self.apply("iota", size=sizes.product(shape), dtype=dtypes.int64)
        spread = self.apply("mul", flat, self.apply("constant", value=self.random.choice((1, 7)), dtype=dtypes.int64))
        bounded = self.apply("remainder", spread, self.apply("constant", value=size, dtype=dtypes.int64))
        return self.apply("reshape", bounded, shape=shape)

    def _index(self, x: Node) -> Node | None:
        if not x.shape or 0 in self.hints(x):
            return None
        if self.random.random() < 0.5:
            shape = self.random.choice(((3,), (2, 2), (33,)))
            return self.apply("take_rows", x, self._indices(sizes.hint(x.shape[0]), shape, x))
        dim = self.random.randrange(len(x.shape))
        return self.apply("gather", x, self._indices(sizes.hint(x.shape[dim]), x.shape, x), dim=dim)

    def _scatter(self, x: Node) -> Node | None:
        if not x.shape or 0 in self.hints(x):
            return None
        x = self.cast(x, dtypes.int32) if x.dtype is dtypes.bool_ else x
        choose = self.random.choice
        match choose(("add_rows", "put_rows", "scatter_add", "slice_scatter")):
            case "scatter_add":
                dim = choose(range(len(x.shape)))
                value = self.apply("add", x, self.literal(x.dtype))
                return self.apply("scatter_add", x, self._indices(sizes.hint(x.shape[dim]), x.shape, x), value, dim=dim)
            case "slice_scatter":
                dim = choose(range(len(x.shape)))
                size = sizes.hint(x.shape[dim])
                start = self.random.randrange(size)
                bounds = {"dim": dim, "start": start, "stop": self.random.randint(start, size), "step": choose((1, 2))}
                part = self.apply("slice", x, **bounds)
                return self.apply("slice_scatter", x, self.apply("add", part, self.literal(x.dtype)), **bounds)
            case name:
                index = self._indices(sizes.hint(x.shape[0]), choose(((3,), (x.shape[0],), (2, 4))), x)
                value = self.apply("add", self.apply("take_rows", x, index), self.literal(x.dtype))
                return self.apply(name, x, index, value)

    def _matmul(self, x: Node) -> Node | None:
        if len(x.shape) < 2 or x.dtype not in (dtypes.float32, dtypes.float64):
            return None
        order = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
        turned = self.apply("permute", x, dims=order)
        hints = self.hints(x)
        if math.prod(hints[:-2]) * hints[-1] ** 2 > LIMIT or math.prod(hints) > 5000:
            return None
        return self.apply("matmul", turned, x)

    def _cat(self, x: Node) -> Node | None:
        if not x.shape:
            return None
        dim = self.random.randrange(len(x.shape))
        same = [n for n in self.pool if self.hints(n) == self.hints(x)]
        parts = [self.cast(n, x.dtype) for n in self.random.choices(same, k=2)]
        return self.apply("cat", x, *parts, dim=dim)


def strided(generator: np.random.Generator, shape: tuple[int, ...], dtype: dtypes.DType, kind: str) -> np.ndarray:
    """An array of this shape whose memory is laid out in one of several ways."""
    if kind == "expanded" and shape:
        part = values(generator, (*shape[:-1], 1) if len(shape) % 2 else (1, *shape[1:]), dtype)
        return np.broadcast_to(part, shape)
    if kind == "transposed":
        return values(generator, shape[::-1], dtype).T
    if kind == "strided":
        wide = values(generator, tuple(2 * d + 1 for d in shape), dtype)
        return wide[tuple(slice(1, 1 + 2 * d, 2) for d in shape)]
    if kind == "offset":
        flat = values(generator, (math.prod(shape) + 3,), dtype)
        return flat[3:].reshape(shape)
    return values(generator, shape, dtype)


def values(generator: np.random.Generator, shape: tuple[int, ...], dtype: dtypes.DType) -> np.ndarray:
    """Small numbers; among floats a few that are special."""
    if not dtype.is_floating_point:
        low = 0 if dtype.kind in ("uint", "bool") else -9
        return generator.integers(low, 2 if dtype.kind == "bool" else 10, shape).astype(dtype.numpy)
    array = generator.standard_normal(shape) * generator.choice((1.0, 30.0))
    if generator.random() < 0.3:
        special = generator.choice((np.nan, np.inf, -np.inf, -0.0, 1e-40), shape)
        array = np.where(generator.random(shape) < 0.03, special, array)
    return array.astype(dtype.numpy)
