"""Digests of files: of their contents, read where something about a file is new."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from eagerjit.runtime import sources


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("EAGERJIT_CACHE", "1")
    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path / "cache"))
    made = [tmp_path / name for name in ("a.py", "b.py")]
    for file in made:
        file.write_text(f"name = {file.name!r}\n")
    return made


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10 * 10**9)


def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    noted: list[Path] = []
    read = Path.read_bytes

    def noting(path: Path) -> bytes:
        noted.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", noting)
    return noted


def test_contents_decide(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    first = sources.digest(files)
    assert sources.digest(files) == first != sources.digest(files[::-1])
    text = files[0].read_text()
    files[0].write_text("changed")
    assert sources.digest(files) != first
    files[0].write_text(text)
    assert sources.digest(files) == first


def test_files_are_read_once(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    noted = reads(monkeypatch)
    first = sources.digest(files)
    assert noted == files
    assert sources.digest(files) == first and noted == files
    files[1].write_text(files[1].read_text())
    assert sources.digest(files) == first and noted == files * 2


def test_what_has_just_changed_may_change_again(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    noted = reads(monkeypatch)
    sources.digest(files)
    sources.digest(files)
    assert noted == files * 2


def test_times_that_are_set_back_deceive_nobody(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    first, about = sources.digest(files), files[0].stat()
    files[0].write_text(files[0].read_text().replace("a", "b"))
    os.utime(files[0], ns=(about.st_atime_ns, about.st_mtime_ns))
    assert files[0].stat().st_size == about.st_size
    assert sources.digest(files) != first


def test_modules_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "inner/c.py", "inner/note.txt"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    assert sources.modules_below(tmp_path) == [str(tmp_path / name) for name in ("a.py", "b.py", "inner/c.py")]
