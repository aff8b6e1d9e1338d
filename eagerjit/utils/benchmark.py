"""Timing small pieces of code: as many runs as give a steady figure, and tables of several."""

from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Compare", "Measurement", "Timer"]


def _shown(seconds: float) -> str:
    """A time with its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.2f} ns"


class Measurement:
    """Times of repeated runs: `raw_times` in seconds for `number_per_run` runs each, `times` for one."""

    def __init__(self, number_per_run: int, raw_times: Sequence[float], title: str = "", label: str = "",
                 sub_label: str = "", description: str = "", env: str = "", num_threads: int = 1):  # fmt: skip
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.label, self.sub_label, self.description = label, sub_label, description
        self.env, self.num_threads, self.title = env, num_threads, title or label

    @property
    def times(self) -> list[float]:
        """Seconds for one run, one figure per repetition."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean time of a run in seconds."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median time of a run in seconds."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles in seconds."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        lines = [f"<eagerjit.utils.benchmark.Measurement>\n{self.title}"]
        lines += [text for text in (self.sub_label, self.description) if text]
        count = len(self.raw_times)
        if count > 1:
            lines.append(f"  Median: {_shown(self.median)}\n  IQR:    {_shown(self.iqr)}")
        else:
            lines.append(f"  {_shown(self.mean)}")
        plural = "s" if count > 1 else ""
        lines.append(f"  {count} measurement{plural}, {self.number_per_run} runs per measurement, 1 thread")
        return "\n".join(lines)


class Timer:
    """Times a statement with the names of `globals`, after `setup` has run once; label and the like are for tables."""

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None, env: str | None = None,
        num_threads: int = 1, language: Any = "python",
    ):  # fmt: skip
        if str(getattr(language, "value", language)).lower() not in ("python", "py"):
            raise NotImplementedError("only Python code is timed: eagerjit runs without a C++ compiler")
        self._timer = timeit.Timer(stmt, setup, timer, globals)
        self._about: dict[str, Any] = {
            "title": label or stmt, "label": label or stmt, "sub_label": sub_label or "",
            "description": description or "",
            "env": env or "", "num_threads": num_threads,
        }  # fmt: skip

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """The time of `number` runs after a few to warm up."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], **self._about)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raises NotImplementedError, as PyTorch's does: see `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Times of blocks of runs, each long enough to be measured well, for at least `min_run_time` seconds."""
        number = self._block(min_run_time)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, **self._about)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0, callback: Any = None
    ) -> Measurement:
        """Blocks of runs until the quartiles lie within `threshold` times the median, or the time is up."""
        number = self._block(0.05)
        times: list[float] = []
        while True:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            made = Measurement(number, times, **self._about)
            steady = len(times) > 3 and made.iqr / made.median < threshold and sum(times) > min_run_time
            if steady or sum(times) > max_run_time:
                return made

    def _block(self, min_run_time: float) -> int:
        """How many runs make a block: a tenth of a percent of the time for the clock itself, ten times over."""
        number, overhead = 1, statistics.median(timeit.repeat("pass", number=1, repeat=5))
        while True:
            seconds = self._timer.timeit(number)
            if (seconds >= min_run_time / 1000 and overhead / max(seconds, 1e-9) < 1e-4) or seconds > min_run_time:
                return number
            number *= 10


class Compare:
    """A table of measurements: a row per `sub_label`, a column per `description`, a block per `label`."""

    def __init__(self, results: Sequence[Measurement]):
        self._results = list(results)
        self._trimmed = False

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """More measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show three digits only."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Nothing: tables are plain text."""

    def print(self) -> None:
        """Print the table."""
        print(self)

    def __str__(self) -> str:
        return "\n\n".join(self._block(label) for label in dict.fromkeys(m.label for m in self._results))

    def _block(self, label: str) -> str:
        found = [m for m in self._results if m.label == label]
        rows = list(dict.fromkeys(m.sub_label or m.title for m in found))
        columns = list(dict.fromkeys(m.description for m in found))
        longest = max(m.median for m in found)
        unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if longest >= s), ("ns", 1e-9))
        table = [["", *columns]]
        for row in rows:
            cells = [[m for m in found if (m.sub_label or m.title, m.description) == (row, c)] for c in columns]
            table.append([row, *(self._cell(ms, scale) for ms in cells)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [" | ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in table]
        return "\n".join([f"[{label}]", *lines, f"Times are in {unit}."])

    def _cell(self, measurements: Sequence[Measurement], scale: float) -> str:
        if not measurements:
            return ""
        value = statistics.median([t for m in measurements for t in m.times]) / scale
        if not self._trimmed or value == 0:
            return f"{value:.1f}"
        return f"{value:.{max(2 - math.floor(math.log10(value)), 0)}f}"
