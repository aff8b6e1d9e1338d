"""optree, which packages go through nested data with: it takes the dictionaries of Modules for containers.

It asks for a class itself, of which those that note changes are subclasses.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def found(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The package, which is told of these dictionaries once it has been loaded."""
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
        return spec
    load = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        register(module)

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def register(optree: Any) -> None:
    """Tell the package of the dictionaries of Modules: children by sorted keys, as it has them of others."""
    from eagerjit.guards.epochs import Table

    def parts(table: Table) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
        keys = tuple(sorted(table))
        return [table[key] for key in keys], tuple(table), keys

    def again(keys: tuple[Any, ...], values: Sequence[Any]) -> Table:
        given = dict(zip(sorted(keys), values, strict=True))
        return Table((key, given[key]) for key in keys)

    try:
        optree.register_pytree_node(Table, parts, again, namespace=optree.registry.__GLOBAL_NAMESPACE)
    except ValueError:
        return  # it knows them already
