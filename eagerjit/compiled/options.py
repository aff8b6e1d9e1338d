"""How a function is compiled."""

from __future__ import annotations

from eagerjit.runtime.records import record


@record(frozen=True)
class Options:
    """How a function is compiled; see `jit`."""

    fullgraph: bool = False
    on_recompile: str = "ignore"
    fastmath: bool = False
    background: bool = False
    cuda_graphs: bool = False

    def __post_init__(self) -> None:
        if self.on_recompile not in ("ignore", "warn", "error"):
            raise ValueError(f"on_recompile is 'ignore', 'warn' or 'error', not {self.on_recompile!r}")
