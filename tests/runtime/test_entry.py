"""Jitted functions, entered natively and in Python."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from program_tools import Tensor, adding, both, executable, fallback, pair, program, refuse

from eagerjit.runtime import mode
from eagerjit.runtime.function import Function
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.runtime.program import HostCall, Op

pytestmark = pytest.mark.usefixtures("classes")

# -- functions --------------------------------------------------------------------------------------------------------


def added(executor: str, fall_back: Callable[..., Any] = fallback) -> Any:
    function = Function(fall_back)
    function.insert(executable(executor, adding()))
    return function


@both
def test_function_serves_flat_calls(executor: str) -> None:
    function = added(executor)
    x, y = pair(1, 2)
    assert function(x, y)._data.tolist() == [3.0, 3.0]
    assert function(x, 5) == ("fallback", (x, 5), {})
    assert function(x) == ("fallback", (x,), {})
    assert function() == ("fallback", (), {})
    assert function(x, y, x) == ("fallback", (x, y, x), {})
    assert function(x, other=y) == ("fallback", (x,), {"other": y})
    assert function(x, y, flag=1) == ("fallback", (x, y), {"flag": 1})
    assert function(*[x, y], **{})._data.tolist() == [3.0, 3.0]


@both
def test_function_without_entries(executor: str) -> None:
    function = Function(fallback)
    assert function(1) == ("fallback", (1,), {})
    function.insert(executable(executor, adding()))
    x, y = pair(1, 2)
    assert type(function(x, y)) is Tensor
    function.clear()
    assert function(x, y) == ("fallback", (x, y), {}) and function.executables == []
    function.fallback = refuse
    with pytest.raises(LookupError, match="nothing serves"):
        function(x, y)


@both
def test_function_tries_entries_in_order(executor: str) -> None:
    function = Function(fallback)
    for kind, name in ((int, "int"), (str, "str"), (object, "never"), (str, "too late")):
        made = program(1, (Op.TYPE_IS, 0, 0), (Op.OUTPUT_OBJECT, 0, 1))
        function.insert(executable(executor, made, (kind, name)))
    function.insert(executable(executor, program(2, (Op.OUTPUT_LEAF, 0, 1))))
    assert [function(1), function("a"), function(1, 2), function(2.5)[0]] == ["int", "str", 2, "fallback"]
    assert len(function.executables) == 5


@both
def test_function_finishes_results(executor: str) -> None:
    function = Function(fallback)
    single = executable(executor, program(1, (Op.OUTPUT_LEAF, 0, 0)))
    double = executable(executor, program(2, (Op.OUTPUT_LEAF, 0, 0), (Op.OUTPUT_LEAF, 1, 1), outputs=2))
    none = executable(executor, program(3, outputs=0))
    function.insert(single, lambda flat: {"result": flat})
    function.insert(double, lambda flat: list(flat))
    function.insert(none)
    assert function("a") == {"result": ("a",)}
    assert function("a", "b") == ["a", "b"]
    assert function(1, 2, 3) == ()
    function.insert(executable(executor, program(4, (Op.OUTPUT_LEAF, 0, 3))), lambda *both: both, with_arguments=True)
    assert function(1, 2, 3, 4) == ((4,), (1, 2, 3, 4))
    function.clear()
    function.insert(double)
    assert function("a", "b") == ("a", "b")


@both
def test_function_propagates_exceptions(executor: str) -> None:
    function = added(executor, refuse)
    with pytest.raises(LookupError, match="nothing serves"):
        function(1, 2)

    def broken(flat: tuple[Any, ...]) -> Any:
        raise ArithmeticError("in finish")

    function.clear()
    function.insert(executable(executor, adding()), broken)
    with pytest.raises(ArithmeticError, match="in finish"):
        function(*pair(1, 2))


@both
def test_function_leaves_traces_to_python(executor: str) -> None:
    function = added(executor)
    x, y = pair(1, 2)
    seen: list[Any] = []
    mode.set_tracing(True)
    try:
        assert function(x, y) == ("fallback", (x, y), {})
        thread = threading.Thread(target=lambda: seen.append(function(x, y)))
        thread.start()
        thread.join()
    finally:
        mode.set_tracing(False)
    assert type(seen[0]) is Tensor and type(function(x, y)) is Tensor


@both
def test_function_is_like_a_function(executor: str) -> None:
    def original(x: Any, y: Any) -> Any:
        """Adds."""

    function = added(executor)
    functools.update_wrapper(function, original)
    assert (function.__name__, function.__doc__, function.__wrapped__) == ("original", "Adds.", original)
    assert inspect.signature(function) == inspect.signature(original)
    function.note = 5
    assert function.note == 5 and vars(function)["note"] == 5
    assert copy.deepcopy([function])[0] is function and copy.copy(function) is function
    assert weakref.ref(function)() is function and isinstance(function, Function) and callable(function)
    assert hash(function) == hash(function) and function == function and function != added(executor)


@both
def test_function_binds_as_a_method(executor: str) -> None:
    made = program(2, (Op.OUTPUT_LEAF, 0, 0), (Op.OUTPUT_LEAF, 1, 1), outputs=2)
    function = Function(fallback)
    function.insert(executable(executor, made))

    class Owner:
        method = function

    owner = Owner()
    bound_method = owner.method
    assert owner.method(1) == bound_method(1) == (owner, 1)
    assert bound_method.__self__ is owner and bound_method.__func__ is function and Owner.method is function
    assert owner.method(1, 2) == ("fallback", (owner, 1, 2), {})
    assert owner.method(1, key=2) == ("fallback", (owner, 1), {"key": 2})


@both
def test_methods_can_be_added_to_the_class(executor: str) -> None:
    function = added(executor)
    Function.explain = lambda self, word: (self, word)  # type: ignore[attr-defined]
    try:
        assert function.explain("why") == (function, "why")
    finally:
        del Function.explain  # type: ignore[attr-defined]


@both
def test_function_may_change_while_it_runs(executor: str) -> None:
    function = Function(fallback)

    def test_replace() -> tuple[()]:
        function.clear()
        gc.collect()
        function.insert(executable(executor, program(1, (Op.OUTPUT_OBJECT, 0, 0)), ("new",)))
        return ()

    FUNCTIONS["test_replace"] = test_replace
    first = program(1, (Op.CALL, 0, 0), (Op.TYPE_IS, 0, 0), (Op.OUTPUT_LEAF, 0, 0))
    first.calls = [HostCall("test_replace", (), ())]
    function.insert(executable(executor, first, (str,)))
    assert function("a") == "a" and function("a") == "new"
    function.clear()
    function.insert(executable(executor, first, (str,)))
    assert function(1) in ("new", ("fallback", (1,), {}))


@both
def test_functions_are_collected(executor: str) -> None:
    function = added(executor)
    function.cycle = function
    function.fallback = functools.partial(fallback, function)
    reference = weakref.ref(function)
    del function
    gc.collect()
    assert reference() is None


@both
def test_subclasses_stay_themselves(executor: str) -> None:
    class Jitted(Function):
        __slots__ = ("extra",)

        def __init__(self) -> None:
            super().__init__(self.traced)
            self.extra = "extra"

        def traced(self, *args: Any) -> Any:
            return self.extra, args

    function = Jitted()
    function.insert(executable(executor, adding()))
    assert isinstance(function, Jitted) and type(function(*pair(1, 2))) is Tensor
    assert function(1) == ("extra", (1,)) and function.extra == "extra" and repr(function).count("Jitted") == 1
    reference = weakref.ref(function)
    del function
    gc.collect()
    assert reference() is None


def test_a_python_executable_keeps_a_function_in_python() -> None:
    function = added("native")
    function.insert(executable("python", program(1, (Op.OUTPUT_LEAF, 0, 0))))
    x, y = pair(1, 2)
    assert type(function(x, y)) is Tensor and function("a") == "a"


def test_recursion_through_the_fallback_ends() -> None:
    function = added("native")
    function.fallback = lambda *args: function(*args)
    with pytest.raises(RecursionError):
        function(1)


@both
def test_references_balance(executor: str) -> None:
    function, finishing = added(executor), Function(fallback)
    finishing.insert(executable(executor, adding()), lambda *given: given, with_arguments=True)
    x, y = pair(1, 2)

    def calls() -> None:
        function(x, y)
        function(x, 1)
        function(x, key=y)
        finishing(x, y)

    own = (x, x._data, y, y._data, function, finishing)
    # Others in the process hold and release these: a reference lost or kept by every call is 2000.
    shared = (fallback, Tensor, None, False, 0)
    calls()
    gc.collect()
    before = [[sys.getrefcount(thing) for thing in things] for things in (own, shared)]
    for _ in range(2000):
        calls()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in own] == before[0]
    assert all(abs(sys.getrefcount(thing) - count) < 300 for thing, count in zip(shared, before[1], strict=True))


def test_making_operators_starts_nothing() -> None:
    code = (
        "import sys; sys.modules['llvmlite.binding'] = None\n"
        "from eagerjit.runtime.entry import OpCall\nfrom eagerjit.runtime.function import Function\n"
        "print(OpCall('f', lambda x: x + 1, None, ('x',))(1), Function(lambda x: x)(2))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["2", "2"]
