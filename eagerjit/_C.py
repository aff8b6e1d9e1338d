"""The few names of PyTorch's compiled core that programs in Python ask for."""

from __future__ import annotations

import sys
from typing import Any


def _log_api_usage_once(*event: Any) -> None:
    """Nothing: no usage is logged."""


_log_api_usage_metadata = _log_api_usage_once


def _are_functorch_transforms_active() -> bool:
    """Whether a function transform runs in this thread."""
    from eagerjit.func.inner import InnerTracer
    from eagerjit.state import state

    return isinstance(state.tracer, InnerTracer)


def _get_tracing_state() -> None:
    """None: `torch.jit.trace` gives functions back as they are."""


def _is_torch_function_enabled() -> bool:
    """True: classes with `__torch_function__` are asked."""
    return True


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The plain call: what a class without a `__torch_function__` of its own has."""
    return func(*args, **(kwargs or {}))


class _functorch:
    """Names of function transforms."""

    @staticmethod
    def is_batchedtensor(tensor: Any) -> bool:
        """False: transforms record functions, and no tensor stands for a batch."""
        return False

    is_legacy_batchedtensor = is_gradtrackingtensor = is_functorch_wrapped_tensor = is_batchedtensor


sys.modules[f"{__name__}._functorch"] = _functorch  # type: ignore[assignment]  # imported as a module
