"""Per-thread modes and global counters that compiled code reads without asking Python.

Grad mode, the tracing flag, whether new tensors lie on a device and whether instances of any subclass of Tensor pass
for plain tensors belong to a thread. Python reads them from a `threading.local`; native code reads the same bits from
words that a CPython thread-specific-storage key leads to, so that `no_grad()` in one thread never leaks into another.
The epoch, the sequence number of autograd nodes, the default dtype, whether factors of float32 may be rounded and
whether somebody watches what devices are given, how many modules there were and whether a debugger was among them
are words of one small block at a fixed address, guarded by the GIL.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from eagerjit.runtime import dtypes
from eagerjit.runtime.cpython import function

GRAD_OFF = 1
TRACING = 2
ELSEWHERE = 4
INFERENCE = 8
ASKED = 16
PLAIN = 32
CASTING = 64
GRADIENTS = GRAD_OFF | INFERENCE | ASKED
"""What a recorded function may depend on: whether gradients are recorded, and what it is told of that."""
EPOCH_WORD = 0
SEQUENCE_WORD = 1
DTYPE_WORD = 2
PRECISION_WORD = 3
WATCHED_WORD = 4
MODULES_WORD = 5
DEBUGGERS_WORD = 6
DEVICE, STREAM = 8, 16

words = (ctypes.c_int64 * 8)()
words[DTYPE_WORD] = dtypes.float32.code
words_address = ctypes.addressof(words)

_set_flags = function("PyThread_tss_set", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
flags_key: int = function("PyThread_tss_alloc", ctypes.c_void_p)()
if not flags_key or function("PyThread_tss_create", ctypes.c_int, ctypes.c_void_p)(flags_key) != 0:
    raise MemoryError("no thread-specific storage left for eagerjit's grad mode")


class _Flags(threading.local):
    """This thread's modes, and the words native code reads them from; a new thread has gradients on and no trace."""

    grad = True
    tracing = False
    elsewhere = False
    inference = False
    asked = False
    plain = False
    casting = False
    words: Any = None


_flags = _Flags()


def _publish() -> None:
    words = thread_words()
    grad, tracing = 0 if _flags.grad else GRAD_OFF, TRACING if _flags.tracing else 0
    words[0] = grad | tracing | (ELSEWHERE if _flags.elsewhere else 0) | _inference_bits()
    words[0] |= (PLAIN if _flags.plain else 0) | (CASTING if _flags.casting else 0)


def thread_words() -> Any:
    """What native code reads of this thread: its modes, the device it last worked on, and its stream there."""
    words = _flags.words
    if words is None:
        words = _flags.words = (ctypes.c_int64 * 3)()
        if _set_flags(flags_key, ctypes.addressof(words)) != 0:
            raise MemoryError("cannot store this thread's modes")
        _publish()
    return words


def leave_device() -> None:
    """Native code asks Python before this thread's next work for a device: where that goes may have changed."""
    if _flags.words is not None:
        _flags.words[DEVICE // 8] = 0


def _inference_bits() -> int:
    return INFERENCE | (ASKED if _flags.asked else 0) if _flags.inference else 0


def gradients() -> int:
    """The bits of this thread's flags that say whether gradients are recorded, and what programs are told of that."""
    return (0 if _flags.grad else GRAD_OFF) | _inference_bits()


def inference() -> bool:
    """Whether this thread is in inference mode: gradients are off, whatever is asked for."""
    return _flags.inference


def asked_grad_mode() -> bool:
    """Whether gradients were asked for: in inference mode that is remembered, and nothing else."""
    return _flags.asked if _flags.inference else _flags.grad


def ask_grad_mode(enabled: bool) -> bool:
    """Switches grad mode as programs do, and returns what was asked for before."""
    if not _flags.inference:
        return set_grad_mode(enabled)
    before, _flags.asked = _flags.asked, enabled
    _publish()
    return before


def set_inference(enabled: bool, asked: bool) -> tuple[bool, bool]:
    """Enters or leaves inference mode, gradients being asked for or not; returns the two as they were."""
    before = _flags.inference, asked_grad_mode()
    _flags.inference, _flags.asked = enabled, asked
    _flags.grad = asked and not enabled
    _publish()
    return before


def grad_mode() -> bool:
    """Whether this thread records gradients."""
    return _flags.grad


def set_grad_mode(enabled: bool) -> bool:
    """Switches this thread's grad mode and returns what it was."""
    before = _flags.grad
    if before is not enabled:
        _flags.grad = enabled
        words = _flags.words
        if words is None:
            _publish()
        else:
            words[0] ^= GRAD_OFF
    return before


def set_modes(grad: bool, plain: bool) -> tuple[bool, bool]:
    """Switches grad mode, and whether instances of all subclasses of Tensor pass for plain; returns both before."""
    flags = _flags
    before = flags.grad, flags.plain
    changed = (GRAD_OFF if before[0] is not grad else 0) | (PLAIN if before[1] is not plain else 0)
    if changed:
        words = flags.words or thread_words()
        flags.grad, flags.plain = grad, plain
        words[0] ^= changed
    return before


def tracing() -> bool:
    """Whether this thread is recording a function; native fast paths are closed to it while it is."""
    return _flags.tracing


def casting() -> bool:
    """Whether this thread converts the arguments of some operators."""
    return _flags.casting


def set_casting(enabled: bool) -> None:
    """Lets operators that convert their arguments be served by Python, or natively again."""
    flags = _flags
    if flags.casting is not enabled:
        words = flags.words or thread_words()
        flags.casting = enabled
        words[0] ^= CASTING


def set_tracing(enabled: bool) -> bool:
    """Switches this thread's tracing flag and returns what it was."""
    before = _flags.tracing
    if before is not enabled:
        _flags.tracing = bool(enabled)
        _publish()
    return before


def set_elsewhere(enabled: bool) -> None:
    """Says whether new tensors of this thread lie on a device, where native code makes none."""
    _flags.elsewhere = enabled
    _publish()


def plain() -> bool:
    """Whether instances of all subclasses of Tensor pass for plain tensors in this thread."""
    return _flags.plain


def set_plain(enabled: bool) -> bool:
    """Says whether they do, and returns what it was."""
    before = _flags.plain
    if before is not enabled:
        _flags.plain = enabled
        _publish()
    return before


def epoch() -> int:
    """The global epoch: EPOCH guards compare an executable's own word with it."""
    return words[EPOCH_WORD]


def bump_epoch() -> int:
    """Starts a new epoch, so that every EPOCH guard set before misses, and returns it."""
    words[EPOCH_WORD] += 1
    return words[EPOCH_WORD]


def set_default_dtype(dtype: dtypes.DType) -> None:
    """Tells native code the dtype of new floating point tensors."""
    words[DTYPE_WORD] = dtype.code


def next_sequence() -> int:
    """The next autograd sequence number, shared by nodes made in Python and natively."""
    words[SEQUENCE_WORD] += 1
    return words[SEQUENCE_WORD]


def reserve_sequences(count: int) -> None:
    """Leave out so many sequence numbers, for nodes that are made later and belong behind the last one."""
    words[SEQUENCE_WORD] += count
