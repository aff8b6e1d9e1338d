"""Peak memory of a process that trains the small GPT for a few steps."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Rows

TITLE = "Peak memory of ten GPT training steps (4 layers, 256 wide, 4x128 tokens, AdamW)"
UNIT = "B"
PEERS = ("eagerjit", "eagerjit eager", "torch", "torch.compile", "jax")
ROUNDS = 3
PHASES = ("train",)


def memory(what: str) -> int:
    """Return a line of this process's status, in bytes: VmRSS is the memory it holds, VmHWM the most it ever held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(what)


def measure(peer: str, phase: str) -> Rows:
    from benchmarks import train

    train.namespace(peer)
    imported = memory("VmRSS")
    step, batch = train.make_step("GPT", peer)
    losses = [float(step(*batch)) for _ in range(10)]
    peak = memory("VmHWM")
    rows = {"peak": peak, "peak beyond what importing takes": peak - imported}
    return Rows({name: float(number) for name, number in rows.items()}, {"losses": losses})
