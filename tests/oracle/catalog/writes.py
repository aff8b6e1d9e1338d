"""Samples of in-place methods: on a tensor of the call's own, with gradients, and on the argument itself."""

from __future__ import annotations

from catalog.sample import KINDS, Of, Table, Variation, call

OWN = tuple(k for k in KINDS if k != "expanded")
"""PyTorch writes a number to memory that several elements share, which is deprecated; it is refused here."""
FILLED = tuple(k for k in KINDS if k != "empty")
PAIRS = (("ab", "b"), ("ab", ""), ("b", "ab"), ("ab", "1b"))
MIXED = (("float32", "int64"), ("int64", "float32"), ("bfloat16", "float32"), ("float32", "float64"), ("bool", "int64"))


def writes(function, *inputs, **options) -> list[Variation]:
    """In place on a result, with gradients; on the argument, which then holds the result and is it."""
    first = Of(inputs[0]) if isinstance(inputs[0], str) else inputs[0]
    plain = [
        Of(i.sizes, i.low, i.high, i.dtype, i.below, False)
        for i in (first, *(Of(i) if isinstance(i, str) else i for i in inputs[1:]))
    ]
    return [
        call(lambda t, f, x, *rest: function(t, f, x * 1, *rest), *inputs, **options),
        call(lambda t, f, x, *rest: function(t, f, x, *rest) is x, *plain, **{"kinds": OWN, **options}),
        call(
            lambda t, f, x, *rest: function(t, f, x, *rest),
            *inputs,
            **{**options, "kinds": ("usual",), "broadcast": (), "mixed": (), "dtypes": ()},
        ),
    ]


INDEX = Of("ac", dtype="int64", below="b")
RANDOM = {"random": True}

