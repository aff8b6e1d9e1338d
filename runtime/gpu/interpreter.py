"""Triton's interpreter: kernels run on this machine, with what a GPU computes where NumPy alone does not."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from eagerjit.runtime import cpu
from eagerjit.runtime.gpu.compiler import function, lock
from eagerjit.runtime.gpu.descriptors import NAMES, Descriptor


def interpret(
    text: str,
    name: str,
    signature: Mapping[str, str],
    constants: Mapping[str, int],
    grid: tuple[int, int],
    arguments: Sequence[int | float | tuple[Descriptor, int]],
) -> None:
    """Run a kernel on this machine: pointers are addresses of its memory, in `signature`'s order without constants.

    A tensor whose blocks are loaded is its descriptor and an address.
    """
    kernel = function(text, name, True)
    types = [t for t in signature.values() if t != "constexpr"]
    with lock, _exact_interpreter():
        values = [_argument(t, a) for t, a in zip(types, arguments, strict=True)]
        kernel.run(*values, **constants, grid=(*grid, 1), warmup=False)


_NUMPY = {"i32": np.int32, "i64": np.int64, "fp64": np.float64}


def _argument(type_: str, value: int | float | tuple[Descriptor, int]) -> Any:
    """A number, an address or a described tensor as the interpreter holds it."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    if isinstance(value, tuple):
        return _described(*value)
    made = tl.str_to_ty(type_, None)
    kind = np.uint64 if type_.startswith("*") else _NUMPY[type_]
    return tl.tensor(TensorHandle(np.array([value], kind), made), made)


def _described(descriptor: Descriptor, address: int) -> Any:
    import triton.language as tl
    from triton.runtime import interpreter

    base = _argument(f"*{NAMES[descriptor.dtype]}", address)
    shape = [_argument("i32", extent) for extent in descriptor.shape]
    strides = [*(_argument("i64", stride) for stride in descriptor.strides[:-1]), tl.constexpr(1)]
    block = [tl.constexpr(extent) for extent in descriptor.block]
    return interpreter.interpreter_semantic.make_tensor_descriptor(base, shape, strides, block)


@contextlib.contextmanager
def _exact_interpreter() -> Iterator[None]:
    """Within the block Triton's interpreter computes what a GPU does where NumPy alone does not.

    It rounds twice in a fused multiply-add, cuts bfloat16 off, takes wrapped integers for errors, gives comparisons the
    type of their operands, makes 0 of integers over 0, and combines the elements of a reduction one by one in Python.
    """
    from triton.language import core
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    changed: list[tuple[Any, str, Any]] = [
        (interpreter.InterpreterBuilder, "create_fma", _fma),
        (interpreter.InterpreterBuilder, "binary_op", _compared(interpreter.InterpreterBuilder.binary_op)),
        *((interpreter.InterpreterBuilder, name, _divided(getattr(interpreter.InterpreterBuilder, name)))
          for name in ("create_idiv", "create_srem", "create_urem")),
        (interpreter, "_convert_float", _converted(interpreter._convert_float)),
        (interpreter.InterpreterBuilder, "create_dot", _dot),
        (interpreter.ReduceOps, "generic_reduce", _reduced),
        (interpreter.ScanOps, "generic_scan", _scanned),
        (interpreter, "_patch_lang", _once_each(interpreter._patch_lang)),
        (interpreter, "_patch_lang_tensor", _with_index(interpreter._patch_lang_tensor)),
        (core.block_type, "__init__", _of_known_shape(core.block_type.__init__)),
        (builder, "options", replace(builder.options, sanitize_overflow=False)),
    ]
    before = [getattr(owner, name) for owner, name, _ in changed]
    for owner, name, value in changed:
        setattr(owner, name, value)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        for (owner, name, _), value in zip(changed, before, strict=True):
            setattr(owner, name, value)


def _once_each(patch: Any) -> Any:
    """Triton's modules are patched for a function when a launch first calls it, and stay so; not for each call."""
    patched: set[Any] = set()

    def patch_first(function: Any) -> Any:
        if function in patched:
            return None
        patched.add(function)
        return patch(function)

    return patch_first


_shapes: dict[tuple[int, ...], tuple[Any, int, str]] = {}
"""By shapes of blocks that Triton has found good: the type of such a tuple, how many elements these are, its text."""


def _of_known_shape(original: Any) -> Any:
    """Each operation makes the types of its blocks, most of the same few shapes: a fifth of an interpreter's time."""
    from triton.language import core

    def make(block: Any, element: Any, shape: Any) -> None:
        """As it was, but what a shape comes to is found once."""
        sizes = tuple([s.value if type(s) is core.constexpr else s for s in shape])
        whole = {*map(type, sizes)} == {int}  # True and 16.0 equal such, and are none
        if whole and sizes in _shapes:
            kind, block.numel, text = _shapes[sizes]
            block.element_ty, block.shape, block.name = element, core.tuple(sizes, kind), f"<{text}, {element}>"
            return
        original(block, element, shape)
        if whole:
            _shapes[sizes] = block.shape.type, block.numel, str(block.shape)

    return make


def _fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    from triton.runtime.interpreter import TensorHandle

    return TensorHandle(fused(x.data, y.data, z.data), z.dtype.scalar)


