"""Random graphs and arrays for them."""

from __future__ import annotations

import random

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import TABLE
from eagerjit.runtime import dtypes

HINTS = {"s0": 3, "s1": 4}
SIZES = (sizes.symbol("s0"), sizes.symbol("s1"), 1, 2)
NUMBERS = (0.0, -0.0, 0.0, -0.0, 1.0, 1.0, -1.0, 2.5, 0.1, 1e30, float("inf"), float("nan"))
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -100.25, 1e-40, 1e30, np.inf, -np.inf, np.nan])
UNARY = ("neg", "neg", "abs", "sign", "exp", "logical_not", "bitwise_not", "isnan", "sqrt", "floor")
BINARY = ("add", "add", "sub", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt")
BITS = ("logical_or", "logical_and", "bitwise_xor", "bitwise_and")
FLOAT_ONLY = ("sqrt", "exp", "isnan", "div")
NUMBER_ONLY = ("neg", "sub", "sign", "abs", "floor")
TYPES = (dtypes.float32, dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.float16, dtypes.int8, dtypes.float64)
KINDS = ("unary", "unary", "binary", *["literal"] * 3, "cast", "cast", *["view"] * 3, "where", "reduce")


class GraphBuilder:
    """Builds a graph over symbolic sizes that repeats itself, and whose operations often do nothing.

    Its last values are returned as they are or as maximum(v, v), which no pass knows to be v: the first shows what a
    pass does to the memory of a result, the second what it does to the bits of a value whose memory nobody sees.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.inputs = [self.argument(leaf) for leaf in range(self.random.randint(1, 3))]
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        """The graph with all its parts."""
        for _ in range(self.random.randint(1, 20)):
            self.grow()
            if self.random.random() < 0.2:
                self.repeat(self.random.choice(self.nodes))
        last = self.nodes[-8:]
        results = [self.apply("maximum", n, n) for n in last]
        outputs = self.random.choices([*self.inputs, *last], k=self.random.randint(0, 3))
        writes = [(x, v) for x in self.inputs for v in last if x.type == v.type]
        return Graph("random", self.inputs, self.nodes, [*outputs, *results], writes[: self.random.randint(0, 1)])

    def argument(self, leaf: int) -> Node:
        shape = tuple(self.random.choices(SIZES, k=self.random.randint(0, 3)))
        type_ = TensorType(self.random.choice(TYPES), shape)
        attributes = {"leaf": leaf}
        if len(shape) > 1 and self.random.random() < 0.3:
            attributes["strides"] = tuple(sizes.symbol(f"t{leaf}{axis}") for axis in range(len(shape)))
        return Node(TABLE["argument"], (), attributes, type_, f"model.py:{leaf + 1}")

    def apply(self, name: str, *inputs: Node, **attributes) -> Node:
        """One more node, with the type that its op gives it."""
        op = TABLE[name]
        type_ = op.type_rule(*(n.type for n in inputs), **attributes)
        self.nodes.append(Node(op, inputs, attributes, type_, f"model.py:{len(self.nodes)}"))
        return self.nodes[-1]

    def repeat(self, node: Node) -> None:
        """The same operation once more, perhaps with its operands in another order."""
        swaps = node.op.family == "elementwise" and len(node.inputs) == 2 and self.random.random() < 0.5
        inputs = node.inputs[::-1] if swaps else node.inputs
        self.nodes.append(Node(node.op, inputs, node.attributes, node.type, node.source))

    def grow(self) -> None:
        """One operation on values that it fits, with a literal if it needs one."""
        choose, pool = self.random.choice, [*self.inputs, *self.nodes]
        x, kind = choose([choose(pool), pool[-1]]), choose(KINDS)
        if kind == "cast":
            self.apply("cast", x, dtype=choose(TYPES))
        elif kind == "view":
            self.view(x)
        elif kind == "unary":
            self.apply(choose([n for n in UNARY if accepts(n, x.dtype)]), x)
        elif kind == "reduce" and x.shape and x.dtype is not dtypes.bool_:
            first = choose(range(len(x.shape)))
            self.apply(choose(("sum", "amax")), x, axes=tuple(range(first, choose(range(first, len(x.shape))) + 1)))
        else:
            y = self.literal(x.dtype) if kind == "literal" else choose([n for n in pool if fits(n, x)])
            pair = (x, y) if self.random.random() < 0.5 else (y, x)
            if kind == "where":
                conditions = [n for n in pool if n.dtype is dtypes.bool_ and broadcasts(n, x) and broadcasts(n, y)]
                self.apply("where", choose(conditions) if conditions else self.literal(dtypes.bool_), *pair)
            else:
                self.apply(choose([n for n in (*BINARY, *BITS) if accepts(n, x.dtype)]), *pair)

    def literal(self, dtype: dtypes.DType) -> Node:
        with np.errstate(all="ignore"):
            number = np.asarray(self.random.choice(NUMBERS)).astype(dtype.numpy).item()
        return self.apply("constant", value=float(number) if dtype.is_floating_point else number, dtype=dtype)

    def view(self, x: Node) -> None:
        choose, rank = self.random.choice, len(x.shape)
        names = ("permute", "reshape", "expand", "slice", "flip") if rank else ("reshape",)
        name = x.op.name if x.op.name in names and self.random.random() < 0.5 else choose(names)
        if name == "permute":
            self.apply(name, x, dims=tuple(self.random.sample(range(rank), rank)))
        elif name == "flip":
            self.apply(name, x, dims=tuple(self.random.sample(range(rank), choose((1, rank)))))
        elif name == "expand":
            self.apply(name, x, shape=tuple(choose((1, 2)) if d == 1 else d for d in x.shape))
        elif name == "reshape":
            merged = (*x.shape[:-2], x.shape[-2] * x.shape[-1]) if rank > 1 else x.shape
            kept = tuple(d for d in x.shape if d != 1)
            self.apply(name, x, shape=choose((x.shape, (1, *x.shape), kept, (x.type.numel,), merged)))
        else:
            dim = choose(range(rank))
            start = choose((0, 0, 1)) if sizes.evaluate(x.shape[dim], HINTS) > 1 else 0
            bounds = {"dim": dim, "start": start, "stop": x.shape[dim], "step": choose((1, 1, 2))}
            part = self.apply(name, x, **bounds)
            if self.random.random() < 0.5:
                self.apply(
                    "slice_scatter", x, self.apply("logical_not" if x.dtype is dtypes.bool_ else "abs", part), **bounds
                )


def accepts(name: str, dtype: dtypes.DType) -> bool:
    """Whether an op takes operands of this dtype."""
    if dtype is dtypes.bool_:
        return name not in FLOAT_ONLY and name not in NUMBER_ONLY
    if dtype.is_floating_point:
        return not name.startswith(("logical", "bitwise"))
    return name not in FLOAT_ONLY and not name.startswith("logical")


def fits(a: Node, b: Node) -> bool:
    return a.dtype is b.dtype and broadcasts(a, b)


def broadcasts(a: Node, b: Node) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(p == q or p == 1 or q == 1 for p, q in pairs)


def random_graph(seed: int) -> Graph:
    """The graph with this number."""
    return GraphBuilder(seed).graph()


def arrays_for(graph: Graph, seed: int = 0, hints: dict[str, int] = HINTS) -> list[np.ndarray]:
    """Arrays of a graph's input types: small numbers, zeros of both signs, infinities, NaN."""
    generator = np.random.default_rng(seed)
    arrays = []
    for node in graph.inputs:
        values = SPECIAL if node.dtype.is_floating_point else SPECIAL[:7]
        shape = tuple(sizes.evaluate(d, hints) for d in node.shape)
        with np.errstate(all="ignore"):
            array = generator.choice(values, shape).astype(node.dtype.numpy)
        # Column-major memory stands for all that is not row-major.
        arrays.append(np.asarray(array, order="F") if "strides" in node.attributes else array)
    return arrays


def hints_of(graph: Graph, arrays: list[np.ndarray]) -> dict[str, int]:
    """What the symbols of a graph's input types stand for: sizes, and steps in elements."""
    hints: dict[str, int] = {}
    for node, array in zip(graph.inputs, arrays, strict=True):
        steps = [step // array.itemsize for step in array.strides]
        for symbols, numbers in ((node.shape, array.shape), (node.attributes.get("strides", ()), steps)):
            pairs = zip(symbols, numbers, strict=False)
            hints |= {str(symbol): number for symbol, number in pairs if not isinstance(symbol, int)}
    return hints


def bits(array: np.ndarray) -> tuple:
    """An array for comparison bit by bit, but for the payload of NaN."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.dtype, array.shape, array.tobytes()
