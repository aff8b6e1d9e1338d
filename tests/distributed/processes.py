"""Functions run in several processes that are one group, and what they return."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

LIMIT = 300.0
"""Seconds that processes have for a test."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _child(
    function: Callable[..., Any], rank: int, size: int, port: int, arguments: tuple[Any, ...], back: Any
) -> None:
    import eagerjit.distributed as dist

    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ.update(environment, EAGERJIT_NUM_THREADS="1")
    try:
        dist.init_process_group("gloo", timeout=LIMIT / 3)
        result = function(rank, size, *arguments)
        dist.barrier()
        dist.destroy_process_group()
        back.send((True, result))
    except BaseException:
        back.send((False, traceback.format_exc()))


def together(function: Callable[..., Any], size: int, *arguments: Any) -> list[Any]:
    """What function(rank, size, *arguments) returns in each of so many processes."""
    context, port = multiprocessing.get_context("spawn"), free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(size)]
    children = [
        context.Process(target=_child, args=(function, rank, size, port, arguments, pipes[rank][1]))
        for rank in range(size)
    ]
    for child in children:
        child.start()
    try:
        answers = [receiver.recv() if receiver.poll(LIMIT) else (False, "no answer") for receiver, _ in pipes]
    finally:
        for child in children:
            child.join(5.0)
            child.kill()
    failed = [f"process {rank}: {result}" for rank, (fine, result) in enumerate(answers) if not fine]
    assert not failed, "\n".join(failed)
    return [result for _, result in answers]
