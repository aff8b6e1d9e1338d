"""Elements of a tensor by an index along one of its dimensions."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import indexing
from eagerjit.ops import views
from eagerjit.ops.index import check_index
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes, mode
from eagerjit.tensors.tensor import Tensor


def _gather(input: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """Elements of input at `index` along dim: result[i][j] is input[index[i][j]][j] for dim 0.

    The result has index's shape, whose sizes but that along `dim` are at most input's. Raises RuntimeError for indices
    out of range, negative ones among them, and for another number of dimensions or dtype than int64 and int32.
    """
    check_index("gather", index, any_empty=True)
    d = views.dimension(dim, input.ndim)
    if input.ndim == 0 or index.ndim == 0:
        return _gather(input.reshape(-1), 0, index.reshape(-1)).view(index.shape)
    if index.ndim != input.ndim and index.numel() == 0:
        return input.new_zeros(index.shape)
    return emit(indexing.gather, input, as_dtype(index, dtypes.int64), dim=d)


class GatherOp(Op):
    """`gather`, where the gradient of an input that no operation has made may be sparse on request."""

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Compute or record. Native code knows of no sparse gradients: it gets no call that asks for one."""
        input, dim, index, sparse_grad = arguments
        if sparse_grad and input._requires_grad and input._node is None and mode.grad_mode():
            from eagerjit.sparse.lookups import gathered

            return gathered(self, input, dim, index)
        return super().run((input, dim, index, False))


gather = GatherOp(
    "gather",
    _gather,
    (
        lambda g, out, input, dim, index, sparse_grad: g.new_zeros(input.shape).scatter_add(dim, index, g),
        None,
        None,
        None,
    ),
)
