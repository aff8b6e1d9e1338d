"""Eager operators, served natively and in Python, with the autograd nodes they leave."""

from __future__ import annotations

import enum
import gc
import inspect
import math
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from program_tools import (
    EXECUTORS,
    F32,
    Custom,
    Node,
    Parameter,
    Storage,
    Tensor,
    adding,
    both,
    executable,
    fallback,
    pair,
    program,
    refuse,
    tensor,
)

from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.entry import OpCall, install_method
from eagerjit.runtime.program import Op

pytestmark = pytest.mark.usefixtures("classes")

# -- operators --------------------------------------------------------------------------------------------------------


def operator(executor: str, slow: Callable[..., Any] = fallback, **options: Any) -> Any:
    """input + other, served for two float32 vectors."""
    op_call = OpCall("add", slow, "the op", ("input", "other"), **options)
    assert op_call.insert(pair(1, 2), executable(executor, adding()))
    return op_call


@both
def test_operator_serves_arguments_of_the_same_classes(executor: str) -> None:
    add = operator(executor)
    assert add.__name__ == "add"
    assert add(*pair(1, 2))._data.tolist() == [3.0, 3.0]
    x, y = tensor(np.ones(1000, np.float32)), tensor(np.ones(1000, np.float32), kind=Parameter)
    assert add(x, y)._data.sum() == 2000
    others = [
        (tensor([1.0]), tensor([1.0])),
        (tensor([[1.0, 2.0]]), tensor([1.0, 2.0])),
        (tensor([1.0, 2.0], np.float64), tensor([1.0, 2.0])),
        (tensor([1.0, 2.0]), tensor([1.0, 2.0, 3.0])),
        (tensor(np.ones(6, np.float32)[::2]), tensor([1.0, 1.0, 1.0])),
        (tensor(np.ones((2,) * 5, np.float32)), x),
        (x, tensor([1.0, 2.0], kind=Custom)),
        (x, 1.0),
        (None, x),
        (x,),
        (x, y, x),
    ]
    for arguments in others:
        assert add(*arguments) == ("fallback", arguments, {}), arguments


@both
def test_operator_binds_names_and_defaults(executor: str) -> None:
    made = program(2, (Op.OUTPUT_LEAF, 0, 0), (Op.OUTPUT_LEAF, 1, 1), (Op.OUTPUT_OBJECT, 2, 0), outputs=3)
    empty = inspect.Parameter.empty
    call = OpCall("sum", fallback, None, ("input", "other", "dim", "mode"), (empty, empty, None, "mean"), record=False)
    x, y = pair(1, 2)
    assert call.insert((x, y, None, "mean"), executable(executor, made, ("default",)))
    assert call.insert((x, y, 1, "mean"), executable(executor, made, ("dim 1",)))
    assert call.insert((x, y, None, "sum"), executable(executor, made, ("mode sum",)))
    assert call(x, y) == call(x, y, None) == call(x, other=y) == call(other=y, input=x) == (x, y, "default")
    assert call(x, y, mode="mean") == call(x, y, dim=None) == call(x, y, None, "mean") == (x, y, "default")
    assert call(x, y, 1) == call(x, y, dim=1) == call(x, mode="mean", dim=1, other=y) == (x, y, "dim 1")
    assert call(x, y, mode="sum") == (x, y, "mode sum")
    for args, kwargs in [
        ((x,), {}),
        ((x, y, 2), {}),
        ((x, y, True), {}),
        ((x, y), {"axis": 1}),
        ((x, y), {"other": y}),
        ((x,), {"dim": 1}),
        ((x, y, None, "mean", 5), {}),
    ]:
        assert call(*args, **kwargs) == ("fallback", args, kwargs)


@both
def test_operator_takes_numbers_at_run_time(executor: str) -> None:
    call = OpCall("scale", fallback, None, ("input", "factor"), numbers=(1,), record=False)
    x = tensor([1.0, 2.0])
    for number in (1.0, 1):
        read = Op.READ_FLOAT if type(number) is float else Op.READ_INT
        made = program(2, (read, 1, 0), (Op.OUTPUT_OBJECT, 0, 0), (Op.OUTPUT_LEAF, 1, 1), outputs=2)
        assert call.insert((x, number), executable(executor, made, (read.name,)))
    assert call(x, 2.5) == ("READ_FLOAT", 2.5) and call(x, 10**6) == ("READ_INT", 10**6)
    assert call(x, 10**30)[0] == call(x, True)[0] == call(x, np.float64(1))[0] == call(x, None)[0] == "fallback"


