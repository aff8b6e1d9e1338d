"""The samples of the op table on a machine, compared with eager calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from machines import compile_for, machine
from op_samples import EAGER, function, leaves, rebuilt, samples

from eagerjit.cuda.execution import offloaded
from eagerjit.dispatch import OPS
from eagerjit.jit import jit

TOLERANCE = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}  # of sums, whose order is another


def names() -> list[str]:
    """The ops of the table that compiled code can contain."""
    return sorted(name for name in OPS if name not in EAGER)


def problems(kind: str, name: str) -> list[str]:
    """What is wrong with an op on a machine, "fake" or "gpu"; every sample is jitted and called twice."""
    found = []
    with machine(kind) as target:
        for number, sample in enumerate(samples(name)):
            call, tensors = function(name), leaves(sample.arguments)

            def plain(*given: Any, call: Any = call, sample: Any = sample) -> Any:
                return call(*rebuilt(sample.arguments, iter(given)))

            try:
                expected = arrays(plain(*tensors))
                with offloaded(target.device, compile_for(target)):
                    jitted = jit(plain, fullgraph=True)
                    results = [arrays(jitted(*tensors)) for _ in range(2)]
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
    return [np.array(r.detach().contiguous()._data) for r in results]


def agree(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Whether arrays are the same but for the rounding of sums; any NaN stands for a NaN."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.tobytes() == expected.tobytes():
        return True
    limit = TOLERANCE.get(expected.dtype.name)
    return limit is not None and np.allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=limit, atol=limit, equal_nan=True
    )
