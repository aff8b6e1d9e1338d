"""How much of the op table runs on a GPU, found out without one.

    python -m benchmarks.gpu_coverage [--cubin] [--seconds N] [--dtype DTYPE] [NAME ...]

Every op runs on its sample arguments with its kernels interpreted by Triton, and is compared with eager calls: bit for
bit, but for sums of floats, whose order is another. With --cubin each kernel is also compiled for sm_80 and sm_90,
with --seconds as long as these last, and what was left out is counted; with --dtype the samples' floats are of another
dtype than float64, for ops that take it.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from op_samples import ELSEWHERE, comparable, leaves, rebuilt, samples

import eagerjit
from eagerjit.calling.dispatch import OPS
from eagerjit.compiled import compilation, gpu_kernels
from eagerjit.compiler.codegen.triton.source import Launch
from eagerjit.cuda.execution import layouts
from eagerjit.jit import jit
from eagerjit.runtime.gpu.launch import added
from eagerjit.runtime.program import Op, Program

ARCHITECTURES = (80, 90)
TOLERANCE = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
SINGLE = ("flash_attention", "flash_gradients")
"""Ops whose kernels multiply on units that have no float64; the samples do."""
LIBRARY = (Op.MATMUL, Op.CONVOLUTION)
"""What a GPU's kernels leave to the CPU, if anything."""


@dataclass
class Outcome:
    """What became of an op's samples.

    calls       functions of the host that it needs, which no kernel does
    kernels     digests of the kernels that were compiled
    failures    what compiling them said
    left_out    kernels for whose compilation there was no time
    """

    name: str
    samples: int = 0
    same: int = 0
    close: int = 0
    problems: list[str] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    launches: list[Launch] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


def names() -> list[str]:
    """The ops of the table that have samples: all of every module, which `op_samples` imports, but copies elsewhere."""
    return sorted(OPS.keys() - ELSEWHERE.keys())


def checked(name: str, dtype: str = "float64") -> Outcome:
    """Run an op's samples interpreted, and compare."""
    out = Outcome(name)
    for sample in samples(name):
        plain, tensors = _of_tensors(name, sample), _tensors(name, sample, dtype)
        if dtype == "float64" or _takes(plain, tensors):
            out.samples += 1
            compare(out, plain, tensors)
    if dtype != "float64" and out.calls:
        out.problems.clear()  # LAPACK is called by functions that refuse other dtypes
    return out


def _takes(plain: Any, tensors: Sequence[Any]) -> bool:
    """Whether an op takes tensors of these dtypes."""
    try:
        plain(*tensors)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _tensors(name: str, sample: Any, dtype: str = "float64") -> list[Any]:
    """A sample's tensors, floats in a dtype; in one that the op's kernels take."""
    wanted = getattr(eagerjit, "float32" if name in SINGLE and dtype == "float64" else dtype)
    return [x.to(wanted) if x.dtype is eagerjit.float64 else x for x in leaves(sample.arguments)]


def _of_tensors(name: str, sample: Any) -> Any:
    """A sample's call as a function of its tensors."""
    call = comparable(name)
    return lambda *given: call(*rebuilt(sample.arguments, iter(given)))


def compare(out: Outcome, plain: Any, tensors: Sequence[Any]) -> None:
    """Note whether a function's interpreted kernels give what the plain call gives."""
    expected = _arrays(plain(*tensors))
    try:
        with gpu_kernels.interpreted() as made:
            actual = _arrays(jit(plain, fullgraph=True)(*tensors))
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__  # type: ignore[assignment]
        out.problems.append(f"{type(error).__name__}: {error}".split("\n")[0])
        return
    for executable in made:
        out.calls |= of_host(executable.program)
        out.launches += executable.launched
    differences = {_difference(a, b) for a, b in zip(actual, expected, strict=True)}
    if wrong := differences - {"", "close"}:
        out.problems.append(max(wrong))
    elif "close" in differences:
        out.close += 1
    else:
        out.same += 1


def of_host(program: Program) -> set[str]:
    """What a GPU's Program leaves to the host: functions of NumPy, libraries."""
    found = {c.function for c in program.calls}
    return found | {Op(code).name for code, *_ in program.instructions if code in LIBRARY}


class _Lowered(Exception):
    """Ends a compilation when its Program is known."""


def lowered(name: str) -> set[str]:
    """What the Program of an op's first sample leaves to the host; nothing is compiled, nothing runs."""
    programs: list[Program] = []

    def backend(report: compilation.Report) -> Any:
        programs.append(gpu_kernels.GpuCall(report.trace).compiled.program)
        raise _Lowered

    sample = samples(name)[0]
    try:
        with compilation.made_by(backend):
            jit(_of_tensors(name, sample), fullgraph=True)(*_tensors(name, sample))
    except _Lowered:
        return of_host(programs[0])
    raise AssertionError(f"{name} compiles nothing")


def _arrays(result: Any) -> list[np.ndarray]:
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [r.contiguous()._data for r in results]


