"""The host's time for calls on tensors of a GPU, against a driver that does nothing: no GPU is needed, or measured.

What the real driver takes for a launch (2 to 3 µs on most machines) comes on top of each of them, once per kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Rows, seconds_per_call
from benchmarks.idle import compile_nothing, idle

TITLE = "Host time only: calls on tensors of a GPU with a driver that does nothing"
UNIT = "s"
PEERS = ("eagerjit",)
ROUNDS = 3
PHASES = ("all",)


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
    rows = Rows()
    with idle(compile_nothing):
        for name, call in cases().items():
            for _ in range(3):
                call()
            rows.numbers[name] = seconds_per_call(call)
    return rows
