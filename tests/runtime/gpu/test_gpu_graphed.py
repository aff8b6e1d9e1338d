"""Compiled calls replayed as graphs, on a fake device and on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from machines import Machine, compile_for

import eagerjit as ej
from eagerjit.cuda.execution import offloaded
from eagerjit.runtime.binding import new_tensor
from eagerjit.runtime.gpu import arrays
from eagerjit.runtime.gpu.graphed import MOST_KINDS, GraphedExecutable
from eagerjit.runtime.gpu.replay import MOST, Result
from eagerjit.runtime.gpu.stream import current_stream


def put(target: Machine, values: Any) -> Any:
    """A tensor on the device."""
    return new_tensor(arrays.upload(np.asarray(values, np.float32), current_stream(target.device)))


def get(target: Machine, tensor: Any) -> np.ndarray:
    """A tensor's values."""
    return arrays.download(tensor._data, current_stream(target.device))


def replays(target: Machine) -> int:
    return sum(name == "cuGraphLaunch" for name, *_ in target.library.calls) if target.library else -1


def jitted(target: Machine, function: Callable[..., Any]) -> tuple[Any, list[Any]]:
    """A function compiled for the device as graphs, and its executables."""
    made: list[Any] = []

    def call(*arguments: Any) -> Any:
        with offloaded(target.device, compile_for(target), graphs=True) as new:
            result = compiled(*arguments)
        made.extend(new)
        return result

    compiled = ej.jit(function, fullgraph=True)
    return call, made


def test_calls_are_replayed(target: Machine) -> None:
    call, made = jitted(target, lambda x, w: (ej.tanh(x * w) + 1, (x - w)[2:]))
    w = put(target, np.full(8, 2.0))
    for step in range(6):
        x = np.arange(8, dtype=np.float32) + step
        first, second = call(put(target, x), w)
        np.testing.assert_allclose(get(target, first), np.tanh(x * 2) + 1, rtol=1e-6)
        assert (get(target, second) == (x - 2)[2:]).all()
    (executable,) = made
    assert isinstance(executable, GraphedExecutable) and executable.is_capturable
    (graphed,) = executable.graphs.values()
    assert graphed.refusal is None and len(graphed.instances) <= MOST
    assert target.library is None or replays(target) == 5


def test_results_that_are_kept_are_not_overwritten(target: Machine) -> None:
    call, _ = jitted(target, lambda x: x * 2 + 1)
    results = [call(put(target, [float(step)] * 5)) for step in range(7)]
    for step, result in enumerate(results):
        assert (get(target, result) == 2 * step + 1).all()
    assert sum(isinstance(arrays.memory_of(r._data), Result) for r in results) == MOST


def test_results_that_are_fed_back(target: Machine) -> None:
    call, _ = jitted(target, lambda x: x * 2 + 1)
    x = put(target, [0.0] * 3)
    for step in range(9):
        x = call(x)
        assert (get(target, x) == 2 ** (step + 1) - 1).all()


def test_what_is_written_in_place(target: Machine) -> None:
    def function(state: Any, x: Any) -> Any:
        state += x
        return state * 10

    call, _ = jitted(target, function)
    state = put(target, [0.0] * 4)
    for step in range(1, 7):
        result = call(state, put(target, [float(step)] * 4))
        total = step * (step + 1) / 2
        assert (get(target, state) == total).all() and (get(target, result) == 10 * total).all()
        assert state._version == step
    other = put(target, [100.0] * 4)
    call(other, put(target, [1.0] * 4))
    assert (get(target, other) == 101).all() and (get(target, state) == 21).all()


def test_views_and_shared_memory(target: Machine) -> None:
    call, made = jitted(target, lambda a, b: (a + b, a.sum(0)))
    for step in range(5):
        base = put(target, np.arange(24).reshape(4, 6) + step)
        array = base._data
        a, b = new_tensor(array[1:3]), new_tensor(array[::2])
        both, total = call(a, b)
        values = np.arange(24, dtype=np.float32).reshape(4, 6) + step
        assert (get(target, both) == values[1:3] + values[::2]).all()
        assert (get(target, total) == values[1:3].sum(0)).all()
    assert len(made[0].graphs) == 1


def test_writes_to_two_views_of_one_memory(target: Machine) -> None:
    def function(a: Any, b: Any) -> Any:
        a += 1
        b += 2
        return a.sum() + b.sum()

    call, _ = jitted(target, function)
    for _ in range(4):
        base = put(target, np.zeros(8))
        result = call(new_tensor(base._data[:4]), new_tensor(base._data[4:]))
        assert get(target, base).tolist() == [1.0] * 4 + [2.0] * 4 and get(target, result) == 12


def test_sizes_and_numbers_have_graphs_of_their_own(target: Machine) -> None:
    call, made = jitted(target, lambda x, a: x * a)
    for size in (3, 5, 3, 5, 3):
        assert (get(target, call(put(target, [1.0] * size), 2.0)) == 2).all()
    assert len(made[0].graphs) == 2
    for number in range(20):
        assert (get(target, call(put(target, [1.0] * 3), float(number))) == number).all()
    assert len(made[0].graphs) == MOST_KINDS and len(made) == 1


def test_what_needs_the_host_runs_plainly(target: Machine) -> None:
    def function(x: Any) -> Any:
        return x[x > 0] + 1

    call, made = jitted(target, function)
    x = np.array([[3.0, -1.0], [2.0, 5.0]], np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(get(target, call(put(target, x))), function(ej.tensor(x)).numpy())
    assert not made[-1].is_capturable
    assert target.library is None or replays(target) == 0


def test_tensors_of_the_host_run_plainly(target: Machine) -> None:
    call, made = jitted(target, lambda x: x * 2)
    for step in range(3):
        assert call(ej.full((4,), float(step))).tolist() == [2.0 * step] * 4
    assert not made[0].graphs


def test_another_parameter_is_read(target: Machine) -> None:
    weights = {"w": put(target, [1.0] * 3)}
    call, _ = jitted(target, lambda x: x + weights["w"])
    for step in range(8):
        if step in (3, 6):
            weights["w"] = put(target, [float(step)] * 3)
        expected = 1.0 + (0 if step < 3 else 2 if step < 6 else 5)
        assert (get(target, call(put(target, [0.0] * 3))) == expected).all()
