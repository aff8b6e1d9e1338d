"""`torchrun`: start a program in several processes that find each other by their environment.

python -m eagerjit.distributed.run --nproc-per-node 2 train.py --its-own arguments
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence

import eagerjit
from eagerjit.runtime import allowance

__all__ = ["main", "run"]

POLL = 0.05
"""Seconds between looks at whether processes have ended."""


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torchrun", description=__doc__)
    for names, default in (
        (("--nnodes", "--nnode"), "1"), (("--nproc-per-node", "--nproc_per_node"), "1"),
        (("--node-rank", "--node_rank"), ""), (("--master-addr", "--master_addr"), ""),
        (("--master-port", "--master_port"), ""), (("--rdzv-endpoint", "--rdzv_endpoint"), ""),
        (("--rdzv-backend", "--rdzv_backend"), "static"), (("--rdzv-id", "--rdzv_id"), ""),
        (("--max-restarts", "--max_restarts"), "0"), (("--local-addr", "--local_addr"), ""),
    ):  # fmt: skip
        parser.add_argument(*names, default=default)
    parser.add_argument("--standalone", action="store_true", help="one machine; a free port is found")
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    parser.add_argument("--no-python", "--no_python", action="store_true", help="the script is run by itself")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser.parse_args(given)


def _count(text: str) -> int:
    """Processes of a machine: a number, or `cpu` or `auto` for one per core."""
    if text.isdigit():
        return int(text)
    if text in ("cpu", "auto"):
        return os.cpu_count() or 1
    raise ValueError(f"Unsupported nproc_per_node value: {text}")


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as found:
        return int(found.getsockname()[1])


def _command(options: argparse.Namespace) -> list[str]:
    """What each process runs; under a stand-in for torch, by it again."""
    script = [options.training_script, *options.training_script_args]
    if options.no_python:
        return script
    stands_in = sys.modules.get("torch") is eagerjit
    head = [sys.executable, "-u", *(["-m", "eagerjit", "run"] if stands_in else [])]
    return [*head, *(["-m"] if options.module else []), *script]


def run(options: argparse.Namespace) -> int:
    """Run the processes of this machine; the exit status of the first that fails, whereupon the others are ended.

    They are started again up to `--max-restarts` times. Raises ValueError for several machines without `--node-rank`.
    """
    nodes = int(options.nnodes.split(":")[-1])
    if nodes > 1 and not options.node_rank:
        raise ValueError("--node-rank must say which of the machines this is: nobody hands out numbers")
    shared = _environment(options, _count(options.nproc_per_node), nodes)
    for attempt in range(int(options.max_restarts) + 1):
        status = _watched(_started(options, {**shared, "TORCHELASTIC_RESTART_COUNT": str(attempt)}))
        if status == 0:
            break
    return status


def _environment(options: argparse.Namespace, count: int, nodes: int) -> dict[str, str]:
    """What all processes of this machine find in their environment."""
    host, _, port = options.rdzv_endpoint.partition(":")
    host = options.master_addr or host or "127.0.0.1"
    port = options.master_port or port
    if not port or (options.standalone and not options.master_port):
        port = str(_free_port(host)) if nodes == 1 else "29500"
    threads = str(max(allowance.processors() // count, 1))  # else every process would take all cores
    limited = count == 1 or not {"OMP_NUM_THREADS", "EAGERJIT_NUM_THREADS"}.isdisjoint(os.environ)
    limits = {} if limited else {"OMP_NUM_THREADS": threads}
    return limits | {
        "MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(count * nodes), "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": options.node_rank or "0", "GROUP_WORLD_SIZE": str(nodes), "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(count * nodes), "TORCHELASTIC_MAX_RESTARTS": options.max_restarts,
        "TORCHELASTIC_RUN_ID": options.rdzv_id or uuid.uuid4().hex,
    }  # fmt: skip


def _started(options: argparse.Namespace, shared: dict[str, str]) -> list[subprocess.Popen[bytes]]:
    count = int(shared["LOCAL_WORLD_SIZE"])
    first = int(shared["GROUP_RANK"]) * count
    numbers = ({"RANK": str(first + i), "LOCAL_RANK": str(i), "ROLE_RANK": str(first + i)} for i in range(count))
    return [subprocess.Popen(_command(options), env={**os.environ, **shared, **own}) for own in numbers]


def _watched(processes: list[subprocess.Popen[bytes]]) -> int:
    try:
        while True:
            states = [p.poll() for p in processes]
            failed = [(i, s) for i, s in enumerate(states) if s]
            if failed:
                rank, status = failed[0]
                print(f"torchrun: process {rank} ended with status {status}, the others are ended", file=sys.stderr)
                return status if status > 0 else 1
            if all(s == 0 for s in states):
                return 0
            time.sleep(POLL)
    finally:
        _end(processes)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(args: Sequence[str] | None = None) -> None:
    """Run what the command line says. Raises SystemExit where a process fails."""
    status = run(_arguments(args))
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    main()
