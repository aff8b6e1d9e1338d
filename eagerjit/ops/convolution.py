"""Convolutions, their transposes and gradients.

Three ops are each other's gradients: the output from input and weight, the input's gradient from output and weight,
which is also the transposed convolution, and the weight's gradient from output and input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.autograd.formal import TOGETHER
from eagerjit.autograd.primitives import RULES
from eagerjit.calling.dispatch import COMPLEX_FORMS, Op, emit
from eagerjit.calling.spatial import SpatialOp
from eagerjit.compiler.ops import convolution as primitives
from eagerjit.ops import views
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import expression
from eagerjit.runtime import dtypes
from eagerjit.runtime.parameters import parameters
from eagerjit.runtime.planned import Plan
from eagerjit.state import state
from eagerjit.tensors.fitting import whole, wholes
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.moving import contiguous
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor

Numbers = tuple[int, ...]


# -- the three ops ----------------------------------------------------------------------------------------------------


def _computed(x: Tensor) -> Tensor:
    """The tensor in row-major order and in a dtype that BLAS has: integers are exact as far as float64 is."""
    dtype = x.dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        dtype = dtypes.float32
    elif not dtype.is_floating_point:
        dtype = dtypes.float64
    return contiguous(as_dtype(x, dtype))


def _short(*factors: Tensor) -> dict[str, bool]:
    """What the primitives are told of factors that are computed with in another dtype."""
    return {"short": True} if all(x.dtype is dtypes.bfloat16 for x in factors) else {}


def biased(out: Tensor, bias: Tensor | None, dtype: Any) -> Tensor:
    if bias is not None:
        out = out + as_dtype(bias, out.dtype).reshape((-1, *(1,) * (out.ndim - 2)))
    return as_dtype(out, dtype)


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Numbers, padding: Numbers, dilation: Numbers,
    groups: int,
) -> Tensor:  # fmt: skip
    """Sums over channels and kernel of input times weight, plus bias; see `conv2d`."""
    out = emit(
        primitives.convolution, _computed(input), _computed(weight),
        stride=stride, padding=padding, dilation=dilation, groups=groups, **_short(input, weight),
    )  # fmt: skip
    return biased(out, bias, input.dtype)


def _convolution_input(
    output: Tensor, weight: Tensor, bias: Tensor | None, size: Any, stride: Numbers, padding: Numbers,
    dilation: Numbers, groups: int,
) -> Tensor:  # fmt: skip
    """The gradient of a convolution for an input of spatial sizes `size`, plus bias; see `conv_transpose2d`."""
    out = emit(
        primitives.convolution_input, _computed(output), _computed(weight), size=tuple(map(expression, size)),
        stride=stride, padding=padding, dilation=dilation, groups=groups, **_short(output, weight),
    )  # fmt: skip
    return biased(out, bias, output.dtype)


def _convolution_weight(
    output: Tensor, input: Tensor, size: Any, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> Tensor:
    """The gradient of a convolution for a weight of kernel sizes `size`."""
    out = emit(
        primitives.convolution_weight, _computed(output), _computed(input), size=tuple(map(expression, size)),
        stride=stride, padding=padding, dilation=dilation, groups=groups, **_short(output, input),
    )  # fmt: skip
    return as_dtype(out, output.dtype)


def _cut(x: Tensor, like: Tensor) -> Tensor:
    """The first points along each spatial dimension: a transposed convolution's output may have room for more."""
    for d in range(2, x.ndim):
        if x.shape[d] != like.shape[d]:
            x = views.narrow(x, d, 0, like.shape[d])
    return x


def _bias_gradient(g: Any) -> Any:
    return g.sum((0, *range(2, g.ndim)))


def _lays_out(arguments: tuple[Any, ...]) -> bool:
    """All but volumes of float64, as in PyTorch."""
    return arguments[0].ndim != 5 or arguments[0].dtype is not dtypes.float64


def _by_parts(op: Op, name: str) -> Op:
    """What an op linear in two tensors, and in a bias perhaps, is for complex ones: that of their parts."""

    def body(first: Tensor, second: Tensor, *rest: Any) -> Tensor:
        from eagerjit.ops.complexes import complex, imag, real

        bias, *how = rest
        dtype = result_type(first, second)
        (a, b), (c, d) = ((real(x), imag(x)) for x in (as_dtype(first, dtype), as_dtype(second, dtype)))
        biased_ = isinstance(bias, Tensor)
        both = (real(as_dtype(bias, dtype)), imag(as_dtype(bias, dtype))) if biased_ else (bias, bias)
        without = None if biased_ else bias
        return complex(
            op.call(a, c, both[0], *how) - op.call(b, d, without, *how),
            op.call(a, d, both[1], *how) + op.call(b, c, without, *how),
        )

    body.takes = parameters(op.body)  # type: ignore[attr-defined]
    shapes = ("size",) if "size" in op.parameters else ()
    made = COMPLEX_FORMS[op.name] = SpatialOp(f"complex_{name}", body, shapes=shapes)
    made.wirtinger, made.leading = True, (0, 1)
    return made


