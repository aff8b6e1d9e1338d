"""Pictures of the host running ahead of a GPU, and of what the caching allocator saves after the first iteration.

    python -m benchmarks.gpu_timeline [--output FOLDER]

A stack of layers, each a compiled call on tensors that lie on the device, runs for some iterations. Written are
`gpu_timeline.json` for chrome://tracing or Perfetto, and as pictures `gpu_timeline.svg` (one later iteration: when the
host queued each kernel and when the device ran it) and `gpu_iterations.svg` (the host's time per iteration).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import RESULTS

LAYERS, ROWS, COLUMNS, ITERATIONS = 24, 1 << 14, 1 << 12, 6
WIDTH, LEFT, LANE = 1000, 130, 46  # of a picture, in pixels
COLORS = ("#4878a8", "#d9883b", "#6aa56a", "#b5595c", "#8a74b0", "#8c6d5a")


def layer(x: Any, weight: Any, bias: Any) -> Any:
    """A residual layer of elementwise operations and a norm."""
    from eagerjit.nn import functional

    return x + functional.gelu(functional.layer_norm(x, weight.shape, weight, bias) * 0.5 + x * x)


def run(device: Any, compile: Any) -> tuple[Any, list[float]]:
    """The timeline of the iterations, and the host's seconds in each."""
    import eagerjit
    from eagerjit.cuda.execution import offloaded
    from eagerjit.runtime.binding import new_tensor
    from eagerjit.runtime.gpu import arrays
    from eagerjit.runtime.gpu.stream import current_stream
    from eagerjit.runtime.gpu.timeline import recording

    stream = current_stream(device)
    generator = np.random.default_rng(0)

    def tensor(*shape: int) -> Any:
        return new_tensor(arrays.upload(generator.random(shape, np.float32), stream))

    seconds = []
    with offloaded(device, compile):
        call = eagerjit.jit(layer, fullgraph=True)
        weights = [(tensor(COLUMNS), tensor(COLUMNS)) for _ in range(LAYERS)]
        x = tensor(ROWS, COLUMNS)
        call(x, *weights[0])  # compiles: what is shown is running
        device.allocator.empty_cache()
        with recording(device) as timeline:
            for iteration in range(ITERATIONS):
                begin = time.perf_counter()
                kept = [x]
                for weight, bias in weights:
                    kept.append(call(kept[-1], weight, bias))  # as a forward pass keeps its activations
                del kept
                seconds.append(time.perf_counter() - begin)
                timeline.iteration(iteration)
                device.synchronize()
    return timeline, seconds


def picture(spans: Sequence[Any], title: str) -> str:
    """Spans as rectangles, a lane below the other, over time."""
    lanes = list(dict.fromkeys(["host", *(span.lane for span in spans)]))
    names = list(dict.fromkeys(span.name for span in spans))
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    scale = (WIDTH - LEFT - 20) / max(last - first, 1e-9)
    parts = [text(10, 22, f"{title}: {(last - first) * 1e3:.2f} ms")]
    for number, lane in enumerate(lanes):
        y = 40 + number * LANE
        parts.append(text(10, y + 20, lane))
        for span in spans:
            if span.lane == lane:
                color = COLORS[names.index(span.name) % len(COLORS)]
                x, width = LEFT + (span.begin - first) * scale, max((span.end - span.begin) * scale, 0.5)
                parts.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="30" fill="{color}"/>')
    for number, name in enumerate(names):
        y = 50 + len(lanes) * LANE + 18 * number
        parts.append(f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{COLORS[number % len(COLORS)]}"/>')
        parts.append(text(LEFT + 20, y, name))
    return svg(parts, 60 + len(lanes) * LANE + 18 * len(names))


def bars(seconds: Sequence[float], title: str) -> str:
    """The host's time per iteration."""
    scale = (WIDTH - LEFT - 120) / max(seconds)
    parts = [text(10, 22, title)]
    for number, value in enumerate(seconds):
        y = 40 + 26 * number
        parts.append(text(10, y + 14, f"iteration {number + 1}"))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{value * scale:.2f}" height="18" fill="{COLORS[0]}"/>')
        parts.append(text(LEFT + value * scale + 8, y + 14, f"{value * 1e3:.2f} ms"))
    return svg(parts, 60 + 26 * len(seconds))


def text(x: float, y: float, words: str) -> str:
    escaped = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y}" font-family="sans-serif" font-size="13">{escaped}</text>'


def svg(parts: Sequence[str], height: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>\n"])


def write(timeline: Any, seconds: Sequence[float], folder: Path) -> str:
    """Write the files; what they show, in a line."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu_timeline.json").write_text(json.dumps(timeline.chrome()))
    shown = timeline.of_iteration(len(seconds) - 1)
    (folder / "gpu_timeline.svg").write_text(picture(shown, f"{LAYERS} layers, one iteration"))
    (folder / "gpu_iterations.svg").write_text(
        bars(seconds, "the host's time per iteration, the first asks for memory")
    )
    host = max(span.end for span in shown if span.lane == "host")
    device = max(span.end for span in shown if span.lane != "host")
    asked = [sum(s.name == "cuMemAlloc" for s in timeline.of_iteration(i)) for i in range(len(seconds))]
    ahead = f"the last iteration is queued {(device - host) * 1e3:.2f} ms before the device is done with it"
    return f"{ahead}; requests for memory to the driver per iteration: {asked}"


def main() -> None:
    from eagerjit.cuda.execution import compiled
    from eagerjit.runtime.gpu.devices import platform

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_timeline")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the pictures")
    options = parser.parse_args()
    print(write(*run(platform().device(0), compiled), options.output))


if __name__ == "__main__":
    main()
