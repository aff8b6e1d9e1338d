"""LLVM text to machine code: compiling, loading, symbols, errors, and what the generated code must not do."""

from __future__ import annotations

import ctypes
import gc
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from eagerjit.runtime import cpu, images

ROOT = Path(__file__).resolve().parents[2]
ADD_ONE = "define i64 @add_one(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"


@pytest.fixture(params=["images", "LLVM"], autouse=True)
def linker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are linked to images where that is supported, and by LLVM where it is not."""
    if request.param == "LLVM":
        monkeypatch.setattr(images, "SUPPORTED", False)


def test_a_compiled_function_runs() -> None:
    loaded = cpu.load_object(cpu.compile_text(ADD_ONE))
    assert cpu.callable_at(loaded.address("add_one"), ctypes.c_int64, ctypes.c_int64)(41) == 42


@pytest.mark.parametrize("compiled", [cpu.compile_text, cpu.assembly])
@pytest.mark.parametrize("passes", ["quick", "light", "full"])
def test_what_llvm_has_made_is_given_back_though_somebody_holds_it(
    compiled: Callable[..., object], passes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding, held = cpu._binding(), []

    def holding(function: Callable[..., object]) -> Callable[..., object]:
        def made(*args: object, **kwargs: object) -> object:
            held.append(function(*args, **kwargs))
            return held[-1]

        return made

    for name in ("create_context", "parse_assembly", "create_pass_builder", "create_new_module_pass_manager"):
        monkeypatch.setattr(binding, name, holding(getattr(binding, name)))
    compiled(ADD_ONE, passes)
    assert held and all(one.closed for one in held)


@pytest.mark.parametrize("passes", ["none", "light", "inline", "full"])
def test_every_pipeline_gives_the_same_result(passes: str) -> None:
    text = """define i64 @triangle(i64 %n) {
    entry:
      %sum = alloca i64
      store i64 0, ptr %sum
      br label %loop
    loop:
      %i = phi i64 [ 1, %entry ], [ %next, %loop ]
      %s = load i64, ptr %sum
      %t = add i64 %s, %i
      store i64 %t, ptr %sum
      %next = add i64 %i, 1
      %more = icmp sle i64 %next, %n
      br i1 %more, label %loop, label %done
    done:
      %r = load i64, ptr %sum
      ret i64 %r
    }"""
    loaded = cpu.load_object(cpu.compile_text(text, passes))
    assert cpu.callable_at(loaded.address("triangle"), ctypes.c_int64, ctypes.c_int64)(100) == 5050


def test_objects_with_the_same_names_stay_apart() -> None:
    texts = [f"define i64 @f() {{\n  ret i64 {number}\n}}\n" for number in (1, 2)]
    loaded = [cpu.load_object(cpu.compile_text(text)) for text in texts]
    assert [cpu.callable_at(one.address("f"), ctypes.c_int64)() for one in loaded] == [1, 2]


def test_objects_come_and_go_with_several_linkers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "SUPPORTED", False)
    monkeypatch.setattr(cpu, "_AT_A_LINKER", 3)
    texts = [f"define i64 @f() {{\n  ret i64 {number}\n}}\n" for number in range(10)]
    loaded = [cpu.load_object(cpu.compile_text(text), exported=("f",)) for text in texts]
    linkers = {id(one._linker) for one in loaded}
    assert 4 <= len(linkers) <= 5
    del loaded[1:9]
    gc.collect()
    loaded.append(cpu.load_object(cpu.compile_text(texts[5]), exported=("f",)))
    assert [cpu.callable_at(one.address("f"), ctypes.c_int64)() for one in loaded] == [0, 9, 5]


def test_symbols_of_libm_and_given_symbols_resolve() -> None:
    double_it = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
    given = {"test_cpu_double_it": ctypes.cast(double_it, ctypes.c_void_p).value or 0}
    text = """declare double @cosh(double)
    declare i64 @test_cpu_double_it(i64)
    define double @f(double %x) {\n  %y = call double @cosh(double %x)\n  ret double %y\n}
    define i64 @g(i64 %x) {\n  %y = call i64 @test_cpu_double_it(i64 %x)\n  ret i64 %y\n}"""
    loaded = cpu.load_object(cpu.compile_text(text), symbols=given)
    assert cpu.callable_at(loaded.address("f"), ctypes.c_double, ctypes.c_double)(1.5) == math.cosh(1.5)
    assert cpu.callable_at(loaded.address("g"), ctypes.c_int64, ctypes.c_int64)(21) == 42


def test_multiplication_and_addition_are_never_fused() -> None:
    text = """define double @f(double %a, double %b, double %c) {
      %p = fmul double %a, %b
      %s = fadd double %p, %c
      ret double %s
    }"""
    loaded = cpu.load_object(cpu.compile_text(text, "full"))
    f = cpu.callable_at(loaded.address("f"), ctypes.c_double, *[ctypes.c_double] * 3)
    a = 1 + 2.0**-30
    assert f(a, a, -1.0 - 2.0**-29) == a * a + (-1.0 - 2.0**-29) == 0.0  # fused: 2**-60
    assert "fma" not in cpu.assembly(text)


def _adding(number: int) -> str:
    return ADD_ONE.replace("add_one", f"add_{number}").replace("%x, 1", f"%x, {number}")


def test_texts_that_are_compiled_side_by_side_give_the_code_of_each_alone() -> None:
    texts = [_adding(number) for number in range(5)]
    assert cpu.compile_texts(texts) == [cpu.compile_text(text) for text in texts]


def test_a_text_is_written_while_those_before_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    class Noting(threading.Thread):
        def start(self) -> None:
            super().start()
            begun.set()

    def texts() -> Iterator[str]:
        yield _adding(1)
        assert begun.is_set()
        yield _adding(2)

    monkeypatch.setattr(threading, "Thread", Noting)
    assert len(cpu.compile_texts(texts())) == 2


def test_texts_are_compiled_where_there_are_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    texts = [_adding(number) for number in range(2)]
    assert cpu.compile_texts(texts) == [cpu.compile_text(text) for text in texts]


def test_a_malformed_text_among_others_is_an_error_that_waits_for_those() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        cpu.compile_texts([_adding(1), "define nonsense"])
    assert all(thread.name != "eagerjit-llvm" for thread in threading.enumerate())


def test_malformed_text_and_unknown_names_are_errors() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        cpu.compile_text("define nonsense")
    loaded = cpu.load_object(cpu.compile_text(ADD_ONE))
    with pytest.raises(KeyError, match="absent"):
        loaded.address("absent")
    with pytest.raises(RuntimeError):
        cpu.load_object(b"not an object")
    with pytest.raises(RuntimeError):
        cpu.load_object(cpu.compile_text(ADD_ONE), exported=("absent",))


def test_wide_vectors_become_wide_registers() -> None:
    lanes = cpu.vector_width_bits() // 32
    text = f"""define void @f(ptr %p) #0 {{
      %x = load <{lanes} x float>, ptr %p, align 4
      %y = fadd <{lanes} x float> %x, %x
      store <{lanes} x float> %y, ptr %p, align 4
      ret void
    }}
    attributes #0 = {{ nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }}"""
    register = {512: "zmm", 256: "ymm", 128: "xmm"}.get(cpu.vector_width_bits(), "")
    if "avx" in cpu.features():
        assert register in cpu.assembly(text)
    data = np.arange(lanes, dtype=np.float32)
    loaded = cpu.load_object(cpu.compile_text(text))
    cpu.callable_at(loaded.address("f"), None, ctypes.c_void_p)(data.ctypes.data)
    assert (data == 2 * np.arange(lanes)).all()


