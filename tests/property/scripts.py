"""What the generators of scripts share: they are run, what they show is compared, and seeds are gone through."""

from __future__ import annotations

import argparse
import linecache
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from eagerjit.runtime import cpu
from tests.property.programs import hasty_machine


def loaded(name: str, source: str, **given: Any) -> Any:
    """The `script` that a source defines with what it is given, whose lines the watching of code finds."""
    linecache.cache[f"{name}.py"] = (len(source), None, source.splitlines(True), f"{name}.py")
    scope: dict[str, Any] = {"__name__": name, **given}
    exec(compile(source, f"{name}.py", "exec"), scope)
    return scope["script"]


def reduced(program: Any, difference: Callable[[Any], str | None], seconds: float) -> Any:
    """A program of which nothing can be left out without the difference going."""
    ends = time.time() + seconds
    going = True
    while going:
        going = False
        for smaller in program.without():
            if time.time() > ends:
                break
            if difference(smaller) is not None:
                program, going = smaller, True
                break
    return program


def innermost(a: Any, b: Any, path: str = "") -> str:
    """Where two nested copies part."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        for i, (p, q) in enumerate(zip(a, b, strict=False)):
            if p != q:
                return innermost(p, q, f"{path}.{a[0] if i and isinstance(a[0], str) else ''}{i}")
    return f"at {path}: eagerly {a!r}, jitted {b!r}"


def search(
    description: str,
    source_of: Callable[[int, int], str],
    difference: Callable[[int, int], tuple[str | None, int, int]],
    length: int,
) -> None:
    """Run scripts of consecutive seeds, print those that differ, and exit.

    `difference` of a seed and a length gives where the runs part, what was compiled, and the plain calls.
    """
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--length", type=int, default=length)
    p.add_argument("--show", action="store_true", help="print the script of the first seed")
    options = p.parse_args()
    os.environ["EAGERJIT_CACHE"] = "0"
    cpu._target_machine = hasty_machine
    warnings.simplefilter("ignore")
    if options.show:
        print(source_of(options.seed, options.length))
    start, differing, compiled, plain = time.time(), 0, 0, 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            found, served, eager = difference(seed, options.length)
        except Exception as error:
            found, served, eager = f"broke: {error!r}", 0, 0
        compiled, plain = compiled + served, plain + eager
        if found is not None:
            differing += 1
            print(f"seed {seed}: {found[:1500]}", flush=True)
    done = f"{options.count} scripts in {time.time() - start:.0f} s"
    print(f"{done}, {differing} differ, {compiled} compiled, {plain} plain calls")
    sys.exit(bool(differing))
