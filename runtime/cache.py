"""The disk cache: bytes by kind and content hash, in one directory, shared by concurrent processes.

`EAGERJIT_CACHE_DIR` names the directory (default: eagerjit in $XDG_CACHE_HOME or ~/.cache), `EAGERJIT_CACHE=0`
turns the cache off, `EAGERJIT_CACHE_SIZE` limits its bytes (default 512 MiB; the least recently used go first).

An entry is a file `kind/ab/abcdef...`: a mark, a SHA-256 over kind, key and content, the content. Writers fill a
temporary file and rename it, so readers see a whole entry or none; whatever fails the checksum is dropped and logged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from eagerjit.runtime import log, source

MARK = b"EJCACHE1"
HEADER_BYTES = len(MARK) + 32
DEFAULT_LIMIT = 512 << 20
_ABANDONED_SECONDS = 3600.0  # a temporary file this old belongs to a process that died

_counts = {"hits": 0, "misses": 0, "writes": 0, "dropped": 0}
_warned: set[Path] = set()
_unpruned = 0  # bytes written since this process last looked at the size of the whole


def enabled() -> bool:
    """Whether EAGERJIT_CACHE leaves the cache on."""
    return os.environ.get("EAGERJIT_CACHE", "1") != "0"


def directory() -> Path:
    """Where entries lie; it need not exist."""
    chosen = os.environ.get("EAGERJIT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "eagerjit"


def size_limit() -> int:
    """Bytes the entries may take together."""
    text = os.environ.get("EAGERJIT_CACHE_SIZE", "")
    return int(text) if text.isdigit() else DEFAULT_LIMIT


def content_key(*parts: str | bytes) -> str:
    """A hexadecimal SHA-256 of the parts, each with its length, so that no two lists of parts share a key."""
    import hashlib

    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get(kind: str, key: str) -> bytes | None:
    """The content stored under (kind, key), or None."""
    if not enabled():
        return None
    content = _read(kind, key)
    _counts["misses" if content is None else "hits"] += 1
    if log.CACHE:
        log.write("cache", f"{'miss' if content is None else 'hit'} {kind}/{key[:12]}")
    return content


def _read(kind: str, key: str) -> bytes | None:
    """The content of an entry that exists and is whole."""
    path = _path(kind, key)
    try:
        with open(path, "rb") as file:
            stored = file.read()
        os.utime(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if log.CACHE:
            log.write("cache", f"cannot read {path}: {error}")
        return None
    content = stored[HEADER_BYTES:]
    if stored[:HEADER_BYTES] != _header(kind, key, content):
        _drop(path)
        return None
    return content


def put(kind: str, key: str, content: bytes) -> None:
    """Stores content under (kind, key). Where that fails the program goes on, with one warning per directory."""
    global _unpruned
    if not enabled():
        return
    path = _path(kind, key)
    data = _header(kind, key, content) + content
    try:
        try:
            _write_atomically(path, data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_atomically(path, data)
    except OSError as error:
        _warn_once(error)
        return
    _counts["writes"] += 1
    if log.CACHE:
        log.write("cache", f"wrote {kind}/{key[:12]} {len(content)} bytes")
    _unpruned += len(content)
    look = key[2:4] == "00" and _estimated(int(key[:2], 16)) > size_limit()  # one write in 256, also by short processes
    if look or _unpruned > size_limit() // 16:
        prune()


def _estimated(folder: int) -> int:
    """About the bytes of all entries, by those in four of the 256 folders that their hashes spread them over."""
    names = [f"{n:02x}" for n in range(folder % 64, 256, 64)]
    try:
        kinds = os.listdir(directory())
    except OSError:  # another process has cleared it, or nobody may look
        return 0
    sizes = (status.st_size for kind in kinds for name in names for _, status in _files(directory() / kind / name))
    return sum(sizes) * 64


def prune(limit: int | None = None) -> int:
    """Deletes the least recently used entries until all fit the limit; returns the bytes deleted."""
    global _unpruned
    _unpruned = 0
    limit = size_limit() if limit is None else limit
    now = time.time()
    aged: list[tuple[float, int, Path]] = []
    for path, status in _files():
        if path.suffix == ".tmp":
            if now - status.st_mtime > _ABANDONED_SECONDS:
                path.unlink(missing_ok=True)
            continue
        aged.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in aged)
    if total <= limit:
        return 0
    deleted = 0
    for _, size, path in sorted(aged):
        if total - deleted <= limit * 3 // 4:  # room for the next writes, so that not each of them prunes
            break
        path.unlink(missing_ok=True)
        deleted += size
    if log.CACHE:
        log.write("cache", f"pruned {deleted} of {total} bytes in {directory()}")
    return deleted


def clear() -> int:
    """Deletes every entry; returns how many there were."""
    paths = [path for path, _ in _files() if path.suffix != ".tmp"]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def export_to(path: str | os.PathLike[str]) -> int:
    """Writes every whole entry into one zip file, for another machine or an image; returns how many."""
    import zipfile

    count = 0
    with zipfile.ZipFile(path, "w") as archive:
        for kind, key in _entries():
            content = _read(kind, key)
            if content is not None:
                archive.writestr(f"{kind}/{key}", _header(kind, key, content) + content)
                count += 1
    return count


def import_from(path: str | os.PathLike[str]) -> int:
    """Adds the entries of a file that `export_to` wrote; returns how many. What is damaged or misnamed is left out.

    Entries are machine code: import only files you would run. Those made for another processor are never used.
    """
    import zipfile
    import zlib

    count = 0
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind, _, key = entry.filename.partition("/")
            if not _is_name(kind, key) or entry.file_size > size_limit():
                continue
            try:
                stored = archive.read(entry)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
                continue  # damaged, encrypted, or packed in a way that this Python does not know
            content = stored[HEADER_BYTES:]
            if stored[:HEADER_BYTES] == _header(kind, key, content):
                put(kind, key, content)
                count += 1
    return count


def stats() -> dict[str, int | str]:
    """The directory, its entries and bytes, and this process's hits, misses, writes and dropped entries."""
    sizes = [status.st_size for path, status in _files() if path.suffix != ".tmp"]
    return {"directory": str(directory()), "entries": len(sizes), "bytes": sum(sizes), **_counts}


