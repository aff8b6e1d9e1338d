"""How data is nested, as text."""

from __future__ import annotations

import importlib
import json
from enum import Enum
from functools import reduce
from typing import Any

from eagerjit.utils.trees.registry import (
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_SERIALIZED_TYPES,
)
from eagerjit.utils.trees.specs import _LEAF_SPEC, TreeSpec

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


class EnumEncoder(json.JSONEncoder):
    """Writes members of enumerations by their class and name."""

    def default(self, obj: Any) -> Any:
        """What is written for an object that JSON does not know."""
        if isinstance(obj, Enum):
            kind = type(obj)
            return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """The member of an enumeration that a dictionary stands for; other dictionaries themselves."""
    if "__enum__" not in obj:
        return obj
    module, _, names = obj["fqn"].partition(":")
    return reduce(getattr, names.split("."), importlib.import_module(module))[obj["name"]]  # type: ignore[index]


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A nesting as JSON. Raises NotImplementedError for classes without a name in texts."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    protocol = _known(DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol)
    return json.dumps((protocol, _written(treespec)), cls=EnumEncoder)


def treespec_loads(serialized: str) -> TreeSpec:
    """The nesting that a text of `treespec_dumps` says."""
    protocol, written = json.loads(serialized)
    _known(protocol)
    return _read(written)


def _known(protocol: int) -> int:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        known = [DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {known}")
    return protocol


def _written(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if known is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom "
                "serializer using _register_pytree_node."
            ) from error
    children = [_written(child) for child in spec.children_specs]
    return {"type": known.serialized_type_name, "context": context, "children_spec": children}


def _read(written: dict[str, Any]) -> TreeSpec:
    name, context, children = written["type"], written["context"], written["children_spec"]
    if name is None and context is None and not children:
        return _LEAF_SPEC
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    from_text = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    read = json.loads(context, object_hook=enum_object_hook) if from_text is None else from_text(context)
    return TreeSpec(kind, read, [_read(child) for child in children])
