"""One or more examples of every primitive: small graphs of a single operation, with arrays for their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import TABLE
from eagerjit.runtime import dtypes

SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((2, 3),), ((),)],
    2: [((2, 3), (2, 3)), ((3,), (2, 1)), ((2, 3), ())],
    3: [((2, 3), (2, 3), (2, 3)), ((3,), (), (2, 1))],
}
LOGICAL = ("logical_not", "logical_and", "logical_or", "logical_xor")
INTEGER = """bitwise_not bitwise_and bitwise_or bitwise_xor shift_left shift_right gcd lcm""".split()
COMPLEX = "real imag magnitude conj complex_asinh complex_acosh complex_atanh".split()
"""What takes complex numbers."""
SOURCES = ("argument", "constant", "iota", "size_value", "random_bits", "host", "positions")
"""Primitives without tensors to batch or to differentiate; calls of NumPy stand outside of what is batched, and so do
results whose sizes examples differ in."""

SHARED = {"weighted_rows": (0, 2, 3)}
"""Operands of a primitive that examples cannot differ in."""


@dataclass
class Case:
    """A primitive with attributes, and arrays to apply it to."""

    name: str
    arrays: list[np.ndarray]
    attributes: dict[str, Any]

    def graph(self) -> Graph:
        """The operation on inputs of the arrays' types."""
        inputs = [
            Node(TABLE["argument"], (), {"leaf": i, "strides": None}, TensorType(dtypes.BY_NUMPY[a.dtype], a.shape))
            for i, a in enumerate(self.arrays)
        ]
        op = TABLE[self.name]
        node = Node(op, tuple(inputs), self.attributes, op.type_rule(*(n.type for n in inputs), **self.attributes))
        return Graph("case", inputs, [node], [node])

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join('x'.join(map(str, a.shape)) or '0' for a in self.arrays)}-{self.attributes}"


def _index(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _sorted(*shape: int) -> np.ndarray:
    return np.sort(np.random.default_rng(7).uniform(-2, 2, shape))


def _structured() -> dict[str, list[tuple[list[Any], dict[str, Any]]]]:
    """Shapes or index arrays, with attributes, of everything that is not elementwise."""
    rows = _index(2, 0, 2, 1)
    matrix = np.array([[1, 0], [2, 2]])
    reduced = [([(2, 3, 4)], {"axes": (1, 2)}), ([(2, 3, 4)], {"axes": (2,)})]
    how = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
    inner = [*reduced, ([(2, 3, 4)], {"axes": (0,)}), ([(2, 3, 4)], {"axes": (0, 1)})]
    cut = {"dim": 1, "start": 1, "stop": 4, "step": 2}
    found: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {
        name: list(inner) for name in ("sum", "prod", "amax", "amin", "all", "any")
    }
    found |= {name: list(reduced) for name in ("argmax", "argmin")}
    return found | {
        "reshape": [([(2, 3)], {"shape": (3, 1, 2)}), ([(4,)], {"shape": (2, 2)}), ([()], {"shape": (1,)})],
        "permute": [([(2, 3, 4)], {"dims": (2, 0, 1)})],
        "expand": [([(3, 1)], {"shape": (2, 3, 4)}), ([()], {"shape": (2,)})],
        "slice": [([(2, 5)], cut)],
        "flip": [([(2, 3, 5)], {"dims": (0, 2)}), ([(4,)], {"dims": (0,)})],
        "matmul": [([(2, 3), (3, 4)], {}), ([(2, 2, 3), (2, 3, 4)], {})],
        "convolution": [([(2, 4, 5, 6), (6, 2, 3, 2)], how)],
        "convolution_input": [([(2, 6, 3, 4), (6, 2, 3, 2)], {"size": (5, 6), **how})],
        "convolution_weight": [([(2, 6, 3, 4), (2, 4, 5, 6)], {"size": (3, 2), **how})],
        "take_rows": [([(3, 2), rows], {}), ([(3,), matrix], {}), ([(3, 2, 2), rows.astype(np.int32)], {})],
        "add_rows": [([(3, 2), rows, (4, 2)], {}), ([(3,), matrix, (2, 2)], {})],
        "weighted_rows": [([(4,), (3, 2), _index(0, 2, 2, 4), _index(2, 0, 1, 2)], {})],
        "put_rows": [([(4, 2), _index(2, 0, 3), (3, 2)], {}), ([(4,), _index(3, 0), (2,)], {})],
        "gather": [([(3, 2), matrix], {"dim": 0}), ([(2, 3), matrix], {"dim": 1})],
        "scatter_add": [([(3, 2), matrix, (2, 2)], {"dim": 0}), ([(2, 3), matrix, (2, 2)], {"dim": 1})],
        "scatter": [
            *(([(3, 2), matrix, (2, 2)], {"dim": 0, "combine": c}) for c in ("mul", "maximum", "minimum")),
            ([(2, 3), np.array([[0, 2], [1, 0]]), (2, 2)], {"dim": 1, "combine": ""}),
        ],
        "slice_scatter": [([(2, 5), (2, 2)], cut)],
        "replace_block": [([(3, 5), (2, 2)], {"starts": (1, 0), "steps": (1, 3)})],
        "cat": [([(2, 3), (2, 1), (2, 2)], {"dim": 1}), ([(1, 2), (3, 2)], {"dim": 0})],
        "scan": [([(2, 3)], {"dim": d, "combine": c}) for d in (0, 1) for c in ("add", "mul")],
        "order": [([(4, 3)], {"dim": d, "count": 2, "descending": d == 0}) for d in (0, 1)],
        "bitcast": [([(2, 3)], {"dtype": dtypes.int64})],
        "require": [([np.ones(2, bool), (3, 2), (3, 2)], {"error": "RuntimeError", "message": "never"})],
        "search": [([_sorted(3, 5), (3, 4)], {"right": False}), ([_sorted(5), (4,)], {"right": True})],
        "running": [([(4, 3)], {"dim": d, "largest": d == 0}) for d in (0, 1)],
        "recurrence": [([(4, 3), (4, 3)], {"dim": d}) for d in (0, 1)],
        "cast": [([(2, 3)], {"dtype": dtypes.float64}), ([(2, 3)], {"dtype": dtypes.int64})],
        "where": [([*shapes], {}) for shapes in SHAPES[3]],
    }


def _values(name: str, position: int, shape: Any, random: np.random.Generator) -> np.ndarray:
    if isinstance(shape, np.ndarray):
        return shape
    if name in LOGICAL or name in ("all", "any") or (name in ("where", "require") and position == 0):
        return random.random(shape) < 0.5
    if name in INTEGER:
        return random.integers(0, 9, shape)
    if name in COMPLEX:
        return random.uniform(-2, 2, shape) + 1j * random.uniform(-2, 2, shape)
    domain = TABLE[name].domain
    low, high = domain[position] if position < len(domain) else (-2.0, 2.0)
    return random.uniform(low, high, shape)


def cases() -> list[Case]:
    """Examples of all primitives that take tensors."""
    structured = _structured()
    found = []
    random = np.random.default_rng(0)
    for name, op in TABLE.items():
        if name in SOURCES:
            continue
        listed = structured.get(name) or [(list(shapes), {}) for shapes in SHAPES[len(op.derivative)]]
        for shapes, attributes in listed:
            arrays = [_values(name, i, shape, random) for i, shape in enumerate(shapes)]
            found.append(Case(name, arrays, attributes))
    return found
