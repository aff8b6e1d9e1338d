"""Digests of source files, remembered on the disk under what the file system says of the files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from eagerjit.runtime import cache

_SETTLED = 2 * 10**9
"""Nanoseconds after which another change of a file has another time on every file system."""


def digest(files: Sequence[str | Path]) -> str:
    """A digest of the contents of files. They are read where one has another size, time or place than ever before."""
    found = [os.stat(file) for file in files]
    about = [f"{s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for s in found]
    key = cache.content_key(*map(str, files), *about)
    known = cache.get("sources", key)
    if known is not None:
        return known.decode()
    made = cache.content_key(*(Path(file).read_bytes() for file in files))
    if max((s.st_ctime_ns for s in found), default=0) < time.time_ns() - _SETTLED:
        cache.put("sources", key, made.encode())
    return made


def modules_below(folder: str | Path) -> list[str]:
    """The files of Python code in a folder and those below it, in order."""
    return sorted(_modules_below(str(folder)))


def _modules_below(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir():
                yield from _modules_below(entry.path)
