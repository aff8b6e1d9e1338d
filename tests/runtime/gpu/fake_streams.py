"""Streams, events and graphs of a fake driver: operations wait in queues until somebody waits for them."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from fake_memory import Clock

TICK = 0.001  # milliseconds that every operation takes


@dataclass(slots=True, eq=False)
class Operation:
    """Something queued. `run` gets this operation, whose clock says what it comes after."""

    name: str
    run: Callable[[Operation], None]
    stream: Stream
    clock: Clock = field(default_factory=dict)
    after: tuple[Operation, ...] = ()
    done: bool = False
    time: float = 0.0


@dataclass(slots=True, eq=False)
class Graph:
    """Operations in the order in which they were captured; a copy of the list is an executable graph."""

    operations: list[Operation] = field(default_factory=list)
    streams: set[Stream] = field(default_factory=set)
    unjoined: set[Stream] = field(default_factory=set)
    invalid: bool = False
    mode: int = 0
    thread: int = 0


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of operations of one device."""

    device: object
    name: str
    queue: deque[Operation] = field(default_factory=deque)
    clock: Clock = field(default_factory=dict)
    time: float = 0.0
    count: int = 0
    capture: Graph | None = None

    def step(self) -> None:
        """Do the oldest operation, and first what it waits for.

        Garbage is not collected meanwhile: a finalizer that waits for the device would find this operation done when
        it is not. A collection that was due is made where the call begins, when nothing has been taken yet.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            self._step()
        finally:
            if collects:
                gc.enable()

    def _step(self) -> None:
        if not self.queue:
            return
        operation = self.queue[0]
        for earlier in operation.after:
            earlier.stream.reach(earlier)
            self.time = max(self.time, earlier.time)
        if not self.queue or self.queue[0] is not operation:
            return
        self.queue.popleft()
        self.time += TICK
        operation.done, operation.time = True, self.time
        operation.run(operation)

    def reach(self, operation: Operation) -> None:
        """Do everything up to an operation of this stream."""
        while not operation.done and self.queue:
            self.step()

    def drain(self) -> None:
        """Do everything."""
        while self.queue:
            self.step()


@dataclass(slots=True, eq=False)
class Event:
    """The last point at which it was recorded, in a stream or in a graph that is being captured."""

    device: object
    timed: bool
    recorded: Operation | None = None
    captured: tuple[Graph, Stream] | None = None
