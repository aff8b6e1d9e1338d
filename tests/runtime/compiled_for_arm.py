"""Programs in which LLVM text meant for this machine becomes object code for AArch64 as well, and is linked.

`python compiled_for_arm.py runtime` takes the native runtime as such a machine would have it, `kernels PART PARTS` the
kernels of a part of the ops on their first samples. Prints how many texts there were.
"""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from typing import Any

from arm_objects import TRIPLE, object_for_arm


def runtime() -> int:
    """Compile all parts of the native runtime."""
    platform.machine = lambda: "aarch64"
    from eagerjit.runtime import cpu, images
    from eagerjit.runtime.processor import Processor

    cpu._host = lambda: Processor("", TRIPLE, "generic", ())  # type: ignore[assignment]
    from eagerjit.runtime.native import library

    parts = [library.CORE, library.PRODUCTS, library.CONVOLUTIONS, *library.ROUTINES.values()]
    for part in parts:
        images.link(object_for_arm(part.translated().whole()))
    return len(parts)


class _Noted(Exception):
    """Ends a call whose kernels are known."""


def kernels(part: int, parts: int) -> int:
    """Compile the kernels of every so many ops."""
    from op_samples import ELSEWHERE, function, samples

    from eagerjit.calling.dispatch import OPS
    from eagerjit.runtime import cpu, images

    texts: set[str] = set()

    def note(text: str, *options: Any) -> bytes:
        texts.add(text)
        raise _Noted

    names = sorted(OPS.keys() - ELSEWHERE.keys())[part::parts]
    ready = [(function(name), samples(name)[0].arguments) for name in names]
    cpu.compile_text = note
    for call, arguments in ready:
        with suppress(_Noted):
            call(*arguments)
    for text in texts:
        images.link(object_for_arm(text))
    return len(texts)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    print({"runtime": runtime, "kernels": kernels}[what](*map(int, numbers)))
