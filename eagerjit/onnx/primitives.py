"""Primitives that are not elementwise in ONNX's operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.onnx.rules import Rule, cast, registering
from eagerjit.onnx.writer import Writer
from eagerjit.runtime import dtypes

RULES: dict[str, Rule] = {}
rule = registering(RULES)

# -- reductions -------------------------------------------------------------------------------------------------------

_REDUCED = {
    "sum": "ReduceSum", "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin", "all": "ReduceMin",
    "any": "ReduceMax",
}  # fmt: skip


@rule(*_REDUCED)
def _reduced(w: Writer, node: Node, x: str) -> str:
    logical = node.inputs[0].dtype is dtypes.bool_
    given = cast(w, x, dtypes.int32) if logical else x
    found = w.reduced(_REDUCED[node.op.name], given, node.attributes["axes"], False)
    return cast(w, found, dtypes.bool_) if logical else found


@rule("argmax", "argmin")
def _place(w: Writer, node: Node, x: str) -> str:
    kept = node.shape
    flat = w.node("Reshape", x, w.node("Concat", w.shape(kept), w.constant([-1]), axis=0)) if kept else None
    flat = flat or w.node("Reshape", x, w.constant([-1]))
    return w.node("ArgMax" if node.op.name == "argmax" else "ArgMin", flat, axis=len(kept), keepdims=0)


# -- views ------------------------------------------------------------------------------------------------------------


@rule("reshape")
def _reshape(w: Writer, node: Node, x: str) -> str:
    return w.node("Reshape", x, w.shape(node.shape), **({"allowzero": 1} if w.opset >= 14 else {}))


@rule("permute")
def _permute(w: Writer, node: Node, x: str) -> str:
    return w.node("Transpose", x, perm=list(node.attributes["dims"]))


@rule("expand")
def _expand(w: Writer, node: Node, x: str) -> str:
    old, new = node.inputs[0].shape, node.shape
    if len(old) == len(new) and all(w.settled(a) == w.settled(b) for a, b in zip(old, new, strict=True)):
        return x
    return w.node("Expand", x, w.shape(new))


def sliced(w: Writer, x: str, dim: int, start: Any, stop: Any, step: int) -> str:
    """Every step-th element along a dimension."""
    return w.node("Slice", x, w.shape((start,)), w.shape((stop,)), w.constant([dim]), w.constant([step]))


@rule("slice")
def _slice(w: Writer, node: Node, x: str) -> str:
    a = node.attributes
    if a["step"] == 1 and a["start"] == 0 and w.settled(a["stop"]) == w.settled(node.inputs[0].shape[a["dim"]]):
        return x
    return sliced(w, x, a["dim"], a["start"], a["stop"], a["step"])


@rule("flip")
def _flip(w: Writer, node: Node, x: str) -> str:
    dims = list(node.attributes["dims"])
    ends = (w.constant([value] * len(dims)) for value in (-1, np.iinfo(np.int64).min))
    return w.node("Slice", x, *ends, w.constant(dims), w.constant([-1] * len(dims))) if dims else x


# -- indices ----------------------------------------------------------------------------------------------------------


@rule("take_rows")
def _take_rows(w: Writer, node: Node, x: str, index: str) -> str:
    return w.node("Gather", x, index, axis=0)


@rule("gather")
def _gather(w: Writer, node: Node, x: str, index: str) -> str:
    return w.node("GatherElements", x, index, axis=node.attributes["dim"])


def _rows_at(w: Writer, index: str) -> str:
    return w.node("Unsqueeze", index, w.constant([-1]))


@rule("add_rows")
def _add_rows(w: Writer, node: Node, base: str, index: str, value: str) -> str:
    w.since(16, "adding at indices")
    return w.node("ScatterND", base, _rows_at(w, index), value, reduction="add")


@rule("put_rows")
def _put_rows(w: Writer, node: Node, base: str, index: str, value: str) -> str:
    return w.node("ScatterND", base, _rows_at(w, index), value)


_COMBINED = {"": "none", "mul": "mul", "maximum": "max", "minimum": "min"}


@rule("scatter", "scatter_add")
def _scatter(w: Writer, node: Node, base: str, index: str, value: str) -> str:
    how = "add" if node.op.name == "scatter_add" else _COMBINED[node.attributes["combine"]]
    if how == "none":
        return w.node("ScatterElements", base, index, value, axis=node.attributes["dim"])
    w.since(18 if how in ("min", "max") else 16, "combining at indices")
    return w.node("ScatterElements", base, index, value, axis=node.attributes["dim"], reduction=how)


def _replaced(w: Writer, base: str, value: str, rank: int, dim: int, start: Any, step: int, length: Any) -> str:
    """A tensor whose every step-th element along a dimension, from start on, is another's."""
    end = sizes.add(start, sizes.mul(length, step))
    places = w.node("Range", w.number(start), w.number(end), w.constant(step))
    across = w.node("Reshape", places, w.constant([-1 if d == dim else 1 for d in range(rank)]))
    index = w.node("Expand", across, w.node("Shape", value))
    return w.node("ScatterElements", base, index, value, axis=dim)


