"""`torch.onnx.export`: what onnxruntime computes of the file is what the model gives."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import eagerjit as ej
from eagerjit import nn
from eagerjit.nn import functional as F
from eagerjit.utils._pytree import tree_leaves


def session(model: Any, args: Any, **options: Any) -> Any:
    file = io.BytesIO()
    ej.onnx.export(model, args, file, **options)
    return onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])


def agree(run: Any, model: Any, args: tuple[Any, ...]) -> None:
    found = run.run(None, {i.name: x.numpy() for i, x in zip(run.get_inputs(), args, strict=True)})
    with ej.no_grad():
        expected = [x.numpy() for x in tree_leaves(model(*args))]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def kinds(model: Any, args: Any, **options: Any) -> list[str]:
    return [node.op_type for node in ej.onnx.export(model, args, **options).model_proto.graph.node]


class Of(nn.Module):
    """A function as a Module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def drawn(*shape: int) -> Any:
    return ej.tensor(np.random.default_rng(sum(shape)).standard_normal(shape), dtype=ej.float32)


# -- operations -------------------------------------------------------------------------------------------------------


def written(x: Any) -> Any:
    y = x.clone()
    y[0, :] = 5.0
    y[:, 1:3].mul_(2)
    y.scatter_(1, ej.tensor([[0], [1], [2]]), 9.0)
    y.index_add_(0, ej.tensor([0, 2]), ej.ones(2, 4))
    y[1::2, ::2] = x[1::2, ::2] * 3
    return y


