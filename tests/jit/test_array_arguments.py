"""NumPy's arrays as arguments of jitted functions, in calls that native code serves."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.jit import JitFunction, JitWarning
from eagerjit.runtime import layout


@pytest.fixture
def added() -> JitFunction:
    if not layout.ready():
        pytest.skip("there is no native runtime here")
    return torch.jit(lambda x, array: x + torch.from_numpy(array))


def calls_of_python(function: JitFunction) -> int:
    """Calls that native code did not serve."""
    info = function.cache_info()
    return info.hits + info.compiles + info.eager_calls


def test_native_code_makes_the_tensors(added: JitFunction) -> None:
    added(torch.ones(3), np.ones(3, np.float32))
    before = calls_of_python(added)
    for n in (2, 5, 9):
        array = np.arange(n, dtype=np.float32)
        assert added(torch.ones(n), array).tolist() == (array + 1).tolist()
    assert calls_of_python(added) == before


def test_references_are_given_up(added: JitFunction) -> None:
    arrays, x = [np.ones(3, kind) for kind in (np.float32, np.float64, np.int64)], torch.ones(3)
    for array in arrays:
        added(x, array)
    before = list(map(sys.getrefcount, arrays))
    for _ in range(100):  # the guards of the first versions do not hold for the last array
        for array in arrays:
            added(x, array)
    assert list(map(sys.getrefcount, arrays)) == before


def test_a_tensor_is_no_array_and_an_array_no_tensor(added: JitFunction) -> None:
    x, array = torch.ones(3), np.ones(3, np.float32)
    kind = torch.jit(lambda a, b: (type(a) is np.ndarray, type(b) is np.ndarray))
    expected = {(0, 1): (False, True), (1, 0): (True, False), (0, 0): (False, False), (1, 1): (True, True)}
    for _ in range(2):
        for (i, j), result in expected.items():
            assert kind((x, array)[i], (x * 1, array.copy())[j]) == result


def test_one_array_in_two_places(added: JitFunction) -> None:
    same = torch.jit(lambda a, b: (a is b, torch.from_numpy(a).add_(1).sum() + torch.from_numpy(b).sum()))
    a, b = np.zeros(2), np.zeros(2)
    for _ in range(3):
        assert not same(a, b)[0]
        assert same(a, a)[0]
    assert a.tolist() == [6.0, 6.0] and b.tolist() == [0.0, 0.0]


def test_an_argument_that_is_returned_is_the_array(added: JitFunction) -> None:
    given = torch.jit(lambda array, x: (array, x + 1))
    array = np.ones(2)
    for _ in range(3):
        assert given(array, torch.ones(2))[0] is array


def test_arrays_that_native_code_does_not_take(added: JitFunction) -> None:
    x, wide = torch.ones(3), np.arange(6, dtype=np.float32)
    for _ in range(2):
        assert added(x, wide[:3]).tolist() == [1.0, 2.0, 3.0]
        assert added(x, wide[::2]).tolist() == [1.0, 3.0, 5.0]
        frozen = wide[:3].copy()
        frozen.flags.writeable = False
        assert added(x, frozen).tolist() == [1.0, 2.0, 3.0]
    with pytest.warns(JitWarning), pytest.raises(ValueError, match="stride"):
        added(x, wide[2::-1])


def test_threads_with_arrays_of_their_own(added: JitFunction) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        array, x = np.full(64, float(number), np.float32), torch.ones(64)
        for _ in range(300):
            if added(x, array).tolist() != [number + 1.0] * 64:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
