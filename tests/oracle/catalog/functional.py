"""Samples of torch.nn.functional: products, losses, windows, normalizations, attention."""

from __future__ import annotations

from oracle import FLOATS

from catalog.sample import KINDS, Of, Table, call

FEW = ("usual",)
VARIED = tuple(k for k in KINDS if k != "expanded")
"""Without rows of equal numbers, whose variance of 0 makes a gradient of nothing but rounding errors."""
FILLED = tuple(k for k in KINDS if k != "empty")
"""PyTorch's backward refuses averages over no channels, whose gradient is empty."""
HALVES = Of("ab", 0.05, 0.95)
CLASSES = Of("a", dtype="int64", below="b")
LOSS_SHAPES = (("ab", "b"), ("ab", ""), ("ab", "a1"))


def losses(**options):
    """A loss of two tensors with each way to reduce."""
    return [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            "ab",
            broadcast=LOSS_SHAPES,
            mixed=(("float32", "float64"), ("float32", "int64")),
        ),
        *(call(lambda t, f, x, y, r=r: f(x, y, reduction=r), "ab", "ab") for r in ("sum", "none")),
        call(lambda t, f, x, y: f(x, y, reduction="zz"), "ab", "ab", kinds=FEW),
    ]


FUNCTIONAL: Table = {
    "linear": [
        call(
            lambda t, f, x, w: f(x, w),
            "ab",
            "cb",
            broadcast=(("b", "cb"), ("dab", "cb"), ("ab", "b"), ("ab", "ca"), ("0b", "cb")),
            mixed=(("float32", "float64"),),
        ),
        call(
            lambda t, f, x, w, b: f(x, w, b),
            "dab",
            "cb",
            "c",
            broadcast=(("ab", "cb", "b"), ("ab", "cb", "1"), ("ab", "cb", "")),
        ),
    ],
    "mse_loss": losses(),
    "l1_loss": losses(),
    "cross_entropy": [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            CLASSES,
            broadcast=(("b", ""), ("abc", "ac"), ("ab", "b"), ("abcd", "acd")),
        ),
        *(
            call(lambda t, f, x, y, r=r: f(x, y, reduction=r, label_smoothing=0.1, ignore_index=1), "ab", CLASSES)
            for r in ("mean", "sum", "none")
        ),
        call(lambda t, f, x, y, w: f(x, y, w), "ab", CLASSES, Of("b", 0.1, 1, grad=False)),
        call(lambda t, f, x, y: f(x, y.softmax(-1)), "ab", "ab"),
        call(lambda t, f, x, y: f(x, y + 9), "ab", CLASSES, kinds=FEW),
        call(lambda t, f, x, y: f(x, y, reduction="zz"), "ab", CLASSES, kinds=FEW),
    ],
    "nll_loss": [
        call(
            lambda t, f, x, y: f(x, y),
            "ab",
            CLASSES,
            broadcast=(("b", ""), ("abc", "ac"), ("ab", "b"), ("abcd", "acd")),
        ),
        *(
            call(lambda t, f, x, y, r=r: f(x, y, reduction=r, ignore_index=1), "ab", CLASSES)
            for r in ("mean", "sum", "none")
        ),
        call(lambda t, f, x, y, w: f(x, y, w), "ab", CLASSES, Of("b", 0.1, 1, grad=False)),
        call(lambda t, f, x, y: f(x, y + 9), "ab", CLASSES, kinds=FEW, dtypes=FLOATS),
    ],
    "layer_norm": [
        call(lambda t, f, x: f(x, x.shape[-1:]), "ab"),
        call(
            lambda t, f, x, w, b: f(x, (x.shape[-1],), w, b),
            "cab",
            "b",
            "b",
            broadcast=(("ab", "a", "a"),),
            kinds=VARIED,
        ),
        call(lambda t, f, x, w, b: f(x, (x.shape[-1],), w, b, 0.1), "cab", "b", "b", kinds=("expanded",)),
        call(lambda t, f, x: f(x, x.shape[1:], eps=0.1), "cab"),
        call(lambda t, f, x: f(x, (9,)), "ab", kinds=FEW),
    ],
    "scaled_dot_product_attention": [
        call(
            lambda t, f, q, k, v: f(q, k, v),
            "ncad",
            "ncbd",
            "ncbd",
            broadcast=(("ad", "bd", "bd"), ("nad", "nbd", "nbd")),
        ),
        call(lambda t, f, q, k, v: f(q, k, v, is_causal=True), "nad", "nad", "nad"),
        call(lambda t, f, q, k, v: f(q, k, v, scale=0.3), "nad", "nbd", "nbd"),
        call(
            lambda t, f, q, k, v, m: f(q, k, v, attn_mask=m),
            "nad",
            "nbd",
            "nbd",
            Of("ab", grad=False),
            broadcast=(("nad", "nbd", "nbd", "nab"), ("nad", "nbd", "nbd", "1b")),
        ),
        call(lambda t, f, q, k, v, m: f(q, k, v, m), "nad", "nbd", "nbd", Of("ab", dtype="bool"), dtypes=FLOATS),
        call(
            lambda t, f, q, k, v, m: f(q, k, v, m, is_causal=True), "nad", "nad", "nad", Of("aa", grad=False), kinds=FEW
        ),
    ],
    "conv2d": [
        call(
            lambda t, f, x, w: f(x, w),
            "nchw",
            "ac33",
            broadcast=(("chw", "ac33"), ("nchw", "aa33"), ("hw", "ac33"), ("0chw", "ac33")),
        ),
        call(
            lambda t, f, x, w, b: f(x, w, b, stride=2, padding=1),
            "nchw",
            "ac33",
            "a",
            broadcast=(("nchw", "ac33", "c"),),
        ),
        call(lambda t, f, x, w: f(x, w, dilation=2, padding=(2, 1)), "nchw", "ac33"),
        call(lambda t, f, x, w: f(x, w, groups=2), "nchw", "b133", sizes={"c": 2}),
        call(lambda t, f, x, w: f(x, w, padding="same"), "nchw", "ac33"),
        call(lambda t, f, x, w: f(x, w, padding="zz"), "nchw", "ac33", kinds=FEW),
        call(lambda t, f, x, w: f(x, w, stride=0), "nchw", "ac33", kinds=FEW),
    ],
    "max_pool2d": [
        call(lambda t, f, x: f(x, 2), "nchw", broadcast=(("chw",), ("hw",), ("0chw",))),
        call(lambda t, f, x: f(x, (3, 2), stride=(2, 1), padding=1), "nchw"),
        call(lambda t, f, x: f(x, 2, ceil_mode=True), "nchw"),
        call(lambda t, f, x: f(x, 2, dilation=2), "nchw"),
        call(lambda t, f, x: f(x, 2, return_indices=True), "nchw"),
        call(lambda t, f, x: f(x, 2, padding=2), "nchw", kinds=FEW),
        call(lambda t, f, x: f(x, 9), "nchw", kinds=FEW),
        call(lambda t, f, x: f(x, 0), "nchw", kinds=FEW),
    ],
    "avg_pool2d": [
        call(lambda t, f, x: f(x, 2), "nchw", broadcast=(("chw",), ("hw",), ("0chw",))),
        call(lambda t, f, x: f(x, (3, 2), stride=(2, 1), padding=1, count_include_pad=False), "nchw"),
        call(lambda t, f, x: f(x, 2, ceil_mode=True), "nchw"),
        call(lambda t, f, x: f(x, 2, divisor_override=3), "nchw"),
        call(lambda t, f, x: f(x, 2, padding=2), "nchw", kinds=FEW),
        call(lambda t, f, x: f(x, 9), "nchw", kinds=FEW),
    ],
    "adaptive_avg_pool2d": [
        call(lambda t, f, x: f(x, 1), "nchw", broadcast=(("chw",), ("hw",), ("0chw",))),
        *(
            call(lambda t, f, x, size=size: f(x, size), "nchw", kinds=FILLED, broadcast=(("0chw",),))
            for size in ((3, 2), (None, 4), (8, 9))
        ),
        call(lambda t, f, x: f(x, (3, 2)), Of("nchw", grad=False), kinds=("empty",)),
        call(lambda t, f, x: f(x, -1), "nchw", kinds=FEW),
    ],
    "interpolate": [
        call(lambda t, f, x: f(x, scale_factor=2), "nchw", broadcast=(("chw",), ("hw",), ("0chw",))),
        call(lambda t, f, x: f(x, size=(3, 9), mode="bilinear"), "nchw"),
        call(lambda t, f, x: f(x, (8, 3), mode="bilinear", align_corners=True), "nchw"),
        call(lambda t, f, x: f(x, scale_factor=1.5, mode="bicubic"), "nchw"),
        call(lambda t, f, x: f(x, size=9, mode="linear"), "nch"),
        call(lambda t, f, x: f(x, size=3, mode="area"), "nchw", kinds=FILLED),
        call(lambda t, f, x: f(x, size=3, mode="area"), Of("nchw", grad=False), kinds=("empty",)),
        call(lambda t, f, x: f(x, 4, mode="nearest-exact"), "nchw"),
        call(lambda t, f, x: f(x), "nchw", kinds=FEW),
        call(lambda t, f, x: f(x, 2, 2), "nchw", kinds=FEW),
        call(lambda t, f, x: f(x, 2, mode="zz"), "nchw", kinds=FEW),
        call(lambda t, f, x: f(x, 2, mode="linear"), "nchw", kinds=FEW),
    ],
}
