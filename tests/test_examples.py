"""The examples run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def example(name: str, *arguments: str, packages: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(packages), str(ROOT)))}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)


def test_digits_are_learned() -> None:
    done = example("digits.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test images right" in done.stdout


def test_gpt_trains_the_same_eagerly_and_jitted_and_resumes_exactly(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    whole, halves = str(tmp_path / "whole"), str(tmp_path / "halves")
    outputs = []
    for arguments in (
        ["--steps", "5", "--out", whole],
        ["--steps", "3", "--out", halves],
        ["--steps", "5", "--out", halves, "--resume"],
    ):
        done = example("train_gpt.py", "--text", str(text), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "agree bit for bit" in done.stdout
        outputs.append(done.stdout)
    # The model after 3 + 2 steps writes what the model after 5 writes.
    assert outputs[0].splitlines()[-1].startswith("def ")
    assert outputs[0].splitlines()[-1] == outputs[2].splitlines()[-1]
    assert (tmp_path / "whole" / "train_gpt.png").stat().st_size > 0
    assert (tmp_path / "whole" / "train_gpt_explain.txt").read_text()


def test_examples_do_without_what_only_helps(tmp_path: Path) -> None:
    for package in ("sklearn", "matplotlib"):  # as if they were not installed
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('not here')")
    done = example("digits.py", packages=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "these digits are drawn" in done.stdout and "test images right" in done.stdout


@pytest.mark.gpu
def test_digits_are_learned_on_a_gpu() -> None:
    done = example("digits.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test images right" in done.stdout


@pytest.mark.gpu
def test_gpt_trains_on_a_gpu(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    done = example("train_gpt.py", "--device", "cuda", "--steps", "20", "--text", str(text), "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agree bit for bit" in done.stdout and done.stdout.splitlines()[-1].startswith("def ")


def test_gpt_says_what_is_missing(tmp_path: Path) -> None:
    done = example("train_gpt.py", "--text", str(tmp_path / "nosuch.txt"))
    assert done.returncode == 1 and "no such file" in done.stderr
    short = tmp_path / "short.txt"
    short.write_text("too short")
    done = example("train_gpt.py", "--text", str(short))
    assert done.returncode == 1 and "too few" in done.stderr