def _path(kind: str, key: str) -> Path:
    return directory() / kind / key[:2] / key


def _is_name(kind: str, key: str) -> bool:
    """Whether these can be parts of an entry's path and of nothing else."""
    return kind.isidentifier() and len(key) == 64 and not set(key) - set("0123456789abcdef")


def _entries() -> Iterator[tuple[str, str]]:
    """Kind and key of every entry."""
    for path, _ in _files():
        kind, key = path.parent.parent.name, path.name
        if _is_name(kind, key):
            yield kind, key


def _header(kind: str, key: str, content: bytes) -> bytes:
    """The mark and a checksum that also binds an entry to its name."""
    import hashlib

    return MARK + hashlib.sha256(f"{kind}/{key}/".encode() + content).digest()


def _drop(path: Path) -> None:
    """Removes an entry that failed its checksum."""
    _counts["dropped"] += 1
    if log.CACHE:
        log.write("cache", f"dropped corrupt entry {path}")
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _warn_once(error)


def _write_atomically(path: Path, data: bytes) -> None:
    import tempfile

    descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _warn_once(error: OSError) -> None:
    where = directory()
    if where in _warned:
        return
    _warned.add(where)
    source.warn(f"the cache directory {where} cannot be written ({error}); going on without")


def _files(folder: str | Path | None = None) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file in a folder of the cache, or in all, with its status; what others delete meanwhile is left out."""
    try:
        entries = os.scandir(directory() if folder is None else folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            yield Path(entry.path), status
