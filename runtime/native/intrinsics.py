"""Emits the operations that `language` names: memory, atomics, calls through pointers, bits."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType

from eagerjit.runtime.native.eights import count, less_of_eight, row_of, run_eight, transpose_tile, transpose_wide
from eagerjit.runtime.native.expressions import STORAGE, ExpressionTranslator, Value, machine
from eagerjit.runtime.native.fourier_code import (
    fourier_stage,
    join_pairs,
    put_pairs,
    scale_pairs,
    separate_pairs,
    take_pairs,
    turn_pairs,
)
from eagerjit.runtime.native.pair_code import (
    alternate_halves,
    alternate_upper_halves,
    multiply_pairs,
    multiply_seen_pairs,
    round_sixteen,
    tiles_begin,
    tiles_end,
    upper_halves,
)
from eagerjit.runtime.native.panel_code import multiply_panel
from eagerjit.runtime.native.row_code import add_scaled_rows

_PAUSE = {"x86_64": "void @llvm.x86.sse2.pause()", "aarch64": "void @llvm.aarch64.hint(i32)"}


def emit_intrinsic(code: ExpressionTranslator, name: str, node: ast.Call) -> Value:
    """The value of the call `node` of intrinsic `name`."""
    family, _, kind = name.partition("_")
    if family == "load":
        return _load(code, kind, node)
    if family == "store":
        return _store(code, kind, node)
    if family == "atomic":
        return _atomic(code, kind, node)
    if family == "call":
        return _call_pointer(code, kind, node)
    return _SPECIAL[name](code, node)


def _address(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Address plus offset, the first two arguments."""
    address = code.typed(node.args[0], "ptr")
    if len(node.args) == 1:
        return address
    return code.offset(address, code.typed(node.args[1], "i64"))


# -- memory -----------------------------------------------------------------------------------------------------------
def _load(code: ExpressionTranslator, kind: str, node: ast.Call) -> Value:
    count(code, node, 1, 2)
    address = _address(code, node).text
    if kind == "f16":
        half = code.emit("half", f"load half, ptr {address}, align 1")
        return code.emit("float", f"fpext half {half.text} to float")
    if kind == "bf16":
        bits = code.emit("i16", f"load i16, ptr {address}, align 1")
        wide = code.emit("i32", f"zext i16 {bits.text} to i32")
        high = code.emit("i32", f"shl i32 {wide.text}, 16")
        return code.emit("float", f"bitcast i32 {high.text} to float")
    storage = STORAGE[kind]
    return code.extend(code.emit(storage, f"load {storage}, ptr {address}, align 1"), kind)


def _store(code: ExpressionTranslator, kind: str, node: ast.Call) -> Value:
    count(code, node, 3)
    address = _address(code, node).text
    if kind in ("f16", "bf16"):
        value = code.typed(node.args[2], "float")
        value = code.emit("half", f"fptrunc float {value.text} to half") if kind == "f16" else _round_bf16(code, value)
    else:
        value = code.typed(node.args[2], STORAGE[kind])
    code.lines.append(f"  store {value.type} {value.text}, ptr {address}, align 1")
    return Value("void", "")


def _round_bf16(code: ExpressionTranslator, value: Value) -> Value:
    """Rounds to nearest even by integer arithmetic: the hardware instruction would flush subnormal numbers."""
    bits = code.emit("i32", f"bitcast float {value.text} to i32").text
    high = code.emit("i32", f"lshr i32 {bits}, 16").text
    odd = code.emit("i32", f"and i32 {high}, 1").text
    bias = code.emit("i32", f"add i32 {odd}, 32767").text
    rounded = code.emit("i32", f"add i32 {bits}, {bias}").text
    rounded = code.emit("i32", f"lshr i32 {rounded}, 16").text
    quiet = code.emit("i32", f"or i32 {high}, 64").text
    is_nan = code.emit("i1", f"fcmp uno float {value.text}, 0.0").text
    chosen = code.emit("i32", f"select i1 {is_nan}, i32 {quiet}, i32 {rounded}").text
    return code.emit("i16", f"trunc i32 {chosen} to i16")


def _prefetch(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 1)
    code.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    address = code.typed(node.args[0], "ptr").text
    code.lines.append(f"  call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")
    return Value("void", "")


def _buffer(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 1)
    size, name = code.constant(node.args[0], "the size of a buffer"), code.name()
    code.entry.append(f"  {name} = alloca [{size} x i8], align 64")
    return Value("ptr", name)


