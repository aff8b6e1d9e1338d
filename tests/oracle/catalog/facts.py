"""Samples of what tensors know of themselves, of conversions, and of functions that make tensors."""

from __future__ import annotations

from catalog.sample import Of, Table, call

NONE = {"kinds": ("usual",)}
NUMPYS = ("float64", "float16", "int64", "bool")


def text(x):
    """A dtype or device without its library."""
    return str(x).rpartition(".")[2]


FACTS: Table = {
    "shape": [
        call(lambda t, f, x: tuple(x.shape), "ab"),
        call(lambda t, f, x: (x.shape[0], x.shape[-1], len(x.shape), x.shape.numel()), "ab"),
    ],
    "size": [
        call(lambda t, f, x: (tuple(f(x)), len(f(x))), "ab"),
        call(lambda t, f, x: (f(x, 0), f(x, dim=-1)), "ab"),
        call(lambda t, f, x: f(x, 2), "ab"),
    ],
    "dim": [call(lambda t, f, x: f(x), "ab")],
    "ndim": [call(lambda t, f, x: x.ndim, "ab")],
    "numel": [call(lambda t, f, x: f(x), "ab")],
    "nelement": [call(lambda t, f, x: f(x), "ab")],
    "dtype": [call(lambda t, f, x: (text(x.dtype), x.dtype == t.float32, x.dtype.is_floating_point), "ab")],
    "device": [call(lambda t, f, x: (str(x.device), x.device.type, x.device == t.device("cpu")), "ab")],
    "requires_grad": [call(lambda t, f, x: (x.requires_grad, (x * 1).requires_grad, x.detach().requires_grad), "ab")],
    "is_cuda": [call(lambda t, f, x: x.is_cuda, "ab")],
    "is_sparse": [call(lambda t, f, x: x.is_sparse, "ab")],
    "is_contiguous": [
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: (f(x, memory_format=t.contiguous_format), f(x.transpose(0, 1))), "ab"),
    ],
    "is_tensor": [call(lambda t, f, x: (f(x), f(1), f([x]), f(x.shape)), "ab")],
    "type": [
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: (f(x, t.float64), f(x, "torch.IntTensor"), f(x, t.FloatTensor)), "ab"),
        call(lambda t, f, x: f(x, "zz"), "ab", **NONE),
    ],
    "item": [
        call(lambda t, f, x: f(x), ""),
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: f(x.sum()) * 2, "ab"),
    ],
    "tolist": [call(lambda t, f, x: f(x), "ab")],
    "numpy": [
        call(lambda t, f, x: f(x.detach()), "ab", dtypes=NUMPYS, eager="turned into an ndarray"),
        call(lambda t, f, x: f(x), "ab", dtypes=NUMPYS, eager="turned into an ndarray", **NONE),
        call(lambda t, f, x: f(x, force=True), "ab", dtypes=NUMPYS, eager="turned into an ndarray", **NONE),
    ],
    **{n: [call(lambda t, f, x: f(x), "ab")] for n in "float half double long int bool cpu".split()},
    "to": [
        call(lambda t, f, x: f(x, t.float64), "ab"),
        call(lambda t, f, x: (f(x, "cpu"), f(x, dtype=t.int64), f(x, "cpu", t.float16), f(x, t.device("cpu"))), "ab"),
        call(lambda t, f, x, y: f(x, y), "ab", Of("", grad=False), mixed=(("float32", "int64"), ("int64", "float32"))),
        call(lambda t, f, x: (f(x, x.dtype) is x, f(x, x.dtype, copy=True) is x), "ab"),
        call(lambda t, f, x: f(x, "zz"), "ab", **NONE),
        call(lambda t, f, x: f(x), "ab", **NONE),
    ],
    "cuda": [call(lambda t, f, x: f(x), "ab", **NONE)],
    "type_as": [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            Of("", grad=False),
            mixed=(("float32", "int64"), ("int64", "float32"), ("float32", "float64"), ("float32", "bool")),
        )
    ],
    "requires_grad_": [
        call(lambda t, f, x: (lambda y: (f(y).requires_grad, f(y, False).requires_grad))(x.detach().clone()), "ab")
    ],
    "new_zeros": [
        call(lambda t, f, x: (f(x, 2, 3), f(x, (4,)), f(x, (2, 0), dtype=t.float64), f(x, ())), "ab"),
        call(lambda t, f, x: f(x, -1), "ab", **NONE),
    ],
    "new_ones": [
        call(lambda t, f, x: (f(x, 2, 3), f(x, (4,)), f(x, (2, 0), dtype=t.float64), f(x, x.shape)), "ab"),
        call(lambda t, f, x: f(x, -1), "ab", **NONE),
    ],
    "new_full": [
        call(lambda t, f, x: (f(x, (2, 3), 1), f(x, (4,), 1.5, dtype=t.float64), f(x, x.shape, 2.5)), "ab"),
        call(lambda t, f, x: f(x, 3, 1), "ab", **NONE),
    ],
    "new_tensor": [
        call(lambda t, f, x: (f(x, [1, 2.5]), f(x, 3, dtype=t.int32), f(x, [[1], [0]])), "ab"),
        call(lambda t, f, x: f(x, "a"), "ab", **NONE),
    ],
    "zeros_like": [call(lambda t, f, x: (f(x), f(x, dtype=t.float64)), "ab")],
    "ones_like": [call(lambda t, f, x: (f(x), f(x, dtype=t.int64)), "ab")],
    "empty_like": [call(lambda t, f, x: (f(x).fill_(1), f(x, dtype=t.int64).zero_()), "ab")],
    "randn_like": [call(lambda t, f, x: (f(x), f(x, dtype=t.float64)), "ab", random=True)],
    "resize": [
        call(lambda t, f, x: f(x.detach(), 3, 4), "ab"),
        call(lambda t, f, x: f(x, *x.shape), "ab"),
    ],
    "zeros": [
        call(lambda t, f, x: (f(2, 3), f((4,)), f(()), f(0, 2), f(2, dtype=t.int64)), "", **NONE),
        call(lambda t, f, x: f(*x.shape), "ab"),
        call(lambda t, f, x: f(-1), "", **NONE),
        call(lambda t, f, x: f(2, requires_grad=True), "", **NONE),
        call(lambda t, f, x: f(1.5), "", **NONE),
        call(lambda t, f, x: f("a"), "", **NONE),
    ],
    "empty": [
        call(
            lambda t, f, x: (f(2, 3).zero_(), f((4,)).zero_(), f(()).zero_(), f(0, 2), f(2, dtype=t.int64).zero_()),
            "",
            **NONE,
        ),
        call(lambda t, f, x: f(*x.shape).fill_(2), "ab"),
        call(lambda t, f, x: f(-1), "", **NONE),
    ],
    "full": [
        call(lambda t, f, x: (f((2, 3), 2), f((4,), 1.5), f((), True), f((2,), 3, dtype=t.float64)), "", **NONE),
        call(lambda t, f, x: f(tuple(x.shape), 2.5), "ab"),
        call(lambda t, f, x: f((-1,), 2), "", **NONE),
        call(lambda t, f, x: f(3, 1), "", **NONE),
    ],
    "eye": [
        call(lambda t, f, x: (f(3), f(2, 4), f(0), f(4, 2, dtype=t.int64)), "", **NONE),
        call(lambda t, f, x: f(x.shape[0]), "ab"),
        call(lambda t, f, x: f(-1), "", **NONE),
    ],
    "arange": [
        call(
            lambda t, f, x: (
                f(5),
                f(1, 4),
                f(1, 9, 3),
                f(5.0),
                f(0, 1, 0.25),
                f(5, 0, -2),
                f(3, dtype=t.float32),
                f(0),
            ),
            "",
            **NONE,
        ),
        call(lambda t, f, x: f(x.shape[0]), "ab"),
        call(lambda t, f, x: f(5, 0), "", **NONE),
        call(lambda t, f, x: f(0, 5, 0), "", **NONE),
        call(lambda t, f, x: f(float("nan")), "", **NONE),
    ],
    "linspace": [
        call(
            lambda t, f, x: (
                f(0, 1, 5),
                f(1, -1, 4),
                f(0, 1, 1),
                f(0, 1, 0),
                f(0, 9, 4, dtype=t.int64),
                f(0, 1, 3, dtype=t.float64),
            ),
            "",
            **NONE,
        ),
        call(lambda t, f, x: f(0, 2, steps=x.shape[0]), "ab"),
        call(lambda t, f, x: f(0, 1, -1), "", **NONE),
    ],
    "tensor": [
        call(
            lambda t, f, x: (
                f([1, 2]),
                f([1.5]),
                f(True),
                f([[1], [2]]),
                f([]),
                f(3, dtype=t.float64),
                f([1.0, 2], requires_grad=True),
            ),
            "",
            **NONE,
        ),
        call(lambda t, f, x: f(x.shape), "ab"),
        call(lambda t, f, x: f(x.detach()), "ab"),
        call(lambda t, f, x: f("a"), "", **NONE),
        call(lambda t, f, x: f([[1], [1, 2]]), "", **NONE),
        call(lambda t, f, x: f([1, None]), "", **NONE),
    ],
    "as_tensor": [
        call(lambda t, f, x: (f([1, 2]), f(2.5), f(x), f(x, dtype=t.float64)), "ab"),
        call(lambda t, f, x: f(x) is x, "ab"),
        call(lambda t, f, x: f("a"), "", **NONE),
    ],
    "randn": [
        call(lambda t, f, x: (f(2, 3), f((4,)), f(()), f(0, 2), f(2, dtype=t.float64)), "", random=True, **NONE),
        call(lambda t, f, x: f(*x.shape), "ab", random=True),
        call(lambda t, f, x: f(2, dtype=t.int64), "", random=True, **NONE),
        call(lambda t, f, x: f(-1), "", **NONE),
    ],
    "rand": [
        call(lambda t, f, x: (lambda y: (y, (y >= 0) & (y < 1)))(f(2, 3)), "", random=True, **NONE),
        call(lambda t, f, x: f(*x.shape), "ab", random=True),
        call(lambda t, f, x: f(2, dtype=t.int64), "", random=True, **NONE),
    ],
    "randint": [
        call(lambda t, f, x: (lambda y: (y, (y >= 3) & (y < 9)))(f(3, 9, (2, 3))), "", random=True, **NONE),
        call(lambda t, f, x: (f(5, tuple(x.shape)), f(5, (2,), dtype=t.float32)), "ab", random=True),
        call(lambda t, f, x: f(3, 3, (2,)), "", random=True, **NONE),
    ],
    "randperm": [
        call(
            lambda t, f, x: (f(5), f(5).sort().values == t.arange(5), f(0), f(1), f(4, dtype=t.int32)),
            "",
            random=True,
            **NONE,
        ),
        call(lambda t, f, x: f(x.shape[0]), "ab", random=True),
        call(lambda t, f, x: f(-1), "", random=True, **NONE),
    ],
    "normal": [
        call(
            lambda t, f, x, y: f(x, y),
            Of("ab", grad=False),
            Of("ab", 0.1, 1, grad=False),
            random=True,
            broadcast=(("ab", "b"), ("ab", "")),
        ),
        call(lambda t, f, x: (f(x, 2.0), f(1.0, x.abs())), Of("ab", grad=False), random=True),
        call(lambda t, f, x: f(0.0, 1.0, (2, 3)), "", random=True, **NONE),
        call(lambda t, f, x: f(0.0, -1.0, (2, 3)), "", random=True, **NONE),
        call(lambda t, f, x: f(x, -1.0), Of("ab", grad=False), random=True, **NONE),
    ],
    "dropout": [
        call(lambda t, f, x: f(x, 0.5), "ab", random=True),
        call(lambda t, f, x: (f(x, 0.0), f(x, 0.3, training=False), f(x, p=1.0)), "ab"),
        call(lambda t, f, x: (lambda y: (y == 0) | (y == x * 2))(f(x, 0.5)), "ab", random=True),
        call(lambda t, f, x: f(x, 1.5), "ab"),
        call(lambda t, f, x: f(x * 1, 0.5, True, True), "ab", random=True),
    ],
}
FACTS["ones"] = FACTS["zeros"]
