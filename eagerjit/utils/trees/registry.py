"""The kinds of containers that nested data consists of: those of Python, and classes that programs register."""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from eagerjit.guards.epochs import States, Table
from eagerjit.tensors.tensor import Shape
from eagerjit.utils.trees.kinds import is_namedtuple_class

Context = Any
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


class NodeDef(NamedTuple):
    """A kind of container: flatten_fn(x) gives (children, context), unflatten_fn makes x of both.

    flatten_with_keys_fn(x) gives pairs of a key and a child, and the context.
    """

    type: Any
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None


class SerializeNodeDef(NamedTuple):
    """How texts name a kind of container, and what they have of its context."""

    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable[[Any], Any] | None
    from_dumpable_context: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """A position in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What lies there."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """A key of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The name of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there."""
        return getattr(obj, self.name)


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """The context of an object that is a container of nothing."""

    value: Any


SUPPORTED_NODES: dict[Any, NodeDef] = {}
"""Kinds of containers by class; one entry serves all named tuples."""
SUPPORTED_SERIALIZED_TYPES: dict[Any, SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()


def _private_register_pytree_node(
    cls: Any, flatten_fn: Any, unflatten_fn: Any, *, serialized_type_name: str | None = None,
    to_dumpable_context: Any = None, from_dumpable_context: Any = None, flatten_with_keys_fn: Any = None,
) -> None:  # fmt: skip
    """`register_pytree_node`, with a warning instead of an error for a class that is registered already."""
    if cls in SUPPORTED_NODES:
        text = f"{cls} is already registered as pytree node. Overwriting the previous registration."
        warnings.warn(text, stacklevel=2)
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    name = NO_SERIALIZED_TYPE_NAME_FOUND if serialized_type_name is None else serialized_type_name
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _deregister_pytree_node(cls: Any) -> None:
    """Instances of a class are leaves again."""
    del SUPPORTED_NODES[cls]
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name, None)
    CONSTANT_NODES.discard(cls)


def register_pytree_node(cls: Any, flatten_fn: Any, unflatten_fn: Any, **described: Any) -> None:
    """Lets instances of a class be containers: flatten_fn(x) gives (children, context), unflatten_fn makes x of both.

    serialized_type_name        what texts call the class
    to_dumpable_context         what makes of a context what JSON can say
    from_dumpable_context       the other way
    flatten_with_keys_fn        flatten_with_keys_fn(x) gives pairs of a key and a child, and the context

    Raises ValueError for a class that is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **described)


def _register_pytree_node(
    cls: Any, flatten_fn: Any, unflatten_fn: Any, to_str_fn: Any = None, maybe_from_str_fn: Any = None,
    **described: Any,
) -> None:  # fmt: skip
    """`register_pytree_node` under an older name, by which classes may be registered again."""
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **described)


