"""Runs samples as on a GPU: compiled to Triton's kernels, which its interpreter runs, forward and gradient."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import eagerjit as ej
from catalog.running import Call, Outcome, run, tensors_of
from catalog.sample import Sample, Variation
from eagerjit.calling.dispatch import OPS
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler import loops
from eagerjit.runtime.program import Op

SUMS = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""How far sums of floats may be from the CPU's, whose order is another: relative, and absolute at numbers of size 1."""
CHOSEN = {
    ("usual", "float32"), ("usual", "bfloat16"), ("usual", "int64"), ("empty", "float32"), ("0-d", "float32"),
    ("transposed", "float32"), ("broadcast", "float32"), ("expanded", "float32"),
}  # fmt: skip
"""Kinds and dtypes of a name's first variation that are run, one sample of each, of empty ones three; of later
variations the first sample is."""
LIBRARY = {
    Op.MATMUL: "products of integers, which PyTorch has not on GPUs either",
    Op.CONVOLUTION: "convolutions of integers, which PyTorch has not on GPUs either",
}
"""What the CPU's library does where kernels of ours do not."""
READ = dict.fromkeys(("item", "tolist", "numpy"), "a value is read, which waits for the device")
"""What Python code asks of results."""
_RAN_EAGERLY = re.compile(r"cannot be compiled: (?:\S+:\d+: )?(.*?)\.? It runs eagerly", re.DOTALL)


@dataclass
class Work:
    """What a name's samples were computed by: kernels, functions of the host and why, nothing."""

    kernels: int = 0
    host: set[str] = field(default_factory=set)
    views: int = 0

    def __str__(self) -> str:
        """The GPU column of the table of names."""
        host = "; ".join(sorted(self.host))
        if self.kernels:
            return f"kernels; on the host: {host}" if host else "kernels"
        if host:
            return f"on the host: {host}"
        return "no work: the argument's memory" if self.views else "no work: Python answers"


def chosen(variations: Sequence[Variation]) -> Iterator[tuple[Variation, Sample]]:
    """The samples that are run: few, for the interpreter is slow."""
    for number, variation in enumerate(variations):
        seen: list[tuple[str, str]] = []
        for sample in variation.samples(number == 0):
            key = (sample.kind, sample.dtype)
            if not variation.on_gpu or (key not in CHOSEN if number == 0 else seen):
                continue
            if seen.count(key) < 1 + 2 * (sample.kind == "empty"):
                seen.append(key)
            else:
                continue
            yield variation, sample


def failures(name: str, variations: Sequence[Variation], work: Work) -> Iterator[str]:
    """What the kernels for GPUs do otherwise than the CPU, sample by sample; `work` is told who did what."""
    for variation, sample in chosen(variations):
        call = Call(name, variation, ej, sample.dtype)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            expected = run(call, call.function, sample)
            jitted = ej.jit(call.function)
            try:
                with gpu_kernels.interpreted() as made:
                    found = run(call, jitted, sample)
                exact = not _note(work, made)
                _compare(found, expected, exact)
            except Exception as error:
                yield f"{sample}: {type(error).__name__} {str(error)[:400]}"
        if expected.error is None:
            work.views += bool(tensors_of(expected.results))
            reasons = [str(w.message) for w in caught if issubclass(w.category, ej.jit.JitWarning)]
            work.host |= {m[1] for r in reasons if (m := _RAN_EAGERLY.search(r))}
    if (last := name.rpartition(".")[2]) in READ:
        work.host.add(READ[last])


def _note(work: Work, made: Sequence[gpu_kernels.InterpretedExecutable]) -> bool:
    """Add what executables did; whether there are sums of floats in it."""
    sums = False
    for executable in made:
        launched = [launch for launch in executable.launched if not launch.source.name.endswith("size_value")]
        work.kernels += len(launched)
        work.host |= {OPS[c.function].on_host for c in executable.program.calls}
        work.host |= {LIBRARY[code] for code, *_ in executable.program.instructions if code in LIBRARY}
        sums |= any(_sums(kernel.kernel) for kernel in executable.kernels)
    return sums


def _sums(kernel: loops.Kernel) -> bool:
    """Whether a kernel adds or multiplies several floats into one."""
    for s in loops.walk(kernel.body):
        if isinstance(s, loops.Product | loops.Convolution | loops.Matrices):
            return True
        if isinstance(s, loops.Along | loops.Init) and s.op in ("add", "mul") and s.dtype[0] in "bf":
            return True
    return False


def _compare(found: Outcome, expected: Outcome, exact: bool) -> None:
    """Assert that a call on a GPU does what the CPU's does, bit for bit but for sums of floats."""
    for ours, theirs in ((found.error, expected.error), (found.backward_error, expected.backward_error)):
        assert type(ours) is type(theirs), f"{ours!r} instead of {theirs!r}"
    if expected.error is not None:
        return
    assert found.shared == expected.shared, f"{found.shared} share memory instead of {expected.shared}"
    for what in ("results", "leaves", "gradients"):
        pairs = zip(_flat(getattr(found, what)), _flat(getattr(expected, what)), strict=True)
        for position, (a, b) in enumerate(pairs):
            _same(a, b, exact, f"{what} {position}")


def _flat(values: Any) -> list[Any]:
    if isinstance(values, (tuple, list)):
        return [v for part in values for v in _flat(part)]
    return [values]


def _same(a: Any, b: Any, exact: bool, what: str) -> None:
    if not isinstance(b, ej.Tensor):
        equal = np.array_equal(a, b) if isinstance(b, np.ndarray) else a == b or (a != a and b != b)
        close = isinstance(b, float) and not exact and np.isclose(a, b, rtol=1e-5, atol=1e-5)
        assert equal or close, f"{what}: {a} instead of {b}"
        return
    assert (str(a.dtype), tuple(a.shape)) == (str(b.dtype), tuple(b.shape)), what
    x, y = (t.detach().contiguous()._data for t in (a, b))
    if x.tobytes() == y.tobytes():
        return
    limit = SUMS.get(str(b.dtype).rpartition(".")[2], 0.0)
    assert limit, f"{what}: {x} instead of {y}"
    x, y = x.astype(np.float64), y.astype(np.float64)
    np.testing.assert_allclose(x, y, rtol=limit * (not exact), atol=limit * (not exact), err_msg=what)
    if exact:
        signs = [np.signbit(v) | (v != v) for v in (x, y)]
        np.testing.assert_array_equal(*signs, err_msg=what)
