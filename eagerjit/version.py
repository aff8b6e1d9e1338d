"""Versions: PyTorch's that the interface follows, with eagerjit's own behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_PATTERN = (
    r"v?(?P<release>\d+(?:\.\d+)*)(?:[-_.]?(?P<stage>a|b|rc)\.?(?P<number>\d*))?(?:\.?post(?P<post>\d+))?"
    r"(?:\.?dev(?P<dev>\d*))?(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)


class TorchVersion(str):
    """A version as text that is compared as a version: with texts, and with tuples of numbers."""

    __slots__ = ()

    def _compare(self, other: Any) -> int | None:
        text = ".".join(map(str, other)) if isinstance(other, Iterable) and not isinstance(other, str) else str(other)
        mine, theirs = _key(self), _key(text)
        if mine is None or theirs is None:
            return None
        return (mine > theirs) - (mine < theirs)

    def __lt__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__lt__(self, other) if found is None else found < 0

    def __le__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__le__(self, other) if found is None else found <= 0

    def __gt__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__gt__(self, other) if found is None else found > 0

    def __ge__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__ge__(self, other) if found is None else found >= 0

    def __eq__(self, other: object) -> bool:
        found = self._compare(other)
        return str.__eq__(self, other) if found is None else found == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _key(text: str) -> Any:
    """What versions are ordered by (PEP 440 without epochs), None for texts that are no versions."""
    found = re.fullmatch(_PATTERN, text.strip(), re.IGNORECASE)
    if found is None:
        return None
    release = [int(n) for n in found["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    developed = found["dev"] is not None
    if found["stage"]:
        stage = ("a", "b", "rc").index(found["stage"].lower())
    else:
        stage = -1 if developed and found["post"] is None else 3
    local = [(0, p) if not p.isdigit() else (1, int(p)) for p in re.split(r"[-_.]", found["local"] or "") if p]
    dev = int(found["dev"] or 0) if developed else float("inf")
    post = -1 if found["post"] is None else int(found["post"])
    return release, stage, int(found["number"] or 0), post, dev, [(kind, str(p).zfill(9)) for kind, p in local]


eagerjit = "0.1.0"
__version__ = TorchVersion(f"2.13.0+eagerjit.{eagerjit}")
git_version = "Unknown"
debug = False
cuda = hip = xpu = None
