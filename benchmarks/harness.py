"""Running one library's share of a benchmark in a process of its own, and timing a call inside it.

A benchmark is a module with

- `TITLE`: one line; `UNIT`: "s" or "B", what its numbers are;
- `PEERS`: names of libraries, `eagerjit` first; `ROUNDS`: how often the whole is repeated;
- `PHASES`: processes run one after the other on the same cache folder, empty at first;
- `measure(peer, phase)`: rows of numbers, and under `check` values that every library must agree on;
- `footer(medians)`, where there is more to say: lines for below the table.

What takes long calls `progress(rows)` on the way: where the process ends too early, that much is known.

This file imports no library, for its own import must not be counted as anyone's.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
MARK = "RESULT "
BUSY = 0.7  # load average above which the numbers are not to be trusted
SKIP = "BENCHMARK_SKIP"  # rows that are known, or have ended a process before, as JSON
ENDED = "the process ended"
LOCK = "BENCHMARK_LOCK"  # a file that is locked by who uses the device, so that one at a time measures
PREPARE = "BENCHMARK_PREPARE"  # set where a process only compiles: "idle", for a device that does nothing, or "device"
LIMIT = 900  # seconds; a library that takes longer is reported as failed

# What has to be importable for a peer to run; other peers are called as their module is.
MODULE = {
    "eagerjit eager": "eagerjit", "eagerjit with CUDA graphs": "eagerjit",
    "torch.compile": "torch", "torch.compile with CUDA graphs": "torch",
    "numba parallel": "numba",
}  # fmt: skip


@dataclass
class Rows:
    """What a process measured: numbers by row, values by which its results are checked, rows that failed and why."""

    numbers: dict[str, float] = field(default_factory=dict)
    check: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __ior__(self, other: Rows) -> Rows:
        self.numbers |= other.numbers
        self.check |= other.check
        self.failed |= other.failed
        return self


def load(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.{name}")


def is_installed(peer: str) -> bool:
    return importlib.util.find_spec(MODULE.get(peer, peer)) is not None


def environment(cache: Path) -> dict[str, str]:
    """Return a process environment with every core for every library and all caches inside one folder."""
    threads = ("OMP", "MKL", "OPENBLAS", "NUMBA", "EAGERJIT")
    return {
        **os.environ,
        **{f"{library}_NUM_THREADS": str(CORES) for library in threads},
        "HOME": str(cache),
        "XDG_CACHE_HOME": str(cache / "xdg"),
        "EAGERJIT_CACHE_DIR": str(cache / "eagerjit"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def attempt(name: str, peer: str, phase: str, environment: dict[str, str], limit: float) -> Rows:
    """Run one phase of one peer in a new process; what went wrong is the row "" that failed."""
    command = [sys.executable, "-m", "benchmarks", "--worker", name, peer, phase]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        # Files, since processes that it has started itself may keep pipes open after its end.
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=errors)
        problem = None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            status, problem = process.wait(), f"took more than {limit:.0f} s"
        output.seek(0)
        errors.seek(0)
        results = [line for line in output if line.startswith(MARK) and line.endswith("\n")]
        lines = errors.read().strip().splitlines()
    rows = Rows(**json.loads(results[-1].removeprefix(MARK))) if results else Rows()
    if status or not results:
        rows.failed[""] = problem or (lines[-1] if lines else f"exit status {status}")
    return rows


def run_process(name: str, peer: str, phase: str, cache: Path) -> Rows:
    """Run one phase of one peer in a new process; RuntimeError, with the last line it printed, where it failed."""
    rows = attempt(name, peer, phase, environment(cache), LIMIT)
    if "" in rows.failed:
        raise RuntimeError(rows.failed[""])
    return rows


def work(name: str, peer: str, phase: str) -> None:
    """Be the process: measure, and print the result as the last line."""
    module, how = load(name), os.environ.get(PREPARE)
    if how is None:
        progress(module.measure(peer, phase))
        return
    from benchmarks.idle import preparing

    with preparing() if how == "idle" else contextlib.nullcontext():
        progress(module.prepare(peer, phase))


def progress(rows: Rows) -> None:
    """Print what was measured so far; a number that is none failed."""
    wrong = {row: f"measured {number}" for row, number in rows.numbers.items() if not math.isfinite(number)}
    numbers = {row: number for row, number in rows.numbers.items() if row not in wrong}
    print(MARK + json.dumps({**vars(rows), "numbers": numbers, "failed": rows.failed | wrong}), flush=True)


def run_round(name: str, peer: str) -> Rows:
    """Run all phases of a peer on one cache folder, empty at first."""
    rows = Rows()
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as cache:
        for phase in load(name).PHASES:
            rows |= run_process(name, peer, phase, Path(cache))
    return rows


def run_benchmark(name: str, wanted: list[str] | None, rounds: int | None) -> dict[str, Any]:
    """Run a benchmark and return its record: medians, every round's numbers, and who did not take part and why."""
    module = load(name)
    before = machine()
    if before["load_average"] > BUSY:
        print(f"{name}: the machine is busy (load average {before['load_average']:.1f})", file=sys.stderr)
    peers = [peer for peer in module.PEERS if wanted is None or peer in wanted]
    missing = {peer: "not installed" for peer in peers if not is_installed(peer)}
    found: dict[str, list[Rows]] = {peer: [] for peer in peers if peer not in missing}
    for number in range(rounds or module.ROUNDS):
        for peer in list(found):
            print(f"{name}: round {number + 1}, {peer}", file=sys.stderr, flush=True)
            try:
                found[peer].append(run_round(name, peer))
            except RuntimeError as error:
                missing[peer] = f"failed: {error}"
                del found[peer]
    missing |= disagreements(found)
    return record(module, before, {peer: rows for peer, rows in found.items() if peer not in missing}, missing)


