"""Program: the flat instruction list that one compiled call executes.

A Program is data. Two executors run it: `execute.py` in Python (the reference) and the native one, which decodes the
same words inside one C call. Three tables stand beside the words:

- `leaves`: Python objects. The first `n_arguments` are the caller's; LOAD_* instructions fill the rest.
- `slots`: 64-bit words holding sizes, strides (in elements), pointers and the bits of float64 scalars.
- `objects`: constants such as captured Tensors, dictionaries, strings. `functions`: addresses of compiled kernels.

A guard that fails ends the run with MISS before anything has been written. Every operand is an int; "slot", "leaf",
"object", "output" and "function" operands are indices into those tables.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum
from typing import Any

from eagerjit.runtime import dtypes
from eagerjit.runtime.records import record

TYPES = tuple(d.numpy for d in sorted(dtypes.HELD, key=lambda d: d.code))
"""NumPy's dtypes by the codes that instructions have for them."""


class _Miss:
    """The result of a run whose guards did not hold."""

    def __repr__(self) -> str:
        return "MISS"


MISS = _Miss()


class Op(IntEnum):
    """Instruction codes; the comment lists the operands."""

    END = 0  # ()
    # -- leaves ---------------------------------------------------------------------------------------------------
    LOAD_OBJECT = 1  # (leaf, object)                leaves[leaf] = objects[object]
    LOAD_ITEM = 2  # (leaf, container_leaf, object)  leaves[leaf] = dict or list[objects[object]]; absent: MISS
    LOAD_CELL = 3  # (leaf, object)                  contents of closure cell objects[object]; empty: MISS
    LOAD_ATTRIBUTE = 4  # (leaf, container_leaf, object)  getattr; AttributeError: MISS
    LOAD_GRAD = 5  # (leaf, tensor_leaf)             the Tensor's `_grad` slot (None where unset)
    # -- guards ---------------------------------------------------------------------------------------------------
    IS = 6  # (leaf, object)          leaves[leaf] is objects[object]
    EQUAL = 7  # (leaf, object)       same type and ==, for str, int, float, tuple of such
    TYPE_IS = 8  # (leaf, object)     type(leaves[leaf]) is objects[object]
    LACKS = 39  # (leaf, object)       leaves[leaf] is a dict without the key objects[object]
    GRAD_MODE = 9  # (expected)       `mode.gradients()` is expected
    EPOCH = 10  # (word)              the global epoch equals the executable's own word `word` (mutable, see Executable)
    TENSOR = 11  # (leaf, dtype_code, ndim, contiguous, grad, pointer_slot, dim_slot, stride_slot)
    #               leaf is a Tensor over an ndarray of this dtype and ndim. contiguous=1: C-contiguous is required and
    #               strides are not stored; 0: any strides that are multiples of the itemsize, stored from stride_slot
    #               on. Dims are stored from dim_slot on. grad: 0 needs no gradient, 1 needs one, 2 either
    #               (needs a gradient = `_requires_grad` is True).
    CAPTURED = 31  # (leaf, object, dtype_code, grad, pointer_slot, dim...)  LOAD_OBJECT, and TENSOR with C-contiguous
    #                memory of these very dims in one: what a call reads of its surroundings is mostly that
    READ_FLOAT = 12  # (leaf, slot)   exact float; its bits
    READ_INT = 13  # (leaf, slot)     exact int (not bool) that fits 64 bits
    CHECK_EQ = 14  # (slot, slot)
    CHECK_CONST = 15  # (slot, constant)
    CHECK_GE = 16  # (slot, constant)  signed >=
    CHECK_TRUE = 17  # (slot, expected) (slot != 0) == expected
    CHECK_VALUE = 19  # (pointer_slot, bytes, bits)  the number in memory has these bits; `bytes` is 1, 2, 4 or 8
    DISTINCT = 18  # (n_written, leaf..., n_read, leaf...)  memory of no written leaf overlaps another listed leaf's;
    #                two leaves that are the same object also miss
    SAME = 38  # (leaf, leaf, expected)  whether both are the same object, 0 or 1
    DIFFERENT = 37  # (n, leaf...)     no two of these leaves are the same object
    WRITABLE = 50  # (leaf)  a Tensor that may be written while gradients are recorded: no view, made while they were
    #                not, of one that needs a gradient; views that detach are meant to be
    # -- sizes ----------------------------------------------------------------------------------------------------
    CONST = 20  # (slot, constant)
    ADD = 21  # (slot, a, b) and so on, all on slots, signed 64 bit
    SUB = 22
    MUL = 23
    FLOORDIV = 24  # Python's floor; a zero divisor ends with MISS
    MOD = 25  # Python's sign; a zero divisor ends with MISS
    MIN = 26
    MAX = 27
    LT = 28  # 0 or 1
    LE = 29
    EQ = 30
    # -- memory ---------------------------------------------------------------------------------------------------
    ARENA = 32  # (pointer_slot, bytes_slot)   64-byte aligned scratch, given back when the run ends
    OUTPUT = 33  # (output, dtype_code, ndim, pointer_slot, dim_slot...)  a fresh C-contiguous ndarray in a new Tensor
    OUTPUT_LEAF = 34  # (output, leaf)         the leaf object itself
    OUTPUT_VIEW = 35  # (output, base_is_output, base, dtype_code, ndim, pointer_slot, dim_slot..., stride_slot...)
    #                   a new Tensor whose ndarray views the base's memory, starting at the address in pointer_slot
    OUTPUT_OBJECT = 36  # (output, object)
    # -- work -----------------------------------------------------------------------------------------------------
    BEGIN = 40  # (work_slot)  from here to FINISH only work; releases the GIL if the work (scalar operations) is large
    KERNEL = 41  # (function, tasks_slot, work_slot, scratch_slot, n, slot...)
    #               calls int64 kernel(int64 *args, int64 begin, int64 end, char *scratch) over [0, tasks), split over
    #               the thread pool where `work` is large; scratch_slot: bytes of scratch each thread needs (-1: none).
    #               A non-zero status ends the run: its error is errors[status - 1].
    MATMUL = 42  # (dtype_code, n_batch, A, B, C, M, N, K, a_row, a_col, b_row, b_col, c_row, then per batch dim:
    #               extent, a_stride, b_stride, c_stride)  all slots; strides in elements; C's columns are adjacent.
    #               C = A @ B; float32, float64 by BLAS.
    CONVOLUTION = 46  # (kind, dtype_code, X, W, Y, images, channels, rows, groups, then per spatial dim, of three:
    #               input, kernel, output, stride, padding, dilation)  kind: 0 makes Y, 1 X, 2 W; the rest are slots.
    #               channels and rows (of X and Y) per group; all memory is contiguous float32 or float64.
    READ_SIZE = 47  # (slot, pointer_slot)  the int64 in memory; outside BEGIN..FINISH
    COPY = 43  # (destination_slot, source_slot, bytes_slot)
    FINISH = 44  # ()  takes the GIL back
    CALL = 45  # (call, n, slot...)  calls[call](address of n words, the slots' values); takes the GIL meanwhile
    # -- effects --------------------------------------------------------------------------------------------------
    SET_GRAD = 48  # (leaf, output)      leaf._grad = outputs[output]   (output -1: None)
    BUMP_VERSION = 49  # (leaf, object, times)  the Tensor was written in place so many times, at last on the line
    #                    objects[object] (-1: the caller's)


