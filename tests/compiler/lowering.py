"""Compiles graphs the way calls are compiled, and runs them fused or one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eagerjit
from eagerjit.compiled.compilation import finish
from eagerjit.compiler.ir import Node
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.execute import MISS
from eagerjit.tensors.tensor import new_tensor

assert eagerjit.Tensor is not None  # importing the package gives compiled code its classes

Record = Callable[[Tracer, list[Node]], Sequence[Node]]


def compiled(record: Record, arrays: Sequence[np.ndarray], symbolic: bool = True, writes: Sequence[int] = ()) -> Any:
    """A Program for what `record(tracer, inputs)` records, with the graph; the last results go to inputs `writes`."""
    tracer = Tracer("graph")
    tensors = [new_tensor(a) for a in arrays]
    with tracer:
        inputs = [tracer.tensor_leaf(t, tracer.new_leaf(), symbolic) for t in tensors]
        results = list(record(tracer, inputs))
        for position, node in zip(writes, results[len(results) - len(writes) :], strict=True):
            tracer.write(tensors[position], node)
        results = results[: len(results) - len(writes)]
        return finish(tracer, len(arrays), [tracer.wrap(node) for node in results])


def run(executable: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The Program's results on these arrays, None where its guards refuse them."""
    found = executable.run(tuple(new_tensor(a) for a in arrays))
    if found is MISS:
        return None
    return [t._data for t in (found if isinstance(found, tuple) else (found,))]


_single: dict[Any, list[Any]] = {}


def run_operation(node: Node, arrays: Sequence[np.ndarray], values: dict[str, int]) -> np.ndarray:
    """One operation by itself: views in NumPy, numbers by reference, everything else compiled for symbolic sizes."""
    attributes = {k: known(v, values) for k, v in node.attributes.items()}
    if node.op.family == "view" or (node.op.family == "generator" and not node.inputs):
        return node.op.reference(*arrays, **attributes)
    key = (node.op.name, str(attributes), tuple((a.dtype.name, a.ndim) for a in arrays))
    for executable in _single.setdefault(key, []):
        results = run(executable, arrays)
        if results is not None:
            return results[0]

    def record(tracer: Tracer, inputs: list[Node]) -> list[Node]:
        return [tracer.record(node.op, tuple(inputs), **attributes)]

    executable, _ = compiled(record, arrays)
    _single[key].append(executable)
    results = run(executable, arrays)
    assert results is not None, f"the Program compiled for {node} refuses the arrays it was compiled for"
    return results[0]


def known(value: Any, values: dict[str, int]) -> Any:
    """An attribute with its sizes as numbers."""
    from eagerjit.compiler import sizes

    if isinstance(value, sizes.Size):
        return sizes.evaluate(value, values)
    return tuple(known(v, values) for v in value) if isinstance(value, tuple) else value


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in dtype, shape and every bit, but for the payload of NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "fV" and a.size:
        nan_a, nan_b = a != a, b != b
        if not np.array_equal(nan_a, nan_b):
            return False
        a, b = np.where(nan_a, a.dtype.type(0), a), np.where(nan_b, b.dtype.type(0), b)
    return a.tobytes() == b.tobytes()


EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def close(node: Node, actual: np.ndarray, arrays: Sequence[np.ndarray], expected: np.ndarray) -> bool:
    """Whether a result is within the rounding errors that its operation may make."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    # Like all 16-bit results, conversions are rounded from float32.
    twice = node.op.name == "cast" and actual.dtype.itemsize == 2
    if actual.dtype.name not in EPSILON or ("exact" in node.op.traits and not twice):
        return same_bits(actual, np.asarray(expected, order="C"))
    epsilon = EPSILON[actual.dtype.name]
    with np.errstate(all="ignore"):
        a, b = actual.astype(np.float64), expected.astype(np.float64)
        scale = np.abs(b)
        if node.op.name == "sum":
            scale = np.abs(arrays[0].astype(np.float64)).sum(axis=node.attributes["axes"])
        elif node.op.name == "matmul":
            scale = np.matmul(np.abs(arrays[0].astype(np.float64)), np.abs(arrays[1].astype(np.float64)))
        elif node.op.name in ("add_rows", "scatter_add"):
            scale = scale + np.abs(arrays[2].astype(np.float64)).sum()
        size = max(arrays[0].size if arrays else 0, 1)
        factors = {"sum": 64, "prod": 4 * size, "matmul": 64, "pow": 16, "gamma_series": 64, "gamma_fraction": 4096}
        factors |= {"gamma_series_slope": 64, "gamma_fraction_slope": 4096, "gamma_draw": 256, "von_mises_draw": 64}
        factor = factors.get(node.op.name, 4)
        tiny = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
        fine = np.abs(a - b) <= factor * (epsilon * scale + tiny[actual.dtype.name])
        fine = fine | (a == b) | ((a != a) & (b != b))
        largest = float(np.finfo(np.float32 if actual.dtype.name == "bfloat16" else actual.dtype).max)
        if node.op.name == "prod":  # in another order it may overflow or vanish on the way
            fine |= ~np.isfinite(a) | ~np.isfinite(b) | (np.abs(b) < 2.0**-100)
        fine |= np.isinf(a) & (np.abs(b) > largest / 2) | np.isinf(b) & (np.abs(a) > largest / 2)
    return bool(fine.all())
