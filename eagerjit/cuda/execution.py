"""Compiled calls on a device: their kernels compiled by Triton for it, their Programs run by its executor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from eagerjit.compiled import compilation, gpu_kernels
from eagerjit.compiler.codegen.triton.product import ProductKernel
from eagerjit.compiler.codegen.triton.source import Launch
from eagerjit.compiler.codegen.triton.values import table_words
from eagerjit.compiler.signature import Fresh, TensorLeaf
from eagerjit.cuda import tuning
from eagerjit.runtime.gpu import arrays, descriptors
from eagerjit.runtime.gpu.descriptors import TensorMap
from eagerjit.runtime.gpu.devices import Device, platform
from eagerjit.runtime.gpu.direct import direct
from eagerjit.runtime.gpu.errors import AcceleratorError
from eagerjit.runtime.gpu.executor import DeviceExecutable, DeviceFrame
from eagerjit.runtime.gpu.graphed import GraphedExecutable
from eagerjit.runtime.gpu.launch import Kernel, added
from eagerjit.runtime.gpu.memory import fill_words
from eagerjit.runtime.gpu.precision import precision
from eagerjit.runtime.records import record, replace

Compile = Callable[[Launch, Device], Kernel]
HIDDEN = ("tasks", "status", "tables", "partials", "counters")
"""Arguments that files may have after those of their kernels."""
_tables: WeakKeyDictionary[Device, arrays.Array] = WeakKeyDictionary()


def layouts(launch: Launch) -> list[str]:
    """How the arguments of a launch's kernel lie in memory; a float64 as the 64 bits that Programs hold.

    After a tensor map Triton has the tensor's extents and strides, which no kernel of ours asks for.
    """
    ranks = {d.param: len(d.shape) for d in launch.descriptors}
    found: list[str] = []
    for name, t in launch.signature.items():
        if name in ranks:
            found += ["map", *["i32"] * ranks[name], *["i64"] * ranks[name]]
        elif t != "constexpr":
            found.append("pointer" if t[0] == "*" else "i64" if t == "fp64" else t)
    return found


def compiled(launch: Launch, device: Device) -> Kernel:
    """The kernel of a launch for the device that there is; with fewer steps ahead where these leave no room."""
    properties = device.properties
    architecture, most = 10 * properties.major + properties.minor, properties.shared_memory_per_block_optin
    binary = gpu_kernels.binary(launch, architecture)
    while binary.shared > most and launch.stages > 1:
        launch = replace(launch, stages=launch.stages - 1)
        binary = gpu_kernels.binary(launch, architecture)
    own = layouts(launch)
    hidden = added(binary.name, own, binary.parameters)
    return Kernel(device, binary.cubin, binary.name, own, binary.warps, binary.shared, hidden, binary.boxes)


def tables(device: Device) -> int:
    """The address of the elementary functions' tables on a device."""
    if device not in _tables:
        _tables[device] = arrays.upload(np.array(table_words(), np.uint32), device.streams.default)
        device.synchronize()
    return int(_tables[device].ctypes.data)


