"""Normalisation, dropout, embeddings, distances, lazy modules and other layers against PyTorch, and jitted."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import array_of, compare, draw, same

import eagerjit as ej

LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "BatchNorm3d": (lambda n: n.BatchNorm3d(2), (3, 2, 2, 2, 3)),
    "BatchNorm no bias": (lambda n: n.BatchNorm1d(2, bias=False), (3, 2)),
    "SyncBatchNorm": (lambda n: n.SyncBatchNorm(2), (3, 2, 4)),
    "InstanceNorm1d": (lambda n: n.InstanceNorm1d(2), (3, 2, 4)),
    "InstanceNorm1d single": (lambda n: n.InstanceNorm1d(2), (2, 4)),
    "InstanceNorm2d": (lambda n: n.InstanceNorm2d(2, affine=True, track_running_stats=True), (3, 2, 4, 3)),
    "InstanceNorm2d eval": (lambda n: n.InstanceNorm2d(2, affine=True, track_running_stats=True).eval(), (3, 2, 4, 3)),
    "InstanceNorm3d": (lambda n: n.InstanceNorm3d(2), (3, 2, 2, 2, 2)),
    "GroupNorm no bias": (lambda n: n.GroupNorm(2, 4, bias=False), (3, 4, 2)),
    "LocalResponseNorm": (lambda n: n.LocalResponseNorm(3, alpha=0.1), (2, 5, 3)),
    "LocalResponseNorm even": (lambda n: n.LocalResponseNorm(2, beta=1.5, k=2.0), (2, 5, 3, 2)),
    "PReLU": (lambda n: n.PReLU(), (3, 4)),
    "PReLU channels": (lambda n: n.PReLU(4, 0.1), (3, 4, 2)),
    "RReLU": (lambda n: n.RReLU(0.1, 0.2).eval(), (3, 4)),
    "Threshold": (lambda n: n.Threshold(0.1, 20), (3, 4)),
    "Threshold inplace": (lambda n: n.Sequential(n.Linear(4, 4), n.Threshold(0.1, 20, inplace=True)), (3, 4)),
    "Hardtanh": (lambda n: n.Hardtanh(min_value=-0.5, max_value=0.5), (3, 4)),
    "Softmax2d": (lambda n: n.Softmax2d(), (2, 3, 4, 2)),
    "Softmin": (lambda n: n.Softmin(dim=1), (3, 4)),
    "Hardshrink": (lambda n: n.Hardshrink(0.3), (3, 4)),
    "Tanhshrink": (lambda n: n.Tanhshrink(), (3, 4)),
    "SELU": (lambda n: n.SELU(), (3, 4)),
    "Hardswish": (lambda n: n.Hardswish(), (3, 4)),
    "Dropout eval": (lambda n: n.Dropout3d(0.3).eval(), (3, 4, 2, 2, 2)),
    "AlphaDropout eval": (lambda n: n.AlphaDropout(0.3).eval(), (3, 4)),
    "FeatureAlphaDropout eval": (lambda n: n.FeatureAlphaDropout(0.3).eval(), (3, 4)),
    "Dropout 0": (lambda n: n.Dropout1d(0.0), (3, 4)),
}


def both(build: Callable[[Any], Any]) -> tuple[Any, Any]:
    ours, theirs = build(ej.nn), build(torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    return ours, theirs


def close(x: Any, network: Any, results: Any, y: Any, other: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """Results, gradients and buffers are the same."""
    same(results, expected, tolerance)
    sum((r * r).sum() for r in results if r is not None).backward()
    sum((r * r).sum() for r in expected if r is not None).backward()
    for a, b in zip(x, y, strict=True):
        same(a.grad, b.grad, tolerance, "input")
    for (key, p), q in zip(network.named_parameters(), other.parameters(), strict=True):
        if q.grad is None:
            assert p.grad is None
        else:
            same(p.grad, q.grad, tolerance, key)
    for (key, p), q in zip(network.named_buffers(), other.buffers(), strict=True):
        same(p, q, tolerance, key)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    build, shape = LAYERS[name]
    ours, theirs = both(build)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    array = draw(shape, "float32", -2, 2, 1)
    x, y = ej.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    close([x], ours, [ours(x)], [y], theirs, [theirs(y)])


@pytest.mark.parametrize("name", LAYERS)
def test_layer_jitted(name: str) -> None:
    build, shape = LAYERS[name]
    module, twin = build(ej.nn), build(ej.nn)
    twin.load_state_dict(module.state_dict())
    found = []
    for network, call in ((module, module), (twin, ej.jit(twin))):
        x = ej.tensor(draw(shape, "float32", -2, 2, 1), requires_grad=True)
        out = call(x)
        out.square().sum().backward()
        values = [out, x.grad, *(p.grad for p in network.parameters()), *network.buffers()]
        found.append([array_of(v).tobytes() for v in values])
    assert found[0] == found[1]


def test_bilinear() -> None:
    ours, theirs = both(lambda n: n.Bilinear(3, 4, 2))
    assert repr(ours) == repr(theirs)
    arrays = [draw((5, n), "float32", -1, 1, n) for n in (3, 4)]
    x, y = ([t.tensor(a, requires_grad=True) for a in arrays] for t in (ej, torch))
    close(x, ours, [ours(*x)], y, theirs, [theirs(*y)])


def test_adaptive_softmax() -> None:
    ours, theirs = both(lambda n: n.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True))
    assert repr(ours) == repr(theirs)
    array, target = draw((5, 8), "float32", -1, 1, 1), np.array([0, 5, 11, 2, 8])
    x, y = (t.tensor(array, requires_grad=True) for t in (ej, torch))
    same(ours.log_prob(x), theirs.log_prob(y))
    same(ours.predict(x), theirs.predict(y))
    a, b = ours(x, ej.tensor(target)), theirs(y, torch.tensor(target))
    close([x], ours, [a.output, a.loss], [y], theirs, [b.output, b.loss])
    same(tuple(ours(x[0], ej.tensor(7))), tuple(theirs(y[0], torch.tensor(7))))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cosine similarity": lambda f, x, y: f.cosine_similarity(x, y, dim=0),
    "pairwise distance": lambda f, x, y: f.pairwise_distance(x, y, p=1.0, keepdim=True),
    "pdist": lambda f, x, y: f.pdist(x),
    "pdist dims": lambda f, x, y: f.pdist(x[0]),
    "normalize": lambda f, x, y: f.normalize(x, p=1.0, dim=-1),
    "relu_": lambda f, x, y: f.relu_(x * 1),
    "elu_": lambda f, x, y: f.elu_(x * 1, 0.5),
    "threshold_": lambda f, x, y: f.threshold_(x * 1, 0.1, 3.0),
    "leaky_relu_": lambda f, x, y: f.leaky_relu_(x * 1, 0.3),
    "hardtanh_": lambda f, x, y: f.hardtanh_(x * 1, -0.5, 0.5),
    "relu positional": lambda f, x, y: f.relu(x * 1, True),
    "leaky positional": lambda f, x, y: f.leaky_relu(x * 1, 0.2, True),
    "rrelu": lambda f, x, y: f.rrelu(x),
    "rrelu bounds": lambda f, x, y: f.rrelu(x, 0.5, 0.1),
    "glu odd": lambda f, x, y: f.glu(x[:, :3]),
    "prelu channels": lambda f, x, y: f.prelu(x, y[0]),
    "prelu size": lambda f, x, y: f.prelu(x, y[0, :2]),
    "softmin": lambda f, x, y: f.softmin(x, dim=0),
    "instance norm": lambda f, x, y: f.instance_norm(x.unsqueeze(0), weight=y[:, 0], bias=y[:, 1]),
    "instance norm one": lambda f, x, y: f.instance_norm(x.unsqueeze(-1)),
    "batch norm eval": lambda f, x, y: f.batch_norm(x, None, None),
    "group norm": lambda f, x, y: f.group_norm(x, 2, y[0], y[1]),
    "group norm rank": lambda f, x, y: f.group_norm(x[0], 2),
    "local response rank": lambda f, x, y: f.local_response_norm(x, 2),
    "dropout p": lambda f, x, y: f.dropout2d(x, 1.5),
    "alpha dropout p": lambda f, x, y: f.alpha_dropout(x, -0.5, True),
    "dropout1d rank": lambda f, x, y: f.dropout1d(x[0]),
    "feature alpha rank": lambda f, x, y: f.feature_alpha_dropout(x[0], 0.5, True),
    "alpha dropout 1": lambda f, x, y: f.alpha_dropout(x, 1.0, True),
    "bilinear sizes": lambda f, x, y: f.bilinear(x, y, x.unsqueeze(0)),
    "bilinear batch": lambda f, x, y: f.bilinear(x, y[:2], x.unsqueeze(0)),
    "selu far": lambda f, x, y: f.selu(x * 100),
    "celu far": lambda f, x, y: f.celu(x * 100, 0.7),
    "mish far": lambda f, x, y: f.mish(x * 100),
    "elu far": lambda f, x, y: f.elu(x * 100),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    arrays = [draw((3, 4), "float32", -2, 2, seed) for seed in (1, 2)]
    compare(lambda t, x, y: FUNCTIONS[name](t.nn.functional, x, y), *arrays, tolerance=1e-4)


EMBEDDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "frequency": lambda f, w: f.embedding(INDEX(w), w, scale_grad_by_freq=True),
    "padding": lambda f, w: f.embedding(INDEX(w), w, padding_idx=-1),
    "no padding": lambda f, w: f.embedding(INDEX(w), w, padding_idx=9),
    "sums": lambda f, w: f.embedding_bag(INDEX(w), w, mode="sum"),
    "means": lambda f, w: f.embedding_bag(INDEX(w), w),
    "maxima": lambda f, w: f.embedding_bag(INDEX(w), w, mode="max"),
    "padded": lambda f, w: f.embedding_bag(INDEX(w), w, padding_idx=2),
    "padded maxima": lambda f, w: f.embedding_bag(INDEX(w), w, padding_idx=2, mode="max"),
    "offsets": lambda f, w: f.embedding_bag(INDEX(w).reshape(-1), w, INDEX(w)[0] * 0 + INDEX(w).new_tensor([0, 2, 2])),
    "offsets sum": lambda f, w: f.embedding_bag(INDEX(w).reshape(-1), w, INDEX(w).new_tensor([0, 5]), mode="sum"),
    "offsets max": lambda f, w: f.embedding_bag(INDEX(w).reshape(-1), w, INDEX(w).new_tensor([0, 2, 2]), mode="max"),
    "last offset": lambda f, w: f.embedding_bag(
        INDEX(w).reshape(-1), w, INDEX(w).new_tensor([0, 2, 6]), include_last_offset=True
    ),
    "offsets padded": lambda f, w: f.embedding_bag(INDEX(w).reshape(-1), w, INDEX(w).new_tensor([0, 2]), padding_idx=2),
    "scaled": lambda f, w: f.embedding_bag(INDEX(w), w, mode="sum", per_sample_weights=w[:2, :3]),
    "scaled offsets": lambda f, w: f.embedding_bag(
        INDEX(w).reshape(-1), w, INDEX(w).new_tensor([0, 4]), mode="sum", per_sample_weights=w[:2, :3].reshape(-1)
    ),
    "scaled mean": lambda f, w: f.embedding_bag(INDEX(w), w, per_sample_weights=w[:2, :3]),
    "scaled size": lambda f, w: f.embedding_bag(INDEX(w), w, mode="sum", per_sample_weights=w[:1, :3]),
    "bad mode": lambda f, w: f.embedding_bag(INDEX(w), w, mode="median"),
    "no offsets": lambda f, w: f.embedding_bag(INDEX(w).reshape(-1), w),
    "both": lambda f, w: f.embedding_bag(INDEX(w), w, INDEX(w)[0]),
}


def INDEX(w: Any) -> Any:
    return w.new_tensor([[0, 2, 2], [4, 1, 2]]).long()


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embedding(name: str) -> None:
    compare(lambda t, w: EMBEDDINGS[name](t.nn.functional, w), draw((5, 4), "float32", -2, 2, 1))


@pytest.mark.parametrize("name", ["frequency", "means", "maxima", "offsets", "scaled offsets"])
def test_embedding_jitted(name: str) -> None:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrap in (lambda f: f, ej.jit):
            w = ej.tensor(draw((5, 4), "float32", -2, 2, 1), requires_grad=True)
            out = wrap(lambda w: EMBEDDINGS[name](ej.nn.functional, w))(w)
            out.sum().backward()
            found.append((array_of(out).tobytes(), array_of(w.grad).tobytes()))
    assert found[0] == found[1]


def test_embedding_modules() -> None:
    for build in (
        lambda n: n.Embedding(5, 4, 1, max_norm=1.0, scale_grad_by_freq=True),
        lambda n: n.EmbeddingBag(5, 4, mode="sum", padding_idx=2),
        lambda n: n.EmbeddingBag(5, 4, max_norm=0.5),
    ):
        ours, theirs = both(build)
        assert repr(ours) == repr(theirs)
        x, y = (t.tensor([[0, 2, 2], [4, 1, 2]]) for t in (ej, torch))
        close([], ours, [ours(x)], [], theirs, [theirs(y)])
        same(ours.weight, theirs.weight)
    table = draw((5, 4), "float32", -1, 1, 1)
    fixed, free = (ej.nn.Embedding.from_pretrained(ej.tensor(table), freeze=f, padding_idx=2) for f in (True, False))
    assert not fixed.weight.requires_grad and free.weight.requires_grad and fixed.padding_idx == 2
    assert ej.equal(fixed.weight, ej.tensor(table))


@pytest.mark.parametrize("kind", ["dropout1d", "dropout2d", "dropout3d"])
def test_channels_drop_together(kind: str) -> None:
    shape = (20, 30, *(2,) * int(kind[-2]))
    out = getattr(ej.nn.functional, kind)(ej.ones(shape), 0.25).flatten(2)
    assert ej.equal(out, out[:, :, :1].expand_as(out))
    kept = (out[:, :, 0] != 0).float().mean().item()
    assert 0.65 < kept < 0.85 and abs(out.max().item() - 4 / 3) < 1e-6


@pytest.mark.parametrize("kind", ["feature_dropout", "feature_dropout_"])
def test_features_drop_together(kind: str) -> None:
    x = ej.ones(20, 300, 2, 2)
    out = getattr(ej, kind)(x, 0.25, True)
    assert ej.equal(out, out[:, :, :1, :1].expand_as(out)) and (out is x) == kind.endswith("_")
    assert 0.7 < (out != 0).float().mean().item() < 0.8 and abs(out.max().item() - 4 / 3) < 1e-6


@pytest.mark.parametrize("kind", ["alpha_dropout", "feature_alpha_dropout"])
def test_self_normalising_dropout(kind: str) -> None:
    ej.manual_seed(1)
    out = getattr(ej.nn.functional, kind)(ej.randn(400, 200, 3), 0.2, training=True)
    assert abs(out.mean().item()) < 0.03 and abs(out.std().item() - 1) < 0.03


def test_random_leaky_slopes() -> None:
    x = ej.full((4000,), -1.0, requires_grad=True)
    out = ej.nn.functional.rrelu(x, 0.2, 0.4, training=True)
    out.sum().backward()
    assert -0.4 <= out.min().item() < -0.39 and -0.21 < out.max().item() <= -0.2
    assert ej.equal(x.grad, -out.detach())


@pytest.mark.parametrize("name", ["LazyLinear", "LazyBatchNorm1d", "LazyInstanceNorm2d"])
def test_lazy(name: str) -> None:
    for library in (ej, torch):
        make = getattr(library.nn, name)
        module = make(3) if name == "LazyLinear" else make(affine=True)
        assert module.has_uninitialized_params() and "Uninitialized" in repr(next(module.parameters()))
        with pytest.raises(RuntimeError):
            _ = next(module.parameters()).shape
        shape = (2, 5, 4, 4) if "2d" in name else (2, 5)
        module(library.ones(*shape))
        assert type(module).__name__ == name.removeprefix("Lazy") and not any(
            isinstance(p, library.nn.UninitializedParameter) for p in module.parameters()
        )
        assert tuple(next(module.parameters()).shape) == ((3, 5) if name == "LazyLinear" else (5,))
    loaded = ej.nn.LazyLinear(3)
    loaded.load_state_dict(ej.nn.Linear(5, 3).state_dict())
    assert tuple(loaded.weight.shape) == (3, 5) and tuple(loaded(ej.ones(2, 5)).shape) == (2, 3)


def saved(library: Any, value: Any) -> Any:
    file = io.BytesIO()
    library.save(value, file)
    file.seek(0)
    return library.load(file, weights_only=False)


@pytest.mark.parametrize(("kind", "sizes"), [("LazyLinear", [3]), ("LazyConv2d", [3, 2]), ("LazyBatchNorm1d", [])])
@pytest.mark.parametrize("way", ["state", "pickled", "saved", "loaded"])
def test_lazy_modules_are_saved_without_shapes(kind: str, sizes: list[int], way: str) -> None:
    seen = []
    for library in (ej, torch):
        first, second = (getattr(library.nn, kind)(*sizes) for _ in range(2))
        state = saved(library, first.state_dict()) if way == "saved" else first.state_dict()
        if way == "pickled":
            state = pickle.loads(pickle.dumps(first)).state_dict()
        elif way == "loaded":
            second.load_state_dict(state)
            state = second.state_dict()
        seen.append({name: (type(value).__name__, str(value.dtype)) for name, value in state.items()})
    assert seen[0] == seen[1]


@pytest.mark.parametrize("options", [{}, {"persistent": False}, {"requires_grad": True}], ids=str)
def test_buffers_without_shapes(options: dict[str, bool]) -> None:
    seen = []
    for library in (ej, torch):
        buffer = library.nn.parameter.UninitializedBuffer(**options)
        module = library.nn.Module()
        module.found = buffer
        facts = buffer.requires_grad, list(dict(module.named_buffers()))
        buffer.materialize((2,))
        seen.append((*facts, list(module.state_dict()), tuple(buffer.shape), isinstance(buffer, library.nn.Buffer)))
    assert seen[0] == seen[1]


def test_convert_sync_batchnorm() -> None:
    for library in (ej, torch):
        network = library.nn.Sequential(library.nn.Linear(3, 3), library.nn.BatchNorm1d(3))
        made = library.nn.SyncBatchNorm.convert_sync_batchnorm(network)
        assert type(made[1]).__name__ == "SyncBatchNorm"
        assert list(made.state_dict()) == list(network.state_dict())


def test_places_of_modules() -> None:
    from eagerjit.nn.modules.batchnorm import _BatchNorm
    from eagerjit.nn.modules.instancenorm import _InstanceNorm
    from eagerjit.nn.modules.transformer import _get_activation_fn

    assert issubclass(ej.nn.BatchNorm2d, _BatchNorm) and issubclass(ej.nn.InstanceNorm1d, _InstanceNorm)
    assert _get_activation_fn("relu") is ej.nn.functional.relu
    assert ej.nn.modules.Linear is ej.nn.modules.linear.Linear is ej.nn.Linear
    assert ej.nn.modules.utils._pair(3) == (3, 3) and ej.nn.modules.utils._triple((1, 2, 3)) == (1, 2, 3)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_lazy_instance_norms_learn_and_keep_statistics(rank: int) -> None:
    results = []
    for library in (ej, torch):
        module = getattr(library.nn, f"LazyInstanceNorm{rank}d")()
        x = library.arange(2 * 3 * 2**rank).float().reshape(2, 3, *(2,) * rank) ** 1.5
        trained = module(x)
        module.eval()
        results.append((trained.tolist(), module(x).tolist(), list(module.state_dict()), repr(module)))
    assert results[0][2:] == results[1][2:]
    np.testing.assert_allclose(np.array(results[0][0]), np.array(results[1][0]), atol=1e-5)
    np.testing.assert_allclose(np.array(results[0][1]), np.array(results[1][1]), rtol=1e-4)


def test_instance_norm_warns_of_other_channels() -> None:
    for library in (ej, torch):
        with pytest.warns(UserWarning, match="does not match num_features"):
            library.nn.InstanceNorm1d(4)(library.ones(2, 3, 5))


def test_maxima_of_bags_have_no_scaled_gradients() -> None:
    for library in (ej, torch):
        bags = library.nn.EmbeddingBag(4, 3, mode="max", scale_grad_by_freq=True)
        with pytest.raises(ValueError, match="max mode does not support scaling the gradient"):
            bags(library.tensor([[0, 1]]))
