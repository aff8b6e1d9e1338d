"""What each instruction of PTX does to the registers and the memory of threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import ptx_arithmetic as arithmetic
import ptx_matrices as matrices
from fake_memory import Violation
from ptx_arithmetic import DTYPES, Unknown
from ptx_threads import WARP, Array, Handler, Threads

NOTHING = (
    "fence", "membar", "griddepcontrol", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group",
    "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", "bar.warp", "prefetch", "createpolicy",
)  # fmt: skip
"""Instructions that wait for others, which are done at once here, or have no effect."""


def vector(operand: str) -> list[str]:
    """The registers of `{a, b}`."""
    return [part.strip() for part in operand.strip("{} ").split(",")]


def _arithmetic(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    kind, packed = parts[-1], parts[-1].endswith("x2")
    target, *sources = operands
    if packed:
        return _packed(threads, parts, operands)
    given = []
    for position, source in enumerate(sources):
        own = kind
        if parts[0] in ("shl", "shr") and position == 1:
            own = "u32"
        if parts[0] == "mad" and "wide" in parts and position == 2:
            own = f"{kind[0]}{2 * int(kind[1:])}"
        given.append(threads.value(source, own))
    made = arithmetic.computed(parts[:-1], given)
    if parts[0] in ("popc", "clz", "bfind"):
        kind = "u32"
    elif "wide" in parts:
        kind = f"{kind[0]}{2 * int(kind[1:])}"
    threads.set(target, made, kind)
    return None


def halves(words: Array, kind: str) -> Array:
    """Both numbers of words that hold two."""
    return np.ascontiguousarray(words).view(DTYPES[kind]).reshape(-1, 2)


def _packed(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    kind = parts[-1].removesuffix("x2")
    target, *sources = operands
    if kind == "f32":
        given = [threads.value(s, "b64").view(np.float32).reshape(-1, 2) for s in sources]
        made = arithmetic.computed(parts[:-1], given)
        threads.set(target, np.ascontiguousarray(made).view(np.uint64).reshape(-1), "b64")
        return
    given = [halves(threads.value(s, "b32"), kind) for s in sources]
    made = arithmetic.computed(parts[:-1], given)
    threads.set(target, np.ascontiguousarray(made).view(np.uint32).reshape(-1), "b32")


def _mov(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    kind = parts[-1]
    target, source = operands
    if target.startswith("{"):
        names = vector(target)
        words = threads.value(source, kind)
        each = np.ascontiguousarray(words).view(f"u{words.dtype.itemsize // len(names)}").reshape(-1, len(names))
        for place, name in enumerate(names):
            threads.set(name, each[:, place], f"b{8 * each.dtype.itemsize}")
    elif source.startswith("{"):
        names, bits = vector(source), int(kind[1:])
        own = f"b{bits // len(names)}"
        each = np.stack([threads.value(name, own) for name in names], -1)
        threads.set(target, np.ascontiguousarray(each).view(f"u{bits // 8}").reshape(-1), kind)
    else:
        threads.set(target, threads.value(source, kind), kind)


def _setp(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    target, a, b, *rest = operands
    kind = parts[-1]
    if kind.endswith("x2"):
        two = arithmetic.compared(parts[1], *(halves(threads.value(x, "b32"), kind.removesuffix("x2")) for x in (a, b)))
        for place, name in enumerate(target.split("|")):
            threads.set(name, two[:, place], "pred")
        return
    made = arithmetic.compared(parts[1], threads.value(a, kind), threads.value(b, kind))
    if rest:
        other = threads.value(rest[0].lstrip("!"), "pred")
        other = ~other if rest[0].startswith("!") else other
        combine = next(p for p in parts if p in ("and", "or", "xor"))
        made = {"and": made & other, "or": made | other, "xor": made ^ other}[combine]
    threads.set(target, made, "pred")


def _selp(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    target, a, b, chosen = operands
    kind = parts[-1]
    made = np.where(threads.value(chosen, "pred"), threads.value(a, kind), threads.value(b, kind))
    threads.set(target, made, kind)


def _cvt(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    target, source = parts[-2], parts[-1]
    if len(operands) == 3 or target.endswith("x2"):
        return _cvt_packed(threads, parts, operands)
    x = threads.value(operands[1], source)
    if "ftz" in parts and source == "f32":
        x = arithmetic.flushed(x)
    if target == "tf32":
        raise Unknown("tf32 by cvt")
    made = arithmetic.converted(x, target, parts[1:-2])
    threads.set(operands[0], made, target)
    return None


def _cvt_packed(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """Two floats into one word, the first one above, or two of eight bits apart."""
    target, source = parts[-2].removesuffix("x2"), parts[-1].removesuffix("x2")
    if len(operands) == 3:
        both = [threads.value(o, source) for o in (operands[2], operands[1])]
        if "satfinite" in parts:
            most = float(ml_dtypes.finfo(DTYPES[target]).max)
            both = [np.clip(x, -most, most) for x in both]
        made = np.stack([arithmetic.converted(x, target, parts[1:-2]) for x in both], -1)
    else:
        word = threads.value(operands[1], "b16")
        made = np.ascontiguousarray(word).view(DTYPES[source]).reshape(-1, 2).astype(DTYPES[target])
    bits = 8 * made.dtype.itemsize * 2
    threads.set(operands[0], np.ascontiguousarray(made).view(f"u{bits // 8}").reshape(-1), f"b{bits}")


def _access(parts: list[str]) -> tuple[str, int, str, int]:
    """The memory of an access, how many words it has, the type of each and its bytes."""
    count = next((int(p[1:]) for p in parts if re.fullmatch(r"v[248]", p)), 1)
    space = next(s for p in parts if (s := p.partition("::")[0]) in ("shared", "global", "param"))
    return space, count, parts[-1], np.dtype(DTYPES[parts[-1]]).itemsize


def _places(threads: Threads, operand: str, space: str, line: int) -> Array:
    """The addresses of an operand, multiples of so many bytes."""
    found = threads.address(operand, "u64" if space == "global" else "u32")
    if (found & found.dtype.type(line - 1)).any():
        raise Violation(f"{threads.name}: an address that is no multiple of {line}")
    return found


def _ld(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    space, count, kind, size = _access(parts)
    base = _places(threads, operands[1], space, size * count)
    for place, name in enumerate(vector(operands[0])):
        at = base + base.dtype.type(place * size)
        if space == "param":
            each = threads.parameters[at.astype(np.int64)[:, None] + np.arange(size)]
            words = np.ascontiguousarray(each).view(f"u{size}").reshape(-1)
        else:
            words = threads.load(space, at, size)
        threads.set(name, words.view(DTYPES[kind]), kind)


def _st(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    space, count, _, size = _access(parts)
    base = _places(threads, operands[0], space, size * count)
    for place, name in enumerate(vector(operands[1])):
        threads.store(space, base + base.dtype.type(place * size), threads.value(name, f"b{8 * size}"), size)


def _atom(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """One thread after the other reads, combines and writes."""
    target, place, *sources = operands if parts[0] == "atom" else ("_", *operands)
    name = next(p for p in parts if p in ("add", "min", "max", "and", "or", "xor", "exch", "cas"))
    space, _, kind, size = _access(parts)
    addresses = _places(threads, place, space, size)
    given = [threads.value(source, kind) for source in sources]
    before, group = np.empty(len(addresses), DTYPES[kind]), threads.at
    for i in range(len(group)):
        threads.go(group[i : i + 1])
        own = [g[i : i + 1] for g in given]
        before[i : i + 1] = old = threads.at_once(space, addresses[i : i + 1], size).view(DTYPES[kind])
        match name:
            case "exch":
                new = own[0]
            case "cas":
                new = np.where(old == own[0], own[1], old)
            case _:
                new = arithmetic.computed([name], [old, own[0]])
        words = np.ascontiguousarray(new.astype(DTYPES[kind])).view(f"u{size}")
        threads.at_once(space, addresses[i : i + 1], size, words)
    threads.go(group)
    if space == "global":
        threads.memory.accesses.met(np.unique(threads.grid_number[group]))
    threads.set(target, before, kind)


def _cp_async(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """Copied at once; of the bytes that there are not zeros are written."""
    if "bulk" in parts:
        return matrices.copy_block(threads, parts, operands)
    to, source, size = operands[:3]
    count = int(size, 0)
    given = threads.value(operands[3], "u32") if len(operands) > 3 else np.full(len(threads.at), count, np.uint32)
    places, addresses = _places(threads, to, "shared", count), threads.address(source, "u64")
    if (addresses[given > 0] & np.uint64(count - 1)).any():
        raise Violation(f"{threads.name}: a copy from an address that is no multiple of {count}")
    group = threads.at
    for offset in range(0, count, 4):
        words = np.zeros(len(places), np.uint32)
        there = given > offset
        threads.go(group[there])
        words[there] = threads.load("global", addresses[there] + np.uint64(offset), 4)
        threads.go(group)
        threads.store("shared", places + np.uint32(offset), words, 4)
    return None


def _shfl(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """A register of another lane."""
    target, source, by, limit, _ = operands
    rows = threads.lanes()
    words = threads.value(source, "b32")[rows]
    step, bound = threads.value(by, "u32")[rows].astype(np.int64), threads.value(limit, "u32")[rows].astype(np.int64)
    lane, clamp, segment = np.arange(WARP)[None, :], bound & 31, bound >> 8 & 31
    low = lane & segment
    high = low | clamp & ~segment
    match parts[2]:
        case "up":
            chosen = lane - step
            inside = chosen >= high
        case "down":
            chosen = lane + step
            inside = chosen <= high
        case "bfly":
            chosen = lane ^ step
            inside = chosen <= high
        case _:
            chosen = low | step & ~segment
            inside = chosen <= high
    chosen = np.where(inside, chosen, lane)
    made = np.take_along_axis(words, chosen & 31, 1).reshape(-1)
    name, _, predicate = target.partition("|")
    threads.set(name, made, "b32")
    if predicate:
        threads.set(predicate, inside.reshape(-1), "pred")


def _redux(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """All lanes' numbers combined, in each of those that take part."""
    target, source, members = operands
    kind = parts[-1]
    rows = threads.lanes()
    values, member = threads.value(source, kind)[rows], threads.value(members, "u32")[rows]
    among = (member >> np.arange(WARP, dtype=np.uint32) & np.uint32(1)).astype(bool)
    neutral: dict[str, Any] = {"add": 0, "or": 0, "xor": 0, "and": -1}
    ends = np.iinfo(values.dtype)
    fill = np.array(neutral.get(parts[2], ends.max if parts[2] == "min" else ends.min)).astype(values.dtype)
    values = np.where(among, values, fill)
    combine: Any = {
        "add": np.add, "or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor, "min": np.minimum,
        "max": np.maximum,
    }[parts[2]]  # fmt: skip
    made = combine.reduce(values, 1, dtype=values.dtype)
    threads.set(target, np.repeat(made, WARP), kind)


