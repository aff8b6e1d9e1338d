"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from eagerjit.effects.withdrawn import Withdrawing
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import user_line


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
    What the module assigns to a buffer that was given is in the one dict afterwards, not in the module.

    `tie_weights`: a parameter known under several names is replaced under all of them; ValueError where these are given
    different tensors. `strict` raises RuntimeError unless exactly the module's names are given.
    """
    given = _merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with reparametrized(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def reparametrized(
    module: Any, given: dict[str, Tensor], tie_weights: bool = False, strict: bool = False, stack_weights: bool = False
) -> Iterator[None]:
    """Inside, a module has other parameters and buffers, by name; what it replaces them with is in the dict afterwards.

    `stack_weights` is PyTorch's, for the same module twice: here those that come last always leave first.
    """
    own = {**dict(_named(module, "_parameters")), **dict(_named(module, "_buffers"))}
    unexpected = [name for name in given if name not in own]
    missing = [name for name in own if name not in given]
    if strict and (unexpected or missing):
        raise RuntimeError(_differing(module, unexpected, missing))
    values = _tied(given, own) if tie_weights else dict(given)
    for value in values.values():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    attributes = [(*_attribute(module, name), values.pop(name)) for name in unexpected]
    replaced = [(name, *_place(module, name), value) for name, value in values.items()]
    before = [table[key] for _, _, table, key, _ in replaced]
    journal = getattr(state.tracer, "journal", None)
    withdrawing = None if journal is None else Withdrawing(journal, [(part, key) for _, part, _, key, _ in replaced])
    outer = state.reparametrized
    state.reparametrized = *outer, partial(reparametrized, module, dict(given), tie_weights)
    try:
        for _, _, table, key, value in replaced:
            table[key] = value
        for part, key, _, value in attributes:
            setattr(part, key, value)
        yield
    finally:
        state.reparametrized = outer
        for part, key, old, _ in reversed(attributes):
            if old is _ABSENT:
                delattr(part, key)
            else:
                setattr(part, key, old)
        for (name, _, table, key, value), old in zip(reversed(replaced), reversed(before), strict=True):
            new, table[key] = table.get(key, value), old
            if new is not value and name in given:
                if journal is not None and not journal.is_made(given):
                    journal.assign(given, name, new, "item", user_line())
                given[name] = new
        if withdrawing is not None:
            withdrawing.end()


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
        return dicts
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


def _tied(given: dict[str, Tensor], own: dict[str, Any]) -> dict[str, Tensor]:
    """The values of a dict, each under every name of the tensor that it replaces."""
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        if tensor is not None:
            names.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for alike in names.values():
        found = [name for name in alike if name in given]
        if any(given[name] is not given[found[0]] for name in found):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(alike)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if found:
            values.update(dict.fromkeys(alike, given[found[0]]))
    return values


def _place(module: Any, name: str) -> tuple[Any, dict[str, Any], str]:
    """The part with a parameter or buffer, the dict that holds it there, and its key."""
    path, _, key = name.rpartition(".")
    part = module.get_submodule(path)
    return part, (part._parameters if key in part._parameters else part._buffers), key


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
