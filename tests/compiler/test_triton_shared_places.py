"""Many entries of one place on a GPU: programs share them, in an order that sizes and places alone decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler import loops
from eagerjit.compiler.codegen.triton import joined, ordered
from eagerjit.compiler.lower import routines, scattered
from eagerjit.compiler.ops import indexing
from eagerjit.jit import jit

RANDOM = np.random.default_rng(8)
INTEGERS = (np.int64, np.bool_, np.int32, np.uint8, np.int8)
FLOATS = {"float64": 1e-12, "float32": 1e-4, "float16": 3e-2, "bfloat16": 2e-1}
COUNT = 70
PLACES = {
    "none": np.zeros(0, np.int64), "one": np.zeros(1, np.int64), "all in one": np.full(COUNT, 3),
    "all apart": RANDOM.permutation(COUNT), "few": RANDOM.integers(2, 5, COUNT), "in order": np.arange(COUNT) // 9,
    "as pieces": np.arange(COUNT) // 8, "two long": np.repeat([7, 1], COUNT // 2),
}  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pieces of 4 entries, 4 of them at a time."""
    for module in (loops, ordered):
        monkeypatch.setattr(module, "FEW", 4)
    for module in (loops, ordered, joined):
        monkeypatch.setattr(module, "SHARED", 4)
    monkeypatch.setattr(ordered, "NEIGHBOURS", 2)
    monkeypatch.setattr(joined, "TOGETHER", 4)
    monkeypatch.setattr(joined, "COLUMNS", 2)
    monkeypatch.setattr(routines, "RUN", 16)
    yield