CASES: dict[str, tuple[Any, ...]] = {
    "activations": (
        lambda x: (
            F.silu(x), F.mish(x), F.elu(x), F.selu(x), F.leaky_relu(x, 0.2), F.hardswish(x), F.hardsigmoid(x),
            F.softplus(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.relu6(x), F.celu(x, 2.0), F.logsigmoid(x),
            F.tanhshrink(x), F.hardshrink(x), F.softsign(x), F.prelu(x, ej.tensor([0.1])), F.glu(x),
            F.softmax(x, 0), F.log_softmax(x, -1), F.softmax(x.half(), 1, dtype=ej.float32),
        ), drawn(3, 4),
    ),
    "functions": (
        lambda x: (
            x.expm1(), x.abs().log1p(), (x * 1e-4).expm1() * 1e4, (x.abs() * 1e-4).log1p() * 1e4,
            ej.atan2(x, x.flip(0)), ej.atan2(x * 0, x), x.sinh(), x.erf(), x.erfc(), x.exp2(),
            x.abs().log2(), x.abs().log10(), x.trunc(),
            x.round(), x.frac(), x.sign(), x.abs().rsqrt(), x % 1.5, x % -0.7, ej.fmod(x, 0.7), x.floor_divide(0.3),
            x**2, x.clamp(-1, 1), ej.hypot(x, x), x.signbit(), x.isfinite(), ej.logaddexp(x, -x), x.lerp(x * 2, 0.3),
            x.nan_to_num(), (x > 0) ^ (x < 1), x.bool(), x.int(), ej.maximum(x, -x), (x > 0) * 1.0, x.double().sin(),
        ), drawn(3, 4),
    ),
    "integers": (
        lambda x: (
            x // 3, x // -4, x % 4, x & 3, x | 8, x ^ 5, ~x, (x > 2).int() * x, -x, x.abs(), x.clamp(min=0), x / 2,
        ),
        ej.arange(-6, 6, dtype=ej.int32),
    ),
    "booleans": (lambda x: (~x, x & x.flip(0), x | x, x ^ x, x.sum(), x.all(), x.any(), x == x), drawn(7) > 0),
    "reductions": (
        lambda x: (
            x.mean(1), x.mean(), x.mean((0, 1), keepdim=True), x.var(0), x.std(), x.amax(1), x.argmax(1), x.argmin(),
            x.prod(0), x.norm(), (x > 0).any(1), (x > 0).all(), x.logsumexp(1), *x.max(0), *x.min(1, keepdim=True),
            x.median(), x.cumsum(1), x.sum((0, 2)), ej.linalg.vector_norm(x, 3, 1),
        ), drawn(3, 4, 2),
    ),
    "views": (
        lambda x: (
            x[1], x[:, ::2], x[-1:], x.flip(0, 1), x.roll(1, 1), x.t(), x.unfold(1, 2, 1), x.repeat(2, 1), x.tile(2),
            x.unsqueeze(0).expand(2, 3, 4), x.diagonal(), x.tril(), *x.chunk(2, 1), *x.split([1, 2]), *x.unbind(0),
            ej.stack([x, x]), ej.cat([x, x], 1), x.movedim(0, 1), x.flatten(), x[:, None], x[..., 0], x.view(-1)[5],
        ), drawn(3, 4),
    ),
    "indices": (
        lambda x: (
            x[[0, 2]], x[ej.tensor([-1, 0])], x[[0, 1], [2, 3]], x.gather(1, ej.tensor([[0, 1], [1, 0], [2, 2]])),
            x.index_select(1, ej.tensor([1, 0])), x.take(ej.tensor([1, 5])), x.masked_fill(x > 0, 2.0),
            ej.where(x > 0, x, x * 2), x.scatter_reduce(1, ej.tensor([[0, 0]]), ej.tensor([[3.0, 4]]), "amax"),
            *x.sort(1), *x.topk(2), *x.topk(2, largest=False), x.argsort(0, descending=True),
        ), drawn(3, 4),
    ),
    "writes": (written, drawn(3, 4)),
    "products": (
        lambda a, b: (
            a @ b, ej.bmm(a, b), ej.einsum("bij,bjk->ik", a, b), a @ b[0, :, 0], a[0] @ b, a[:, None] @ b,
            ej.cdist(a, b.mT), F.cosine_similarity(a, a * 2), F.bilinear(a, a, drawn(5, 4, 4)), ej.baddbmm(a @ b, a, b),
        ), drawn(2, 3, 4), drawn(2, 4, 5),
    ),
    "attention": (
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(q, k, v, attn_mask=ej.ones(5, 5).tril().bool()),
            F.scaled_dot_product_attention(q, k, v, attn_mask=ej.ones(5, 5)),
        ), drawn(2, 2, 5, 4), drawn(2, 2, 5, 4), drawn(2, 2, 5, 4),
    ),
    "resizing": (
        lambda x: (
            F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(7, 8)),
            F.interpolate(x, size=(7, 8), mode="bicubic", align_corners=True), F.pad(x, (1, 2, 0, 1), value=3.0),
            F.pad(x, (-1, 2)), F.pad(x, (1, 2, 0, 1), mode="reflect"), F.pixel_shuffle(x, 2), F.unfold(x, 2),
            F.grid_sample(x, ej.ones(1, 3, 3, 2) * 0.3), F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, 2),
            F.local_response_norm(x, 3), F.normalize(x),
        ), drawn(1, 4, 4, 5),
    ),
    "losses": (
        lambda x, t: (
            F.cross_entropy(x, t), F.nll_loss(F.log_softmax(x, 1), t), F.mse_loss(x, x * 2), F.smooth_l1_loss(x, x * 3),
            F.kl_div(F.log_softmax(x, 1), F.softmax(x, 1)), F.binary_cross_entropy_with_logits(x, x.sigmoid()),
            F.one_hot(t, 5), F.embedding(t, x.detach()),
        ), drawn(3, 4), ej.tensor([0, 2, 1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operations(name: str) -> None:
    function, *args = CASES[name]
    agree(session(Of(function), tuple(args)), function, tuple(args))


MODULES: dict[str, tuple[Any, tuple[Any, ...], set[str]]] = {
    "Linear": (lambda: nn.Linear(4, 3), (drawn(2, 4),), {"Gemm"}),
    "Linear of 3 dimensions": (lambda: nn.Linear(4, 3, bias=False), (drawn(2, 5, 4),), {"MatMul"}),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, groups=2, stride=2), (drawn(1, 4, 9),), {"Conv"}),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=(1, 0), dilation=2), (drawn(2, 3, 9, 8),), {"Conv"}),
    "Conv2d per channel": (lambda: nn.Conv2d(4, 8, 3, groups=4), (drawn(1, 4, 6, 6),), {"Conv"}),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 3), (drawn(1, 2, 4, 5, 6),), {"Conv"}),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 3, 2, 1, 1), (drawn(1, 2, 4, 5),), {"ConvTranspose"}),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), (drawn(1, 2, 8, 8),), {"MaxPool"}),
    "MaxPool2d and places": (lambda: nn.MaxPool2d(2, return_indices=True), (drawn(1, 2, 6, 6),), {"MaxPool"}),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (drawn(1, 2, 7, 7),), {"AveragePool"}),
    "AvgPool2d beyond": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (drawn(1, 2, 8, 8),), {"Div"}),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4, affine=False), (drawn(3, 4),), {"BatchNormalization"}),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), (drawn(3, 4, 2, 2),), {"BatchNormalization"}),
    "LayerNorm": (lambda: nn.LayerNorm((3, 4)), (drawn(2, 3, 4),), {"LayerNormalization"}),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (drawn(2, 4, 5),), set()),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3), (drawn(2, 3, 4, 5),), set()),
    "RMSNorm": (lambda: nn.RMSNorm(4), (drawn(2, 4),), set()),
    "Embedding": (lambda: nn.Embedding(9, 3, padding_idx=0), (ej.tensor([[1, 0], [3, 8]]),), {"Gather"}),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(9, 3), (ej.tensor([[1, 2], [3, 4]]),), {"Gather"}),
    "Dropout": (lambda: nn.Dropout(), (drawn(3),), {"Identity"}),
    "LSTM": (lambda: nn.LSTM(4, 5, 2, bidirectional=True), (drawn(3, 2, 4),), {"LSTM"}),
    "LSTM without bias": (lambda: nn.LSTM(4, 5, bias=False, batch_first=True), (drawn(2, 3, 4),), {"LSTM"}),
    "GRU": (lambda: nn.GRU(4, 5, 2, bidirectional=True, batch_first=True), (drawn(2, 3, 4),), {"GRU"}),
    "RNN": (lambda: nn.RNN(4, 5, nonlinearity="relu"), (drawn(3, 2, 4),), {"RNN"}),
    "GRUCell": (lambda: nn.GRUCell(4, 5), (drawn(2, 4), drawn(2, 5)), set()),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2), (drawn(3, 2, 8),) * 3, {"Softmax"}),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16), (drawn(3, 2, 8), drawn(4, 2, 8)), {"LayerNormalization"}),
}