@both
def test_operator_knows_lists_of_tensors_by_their_elements(executor: str) -> None:
    call = OpCall("first", fallback, "the op", ("tensors", "dim"), (inspect.Parameter.empty, 0))
    x, y = pair(1, 2)
    assert call.insert(([x, y], 0), executable(executor, program(2, (Op.OUTPUT_LEAF, 0, 1))))
    assert call([x, y]) is call((x, y)) is call(tensors=[x, y], dim=0) is y and call([y, x]) is x
    vector, matrix = tensor(np.ones(7, np.float32)), tensor(np.ones((2, 2), np.float32))
    assert call([x, vector]) is vector
    for tensors in ([x], [x, y, x], [x, matrix], [x, 1.0], [], [[x, y]], [x, tensor([1.0, 2.0], kind=Custom)]):
        assert call(tensors) == ("fallback", (tensors,), {}), tensors


@both
def test_operator_takes_sizes_at_run_time(executor: str) -> None:
    call = OpCall("sized", fallback, None, ("shape", "dtype"), record=False, shapes=(0,))
    reads = (Op.READ_INT, 0, 0), (Op.READ_INT, 1, 1)
    made = program(2, *reads, (Op.OUTPUT_LEAF, 0, 1), (Op.OUTPUT_LEAF, 1, 0), outputs=2)
    assert call.insert(((3, 1, 4), None), executable(executor, made))
    assert call((3, 1, 4), None) == (4, 3) and call([70, 1, 900], None) == (900, 70)
    for shape in ((3, 4, 1), (3, 1), (3, 1, 4, 1), (3, 0, 4), (3, 1, 4.0), (3, True, 4), (3, 1, -4), (3, 1, 2**70), 3):
        assert call(shape, None) == ("fallback", (shape, None), {}), shape


@both
def test_node_of_a_list_keeps_what_was_in_it(executor: str) -> None:
    x, y = pair(1, 2)
    call = OpCall("cat", fallback, "the op", ("tensors",))
    assert call.insert(([x, y],), executable(executor, program(2, (Op.OUTPUT, 0, dtypes.float32.code, 0, 0))))
    y._requires_grad = True
    tensors = [x, y]
    made = call(tensors)
    tensors.append(x)
    assert made._requires_grad is True and made._node.inputs == ((x, y),)


@both
def test_operator_refuses_what_it_cannot_know_again(executor: str) -> None:
    x = tensor([1.0, 2.0])
    call = OpCall("op", fallback, None, ("input", "how"), (inspect.Parameter.empty, 1e-300))
    one = executable(executor, program(1, (Op.OUTPUT_LEAF, 0, 0)))
    two = executable(executor, program(2, (Op.OUTPUT_LEAF, 0, 0)))
    for argument in (
        ["a"],
        (1, "a"),
        (1, 1e100),
        ((1,),),
        1e100,
        10**30,
        np.float64(0.5),
        np.int64(1),
        object(),
        x._data,
        tensor([1.0], kind=Custom),
    ):
        assert not call.insert((x, argument), one), argument
    assert not call.insert((x, None), two) and not call.insert((x,), one)
    assert not call.insert((tensor(np.ones((1,) * 5, np.float32)), None), one)
    for argument in (None, True, "text", 7, dtypes.float32, pair := (300, 1)):
        assert call.insert((x, argument), one)
    assert call(x, pair) is call(x, (300, 1)) is call(x, [300, 1]) is x, "tuples of ints are known by their value"
    assert call(x, (300, 2))[0] == call(x, (300, True))[0] == call(x, (300.0, 1))[0] == "fallback"
    assert call.insert((x, (300, True)), one) and call(x, [300, True]) is x and call(x, (300.0, True))[0] == "fallback"
    assert call.insert((x, (0.5, None, True, -0.0)), one) and call(x, [0.5, None, True, -0.0]) is x
    assert call(x, (0.5, None, True, 0.0))[0] == call(x, (0.5, None, 1, -0.0))[0] == "fallback"
    assert not call.insert((x, float("1e-300")), one)
    assert call(x) == ("fallback", (x,), {}) and call(x, True) is x and call(x, dtypes.float32) is x
    assert call.insert((x, call.defaults[1]), one) and call(x) is x


