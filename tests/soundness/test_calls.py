"""What a call does besides its result: gradients, writes, aliases, random numbers, side effects, errors."""

from __future__ import annotations

import threading
import warnings

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning, jit


def both(function, *makers):
    """What a function returns eagerly and jitted (twice), on fresh arguments."""
    jitted = jit(function)
    out = [function(*(m() for m in makers))]
    return [*out, *(jitted(*(m() for m in makers)) for _ in range(2))]


def refused(match):
    return pytest.warns(JitWarning, match=match)


def line_of(function, offset):
    return f"test_calls.py:{function.__code__.co_firstlineno + offset}"


# -- gradients ---------------------------------------------------------------------------------------------------------


def test_grad_accumulates_and_starts_from_none():
    w = torch.ones(2, requires_grad=True)

    @jit
    def step(x):
        (w * x).sum().backward()

    seen = []
    for value in (1.0, 2.0, 3.0):
        step(torch.full((2,), value))
        seen.append(w.grad.tolist()[0])
    w.grad = None
    step(torch.ones(2))
    kept = w.grad
    step(torch.ones(2))
    assert seen == [1.0, 3.0, 6.0]
    assert w.grad is kept and kept.tolist() == [2.0, 2.0]


def test_grad_set_to_none_inside():
    w = torch.ones(2, requires_grad=True)

    @jit
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    for value in (1.0, 2.0, 3.0):
        assert step(torch.full((2,), value)).tolist() == [value, value]
        assert w.grad.tolist() == [value, value]


def test_a_kept_grad_is_not_overwritten():
    w = torch.ones(2, requires_grad=True)

    @jit
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    step(torch.ones(2))
    first = w.grad
    step(torch.full((2,), 5.0))
    assert first.tolist() == [1.0, 1.0] and w.grad.tolist() == [5.0, 5.0]


def test_backward_outside_and_twice():
    w = torch.ones(3, requires_grad=True)
    f = jit(lambda x: (w * x).exp().sum())
    loss = f(torch.ones(3))
    loss.backward(retain_graph=True)
    first = w.grad.tolist()
    loss.backward()
    assert w.grad.tolist() == [2 * g for g in first]
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_an_input_written_before_backward_is_noticed():
    x = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    for function in (lambda x: (w * x).sum(), jit(lambda x: (w * x).sum())):
        loss = function(x)
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_second_derivatives():
    for function in (lambda x: (x**3).sum(), jit(lambda x: (x**3).sum())):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        (g,) = torch.grad(function(x), x, create_graph=True)
        g.sum().backward()
        assert x.grad.tolist() == [6.0, 12.0]


def test_a_detached_result_has_no_gradient():
    x = torch.ones(2, requires_grad=True)
    for out in both(lambda x: (x * 2).detach(), lambda: x):
        assert not out.requires_grad and out.grad_fn is None


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


def test_nested_structures():
    f = jit(lambda d, pair: {"a": [d["x"] + pair[0], (d["y"]["z"] * pair[1],)], "n": None, "s": "text"})
    out = f({"x": torch.ones(1), "y": {"z": torch.ones(2)}}, (1.0, 3))
    assert out["a"][0].tolist() == [2.0] and out["a"][1][0].tolist() == [3.0, 3.0]
    assert out["n"] is None and out["s"] == "text"
    assert type(out["a"]) is list and type(out["a"][1]) is tuple


def test_a_changed_structure():
    f = jit(lambda d: sum(d.values(), torch.zeros(1)))
    assert f({"a": torch.ones(1)}).item() == 1
    assert f({"a": torch.ones(1), "b": torch.ones(1)}).item() == 2
    assert f({"b": torch.full((1,), 5.0)}).item() == 5


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_new_numbers_and_sizes_compile_nothing():
    f = jit(lambda x, lr, k: (x * lr).sum() / x.shape[0] + k)
    for n, lr, k in ((3, 0.1, 2), (9, 0.5, 7), (1000, 1e-3, -1), (17, float("inf"), 0)):
        assert f(torch.ones(n), lr, k).item() == ((torch.ones(n) * lr).sum() / n + k).item()
    assert f.cache_info().compiles == 1 and f.cache_info().eager_calls == 0


