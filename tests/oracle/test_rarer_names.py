"""Names that few programs use, against PyTorch: reflectors, segments, histograms of points, linear cross entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import same

import eagerjit as ej

RANDOM = np.random.default_rng(7)


def alike(call: Callable[[Any], Any], tolerance: float | None = None) -> None:
    """Both libraries give the same, or raise the same class of error."""
    outcomes = []
    for t in (ej, torch):
        try:
            outcomes.append(call(t))
        except (RuntimeError, ValueError, TypeError) as error:
            outcomes.append(type(error).__name__)
    same(*outcomes, tolerance=tolerance)


SEQUENCES = {
    "plain": ((4, 2, 3), (3, 3, 2), (2,), 0),
    "padded": ((4, 2, 3), (3, 3, 2), (2,), 2),
    "other channels": ((4, 2, 4), (3, 3, 2), (2,), 0),
    "too few dimensions": ((4, 2), (3, 3, 2), (2,), 0),
    "a flat weight": ((4, 2, 3), (3, 3), (2,), 0),
    "a long bias": ((4, 2, 3), (3, 3, 2), (3,), 0),
    "a wide bias": ((4, 2, 3), (3, 3, 2), (1, 2), 0),
    "a short sequence": ((2, 2, 3), (5, 3, 2), (2,), 0),
    "no bias": ((4, 2, 3), (3, 3, 2), None, 0),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_convolutions_of_sequences(name: str) -> None:
    *shapes, pad = SEQUENCES[name]
    values = [None if shape is None else RANDOM.normal(size=shape) for shape in shapes]

    def call(t: Any, wrap: Callable[[Any], Any] = lambda function: function) -> Any:
        x, w, b = (None if v is None else t.tensor(v, requires_grad=True) for v in values)
        out = wrap(t.conv_tbc)(x, w, b, pad)
        weighted = (out * t.arange(float(out.numel())).reshape(out.shape)).sum()
        return out, t.nn.functional.conv_tbc(x, w, b, pad), *t.autograd.grad(weighted, (x, w, b))

    alike(call)
    if name in ("plain", "padded"):
        found = zip(call(ej), call(ej, ej.jit), strict=True)
        assert all(a.detach().numpy().tobytes() == b.detach().numpy().tobytes() for a, b in found)


# -- reflectors -------------------------------------------------------------------------------------------------------

SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 4), (0, 3), (3, 0), (1, 1), (0, 2, 2), (3,)]


def _matrix(shape: tuple[int, ...], kind: str) -> np.ndarray:
    real = RANDOM.normal(size=shape)
    return real if kind == "real" else real + 1j * RANDOM.normal(size=shape)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reflectors(shape: tuple[int, ...], kind: str) -> None:
    values = _matrix(shape, kind)
    alike(lambda t: tuple(t.geqrf(t.tensor(values))))
    alike(lambda t: tuple(t.tensor(values).mT.geqrf()))

    def multiplied(t: Any, left: bool, transpose: bool) -> Any:
        reflected = t.geqrf(t.tensor(values))
        m = values.shape[-2]
        other = np.broadcast_to(np.arange(m * m).reshape(m, m) + 0.5, (*values.shape[:-2], m, m)).astype(values.dtype)
        return t.ormqr(*reflected, t.tensor(other), left, transpose)

    for left in (True, False):
        for transpose in (True, False):
            alike(lambda t, left=left, transpose=transpose: multiplied(t, left, transpose))
    if len(shape) > 1 and shape[-2] >= shape[-1]:
        alike(lambda t: t.orgqr(*t.geqrf(t.tensor(values))))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "int64"])
def test_reflectors_of_dtypes(dtype: str) -> None:
    alike(lambda t: tuple(t.geqrf(t.tensor([[3.0, 1.0], [4.0, 2.0]]).to(getattr(t, dtype)))))
    alike(lambda t: tuple(t.geqrf(t.eye(3).to(getattr(t, dtype)) * -2)))


def test_compiled_reflectors_are_eager_ones() -> None:
    compiled = ej.jit(lambda x: ej.geqrf(x))
    for values in (RANDOM.normal(size=(4, 3)), np.eye(4, 3)):
        for found, expected in zip(compiled(ej.tensor(values)), ej.geqrf(ej.tensor(values)), strict=True):
            assert found._data.tobytes() == expected._data.tobytes()


# -- segments ---------------------------------------------------------------------------------------------------------

ROWS = RANDOM.normal(size=(6, 3))


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "amax", "amin", "prod", "other"])
def test_segments(reduce: str, initial: float | None) -> None:
    def walked(t: Any, lengths: list[int]) -> Any:
        x = t.tensor(ROWS, requires_grad=True)
        found = t.segment_reduce(x, reduce, lengths=t.tensor(lengths), initial=initial)
        found.nan_to_num(0, 0, 0).sum().backward()
        return found.detach(), x.grad

    for lengths in ([1, 2, 3], [0, 6], [2, 0, 4, 0], [1, 2], [7, -1]):
        alike(lambda t, lengths=lengths: walked(t, lengths))
    alike(lambda t: t.segment_reduce(t.tensor(ROWS), reduce, offsets=t.tensor([0, 2, 6]), initial=initial))
    alike(
        lambda t: t.segment_reduce(
            t.tensor(ROWS.reshape(2, 3, 3)), reduce, lengths=t.tensor([[1, 2], [3, 0]]), axis=1, initial=initial
        )
    )
    alike(lambda t: t.segment_reduce(t.tensor(ROWS)[:, 0].float(), reduce, lengths=t.tensor([4, 2]), initial=initial))
    alike(lambda t: t.segment_reduce(t.tensor(ROWS[:0]), reduce, lengths=t.tensor([0, 0]), initial=initial))


def test_segments_that_are_refused() -> None:
    alike(lambda t: t.segment_reduce(t.tensor(ROWS), "sum"))
    alike(lambda t: t.segment_reduce(t.tensor(ROWS).long(), "sum", lengths=t.tensor([6])))
    for reduce in (None, 1):
        alike(lambda t, reduce=reduce: t._segment_reduce(t.tensor(ROWS), reduce, lengths=t.tensor([6])))


# -- histograms of points ---------------------------------------------------------------------------------------------

POINTS = RANDOM.normal(size=(20, 2))
OPTIONS: list[dict[str, Any]] = [{}, {"density": True}, {"range": [-1.0, 1.0, -2.0, 2.0]}, {"weight": True}]


@pytest.mark.parametrize("bins", [3, [2, 4], "edges", [2]], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_histograms_of_points(options: dict[str, Any], bins: Any) -> None:
    def call(t: Any) -> Any:
        given, wanted = dict(options), bins
        if "weight" in given:
            given["weight"] = t.arange(20.0, dtype=t.float64)
        if bins == "edges":
            given.pop("range", None)
            wanted = [t.tensor(e, dtype=t.float64) for e in ([-1.0, 0.0, 0.5, 2.0], [-2.0, 2.0])]
        found = t.histogramdd(t.tensor(POINTS), wanted, **given)
        return found.hist, list(found.bin_edges)

    alike(call)


HISTOGRAMS: dict[str, Callable[[Any], Any]] = {
    "all the same": lambda t: t.histogramdd(t.ones(3, 2), 2),
    "no points": lambda t: t.histogramdd(t.ones(0, 2), 2),
    "a vector": lambda t: t.histogramdd(t.ones(3), 2),
    "integers": lambda t: t.histogramdd(t.ones(3, 2).long(), 2),
    "batches": lambda t: t.histogramdd(t.arange(24.0).reshape(2, 3, 4), [2, 2, 1, 3]),
    "not a number": lambda t: t.histogramdd(t.tensor([[math.nan, 1.0], [1.0, 2.0]]), 2),
    "not a number within a range": lambda t: t.histogramdd(
        t.tensor([[math.nan, 1.0], [1.0, 2.0]]), 2, range=[0.0, 1.0, 0.0, 2.0]
    ),
    "an infinite range": lambda t: t.histogramdd(t.ones(3, 1), 2, range=[0.0, math.inf]),
    "a range from its end": lambda t: t.histogramdd(t.ones(3, 1), 2, range=[2.0, 1.0]),
    "half of a range": lambda t: t.histogramdd(t.ones(3, 2), 2, range=[0.0, 1.0]),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_other_histograms(name: str) -> None:
    alike(lambda t: (lambda found: (found[0], list(found[1])))(HISTOGRAMS[name](t)))


# -- linear cross entropy ---------------------------------------------------------------------------------------------

X, W = RANDOM.normal(size=(4, 5)), RANDOM.normal(size=(6, 5))
LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "class numbers": lambda t, f, x: f(x, t.tensor(W), t.tensor([1, 0, 5, -100])),
    "ignored": lambda t, f, x: f(x, t.tensor(W), t.tensor([1, 0, 5, 2]), ignore_index=0, reduction="sum"),
    "smoothed": lambda t, f, x: f(x, t.tensor(W), t.tensor([1, 0, 5, 2]), label_smoothing=0.1, reduction="none"),
    "weights, bias": lambda t, f, x: f(
        x, t.tensor(W), t.tensor([1, 0, 5, 2]), linear_bias=t.tensor(W[:, 0]), weight=t.tensor(W[:, 1]).abs()
    ),
    "one": lambda t, f, x: f(x[0], t.tensor(W), t.tensor(3)),
    "probabilities": lambda t, f, x: f(x, t.tensor(W), t.tensor(X @ W.T).softmax(1)),
    "sizes": lambda t, f, x: f(x, t.tensor(W.reshape(3, 2, 5)), t.tensor([[1, 0], [2, 2], [0, 0], [1, 1]])),
    "ignored probabilities": lambda t, f, x: f(x, t.tensor(W), t.tensor(X @ W.T), ignore_index=1),
    "other features": lambda t, f, x: f(x[:, :4], t.tensor(W), t.tensor([1, 0, 5, 2])),
    "other bias": lambda t, f, x: f(x, t.tensor(W), t.tensor([1, 0, 5, 2]), linear_bias=t.tensor(W[0])),
    "a vector of weights": lambda t, f, x: f(x, t.tensor(W[0]), t.tensor([1, 0, 5, 2])),
    "three dimensions": lambda t, f, x: f(x[None], t.tensor(W), t.tensor([1, 0, 5, 2])),
    "sizes of one": lambda t, f, x: f(x[0], t.tensor(W.reshape(3, 2, 5)), t.tensor([1, 0])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_linear_cross_entropy(name: str) -> None:
    def call(t: Any) -> Any:
        x = t.tensor(X, requires_grad=True)
        found = LOSSES[name](t, t.nn.functional.linear_cross_entropy, x)
        found.sum().backward()
        return found.detach(), x.grad

    alike(call)


@pytest.mark.parametrize("sizes", [(), (2,)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_linear_cross_entropy_module(sizes: tuple[int, ...], bias: bool) -> None:
    def call(t: Any) -> Any:
        module = t.nn.LinearCrossEntropyLoss(5, 3, out_features=sizes, bias=bias, dtype=t.float64, weight=t.ones(3) * 2)
        with t.no_grad():
            for p in module.parameters():
                p.copy_(t.arange(p.numel(), dtype=t.float64).reshape(p.shape) / 10)
        target = t.tensor([1, 0, 2, 2] if not sizes else [[1, 0], [2, 2], [0, 0], [1, 1]])
        module.double()(t.tensor(X), target).backward()
        return [p.grad for p in module.parameters()], list(module.state_dict())

    alike(call)
    alike(lambda t: t.nn.LinearCrossEntropyLoss(5, 3, weight=t.ones(4)))
    alike(lambda t: t.nn.LinearCrossEntropyLoss(5, 3, label_smoothing=1.5))
    assert ej.nn.LinearCrossEntropyOptions() == ej.nn.LinearCrossEntropyOptions(chunking_method="auto")


# -- what does little -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_say_so(name: str) -> None:
    for t in (ej, torch):
        with pytest.raises(RuntimeError, match=r"is now removed[^$]*torch.linalg"):
            getattr(t, name)(t.ones(2, 2), t.ones(2, 2))


def test_ranges_of_profilers_nest() -> None:
    from eagerjit.cuda import nvtx

    assert (nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop()) == (0, 1, 1, 0)
    with nvtx.range("step {}", 3):
        assert nvtx.range_push("inner") == 1
        nvtx.range_pop()
    nvtx.mark("here")
    assert nvtx.range_pop() < 0
    nvtx.range_end(nvtx.range_start("far"))


def test_autocast_until_further_notice() -> None:
    def use(t: Any) -> Any:
        x, seen = t.ones(2, 2), []
        for enabled in (True, False):
            t.set_autocast_enabled("cpu", enabled)
            seen += [t.is_autocast_enabled("cpu"), str((x @ x).dtype).rpartition(".")[2]]
        t.set_autocast_cpu_dtype(t.float16)
        t.set_autocast_enabled("cpu", True)
        seen.append(str((x @ x).dtype).rpartition(".")[2])
        t.set_autocast_enabled("cpu", False)
        t.set_autocast_cpu_dtype(t.bfloat16)
        t.clear_autocast_cache()
        return seen

    assert use(ej) == use(torch)

    @ej.jit
    def switched(x: Any) -> Any:
        ej.set_autocast_enabled("cpu", True)
        try:
            return x @ x
        finally:
            ej.set_autocast_enabled("cpu", False)

    with pytest.warns(UserWarning, match="autocast"):
        assert switched(ej.ones(2, 2)).dtype is ej.bfloat16
    assert not ej.is_autocast_enabled("cpu")


def test_functionalized_functions_write_to_their_arguments() -> None:
    def step(x: Any, y: Any) -> Any:
        x.add_(1)
        y.view(-1)[0] = 7
        return x * y

    def use(t: Any) -> Any:
        x, y = t.ones(2), t.ones(2)
        return t.func.functionalize(step, remove="mutations_and_views")(x, y), x, y

    same(use(ej), use(torch))
    alike(lambda t: t.func.functionalize(step, remove="all")(t.ones(1), t.ones(1)))


def test_tensors_in_one_vector() -> None:
    from torch import _utils as theirs

    from eagerjit import _utils as ours

    for t, utilities in ((ej, ours), (torch, theirs)):
        parts = [t.arange(6.0).reshape(2, 3), t.tensor(7.0), t.zeros(0, 2)]
        flat = utilities._flatten_dense_tensors(parts)
        back = utilities._unflatten_dense_tensors(flat, parts)
        assert flat.tolist() == [0, 1, 2, 3, 4, 5, 7]
        assert [p.tolist() for p in back] == [p.tolist() for p in parts]


# -- functions of networks in the main namespace ----------------------------------------------------------------------

INPUT, STATE, CELL = (RANDOM.normal(size=shape) for shape in ((4, 5), (4, 3), (4, 3)))
IMAGE, PLACES = RANDOM.normal(size=(2, 3, 4, 5)), RANDOM.uniform(-1.2, 1.2, size=(2, 3, 2, 2))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize("name", ["gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"])
def test_cells(name: str, batch: int, bias: bool) -> None:
    gates = {"gru_cell": 3, "lstm_cell": 4}.get(name, 1)
    draw = np.random.default_rng(gates)
    values = [draw.normal(size=s) for s in ((3 * gates, 5), (3 * gates, 3), (3 * gates,), (3 * gates,))]

    def call(t: Any) -> Any:
        x, h, c = (t.tensor(v[:batch], requires_grad=True) for v in (INPUT, STATE, CELL))
        weights = [t.tensor(v, requires_grad=True) for v in values[: 4 if bias else 2]]
        found = getattr(t, name)(x, (h, c) if name == "lstm_cell" else h, *weights)
        (found[0] * found[1] if name == "lstm_cell" else found).sum().backward()
        found = tuple(f.detach() for f in found) if name == "lstm_cell" else found.detach()
        return found, [v.grad for v in (x, h, *weights)]

    alike(call)


NETWORK: dict[str, Callable[[Any], Any]] = {
    "grid_sampler": lambda t: t.grid_sampler(t.tensor(IMAGE), t.tensor(PLACES), 0, 1, False),
    "grid_sampler_2d": lambda t: t.grid_sampler_2d(t.tensor(IMAGE), t.tensor(PLACES), 1, 2, True),
    "affine_grid_generator": lambda t: t.affine_grid_generator(t.tensor(IMAGE[:, 0, :2, :3]), [2, 3, 4, 5], False),
    "constant_pad_nd": lambda t: t.constant_pad_nd(t.tensor(IMAGE), (1, 2, 0, -1), 2.5),
    "padded by 0": lambda t: t.constant_pad_nd(t.tensor(IMAGE), [1, 1]),
    "dropout_, all": lambda t: t.dropout_(t.tensor(IMAGE), 1.0, True),
    "dropout_, none": lambda t: t.dropout_(t.tensor(IMAGE), 0.5, False),
    "alpha_dropout_": lambda t: t.alpha_dropout_(t.tensor(IMAGE), 0.5, False),
    "feature_dropout_": lambda t: t.feature_dropout_(t.tensor(IMAGE), 1.0, True),
    "feature_alpha_dropout_": lambda t: t.feature_alpha_dropout_(t.tensor(IMAGE), 0.5, False),
    "rrelu_": lambda t: t.rrelu_(t.tensor(IMAGE)),
    "dropout_ of more than all": lambda t: t.dropout_(t.tensor(IMAGE), 1.5, True),
}


@pytest.mark.parametrize("name", NETWORK)
def test_networks(name: str) -> None:
    alike(NETWORK[name])


def test_dropout_in_place_writes() -> None:
    x = ej.ones(100)
    assert ej.dropout_(x, 0.5, True) is x
    assert set(x.tolist()) == {0.0, 2.0}