@rule("slice_scatter")
def _slice_scatter(w: Writer, node: Node, base: str, value: str) -> str:
    a, shown = node.attributes, node.inputs[1].shape
    return _replaced(w, base, value, len(shown), a["dim"], a["start"], a["step"], shown[a["dim"]])


@rule("replace_block")
def _replace_block(w: Writer, node: Node, base: str, value: str) -> str:
    starts, steps, shown = node.attributes["starts"], node.attributes["steps"], node.inputs[1].shape
    rank = len(shown)
    cut = [base]
    for dim in range(rank - 1):
        last = sizes.add(starts[dim], sizes.mul(sizes.add(shown[dim], -1), steps[dim]))
        cut.append(sliced(w, cut[-1], dim, starts[dim], sizes.add(last, 1), steps[dim]))
    for dim in reversed(range(rank)):
        value = _replaced(w, cut[dim], value, rank, dim, starts[dim], steps[dim], shown[dim])
    return value


@rule("cat")
def _cat(w: Writer, node: Node, *inputs: str) -> str:
    return w.node("Concat", *inputs, axis=node.attributes["dim"])


@rule("order")
def _order(w: Writer, node: Node, x: str) -> str:
    a = node.attributes
    given = cast(w, x, dtypes.uint8) if node.inputs[0].dtype is dtypes.bool_ else x
    how = {"axis": a["dim"], "largest": int(a["descending"]), "sorted": 1}
    return w.nodes_of("TopK", (given, w.shape((a["count"],))), 2, **how)[1]


@rule("scan")
def _scan(w: Writer, node: Node, x: str) -> str:
    if node.attributes["combine"] != "add":
        raise NotImplementedError(f"ONNX has no running {node.attributes['combine']}")
    return w.node("CumSum", x, w.constant(node.attributes["dim"]))


@rule("require")
def _require(w: Writer, node: Node, condition: str, x: str, same: str) -> str:
    return x  # ONNX checks nothing


# -- what is made -----------------------------------------------------------------------------------------------------


@rule("constant")
def _constant(w: Writer, node: Node) -> str:
    return w.constant(node.attributes["value"], node.dtype)


@rule("size_value")
def _size_value(w: Writer, node: Node) -> str:
    return w.number(node.attributes["size"])


@rule("iota")
def _iota(w: Writer, node: Node) -> str:
    size = w.settled(node.attributes["size"])
    if isinstance(size, int):
        return w.constant(np.arange(size), node.dtype)
    found = w.node("Range", w.constant(0), w.number(size), w.constant(1))
    return found if node.dtype is dtypes.int64 else cast(w, found, node.dtype)


# -- products ---------------------------------------------------------------------------------------------------------


@rule("matmul")
def _matmul(w: Writer, node: Node, a: str, b: str) -> str:
    return w.node("MatMul", a, b)


def sides(node: Node) -> dict[str, Any]:
    """What a convolution's attributes are called."""
    a = node.attributes
    return {
        "strides": list(a["stride"]), "pads": list(a["padding"]) * 2, "dilations": list(a["dilation"]),
        "group": a["groups"],
    }  # fmt: skip


@rule("convolution")
def _convolution(w: Writer, node: Node, x: str, weight: str) -> str:
    return w.node("Conv", x, weight, **sides(node))


@rule("convolution_input")
def _convolution_input(w: Writer, node: Node, y: str, weight: str) -> str:
    a = node.attributes
    kernel = [w.settled(k) for k in node.inputs[1].shape[2:]]
    more = []
    for d, size in enumerate(a["size"]):
        steps = sizes.mul(sizes.add(node.inputs[0].shape[d + 2], -1), a["stride"][d])
        reach = sizes.mul(sizes.add(kernel[d], -1), a["dilation"][d])
        least = sizes.add(sizes.add(steps, reach), 1 - 2 * a["padding"][d])
        more.append(w.settled(sizes.add(size, sizes.mul(least, -1))))
    if not all(isinstance(n, int) for n in more):
        raise NotImplementedError("ONNX's transposed convolutions have no sizes that differ from call to call")
    return w.node("ConvTranspose", y, weight, output_padding=more, **sides(node))
