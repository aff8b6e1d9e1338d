"""Compiled programs on disk: what a recording was compiled to, under a digest of all that went into it."""

from __future__ import annotations

import json
from array import array
from functools import cache as once
from typing import Any

import eagerjit.compiler
from eagerjit import runtime
from eagerjit.compiled import machine_code
from eagerjit.compiled.machine_code import MANY, Code, Object
from eagerjit.compiler.signature import (
    FloatLeaf,
    Fresh,
    IntLeaf,
    Load,
    ObjectGuard,
    SameGuard,
    TensorLeaf,
    Trace,
    WriteGuard,
)
from eagerjit.compiler.text import graph_key
from eagerjit.runtime import cache, cpu, sources
from eagerjit.runtime.program import Failure, HostCall, Program

KIND, LATEST = "program", "latest"


@once
def _compiler() -> str:
    """A digest of the sources of the compiler, and of what says how programs and their code are kept."""
    kept = [str(module.__file__) for module in (machine_code, runtime.program, runtime.images)]
    return sources.digest([*sources.modules_below(next(iter(eagerjit.compiler.__path__))), __file__, *kept])


def program_key(trace: Trace) -> str:
    """The digest under which a trace's program is kept. Source lines matter only where errors name them."""
    graph = trace.graph
    named = (n for n in graph.nodes if trace.checks or n.op.family in ("index", "host") or n.op.traits & _CHECKED)
    lines = [n.source for n in named]
    parts = [_binding_text(b) for b in trace.bindings]
    parts += [repr(o) if not isinstance(o, Fresh) else f"fresh {o.aliases}" for o in trace.outputs]
    parts += [str(g) for g in trace.guards]
    parts += [f"{leaf} {n} {line}" for (leaf, _), n, line in zip(trace.writes, trace.times, trace.lines, strict=True)]
    parts += [f"question {q.bits} {q.size}" for q in trace.questions]
    parts.append(repr((trace.n_arguments, trace.n_leaves, trace.gradients, trace.grad_mode, trace.epoch)))
    parts.append(repr((trace.fastmath, trace.checks, trace.distinct)))
    return cache.content_key(_compiler(), cpu.target_key(), graph_key(graph), "\n".join(parts), "\n".join(lines))


_CHECKED = frozenset({"gathers", "integer_zero_divisor", "requires"})


def _binding_text(b: object) -> str:
    match b:
        case TensorLeaf(leaf, _, strides, grad):
            return f"tensor {leaf} {strides} {grad}"
        case FloatLeaf(leaf, _, words):
            return f"float {leaf} {words}"
        case IntLeaf(leaf, size):
            return f"int {leaf} {size}"
        case ObjectGuard(leaf, op, constant):
            return f"guard {leaf} {op} {constant}"
        case SameGuard(leaf, other, expected):
            return f"same {leaf} {other} {expected}"
        case WriteGuard(leaf):
            return f"written {leaf}"
        case Load(leaf, op, operands):
            return f"load {leaf} {op} {operands}"
    raise AssertionError(b)


def read(key: str) -> tuple[Program, Code] | None:
    """The program kept under a key, and its machine code."""
    content = cache.get(KIND, key)
    if content is None:
        return None
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    words = array("q", content[8 + size : 8 + size + head["words"] * 8])
    objects, start = [], 8 + size + head["words"] * 8
    for length, symbols in head["objects"]:
        objects.append(Object(content[start : start + length], tuple(symbols)))
        start += length
    return _program(head, words), Code(tuple(objects), tuple((i, j) for i, j in head["places"]))


def latest(name: str) -> Code | None:
    """The machine code of the program of this name that was compiled last, before one of its lines was edited, say."""
    key = cache.get(LATEST, _latest_key(name))
    found = None if key is None else read(key.decode())
    return None if found is None else found[1]


def _latest_key(name: str) -> str:
    return cache.content_key(_compiler(), cpu.target_key(), name)


def _program(head: dict, words: array) -> Program:
    instructions: list[tuple[int, ...]] = []
    position = 0
    while position < len(words):
        count = words[position + 1]
        instructions.append((words[position], *words[position + 2 : position + 2 + count]))
        position += 2 + count
    errors = [Failure(*e) for e in head["errors"]]
    calls = [HostCall(name, _tuples(given), _tuples(found), place) for name, given, found, place in head["calls"]]
    n_arguments, n_leaves, n_slots, n_outputs = head["counts"]
    kernels, n_words = head["kernels"], head["n_words"]
    return Program(n_arguments, n_leaves, n_slots, n_outputs, instructions[:-1], kernels, errors, n_words, calls)


def _tuples(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuples(p) if isinstance(p, list) else p for p in parts)


def write(key: str, program: Program, code: Code, name: str) -> None:
    """Keep a program and its machine code, which one that is compiled under the same name next may have use for."""
    words = array("q", program.words())
    head = {
        "counts": [program.n_arguments, program.n_leaves, program.n_slots, program.n_outputs],
        "words": len(words),
        "kernels": program.kernels,
        "errors": [[e.exception, e.message, e.slot] for e in program.errors],
        "n_words": program.n_words,
        "objects": [[len(one.code), one.symbols] for one in code.objects],
        "places": code.places,
        "calls": [[c.function, c.arguments, c.results, c.place] for c in program.calls],
    }
    text, machine = json.dumps(head).encode(), b"".join(one.code for one in code.objects)
    cache.put(KIND, key, len(text).to_bytes(8, "little") + text + words.tobytes() + machine)
    if len(code.places) >= MANY:
        cache.put(LATEST, _latest_key(name), key.encode())
