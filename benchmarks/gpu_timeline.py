"""Figures 1 and 2 of the PyTorch paper for our runtime: ResNet-50 trained eagerly on a GPU.

    python -m benchmarks.gpu_timeline [--output FOLDER]
    python -m benchmarks.gpu_timeline --prepare     only compile what that runs, on an idle device

Written are `gpu_timeline.json`, all that was recorded, for chrome://tracing or Perfetto, and two pictures:
`gpu_timeline.svg`, the first operators of an iteration, each joined from when the host queued it to when the device ran
it; and `gpu_iterations.svg`, the first iteration, which asks the driver for memory, above the last one, which does not.
While a run is recorded, Python notes every launch; how long an iteration takes that is not recorded is printed as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu_networks import Sizes, make_step
from benchmarks.idle import preparing
from benchmarks.report import RESULTS, amount

SIZES = Sizes(batch=128)
ITERATIONS, SHOWN = 5, 24
WIDTH, LEFT, LANE, BAR = 1000, 130, 46, 30  # of a picture, in pixels
COLORS = {
    "convolutions": "#4878a8", "matrix products": "#8a74b0", "other kernels": "#6aa56a", "copies and fills": "#8c6d5a",
    "asking for memory": "#c03a3a",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What was recorded, and seconds of an iteration that was not: until it was queued, and until it was done."""

    timeline: Any
    queued: float
    done: float

    @property
    def requests(self) -> list[int]:
        """How often each recorded iteration asked the driver for memory."""
        iterations = (self.timeline.of_iteration(i) for i in range(ITERATIONS))
        return [sum(span.name == "cuMemAlloc" for span in spans) for spans in iterations]


def prepared() -> Callable[[], object]:
    """An iteration of which everything is compiled."""
    import eagerjit

    eagerjit.set_float32_matmul_precision("high")
    step, given = make_step("ResNet-50", eagerjit, SIZES, "cuda", None, False)
    for _ in range(2):  # an optimizer's first step makes its state
        step(*given)
    return partial(step, *given)


def run(device: Any) -> Run:
    """Train for some iterations; what is compiled is compiled before, and the memory that took is given back."""
    from eagerjit.runtime.gpu.timeline import recording

    step = prepared()
    device.synchronize()
    start = time.perf_counter()
    step()
    queued = time.perf_counter() - start
    device.synchronize()
    done = time.perf_counter() - start
    gc.collect()
    device.allocator.empty_cache()
    with recording(device) as timeline:
        for iteration in range(ITERATIONS):
            step()
            timeline.iteration(iteration)
            device.synchronize()
    return Run(timeline, queued, done)


def kind(name: str) -> str:
    """What a span is shown as."""
    if name.startswith("cuMem"):
        return "asking for memory"
    if "convolution" in name:
        return "convolutions"
    if name.startswith(("copy", "fill")):
        return "copies and fills"
    return "matrix products" if "matmul" in name else "other kernels"


def pairs(spans: Sequence[Any]) -> list[tuple[Any, Any]]:
    """What the host queued with what the device made of it."""
    made = {(span.name, span.queued): span for span in spans if span.lane != "host"}
    queued = (span for span in spans if span.lane == "host")
    return [(span, made[span.name, span.queued]) for span in queued if (span.name, span.queued) in made]


def lanes(spans: Sequence[Any], top: int, first: float, scale: float) -> list[str]:
    """Spans as rectangles: the host's row, and the device's below it."""
    parts = [text(10, top + 20, "host"), text(10, top + LANE + 20, "device")]
    for span in spans:
        y = top + LANE * (span.lane != "host")
        x, width = LEFT + (span.begin - first) * scale, max((span.end - span.begin) * scale, 0.5)
        parts.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{BAR}" fill="{COLORS[kind(span.name)]}"/>')
    return parts


def ahead(timeline: Any) -> str:
    """The first operators of the last iteration, joined across the rows."""
    shown = pairs(timeline.of_iteration(ITERATIONS - 1))[:SHOWN]
    spans = [span for pair in shown for span in pair]
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    scale = (WIDTH - LEFT - 20) / max(last - first, 1e-9)
    parts = [text(10, 22, f"ResNet-50, the first {len(shown)} operators of an iteration: {amount(last - first, 's')}")]
    for host, device in shown:
        x1, x2 = (LEFT + (span.begin - first) * scale for span in (host, device))
        parts.append(f'<line x1="{x1:.2f}" y1="{40 + BAR}" x2="{x2:.2f}" y2="{40 + LANE}" stroke="#999"/>')
    parts += lanes(spans, 40, first, scale)
    return svg(parts, 40 + 2 * LANE)


def iterations(timeline: Any) -> str:
    """The first iteration above the last one, on one scale."""
    chosen = [timeline.of_iteration(i) for i in (0, ITERATIONS - 1)]
    begins = [min(span.begin for span in spans) for spans in chosen]
    lengths = [max(span.end for span in spans) - begin for spans, begin in zip(chosen, begins, strict=True)]
    scale = (WIDTH - LEFT - 20) / max(*lengths, 1e-9)
    parts: list[str] = []
    for number, (spans, begin, length) in enumerate(zip(chosen, begins, lengths, strict=True)):
        top = 40 + number * (2 * LANE + 40)
        parts.append(text(10, top - 12, f"ResNet-50, {('first', 'later')[number]} iteration: {amount(length, 's')}"))
        parts += lanes(spans, top, begin, scale)
    return svg(parts, 80 + 4 * LANE)


def text(x: float, y: float, words: str) -> str:
    escaped = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y}" font-family="sans-serif" font-size="13">{escaped}</text>'


def svg(parts: Sequence[str], height: int) -> str:
    """A picture with what its colors mean below it."""
    legend = []
    for number, (name, color) in enumerate(COLORS.items()):
        x, y = LEFT + 165 * number, height + 4
        legend.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}"/>')
        legend.append(text(x + 18, y + 11, name))
    whole = f'width="{WIDTH}" height="{height + 30}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {whole}>\n<rect {whole} fill="white"/>'
    return "\n".join([head, *parts, *legend, "</svg>\n"])


def write(run: Run, folder: Path) -> str:
    """Write the files; what they show, in a line."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu_timeline.json").write_text(json.dumps(run.timeline.chrome()))
    (folder / "gpu_timeline.svg").write_text(ahead(run.timeline))
    (folder / "gpu_iterations.svg").write_text(iterations(run.timeline))
    queued, done = amount(run.queued, "s"), amount(run.done, "s")
    return (
        f"ResNet-50, batch {SIZES.batch}, eager: an iteration is queued in {queued} and done after {done}; "
        f"requests for memory to the driver per iteration: {run.requests}"
    )


def main() -> None:
    from eagerjit.runtime.gpu.devices import platform

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_timeline")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the pictures")
    parser.add_argument("--prepare", action="store_true", help="only compile")
    options = parser.parse_args()
    if options.prepare:
        with preparing():
            prepared()
        return
    print(write(run(platform().device(0)), options.output))


if __name__ == "__main__":
    main()
