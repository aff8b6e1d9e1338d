"""Runs each program here under PyTorch and under eagerjit, and compares the numbers that they print.

    python examples/packages/compare.py [PROGRAM ...]
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = (
    "einops_layers", "transformers_models", "others", "gaussian_processes", "probabilistic", "images", "graphs",
    "trainers", "subclasses", "adapters", "pretrained", "reinforcement",
)  # fmt: skip


def printed(*command: str) -> list[list[str]]:
    """The words of each line that a program prints."""
    done = subprocess.run([sys.executable, *command], cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return [line.split() for line in done.stdout.splitlines()]


def close(expected: str, actual: str) -> bool:
    try:
        return math.isclose(float(expected), float(actual), rel_tol=1e-3, abs_tol=1e-4)
    except ValueError:
        return expected == actual


def main() -> None:
    different = 0
    for program in sys.argv[1:] or PROGRAMS:
        theirs, ours = printed(f"{program}.py"), printed("-m", "eagerjit", "run", f"{program}.py")
        wrong = [a for a, b in zip(theirs, ours, strict=True) if len(a) != len(b) or not all(map(close, a, b))]
        different += len(wrong)
        print(f"{program}: {len(theirs)} lines, {len(wrong)} differ" + "".join(f"\n  {' '.join(w)}" for w in wrong))
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
