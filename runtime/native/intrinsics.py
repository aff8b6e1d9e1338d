"""Emits the operations that `language` names: memory, atomics, calls through pointers, bits."""

from __future__ import annotations

import ast
from types import FunctionType

from eagerjit.runtime.native.eight_code import less_of_eight, run_eight, transpose_tile, transpose_wide
from eagerjit.runtime.native.expressions import STORAGE, ExpressionTranslator, Value, machine
from eagerjit.runtime.native.fourier_code import (
    combine_pairs,
    fourier_stage,
    mirror_pairs,
    put_pairs,
    scale_pairs,
    take_pairs,
    turn_pairs,
)
from eagerjit.runtime.native.fourier_line_code import fourier_start, join_numbers, mirror_numbers, split_numbers
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
from eagerjit.runtime.native.panel_code import multiply_panel, multiply_runs, multiply_squares
from eagerjit.runtime.native.row_code import add_scaled_rows
from eagerjit.runtime.native.tile_code import multiply_seen, multiply_tile
from eagerjit.runtime.native.vector_code import count

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


_SPECIAL = {
    "add_scaled_rows": add_scaled_rows,
    "multiply_panel": multiply_panel,
    "multiply_squares": multiply_squares,
    "multiply_runs": multiply_runs,
    "multiply_tile": multiply_tile,
    "multiply_seen": multiply_seen,
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
    "fourier_start": fourier_start,
    "join_numbers": join_numbers,
    "split_numbers": split_numbers,
    "mirror_numbers": mirror_numbers,
    "take_pairs": take_pairs,
    "put_pairs": put_pairs,
    "combine_pairs": combine_pairs,
    "mirror_pairs": mirror_pairs,
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
