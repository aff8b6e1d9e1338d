"""Calls that are wrong for whatever a name stands for: too few arguments, too many, unknown ones, of no use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import eagerjit as ej
from catalog.running import named, same_error


def _tensor(library: Any) -> Any:
    return library.ones(1, 1, 4, 4)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda t, f: f(),
    "an unknown keyword": lambda t, f: f(_tensor(t), zz=1),
    "only an unknown keyword": lambda t, f: f(zz=1),
    "a tensor and an object": lambda t, f: f(_tensor(t), object()),
    "too many": lambda t, f: f(_tensor(t), *([object()] * 30)),
    "text": lambda t, f: f("zz"),
    "an object": lambda t, f: f(object()),
}
"""Of functions, methods and classes; the last two are no methods' calls."""

ACCIDENTS = {
    ("torch.fx.Tracer", "text"): "PyTorch takes the text for modules and breaks later",
}
"""What is not compared, and why."""


def uses(name: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """What is tried with a name, as functions of the library; of Modules' methods samples do."""
    owner, _, last = name.rpartition(".")
    if owner.startswith(("Module", "Optimizer")):
        return
    if named(name, torch) is not None:
        for what, use in list(CALLS.items())[: len(CALLS) - 2 * owner.startswith("Tensor")]:
            if (name, what) not in ACCIDENTS:
                yield what, lambda t, use=use: use(t, named(name, t))
    elif owner == "Tensor":
        yield "assignment", lambda t: setattr(_tensor(t), last, object())


def failures(name: str) -> Iterator[str]:
    """For every use that PyTorch refuses, what is accepted or raised of another class, else an empty text.

    Where its Python code asks an attribute of what is no tensor (AttributeError), TypeError is as good.
    """
    for what, use in uses(name):
        theirs, ours = _error(use, torch), _error(use, ej)
        if theirs is None or (isinstance(theirs, AttributeError) and isinstance(ours, TypeError)):
            continue
        try:
            same_error(ours, theirs, what)
        except AssertionError as difference:
            yield str(difference)
        else:
            yield ""


def _error(use: Callable[[Any], Any], library: Any) -> Exception | None:
    try:
        use(library)
    except Exception as error:
        return error
    return None
