"""Lowering: fused programs give the bits of one operation at a time, whether sizes are known or symbolic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering import close, compiled, known, run, run_operation, same_bits
from lowering_graphs import RecordingBuilder, strided

from eagerjit.compiler.codegen.scalar import SCALAR_OPS, kind_of
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.ops.reductions import IDENTITY
from eagerjit.runtime import dtypes

LENGTHS = (0, 1, 2, 31, 32, 33, 64, 65, 8191, 8192, 8193, 20000)
UNARY = [n for n, op in TABLE.items() if op.family == "elementwise" and len(op.domain) == 1 and n != "cast"]
BINARY = [n for n, op in TABLE.items() if op.family == "elementwise" and len(op.domain) == 2]
REDUCTIONS = [n for n, op in TABLE.items() if op.family == "reduction"]


def accepts(name: str, dtype: dtypes.DType) -> bool:
    """Whether the public op hands operands of this dtype to the primitive."""
    op = TABLE[name]
    if op.scalar.startswith("gamma"):
        return dtype is dtypes.float64
    if not op.promotion:
        return kind_of(dtype.short) in SCALAR_OPS[op.scalar].kinds
    if dtype.kind == "bool":
        return op.promotion in ("logical", "bitwise") or name in ("eq", "ne", "any", "all")
    if name in ("any", "all") or op.promotion == "logical":
        return False
    if op.promotion == "bitwise":
        return not dtype.is_floating_point
    if op.promotion in ("float", "real"):
        return dtype.is_floating_point
    return dtype.is_floating_point or name not in ("floor", "ceil", "trunc", "round", "pow")


def as_it_lies(array: np.ndarray) -> np.ndarray:
    """A copy in memory of the same layout."""
    base = array
    while base.base is not None:
        base = base.base
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, base.copy(order="K"), offset, array.strides)


def check_recording(seed: int, operations: int) -> None:
    """Symbolic, static and separate execution of one random recording agree; every step is what its reference says."""
    builder = RecordingBuilder(seed, operations)
    results = []
    for symbolic in (True, False):
        arrays = [as_it_lies(a) for a in builder.arrays]
        executable, report = compiled(builder.record, arrays, symbolic, builder.writes)
        out = run(executable, arrays)
        assert out is not None, "the Program refuses the arrays that it was compiled for"
        results.append([np.array(o) for o in (*out, *(arrays[k] for k in builder.writes))])
        for position, (array, before) in enumerate(zip(arrays, builder.arrays, strict=True)):
            assert position in builder.writes or same_bits(np.array(array), np.array(before)), "an input was changed"
    for a, b in zip(*results, strict=True):
        assert same_bits(a, b), f"known sizes give other bits than symbolic ones\n{report.traced}"
    graph, hints = report.traced, report.trace.hints
    values = dict(zip(graph.inputs, builder.arrays, strict=True))
    for node in graph.nodes:
        operands = [values[i] for i in node.inputs]
        values[node] = run_operation(node, operands, hints)
        with np.errstate(all="ignore"):
            expected = node.op.reference(*operands, **{k: known(v, hints) for k, v in node.attributes.items()})
        assert close(node, np.asarray(values[node]), operands, np.asarray(expected)), f"{node}\n{graph}"
    for node, found in zip(graph.results(), results[1], strict=True):
        assert same_bits(found, np.array(values[node])), f"fused code gives other bits for {node}\n{graph}"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_small_recordings(seed):
    check_recording(seed, 8)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31))
def test_large_recordings(seed):
    check_recording(seed, 30)


def check_operation(name: str, arrays: list[np.ndarray], **attributes) -> None:
    def record(tracer, inputs):
        return [tracer.record(TABLE[name], tuple(inputs), **attributes)]

    expected = TABLE[name].reference(*arrays, **attributes)
    found = []
    for symbolic in (True, False):
        executable, report = compiled(record, arrays, symbolic)
        results = run(executable, arrays)
        assert results is not None
        found.append(results[0])
        assert close(report.traced.outputs[0], results[0], arrays, np.asarray(expected)), f"{name} {arrays}"
    assert same_bits(*found)


def cases(names: list[str]) -> list[tuple[str, str]]:
    return [(name, d.short) for name in names for d in dtypes.ALL if accepts(name, d)]


@pytest.mark.parametrize(("name", "short"), cases(UNARY))
def test_unary_operations(name, short):
    dtype = dtypes.BY_SHORT[short]
    low, high = TABLE[name].domain[0]
    generator = np.random.default_rng(0)
    values = generator.uniform(low, high, (3, 67))
    check_operation(name, [values.astype(dtype.numpy) if dtype.kind != "uint" else np.abs(values).astype(dtype.numpy)])


@pytest.mark.parametrize(("name", "short"), cases(BINARY))
def test_binary_operations_broadcast(name, short):
    dtype = dtypes.BY_SHORT[short]
    low, high = TABLE[name].domain[0]
    generator = np.random.default_rng(1)
    shift = 0 if dtype.is_floating_point else 1
    a, b = (np.abs(generator.uniform(low, high, s)) + shift for s in ((5, 1, 33), (7, 1)))
    check_operation(name, [a.astype(dtype.numpy), b.astype(dtype.numpy)])


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("length", LENGTHS)
def test_reductions_of_every_length(name, length):
    dtype = np.dtype(bool) if name in ("any", "all") else np.dtype(np.float32)
    generator = np.random.default_rng(length)
    values = (generator.standard_normal((3, length)) * 0.5 + (1 if name == "prod" else 0)).astype(dtype)
    if length == 0 and TABLE[name].scalar not in IDENTITY:
        with pytest.raises(RuntimeError, match="size 0"):
            compiled(lambda tracer, inputs: [tracer.record(TABLE[name], tuple(inputs), axes=(1,))], [values])
        return
    check_operation(name, [values], axes=(1,))
    check_operation(name, [values], axes=(0, 1))
    if not name.startswith("arg"):
        check_operation(name, [np.ascontiguousarray(values.T)], axes=(0,))
        check_operation(name, [np.ascontiguousarray(values.T)[None].repeat(2, 0)], axes=(1,))


@pytest.mark.parametrize("kinds", list(itertools.product(("plain", "transposed", "strided", "expanded"), repeat=2)))
def test_products_of_every_layout(kinds):
    generator = np.random.default_rng(0)
    for dtype, (m, k, n), batch in itertools.product(
        (dtypes.float32, dtypes.float64), ((3, 4, 5), (1, 7, 1), (17, 1, 2)), ((), (2,), (2, 3))
    ):
        a = strided(generator, (*batch, m, k), dtype, kinds[0])
        b = strided(generator, (*batch, k, n), dtype, kinds[1])
        arrays = [a, b]

        def record(tracer, inputs):
            return [tracer.record(TABLE["matmul"], tuple(inputs))]

        executable, _ = compiled(record, arrays)
        found = run(executable, arrays)
        assert found is not None
        with np.errstate(all="ignore"):
            expected = np.matmul(arrays[0].astype(np.float64), arrays[1].astype(np.float64))
        np.testing.assert_allclose(found[0], expected, 1e-4, 1e-3)


@pytest.mark.parametrize("name", ("take_rows", "add_rows", "put_rows", "gather", "scatter_add"))
@pytest.mark.parametrize("wrong", (-1, 4, 2**40))
def test_an_index_out_of_range_is_an_error(name, wrong):
    table = np.ones((4, 3), np.float32)
    index = np.array([0, 1, wrong])
    if name in ("gather", "scatter_add"):
        index = np.stack([index] * 3, 1)
    value = {"add_rows": [np.ones((3, 3), np.float32)], "put_rows": [np.ones((3, 3), np.float32)]}.get(name, [])
    value = [np.ones((3, 3), np.float32)] if name == "scatter_add" else value
    attributes = {"dim": 0} if name in ("gather", "scatter_add") else {}

    def record(tracer, inputs):
        used = tracer.record(TABLE[name], tuple(inputs), **attributes)
        return [tracer.record(TABLE["neg"], (inputs[0],))] if wrong == 4 else [used]

    arrays = [table, index, *value]
    executable, _ = compiled(record, arrays)
    with pytest.raises(RuntimeError if attributes else IndexError, match="size 4"):
        run(executable, arrays)


def steps_of(report) -> set[str]:
    """The steps that the kernels belong to."""
    return {kernel.name.split("_")[0] for kernel in report.compiled.kernels}


def test_concatenations_of_concatenations_are_written_once():
    arrays = [np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((6, (2, 3)), (4, (2, 2)), (15, (3, 5)))]

    def record(tracer, inputs):
        inner = tracer.record(TABLE["cat"], tuple(inputs[:2]), dim=1)
        return [tracer.record(TABLE["cat"], (inputs[2], inner, inputs[2], inner), dim=0)]

    executable, report = compiled(record, arrays)
    inner = np.concatenate(arrays[:2], 1)
    (found,) = run(executable, arrays)
    np.testing.assert_array_equal(found, np.concatenate((arrays[2], inner, arrays[2], inner)))
    assert len(steps_of(report)) == 1

    def read_elsewhere(tracer, inputs):
        inner = tracer.record(TABLE["cat"], tuple(inputs[:2]), dim=1)
        return [tracer.record(TABLE["cat"], (inputs[2], inner), dim=0), tracer.record(TABLE["neg"], (inner,))]

    joined, negative = run(compiled(read_elsewhere, arrays)[0], arrays)
    np.testing.assert_array_equal(joined, np.concatenate((arrays[2], inner)))
    np.testing.assert_array_equal(negative, -inner)


def test_reductions_of_one_tensor_share_a_pass():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 50), (8, 3))]

    def record(tracer, inputs):
        x, other = inputs
        total = tracer.record(TABLE["sum"], (x,), axes=(1,))
        shift = tracer.record(TABLE["reshape"], (tracer.record(TABLE["sum"], (other,), axes=(1,)),), shape=(8, 1))
        moved = tracer.record(TABLE["sub"], (x, shift))
        return [total, tracer.record(TABLE["sum"], (tracer.record(TABLE["mul"], (x, moved)),), axes=(1,))]

    executable, report = compiled(record, arrays, symbolic=False)
    x, shift = arrays[0].astype(np.float64), arrays[1].sum(1, keepdims=True)
    total, product = run(executable, arrays)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(product, (x * (x - shift)).sum(1), rtol=1e-5, atol=1e-4)
    assert len(steps_of(report)) == 2


@pytest.mark.parametrize("op", ("add_rows", "put_rows"))
def test_rows_of_one_number_are_written_without_vectors(op):
    arrays = [np.zeros(5, np.float32), np.array([1, 4, 1, 1]), np.array([1, 2, 3, 0.5], np.float32)]

    def record(tracer, inputs):
        return [tracer.record(TABLE[op], tuple(inputs))]

    executable, report = compiled(record, arrays)
    expected = [0, 4.5, 0, 0, 2] if op == "add_rows" else [0, 0.5, 0, 0, 2]
    np.testing.assert_array_equal(run(executable, arrays)[0], np.array(expected, np.float32))
    *_, writing = (kernel for kernel in report.compiled.kernels if kernel.name.endswith(".1"))
    assert "loop vector" not in str(writing)
