"""The tests that need a GPU, each file in a process of its own, within a given time.

    python -m benchmarks.gpu_tests [--seconds N] [--output FOLDER]

A process that crashes, hangs or loses the device costs no other file. `gpu_tests.txt` has all that pytest says and
`gpu_tests.json` the counts, both written whenever a file ends.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.report import RESULTS

FIRST = "test_gpu_machine.py"
"""The file that takes all of the device's memory, and is alone there."""
LAST = ("test_gpu_op_table.py", "test_examples.py", "test_device_programs.py")
"""Files that take long, the first and the last go through whole tables: the first beside all others, then the rest."""
SHARES = (0.5, 0.6, 1.0)
"""Of the time that is left."""
BESIDE = 8
"""Files that run beside each other."""
LIMIT = 100.0
"""Seconds of any other file."""
GRACE = 12.0
"""Seconds that pytest has to say what has failed until it was ended."""
COUNTS = ("passed", "failed", "errors", "skipped")
PYTEST = ("-m", "pytest", "-m", "gpu", "-q", "-rfEs", "--tb=short", "-p", "no:cacheprovider")


def files() -> list[Path]:
    """Those with such tests, which are marked or take a device, and no others: they import what is not there."""
    marked = re.compile(r"^@pytest\.mark\.gpu|target: Machine|usefixtures\(\"tensors\"\)", re.MULTILINE)
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if marked.search(path.read_text())]
    return sorted(found, key=lambda path: (path.name in LAST and LAST.index(path.name) + 1, path))


def groups(found: Sequence[Path]) -> list[list[Path]]:
    """Files that may run at a time, in the order in which they do."""
    table = [file for file in found if file.name == LAST[0]]
    first, rest = ([file for file in found if (file.name == FIRST) is is_first] for is_first in (True, False))
    return [first, [*table, *(file for file in rest if file.name not in LAST)], [f for f in rest if f.name in LAST[1:]]]


def run(file: Path, limit: float) -> dict[str, Any]:
    """Run a file; how many of its tests went how, what failed, and all that was said."""
    environment = {**os.environ, "EAGERJIT_TESTS_END": str(time.time() + limit - GRACE)}
    start, problem = time.perf_counter(), ""
    process = subprocess.Popen(
        [sys.executable, *PYTEST, str(file)], cwd=ROOT, env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    said = ""
    for end in (signal.SIGINT, signal.SIGKILL):
        try:
            said, _ = process.communicate(timeout=limit if end == signal.SIGINT else GRACE)
            break
        except subprocess.TimeoutExpired:
            problem = f"took more than {limit:.0f} s"
            _end(process, end)
    else:
        said, _ = process.communicate()
    found = counts(said)
    if not problem and process.returncode not in (0, 1, 5):  # some failed; none was collected
        problem = f"ended with status {process.returncode}"
    failures = re.findall(r"^(?:FAILED|ERROR) (.*)$", said, re.MULTILINE)
    return {**found, "seconds": time.perf_counter() - start, "problem": problem, "failures": failures, "said": said}


def _end(process: subprocess.Popen[str], how: int) -> None:
    """pytest is interrupted alone, since it ends what it has started; killed, all of it."""
    if how == signal.SIGINT:
        process.send_signal(how)
        return
    os.killpg(process.pid, how)


def counts(said: str) -> dict[str, int]:
    """The numbers of pytest's last line."""
    lines = re.findall(r"^.*\d+ (?:passed|failed|errors?|skipped|deselected).* in .*$", said, re.MULTILINE)
    numbers = {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", lines[-1] if lines else "")}
    return {name: numbers.get(name.rstrip("s"), 0) for name in COUNTS}


def summary(results: dict[str, dict[str, Any]]) -> list[str]:
    """What became of all tests, in a few lines."""
    total = {name: sum(result[name] for result in results.values()) for name in COUNTS}
    lines = ["tests: " + ", ".join(f"{number} {name}" for name, number in total.items() if number or name == "passed")]
    lines += [f"{name}: {result['problem']}" for name, result in results.items() if result["problem"]]
    return lines + [failure[:200] for result in results.values() for failure in result["failures"]]


def write(results: dict[str, dict[str, Any]], folder: Path) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    said = "\n".join(f"==== {name}\n{result['said']}" for name, result in results.items())
    (folder / "gpu_tests.txt").write_text(said)
    short = {name: {key: v for key, v in result.items() if key != "said"} for name, result in results.items()}
    (folder / "gpu_tests.json").write_text(json.dumps(short, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; 1 where something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_tests")
    parser.add_argument("--seconds", type=float, default=160.0, help="for all of it")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the results")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.seconds
    results: dict[str, dict[str, Any]] = {str(file.relative_to(ROOT)): {} for file in files()}
    writing = threading.Lock()

    def examine(file: Path) -> None:
        left = end - time.monotonic() - GRACE
        limit = left * SHARES[LAST.index(file.name)] if file.name in LAST else min(LIMIT, left)
        if left < GRACE:
            found = {**dict.fromkeys(COUNTS, 0), "problem": "no time left", "failures": [], "said": ""}
        else:
            found = run(file, limit)
        with writing:
            results[str(file.relative_to(ROOT))] = found
            write({name: result for name, result in results.items() if result}, options.output)

    for group in groups(files()):
        with ThreadPoolExecutor(BESIDE) as pool:
            list(pool.map(examine, group))
    print("\n".join(summary(results)[:60]), flush=True)
    return int(any(r["problem"] or r["failed"] or r["errors"] for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
