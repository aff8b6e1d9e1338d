"""The fake device that executes PTX: what instructions compute, how threads part and meet, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ptx_arithmetic
import ptx_kernels
import pytest
from fake_memory import Memory, Violation
from ptx_text import parse

HEAD = """
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry kernel(.param .u64 .ptr .global .align 1 data, .param .u32 count)
{
    .reg .pred %p<20>;
    .reg .b16 %rs<20>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<40>;
    ld.param.b64 %rd0, [data];
    ld.param.b32 %r0, [count];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.s32 %r3, %r2, 64, %r1;
"""


def ran(body: str, *rows: np.ndarray, blocks: int = 1, count: int = 0) -> list[np.ndarray]:
    """A kernel of 64 threads in a block over rows of 8 bytes for each thread; the rows afterwards."""
    memory, threads = Memory(), 64 * blocks
    address = memory.allocate(8 * threads * len(rows), "device")
    with memory.opened():
        words = memory.view(address, 8 * threads * len(rows), "the test").view(np.uint64).reshape(len(rows), threads)
        for word, row in zip(words, rows, strict=True):
            word[:] = _padded(row, threads)
        given = [address.to_bytes(8, "little"), count.to_bytes(8, "little")]
        ptx_kernels.run(HEAD + body + "\nret;\n}", memory, "kernel", (blocks, 1, 1), 64, 1024, given)
        return [word.copy() for word in words]


def _padded(row: np.ndarray, threads: int) -> np.ndarray:
    """Each number in the first bytes of a word."""
    made = np.zeros((threads, 8 // row.itemsize), row.dtype)
    made[:, 0] = np.resize(row, threads)
    return made.view(np.uint64).reshape(-1)


def at(row: int, number: str = "%r3", threads: int = 64) -> str:
    """%rd10 becomes the address of a thread's word in a row."""
    return f"mul.wide.s32 %rd10, {number}, 8; add.s64 %rd10, %rd10, {8 * threads * row}; add.s64 %rd10, %rd10, %rd0;"


def of_two(instruction: str, kind: str, result: str = "") -> str:
    """The kernel of an instruction on the first two rows, whose result is the last row."""
    bits = {"16": "%rs", "32": "%r2", "64": "%rd2"}
    own, made = bits[kind.strip("usbf")], bits[(result or kind).strip("usbf")]
    width, wide = kind.strip("usbf"), (result or kind).strip("usbf")
    return (
        f"{at(0)} ld.global.b{width} {own}1, [%rd10]; {at(1)} ld.global.b{width} {own}2, [%rd10];"
        f"{instruction} {made}3, {own}1, {own}2; {at(2)} st.global.b{wide} [%rd10], {made}3;"
    )


INTEGERS = [0, 1, 2, 3, 5, 7, 31, 32, 33, 255, 256, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) + 12345,
            (1 << 64) - 1, 0x123456789ABCDEF]  # fmt: skip


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


EXACT: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add.s32": ("s32", lambda a, b: a + b), "sub.s64": ("s64", lambda a, b: a - b),
    "mul.lo.s32": ("s32", lambda a, b: a * b), "mul.hi.s32": ("s32", lambda a, b: a * b >> 32),
    "mul.hi.u32": ("u32", lambda a, b: a * b >> 32), "mul.hi.s64": ("s64", lambda a, b: a * b >> 64),
    "mul.hi.u64": ("u64", lambda a, b: a * b >> 64), "mul.wide.s32": ("s32", lambda a, b: a * b),
    "mul.wide.u32": ("u32", lambda a, b: a * b), "min.s32": ("s32", min), "max.u64": ("u64", max),
    "and.b32": ("b32", lambda a, b: a & b), "xor.b64": ("b64", lambda a, b: a ^ b),
    "div.s32": ("s32", lambda a, b: int(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if b else -1),
    "rem.s64": ("s64", lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else a),
    "div.u32": ("u32", lambda a, b: a // b if b else -1),
}  # fmt: skip


@pytest.mark.parametrize("instruction", EXACT)
def test_integers_are_exact(instruction: str) -> None:
    kind, expected = EXACT[instruction]
    bits = int(kind[1:])
    made = 2 * bits if "wide" in instruction else bits
    pairs = [(a, b) for a in INTEGERS for b in INTEGERS]
    for begin in range(0, len(pairs), 64):
        some = [pairs[(begin + i) % len(pairs)] for i in range(64)]
        rows = [np.array([p[side] % (1 << bits) for p in some], f"u{bits // 8}") for side in range(2)]
        found = ran(of_two(instruction, kind, f"u{made}"), *rows, np.zeros(64, np.uint64))[2]
        for (a, b), result in zip(zip(*rows, strict=True), found, strict=True):
            x, y = (_signed(int(v), bits) if kind[0] == "s" else int(v) for v in (a, b))
            assert int(result) % (1 << made) == expected(x, y) % (1 << made), (instruction, x, y)


def test_shifts_beyond_the_word() -> None:
    x = np.array([0x80000001], np.uint32)
    for instruction, expected in (
        ("shl.b32", lambda v, n: v << n), ("shr.u32", lambda v, n: v >> n),
        ("shr.s32", lambda v, n: _signed(v, 32) >> n),
    ):  # fmt: skip
        by = np.arange(64, dtype=np.uint32)
        found = ran(of_two(instruction, "b32"), x, by, np.zeros(64, np.uint64))[2]
        assert [int(f) for f in found] == [expected(int(x[0]), int(n)) % (1 << 32) for n in by]


def test_bits_of_words() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 1 << 32, (2, 64), np.uint32)
    start, length = rng.integers(0, 20, 64, np.uint32), rng.integers(0, 12, 64, np.uint32)
    field = [int(v) >> int(s) & ((1 << int(n)) - 1) for v, s, n in zip(x, start, length, strict=True)]
    assert ptx_arithmetic.field(x, start, length).tolist() == field
    assert ptx_arithmetic.field(np.array([0b1100], np.int32), *np.array([[2], [2]], np.uint32)).tolist() == [-1]
    mask = ((np.uint64(1) << length.astype(np.uint64)) - np.uint64(1) << start.astype(np.uint64)).astype(np.uint32)
    assert (ptx_arithmetic.inserted(y, x, start, length) == (x & ~mask | (y << start) & mask)).all()
    both = np.stack([x, y], -1).view(np.uint8).reshape(64, 8)
    found = ptx_arithmetic.permuted(x, y, np.full(64, 0x0C63, np.uint32)).view(np.uint8).reshape(64, 4)
    assert (found[:, :2] == both[:, [3, 6]]).all() and (found[:, 2] == np.where(both[:, 4] >> 7, 255, 0)).all()
    assert ptx_arithmetic.counted("popc", x).tolist() == [int(v).bit_count() for v in x]
    assert ptx_arithmetic.counted("clz", x).tolist() == [32 - int(v).bit_length() for v in x]
    assert ptx_arithmetic.counted("brev", x[:2]).tolist() == [int(f"{int(v):032b}"[::-1], 2) for v in x[:2]]


