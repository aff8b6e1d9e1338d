"""What tests run on: a fake device or a GPU, with the same two kernels."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from fake_driver import FakeLibrary

from eagerjit.cuda.execution import Compile, compiled, layouts
from eagerjit.runtime.gpu import compiler
from eagerjit.runtime.gpu.devices import Device, platform, using
from eagerjit.runtime.gpu.launch import Kernel

F32 = np.dtype(np.float32)

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

    def add_one(self) -> Kernel:
        return Kernel(self.device, self.add_one_image, "add_one", ("pointer", "pointer", "i32"), warps=4)

    def finish(self) -> None:
        """Wait, and look for what was wrong."""
        self.device.synchronize()
        if self.library is not None:
            self.library.finish()


@contextlib.contextmanager
def machine(kind: str) -> Iterator[Machine]:
    """The machine "fake" or "gpu"."""
    if kind == "gpu":
        yield Machine(platform().device(0), PTX + b"\0")
        return
    library = FakeLibrary(total=1 << 32)
    image = library.define("add_one", (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32), add_one)
    with using(library.driver()) as found:
        yield Machine(found.device(0), image, library)


WORDS = {"pointer": ctypes.c_uint64, "i64": ctypes.c_int64, "i32": ctypes.c_int32}


def interpreted(library: FakeLibrary) -> Compile:
    """Kernels that the fake device executes by Triton's interpreter when their turn has come."""
    numbers = itertools.count()

    def compile(launch: Any, device: Any) -> Kernel:
        source, own = launch.source, layouts(launch)
        signature = source.signature(launch.wide)
        types = [t for t in signature.values() if t != "constexpr"]
        name = f"{source.name}_{next(numbers)}"

        def body(run: Any, *words: int) -> None:
            for kind, word in zip(types, words, strict=True):
                if kind[0] == "*" and word:
                    library.memory.view(word, 1, name)
            values = [
                np.int64(w).view(np.float64).item() if t == "fp64" else w for t, w in zip(types, words, strict=True)
            ]
            compiler.interpret(source.text, source.name, signature, launch.constants, run.grid[:2], values)

        return Kernel(device, library.define(name, tuple(WORDS[k] for k in own), body), name, own, launch.warps)

    return compile


def compile_for(target: Machine) -> Compile:
    """How kernels are made for a machine."""
    return compiled if target.library is None else interpreted(target.library)