def test_the_target_key_names_processor_and_features() -> None:
    assert cpu.cpu_name() in cpu.target_key()
    assert all(feature in cpu.target_key() for feature in cpu.features())


def test_code_for_other_vectors_is_another_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for bits in (128, 256, 512):
        monkeypatch.setattr(cpu, "vector_width_bits", lambda bits=bits: bits)
        keys.add(cpu.target_key.__wrapped__())
    assert len(keys) == 3


def test_the_vector_width_can_be_lowered_only() -> None:
    script = "from eagerjit.runtime import cpu; print(cpu.vector_width_bits())"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={"EAGERJIT_VECTOR_BITS": "128"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "128"
    run = subprocess.run(
        [sys.executable, "-c", script], env={"EAGERJIT_VECTOR_BITS": "3"}, cwd=ROOT, capture_output=True, text=True
    )
    assert "EAGERJIT_VECTOR_BITS must be" in run.stderr


def test_threads_compile_and_load_at_once() -> None:
    results: dict[int, int] = {}

    def work(number: int) -> None:
        text = f"define i64 @f() {{\n  ret i64 {number}\n}}\n"
        loaded = cpu.load_object(cpu.compile_text(text))
        results[number] = cpu.callable_at(loaded.address("f"), ctypes.c_int64)()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == {number: number for number in range(16)}


def test_importing_does_not_load_llvm() -> None:
    script = "import sys; import eagerjit.runtime.cpu; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