class DeviceOp(IntEnum):
    """What native code runs in the place of some instructions where the Program is one of a device."""

    TENSOR = 64
    CAPTURED = 65
    ARENA = 66
    OUTPUT = 67
    OUTPUT_VIEW = 68
    KERNEL = 69
    COPY = 70


class NativeOp(IntEnum):
    """What native code runs in the place of several instructions (`runtime/shortened.py`)."""

    CAPTURED = 79  # (n, then per tensor: address, dtype's address, rank, grad, 8 * leaf, 8 * pointer_slot, dim...)  all
    #                CAPTURED that follow one another
    METHOD = 80  # (class, name, function, version)  the class or a base of it has this function under this name; the
    #              last word is native code's, which notes there what it last looked at
    DEFINITION = 81  # (function, part, object)  one of the PARTS of a function is this object
    SHIFT = 82  # (slot, a, bits)  FLOORDIV by the power of two with so many bits


CODE, DEFAULTS, KEYWORD_DEFAULTS = range(3)
PARTS = {"__code__": CODE, "__defaults__": DEFAULTS, "__kwdefaults__": KEYWORD_DEFAULTS}


class LinAlgError(RuntimeError):
    """A matrix does not have what was asked for: it is singular, not positive-definite, ..."""


@record(frozen=True)
class Failure:
    """What a kernel's non-zero status raises: an exception class by name and its message.

    With a slot, the message is a template of the % operator for the slot's number.
    """

    exception: str
    message: str
    slot: int = -1

    @property
    def exception_class(self) -> type[BaseException]:
        """The builtin exception, or that of linear algebra."""
        found: type[BaseException] = getattr(builtins, self.exception, LinAlgError)
        return found

    def error(self, slots: Sequence[int]) -> BaseException:
        """The exception of a run with these slots."""
        return self.exception_class(self.message if self.slot < 0 else self.message % slots[self.slot])


