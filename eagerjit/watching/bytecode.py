"""Python code: its instructions, and the chains of names that they read."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
from types import CodeType
from typing import Any

from eagerjit.runtime.instructions import instructions
from eagerjit.runtime.records import record

BLIND = frozenset("append extend add discard update appendleft extendleft clear insert".split())
"""Methods that change a container whatever it holds, and return nothing of it."""

_ATTRIBUTES_TELL = sys.version_info >= (3, 12)
"""Whether the operand of LOAD_ATTR tells that a method is loaded to be called."""

_CO_OPTIMIZED = 1  # the flag of code whose variables are not looked up by name


@record
class Access:
    """A chain of names read: its root ("global", "free" or "local"), the root's name, and attributes.

    `use` is "store" where an item of what is at its end is assigned, "augment" where that is done by `+=` and the like,
    "change" where it is itself changed by `+=` and the like, "add" where an item is a container that a blind method
    changes, "item" where one is read or looked for, "got" where the last attribute is a method that is called, "asked"
    where a call gets nothing else, or its truth is asked, "given" where a call gets it beside others.
    """

    kind: str
    name: str
    attributes: tuple[str, ...]
    line: int
    offset: int
    use: str = "read"


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> list[tuple[tuple[int, int], str, Any]]:
    """((line, offset), operation, operand) of every instruction."""
    out = []
    line = code.co_firstlineno
    for instruction in instructions(code):
        position = instruction.positions.lineno if instruction.positions is not None else None
        line = position or line
        called = _ATTRIBUTES_TELL and instruction.opname == "LOAD_ATTR" and (instruction.arg or 0) & 1
        out.append(((line, instruction.offset), "LOAD_METHOD" if called else instruction.opname, instruction.argval))
    return out


@functools.lru_cache(maxsize=1024)
def _chains(code: CodeType) -> list[Access]:
    found: list[Access] = []
    current: Access | None = None
    start = 0
    all_ = _instructions(code)
    for position, (place, name, operand) in enumerate(all_):
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = Access("global", operand, (), *place)
            found.append(current)
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            current = Access("free" if operand in code.co_freevars else "local", operand, (), *place)
            found.append(current)
        elif name.startswith(("LOAD_FAST", "STORE_FAST_LOAD_FAST")):
            # CPython 3.13 joins two such instructions: the second variable is on top of the stack.
            current = Access("local", operand if isinstance(operand, str) else operand[-1], (), *place)
            found.append(current)
        elif name in ("LOAD_ATTR", "LOAD_METHOD") and current is not None:
            current.attributes = (*current.attributes, operand)
        elif name not in ("PUSH_NULL", "PRECALL", "RESUME", "EXTENDED_ARG"):
            current = None
            continue
        if current is not None:
            start = position + 1
            changes = place[1] in _changed_in_place(code)
            current.use = "got" if name == "LOAD_METHOD" else "change" if changes else _use(all_, start)
    return found


def _use(steps: list[tuple[Any, str, Any]], start: int) -> str:
    """How the value is used that lies on top of the stack before the instruction at `start`."""
    above, beside_calls = 0, False
    for position in range(start, len(steps)):
        _, name, operand = steps[position]
        if name in ("PRECALL", "CALL") and above:
            if operand > above:
                return "given"
            above, beside_calls = above - operand * (name == "CALL"), True
            continue
        if name in ("KW_NAMES", "PUSH_NULL") or (name == "LOAD_METHOD" and above):
            continue
        if beside_calls and not name.startswith("LOAD_"):
            return "read"
        if name in ("STORE_SUBSCR", "DELETE_SUBSCR") and above == 1:
            return "store"
        if name == "COPY" and above == 1 and [n for _, n, _ in steps[position : position + 3]] == [
            "COPY", "COPY", "BINARY_SUBSCR"
        ]:  # fmt: skip
            return "augment"
        if name == "BINARY_SUBSCR" and above == 1:
            following = next(iter(steps[position + 1 :]), (0, "", None))
            return "add" if following[1] in ("LOAD_METHOD", "LOAD_ATTR") and following[2] in BLIND else "item"
        if name == "CONTAINS_OP" and not above:
            return "item"
        if not above and _asks(name, operand):
            return "asked"
        if name in ("PRECALL", "CALL") and operand > 1:
            return "given"
        if name == "BINARY_SLICE" and above == 2:
            return "item"
        if name in ("BUILD_SLICE", "BUILD_STRING") and above >= operand:
            above -= operand - 1
        elif name in ("FORMAT_VALUE", "FORMAT_SIMPLE") and above and not (name == "FORMAT_VALUE" and operand[1]):
            continue
        elif name in ("FORMAT_VALUE", "FORMAT_WITH_SPEC") and above >= 2:
            above -= 1
        elif name == "LOAD_FAST_LOAD_FAST":
            above += 2
        elif name.startswith("LOAD_") and name not in ("LOAD_ATTR", "LOAD_METHOD"):
            above += 1
        elif name in ("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP") and above >= 2:
            above -= 1
        elif not (name == "LOAD_ATTR" and above):
            return "read"
    return "read"


@functools.lru_cache(maxsize=1024)
def _changed_in_place(code: CodeType) -> frozenset[int]:
    """The offsets of instructions that read a variable or attribute for `+=` and the like, which assigns it again.

    Such a reading and its assignment, and nothing else, come from the same place of the source.
    """
    found = instructions(code)
    reads = [(i.opname.removeprefix("LOAD_"), i.argval, i.positions) for i in found]
    out = set[int]()
    for at, i in enumerate(found):
        after = next((x for x in found[at + 1 :] if x.opname != "SWAP"), i)
        if i.opname != "BINARY_OP" or not i.argrepr.endswith("=") or after.positions is None:
            continue
        same = (after.opname.removeprefix("STORE_"), after.argval, after.positions)
        places = [x.offset for x, read in zip(found[:at], reads, strict=False) if read == same]
        if after.opname.startswith("STORE_") and after.positions.col_offset is not None and len(places) == 1:
            out.update(places)
    return frozenset(out)


def _asks(name: str, operand: Any) -> bool:
    """Whether an instruction calls something with one value, or asks for its truth, and does nothing else with it."""
    truth = name in ("UNARY_NOT", "TO_BOOL") or (name.startswith("POP_JUMP") and name.endswith(("_TRUE", "_FALSE")))
    return truth or (name in ("PRECALL", "CALL") and operand == 1)


def accesses(code: CodeType, ran: set[int] | None = None) -> list[Access]:
    """The chains of names that code reads by instructions at these offsets (all for None)."""
    return [a for a in _chains(code) if ran is None or a.offset in ran]


def uses_of(code: CodeType, variable: str) -> set[tuple[tuple[str, ...], str]]:
    """The attributes that code reads of one of its variables, and how what it reads is used."""
    found = {(a.attributes, a.use) for a in accesses(code) if a.kind != "global" and a.name == variable}
    pairs = (operand for _, name, operand in _instructions(code) if name.startswith("LOAD_FAST"))
    first = any(type(operand) is tuple and operand[0] == variable for operand in pairs)
    return found | {((), "read")} if first or variable in code.co_cellvars else found


def looks_up_names(code: CodeType) -> bool:
    """Whether code keeps what it assigns in a dictionary, as the bodies of classes do."""
    return not code.co_flags & _CO_OPTIMIZED


def variables_looked_into(code: CodeType) -> frozenset[str]:
    """The variables of a function whose attributes it reads."""
    found = () if looks_up_names(code) else accesses(code)
    return frozenset(a.name for a in found if a.kind != "global" and a.attributes)


@functools.lru_cache(maxsize=1024)
def _uses_of_results(code: CodeType) -> dict[int, str]:
    found = instructions(code)
    steps = [(None, i.opname, i.argval) for i in found]
    out: dict[int, str] = {}
    for position, made in enumerate(found[:-1]):
        after = found[position + 1]
        if made.opname in ("CALL", "BINARY_SUBSCR"):
            adds = after.opname in ("LOAD_METHOD", "LOAD_ATTR") and after.argval in BLIND
            use = "key" if after.opname == "BINARY_SUBSCR" else _use(steps, position + 1)
            use = "add" if adds else "item" if use == "add" else use
            before = found[position - 1]
            out |= {made.offset: use, before.offset if before.opname == "PRECALL" else made.offset: use}
    return out


@functools.lru_cache(maxsize=1024)
def _chains_from(code: CodeType) -> dict[int, tuple[tuple[str, ...], str]]:
    found = instructions(code)
    steps = [(None, i.opname, i.argval) for i in found]
    out: dict[int, tuple[tuple[str, ...], str]] = {}
    for start, first in enumerate(found):
        if first.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            continue
        end = start + 1
        while found[end].opname in ("LOAD_ATTR", "LOAD_METHOD"):
            end += 1
        last = found[end - 1]
        got = last.opname == "LOAD_METHOD" or (_ATTRIBUTES_TELL and (last.arg or 0) & 1)
        use = "got" if got else "change" if last.offset in _changed_in_place(code) else _use(steps, end)
        out[first.offset] = tuple([i.argval for i in found[start + 1 : end]]), use
    return out


def chain_from(code: CodeType, offset: int) -> tuple[tuple[str, ...], str]:
    """The attributes read of what an instruction reads, and how what is at their end is used: see `Access`."""
    return _chains_from(code).get(offset, ((), "read"))


def use_of_result(code: CodeType, offset: int) -> str:
    """How the result of a call or subscript is used, as an `Access` tells.

    "add" where it is added to itself, "key" where it is an index or key by which something is read.
    """
    return _uses_of_results(code).get(offset, "read")


@functools.lru_cache(maxsize=1024)
def catches(code: CodeType) -> bool:
    """Whether code has an `except`, of some classes or of all."""
    names = [name for _, name, _ in _instructions(code)]
    return "CHECK_EXC_MATCH" in names or ("PUSH_EXC_INFO", "POP_TOP") in itertools.pairwise(names)


@functools.lru_cache(maxsize=1024)
def stored_names(code: CodeType) -> frozenset[str]:
    """The attributes, globals and variables of enclosing functions that code assigns."""
    stores = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
    return frozenset(
        i.argval for i in instructions(code)
        if i.opname in stores and not (i.opname == "STORE_DEREF" and i.argval not in code.co_freevars)
    )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def yields_with_care(code: CodeType) -> frozenset[int]:
    """Where a generator has given a value inside of `try` or `with`, so that closing it there runs code."""
    if not code.co_flags & inspect.CO_GENERATOR:
        return frozenset()
    names = {i.offset: i.opname for i in dis.get_instructions(code)}
    ranges: Any = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]

    def handler(offset: int) -> str | None:
        target = next((r.target for r in ranges if r.start <= offset < r.end), None)
        if target is None or names[target] != "CLEANUP_THROW":
            return None if target is None else names[target]
        return handler(target)  # an inner generator's errors come this way

    # From CPython 3.12 on all of a generator lies in a handler that looks for StopIteration; from 3.13 on it waits at
    # the next instruction.
    given = [pair for pair in itertools.pairwise(names) if names[pair[0]] == "YIELD_VALUE"]
    return frozenset(itertools.chain(*[pair for pair in given if handler(pair[0]) not in (None, "CALL_INTRINSIC_1")]))
