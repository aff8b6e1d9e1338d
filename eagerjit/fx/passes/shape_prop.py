"""`torch.fx.passes.shape_prop`: the shapes and dtypes of a graph's values, noted while it runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from eagerjit.fx.interpreter import Interpreter
from eagerjit.fx.node import Node, map_aggregate
from eagerjit.tensors.tensor import Tensor

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _described(tensor: Tensor) -> TensorMetadata:
    from eagerjit import channels_last, contiguous_format

    formats = [contiguous_format, *([channels_last] if tensor.ndim == 4 else [])]
    form = next((f for f in formats if tensor.is_contiguous(memory_format=f)), None)
    return TensorMetadata(tensor.shape, tensor.dtype, tensor.requires_grad, tensor.stride(), form, False, {})


class ShapeProp(Interpreter):
    """Runs a GraphModule, and notes of each node `meta["tensor_meta"]`, for its tensors, and `meta["type"]`."""

    def run_node(self, n: Node) -> Any:
        """The value of a node. Raises RuntimeError, which names the node, where it cannot be computed."""
        try:
            result = super().run_node(n)
        except Exception as error:  # whatever the user's functions raise
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = False

        def note(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _described(value)

        described = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """The graph's result for these arguments."""
        return super().run(*args)