@record(frozen=True)
class HostCall:
    """A call of a Python function with parts of the Program's memory (`runtime/host.py` runs it).

    arguments   constants, and for what the call's words hold: "$size"; ("$tensor", dtype code, ndim, is a number) for
                an address and its dims. "$none" is None, a string is "=" and its text, a dtype its short name
    results     per result that is wanted (its position, dtype code, ndim): an address and its dims
    place       the line of a compiled function that asks for it, "" in operations
    """

    function: str
    arguments: tuple[Any, ...]
    results: tuple[tuple[int, int, int], ...]
    place: str = ""

    @property
    def n_words(self) -> int:
        """How many words the call is given."""
        return sum(map(_width, self.arguments)) + sum(1 + ndim for _, _, ndim in self.results)


def _width(entry: Any) -> int:
    """How many words an argument takes."""
    if not isinstance(entry, Sequence) or isinstance(entry, str):
        return int(entry == "$size")
    if entry and entry[0] == "$tensor":
        return 1 + entry[2]
    return sum(map(_width, entry))


def flat_words(instructions: Sequence[tuple[int, ...]]) -> list[int]:
    """Instructions and the end as one flat list: code, operand count, operands."""
    out: list[int] = []
    for code, *operands in instructions:
        out += (code, len(operands), *operands)
    out += (Op.END, 0)
    return out


@record
class Program:
    """Instructions of one compiled call with the sizes of its tables; `objects` are bound when it is loaded."""

    n_arguments: int
    n_leaves: int
    n_slots: int
    n_outputs: int
    instructions: list[tuple[int, ...]]
    kernels: list[str]  # names of the functions that KERNEL refers to
    errors: list[Failure] = field(default_factory=list)
    n_words: int = 0  # mutable words (EPOCH)
    calls: list[HostCall] = field(default_factory=list)

    @property
    def raises_at_once(self) -> bool:
        """Whether the call itself raises its errors, wherever it runs: programs catch those of linear algebra."""
        return any(failure.exception == LinAlgError.__name__ for failure in self.errors)

    def words(self) -> list[int]:
        """All instructions as one flat list: code, operand count, operands."""
        return flat_words(self.instructions)

    def __str__(self) -> str:
        lines = [f"program leaves={self.n_leaves} slots={self.n_slots} outputs={self.n_outputs}"]
        for code, *operands in self.instructions:
            name = Op(code).name.lower()
            if code == Op.KERNEL:
                name += f" {self.kernels[operands[0]]}"
            elif code == Op.CALL:
                name += f" {self.calls[operands[0]].function}"
            lines.append(f"  {name} {' '.join(map(str, operands))}")
        return "\n".join(lines)
