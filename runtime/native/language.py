"""The subset of Python that native code is written in, and the names it may use.

A native module is an ordinary Python module that imports these names; `translate` turns every function defined in it
into machine code. Its functions are never run by Python, but linters, type checkers and editors see valid code. It
begins with `from __future__ import annotations`.

Types      i64 (the default), f64, f32, ptr, and i8 u8 i16 u16 i32 u32 in signatures. Integers compute in 64 bits and
           wrap; narrower parameters are extended on entry and arguments cut on the way out. `bool` means 0 or 1 as i64.
           i64 and ptr convert into each other freely; between integers and floats write f64(x), f32(x), i64(x).
           i32(x) cuts to 32 bits: as an argument of call_* it passes a C int.
Locals     take the type of their annotation, or of the first value assigned; they start as zero.
Statements =  +=  if/elif/else  while  for i in range(...)  break  continue  return  pass  match (on integer constants)
Expressions  + - * // % & | ^ << >> on integers: // and % truncate as C does (same as Python where both are >= 0), >>
           keeps the sign. + - * / on floats. ptr + int moves by bytes, ptr - ptr counts bytes. Comparisons (chains
           too), and/or/not (short circuit, give 0 or 1), `a if c else b`.
Names      Module-level ints and floats are folded in (also `Op.ADD` of an IntEnum). Functions of any native module are
           called by name; those whose name starts with an underscore are private to their module and need not be
           unique. Module-level `global_bytes(n)`: zeroed memory. `external("i32 puts(ptr)")`: a C function, result
           and parameter types as above or void, `...` for variable arguments. `external_data("PyExc_TypeError")`: the
           address of a C variable.
Memory     load_i8 load_u8 load_i16 load_u16 load_i32 load_u32 load_i64 load_f32 load_f64 load_ptr load_f16 load_bf16
           (address, offset=0), the last two give f32; store_i8 store_i16 store_i32 store_i64 store_f32 store_f64
           store_ptr store_f16 store_bf16 (address, offset, value): any alignment, offset in bytes.
           prefetch(address): the line of the cache will be read soon.
           buffer(n): n bytes of the stack, 64-byte aligned, for the whole call. copy_bytes(to, from, n) and
           fill_bytes(to, byte, n). c_string("text"): a constant, zero-terminated. address_of(function).
Atomics    atomic_load(address, offset) (acquire), atomic_store(address, offset, value) (release),
           atomic_add(address, offset, value) and atomic_exchange(address, offset, value) (give the old value),
           atomic_compare_exchange(address, offset, expected, new) (1 where it swapped), all also with _i32;
           fence(); pause() while spinning.
Calls      call_i64 call_i32 call_f64 call_ptr call_void (function pointer, arguments...).
Numbers    bits_of_f64(x), f64_of_bits(n), shift_right_unsigned(a, b), less_unsigned(a, b), likely(c), unlikely(c),
           trailing_zeros(n), leading_zeros(n), multiply_overflows(a, b) (1 where a*b does not fit).
Tiles      multiply_tile(vectors, k, a, b, places, c, c_row): C += the sum over i < k of a's i-th TILE_ROWS floats times
           `vectors` vectors of floats that begin at b + places[i] (i32, in bytes); C's rows are c_row floats apart.
           An eighth argument of 0 replaces what C holds instead of adding to it.
           multiply_seen(vectors, k, a, rows, places, b, b_row, c, c_row): the same where row r's i-th float is at
           a + rows[r] + places[i] (i32, in bytes), and the i-th vectors are at b + i * b_row floats.
           multiply_panel(rows, vectors, k, a, b, b_row, c, c_row, add): C is, or if `add` becomes larger by, such a sum
           where the i-th vectors are at b + i * b_row floats and `rows`, a power of two, is found at run time.
           multiply_squares(rows, k, a, b, b_column, c, c_row, add): the same of one vector and a constant number of
             rows where column j's floats lie behind each other from b + j * b_column floats on.
           multiply_runs(columns, k, a, b, b_column, c): the same of one row whose floats are a run, for a constant
             number of columns; each sum is one of vectors, whose lanes are added at the end.
           multiply_pairs(blocks, a, a_next, b, b_next, c, add): the 32 x 32 floats at c are, or if `add` grow by,
             products of two blocks of 16 rows with two of 16 columns, each so many blocks of 16 x 16 pairs of bfloat16
             numbers one behind the other. Where the processor has no such instruction, nothing.
           multiply_seen_pairs(count, a, b, places, plane, c, c_row, add): the same of two blocks of 16 rows behind each
             other, `count` times, with 32 pairs at b + places[i] (i32, in bytes) in each of 16 planes so many bytes
             apart; C's rows are c_row floats apart.
           tiles_begin(description) and tiles_end(): around those two; AMX's description of tiles, 64 bytes.
           alternate_halves(to, first, second): 16 numbers of two bytes and 16 others by turns.
           alternate_upper_halves(to, first, second), upper_halves(to, from): the same of the bfloat16 numbers that 16
             floats and 16 others begin with, and those of 32 floats.
           round_sixteen(to, from): 16 floats as bfloat16.
           transpose_tile(rows, to, to_row, from, from_row): the transpose of 4 or 8 rows of 8 floats; rows are so many
             floats apart.
           transpose_wide(to, to_row, from, from_row): the transpose of 4 rows of 4 numbers of 8 bytes, rows so many
             numbers apart.
           run_eight(item, real, product, totals, to, from): eight totals, f64 where `real`, otherwise i64, at an
           address divisible by 64, each take in one of eight numbers of `item` bytes, added or multiplied, and are what
           is stored. The first three are constants.
           less_of_eight(at, bound): how many of eight i64 are less than another.
           add_scaled_rows(item, vectors, count, weights, places, x, step, out, last): so many vectors of floats of
           `item` bytes, the last of which has `last` lanes: the sum over i < count of the i-th weight times the vectors
           at x + places[i] (i64) * step bytes. The first two are constants.
Transforms (`fourier_code.py` says what an element is; `double`, a constant, whether of doubles)
           fourier_stage(double, radix, groups, run, to, from, roots, swap): butterflies, each group's outputs but the
             first times its numbers among `roots`, unless it is the only one.
           take_pairs(double, to, from) and put_pairs(double, to, from): an element of numbers whose parts lie by turns.
           combine_pairs(double, low_to, high_to, low, high, factor): m + d and the conjugate of m - d, where m is the
             mean of `low` and the conjugate of `high`, and d their difference times a number, its parts HALF apart.
           mirror_pairs(double, to, from): conjugates.
           scale_pairs(double, at, number): times the float at an address.
           turn_pairs(double, at, reals, imaginary, swap): times a complex number for each lane.
Of one line (`fourier_line_code.py`)
           fourier_start(double, apart, groups, to, from, roots, swap): the first stage, of elements if `apart`, a
             constant, else of numbers whose parts lie by turns.
           split_numbers(double, low_to, high_to, low, high, after, factors): combine_pairs, with n - k in two elements,
             and results whose parts lie by turns; join_numbers(double, to, low, high, factors): of such, the lower
             element. mirror_numbers(double, to, from): conjugates of such, backwards.
"""

