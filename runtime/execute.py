"""Loads Programs: natively where that is on, otherwise for the Python executor. Both run alike."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from eagerjit.runtime import blas, heap_types, layout, mode
from eagerjit.runtime.binding import bind, new_tensor
from eagerjit.runtime.check import check_program
from eagerjit.runtime.host import bound
from eagerjit.runtime.native.agreed import BESIDE, MOST_HIDDEN
from eagerjit.runtime.native.context import EXECUTABLE_FIELDS, MAX_NDIM
from eagerjit.runtime.native.library import convolutions, native, products
from eagerjit.runtime.once import once
from eagerjit.runtime.program import MISS, DeviceOp, NativeOp, Op, Program, flat_words
from eagerjit.runtime.shortened import shortened, with_constants

__all__ = ["MISS", "NativeExecutable", "bind", "load", "mode", "new_tensor"]

N_ARENAS: dict[int, int] = {Op.ARENA: 1, DeviceOp.ARENA: 1, DeviceOp.KERNEL: 2}
_HOLDING = frozenset(
    (
        *(Op.TENSOR, DeviceOp.TENSOR, DeviceOp.CAPTURED),
        *(Op.LOAD_ITEM, Op.LOAD_CELL, Op.LOAD_ATTRIBUTE, Op.LOAD_GRAD),
    )
)
"""What adds one reference to those that end with the run."""
_PADDING = [0] * 8  # the native decoder reads three operands of any instruction before it knows how many there are


class NativeExecutable(heap_types.raw_base("ExecutableBase", EXECUTABLE_FIELDS)):  # type: ignore[misc]
    """A loaded Program run by native code: `run(leaves)` takes the tuple of arguments.

    It returns the single output, or a tuple where `n_outputs` is not 1, or MISS where a guard fails. `epochs` holds the
    words that EPOCH guards compare with the global epoch.
    """

    __slots__ = ("__dict__", "__weakref__", "_kept", "epochs", "n_arguments", "n_outputs", "program")

    def __init__(
        self,
        program: Program,
        functions: Sequence[int],
        objects: Sequence[object],
        steps: Sequence[tuple[int, ...]] | None = None,
        device: int = 0,
    ):
        constants, steps = with_constants(program.instructions if steps is None else steps)
        steps = shortened(steps, program, objects)
        failures = [(f.exception_class, f.message, f.slot) for f in program.errors]
        arenas = sum(N_ARENAS.get(code, 0) for code, *_ in steps)
        parameters = max((n_parameters(step) for step in steps), default=0)
        calls = [bound(c) for c in program.calls]
        words = _words([*flat_words(steps), *_PADDING])
        callees = [word for c in calls[::-1] for word in (id(c), 0 if c.about is None else ctypes.addressof(c.about))]
        pointers = _words([*callees, *map(id, objects)])
        errors = _words([word for f in failures for word in (id(f[0]), id(f[1]), f[2])])
        addresses = _words(functions)
        held = sum(_n_held(step) for step in steps)
        beside = program.n_leaves + program.n_outputs + program.n_slots
        frame = _words([0] * (beside + 1 + held + 2 * arenas + parameters))
        for slot, value in constants.items():
            frame[len(frame) - program.n_slots + slot] = value
        self.program = program
        self.epochs = (ctypes.c_int64 * max(program.n_words, 1))()
        self.n_arguments = self._n_arguments = program.n_arguments
        self.n_outputs = self._n_outputs = program.n_outputs
        self._n_leaves, self._n_slots = program.n_leaves, program.n_slots
        self._n_arenas, self._n_parameters, self._n_held, self._device = arenas, parameters, held, device
        tables = (words, pointers, addresses, self.epochs, errors, frame)
        self._words, self._objects, self._functions, self._epochs, self._errors, self._frame = map(
            ctypes.addressof, tables
        )
        self._objects += 16 * len(calls)  # calls lie before the objects
        self._kept = (tables, tuple(objects), calls, failures)


def n_parameters(step: tuple[int, ...]) -> int:
    """How many words of the frame's argument area an instruction needs."""
    match step:
        case (Op.KERNEL, _, _, _, _, n, *_):
            return n
        case (DeviceOp.KERNEL, _, _, _, _, n, *_):
            return 3 * (n + BESIDE) + 2 * MOST_HIDDEN
        case (Op.CALL, _, n, *_):
            return n + 1
        case (Op.MATMUL, _, n_batch, *_):
            return 4 * n_batch
        case (Op.CONVOLUTION, *_):
            from eagerjit.runtime.native.convolution_plan import CALLER_WORDS

            return CALLER_WORDS
    return 0


def _n_held(step: tuple[int, ...]) -> int:
    """How many references an instruction adds to those that end with the run."""
    return step[1] if step[0] == NativeOp.CAPTURED else int(step[0] in _HOLDING)


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


@once
def install_run() -> None:
    """Loads the native executor."""
    address = native().address("executable_run")
    heap_types.install_native_method(NativeExecutable, "run", address, "Run on a tuple of arguments.")


def load(program: Program, functions: Sequence[int], objects: Sequence[object]) -> Any:
    """The Program, ready to run in this process: `functions` are addresses of kernels, `objects` the constants.

    ValueError where an instruction refers to something the Program does not have.
    """
    rank = check_program(program, len(functions), len(objects))
    codes = {code for code, *_ in program.instructions}
    if codes & {Op.MATMUL, Op.CONVOLUTION}:
        blas.blas()
    if rank > MAX_NDIM or not layout.ready():
        from eagerjit.runtime.interpret import PythonExecutable

        return PythonExecutable(program, functions, objects)
    if Op.MATMUL in codes:
        products()
    if Op.CONVOLUTION in codes:
        convolutions()
    install_run()
    return NativeExecutable(program, functions, objects)
