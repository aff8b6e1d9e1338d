"""Whatever happens to the disk cache, programs go on, and what it returns is what was stored."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from eagerjit.runtime import cache

ROOT = Path(__file__).resolve().parents[2]
KEY = cache.content_key("a key")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("EAGERJIT_CACHE", raising=False)
    return tmp_path / "cache"


def content(number: int) -> bytes:
    return str(number).encode() * (1 + number * 4000)


KILLED_WRITERS = """
import os, random, signal, sys, time
from tests.runtime.test_cache_failures import content
from eagerjit.runtime import cache
chosen = random.Random(0)
for turn in range(200):
    writer = os.fork()
    if writer == 0:
        while True:
            for number in range(turn % 7, 20):
                cache.put("object", cache.content_key(str(number)), content(number))
            cache.prune(limit=2_000_000)
    time.sleep(chosen.random() * 0.01)
    os.kill(writer, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(writer, 0)[1]) == signal.SIGKILL
    for number in range(20):
        found = cache.get("object", cache.content_key(str(number)))
        assert found in (None, content(number)), (turn, number)
"""


def test_writers_killed_at_any_moment_leave_whole_entries(folder: Path) -> None:
    """200 processes, each killed at another moment of writing and pruning, and every entry is read after each."""
    dropped = cache.stats()["dropped"]
    subprocess.run([sys.executable, "-c", KILLED_WRITERS], cwd=ROOT, check=True, timeout=120)
    abandoned = list(folder.rglob("*.tmp"))
    assert abandoned, "no process was killed in the middle of a write"
    assert cache.stats()["dropped"] == dropped
    for number in range(20):
        cache.put("object", cache.content_key(str(number)), content(number))
    assert [cache.get("object", cache.content_key(str(n))) for n in range(20)] == [content(n) for n in range(20)]
    for path in abandoned:
        os.utime(path, (0, 0))
    cache.prune()
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.parametrize("moment", ["write", "close", "replace"])
def test_a_full_disk_is_a_warning_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full:
        def __init__(self, descriptor: int, mode: str):
            self.file = open(descriptor, mode)

        def __enter__(self) -> Any:
            return self

        def write(self, data: bytes) -> None:
            self.file.write(data[:100])
            if moment == "write":
                full()

        def __exit__(self, *exc: object) -> None:
            self.file.close()
            if moment == "close" and exc[0] is None:
                full()

    monkeypatch.setattr(cache, "_warned", set())
    with monkeypatch.context() as patch:
        if moment == "replace":
            patch.setattr(os, "replace", full)
        else:
            patch.setattr(os, "fdopen", Full)
        with pytest.warns(UserWarning, match="No space left"):
            cache.put("object", KEY, b"content")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.put("object", KEY, b"content")
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    cache.put("object", KEY, b"content")
    assert cache.get("object", KEY) == b"content"


def test_no_permission_is_a_miss_and_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("object", KEY, b"content")

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(cache, "_warned", set())
    with monkeypatch.context() as patch:
        patch.setattr(cache, "open", refused, raising=False)
        patch.setattr(tempfile, "mkstemp", refused)
        patch.setattr(Path, "mkdir", refused)
        assert cache.get("object", KEY) is None
        with pytest.warns(UserWarning, match="Permission denied"):
            cache.put("object", KEY, b"other")
    assert cache.get("object", KEY) == b"content"


def test_a_directory_in_place_of_an_entry_is_a_miss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    (folder / "object" / KEY[:2] / KEY).mkdir(parents=True)
    assert cache.get("object", KEY) is None
    with pytest.warns(UserWarning, match="cannot be written"):
        cache.put("object", KEY, b"content")
    assert cache.get("object", KEY) is None and cache.prune() == 0


def test_a_hostile_archive_adds_its_whole_entries_only(folder: Path, tmp_path: Path) -> None:
    cache.put("object", KEY, b"content")
    path = folder / "object" / KEY[:2] / KEY
    whole = path.read_bytes()
    cache.clear()
    other = cache.content_key("other")
    file = tmp_path / "hostile.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name in (f"../object/{KEY}", f"/object/{KEY}", f"object/../../{KEY}", f"object/{KEY}/../x", "object/", "x"):
            archive.writestr(name, whole)
        archive.writestr(f"object/{other}", b"EJCACHE1" + bytes(100))
        archive.writestr(f"object/{KEY}", whole)
    data = bytearray(file.read_bytes())
    assert cache.import_from(file) == 1
    assert [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()] == [path.relative_to(folder)]
    assert not (tmp_path / "object").exists()
    cache.clear()
    data[data.rindex(whole) + 44] ^= 1  # now the archive's own checksum of the last entry is wrong
    file.write_bytes(data)
    assert cache.import_from(file) == 0
    for garbage in (b"", b"garbage" * 100, bytes(data[:-30])):
        file.write_bytes(garbage)
        with pytest.raises(zipfile.BadZipFile):
            cache.import_from(file)


def test_entries_beyond_the_limit_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE_SIZE", "1000000")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"object/{KEY}", bytes(50_000_000))
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *args: pytest.fail("it was unpacked"))
    assert cache.import_from(tmp_path / "bomb.zip") == 0


def test_times_of_files_and_other_packages_change_no_key(folder: Path, tmp_path: Path) -> None:
    """A second process finds all that the first one compiled, although its script is newer and lies elsewhere."""
    text = """
import eagerjit as torch
from eagerjit.runtime import cache
from eagerjit.runtime.native import improving
f = torch.jit(lambda x: (x.sin() @ x.t()).sum(0))
x = torch.ones(3, 4, requires_grad=True)
f(x).sum().backward()
improving.wait()
print(cache.stats()["misses"])
"""
    misses = []
    for number, packages in enumerate(("one", "two")):
        site = tmp_path / packages
        site.mkdir()
        (site / "unrelated.py").write_text(f"version = {number}")
        (site / "unrelated-1.0.dist-info").mkdir()
        script = site / "script.py"
        script.write_text(text)
        os.utime(script, (number * 1e9, number * 1e9))
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
        run = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        misses.append(int(run.stdout))
    assert misses[0] > 3 and misses[1] == 0
