"""The order of the passes, and what can be seen between them."""

from __future__ import annotations

import time
from collections.abc import Callable

from eagerjit.compiler.ir import Graph
from eagerjit.compiler.passes.complexes import split_complex
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.passes.fold import fold_constants
from eagerjit.compiler.passes.share import share_equal
from eagerjit.compiler.passes.simplify import simplify
from eagerjit.compiler.passes.slices import join_slices

Pass = Callable[[Graph], Graph]

Observer = Callable[[str, Graph, Graph, float], None]
"""Called after every pass with its name, the graph before, the graph after, and the seconds it took."""

PIPELINE: tuple[Pass, ...] = (
    split_complex, remove_dead, fold_constants, simplify, join_slices, share_equal, remove_dead,
)  # fmt: skip
"""Every pass in the order in which it runs."""


def run_pipeline(graph: Graph, observer: Observer | None = None) -> Graph:
    """The graph after all passes; the observer may print, time or verify what it is shown."""
    for function in PIPELINE:
        started = time.perf_counter()
        after = function(graph)
        if observer is not None:
            observer(function.__name__, graph, after, time.perf_counter() - started)
        graph = after
    return graph
