"""Functions that join, split and rearrange."""

from __future__ import annotations

from eagerjit.array_api.axes import axes_of, axis_of
from eagerjit.array_api.operands import check_array, common
from eagerjit.ops import composite, index, pieces, shaping, views
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat",
    "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The tensors in the shape that they broadcast to together."""
    return list(shaping.broadcast_tensors([check_array("broadcast_arrays", x) for x in arrays]))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The tensor broadcast to a shape. Raises RuntimeError if it does not fit, ValueError for a negative size."""
    check_array("broadcast_to", x)
    if any([size < 0 for size in shape]):
        raise ValueError(f"broadcast_to(): {shape} has a negative size")
    return views.expand(x, tuple(shape))


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors joined along an axis, or flattened and joined if it is None.

    Raises ValueError unless there are some and all have the same number of dimensions.
    """
    if not arrays:
        raise ValueError("concat(): expected at least one Tensor")
    parts = list(common("concat", *[check_array("concat", x) for x in arrays]))
    if axis is None:
        return index.cat.call([x.reshape(-1) for x in parts], 0)
    if any([x.ndim != parts[0].ndim for x in parts]):
        raise ValueError(f"concat(): the numbers of dimensions differ: {[x.ndim for x in parts]}")
    return index.cat.call(parts, axis_of("concat", parts[0], axis))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """The tensor with a new axis of size 1 at a place. Raises IndexError if there is no such place."""
    return views.unsqueeze(check_array("expand_dims", x), axis)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements in reverse order along axes, all of them if None."""
    return composite.flip(x, axes_of("flip", x, axis))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Axes moved to other places, the rest in order. Raises ValueError unless there are as many places as axes."""
    sources, places = axes_of("moveaxis", x, source), axes_of("moveaxis", x, destination)
    if len(sources) != len(places):
        raise ValueError(f"moveaxis(): {len(sources)} axes can't move to {len(places)} places")
    return shaping.movedim(x, sources, places)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Axes in another order. Raises ValueError unless all are named once."""
    order = axes_of("permute_dims", x, axes)
    if len(order) != x.ndim:
        raise ValueError(f"permute_dims(): {axes} is no order of {x.ndim} axes")
    return views.permute(x, order)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Every element some times in a row along an axis, or of the tensor flattened.

    A tensor of `repeats` has one number or one per element. Raises ValueError for a negative number or another count.
    """
    d = 0 if axis is None else axis_of("repeat", x, axis)
    rows = check_array("repeat", x).reshape(-1) if axis is None else x
    if isinstance(repeats, Tensor):
        if repeats.dtype.kind not in ("int", "uint"):
            raise TypeError(f"repeat(): repeats must be integers, not {repeats.dtype}")
        if repeats.ndim > 1 or (repeats.ndim == 1 and repeats.shape[0] not in (1, rows.shape[d])):
            raise ValueError(
                f"repeat(): {tuple(repeats.shape)} numbers of repeats do not fit an axis of size {rows.shape[d]}"
            )
        # The one number may be negative, which only the counts of a whole axis are checked for.
        repeats = repeats.long().expand((rows.shape[d],))
    elif repeats < 0:
        raise ValueError(f"repeat(): an element can't be repeated {repeats} times")
    return composite.repeat_interleave(rows, repeats, d)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape, one of whose sizes may be -1: what the others leave.

    A view where possible unless `copy`. Raises ValueError if `copy` is False and only a copy can have the shape.
    """
    target = views.resolve(views.shape_argument((shape,)), tuple(check_array("reshape", x).shape))
    if copy is None:
        return views.reshape(x, target)
    if copy:
        return views.reshape(x, target).clone()
    try:
        return views.view(x, target)
    except RuntimeError:
        raise ValueError(f"reshape(): {tuple(x.shape)} can't become {target} without a copy") from None


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements moved towards larger indices along axes, those pushed out coming in again; or of all flattened.

    One shift serves all axes. Raises ValueError unless several shifts are as many as axes.
    """
    if axis is None:
        if isinstance(shift, (tuple, list)):
            raise ValueError("roll(): several shifts need as many axes")
        return composite.roll(check_array("roll", x).reshape(-1), shift, 0).reshape(tuple(x.shape))
    axes = tuple([axis_of("roll", x, a) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))])
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"roll(): {len(shifts)} shifts for {len(axes)} axes")
    return composite.roll(x, shifts, axes)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """The tensor without axes of size 1. Raises ValueError if one of them has another size."""
    axes = axes_of("squeeze", x, axis)
    if any([x.shape[a] != 1 for a in axes]):
        raise ValueError(f"squeeze(): axis {axis} of shape {tuple(x.shape)} is not all of size 1")
    return views.squeeze(x, axes)


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    if not arrays:
        raise ValueError("stack(): expected at least one Tensor")
    return index.stack(common("stack", *[check_array("stack", x) for x in arrays]), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Copies of the tensor side by side, so many along each of the last axes. Raises ValueError for negative ones."""
    if any([count < 0 for count in repetitions]):
        raise ValueError(f"tile(): {repetitions} has a negative number of copies")
    return composite.tile(check_array("tile", x), tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return pieces.unbind(x, axis_of("unstack", x, axis))
