"""Translates expressions of native code into LLVM instructions."""

from __future__ import annotations

import ast
import operator
import platform
import struct
from collections.abc import Callable
from dataclasses import field
from types import FunctionType
from typing import Any, NoReturn

from eagerjit.runtime.native.language import External, Global, Intrinsic, Signature
from eagerjit.runtime.records import record

STORAGE = {
    "i64": "i64", "int": "i64", "bool": "i64", "i32": "i32", "u32": "i32", "i16": "i16", "u16": "i16", "i8": "i8",
    "u8": "i8", "f64": "double", "float": "double", "f32": "float", "ptr": "ptr", "void": "void", "None": "void",
}  # fmt: skip
"""LLVM types of the type names in signatures."""

UNSIGNED = frozenset({"u8", "u16", "u32"})
FLOATS = ("double", "float")

_FOLD: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_INTEGER: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem", ast.BitAnd: "and",
    ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_FLOAT: dict[type[ast.operator], str] = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("eq", "oeq"), ast.NotEq: ("ne", "une"), ast.Lt: ("slt", "olt"), ast.LtE: ("sle", "ole"),
    ast.Gt: ("sgt", "ogt"), ast.GtE: ("sge", "oge"), ast.Is: ("eq", "oeq"), ast.IsNot: ("ne", "une"),
}  # fmt: skip


class TranslationError(Exception):
    """Code outside the subset; the message starts with file and line."""


@record(frozen=True)
class Value:
    """An LLVM operand with its type; `constant` is its number where that is known."""

    type: str
    text: str
    constant: int | float | None = None


@record
class Symbols:
    """What the functions of a library refer to, filled in while translating."""

    signatures: dict[FunctionType, Signature]
    names: dict[FunctionType, str]
    globals: dict[int, str]  # id of a Global -> its symbol
    externals: dict[str, Signature] = field(default_factory=dict)
    data: set[str] = field(default_factory=set)
    strings: dict[bytes, str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)
    given: set[int] = field(default_factory=set)  # ids of the Globals that another object defines


def integer(number: int) -> Value:
    wrapped = (number + 2**63) % 2**64 - 2**63
    return Value("i64", str(wrapped), wrapped)


def real(number: float, llvm_type: str = "double") -> Value:
    if llvm_type == "float":
        number = struct.unpack("f", struct.pack("f", number))[0]
    return Value(llvm_type, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}", number)