def _c_string(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 1)
    argument = node.args[0]
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        code.fail(node, "c_string takes a string literal")
    data = argument.value.encode() + b"\0"
    symbol = code.symbols.strings.setdefault(data, f"string.{len(code.symbols.strings)}")
    return Value("ptr", f'@"{symbol}"')


def _address_of(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 1)
    argument = node.args[0]
    found = code.scope.get(argument.id) if isinstance(argument, ast.Name) else None
    if not isinstance(found, FunctionType) or found not in code.symbols.names:
        code.fail(node, "address_of takes the name of a native function")
    return Value("ptr", f'@"{code.symbols.names[found]}"')


def _copy_bytes(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 3)
    to, source, size = (code.typed(a, t) for a, t in zip(node.args, ("ptr", "ptr", "i64"), strict=True))
    code.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    arguments = f"ptr {to.text}, ptr {source.text}, i64 {size.text}, i1 false"
    code.lines.append(f"  call void @llvm.memcpy.p0.p0.i64({arguments})")
    return Value("void", "")


def _fill_bytes(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 3)
    to, byte, size = (code.typed(a, t) for a, t in zip(node.args, ("ptr", "i8", "i64"), strict=True))
    code.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    code.lines.append(f"  call void @llvm.memset.p0.i64(ptr {to.text}, i8 {byte.text}, i64 {size.text}, i1 false)")
    return Value("void", "")


# -- atomics ----------------------------------------------------------------------------------------------------------
def _atomic(code: ExpressionTranslator, kind: str, node: ast.Call) -> Value:
    operation, bits = (kind[:-4], 32) if kind.endswith("_i32") else (kind, 64)
    count(code, node, {"load": 2, "compare_exchange": 4}.get(operation, 3))
    address, llvm_type = _address(code, node).text, f"i{bits}"
    alignment = f"align {bits // 8}"
    if operation == "load":
        return code.extend(code.emit(llvm_type, f"load atomic {llvm_type}, ptr {address} acquire, {alignment}"), "i32")
    value = code.typed(node.args[2], llvm_type).text
    if operation == "store":
        code.lines.append(f"  store atomic {llvm_type} {value}, ptr {address} release, {alignment}")
        return Value("void", "")
    if operation == "compare_exchange":
        new = code.typed(node.args[3], llvm_type).text
        pair = code.emit("pair", f"cmpxchg ptr {address}, {llvm_type} {value}, {llvm_type} {new} seq_cst seq_cst")
        return code.emit("i1", f"extractvalue {{ {llvm_type}, i1 }} {pair.text}, 1")
    verb = {"add": "add", "exchange": "xchg"}[operation]
    return code.extend(code.emit(llvm_type, f"atomicrmw {verb} ptr {address}, {llvm_type} {value} seq_cst"), "i32")


def _fence(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 0)
    code.lines.append("  fence seq_cst")
    return Value("void", "")