@both
def test_operator_knows_numbers_by_type_and_value(executor: str) -> None:
    x = tensor([1.0, 2.0])
    texts = ["0.0", "-0.0", "1.0", "-1.0", "1e-05", "0.1", "-1e9", "3.4028234663852886e+38", "1.5e-76", "5.7e76"]
    texts += ["inf", "-inf", "nan", "-nan", "0", "1", "-1", "255", "1000", "-100", str(2**60 - 1), str(-(2**60))]

    def number(text: str) -> int | float:
        return float(text) if set(text) & set(".enf") else int(text)

    call = OpCall("op", fallback, None, ("input", "how"), record=False)
    for text in texts:
        made = program(1, (Op.OUTPUT_OBJECT, 0, 0))
        assert call.insert((x, number(text)), executable(executor, made, (text,))), text
    assert [call(x, number(text)) for text in texts] == texts
    others = [
        True,
        False,
        2.0,
        math.nextafter(0.1, 1),
        1e-5 * (1 + 2e-16),
        2**60,
        -(2**60) - 1,
        5e-324,
        1.5e-77,
        2.0**256,
    ]
    others += [np.float64(1.0), np.int64(1), enum.IntEnum("Kind", "ONE")["ONE"], None]
    for other in others:
        assert call(x, other) == ("fallback", (x, other), {}), other


@both
def test_operator_has_bounded_memory(executor: str) -> None:
    x = tensor([1.0, 2.0])
    call = OpCall("op", fallback, None, ("input", "how"))
    made = executable(executor, program(1, (Op.OUTPUT_LEAF, 0, 0)))
    served = [call.insert((x, f"text {i}"), made) for i in range(600)]
    assert served[0] and not served[-1] and sum(served) == 512


@both
def test_operator_tries_all_executables_of_a_key(executor: str) -> None:
    call = OpCall("op", fallback, None, ("input", "n"), numbers=(1,), record=False)
    x = tensor([1.0, 2.0])
    for n in (3, 4, 5):
        steps = (Op.READ_INT, 1, 0), (Op.CHECK_CONST, 0, n), (Op.OUTPUT_OBJECT, 0, 0)
        assert call.insert((x, n), executable(executor, program(2, *steps), (f"n is {n}",)))
    assert [call(x, n) for n in (3, 4, 5)] == ["n is 3", "n is 4", "n is 5"]
    assert call(x, 6) == ("fallback", (x, 6), {})
    call.clear()
    assert call(x, 3) == ("fallback", (x, 3), {})


@both
def test_operator_with_many_keys(executor: str) -> None:
    call = OpCall("op", fallback, None, ("input", "other"), record=False)
    shapes = [(), (0,), (1,), (2,), (1, 2), (2, 1), (2, 2), (0, 2), (1, 1), (2, 2, 2), (2, 1, 2, 1)]
    arguments = {
        (shape, dtype): tensor(np.ones(shape, dtype.numpy)) for shape in shapes for dtype in dtypes.ALL
    }  # fmt: skip
    x = tensor([1.0, 2.0])
    for key, argument in arguments.items():
        made = program(2, (Op.OUTPUT_OBJECT, 0, 0))
        assert call.insert((x, argument), executable(executor, made, (key,)))
    for key, argument in arguments.items():
        assert call(x, argument) == key
        assert call(argument, x)[0] == "fallback" or argument._data.shape == (2,)


@both
def test_operator_as_methods(executor: str) -> None:
    class Child(Tensor):
        __slots__ = ()

    add = operator(executor, lambda a, b: NotImplemented)
    install_method(Child, "__add__", add)
    install_method(Child, "add", add)
    subtract = OpCall("sub", lambda a, b: ("slow", a, b), None, ("input", "other"), numbers=(0,), reflected=True)
    made = program(2, (Op.OUTPUT_LEAF, 0, 0), (Op.OUTPUT_LEAF, 1, 1), outputs=2)
    x = tensor([1.0, 2.0], kind=Child)
    assert (x.add)(5) is NotImplemented
    with pytest.raises(TypeError):
        x + 5
    y, z = pair(1, 2)
    assert add(y, z)._data.tolist() == [3.0, 3.0] and Child.add is add
    assert Child.add.__get__(y)(z)._data.tolist() == [3.0, 3.0]
    install_method(Child, "__rsub__", subtract)
    assert 2.0 - x == ("slow", 2.0, x)
    assert subtract.insert((2.0, y), executable(executor, made))
    assert subtract(y, 3.0) == (3.0, y)
    assert subtract(y, "text") == ("slow", "text", y)
    assert 2.0 - x == ("slow", 2.0, x)


