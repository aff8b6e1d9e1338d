"""Benchmarks on a GPU within a given time, the most important first; what is known is written whenever a process ends.

    python -m benchmarks.gpu_all [--seconds N] [--output FOLDER] [--cache FOLDER] NAME...
    python -m benchmarks.gpu_all --compile [--seconds N] --cache FOLDER NAME...
    python -m benchmarks.gpu_all --moved --cache FOLDER

With --compile nothing is measured, but kernels are compiled into the cache, by as many processes as there are cores:
eagerjit's for an idle device, which needs no GPU, and torch.compile's where there is one. A library that fails, takes
too long or finds no time left is named in the table, and costs none of the others. --moved makes a cache folder that
comes from elsewhere of use: Triton notes where files lay.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import gpu, harness, report
from benchmarks.harness import Rows

NAMES = ("gpu_kernels", "gpu", "gpu_models")
PREPARED = {name: ("eagerjit", "torch.compile") for name in ("gpu_kernels", "gpu_models")} | {"gpu": ()}
"""Who compiles ahead. With CUDA graphs the kernels are the same."""
AT_ONCE = 2  # processes that share the device's memory while they get ready to measure
COMPILING = 3  # and while they compile, beside tests
LAST = "eagerjit eager"  # who is measured when the others have been
LEAST = 5.0  # seconds without which nothing is begun


class Budget:
    """The time that is left."""

    def __init__(self, seconds: float):
        self.seconds, self.end = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self.end - time.monotonic()


def prepare(names: Sequence[str], environment: dict[str, str], budget: Budget) -> list[str]:
    """Compile ahead; what did not work, which is compiled later instead."""
    on_device = threading.Semaphore(COMPILING)

    def run(name: str, peer: str, phase: str) -> str:
        idle = peer.startswith("eagerjit")
        own = {**environment, harness.PREPARE: "idle" if idle else "device"}
        with threading.Semaphore() if idle else on_device:
            limit = budget.left
            rows = harness.attempt(name, peer, phase, own, limit) if limit > LEAST else Rows(failed={"": "no time"})
        return "; ".join(f"{name}, {peer}, {phase}, {row}: {why}" for row, why in rows.failed.items())

    jobs = [
        (name, peer, phase)
        for name in names
        for phase in harness.load(name).PHASES
        for peer in PREPARED[name]
        if harness.is_installed(peer) and (peer.startswith("eagerjit") or gpu.has_gpu())
    ]
    jobs.sort(key=lambda job: not job[1].startswith("eagerjit"))  # the device may be busy with something else at first
    with ThreadPoolExecutor(max(2, harness.CORES - 2)) as pool:
        return [problem for problem in pool.map(lambda job: run(*job), jobs) if problem]


def moved(cache: Path) -> None:
    """Say in Triton's notes that files lie where they do."""
    for notes in (cache / "triton").glob("*/__grp__*.json"):
        names = json.loads(notes.read_text())["child_paths"]
        here = {name: str(notes.parent / name) for name in names if (notes.parent / name).exists()}
        notes.write_text(json.dumps({"child_paths": here}))


def attempts(name: str, peer: str, phase: str, environment: dict[str, str], limit: float) -> Rows:
    """Run a phase of a library; a process that ends in the middle is followed by one that goes on behind the row."""
    rows, end = Rows(), time.monotonic() + limit
    while (left := end - time.monotonic()) > LEAST:
        known = {*rows.numbers, *rows.failed}
        own = {**environment, harness.SKIP: json.dumps(sorted(known))}
        new = harness.attempt(name, peer, phase, own, left)
        ended = new.failed.pop("", None)
        if ended is not None:
            new.failed |= {row: ended for row, why in new.failed.items() if why == harness.ENDED}
        rows |= new
        found = {*new.numbers, *new.failed} - known
        if ended is None or phase in found:
            return rows
        if not found:
            rows.failed[""] = ended
            return rows
    rows.failed[""] = "took too long" if rows.numbers or rows.failed else "no time left"
    return rows


def measure(name: str, environment: dict[str, str], budget: Budget, output: Path) -> None:
    """Run a benchmark, network by network where there are several, and write what is known after each process.

    Processes of several networks get ready beside each other, and measure one after the other (`harness.holding`).
    """
    module = harness.load(name)
    before = harness.machine()
    missing = {peer: "not installed" for peer in module.PEERS if not harness.is_installed(peer)}
    found = {peer: [Rows()] for peer in module.PEERS if peer not in missing}
    writing = threading.Lock()

    def run(phase: str, peer: str) -> dict[str, Any]:
        print(f"{budget.left:4.0f} s left: {name}, {peer}, {phase}", file=sys.stderr, flush=True)
        new = attempts(name, peer, phase, environment, min(module.LIMIT, budget.left))
        if "" in new.failed:
            new.failed[phase] = new.failed.pop("")
        with writing:
            found[peer][0] |= new
            shown = {peer: [Rows(dict(r.numbers), r.check, dict(r.failed))] for peer, (r,) in found.items()}
            for other, row in harness.differing(shown):
                shown[other][0].numbers.pop(row, None)
                shown[other][0].failed[row] = "another result than the others'"
            record = harness.record(module, before, shown, dict(missing))
            report.save(record, output, picture=False)
            return record

    jobs = sorted(((phase, peer) for phase in module.PHASES for peer in found), key=lambda job: job[1] == LAST)
    with ThreadPoolExecutor(AT_ONCE if len(module.PHASES) > 1 else 1) as pool:
        records = [future.result() for future in [pool.submit(run, *job) for job in jobs]]
    report.save(records[-1], output)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_all")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--seconds", type=float, default=520.0, help="for all of it")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder for the results")
    parser.add_argument("--cache", type=Path, help="folder for what is compiled, instead of one that is deleted")
    parser.add_argument("--compile", action="store_true", help="only compile")
    parser.add_argument("--moved", action="store_true", help="only note where the files of the cache lie")
    options = parser.parse_args()
    if (options.compile or options.moved) and options.cache is None:
        parser.error("--compile and --moved need --cache, a folder for what is compiled")
    if options.moved:
        moved(options.cache.absolute())
        return
    if not options.names or not {*options.names} <= {*NAMES}:
        parser.error(f"names are {', '.join(NAMES)}")
    budget = Budget(options.seconds)
    with contextlib.ExitStack() as stack:
        kept = options.cache
        if kept is None:
            made = tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True)
            kept = Path(stack.enter_context(made))
        kept.mkdir(parents=True, exist_ok=True)
        environment = {**harness.environment(kept), harness.LOCK: str(kept / "lock")}
        if options.compile:
            print(*prepare(options.names, environment, budget), sep="\n", file=sys.stderr, flush=True)
            return
        failed = False
        for name in options.names:
            try:
                measure(name, environment, budget, options.output)
            except Exception:
                traceback.print_exc()
                failed = True
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
