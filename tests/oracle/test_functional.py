"""Network functions against PyTorch: values, gradients, options and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import array_of, compare, draw

import eagerjit as ej

ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "relu": (),
    "relu6": (),
    "gelu": (),
    "silu": (),
    "mish": (),
    "selu": (),
    "elu": (0.7,),
    "leaky_relu": (0.2,),
    "hardtanh": (-0.5, 0.8),
    "hardsigmoid": (),
    "hardswish": (),
    "softplus": (2.0, 3.0),
    "softsign": (),
    "logsigmoid": (),
    "tanh": (),
    "sigmoid": (),
    "softmax": (1,),
    "log_softmax": (-1,),
    "softmin": (0,),
    "glu": (),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str, dtype: str) -> None:
    def run(t: Any, x: Any) -> Any:
        return getattr(t.nn.functional, name)(x, *ACTIVATIONS[name])

    # PyTorch's hardsigmoid takes 1/6 in float32 whatever the dtype.
    tolerance = 6e-2 if dtype == "bfloat16" else 1e-7 if (name, dtype) == ("hardsigmoid", "float64") else None
    compare(run, draw((3, 6), dtype, -4, 4, 1), dtypes=[dtype], tolerance=tolerance)


@pytest.mark.parametrize("name", ["gelu", "silu", "softmax", "elu"])
def test_integers_are_refused(name: str) -> None:
    compare(lambda t, x: getattr(t.nn.functional, name)(x, *ACTIVATIONS[name]), draw((3, 6), "int64", -4, 4, 1))


F: dict[str, Callable[..., Any]] = {
    "gelu tanh": lambda f, t, x, y: f.gelu(x, approximate="tanh"),
    "gelu bad": lambda f, t, x, y: f.gelu(x, approximate="a"),
    "relu inplace": lambda f, t, x, y: f.relu(x * 1, inplace=True),
    "normalize": lambda f, t, x, y: f.normalize(x),
    "normalize 1": lambda f, t, x, y: f.normalize(x, p=1, dim=0),
    "cosine": lambda f, t, x, y: f.cosine_similarity(x, y),
    "pad": lambda f, t, x, y: f.pad(x, (1, 2)),
    "pad 2": lambda f, t, x, y: f.pad(x, (1, 0, 2, 1), value=3.0),
    "pad negative": lambda f, t, x, y: f.pad(x, (-1, 1)),
    "one_hot": lambda f, t, x, y: f.one_hot(t.tensor([[0, 2], [1, 0]])),
    "one_hot 5": lambda f, t, x, y: f.one_hot(t.tensor([0, 2]), 5),
    "one_hot of none": lambda f, t, x, y: f.one_hot(t.tensor([], dtype=t.int64)),
    "one_hot of negatives": lambda f, t, x, y: f.one_hot(t.tensor([-3, -1])),
    "one_hot of a negative": lambda f, t, x, y: f.one_hot(t.tensor([4, -1])),
    "one_hot bad": lambda f, t, x, y: f.one_hot(t.tensor([0, 2]), 2),
    "dropout off": lambda f, t, x, y: f.dropout(x, 0.5, training=False),
    "dropout bad": lambda f, t, x, y: f.dropout(x, 1.5),
    "dropout all": lambda f, t, x, y: f.dropout(x, 1.0),
    "linear": lambda f, t, x, y: f.linear(x, y),
    "linear bias": lambda f, t, x, y: f.linear(x, y, y[:, 0]),
    "linear batch": lambda f, t, x, y: f.linear(x[None, :, None], y, y[:, 1]),
    "linear vector": lambda f, t, x, y: f.linear(x[0], y, y[:, 1]),
    "linear bad": lambda f, t, x, y: f.linear(x, y.T),
    "embedding": lambda f, t, x, y: f.embedding(t.tensor([[0, 2], [1, 0]]), x),
    "embedding padding": lambda f, t, x, y: f.embedding(t.tensor([0, 2, 0]), x, padding_idx=0),
    "embedding range": lambda f, t, x, y: f.embedding(t.tensor([0, 9]), x),
    "embedding float": lambda f, t, x, y: f.embedding(x, y),
    "celu": lambda f, t, x, y: f.celu(x, 0.7),
    "shrinks": lambda f, t, x, y: f.hardshrink(x) + f.softshrink(y, 0.3) + f.tanhshrink(x),
    "prelu": lambda f, t, x, y: f.prelu(x, y[0]) + f.prelu(x, y[0, :1]),
    "pairwise_distance": lambda f, t, x, y: f.pairwise_distance(x, y),
    "batch_norm": lambda f, t, x, y: f.batch_norm(x, None, None, y[0], y[1], training=True),
    "batch_norm eval": lambda f, t, x, y: f.batch_norm(x, y[0].detach(), y[1].exp().detach(), y[2], y[3]),
    "group_norm": lambda f, t, x, y: f.group_norm(x.reshape(2, 2, 5), 1, y[0, :2], y[1, :2]),
    "group_norm bad": lambda f, t, x, y: f.group_norm(x, 2),
    "layer_norm": lambda f, t, x, y: f.layer_norm(x, (5,)),
    "layer_norm affine": lambda f, t, x, y: f.layer_norm(x, (5,), y[0], y[1]),
    "layer_norm 2d": lambda f, t, x, y: f.layer_norm(x, (4, 5), y, x, 1e-3),
    "layer_norm bad": lambda f, t, x, y: f.layer_norm(x, (4,)),
    "rms_norm": lambda f, t, x, y: f.rms_norm(x, (5,)),
    "rms_norm affine": lambda f, t, x, y: f.rms_norm(x, (5,), y[0], 1e-3),
}


@pytest.mark.parametrize("name", F)
def test_function(name: str) -> None:
    a, b = draw((4, 5), "float32", -2, 2, 1), draw((4, 5), "float32", -2, 2, 2)
    compare(lambda t, x, y: F[name](t.nn.functional, t, x, y), a, b)


@pytest.mark.parametrize("size", [1, 3, 32, 65])
def test_layer_norm_sizes(size: int) -> None:
    def run(t: Any, x: Any, w: Any, b: Any) -> Any:
        return t.nn.functional.layer_norm(x, (size,), w, b)

    compare(run, *(draw(s, "float64", -2, 2, i) for i, s in enumerate([(2, 3, size), (size,), (size,)])))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "wrong"])
@pytest.mark.parametrize(
    "name",
    [
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
    ],
)
def test_loss(name: str, reduction: str) -> None:
    a, b = draw((3, 4), "float32", 0.1, 0.9, 1), draw((3, 4), "float32", 0.1, 0.9, 2)
    compare(lambda t, x, y: getattr(t.nn.functional, name)(x, y, reduction=reduction), a, b)


LOSSES: dict[str, Callable[..., Any]] = {
    "smooth beta": lambda f, x, y: f.smooth_l1_loss(x, y, beta=0.3),
    "huber delta": lambda f, x, y: f.huber_loss(x, y, delta=0.3),
    "bce weight": lambda f, x, y: f.binary_cross_entropy(x, y, weight=y.detach()),
    "logits weights": lambda f, x, y: f.binary_cross_entropy_with_logits(
        x * 5, y, weight=y[0].detach(), pos_weight=y[1].detach()
    ),
    "kl batchmean": lambda f, x, y: f.kl_div(x.log(), y, reduction="batchmean"),
    "kl log": lambda f, x, y: f.kl_div(x.log(), y.log(), reduction="sum", log_target=True),
    "bce shapes": lambda f, x, y: f.binary_cross_entropy(x, y[0]),
    "logits shapes": lambda f, x, y: f.binary_cross_entropy_with_logits(x, y[0]),
    "soft": lambda f, x, y: f.cross_entropy(x, y),
    "soft smooth": lambda f, x, y: f.cross_entropy(x, y, label_smoothing=0.2, reduction="sum"),
    "soft weight": lambda f, x, y: f.cross_entropy(x, y, weight=y[0].detach()),
    "soft none": lambda f, x, y: f.cross_entropy(x, y, reduction="none"),
    "soft shapes": lambda f, x, y: f.cross_entropy(x, y[0]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_options(name: str) -> None:
    a, b = draw((3, 4), "float32", 0.1, 0.9, 1), draw((3, 4), "float32", 0.1, 0.9, 2)
    compare(lambda t, x, y: LOSSES[name](t.nn.functional, x, y), a, b)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"ignore_index": 1},
    {"weight": True},
    {"weight": True, "label_smoothing": 0.2},
    {"weight": True, "ignore_index": 2, "reduction": "none"},
    {"label_smoothing": 0.1, "reduction": "none", "ignore_index": 0},
    {"label_smoothing": 2.0},
    {"reduction": "wrong"},
]


@pytest.mark.parametrize("shape", [(4, 5), (5,), (2, 5, 3)], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_cross_entropy(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    classes = draw((*shape[:1], *shape[2:]) if len(shape) > 1 else (), "int64", 0, 4, 3)

    def run(t: Any, x: Any, w: Any) -> Any:
        given = {**options, **({"weight": w.detach()} if "weight" in options else {})}
        return t.nn.functional.cross_entropy(x, t.tensor(classes), **given)

    compare(run, draw(shape, "float32", -2, 2, 1), draw((5,), "float32", 0.5, 2, 2))


@pytest.mark.parametrize("options", [o for o in OPTIONS if "label_smoothing" not in o], ids=str)
def test_nll_loss(options: dict[str, Any]) -> None:
    classes = draw((4,), "int64", 0, 4, 3)

    def run(t: Any, x: Any, w: Any) -> Any:
        given = {**options, **({"weight": w.detach()} if "weight" in options else {})}
        return t.nn.functional.nll_loss(x.log_softmax(1), t.tensor(classes), **given)

    compare(run, draw((4, 5), "float32", -2, 2, 1), draw((5,), "float32", 0.5, 2, 2))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_cross_entropy_dtypes(dtype: str) -> None:
    compare(
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 3])), draw((2, 5), dtype, -2, 2, 1), dtypes=[dtype]
    )


TARGETS: dict[str, Callable[..., Any]] = {
    "out of range": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 5])),
    "float class": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0.0, 1.0])),
    "batch": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2])),
    "weight": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1]), weight=t.ones(3)),
    "all ignored": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([-100, -100])),
}


@pytest.mark.parametrize("name", TARGETS)
def test_cross_entropy_targets(name: str) -> None:
    compare(TARGETS[name], draw((2, 5), "float32", -2, 2, 1))


def attention(**options: Any) -> Callable[..., Any]:
    """Attention with options; functions among them are called with (library, query)."""

    def run(t: Any, q: Any, k: Any, v: Any) -> Any:
        given = {n: o(t, q) if callable(o) else o for n, o in options.items()}
        return t.nn.functional.scaled_dot_product_attention(q, k, v, **given)

    return run


ATTENTION: dict[str, Callable[..., Any]] = {
    "plain": attention(),
    "causal": attention(is_causal=True),
    "scale": attention(scale=0.3),
    "bool mask": attention(attn_mask=lambda t, q: t.ones(4, 6).tril() > 0),
    "float mask": attention(attn_mask=lambda t, q: t.arange(24.0).reshape(4, 6) / 10),
    "mask batch": attention(attn_mask=lambda t, q: t.ones(2, 1, 4, 6) > 0),
    "both": attention(is_causal=True, attn_mask=lambda t, q: t.ones(4, 6) > 0),
    "no dropout": attention(dropout_p=0.0),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    shapes = [(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5)]
    compare(ATTENTION[name], *(draw(s, "float32", -1, 1, i) for i, s in enumerate(shapes)))


@pytest.mark.parametrize("keys", [600, 640])
def test_long_causal_attention(keys: int) -> None:
    """Stretches of queries see the keys up to their end: the first ones' results are those of a call on them alone."""
    q, k, v = (draw((2, length, 4), "float32", -1, 1, i) for i, length in enumerate((600, keys, keys)))
    compare(ATTENTION["causal"], q, k, v)
    q, k, v = map(ej.tensor, (q, k, v))
    whole = ATTENTION["causal"](ej, q, k, v)
    first = ATTENTION["causal"](ej, *(x[:, :256] for x in (q, k, v)))
    assert array_of(whole[:, :256]).tobytes() == array_of(first).tobytes()


