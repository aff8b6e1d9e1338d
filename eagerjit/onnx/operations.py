"""What ONNX has one operator for: (writer, value, *arguments) -> name of the result, or names of several.

None where the primitives must do.

Arguments are those of the library's op; tensors among them are nodes, whose names `value` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.onnx.rules import cast
from eagerjit.onnx.writer import Writer
from eagerjit.runtime import dtypes

Rule = Callable[..., str | list[str] | None]
Value = Callable[[Node], str]


def _along(kind: str) -> Rule:
    def rule(w: Writer, value: Value, input: Node, dim: int, dtype: Any) -> str:
        x = value(input) if dtype is None or dtype is input.dtype else cast(w, value(input), dtype)
        return w.node(kind, x, axis=dim)

    return rule


def _attention_weights(
    w: Writer, value: Value, scores: Node, mask: Node | None, causal: bool, scale: float, last: bool
) -> str | None:
    if mask is not None or causal:
        return None  # a row of which all is hidden is zeros, which ONNX's has not
    return w.node("Softmax", w.node("Mul", value(scores), w.constant(scale, scores.dtype)), axis=-1)


def _mean(w: Writer, value: Value, input: Node, dim: Any, keepdim: bool, dtype: Any) -> str | None:
    if dtype not in (None, input.dtype) or dim is None:
        return None
    axes = [dim] if isinstance(dim, int) else list(dim)
    return w.reduced("ReduceMean", value(input), axes, keepdim) if axes else None


def _pad(w: Writer, value: Value, input: Node, amounts: Any, mode: str, number: Any) -> str | None:
    amounts = [a if isinstance(a, int) else None for a in amounts]
    if mode != "constant" or None in amounts or isinstance(number, Node):
        return None
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    before, after = ([0] * (len(input.shape) - len(pairs)) + [pair[end] for pair in pairs] for end in (0, 1))
    return w.node("Pad", value(input), w.constant(before + after), w.constant(number or 0, input.dtype))


def _unary(kind: str, since: int = 0, **attributes: Any) -> Rule:
    def rule(w: Writer, value: Value, input: Node) -> str:
        w.since(since, kind)
        return w.node(kind, value(input), **attributes)

    return rule


def _slope(kind: str) -> Rule:
    return lambda w, value, input, alpha: w.node(kind, value(input), alpha=float(alpha))


def _gelu(w: Writer, value: Value, input: Node, approximate: str) -> str:
    w.since(20, "Gelu")
    return w.node("Gelu", value(input), approximate=approximate)


def _prelu(w: Writer, value: Value, input: Node, weight: Node) -> str:
    slope = value(weight)
    if weight.shape and input.shape:
        rest = len(input.shape) - 2
        slope = w.node("Reshape", slope, w.constant([-1] + [1] * rest)) if rest > 0 else slope
    return w.node("PRelu", value(input), slope)


def _given(w: Writer, value: Value, node: Node | None, shape: Any, number: float, dtype: Any) -> str:
    """A weight, or numbers that do what none does."""
    return value(node) if node is not None else w.constant(np.full(shape, number), dtype)


def _layer_norm(
    w: Writer, value: Value, input: Node, normalized_shape: Any, weight: Node | None, bias: Node | None, eps: float
) -> str:
    w.since(17, "LayerNormalization")
    shape = [w.known_size(d) for d in normalized_shape]
    scale = _given(w, value, weight, shape, 1.0, input.dtype)
    given = (value(input), scale, *((value(bias),) if bias is not None else ()))
    return w.node("LayerNormalization", *given, axis=-len(shape), epsilon=float(eps))


def _known_norm(
    w: Writer, value: Value, input: Node, mean: Node, variance: Node, weight: Node | None, bias: Node | None, eps: float
) -> str:
    scale = _given(w, value, weight, mean.shape, 1.0, mean.dtype)
    shift = _given(w, value, bias, mean.shape, 0.0, mean.dtype)
    given = value(input), scale, shift, value(mean), value(variance)
    return w.node("BatchNormalization", *given, epsilon=float(eps))


def _windows(kernel: Any, stride: Any, padding: Any) -> dict[str, Any]:
    return {"kernel_shape": list(kernel), "strides": list(stride), "pads": list(padding) * 2}


def _max_pool(
    w: Writer, value: Value, input: Node, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> str | None:
    if not input.dtype.is_floating_point:
        return None
    how = _windows(kernel, stride, padding)
    return w.node("MaxPool", value(input), dilations=list(dilation), ceil_mode=int(ceil_mode), **how)


def _avg_pool(
    w: Writer, value: Value, input: Node, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool,
    divisor: int | None,
) -> str | None:  # fmt: skip
    if divisor is not None or ceil_mode or not input.dtype.is_floating_point:
        return None
    return w.node("AveragePool", value(input), count_include_pad=int(include), **_windows(kernel, stride, padding))


def _convolution(
    w: Writer, value: Value, input: Node, weight: Node, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> str | None:
    if not isinstance(bias, Node) and bias is not None:
        return None
    given = value(input), value(weight), *((value(bias),) if bias is not None else ())
    how = {"strides": list(stride), "pads": list(padding) * 2, "dilations": list(dilation), "group": int(groups)}
    return w.node("Conv", *given, **how)


def _depthwise(
    w: Writer, value: Value, input: Node, weight: Node, bias: Any, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> str | None:
    return _convolution(w, value, input, weight, bias, stride, padding, dilation, w.known_size(weight.shape[0]))


def _linear(w: Writer, value: Value, input: Node, weight: Node, bias: Node | None) -> str | None:
    if len(weight.shape) != 2 or not input.shape or not input.dtype.is_floating_point:
        return None
    if len(input.shape) == 2:
        return w.node("Gemm", value(input), value(weight), *((value(bias),) if bias is not None else ()), transB=1)
    found = w.node("MatMul", value(input), w.node("Transpose", value(weight), perm=[1, 0]))
    return found if bias is None else w.node("Add", found, value(bias))


_GATES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "LSTM": ("LSTM", (0, 3, 1, 2), {}), "GRU": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "RNN_TANH": ("RNN", (0,), {}), "RNN_RELU": ("RNN", (0,), {"activations": ["Relu"]}),
}  # fmt: skip
"""ONNX's operator, which of our gates its first, second, ... one is, and its attributes."""