def record(
    module: ModuleType, before: dict[str, Any], found: dict[str, list[Rows]], missing: dict[str, str]
) -> dict[str, Any]:
    """What is written of a benchmark."""
    medians = {peer: median_rows(rows) for peer, rows in found.items()}
    missing |= {f"{peer}, {row}": why for peer, rows in found.items() for r in rows for row, why in r.failed.items()}
    return {
        "benchmark": module.__name__.removeprefix("benchmarks."),
        "title": module.TITLE,
        "unit": module.UNIT,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": before,
        "versions": {peer: version(peer) for peer in found},
        "missing": missing,
        "medians": medians,
        "footer": module.footer(medians) if hasattr(module, "footer") else [],
        "rounds": {peer: [row.numbers for row in rows] for peer, rows in found.items()},
    }


def median_rows(rounds: list[Rows]) -> dict[str, float]:
    return {row: statistics.median(found.numbers[row] for found in rounds) for row in rounds[0].numbers}


def disagreements(found: dict[str, list[Rows]]) -> dict[str, str]:
    """Return the peers whose results differ from most of the others', by what they differ in."""
    return {peer: f"failed: another result than the others' in {name}" for peer, name in differing(found)}


def differing(found: dict[str, list[Rows]]) -> list[tuple[str, str]]:
    """Return who has another result than most of the others, and in what."""
    wrong = []
    for name in sorted({name for rounds in found.values() for name in rounds[0].check}):
        values = {peer: rounds[0].check[name] for peer, rounds in found.items() if name in rounds[0].check}
        for peer, own in values.items():
            others = [other for other in values if other != peer]
            if others and sum(not close(own, values[other]) for other in others) * 2 > len(others):
                wrong.append((peer, name))
    return wrong


def close(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(abs(x - y) <= 1e-4 + 1e-3 * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True))


def version(peer: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(MODULE.get(peer, peer))
    except metadata.PackageNotFoundError:
        return "checkout"


def machine() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cores": CORES,
        "python": sys.version.split()[0],
        "load_average": os.getloadavg()[0],
    }


@contextlib.contextmanager
def holding(alone: bool) -> Iterator[None]:
    """Within the context the device is held together with other processes of the benchmark, or `alone`."""
    path = os.environ.get(LOCK)
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def each(rows: Rows, cases: dict[str, Callable[[], float]]) -> None:
    """Measure one number after the other; one that fails costs none of the others.

    After an error of a GPU the process ends, since the GPU may answer everything with that error from now on.
    """
    known = json.loads(os.environ.get(SKIP, "[]"))
    for name, measure in cases.items():
        if name in known:
            continue
        rows.failed[name] = ENDED  # which is known if it does
        progress(rows)
        try:
            rows.numbers[name] = measure()
            del rows.failed[name]
        except Exception as error:
            traceback.print_exc()
            rows.failed[name] = f"{type(error).__name__}: {error}"[:300]
        progress(rows)
        if "CUDA error" in rows.failed.get(name, ""):
            sys.exit(1)


def seconds_per_call(function: Callable[..., Any], *arguments: Any, budget: float = 0.6, repeats: int = 9) -> float:
    """Return the median time of a call, over repeats that share the budget, after a warm-up of a fifth of it.

    The warm-up has ten calls at least, as eager transforms are compiled from the ninth on; what is compiled in the
    background meanwhile is waited for.
    """
    names = {f"argument{index}": value for index, value in enumerate(arguments)}
    timer = timeit.Timer(f"function({', '.join(names)})", globals={"function": function, **names})
    end, calls = time.perf_counter() + budget / 5, 0
    while calls < 10 or time.perf_counter() < end:
        function(*arguments)
        calls += 1
    for thread in threading.enumerate():
        if thread.name.startswith("eagerjit-"):
            thread.join()
    loops = max(1, int(budget / repeats / max(timer.timeit(1), 1e-7)))
    loops = max(1, int(loops * (budget / repeats) / max(timer.timeit(loops), 1e-9)))
    return statistics.median(timer.repeat(repeats, loops)) / loops


def seconds_once(function: Callable[..., Any], *arguments: Any, calls: int = 1) -> float:
    """Return the time that these calls take together, cold."""
    start = time.perf_counter()
    for _ in range(calls):
        function(*arguments)
    return time.perf_counter() - start
