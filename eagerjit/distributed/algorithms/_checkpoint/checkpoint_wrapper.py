"""Modules around others, whose inner results are computed again, or kept on the CPU, for the gradient.

The names of parameters and of what is saved are those of the Module inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from eagerjit.autograd.graph import save_on_cpu
from eagerjit.nn.module import Module
from eagerjit.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """How a part runs again: with or without a backward pass inside of the backward pass."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _rename(state_dict: dict[str, Any], old: str, new: str) -> None:
    """Let names that start with one prefix start with another."""
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key[len(old) :]] = state_dict.pop(key)


def _as_inside(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    _rename(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)


def _as_outside(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    _rename(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


class ActivationWrapper(Module):
    """A Module around another one, whose attributes, items and names are this one's too."""

    def __init__(self, mod: Module):
        super().__init__()
        self._checkpoint_wrapped_module: Any = mod
        self._register_state_dict_hook(_as_inside)
        self.register_load_state_dict_pre_hook(_as_outside)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The parameters by their names in the Module inside."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """A Module that keeps on the CPU what its gradient needs."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the Module inside gives."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A Module that keeps its inputs alone, and runs again for its gradient."""

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT, checkpoint_fn: Any = None,
        **checkpoint_fn_kwargs: Any,
    ):  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        again = checkpoint_fn or partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(again, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the Module inside gives."""
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        count, names = len(args), tuple(kwargs)

        def positional(*given: Any) -> Any:
            named = dict(zip(names, given[count:], strict=True))
            return self._checkpoint_wrapped_module(*given[:count], **named)

        return self.checkpoint_fn(positional, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """The Module inside of one that keeps on the CPU what its gradient needs."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT, checkpoint_fn: Any = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:  # fmt: skip
    """The Module inside of one that runs it again for its gradient.

    checkpoint_fn               what is called instead of `torch.utils.checkpoint.checkpoint`
    checkpoint_fn_kwargs        options of either
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True, auto_wrap_policy: Any = None,
) -> None:  # fmt: skip
    """Put each part for which `check_fn(part)` holds inside of another one, in place; not the model as a whole.

    A policy, `policy(module=, recurse=, nonwrapped_numel=)`, says as well whether to look into a part. Raises
    ValueError for one that is no function.
    """

    def chosen(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return recurse or check_fn(module)

    policy = chosen if auto_wrap_policy is None else auto_wrap_policy
    if not callable(policy):
        raise ValueError(f"Expected {policy} to be callable or be a pre-defined wrap policy")
    _wrapped(model, policy, checkpoint_wrapper_fn, False)


def _wrapped(
    module: Module, policy: Callable[..., bool], wrapper: Callable[[Module], Module], is_part: bool = True
) -> tuple[Module, int]:
    """A Module with its parts wrapped, itself wrapped or not; and how many numbers lie in what is."""
    if isinstance(wrapper, type) and any(isinstance(part, wrapper) for part in module.modules()):
        raise AssertionError(f"Child module {module} is already wrapped by {wrapper}")
    whole, inside = sum(p.numel() for p in module.parameters()), 0
    if not policy(module=module, recurse=True, nonwrapped_numel=whole):
        return module, 0
    for name, child in module.named_children():
        part, count = _wrapped(child, policy, wrapper)
        setattr(module, name, part)
        inside += count
    if is_part and policy(module=module, recurse=False, nonwrapped_numel=whole - inside):
        return wrapper(module), whole
    return module, inside
