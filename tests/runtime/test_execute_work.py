"""Instructions that allocate, work and write, each on both executors; references, threads and loading."""

from __future__ import annotations

import gc
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from program_tools import (
    ADD,
    F32,
    FAIL,
    THROUGH_SCRATCH,
    Storage,
    Tensor,
    adding,
    both,
    executable,
    observing,
    program,
    tensor,
)

from eagerjit.runtime import dtypes, host, memory, mode
from eagerjit.runtime.execute import MISS, load
from eagerjit.runtime.program import HostCall, Op
from eagerjit.runtime.source import line_of

pytestmark = pytest.mark.usefixtures("classes")

# -- memory -----------------------------------------------------------------------------------------------------------


@both
def test_arena_is_aligned_and_given_back(executor: str) -> None:
    steps = ((Op.CONST, 0, 1000), (Op.ARENA, 1, 0), (Op.ARENA, 2, 0))
    run = executable(executor, observing(0, *steps, slots=(1, 2)))
    gc.collect()
    before = memory.memory_stats()["allocated_bytes"]
    for _ in range(3):
        first, second = run.run(())._data.tolist()
        assert first % 64 == second % 64 == 0 and abs(first - second) >= 1000
    gc.collect()
    assert memory.memory_stats()["allocated_bytes"] == before


