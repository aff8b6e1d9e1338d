"""Nested tensors made of lists of tensors, of rows and where components begin, and of parts of dense tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.nested.components import blocks_of, jagged_of
from eagerjit.nested.rows import rows_of
from eagerjit.nested.tensor import Jagged, NestedTensor, made
from eagerjit.ops import views
from eagerjit.ops.index import cat
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import as_tensor
from eagerjit.tensors.making import jagged, layout, strided
from eagerjit.tensors.tensor import Tensor


def _of_components(name: str, components: Sequence[Tensor], wanted: layout | None) -> Any:
    """A nested tensor of a layout. Raises RuntimeError where the components do not fit together."""
    if wanted not in (None, strided, jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {wanted}")
    if wanted is jagged and not components:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for what in ("ndim", "dtype", "device"):
        if len({getattr(part, what) for part in components}) > 1:
            called = "dim" if what == "ndim" else what
            raise RuntimeError(
                f"When constructing a nested tensor, all tensors in list must have the same {called}, but {name}() was "
                f"given {', '.join(f'{part.dtype} {list(part.shape)}' for part in components)}"
            )
    if wanted is not jagged:
        return blocks_of(components)
    return jagged_of(components, _ragged_dimension(components))


def _ragged_dimension(components: Sequence[Tensor]) -> int:
    """The dimension of the whole along which components differ; the first after that of the components if none."""
    if components[0].ndim == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    differing = [d for d in range(components[0].ndim) if len({part.shape[d] for part in components}) > 1]
    if len(differing) > 1:
        shapes = ", ".join(str(list(part.shape)) for part in components)
        raise RuntimeError(
            "The jagged layout of nested tensors takes tensors that differ in size along one dimension alone, not "
            f"{shapes}"
        )
    return differing[0] + 1 if differing else 1


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor with a copy of the components: tensors, or what `torch.tensor` takes.

    layout      `strided` (components may differ along every dimension) or `jagged` (along one)

    Raises RuntimeError where components differ in dtype, device or number of dimensions.
    """
    parts = [as_tensor(part, dtype=dtype, device=device).detach() for part in tensor_list]
    found = _of_components("nested_tensor", parts, layout)
    if len(parts) == 1:
        found = found.clone()
    if pin_memory:
        found = found.with_values(found._entries.pin_memory())
    return found.requires_grad_(requires_grad)  # type: ignore[no-any-return]


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of components, with their gradients: a list of tensors, or a dense one's slices.

    A nested tensor is given back, in another dtype and on another device where that is said.
    """
    if isinstance(ts, NestedTensor):
        if layout not in (None, ts.layout):
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(device=device, dtype=dtype)
    if isinstance(ts, Tensor) and ts.ndim < 1:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 0")
    if not isinstance(ts, (Tensor, list, tuple)):
        raise TypeError(f"as_nested_tensor(): a list of tensors or a tensor, not {type(ts).__name__}")
    parts = [as_tensor(part, dtype=dtype, device=device) for part in ts]
    return _of_components("as_nested_tensor", parts, layout)  # type: ignore[no-any-return]


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None, jagged_dim: int | None = None,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> Tensor:
    """A nested tensor of layout `jagged` over `values`, a view of them.

    offsets     where components begin among the rows, and where the last one ends: (components + 1,)
    lengths     how many rows they have; with `offsets` too, rows after these are no component's
    jagged_dim  which dimension of the result differs between components: 1 if not given

    The fewest and most rows need not be told: they are read where they are needed. Raises RuntimeError without
    `offsets` and `lengths`.
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = cat.call([lengths.new_zeros(1), lengths.cumsum(0)]), None
    for name, part in (("offsets", offsets), ("lengths", lengths)):
        if part is not None and (part.ndim != 1 or part.dtype not in (dtypes.int64, dtypes.int32)):
            kind = f"a {part.dtype} tensor of {part.ndim} dimensions"
            raise RuntimeError(f"nested_tensor_from_jagged(): {name} are one-dimensional integers, not {kind}")
    dim = 1 if jagged_dim is None else views.dimension(jagged_dim, values.ndim + 1)
    if dim == 0:
        raise RuntimeError("nested_tensor_from_jagged(): components differ along another dimension than the first")
    return made(Jagged(rows_of(offsets, lengths), dim), views.alias(values))  # type: ignore[no-any-return]


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided) -> Tensor:
    """A nested tensor of a part of each of a dense tensor's slices, from `start[i]`, `length[i]` long.

    Of layout `jagged` it is a view, and `start` and `length` may be tensors or integers; `dim` is 1. Of layout
    `strided` both are integers.
    """
    if layout is strided:
        if not (isinstance(start, int) and isinstance(length, int)):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return blocks_of([part.narrow(dim - 1, start, length) for part in tensor.unbind()])  # type: ignore[no-any-return]
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if views.dimension(dim, tensor.ndim) != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    from eagerjit.tensors.creation import arange

    count, width = tensor.shape[:2]
    begins, lengths = (
        one if isinstance(one, Tensor) else tensor.new_full((count,), one, dtype=dtypes.int64)
        for one in (start, length)
    )
    firsts = arange(count, device=tensor.device) * width + begins
    offsets = cat.call([firsts, (firsts[-1] + lengths[-1]).unsqueeze(0)])
    return made(Jagged(rows_of(offsets, lengths), 1), tensor.flatten(0, 1))  # type: ignore[no-any-return]


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """A nested tensor of layout `jagged` of the elements where `mask` is true.

    A component has those of a line along the last dimension; the mask may have to be expanded to the tensor's sizes.
    """
    for name, part in (("tensor", tensor), ("mask", mask)):
        if part.layout is not strided:
            raise RuntimeError(f"torch.nested.masked_select requires a strided {name}, given {part.layout}")
    mask = mask.expand(tensor.shape)
    lengths = mask.sum(-1).reshape(-1)
    offsets = cat.call([lengths.new_zeros(1), lengths.cumsum(0)])
    return made(Jagged(rows_of(offsets), 1), tensor.masked_select(mask))  # type: ignore[no-any-return]
