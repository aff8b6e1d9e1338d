"""PTX as text, taken apart: what a kernel's parameters and shared memory are, and its instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass

ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)(.*?)\{", re.S)
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)")
SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d*)\]")
TOKEN = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|[^,\s][^,]*")
LABEL = re.compile(r"([\w$]+):")
IGNORED = re.compile(r"//[^\n]*|^\s*\.(?:loc|pragma|file)\b[^\n]*", re.M)
BRACE = re.compile(r"[{}]")
STATEMENT = re.compile(r"\s*([\w$]+:(?!:)|[{}]|[^\s;{}][^;{}]*(?:\{[^{}]*\}[^;{}]*)*;)")


@dataclass(frozen=True)
class Instruction:
    """`predicate` is a register that a thread's executing depends on, with "!" where it must be false."""

    predicate: str
    opcode: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class PtxKernel:
    """`parameters` are sizes and places by name, `registers` types, `labels` places among the instructions."""

    name: str
    parameters: dict[str, tuple[int, int]]
    parameter_bytes: int
    registers: dict[str, str]
    shared: dict[str, int]
    shared_bytes: int
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def parse(text: str) -> PtxKernel:
    """The one kernel of a text."""
    text = IGNORED.sub("", text)
    found = ENTRY.search(text)
    if found is None:
        raise ValueError("no kernel in the text")
    parameters, end = _parameters(found[2])
    shared, static = dict[str, int](), 0
    for align, name, size in SHARED.findall(text):
        if size:
            static = -(-static // int(align)) * int(align)
            shared[name], static = static, static + int(size)
    for _, name, size in SHARED.findall(text):
        if not size:
            shared[name] = -(-static // 1024) * 1024
    reader = _Reader()
    for statement in STATEMENT.finditer(_body(text, found.end())):
        reader.take(statement[1].rstrip(";").strip())
    return PtxKernel(
        found[1], parameters, end, reader.registers, shared, max(shared.values(), default=static) if shared else 0,
        tuple(reader.instructions), reader.labels,
    )  # fmt: skip


def _parameters(text: str) -> tuple[dict[str, tuple[int, int]], int]:
    """Each one's size and place, and how many bytes they take together."""
    found, end = dict[str, tuple[int, int]](), 0
    for declaration in text.split(","):
        words = declaration.split()
        if not words:
            continue
        name, _, count = words[-1].partition("[")
        kind = next(w for w in words[1:] if re.fullmatch(r"\.[usbf]\d+", w))
        size = int(kind[2:]) // 8 * int(count.rstrip("]") or 1)
        align = int(words[words.index(".align") + 1]) if count else size
        end = -(-end // align) * align
        found[name] = size, end
        end += size
    return found, end


def _body(text: str, begin: int) -> str:
    """What lies between a brace that is open and the one that closes it."""
    depth = 1
    for brace in BRACE.finditer(text, begin):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[begin : brace.start()]
    raise ValueError("a brace that nothing closes")


class _Reader:
    """Instructions with the names of blocks within made different from all others."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.scopes: list[dict[str, str]] = []
        self.count = 0

    def take(self, statement: str) -> None:
        if statement == "{":
            self.count += 1
            self.scopes.append({})
        elif statement == "}":
            self.scopes.pop()
        elif statement.endswith(":"):
            self.labels[self._label(statement[:-1])] = len(self.instructions)
        elif statement.startswith(".reg"):
            self._declare(statement)
        elif statement and not statement.startswith("."):
            self._instruction(statement)

    def _label(self, name: str) -> str:
        return f"{name}@{self.count}" if self.scopes else name

    def _declare(self, statement: str) -> None:
        found = REGISTERS.match(" ".join(statement.split()))
        assert found is not None
        for name in found[2].replace(" ", "").split(","):
            base, _, count = name.partition("<")
            for own in [base] if not count else [f"{base}{i}" for i in range(int(count[:-1]))]:
                new = own
                if self.scopes:
                    new = self.scopes[-1][own] = f"{own}@{self.count}"
                self.registers[new] = found[1]

    def _instruction(self, statement: str) -> None:
        predicate = ""
        if statement.startswith("@"):
            predicate, statement = statement[1:].split(None, 1)
        opcode, *rest = statement.split(None, 1)
        operands = TOKEN.findall(rest[0]) if rest else []
        if opcode.startswith("bra") and self.scopes:
            operands = [self._label(operands[0])]
        made = tuple(self._renamed(" ".join(operand.split())) for operand in operands)
        self.instructions.append(Instruction(self._renamed(predicate), opcode, made))

    def _renamed(self, operand: str) -> str:
        for scope in self.scopes:
            for own, new in scope.items():
                operand = re.sub(rf"(?<![\w%$@]){re.escape(own)}(?![\w@])", new, operand)
        return operand
