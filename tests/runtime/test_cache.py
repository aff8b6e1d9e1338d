"""The disk cache: what goes in comes out, and nothing on disk can break a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import pytest

from eagerjit.runtime import cache, log

ROOT = Path(__file__).resolve().parents[2]
KEY = cache.content_key("a key")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("EAGERJIT_CACHE", raising=False)
    return tmp_path / "cache"


def entry(folder: Path) -> Path:
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    return path


def test_content_comes_back(folder: Path) -> None:
    assert cache.get("object", KEY) is None
    cache.put("object", KEY, b"content")
    assert cache.get("object", KEY) == b"content"
    assert cache.get("program", KEY) is None
    assert cache.get("object", cache.content_key("another")) is None


def test_keys_depend_on_where_parts_end() -> None:
    assert cache.content_key("ab", "c") != cache.content_key("a", "bc")
    assert cache.content_key("a") == cache.content_key(b"a")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "append"])
def test_damaged_entries_are_dropped_and_logged(folder: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    cache.put("object", KEY, b"content" * 100)
    path = entry(folder)
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[-1] ^= 1
    elif damage == "empty":
        data = bytearray()
    else:
        data += b"more"
    path.write_bytes(data)
    before = log.categories()
    log.set_categories(["cache"])
    try:
        assert cache.get("object", KEY) is None
    finally:
        log.set_categories(before)
    assert "dropped corrupt entry" in capsys.readouterr().err
    assert not path.exists()
    cache.put("object", KEY, b"again")
    assert cache.get("object", KEY) == b"again"


def test_an_entry_under_another_name_is_not_believed(folder: Path) -> None:
    cache.put("object", KEY, b"content")
    other = cache.content_key("another")
    target = folder / "object" / other[:2] / other
    target.parent.mkdir(parents=True, exist_ok=True)
    entry(folder).rename(target)
    assert cache.get("object", other) is None


def test_an_unwritable_directory_warns_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file where the directory should be")
    with pytest.warns(UserWarning, match=str(folder)):
        cache.put("object", KEY, b"content")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("object", KEY, b"content")
        assert cache.get("object", KEY) is None


def test_the_cache_can_be_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE", "0")
    cache.put("object", KEY, b"content")
    assert cache.get("object", KEY) is None
    assert not folder.exists()


def test_the_least_recently_used_go_first(folder: Path) -> None:
    keys = [cache.content_key(str(number)) for number in range(10)]
    for age, key in enumerate(keys):
        cache.put("object", key, bytes(1000))
        path = folder / "object" / key[:2] / key
        os.utime(path, (time.time() - 100 + age, time.time() - 100 + age))
    assert cache.get("object", keys[0]) is not None  # used now, so it stays
    assert cache.prune(limit=8000) >= 2000
    left = [key for key in keys if (folder / "object" / key[:2] / key).exists()]
    assert keys[0] in left
    assert left == [keys[0], *keys[len(keys) - len(left) + 1 :]]
    assert cache.prune(limit=8000) == 0


def test_writes_prune_on_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE_SIZE", "20000")
    for number in range(300):
        cache.put("object", cache.content_key(str(number)), bytes(1000))
    size = cache.stats()["bytes"]
    assert isinstance(size, int) and size < 100_000


def test_short_processes_prune_by_what_a_few_folders_hold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE_SIZE", "2000000")
    for number in range(1500):
        cache.put("object", cache.content_key(str(number)), bytes(1000))
        monkeypatch.setattr(cache, "_unpruned", 0)  # as in a process that has written nothing else
    before = cache.stats()["bytes"]
    monkeypatch.setenv("EAGERJIT_CACHE_SIZE", "500000")
    cache.put("object", f"{KEY[:2]}01{KEY[4:]}", b"")
    assert cache.stats()["bytes"] >= before  # nobody looked
    cache.put("object", f"{KEY[:2]}00{KEY[4:]}", b"")
    assert cache.stats()["bytes"] <= 500_000


def test_a_cache_that_is_gone_meanwhile_is_taken_for_empty(folder: Path) -> None:
    assert not folder.exists() and cache._estimated(0) == 0


def test_temporary_files_of_dead_processes_are_removed(folder: Path) -> None:
    cache.put("object", KEY, b"content")
    fresh, old = entry(folder).with_name("fresh.tmp"), entry(folder).with_name("old.tmp")
    fresh.write_bytes(b"being written")
    old.write_bytes(b"abandoned")
    os.utime(old, (0, 0))
    cache.prune()
    assert fresh.exists() and not old.exists()


def test_stats_and_clear(folder: Path) -> None:
    before = cache.stats()
    cache.put("object", KEY, b"content")
    cache.get("object", KEY)
    cache.get("object", cache.content_key("another"))
    after = cache.stats()
    assert after["entries"] == 1
    assert after["directory"] == str(folder)
    assert [int(after[name]) - int(before[name]) for name in ("hits", "misses", "writes")] == [1, 1, 1]
    assert cache.clear() == 1
    assert cache.get("object", KEY) is None


def test_export_and_import(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cache.content_key(str(number)) for number in range(5)]
    for key in keys:
        cache.put("object", key, key.encode())
    damaged = folder / "object" / keys[0][:2] / keys[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert cache.export_to(tmp_path / "exported.zip") == 4
    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path / "other"))
    assert cache.import_from(tmp_path / "exported.zip") == 4
    assert [cache.get("object", key) for key in keys] == [None, *(key.encode() for key in keys[1:])]


def test_import_takes_nothing_damaged_or_misnamed(folder: Path, tmp_path: Path) -> None:
    cache.put("object", KEY, b"content")
    whole = entry(folder).read_bytes()
    cache.clear()
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(f"object/{KEY}", whole + b"more")
        archive.writestr(f"program/{KEY}", whole)
        archive.writestr(f"../{KEY}", whole)
        archive.writestr("object/../../../escaped", whole)
    assert cache.import_from(tmp_path / "bad.zip") == 0
    assert cache.stats()["entries"] == 0


def test_processes_write_and_read_the_same_entries_at_once(folder: Path) -> None:
    script = """
import sys
from eagerjit.runtime import cache
for repeat in range(3):
    for number in range(60):
        key = cache.content_key(str(number))
        content = cache.get("object", key)
        assert content in (None, str(number).encode() * 1000), content
        cache.put("object", key, str(number).encode() * 1000)
        if number % 20 == 0:
            cache.prune(limit=100_000)
"""
    processes = [subprocess.Popen([sys.executable, "-W", "error", "-c", script], cwd=ROOT) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert not list(folder.rglob("*.tmp"))


def test_log_categories() -> None:
    before = log.categories()
    try:
        log.set_categories(["compile", "launch"])
        assert (log.COMPILE, log.LAUNCH, log.CACHE) == (True, True, False)
        log.set_categories(["all"])
        assert log.categories() == log.CATEGORIES
        with pytest.raises(ValueError, match="nonsense"):
            log.set_categories(["nonsense"])
    finally:
        log.set_categories(before)


def test_log_lines_come_from_the_environment() -> None:
    script = "from eagerjit.runtime import log\nif log.FUSE: log.write('fuse', 'two\\nlines')"
    environment = {**os.environ, "EAGERJIT_LOG": "fuse,misspelt"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "misspelt" in run.stderr
    environment["EAGERJIT_LOG"] = "fuse, cache"
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stderr == "[eagerjit fuse] two\\nlines\n"