def test_a_negative_zero_argument():
    f = jit(lambda x, k: x * k)
    assert str(f(torch.ones(1), 0.0).item()) == "0.0" and str(f(torch.ones(1), -0.0).item()) == "-0.0"


def test_ints_and_floats_promote_as_they_do():
    f = jit(lambda x, k: x + k)
    integers = torch.ones(2, dtype=torch.int64)
    assert f(integers, 2).dtype is torch.int64 and f(integers, 2.0).dtype is torch.float32
    assert f(integers, True).dtype is torch.int64
    assert f(integers, 2).tolist() == [3, 3]


def test_a_huge_int():
    f = jit(lambda x, k: x * k)
    for k in (3, 2**62, 5):
        assert f(torch.ones(1, dtype=torch.int64), k).item() == k


def test_decisions_on_numbers():
    f = jit(lambda x, k: x + 1 if k > 2 else x * 10)
    assert [f(torch.ones(1), k).item() for k in (3, 1, 5, 2)] == [2.0, 10.0, 2.0, 10.0]
    g = jit(lambda x, k: x + 1 if k > 0.5 else x * 10)
    assert [g(torch.ones(1), k).item() for k in (0.75, 0.25, 1.0, 0.5)] == [2.0, 10.0, 2.0, 10.0]


def test_loops_over_a_number():
    @jit
    def f(x, count):
        for _ in range(count):
            x = x * 2
        return x

    assert [f(torch.ones(1), n).item() for n in (3, 0, 1, 3, 5)] == [8.0, 1.0, 2.0, 8.0, 32.0]


# -- random numbers ----------------------------------------------------------------------------------------------------


def test_random_numbers_are_those_of_eager_calls():
    def f(x):
        return x + torch.rand(3), torch.randn(2, 2)

    results = []
    for function in (f, jit(f)):
        torch.manual_seed(0)
        results.append([[t.tolist() for t in function(torch.ones(3))] for _ in range(3)] + [torch.rand(2).tolist()])
    assert results[0] == results[1]
    assert results[0][0] != results[0][1]


# -- side effects ------------------------------------------------------------------------------------------------------


def test_print(capsys):
    def f(x):
        print("called")
        return x + 1

    g = jit(f)
    with refused("calls print"):
        g(torch.ones(1))
    g(torch.ones(1))
    assert capsys.readouterr().out == "called\n" * 2


def test_a_list_outside_grows():
    seen = []

    def f(x):
        seen.append(x.shape[0])
        return x + 1

    g = jit(f)
    with refused("append"):
        g(torch.ones(1))
    g(torch.ones(2))
    assert seen == [1, 2]


def test_a_list_of_an_object_grows():
    class Logger:
        def __init__(self):
            self.seen = []

        def call(self, x):
            self.seen.append(1)
            return x + 1

    logger = Logger()
    g = jit(logger.call)
    with refused("append"):
        g(torch.ones(1))
    g(torch.ones(1))
    assert logger.seen == [1, 1]


def test_a_list_argument_grows():
    def f(log, x):
        log.append(x.shape[0])
        return x + 1

    g, log = jit(f), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        for n in (1, 2, 3):
            g(log, torch.ones(n))
    assert log == [1, 2, 3]


def test_a_dictionary_argument_is_filled():
    def f(cache, x):
        cache["y"] = x + 1
        return x

    g = jit(f)
    for _ in range(2):
        cache = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)
            g(cache, torch.ones(1))
        assert cache["y"].tolist() == [2.0]


COUNTER = 0


def test_a_global_counter():
    def f(x):
        global COUNTER
        COUNTER += 1
        return x + COUNTER

    g = jit(f)
    with refused("COUNTER"):
        assert g(torch.ones(1)).item() == 2
    assert g(torch.ones(1)).item() == 3


def test_an_attribute_is_assigned():
    class Model:
        calls = 0

        def __call__(self, x):
            self.calls += 1
            return x * self.calls

    model = Model()
    g = jit(model)
    with refused("calls"):
        assert g(torch.ones(1)).item() == 1
    assert [g(torch.ones(1)).item() for _ in range(2)] == [2.0, 3.0]


