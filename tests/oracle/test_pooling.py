"""Pooling, padding and windows as columns against PyTorch: values, gradients, layers, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw
from test_convolution import check_layer

import eagerjit as ej

SHAPES = {1: (2, 3, 9), 2: (2, 3, 9, 8), 3: (1, 2, 5, 6, 7)}
WINDOWS: dict[str, tuple[Any, Any, Any, bool]] = {
    "side by side": (2, None, 0, False),
    "overlapping": (3, 2, 1, False),
    "ceil": (3, 2, 1, True),
    "every place": (3, 1, 1, False),
    "gaps": (2, 3, 1, True),
    "large": (5, 1, 2, False),
}


CASES = [(2, window) for window in WINDOWS] + [(1, "overlapping"), (1, "gaps"), (3, "ceil")]


def functional(library: Any, name: str) -> Any:
    return getattr(library.nn.functional, name)


@pytest.mark.parametrize(("rank", "window"), CASES)
def test_max_pool(rank: int, window: str) -> None:
    how = WINDOWS[window]
    x = draw(SHAPES[rank], "float64", -1, 1, 3)
    compare(lambda t, x: functional(t, f"max_pool{rank}d")(x, *how[:3], 1, how[3]), x)
    # Rounded numbers have ties: the first one counts.
    compare(lambda t, x: functional(t, f"max_pool{rank}d")(x, *how[:3], 1, how[3], True), np.round(2 * x))


@pytest.mark.parametrize(("rank", "window"), CASES)
def test_avg_pool(rank: int, window: str) -> None:
    x = draw(SHAPES[rank], "float64", -1, 1, 3)
    compare(lambda t, x: functional(t, f"avg_pool{rank}d")(x, *WINDOWS[window]), x)
    compare(lambda t, x: functional(t, f"avg_pool{rank}d")(x, *WINDOWS[window], False), x)


POOLS: dict[str, Callable[[Any, Any], Any]] = {
    "dilated max": lambda t, x: t.max_pool2d(x, 2, 1, 0, 2),
    "max of unequal": lambda t, x: t.max_pool2d(x, (2, 3), (1, 2), (1, 0)),
    "max of all": lambda t, x: t.max_pool2d(x, (9, 8)),
    "max of one": lambda t, x: functional(t, "max_pool2d")(x[0], 2),
    "max of none": lambda t, x: t.max_pool2d(x[:0], 2),
    "max of nan": lambda t, x: t.max_pool2d(x.masked_fill(x > 0.5, float("nan")), 3, 2),
    "place of nan": lambda t, x: functional(t, "max_pool2d")(
        x.masked_fill(x > 0.5, float("nan")), 3, 2, return_indices=True)[1],
    "place of the maximum": lambda t, x: functional(t, "adaptive_max_pool2d")(
        (4 * x).round(), 1, return_indices=True)[1],
    "place of the last nan": lambda t, x: functional(t, "adaptive_max_pool2d")(
        x.masked_fill(x > 0.5, float("nan")), 1, return_indices=True)[1],
    "max of integers": lambda t, x: t.max_pool2d((x * 9).long(), 2),
    "strides": lambda t, x: t.max_pool2d(x.transpose(2, 3)[:, :, ::2], 2),
    "divisor": lambda t, x: functional(t, "avg_pool2d")(x, 3, 2, 1, divisor_override=5),
    "avg of integers": lambda t, x: functional(t, "avg_pool2d")((x * 9).long(), 2),
    "norm": lambda t, x: functional(t, "lp_pool2d")(x.abs() + 0.1, 2.0, 3, 2),
    "unpool": lambda t, x: functional(t, "max_unpool2d")(
        *functional(t, "max_pool2d")(x[:, :, :8], 2, return_indices=True), 2),
    "unpool to a size": lambda t, x: functional(t, "max_unpool2d")(
        *functional(t, "max_pool2d")(x, 2, return_indices=True), 2, output_size=(9, 8)),
    "adaptive to one": lambda t, x: functional(t, "adaptive_avg_pool2d")(x, 1),
    "adaptive, even": lambda t, x: functional(t, "adaptive_avg_pool2d")(x, (3, 4)),
    "adaptive, uneven": lambda t, x: functional(t, "adaptive_avg_pool2d")(x, (None, 5)),
    "adaptive, more than there is": lambda t, x: functional(t, "adaptive_avg_pool2d")(x, 11),
    "adaptive max": lambda t, x: functional(t, "adaptive_max_pool2d")(x, (4, 3), True),
    "adaptive max, even": lambda t, x: functional(t, "adaptive_max_pool2d")(x, (3, 2), True),
    "adaptive 1d": lambda t, x: t.adaptive_avg_pool1d(x[0], 3),
    "columns": lambda t, x: functional(t, "unfold")(x, (3, 2), (1, 2), (1, 0), (2, 1)),
    "columns of one": lambda t, x: functional(t, "unfold")(x[0], 2),
    "back from columns": lambda t, x: functional(t, "fold")(x.reshape(2, 12, 18), (13, 5), (3, 2), (2, 1), 1, (2, 3)),
    "side by side columns": lambda t, x: functional(t, "fold")(x.reshape(2, 12, 18), (12, 6), 2, stride=2),
    "small": lambda t, x: t.max_pool2d(x, 10),
    "wide padding": lambda t, x: t.max_pool2d(x, 2, padding=2),
    "three sizes": lambda t, x: t.max_pool2d(x, (2, 2, 2)),
    "no stride": lambda t, x: t.max_pool2d(x, 2, 0),
    "dimensions": lambda t, x: t.max_pool2d(x[0, 0], 2),
    "no channels": lambda t, x: t.max_pool2d(x[:, :0], 2),
    "no divisor": lambda t, x: functional(t, "avg_pool2d")(x, 2, divisor_override=0),
    "negative size": lambda t, x: functional(t, "adaptive_avg_pool2d")(x, (-1, 2)),
    "adaptive of integers": lambda t, x: functional(t, "adaptive_avg_pool2d")(x.long(), 2),
    "no such columns": lambda t, x: functional(t, "unfold")(x, 10),
    "indivisible columns": lambda t, x: functional(t, "fold")(x.reshape(2, 9, 24), (6, 7), 2),
    "other columns": lambda t, x: functional(t, "fold")(x.reshape(2, 12, 18), (6, 8), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    compare(POOLS[name], draw(SHAPES[2], "float64", -1, 1, 3))


PADS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "last": ((3, 4, 5), (1, 2)),
    "two": ((2, 3, 4, 5), (1, 2, 0, 1)),
    "three": ((2, 3, 4, 5, 4), (1, 0, 1, 2, 3, 1)),
    "cut": ((2, 3, 4, 5), (-1, 2, 1, -1)),
    "all of it": ((2, 3, 4, 5), (5, 0, 1, 1)),
    "more than there is": ((2, 3, 4, 5), (6, 0, 1, 1)),
    "nothing": ((2, 3, 4, 5), (0, 0)),
    "less than nothing": ((2, 3, 4, 5), (-3, -3)),
    "no images": ((0, 3, 4, 5), (1, 1, 1, 1)),
    "odd": ((2, 3, 4, 5), (1, 1, 1)),
    "too many": ((3, 4), (1,) * 6),
}


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("name", PADS)
def test_pad(name: str, mode: str) -> None:
    shape, amounts = PADS[name]
    compare(lambda t, x: t.nn.functional.pad(x, amounts, mode), draw(shape, "float64", -1, 1, 3))


def test_no_such_padding() -> None:
    compare(lambda t, x: t.nn.functional.pad(x, (1, 1, 1), "foo"), draw((3, 4), "float64", -1, 1, 3))


LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "MaxPool1d": (lambda n: n.MaxPool1d(2), (2, 3, 7)),
    "MaxPool2d": (lambda n: n.MaxPool2d(3, 2, 1), (2, 3, 7, 6)),
    "MaxPool3d": (lambda n: n.MaxPool3d(2, ceil_mode=True), (2, 3, 5, 4, 5)),
    "AvgPool1d": (lambda n: n.AvgPool1d(2), (2, 3, 7)),
    "AvgPool2d": (lambda n: n.AvgPool2d(3, 2, 1), (2, 3, 7, 6)),
    "AvgPool3d": (lambda n: n.AvgPool3d(2), (2, 3, 5, 4, 5)),
    "LPPool2d": (lambda n: n.LPPool2d(2, 3, stride=2), (2, 3, 7, 6)),
    "AdaptiveAvgPool2d": (lambda n: n.AdaptiveAvgPool2d((None, 3)), (2, 3, 7, 6)),
    "AdaptiveMaxPool2d": (lambda n: n.AdaptiveMaxPool2d(3), (2, 3, 7, 6)),
    "ConstantPad2d": (lambda n: n.ConstantPad2d((1, 0, 2, 1), 0.5), (2, 3, 4, 4)),
    "ZeroPad2d": (lambda n: n.ZeroPad2d(1), (2, 3, 4, 4)),
    "ReflectionPad1d": (lambda n: n.ReflectionPad1d(2), (2, 3, 4)),
    "ReplicationPad3d": (lambda n: n.ReplicationPad3d(1), (2, 3, 4, 3, 2)),
    "CircularPad2d": (lambda n: n.CircularPad2d((1, 2, 0, 1)), (2, 3, 4, 3)),
    "Unfold": (lambda n: n.Unfold(2, padding=1), (2, 3, 4, 4)),
    "Fold": (lambda n: n.Fold((4, 4), 2), (2, 8, 9)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    check_layer(*LAYERS[name])


def test_unpooling_layer() -> None:
    array = draw((1, 2, 4, 4), "float32", -1, 1, 3)
    found = []
    for library in (ej, torch):
        pool, back = library.nn.MaxPool2d(2, return_indices=True), library.nn.MaxUnpool2d(2)
        found.append((repr(back), back(*pool(library.tensor(array))).numpy()))
    assert found[0][0] == found[1][0] and (found[0][1] == found[1][1]).all()


def test_batch_sizes_share_one_version() -> None:
    def pooled(x: Any) -> Any:
        return ej.nn.functional.avg_pool2d(ej.max_pool2d(x, 3, 2, 1, ceil_mode=True), 2)

    jitted = ej.jit(pooled)
    for images in (2, 3, 9):
        x = ej.tensor(draw((images, 3, 12, 11), "float32", -1, 1, images))
        assert (jitted(x) == pooled(x)).all()
    assert jitted.cache_info().compiles == 1


@pytest.mark.parametrize("name", ["overlapping", "columns", "adaptive max", "adaptive, uneven", "norm"])
def test_jitted_gradients_of_any_layout(name: str) -> None:
    function = POOLS.get(name, lambda t, x: t.max_pool2d(x, *WINDOWS["overlapping"][:3]))

    def step(x: Any) -> Any:
        found = function(ej, x)
        found = found[0] if isinstance(found, tuple) else found
        found.permute(0, *range(found.ndim - 1, 0, -1)).sum().backward()
        return x.grad

    x, y = (ej.tensor(draw(SHAPES[2], "float64", -1, 1, 3)).requires_grad_() for _ in range(2))
    assert (step(x) == ej.jit(step, fullgraph=True)(y)).all()


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("norm", [float("inf"), -float("inf")])
def test_infinite_norms_of_windows(rank: int, norm: float) -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, *(5,) * rank)).tolist()
    found = []
    for library in (ej, torch):
        x = library.tensor(values, requires_grad=True)
        pooled = getattr(library.nn.functional, f"lp_pool{rank}d")(x, norm, 2, ceil_mode=True)
        pooled.sum().backward()
        found.append((pooled.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_padding_of_spread_windows_is_at_most_half_of_them() -> None:
    for library in (ej, torch):
        for rank in (1, 2, 3):
            with pytest.raises(RuntimeError, match="pad"):
                getattr(library.nn.functional, f"max_pool{rank}d")(library.ones(1, 1, *(9,) * rank), 3, 1, 2, 2)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("how", [(3, 1, 1), (3, 2, 1), (2, 1, 1, 2), (3, 2, 1, 1, True), (4, 3, 2, 2)])
def test_maxima_of_nothing_but_infinities(rank: int, how: tuple[Any, ...]) -> None:
    x = np.full((2, 3, *(6,) * rank), -np.inf, np.float32)
    x[0, :, ..., -1] = 1.0
    x[1, 0].flat[0] = np.nan
    compare(lambda t, x: functional(t, f"max_pool{rank}d")(x, *how, return_indices=True), x)

    def pooled(t: Any, x: Any) -> Any:
        call = lambda x: functional(t, f"max_pool{rank}d")(x, *how)  # noqa: E731
        return (ej.jit(call) if t is ej else call)(x)

    compare(pooled, x)


def test_gradients_of_adaptive_means_fill_rows_before_they_repeat_them() -> None:
    """Elements of a row are gathered one by one, rows many at a time."""

    @ej.jit
    def slope(image: ej.Tensor, weight: ej.Tensor) -> ej.Tensor:
        return ej.autograd.grad(ej.nn.functional.adaptive_avg_pool2d(image, (3, 5)), image, weight)[0]

    text = str(slope.explain(ej.rand(2, 3, 16, 17, requires_grad=True), ej.rand(2, 3, 3, 5)).optimized)
    gathered = [line.split(" = ")[0] for line in text.splitlines() if " gather(" in line and "dim=3" in line]
    spread = [result for result in gathered if ", 17]" in result]
    assert spread and all("f32[s0, s1, 3, 17]" in result for result in spread)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "complex64", "float16"])
@pytest.mark.parametrize("rank", [1, 2])
def test_average_pools_refuse_dtypes(rank: int, dtype: str) -> None:
    def pooled(t: Any) -> Any:
        x = t.ones((1, *(4,) * rank), dtype=getattr(t, dtype))
        try:
            return functional(t, f"avg_pool{rank}d")(x, 2).tolist()
        except NotImplementedError as error:
            return type(error)

    assert pooled(ej) == pooled(torch)