def _difference(actual: np.ndarray, expected: np.ndarray) -> str:
    """Empty for equal arrays (any NaN for a NaN), "close" within rounding errors, else what differs."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
    if actual.tobytes() == expected.tobytes():
        return ""
    if expected.dtype.kind == "c":  # part by part
        actual, expected = (np.stack([x.real, x.imag]) for x in (actual, expected))
    if expected.dtype.name not in TOLERANCE:
        return "other values"
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    if np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a) | (a != a), np.signbit(b) | (b != b)):
        return ""
    limit = TOLERANCE[expected.dtype.name]
    return "close" if np.allclose(a, b, rtol=limit, atol=limit, equal_nan=True) else "other values"


def examined(name: str, dtype: str, cubin: bool, until: float = math.inf) -> Outcome:
    """What became of an op's samples, and of its kernels if they are to be compiled, until a time of the clock."""
    out = checked(name, dtype)
    if cubin:
        compiled(out, until)
    out.launches.clear()
    return out


_DONE: dict[tuple[str, int], str] = {}
"""What compiling a kernel for an architecture said, by the kernel's digest."""


def compiled(out: Outcome, until: float = math.inf) -> None:
    """Compile an op's kernels, each once for every architecture, and note what fails or takes other parameters."""
    for launch in out.launches:
        digest = _digest(launch)
        if time.time() > until and (digest, ARCHITECTURES[-1]) not in _DONE:
            out.left_out.add(digest)
            continue
        out.kernels.add(digest)
        for architecture in ARCHITECTURES:
            key = (digest, architecture)
            if key not in _DONE:
                try:
                    binary = gpu_kernels.binary(launch, architecture)
                    added(binary.name, layouts(launch), binary.parameters)
                    _DONE[key] = "" if binary.cubin[:4] == b"\x7fELF" else "no machine code"
                except Exception as error:
                    _DONE[key] = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
            if _DONE[key]:
                out.failures.append(f"{launch.source.name} for sm_{architecture}: {_DONE[key]}")


def _digest(launch: Launch) -> str:
    """Of all that a kernel is compiled from, which its name and comments are not."""
    source = launch.source
    code = ast.unparse(ast.parse(source.text.replace(source.name, "kernel")))
    how = launch.signature, launch.constants, launch.warps, launch.stages, launch.aligned, source.contract
    return hashlib.sha256(repr((code, how)).encode()).hexdigest()


def main() -> int:
    """Print what fails, then the shares; the status is 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_coverage", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these ops")
    parser.add_argument("--cubin", action="store_true", help="compile every kernel too")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no compilation after so many")
    parser.add_argument("--dtype", default="float64", help="of the samples' floats")
    options = parser.parse_args()
    until = time.time() + options.seconds
    examine = functools.partial(examined, dtype=options.dtype, cubin=options.cubin, until=until)
    outcomes = []
    for outcome in _by_several(examine, options.names or names()):
        if outcome.samples:  # none where an op takes no such dtype
            outcomes.append(outcome)
        for problem in outcome.problems + outcome.failures:
            print(f"{outcome.name}: {problem}", flush=True)
    report(outcomes, options.cubin, {} if options.names else ELSEWHERE)
    return int(any(o.problems or o.failures for o in outcomes))


def _by_several(examine: Callable[[str], Outcome], wanted: Sequence[str]) -> Iterator[Outcome]:
    """The outcomes in order, from as many processes as there are cores."""
    workers = min(len(os.sched_getaffinity(0)), len(wanted))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(examine, wanted)


def report(outcomes: Sequence[Outcome], cubin: bool, others: Mapping[str, str]) -> None:
    """What no kernel computes and why, then the shares of the op table; `others` are ops of it without an outcome."""
    reasons: dict[str, list[str]] = {}
    for o in outcomes:
        if o.calls:
            reasons.setdefault(OPS[o.name].on_host or "no reason is declared", []).append(o.name)
    for reason, found in sorted(reasons.items()):
        print(f"on the host ({reason}): {', '.join(found)}")
    for name, reason in others.items():
        print(f"no kernel ({reason}): {name}")
    done, whole = [o for o in outcomes if not o.calls], len(outcomes) + len(others)
    right = [o for o in done if not o.problems]
    same, close = sum(o.same for o in right), sum(o.close for o in right)
    print(f"{same} samples give the CPU's bits, {close} differ within rounding errors of sums")
    parts = [f"{len(done)} of {whole} ops have a GPU lowering ({_share(len(done), whole)})"]
    parts.append(f"{_all(len(right), len(done))} right by the interpreter")
    if cubin:
        fine = sum(not o.failures and not o.left_out for o in done)
        kernels = set[str]().union(*(o.kernels for o in outcomes))
        left_out = set[str]().union(*(o.left_out for o in outcomes)) - kernels
        count = f"{len(kernels)} kernels" + f", {len(left_out)} more found no time" * bool(left_out)
        parts.append(f"{_all(fine, len(done))} compile for sm_80 and sm_90 ({count})")
    print(", ".join(parts))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f}%"


def _all(part: int, whole: int) -> str:
    return "all" if part == whole else f"{part} of them"


if __name__ == "__main__":
    sys.exit(main())
