"""Connections between the processes of a group: bytes of ndarrays, both ways at once."""

from __future__ import annotations

import contextlib
import datetime
import secrets
import select
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from eagerjit.distributed.errors import DistBackendError
from eagerjit.distributed.stores import Store, TCPStore, _exactly

TOKEN = 16
"""Bytes by which a process shows that it has read the group's store."""


def memory(array: np.ndarray) -> memoryview:
    """A contiguous array's bytes."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _ready(out: Iterable[socket.socket], into: Iterable[socket.socket], limit: float) -> bool:
    """Whether there is room in one of the connections, or something in one, within so many seconds."""
    events: dict[int, int] = {}
    for connections, event in ((out, select.POLLOUT), (into, select.POLLIN)):
        for connection in connections:
            events[connection.fileno()] = events.get(connection.fileno(), 0) | event
    asked = select.poll()
    for number, wanted in events.items():
        asked.register(number, wanted)
    return bool(asked.poll(1000.0 * limit))


class Links:
    """A connection to every other process of a group, all made when the group is."""

    def __init__(self, store: Store, rank: int, size: int, timeout: float):
        self.rank, self.size, self.timeout = rank, size, timeout
        self.peers: dict[int, socket.socket] = {}
        if size > 1:
            self._connect(store)

    def _connect(self, store: Store) -> None:
        """The processes of higher rank connect to those of lower rank."""
        store.set_timeout(datetime.timedelta(seconds=self.timeout))
        base = getattr(store, "underlying_store", store)
        while hasattr(base, "underlying_store"):
            base = base.underlying_store
        host = base.local_address() if isinstance(base, TCPStore) else "127.0.0.1"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        token = secrets.token_bytes(TOKEN)
        with socket.create_server((host, 0), family=family, backlog=self.size) as listening:
            store.set(f"address/{self.rank}", token + f"{host} {listening.getsockname()[1]}".encode())
            for other in range(self.rank):
                said = store.get(f"address/{other}")
                name, _, port = said[TOKEN:].decode().partition(" ")
                made = socket.create_connection((name, int(port)), timeout=self.timeout)
                made.sendall(said[:TOKEN] + self.rank.to_bytes(4, "big"))
                self._keep(other, made)
            listening.settimeout(self.timeout)
            while len(self.peers) < self.size - 1:
                self._accept(listening, token)

    def _accept(self, listening: socket.socket, token: bytes) -> None:
        made, _ = listening.accept()
        made.settimeout(self.timeout)
        with contextlib.suppress(ConnectionError):
            if secrets.compare_digest(_exactly(made, TOKEN), token):
                self._keep(int.from_bytes(_exactly(made, 4), "big"), made)
                return
        made.close()

    def _keep(self, other: int, made: socket.socket) -> None:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        self.peers[other] = made

    def exchange(self, sends: dict[int, np.ndarray], receives: dict[int, np.ndarray]) -> None:
        """Send arrays to processes while arrays from processes arrive. Raises DistBackendError where one is gone."""
        out = {self.peers[k]: [k, memory(a)] for k, a in sends.items() if a.nbytes}
        into = {self.peers[k]: [k, memory(a)] for k, a in receives.items() if a.nbytes}
        until = time.monotonic() + self.timeout
        while out or into:
            # Often there is room or an answer at once, and no need to ask for it.
            self._progress(out, into)
            if not (out or into):
                return
            if not _ready(out, into, max(until - time.monotonic(), 0.0)):
                waiting = sorted({*sends, *receives} & {k for k, _ in (*out.values(), *into.values())})
                raise DistBackendError(f"Timed out waiting {round(self.timeout * 1000)}ms for processes {waiting}")

    def _progress(self, out: dict[socket.socket, Any], into: dict[socket.socket, Any]) -> None:
        """As much as goes without waiting."""
        for among in (into, out):
            for connection in list(among):
                other, rest = among[connection]
                try:
                    count = connection.recv_into(rest) if among is into else connection.send(rest)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise DistBackendError(f"Connection closed by peer {other}: {error}") from None
                if count == 0:
                    raise DistBackendError(f"Connection closed by peer {other}")
                if count == len(rest):
                    del among[connection]
                else:
                    among[connection][1] = rest[count:]

    def close(self) -> None:
        """End all connections."""
        for connection in self.peers.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self.peers.clear()


class Mailbox:
    """Messages with tags between two processes at a time, apart from what whole groups exchange.

    A thread per process takes in what arrives, so that two which send to each other don't wait for each other.
    """

    def __init__(self, links: Links):
        self.links = links
        self.arrived: dict[tuple[int, int], list[np.ndarray]] = {}
        self.order: list[tuple[int, int]] = []
        self.changed = threading.Condition()
        self.sending = {k: threading.Lock() for k in links.peers}
        self.gone: dict[int, str] = {}
        for other, connection in links.peers.items():
            connection.setblocking(True)
            threading.Thread(target=self._take, args=(other, connection), daemon=True).start()

    def _take(self, other: int, connection: socket.socket) -> None:
        try:
            while True:
                head = _exactly(connection, 16)
                tag, size = (int.from_bytes(head[i : i + 8], "big", signed=True) for i in (0, 8))
                message = np.frombuffer(_exactly(connection, size), np.uint8)
                with self.changed:
                    self.arrived.setdefault((other, tag), []).append(message)
                    self.order.append((other, tag))
                    self.changed.notify_all()
        except OSError as error:
            with self.changed:
                self.gone[other] = str(error)
                self.changed.notify_all()

    def send(self, array: np.ndarray, to: int, tag: int) -> None:
        """Send an array's bytes."""
        head = tag.to_bytes(8, "big", signed=True) + array.nbytes.to_bytes(8, "big", signed=True)
        try:
            with self.sending[to]:
                self.links.peers[to].sendall(head)
                self.links.peers[to].sendall(memory(array))
        except (KeyError, OSError) as error:
            raise DistBackendError(f"Connection closed by peer {to}: {error}") from None

    def receive(self, array: np.ndarray, source: int | None, tag: int) -> int:
        """Take the next message of a process, or of any, into an array; whose it was."""

        def found() -> tuple[int, int] | None:
            if source is not None:
                return (source, tag) if self.arrived.get((source, tag)) else None
            return next((key for key in self.order if key[1] == tag and self.arrived.get(key)), None)

        def lost() -> bool:
            return len(self.gone) == len(self.sending) if source is None else source in self.gone

        with self.changed:
            if not self.changed.wait_for(lambda: found() is not None or lost(), self.links.timeout):
                raise DistBackendError(f"Timed out waiting {round(self.links.timeout * 1000)}ms for recv operation")
            key = found()
            if key is None:
                raise DistBackendError(f"Connection closed by peer {source}: {self.gone}")
            message = self.arrived[key].pop(0)
            self.order.remove(key)
        if message.nbytes != array.nbytes:
            raise DistBackendError(
                f"received data size doesn't match expected size: {message.nbytes} bytes from {key[0]}, "
                f"{array.nbytes} expected"
            )
        memory(array)[:] = memory(message)
        return key[0]
