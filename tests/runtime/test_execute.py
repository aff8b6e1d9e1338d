"""Instructions that load, guard and compute, each on both executors."""

from __future__ import annotations

import collections
import struct
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_tools import F32, Custom, Parameter, Tensor, both, executable, observing, program, tensor

from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.program import Op

pytestmark = pytest.mark.usefixtures("classes")


def leaf_after(executor: str, *steps: tuple[int, ...], arguments: tuple[Any, ...] = (), objects: Any = ()) -> Any:
    """What the steps leave in leaf 5, or MISS."""
    return executable(executor, program(len(arguments), *steps, (Op.OUTPUT_LEAF, 0, 5)), objects).run(arguments)


def slots_after(executor: str, *steps: tuple[int, ...], slots: Any, arguments: tuple[Any, ...] = ()) -> Any:
    """The values of slots after the steps, or MISS."""
    result = executable(executor, observing(len(arguments), *steps, slots=slots)).run(arguments)
    return result if result is MISS else result._data.tolist()


def holds(executor: str, *guards: tuple[int, ...], arguments: tuple[Any, ...] = (), objects: Any = ()) -> bool:
    """Whether guards let a run pass."""
    steps = (*guards, (Op.OUTPUT_OBJECT, 0, 0))
    return executable(executor, program(len(arguments), *steps), objects or ("done",)).run(arguments) is not MISS


# -- leaves -----------------------------------------------------------------------------------------------------------


@both
def test_load_object(executor: str) -> None:
    constant = object()
    assert leaf_after(executor, (Op.LOAD_OBJECT, 5, 0), objects=(constant,)) is constant


@both
def test_load_item(executor: str) -> None:
    value = object()
    step = (Op.LOAD_ITEM, 5, 0, 0)
    assert leaf_after(executor, step, arguments=({"key": value},), objects=("key",)) is value
    assert leaf_after(executor, step, arguments=({"other": value},), objects=("key",)) is MISS
    assert leaf_after(executor, step, arguments=([value],), objects=("key",)) is MISS
    assert leaf_after(executor, step, arguments=([1, value],), objects=(1,)) is value
    assert leaf_after(executor, step, arguments=([1],), objects=(1,)) is MISS

    class Mapping(dict[str, object]):
        def __getitem__(self, key: str) -> object:
            raise AssertionError("only the dictionary itself is asked")

    assert leaf_after(executor, step, arguments=(Mapping(key=value),), objects=("key",)) is value


@both
def test_load_item_propagates_errors_of_hashing(executor: str) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        leaf_after(executor, (Op.LOAD_ITEM, 5, 0, 0), arguments=({},), objects=([],))


@both
def test_load_cell(executor: str) -> None:
    value = object()

    def outer() -> Any:
        captured = value

        def inner() -> Any:
            return captured

        return inner.__closure__[0]  # type: ignore[index]

    cell = outer()
    assert leaf_after(executor, (Op.LOAD_CELL, 5, 0), objects=(cell,)) is value
    del cell.cell_contents
    assert leaf_after(executor, (Op.LOAD_CELL, 5, 0), objects=(cell,)) is MISS


@both
def test_load_attribute(executor: str) -> None:
    value = object()
    step = (Op.LOAD_ATTRIBUTE, 5, 0, 0)
    assert leaf_after(executor, step, arguments=(SimpleNamespace(name=value),), objects=("name",)) is value
    assert leaf_after(executor, step, arguments=(SimpleNamespace(),), objects=("name",)) is MISS

    class Broken:
        @property
        def name(self) -> object:
            raise KeyError("from the property")

    with pytest.raises(KeyError, match="from the property"):
        leaf_after(executor, step, arguments=(Broken(),), objects=("name",))


@both
def test_load_grad(executor: str) -> None:
    x = tensor([1.0])
    assert leaf_after(executor, (Op.LOAD_GRAD, 5, 0), arguments=(x,)) is None
    x._grad = tensor([2.0])
    assert leaf_after(executor, (Op.LOAD_GRAD, 5, 0), arguments=(x,)) is x._grad
    assert leaf_after(executor, (Op.LOAD_GRAD, 5, 0), arguments=("no tensor",)) is MISS


