"""What a sparse tensor consists of, as methods of all tensors: of dense ones they raise PyTorch's errors."""

from __future__ import annotations

from typing import Any

from eagerjit.ops import views
from eagerjit.sparse.pattern import Compressed, Coordinates, Pattern
from eagerjit.sparse.tensor import SparseTensor, wrong_layout
from eagerjit.tensors.making import sparse_coo, sparse_csc, sparse_csr
from eagerjit.tensors.tensor import Tensor


def pattern_in(name: str, tensor: Tensor) -> Pattern:
    """The pattern of a sparse tensor. Raises NotImplementedError for a dense one."""
    if isinstance(tensor, SparseTensor):
        return tensor._pattern
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: a {tensor.dtype} tensor of shape "
        f"{list(tensor.shape)} is not sparse"
    )


def coordinates_in(name: str, tensor: Tensor) -> Coordinates:
    """The pattern of a tensor of layout `sparse_coo`. Raises RuntimeError for any other."""
    if isinstance(tensor, SparseTensor) and isinstance(tensor._pattern, Coordinates):
        return tensor._pattern
    raise wrong_layout(name, "coordinate ", tensor)


def _coalesced_in(name: str, tensor: Tensor) -> Coordinates:
    pattern = coordinates_in(name, tensor)
    if not pattern.coalesced:
        raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
    return pattern


def _compressed_in(name: str, layout: Any, tensor: Tensor) -> Compressed:
    if isinstance(tensor, SparseTensor) and tensor._pattern.layout is layout:
        return tensor._pattern  # type: ignore[return-value]
    raise wrong_layout(name, "row compressed " if layout is sparse_csr else "column compressed ", tensor)


def indices(self: Tensor) -> Tensor:
    """The places of a coalesced tensor's values, (sparse dimensions, values)."""
    return views.detach(_coalesced_in("indices", self).indices)


def values(self: Tensor) -> Tensor:
    """The values, (values, *dense dimensions): a view with their gradients. Raises RuntimeError if not coalesced."""
    if not isinstance(self, SparseTensor):
        raise wrong_layout("values", "", self)
    if self._pattern.layout is sparse_coo:
        _coalesced_in("values", self)
    return views.alias(self._entries)


def _indices(self: Tensor) -> Tensor:
    """The places of all values, coalesced or not."""
    return coordinates_in("_indices", self).indices


def _values(self: Tensor) -> Tensor:
    """All values, coalesced or not, without gradients."""
    coordinates_in("_values", self)
    return views.detach(self._entries)  # type: ignore[attr-defined]


def _nnz(self: Tensor) -> int:
    """How many values are stored."""
    return pattern_in("_nnz", self).count


def crow_indices(self: Tensor) -> Tensor:
    """Where each row's values begin, in layout `sparse_csr`."""
    return views.detach(_compressed_in("crow_indices", sparse_csr, self).starts)


def col_indices(self: Tensor) -> Tensor:
    """The columns of the values, in layout `sparse_csr`."""
    return views.detach(_compressed_in("col_indices", sparse_csr, self).places)


def ccol_indices(self: Tensor) -> Tensor:
    """Where each column's values begin, in layout `sparse_csc`."""
    return views.detach(_compressed_in("ccol_indices", sparse_csc, self).starts)


def row_indices(self: Tensor) -> Tensor:
    """The rows of the values, in layout `sparse_csc`."""
    return views.detach(_compressed_in("row_indices", sparse_csc, self).places)


def is_coalesced(self: Tensor) -> bool:
    """Whether places are known to be in order, none of them twice."""
    return coordinates_in("is_coalesced", self).coalesced


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say whether places are in order, none of them twice."""
    pattern = coordinates_in("_coalesced_", self)
    self._pattern = Coordinates(pattern.indices, pattern.sizes, bool(coalesced))  # type: ignore[attr-defined]
    return self


def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse: 0 of a dense tensor."""
    return len(self._pattern.sizes) if isinstance(self, SparseTensor) else 0


def dense_dim(self: Tensor) -> int:
    """How many dimensions are dense."""
    return self._entries.ndim - 1 if isinstance(self, SparseTensor) else self.ndim


# -- what is said of all tensors --------------------------------------------------------------------------------------
def size(self: SparseTensor, dim: int | None = None) -> Any:
    """The sizes, or that of a dimension."""
    return self._sizes if dim is None else self._sizes[views.dimension(dim, len(self._sizes))]