def test_a_tensor_is_kept_outside():
    kept = {}

    def f(x):
        kept["y"] = x * 2
        return x + 1

    g = jit(f)
    for value in (1.0, 2.0, 3.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)
            g(torch.full((1,), value))
        assert kept["y"].item() == 2 * value


def test_local_lists_are_no_effect():
    @jit
    def f(x):
        parts = []
        for i in range(3):
            parts.append(x * i)
        return torch.stack(parts).sum()

    assert [f(torch.ones(2)).item() for _ in range(3)] == [6.0] * 3
    assert f.cache_info().compiles == 1


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


def test_an_index_out_of_range():
    g = jit(lambda x, i: x[i] * 2)
    assert g(torch.ones(3), torch.tensor([0, 2])).tolist() == [2.0, 2.0]
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            g(torch.ones(3), torch.tensor([0, 3]))
    assert g(torch.ones(3), torch.tensor([1])).tolist() == [2.0]


def test_an_error_of_the_users_own():
    @jit
    def f(x):
        if x.shape[0] > 2:
            raise KeyError("too long")
        return x + 1

    assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(KeyError, match="too long"):
        f(torch.ones(3))
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]


def test_caught_errors_choose_branches():
    @jit
    def f(x, y):
        try:
            return x + y
        except RuntimeError:
            return x * 0

    assert f(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]
    assert f(torch.ones(2), torch.ones(3)).tolist() == [0.0, 0.0]
    assert f(torch.ones(4), torch.ones(4)).tolist() == [2.0] * 4


def test_integer_division_by_zero():
    g = jit(lambda x, y: x // y)
    assert g(torch.tensor([7]), torch.tensor([2])).tolist() == [3]
    for function in (lambda x, y: x // y, g):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(torch.tensor([7]), torch.tensor([0]))


# -- looking at values -------------------------------------------------------------------------------------------------


def test_numpy_inside_runs_eagerly_with_one_warning():
    def f(x):
        return torch.tensor(x.numpy().max()) + x

    g = jit(f)
    with refused(line_of(f, 1)) as caught:
        for value in (1.0, 2.0, 3.0):
            assert g(torch.full((1,), value)).item() == 2 * value
    assert len(caught) == 1


def test_fullgraph_raises_at_the_line():
    def f(x):
        return torch.tensor(x.numpy().max()) + x

    with pytest.raises(RuntimeError, match=line_of(f, 1)):
        jit(f, fullgraph=True)(torch.ones(1))


@pytest.mark.filterwarnings("ignore::eagerjit.jit.JitWarning")
def test_truth_values_and_items():
    f = jit(lambda x: x + 1 if x.sum() > 0 else x - 1)
    assert [f(torch.full((2,), v)).tolist()[0] for v in (1.0, -1.0, 2.0, -2.0)] == [2.0, -2.0, 3.0, -3.0]
    g = jit(lambda x: x * x.sum().item())
    assert [g(torch.full((2,), v)).tolist()[0] for v in (1.0, 2.0, -3.0)] == [2.0, 8.0, 18.0]
    h = jit(lambda x: [i for i in range(int(x[0]))])
    assert [h(torch.tensor([n])) for n in (2, 0, 3)] == [[0, 1], [], [0, 1, 2]]


# -- calls of calls ----------------------------------------------------------------------------------------------------


def test_recursion():
    @jit
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1)

    assert [f(torch.ones(1), n).item() for n in (3, 0, 5)] == [8.0, 1.0, 32.0]


def test_nested_jit():
    inner = jit(lambda x: x * 3)
    outer = jit(lambda x: inner(x) + inner(x + 1))
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        x.grad = None
        out = outer(x)
        out.sum().backward()
        assert out.tolist() == [9.0, 9.0] and x.grad.tolist() == [6.0, 6.0]


def test_decorated_methods():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @jit
        def forward(self, x):
            return x * self.scale

    a, b = Model(2.0), Model(3.0)
    assert [m.forward(torch.ones(1)).item() for m in (a, b, a)] == [2.0, 3.0, 2.0]
    a.scale = 5.0
    assert [m.forward(torch.ones(1)).item() for m in (a, b)] == [5.0, 3.0]


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