convolution = SpatialOp(
    "convolution",
    _convolution,
    (
        lambda g, out, x, w, b, *how: convolution_input.call(g, w, None, tuple(x.shape[2:]), *how),
        lambda g, out, x, w, b, *how: convolution_weight.call(g, x, tuple(w.shape[2:]), *how),
        lambda g, out, x, w, b, *how: _bias_gradient(g),
        *(None,) * 4,
    ),
)
convolution_input = SpatialOp(
    "convolution_input",
    _convolution_input,
    (
        lambda g, out, y, w, b, size, *how: _cut(convolution.call(g, w, None, *how), y),
        lambda g, out, y, w, b, size, *how: convolution_weight.call(y, g, tuple(w.shape[2:]), *how),
        lambda g, out, y, w, b, size, *how: _bias_gradient(g),
        *(None,) * 5,
    ),
    shapes=("size",),
)
convolution_weight = SpatialOp(
    "convolution_weight",
    _convolution_weight,
    (
        lambda g, out, y, x, size, *how: _cut(convolution.call(x, g, None, *how), y),
        lambda g, out, y, x, size, *how: convolution_input.call(y, g, None, tuple(x.shape[2:]), *how),
        *(None,) * 5,
    ),
    shapes=("size",),
)
for _op in (convolution, convolution_input, convolution_weight):
    _op.leading, _op.lays_out, _op.follows = (0, 1), _lays_out, True
for _op in (convolution, convolution_input):
    _op.formal = TOGETHER
    _by_parts(_op, _op.name)


def _rules(op: Op, *bias: None) -> tuple[Callable[..., Tensor], ...]:
    """The rules of an op's two factors, for the primitive that it is made of."""

    def rule(position: int) -> Callable[..., Tensor]:
        def gradient(g: Tensor, out: Tensor, a: Tensor, b: Tensor, **how: Any) -> Tensor:
            size = [how["size"]] if "size" in how else []
            steps = how["stride"], how["padding"], how["dilation"], expression(how["groups"])
            return op.rules[position](g, out, a, b, *bias, *size, *steps)  # type: ignore[index, misc]

        return gradient

    return rule(0), rule(1)


RULES[primitives.convolution] = _rules(convolution, None)
RULES[primitives.convolution_input] = _rules(convolution_input, None)
RULES[primitives.convolution_weight] = _rules(convolution_weight)


# -- the functions ----------------------------------------------------------------------------------------------------


def numbers(name: str, value: Any, rank: int) -> Numbers:
    """One int per spatial dimension from one for all, or from one each. Raises RuntimeError for other counts."""
    if not isinstance(value, (tuple, list)):
        return (whole(value),) * rank
    if len(value) == 1:
        return wholes(value) * rank
    if len(value) != rank:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match the convolution "
            f"dimensions, but got {name}={list(value)}"
        )
    return wholes(value)


def _check(
    name: str, input: Tensor, weight: Tensor, bias: Tensor | None, rank: int, groups: int, **options: Numbers
) -> None:
    """The errors that both kinds of convolution share."""
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
    if weight.ndim != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 2}-dimensional weight for {rank + 2}-dimensional input {list(input.shape)}, but got "
            f"weight of size {list(weight.shape)} instead"
        )
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    for option, values in options.items():
        least = 0 if "padding" in option else 1
        if any(v < least for v in values):
            raise RuntimeError(f"{'negative' if least == 0 else 'non-positive'} {option} is not supported")
    if 0 in weight.shape[2:]:
        raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {list(weight.shape[2:])}")
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight.shape)} instead"
        )
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not input.dtype and state.casting is None:
            raise RuntimeError(f"{name}: Input type ({input.dtype}) and {what} type ({other.dtype}) should be the same")