@both
def test_reflection(executor: str) -> None:
    call = operator(executor, numbers=(0, 1))
    reflected = call.reflection()
    x = tensor([1.0, 2.0])
    assert reflected(x, 2.0) == ("fallback", (2.0, x), {})
    made = program(2, (Op.OUTPUT_LEAF, 0, 0), (Op.OUTPUT_LEAF, 1, 1), outputs=2)
    assert reflected.insert((2.0, x), executable(executor, made)) and reflected(x, 7.0) == (7.0, x)
    assert call(x, 2.0) == ("fallback", (x, 2.0), {})


@both
def test_operator_that_writes_leaves_views_to_python(executor: str) -> None:
    add = operator(executor, record=False, writes=True)
    x, y = pair(1, 2)
    assert add(x, y)._data.tolist() == [3.0, 3.0]
    y._view = object()
    assert add(x, other=y)._data.tolist() == [3.0, 3.0]
    assert add(y, x) == ("fallback", (y, x), {}) and add(1.0, y) == ("fallback", (1.0, y), {})


@both
def test_operator_leaves_traces_to_python(executor: str) -> None:
    add = operator(executor)
    x, y = pair(1, 2)
    mode.set_tracing(True)
    try:
        assert add(x, y) == ("fallback", (x, y), {})
    finally:
        mode.set_tracing(False)
    assert type(add(x, y)) is Tensor


@both
def test_operator_propagates_exceptions(executor: str) -> None:
    add = operator(executor, refuse)
    with pytest.raises(LookupError, match="nothing serves"):
        add(1, 2)
    with pytest.raises(LookupError, match="nothing serves"):
        add(1, key=2)


# -- recording --------------------------------------------------------------------------------------------------------


@both
def test_results_are_recorded(executor: str) -> None:
    call = OpCall("add", fallback, "the op", ("input", "other", "alpha"), (inspect.Parameter.empty,) * 2 + (1,))
    x, y = pair(1, 2)
    call.insert((x, y, 1), executable(executor, adding()))
    assert call(x, y)._node is None
    x._requires_grad = True
    before = mode.next_sequence()
    first, second = call(x, y), call(y, other=x)
    for result, inputs, sequence in ((first, (x, y, 1), before + 1), (second, (y, x, 1), before + 2)):
        node = result._node
        assert type(node) is Node and result._index == 0 and result._requires_grad is True
        assert (node.op, node.sequence, node.versions, node.other) == ("the op", sequence, None, None)
        assert node.inputs == inputs and type(node.inputs) is tuple and node.output is result._data
    assert mode.next_sequence() == before + 3


@both
def test_recording_notes_versions(executor: str) -> None:
    add = operator(executor)
    x, y = tensor([1.0, 2.0], grad=True), tensor([3.0, 4.0])
    y._storage = Storage()
    y._storage.version = 7
    assert add(x, y)._node.versions == (0, 7) and add(y, x)._node.versions == (7, 0)


@both
def test_recording_is_off_in_no_grad(executor: str) -> None:
    add = operator(executor)
    x, y = tensor([1.0, 2.0], grad=True), tensor([3.0, 4.0])
    results: list[Any] = []
    mode.set_grad_mode(False)
    try:
        assert add(x, y)._node is None and add(x, y)._requires_grad is False
        thread = threading.Thread(target=lambda: results.append(add(x, y)))
        thread.start()
        thread.join()
    finally:
        mode.set_grad_mode(True)
    assert type(results[0]._node) is Node and type(add(x, y)._node) is Node
    silent = operator(executor, record=False)
    assert silent(x, y)._node is None


@both
def test_integers_have_no_gradient(executor: str) -> None:
    x = tensor([1.0, 2.0], grad=True)
    for dtype in dtypes.ALL:
        call = OpCall("cast", fallback, None, ("input",))
        steps = (Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0), (Op.OUTPUT, 0, dtype.code, 1, 2, 1)
        call.insert((x,), executable(executor, program(1, *steps)))
        result = call(x)
        assert (result._node is not None) == result._requires_grad == dtype.is_floating_point


@both
def test_several_results_share_a_node(executor: str) -> None:
    x = tensor([1.0, 2.0], grad=True)
    steps = [(Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0)]
    kinds = (dtypes.float32, dtypes.int64, dtypes.float64)
    steps += [(Op.OUTPUT, i, dtype.code, 1, 2, 1) for i, dtype in enumerate(kinds)]
    call = OpCall("sort", fallback, "the op", ("input",))
    call.insert((x,), executable(executor, program(1, *steps, outputs=3)))
    a, b, c = call(x)
    assert a._node is c._node is not None and (a._index, c._index) == (0, 2)
    assert b._node is None and b._requires_grad is False and a._requires_grad is c._requires_grad is True
    assert [id(array) for array in a._node.output] == [id(result._data) for result in (a, b, c)]


