"""The thread pool: every task once, whatever the threads; failures, scratch memory, forks, and a clean exit."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eagerjit.runtime import cpu, threads
from eagerjit.runtime.allowance import processors
from eagerjit.runtime.native import threads as layout
from eagerjit.runtime.native.library import native

ROOT = Path(__file__).resolve().parents[2]

# Per task i: fills scratch[0, bytes) with i's low byte, spins, checks the scratch, then adds 1 to out[i].
# Returns 7 where another thread wrote the scratch memory, i + 100 for tasks from `fail` on.
KERNEL = """
define i64 @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %out = load ptr, ptr %args
  %spin_at = getelementptr i64, ptr %args, i64 1
  %spin = load i64, ptr %spin_at
  %fail_at = getelementptr i64, ptr %args, i64 2
  %fail = load i64, ptr %fail_at
  %bytes_at = getelementptr i64, ptr %args, i64 3
  %bytes = load i64, ptr %bytes_at
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %task, label %done
task:
  %i = phi i64 [ %begin, %entry ], [ %next, %passed ]
  %mark = trunc i64 %i to i8
  call void @llvm.memset.p0.i64(ptr %scratch, i8 %mark, i64 %bytes, i1 false)
  br label %wait
wait:
  %w = phi i64 [ 0, %task ], [ %w1, %wait ]
  %w1 = add i64 %w, 1
  %last_at = getelementptr i8, ptr %scratch, i64 %bytes
  %last = getelementptr i8, ptr %last_at, i64 -1
  %seen = load volatile i8, ptr %last
  %waiting = icmp slt i64 %w1, %spin
  br i1 %waiting, label %wait, label %check
check:
  %same = icmp eq i8 %seen, %mark
  br i1 %same, label %count, label %disturbed
count:
  %slot = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %slot
  %new = add i64 %old, 1
  store i64 %new, ptr %slot
  %fails = icmp sge i64 %i, %fail
  br i1 %fails, label %failed, label %passed
passed:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %task, label %done
failed:
  %status = add i64 %i, 100
  ret i64 %status
disturbed:
  ret i64 7
done:
  ret i64 0
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[int]:
    loaded = cpu.load_object(cpu.compile_text(KERNEL))
    yield loaded.address("kernel")


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def run(
    kernel: int, tasks: int, spin: int = 10, fail: int = 1 << 60, scratch: int = 64, block: int = 1
) -> tuple[np.ndarray, int]:
    out = np.zeros(max(tasks, 1), np.int64)
    arguments = (ctypes.c_int64 * 4)(out.ctypes.data, spin, fail, scratch)
    return out, threads.parallel_for(kernel, arguments, tasks, scratch, block)


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_every_task_runs_once(kernel: int, number: int) -> None:
    threads.set_num_threads(number)
    for tasks in (1, 2, 3, 7, 8, 9, 100, 1000):
        for scratch, block in ((64, 1), (20_000, 1), (100_000, 1), (64, 2), (64, 16)):
            out, status = run(kernel, tasks, scratch=scratch, block=block)
            assert status == 0
            assert (out == 1).all()
    out, status = run(kernel, 0)
    assert status == 0 and not out.any()


def test_many_jobs_with_pauses_between_them(kernel: int) -> None:
    threads.set_num_threads(4)
    threads.set_spin_microseconds(1)  # workers sleep between jobs, the caller sleeps for slow workers
    try:
        for repeat in range(500):
            out, status = run(kernel, 1 + repeat % 13, spin=repeat * 10 % 3000)
            assert status == 0 and (out == 1).all()
    finally:
        threads.set_spin_microseconds(200)


@pytest.fixture
def sleepers(kernel: int) -> ctypes.c_int64:
    """How many workers sleep, once all of them do."""
    threads.set_num_threads(2)
    run(kernel, 100)
    pool = native().address("thread_pool")
    started, sleeping = (ctypes.c_int64.from_address(pool + at) for at in (layout.STARTED, layout.SLEEPERS))
    give_up = time.monotonic() + 60
    while any_other_thread_runs() or sleeping.value < started.value:
        assert time.monotonic() < give_up, "other threads do not fall asleep"
        time.sleep(0.001)
    return sleeping


