"""Samples of Modules: their results, the gradients of inputs and parameters, and the buffers that they write."""

from __future__ import annotations

from oracle import FLOATS

from catalog.sample import KINDS, Of, Table, call, module

FEW = ("usual",)
IMAGES = "nchw"
CLASSES = Of("a", dtype="int64", below="b")
FILLED = tuple(k for k in KINDS if k != "empty")
"""PyTorch's gradient of a group norm's weight is NaN where there is nothing, and 0 here."""
HALVES = Of("ab", 0.05, 0.95)
PAIR = ("ab", "ab")


def modules(name, *inputs, options=({},), **rest):
    """The Module of a name with each set of arguments, given as dicts; positional ones under `args`."""
    made = []
    for given in options:
        arguments = given.get("args", ())
        keywords = {k: v for k, v in given.items() if k != "args"}
        made.append(module(lambda t, a=arguments, k=keywords: getattr(t.nn, name)(*a, **k), *inputs, **rest))
    return made


def losses(name, *inputs, options=(), **rest):
    """A loss with each way to reduce."""
    ways = [{}, {"reduction": "sum"}, {"reduction": "none"}, *options]
    return modules(name, *inputs, options=ways, **rest)


def evaluated(make):
    """The Module in evaluation mode."""
    return lambda t: make(t).eval()


def sequential(t):
    return t.nn.Sequential(t.nn.Linear(4, 3), t.nn.ReLU(), t.nn.Linear(3, 2))


def with_list(t, kind):
    class Network(t.nn.Module):
        def __init__(self):
            super().__init__()
            layers = [t.nn.Linear(4, 4), t.nn.Linear(4, 4, bias=False)]
            self.layers = (
                t.nn.ModuleList(layers)
                if kind == "ModuleList"
                else t.nn.ModuleDict(dict(zip("ab", layers, strict=True)))
            )

        def forward(self, x):
            for layer in self.layers if kind == "ModuleList" else self.layers.values():
                x = layer(x).relu()
            return x

    return Network()


