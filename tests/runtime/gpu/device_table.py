"""The samples of the op table on a machine, compared with eager calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from machines import Machine, compile_for, machine
from op_samples import ELSEWHERE, comparable, leaves, rebuilt, samples

from eagerjit.calling.dispatch import OPS
from eagerjit.cuda.execution import offloaded
from eagerjit.jit import jit
from eagerjit.runtime.binding import new_tensor
from eagerjit.runtime.gpu.arrays import on_host, upload
from eagerjit.runtime.gpu.stream import current_stream

TOLERANCE = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}  # of sums, whose order is another


def names() -> list[str]:
    """The ops of the table that compiled code can contain."""
    return sorted(name for name in OPS if name not in ELSEWHERE)


def problems(kind: str, name: str) -> list[str]:
    """What is wrong with an op on a machine.

    Every sample is jitted and called on tensors of the host, and as graphs on tensors that lie on the device.
    """
    found = []
    with machine(kind) as target:
        for number, sample in enumerate(samples(name)):
            call, tensors = comparable(name), leaves(sample.arguments)

            def plain(*leaves: Any, call: Any = call, sample: Any = sample) -> Any:
                return call(*rebuilt(sample.arguments, iter(leaves)))

            try:
                expected = arrays(plain(*given(target, tensors, False)))
                results = []
                for graphs in (False, True):
                    with offloaded(target.device, compile_for(target), graphs):
                        jitted = jit(plain, fullgraph=True)
                        results += [arrays(jitted(*given(target, tensors, graphs))) for _ in range(2 + graphs)]
            except Exception as error:
                found.append(f"{name}, sample {number}: {type(error).__name__}: {error}"[:300])
                continue
            for result in results:
                if not all(agree(a, b) for a, b in zip(result, expected, strict=True)):
                    found.append(f"{name}, sample {number}: other values")
                    break
        target.finish()
    return found


def arrays(result: Any) -> list[np.ndarray]:
    """What a call returned."""
    results = result if isinstance(result, tuple | list) else (result,)
    return [np.ascontiguousarray(on_host(r._data)) for r in results]


def given(target: Machine, tensors: Sequence[Any], resident: bool) -> list[Any]:
    """Fresh tensors with the same values, on the host or on the device: an op may write them."""
    stream = current_stream(target.device)
    return [new_tensor(upload(x._data, stream) if resident else np.array(x._data)) for x in tensors]


def agree(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Whether arrays are the same but for the rounding of sums; any NaN stands for a NaN."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind == "c":
        return agree(np.stack([actual.real, actual.imag]), np.stack([expected.real, expected.imag]))
    limit = TOLERANCE.get(expected.dtype.name)
    return limit is not None and np.allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=limit, atol=limit, equal_nan=True
    )