@both
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 1, 3, 5)], ids=str)
def test_output(executor: str, dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    steps = [(Op.CONST, 10 + i, extent) for i, extent in enumerate(shape)]
    steps.append((Op.OUTPUT, 0, dtype.code, len(shape), 0, *range(10, 10 + len(shape))))
    result = executable(executor, program(0, *steps)).run(())
    array = result._data
    assert type(result) is Tensor and type(array) is np.ndarray
    assert array.dtype is dtype.numpy and array.shape == shape and array.flags.c_contiguous and array.flags.writeable
    assert array.flags.aligned and array.flags.owndata and memory.is_cached(array) and array.ctypes.data % 64 == 0
    others = (result._node, result._grad, result._storage, result._hooks, result._extra)
    assert others == (None,) * 5 and result._index == 0 and result._requires_grad is False
    array[...] = 1
    assert array.astype(np.float64).sum() == np.prod(shape)
    np.testing.assert_array_equal(np.resize(array, (2, 2)).shape, (2, 2))


@both
def test_output_without_memory(executor: str) -> None:
    step = (Op.OUTPUT, 0, F32, 2, 1, 0, 0)
    with pytest.raises((MemoryError, ValueError)):
        executable(executor, program(0, (Op.CONST, 0, 2**40), step)).run(())


@both
def test_output_leaf_and_object(executor: str) -> None:
    x, constant = tensor([1.0]), object()
    made = program(1, (Op.OUTPUT_LEAF, 1, 0), (Op.OUTPUT_OBJECT, 0, 0), outputs=2)
    assert executable(executor, made, (constant,)).run((x,)) == (constant, x)
    assert executable(executor, program(0, outputs=0)).run(()) == ()


@both
@pytest.mark.parametrize("frozen", [False, True])
def test_output_view_of_an_argument(executor: str, frozen: bool) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    array.flags.writeable = not frozen
    base = tensor(array)
    step = (Op.OUTPUT_VIEW, 0, 0, 0, F32, 2, 0, 2, 1, 4, 3)
    made = program(1, (Op.TENSOR, 0, F32, 2, 0, 2, 0, 1, 3), step)
    view = executable(executor, made).run((base,))
    np.testing.assert_array_equal(view._data, array.T)
    assert view._data.ctypes.data == array.ctypes.data and view._data.dtype is array.dtype
    assert type(base._storage) is Storage and view._storage is base._storage
    assert view._data.flags.writeable is not frozen and not view._data.flags.owndata
    del base, array
    gc.collect()
    np.testing.assert_array_equal(view._data[3], [3, 7, 11])
    storage = view._storage
    assert executable(executor, made).run((tensor(view._data),))._storage is not storage
    assert executable(executor, made).run((view,))._storage is storage


@both
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_output_view_of_an_output(executor: str, dtype: dtypes.DType) -> None:
    steps = (
        (Op.CONST, 0, 6),
        (Op.CONST, 1, 3),
        (Op.CONST, 2, 2),
        (Op.CONST, 3, 2 * dtype.itemsize),
        (Op.OUTPUT, 0, dtype.code, 1, 4, 0),
        (Op.ADD, 5, 4, 3),
        (Op.OUTPUT_VIEW, 1, 1, 0, dtype.code, 1, 5, 2, 1),
    )
    whole, view = executable(executor, program(0, *steps, outputs=2)).run(())
    whole._data[...] = np.arange(6).astype(dtype.numpy)
    np.testing.assert_array_equal(view._data, whole._data[2::3])
    assert view._storage is whole._storage and view._data.dtype is dtype.numpy


@both
def test_a_view_in_the_place_of_what_it_shows(executor: str) -> None:
    step = (Op.OUTPUT_VIEW, 0, 1, 0, F32, 2, 2, 1, 0, 3, 1)
    made = program(0, (Op.CONST, 0, 40), (Op.CONST, 1, 50), (Op.CONST, 3, 1), (Op.OUTPUT, 0, F32, 2, 2, 0, 1), step)
    run = executable(executor, made)
    gc.collect()
    before = memory.memory_stats()["allocated_bytes"]
    for _ in range(3):
        view = run.run(())
        assert view._data.shape == (50, 40) and view._data.strides == (4, 200)
        assert memory.memory_stats()["allocated_bytes"] - before >= 8000
        del view
        assert memory.memory_stats()["allocated_bytes"] == before


# -- work -------------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("work", [1, 150_000, 10**6])
@pytest.mark.parametrize("size", [0, 1, 16, 100_003])
def test_kernel(executor: str, work: int, size: int) -> None:
    random = np.random.default_rng(size)
    x, y = random.random(size, np.float32), random.random(size, np.float32)
    result = executable(executor, adding(work)).run((tensor(x), tensor(y)))
    np.testing.assert_array_equal(result._data, x + y)


@both
@pytest.mark.parametrize("scratch", [64, 100_000])
@pytest.mark.parametrize("work", [1, 10**6])
def test_kernel_scratch(executor: str, scratch: int, work: int) -> None:
    x = tensor([1.5])
    made = program(
        1,
        (Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0),
        (Op.CONST, 2, scratch),
        (Op.CONST, 3, work),
        (Op.BEGIN, 3),
        (Op.KERNEL, THROUGH_SCRATCH, 1, 3, 2, 2, 0, 2),
        (Op.FINISH,),
        (Op.OUTPUT_LEAF, 0, 0),
    )
    assert executable(executor, made).run((x,)) is x
    assert x._data[0] == 3.0


@both
@pytest.mark.parametrize("work", [1, 10**6])
@pytest.mark.parametrize(("status", "expected"), [(1, IndexError("out of range")), (2, ValueError("bad value"))])
def test_kernel_status_raises(executor: str, work: int, status: int, expected: Exception) -> None:
    made = program(
        0,
        (Op.CONST, 0, status),
        (Op.CONST, 1, 1),
        (Op.CONST, 2, work),
        (Op.OUTPUT, 0, F32, 1, 3, 1),
        (Op.ARENA, 4, 2),
        (Op.BEGIN, 2),
        (Op.KERNEL, FAIL, 1, 2, -1, 1, 0),
        (Op.FINISH,),
    )
    run = executable(executor, made)
    gc.collect()  # what earlier tests left must not be given back meanwhile
    before = memory.memory_stats()["allocated_bytes"]
    for _ in range(3):
        with pytest.raises(type(expected), match=str(expected)):
            run.run(())
    gc.collect()
    assert memory.memory_stats()["allocated_bytes"] == before


@both
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16], ids=str)
def test_matmul(executor: str, dtype: dtypes.DType) -> None:
    random = np.random.default_rng(1)
    a = random.integers(-3, 4, (2, 3, 4)).astype(dtype.numpy)
    b = random.integers(-3, 4, (5, 4)).astype(dtype.numpy)
    sizes = {1: 3, 2: 5, 3: 4, 4: 4, 5: 1, 6: 1, 7: 4, 8: 5, 9: 2, 10: 12, 11: 0, 12: 15}
    made = program(
        2,
        (Op.TENSOR, 0, dtype.code, 3, 1, 2, 20, 30, 0),
        (Op.TENSOR, 1, dtype.code, 2, 1, 2, 21, 33, 0),
        *((Op.CONST, slot, value) for slot, value in sizes.items()),
        (Op.OUTPUT, 0, dtype.code, 3, 22, 9, 1, 2),
        (Op.BEGIN, 1),
        (Op.MATMUL, dtype.code, 1, 20, 21, 22, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
        (Op.FINISH,),
    )
    result = executable(executor, made).run((tensor(a), tensor(b)))
    np.testing.assert_array_equal(result._data, a @ b.T)


@both
def test_matmul_too_large(executor: str) -> None:
    made = program(
        0,
        (Op.CONST, 0, 1),
        (Op.CONST, 1, 2**31),
        (Op.OUTPUT, 0, F32, 1, 2, 0),
        (Op.BEGIN, 1),
        (Op.MATMUL, F32, 0, 2, 2, 2, 0, 0, 1, 0, 0, 0, 0, 0),
        (Op.FINISH,),
    )
    with pytest.raises(OverflowError, match="beyond"):
        executable(executor, made).run(())


@both
def test_copy(executor: str) -> None:
    x = tensor([1.0, 2.0, 3.0])
    made = program(
        1,
        (Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0),
        (Op.CONST, 2, 12),
        (Op.OUTPUT, 0, F32, 1, 3, 1),
        (Op.BEGIN, 2),
        (Op.COPY, 3, 0, 2),
        (Op.FINISH,),
    )
    assert executable(executor, made).run((x,))._data.tolist() == [1.0, 2.0, 3.0]


def calls(*functions: Any) -> list[HostCall]:
    """Calls of these functions, which are given one number each."""
    for function in functions:
        host.FUNCTIONS[function.__name__] = function
    return [HostCall(f.__name__, ("$size",), ((0, F32, 1),)) for f in functions]


def with_calls(made: Any, *functions: Any) -> Any:
    made.calls = calls(*functions)
    return made


@both
@pytest.mark.parametrize("work", [0, 10**9])
def test_call(executor: str, work: int) -> None:
    def test_ramp(count: int) -> np.ndarray:
        return np.arange(count, dtype=np.float32)

    def test_refusal(count: int) -> np.ndarray:
        raise LookupError(f"refused {count}")

    def test_misfit(count: int) -> np.ndarray:
        return np.zeros(count + 1, np.float32)

    def made(call: int) -> Any:
        return with_calls(
            program(
                0,
                (Op.CONST, 0, 3),
                (Op.CONST, 1, work),
                (Op.OUTPUT, 0, F32, 1, 2, 0),
                (Op.BEGIN, 1),
                (Op.CALL, call, 3, 0, 2, 0),
                (Op.FINISH,),
            ),
            test_ramp,
            test_refusal,
            test_misfit,
        )

    assert executable(executor, made(0)).run(())._data.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(LookupError, match="refused 3"):
        executable(executor, made(1)).run(())
    with pytest.raises(RuntimeError, match=r"test_misfit\(\) gave shape \[4\] instead of \[3\]"):
        executable(executor, made(2)).run(())
    with pytest.raises(ValueError, match="there is no call 3"):
        load(made(3), [], [])
    short = made(0)
    short.calls = [HostCall("test_ramp", ("$size", "$size"), ((0, F32, 1),))]
    with pytest.raises(ValueError, match="takes 4 words, not 3"):
        load(short, [], [])


@both
def test_a_call_may_run_the_same_executable(executor: str) -> None:
    depth: list[int] = []
    runs: list[Any] = []

    def test_again(count: int) -> np.ndarray:
        if len(depth) < 5:
            depth.append(count)
            assert runs[0].run((count + 1,))._data.tolist() == [count + 1]
        return np.array([count], np.float32)

    made = with_calls(
        program(1, (Op.READ_INT, 0, 0), (Op.CONST, 1, 1), (Op.OUTPUT, 0, F32, 1, 2, 1), (Op.CALL, 0, 3, 0, 2, 1)),
        test_again,
    )
    runs.append(executable(executor, made))
    assert runs[0].run((7,))._data.tolist() == [7] and depth == [7, 8, 9, 10, 11]
    runs.clear()


# -- effects ----------------------------------------------------------------------------------------------------------


@both
def test_set_grad(executor: str) -> None:
    x = tensor([1.0])
    made = program(1, (Op.CONST, 0, 1), (Op.OUTPUT, 0, F32, 1, 1, 0), (Op.SET_GRAD, 0, 0))
    result = executable(executor, made).run((x,))
    assert x._grad is result
    executable(executor, program(1, (Op.SET_GRAD, 0, -1), outputs=0)).run((x,))
    assert x._grad is None


@both
def test_bump_version(executor: str) -> None:
    x = tensor([1.0])
    run = executable(executor, program(1, (Op.BUMP_VERSION, 0, -1, 1), outputs=0))
    run.run((x,))
    storage = x._storage
    assert type(storage) is Storage and storage.version == 1
    assert line_of(storage.source).startswith(f"{__file__}:")
    executable(executor, program(1, (Op.BUMP_VERSION, 0, 0, 1), outputs=0), ["file:3"]).run((x,))
    assert storage.source == "file:3" and storage.version == 2
    for _ in range(1000):
        run.run((x,))
    assert x._storage is storage and storage.version == 1002


@pytest.mark.parametrize(
    "step", [(Op.BUMP_VERSION, 0, -1, 1), (Op.SET_GRAD, 0, -1), (Op.OUTPUT_VIEW, 0, 0, 0, F32, 0, 0)]
)
def test_native_effects_refuse_what_is_no_tensor(step: tuple[int, ...]) -> None:
    made = program(1, step, *() if step[0] == Op.OUTPUT_VIEW else ((Op.OUTPUT_LEAF, 0, 0),))
    with pytest.raises(TypeError, match="expected a Tensor"):
        executable("native", made).run((5.0,))


@both
def test_a_miss_leaves_no_trace(executor: str) -> None:
    x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    made = program(
        3,
        (Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0),
        (Op.TENSOR, 1, F32, 1, 1, 2, 2, 3, 0),
        (Op.LOAD_GRAD, 3, 0),
        (Op.CONST, 5, 64),
        (Op.ARENA, 6, 5),
        (Op.OUTPUT, 0, F32, 1, 4, 1),
        (Op.READ_INT, 2, 7),
        (Op.KERNEL, ADD, 1, 1, -1, 3, 0, 2, 0),
        (Op.SET_GRAD, 0, 0),
        (Op.BUMP_VERSION, 0, -1, 1),
    )
    run = executable(executor, made)
    gc.collect()  # what earlier tests left must not be given back meanwhile
    before = memory.memory_stats()["allocated_bytes"], sys.getrefcount(x), sys.getrefcount(x._data)
    for _ in range(10):
        assert run.run((x, y, "no int")) is MISS
    gc.collect()
    assert (memory.memory_stats()["allocated_bytes"], sys.getrefcount(x), sys.getrefcount(x._data)) == before
    assert x._data.tolist() == [1.0, 2.0] and x._grad is None and x._storage is None
    run.run((x, y, 1))
    assert x._data.tolist() == [4.0, 6.0] and x._storage.version == 1


@both
def test_run_takes_a_tuple_of_the_right_length(executor: str) -> None:
    run = executable(executor, adding())
    x = tensor([1.0])
    for wrong in ((x,), (x, x, x), ()):
        with pytest.raises(TypeError, match="arguments"):
            run.run(wrong)


@both
def test_more_arguments_than_a_register_file(executor: str) -> None:
    made = program(40, (Op.OUTPUT_LEAF, 0, 39), (Op.OUTPUT_LEAF, 1, 0), outputs=2)
    made.n_leaves = 40
    arguments = tuple(object() for _ in range(40))
    assert executable(executor, made).run(arguments) == (arguments[39], arguments[0])


# -- references and threads -------------------------------------------------------------------------------------------


@both
def test_references_balance(executor: str) -> None:
    x, y = tensor([1.0, 2.0], grad=True), tensor([3.0, 4.0])
    x._grad = tensor([5.0, 6.0])
    container, key, constant = {"key": y}, "key", object()
    owner = SimpleNamespace(name=y)
    made = program(
        3,
        (Op.LOAD_OBJECT, 3, 0),
        (Op.LOAD_ITEM, 4, 1, 1),
        (Op.LOAD_ATTRIBUTE, 5, 2, 2),
        (Op.LOAD_GRAD, 6, 0),
        (Op.TENSOR, 0, F32, 1, 1, 2, 0, 1, 0),
        (Op.TENSOR, 4, F32, 1, 1, 2, 2, 3, 0),
        (Op.TENSOR, 4, F32, 1, 0, 2, 2, 3, 9),
        (Op.OUTPUT, 0, F32, 1, 4, 1),
        (Op.CONST, 5, 1),
        (Op.BEGIN, 5),
        (Op.KERNEL, ADD, 1, 5, -1, 3, 0, 2, 4),
        (Op.FINISH,),
        (Op.OUTPUT_LEAF, 1, 4),
        (Op.OUTPUT_OBJECT, 2, 0),
        (Op.OUTPUT_VIEW, 3, 1, 0, F32, 1, 4, 1, 5),
        (Op.SET_GRAD, 0, 0),
        (Op.BUMP_VERSION, 0, -1, 1),
        outputs=4,
    )
    run = executable(executor, made, (constant, key, "name"))
    own = (x, x._data, y, y._data, container, constant, owner)
    # Others in the process hold and release these: a reference lost or kept by every run is 2000.
    shared = (Tensor, Storage, np.dtype(np.float32), None)
    run.run((x, container, owner))
    gc.collect()
    before = [[sys.getrefcount(thing) for thing in things] for things in (own, shared)]
    for _ in range(2000):
        run.run((x, container, owner))
    gc.collect()
    assert [sys.getrefcount(thing) for thing in own] == before[0]
    assert all(abs(sys.getrefcount(thing) - count) < 200 for thing, count in zip(shared, before[1], strict=True))


@both
def test_an_executable_is_collected_with_its_objects(executor: str) -> None:
    class Witness:
        alive = 0

        def __init__(self) -> None:
            Witness.alive += 1

        def __del__(self) -> None:
            Witness.alive -= 1

    witness: Any = Witness()
    run = executable(executor, program(0, (Op.OUTPUT_OBJECT, 0, 0)), (witness,))
    witness.cycle = run
    assert run.run(()) is witness
    del run, witness
    gc.collect()
    assert Witness.alive == 0


@both
def test_threads_share_an_executable(executor: str) -> None:
    run = executable(executor, adding(10**6))
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(20):
            x, y = random.random(20_000, np.float32), random.random(20_000, np.float32)
            if not np.array_equal(run.run((tensor(x), tensor(y)))._data, x + y):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(Op.IS, 12, 0)], "there is no leaf 12"),
        ([(Op.IS, 5, 0)], "leaf 5 is empty"),
        ([(Op.IS, 0, 1)], "there is no object 1"),
        ([(Op.IS, 0)], "1 operands"),
        ([(Op.CONST, 40, 1)], "there is no slot 40"),
        ([(Op.CONST, 0, 2**63)], "there is no constant"),
        ([(Op.EPOCH, 0)], "there is no word 0"),
        ([(Op.TENSOR, 0, 99, 1, 1, 2, 0, 1, 2)], "there is no dtype 99"),
        ([(Op.TENSOR, 0, 8, 3, 1, 2, 0, 38, 2)], "there is no slots 3 38"),
        ([(Op.KERNEL, 4, 0, 0, -1, 0)], "there is no function 4"),
        ([(Op.KERNEL, 0, 0, 0, -1, 2, 0)], "6 operands"),
        ([(Op.OUTPUT_VIEW, 0, 1, 0, 8, 0, 0)], "output 0 is empty"),
        ([(Op.SET_GRAD, 0, 0)], "output 0 is empty"),
        ([(Op.DISTINCT, 2, 0)], "2 operands"),
        ([(Op.BEGIN, 0), (Op.READ_INT, 0, 0)], "wrong side"),
        ([(Op.BEGIN, 0), (Op.BEGIN, 0)], "wrong side"),
        ([(Op.FINISH,)], "wrong side"),
        ([(Op.BEGIN, 0)], "finish is missing"),
        ([], "0 of 1 outputs are made"),
    ],
)
def test_malformed_programs_are_refused(steps: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(program(1, *steps), [0] * 4, [None])


def test_modes_belong_to_threads() -> None:
    run = executable("native", program(0, (Op.GRAD_MODE, 0), (Op.OUTPUT_OBJECT, 0, 0)), ("grad",))
    mode.set_grad_mode(False)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend((mode.grad_mode(), mode.tracing(), run.run(()))))
    thread.start()
    thread.join()
    mode.set_grad_mode(True)
    assert results == [True, False, "grad"]
