"""Names of `torch._dynamo._trace_wrapped_higher_order_op`."""

import contextlib


class TransformGetItemToIndex(contextlib.nullcontext):  # type: ignore[type-arg]
    """Nothing: under `vmap` tensors are indexed with tensors of one element as elsewhere."""
