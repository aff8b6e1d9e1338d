"""Keys and values that processes share: by one process's server, in a file, or within a process."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.distributed.errors import DistNetworkError, DistStoreError

DEFAULT_TIMEOUT = datetime.timedelta(seconds=300)
DEFAULT_PORT = 29500
MOST_BYTES = 1 << 28
"""Of a key or a value: what says it has more is no message of a store's client."""


def seconds_of(timeout: Any) -> float:
    """A timeout in seconds."""
    return timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else bytes(value) if isinstance(value, bytearray) else str(value).encode()


class Store:
    """What all stores can do; keys are text, values text or bytes, which come back as bytes."""

    def __init__(self, timeout: Any = DEFAULT_TIMEOUT):
        self._timeout = seconds_of(timeout)

    @property
    def timeout(self) -> datetime.timedelta:
        """How long `get` and `wait` wait for a key."""
        return datetime.timedelta(seconds=self._timeout)

    def set_timeout(self, timeout: Any) -> None:
        """Wait so long for a key from now on."""
        self._timeout = seconds_of(timeout)

    def _ask(self, command: str, *arguments: bytes, limit: float | None = None) -> list[bytes]:
        """What a table answers."""
        raise NotImplementedError(f"{type(self).__name__} has no {command}")

    def _key(self, key: str) -> bytes:
        return _bytes(key)

    def set(self, key: str, value: Any) -> None:
        """Give a key a value."""
        self._ask("set", self._key(key), _bytes(value))

    def get(self, key: str) -> bytes:
        """A key's value, waited for. Raises DistStoreError if none comes in time."""
        self.wait([key])
        return self._ask("get", self._key(key))[0]

    def add(self, key: str, amount: int) -> int:
        """A key's number after an amount, which it begins with, has been added."""
        return int(self._ask("add", self._key(key), str(int(amount)).encode())[0])

    def append(self, key: str, value: Any) -> None:
        """Add to the end of a key's value."""
        self._ask("append", self._key(key), _bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Replace a key's value if it is the expected one, of a new key nothing; what the value is then."""
        return self._ask("compare_set", self._key(key), _bytes(expected_value), _bytes(desired_value))[0]

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        return self._ask("check", *map(self._key, keys))[0] == b"1"

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Wait until all keys have values. Raises DistStoreError if they don't in time."""
        limit = self._timeout if timeout is None else seconds_of(timeout)
        if self._ask("wait", *map(self._key, keys), limit=limit)[0] != b"1":
            named = ", ".join(f"/{k}" for k in keys)
            raise DistStoreError(f"wait timeout after {round(limit * 1000)}ms, keys: {named}")

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether there was one."""
        return self._ask("delete", self._key(key))[0] == b"1"

    def num_keys(self) -> int:
        """The number of keys."""
        return int(self._ask("count")[0])

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Give several keys values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several keys' values, waited for."""
        self.wait(keys)
        return [self._ask("get", self._key(key))[0] for key in keys]


class Table:
    """The keys and values of one process, and what can be asked of them."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.changed = threading.Condition()

    def answer(self, command: str, arguments: Sequence[bytes], limit: float) -> list[bytes]:
        """The answer to a command; `limit`: how long to wait."""
        with self.changed:
            if command == "wait":
                found = self.changed.wait_for(lambda: all(k in self.values for k in arguments), limit)
                return [b"1" if found else b"0"]
            if command == "check":
                return [b"1" if all(k in self.values for k in arguments) else b"0"]
            if command == "get":
                return [self.values.get(arguments[0], b"")]
            if command == "count":
                return [str(len(self.values)).encode()]
            result = self._change(command, *arguments)
            self.changed.notify_all()
            return [result]

    def _change(self, command: str, key: bytes, *rest: bytes) -> bytes:
        if command == "delete":
            return b"0" if self.values.pop(key, None) is None else b"1"
        if command == "add":
            self.values[key] = str(int(self.values.get(key, b"0")) + int(rest[0])).encode()
        elif command == "append":
            self.values[key] = self.values.get(key, b"") + rest[0]
        elif command == "set":
            self.values[key] = rest[0]
        elif self.values.get(key, b"") == rest[0]:
            self.values[key] = rest[1]
        return self.values.get(key, rest[0])


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()

    def _ask(self, command: str, *arguments: bytes, limit: float | None = None) -> list[bytes]:
        return self._table.answer(command, arguments, limit or 0.0)


class PrefixStore(Store):
    """A store's keys that begin with a prefix, under names without it."""

    def __init__(self, prefix: str, store: Store):
        super().__init__(store.timeout)
        self.prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store that holds the keys."""
        return self._store

    def _key(self, key: str) -> bytes:
        return self._store._key(f"{self.prefix}/{key}")

    def _ask(self, command: str, *arguments: bytes, limit: float | None = None) -> list[bytes]:
        return self._store._ask(command, *arguments, limit=limit)


# -- over a network ---------------------------------------------------------------------------------------------------


def _send(connection: socket.socket, fields: Sequence[bytes]) -> None:
    body = b"".join(struct.pack("!Q", len(field)) + field for field in fields)
    connection.sendall(struct.pack("!I", len(fields)) + body)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("the other process closed the connection")
        view = view[got:]
    return bytes(data)


def _receive(connection: socket.socket) -> list[bytes]:
    """The fields of a message. Raises ConnectionError for what is none of a store's."""
    (count,) = struct.unpack("!I", _exactly(connection, 4))
    fields = []
    for _ in range(count):
        (size,) = struct.unpack("!Q", _exactly(connection, 8))
        if size > MOST_BYTES:
            raise ConnectionError(f"a field of {size} bytes")
        fields.append(_exactly(connection, size))
    return fields


class _Server:
    """Answers the processes of a TCPStore, each connection by a thread."""

    def __init__(self, host: str, port: int):
        self.table = Table()
        self.listening = socket.create_server((host, port), family=_family(host, port), backlog=512)
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True, name="eagerjit store").start()

    def close(self) -> None:
        """Take no more connections, and leave the port to others."""
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)  # which wakes the thread that waits for one
        self.listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self.listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError, struct.error):  # gone, or no store's client
            while True:
                command, limit, *arguments = _receive(connection)
                _send(connection, self.table.answer(command.decode(), arguments, float(limit)))