def test_causal_attention_of_varied_lengths() -> None:
    """A compiled function cuts as the plain one does, whatever length it was compiled for."""
    jitted = ej.jit(lambda x: ATTENTION["causal"](ej, x, x, x))
    for length in (700, 300, 600, 800):
        x = ej.tensor(draw((length, 4), "float32", -1, 1, 1))
        assert array_of(jitted(x)).tobytes() == array_of(ATTENTION["causal"](ej, x, x, x)).tobytes()


def test_grouped_attention() -> None:
    shapes = [(2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)]
    compare(attention(enable_gqa=True, is_causal=True), *(draw(s, "float32", -1, 1, i) for i, s in enumerate(shapes)))


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("kind", ["sum", "mean", "transposed", "part"])
def test_linear_with_strided_gradients(kind: str, shape: tuple[int, ...]) -> None:
    """What comes back through sums, permutations and slices lies in memory with any strides."""

    def run(t: Any, x: Any, w: Any, b: Any) -> Any:
        out = t.nn.functional.linear(x, w, b)
        if kind == "transposed":
            return out.permute(*reversed(range(out.ndim))) * 1.0
        return out[..., 1:].sum(0) if kind == "part" else getattr(out, kind)()

    compare(run, draw(shape, "float32", -1, 1, 1), draw((3, 5), "float32", -1, 1, 2), draw((3,), "float32", -1, 1, 3))