def _pause(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Tells the processor that this is a waiting loop; nothing where LLVM has no such instruction."""
    count(code, node, 0)
    signature = _PAUSE.get({"arm64": "aarch64", "amd64": "x86_64"}.get(machine(), machine()))
    if signature is not None:
        code.declare(f"declare {signature}")
        code.lines.append(f"  call {signature.replace('(i32)', '(i32 1)')}")
    return Value("void", "")


# -- calls and numbers ------------------------------------------------------------------------------------------------
def _call_pointer(code: ExpressionTranslator, kind: str, node: ast.Call) -> Value:
    if not node.args:
        code.fail(node, f"call_{kind} takes a function pointer and its arguments")
    pointer = code.typed(node.args[0], "ptr")
    arguments = [code.argument(argument) for argument in node.args[1:]]
    return code.emit_call(pointer.text, STORAGE[kind], kind, arguments)


def _bits_of_f64(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 1)
    return code.emit("i64", f"bitcast double {code.typed(node.args[0], 'double').text} to i64")


def _f64_of_bits(code: ExpressionTranslator, node: ast.Call) -> Value:
    count(code, node, 1)
    return code.emit("double", f"bitcast i64 {code.typed(node.args[0], 'i64').text} to double")


def _two_integers(code: ExpressionTranslator, node: ast.Call) -> tuple[str, str]:
    count(code, node, 2)
    return code.typed(node.args[0], "i64").text, code.typed(node.args[1], "i64").text


def _shift_right_unsigned(code: ExpressionTranslator, node: ast.Call) -> Value:
    a, b = _two_integers(code, node)
    return code.emit("i64", f"lshr i64 {a}, {b}")


def _less_unsigned(code: ExpressionTranslator, node: ast.Call) -> Value:
    a, b = _two_integers(code, node)
    return code.emit("i1", f"icmp ult i64 {a}, {b}")


def _multiply_overflows(code: ExpressionTranslator, node: ast.Call) -> Value:
    a, b = _two_integers(code, node)
    code.declare("declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)")
    pair = code.emit("pair", f"call {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64 {a}, i64 {b})")
    return code.emit("i1", f"extractvalue {{ i64, i1 }} {pair.text}, 1")


def _expect(code: ExpressionTranslator, node: ast.Call, outcome: str) -> Value:
    count(code, node, 1)
    code.declare("declare i1 @llvm.expect.i1(i1, i1)")
    return code.emit("i1", f"call i1 @llvm.expect.i1(i1 {code.condition(node.args[0]).text}, i1 {outcome})")


def _zeros(code: ExpressionTranslator, node: ast.Call, function: str) -> Value:
    count(code, node, 1)
    code.declare(f"declare i64 @llvm.{function}.i64(i64, i1)")
    return code.emit("i64", f"call i64 @llvm.{function}.i64(i64 {code.typed(node.args[0], 'i64').text}, i1 false)")


# -- tiles of products ------------------------------------------------------------------------------------------------
def _multiply_tile(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A's numbers side by side, B's runs apart."""
    from eagerjit.runtime.native.tiles import TILE_ROWS  # asks LLVM for the processor

    count(code, node, 7, 8)
    vectors = code.constant(node.args[0], "the vectors of a tile")
    k = code.typed(node.args[1], "i64").text
    a, b, places, c = (code.typed(argument, "ptr").text for argument in node.args[2:6])
    c_row = code.typed(node.args[6], "i64").text
    adds = code.condition(node.args[7]).text if len(node.args) > 7 else "true"

    def operands(at: str) -> tuple[str, list[str]]:
        offset = _table_entry(code, places, at)
        numbers = code.emit("ptr", f"getelementptr [{TILE_ROWS} x float], ptr {a}, i64 {at}").text
        each = [code.emit("ptr", f"getelementptr float, ptr {numbers}, i64 {r}").text for r in range(TILE_ROWS)]
        return code.emit("ptr", f"getelementptr i8, ptr {b}, i32 {offset}").text, each

    return _tile(code, vectors, k, operands, c, c_row, adds)


def _multiply_seen(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A's numbers apart, B's runs at equal distances."""
    from eagerjit.runtime.native.tiles import TILE_ROWS

    count(code, node, 9)
    vectors = code.constant(node.args[0], "the vectors of a tile")
    k = code.typed(node.args[1], "i64").text
    a, rows, places, b = (code.typed(argument, "ptr").text for argument in node.args[2:6])
    b_row = code.typed(node.args[6], "i64").text
    c = code.typed(node.args[7], "ptr").text
    c_row = code.typed(node.args[8], "i64").text
    starts = []
    for r in range(TILE_ROWS):
        offset = _table_entry(code, rows, str(r))
        starts.append(code.emit("ptr", f"getelementptr i8, ptr {a}, i32 {offset}").text)

    def operands(at: str) -> tuple[str, list[str]]:
        offset = _table_entry(code, places, at)
        each = [code.emit("ptr", f"getelementptr i8, ptr {start}, i32 {offset}").text for start in starts]
        floats = code.emit("i64", f"mul i64 {at}, {b_row}").text
        return code.emit("ptr", f"getelementptr float, ptr {b}, i64 {floats}").text, each

    return _tile(code, vectors, k, operands, c, c_row)


def _table_entry(code: ExpressionTranslator, table: str, at: str) -> str:
    place = code.emit("ptr", f"getelementptr i32, ptr {table}, i64 {at}").text
    return code.emit("i32", f"load i32, ptr {place}, align 4").text


def _tile(
    code: ExpressionTranslator, vectors: int, k: str, operands: Callable[[str], tuple[str, list[str]]], c: str,
    c_row: str, adds: str = "true",
) -> Value:  # fmt: skip
    """TILE_ROWS rows of so many vectors, kept in registers: to each, over k, a number of A's times a run of B's.

    `operands` gives for an index below k the address of the run and those of the numbers. `adds`: to what C holds.
    """
    from eagerjit.runtime.native.tiles import LANES, TILE_ROWS

    kind = f"<{LANES} x float>"
    sums = [[code.name() for _ in range(vectors)] for _ in range(TILE_ROWS)]
    counter = code.name()
    code.entry.append(f"  {counter} = alloca i64")
    code.lines.append(f"  store i64 0, ptr {counter}")
    lines = _tile_lines(code, kind, c, c_row, sums)
    for accumulator, line in lines:
        code.entry.append(f"  {accumulator} = alloca {kind}")
        held = code.emit("vector", f"load {kind}, ptr {line}, align 4").text
        before = code.emit("vector", f"select i1 {adds}, {kind} {held}, {kind} zeroinitializer").text
        code.lines.append(f"  store {kind} {before}, ptr {accumulator}")
    again, body, done = code.label(), code.label(), code.label()
    code.jump(again)
    code.place(again)
    at = code.emit("i64", f"load i64, ptr {counter}").text
    code.branch(code.emit("i1", f"icmp slt i64 {at}, {k}"), body, done)
    code.place(body)
    run, numbers = operands(at)
    right = []
    for v in range(vectors):
        part = code.emit("ptr", f"getelementptr {kind}, ptr {run}, i64 {v}").text
        right.append(code.emit("vector", f"load {kind}, ptr {part}, align 4").text)
    for r in range(TILE_ROWS):
        number = code.emit("float", f"load float, ptr {numbers[r]}, align 4").text
        single = code.emit("vector", f"insertelement {kind} poison, float {number}, i64 0").text
        left = f"shufflevector {kind} {single}, {kind} poison, <{LANES} x i32> zeroinitializer"
        left = code.emit("vector", left).text
        for v in range(vectors):
            before = code.emit("vector", f"load {kind}, ptr {sums[r][v]}").text
            code.declare(f"declare {kind} @llvm.fmuladd.v{LANES}f32({kind}, {kind}, {kind})")
            factors = f"{kind} {left}, {kind} {right[v]}, {kind} {before}"
            after = code.emit("vector", f"call {kind} @llvm.fmuladd.v{LANES}f32({factors})").text
            code.lines.append(f"  store {kind} {after}, ptr {sums[r][v]}")
    following = code.emit("i64", f"add i64 {at}, 1").text
    code.lines.append(f"  store i64 {following}, ptr {counter}")
    code.jump(again)
    code.place(done)
    for accumulator, line in lines:
        total = code.emit("vector", f"load {kind}, ptr {accumulator}").text
        code.lines.append(f"  store {kind} {total}, ptr {line}, align 4")
    return Value("void", "")


def _tile_lines(
    code: ExpressionTranslator, kind: str, c: str, c_row: str, sums: list[list[str]]
) -> list[tuple[str, str]]:
    """Per accumulator of a tile where it lies in memory."""
    out = []
    for r, row in enumerate(sums):
        line = row_of(code, c, c_row, r)
        for v, accumulator in enumerate(row):
            out.append((accumulator, code.emit("ptr", f"getelementptr {kind}, ptr {line}, i64 {v}").text))
    return out


_SPECIAL = {
    "add_scaled_rows": add_scaled_rows,
    "multiply_panel": multiply_panel,
    "multiply_tile": _multiply_tile,
    "multiply_seen": _multiply_seen,
    "multiply_pairs": multiply_pairs,
    "multiply_seen_pairs": multiply_seen_pairs,
    "tiles_begin": tiles_begin,
    "tiles_end": tiles_end,
    "alternate_halves": alternate_halves,
    "alternate_upper_halves": alternate_upper_halves,
    "upper_halves": upper_halves,
    "round_sixteen": round_sixteen,
    "transpose_tile": transpose_tile,
    "transpose_wide": transpose_wide,
    "run_eight": run_eight,
    "less_of_eight": less_of_eight,
    "fourier_stage": fourier_stage,
    "take_pairs": take_pairs,
    "put_pairs": put_pairs,
    "separate_pairs": separate_pairs,
    "join_pairs": join_pairs,
    "scale_pairs": scale_pairs,
    "turn_pairs": turn_pairs,
    "prefetch": _prefetch,
    "buffer": _buffer,
    "c_string": _c_string,
    "address_of": _address_of,
    "copy_bytes": _copy_bytes,
    "fill_bytes": _fill_bytes,
    "fence": _fence,
    "pause": _pause,
    "bits_of_f64": _bits_of_f64,
    "f64_of_bits": _f64_of_bits,
    "shift_right_unsigned": _shift_right_unsigned,
    "less_unsigned": _less_unsigned,
    "multiply_overflows": _multiply_overflows,
    "likely": lambda code, node: _expect(code, node, "true"),
    "unlikely": lambda code, node: _expect(code, node, "false"),
    "trailing_zeros": lambda code, node: _zeros(code, node, "cttz"),
    "leading_zeros": lambda code, node: _zeros(code, node, "ctlz"),
}