# -- many calls -------------------------------------------------------------------------------------------------------


@both
def test_references_balance(executor: str) -> None:
    add = operator(executor)
    keyed = OpCall("add", fallback, "the op", ("input", "other", "how"), (inspect.Parameter.empty,) * 2 + ("plain",))
    x, y = tensor([1.0, 2.0], grad=True), tensor([3.0, 4.0])
    y._storage = Storage()
    keyed.insert((x, y, "plain"), executable(executor, adding()))

    def calls() -> None:
        add(x, y)
        add(x, None)
        add(other=y, input=x)
        keyed(x, y)
        keyed(x, y, how="plain")
        keyed(x, y, "other")

    own = (x, x._data, y, y._data, y._storage, add, keyed)
    # Others in the process hold and release these: a reference lost or kept by every call is 2000.
    shared = (fallback, Tensor, Node, "plain", "the op", None, True, False, 0)
    calls()
    gc.collect()
    before = [[sys.getrefcount(thing) for thing in things] for things in (own, shared)]
    for _ in range(2000):
        calls()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in own] == before[0]
    assert all(abs(sys.getrefcount(thing) - count) < 300 for thing, count in zip(shared, before[1], strict=True))


def test_random_calls_agree_with_python() -> None:
    """Native and Python operators with the same entries, called with the same 100000 random arguments."""
    pool: list[Any] = [tensor(np.ones(s, kind)) for s in ((), (0,), (1,), (2, 2)) for kind in (np.float32, np.int64)]
    pool += [tensor(np.ones((3, 2), np.float32).T), tensor([1.0, 2.0], kind=Custom)]
    pool += [None, True, 1, 2.5, 0.0, -0.0, 10**9, "text", (1,), []]
    rng = random.Random(0)
    parameters, defaults = ("a", "b", "c"), (inspect.Parameter.empty, None, "text")
    calls = {e: OpCall(e, lambda *a, **k: ("slow", a, k), None, parameters, defaults, (1,)) for e in EXECUTORS}
    known: list[tuple[Any, ...]] = []
    for i in range(300):
        arguments = tuple(rng.choice(pool) for _ in parameters)
        kinds = [
            type(a) in (Tensor, Parameter) or (j == 1 and type(a) in (int, float)) for j, a in enumerate(arguments)
        ]
        leaves = [(Op.OUTPUT_LEAF, j + 1, j) for j in range(sum(kinds))]
        made = program(sum(kinds), (Op.OUTPUT_OBJECT, 0, 0), *leaves, outputs=len(leaves) + 1)
        served = {call.insert(arguments, executable(name, made, (i,))) for name, call in calls.items()}
        assert len(served) == 1
        known += [arguments] if served.pop() else []
    hits = 0
    for _ in range(100_000):
        arguments = tuple(rng.choices(pool, k=rng.choice((1, 2, 3, 4))))
        if rng.random() < 0.5:
            arguments = rng.choice(known)[: rng.choice((1, 2, 3))]
        keywords = {name: rng.choice(pool) for name in rng.sample((*parameters, "d"), k=rng.choice((0, 0, 0, 1, 2)))}
        native, python = (calls[name](*arguments, **keywords) for name in ("native", "python"))
        assert native == python
        hits += type(native) is int or native[0] != "slow"  # one output, the constant, where nothing is a leaf
    assert 10_000 < hits < 90_000


def test_threads_call_an_operator_while_it_grows() -> None:
    add = operator("native", lambda a, b: tensor(a._data + b._data))
    x, y = pair(1, 2)
    stop = threading.Event()
    results: list[Any] = []

    def work() -> None:
        while not stop.is_set():
            result = add(x, y)._data.tolist()
            if result != [3.0, 3.0] or not results:
                results.append(result)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(300):
        shape = [(1,), (2, 2), (1, 2), (2, 1), (2, 2, 2), (1, 2, 2)][i % 6]
        add.insert((x, tensor(np.ones(shape, np.float32))), executable("native", adding()))
        if i % 50 == 49:
            add.clear()
            add.insert((x, y), executable("native", adding()))
    stop.set()
    for thread in threads:
        thread.join()
    assert results and all(result == [3.0, 3.0] for result in results)
