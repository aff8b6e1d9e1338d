"""Interpolation, sampling and shuffles against PyTorch: values, gradients, layers, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw
from test_convolution import check_layer

import eagerjit as ej
from eagerjit.ops.resampling import smooth_line, unsmooth_line

SHAPES = {1: (2, 3, 7), 2: (2, 3, 5, 6), 3: (1, 2, 3, 4, 5)}
MODES = [(1, "nearest"), (1, "linear"), (2, "nearest"), (2, "nearest-exact"), (2, "bilinear"), (2, "bicubic"),
         (2, "area"), (3, "nearest"), (3, "trilinear"), (3, "area")]  # fmt: skip
SIZES: list[dict[str, Any]] = [
    {"size": 4},
    {"size": 9},
    {"scale_factor": 2},
    {"scale_factor": 1.5},
    {"scale_factor": 0.6, "recompute_scale_factor": True},
]


@pytest.mark.parametrize("options", SIZES, ids=str)
@pytest.mark.parametrize(("rank", "mode"), MODES)
def test_interpolate(rank: int, mode: str, options: dict[str, Any]) -> None:
    aligned = (None,) if mode in ("nearest", "nearest-exact", "area") else (False, True)
    for align in aligned:
        compare(
            lambda t, x, align=align: t.nn.functional.interpolate(x, mode=mode, align_corners=align, **options),
            draw(SHAPES[rank], "float64", -1, 1, 3),
        )


def test_single_precision_rounds_where_pytorch_does() -> None:
    for mode in ("bilinear", "nearest", "bicubic"):
        compare(
            lambda t, x, mode=mode: t.nn.functional.interpolate(x, size=(8, 3), mode=mode),
            draw(SHAPES[2], "float32", -1, 1, 3),
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("options", [{"size": (3, 13)}, {"scale_factor": 0.4}], ids=str)
def test_antialias(mode: str, align: bool, options: dict[str, Any]) -> None:
    def run(t: Any, x: Any) -> Any:
        return t.nn.functional.interpolate(x, mode=mode, align_corners=align, antialias=True, **options)

    compare(run, draw((2, 3, 9, 8), "float64", -1, 1, 3))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align", [False, True])
def test_images_of_bytes(mode: str, antialias: bool, align: bool) -> None:
    image = (draw((2, 5, 17, 40), "float32", 0, 255, 3)).astype("uint8")
    scaled = {"scale_factor": (0.37, 1.5)}
    for options in ({"size": (5, 9)}, {"size": (33, 64)}, {"size": 1}, scaled, {"size": (17, 3)}):

        def run(t: Any, x: Any, options: dict[str, Any] = options) -> Any:
            return t.nn.functional.interpolate(x, mode=mode, align_corners=align, antialias=antialias, **options)

        expected, found = run(torch, torch.from_numpy(image)), run(ej, ej.from_numpy(image))
        assert found.dtype is ej.uint8 and np.array_equal(expected.numpy(), found.numpy()), options


@pytest.mark.parametrize(("size", "first"), [((8, 8), 2), ((8, 40), 2), ((40, 8), 3), ((16, 8), 3)])
def test_antialiasing_takes_no_windows_and_fewer_rows_first(size: tuple[int, int], first: int) -> None:
    """Windows in memory are as many times the result as they are long."""

    @ej.jit
    def resized(image: ej.Tensor) -> ej.Tensor:
        return ej.nn.functional.interpolate(image, size, mode="bilinear", antialias=True)

    text = resized.explain(ej.rand(2, 3, 16, 16)).optimized
    gathers = [line for line in str(text).splitlines() if " gather(" in line]
    assert f"dim={first}" in gathers[0] and f"dim={5 - first}" in gathers[-1]
    assert all(": f32[s0, s1, " in line for line in gathers)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(1, 70), (3, 2), (4, 29), (64, 9), (33, 128)], ids=str)
def test_gradients_of_antialiasing(size: tuple[int, int], align: bool, mode: str) -> None:
    """Windows of few and of many, aligned sizes of one place, and a place that all take from.

    PyTorch takes one row's values for all rows of an image that becomes one column.
    """
    for image in ((2, 2, 32, 9), (1, 2, 1, 4), (1, 1, 3, 1)):
        compare(
            lambda t, x: t.nn.functional.interpolate(x, size=size, mode=mode, align_corners=align, antialias=True),
            draw(image, "float64", -1, 1, 3),
        )


@pytest.mark.parametrize(("mode", "antialias"), [
    ("nearest", False), ("nearest-exact", False), ("bilinear", False), ("bicubic", False), ("bicubic", True)
])  # fmt: skip
def test_gradients_gather(mode: str, antialias: bool) -> None:
    @ej.jit
    def slope(image: ej.Tensor) -> ej.Tensor:
        resized = ej.nn.functional.interpolate(image, (8, 40), mode=mode, antialias=antialias)
        return ej.autograd.grad(resized.square().sum(), image)[0]

    image = ej.rand(2, 3, 16, 16, requires_grad=True)
    lines = str(slope.explain(image).optimized).splitlines()
    assert not any("scatter" in line for line in lines)
    assert ej.equal(slope(image), slope.__wrapped__(image))


SCALES = [0.1, 0.3, 1 / 3, 0.7, 1.0, 1.1, 4 / 3, 1.7, 2.3, 5.1, 11.3, 40.0]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bicubic", "smooth"])
@pytest.mark.parametrize("align", [False, True])
def test_gradients_miss_nothing(mode: str, align: bool) -> None:
    """Interpolation and its gradient are each other's transposes, of lines in all sizes."""
    how: dict[str, Any] = {"mode": "bilinear" if mode == "smooth" else mode, "antialias": mode == "smooth"}
    if "nearest" not in mode:
        how["align_corners"] = align
    for n in (1, 2, 5, 17, 64):
        for scale in SCALES[SCALES.index(1.1) if n < 10 else 0 :]:
            line = ej.rand(1, 1, n) if mode in ("nearest", "linear") else ej.rand(1, 1, n, 1)
            for wanted in ({"scale_factor": (scale, 1.0)}, {"size": (int(n * scale), 1)}):
                given = {key: value[: line.ndim - 2] for key, value in wanted.items()}
                line.requires_grad_()
                found = ej.nn.functional.interpolate(line, **given, **how)
                weights = ej.rand(*found.shape)
                (slope,) = ej.autograd.grad(found, line, weights)
                expected = (found.double() * weights.double()).sum()
                assert (slope.double() * line.double()).sum().isclose(expected, rtol=1e-4), (n, wanted)


