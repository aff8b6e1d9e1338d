"""The threads of NumPy's LAPACK: one for small matrices, as many as before afterwards."""

import threading

import numpy as np
import pytest

from eagerjit.runtime import lapack

threads = lapack._threads()
pytestmark = pytest.mark.skipif(threads is None, reason="NumPy brings no OpenBLAS")


@pytest.fixture(autouse=True)
def two():
    told, set_ = threads
    before = told()
    set_(2)
    yield
    set_(before)


def counted(*arguments):
    return threads[0]()


@pytest.mark.parametrize(
    ("shape", "expected"), [((3, 256, 256), 1), ((2, 257), 2), ((257, 2), 2), ((1000, 2, 2), 1), ((4,), 1)]
)
def test_sizes(shape, expected):
    assert lapack.on_few_threads(counted)(np.zeros(shape), True) == expected
    assert threads[0]() == 2


def test_errors_and_calls_within_calls():
    @lapack.on_few_threads
    def fails(matrix):
        assert lapack.on_few_threads(counted)(matrix) == counted() == 1
        return np.linalg.cholesky(-matrix)

    with pytest.raises(np.linalg.LinAlgError):
        fails(np.eye(2))
    assert threads[0]() == 2


def test_calls_of_several_threads():
    """The last call that ends puts the number back, whichever began first."""
    entered, leave = threading.Event(), threading.Event()
    waiting = threading.Thread(target=lapack.on_few_threads(lambda: (entered.set(), leave.wait())))
    waiting.start()
    entered.wait()
    lapack.on_few_threads(counted)()
    assert threads[0]() == 1
    leave.set()
    waiting.join()
    assert threads[0]() == 2
