"""How processes find each other: a store, and each one's number, from an address or the environment."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, urlparse

from eagerjit.distributed.stores import FileStore, Store, TCPStore


def _of_environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but "
            "not set"
        )
    return value


def find(method: str | None, rank: int, size: int, timeout: Any) -> tuple[Store, int, int]:
    """(store, rank, number of processes) for `env://`, `tcp://host:port` or `file:///path`.

    Raises RuntimeError for other methods, ValueError for what is missing, DistNetworkError or DistStoreError where the
    others cannot be reached.
    """
    parts = urlparse(method or "env://")
    asked = {k: int(v[0]) for k, v in parse_qs(parts.query).items() if k in ("rank", "world_size")}
    rank, size = asked.get("rank", rank), asked.get("world_size", size)
    if parts.scheme == "env":
        rank = int(_of_environment("RANK")) if rank < 0 else rank
        size = int(_of_environment("WORLD_SIZE")) if size < 0 else size
        host, port = _of_environment("MASTER_ADDR"), int(_of_environment("MASTER_PORT"))
        served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return TCPStore(host, port, size, rank == 0 and not served, timeout), rank, size
    if parts.scheme not in ("tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    if rank < 0 or size < 0:
        missing = "rank" if rank < 0 else "world size"
        method = f"{parts.scheme}:// rendezvous"
        raise ValueError(f"Error initializing torch.distributed using {method}: {missing} parameter missing")
    if parts.scheme == "tcp":
        if not parts.hostname or not parts.port:
            raise ValueError("tcp:// rendezvous: port number missing")
        return TCPStore(parts.hostname, parts.port, size, rank == 0, timeout), rank, size
    return FileStore(parts.path, size), rank, size