# -- guards -----------------------------------------------------------------------------------------------------------


@both
def test_identity_and_type(executor: str) -> None:
    one, same = (1, 2), (1, 2)
    assert one is not tuple(list(same))
    assert holds(executor, (Op.IS, 0, 0), arguments=(one,), objects=(one,))
    assert not holds(executor, (Op.IS, 0, 0), arguments=(tuple(list(same)),), objects=(one,))
    assert holds(executor, (Op.TYPE_IS, 0, 0), arguments=(5,), objects=(int,))
    assert not holds(executor, (Op.TYPE_IS, 0, 0), arguments=(True,), objects=(int,))


@both
def test_lacks(executor: str) -> None:
    """A dictionary without a key; what is no dictionary never is one."""
    assert holds(executor, (Op.LACKS, 0, 0), arguments=({"other": 1},), objects=("name",))
    assert holds(executor, (Op.LACKS, 0, 0), arguments=(collections.OrderedDict(),), objects=("name",))
    assert not holds(executor, (Op.LACKS, 0, 0), arguments=({"name": None},), objects=("name",))
    assert not holds(executor, (Op.LACKS, 0, 0), arguments=(["other"],), objects=("name",))


@both
@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("text", "te" + "xt".lower(), True),
        ("text", "Text", False),
        (10**30, int("1" + "0" * 30), True),
        (1, True, False),
        (1, 1.0, False),
        (2.5, float("2.5"), True),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ((1, ("a", 2.0)), (1, ("a", float("2"))), True),
        ((1, 2), (1, 2.0), False),
        ((1, 0.0), (1, -0.0), False),
        ((1, 2), (1, 2, 3), False),
    ],
)
def test_equal(executor: str, a: object, b: object, equal: bool) -> None:
    assert holds(executor, (Op.EQUAL, 0, 0), arguments=(a,), objects=(b,)) == equal


@both
def test_grad_mode(executor: str) -> None:
    assert holds(executor, (Op.GRAD_MODE, 0)) and not holds(executor, (Op.GRAD_MODE, mode.GRAD_OFF))
    mode.set_grad_mode(False)
    try:
        assert holds(executor, (Op.GRAD_MODE, mode.GRAD_OFF)) and not holds(executor, (Op.GRAD_MODE, 0))
    finally:
        mode.set_grad_mode(True)


@both
def test_epoch(executor: str) -> None:
    run = executable(executor, program(0, (Op.EPOCH, 1), (Op.OUTPUT_OBJECT, 0, 0), words=2), ("done",))
    assert run.run(()) is MISS or mode.epoch() == 0
    run.epochs[1] = mode.epoch()
    assert run.run(()) == "done"
    mode.bump_epoch()
    assert run.run(()) is MISS
    run.epochs[1] = mode.epoch()
    assert run.run(()) == "done"


@both
def test_tensor_stores_pointer_sizes_and_strides(executor: str) -> None:
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    whole, view = tensor(array), tensor(array[::-1, 1:3, ::2])
    step = (Op.TENSOR, 0, F32, 3, 1, 2, 0, 1, 0)
    assert slots_after(executor, step, slots=(0, 1, 2, 3), arguments=(whole,)) == [array.ctypes.data, 3, 4, 5]
    assert slots_after(executor, step, slots=(0,), arguments=(view,)) is MISS
    step = (Op.TENSOR, 0, F32, 3, 0, 2, 0, 1, 4)
    expected = [view._data.ctypes.data, 3, 2, 3, -20, 5, 2]
    assert slots_after(executor, step, slots=(0, 1, 2, 3, 4, 5, 6), arguments=(view,)) == expected


