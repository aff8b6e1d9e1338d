"""Parameters, buffers and other tensors of a Module, exchanged by name."""

from __future__ import annotations

from typing import Any

from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Tensor

_MISSING: Any = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor, or None, under a name and gives what lay there: the Module's, as no other Module's is asked.

    `_MISSING` takes away what there is, and stands for what there was not. Raises AttributeError for a name that there
    is not, unless `allow_missing`, TypeError for what is no tensor, and KeyError for names with a dot or none.
    """
    if not isinstance(module, Module):
        raise TypeError(f"swap_tensor: {module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"swap_tensor: {tensor} is not an instance of torch.Tensor")
    if not name or "." in name:
        raise KeyError(f'swap_tensor: the name of a tensor can\'t be empty or contain ".": {name!r}')
    for held in (module._parameters, module._buffers):
        if name in held:
            before = held[name]
            if tensor is _MISSING:
                del held[name]
            else:
                held[name] = tensor
            return before
    return _swap_attribute(module, name, tensor, allow_missing)


def _swap_attribute(module: Module, name: str, tensor: Any, allow_missing: bool) -> Any:
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"swap_tensor: attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before
