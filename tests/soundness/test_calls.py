"""What a call does besides its result: gradients, writes, aliases, random numbers, side effects, errors."""

from __future__ import annotations

import threading
import warnings

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning, jit


def refused(match):
    return pytest.warns(JitWarning, match=match)


def line_of(function, offset):
    return f"test_calls.py:{function.__code__.co_firstlineno + offset}"


# -- gradients ---------------------------------------------------------------------------------------------------------


def test_an_input_written_before_backward_is_noticed():
    x = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    for function in (lambda x: (w * x).sum(), jit(lambda x: (w * x).sum())):
        loss = function(x)
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


# -- writes and aliases ------------------------------------------------------------------------------------------------


def test_an_argument_is_written():
    def f(x):
        x.mul_(2)
        x[0] = 7
        return x

    for function in (f, jit(f), jit(f)):
        x = torch.ones(3)
        assert function(x) is x and x.tolist() == [7.0, 2.0, 2.0]


def test_a_view_of_a_captured_tensor_is_written():
    base = torch.zeros(2, 3)
    row = base[1]

    def f(x):
        row.add_(x)
        return base.sum()

    g = jit(f)
    for count in range(1, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)
            assert g(torch.ones(3)).item() == 3 * count
        assert base.tolist() == [[0.0] * 3, [float(count)] * 3]


def test_a_counter_in_a_captured_tensor():
    count = torch.zeros((), dtype=torch.int64)

    @jit
    def f(x):
        count.add_(1)
        return x * count

    assert [f(torch.ones(1)).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert count.item() == 4


def test_the_same_tensor_twice():
    def f(x, y):
        x.add_(1)
        return x * y

    g = jit(f)
    for _ in range(2):
        a, b = torch.ones(3), torch.ones(3)
        assert g(a, b).tolist() == f(torch.ones(3), torch.ones(3)).tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)
            assert g(a, a).tolist() == [9.0] * 3
        assert a.tolist() == [3.0] * 3


def test_a_view_and_its_base():
    def f(x, y):
        x.zero_()
        return y + 1

    g = jit(f)
    g(torch.ones(3), torch.ones(3))
    base = torch.ones(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        assert g(base, base[1:]).tolist() == [1.0] * 3
        assert g(base[1:], base + 1).tolist() == [2.0] * 4


def test_returned_views_share_memory():
    def f(x):
        y = x + 1
        return y, y.t(), y[0], x.reshape(-1), x[1:]

    for function in (f, jit(f), jit(f)):
        x = torch.zeros(2, 2)
        y, transposed, row, flat, rest = function(x)
        y.zero_()
        x.fill_(5)
        assert transposed.tolist() == [[0.0, 0.0], [0.0, 0.0]] and row.tolist() == [0.0, 0.0]
        assert flat.tolist() == [5.0] * 4 and rest.tolist() == [[5.0, 5.0]]


def test_a_returned_view_of_a_written_argument():
    def f(x):
        rows = x[1:]
        x.add_(1)
        return rows

    for function in (f, jit(f), jit(f)):
        x = torch.zeros(3)
        rows = function(x)
        assert rows.tolist() == [1.0, 1.0]
        x.fill_(4)
        assert rows.tolist() == [4.0, 4.0]


def test_one_tensor_returned_twice():
    def f(x):
        y = x * 2
        return y, {"again": y, "input": x}

    for function in (f, jit(f), jit(f)):
        x = torch.ones(2)
        y, rest = function(x)
        assert rest["again"] is y and rest["input"] is x


def test_results_of_calls_are_apart():
    f = jit(lambda x: x + 1)
    a = f(torch.zeros(4))
    b = f(torch.ones(4))
    assert a.tolist() == [1.0] * 4 and b.tolist() == [2.0] * 4


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_a_huge_int():
    f = jit(lambda x, k: x * k)
    for k in (3, 2**62, 5):
        assert f(torch.ones(1, dtype=torch.int64), k).item() == k


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_shape_mismatch_is_the_eager_error():
    def f(x, y):
        return x @ y

    g = jit(f)
    assert g(torch.ones(2, 3), torch.ones(3, 2)).shape == (2, 2)
    for function in (f, g):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(2x3 and 2x2\)"):
                function(torch.ones(2, 3), torch.ones(2, 2))
    assert g(torch.ones(4, 3), torch.ones(3, 2)).shape == (4, 2)
    assert g.cache_info().eager_calls == 0


def test_an_error_at_the_first_call_is_no_refusal():
    g = jit(lambda x, y: x + y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="must match the size"):
            g(torch.ones(2), torch.ones(3))
        assert g(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]
    assert g.cache_info().compiles == 1


# -- looking at values -------------------------------------------------------------------------------------------------


def test_memory_given_away_runs_eagerly_with_one_warning():
    def f(x):
        return x + (x.data_ptr() > 0)

    g = jit(f)
    with refused(line_of(f, 1)) as caught:
        for value in (1.0, 2.0, 3.0):
            assert g(torch.full((1,), value)).item() == value + 1
    assert len(caught) == 1


def test_fullgraph_raises_at_the_line():
    def f(x):
        return x + (x.data_ptr() > 0)

    with pytest.raises(RuntimeError, match=line_of(f, 1)):
        jit(f, fullgraph=True)(torch.ones(1))


# -- calls of calls ----------------------------------------------------------------------------------------------------


def test_threads():
    f = jit(lambda x, k: (x * k).exp().sum() + x.shape[0])
    expected = {n: ((torch.ones(n) * 0.5).exp().sum() + n).item() for n in range(2, 20)}
    wrong = []

    def work():
        for n in list(range(2, 20)) * 5:
            if f(torch.ones(n), 0.5).item() != expected[n]:
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_range_as_an_index_out_of_range():
    @jit
    def f(t, places, n):
        return t[range(n), places]

    t = torch.arange(16.0).reshape(4, 4)
    for n in (2, 4):
        assert f(t, torch.arange(n), n).tolist() == [5.0 * i for i in range(n)]
    with pytest.raises(IndexError, match="out of range"):
        f(t, torch.zeros(5, dtype=torch.int64), 5)
    assert f.cache_info().compiles == 1 and not f.cache_info().eager_calls