from __future__ import annotations

from typing import Any

from eagerjit.runtime.records import record

i64 = int
i32 = int
i16 = int
i8 = int
u32 = int
u16 = int
u8 = int
ptr = int
f64 = float
f32 = float


class NativeOnly:
    """A name that means something to the translator alone."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.name} can be called in native code only")


class Intrinsic(NativeOnly):
    """An operation the translator emits in place."""


@record(frozen=True)
class Signature:
    """Declared types (as written in annotations) of a function; `result` is "void" where it returns nothing."""

    result: str
    parameters: tuple[str, ...]
    variadic: bool = False


class External(NativeOnly):
    """A C function found in this process."""

    def __init__(self, declaration: str):
        head, _, tail = declaration.partition("(")
        result, _, name = head.strip().rpartition(" ")
        types = [part.strip() for part in tail.rstrip(") ").split(",") if part.strip()]
        variadic = bool(types) and types[-1] == "..."
        super().__init__(name)
        self.signature = Signature(result, tuple(types[:-1] if variadic else types), variadic)


class Global(int):
    """A module-level variable; in native code its name is its address."""

    size: int
    symbol: str


def external(declaration: str) -> External:
    """Declares a C function: `external("i32 posix_memalign(ptr, i64, i64)")`."""
    return External(declaration)


def external_data(symbol: str) -> Global:
    """Declares a C variable; its name in native code is its address."""
    variable = Global()
    variable.size, variable.symbol = 0, symbol
    return variable


def global_bytes(size: int) -> Global:
    """Reserves zeroed memory, 64-byte aligned, that lives as long as the native library."""
    variable = Global()
    variable.size, variable.symbol = size, ""
    return variable


load_i8, load_u8, load_i16, load_u16 = map(Intrinsic, ("load_i8", "load_u8", "load_i16", "load_u16"))
load_i32, load_u32, load_i64, load_ptr = map(Intrinsic, ("load_i32", "load_u32", "load_i64", "load_ptr"))
load_f32, load_f64, load_f16, load_bf16 = map(Intrinsic, ("load_f32", "load_f64", "load_f16", "load_bf16"))
store_i8, store_i16, store_i32, store_i64 = map(Intrinsic, ("store_i8", "store_i16", "store_i32", "store_i64"))
store_f32, store_f64, store_ptr = map(Intrinsic, ("store_f32", "store_f64", "store_ptr"))
store_f16, store_bf16 = map(Intrinsic, ("store_f16", "store_bf16"))
buffer, c_string, address_of = map(Intrinsic, ("buffer", "c_string", "address_of"))
copy_bytes, fill_bytes, prefetch = map(Intrinsic, ("copy_bytes", "fill_bytes", "prefetch"))
atomic_load, atomic_store = map(Intrinsic, ("atomic_load", "atomic_store"))
atomic_add, atomic_exchange = map(Intrinsic, ("atomic_add", "atomic_exchange"))
atomic_compare_exchange = Intrinsic("atomic_compare_exchange")
atomic_load_i32, atomic_store_i32 = map(Intrinsic, ("atomic_load_i32", "atomic_store_i32"))
atomic_add_i32, atomic_exchange_i32 = map(Intrinsic, ("atomic_add_i32", "atomic_exchange_i32"))
atomic_compare_exchange_i32 = Intrinsic("atomic_compare_exchange_i32")
fence, pause = map(Intrinsic, ("fence", "pause"))
call_i64, call_i32, call_f64 = map(Intrinsic, ("call_i64", "call_i32", "call_f64"))
call_ptr, call_void = map(Intrinsic, ("call_ptr", "call_void"))
bits_of_f64, f64_of_bits = map(Intrinsic, ("bits_of_f64", "f64_of_bits"))
shift_right_unsigned, less_unsigned = map(Intrinsic, ("shift_right_unsigned", "less_unsigned"))
likely, unlikely, multiply_overflows = map(Intrinsic, ("likely", "unlikely", "multiply_overflows"))
add_scaled_rows = Intrinsic("add_scaled_rows")
multiply_panel = Intrinsic("multiply_panel")
multiply_squares, multiply_runs = map(Intrinsic, ("multiply_squares", "multiply_runs"))
multiply_tile = Intrinsic("multiply_tile")
multiply_seen = Intrinsic("multiply_seen")
multiply_pairs, multiply_seen_pairs = map(Intrinsic, ("multiply_pairs", "multiply_seen_pairs"))
tiles_begin, tiles_end = map(Intrinsic, ("tiles_begin", "tiles_end"))
alternate_halves, alternate_upper_halves = map(Intrinsic, ("alternate_halves", "alternate_upper_halves"))
upper_halves, round_sixteen = map(Intrinsic, ("upper_halves", "round_sixteen"))
transpose_tile = Intrinsic("transpose_tile")
transpose_wide = Intrinsic("transpose_wide")
run_eight = Intrinsic("run_eight")
less_of_eight = Intrinsic("less_of_eight")
fourier_start, mirror_numbers = map(Intrinsic, ("fourier_start", "mirror_numbers"))
join_numbers, split_numbers = map(Intrinsic, ("join_numbers", "split_numbers"))
fourier_stage, turn_pairs, scale_pairs = map(Intrinsic, ("fourier_stage", "turn_pairs", "scale_pairs"))
take_pairs, put_pairs = map(Intrinsic, ("take_pairs", "put_pairs"))
combine_pairs, mirror_pairs = map(Intrinsic, ("combine_pairs", "mirror_pairs"))
trailing_zeros, leading_zeros = map(Intrinsic, ("trailing_zeros", "leading_zeros"))