def _dot(builder: Any, a: Any, b: Any, d: Any, precision: Any, most: Any) -> Any:
    """Factors as numbers, bfloat16 too."""
    import ml_dtypes

    factors = [f.data.view(ml_dtypes.bfloat16) if str(f.dtype.scalar) == "bf16" else f.data for f in (a, b)]
    product = np.matmul(*(f.astype(d.data.dtype) for f in factors))
    return type(d)(product + d.data, d.dtype.scalar)


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z of float32 or float64, rounded once."""
    kind = "float" if x.dtype == np.float32 else "double"
    a, b, c = (np.ascontiguousarray(v) for v in np.broadcast_arrays(x, y, z))
    out = np.empty_like(a)
    loaded = _fused_code()
    pointer = ctypes.c_void_p
    call = cpu.callable_at(loaded.address(f"fused_{kind}"), None, *[pointer] * 4, ctypes.c_int64)
    call(a.ctypes.data, b.ctypes.data, c.ctypes.data, out.ctypes.data, out.size)
    return out


@lru_cache(maxsize=1)
def _fused_code() -> Any:
    """Machine code of the two loops."""
    return cpu.load_object(cpu.compile_text("\n".join(_FUSED.replace("T", kind) for kind in ("float", "double"))))


_FUSED = """
define void @fused_T(ptr %x, ptr %y, ptr %z, ptr %out, i64 %n) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %xp = getelementptr T, ptr %x, i64 %i
  %yp = getelementptr T, ptr %y, i64 %i
  %zp = getelementptr T, ptr %z, i64 %i
  %op = getelementptr T, ptr %out, i64 %i
  %a = load T, ptr %xp
  %b = load T, ptr %yp
  %c = load T, ptr %zp
  %r = call T @llvm.fma.T(T %a, T %b, T %c)
  store T %r, ptr %op
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def _with_index(original: Any) -> Any:
    def patch(tensor: Any, scope: Any) -> None:
        """As it was, but a number in an array of one element is an index too."""
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch


def _compared(original: Any) -> Any:
    def operate(builder: Any, a: Any, b: Any, operation: Any) -> Any:
        """As it was, but a comparison's result is of single bits."""
        import triton.language as tl

        made = original(builder, a, b, operation)
        return type(made)(made.data, tl.int1) if made.data.dtype == np.bool_ else made

    return operate


def _divided(original: Any) -> Any:
    def operate(builder: Any, a: Any, b: Any) -> Any:
        """As it was, but a program's number divided by 0 is an error: NumPy makes 0 of it, a GPU any number."""
        if a.data.size == b.data.size == 1 and not b.data.any():
            raise ZeroDivisionError("a program divides a number of its own by 0")
        return original(builder, a, b)

    return operate


def _converted(original: Any) -> Any:
    def convert(data: np.ndarray, source: Any, target: Any, rounding: Any) -> np.ndarray:
        """float32 to bfloat16 to nearest even, and subnormal numbers back; the rest as it was."""
        import ml_dtypes

        if str(source) == "fp32" and str(target) == "bf16":
            return np.asarray(data, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
        if str(source) == "bf16" and str(target) == "fp32":
            return data.astype(np.uint32) << 16
        return original(data, source, target, rounding)

    return convert


def _together(operation: Any, tensors: Any, *parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the combining function makes of two parts of each tensor."""
    from triton.language import core

    given = [
        core.tensor(type(tensor.handle)(p, tensor.dtype), core.block_type(tensor.dtype, list(p.shape)))
        for part in parts
        for tensor, p in zip(tensors, part, strict=True)
    ]
    made = operation.combine_fn.fn(*given)
    return [t.handle.data for t in (made if isinstance(made, tuple) else (made,))]


def _scanned(operation: Any, tensors: Any) -> list[Any]:
    """A scan in steps of doubled distance."""
    axis = operation.axis
    data = [np.moveaxis(t.handle.data, axis, 0) for t in tensors]
    distance = 1
    while distance < len(data[0]):
        made = _together(operation, tensors, [np.roll(d, distance, 0) for d in data], data)
        data = [np.concatenate([d[:distance], m[distance:]]) for d, m in zip(data, made, strict=True)]
        distance *= 2
    moved = (np.ascontiguousarray(np.moveaxis(d, 0, axis)) for d in data)
    return [operation.to_tensor(d, t.dtype) for d, t in zip(moved, tensors, strict=True)]


def _reduced(operation: Any, tensors: Any) -> list[Any]:
    """A reduction as a tree of whole halves, so that a combining function runs once per level."""
    axis = 0 if operation.axis is None else operation.axis
    data = [t.handle.data.reshape(-1) if operation.axis is None else t.handle.data for t in tensors]
    while (length := data[0].shape[axis]) > 1:
        half = length // 2
        halves = [[np.take(d, range(start, start + half), axis) for d in data] for start in (0, half)]
        rest = [np.take(d, range(2 * half, length), axis) for d in data]
        made = _together(operation, tensors, *halves)
        data = [np.concatenate(both, axis) for both in zip(made, rest, strict=True)]
    if operation.axis is None:
        return [operation.to_tensor(d.item(), t.dtype) for d, t in zip(data, tensors, strict=True)]
    shaped = (d if operation.keep_dims else np.squeeze(d, axis) for d in data)
    return [operation.to_tensor(d, t.dtype) for d, t in zip(shaped, tensors, strict=True)]