@pytest.fixture(params=[False, True], ids=["near", "far"])
def far(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether indices have 64 bits."""
    if request.param:
        monkeypatch.setattr(ordered, "INT32", 0)
        monkeypatch.setattr(joined, "INT32", 0)
    yield request.param


def launched(call: Any, *given: Any) -> tuple[Any, set[str]]:
    """A call's result, and its kernels' texts."""
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*given)
    return result, {launch.source.text for m in made for launch in m.launched}


def are_joined(texts: set[str]) -> bool:
    return any("goes_on" in text for text in texts)


def added(x: Any, at: Any, y: Any) -> Any:
    return x.index_add(0, at, y)


@pytest.mark.parametrize("name", PLACES)
def test_integers_have_the_same_bits(small: None, far: bool, name: str) -> None:
    at = PLACES[name]
    for dtype in INTEGERS[:2] if far else INTEGERS:  # how wide an index is has nothing to do with the dtype
        x = ej.tensor(RANDOM.integers(-9, 9, (COUNT, 3)).astype(dtype))
        y = ej.tensor(RANDOM.integers(-9, 9, (len(at), 3)).astype(dtype))
        found, texts = launched(added, x, ej.tensor(at), y)
        assert found._data.tobytes() == added(x, ej.tensor(at), y)._data.tobytes(), dtype
        assert are_joined(texts) == (len(at) > 4)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_added_up(small: None, name: str, dtype: str) -> None:
    at = PLACES[name]
    x, y = (ej.tensor(RANDOM.normal(size=(n, 3))).to(getattr(ej, dtype)) for n in (COUNT, len(at)))
    found, _ = launched(added, x, ej.tensor(at), y)
    expected = x.double().numpy().copy()
    np.add.at(expected, at, y.double().numpy())
    assert found.dtype is x.dtype
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=FLOATS[dtype], atol=FLOATS[dtype])


def test_the_order_of_a_sum_is_that_of_its_parts(small: None) -> None:
    """Pieces of 4 entries one after the other, of 70 the parts of 17 pieces lane by lane, then halves of lanes."""
    y = RANDOM.normal(size=COUNT).astype(np.float32) * np.float32(10.0) ** RANDOM.integers(-3, 4, COUNT)
    y = y.astype(np.float32)
    parts = []
    for begin in range(0, COUNT, 4):
        part = y[begin] if begin else np.float32(0.5) + y[0]
        for value in y[begin + 1 : begin + 4]:
            part = part + value
        parts.append(part)
    first, *others = parts
    lanes = np.zeros(4, np.float32)
    for number, part in enumerate(others):
        lanes[number % 4] += part
    expected = first + ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
    places = ej.zeros(COUNT, dtype=ej.int64)
    found, _ = launched(added, ej.full((3,), 0.5), places, ej.tensor(y))
    assert found.numpy()[0] == expected
    again, _ = launched(lambda x, at, y: x.scatter_add(0, at, y * 1.0), ej.full((3,), 0.5), places, ej.tensor(y))
    assert again._data.tobytes() == found._data.tobytes()


def test_what_is_no_number_stays_at_its_place(small: None) -> None:
    at = np.arange(COUNT) % 5
    y = np.ones((COUNT, 2), np.float32)
    y[5 * 7 + 1, 0], y[5 * 9 + 2, 1], y[5 * 3 + 3, 0], y[5 * 8 + 3, 0] = np.nan, np.inf, np.inf, -np.inf
    given = ej.zeros(5, 2), ej.tensor(at), ej.tensor(y)
    found, texts = launched(added, *given)
    np.testing.assert_array_equal(found.numpy(), added(*given).numpy())
    assert are_joined(texts) and np.isnan(found.numpy()).sum() == 2


@pytest.mark.parametrize("how", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_reductions_of_elements(small: None, how: str, dtype: str) -> None:
    x, y = (ej.tensor(RANDOM.integers(-3, 4, n)).to(getattr(ej, dtype)) for n in (9, COUNT))
    at = ej.tensor(RANDOM.integers(0, 3, COUNT))

    def call(x: Any, at: Any, y: Any) -> Any:
        return x.scatter_reduce(0, at, y, how)

    found, texts = launched(call, x, at, y)
    assert found._data.tobytes() == call(x, at, y)._data.tobytes()
    assert are_joined(texts) == (how != "prod" or dtype == "int64")


def test_what_replaces_others_goes_from_no_entry_to_entry(small: None) -> None:
    x, y, at = ej.zeros(5, 3), ej.tensor(RANDOM.normal(size=(COUNT, 3))).float(), ej.tensor(PLACES["few"])
    found, texts = launched(lambda x, at, y: x.index_copy(0, at, y), x, at, y)
    assert found._data.tobytes() == x.index_copy(0, at, y)._data.tobytes()
    assert not are_joined(texts) and not any("position" in t and "while" in t for t in texts)


@pytest.mark.parametrize("call", [
    lambda x: ej.bincount((x * 2).long().abs()), lambda x: ej.histc(x, 4, -2.0, 2.0),
    lambda x: x.long().unique(return_counts=True)[1],
], ids=["bincount", "histc", "unique"])  # fmt: skip
def test_counts(small: None, call: Any) -> None:
    x = ej.tensor(RANDOM.normal(size=COUNT)).float()
    with gpu_kernels.interpreted():
        found = jit(call)(x)
    assert found._data.tobytes() == call(x)._data.tobytes()


@pytest.mark.parametrize("how", ["sum", "mean"])
def test_segments(small: None, how: str) -> None:
    data, lengths = ej.tensor(RANDOM.normal(size=(COUNT, 3))), ej.tensor([40, 0, 25, 5])

    def call(data: Any, lengths: Any) -> Any:
        return ej.segment_reduce(data, how, lengths=lengths, unsafe=True)

    found, texts = launched(call, data, lengths)
    assert are_joined(texts)
    np.testing.assert_allclose(found.numpy(), call(data, lengths).numpy(), rtol=1e-12)


def test_gradients_of_what_is_looked_up(small: None) -> None:
    table, at = ej.tensor(RANDOM.normal(size=(2, 5))), ej.tensor(RANDOM.integers(0, 2, (7, 10)))

    def gradient(call: Any) -> Any:
        return lambda table, at: ej.func.grad(lambda t: (call(t, at) ** 2).sum())(table)

    for call in (lambda t, at: ej.nn.functional.embedding(at, t), lambda t, at: t[at], lambda t, at: t[:, 0][at]):
        found, texts = launched(gradient(call), table, at)
        assert are_joined(texts)
        np.testing.assert_allclose(found.numpy(), gradient(call)(table, at).numpy(), rtol=1e-12)


def test_few_entries_are_shared_where_places_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one call, whose sizes are symbols: 30 entries each."""
    for module in (loops, ordered):
        monkeypatch.setattr(module, "CROWDED", 8)
    for module in (loops, ordered, joined):
        monkeypatch.setattr(module, "SHARED", 4)
    calls = [
        (ej.zeros(rows, 2), ej.tensor(RANDOM.integers(0, rows, 30)), ej.tensor(RANDOM.normal(size=(30, 2))).float())
        for rows in (2, 3)
    ]
    with gpu_kernels.interpreted() as made:
        call = jit(added, fullgraph=True)
        found = [call(*given) for given in calls]
    for result, given in zip(found, calls, strict=True):
        np.testing.assert_allclose(result.numpy(), added(*given).numpy(), rtol=1e-4, atol=1e-5)
    assert found[1]._data.tobytes() == added(*calls[1])._data.tobytes()
    assert sum("goes_on" in launch.source.text for m in made for launch in m.launched) == 1 == len(made)


def test_sums_of_what_were_lines_keep_their_order(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether lines become rows is decided by the recorded call's sizes, on which no bit may depend."""
    monkeypatch.setattr(scattered, "ENTRIES", 10)
    at = ej.tensor(PLACES["few"])
    for index in (at[:, None].expand(COUNT, 3), ej.tensor(RANDOM.integers(0, 5, (COUNT, 3)))):
        for dtype in (ej.float32, ej.int32):
            x, y = ej.zeros(5, 3, dtype=dtype), ej.tensor(RANDOM.normal(size=(COUNT, 3)) * 9).to(dtype)
            found, texts = launched(lambda x, at, y: x.scatter_add(0, at, y), x, index, y)
            assert found._data.tobytes() == x.scatter_add(0, index, y)._data.tobytes()
            assert are_joined(texts) == (dtype is ej.int32)


def test_sums_along_another_dimension_than_the_first_are_shared(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sizes of each call: one that was recorded on others is another version."""
    monkeypatch.setattr(indexing, "ENTRIES", 10)
    monkeypatch.setattr(indexing, "LINES", 4)

    def add(x: Any, at: Any, y: Any) -> Any:
        return x.scatter_add(1, at, y)

    call = jit(add, fullgraph=True)
    with gpu_kernels.interpreted() as made:
        for lines, entries in ((3, 9), (3, 60), (5, 60), (2, 70), (4, 40)):
            at = ej.tensor(RANDOM.integers(0, 3, (lines, entries)))
            x, y = ej.ones(lines, 5), ej.tensor(RANDOM.normal(size=(lines, entries))).float()
            known = sum(len(m.launched) for m in made)
            found, plain = call(x, at, y), add(x, at, y)
            launches = [launch for m in made for launch in m.launched][known:]
            assert found._data.tobytes() == plain._data.tobytes()
            assert are_joined({launch.source.text for launch in launches}) == (entries > 9 and lines < 5)
            expected = np.ones((lines, 5))
            np.add.at(expected, (np.arange(lines)[:, None], at.numpy()), y.double().numpy())
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_gather_is_shared(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "ENTRIES", 10)
    x, at = ej.tensor(RANDOM.normal(size=(3, 4))), ej.tensor(RANDOM.integers(0, 3, (3, COUNT)))

    def gradient(x: Any, at: Any) -> Any:
        return ej.func.grad(lambda x: (x.gather(1, at) ** 2).sum())(x)

    found, texts = launched(gradient, x, at)
    assert are_joined(texts)
    np.testing.assert_allclose(found.numpy(), gradient(x, at).numpy(), rtol=1e-12)


@pytest.mark.parametrize("wrong", [-1, 5, 1 << 40])
def test_an_index_out_of_range_is_the_cpus_error(small: None, wrong: int) -> None:
    at = PLACES["few"].copy()
    at[30:60] = wrong
    with gpu_kernels.interpreted(), pytest.raises((IndexError, RuntimeError), match="out of range"):
        jit(added)(ej.zeros(5, 3), ej.tensor(at), ej.ones(COUNT, 3))


def test_machine_code(small: None, far: None) -> None:
    for dtype in (ej.float32, ej.bfloat16, ej.int64, ej.bool):
        with gpu_kernels.interpreted() as made:
            jit(added)(ej.zeros(5, 3, dtype=dtype), ej.tensor(PLACES["few"]), ej.ones(COUNT, 3, dtype=dtype))
        launches = [launch for m in made for launch in m.launched if "position" in launch.source.text]
        assert len(launches) == 2
        for launch in launches:
            for architecture in (80, 90):
                assert gpu_kernels.binary(launch, architecture).spilled == 0
