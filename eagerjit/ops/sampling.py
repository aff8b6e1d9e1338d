"""Images sampled at the places of a grid, and grids from affine maps."""

from __future__ import annotations

from itertools import product
from typing import Any

from eagerjit.autograd.formal import Formal
from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import Op
from eagerjit.ops.activation import widened
from eagerjit.ops.index import stack
from eagerjit.ops.pointwise import as_dtype, wide
from eagerjit.ops.taps import CUBIC, along, far, near
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor


def _unnormalised(at: Tensor, n: Any, align: bool) -> Tensor:
    """From -1..1 to places along a dimension."""
    return (at + 1) * ((n - 1) / 2) if align else ((at + 1) * n - 1) / 2


def _reflected(at: Tensor, n: Any, align: bool) -> Tensor:
    """Places outside mirrored back at the border."""
    low, span = (0.0, n - 1) if align else (-0.5, n)
    if span == 0:
        return at * 0.0
    at = (at - low).abs()
    flips = (at / span).floor()
    extra = at - flips * span
    return extra.where(flips - (flips / 2).floor() * 2 == 0, span - extra) + low


def _sampled(x: Tensor, places: list[Tensor], zeros: bool) -> Tensor:
    """(batch, channels, places) of x at integer places per dimension, each (batch, 1, places); 0 outside if `zeros`."""
    inside: Any = None
    index: Any = None
    for at, n in zip(places, x.shape[2:], strict=True):
        here = (at >= 0).logical_and(at <= n - 1)
        inside = here if inside is None else inside.logical_and(here)
        clamped = at.where(here, 0.0).long().clamp(min=0, max=n - 1)
        index = clamped if index is None else index * n + clamped
    seen = x.flatten(2).gather(2, index.expand((x.shape[0], x.shape[1], index.shape[2])))
    return seen.where(inside, 0.0) if zeros else seen


def _grid_sample(input: Tensor, grid: Tensor, mode: str, padding_mode: str, align: bool) -> Tensor:
    """(batch, channels, ...) at the places of a grid; see `grid_sample`."""
    x, grid_ = widened(input, grid)
    sizes = x.shape[2:]
    rank = len(sizes)
    points = grid_.reshape((x.shape[0], -1, rank))
    at = []
    for axis, n in enumerate(sizes):
        place = _unnormalised(points.select(2, rank - 1 - axis).unsqueeze(1), n, align)
        if mode != "bicubic":
            place = _bounded(place, n, padding_mode, align)
        at.append(place)
    if mode == "nearest":
        out = _sampled(x, [p.round() for p in at], padding_mode == "zeros")
    else:
        taps = [(0, 1)] * rank if mode == "bilinear" else [(-1, 0, 1, 2)] * rank
        out = _mixed(x, at, taps, mode, padding_mode, align)
    return as_dtype(out.reshape((*x.shape[:2], *grid.shape[1:-1])), input.dtype)


def _bounded(place: Tensor, n: Any, padding_mode: str, align: bool) -> Tensor:
    if padding_mode == "zeros":
        return place
    place = _reflected(place, n, align) if padding_mode == "reflection" else place
    last = float(n - 1) if type(n) is int else n - 1
    bounded = place.clamp(min=0.0, max=last)
    # At the border itself there is no slope, as beyond it: of the neighbours one is none.
    return bounded.where((place > 0.0).logical_and(place < last), bounded.round())


def _mixed(x: Tensor, at: list[Tensor], taps: Any, mode: str, padding_mode: str, align: bool) -> Tensor:
    """The weighted sum over the neighbours of every place."""
    low = [p.floor() for p in at]
    fractions = [p - f for p, f in zip(at, low, strict=True)]
    weights = []
    for t in fractions:
        if mode == "bilinear":
            weights.append({0: 1 - t, 1: t})
        else:
            weights.append({-1: far(t + 1, CUBIC), 0: near(t, CUBIC), 1: near(1 - t, CUBIC), 2: far(2 - t, CUBIC)})
    out: Any = None
    for offsets in product(*taps):
        places = [f + o for f, o in zip(low, offsets, strict=True)]
        if mode == "bicubic":
            places = [_bounded(p, n, padding_mode, align) for p, n in zip(places, x.shape[2:], strict=True)]
        weight: Any = None
        for o, w in zip(offsets, weights, strict=True):
            weight = w[o] if weight is None else weight * w[o]
        # A neighbour beyond the border has the weight 0 there, unless zeros stand for it.
        part = _sampled(x, places, True) * weight
        out = part if out is None else out + part
    return out


grid_sample_op = Op("grid_sample", _grid_sample)
grid_sample_op.formal = Formal((0, 1), zeros=False, mode=(2, ("nearest",)))


@converting
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """input (batch, channels, [depth,] height, width) at the places of grid (batch, ..., 2 or 3), x first, in -1..1.

    `mode` is bilinear, nearest or bicubic, `padding_mode` says what lies outside: zeros, border or reflection.
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )

    def shapes() -> str:  # sizes are looked at for an error only
        return f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"

    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got {shapes()}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but got {shapes()}")
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension: {shapes()}")
    if input.dtype is not grid.dtype:
        raise RuntimeError(f"grid_sampler(): expected input and grid of one dtype, not {input.dtype} and {grid.dtype}")
    if mode == "bicubic" and input.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if any(n == 0 for n in input.shape[2:]):
        raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {shapes()}")
    return grid_sample_op.call(input, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The places that affine maps theta (batch, 2, 3) or (batch, 3, 4) send the points of an image of `size` to."""
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = tuple(size)
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got {size}."
        )
    if theta.ndim != 3 or theta.shape[1] != rank or theta.shape[2] != rank + 1:
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. Got "
            f"{tuple(theta.shape)}."
        )
    spatial = size[2:]
    computed = wide(theta.dtype)
    columns = []
    for axis in reversed(range(rank)):
        n = spatial[axis]
        each = arange(n, device=theta.device).to(computed)
        at = each * 0.0
        if n > 1:
            at = each * (2 / (n - 1)) - 1 if align_corners else (each * 2 + 1) / n - 1
        columns.append(along(at, axis, rank).expand(spatial))
    columns.append(columns[0] * 0.0 + 1.0)
    flat = stack(columns, -1).reshape((1, -1, rank + 1)).to(theta.dtype)
    return flat.expand((theta.shape[0], *flat.shape[1:])).matmul(theta.mT).reshape((size[0], *spatial, rank))
