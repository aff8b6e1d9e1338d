"""Samples of reductions, products, sorting and scans."""

from __future__ import annotations

from oracle import FLOATS

from catalog.sample import Of, Table, call

DISTINCT = ("usual", "empty", "0-d", "size-1", "transposed", "strided")
"""Kinds in which no two elements are equal: whose index PyTorch gives of equal ones is not defined."""

WHOLE_AND_DIM = [
    call(lambda t, f, x: f(x), "ab"),
    call(lambda t, f, x: f(x, 1), "ab"),
    call(lambda t, f, x: f(x, dim=-2, keepdim=True), "cab"),
    call(lambda t, f, x: f(x, 3), "ab"),
]
SEVERAL = [
    *WHOLE_AND_DIM,
    call(lambda t, f, x: (f(x, (0, 2)), f(x, dim=(1, -1), keepdim=True)), "cab"),
    call(lambda t, f, x: f(x, (0, 0)), "ab", kinds=("usual", "0-d")),
]
TYPED = [call(lambda t, f, x: (f(x, dtype=t.float64), f(x, 0, dtype=t.float32)), "ab")]
EXTREME = [
    *WHOLE_AND_DIM,
    call(
        lambda t, f, x, y: f(x, y),
        "ab",
        "ab",
        broadcast=(("ab", "b"), ("a1", "1b"), ("ab", "")),
        mixed=(("float32", "int64"), ("uint8", "int8")),
    ),
    call(lambda t, f, x: f(x.round()), "ab", kinds=("usual",), dtypes=("float32",)),
]
SPREAD = [
    call(lambda t, f, x: f(x), "ab"),
    call(lambda t, f, x: f(x, 1), "ab"),
    call(lambda t, f, x: (f(x, dim=-2, keepdim=True), f(x, (0, 1), unbiased=False)), "cab"),
    call(lambda t, f, x: (f(x, False), f(x, 0, correction=0), f(x, correction=2)), "ab"),
    call(lambda t, f, x: f(x, 4), "ab"),
]
SOFT = [
    call(lambda t, f, x: f(x, 1), "ab"),
    call(lambda t, f, x: f(x, dim=0), "ab"),
    call(lambda t, f, x: f(x, -2), "cab"),
    call(lambda t, f, x: f(x, -1, dtype=t.float64), "ab"),
    call(lambda t, f, x: f(x, 2), "ab"),
]
ORDER = [
    call(lambda t, f, x: f(x), "ab"),
    call(lambda t, f, x: f(x, 0), "ab"),
    call(lambda t, f, x: f(x, dim=-2, descending=True), "cab"),
    call(lambda t, f, x: f(x, stable=True), "ab"),
    call(lambda t, f, x: f(x, 5), "ab"),
]

