"""Guards that native code checks in one step, constants that no step makes, and the references that a run takes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from program_tools import F32, both, executable, observing, program, tensor

from eagerjit.runtime.execute import MISS
from eagerjit.runtime.program import NativeOp, Op
from eagerjit.runtime.shortened import shortened, with_constants

pytestmark = pytest.mark.usefixtures("classes")


def replaced(self: Any) -> str:
    return "replaced"


def method_guard(*extra: tuple[int, ...]) -> Any:
    """A program that asks for the method `forward` of a class, the first of its objects."""
    steps = ((Op.LOAD_OBJECT, 0, 0), (Op.LOAD_ATTRIBUTE, 1, 0, 1), (Op.IS, 1, 2), *extra)
    return program(0, *steps, (Op.OUTPUT_OBJECT, 0, 1))


def kinds() -> tuple[Any, Any]:
    class Base:
        def forward(self) -> str:
            return "first"

    class Derived(Base):
        pass

    return Base, Derived


def codes(made: Any, objects: tuple[Any, ...]) -> list[int]:
    return [code for code, *_ in shortened(made.instructions, made, objects)]


def test_a_method_is_one_step_and_only_once() -> None:
    base, derived = kinds()
    objects = (derived, "forward", base.forward)
    again = ((Op.LOAD_OBJECT, 2, 0), (Op.IS, 2, 0), (Op.LOAD_ATTRIBUTE, 3, 2, 1), (Op.IS, 3, 2))
    assert codes(method_guard(*again), objects) == [NativeOp.METHOD, Op.OUTPUT_OBJECT]
    read = ((Op.OUTPUT_LEAF, 0, 1),)
    made = program(0, *method_guard().instructions[:3], *read)
    assert codes(made, objects) == [NativeOp.METHOD, Op.LOAD_OBJECT, Op.OUTPUT_LEAF]
    assert executable("native", made, objects).run(()) is base.forward


def test_what_a_class_computes_is_looked_up() -> None:
    class Meta(type):
        pass

    class Computed:
        def __get__(self, instance: Any, owner: Any) -> Any:
            return replaced

    made = method_guard()
    plain = [Op.LOAD_OBJECT, Op.LOAD_ATTRIBUTE, Op.IS, Op.OUTPUT_OBJECT]
    assert codes(made, (Meta("Kind", (), {"forward": replaced}), "forward", replaced)) == plain
    assert codes(made, (type("Kind", (), {"forward": Computed()}), "forward", replaced)) == plain
    assert codes(made, (type("Kind", (), {"mro": replaced}), "mro", replaced)) == plain
    assert codes(made, (type("Kind", (), {"forward": 3}), "forward", 3)) == plain


@both
def test_a_replaced_method_is_noticed(executor: str) -> None:
    base, derived = kinds()
    first = base.forward
    run = executable(executor, method_guard(), (derived, "forward", first))
    for _ in range(3):
        assert run.run(()) == "forward"
    for owner in (base, derived):
        owner.forward = replaced
        assert run.run(()) is MISS and run.run(()) is MISS
        if owner is base:
            base.forward = first
        else:
            del derived.forward
        assert run.run(()) == "forward" and run.run(()) == "forward"
    for count in range(5):
        derived.count = count
        assert run.run(()) == "forward"
    derived.__bases__ = (type("Other", (base,), {"forward": replaced}),)
    assert run.run(()) is MISS
    derived.__bases__ = (base,)
    assert run.run(()) == "forward"
    del base.forward
    assert run.run(()) is MISS


@both
def test_a_method_that_comes_and_goes_is_noticed_each_time(executor: str) -> None:
    base, derived = kinds()
    first = base.forward
    run = executable(executor, method_guard(), (derived, "forward", first))
    assert run.run(()) == "forward"
    for found in (replaced, first, replaced, first):
        derived.forward = found
        for _ in range(3):
            assert (run.run(()) is MISS) == (found is replaced)


@both
@pytest.mark.parametrize("name", ["__code__", "__defaults__", "__kwdefaults__"])
def test_a_part_of_a_function_that_is_replaced_is_noticed(executor: str, name: str) -> None:
    def function(x: int = 1, *, y: int = 2) -> int:
        return x + y

    def other(x: int = 3, *, y: int = 4) -> int:
        return x - y

    before = getattr(function, name)
    made = method_guard()
    assert codes(made, (function, name, before)) == [NativeOp.DEFINITION, Op.OUTPUT_OBJECT]
    run = executable(executor, made, (function, name, before))
    assert run.run(()) == name
    setattr(function, name, getattr(other, name))
    assert run.run(()) is MISS
    setattr(function, name, before)
    assert run.run(()) == name
    if name != "__code__":
        setattr(function, name, None)
        assert run.run(()) is MISS


@both
def test_runs_keep_no_references(executor: str) -> None:
    x, y = (tensor(np.ones(4, np.float32)) for _ in range(2))
    held = {"key": ["value"]}
    steps = (
        (Op.CAPTURED, 1, 0, F32, 2, 0, 4),
        (Op.CAPTURED, 2, 1, F32, 2, 1, 4),
        (Op.TENSOR, 0, F32, 1, 1, 2, 2, 3, 0),
        (Op.TENSOR, 0, F32, 1, 1, 2, 2, 3, 0),
        (Op.LOAD_OBJECT, 3, 2),
        (Op.LOAD_ITEM, 4, 3, 3),
        (Op.IS, 4, 4),
    )
    run = executable(executor, program(1, *steps, (Op.OUTPUT_LEAF, 0, 4)), (x, y, held, "key", held["key"]))
    given = tensor(np.ones(4, np.float32))
    watched = (x, y, held, held["key"], given)
    arrays = [t._data for t in (x, y, given)]

    def counts() -> list[int]:
        return [sys.getrefcount(thing) for thing in (*watched, *arrays)]

    before = counts()
    for _ in range(10):
        assert run.run((given,)) is held["key"]
    assert counts() == before
    small = tensor(np.ones(3, np.float32))
    y._data, whole = small._data, y._data
    before = counts()
    for _ in range(10):
        assert run.run((given,)) is MISS
    assert counts() == before
    y._data = whole
    held["key"] = ["another"]
    before = counts()
    for _ in range(10):
        assert run.run((given,)) is MISS
    assert counts() == before


DIVIDED = ((Op.READ_INT, 0, 0), (Op.CONST, 1, 8), (Op.FLOORDIV, 2, 0, 1))


def test_constants_are_no_steps_and_powers_of_two_shift() -> None:
    constants, steps = with_constants(DIVIDED)
    assert constants == {1: 8} and steps == [(Op.READ_INT, 0, 0), (NativeOp.SHIFT, 2, 0, 3)]
    for divisor in (0, 6, -8, -(2**63)):
        _, steps = with_constants((*DIVIDED[:1], (Op.CONST, 1, divisor), DIVIDED[2]))
        assert steps[-1] == DIVIDED[2]


@pytest.mark.parametrize(
    "writer", [(Op.CONST, 1, 4), (Op.READ_INT, 0, 1), (Op.MIN, 1, 0, 0), (Op.TENSOR, 0, F32, 1, 0, 0, 5, 0, 1)]
)
def test_a_slot_that_is_written_twice_is_no_constant(writer: tuple[int, ...]) -> None:
    assert with_constants((*DIVIDED, writer)) == ({}, [*DIVIDED, writer])


@both
@pytest.mark.parametrize("number", [17, 16, -1, -8, -9, 2**63 - 1, -(2**63)])
def test_quotients_by_powers_of_two(executor: str, number: int) -> None:
    made = executable(executor, observing(1, *DIVIDED, slots=(0, 1, 2)))
    for _ in range(2):
        assert made.run((number,))._data.tolist() == [number, 8, number // 8]


def test_a_run_in_the_middle_of_another_has_its_constants() -> None:
    class Nested:
        """Asks for its own attribute through the run that is under way."""

        calls = 0

        @property
        def value(self) -> Any:
            self.calls += 1
            return self if self.calls > 1 else made.run((self,))

    steps = ((Op.CONST, 1, 8), (Op.LOAD_ATTRIBUTE, 1, 0, 0), (Op.CONST, 2, 70), (Op.FLOORDIV, 3, 2, 1))
    made = executable("native", observing(1, *steps, slots=(1, 2, 3)), ("value",))
    nested = Nested()
    assert made.run((nested,))._data.tolist() == [8, 70, 8] and nested.calls == 2
