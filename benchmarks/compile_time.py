"""Compile time against size: `python -m benchmarks.compile_time [--plot FILE]` for graphs of 10 to 10,000 operations.

`--peers SECONDS` compiles the chain with torch.compile and jax too, up to the size that takes longer than that.

Chains (each operation reads the last), wide graphs (all read the input, and are summed), and networks (matrix products,
elementwise operations and reductions in turn), each compiled from nothing: no disk cache. Growth is to be linear; the
last column is the exponent of the growth from one size to the next, 1 for linear.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = (10, 100, 1000, 2000, 10_000)


def chain(torch: Any, count: int) -> Callable[[Any], Any]:
    """Elementwise operations one after another, a third of them transcendental."""

    def function(x: Any) -> Any:
        for i in range(count):
            x = torch.sin(x) if i % 3 == 0 else x * 1.01 if i % 3 == 1 else x + 0.5
        return x

    return function


def wide(torch: Any, count: int) -> Callable[[Any], Any]:
    """Products of the input, summed."""

    def function(x: Any) -> Any:
        out = x
        for i in range(count // 2):
            out = out + x * float(i)
        return out

    return function


def network(torch: Any, count: int) -> Callable[[Any], Any]:
    """Matrix products, activations and reductions in turn."""

    def function(x: Any) -> Any:
        for _ in range(count // 5):
            x = torch.relu(x @ x + 0.1)
            x = x / x.sum(1, keepdim=True)
        return x

    return function


def reductions(torch: Any, count: int) -> Callable[[Any], Any]:
    """Reductions of the input to its rows, each of another product."""

    def function(x: Any) -> Any:
        out = x.sum(1)
        for i in range(count // 3):
            out = out + (x * float(i)).sum(1)
        return out

    return function


GRAPHS = {f.__name__: f for f in (chain, wide, network, reductions)}


def measure(kind: str, count: int) -> tuple[int, int, dict[str, float]]:
    """(operations, kernels, seconds by stage) of one cold compile."""
    import eagerjit as torch
    from eagerjit.compiled import machine_code

    machine_code.forget()
    function = torch.jit(GRAPHS[kind](torch, count), fullgraph=True)
    x = torch.ones(32, 32)
    started = time.perf_counter()
    function(x)
    total = time.perf_counter() - started
    report = function.variants[0].report
    seconds = {name: report.seconds[name] for name in ("passes", "lower", "code", "load")}
    return len(report.traced.nodes), len(report.compiled.kernels), {
        "trace": total - sum(seconds.values()), **seconds, "total": total
    }  # fmt: skip


PEER = """
import sys, time
from benchmarks.compile_time import chain
peer, count = sys.argv[1], int(sys.argv[2])
if peer == "jax":
    import jax, jax.numpy as module
    compiled, first, x = jax.jit(chain(module, count)), jax.jit(lambda x: x + 1), module.ones((32, 32))
else:
    import torch as module
    compiled, first, x = module.compile(chain(module, count)), module.compile(lambda x: x + 1), module.ones(32, 32)
first(x)  # libraries load
started = time.perf_counter()
result = compiled(x)
getattr(result, "block_until_ready", lambda: None)()
print(time.perf_counter() - started)
"""


def peers(limit: float) -> dict[str, list[tuple[int, float]]]:
    """(operations, seconds) of chains that others compile from nothing, each in a process of its own."""
    out: dict[str, list[tuple[int, float]]] = {}
    for peer in ("torch.compile", "jax"):
        for count in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
                command = [sys.executable, "-c", PEER, peer, str(count)]
                try:
                    run = subprocess.run(
                        command, env=environment, capture_output=True, text=True, timeout=limit, check=True
                    )
                except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
                    break
            out.setdefault(peer, []).append((count, float(run.stdout)))
    return out


def table(rows: list[tuple[str, int, int, dict[str, float]]]) -> str:
    """The measurements as text."""
    lines = ["graph       operations  kernels  trace  passes   lower    code   total s  growth"]
    before: dict[str, tuple[int, float]] = {}
    for kind, operations, kernels, s in rows:
        growth = ""
        if kind in before:
            last, seconds = before[kind]
            growth = f"{math.log(s['total'] / seconds) / math.log(operations / last):7.2f}"
        before[kind] = operations, s["total"]
        stages = " ".join(f"{s[name]:7.2f}" for name in ("trace", "passes", "lower", "code"))
        lines.append(f"{kind:<11} {operations:>10} {kernels:>8} {stages} {s['total']:9.2f} {growth}")
    return "\n".join(lines)


def plot(
    rows: list[tuple[str, int, int, dict[str, float]]], others: dict[str, list[tuple[int, float]]] | None = None
) -> str:
    """An SVG of seconds against operations, both logarithmic; grey is linear growth, dashed lines are of peers."""
    width, height, colours = 640, 420, dict(zip(GRAPHS, ("#1f6fb4", "#d9622b", "#2f9e44", "#8e44ad"), strict=True))

    def place(operations: float, seconds: float) -> str:
        x = 60 + (math.log10(operations) - 0.9) / 3.3 * (width - 90)
        y = height - 40 - (math.log10(max(seconds, 1e-3)) + 3) / 5.3 * (height - 70)
        return f"{x:.1f},{y:.1f}"

    size, font = f'width="{width}" height="{height}"', 'font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>']
    parts.append(f'<polyline points="{place(10, 0.004)} {place(10_000, 4)}" stroke="#bbb" fill="none"/>')
    for power in range(1, 5):
        x, y = place(10**power, 1e-3).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 18}" text-anchor="middle">{10**power:,}</text>')
    for power in range(-3, 3):
        x, y = place(10, 10.0**power).split(",")
        parts.append(f'<text x="52" y="{float(y) + 4}" text-anchor="end">{10.0**power:g} s</text>')
    for row, (kind, colour) in enumerate(colours.items()):
        points = " ".join(place(operations, s["total"]) for k, operations, _, s in rows if k == kind)
        parts.append(f'<polyline points="{points}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts.append(f'<text x="90" y="{30 + 16 * row}" fill="{colour}">{kind}</text>')
    for row, (peer, found) in enumerate((others or {}).items(), len(colours)):
        colour, points = ("#555", "#c0392b")[row % 2], " ".join(place(*point) for point in found)
        parts.append(f'<polyline points="{points}" stroke="{colour}" stroke-dasharray="5 3" fill="none"/>')
        parts.append(f'<text x="90" y="{30 + 16 * row}" fill="{colour}">{peer} (chain)</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="write an SVG here")
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--peers", type=float, metavar="SECONDS", help="torch.compile and jax, as far as this takes")
    options = parser.parse_args()
    os.environ["EAGERJIT_CACHE"] = "0"
    measure("network", 10)  # libraries load, the native runtime starts
    rows = [(kind, *measure(kind, count)) for kind in GRAPHS for count in SIZES if count <= options.largest]
    print(table(rows))
    others = {} if options.peers is None else peers(options.peers)
    for peer, found in others.items():
        for count, seconds in found:
            print(f"{peer:<14} chain of {count:>6}: {seconds:8.2f} s")
    if options.plot is not None:
        options.plot.write_text(plot(rows, others))


if __name__ == "__main__":
    main()