@both
def test_captured_is_one_tensor_of_known_sizes(executor: str) -> None:
    x = tensor(np.arange(6, dtype=np.float32).reshape(2, 3), grad=True)

    def kept(*operands: int) -> bool:
        found = leaf_after(executor, (Op.CAPTURED, 5, 0, *operands), objects=(x,))
        assert found is x or found is MISS
        return found is x

    assert kept(F32, 2, 0, 2, 3) and kept(F32, 1, 0, 2, 3)
    assert not kept(F32, 0, 0, 2, 3) and not kept(F32 + 1, 2, 0, 2, 3)
    assert not kept(F32, 2, 0, 3, 2) and not kept(F32, 2, 0, 6) and not kept(F32, 2, 0, 2, 3, 1)
    step = (Op.CAPTURED, 5, 0, F32, 2, 0, 2, 3)
    x._data = x._data.T.copy().T
    assert leaf_after(executor, step, objects=(x,)) is MISS
    for other in (None, x._data, tensor([1.0], kind=Custom)):
        assert leaf_after(executor, step, objects=(other,)) is MISS


@both
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_tensor_tells_dtypes_apart(executor: str, dtype: dtypes.DType) -> None:
    x = tensor(np.zeros(3, dtype.numpy))
    for other in dtypes.ALL:
        step = (Op.TENSOR, 0, other.code, 1, 1, 2, 0, 1, 0)
        assert holds(executor, step, arguments=(x,)) == (other is dtype)


@both
def test_tensor_refuses_what_is_no_plain_tensor(executor: str) -> None:
    step = (Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0)
    assert holds(executor, step, arguments=(tensor([1.0]),))
    assert holds(executor, step, arguments=(tensor([1.0], kind=Parameter),))
    refused = [None, 1.0, np.zeros(1, np.float32), tensor([1.0], kind=Custom), tensor([[1.0]]), Tensor]
    swapped = np.zeros(2, np.dtype(np.float32).newbyteorder())
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    torn = np.zeros(10, np.uint8)[:10].view([("a", np.float32), ("b", np.uint8)])["a"]
    refused += [tensor(a) for a in (swapped, odd, torn, np.zeros(2, np.float32).view(np.matrix)[0], np.zeros(2))]
    traced = tensor([1.0])
    traced._data = "a value of a trace"
    for thing in (*refused, traced):
        assert not holds(executor, step, arguments=(thing,)), thing


@both
def test_tensor_needs_strides_that_are_whole_elements(executor: str) -> None:
    records = np.zeros(4, [("a", np.float32), ("b", np.uint16), ("c", np.float32), ("d", np.uint16)])
    even = np.zeros(4, [("a", np.float32), ("b", np.float32)])["b"]
    step = (Op.TENSOR, 0, dtypes.int64.code, 1, 0, 2, 0, 1, 2)
    packed = np.zeros(4, [("a", np.int64), ("b", np.int32)])["a"]
    assert packed.strides == (12,)
    assert not holds(executor, step, arguments=(tensor(packed),))
    step = (Op.TENSOR, 0, F32, 1, 0, 2, 0, 1, 2)
    assert slots_after(executor, step, slots=(2,), arguments=(tensor(even),)) == [2]
    assert records["a"].strides == (12,)
    assert slots_after(executor, step, slots=(2,), arguments=(tensor(records["a"]),)) == [3]


@both
@pytest.mark.parametrize("needs", [False, True])
def test_tensor_asks_for_gradients(executor: str, needs: bool) -> None:
    for grad, expected in ((0, not needs), (1, needs), (2, True)):
        step = (Op.TENSOR, 0, F32, 1, 1, grad, 0, 1, 0)
        assert holds(executor, step, arguments=(tensor([1.0], grad=needs),)) == expected


def test_writable() -> None:
    """By the Python executor; soundness cases ask the native one."""

    def view(base: Tensor, detaches: bool = False) -> Tensor:
        made = tensor([1.0])
        made._view = SimpleNamespace(base=base, op=SimpleNamespace(detaches=detaches))
        return made

    def writable(leaf: Tensor) -> bool:
        return holds("python", (Op.WRITABLE, 0), arguments=(leaf,))

    leaf, plain = tensor([1.0], grad=True), tensor([1.0])
    assert all(map(writable, (leaf, plain, view(plain), view(leaf, detaches=True), view(view(leaf, detaches=True)))))
    assert not writable(view(leaf)) and not writable(view(view(leaf)))


