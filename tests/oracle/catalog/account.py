"""What was compared of each name: the lines of eagerjit/names.tsv, and the page docs/torch_names.md made of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from oracle import DTYPES

from catalog.entries import ENTRIES, LISTED, MORE
from catalog.running import Compared
from eagerjit.tools import names

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT = ROOT / "eagerjit" / "names.tsv"
TABLE_OF_NAMES = ROOT / "docs" / "torch_names.md"
COMMAND = "EAGERJIT_UPDATE_TABLES=1 pytest tests/oracle/test_catalog.py tests/oracle/test_catalog_gpu.py"
HEAD = f"""# PyTorch's names that public programs use, and what each is tested with

Written by `{COMMAND}
tests/oracle/test_names.py`; the names are those of `tests/data/torch_names.tsv` that are in scope, the most used first.
A name's samples are called by PyTorch and by eagerjit: results, dtypes, shapes, shared memory, what is written to
arguments, gradients of a weighted sum and classes of errors agree; where PyTorch refuses a sample, eagerjit does.
Compiled calls then give the bits of the eager ones. Some samples run once more as kernels for GPUs, by Triton's
interpreter: they give the CPU's bits too, but for sums of floats. The samples are in `tests/oracle/catalog`;
`python -m eagerjit coverage tests/data/torch_names.tsv` counts.

- *forward*, *gradient*: the kinds of samples of which these were compared: u usual, e empty, 0 no dimensions, 1 sizes
  of one, t transposed, s strided, x expanded, b broadcast, m mixed dtypes. No gradient: PyTorch has none either.
- *refused*: the kinds that PyTorch refuses altogether; the class of its error was compared.
- *dtypes*: of how many of {len(DTYPES)} dtypes results were compared; *errors*: how many samples and other wrong calls
  raise; *compiled*: how many samples were compiled.
- *GPU*: kernels do all of its work, or why something else does some of it, or that there is no work.
- *jit*: what the warning says of samples that run eagerly in compiled functions.
- *beyond PyTorch*: dtypes computed although PyTorch has no kernel for them.
- Where PyTorch raises NotImplementedError for a dtype, its parent RuntimeError is accepted.

"""
LETTERS = {
    "usual": "u", "empty": "e", "0-d": "0", "size-1": "1", "transposed": "t", "strided": "s", "expanded": "x",
    "broadcast": "b", "mixed dtypes": "m",
}  # fmt: skip


def cells(compared: Compared) -> dict[str, str]:
    """What was compared, as the file has it."""
    return {
        "samples": str(compared.samples),
        "forward": _letters(compared.forward),
        "gradient": _letters(compared.gradient),
        "refused": _letters(compared.refused - compared.forward),
        "dtypes": str(len(compared.dtypes)),
        "errors": str(compared.errors),
        "compiled": str(compared.compiled),
    }


def _letters(kinds: Iterable[str]) -> str:
    return "".join(letter for kind, letter in LETTERS.items() if kind in kinds)


def updating() -> bool:
    """Whether the file and the page are written rather than compared."""
    return bool(os.environ.get("EAGERJIT_UPDATE_TABLES"))


def agrees(name: str, found: dict[str, str]) -> None:
    """Assert that the file has these cells for a name, or write them."""
    if updating():
        _write(name, found)
    account = names.account().get(name)
    stored = None if account is None else {column: getattr(account, column) for column in found}
    assert stored == found, f"eagerjit/names.tsv is not current: {COMMAND}"


def _write(name: str, found: dict[str, str]) -> None:
    """Change a name's line; several processes may do so."""
    folder = os.open(ACCOUNT.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        names.account.cache_clear()
        lines = dict(names.account())
        lines[name] = lines.get(name, names.Account(name)).changed(**found)
        text = [names.Account.heading(), *(lines[n].line() for n in LISTED if n in lines)]
        new = ACCOUNT.with_suffix(".new")
        new.write_text("\n".join(text) + "\n")
        new.replace(ACCOUNT)
        names.account.cache_clear()
    finally:
        os.close(folder)


def table() -> str:
    """The whole page."""
    counted = ["samples", "forward", "gradient", "refused", "dtypes", "errors", "compiled"]
    heads = ["name", *counted, "GPU", "jit", "beyond PyTorch", "differences"]
    rows = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    tested = [name for name in LISTED if name in ENTRIES]
    rows += [_row(name) for name in tested]
    absent = [name for name in LISTED if not names.exists(name)]
    missing = f"; missing are {', '.join(absent)}" if absent else ", all that there are"
    return f"{HEAD}{len(tested)} names are tested{missing}.\n\n" + "\n".join(rows) + "\n"


def _row(name: str) -> str:
    entry, account = ENTRIES[name], names.account()[name]
    eager = " ".join(dict.fromkeys(v.eager for v in entry.variations if v.eager))
    counts = account.dtypes, account.errors, account.compiled
    kinds = " ".join(account.forward), " ".join(account.gradient), " ".join(account.refused)
    more = eager, MORE.get(name, ""), entry.difference
    shown = [name.replace("|", "\\|"), account.samples, *kinds, *counts, account.gpu, *more]
    return f"| {' | '.join(shown)} |"
