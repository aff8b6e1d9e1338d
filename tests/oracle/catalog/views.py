"""Samples of views and of what joins, splits and gathers."""

from __future__ import annotations

from catalog.sample import Of, Table, Variation, call


def view(function, *inputs, **options) -> Variation:
    """A variation whose results are views, with PyTorch's strides."""
    return call(function, *inputs, strides=True, **options)


NONEMPTY = ("usual", "0-d", "size-1", "transposed", "strided", "expanded")
INDEX = Of("ac", dtype="int64", below="b")

VIEWS: Table = {
    "view": [
        view(lambda t, f, x: f(x, -1), "ab"),
        view(lambda t, f, x: (f(x, 2, 6), f(x, (4, 3)), f(x, 3, -1, 2)), "ab"),
        view(lambda t, f, x: f(x, *x.shape[:-1], 2, 2), "ab"),
        view(lambda t, f, x: f(x, x.dtype), "ab", kinds=("usual", "0-d")),
    ],
    "reshape": [
        view(lambda t, f, x: f(x, -1), "ab"),
        view(lambda t, f, x: (f(x, (2, 6)), f(x, x.numel()), f(x, 1, *x.shape)), "ab"),
        call(lambda t, f, x: f(x, 5, -1), "ab"),
    ],
    "view_as": [
        view(
            lambda t, f, x, y: f(x, y),
            "ab",
            Of("ba", grad=False),
            broadcast=(("ab", "ab1"), ("ab", "e2"), ("ab", "a")),
        )
    ],
    "reshape_as": [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            Of("ba", grad=False),
            broadcast=(("ab", "ab1"), ("ab", "e2"), ("ab", "a")),
        )
    ],
    "expand_as": [
        view(lambda t, f, x, y: f(x, y), "ab", "ab", broadcast=(("a1", "ab"), ("b", "cab"), ("", "ab"), ("ab", "b")))
    ],
    "transpose": [
        view(lambda t, f, x: f(x, 0, 1), "ab"),
        view(lambda t, f, x: (f(x, 0, -1), f(x, 1, 2), f(x, 1, 1)), "abc"),
        view(lambda t, f, x: f(x, 0, 5), "ab"),
        view(lambda t, f, x: f(x, dim0=-2, dim1=-1), "ab"),
    ],
    "permute": [
        view(lambda t, f, x: f(x, 1, 0), "ab"),
        view(lambda t, f, x: (f(x, (2, 0, 1)), f(x, -1, 0, 1)), "abc"),
        view(lambda t, f, x: f(x, 0, 0), "ab"),
        view(lambda t, f, x: f(x, ()), "ab"),
    ],
    "t": [view(lambda t, f, x: f(x), "ab"), view(lambda t, f, x: f(x), "a"), view(lambda t, f, x: f(x), "abc")],
    "T": [view(lambda t, f, x: x.T, "ab"), view(lambda t, f, x: x.T, "abc")],
    "mT": [view(lambda t, f, x: x.mT, "ab"), view(lambda t, f, x: x.mT, "abc"), view(lambda t, f, x: x.mT, "a")],
    "squeeze": [
        view(lambda t, f, x: f(x), "ab"),
        view(lambda t, f, x: (f(x), f(x, 1), f(x, -1), f(x, (0, 1))), "a1b"),
        view(lambda t, f, x: f(x, 5), "ab"),
        view(lambda t, f, x: f(x, dim=0), "1b"),
    ],
    "unsqueeze": [
        view(lambda t, f, x: (f(x, 0), f(x, -1)), "ab"),
        view(lambda t, f, x: f(x, 1), "ab"),
        view(lambda t, f, x: f(x, 4), "ab"),
    ],
    "expand": [
        view(lambda t, f, x: (f(x, 3, -1, -1), f(x, (2, *x.shape))), "ab"),
        view(lambda t, f, x: f(x, 3, 4), "a1"),
        view(lambda t, f, x: f(x, 3, 4), "b"),
        view(lambda t, f, x: f(x, 5, 4), "ab"),
        view(lambda t, f, x: f(x, 0, 4), "1b"),
    ],
    "flatten": [
        view(lambda t, f, x: f(x), "ab", kinds=("usual", "empty", "0-d", "size-1")),
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: (f(x, 1), f(x, 0, 1), f(x, start_dim=-2), f(x, 1, 1)), "abc"),
        call(lambda t, f, x: f(x, 2, 1), "abc"),
    ],
    "chunk": [
        view(lambda t, f, x: f(x, 2), "ab"),
        view(lambda t, f, x: f(x, 3, 1), "ab"),
        view(lambda t, f, x: f(x, chunks=5, dim=-1), "ab"),
        view(lambda t, f, x: f(x, 0), "ab"),
        view(lambda t, f, x: f(x, 2, 3), "ab"),
    ],
    "split": [
        view(lambda t, f, x: f(x, 2), "ab"),
        view(lambda t, f, x: f(x, [1, 3], 1), "ab"),
        view(lambda t, f, x: f(x, 3, dim=-1), "ab"),
        view(lambda t, f, x: f(x, [1, 1], 1), "ab"),
        view(lambda t, f, x: f(x, -1), "ab"),
        view(lambda t, f, x: f(x, 0), "ab"),
    ],
    "unbind": [
        view(lambda t, f, x: f(x), "ab"),
        view(lambda t, f, x: f(x, 1), "ab"),
        view(lambda t, f, x: f(x, dim=-1), "abc"),
        view(lambda t, f, x: f(x, 3), "ab"),
    ],
    "unfold": [
        view(lambda t, f, x: f(x, 0, 2, 1), "ab"),
        view(lambda t, f, x: f(x, -1, 2, 2), "ab"),
        call(lambda t, f, x: f(x, -1, 2, 1) * 2, "ab"),
        view(lambda t, f, x: f(x, 0, 9, 1), "ab"),
        view(lambda t, f, x: f(x, 0, 1, 0), "ab"),
    ],
    "view_as_real": [
        call(
            lambda t, f, x, y: f(t.complex(x, y)),
            "ab",
            "ab",
            dtypes=("float32", "float64"),
            kinds=NONEMPTY,
        ),
        call(lambda t, f, x: f(x), "ab"),
    ],
    "view_as_complex": [
        call(lambda t, f, x: f(x) * (2 - 1j), "a2", dtypes=("float32", "float64"), kinds=("usual", "size-1", "0-d")),
        call(
            lambda t, f, x: f(x), "a2", dtypes=("float32", "float64"), kinds=("usual", "size-1", "0-d")
        ),
        call(lambda t, f, x: f(x), "ab"),
    ],
    "diag": [
        call(lambda t, f, x: (f(x), f(x, 1), f(x, diagonal=-1)), "ab"),
        call(lambda t, f, x: (f(x), f(x, 2), f(x, -1)), "a", kinds=NONEMPTY),
        call(lambda t, f, x: f(x), "abc"),
    ],
    "cat": [
        call(
            lambda t, f, x, y: f([x, y]),
            "ab",
            "ab",
            broadcast=(("ab", "cb"), ("ab", "0"), ("ab", "b"), ("ab", "a1")),
            mixed=(("float32", "int64"), ("bfloat16", "float32"), ("bool", "uint8")),
        ),
        call(lambda t, f, x, y: (f([x, y], 1), f((x, y, x), dim=-1)), "ab", "ab"),
        call(lambda t, f, x: f([x]), "ab"),
        call(lambda t, f, x: f([x, x], 2), "ab"),
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: f([x, 1]), "ab", kinds=("usual",)),
    ],
    "stack": [
        call(
            lambda t, f, x, y: f([x, y]),
            "ab",
            "ab",
            broadcast=(("ab", "b"), ("ab", "a1")),
            mixed=(("float32", "int64"), ("bool", "uint8")),
        ),
        call(lambda t, f, x, y: (f([x, y], 1), f((x, y, x), dim=-1)), "ab", "ab"),
        call(lambda t, f, x: f([x, x], 4), "ab"),
        call(lambda t, f, x: f([]), "ab", kinds=("usual",)),
    ],
    "repeat": [
        call(lambda t, f, x: (f(x, 2, 3), f(x, (2, 1, 2))), "ab"),
        call(lambda t, f, x: f(x, 0, 2), "ab"),
        call(lambda t, f, x: f(x, 2), "ab"),
    ],
    "repeat_interleave": [
        call(lambda t, f, x: f(x, 2), "ab"),
        call(lambda t, f, x: f(x, 3, dim=1), "ab"),
        call(lambda t, f, x, n: f(x, n, dim=0), "ab", Of("a", 0, 3, "int64")),
        call(
            lambda t, f, x: f(x, t.tensor([1, 2]), 0, output_size=3),
            "c",
            kinds=("usual", "transposed", "strided", "expanded"),
        ),
        call(lambda t, f, x: f(x, -1), "ab"),
    ],
    "flip": [
        call(lambda t, f, x: f(x, (0,)), "ab"),
        call(lambda t, f, x: (f(x, [0, 1]), f(x, (-1,)), f(x, ())), "ab"),
        call(lambda t, f, x: f(x, (0, 0)), "ab"),
        call(lambda t, f, x: f(x, (3,)), "ab"),
    ],
    "tril": [
        call(lambda t, f, x: (f(x), f(x, 1), f(x, diagonal=-1)), "ab"),
        call(lambda t, f, x: f(x, -2), "cab"),
        call(lambda t, f, x: f(x), "a"),
    ],
    "triu": [
        call(lambda t, f, x: (f(x), f(x, 1), f(x, diagonal=-1)), "ab"),
        call(lambda t, f, x: f(x, 2), "cab"),
        call(lambda t, f, x: f(x), "a"),
    ],
    "gather": [
        call(lambda t, f, x, i: f(x, 1, i), "ab", INDEX, broadcast=(("ab", "cc"), ("ab", "b"), ("ab", "bc"))),
        call(lambda t, f, x, i: f(x, -2, i), "ab", Of("cb", dtype="int64", below="a")),
        call(lambda t, f, x, i: f(x, 0, i), "ab", Of("cb", dtype="float32"), kinds=("usual",)),
        call(lambda t, f, x, i: f(x, 1, i + 9), "ab", INDEX, kinds=("usual", "empty")),
        call(lambda t, f, x, i: f(x, 3, i), "ab", INDEX),
    ],
    "index_select": [
        call(lambda t, f, x, i: f(x, 1, i), "ab", Of("d", dtype="int64", below="b")),
        call(
            lambda t, f, x, i: f(x, -2, i),
            "ab",
            Of("d", dtype="int32", below="a"),
            kinds=("usual", "0-d", "size-1", "transposed", "strided"),
        ),
        call(lambda t, f, x, i: f(x, 0, i), "ab", Of("cc", dtype="int64", below="a")),
        call(lambda t, f, x, i: f(x, 0, i + 9), "ab", Of("d", dtype="int64", below="a"), kinds=("usual", "0-d")),
        call(lambda t, f, x, i: f(x, 0, i), "ab", Of("d", dtype="float32")),
    ],
    "meshgrid": [
        call(lambda t, f, x, y: f(x, y, indexing="ij"), "a", "b"),
        call(lambda t, f, x, y: f([x, y], indexing="xy"), "a", "b"),
        call(lambda t, f, x, y: f(x, y), "a", "b"),
        call(lambda t, f, x, y: f(x, y, indexing="zz"), "a", "b"),
        call(lambda t, f, x: f(x, x), "ab"),
    ],
    "clone": [call(lambda t, f, x: f(x), "ab"), call(lambda t, f, x: f(x, memory_format=t.contiguous_format), "ab")],
    "contiguous": [
        view(lambda t, f, x: f(x), "ab"),
        view(lambda t, f, x: (f(x).is_contiguous(), f(x.transpose(0, 1)) * 1), "ab"),
    ],
    "detach": [view(lambda t, f, x: f(x), "ab"), call(lambda t, f, x: (f(x).requires_grad, f(x) * x), "ab")],
    "data": [view(lambda t, f, x: x.data, "ab"), call(lambda t, f, x: x.data * x, "ab")],
    "pad": [
        call(lambda t, f, x: f(x, (1, 2)), "ab"),
        call(lambda t, f, x: f(x, (1, 0, 0, 2), "constant", 1.5), "ab"),
        call(lambda t, f, x: f(x, (-1, 1), value=3), "ab"),
        *(call(lambda t, f, x, m=m: f(x, (1, 2), mode=m), "cab") for m in ("reflect", "replicate", "circular")),
        call(lambda t, f, x: f(x, (1, 1, 2, 1), mode="reflect"), "cbab"),
        call(lambda t, f, x: f(x, (9, 0), mode="reflect"), "cab"),
        call(lambda t, f, x: f(x, (1,)), "ab"),
        call(lambda t, f, x: f(x, (1, 1), mode="zz"), "cab"),
        call(lambda t, f, x: f(x, (-3, -3)), "ab"),
    ],
    "pad_sequence": [
        call(lambda t, f, x, y: (f([x, y]), f([x, y], batch_first=True, padding_value=1.5)), "a", "b"),
        call(lambda t, f, x, y: f([x, y]), "ac", "bc"),
        call(lambda t, f, x, y: f([x, y]), "ac", "bd"),
    ],
}