def _ordered(w: Writer, name: str, gates: tuple[int, ...]) -> str:
    """Rows of a weight, or a bias, gate by gate in ONNX's order."""
    if len(gates) == 1:
        return name
    parts = w.split(name, len(gates))
    return w.node("Concat", *(parts[g] for g in gates), axis=0)


def _recurrent(
    w: Writer, value: Value, kind: str, x: Node, initial: tuple[Node, ...], weight: Node, bias: Node | None, sizes: Any,
    reverse: bool, keep: bool = True,
) -> list[str] | None:  # fmt: skip
    """A layer in one direction, whose inputs were multiplied with their weight before."""
    called, given, _ = w.calls.get(x, ("", (), 0))
    if sizes is not None or called != "linear" or len(given[1].shape) != 2:
        return None
    operator, gates, attributes = _GATES[kind]
    input, of_input, input_bias = given
    hidden = w.known_size(weight.shape[1])
    first = w.constant([0])
    weights = [w.node("Unsqueeze", _ordered(w, value(n), gates), first) for n in (of_input, weight)]
    none = w.constant(np.zeros(hidden * len(gates)), weight.dtype)
    biases = [none if b is None else _ordered(w, value(b), gates) for b in (input_bias, bias)]
    both = w.node("Unsqueeze", w.node("Concat", *biases, axis=0), first)
    states = [w.node("Unsqueeze", value(s), first) for s in initial]
    found = w.nodes_of(
        operator, (value(input), *weights, both, "", *states), 1 + len(states), hidden_size=hidden,
        direction="reverse" if reverse else "forward", **attributes,
    )  # fmt: skip
    return [w.node("Squeeze", name, w.constant([1 if i == 0 else 0])) for i, name in enumerate(found)]


RULES: dict[str, Rule] = {
    "softmax": _along("Softmax"), "log_softmax": _along("LogSoftmax"), "relu": _unary("Relu"), "gelu": _gelu,
    "leaky_relu": _slope("LeakyRelu"), "elu": _slope("Elu"), "celu": _slope("Celu"), "mish": _unary("Mish", 18),
    "hardsigmoid": _unary("HardSigmoid", alpha=1 / 6, beta=0.5), "hardswish": _unary("HardSwish", 14), "prelu": _prelu,
    "layer_norm": _layer_norm, "known_norm": _known_norm, "max_pool": _max_pool, "max_pool_values": _max_pool,
    "attention_weights": _attention_weights, "mean": _mean, "pad": _pad, "avg_pool": _avg_pool,
    "convolution": _convolution, "depthwise_convolution": _depthwise, "linear": _linear, "recurrent_layer": _recurrent,
}  # fmt: skip
"""By the op's name."""
SEVERAL = frozenset({"recurrent_layer"})
"""Those with several results that ONNX has too."""
FLOATS = frozenset({dtypes.float32, dtypes.float64, dtypes.float16})
"""What these operators take everywhere."""