def _family(host: str, port: int) -> socket.AddressFamily:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]


class TCPStore(Store):
    """A store that one process (`is_master`) serves to others at a host and port; with port 0 it chooses one.

    `world_size` processes are waited for, unless it is None or `wait_for_workers` is False. Raises DistNetworkError if
    the server cannot be reached in time, DistStoreError if processes don't come.
    """

    def __init__(
        self, host_name: str, port: int = DEFAULT_PORT, world_size: int | None = None, is_master: bool = False,
        timeout: Any = DEFAULT_TIMEOUT, wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ):  # fmt: skip
        super().__init__(timeout)
        self.host = host_name
        self._server = self._serve(port, multi_tenant) if is_master else None
        self.port = port if self._server is None else self._server.port
        if self._server is not None:
            weakref.finalize(self, self._server.close)
        self._own = threading.local()
        self._connection()
        if world_size is not None and wait_for_workers:
            self._meet(world_size)

    def _serve(self, port: int, shared: bool) -> _Server | None:
        try:
            return _Server(self.host, port)
        except OSError as error:
            if shared:  # another store of this process, or of another, serves there already
                return None
            raise DistNetworkError(
                f"The server socket has failed to listen on any local network address. port: {port}, {error}"
            ) from None

    def _meet(self, count: int) -> None:
        """Wait for so many processes."""
        key = "init/"
        if self.add(key, 1) >= count:
            self.set(f"{key}done", b"1")
        self.wait([f"{key}done"])

    def _connection(self) -> socket.socket:
        """This thread's connection: one that waits for a key holds up no other."""
        found: socket.socket | None = getattr(self._own, "connection", None)
        if found is not None:
            return found
        until = time.monotonic() + self._timeout
        while True:
            try:
                made = socket.create_connection((self.host, self.port), timeout=max(until - time.monotonic(), 0.1))
                break
            except OSError as error:
                if time.monotonic() >= until:
                    message = f"The client socket has timed out after {round(self._timeout * 1000)}ms while trying to "
                    raise DistNetworkError(f"{message}connect to ({self.host}, {self.port}): {error}") from None
                time.sleep(0.05)
        made.settimeout(None)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._own.connection = made
        return made

    def _ask(self, command: str, *arguments: bytes, limit: float | None = None) -> list[bytes]:
        connection = self._connection()
        try:
            _send(connection, (command.encode(), repr(limit or 0.0).encode(), *arguments))
            return _receive(connection)
        except OSError as error:
            self._own.connection = None
            raise DistNetworkError(f"the store at ({self.host}, {self.port}) is gone: {error}") from None

    def local_address(self) -> str:
        """The address by which this process reaches the server, and others may reach it."""
        address: str = self._connection().getsockname()[0]
        return address


# -- in a file --------------------------------------------------------------------------------------------------------


class FileStore(Store):
    """A store in a file that processes of one or more machines see; with a `world_size` its last store removes it."""

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self.path = file_name
        self.add("/users", 1)
        if world_size >= 0:
            weakref.finalize(self, _leave, file_name)

    def _ask(self, command: str, *arguments: bytes, limit: float | None = None) -> list[bytes]:
        until = time.monotonic() + (limit or 0.0)
        while True:
            found: list[bytes] = _locked(self.path, lambda table: table.answer(command, arguments, 0.0))
            if command != "wait" or found[0] == b"1" or time.monotonic() >= until:
                return found
            time.sleep(0.01)


def _locked(path: str, use: Callable[[Table], Any]) -> Any:
    """Use the table that a file holds, alone; it is written again if it has changed."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        table, before = Table(), file.read()
        fields = list(_fields(before))
        table.values.update(zip(fields[::2], fields[1::2], strict=True))
        result = use(table)
        after = b"".join(struct.pack("!Q", len(f)) + f for pair in table.values.items() for f in pair)
        if after != before:
            file.seek(0)
            file.truncate()
            file.write(after)
        return result


def _leave(path: str) -> None:
    """One store of a file less."""
    with contextlib.suppress(OSError):
        if int(_locked(path, lambda table: table.answer("add", (b"/users", b"-1"), 0.0))[0]) <= 0:
            os.remove(path)


def _fields(data: bytes) -> Any:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("!Q", data, at)
        yield data[at + 8 : at + 8 + size]
        at += 8 + size
