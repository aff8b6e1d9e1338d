"""Objects that are linked without LLVM: what they compute, what they find, what is refused."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from struct import unpack_from

import pytest
from arm_objects import object_for_arm

from eagerjit.runtime import cpu, images

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not images.SUPPORTED, reason="objects of this machine are linked by LLVM")

COUNTER = """
@count = global i64 40
@zeros = global [600 x i64] zeroinitializer
@steps = internal constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]
define i64 @next(i64 %i) {
  %place = getelementptr [4 x i64], ptr @steps, i64 0, i64 %i
  %step = load i64, ptr %place
  %old = load i64, ptr @count
  %new = add i64 %old, %step
  store i64 %new, ptr @count
  %last = getelementptr [600 x i64], ptr @zeros, i64 0, i64 599
  %zero = load i64, ptr %last
  %sum = add i64 %new, %zero
  ret i64 %sum
}"""
TWICE = """
@count = external global i64
@cell = global ptr @twice
declare i64 @next(i64)
declare double @sqrt(double)
define i64 @twice(i64 %i) {
  %a = call i64 @next(i64 %i)
  %b = call i64 @next(i64 %i)
  %c = load i64, ptr @count
  %d = add i64 %b, %c
  ret i64 %d
}
define double @root(double %x) {
  %r = call double @sqrt(double %x)
  ret double %r
}
define i64 @by_cell(i64 %i) {
  %f = load ptr, ptr @cell
  %r = call i64 %f(i64 %i)
  ret i64 %r
}
define i64 @chosen(i64 %i) {
  switch i64 %i, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e ]
a:
  ret i64 11
b:
  ret i64 7
c:
  %t = call i64 @next(i64 0)
  ret i64 %t
d:
  ret i64 1000
e:
  ret i64 -3