@both
def test_read_float(executor: str) -> None:
    step = (Op.READ_FLOAT, 0, 0)
    for number in (0.0, -0.0, 1.5, float("inf"), float("nan"), 5e-324):
        bits = struct.unpack("q", struct.pack("d", number))[0]
        assert slots_after(executor, step, slots=(0,), arguments=(number,)) == [bits]
    for other in (1, True, np.float64(1), "1.0"):
        assert slots_after(executor, step, slots=(0,), arguments=(other,)) is MISS


@both
def test_read_int(executor: str) -> None:
    step = (Op.READ_INT, 0, 0)
    for number in (0, -1, 2**63 - 1, -(2**63), 10**9):
        assert slots_after(executor, step, slots=(0,), arguments=(number,)) == [number]
    for other in (2**63, -(2**63) - 1, 10**30, True, 1.0, np.int64(1), None):
        assert slots_after(executor, step, slots=(0,), arguments=(other,)) is MISS


@both
def test_checks(executor: str) -> None:
    def check(*guard: int, a: int, b: int = 0) -> bool:
        return holds(executor, (Op.CONST, 0, a), (Op.CONST, 1, b), guard)

    assert check(Op.CHECK_EQ, 0, 1, a=-7, b=-7) and not check(Op.CHECK_EQ, 0, 1, a=-7, b=7)
    assert check(Op.CHECK_CONST, 0, -7, a=-7) and not check(Op.CHECK_CONST, 0, 3, a=2)
    assert check(Op.CHECK_GE, 0, -2, a=-2) and not check(Op.CHECK_GE, 0, -2, a=-3)
    assert check(Op.CHECK_TRUE, 0, 1, a=-5) and not check(Op.CHECK_TRUE, 0, 1, a=0)
    assert check(Op.CHECK_TRUE, 0, 0, a=0) and not check(Op.CHECK_TRUE, 0, 0, a=4)


@both
def test_different(executor: str) -> None:
    a, b, c = (tensor(np.zeros(3, np.float32)) for _ in range(3))

    def different(*leaves: Any) -> bool:
        return holds(executor, (Op.DIFFERENT, len(leaves), *range(len(leaves))), arguments=leaves)

    assert different(a, b, c) and different(a) and different(a, tensor(a._data))
    assert holds(executor, (Op.SAME, 0, 2, 1), arguments=(a, b, a))
    assert not holds(executor, (Op.SAME, 0, 1, 1), arguments=(a, b, a))
    assert holds(executor, (Op.SAME, 0, 1, 0), arguments=(a, b, a))
    assert not holds(executor, (Op.SAME, 0, 2, 0), arguments=(a, b, a))
    assert not different(a, b, a) and not different(b, b) and not different(a, b, b)


def distinct(executor: str, written: list[Any], read: list[Any]) -> bool:
    n = len(written)
    operands = (n, *range(n), len(read), *range(n, n + len(read)))
    return holds(executor, (Op.DISTINCT, *operands), arguments=(*written, *read))


@both
def test_distinct(executor: str) -> None:
    block = np.zeros(100, np.float32)
    a, b, c = tensor(block[:50]), tensor(block[50:]), tensor(block[40:60])
    assert distinct(executor, [a], [b]) and distinct(executor, [a, b], []) and distinct(executor, [], [a, a, c])
    assert not distinct(executor, [a], [c]) and not distinct(executor, [c], [b]) and not distinct(executor, [a, c], [])
    assert not distinct(executor, [a], [a]) and not distinct(executor, [a, a], [])
    assert not distinct(executor, [b], [tensor(block[::-1])])
    empty = tensor(block[10:10])
    assert distinct(executor, [a], [empty]) and distinct(executor, [empty], [a])
    assert not distinct(executor, [empty], [empty])
    assert not distinct(executor, [a], ["no tensor"])


