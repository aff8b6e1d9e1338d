"""States of Modules by their parameters' names (`torch.distributed.checkpoint.state_dict`), where none is divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from eagerjit.nn.distributed import DistributedDataParallel
from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "StateDictOptions", "get_model_state_dict",
    "set_model_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """What states hold, and how they are loaded."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _prefix(model: Module) -> str:
    return "module." if isinstance(model, DistributedDataParallel) else ""


def _check(name: str, state: dict[str, Any], options: StateDictOptions) -> None:
    """RuntimeError for a state of nothing, unless the options say that there may be nothing in this process."""
    may_be_empty = options.ignore_frozen_params or (options.cpu_offload and options.full_state_dict)
    if not state and options.strict and not may_be_empty:
        raise RuntimeError(f"{name}: the state of the model is empty")


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a Module, named as without DistributedDataParallel. Raises RuntimeError where there is none."""
    if submodules:
        raise NotImplementedError("get_model_state_dict: eagerjit gives states of whole Modules; submodules was given")
    options = options or StateDictOptions()
    frozen = {name for name, p in model.named_parameters() if options.ignore_frozen_params and not p.requires_grad}
    found = {name.removeprefix(_prefix(model)): v for name, v in model.state_dict().items() if name not in frozen}
    _check("get_model_state_dict", found, options)
    if not options.cpu_offload:
        return found
    return {name: value.cpu() if isinstance(value, Tensor) else value for name, value in found.items()}


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load what `get_model_state_dict` gave; returns the names that were missing and those that were unexpected.

    With `full_state_dict` what is missing stays as it is, and parameters on `meta` are replaced by what is given.
    Raises RuntimeError where nothing is given.
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        raise NotImplementedError("set_model_state_dict: eagerjit loads in every process what it is given there")
    _check("set_model_state_dict", model_state_dict, options)
    if not model_state_dict:
        return model.load_state_dict(model.state_dict())
    given = {_prefix(model) + name: value for name, value in model_state_dict.items()}
    if not options.full_state_dict:
        return model.load_state_dict(given, strict=options.strict)
    own = model.state_dict()
    imagined = any(isinstance(value, Tensor) and value.is_meta for value in own.values())
    return model.load_state_dict({**own, **given}, strict=options.strict, assign=imagined)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: several processes write no file together."""
    raise NotImplementedError("eagerjit writes no checkpoints of several processes; torch.save writes one's")


class HuggingFaceStorageReader:
    """Files of tensors that several processes read together. Raises NotImplementedError where one is made."""

    __init__ = _refuse


class HuggingFaceStorageWriter:
    """Files of tensors that several processes write together. Raises NotImplementedError where one is made."""

    __init__ = _refuse