@pytest.mark.parametrize("version", range(13, 24))
def test_versions(version: int) -> None:
    """In operators as old as that, where it has them."""

    def function(x: Any) -> Any:
        return x.amax(1), F.layer_norm(x, (4,)), F.gelu(x), F.mish(x), F.hardswish(x), x.mean(0), x.sum(1), x.t()[1:]

    run = session(function, drawn(3, 4), opset_version=version, dynamic_axes={"input": {0: "n"}})
    agree(run, function, (drawn(5, 4),))
    gru = nn.GRU(4, 5)
    agree(session(gru, drawn(3, 2, 4), opset_version=version), gru, (drawn(3, 2, 4),))
    for least, newer in ((16, lambda x: x.index_add(0, ej.tensor([1]), x[:1])), (18, lambda x: x.int() & 3)):
        if version >= least:
            agree(session(newer, drawn(3, 4), opset_version=version), newer, (drawn(3, 4),))
            continue
        with pytest.raises(NotImplementedError, match=f"needs opset_version {least}"):
            ej.onnx.export(newer, drawn(3, 4), opset_version=version)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    make, args, expected = MODULES[name]
    model = make()
    run = session(model, args)
    agree(run, model.eval(), args)
    found = ej.onnx.export(model, args).model_proto
    assert expected <= {node.op_type for node in found.graph.node}
    held = {tensor.name for tensor in found.graph.initializer}
    named = {name for name, _ in model.named_parameters()}
    assert not named or held & named


def test_lstm_of_a_given_state() -> None:
    model, args = nn.LSTM(4, 5), (drawn(3, 2, 4), drawn(1, 2, 5), drawn(1, 2, 5))

    def function(x: Any, h: Any, c: Any) -> Any:
        return model(x, (h, c))

    agree(session(function, args), function, args)


# -- sizes ------------------------------------------------------------------------------------------------------------