def any_other_thread_runs() -> bool:
    """Whether another thread is not asleep: one that was woken counts from then on, before it has its processor."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            asleep = (task / "stat").read_text().rpartition(")")[2].split()[0] == "S"
            if int(task.name) != threading.get_native_id() and not asleep:
                return True
    return False


def worth_threads(*amounts: int) -> list[int]:
    worth = native().function("is_worth_threads", ctypes.c_int64, ctypes.c_int64)
    return [worth(work) for work in amounts if not time.sleep(0.001)]


def test_jobs_of_medium_size_wake_nobody_for_once(sleepers: ctypes.c_int64) -> None:
    small, medium, large = 2 * layout.WORK_PER_THREAD - 1, layout.ENOUGH_WORK, layout.WAKING_WORK
    assert worth_threads(small, medium, medium, large) == [0, 0, 0, 1]
    threads.set_spin_microseconds(60e6)  # the next one would have found them awake
    try:
        assert worth_threads(small, medium, large) == [0, 1, 1]
    finally:
        threads.set_spin_microseconds(200)


@pytest.mark.parametrize("number", [2, 4, 64])
def test_threads_that_are_awake_take_jobs_of_medium_size(sleepers: ctypes.c_int64, number: int) -> None:
    least = min(layout.WORK_PER_THREAD * number, layout.ENOUGH_WORK)
    threads.set_num_threads(number)
    asleep, sleepers.value = sleepers.value, 0
    try:
        assert worth_threads(0, least - 1, least) == [0, 0, 1]
    finally:
        sleepers.value = asleep


@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_earliest_failure_is_reported(kernel: int, number: int) -> None:
    threads.set_num_threads(number)
    for fail in (0, 1, 333, 999):
        out, status = run(kernel, 1000, spin=50, fail=fail)
        assert status == fail + 100
        assert (out[:fail] == 1).all()
    assert run(kernel, 1000)[1] == 0


def test_scratch_that_cannot_be_had_is_a_status(kernel: int) -> None:
    for number in (1, 2):
        threads.set_num_threads(number)
        arguments = (ctypes.c_int64 * 4)(0, 0, 0, 0)
        assert threads.parallel_for(kernel, arguments, 10, 1 << 60) == layout.OUT_OF_MEMORY
    assert run(kernel, 10)[1] == 0


def test_several_callers_at_once(kernel: int) -> None:
    threads.set_num_threads(3)
    failures: list[int] = []

    def work() -> None:
        for _ in range(200):
            out, status = run(kernel, 40, spin=300)
            if status != 0 or (out != 1).any():
                failures.append(status)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert failures == []


def test_settings() -> None:
    threads.set_num_threads(5)
    assert threads.get_num_threads() == 5
    with pytest.raises(ValueError, match="at least 1"):
        threads.set_num_threads(0)
    threads.set_num_threads(10**6)
    assert threads.get_num_threads() == layout.MAX_THREADS


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"EAGERJIT_NUM_THREADS": "7", "OMP_NUM_THREADS": "2"}, 7),
        ({"OMP_NUM_THREADS": "3,1"}, 3),
        ({"EAGERJIT_NUM_THREADS": "0", "OMP_NUM_THREADS": "none"}, min(processors(), layout.MAX_THREADS)),
        ({}, min(processors(), layout.MAX_THREADS)),
    ],
)
def test_the_number_of_threads_comes_from_the_environment(environment: dict[str, str], expected: int) -> None:
    script = "from eagerjit.runtime import threads; print(threads.get_num_threads())"
    environment["HOME"] = str(Path.home())
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert int(result.stdout) == expected


def test_the_child_of_a_fork_starts_threads_of_its_own(kernel: int) -> None:
    threads.set_num_threads(3)
    assert run(kernel, 100)[1] == 0
    started = ctypes.c_int64.from_address(native().address("thread_pool") + layout.STARTED)
    assert started.value >= 2
    child = os.fork()
    if child == 0:
        good = started.value == 0
        out, status = run(kernel, 1000, spin=100)
        good = good and status == 0 and bool((out == 1).all()) and started.value == 2
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    out, status = run(kernel, 1000)
    assert status == 0 and (out == 1).all()


def test_workers_leave_signals_to_the_main_thread(kernel: int) -> None:
    threads.set_num_threads(3)
    assert run(kernel, 100)[1] == 0
    blocked = []
    for task in Path("/proc/self/task").iterdir():
        fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        blocked.append(int(fields["SigBlk"], 16) & 0b10 != 0)  # SIGINT
    assert sum(blocked) >= 2


def test_the_interpreter_exits_with_workers_waiting() -> None:
    script = """
import ctypes, sys
from eagerjit.runtime import threads
from eagerjit.runtime.native.library import native
threads.set_num_threads(4)
if sys.argv[1] == "spinning":
    threads.set_spin_microseconds(1e9)
for _ in range(10):
    assert threads.parallel_for(native().address("noop_kernel"), (ctypes.c_int64 * 1)(), 100) == 0
"""
    for mode in ("spinning", "sleeping"):
        subprocess.run([sys.executable, "-X", "dev", "-c", script, mode], cwd=ROOT, check=True, timeout=60)
