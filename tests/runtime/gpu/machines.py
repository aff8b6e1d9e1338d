"""What tests run on: a fake device or a GPU, with the same two kernels."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import ptx_kernels
from fake_driver import FakeLibrary
from fake_maps import MapWord, TensorMap

from eagerjit.compiled import gpu_kernels
from eagerjit.cuda.execution import Compile, compiled, layouts
from eagerjit.runtime.gpu import interpreter
from eagerjit.runtime.gpu.descriptors import FORMATS, ITEMSIZES, Box, Descriptor
from eagerjit.runtime.gpu.devices import Device, platform, using
from eagerjit.runtime.gpu.launch import Kernel, added

F32 = np.dtype(np.float32)
GPU = os.environ.get("EAGERJIT_TESTS_PTX", "gpu")
"""The machine of tests that need a GPU: one, or "sm_80" or the like for a fake one that executes PTX in its place."""

PTX = b"""
.version 7.0
.target sm_80
.address_size 64

.visible .entry add_one(.param .u64 target, .param .u64 source, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [target];
    ld.param.u64 %rd2, [source];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd2;
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    add.f32 %f2, %f1, 0f3F800000;
    cvta.to.global.u64 %rd3, %rd1;
    add.s64 %rd6, %rd3, %rd4;
    st.global.f32 [%rd6], %f2;
DONE:
    ret;
}

.visible .entry outside(.param .u64 target)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [target];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 7;
    st.global.u32 [%rd2], %r1;
    ret;
}
"""


def add_one(launch, target: int, source: int, count: int) -> None:
    """What the kernel of this name does, on the fake device."""
    x = launch.array(source, count, F32)
    launch.array(target, count, F32, writes=True)[:] = x + 1


@dataclass
class Machine:
    """A device and the images of its kernels: `add_one(target, source, count)` in float32, `outside(address)`."""

    device: Device
    add_one_image: bytes
    library: FakeLibrary | None = None
    executes: int = 0
    """The compute capability whose PTX a fake device executes; 0: it runs kernels by Triton's interpreter."""

    def add_one(self) -> Kernel:
        return Kernel(self.device, self.add_one_image, "add_one", ("pointer", "pointer", "i32"), warps=4)

    def finish(self) -> None:
        """Wait, and look for what was wrong."""
        self.device.synchronize()
        if self.library is not None:
            self.library.finish()


@contextlib.contextmanager
def machine(kind: str) -> Iterator[Machine]:
    """The machine "fake", "gpu", or "sm_80" or another one whose PTX a fake device executes."""
    if kind == "gpu":
        yield Machine(platform().device(0), PTX + b"\0")
        return
    executes = int(kind.removeprefix("sm_")) if kind.startswith("sm_") else 0
    library = FakeLibrary(total=1 << 32, capability=executes or 90)
    image = library.define("add_one", (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32), add_one)
    with using(library.driver()) as found:
        yield Machine(found.device(0), image, library, executes)


WORDS = {"pointer": ctypes.c_uint64, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "map": MapWord}
SWIZZLES = {32: 1, 64: 2, 128: 3}


def box(descriptor: Descriptor) -> Box:
    """How a compiler would let blocks be copied: lines of 128 bytes at most."""
    *outer, inner = descriptor.block
    itemsize = ITEMSIZES[descriptor.dtype]
    line = min(inner * itemsize, 128)
    return Box((*outer, line // itemsize), SWIZZLES[line])


def check_map(descriptor: Descriptor, found: TensorMap) -> None:
    """A map is of the tensor that a kernel was compiled for."""
    given = found.format, found.dims, found.strides, found.box, found.swizzle
    own = box(descriptor)
    strides = tuple(ITEMSIZES[descriptor.dtype] * stride for stride in descriptor.strides[-2::-1])
    assert given == (FORMATS[descriptor.dtype], descriptor.shape[::-1], strides, own.extents[::-1], own.swizzle)


def interpreted(library: FakeLibrary) -> Compile:
    """Kernels that the fake device executes by Triton's interpreter when their turn has come."""
    numbers = itertools.count()

    def compile(launch: Any, device: Any) -> Kernel:
        source, own = launch.source, layouts(launch)
        signature, described = launch.signature, {d.param: d for d in launch.descriptors}
        names = [name for name, t in signature.items() if t != "constexpr"]
        name = f"{source.name}_{next(numbers)}"

        def body(run: Any, *words: Any) -> None:
            rest, values = iter(words), list[Any]()
            for parameter in names:
                word, kind = next(rest), signature[parameter]
                if parameter in described:
                    check_map(tensor := described[parameter], word)
                    assert not any(next(rest) for _ in range(2 * len(tensor.shape)))
                    word = tensor, word.address
                address = word[1] if isinstance(word, tuple) else word if kind[0] == "*" else 0
                if address:
                    library.memory.view(address, 1, name)
                values.append(np.int64(word).view(np.float64).item() if kind == "fp64" else word)
            interpreter.interpret(source.text, source.name, signature, launch.constants, run.grid[:2], values)

        image, boxes = library.define(name, tuple(WORDS[k] for k in own), body), map(box, launch.descriptors)
        return Kernel(device, image, name, own, launch.warps, boxes=tuple(boxes))

    return compile


def executed(library: FakeLibrary, capability: int) -> Compile:
    """Kernels as they are compiled for a GPU of this compute capability: the fake device executes their PTX."""
    numbers = itertools.count()

    def compile(launch: Any, device: Any) -> Kernel:
        binary, own = gpu_kernels.binary(launch, capability), layouts(launch)
        hidden = added(binary.name, own, binary.parameters)
        name = f"{binary.name}_{next(numbers)}"

        def body(run: Any, *words: Any) -> None:
            values = [w if isinstance(w, TensorMap) else int(w).to_bytes(8, "little", signed=w < 0) for w in words]
            ptx_kernels.run(binary.ptx, library.memory, name, run.grid, run.block[0], run.shared, values)

        image = library.define(name, tuple(WORDS[k] for k in (*own, *["pointer"] * hidden)), body)
        return Kernel(device, image, name, own, binary.warps, binary.shared, hidden, binary.boxes)

    return compile


def compile_for(target: Machine) -> Compile:
    """How kernels are made for a machine."""
    if target.library is None:
        return compiled
    return executed(target.library, target.executes) if target.executes else interpreted(target.library)
