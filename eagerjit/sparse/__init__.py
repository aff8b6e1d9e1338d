"""torch.sparse: products, sums and softmaxes of sparse tensors, the old names of their types."""

from __future__ import annotations

from typing import Any

from eagerjit.runtime import dtypes
from eagerjit.sparse.construction import INVARIANTS, sparse_coo_tensor, spdiags
from eagerjit.sparse.products import addmm, sampled_addmm
from eagerjit.sparse.reduced import mm
from eagerjit.sparse.reductions import log_softmax, softmax, sum
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip


class check_sparse_tensor_invariants:
    """Whether all sparse tensors are checked when they are made: `enable()`, `disable()`, or a `with` block."""

    def __init__(self, enable: bool = True):
        self.wanted, self.before = enable, [False]

    @staticmethod
    def is_enabled() -> bool:
        """Whether they are."""
        return INVARIANTS[0]

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        INVARIANTS[0] = True

    @staticmethod
    def disable() -> None:
        """Check no longer."""
        INVARIANTS[0] = False

    def __enter__(self) -> check_sparse_tensor_invariants:
        self.before.append(INVARIANTS[0])
        INVARIANTS[0] = self.wanted
        return self

    def __exit__(self, *details: Any) -> None:
        INVARIANTS[0] = self.before.pop()

    def __call__(self, function: Any) -> Any:
        """A function that runs in such a block."""
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.wanted):
                return function(*args, **kwargs)

        return wrapped


def _typed(name: str, dtype: Any) -> Any:
    def make(*arguments: Any, **options: Any) -> Any:
        if len(arguments) > 1 and isinstance(arguments[1], Tensor):
            if arguments[1].dtype is not dtype:
                raise TypeError(f"torch.sparse.{name}: values of {arguments[1].dtype}, expected {dtype}")
            return sparse_coo_tensor(*arguments, **options)
        sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)) else arguments
        return sparse_coo_tensor(tuple(sizes) or (0,), dtype=dtype, **options)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor of layout `sparse_coo` and {dtype}: of indices, values and sizes, or of sizes alone."
    return make


FloatTensor, DoubleTensor = _typed("FloatTensor", dtypes.float32), _typed("DoubleTensor", dtypes.float64)
HalfTensor, BFloat16Tensor = _typed("HalfTensor", dtypes.float16), _typed("BFloat16Tensor", dtypes.bfloat16)
LongTensor, IntTensor = _typed("LongTensor", dtypes.int64), _typed("IntTensor", dtypes.int32)
ShortTensor, CharTensor = _typed("ShortTensor", dtypes.int16), _typed("CharTensor", dtypes.int8)
ByteTensor, BoolTensor = _typed("ByteTensor", dtypes.uint8), _typed("BoolTensor", dtypes.bool_)
