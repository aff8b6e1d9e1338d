"""Keys and values that processes share, and programs that are started several times."""

from __future__ import annotations

import contextlib
import datetime
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from processes import free_port

import eagerjit.distributed as dist


@pytest.fixture(params=["tcp", "file", "hash", "prefix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "tcp":
        return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"), 1)
    return dist.HashStore() if request.param == "hash" else dist.PrefixStore("a", dist.HashStore())


def test_what_a_store_does(store: Any) -> None:
    store.set("first", "1")
    store.set("bytes", b"\x00\xff")
    assert [store.get("first"), store.get("bytes")] == [b"1", b"\x00\xff"]
    assert [store.add("count", 2), store.add("count", -3)] == [2, -1]
    store.append("text", "ab")
    store.append("text", "cd")
    assert store.get("text") == b"abcd"
    assert [store.check(["first", "text"]), store.check(["first", "none"])] == [True, False]
    assert store.compare_set("first", "1", "2") == b"2" and store.compare_set("first", "1", "3") == b"2"
    assert store.compare_set("new", "", "x") == b"x"
    assert [store.delete_key("new"), store.delete_key("new")] == [True, False]
    store.multi_set(["a", "b"], ["c", "d"])
    assert store.multi_get(["a", "b"]) == [b"c", b"d"]
    before = store.num_keys()
    store.set("another", "")
    assert store.num_keys() == before + 1


def test_what_does_not_come_is_an_error(store: Any) -> None:
    store.set_timeout(datetime.timedelta(milliseconds=50))
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 50ms, keys: /missing"):
        store.get("missing")
    with pytest.raises(dist.DistStoreError, match="after 10ms"):
        store.wait(["missing"], datetime.timedelta(milliseconds=10))


def test_a_thread_waits_for_another(store: Any) -> None:
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(store.get("late")))
    thread.start()
    store.set("early", "1")
    store.set("late", "2")
    thread.join(10.0)
    assert found == [b"2"]


def test_clients_of_one_server(tmp_path: Path) -> None:
    server = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, 2, False, wait_for_workers=False)
    client.set("key", "value")
    assert server.get("key") == b"value" and dist.PrefixStore("p", client).num_keys() == server.num_keys()
    with pytest.raises(dist.DistNetworkError, match="failed to listen"):
        dist.TCPStore("127.0.0.1", server.port, is_master=True)
    limit = datetime.timedelta(milliseconds=200)
    with pytest.raises(dist.DistNetworkError, match=r"timed out after 200ms while trying to connect to \(127.0.0.1"):
        dist.TCPStore("127.0.0.1", free_port(), timeout=limit)


def test_a_server_answers_no_stranger() -> None:
    """What is no message of a store ends its connection and no other."""
    import socket

    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", server.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
        with contextlib.suppress(OSError):  # the server has closed it already
            stranger.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(10) == b""
    server.set("key", "1")
    assert server.get("key") == b"1"


def test_a_file_is_removed_with_its_last_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = dist.FileStore(str(path), 2), dist.FileStore(str(path), 2)
    first.set("key", "1")
    assert second.get("key") == b"1"
    del first
    assert path.exists()
    del second
    assert not path.exists()


def test_one_process_is_a_group() -> None:
    import eagerjit as ej

    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(RuntimeError, match="not by nccl"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="world size parameter missing"):
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0)
    with pytest.raises(RuntimeError, match="No rendezvous handler for ftp://"):
        dist.init_process_group("gloo", init_method="ftp://a", rank=0, world_size=2)
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1, init_method=f"tcp://127.0.0.1:{free_port()}")
    try:
        x, outputs, objects = ej.ones(2), [ej.zeros(2)], [None]
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.all_gather(outputs, x)
        dist.all_gather_object(objects, "own")
        dist.barrier()
        assert [x.tolist(), outputs[0].tolist(), objects] == [[1.0, 1.0], [1.0, 1.0], ["own"]]
        assert dist.is_available() and (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()


PROGRAM = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group()
x = torch.tensor([float(os.environ["LOCAL_RANK"])])
dist.all_reduce(x)
if sys.argv[1:] == ["fail"] and dist.get_rank() == 1:
    sys.exit(3)
if sys.argv[1:] == ["once"] and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(4)
dist.barrier() if sys.argv[1:] != ["fail"] else dist.all_reduce(x)
line = f"rank {dist.get_rank()} of {dist.get_world_size()} has {x.item()} {'eagerjit' in torch.__file__}\\n"
os.write(1, line.encode())  # at once, so that lines of processes do not mix
"""


def started(tmp_path: Path, *arguments: str, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "eagerjit", "run", "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--max-restarts", str(restarts)]
    return subprocess.run([*command, str(script), *arguments], capture_output=True, text=True, timeout=300)


def test_a_program_is_started_in_processes(tmp_path: Path) -> None:
    found = started(tmp_path)
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == [f"rank {k} of 2 has 1.0 True" for k in (0, 1)]


def test_the_status_of_one_that_fails_is_that_of_all(tmp_path: Path) -> None:
    found = started(tmp_path, "fail")
    assert found.returncode in (1, 3) and "the others are ended" in found.stderr and "rank" not in found.stdout


def test_processes_are_started_again_where_that_is_allowed(tmp_path: Path) -> None:
    assert [started(tmp_path, "once", restarts=n).returncode for n in (0, 1)] == [4, 0]


def test_machines_need_numbers() -> None:
    from eagerjit.distributed import run

    with pytest.raises(ValueError, match="--node-rank must say"):
        run.main(["--nnodes", "2", "program.py"])
    with pytest.raises(ValueError, match="Unsupported nproc_per_node value: many"):
        run.main(["--nproc-per-node", "many", "program.py"])