other:
  ret i64 0
}"""


class CodeForArm:
    """What the instructions of an image refer to."""

    def __init__(self, image: bytes):
        start = len(images.MARK) + 8
        end = start + int.from_bytes(image[start - 8 : start], "little")
        head, self.memory = json.loads(image[start:end]), image[end:]
        self.symbols: dict[str, int] = head["symbols"]
        self.words: dict[int, str | int] = dict(map(tuple, head["words"]))

    def instruction(self, at: int) -> int:
        return int(unpack_from("<I", self.memory, at)[0])

    def places(self, begin: int, end: int) -> list[int]:
        """Where instructions read: pages (adrp), and places in them by the same register (add, ldr)."""
        pages: dict[int, int] = {}
        found = []
        for at in range(begin, end, 4):
            code = self.instruction(at)
            base, part, low = code >> 5 & 31, code >> 22, code >> 10 & 0xFFF
            if code & 0x9F000000 == 0x90000000:
                distance = (code >> 5 & 0x7FFFF) << 2 | code >> 29 & 3
                pages[code & 31] = (at >> 12) + distance - (distance & 1 << 20) * 2 << 12
            elif base in pages and part in (0b1111100101, 0b1001000100):
                found.append(pages.pop(base) + low * (8 if part == 0b1111100101 else 1))
        return found

    def called(self, at: int) -> int | None:
        """Where a call at `at` goes (bl)."""
        call = self.instruction(at)
        if call >> 26 != 0b100101:
            return None
        distance = call & 0x3FFFFFF
        return at + 4 * (distance - (distance & 1 << 25) * 2)


def test_code_for_arm_finds_memory_words_and_code() -> None:
    code = CodeForArm(images.link(object_for_arm(COUNTER), object_for_arm(TWICE)))
    at = code.symbols
    twice, root = at["twice"], at["root"]
    assert [code.called(i) for i in range(twice, root, 4) if code.called(i) is not None] == [at["next"]] * 2
    words = [code.words.get(place) for place in code.places(0, twice)]  # what others may define is found by the table
    assert at["count"] in words
    assert at["zeros"] in words
    assert words.count(None) == 1  # the steps, which are its own
    assert code.words[at["cell"]] == twice
    stub = next(place for i in range(root, at["by_cell"], 4) if (place := code.called(i)) is not None)
    assert [code.words.get(place) for place in code.places(stub, stub + 8)] == ["sqrt"]
    assert code.instruction(stub + 8) == 0xD61F0220  # br x17


def test_objects_for_several_processors_are_not_linked() -> None:
    one = object_for_arm(COUNTER)
    other = one[:18] + (62).to_bytes(2, "little") + one[20:]
    with pytest.raises(RuntimeError, match=r"processors that are not linked: \[62, 183\]"):
        images.link(one, other)


def integer(loaded: cpu.LoadedObject, name: str) -> ctypes._FuncPointer:
    return cpu.callable_at(loaded.address(name), ctypes.c_int64, ctypes.c_int64)


def mapped() -> int:
    """How many pieces of memory this process has."""
    return len(Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.parametrize("passes", ["quick", "light", "full"])
def test_memory_constants_and_calls(passes: str) -> None:
    (code,) = cpu.linked(cpu.compile_text(COUNTER, passes), cpu.compile_text(TWICE, passes))
    first, second = cpu.load_object(code), cpu.load_object(code)
    for loaded in (first, second):  # each with memory of its own
        assert integer(loaded, "next")(2) == 43
        assert integer(loaded, "twice")(0) == 90
        assert integer(loaded, "by_cell")(0) == 94
        assert [integer(loaded, "chosen")(i) for i in (0, 1, 3, 4, 5)] == [11, 7, 1000, -3, 0]
        assert integer(loaded, "chosen")(2) == 48
    assert cpu.callable_at(first.address("root"), ctypes.c_double, ctypes.c_double)(2.25) == 1.5
    assert ctypes.c_int64.from_address(first.address("count")).value == 48


def test_objects_that_are_loaded_one_by_one_use_each_other() -> None:
    counter = cpu.load_object(cpu.compile_text(COUNTER))
    given = {name: counter.address(name) for name in ("count", "next")}
    twice = cpu.load_object(*cpu.linked(cpu.compile_text(TWICE)), symbols=given)
    together = cpu.load_object(*cpu.linked(cpu.compile_text(COUNTER)), cpu.compile_text(TWICE))
    assert twice.address("next") == counter.address("next")
    assert integer(twice, "twice")(1) == integer(together, "twice")(1) == 88
    assert ctypes.c_int64.from_address(counter.address("count")).value == 44


def test_what_is_nowhere_is_an_error() -> None:
    text = "declare void @undefined()\ndefine void @f() {\n  call void @undefined()\n  ret void\n}\n"
    code = cpu.compile_text(text)
    before = mapped()
    for _ in range(100):
        with pytest.raises(RuntimeError, match="undefined"):
            cpu.load_object(code)
    assert mapped() < before + 20


def test_names_are_defined_once() -> None:
    one = cpu.compile_text(COUNTER)
    with pytest.raises(RuntimeError, match="two objects define"):
        images.link(one, one)


def test_thread_local_memory_is_not_linked() -> None:
    text = "@mine = thread_local global i64 3\ndefine i64 @f() {\n  %x = load i64, ptr @mine\n  ret i64 %x\n}\n"
    with pytest.raises(RuntimeError, match="relocation of kind"):
        images.link(cpu.compile_text(text))


@pytest.mark.parametrize("length", [0, 5, 63, 64, 200, 700])
def test_objects_that_end_early(length: int) -> None:
    whole = cpu.compile_text(TWICE)
    assert length < len(whole)
    with pytest.raises(RuntimeError):
        images.link(whole[:length])


def test_code_cannot_be_written_and_memory_cannot_be_run() -> None:
    loaded = cpu.load_object(cpu.compile_text(COUNTER))
    lines = Path("/proc/self/maps").read_text().splitlines()

    def rights(address: int) -> str:
        for line in lines:
            start, _, rest = line.partition("-")
            if int(start, 16) <= address < int(rest.split()[0], 16):
                return rest.split()[1]
        raise AssertionError("not mapped")

    assert rights(loaded.address("next")) == "r-xp"
    assert rights(loaded.address("count")) == "rw-p"


def test_memory_comes_back() -> None:
    (code,) = cpu.linked(cpu.compile_text(COUNTER))
    cpu.load_object(code)
    before = mapped()
    for _ in range(200):
        cpu.load_object(code)
    assert mapped() < before + 20


def test_a_fork_has_memory_of_its_own() -> None:
    loaded = cpu.load_object(cpu.compile_text(COUNTER))
    child = os.fork()
    if child == 0:
        os._exit(0 if integer(loaded, "next")(0) == 41 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert integer(loaded, "next")(0) == 41


def test_programs_that_have_run_before_do_without_llvm(tmp_path: Path) -> None:
    code = "import sys, eagerjit as t\nfrom eagerjit.runtime.native import improving\n"
    code += "f = t.jit(lambda x: (x * 2 + 1).sum() @ x.t() if False else (x @ x.t()).relu().sum())\n"
    code += "print(f(t.ones(3, 4)).item(), t.arange(5).sum().item(), any('llvmlite' in m for m in sys.modules))\n"
    code += "improving.wait()"
    options = {"EAGERJIT_CACHE": "1", "EAGERJIT_CACHE_DIR": str(tmp_path)}

    def run() -> str:
        command = [sys.executable, "-c", code]
        made = subprocess.run(command, env=os.environ | options, cwd=ROOT, capture_output=True, text=True, check=True)
        return made.stdout.strip()

    assert run() == "36.0 10 True"
    assert run() == "36.0 10 False"