def _vote(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """What the lanes' predicates are together."""
    target, source, _ = operands
    rows = threads.lanes()
    holds = threads.value(source.lstrip("!"), "pred")[rows] ^ source.startswith("!")
    if "ballot" in parts:
        weights = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        made = (holds * weights).sum(1, dtype=np.uint64).astype(np.uint32)
        threads.set(target, np.repeat(made, WARP), "b32")
        return
    made = holds.all(1) if "all" in parts else holds.any(1)
    threads.set(target, np.repeat(made, WARP), "pred")


def _elect(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """The first lane is the one."""
    target, _, predicate = operands[0].partition("|")
    threads.set(target, np.zeros(len(threads.at), np.uint32), "b32")
    threads.set(predicate, threads.number[threads.at] % WARP == 0, "pred")


def _barrier(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    if parts[1:2] == ["warp"]:
        return
    if len(operands) > 1:
        raise Unknown("a barrier of some warps")
    threads.barrier()


def _word(function: Callable[..., Array], *kinds: str) -> Handler:
    """An instruction whose operands have types of their own, "" for the instruction's."""
    def act(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
        given = [threads.value(o, kind or parts[-1]) for o, kind in zip(operands[1:], kinds, strict=True)]
        threads.set(operands[0], function(*given), parts[-1])

    return act


def _shf(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    given = [threads.value(o, "b32") for o in operands[1:]]
    threads.set(operands[0], arithmetic.funnel(parts[1] == "l", parts[2] == "wrap", *given), "b32")


def _copysign(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    sign, size = (threads.value(o, parts[-1]) for o in operands[1:])
    threads.set(operands[0], np.copysign(size, sign), parts[-1])


def _lop3(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    a, b, c = (threads.value(o, "b32") for o in operands[1:4])
    table, made = int(operands[4].rstrip("U"), 0), np.zeros(len(threads.at), np.uint32)
    for row in range(8):
        if table >> row & 1:
            made |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    threads.set(operands[0], made, "b32")


def _testp(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    x = threads.value(operands[1], parts[-1])
    made = {"finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda v: ~np.isnan(v)}
    threads.set(operands[0], made[parts[1]](x), "pred")


def _cvta(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    threads.set(operands[0], threads.value(operands[1], parts[-1]), parts[-1])


HANDLERS: dict[str, Handler] = {
    "mov": _mov, "setp": _setp, "selp": _selp, "cvt": _cvt, "ld": _ld, "st": _st, "atom": _atom, "red": _atom,
    "shfl": _shfl, "redux": _redux, "vote": _vote, "bar": _barrier, "barrier": _barrier, "elect": _elect,
    "prmt": _word(arithmetic.permuted, "b32", "b32", "b32"), "shf": _shf, "copysign": _copysign, "lop3": _lop3,
    "bfe": _word(arithmetic.field, "", "u32", "u32"), "bfi": _word(arithmetic.inserted, "", "", "u32", "u32"),
    "testp": _testp, "cvta": _cvta, "mma": matrices.multiply, "ldmatrix": matrices.load, "stmatrix": matrices.store,
    "wgmma": matrices.multiply_of_group, "mbarrier": matrices.barrier, "cp": _cp_async,
}  # fmt: skip


@lru_cache(maxsize=4096)
def handler(opcode: str) -> Handler:
    """What does an instruction of this name."""
    if any(opcode == name or opcode.startswith(name + ".") for name in NOTHING):
        return lambda threads, parts, operands: None
    return HANDLERS.get(opcode.split(".")[0], _arithmetic)
