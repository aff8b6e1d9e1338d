"""The leaves of a call that is like one before, by Python code written for its structure."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from eagerjit.pytree import (
    LEAF,
    LEAVES,
    ONLY_ADDED_TO,
    SEQUENCES,
    TEXTS,
    Again,
    Attributes,
    Derived,
    Structure,
    is_more_than_items,
    keys_of,
)
from eagerjit.recording.leaves import arrays_among
from eagerjit.runtime.function import Plan
from eagerjit.runtime.native.agreed import MOST_TAKEN, OF_DICT, OF_FIELDS, OF_LEAF, OF_LIST, OF_TUPLE
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.lookup import is_overridden

Take = Callable[[Any, Any], list[Any] | None]
"""Gives the leaves of a call's (args, kwargs); None for calls of which `flatten_call` has to find out the structure."""


def taking(structure: Structure) -> Take | None:
    """What takes the leaves of calls of this structure.

    None where it holds anything but tuples, lists, dictionaries and objects that are their attributes or fields, of
    tensors and plain values, each object once.
    """
    if not _is_plain(structure):
        return None
    numbers, leaves, objects = itertools.count(), list[str](), list[str]()
    known: dict[str, Any] = {"__name__": __name__, "LEAVES": LEAVES, "TEXTS": TEXTS, "Tensor": Tensor}
    known["keys_of"], known["is_more_than_items"] = keys_of, is_more_than_items
    lines: list[str] = []

    def visit(name: str, part: Structure) -> None:
        if type(part) is not tuple:
            leaves.append(name)
            return
        if part == ONLY_ADDED_TO:
            lines.append(f"if type({name}) is not list: return None")
            return
        kind, keys, children = part
        parts = [f"v{next(numbers)}" for _ in children]
        known[f"kind_{name}"], known[f"keys_{name}"] = kind, keys
        items, wrong = name, f"len({name}) != {len(children)}"
        if type(keys) is Attributes or is_dataclass(kind):
            objects.extend([name] if type(keys) is Attributes else ())
            items, wrong = f"vars({name}).values()", f"tuple(vars({name})) != keys_{name}"
        elif kind is dict:
            others = f"not TEXTS.issuperset(map(type, {name})) or tuple" if type(keys) is tuple else "keys_of"
            items, wrong = f"{name}.values()", f"{wrong} or {others}({name}) != keys_{name}"
        elif keys is not None:
            wrong += f" or {name}._fields != keys_{name} or is_more_than_items({name})"
        lines.append(f"if type({name}) is not kind_{name} or {wrong}: return None")
        if parts:
            lines.append(f"{', '.join(parts)}, = {items}")
        for inner, child in zip(parts, children, strict=True):
            visit(inner, child)

    for name, part in zip(("args", "kwargs"), structure[2], strict=True):
        visit(name, part)
    lines.append(f"leaves = [{', '.join(leaves)}]")
    lines.append("met = [id(leaf) for leaf in leaves if isinstance(leaf, Tensor)]")
    lines.append(f"met += [{', '.join(f'id({name})' for name in objects)}]") if objects else None
    lines.append("plain = LEAVES.issuperset(map(type, leaves)) and len(set(met)) == len(met)")
    lines.append("return leaves if plain else None")
    exec(compile("def take(args, kwargs):\n    " + "\n    ".join(lines), "<string>", "exec"), known)
    return known["take"]  # type: ignore[no-any-return]


def taken_natively(structure: Structure) -> tuple[int, Plan | None] | None:
    """How native code takes the leaves of calls of this structure: bits for the arguments that are arrays, and a plan
    where not every argument is a leaf given by position. None where it cannot.
    """
    (kind, _, args), (_, names, named) = structure[2]
    if kind is not tuple:
        return None
    if not names and (arrays := arrays_among(args)) is not None:
        return arrays, None
    shapes = [word for part in (*args, *named) for word in _shape(part)]
    if None in shapes or shapes.count(OF_LEAF) > MOST_TAKEN:
        return None
    return 0, Plan([len(args), len(named), *names, *shapes])


def _shape(part: Structure) -> list[Any]:
    """The words of a part of a plan, None among them for what native code does not know.

    It knows tuples, lists, dictionaries with texts for keys, and dataclasses, of tensors and plain values.
    """
    if type(part) is not tuple:
        return [OF_LEAF if part is str or part == LEAF or type(part) is Again else None]
    kind, keys, children = part
    inner = [word for child in children for word in _shape(child)]
    if kind is list and keys is None:
        return [OF_LIST, kind, len(children), *inner]
    if kind is tuple or kind in SEQUENCES or (issubclass(kind, tuple) and type(keys) is tuple):
        return [OF_TUPLE if kind.__dictoffset__ == 0 else None, kind, len(children), *inner]
    if type(keys) is tuple and (kind is dict or _holds_its_fields(kind, keys)):
        return [OF_DICT if kind is dict else OF_FIELDS, kind, len(children), *keys, *inner]
    return [None]


def _holds_its_fields(kind: type, names: Any) -> bool:
    """Whether instances of a dataclass hold their fields in dictionaries, and give what lies there."""
    if type(names) is not tuple or not is_dataclass(kind) or not kind.__dictoffset__:
        return False
    return not any(is_overridden(kind, name) for name in names)


def _is_plain(structure: Structure) -> bool:
    if type(structure) is not tuple:
        return structure is str or (type(structure) is str and structure == LEAF)
    kind, keys, children = structure
    own = type(keys) is Attributes and kind.__dictoffset__ != 0
    plain = kind in SEQUENCES or kind is dict or own or _holds_its_fields(kind, keys)
    plain = plain or (issubclass(kind, tuple) and keys is not None and type(keys) is not Derived)
    return plain and all(map(_is_plain, children))
