"""The API page: every public name with its docstring's first sentence, and what differs from PyTorch."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from eagerjit.tools.differences import DIFFERENCES

NAMESPACES = """
eagerjit eagerjit.nn eagerjit.nn.functional eagerjit.nn.init eagerjit.nn.attention eagerjit.nn.utils
eagerjit.nn.utils.rnn eagerjit.nn.utils.parametrize eagerjit.nn.utils.parametrizations eagerjit.nn.utils.prune
eagerjit.optim eagerjit.optim.lr_scheduler eagerjit.optim.swa_utils eagerjit.autograd eagerjit.autograd.functional
eagerjit.autograd.forward_ad eagerjit.autograd.graph eagerjit.func eagerjit.control eagerjit.linalg eagerjit.fft
eagerjit.special eagerjit.signal.windows eagerjit.distributions eagerjit.utils.data eagerjit.utils.checkpoint
eagerjit.utils.benchmark eagerjit.fx eagerjit.amp eagerjit.profiler eagerjit.overrides eagerjit.testing eagerjit.debug
eagerjit.accelerator eagerjit.compiling eagerjit.hub
""".split()
"""Modules whose names the page lists, in its order."""

_HEAD = """# The API

Written by `python -m eagerjit api docs/api.md`. Each namespace has PyTorch's name with `torch` for `eagerjit`, and
`eagerjit.compiling` is PyTorch's `torch.compiler`. What is tested against PyTorch, and how, is in
[the table of names](torch_names.md).
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD, *_differences(), *_methods()]
    for name in NAMESPACES:
        parts += _namespace(name)
    return "\n".join(parts)


def _differences() -> Iterator[str]:
    yield "## What differs from PyTorch\n"
    yield "| names | what | why |\n| --- | --- | --- |"
    for difference in DIFFERENCES:
        yield f"| {' | '.join(map(_cell, difference))} |"
    yield ""


def _namespace(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"## {name}\n\n{_sentence(module)}\n"
    yield from _table((n, getattr(module, n)) for n in _names(module))


def _methods() -> Iterator[str]:
    """Tensor's methods: those that are functions of the namespace too are only listed."""
    import eagerjit

    names = [n for n in dir(eagerjit.Tensor) if not n.startswith("_")]
    shared = [n for n in names if n in eagerjit.__all__]
    yield f"## eagerjit.Tensor\n\n{_sentence(eagerjit.Tensor)}\n"
    yield f"Functions of the namespace that are methods: {', '.join(f'`{n}`' for n in shared)}.\n"
    yield from _table((n, getattr(eagerjit.Tensor, n)) for n in names if n not in shared)


def _names(module: ModuleType) -> list[str]:
    """A module's public names: those it lists, else what is defined in it."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        own = vars(module).items()
        listed = [n for n, value in own if getattr(value, "__module__", None) == module.__name__ and n[0] != "_"]
    return sorted(set(listed), key=lambda n: (n.lower(), n))


def _table(members: Any) -> Iterator[str]:
    yield "| name | |\n| --- | --- |"
    for name, value in members:
        if not isinstance(value, ModuleType):
            yield f"| `{name}` | {_cell(_described(value))} |"
    yield ""


def _described(value: Any) -> str:
    from eagerjit.runtime.dtypes import DType

    if isinstance(value, DType):
        return f"A dtype of {value.itemsize} bytes." if value.itemsize > 1 else "A dtype of one byte."
    if isinstance(value, (int, float, str, type(None))):
        return f"{value!r}."
    if not isinstance(value, type) and hasattr(value, "__args__"):
        return "A type, for annotations."
    return _sentence(value)


def _sentence(value: Any) -> str:
    """The first sentence of a docstring; of a class that has none, its base's."""
    text = inspect.getdoc(value) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    found = re.match(r".*?(?<!et al)[.!?](?=\s|$)", paragraph)
    return found.group() if found else paragraph


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
