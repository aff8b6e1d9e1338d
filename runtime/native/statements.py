"""Translates the statements of native functions into LLVM instructions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType

from eagerjit.runtime.native.expressions import STORAGE, ExpressionTranslator, Symbols, Value
from eagerjit.runtime.native.intrinsics import emit_intrinsic


class FunctionTranslator(ExpressionTranslator):
    """Translates one function: its statements, with loops kept as (continue label, break label)."""

    emit_intrinsic = staticmethod(emit_intrinsic)

    def __init__(self, function: FunctionType, filename: str, symbols: Symbols):
        super().__init__(function, filename, symbols)
        self.symbol = symbols.names[function]
        self.signature = symbols.signatures[function]
        self.loops: list[tuple[str, str]] = []
        self.broken: set[str] = set()

    def translate(self, node: ast.FunctionDef) -> list[str]:
        """Translates the whole function; its parameters as LLVM writes them."""
        self._check_signature(node)
        parameters = []
        for parameter, declared in zip(
            (*node.args.posonlyargs, *node.args.args), self.signature.parameters, strict=True
        ):
            name, storage = parameter.arg, STORAGE[declared]
            parameters.append(f"{storage} %arg.{name}")
            value = self.extend(Value(storage, f"%arg.{name}"), declared)
            self.assign(name, value, parameter)
        ended = self.block(node.body)
        result = STORAGE[self.signature.result]
        if not ended and result != "void":
            self.fail(node, f"{node.name}: control reaches the end of a function that returns a value")
        if not ended:
            self.lines.append("  ret void")
        return parameters

    def _check_signature(self, node: ast.FunctionDef) -> None:
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or node.decorator_list:
            self.fail(node, f"{node.name}: only plain positional parameters, no decorators")

    def assign(self, name: str, value: Value, node: ast.AST, declared: str | None = None) -> None:
        """Stores into a local, which comes to be at its first assignment, as zero."""
        if value.type == "void":
            self.fail(node, "the value of a function that returns nothing")
        if name not in self.locals:
            llvm_type = declared or {"i1": "i64", "i32": "i64"}.get(value.type, value.type)
            self.locals[name] = llvm_type
            zero = "null" if llvm_type == "ptr" else "0.0" if llvm_type in ("double", "float") else "0"
            self.entry += [f"  %local.{name} = alloca {llvm_type}", f"  store {llvm_type} {zero}, ptr %local.{name}"]
        llvm_type = self.locals[name]
        if declared not in (None, llvm_type):
            self.fail(node, f"{name} has type {llvm_type} already")
        value = self.convert(value, llvm_type, node)
        self.lines.append(f"  store {llvm_type} {value.text}, ptr %local.{name}")

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Translates statements; True where control never reaches the end."""
        for position, statement in enumerate(body):
            method = getattr(self, f"do_{type(statement).__name__}", None)
            if method is None:
                self.fail(statement, f"{type(statement).__name__} is not part of the native subset")
            if method(statement):
                if position + 1 < len(body):
                    self.fail(body[position + 1], "this statement is never reached")
                return True
        return False

    def do_Pass(self, node: ast.Pass) -> bool:
        return False

    def do_Expr(self, node: ast.Expr) -> bool:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.expression(node.value)
        return False

    def do_Assign(self, node: ast.Assign) -> bool:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            self.fail(node, "assign to one name at a time")
        self.assign(node.targets[0].id, self.expression(node.value), node)
        return False

    def do_AnnAssign(self, node: ast.AnnAssign) -> bool:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.fail(node, "an annotated name needs a value")
        name = ast.unparse(node.annotation)
        if name not in STORAGE:
            self.fail(node.annotation, f"{name} is not a native type")
        declared = STORAGE[name]
        if declared in ("i8", "i16", "i32"):
            self.fail(node, "integer locals are i64")
        value = self.expression(node.value)
        self.assign(node.target.id, value, node, declared)
        return False

    def do_AugAssign(self, node: ast.AugAssign) -> bool:
        if not isinstance(node.target, ast.Name) or node.target.id not in self.locals:
            self.fail(node, "augmented assignment needs a local variable")
        current = self.on_Name(node.target)
        self.assign(node.target.id, self.binary(node.op, current, self.expression(node.value), node), node)
        return False

    def do_Return(self, node: ast.Return) -> bool:
        result = STORAGE[self.signature.result]
        if (node.value is None) != (result == "void"):
            self.fail(node, f"this function returns {self.signature.result}")
        if node.value is None:
            self.lines.append("  ret void")
        else:
            self.lines.append(f"  ret {result} {self.typed(node.value, result).text}")
        return True

    def do_If(self, node: ast.If) -> bool:
        yes, no, done = self.label(), self.label(), self.label()
        self.branch(self.condition(node.test), yes, no if node.orelse else done)
        self.place(yes)
        yes_ended = self.block(node.body)
        if not yes_ended:
            self.jump(done)
        no_ended = False
        if node.orelse:
            self.place(no)
            no_ended = self.block(node.orelse)
            if not no_ended:
                self.jump(done)
        if yes_ended and no_ended:
            return True
        self.place(done)
        return False

    def do_Match(self, node: ast.Match) -> bool:
        subject = self.typed(node.subject, "i64")
        done, default = self.label(), ""
        bodies: list[tuple[str, list[ast.stmt]]] = []
        targets: dict[int, str] = {}
        for case in node.cases:
            label = self.label()
            bodies.append((label, case.body))
            if case.guard is not None:
                self.fail(case.pattern, "guards of cases are not part of the native subset")
            for number in self._pattern(case.pattern):
                if number is None:
                    default = label
                else:
                    targets.setdefault(number, label)
        table = " ".join(f"i64 {number}, label %{label}" for number, label in targets.items())
        self.lines.append(f"  switch i64 {subject.text}, label %{default or done} [ {table} ]")
        all_ended = bool(default)
        for label, body in bodies:
            self.place(label)
            if not self.block(body):
                self.jump(done)
                all_ended = False
        if not all_ended:
            self.place(done)
        return all_ended

    def _pattern(self, pattern: ast.pattern) -> list[int | None]:
        """The constants a case stands for; None is `case _`."""
        if isinstance(pattern, ast.MatchOr):
            return [number for one in pattern.patterns for number in self._pattern(one)]
        if isinstance(pattern, ast.MatchValue):
            return [self.constant(pattern.value, "a case")]
        if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
            return [None]
        self.fail(pattern, "a case is an integer constant, constants joined by |, or _")

    def do_While(self, node: ast.While) -> bool:
        if node.orelse:
            self.fail(node, "else of a loop is not part of the native subset")
        again, body, done = self.label(), self.label(), self.label()
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.jump(again)
        self.place(again)
        if not endless:
            self.branch(self.condition(node.test), body, done)
            self.place(body)
        self._loop_body(node.body, again, done)
        if endless and done not in self.broken:
            return True
        self.place(done)
        return False

    def _loop_body(self, body: list[ast.stmt], again: str, done: str) -> None:
        self.loops.append((again, done))
        if not self.block(body):
            self.jump(again)
        self.loops.pop()

    def do_For(self, node: ast.For) -> bool:
        call = node.iter
        is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
        if not is_range or not isinstance(node.target, ast.Name) or node.orelse:
            self.fail(node, "loops are `for name in range(...)`, without else")
        assert isinstance(call, ast.Call)
        if not 1 <= len(call.args) <= 3 or call.keywords:
            self.fail(node, "range takes one to three arguments")
        step = self.constant(call.args[2], "the step of a range") if len(call.args) == 3 else 1
        if step == 0:
            self.fail(node, "the step of a range is zero")
        start = self.typed(call.args[0], "i64").text if len(call.args) > 1 else "0"
        stop = self.typed(call.args[min(1, len(call.args) - 1)], "i64").text
        counter, again, body, more, done = self.name(), self.label(), self.label(), self.label(), self.label()
        self.entry.append(f"  {counter} = alloca i64")
        self.lines.append(f"  store i64 {start}, ptr {counter}")
        self.jump(again)
        self.place(again)
        current = self.emit("i64", f"load i64, ptr {counter}")
        self.branch(self.emit("i1", f"icmp {'slt' if step > 0 else 'sgt'} i64 {current.text}, {stop}"), body, done)
        self.place(body)
        self.assign(node.target.id, current, node)
        self._loop_body(node.body, more, done)
        self.place(more)
        following = self.emit("i64", f"add i64 {current.text}, {step}")
        self.lines.append(f"  store i64 {following.text}, ptr {counter}")
        self.jump(again)
        self.place(done)
        return False

    def do_Break(self, node: ast.Break) -> bool:
        self.broken.add(self.loops[-1][1])
        self.jump(self.loops[-1][1])
        return True

    def do_Continue(self, node: ast.Continue) -> bool:
        self.jump(self.loops[-1][0])
        return True
