"""Samples of elementwise functions."""

from __future__ import annotations

from catalog.sample import Of, Table, Variation, call, pair

POSITIVE = Of("ab", 0.2, 4.0)


def one(low: float = -2.0, high: float = 2.0) -> list[Variation]:
    """A function of one tensor that is called with nothing else."""
    return [call(lambda t, f, x: f(x), Of("ab", low, high)), call(lambda t, f, x: f(x), Of("cabd", low, high))]


POINTWISE: Table = {
    **{n: one() for n in "cos sin exp abs sigmoid tanh relu square neg".split()},
    **{n: one(0.2, 4.0) for n in "sqrt rsqrt log log2".split()},
    "silu": [*one(), call(lambda t, f, x: f(x * 1, inplace=True), "ab")],
    "gelu": [
        *one(),
        call(lambda t, f, x: f(x, approximate="tanh"), "ab"),
        call(lambda t, f, x: f(x, approximate="x"), "ab"),
    ],
    "softplus": [
        *one(),
        call(lambda t, f, x: f(x, 2.0, 1.5), "ab"),
        call(lambda t, f, x: f(x, beta=0.5, threshold=1), "ab"),
    ],
    "leaky_relu": [
        *one(),
        call(lambda t, f, x: f(x, 0.2), "ab"),
        call(lambda t, f, x: f(x * 1, 0.2, inplace=True), "ab"),
    ],
    "add": [
        pair(lambda t, f, x, y: f(x, y)),
        pair(lambda t, f, x, y: f(x, y, alpha=2)),
        pair(lambda t, f, x, y: f(x, y, alpha=0.5)),
        call(lambda t, f, x: (f(x, 2), f(x, 1.5), f(x, True)), "ab"),
    ],
    "mul": [pair(lambda t, f, x, y: f(x, y)), call(lambda t, f, x: (f(x, 2), f(x, 1.5), f(x, True)), "ab")],
    "div": [
        pair(lambda t, f, x, y: f(x, y), 0.5, 3),
        *(pair(lambda t, f, x, y, m=m: f(x, y, rounding_mode=m), 1, 9) for m in ("floor", "trunc", "nearest")),
        call(lambda t, f, x: (f(x, 2), f(x, 1.5)), "ab"),
        call(lambda t, f, x: (f(x, 2, rounding_mode="floor"), f(x, 1.5, rounding_mode="trunc")), Of("ab", -9, 9)),
    ],
    "pow": [
        pair(lambda t, f, x, y: f(x, y), 0.5, 3),
        call(lambda t, f, x: (f(x, 2), f(x, 3), f(x, 0)), "ab"),
        call(lambda t, f, x: (f(x, 0.5), f(x, -1.5), f(x, 2.0)), POSITIVE),
        call(lambda t, f, x: f(x, -1), Of("ab", 1, 4)),
    ],
    "maximum": [pair(lambda t, f, x, y: f(x, y))],
    "eq": [pair(lambda t, f, x, y: f(x, y), -1, 1), call(lambda t, f, x: (f(x, 1), f(x, 0.5), f(x, True)), "ab")],
    "clamp": [
        call(lambda t, f, x: f(x, -1, 1), "ab"),
        call(lambda t, f, x: (f(x, min=-0.5), f(x, max=0.5), f(x, -0.5, 1)), "ab"),
        call(lambda t, f, x, y: f(x, y), "ab", "ab", broadcast=(("ab", "b"), ("a1", "1b"), ("ab", ""), ("b", "ab"))),
        call(
            lambda t, f, x, y, z: f(x, min=y, max=z),
            "ab",
            Of("ab", -2, 0),
            Of("ab", 0, 2),
            broadcast=(("ab", "b", ""), ("ab", "a1", "1b")),
            mixed=(("float32", "int64", "float32"),),
        ),
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x, y: f(x, y, 1), "ab", "ab"),
        call(lambda t, f, x, y: (f(x, -1, y.detach()), f(x, y.detach(), 0.5)), "ab", Of("")),
    ],
    "masked_fill": [
        call(
            lambda t, f, x, m: (f(x, m, 2), f(x, m, 1.5)),
            "ab",
            Of("ab", dtype="bool"),
            broadcast=(("ab", "b"), ("ab", "a1"), ("b", "ab"), ("ab", ""), ("", "ab")),
        ),
        call(
            lambda t, f, x, m, v: f(x, m, v),
            "ab",
            Of("ab", dtype="bool"),
            Of(""),
            broadcast=(("ab", "b", ""), ("ab", "ab", "b")),
        ),
        call(lambda t, f, x, m: f(x, m, 1), "ab", Of("ab", 0, 1, "int64")),
    ],
    "where": [
        call(
            lambda t, f, m, x, y: f(m, x, y),
            Of("ab", dtype="bool"),
            "ab",
            "ab",
            broadcast=(("a1", "1b", ""), ("", "ab", "b"), ("b", "a1", "ab"), ("ab", "ba", "ab")),
            mixed=(
                ("bool", "float32", "int64"),
                ("bool", "bfloat16", "float64"),
                ("int64", "float32", "float32"),
                ("uint8", "float32", "float32"),
            ),
        ),
        call(lambda t, f, m, x: (f(m, x, 1), f(m, 1.5, x)), Of("ab", dtype="bool"), "ab", broadcast=(("a1", "b"),)),
        call(lambda t, f, m: (f(m, 1, 0), f(m, 1.5, 0), f(m, True, False)), Of("ab", dtype="bool")),
        call(lambda t, f, m: f(m), Of("ab", dtype="bool")),
    ],
}
POINTWISE["clip"] = POINTWISE["clamp"]