def numel(self: SparseTensor) -> int:
    """The number of elements, zeros among them."""
    return self._sizes.numel()


def length(self: SparseTensor) -> int:
    """The first size."""
    if not self._sizes:
        raise TypeError("len() of a 0-d tensor")
    return int(self._sizes[0])


def stride(self: SparseTensor, dim: int | None = None) -> Any:
    """Zeros: there are no strides."""
    if self._pattern.layout is not sparse_coo:
        raise RuntimeError("Sparse CSR tensors do not have strides")
    return (0,) * len(self._sizes) if dim is None else 0


def type_(self: SparseTensor, dtype: Any = None, **options: Any) -> Any:
    """The name of the tensor's type, or the tensor in another dtype."""
    from eagerjit.sparse.conversion import to

    if dtype is not None:
        return to(self, dtype)
    name = self._entries.type()
    return name.replace("torch.", "torch.sparse.") if self._pattern.layout is sparse_coo else name


def item(self: SparseTensor) -> Any:
    """The one element. Raises RuntimeError if there are more."""
    if self._sizes.numel() != 1:
        raise RuntimeError(f"a Tensor with {self._sizes.numel()} elements cannot be converted to Scalar")
    return self._entries.sum().item()


def truth(self: SparseTensor) -> bool:
    """Whether the one element is not zero."""
    if self._sizes.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(self))


def nbytes(self: SparseTensor) -> int:
    """Refused, as in PyTorch."""
    raise RuntimeError(
        "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of "
        "the indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by "
        "element_size()"
    )


def without_memory(self: SparseTensor, *arguments: Any, **options: Any) -> Any:
    """Refused: there is no one memory."""
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def without_shapes(name: str) -> Any:
    """Refused: what there is of other shapes has other places."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError(f"{name} is not implemented for sparse tensors")

    return refuse


def no_array(self: SparseTensor, *arguments: Any, **options: Any) -> Any:
    """Refused: NumPy's arrays are dense."""
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


def get_device(self: SparseTensor) -> int:
    """The number of the tensor's device; -1 for the CPU."""
    return self._entries.get_device()


def iterated(self: SparseTensor) -> Any:
    """The slices along the first dimension."""
    from eagerjit.sparse.indexing import unbind

    return iter(unbind(self))


def kind_fact(name: str) -> Any:
    """A question to a property of the values."""
    return lambda self: getattr(self._entries, name)


def dtype_fact(name: str) -> Any:
    """A question that the dtype answers."""
    return lambda self: getattr(self._entries, name)()


HANDLERS: dict[str, Any] = {
    **{f.__name__: f for f in (
        indices, values, crow_indices, col_indices, ccol_indices, row_indices, is_coalesced, sparse_dim, dense_dim,
        size, numel, stride, item, nbytes, get_device,
    )},
    **{name: dtype_fact(name) for name in ("is_floating_point", "is_complex", "is_signed", "element_size")},
    **{name: kind_fact(name) for name in (
        "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_vulkan",
        "is_xla", "is_xpu", "device",
    )},
    **dict.fromkeys(("data_ptr", "tolist", "storage", "untyped_storage", "storage_offset"), without_memory),
    **{name: without_shapes("reshape") for name in ("reshape", "flatten", "ravel", "einsum", "inner")},
    **{name: without_shapes("expand") for name in ("expand", "expand_as", "repeat", "tile", "broadcast_to")},
    "contiguous": without_shapes("contiguous"),
    **dict.fromkeys(("numpy", "__array__"), no_array),
    **{name: lambda self, kind=kind: kind(item(self)) for name, kind in (
        ("__float__", float), ("__int__", int), ("__complex__", complex),
    )},
    "dim": lambda self: len(self._sizes), "ndimension": lambda self: len(self._sizes), "nelement": numel,
    "__len__": length, "__bool__": truth, "is_nonzero": truth, "__iter__": iterated, "type": type_,
    "is_contiguous": lambda self, **options: False, "is_pinned": lambda self, device=None: False,
    "is_inference": lambda self: False, "is_conj": lambda self: False, "is_neg": lambda self: False,
    "is_same_size": lambda input, other: tuple(input.shape) == tuple(other.shape),
    "is_shared": lambda self: self._entries.is_shared(), "_version": lambda self: self._entries._version,
    "retains_grad": lambda self: self._entries.retains_grad, "output_nr": lambda self: self._entries.output_nr,
    "name": lambda self: None, "_base": lambda self: None,
    "is_distributed": lambda input: False,
}  # fmt: skip