def with_parameters(t):
    class Network(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = t.nn.ParameterList([t.nn.Parameter(t.ones(4)), t.nn.Parameter(t.ones(3, 1))])
            self.scale = t.nn.Parameter(t.ones(()))
            self.register_buffer("shift", t.ones(4))

        def forward(self, x):
            for weight in self.weights:
                x = x * weight
            return x * self.scale + self.shift

    return Network()


def recurrent(**options):
    return lambda t: t.nn.LSTM(4, 3, **options)


def attention(**options):
    return lambda t: t.nn.MultiheadAttention(4, 2, **options)


MODULES: Table = {
    "Module": [module(with_parameters, "ab")],
    "Parameter": [
        module(with_parameters, "ab"),
        call(
            lambda t, f, x: (
                f(x.detach()).requires_grad,
                f(x.detach(), requires_grad=False).requires_grad,
                f(x.detach()) * 2,
            ),
            "ab",
        ),
    ],
    "ParameterList": [module(with_parameters, "ab")],
    "ModuleList": [module(lambda t: with_list(t, "ModuleList"), "ab", broadcast=(("14",), ("0b",)))],
    "ModuleDict": [module(lambda t: with_list(t, "ModuleDict"), "ab", broadcast=(("14",), ("0b",)))],
    "Sequential": [module(sequential, "ab", broadcast=(("cab",), ("b",), ("a",), ("14",)))],
    "Linear": [
        *modules(
            "Linear",
            "ab",
            options=({"args": (4, 3)}, {"args": (4, 3), "bias": False}),
            broadcast=(("b",), ("dab",), ("a",), ("0b",), ("14",)),
        ),
        *modules("Linear", "a0", options=({"args": (0, 3)},), kinds=FEW),
    ],
    "Identity": modules("Identity", "ab", options=({}, {"args": (3,), "anything": 1})),
    **{n: modules(n, "ab") for n in "ReLU GELU Sigmoid LeakyReLU Tanh SiLU ELU Hardswish".split()},
    "GELU": modules("GELU", "ab", options=({}, {"approximate": "tanh"})),
    "LeakyReLU": modules("LeakyReLU", "ab", options=({}, {"args": (0.2,)}, {"args": (0.2, True)})[:2]),
    "ELU": modules("ELU", "ab", options=({}, {"alpha": 0.5})),
    "PReLU": [*modules("PReLU", "ab", options=({}, {"init": 0.1})), *modules("PReLU", "a4", options=({"args": (4,)},))],
    "Softmax": [*modules("Softmax", "ab", options=({"dim": 1}, {"dim": 0}, {}, {"dim": 3}))],
    "LogSoftmax": [*modules("LogSoftmax", "ab", options=({"dim": 1}, {"dim": 0}, {}, {"dim": 3}))],
    "Flatten": modules("Flatten", "abcd", options=({}, {"start_dim": 0}, {"args": (1, 2)}, {"args": (3, 1)})),
    "Dropout": [
        *modules("Dropout", "ab", options=({}, {"p": 0.3}), random=True),
        module(evaluated(lambda t: t.nn.Dropout(0.3)), "ab"),
        *modules("Dropout", "ab", options=({"p": 0.0}, {"p": 1.0})),
    ],
    "Dropout2d": [
        *modules("Dropout2d", "nchw", random=True, broadcast=(("chw",), ("ab",))),
        module(evaluated(lambda t: t.nn.Dropout2d(0.3)), "nchw"),
    ],
    "LayerNorm": modules(
        "LayerNorm",
        "cab",
        options=(
            {"args": (4,), "eps": 0.1},
            {"args": ((3, 4),), "eps": 0.1},
            {"args": (4,), "elementwise_affine": False, "eps": 0.1},
            {"args": (4,), "bias": False, "eps": 0.2},
        ),
        broadcast=(("ab",), ("b",), ("aa",), ("0b",), ("114",)),
    ),
    "BatchNorm1d": [
        *modules(
            "BatchNorm1d",
            "ab",
            options=(
                {"args": (4,)},
                {"args": (4,), "momentum": None},
                {"args": (4,), "affine": False, "track_running_stats": False},
            ),
            broadcast=(("a4c",), ("4",), ("a3",), ("14",), ("14c",)),
        ),
        module(evaluated(lambda t: t.nn.BatchNorm1d(4)), "ab"),
    ],
    "BatchNorm2d": [
        *modules(
            "BatchNorm2d",
            "nchw",
            options=({"args": (2,)}, {"args": (2,), "eps": 0.1, "momentum": 0.3}, {"args": (2,), "affine": False}),
            broadcast=(("chw",), ("nahw",), ("1211",), ("12hw",), ("0chw",)),
        ),
        module(evaluated(lambda t: t.nn.BatchNorm2d(2)), "nchw"),
    ],
    "InstanceNorm2d": [
        *modules(
            "InstanceNorm2d",
            "nchw",
            options=({"args": (2,)}, {"args": (2,), "affine": True}, {"args": (2,), "track_running_stats": True}),
            broadcast=(("chw",), ("nahw",), ("1211",)),
        )
    ],
    "GroupNorm": [
        *modules(
            "GroupNorm",
            "n4hw",
            options=({"args": (2, 4)}, {"args": (4, 4), "affine": False}),
            broadcast=(("n4a",),),
            kinds=FILLED,
        ),
        *modules("GroupNorm", "n4hw", options=({"args": (1, 4), "eps": 0.1},), broadcast=(("n4",),), kinds=FILLED),
        call(
            lambda t, f, x: f(x.detach()).detach(),
            "n4hw",
            module=lambda t: t.nn.GroupNorm(2, 4),
            kinds=("empty", "0-d"),
        ),
    ],
    "Conv1d": modules(
        "Conv1d",
        "nch",
        options=(
            {"args": (2, 3, 3)},
            {"args": (2, 4, 2), "stride": 2, "padding": 1, "groups": 2, "bias": False},
            {"args": (2, 3, 3), "padding": 1, "padding_mode": "reflect"},
        ),
        broadcast=(("ch",), ("nah",), ("h",), ("0ch",), ("12h",)),
    ),
    "Conv2d": modules(
        "Conv2d",
        "nchw",
        options=(
            {"args": (2, 3, 3)},
            {"args": (2, 4, (2, 3)), "stride": 2, "padding": 1, "groups": 2, "bias": False},
            {"args": (2, 3, 3), "padding": 1, "padding_mode": "circular"},
            {"args": (2, 3, 2), "dilation": 2, "padding": "same"},
        ),
        broadcast=(("chw",), ("nahw",), ("hw",), ("0chw",), ("12hw",)),
    ),
    "Conv3d": modules(
        "Conv3d",
        "nca45",
        options=(
            {"args": (2, 3, 2)},
            {"args": (2, 2, (1, 2, 3)), "stride": (1, 2, 1), "padding": (0, 1, 1), "groups": 2},
        ),
        broadcast=(("ca45",), ("naa45",), ("12a45",), ("0ca45",)),
    ),
    "ConvTranspose2d": modules(
        "ConvTranspose2d",
        "ncab",
        options=(
            {"args": (2, 3, 3)},
            {"args": (2, 4, 2), "stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
            {"args": (2, 3, 2), "dilation": 2, "bias": False},
        ),
        broadcast=(("cab",), ("naab",), ("0cab",), ("12ab",)),
    ),
    "MaxPool2d": modules(
        "MaxPool2d",
        "nchw",
        options=(
            {"args": (2,)},
            {"args": ((3, 2),), "stride": (2, 1), "padding": 1},
            {"args": (2,), "return_indices": True},
        ),
        broadcast=(("chw",), ("hw",), ("0chw",)),
    ),
    "AvgPool2d": modules(
        "AvgPool2d",
        "nchw",
        options=({"args": (2,)}, {"args": ((3, 2),), "stride": (2, 1), "padding": 1, "count_include_pad": False}),
        broadcast=(("chw",), ("hw",), ("0chw",)),
    ),
    "AdaptiveAvgPool2d": [
        *modules("AdaptiveAvgPool2d", "nchw", options=({"args": (1,)},), broadcast=(("chw",), ("hw",), ("0chw",))),
        *modules(
            "AdaptiveAvgPool2d",
            "nchw",
            options=({"args": ((3, None),)},),
            broadcast=(("chw",), ("hw",), ("0chw",)),
            kinds=FILLED,
        ),
    ],
    "Upsample": modules("Upsample", "nchw", options=({"scale_factor": 2}, {}), broadcast=(("chw",),))
    + modules(
        "Upsample",
        "nchw",
        options=({"size": (4, 9), "mode": "bilinear"}, {"scale_factor": 2, "mode": "bilinear", "align_corners": True}),
        dtypes=FLOATS,
    ),
    "Unfold": modules(
        "Unfold",
        "nchw",
        options=({"args": (2,)}, {"args": ((3, 2),), "dilation": (1, 2), "padding": 1, "stride": 2}),
        broadcast=(("chw",), ("hw",), ("0chw",)),
    ),
    "ZeroPad2d": modules(
        "ZeroPad2d", "nchw", options=({"args": (1,)}, {"args": ((1, 2, 0, -1),)}), broadcast=(("hw",),)
    ),
    "ReplicationPad2d": modules(
        "ReplicationPad2d",
        "nchw",
        options=({"args": (1,)}, {"args": ((1, 2, 0, 3),)}),
        broadcast=(("chw",), ("hw",), ("0chw",)),
    ),
    "ReflectionPad2d": modules(
        "ReflectionPad2d",
        "nchw",
        options=({"args": (1,)}, {"args": ((1, 2, 0, 3),)}, {"args": (9,)}),
        broadcast=(("chw",), ("hw",), ("11hw",), ("0chw",)),
    ),
    "Embedding": modules(
        "Embedding",
        Of("ab", dtype="int64", below="d"),
        options=({"args": (5, 3)}, {"args": (5, 3), "padding_idx": 1}),
        broadcast=(("a",),),
        mixed=(("int32",), ("float32",)),
    ),
    "LSTM": [
        module(recurrent(), "nab", broadcast=(("ab",), ("naa",), ("b",))),
        module(recurrent(num_layers=2, bidirectional=True, batch_first=True), "nab"),
        module(recurrent(proj_size=2, bias=False), "nab"),
        module(recurrent(), "nab"),
        call(lambda t, f, x, h, c: f(x, (h, c)), "na4", "1a3", "1a3", module=recurrent()),
    ],
    "MultiheadAttention": [
        call(lambda t, f, q: f(q, q, q), "na4", module=attention(), broadcast=(("a4",), ("na3",))),
        call(
            lambda t, f, q, k, v: f(q, k, v, need_weights=False),
            "na4",
            "nb4",
            "nb4",
            module=attention(batch_first=True),
        ),
        call(
            lambda t, f, q, m: f(q, q, q, attn_mask=m, average_attn_weights=False),
            "an4",
            Of("aa", dtype="float32", grad=False),
            module=attention(add_bias_kv=True, bias=False),
            dtypes=("float32",),
            kinds=("usual",),
        ),
    ],
    "MSELoss": losses("MSELoss", *PAIR, broadcast=(("ab", "b"), ("ab", ""))),
    "L1Loss": losses("L1Loss", *PAIR, broadcast=(("ab", "b"), ("ab", ""))),
    "KLDivLoss": losses(
        "KLDivLoss",
        "ab",
        HALVES,
        options=({"reduction": "batchmean"}, {"log_target": True}),
        broadcast=(("ab", "b"), ("ab", "")),
    ),
    "BCELoss": losses("BCELoss", HALVES, HALVES, broadcast=(("ab", "b"),)),
    "BCEWithLogitsLoss": losses("BCEWithLogitsLoss", "ab", HALVES, broadcast=(("ab", "b"),)),
    "CrossEntropyLoss": losses(
        "CrossEntropyLoss",
        "ab",
        CLASSES,
        options=({"ignore_index": 1, "label_smoothing": 0.1},),
        broadcast=(("b", ""), ("abc", "ac"), ("ab", "b")),
    ),
    "NLLLoss": losses(
        "NLLLoss", "ab", CLASSES, options=({"ignore_index": 1},), broadcast=(("b", ""), ("abc", "ac"), ("ab", "b"))
    ),
}