class Language(nn.Module):
    """A small language model of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(50, 16), nn.Parameter(drawn(32, 16))
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(16, 4, 32, batch_first=True) for _ in range(2)])
        self.head = nn.Linear(16, 50)

    def forward(self, numbers: Any) -> Any:
        h = self.embedding(numbers) + self.places[: numbers.shape[1]]
        mask = ej.triu(ej.full((numbers.shape[1],) * 2, float("-inf")), 1)
        for layer in self.layers:
            h = layer(h, src_mask=mask)
        return self.head(h), h.mean(1)


def network() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "example", "axes", "others"),
    [
        (network, drawn(1, 3, 8, 8), {0: "batch", 2: "high", 3: "wide"}, [drawn(5, 3, 14, 10), drawn(1, 3, 5, 2)]),
        (Language, ej.tensor([[1, 2, 3]]), {0: "batch", 1: "time"}, [ej.arange(22).reshape(2, 11), ej.tensor([[4]])]),
        (lambda: nn.LSTM(3, 4), drawn(2, 1, 3), {0: "time", 1: "batch"}, [drawn(5, 3, 3)]),
        (lambda: Of(lambda x: x.sum() / x.shape[0]), drawn(2, 3), {0: "n"}, [drawn(7, 3)]),
        (lambda: Of(lambda x: F.pad(x, (0, x.shape[0])).flip(1)), drawn(2, 3), {0: "n"}, [drawn(7, 3)]),
        (lambda: Of(lambda x: ej.cat([x, x.new_ones(x.shape[0], 2)], 1)), drawn(2, 3), {0: "n"}, [drawn(4, 3)]),
    ],
)
def test_sizes_that_differ(make: Any, example: Any, axes: dict[int, str], others: list[Any]) -> None:
    model = make().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = session(model, (example,), input_names=["x"], dynamic_axes={"x": axes, "y": {0: "batch"}})
    shape = run.get_inputs()[0].shape
    assert all(shape[dim] == name for dim, name in axes.items())
    for x in (example, *others):
        agree(run, model, (x,))


Dim = ej.export.Dim


@pytest.mark.parametrize(
    "shapes", [({0: Dim("n")}, None), {"x": {0: Dim.DYNAMIC}, "y": {}}, ((Dim.AUTO, 3), {0: Dim.STATIC})]
)
def test_dynamic_shapes(shapes: Any) -> None:
    model = Of(lambda x, y: x @ y)
    run = session(model, (drawn(2, 3), drawn(3, 4)), dynamic_shapes=shapes)
    agree(run, model, (drawn(6, 3), drawn(3, 4)))
    assert [type(d) for d in run.get_inputs()[0].shape] == [str, int] and run.get_inputs()[1].shape == [3, 4]


def test_what_sizes_decide_is_told() -> None:
    branches = Of(lambda x: x * 2 if x.shape[0] > 3 else x + 1)
    with pytest.warns(UserWarning, match="may be right only where not 3 < rows"):
        session(branches, (drawn(2, 3),), dynamic_axes={"input": {0: "rows"}})
    picky = Of(lambda x: x.reshape(2, 3))
    with pytest.warns(UserWarning, match="twice the sizes could not be tried"):
        session(picky, (drawn(2, 3),), dynamic_axes={"input": {0: "rows"}})


# -- the file ---------------------------------------------------------------------------------------------------------


def test_arguments_and_names(tmp_path: Path) -> None:
    def function(x: Any, pair: Any, *, scale: Any, twice: bool) -> Any:
        return {"a": x + pair[0] * scale, "b": [pair[1] * (2 if twice else 1)]}

    one = ej.ones(2)
    path = str(tmp_path / "model.onnx")
    program = ej.onnx.export(
        function, (one, (one, one)), path, kwargs={"scale": one * 3, "twice": True}, input_names=["first"],
        output_names=["sum"],
    )  # fmt: skip
    graph = onnx.load(path).graph
    assert [i.name for i in graph.input] == ["first", "input_1", "input_2", "scale"]
    assert [o.name for o in graph.output] == ["sum", "output_1"] and graph == program.model_proto.graph
    run = onnxruntime.InferenceSession(path)
    values = {"first": [1, 2], "input_1": [1, 1], "input_2": [5, 6], "scale": [3, 4]}
    found = run.run(None, {name: np.array(value, np.float32) for name, value in values.items()})
    assert found[0].tolist() == [4, 6] and found[1].tolist() == [10, 12]
    same = ej.onnx.export(function, (one, (one, one), {"scale": one * 3, "twice": True}))
    assert len(same.model_proto.graph.input) == 4 and repr(same) == "ONNXProgram('function', 5 nodes, 1 initializers)"


def test_mode() -> None:
    seen = []

    class Noticing(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append((self.training, ej.onnx.is_in_onnx_export() and ej.compiler.is_exporting()))
            return x

    model = nn.Sequential(Noticing(), nn.Dropout())
    ej.onnx.export(model, drawn(2))
    assert model.training and model[1].training and not ej.onnx.is_in_onnx_export()
    ej.onnx.export(model[0], drawn(2), training=ej.onnx.TrainingMode.PRESERVE)
    ej.onnx.export(model.eval()[0], drawn(2), training=ej.onnx.TrainingMode.TRAINING)
    assert [mode.value for mode in ej.onnx.TrainingMode] == [0, 1, 2]
    assert seen == [(False, True), (True, True), (True, True)] and not model.training
    with pytest.raises(RuntimeError, match="shapes"):
        ej.onnx.export(Of(lambda x: x @ x), drawn(2, 3))
    assert not ej.onnx.is_in_onnx_export() and not ej.compiler.is_compiling()


def test_what_the_model_keeps_is_as_before() -> None:
    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", ej.zeros(3))

        def forward(self, x: Any) -> Any:
            self.mean, self.last = self.mean * 0.9 + x.mean(0), x
            return x - self.mean

    model = Keeping()
    run = session(model, drawn(2, 3), dynamic_axes={"input": {0: "n"}})
    assert not hasattr(model, "last") and model.mean.tolist() == [0, 0, 0] and "mean" in dict(model.named_buffers())
    x = drawn(5, 3)
    (found,) = run.run(None, {"input": x.numpy()})
    np.testing.assert_allclose(found, (x - x.mean(0)).numpy(), atol=1e-6)


def test_parameters_as_inputs() -> None:
    model, x = nn.Linear(3, 2), drawn(4, 3)
    run = session(model, x, export_params=False, do_constant_folding=True)
    assert sorted(i.name for i in run.get_inputs()) == ["bias", "input", "weight"]
    given = {"input": x.numpy(), **{name: p.detach().numpy() for name, p in model.named_parameters()}}
    np.testing.assert_allclose(run.run(None, given)[0], model(x).detach().numpy(), atol=1e-6)
    with pytest.raises(TypeError, match="unexpected keyword argument 'opset'"):
        ej.onnx.export(model, x, opset=18)


def test_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.GELU())
    plain = ej.onnx.export(model, drawn(2, 4), verbose=True).model_proto
    assert plain.opset_import[0].version == 18 and "Gemm" in capsys.readouterr().out
    assert plain.producer_name == "eagerjit" and {"0.weight", "0.bias"} <= {t.name for t in plain.graph.initializer}
    assert "test_onnx_export.py" in plain.graph.node[0].doc_string
    assert "Gelu" in kinds(model, drawn(2, 4), opset_version=20)
    with pytest.warns(UserWarning, match="opset_version 11 is too old, the file has 13"):
        assert ej.onnx.export(model, drawn(2, 4), opset_version=11).model_proto.opset_import[0].version == 13
    inputs = ej.onnx.export(model, drawn(2, 4), keep_initializers_as_inputs=True).model_proto.graph.input
    assert {"input", "0.weight", "0.bias"} <= {i.name for i in inputs}
    path = tmp_path / "apart.onnx"
    ej.onnx.export(nn.Linear(64, 64), drawn(2, 64), path, external_data=True)
    assert (tmp_path / "apart.onnx.data").stat().st_size >= 64 * 64 * 4
    (found,) = onnxruntime.InferenceSession(str(path)).run(None, {"input": np.ones((2, 64), np.float32)})
    assert found.shape == (2, 64)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn(3, 4)
    here = r".*test_onnx_export\.py:\d+"
    for error, says, function in (
        (RuntimeError, f"a tensor's value decided a branch{here}", lambda x: x if x.sum() > 0 else -x),
        (RuntimeError, "number of non-zero elements", lambda x: x.nonzero()),
        (RuntimeError, "returns a float", lambda x: 1.5),
        (NotImplementedError, f"ONNX cannot say linalg_inv {here}", lambda x: ej.linalg.inv(x[:, :3])),
        (NotImplementedError, "cannot say random_bits", lambda x: x * ej.rand(4)),
        (NotImplementedError, "no running mul", lambda x: x.cumprod(0)),
        (NotImplementedError, "ONNX cannot say complex", lambda x: ej.complex(x, x)),
    ):
        with pytest.raises(error, match=says):
            ej.onnx.export(Of(function), x)
    for options, says in (
        ({"input_names": ["a", "b"]}, r"input names provided \(2\) exceeded"),
        ({"output_names": ["a", "b"]}, r"output names provided \(2\) exceeded"),
        ({"dynamic_axes": {"input": {5: "n"}}}, "dimension 5 of input, which has 2"),
        ({"input_names": ["a"], "output_names": ["a"]}, "two tensors are called a"),
    ):
        with pytest.raises(RuntimeError, match=says):
            ej.onnx.export(nn.ReLU(), x, **options)
    with pytest.raises(ValueError, match="newer than"):
        ej.onnx.export(nn.ReLU(), x, opset_version=99)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match="pip install onnx"):
        ej.onnx.export(nn.ReLU(), x)
