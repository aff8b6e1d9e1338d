"""Differences of neighbours along dimensions, and the integrals and derivatives estimated from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops import index, views
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor


@public
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along a dimension, n times."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [x for x in (prepend, input, append) if x is not None]
    out = index.cat.call(parts, dim) if len(parts) > 1 else input
    if n == 0:
        return input.clone()
    d = views.dimension(dim, out.ndim)
    for _ in range(n):
        size = out.shape[d]
        if size == 0:
            break
        later, earlier = views.slice_dim(out, d, 1, size), views.slice_dim(out, d, 0, size - 1)
        out = later.logical_xor(earlier) if out.dtype is dtypes.bool_ else later - earlier
    return out


def _strips(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> tuple[Tensor, int]:
    """The areas of the strips between neighbours, and along which dimension they lie."""
    if y.ndim == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if x is not None and dtypes.bool_ in (y.dtype, getattr(x, "dtype", None)):
        raise RuntimeError("trapezoid: received a bool input for `x` or `y`, but bool is not supported")
    d = views.dimension(dim, y.ndim)
    size = y.shape[d]
    sums = views.slice_dim(y, d, 1 if size else 0, size) + views.slice_dim(y, d, 0, size - 1 if size else 0)
    if x is None:
        return sums * dx / 2.0, d
    if not isinstance(x, Tensor):
        raise TypeError(f"trapezoid(): argument 'x' must be Tensor, not {type(x).__name__}")
    if x.ndim == 0:
        raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
    if x.ndim == 1:
        if x.shape[0] != size:
            raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
        x = x.reshape([-1 if i == d else 1 for i in range(y.ndim)])
    along = d if x.ndim == y.ndim else views.dimension(dim, x.ndim)
    return sums * diff(x, 1, along) / 2.0, d


def _trapezoid(y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    areas, d = _strips(y, x, dx, dim)
    return areas.sum(d)


def _cumulative_trapezoid(y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    areas, d = _strips(y, x, dx, dim)
    return areas.cumsum(d)


_integral = Op("trapezoid", _trapezoid, None, ("dx",))
_integrals = Op("cumulative_trapezoid", _cumulative_trapezoid, None, ("dx",))


@public
def trapezoid(y: Tensor, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule, over places x or steps dx."""
    return _integral.call(y, x, dx, dim)


trapz = trapezoid


@public
def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral up to each place along a dimension by the trapezoidal rule."""
    return _integrals.call(y, x, dx, dim)


def _per_step(input: Tensor, step: Any) -> Tensor:
    """input over a number, which is no value that a gradient saves: it may be walked backward again."""
    return input / step


_per_step_op = Op(
    "per_step", _per_step, (lambda g, out, input, step: _per_step_op.call(g, step), None), numbers=("step",)
)


@public
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimated derivatives along dimensions: second order inside, first or second at the edges."""
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [views.dimension(d, input.ndim) for d in dims]
    if repeated := [d for d in dims if dims.count(d) > 1]:
        raise RuntimeError(f"dim {repeated[0]} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length {len(dims)} but got a "
            f"list of length {len(spacings)}"
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    x = input if input.dtype.is_floating_point or input.dtype.is_complex else input.float()
    return tuple(_slope(x, d, s, edge_order) for d, s in zip(dims, spacings, strict=True))


def _slope(x: Tensor, d: int, spacing: Any, edge_order: int) -> Tensor:
    """The derivative along a dimension; weights from the distances to the left and right neighbours."""
    n = x.shape[d]
    shape = [-1 if i == d else 1 for i in range(x.ndim)]

    def at(first: int, last: int) -> Tensor:
        return views.slice_dim(x, d, first, last)

    if not isinstance(spacing, Tensor) or spacing.ndim != 1:
        return _slope_of_equal_steps(at, n, spacing, edge_order, d)
    count = spacing.shape[0]
    if count != n and count != 3:  # of three the two steps are those of all places, as in PyTorch
        raise RuntimeError(f"torch.gradient expected {n} coordinates for dimension {d}, but got {count}")
    steps = diff(spacing).reshape(shape)
    left, right = views.slice_dim(steps, d, 0, count - 2), views.slice_dim(steps, d, 1, count - 1)
    inside = (
        -right / (left * (left + right)) * at(0, n - 2)
        + (right - left) / (left * right) * at(1, n - 1)
        + left / (right * (left + right)) * at(2, n)
    )
    a, b = views.slice_dim(steps, d, 0, 1), views.slice_dim(steps, d, count - 2, count - 1)
    if edge_order == 1:
        start, end = (at(1, 2) - at(0, 1)) / a, (at(n - 1, n) - at(n - 2, n - 1)) / b
    else:
        c, e = views.slice_dim(steps, d, 1, 2), views.slice_dim(steps, d, count - 3, count - 2)
        start = -(2.0 * a + c) / (a * (a + c)) * at(0, 1) + (a + c) / (a * c) * at(1, 2) - a / (c * (a + c)) * at(2, 3)
        end = (
            b / (e * (e + b)) * at(n - 3, n - 2)
            - (b + e) / (e * b) * at(n - 2, n - 1)
            + (2.0 * b + e) / (b * (e + b)) * at(n - 1, n)
        )
    return index.cat.call([start, inside, end], d)


def _slope_of_equal_steps(at: Callable[[int, int], Tensor], n: int, step: Any, edge_order: int, d: int) -> Tensor:
    """The same where all steps are one number."""

    def quotient(difference: Tensor, steps: int) -> Tensor:
        return _per_step_op.call(difference, step * steps)

    def at_edge(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return second.add(second - third, alpha=1).add(second - first, alpha=2) - first

    inside = quotient(at(2, n) - at(0, n - 2), 2)
    if edge_order == 1:
        start, end = quotient(at(1, 2) - at(0, 1), 1), quotient(at(n - 1, n) - at(n - 2, n - 1), 1)
    else:
        start = quotient(at_edge(at(0, 1), at(1, 2), at(2, 3)), 2)
        end = -quotient(at_edge(at(n - 1, n), at(n - 2, n - 1), at(n - 3, n - 2)), 2)
    return index.cat.call([start, inside, end], d)
