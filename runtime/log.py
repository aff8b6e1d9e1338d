"""One-line logging to stderr: EAGERJIT_LOG=compile,recompile,launch,fuse,cache (or all).

Callers test the category's flag first, so that a category that is off costs one attribute read:

    if log.CACHE:
        log.write("cache", f"hit {key}")
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable

CATEGORIES = ("compile", "recompile", "launch", "fuse", "cache")

COMPILE = False
RECOMPILE = False
LAUNCH = False
FUSE = False
CACHE = False


def set_categories(categories: Iterable[str]) -> None:
    """Logs exactly these categories from now on ("all" stands for every one); ValueError for an unknown name."""
    wanted = set(categories)
    unknown = wanted - {*CATEGORIES, "all"}
    if unknown:
        raise ValueError(f"unknown log category {sorted(unknown)[0]!r}; known: {', '.join(CATEGORIES)}, all")
    for name in CATEGORIES:
        globals()[name.upper()] = "all" in wanted or name in wanted


def categories() -> tuple[str, ...]:
    """The categories that are logged now."""
    return tuple(name for name in CATEGORIES if globals()[name.upper()])


def write(category: str, message: str) -> None:
    """Writes one line. Newlines in the message are shown as such, so that a line stays a line."""
    line = message.replace("\n", "\\n")
    print(f"[eagerjit {category}] {line}", file=sys.stderr, flush=True)


def _from_environment() -> None:
    """Reads EAGERJIT_LOG; a misspelt category warns rather than breaking the import."""
    text = os.environ.get("EAGERJIT_LOG", "")
    try:
        set_categories(name.strip() for name in text.split(",") if name.strip())
    except ValueError as error:
        warnings.warn(f"EAGERJIT_LOG: {error}", stacklevel=2)


_from_environment()