def test_rows_that_become_fewer_go_first() -> None:
    @ej.jit
    def resized(image: ej.Tensor) -> ej.Tensor:
        return ej.nn.functional.interpolate(image, (8, 40), mode="bilinear")

    text = str(resized.explain(ej.rand(2, 3, 16, 16)).optimized)
    dims = [line.split("dim=")[1][0] for line in text.splitlines() if " gather(" in line and "[s0, s1" in line]
    assert dims == ["2", "2", "3", "3"]


def test_infinities_beside_an_antialiased_window_are_not_in_it() -> None:
    def run(t: Any, size: int, turned: bool) -> list[np.ndarray[Any, Any]]:
        image = t.zeros(1, 1, 9, 8)
        image[0, 0, 3, 3] = image[0, 0, 8, 7] = float("inf")
        given = t.ones(1, 1, size, size, requires_grad=True) if turned else image
        found = t.nn.functional.interpolate(
            given, size=(9, 8) if turned else size, mode="bilinear", antialias=True
        )
        return np.asarray((t.autograd.grad(found, given, image)[0] if turned else found).detach())

    for size in (3, 4, 12):
        for turned in (False, True):
            assert np.array_equal(run(torch, size, turned), run(ej, size, turned), equal_nan=True)


def test_antialiasing_has_a_program_for_many_sizes() -> None:
    def smaller(n: int, *size: int) -> None:
        image = ej.rand(1, 3, n, n + 1, requires_grad=True)
        ej.nn.functional.interpolate(image, size=size, mode="bicubic", antialias=True).sum().backward()

    def programs() -> list[int]:
        ops = (smooth_line, unsmooth_line, *smooth_line.gradients.values())
        return [sum(len(p) for p in op.programs.values()) for op in ops]

    smaller(280, 15, 15), smaller(40, 15, 15)
    before = programs()
    smaller(281, 15, 15), smaller(290, 16, 15), smaller(41, 15, 15), smaller(42, 16, 17)
    assert programs() == before


F: dict[str, Callable[[Any, Any], Any]] = {
    "bytes": lambda f, x: f.interpolate((x * 9 + 9).byte(), size=3),
    "no images": lambda f, x: f.interpolate(x[:0], size=3, mode="bilinear"),
    "no size": lambda f, x: f.interpolate(x),
    "two sizes": lambda f, x: f.interpolate(x, size=3, scale_factor=2),
    "many sizes": lambda f, x: f.interpolate(x, size=(3, 3, 3)),
    "many scales": lambda f, x: f.interpolate(x, scale_factor=(3, 3, 3)),
    "mode": lambda f, x: f.interpolate(x, size=3, mode="foo"),
    "dimensions of the mode": lambda f, x: f.interpolate(x, size=3, mode="linear"),
    "dimensions": lambda f, x: f.interpolate(x[0, 0], size=3),
    "nearest corners": lambda f, x: f.interpolate(x, size=3, align_corners=True),
    "empty": lambda f, x: f.interpolate(x, size=0),
    "recomputed size": lambda f, x: f.interpolate(x, size=3, recompute_scale_factor=True),
    "antialias of nearest": lambda f, x: f.interpolate(x, size=3, antialias=True),
    "pixel_shuffle": lambda f, x: f.pixel_shuffle(x, 2),
    "pixel_shuffle of one": lambda f, x: f.pixel_shuffle(x[0], 2),
    "pixel_shuffle by 3": lambda f, x: f.pixel_shuffle(x, 3),
    "pixel_shuffle of a matrix": lambda f, x: f.pixel_shuffle(x[0, 0], 2),
    "pixel_shuffle by 0": lambda f, x: f.pixel_shuffle(x, 0),
    "pixel_unshuffle": lambda f, x: f.pixel_unshuffle(x[:, :, :4], 2),
    "pixel_unshuffle by 4": lambda f, x: f.pixel_unshuffle(x, 4),
    "channel_shuffle": lambda f, x: f.channel_shuffle(x, 2),
    "channel_shuffle by 3": lambda f, x: f.channel_shuffle(x, 3),
    "channel_shuffle by 0": lambda f, x: f.channel_shuffle(x, 0),
    "channel_shuffle of a matrix": lambda f, x: f.channel_shuffle(x[0, 0], 2),
}