@both
def test_distinct_refuses_memory_that_cannot_be_written_soundly(executor: str) -> None:
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    repeated = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (3,), (0,))
    assert not distinct(executor, [tensor(frozen)], []) and distinct(executor, [], [tensor(frozen)])
    assert not distinct(executor, [tensor(repeated)], []) and distinct(executor, [], [tensor(repeated)])


@both
@given(st.data())
def test_distinct_is_pairwise_disjointness(executor: str, data: st.DataObject) -> None:
    block = np.zeros(400, np.float32)
    part = st.tuples(st.integers(0, 390), st.integers(0, 12), st.sampled_from((1, 2, -1)))
    parts = data.draw(st.lists(part, min_size=1, max_size=10 if data.draw(st.booleans()) else 3))
    arrays = [block[start : start + size][::step] for start, size, step in parts]
    n = data.draw(st.integers(0, len(arrays)))
    expected = not any(
        i != j and np.lib.array_utils.byte_bounds(x)[0] < np.lib.array_utils.byte_bounds(y)[1]
        and np.lib.array_utils.byte_bounds(y)[0] < np.lib.array_utils.byte_bounds(x)[1]
        for i, x in enumerate(arrays[:n]) for j, y in enumerate(arrays) if x.size and y.size
    )  # fmt: skip
    tensors = [tensor(x) for x in arrays]
    assert distinct(executor, tensors[:n], tensors[n:]) == expected


@both
@pytest.mark.parametrize("overlap", [False, True])
def test_distinct_of_many(executor: str, overlap: bool) -> None:
    block = np.zeros(4000, np.float32)
    order = np.random.default_rng(0).permutation(400)
    tensors = [tensor(block[10 * i : 10 * i + (11 if overlap and i == 77 else 10)]) for i in order]
    n = len(tensors)
    step = (Op.DISTINCT, n // 2, *range(n // 2), n - n // 2, *range(n // 2, n))
    made = program(n, step, (Op.OUTPUT_OBJECT, 0, 0))
    made.n_leaves = n
    written = {int(i) for i in order[: n // 2]}
    missed = executable(executor, made, ("done",)).run(tuple(tensors)) is MISS
    assert missed == (overlap and bool({77, 78} & written))


# -- sizes ------------------------------------------------------------------------------------------------------------

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
ARITHMETIC = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.FLOORDIV: lambda a, b: a // b,
    Op.MOD: lambda a, b: a % b,
    Op.MIN: min,
    Op.MAX: max,
    Op.LT: lambda a, b: int(a < b),
    Op.LE: lambda a, b: int(a <= b),
    Op.EQ: lambda a, b: int(a == b),
}


@both
@given(INTEGERS, INTEGERS)
def test_arithmetic(executor: str, a: int, b: int) -> None:
    steps = [(Op.READ_INT, 0, 0), (Op.READ_INT, 1, 1)]
    codes = [code for code in ARITHMETIC if b != 0 or code not in (Op.FLOORDIV, Op.MOD)]
    steps += [(code, 2 + i, 0, 1) for i, code in enumerate(codes)]
    expected = [(ARITHMETIC[code](a, b) + 2**63) % 2**64 - 2**63 for code in codes]
    assert slots_after(executor, *steps, slots=range(2, 2 + len(codes)), arguments=(a, b)) == expected


@both
@pytest.mark.parametrize("code", [Op.FLOORDIV, Op.MOD])
def test_zero_divisor_misses(executor: str, code: Op) -> None:
    assert not holds(executor, (Op.CONST, 0, 5), (Op.CONST, 1, 0), (code, 2, 0, 1))


def test_modes_switched_together() -> None:
    found = []

    def switched() -> None:
        before = mode.set_modes(False, True)  # the thread's first: native code must read what Python does
        found.append(mode.thread_words()[0])
        assert mode.set_modes(*before) == (False, True)
        found.append(mode.thread_words()[0])

    thread = threading.Thread(target=switched)
    thread.start()
    thread.join()
    assert found == [mode.GRAD_OFF | mode.PLAIN, 0]
