"""Eight threads that call jitted functions with changing shapes, run ops, record, and go backward, all at once.

    python -m tests.jit.thread_stress --seconds 60

Every result is compared, bit for bit, with the plain call's in the same thread.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import eagerjit as torch

THREADS = 8
PATIENCE = 60.0
"""Seconds after the end in which every thread must have stopped."""


def bits(value: Any) -> list[bytes]:
    """Every bit of a tensor or of a tuple of them."""
    values = value if isinstance(value, tuple) else (value,)
    return [np.ascontiguousarray(v.detach().numpy()).tobytes() for v in values]


class Stress:
    """What the threads share: functions, a weight whose gradient all add to, the end, and what went wrong."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds
        self.problems: list[str] = []
        self.rounds = [0] * THREADS
        self.weight = torch.linspace(-1.0, 1.0, 8).requires_grad_()
        self.total = torch.zeros(4, requires_grad=True)
        self.added = [0] * THREADS
        self.layer = torch.nn.Linear(8, 8)
        weight, layer = self.weight, self.layer

        @torch.jit
        def shapes(x: Any, y: Any, scale: float) -> Any:
            z = (x * scale + y).relu()
            if x.shape[0] % 7 == 0:
                z = z + 1
            return z.sum(0), (z @ z.t()).mean()

        @torch.jit
        def gradients(x: Any) -> Any:
            return (x * weight).tanh().sum(), layer(x).softmax(-1)

        @torch.jit
        def values(x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x - 1

        @torch.jit(background=True)
        def later(x: Any, power: int) -> Any:
            return (x**power).cos() + x.mean()

        self.shapes, self.gradients, self.values, self.later = shapes, gradients, values, later

    def run(self) -> None:
        """Start the threads and wait for them; what goes wrong is in `problems`."""
        switching = sys.getswitchinterval()
        sys.setswitchinterval(1e-4)
        try:
            threads = [threading.Thread(target=self._work, args=(k,), daemon=True) for k in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(self.end - time.monotonic(), 0) + PATIENCE)
        finally:
            sys.setswitchinterval(switching)
        if any(thread.is_alive() for thread in threads):
            faulthandler.dump_traceback(all_threads=True)
            self.problems.append("a thread hangs")
            return
        self.later.wait()
        if self.total.grad is None or self.total.grad.tolist() != [float(sum(self.added))] * 4:
            self.problems.append(f"{sum(self.added)} gradients were added, {self.total.grad} came of it")

    def _work(self, number: int) -> None:
        generator = np.random.default_rng(number)
        try:
            while time.monotonic() < self.end and not self.problems:
                self._round(number, generator)
                self.rounds[number] += 1
        except BaseException:
            self.problems.append(traceback.format_exc())

    def _round(self, number: int, generator: np.random.Generator) -> None:
        rows, columns = (int(n) for n in generator.integers(1, 40, 2))

        def random(*shape: int) -> Any:
            return torch.tensor(generator.standard_normal(shape).astype("f4"))

        x, y = random(rows, columns), random(rows, columns)
        self._compare(self.shapes, x, y, float(generator.standard_normal()))
        self._compare(self.shapes, x.t(), y.t(), 0.5)
        self._compare(self.values, x)
        self._compare(self.later, y, int(generator.integers(1, 5)))
        self._compare_gradients(random(rows, 8))
        self.total.sum().backward()
        self.added[number] += 1
        what = generator.random()
        if what < 0.03:  # something new to record, while others record and call
            factor = int(generator.integers(0, 3))
            self._compare(torch.jit(lambda a: a.exp() * factor + a.sum(0)), x)
        elif what < 0.04:
            self.shapes.clear()
        elif what < 0.05:
            self.layer.train(bool(generator.integers(2)))

    def _compare(self, function: Any, *args: Any) -> Any:
        self._same(function.__name__, function(*args), function.__wrapped__(*args), args)

    def _same(self, name: str, actual: Any, expected: Any, args: Any) -> None:
        if bits(actual) != bits(expected):
            self.problems.append(f"{name} of {[getattr(a, 'shape', a) for a in args]} differs")

    def _compare_gradients(self, x: Any) -> None:
        found = [self._gradients(f, x) for f in (self.gradients, self.gradients.__wrapped__)]
        self._same("gradients", *found, [x])

    def _gradients(self, function: Callable[..., Any], x: Any) -> Any:
        leaf = x.detach().clone().requires_grad_()
        total, probabilities = function(leaf)
        loss = total + (probabilities * probabilities).sum()
        return (*torch.autograd.grad(loss, [leaf, self.weight]), total, probabilities)


def main() -> int:
    """Run for a while, and say what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    stress = Stress(parser.parse_args().seconds)
    stress.run()
    print("\n".join(stress.problems[:5]))
    compiles = {f.__name__: f.cache_info().compiles for f in (stress.shapes, stress.gradients, stress.values)}
    rounds, problems = sum(stress.rounds), len(stress.problems)
    print(f"{rounds} rounds in {THREADS} threads, {problems} problems; versions made: {compiles}")
    return 1 if stress.problems else 0


if __name__ == "__main__":
    sys.exit(main())