def test_floats() -> None:
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    a, b = np.array([1, nan, 2, nan, 0.0, -0.0], np.float32), np.array([2, 1, nan, nan, -0.0, 0.0], np.float32)
    low, high = ptx_arithmetic.smallest(a, b), ptx_arithmetic.smallest(a, b, largest=True)
    assert low[:3].tolist() == [1, 1, 2] and high[:3].tolist() == [2, 1, 2] and np.isnan([low[3], high[3]]).all()
    assert np.signbit(low[4:]).all() and not np.signbit(high[4:]).any()
    assert np.isnan(ptx_arithmetic.smallest(a, b, passes=True)[1:4]).all()
    assert ptx_arithmetic.compared("lt", a, b).tolist() == [True] + [False] * 5
    assert ptx_arithmetic.compared("ltu", a, b).tolist() == [True, True, True, True, False, False]
    given = np.array([3e9, -3e9, np.nan, 2.5, -2.5, inf], np.float64)
    assert ptx_arithmetic.converted(given, "s32", ["rzi"]).tolist() == [2**31 - 1, -(2**31), 0, 2, -2, 2**31 - 1]
    assert ptx_arithmetic.converted(given[3:5], "s32", ["rni"]).tolist() == [2, -2]
    tiny = np.array([1e-40, -1e-40, 1], np.float32)
    assert ptx_arithmetic.computed(["add", "ftz"], [tiny, np.zeros(3, np.float32)]).tolist() == [0, 0, 1]
    third = np.array([1 / 3], np.float32)
    product = np.float64(third[0]) * np.float64(third[0])
    assert ptx_arithmetic.computed(["fma", "rn"], [third, third, -third * third])[0] == np.float32(
        product - np.float64(third[0] * third[0])
    )


def test_lanes_exchange() -> None:
    body = (
        "mul.lo.s32 %r4, %r1, 10; shfl.sync.bfly.b32 %r5, %r4, 3, 31, -1; shfl.sync.up.b32 %r6|%p1, %r4, 2, 0, -1;"
        "shfl.sync.idx.b32 %r7, %r4, 5, 31, -1; redux.sync.add.s32 %r8, %r4, -1; setp.lt.s32 %p2, %r1, 3;"
        "vote.sync.ballot.b32 %r9, %p2, -1;"
    )
    rows = [f"{at(row)} st.global.b32 [%rd10], {name};" for row, name in enumerate(("%r5", "%r6", "%r7", "%r8", "%r9"))]
    bfly, up, index, total, ballot = ran(body + "".join(rows), *[np.zeros(64, np.uint64)] * 5)
    lane, warp = np.arange(64) % 32, np.arange(64) // 32
    assert bfly.tolist() == (10 * (32 * warp + (lane ^ 3))).tolist()
    assert up.tolist() == (10 * (32 * warp + np.where(lane < 2, lane, lane - 2))).tolist()
    assert index.tolist() == (10 * (32 * warp + 5)).tolist()
    assert total.tolist() == [10 * sum(range(32))] * 32 + [10 * sum(range(32, 64))] * 32
    assert ballot.tolist() == [7] * 32 + [0] * 32


