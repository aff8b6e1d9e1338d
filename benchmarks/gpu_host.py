"""The host's time for calls on tensors of a GPU, against a driver that does nothing: no GPU is needed, or measured.

What the real driver takes for a launch (2 to 3 µs on most machines) comes on top of each of them, once per kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Host time only: calls on tensors of a GPU with a driver that does nothing"
UNIT = "s"
PEERS = ("eagerjit",)
ROUNDS = 3
PHASES = ("all",)

ATTRIBUTES = {1: 1024, 8: 49152, 10: 32, 16: 132, 39: 2048, 75: 9, 76: 0, 97: 232448}
NOTHING = "define i32 @nothing() { ret i32 0 }"


class IdleLibrary:
    """A driver that answers what programs ask of it, and queues nothing: machine code that returns at once."""

    def __init__(self) -> None:
        from eagerjit.runtime import cpu

        self._code = cpu.load_object(cpu.compile_text(NOTHING))
        self._numbers = itertools.count(1 << 32, 1 << 28)
        self._pinned: list[bytearray] = []

    def bind(self, name: str, prototype: Any) -> Callable[..., int]:
        """The function under this name."""
        made: Callable[..., int] = prototype(getattr(self, name, None) or self.address(name, prototype))
        return made

    def address(self, name: str, prototype: Any) -> int:
        """Where the function lies."""
        return int(self._code.address("nothing"))

    def cuDeviceGetCount(self, out: Any) -> int:
        out[0] = 1
        return 0

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> int:
        out[0] = ATTRIBUTES.get(attribute, 0)
        return 0

    def cuMemHostAlloc(self, out: Any, size: int, flags: int) -> int:
        self._pinned.append(bytearray(size))
        out[0] = np.frombuffer(self._pinned[-1], np.uint8).ctypes.data
        return 0

    def _new(self, out: Any, *others: Any) -> int:
        out[0] = next(self._numbers)
        return 0

    cuDevicePrimaryCtxRetain = cuMemAlloc_v2 = cuModuleLoadData = cuModuleGetFunction = cuEventCreate = _new


def compile_nothing(launch: Any, device: Any) -> Any:
    """A kernel of a launch that is never run."""
    from eagerjit.cuda.execution import layouts
    from eagerjit.runtime.gpu.launch import Kernel

    return Kernel(device, b"no code", launch.source.name, layouts(launch), launch.warps)


def cases() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    import eagerjit as ej
    from eagerjit import nn

    x, y = (ej.empty(64, 64, device="cuda") for _ in range(2))
    w = ej.empty(64, 64, device="cuda", requires_grad=True)
    index = ej.empty(64, dtype=ej.int64, device="cuda")
    fused = ej.jit(lambda a, b: ((a + b).relu() * 2).sum(1), fullgraph=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to("cuda")
    optimizer = ej.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any) -> Any:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = ej.jit(step)
    return {
        "eager add": lambda: x + y,
        "eager add on the tape": lambda: x + w,
        "eager add in place": lambda: x.add_(y),
        "eager softmax": lambda: x.softmax(1),
        "eager matmul": lambda: x @ y,
        "eager rows by an index": lambda: x[index],
        "eager sum of all": lambda: x.sum(),
        "jitted call, one kernel": lambda: fused(x, y),
        "eager training step, two layers": lambda: step(x),
        "jitted training step, two layers": lambda: compiled(x),
    }


def measure(peer: str, phase: str) -> Rows:
    """Times of one call."""
    from eagerjit.cuda import execution
    from eagerjit.runtime.gpu.devices import using
    from eagerjit.runtime.gpu.driver import Driver

    rows, before = Rows(), execution.compile
    execution.compile = compile_nothing
    try:
        with using(Driver(IdleLibrary())):
            for name, call in cases().items():
                for _ in range(3):
                    call()
                rows.numbers[name] = seconds_per_call(call)
    finally:
        execution.compile = before
    return rows
