"""Where the values of a call being traced lie: the call runs on one device, some of its values are the host's."""

from __future__ import annotations

from typing import Any

from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import indexing
from eagerjit.devices import CPU
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.meta_array import META
from eagerjit.tensors.placement import HOST, named, refuse_mixed, refuse_recording
from eagerjit.watching.observation import TraceBreak, user_line

_OVERWRITES = frozenset({indexing.slice_scatter})


class Places:
    """What a tracer knows of devices.

    device      the number of the device that the call runs on, None for the host
    on_meta     whether it is for types alone, of tensors on meta
    places      where values lie: a device's number, HOST, or None for what goes with either
    seedings    streams of random numbers of devices that the call starts anew, and has not drawn from yet
    """

    device: int | None = None
    values_only = on_meta = False

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[Node, int | None] = {}
        self.seedings: dict[Any, Any] = {}

    def place_leaf(self, node: Node, array: Any) -> int:
        """Note where a leaf lies."""
        self.places[node] = index = array.memory.device.index if isinstance(array, DeviceArray) else HOST
        if index == META:
            refuse_recording()
        elif index != HOST:
            self.runs_on(index)
        return index

    def runs_on(self, index: int) -> None:
        """Let the call run on a device. TraceBreak where it runs on another."""
        if self.device not in (None, index):
            raise TraceBreak("it works on several devices", user_line())
        self.device = index

    def place_of(self, node: Node) -> int | None:
        """Where a value lies: with what it is computed from."""
        waiting = [node]
        while waiting:
            current = waiting[-1]
            if current in self.places:
                waiting.pop()
                continue
            unknown = [n for n in current.inputs if n not in self.places]
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            self.places[current] = self._joined(current)
        return self.places[node]

    def _joined(self, node: Node) -> int | None:
        found: int | None = None
        for n in node.inputs[:1] if node.op in _OVERWRITES else node.inputs:
            place = self.places[n]
            if place is not None and (found is None or (found == HOST and place != HOST)):
                found = place
        return found

    def check_places(self, node: Node) -> None:
        """Note where a new value lies; RuntimeError where it is computed from values in different places.

        Those of the host without dimensions go with those of a device.
        """
        if self.device is None:
            return
        place = self.place_of(node)
        if self.values_only or place in (None, HOST) or node.op in _OVERWRITES:
            return
        if any(self.places[n] == HOST and n.type.shape for n in node.inputs):
            refuse_mixed(named(place), CPU)

    def keep_place(self, node: Node, before: Node) -> None:
        """Note that a value is written where another one was."""
        if self.device is not None:
            self.places[node] = self.place_of(before)

    def laid(self, node: Node, index: int) -> Node:
        """A value that lies elsewhere than what it is computed from."""
        if index != HOST:
            self.runs_on(index)
        self.places[node] = index
        return node

    def is_on_host(self, node: Node) -> bool:
        """Whether a call that runs on a device gives a result in memory of the host."""
        return self.device is not None and not self.values_only and self.place_of(node) in (None, HOST)
