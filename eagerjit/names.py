"""PyTorch's names and what they stand for here: which exist, which are missing, and what is nearest to these."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

PREFIXES = (
    "torch.cuda.", "torch.onnx.", "torch.distributed.", "torch.quantization.", "torch.ao.", "torch.jit.",
    "torch.nn.parallel.", "torch.nn.DataParallel", "torch.utils.data.DistributedSampler",
)  # fmt: skip
"""Names of CUDA devices, ONNX export, distributed programs, quantization and TorchScript."""

_OWNERS = {
    "Tensor": ("torch.Tensor",),
    "Module": ("torch.nn.Module",),
    "Optimizer": ("torch.optim.Optimizer",),
    "Scheduler": ("torch.optim.lr_scheduler.StepLR",),
    "Function": ("torch.autograd.Function",),
}
_OPERATORS = {"@": "matmul", "+": "add", "-": "sub", "*": "mul", "/": "truediv", "**": "pow", "//": "floordiv"}


def find(name: str) -> Any:
    """What a dotted name of torch stands for. Raises AttributeError for a name that is missing."""
    import eagerjit

    found: Any = eagerjit
    known = "torch"
    for part in name.split(".")[1:]:
        found = member(found, known, part)
        known = f"{known}.{part}"
    return found


def member(owner: Any, name: str, attribute: str) -> Any:
    """An attribute of what `name` stands for, or its submodule. Raises AttributeError if there is neither."""
    try:
        return getattr(owner, attribute)
    except AttributeError:
        found = _submodule(f"{name}.{attribute}") if isinstance(owner, ModuleType) else None
        if found is None:
            raise explain_missing(owner, name, attribute) from None
        return found


def _submodule(name: str) -> ModuleType | None:
    return importlib.import_module("eagerjit.standin").module_for(name)


def explain_missing(owner: Any, name: str, attribute: str) -> AttributeError:
    """The error for a name that is missing, with the nearest that exists."""
    near = nearest(attribute, (n for n in dir(owner) if not n.startswith("_")))
    hint = f"; the nearest name it has is {name}.{near}" if near else ""
    return AttributeError(f"eagerjit has no {name}.{attribute}{hint}", name=attribute, obj=owner)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, None if none is."""
    import difflib

    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    found = difflib.get_close_matches(name.lower(), folded, 1)
    return folded[found[0]] if found else None


# -- coverage ---------------------------------------------------------------------------------------------------------


def exists(entry: str) -> bool:
    """Whether an entry of a list of names exists: `torch.nn.Linear`, `Tensor|Module.to` (both), `operator @`."""
    try:
        for name in _spelled(entry):
            find(name)
    except AttributeError:
        return False
    return True


def _spelled(entry: str) -> Iterator[str]:
    if entry.startswith("operator "):
        yield f"torch.Tensor.__{_OPERATORS[entry.removeprefix('operator ')]}__"
        return
    owners, _, attribute = entry.partition(".")
    if owners == "torch":
        yield entry
        return
    for owner in re.split(r"[|/]", owners):
        for name in _OWNERS[owner]:
            if (owner, attribute) != ("Scheduler", "zero_grad"):  # an optimizer's alone
                yield f"{name}.{attribute}"


def in_scope(entry: str) -> bool:
    """Whether an entry concerns what is covered here."""
    return not entry.startswith(PREFIXES)


def coverage(lines: Iterable[str], programs: int = 3) -> tuple[int, list[tuple[int, str, int]]]:
    """How many names of a table are in scope, and those missing as (rank, name, programs).

    The table has a heading and lines of tab-separated name and number of programs that use it, the most used first;
    those used by fewer than `programs` are left out.
    """
    total, missing = 0, []
    for rank, line in enumerate(lines):
        name, _, rest = line.rstrip("\n").partition("\t")
        users = rest.split("\t")[0]
        if not users.isdigit() or int(users) < programs or not in_scope(name):
            continue
        total += 1
        if not exists(name):
            missing.append((rank, name, int(users)))
    return total, missing
