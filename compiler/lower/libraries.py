"""What steps that are done by a library's routines work on."""

from __future__ import annotations

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import convolution
from eagerjit.compiler.ops.host import NONE, TENSOR

OUTPUT_OF, INPUT_OF, WEIGHT_OF = range(3)
RESULT = {
    convolution.convolution: OUTPUT_OF,
    convolution.convolution_input: INPUT_OF,
    convolution.convolution_weight: WEIGHT_OF,
}
"""Which of a convolution's three tensors a primitive computes."""


def operands(node: Node) -> tuple[Node, Node, Node]:
    """A convolution's input, weight and output, one of which is the node."""
    first, second = node.inputs
    match RESULT[node.op]:
        case 0:
            return first, second, node
        case 1:
            return node, second, first
    return second, node, first


def spatial(node: Node) -> list[sizes.Expr]:
    """Input, kernel, output, stride, padding and dilation of the three spatial dimensions, the outermost first."""
    x, w, y = operands(node)
    rank = len(node.type.shape) - 2
    words: list[sizes.Expr] = [1, 1, 1, 1, 0, 1] * (3 - rank)
    for d in range(rank):
        words += (x.type.shape[d + 2], w.type.shape[d + 2], y.type.shape[d + 2])
        words += [node.attributes[name][d] for name in ("stride", "padding", "dilation")]
    return words


def multiplications(node: Node) -> sizes.Expr:
    """Multiplications of a product or a convolution."""
    if node.op not in RESULT:
        return sizes.mul(node.type.numel, node.inputs[0].type.shape[-1])
    _, w, y = operands(node)
    return sizes.mul(y.type.numel, sizes.product(w.type.shape[1:]))


ATTENTION_INPUTS = {
    "flash_attention": ("q", "k", "v", "mask"),
    "flash_gradients": ("g", "q", "k", "v", "mask", "lse", "delta"),
}
"""The tensors that the functions take; the other arguments are whether it is causal, and the scale."""
ATTENTION_RESULTS = {"flash_attention": ("out", "lse"), "flash_gradients": ("dq", "dk", "dv")}


def is_attention(node: Node) -> bool:
    """Whether kernels compute what this call of the host does."""
    if node.op.family != "host" or node.attributes["function"] not in ATTENTION_INPUTS:
        return False
    count = len(ATTENTION_INPUTS[node.attributes["function"]])
    return all(e in (TENSOR, NONE) for e in node.attributes["arguments"][:count])