LOOP = """
    mov.b32 %r10, 0;
    mov.b32 %r11, 0;
AGAIN:
    setp.ge.s32 %p1, %r11, %r1;
    @%p1 bra DONE;
    add.s32 %r10, %r10, %r11;
    add.s32 %r11, %r11, 1;
    bra.uni AGAIN;
DONE:
"""


def test_threads_part_and_meet() -> None:
    meeting = "bar.sync 0; shfl.sync.bfly.b32 %r12, %r10, 0, 31, -1;"
    body = LOOP + meeting + at(0, threads=128) + "st.global.b32 [%rd10], %r12;"
    (found,) = ran(body, np.zeros(64, np.uint64), blocks=2)
    assert found.tolist() == [n * (n - 1) // 2 for n in range(64)] * 2


def test_a_barrier_of_some_threads_is_refused() -> None:
    with pytest.raises(ptx_arithmetic.Unknown, match="not at"):
        ran("setp.lt.s32 %p1, %r1, 32; @%p1 bra END; bar.sync 0;\nEND:", np.zeros(64, np.uint64))


def test_an_instruction_without_a_meaning_is_refused() -> None:
    with pytest.raises(ptx_arithmetic.Unknown, match="tex"):
        ran("tex.b32 %r4, %r5;", np.zeros(64, np.uint64))


@pytest.mark.parametrize(("body", "message"), [
    ("st.global.b64 [%rd0+1024], %rd0;", "in no allocation"),
    ("ld.global.b32 %r4, [%rd0+2];", "no multiple of 4"),
    ("ld.global.v2.b64 {%rd4, %rd5}, [%rd0+8];", "no multiple of 16"),
    ("mov.b32 %r4, global_smem; ld.shared.b32 %r5, [%r4+4096];", "beyond the 1024 bytes"),
])  # fmt: skip
def test_wrong_addresses(body: str, message: str) -> None:
    with pytest.raises(Violation, match=message):
        ran(body, np.zeros(64, np.uint64), np.zeros(64, np.uint64))


TURNED = f"sub.s32 %r4, 63, %r1; {at(0, '%r4')} ld.global.b32 %r5, [%rd10];"
WRITTEN = f"{at(0)} st.global.b32 [%rd10], %r1;"


def test_races_of_warps() -> None:
    with pytest.raises(Violation, match="warps of block 0 race"):
        ran(WRITTEN + TURNED, np.zeros(64, np.uint64))
    ran(WRITTEN + "bar.sync 0;" + TURNED, np.zeros(64, np.uint64))
    kept = "ld.global.b32 %r5, [%rd0]; setp.eq.s32 %p1, %r1, 0; @%p1 st.global.b32 [%rd0], %r5;"
    ran(kept, np.zeros(64, np.uint64))
    with pytest.raises(Violation, match="warps of block 0 race"):
        ran(kept.partition(";")[2] + kept, np.zeros(64, np.uint64))


COUNTED = "bar.sync 0; setp.eq.s32 %p1, %r1, 0; @%p1 atom.global.gpu.acq_rel.add.s32 %r6, [%rd0+1024], 1; bar.sync 0;"


def test_races_of_blocks() -> None:
    other = f"xor.b32 %r4, %r3, 64; {at(0, '%r4', 128)} ld.global.b32 %r5, [%rd10];"
    own = f"{at(0, threads=128)} st.global.b32 [%rd10], %r1;"
    rows: Sequence[Any] = [np.zeros(64, np.uint64)] * 2
    with pytest.raises(Violation, match=r"blocks . and . race"):
        ran(own + other, *rows, blocks=2)
    ran(own + COUNTED + other, *rows, blocks=2)
    with pytest.raises(Violation, match=r"blocks . and . race"):
        ran(COUNTED + own + other, *rows, blocks=2)
    with pytest.raises(Violation, match=r"blocks . and . race"):
        ran("setp.eq.s32 %p1, %r1, 0; @%p1 st.global.b32 [%rd0], %r2;", *rows, blocks=2)


def test_text_is_taken_apart() -> None:
    kernel = parse(HEAD + """
    {
        .reg .pred complete;
    waitLoop:
        mbarrier.try_wait.parity.shared::cta.b64 complete, [%r4], 0;
        @!complete bra.uni waitLoop;
    }
    mov.b64 {%r1, _}, %rd1;  // a comment; with a semicolon
    .loc 1 2 3
    @%p1 st.global.v2.b64 [ %rd4 + 0 ], { %rd3, %rd5 };
    ret;
}
    .section .debug_info { }
""")
    assert kernel.parameters == {"data": (8, 0), "count": (4, 8)} and kernel.shared == {"global_smem": 0}
    wait, again, move, store, end = kernel.instructions[-5:]
    assert again.predicate == "!complete@1" and kernel.labels[again.operands[0]] == len(kernel.instructions) - 5
    assert wait.operands == ("complete@1", "[%r4]", "0") and kernel.registers["complete@1"] == "pred"
    assert move.operands == ("{%r1, _}", "%rd1") and end.opcode == "ret"
    assert (store.predicate, store.operands) == ("%p1", ("[ %rd4 + 0 ]", "{ %rd3, %rd5 }"))
