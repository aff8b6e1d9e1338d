"""A benchmark's record as a table, a JSON file and a picture."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

MANY = 20  # rows; more than these are drawn as ratios
RESULTS = Path(__file__).resolve().parent / "results"
SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
}


def amount(value: float, unit: str) -> str:
    """Write a number with three digits and the prefix that suits it."""
    scale, name = next((pair for pair in SCALES[unit] if value >= pair[0]), SCALES[unit][-1])
    shown = value / scale
    digits = 0 if shown >= 100 else 1 if shown >= 10 else 2
    return f"{shown:.{digits}f} {name}"


def table(record: dict[str, Any]) -> str:
    """Write the medians as a Markdown table; beside each peer's number stands its ratio to eagerjit's."""
    medians, unit = record["medians"], record["unit"]
    own = medians.get("eagerjit", {})
    rows = list(dict.fromkeys(row for numbers in medians.values() for row in numbers))
    lines = [["", *medians]]
    for row in rows:
        cells = [row]
        for peer, numbers in medians.items():
            if row not in numbers:
                cells.append("-")
            elif peer == "eagerjit" or row not in own:
                cells.append(amount(numbers[row], unit))
            else:
                cells.append(f"{amount(numbers[row], unit)} ({numbers[row] / own[row]:.2f}x)")
        lines.append(cells)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    text = [f"| {' | '.join(line)} |" for line in padded]
    machine = record["machine"]
    head = [f"{record['title']}", f"({machine['cores']} cores of {machine['cpu']}, Python {machine['python']})", ""]
    tail = record["footer"] + [f"{peer}: {reason}" for peer, reason in record["missing"].items()]
    return "\n".join(head + text + ([""] if tail else []) + tail)


def save(record: dict[str, Any], folder: Path, picture: bool = True) -> list[Path]:
    """Write NAME.json, NAME.md and, where one is wanted and matplotlib is installed, NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    data, text = folder / f"{record['benchmark']}.json", folder / f"{record['benchmark']}.md"
    data.write_text(json.dumps(record, indent=1) + "\n")
    text.write_text(table(record) + "\n")
    written = [data, text]
    if not picture:
        return written
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed")
    elif any(record["medians"].values()):
        path = folder / f"{record['benchmark']}.png"
        draw(record, path)
        written.append(path)
    return written


def draw(record: dict[str, Any], path: Path) -> None:
    """Draw one small chart for each row or, where there are many, one bar for each row's ratio."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = list(dict.fromkeys(row for numbers in record["medians"].values() for row in numbers))
    figure = draw_ratios(record, rows, pyplot) if len(rows) > MANY else draw_rows(record, rows, pyplot)
    machine = record["machine"]
    figure.suptitle(f"{record['title']}\n{machine['cores']} cores of {machine['cpu']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_rows(record: dict[str, Any], rows: list[str], pyplot: Any) -> Any:
    """Draw each row's numbers as bars on a scale of their own, from zero."""
    medians, columns = record["medians"], min(3, len(rows))
    lines = -(-len(rows) // columns)
    size = (4.6 * columns, lines * (0.9 + 0.24 * len(medians)) + 0.5)
    figure, grid = pyplot.subplots(lines, columns, figsize=size, squeeze=False)
    colors = {peer: "black" if peer == "eagerjit" else f"C{index}" for index, peer in enumerate(medians)}
    for axes, row in zip(grid.flat, rows, strict=False):
        values = {peer: numbers[row] for peer, numbers in medians.items() if row in numbers}
        bars = axes.barh(list(values), list(values.values()), color=[colors[peer] for peer in values])
        axes.bar_label(bars, [amount(value, record["unit"]) for value in values.values()], padding=3, fontsize=8)
        axes.set_xlim(0, max(values.values()) * 1.3)
        axes.set_title(row, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    for axes in grid.flat[len(rows) :]:
        axes.set_visible(False)
    return figure


def draw_ratios(record: dict[str, Any], rows: list[str], pyplot: Any) -> Any:
    """Draw how many times as long as eagerjit each other library takes, row by row, on a log scale around one."""
    own = record["medians"].get("eagerjit", {})
    others = {peer: numbers for peer, numbers in record["medians"].items() if peer != "eagerjit"}
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.16 * len(rows)))
    for index, (peer, numbers) in enumerate(others.items()):
        ratios = {row: numbers[row] / own[row] for row in rows if row in own and row in numbers}
        axes.plot(list(ratios.values()), [rows.index(row) for row in ratios], "o", color=f"C{index}", label=peer)
    axes.axvline(1, color="black", linewidth=1, label="eagerjit")
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_xscale("log")
    axes.set_xlabel("time of the other over time of eagerjit (right of the line: eagerjit is faster)")
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