REDUCTIONS: Table = {
    "sum": [*SEVERAL, *TYPED],
    "mean": [*SEVERAL, *TYPED],
    "max": EXTREME,
    "min": EXTREME,
    "amax": SEVERAL,
    "any": SEVERAL,
    "all": SEVERAL,
    "argmax": WHOLE_AND_DIM,
    "var": SPREAD,
    "std": SPREAD,
    "softmax": SOFT,
    "log_softmax": SOFT,
    "argsort": ORDER,
    "sort": ORDER,
    "norm": [
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: (f(x, 2, 1), f(x, dim=0)), "ab"),
        call(
            lambda t, f, x: (
                f(x, 1),
                f(x, p=3, dim=-1, keepdim=True),
                f(x, float("inf")),
                f(x, float("-inf"), 0),
                f(x, 0),
            ),
            "ab",
        ),
        call(lambda t, f, x: (f(x, "fro"), f(x, dim=(0, 1)), f(x, "fro", dim=(0, 1))), "ab"),
        call(lambda t, f, x: f(x, "nuc"), "ab", kinds=("usual", "empty", "0-d", "transposed", "strided")),
        call(lambda t, f, x: f(x, 2, 4), "ab"),
        call(lambda t, f, x: f(x, "zz"), "ab", kinds=("usual",)),
    ],
    "normalize": [
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: f(x, p=1, dim=0), "ab"),
        call(lambda t, f, x: f(x, dim=-1, eps=10.0), "cab"),
        call(lambda t, f, x: f(x, dim=4), "ab"),
    ],
    "cumsum": [
        call(lambda t, f, x: f(x, 1), "ab"),
        call(lambda t, f, x: f(x, dim=-2), "cab"),
        call(lambda t, f, x: f(x, 0, dtype=t.float64), "ab"),
        call(lambda t, f, x: f(x, 3), "ab"),
    ],
    "topk": [
        call(lambda t, f, x: f(x, 1), "ab", kinds=DISTINCT, dtypes=FLOATS),
        call(lambda t, f, x: f(x, 2, 0), "ab", kinds=DISTINCT, dtypes=FLOATS),
        call(lambda t, f, x: f(x, k=2, dim=-1, largest=False), "cab", kinds=DISTINCT, dtypes=FLOATS),
        call(lambda t, f, x: f(x, 2).values, "ab", kinds=DISTINCT),
        call(lambda t, f, x: f(x, 9), "ab"),
    ],
    "trace": [call(lambda t, f, x: f(x), "ab"), call(lambda t, f, x: f(x), "abc")],
    "nonzero": [
        call(lambda t, f, x: f(x), Of("ab", -1, 1)),
        call(lambda t, f, x: f(x > 0.2), Of("cab", -1, 1)),
        call(lambda t, f, x: f(x, as_tuple=True), Of("ab", -1, 1, "int64")),
    ],
    "matmul": [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            "bc",
            broadcast=(
                ("b", "b"),
                ("b", "bc"),
                ("ab", "b"),
                ("dab", "bc"),
                ("ab", "dbc"),
                ("dab", "dbc"),
                ("d1ab", "ebc"),
                ("ab", "ac"),
                ("cab", "abc"),
            ),
            mixed=(("float32", "float64"), ("float32", "int64")),
        ),
    ],
    "mm": [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            "bc",
            broadcast=(("ab", "b"), ("ab", "ac"), ("dab", "dbc")),
            mixed=(("float32", "float64"),),
        )
    ],
    "bmm": [
        call(
            lambda t, f, x, y: f(x, y),
            "dab",
            "dbc",
            broadcast=(("ab", "bc"), ("dab", "dac"), ("1ab", "dbc")),
            mixed=(("float32", "float64"),),
        )
    ],
    "outer": [
        call(lambda t, f, x, y: f(x, y), "a", "b", mixed=(("float32", "int64"), ("bfloat16", "float32"))),
        call(lambda t, f, x, y: f(x, y), "ab", "b"),
    ],
    "einsum": [
        call(
            lambda t, f, x, y: f("ij,jk->ik", x, y),
            "ab",
            "bc",
            broadcast=(("ab", "ac"), ("ab", "b")),
            mixed=(("float32", "float64"),),
        ),
        call(lambda t, f, x, y: (f("bij,bjk->bik", x, y), f("bij,bjk", [x, y]), f("bij,bjk->", x, y)), "dab", "dbc"),
        call(lambda t, f, x: (f("ij->ji", x) * 1, f("ij->i", x), f("...j->...", x)), "ab"),
        call(lambda t, f, x, y: f("i,j->ij", x, y), "a", "b"),
        call(lambda t, f, x: f("ii->i", x) * 1, "aa"),
        call(lambda t, f, x: f("ij->ijk", x), "ab"),
        call(lambda t, f, x: f("i", x), "ab"),
    ],
    "operator @": [
        call(
            lambda t, f, x, y: x @ y,
            "ab",
            "bc",
            broadcast=(("b", "b"), ("dab", "bc"), ("ab", "ac"), ("b", "dbc")),
            mixed=(("float32", "float64"),),
        ),
        call(lambda t, f, x: x @ 2.0, "ab", kinds=("usual",)),
    ],
    "multinomial": [
        call(lambda t, f, x: (f(x, 2), f(x, 2) < x.shape[-1]), Of("ab", 0.2, 1), random=True),
        call(lambda t, f, x: f(x, 9, replacement=True), Of("b", 0.2, 1), random=True),
        call(lambda t, f, x: f(x, 9), Of("ab", 0.2, 1), random=True),
        call(lambda t, f, x: f(-x, 1), Of("ab", 0.2, 1), random=True),
        call(lambda t, f, x: f(x, 1), Of("cab", 0.2, 1), random=True),
        call(lambda t, f, x: f(x * 0, 1), Of("ab", 0.2, 1), random=True, kinds=("usual",)),
        call(lambda t, f, x: f(x, 0), Of("ab", 0.2, 1), random=True, kinds=("usual",)),
    ],
}