@pytest.mark.parametrize("name", F)
def test_functions(name: str) -> None:
    compare(lambda t, x: F[name](t.nn.functional, x), draw((2, 4, 5, 6), "float64", -1, 1, 3))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, border: str, align: bool) -> None:
    shapes = [((2, 3, 5, 6), (2, 4, 3, 2))]
    if align or mode == "bicubic":
        shapes.append(((2, 2, 3, 4, 5), (2, 2, 3, 4, 3)))
    for image, grid in shapes:
        arrays = draw(image, "float64", -1, 1, 3), draw(grid, "float64", -1.6, 1.6, 4)
        compare(lambda t, x, g: t.nn.functional.grid_sample(x, g, mode, border, align), *arrays)


GRIDS: dict[str, tuple[tuple[int, ...], Callable[[Any, Any, Any], Any]]] = {
    "batch": ((1, 3, 3, 2), lambda f, x, g: f.grid_sample(x, g, align_corners=True)),
    "coordinates": ((2, 3, 3, 3), lambda f, x, g: f.grid_sample(x, g, align_corners=True)),
    "dimensions": ((2, 3, 3, 3, 3), lambda f, x, g: f.grid_sample(x, g, align_corners=True)),
    "mode": ((2, 3, 3, 2), lambda f, x, g: f.grid_sample(x, g, "foo")),
    "border": ((2, 3, 3, 2), lambda f, x, g: f.grid_sample(x, g, "nearest", "foo")),
    "maps": ((2, 2, 3), lambda f, x, g: f.affine_grid(g, (2, 1, 4, 3), True)),
    "unaligned maps": ((2, 2, 3), lambda f, x, g: f.affine_grid(g, (2, 1, 4, 3), False)),
    "maps of space": ((2, 3, 4), lambda f, x, g: f.affine_grid(g, (2, 1, 4, 3, 1), False)),
    "no maps": ((2, 2, 2), lambda f, x, g: f.affine_grid(g, (2, 1, 4, 3), True)),
    "integer maps": ((2, 2, 3), lambda f, x, g: f.affine_grid(g.long(), (2, 1, 4, 3), True)),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids(name: str) -> None:
    shape, function = GRIDS[name]
    arrays = draw((2, 4, 5, 6), "float64", -1, 1, 3), draw(shape, "float64", -1, 1, 4)
    compare(lambda t, x, g: function(t.nn.functional, x, g), *arrays)


LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Upsample": (lambda n: n.Upsample(scale_factor=2), (2, 3, 4, 5)),
    "Upsample to a size": (lambda n: n.Upsample(size=(3, 7), mode="bilinear"), (2, 3, 4, 5)),
    "UpsamplingNearest2d": (lambda n: n.UpsamplingNearest2d(scale_factor=2), (2, 3, 4, 5)),
    "UpsamplingBilinear2d": (lambda n: n.UpsamplingBilinear2d(size=6), (2, 3, 4, 5)),
    "PixelShuffle": (lambda n: n.PixelShuffle(2), (2, 4, 4, 5)),
    "PixelUnshuffle": (lambda n: n.PixelUnshuffle(2), (2, 3, 4, 6)),
    "ChannelShuffle": (lambda n: n.ChannelShuffle(2), (2, 4, 4, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    check_layer(*LAYERS[name])


def test_batch_sizes_share_one_version() -> None:
    def larger(x: Any) -> Any:
        return ej.nn.functional.interpolate(ej.pixel_shuffle(x, 2), scale_factor=2, mode="bilinear")

    jitted = ej.jit(larger)
    for images in (2, 3, 9):
        x = ej.tensor(draw((images, 4, 5, 6), "float32", -1, 1, images))
        assert (jitted(x) == larger(x)).all()
    assert jitted.cache_info().compiles == 1


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["border", "reflection", "zeros"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_gradients_of_places_at_the_border(mode, padding, align):
    image = np.arange(12, dtype=np.float64).reshape(1, 1, 3, 4) ** 2
    places = [[-1.0, -1.0], [1.0, 1.0], [1.0, 0.25], [-0.4, 1.0], [0.25, 0.3], [-2.25, 1.75]]

    def sampled(t, x, grid):
        return t.nn.functional.grid_sample(x, grid, mode, padding, align)

    compare(sampled, image, np.array([[places]]))