def _check_bias(weight: Tensor, bias: Tensor | None, rows: Any, transposed: str) -> None:
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != rows):
        raise RuntimeError(
            f"Given {transposed}weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {rows} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )


def _by_channels(size: Any) -> str:
    return f"({' x '.join(map(str, size))})"


def _same_padding(input: Tensor, kernel: Any, stride: Numbers, dilation: Numbers) -> tuple[Tensor, Numbers]:
    """(input with the zeros that a symmetric padding lacks, the symmetric padding) that keep the size."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    from eagerjit.ops.padding import pad

    totals = [d * (int(k) - 1) for d, k in zip(dilation, kernel, strict=True)]
    if any(t % 2 for t in totals):
        input = pad(input, [x for t in reversed(totals) for x in (0, t % 2)])
    return input, tuple(t // 2 for t in totals)


def _forward(
    name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Plan:  # fmt: skip
    groups = whole(groups)
    steps, spread = numbers("stride", stride, rank), numbers("dilation", dilation, rank)
    text = padding if isinstance(padding, str) else ""
    if text not in ("", "same", "valid"):
        raise RuntimeError(f"Invalid padding string: '{text}'")
    zeros = (0,) * rank if text else numbers("padding", padding, rank)
    _check(name, input, weight, bias, rank, groups, stride=steps, padding=zeros, dilation=spread)
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    batched = input.ndim == rank + 2
    if input.shape[int(batched)] != weight.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {input.shape[int(batched)]} channels instead"
        )
    _check_bias(weight, bias, weight.shape[0], "")
    kernel = weight.shape[2:]
    if text == "same":
        input, zeros = _same_padding(input, kernel, steps, spread)
    padded = [n + 2 * p for n, p in zip(input.shape[int(batched) + 1 :], zeros, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(spread, kernel, strict=True)]
    if any(r > n for r, n in zip(reach, padded, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: {_by_channels(padded)}. Kernel size: {_by_channels(reach)}. "
            "Kernel size can't be greater than actual input size"
        )
    op, how = _by_channel(input, weight, steps, zeros, spread, groups)
    if batched:
        return op.call, (input, weight, bias, *how)
    return (lambda *arguments: op.call(*arguments).squeeze(0)), (contiguous(input).unsqueeze(0), weight, bias, *how)


def _by_channel(
    x: Tensor, weight: Tensor, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> tuple[Op, tuple[Any, ...]]:
    """The op to call and its last arguments: another one where every channel has a kernel of its own, not too large."""
    plain = convolution, (stride, padding, dilation, groups)
    if groups == 1 or weight.shape[0] != groups or weight.shape[1] != 1 or not x.dtype.is_floating_point:
        return plain
    from eagerjit.ops.depthwise import depthwise, kernel_of

    kernel = kernel_of(weight, padding, dilation)
    return plain if kernel is None else (depthwise, (kernel, stride, padding, dilation))


def _transposed(
    name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Plan:  # fmt: skip
    groups = whole(groups)
    steps, zeros = numbers("stride", stride, rank), numbers("padding", padding, rank)
    spread, extra = numbers("dilation", dilation, rank), numbers("output_padding", output_padding, rank)
    options = {"stride": steps, "padding": zeros, "dilation": spread, "output_padding": extra}
    _check(name, input, weight, bias, rank, groups, **options)
    batched = input.ndim == rank + 2
    if input.shape[int(batched)] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[0]} channels, but got {input.shape[int(batched)]} channels instead"
        )
    _check_bias(weight, bias, weight.shape[1] * groups, "transposed=1, ")
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, spread, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding: {list(extra)}, "
            f"stride: {list(steps)}, dilation: {list(spread)}"
        )
    before = input.shape[int(batched) + 1 :]
    if any(n == 0 for n in before):
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input.shape)}"
        )
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(before, steps, zeros, spread, weight.shape[2:], extra, strict=True)
    )
    if any(n <= 0 for n in size):
        raise RuntimeError(
            f"Given input size per channel: {_by_channels(before)}. Calculated output size per channel: "
            f"{_by_channels(size)}. Output size is too small"
        )
    op, how = convolution_input.call, (size, steps, zeros, spread, groups)
    if batched:
        return op, (input, weight, bias, *how)
    return (lambda *arguments: op(*arguments).squeeze(0)), (contiguous(input).unsqueeze(0), weight, bias, *how)


def _function(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Plan:  # fmt: skip
        return _forward(f"conv{rank}d", rank, input, weight, bias, stride, padding, dilation, groups)

    shapes = "(rows, channels / groups, kernel...)", "(batch, rows, ...)"
    return planned(_described(function, f"conv{rank}d", rank, *shapes))


def _transposed_function(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Plan:  # fmt: skip
        return _transposed(
            f"conv_transpose{rank}d", rank, input, weight, bias, stride, padding, output_padding, groups, dilation
        )

    shapes = "(channels, rows / groups, kernel...)", "(batch, rows, ...)"
    return planned(_described(function, f"conv_transpose{rank}d", rank, *shapes))


def _described(function: Callable[..., Any], name: str, rank: int, weight: str, out: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    kind = "convolution"
    if "transpose" in name:
        kind = "transposed convolution, a convolution's gradient for its input,"
    function.__doc__ = (
        f"The {kind} over {rank} spatial dimension{'s' * (rank > 1)}.\n\ninput (batch, channels, ...) or (channels, "
        f"...) with weight {weight} and bias (rows)\ngives {out}, whose sizes the layer of this name "
        "describes. Raises RuntimeError where shapes or\ndtypes do not fit."
    )
    return function


conv1d, conv2d, conv3d = map(_function, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed_function, (1, 2, 3))
