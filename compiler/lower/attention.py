"""Attention and its gradients as kernels, for GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built, Parameters
from eagerjit.compiler.lower.emit import Argument, Pointer
from eagerjit.compiler.lower.libraries import ATTENTION_INPUTS, ATTENTION_RESULTS
from eagerjit.compiler.ops.host import TENSOR
from eagerjit.compiler.shapes import Shape, contiguous_strides

KINDS = {"out": "forward", "lse": "forward", "dq": "query", "dk": "key_value", "dv": "key_value"}
"""The kernel that computes a result."""
NUMBERS = ("lse", "delta")
"""Columns of numbers."""


def attention(name: str, results: Sequence[Node], out: Callable[[Node], Argument]) -> list[Built]:
    """The kernels that compute the results of one call."""
    made: dict[str, list[Node]] = {}
    for node in results:
        made.setdefault(KINDS[_name(node)], []).append(node)
    return [_kernel(f"{name}_{kind}", kind, nodes, out) for kind, nodes in made.items()]


def _name(node: Node) -> str:
    return ATTENTION_RESULTS[node.attributes["function"]][node.attributes["result"]]


def _strides(result: Node) -> Shape:
    """Those of a result's dimensions in the order in which attention has them."""
    own = contiguous_strides(result.type.shape)
    order = result.attributes.get("order", range(len(own)))
    return tuple(stride for _, stride in sorted(zip(order, own, strict=True), key=lambda pair: pair[0]))


def _kernel(name: str, kind: str, results: Sequence[Node], out: Callable[[Node], Argument]) -> Built:
    known = Parameters()
    first = results[0]
    entries = first.attributes["arguments"]
    names = [n for n, e in zip(ATTENTION_INPUTS[first.attributes["function"]], entries, strict=False) if e == TENSOR]
    values = dict(zip(names, first.inputs, strict=True))
    places = [(n, v, (place := layout(v)).strides, Pointer(place.root, place.offset)) for n, v in values.items()]
    pointers = {n: known.memory(pointer, v.dtype.short) for n, v, _, pointer in places}
    pointers |= {_name(node): known.memory(out(node), node.dtype.short) for node in results}
    lies = [(n, strides) for n, _, strides, _ in places] + [(_name(node), _strides(node)) for node in results]
    memory = []
    for n, strides in lies:
        cut = -1 if n in NUMBERS else -2
        steps = (*strides[cut:], *strides[:cut]) if cut == -2 else (strides[-1], 0, *strides[:-1])
        memory.append((n, pointers[n], tuple(map(known.amount, steps))))
    query, key, value = (values[n].type.shape for n in "qkv")
    extents = (query[-2], key[-2], query[-1], value[-1])
    causal, scale = entries[-2:]
    statement = loops.Attention(
        kind, tuple(memory), tuple(map(known.amount, extents)), tuple(map(known.amount, query[:-2])), causal, scale,
        values["q"].dtype.short,
    )  # fmt: skip
    kernel = known.kernel(name, statement, contract=True)
    work = sizes.mul(sizes.product((*query[:-1], key[-2])), sizes.add(query[-1], value[-1]))
    return Built(kernel, known.arguments, sizes.product(query[:-2]), work, 0, (first.source,))