WRITES: Table = {
    "mul_": [
        *writes(lambda t, f, x, y: f(x, y), "ab", "ab", broadcast=PAIRS, mixed=MIXED),
        *writes(lambda t, f, x: f(x, 2), "ab"),
        *writes(lambda t, f, x: f(x, 1.5), "ab"),
    ],
    "add_": [
        *writes(lambda t, f, x, y: f(x, y), "ab", "ab", broadcast=PAIRS, mixed=MIXED),
        *writes(lambda t, f, x, y: f(x, y, alpha=2), "ab", "ab"),
        *writes(lambda t, f, x: f(x, 1.5), "ab"),
    ],
    "div_": [
        *writes(lambda t, f, x, y: f(x, y), "ab", Of("ab", 1, 3), broadcast=PAIRS, mixed=MIXED),
        *writes(lambda t, f, x: f(x, 2, rounding_mode="floor"), Of("ab", -9, 9)),
    ],
    "clamp_": [
        *writes(lambda t, f, x: f(x, -1, 1), "ab"),
        *writes(lambda t, f, x: f(x, min=0.5), "ab"),
        *writes(lambda t, f, x, y: f(x, max=y), "ab", "ab", broadcast=PAIRS),
        *writes(lambda t, f, x: f(x), "ab"),
    ],
    "fill_": [
        *writes(lambda t, f, x: f(x, 2), "ab"),
        *writes(lambda t, f, x: f(x, 1.5), "ab"),
        *writes(lambda t, f, x, y: f(x, y), "ab", Of(""), broadcast=(("ab", "b"), ("ab", "1"))),
    ],
    "zero_": writes(lambda t, f, x: f(x), "ab"),
    "copy_": [
        *writes(lambda t, f, x, y: f(x, y), "ab", "ab", broadcast=PAIRS, mixed=MIXED),
        *writes(lambda t, f, x: f(x, 3.0), "ab", kinds=("usual",), dtypes=()),
    ],
    "masked_fill_": [
        *writes(lambda t, f, x, m: f(x, m, 2), "ab", Of("ab", dtype="bool"), broadcast=PAIRS),
        *writes(lambda t, f, x, m, v: f(x, m, v), "ab", Of("ab", dtype="bool"), Of("")),
        *writes(lambda t, f, x, m: f(x, m, 1.5), "ab", Of("ab", dtype="bool")),
        *writes(lambda t, f, x, m: f(x, m, 1), "ab", Of("ab", 0, 1, "int64")),
    ],
    "addcmul_": [
        *writes(
            lambda t, f, x, y, z: f(x, y, z),
            "ab",
            "ab",
            "ab",
            broadcast=(("ab", "b", "a1"), ("b", "ab", "ab"), ("ab", "", "b")),
            mixed=(("float32", "int64", "float32"),),
        ),
        *writes(lambda t, f, x, y, z: f(x, y, z, value=0.5), "ab", "ab", "ab"),
    ],
    "addcdiv_": [
        *writes(
            lambda t, f, x, y, z: f(x, y, z),
            "ab",
            "ab",
            Of("ab", 0.5, 3),
            broadcast=(("ab", "b", "a1"), ("b", "ab", "ab"), ("ab", "", "b")),
        ),
        *writes(lambda t, f, x, y, z: f(x, y, z, value=0.5), "ab", "ab", Of("ab", 0.5, 3)),
    ],
    "scatter_": [
        *writes(
            lambda t, f, x, i, s: f(x, 1, i.sort(1).indices, s),
            "ab",
            INDEX,
            "ac",
            kinds=FILLED,
            broadcast=(("ab", "cc", "cc"), ("ab", "b", "b")),
        ),
        *writes(lambda t, f, x, i: f(x, -1, i, 1.5), "ab", INDEX),
        *writes(lambda t, f, x, i: f(x, 1, i, 2), "ab", INDEX),
        *writes(lambda t, f, x, i, s: f(x, 1, i, s, reduce="add"), Of("ab", grad=False), INDEX, Of("ac", grad=False)),
        *writes(lambda t, f, x, i: f(x, 1, i + 9, 1.0), "ab", INDEX, kinds=("usual",)),
    ],
    "scatter": [
        call(
            lambda t, f, x, i, s: f(x, 1, i.sort(1).indices, s),
            "ab",
            INDEX,
            "ac",
            kinds=FILLED,
            broadcast=(("ab", "cc", "cc"), ("ab", "b", "b")),
        ),
        call(lambda t, f, x, i: f(x, 1, i, 1.5), "ab", INDEX),
        call(lambda t, f, x, i, s: f(x, 1, i, s), "ab", INDEX, Of("ac", grad=False), kinds=("empty",)),
        call(
            lambda t, f, x, i, s: f(x, 0, i, s),
            "ab",
            Of("cb", dtype="int64", below="c"),
            "cb",
            kinds=("mixed dtypes",),
            mixed=(("float32", "int64", "float64"), ("float32", "int32", "float32")),
        ),
        call(lambda t, f, x, i: f(x, 1, i + 9, 1.0), "ab", INDEX, kinds=("usual",)),
    ],
    "detach_": [call(lambda t, f, x: (lambda y: (f(y) is y, y.requires_grad, y))(x * 2), "ab")],
    "uniform_": [
        call(lambda t, f, x: (lambda y: (y, (y >= 2) & (y <= 3)))(f(x.detach(), 2, 3)), "ab", random=True),
        call(lambda t, f, x: f(x * 1), "ab", random=True),
        call(lambda t, f, x: f(x.detach(), 3, 2), "ab", random=True),
        call(lambda t, f, x: f(x), "ab", random=True, kinds=("usual",)),
    ],
    "normal_": [
        call(lambda t, f, x: (lambda y: (y, y > 2000))(f(x.detach(), 3000, 2)), "ab", random=True),
        call(lambda t, f, x: f(x.detach()), "ab", random=True),
        call(lambda t, f, x: f(x.detach(), 1, -1), "ab", random=True),
    ],
    "random_": [
        call(lambda t, f, x: (lambda y: (y, (y >= 3) & (y < 9)))(f(x.detach(), 3, 9)), "ab", random=True),
        call(lambda t, f, x: f(x.detach(), 5) < 5, "ab", random=True),
        call(lambda t, f, x: f(x.detach()) >= 0, "ab", random=True),
        call(lambda t, f, x: f(x.detach(), 5, 5), "ab", random=True),
    ],
}