def register_dataclass(
    cls: Any, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Lets instances of a dataclass, or of a class that is made of its fields' values, be containers of their fields.

    field_names         the fields, where the class is no dataclass or some are left out
    drop_field_names    those that are left out, which get their defaults

    Raises ValueError where these do not fit.
    """
    names = _names_of_fields(cls, field_names, drop_field_names or [])

    def parts(obj: Any) -> tuple[list[Any], Any]:
        values = {name: getattr(obj, name) for name in names}
        present = [name for name in names if values[name] is not None]
        return [values[name] for name in present], [present, [name for name in names if values[name] is None]]

    def with_keys(obj: Any) -> tuple[list[Any], Any]:
        values, (present, _) = parts(obj)
        return [(GetAttrKey(name), value) for name, value in zip(present, values, strict=True)], present

    def again(values: Iterable[Any], context: Any) -> Any:
        present, missing = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(missing))

    _private_register_pytree_node(
        cls, parts, again, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys
    )


def _names_of_fields(cls: Any, given: list[str] | None, dropped: list[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if given is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
                "dataclass."
            )
        return given
    declared = [f.name for f in dataclasses.fields(cls) if f.init]
    if given is None:
        return declared
    wanted = set(declared) - set(dropped)
    if wanted != set(given):
        raise ValueError(
            f"field_names does not include all dataclass fields: missing {sorted(wanted - set(given))}, unexpected "
            f"{sorted(set(given) - wanted)}; drop_field_names leaves fields out."
        )
    return given


def register_constant(cls: Any) -> None:
    """Lets instances of a class be containers of nothing, which are the same where they are equal.

    Raises TypeError for a class without an `__eq__` of its own, or without a `__hash__`.
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")

    def parts(x: Any) -> tuple[list[Any], ConstantNode]:
        return [], ConstantNode(x)

    _private_register_pytree_node(cls, parts, lambda _, context: context.value, flatten_with_keys_fn=parts)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: Any) -> bool:
    """Whether `register_constant` was called for a class."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _register_namedtuple(cls: Any, *, serialized_type_name: str) -> None:
    """Give a class of named tuples a name in texts."""
    _private_register_pytree_node(
        cls, _namedtuple_flatten, _namedtuple_unflatten, serialized_type_name=serialized_type_name,
        to_dumpable_context=_namedtuple_serialize, from_dumpable_context=_namedtuple_deserialize,
        flatten_with_keys_fn=_namedtuple_flatten_with_keys,
    )  # fmt: skip


# -- the containers of Python ------------------------------------------------------------------------------------------


def _sequence_flatten(d: Any) -> tuple[list[Any], None]:
    return list(d), None


def _sequence_flatten_with_keys(d: Any) -> tuple[list[Any], None]:
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """A dictionary's values and keys, under PyTorch's name."""
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Pairs of a key and a value, and a dictionary's keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    """The dictionary again."""
    return dict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[Any], Any]:
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d, strict=True)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(*values)


def _namedtuple_serialize(context: Any) -> str:
    known = SUPPORTED_SERIALIZED_TYPES.get(context)
    if known is None or known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
            "serializated_type_name. Please register using `_register_namedtuple`."
        )
    return known.serialized_type_name


def _namedtuple_deserialize(dumpable_context: str) -> Any:
    if dumpable_context not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumpable_context} because we couldn't find a "
            "serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


def _ordereddict_unflatten(values: Iterable[Any], context: list[Any]) -> Any:
    return OrderedDict(zip(context, values, strict=True))


def _defaultdict_flatten(d: Any) -> tuple[list[Any], list[Any]]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: Any) -> tuple[list[Any], list[Any]]:
    return _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: list[Any]) -> Any:
    return defaultdict(context[0], _dict_unflatten(values, context[1]))


def _defaultdict_serialize(context: list[Any]) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumpable_context: dict[str, Any]) -> list[Any]:
    module = importlib.import_module(dumpable_context["default_factory_module"])
    return [getattr(module, dumpable_context["default_factory_name"]), dumpable_context["dict_context"]]


def _deque_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: Any) -> tuple[list[Any], Any]:
    return _sequence_flatten_with_keys(d)[0], d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Any) -> Any:
    return deque(values, maxlen=context)


for _kind, _name, _parts, _again, _keys, *_texts in (
    (tuple, "builtins.tuple", _sequence_flatten, lambda parts, _: tuple(parts), _sequence_flatten_with_keys),
    (list, "builtins.list", _sequence_flatten, lambda parts, _: list(parts), _sequence_flatten_with_keys),
    (dict, "builtins.dict", _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    (
        namedtuple, "collections.namedtuple", _namedtuple_flatten, _namedtuple_unflatten,
        _namedtuple_flatten_with_keys, _namedtuple_serialize, _namedtuple_deserialize,
    ),
    (OrderedDict, "collections.OrderedDict", _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys),
    (
        defaultdict, "collections.defaultdict", _defaultdict_flatten, _defaultdict_unflatten,
        _defaultdict_flatten_with_keys, _defaultdict_serialize, _defaultdict_deserialize,
    ),
    (deque, "collections.deque", _deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
):  # fmt: skip
    _private_register_pytree_node(
        _kind, _parts, _again, serialized_type_name=_name, flatten_with_keys_fn=_keys,
        to_dumpable_context=_texts[0] if _texts else None, from_dumpable_context=_texts[1] if _texts else None,
    )  # fmt: skip

STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES: frozenset[Any] = frozenset(SUPPORTED_NODES)

_private_register_pytree_node(
    Shape, _sequence_flatten, lambda parts, _: tuple(parts),
    serialized_type_name="torch.Size", flatten_with_keys_fn=_sequence_flatten_with_keys,
)  # fmt: skip


_NOTING: dict[type, type] = {Table: dict, States: defaultdict}
"""What the dictionaries of Modules and optimizers are in PyTorch."""


def _get_node_type(tree: Any) -> Any:
    """What `SUPPORTED_NODES` has an object under, if it is a container."""
    kind = type(tree)
    return namedtuple if is_namedtuple_class(kind) else _NOTING.get(kind, kind)
