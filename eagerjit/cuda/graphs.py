"""Graphs: work that is captured once and launched as a whole again and again."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

from eagerjit.cuda.present import device_of, found, needed
from eagerjit.cuda.streams import Stream, current_stream
from eagerjit.cuda.streams import stream as in_stream

if TYPE_CHECKING:
    from eagerjit.runtime.gpu import graphs as gpu_graphs
    from eagerjit.runtime.gpu.segments import Pool

__all__ = ["CUDAGraph", "graph", "graph_pool_handle"]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


class CUDAGraph:
    """Work of a device. Replaying it does the work again on the same memory. Raises RuntimeError without a device."""

    __slots__ = ("__weakref__", "_graph")

    _graph: gpu_graphs.Graph

    def __new__(cls, keep_graph: bool = False) -> CUDAGraph:
        if found() is None:
            raise RuntimeError("torch.cuda.CUDAGraph requires CUDA support")
        from eagerjit.runtime.gpu.graphs import Graph

        made = object.__new__(cls)
        made._graph = Graph()
        return made

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "thread_local") -> None:
        """Captures what this thread's stream, not the default one, is given from now on."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        self._graph.begin(current_stream()._stream, pool, _MODES[capture_error_mode])

    def capture_end(self) -> None:
        """Ends the capture."""
        self._graph.end()

    def replay(self) -> None:
        """Queues the captured work in this thread's stream."""
        self._graph.replay(current_stream()._stream)

    def reset(self) -> None:
        """Forgets the captured work."""
        self._graph.reset()

    def pool(self) -> Pool | None:
        """The memory that the graph uses, for other graphs that are replayed in the same order."""
        return self._graph.pool


def graph_pool_handle() -> Pool:
    """Memory for graphs, to be passed to several captures."""
    return device_of().allocator.new_pool()


@contextlib.contextmanager
def graph(
    cuda_graph: CUDAGraph, pool: Pool | None = None, stream: Stream | None = None,
    capture_error_mode: str = "thread_local",
) -> Iterator[None]:  # fmt: skip
    """A context whose work is captured, in a side stream unless one is given."""
    needed()
    device = device_of()
    device.synchronize()
    gc.collect()
    device.allocator.empty_cache()
    with in_stream(stream or Stream()):
        cuda_graph.capture_begin(pool, capture_error_mode)
        try:
            yield
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the first error says more
                cuda_graph.capture_end()
            raise
        cuda_graph.capture_end()
