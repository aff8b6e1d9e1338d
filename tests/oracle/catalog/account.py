"""The table of names in docs/torch_names.md: what each is tested with, and how it differs from PyTorch."""

from __future__ import annotations

from pathlib import Path

from catalog.entries import ENTRIES, LISTED, MORE, Entry
from eagerjit import names

TABLE_OF_NAMES = Path(__file__).resolve().parents[3] / "docs" / "torch_names.md"
HEAD = """# PyTorch's names that public programs use, and what each is tested with

Written by `EAGERJIT_UPDATE_TABLES=1 pytest tests/oracle/test_names.py`; the names are those of
`tests/data/torch_names.tsv` that are in scope, the most used first. A name with samples is called with each by PyTorch
and by eagerjit: results, dtypes, shapes, shared memory, what is written to arguments, gradients of a weighted sum and
classes of errors agree; where PyTorch refuses a sample, eagerjit does. Compiled calls then give the bits of the eager
ones. The samples are in `tests/oracle/catalog`.

- *kinds*: u usual, e empty, 0 no dimensions, 1 sizes of one, t transposed, s strided, x expanded, b broadcast,
  m mixed dtypes.
- *jit*: yes, or what the warning says of samples that run eagerly.
- *beyond PyTorch*: dtypes computed although PyTorch has no kernel for them.
- Where PyTorch raises NotImplementedError for a dtype, its parent RuntimeError is accepted.

"""
LETTERS = {
    "usual": "u", "empty": "e", "0-d": "0", "size-1": "1", "transposed": "t", "strided": "s", "expanded": "x",
    "broadcast": "b", "mixed dtypes": "m",
}  # fmt: skip


def table() -> str:
    """The whole page."""
    rows = ["| name | samples | kinds | jit | beyond PyTorch | differences |", "| --- | --- | --- | --- | --- | --- |"]
    counted = [name for name in LISTED if name in ENTRIES]
    rows += [_row(name, ENTRIES[name]) for name in counted]
    absent = [name for name in LISTED if not names.exists(name)]
    missing = f"; missing are {', '.join(absent)}" if absent else ", all that there are"
    return f"{HEAD}{len(counted)} names are tested{missing}.\n\n" + "\n".join(rows) + "\n"


def _row(name: str, entry: Entry) -> str:
    shown = name.replace("|", "\\|")
    if not entry.variations:
        return f"| {shown} | {'<br>'.join(entry.tests)} | | | | {entry.difference} |"
    samples = [s for number, v in enumerate(entry.variations) for s in v.samples(number == 0)]
    kinds = {s.kind for s in samples}
    eager = " ".join(dict.fromkeys(v.eager for v in entry.variations if v.eager))
    letters = " ".join(letter for kind, letter in LETTERS.items() if kind in kinds)
    return f"| {shown} | {len(samples)} | {letters} | {eager or 'yes'} | {MORE.get(name, '')} | {entry.difference} |"