@record(frozen=True)
class Prepared:
    """A kernel as it is launched on some sizes: `picks` says which of all words are its arguments.

    `maps` are of the tensors whose addresses are among them, and of which it is given maps instead.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    picks: list[int]
    partials: int
    counters: int
    tables: int
    maps: list[TensorMap]


class Function:
    """A kernel of a Program, compiled for the sizes that it meets: kinds of sizes share a binary."""

    def __init__(self, kernel: gpu_kernels.GpuKernel, device: Device, compile: Compile):
        self.kernel, self.device, self.compile = kernel, device, compile
        names = [p.name for p in kernel.kernel.params]
        self._place = {name: index for index, name in enumerate([*names, *HIDDEN])}
        self._sizes = [index for index, p in enumerate(kernel.kernel.params) if p.kind == "size"]
        self._memory = [index for index, p in enumerate(kernel.kernel.params) if p.kind == "memory"]
        self.compared = [*((index, False) for index in self._sizes), *((index, True) for index in self._memory)]
        self._launches: dict[tuple[int, ...], Prepared] = {}
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self.null = len(self._place)
        self._tables = 0

    def launch(self, frame: DeviceFrame, tasks: int, words: Sequence[int], status: int) -> None:
        """Queues the kernel with these arguments."""
        places = [words[index] & 15 for index in self._memory]
        key = (tasks, precision.tf32, *[words[index] for index in self._sizes], *places)
        found = self._launches.get(key)
        if found is None:
            found = self._launches[key] = self._prepared(frame, tasks, words, status)
        self._queue(found, frame, tasks, words, status)

    def _queue(self, found: Prepared, frame: DeviceFrame, tasks: int, words: Sequence[int], status: int) -> None:
        partials = counters = 0
        if found.counters:
            partials, counters = frame.allocate(found.partials), frame.allocate(4 * found.counters)
            fill_words(counters, 0, found.counters, frame.stream)
        everything = (*words, tasks, status, found.tables, partials, counters, 0)
        arguments: list[Any] = [everything[index] for index in found.picks]
        for tensor in found.maps:
            arguments[tensor.argument] = tensor.at(arguments[tensor.argument])
        found.kernel.launch(found.grid, frame.stream, *arguments)

    def ready(self, tasks: int, words: Sequence[int]) -> Prepared:
        """How it is launched on these words, of which those that are compared count.

        Without tensor maps from the first one on that the driver refuses.
        """
        made = self._compiled(self.kernel.launch(tasks, *self._known(words)))
        try:
            for tensor in made.maps:
                tensor.at(words[made.picks[tensor.argument]])
        except (AcceleratorError, AttributeError) as error:  # one of another status, or it has no such function
            descriptors.maps.refuse(error)
            return self._compiled(self.kernel.launch(tasks, *self._known(words)))
        return made

    def _known(self, words: Sequence[int]) -> tuple[dict[str, int], int]:
        """What decides on a launch: the words that are compared by name, and the device's architecture."""
        params, properties = self.kernel.kernel.params, self.device.properties
        known = {params[index].name: words[index] for index, _ in self.compared}
        return known, 10 * properties.major + properties.minor

    def _prepared(self, frame: DeviceFrame, tasks: int, words: Sequence[int], status: int) -> Prepared:
        plain = self.ready(tasks, words)
        if not isinstance(self.kernel, ProductKernel) or not tuning.wanted() or frame.stream.is_capturing:
            return plain

        def seconds(launch: Launch) -> float:
            made = self._compiled(launch)
            return tuning.timed(lambda: self._queue(made, frame, tasks, words, status), frame.stream)

        known, architecture = self._known(words)
        tile = tuning.tile(self.kernel, tasks, known, architecture, seconds)
        if tile is None:
            return plain
        return self._compiled(self.kernel.launch(tasks, known, architecture, tile))

    def _compiled(self, launch: Launch) -> Prepared:
        how = launch.warps, launch.stages, launch.aligned
        types = tuple(d.type for d in launch.descriptors)
        key = (launch.source, types, *how, *sorted(launch.constants.items()))
        if key not in self._kernels:
            self._kernels[key] = self.compile(launch, self.device)
        if not self._tables and any(p.name == "tables" for p in launch.source.params):
            self._tables = tables(self.device)
        kernel, described = self._kernels[key], {d.param: d for d in launch.descriptors}
        picks, maps = list[int](), list[TensorMap]()
        for p in launch.source.params:
            if p.name in described:
                found = described[p.name]
                maps.append(TensorMap(self.device.driver, found, kernel.boxes[len(maps)], len(picks)))
                picks += [self._place[p.name], *[self.null] * 2 * len(found.shape)]
            else:
                picks.append(self._place[p.name])
        grid = (*launch.grid_on(self.device.properties.multi_processor_count), 1)
        return Prepared(kernel, grid, picks, launch.partials, launch.counters, self._tables, maps)


compile: Compile = compiled
"""How a kernel is made for a device."""


def loaded(report: compilation.Report, index: int) -> DeviceExecutable:
    """A report's Program for the device of this number."""
    assert report.compiled is not None  # its passes have run
    device, trace = platform().device(index), report.trace
    call = gpu_kernels.GpuCall(trace)
    if compile is compiled:
        gpu_kernels.compile_ahead(call, 10 * device.properties.major + device.properties.minor)
    functions = [Function(kernel, device, compile) for kernel in call.kernels]
    leaves = {b.leaf: b.device >= 0 for b in trace.bindings if isinstance(b, TensorLeaf) and b.device is not None}
    returning = frozenset(i for i, o in enumerate(trace.outputs) if isinstance(o, Fresh) and o.on_host)
    loaded = call.compiled.program, functions, report.objects, device, (leaves, returning)
    if trace.cuda_graphs:
        return GraphedExecutable(*loaded)
    plain = DeviceExecutable(*loaded)
    return plain if tuning.wanted() else direct(plain, functions)  # type: ignore[no-any-return]


@contextlib.contextmanager
def offloaded(device: Device, compile: Compile = compiled, graphs: bool = False) -> Iterator[list[DeviceExecutable]]:
    """What is compiled within the block runs on a device, `graphs`: replayed; the executables that were made."""
    made: list[DeviceExecutable] = []

    def backend(report: compilation.Report) -> DeviceExecutable:
        call = gpu_kernels.GpuCall(report.trace)
        functions = [Function(kernel, device, compile) for kernel in call.kernels]
        kind = GraphedExecutable if graphs else DeviceExecutable
        made.append(kind(call.compiled.program, functions, report.objects, device))
        return made[-1]

    with compilation.made_by(backend):
        yield made
