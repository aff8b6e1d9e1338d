"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.tensors.tensor import Tensor


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other parameters and buffers, given by name in one dict or in several without common names.
    Other names are those of attributes that hold tensors, or that the module has during the call only.

    `tie_weights`: a parameter known under several names is replaced under all of them. `strict` raises RuntimeError
    unless exactly the module's names are given.
    """
    values = _merged(parameter_and_buffer_dicts)
    own = {**dict(_named(module, "_parameters")), **dict(_named(module, "_buffers"))}
    unexpected = [name for name in values if name not in own]
    missing = [name for name in own if name not in values]
    if strict and (unexpected or missing):
        raise RuntimeError(_differing(module, unexpected, missing))
    if tie_weights:
        _tie(values, own)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    for value in values.values():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    attributes = [(*_attribute(module, name), values.pop(name)) for name in unexpected]
    replaced = [(_table(module, name), value) for name, value in values.items()]
    before = [(table, key, table[key]) for (table, key), _ in replaced]
    try:
        for (table, key), value in replaced:
            table[key] = value
        for part, key, _, value in attributes:
            setattr(part, key, value)
        return module(*args, **(kwargs or {}))
    finally:
        for part, key, old, _ in attributes:
            if old is _ABSENT:
                delattr(part, key)
            else:
                setattr(part, key, old)
        for table, key, value in before:
            table[key] = value


_ABSENT = object()


def _differing(module: Any, unexpected: list[str], missing: list[str]) -> str:
    """The message about names that are not the module's."""
    lines = [f"Error(s) in reparametrizing for {type(module).__name__}:"]
    for what, names in (("Unexpected", unexpected), ("Missing", missing)):
        if names:
            lines.append(f"{what} key(s): {', '.join(map(repr, sorted(names)))}.")
    return "\n\t".join(lines)


def _attribute(module: Any, name: str) -> tuple[Any, str, Any]:
    """The part with an attribute, its name there, and the tensor it is; KeyError or TypeError for what can be none."""
    path, _, key = name.rpartition(".")
    if not key:
        raise KeyError('tensor name can\'t be empty string ""')
    part = module.get_submodule(path)
    old = getattr(part, key, _ABSENT)
    if old is not _ABSENT and old is not None and not isinstance(old, Tensor):
        raise TypeError(f"attribute `{key}`: {old} is not an instance of torch.Tensor")
    return part, key, old


def _merged(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dict(dicts)
    merged: dict[str, Tensor] = {}
    for d in dicts:
        repeated = merged.keys() & d.keys()
        if repeated:
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        merged.update(d)
    return merged


def _named(module: Any, table: str, prefix: str = "") -> list[tuple[str, Any]]:
    """All entries of a table with their full names, tied ones under each name."""
    found = [(prefix + name, value) for name, value in getattr(module, table).items()]
    for name, part in module._modules.items():
        if part is not None:
            found += _named(part, table, f"{prefix}{name}.")
    return found


def _tie(values: dict[str, Tensor], own: dict[str, Any]) -> None:
    """Give every other name of a replaced tensor the same value."""
    given = {id(own[name]): value for name, value in values.items() if own.get(name) is not None}
    for name, tensor in own.items():
        if name not in values and id(tensor) in given:
            values[name] = given[id(tensor)]


def _table(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The dict that holds a parameter or buffer, and its key there."""
    path, _, key = name.rpartition(".")
    part = module.get_submodule(path)
    return (part._parameters if key in part._parameters else part._buffers), key


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of models of one kind, each stacked along a new first dimension; for `vmap` over models."""
    from eagerjit.ops.index import stack

    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    tables = []
    for kind in ("named_parameters", "named_buffers"):
        each = [dict(getattr(m, kind)()) for m in models]
        tables.append({name: [e[name] for e in each] for name in each[0]})
    parameters = {
        name: stack([t.detach() for t in found]).requires_grad_(found[0].requires_grad)
        for name, found in tables[0].items()
    }
    return parameters, {name: stack(found) for name, found in tables[1].items()}


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """The module, whose batch normalisations keep no running statistics any more: `vmap` can't update them in place."""
    from eagerjit.nn.batch import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
