"""A call of compiled device work captured as a graph and replayed, safe about what replays overwrite.

A graph reads and writes the same addresses each time. An input that is the same memory in every call (a parameter) is
read where it is; the others are copied into memory of the graph. Results lie in memory of the graph, which the next
replay overwrites: as long as somebody holds one, that graph rests, and another one, or the plain call, runs instead.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from eagerjit.runtime import log
from eagerjit.runtime.gpu.graphs import Graph
from eagerjit.runtime.gpu.memory import DeviceMemory, copy_on_device
from eagerjit.runtime.gpu.stream import Stream, current_stream, using_stream
from eagerjit.runtime.queued import Queued, queued_before

MOST = 2
"""Graphs of one call: a result that is kept until the next call returns (the last loss) keeps one of them busy."""


class Result:
    """Memory of a graph that holds a result of its last replay."""

    __slots__ = ("__weakref__", "_instance", "_memory", "address", "device", "nbytes")

    def __init__(self, instance: _Instance, memory: DeviceMemory):
        self.device, self.address, self.nbytes = memory.device, memory.address, memory.nbytes
        self._instance, self._memory = instance, memory
        instance.held.append(None)

    def __del__(self) -> None:
        self._instance.held.pop()

    def record_stream(self, stream: Stream) -> None:
        """Work in another stream uses the memory too: the next replay waits for what that stream has until then."""
        self._instance.users.add(stream)


Memory = DeviceMemory | Result
Function = Callable[[Sequence[Memory]], list[DeviceMemory]]


class _Instance:
    """One captured graph with its memory. `held` has an entry per result that somebody holds: to add or take one is
    one step, whatever thread does it."""

    def __init__(self, function: Function, inputs: Sequence[Memory], fixed: frozenset[int], stream: Stream):
        self.graph, self.fixed = Graph(), fixed
        self.held: list[None] = []
        self.users: set[Stream] = set()
        with stream.device.streams.capturing, using_stream(stream):
            self.graph.begin(stream)
            try:
                self.inputs = [x if i in fixed else DeviceMemory(x.nbytes, stream) for i, x in enumerate(inputs)]
                self.outputs = function(self.inputs)
            except BaseException:
                try:
                    self.graph.end()
                except RuntimeError:  # the first error says more
                    pass
                raise
            self.graph.end()

    def accepts(self, inputs: Sequence[Memory]) -> bool:
        """Whether the inputs that it reads where they are still are these."""
        return all(inputs[i] is self.inputs[i] for i in self.fixed)

    def replay(self, inputs: Sequence[Memory], written: Sequence[int], stream: Stream) -> list[Result]:
        for other in self.users - {stream}:
            stream.wait_stream(other)
        self.users = {stream}
        for index, (own, given) in enumerate(zip(self.inputs, inputs, strict=True)):
            if index not in self.fixed:
                copy_on_device(own.address, given.address, own.nbytes, stream)
            given.record_stream(stream)
        self.graph.replay(stream)
        for index in written:
            if index not in self.fixed:
                copy_on_device(inputs[index].address, self.inputs[index].address, inputs[index].nbytes, stream)
        return [Result(self, memory) for memory in self.outputs]


class GraphedCall:
    """`function(inputs)` as graphs; it queues work in the current stream and returns fresh memory.

    It must do the same work at every call with inputs of these sizes. `written` are the inputs that it writes. The
    first call runs plainly: what is loaded and compiled at the first use must not be captured.
    """

    def __init__(self, function: Function, written: Sequence[int] = ()):
        self.function, self.written = function, tuple(written)
        self.refusal: str | None = None
        self.instances: list[_Instance] = []
        self._last: list[weakref.ref[Memory]] | None = None
        self._moving: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, inputs: Sequence[Memory]) -> Sequence[Memory]:
        """The results, by a replay where that is possible."""
        if not inputs or self.refusal is not None:
            return self.function(inputs)
        with self._lock:
            last, self._last = self._last, [weakref.ref(x) for x in inputs]
            if last is not None:
                pairs = enumerate(zip(last, inputs, strict=True))
                # A result of another graph is in the way there if this one holds it.
                self._moving |= {i for i, (a, b) in pairs if a() is not b or isinstance(b, Result)}
                instance = self._idle(inputs)
                if instance is not None:
                    return instance.replay(inputs, self.written, current_stream(inputs[0].device))
        return self.function(inputs)

    def _idle(self, inputs: Sequence[Memory]) -> _Instance | None:
        """A graph whose results nobody holds, captured now if need be; None where there are enough."""
        self.instances = [instance for instance in self.instances if instance.accepts(inputs)]
        for instance in self.instances:
            if not instance.held:
                return instance
        if len(self.instances) >= MOST:
            return None
        device = inputs[0].device
        fixed, began = frozenset(range(len(inputs))) - self._moving, Queued()
        try:
            self.instances.append(_Instance(self.function, inputs, fixed, device.streams.capture))
        except RuntimeError as error:
            if queued_before(error, began):
                raise
            self.refusal = str(error)
            if log.LAUNCH:
                log.write("launch", f"not captured as a graph: {error}")
            return None
        return self.instances[-1]
