"""What a Module saves: its parameters, persistent buffers and extra state by name, and loading them again."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from eagerjit.autograd.modes import no_grad
from eagerjit.runtime.meta_array import NO_DATA
from eagerjit.runtime.source import is_library
from eagerjit.tensors.hooks import Handle, add_hook
from eagerjit.tensors.tensor import Parameter, Tensor

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find (names that the module has), and what it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


class State:
    """The part of a Module that saves and loads."""

    _version = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def get_extra_state(self) -> Any:
        """What `state_dict` saves besides tensors; a class that defines it defines `set_extra_state` too."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not State.get_extra_state

    # -- saving -------------------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by dotted name, sharing their memory.

        With `keep_vars` the parameters themselves; else they come detached.
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._hooks_of("_state_dict_pre_hooks"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_of("_state_dict_hooks"):
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own state into a dictionary; subclasses may do it another way."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars else value.detach()
        if self._has_extra_state():
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _own_state(self) -> list[tuple[str, Tensor]]:
        """This module's own parameters and persistent buffers."""
        named = [*self._parameters.items(), *self._buffers.items()]
        return [(n, v) for n, v in named if v is not None and n not in self._non_persistent_buffers_set]

    # -- loading ------------------------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy values into parameters and buffers by name; with `assign` the tensors given take their place.

        Returns (missing_keys, unexpected_keys). Raises RuntimeError naming every shape that differs and, with
        `strict`, every key that is missing or unknown.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {state_dict.__class__}.")
        found = _IncompatibleKeys([], [])
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None) or {}

        def load(module: Any, values: Mapping[str, Any], prefix: str) -> None:
            about = dict(metadata.get(prefix[:-1], {}))
            if assign:
                about["assign_to_params_buffers"] = True
            module._load_from_state_dict(values, prefix, about, True, *found, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in values.items() if k.startswith(below)}, below)
            for hook in module._hooks_of("_load_state_dict_post_hooks"):
                hook(module, found)

        load(self, OrderedDict(state_dict), "")
        if strict:
            for kind, keys in (("Unexpected", found.unexpected_keys), ("Missing", found.missing_keys)):
                if keys:
                    errors.insert(0, f"{kind} key(s) in state_dict: {', '.join(map(_quoted, keys))}. ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return found

    def _loads_in_place(self) -> bool:
        """Whether `load_state_dict` only writes to tensors that are there: nothing of the program's own has a part."""
        for part in self.modules():  # type: ignore[attr-defined]
            methods = [getattr(type(part), name) for name in ("load_state_dict", "_load_from_state_dict")]
            hooks = part._hooks_of("_load_state_dict_pre_hooks") + part._hooks_of("_load_state_dict_post_hooks")
            if hooks or part._has_extra_state() or not all(is_library(m.__code__.co_filename) for m in methods):
                return False
        return True

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Take this module's own state from a dictionary; subclasses may do it another way."""
        for hook in self._hooks_of("_load_state_dict_pre_hooks"):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._own_state())
        for name, target in own.items():
            if prefix + name in state_dict:
                assign = local_metadata.get("assign_to_params_buffers", False)
                error = self._take(name, prefix + name, target, state_dict[prefix + name], assign)
                error_msgs += [error] if error else []
            elif strict:
                missing_keys.append(prefix + name)
        if self._has_extra_state():
            if prefix + _EXTRA_STATE_KEY_SUFFIX in state_dict:
                self.set_extra_state(state_dict[prefix + _EXTRA_STATE_KEY_SUFFIX])
            elif strict:
                missing_keys.append(prefix + _EXTRA_STATE_KEY_SUFFIX)
        elif strict and prefix + _EXTRA_STATE_KEY_SUFFIX in state_dict:
            unexpected_keys.append(prefix + _EXTRA_STATE_KEY_SUFFIX)
        if strict:
            for key in state_dict:
                name, dot, _ = key[len(prefix) :].partition(".")
                known = name in self._modules if dot else name in own
                if key.startswith(prefix) and key != prefix + _EXTRA_STATE_KEY_SUFFIX and not known:
                    unexpected_keys.append(key)

    def _take(self, name: str, key: str, target: Tensor, value: Any, assign: bool) -> str:
        """Make a saved value that of one parameter or buffer; what went wrong, if anything."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
        if target.ndim == 0 and value.ndim == 1:
            value = value[0]
        if tuple(value.shape) != tuple(target.shape):
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {target.shape}."
            )
        if target.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        with no_grad():
            if value.is_meta and not target.is_meta and not assign:
                return (
                    f'While copying the parameter named "{key}", whose dimensions in the model are {target.shape} and '
                    f"whose dimensions in the checkpoint are {value.shape}, an exception occurred : ('{NO_DATA}',)."
                )
            if not assign:
                target.copy_(value)
            elif isinstance(target, Parameter):
                same = isinstance(value, Parameter) and value.requires_grad is target.requires_grad
                setattr(self, name, value if same else Parameter(value, target.requires_grad))
            else:
                setattr(self, name, value)
        return ""

    # -- hooks --------------------------------------------------------------------------------------------------------

    def _hooks_of(self, table: str) -> list[Any]:
        return list(self.__dict__.get(table, {}).values())

    def _add_state_hook(self, table: str, hook: Callable[..., Any]) -> Handle:
        return add_hook(self.__dict__.setdefault(table, {}), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, prefix, keep_vars) before this module's state is saved."""
        return self._add_state_hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, state_dict, prefix, metadata) after this module's state was saved."""
        return self._add_state_hook("_state_dict_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors) before loading."""
        return self._add_state_hook("_load_state_dict_pre_hooks", lambda *args: hook(self, *args))

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False) -> Handle:
        """The older form, whose hook gets the module only on request."""
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return self._add_state_hook("_load_state_dict_pre_hooks", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Calls hook(module, incompatible_keys) after loading; it may change the two lists."""
        return self._add_state_hook("_load_state_dict_post_hooks", hook)


def _quoted(name: str) -> str:
    return f'"{name}"'
