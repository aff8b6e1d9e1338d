"""What is known of each name: its samples, or the tests that it has elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.facts import FACTS
from catalog.functional import FUNCTIONAL
from catalog.modules import MODULES
from catalog.named import NAMED
from catalog.pointwise import POINTWISE
from catalog.programs import PROGRAMS
from catalog.reductions import REDUCTIONS
from catalog.sample import Variation
from catalog.structure import STRUCTURE
from catalog.training import TRAINING
from catalog.views import VIEWS
from catalog.writes import WRITES
from eagerjit.tools import names

TABLE = Path(__file__).resolve().parents[2] / "data" / "torch_names.tsv"


@dataclass(frozen=True)
class Entry:
    """A name's samples and the tests that it has elsewhere; how it differs from PyTorch."""

    variations: Sequence[Variation] = ()
    tests: tuple[str, ...] = ()
    difference: str = ""


FUNCTIONS = {**POINTWISE, **VIEWS, **REDUCTIONS, **WRITES, **FACTS, **FUNCTIONAL, **TRAINING, **PROGRAMS, **STRUCTURE}
"""Variations by the name, or by its last part: torch.exp, Tensor.exp and torch.nn.functional.exp have the same."""


DIFFERENCES = {
    **dict.fromkeys(
        ("fill_", "zero_", "masked_fill_"), "memory that several elements share is refused, as PyTorch deprecates it"
    ),
    **dict.fromkeys(("topk",), "which of equal elements is named is not defined in PyTorch; here it is the first"),
    "GroupNorm": "the gradient of the weight of an empty input is 0; PyTorch's is NaN",
    "adaptive_avg_pool2d": "the gradient of no channels is empty; PyTorch's is an error",
    "AdaptiveAvgPool2d": "the gradient of no channels is empty; PyTorch's is an error",
    "scatter": "src of an empty index has no gradient; PyTorch's is empty",
    "scatter_": "src of an empty index has no gradient; PyTorch's is empty. reduce= has gradients; PyTorch's has none",
    "torch.distributions.Categorical": "logits of no examples are accepted; PyTorch's check of them fails",
    "numpy": "bfloat16 gives an array of ml_dtypes; PyTorch refuses it",
    "empty": "compiled, it is zeros",
    "empty_like": "compiled, it is zeros",
}
"""By the last part of a name."""


def _listed() -> list[str]:
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
    return [name for name, programs in rows if int(programs) >= 3 and names.in_scope(name)]


LISTED = _listed()

MORE: dict[str, str] = {
    "torch.nn.functional.scaled_dot_product_attention": "uint8 int8 int16 int32 int64",
    "torch.nn.functional.conv2d": "bool",
    "torch.nn.ReplicationPad2d": "bool",
    "torch.nn.BCELoss": "uint8 int8 int16 int32 int64",
    "torch.nn.Unfold": "uint8 int8 int16 int32 int64",
}
"""Dtypes that are computed although PyTorch has no kernel for them."""


def _entry(name: str) -> Entry | None:
    owner, _, last = name.rpartition(".")
    tests = (NAMED[name],) if name in NAMED else ()
    if owner == "torch.nn" and last in MODULES:
        return Entry(MODULES[last], difference=DIFFERENCES.get(last, ""))
    if name in FUNCTIONS:
        return Entry(FUNCTIONS[name], tests, difference=DIFFERENCES.get(name, ""))
    if owner in ("torch", "Tensor", "torch.nn.functional", "Tensor|Module", "torch.nn.utils.rnn") and last in FUNCTIONS:
        return Entry(FUNCTIONS[last], difference=DIFFERENCES.get(last, ""))
    return Entry(tests=tests) if tests else None


ENTRIES = {name: entry for name in LISTED if (entry := _entry(name))}
