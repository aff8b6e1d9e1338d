"""The host processor as LLVM names it, remembered on the disk, as loading LLVM to ask takes long."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from eagerjit.runtime import cache


class Processor(NamedTuple):
    """LLVM's version, the host's triple, the processor's name ("znver5"), and the features that it has."""

    llvm: str
    triple: str
    name: str
    features: tuple[str, ...]


_TELLING = frozenset(
    (
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
    )
)
"""What the kernel says of a processor that LLVM may look at; the rest is of one core, or of the moment."""

_ENOUGH = 16384  # characters of /proc/cpuinfo, which takes the kernel longer the more processors are asked for


def processor(ask: Callable[[], Processor]) -> Processor:
    """What `ask` gets to know from LLVM, or has got to know before on the same processor from the same LLVM."""
    identity = _identity()
    if identity is None:
        return ask()
    key = cache.content_key(identity)
    known = cache.get("processor", key)
    if known is not None:
        llvm, triple, name, features = json.loads(known)
        return Processor(llvm, triple, name, tuple(features))
    found = ask()
    cache.put("processor", key, json.dumps(found).encode())
    return found


@once
def _identity() -> str | None:
    """What stands for this processor and this LLVM; None where only LLVM can tell."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read(_ENOUGH).partition("\n\n")[0]
        package: Any = find_spec("llvmlite")
        version = (Path(package.origin).parent / "_version.py").read_text()
    except (OSError, AttributeError, TypeError):
        return None
    told = [line for line in first.splitlines() if line.partition(":")[0].strip() in _TELLING]
    return "\n".join((version, *told)) if any(line.startswith(("flags", "Features")) for line in told) else None
