"""What programs say of the work that checkpoints keep or do again; it changes no result.

eagerjit keeps a checkpoint's inputs alone when it runs eagerly, and in a compiled function what is dear.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any


class CheckpointPolicy(enum.Enum):
    """What is to become of an operation's result."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the operation: whether it is done again."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None):
        self.is_recompute, self.op_output = is_recompute, op_output


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The two contexts of a checkpoint that keeps some results: here all are computed again, which gives the same.

    A policy is a function (context, operation, *arguments) -> CheckpointPolicy, which is not asked, or a list of
    operations whose results are to be kept. Raises TypeError for anything else.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not callable(op):
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.")
    elif not callable(policy_fn_or_list):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether a second run may end when all that gradients need is there: here it always runs to its end."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether mistakes come with the operations of both runs: messages here name lines in any case."""
    yield


class DefaultDeviceType:
    """The kind of device whose random numbers checkpoints keep where arguments do not tell."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose it."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """What was chosen."""
        return DefaultDeviceType._type