class ExpressionTranslator:
    """Emits one function's instructions; statements are added by `translate.FunctionTranslator`."""

    emit_intrinsic: Callable[[ExpressionTranslator, str, ast.Call], Value]

    def __init__(self, function: FunctionType, filename: str, symbols: Symbols):
        self.scope: dict[str, Any] = function.__globals__
        self.filename, self.symbols = filename, symbols
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.locals: dict[str, str] = {}
        self._count = 0

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        raise TranslationError(f"{self.filename}:{getattr(node, 'lineno', 0)}: {message}")

    # -- emission -------------------------------------------------------------------------------------------------
    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def emit(self, llvm_type: str, instruction: str) -> Value:
        result = self.name()
        self.lines.append(f"  {result} = {instruction}")
        return Value(llvm_type, result)

    def place(self, label: str) -> None:
        """Begins a basic block."""
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        self.lines.append(f"  br i1 {condition.text}, label %{yes}, label %{no}")

    def declare(self, declaration: str) -> None:
        self.symbols.declarations.add(declaration)

    # -- conversions ----------------------------------------------------------------------------------------------
    def convert(self, value: Value, wanted: str, node: ast.AST) -> Value:
        """An implicit conversion, or an error."""
        have = value.type
        if have == wanted:
            return value
        if wanted in FLOATS:
            if value.constant is None:
                self.fail(node, f"a {have} value where a {wanted} is needed: convert it with f64(...) or f32(...)")
            return real(float(value.constant), wanted)
        if have in FLOATS or have == "void":
            self.fail(node, f"a {have} value where a {wanted} is needed")
        if wanted == "i1":
            return self.emit("i1", f"icmp ne {have} {value.text}, {'null' if have == 'ptr' else '0'}")
        if have == "i1":
            return self.convert(self.emit("i64", f"zext i1 {value.text} to i64"), wanted, node)
        if wanted == "ptr":
            if value.constant == 0:
                return Value("ptr", "null")
            return self.emit("ptr", f"inttoptr i64 {self.convert(value, 'i64', node).text} to ptr")
        if have == "ptr":
            return self.convert(self.emit("i64", f"ptrtoint ptr {value.text} to i64"), wanted, node)
        if wanted == "i64":
            return self.emit("i64", f"sext {have} {value.text} to i64")
        if value.constant is not None and have == "i64":
            return Value(wanted, str(_wrap(int(value.constant), int(wanted[1:]))))
        wide = self.convert(value, "i64", node)
        return self.emit(wanted, f"trunc i64 {wide.text} to {wanted}")

    def extend(self, value: Value, type_name: str) -> Value:
        """A parameter, result or loaded value of declared type `type_name` as a value of expressions."""
        if value.type not in ("i8", "i16", "i32"):
            return value
        kind = "zext" if type_name in UNSIGNED else "sext"
        return self.emit("i64", f"{kind} {value.type} {value.text} to i64")

    def typed(self, node: ast.expr, wanted: str) -> Value:
        return self.convert(self.expression(node), wanted, node)

    def condition(self, node: ast.expr) -> Value:
        value = self.expression(node)
        if value.type in FLOATS:
            self.fail(node, "a float is no condition: compare it")
        return self.convert(value, "i1", node)

    def constant(self, node: ast.expr, what: str) -> int:
        value = self.expression(node)
        if not isinstance(value.constant, int):
            self.fail(node, f"{what} must be an integer constant")
        return value.constant

    # -- expressions ----------------------------------------------------------------------------------------------
    def expression(self, node: ast.expr) -> Value:
        method = getattr(self, f"on_{type(node).__name__}", None)
        if method is None:
            self.fail(node, f"{type(node).__name__} is not part of the native subset")
        return method(node)

    def on_Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, int):
            return integer(int(node.value))
        if isinstance(node.value, float):
            return real(node.value)
        self.fail(node, f"the constant {node.value!r} is not part of the native subset")

    def on_Name(self, node: ast.Name) -> Value:
        if node.id in self.locals:
            llvm_type = self.locals[node.id]
            return self.emit(llvm_type, f"load {llvm_type}, ptr %local.{node.id}")
        return self._outside(self._object(node), node)

    def on_Attribute(self, node: ast.Attribute) -> Value:
        return self._outside(self._object(node), node)

    def _object(self, node: ast.expr) -> Any:
        """The Python object that a name (or attribute of one) from outside the function stands for."""
        if isinstance(node, ast.Attribute):
            base = self._object(node.value)
            if not hasattr(base, node.attr):
                self.fail(node, f"{ast.unparse(node)} does not exist")
            return getattr(base, node.attr)
        if not isinstance(node, ast.Name) or node.id in self.locals:
            self.fail(node, f"{ast.unparse(node)} is not part of the native subset")
        if node.id not in self.scope:
            self.fail(node, f"{node.id} is neither a local variable nor a module-level name")
        return self.scope[node.id]

    def _outside(self, found: Any, node: ast.expr) -> Value:
        if isinstance(found, Global):
            return Value("ptr", f'@"{self._global_symbol(found, node)}"')
        if isinstance(found, int):
            return integer(int(found))
        if isinstance(found, float):
            return real(found)
        self.fail(node, f"{ast.unparse(node)} is a {type(found).__name__}, not a number or global_bytes")

    def _global_symbol(self, variable: Global, node: ast.AST) -> str:
        if variable.symbol:
            self.symbols.data.add(variable.symbol)
            return variable.symbol
        if id(variable) not in self.symbols.globals:
            self.fail(node, "this global_bytes is not a module-level variable of a native module")
        return self.symbols.globals[id(variable)]

    def on_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.emit("i1", f"xor i1 {self.condition(node.operand).text}, true")
        value = self.expression(node.operand)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.USub) and isinstance(value.constant, float):
            return real(-value.constant, value.type)
        if isinstance(node.op, ast.USub) and value.type in FLOATS:
            return self.emit(value.type, f"fneg {value.type} {value.text}")
        value = self.convert(value, "i64", node)
        if isinstance(node.op, ast.USub):
            return integer(-value.constant) if isinstance(value.constant, int) else self._minus(value)
        return self.emit("i64", f"xor i64 {value.text}, -1")

    def _minus(self, value: Value) -> Value:
        return self.emit("i64", f"sub i64 0, {value.text}")

    def on_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.expression(node.left), self.expression(node.right), node)

    def binary(self, operation: ast.operator, a: Value, b: Value, node: ast.AST) -> Value:
        kind = type(operation)
        if a.type in FLOATS or b.type in FLOATS:
            llvm_type = a.type if (a.type in FLOATS and a.constant is None) or b.type not in FLOATS else b.type
            if kind not in _FLOAT:
                self.fail(node, f"{kind.__name__} of floats is not part of the native subset")
            a, b = self.convert(a, llvm_type, node), self.convert(b, llvm_type, node)
            return self.emit(llvm_type, f"{_FLOAT[kind]} {llvm_type} {a.text}, {b.text}")
        if kind not in _INTEGER:
            self.fail(node, f"{kind.__name__} of integers is not part of the native subset")
        if a.type == "ptr" and b.type != "ptr" and kind in (ast.Add, ast.Sub):
            offset = self.convert(b, "i64", node)
            return self.offset(a, offset if kind is ast.Add else self._minus(offset))
        if b.type == "ptr" and a.type != "ptr" and kind is ast.Add:
            return self.offset(b, self.convert(a, "i64", node))
        if isinstance(a.constant, int) and isinstance(b.constant, int) and kind in _FOLD:
            return integer(_FOLD[kind](a.constant, b.constant))
        a, b = self.convert(a, "i64", node), self.convert(b, "i64", node)
        return self.emit("i64", f"{_INTEGER[kind]} i64 {a.text}, {b.text}")

    def offset(self, address: Value, offset: Value) -> Value:
        if offset.constant == 0:
            return address
        return self.emit("ptr", f"getelementptr i8, ptr {address.text}, i64 {offset.text}")

    def on_Compare(self, node: ast.Compare) -> Value:
        left = self.expression(node.left)
        result: Value | None = None
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            if type(operation) not in _COMPARE:
                self.fail(node, f"{type(operation).__name__} is not part of the native subset")
            right = self.expression(right_node)
            one = self._compare(type(operation), left, right, node)
            result = one if result is None else self.emit("i1", f"and i1 {result.text}, {one.text}")
            left = right
        assert result is not None
        return result

    def _compare(self, kind: type[ast.cmpop], a: Value, b: Value, node: ast.AST) -> Value:
        integer_name, float_name = _COMPARE[kind]
        if a.type in FLOATS or b.type in FLOATS:
            llvm_type = a.type if (a.type in FLOATS and a.constant is None) or b.type not in FLOATS else b.type
            a, b = self.convert(a, llvm_type, node), self.convert(b, llvm_type, node)
            return self.emit("i1", f"fcmp {float_name} {llvm_type} {a.text}, {b.text}")
        if a.type == b.type == "ptr":
            predicate = integer_name.replace("s", "u")
            return self.emit("i1", f"icmp {predicate} ptr {a.text}, {b.text}")
        a, b = self.convert(a, "i64", node), self.convert(b, "i64", node)
        return self.emit("i1", f"icmp {integer_name} i64 {a.text}, {b.text}")

    def on_BoolOp(self, node: ast.BoolOp) -> Value:
        slot = self.name()
        self.entry.append(f"  {slot} = alloca i1")
        done = self.label()
        for operand in node.values[:-1]:
            value = self.condition(operand)
            self.lines.append(f"  store i1 {value.text}, ptr {slot}")
            more = self.label()
            self.branch(value, *((more, done) if isinstance(node.op, ast.And) else (done, more)))
            self.place(more)
        self.lines.append(f"  store i1 {self.condition(node.values[-1]).text}, ptr {slot}")
        self.jump(done)
        self.place(done)
        return self.emit("i1", f"load i1, ptr {slot}")

    def on_IfExp(self, node: ast.IfExp) -> Value:
        yes, no, done, slot = self.label(), self.label(), self.label(), self.name()
        self.branch(self.condition(node.test), yes, no)
        self.place(yes)
        a = self.expression(node.body)
        if a.type == "i1":
            a = self.convert(a, "i64", node)
        self.entry.append(f"  {slot} = alloca {a.type}")
        self.lines.append(f"  store {a.type} {a.text}, ptr {slot}")
        self.jump(done)
        self.place(no)
        b = self.typed(node.orelse, a.type)
        self.lines.append(f"  store {a.type} {b.text}, ptr {slot}")
        self.jump(done)
        self.place(done)
        return self.emit(a.type, f"load {a.type}, ptr {slot}")

    # -- calls ----------------------------------------------------------------------------------------------------
    def on_Call(self, node: ast.Call) -> Value:
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            self.fail(node, "keyword and starred arguments are not part of the native subset")
        callee = self._object(node.func)
        if isinstance(callee, Intrinsic):
            return self.emit_intrinsic(self, callee.name, node)
        if isinstance(callee, External):
            known = self.symbols.externals.setdefault(callee.name, callee.signature)
            if known != callee.signature:
                self.fail(node, f"{callee.name} is declared differently elsewhere")
            return self.call(f"@{callee.name}", callee.signature, node)
        if callee in (int, float):
            return self._cast(node)
        if isinstance(callee, FunctionType) and callee in self.symbols.signatures:
            return self.call(f'@"{self.symbols.names[callee]}"', self.symbols.signatures[callee], node)
        self.fail(node, f"{ast.unparse(node.func)} is not a native function")

    def call(self, address: str, signature: Signature, node: ast.Call) -> Value:
        fixed = len(signature.parameters)
        if len(node.args) < fixed or (len(node.args) > fixed and not signature.variadic):
            self.fail(node, f"{ast.unparse(node.func)} takes {fixed} arguments, {len(node.args)} are given")
        arguments = [
            self.typed(argument, STORAGE[declared])
            for argument, declared in zip(node.args, signature.parameters, strict=False)
        ]
        arguments += [self.argument(argument) for argument in node.args[fixed:]]
        result = STORAGE[signature.result]
        shape = f"{result} ({', '.join([STORAGE[p] for p in signature.parameters] + ['...'])})"
        return self.emit_call(address, shape if signature.variadic else result, signature.result, arguments)

    def argument(self, node: ast.expr) -> Value:
        """An argument without a declared type: an integer, a pointer, a float or i32(...)."""
        value = self.expression(node)
        return self.convert(value, "i64", node) if value.type == "i1" else value

    def emit_call(self, address: str, shape: str, result: str, arguments: list[Value]) -> Value:
        text = f"call {shape} {address}({', '.join(f'{a.type} {a.text}' for a in arguments)})"
        if result in ("void", "None"):
            self.lines.append(f"  {text}")
            return Value("void", "")
        return self.extend(self.emit(STORAGE[result], text), result)

    def _cast(self, node: ast.Call) -> Value:
        """f64(x), f32(x), i64(x), i32(x), ptr(x)."""
        wanted = node.func.id if isinstance(node.func, ast.Name) else ""
        if wanted not in ("f64", "f32", "i64", "i32", "ptr") or len(node.args) != 1:
            self.fail(node, "conversions are f64(x), f32(x), i64(x), i32(x) and ptr(x)")
        value, target = self.expression(node.args[0]), STORAGE[wanted]
        if value.type in FLOATS and target in FLOATS:
            operation = "fptrunc" if target == "float" else "fpext"
            text = f"{operation} {value.type} {value.text} to {target}"
            return value if value.type == target else self.emit(target, text)
        if value.type in FLOATS:
            whole = self.emit("i64", f"fptosi {value.type} {value.text} to i64")
            return self.convert(whole, target, node)
        if target in FLOATS:
            whole = self.convert(value, "i64", node)
            return self.emit(target, f"sitofp i64 {whole.text} to {target}")
        return self.convert(value, target, node)


def _wrap(number: int, bits: int) -> int:
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def machine() -> str:
    """The processor family, for the few instructions that differ."""
    return platform.machine().lower()
