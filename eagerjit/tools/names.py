"""PyTorch's names and what they stand for here: which exist, which are missing, and what is nearest to these."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from eagerjit.runtime.records import record, replace

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
            raise no_such_name(owner, name, attribute) from None
        return found


def _submodule(name: str) -> ModuleType | None:
    return importlib.import_module("eagerjit.standin").module_for(name)


def no_such_name(owner: Any, path: str, attribute: str) -> AttributeError:
    """The error for a name that does not exist."""
    return AttributeError(_Missing(owner, path, attribute), name=attribute, obj=owner)


class _Missing:
    """Its message. The nearest name is looked for when somebody reads: many a program only asks whether one exists."""

    def __init__(self, owner: Any, path: str, attribute: str):
        self.owner, self.path, self.attribute = owner, path, attribute

    def __str__(self) -> str:
        near = nearest(self.attribute, (n for n in dir(self.owner) if not n.startswith("_")))
        hint = f"; the nearest name it has is {self.path}.{near}" if near else ""
        return f"eagerjit has no {self.path}.{self.attribute}{hint}"

    def __repr__(self) -> str:
        return repr(str(self))

    def __reduce__(self) -> Any:
        return str, (str(self),)


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


def names_in(lines: Iterable[str], programs: int = 3) -> list[tuple[int, str, int]]:
    """The names of a table that are in scope, as (rank, name, programs).

    The table has a heading and lines of tab-separated name and number of programs that use it, the most used first;
    those used by fewer than `programs` are left out.
    """
    found = []
    for rank, line in enumerate(lines):
        name, _, rest = line.rstrip("\n").partition("\t")
        users = rest.split("\t")[0]
        if users.isdigit() and int(users) >= programs and in_scope(name):
            found.append((rank, name, int(users)))
    return found


def coverage(lines: Iterable[str], programs: int = 3) -> tuple[int, list[tuple[int, str, int]]]:
    """How many names of a table are in scope, and those missing as (rank, name, programs)."""
    wanted = names_in(lines, programs)
    return len(wanted), [row for row in wanted if not exists(row[1])]


@record(frozen=True)
class Account:
    """What the tests compare of a name, as `names.tsv` has it: they write that file and check that it is current.

    forward, gradient   letters of the kinds of samples of which these are compared with PyTorch's
    refused             letters of the kinds that PyTorch refuses altogether, with the same class of error
    dtypes              of how many dtypes results are compared
    errors              how many samples and other wrong calls raise, as PyTorch's do
    compiled            how many samples give the eager call's bits when compiled
    gpu                 "kernels", or why the host does some of the work, or that there is none
    """

    name: str
    samples: str = ""
    forward: str = ""
    gradient: str = ""
    refused: str = ""
    dtypes: str = ""
    errors: str = ""
    compiled: str = ""
    gpu: str = ""

    @classmethod
    def heading(cls) -> str:
        """The first line of the file."""
        return "\t".join(cls.__match_args__)

    @classmethod
    def parse(cls, line: str) -> Account:
        """A line of the file."""
        return cls(*line.split("\t"))

    def line(self) -> str:
        """The line of the file."""
        return "\t".join(getattr(self, name) for name in self.__match_args__)

    def changed(self, **cells: str) -> Account:
        """The account with other cells."""
        return replace(self, **cells)


@lru_cache(maxsize=1)
def account() -> dict[str, Account]:
    """What is tested of each name that public programs use."""
    text = (Path(__file__).parent.parent / "names.tsv").read_text()
    return {a.name: a for a in map(Account.parse, text.splitlines()[1:])}


def summary(wanted: Iterable[str]) -> Iterator[str]:
    """Lines that count what is tested of these names, and what of their work GPUs do."""
    known = [a for name in wanted if (a := account().get(name)) is not None]
    samples = sum(int(a.samples) for a in known if a.samples.isdigit())
    yield f"{len(known)} have a test against PyTorch, on {samples} samples:"
    for what in ("forward", "gradient", "errors", "compiled"):
        some = [a for a in known if getattr(a, what) not in ("", "0")]
        yield f"{len(some):5} compare {_COMPARED[what]}"
    for letter, kind in KINDS.items():
        forward, gradient = (sum(letter in getattr(a, what) for a in known) for what in ("forward", "gradient"))
        refused = sum(letter in a.refused for a in known)
        yield f"{forward:5} on {kind} inputs, of {gradient} of them gradients; {refused} refuse such, as PyTorch does"
    yield "on GPUs, by Triton's interpreter:"
    for said, number in Counter(a.gpu for a in known).most_common():
        yield f"{number:5} {said}"


KINDS = {
    "u": "usual", "e": "empty", "0": "0-d", "1": "size-1", "t": "transposed", "s": "strided", "x": "expanded",
    "b": "broadcast", "m": "mixed-dtype",
}  # fmt: skip
"""Kinds of samples by the letters of an account."""
_COMPARED = {
    "forward": "results, dtypes and shapes",
    "gradient": "gradients",
    "errors": "classes of errors",
    "compiled": "compiled calls with eager ones, bit for bit",
}
