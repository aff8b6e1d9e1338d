"""Random numbers: Philox4x32-10 counted by element, the same in eager and compiled code.

A generator's state is a tensor (seed, offset). Element i of a draw uses the four words at counter offset + i, and the
draw advances the offset by its number of elements, an in-place write like any other: a jitted function draws anew at
each call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import elementwise
from eagerjit.devices import CPU
from eagerjit.generator import (  # noqa: F401  names of torch.random
    Generator,
    default_generator,
    fork_rng,
    generator_of,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from eagerjit.ops import ordering, searching
from eagerjit.ops.conditions import required
from eagerjit.ops.inplace import InplaceOp
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import expression
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.making import DRAW, LIKE, RANDINT, RANDPERM, MakeCall
from eagerjit.runtime.planned import Plan
from eagerjit.state import Defaults, state
from eagerjit.tensors.creation import finish, sizes_of
from eagerjit.tensors.fitting import integers_fit, places_fit
from eagerjit.tensors.making import makes
from eagerjit.tensors.mistakes import explained, planned
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.placement import NOWHERE, device_of
from eagerjit.tensors.tensor import Tensor

_DEFAULT_STATE = default_generator.state
_TOP_BITS = {dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}


def _state(generator: Generator | None, device: Any = None) -> Tensor:
    """The state of a generator; of the default one of a device, where tensors are made unless it is given.

    Raises RuntimeError for a generator of another kind of device.
    """
    place = device or state.device or CPU
    if generator is None or place is NOWHERE:
        return default_generator.state if place is CPU else generator_of(place).state
    if generator.device.type != place.type:
        raise RuntimeError(f"Expected a '{place.type}' device type for generator but found '{generator.device.type}'")
    return generator.state


def state_for(input: Tensor) -> Tensor:
    """The default state where a tensor lies."""
    return default_generator.state if type(input._data) is np.ndarray else _state(None, device_of(input))


# -- draws ------------------------------------------------------------------------------------------------------------


def draw(generator_state: Tensor, shape: Any, word: int) -> Tensor:
    """32 random bits per element, as int64."""
    return emit(elementwise.random_bits, generator_state, shape=tuple(map(expression, shape)), word=word)


def advance(generator_state: Tensor, shape: Any) -> None:
    """Move the state past a draw."""
    tracer = state.tracer
    assert tracer is not None
    count: Any = tracer.draws
    for d in shape:
        count = count * d
    step = emit(elementwise.iota, size=2, dtype=dtypes.int64) * count
    tracer.write(generator_state, tracer.value(generator_state + step), noticed=False)  # no gradient depends on it


def uniform(generator_state: Tensor, shape: Any, dtype: DType, word: int = 0) -> Tensor:
    """Reals in [0, 1): as many random bits as the dtype's fraction has. float64 takes the next word too."""
    bits = draw(generator_state, shape, word)
    if dtype is dtypes.float64:
        low = draw(generator_state, shape, word + 1).bitwise_and(0xFFFFF800)
        return as_dtype(bits, dtype) * 2.0**-32 + as_dtype(low, dtype) * 2.0**-64
    kept = 2**32 - 2 ** (32 - _TOP_BITS[dtype])
    return as_dtype(as_dtype(bits.bitwise_and(kept), dtypes.float32) * 2.0**-32, dtype)


def _rand(generator_state: Tensor, shape: Any, dtype: DType) -> Tensor:
    out = uniform(generator_state, shape, dtype)
    advance(generator_state, shape)
    return out


def _randn(generator_state: Tensor, shape: Any, dtype: DType) -> Tensor:
    """Box and Muller's transform of two uniform numbers."""
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    radius = (-2.0 * (1.0 - uniform(generator_state, shape, wide)).log()).sqrt()
    angle = uniform(generator_state, shape, wide, 2) * (2.0 * math.pi)
    out = as_dtype(radius * angle.cos(), dtype)
    advance(generator_state, shape)
    return out


def _randint(generator_state: Tensor, shape: Any, low: Any, high: Any, dtype: DType) -> Tensor:
    """low + floor(u * (high - low)) with 53 random bits."""
    u = uniform(generator_state, shape, dtypes.float64)
    span = high - low
    out = as_dtype(as_dtype((u * span).floor(), dtypes.int64) + low, dtype)
    advance(generator_state, shape)
    return out


def _randperm(generator_state: Tensor, shape: Any, dtype: DType) -> Tensor:
    """The order of as many uniform numbers."""
    return as_dtype(ordering.argsort(_rand(generator_state, shape, dtypes.float64)), dtype)


_rand_op = Op("rand", _rand, None, differentiable=False, shapes=("shape",))
_randn_op = Op("randn", _randn, None, differentiable=False, shapes=("shape",))
_randperm_op = Op("randperm", _randperm, None, differentiable=False, shapes=("shape",))
_randint_op = Op("randint", _randint, None, ("low", "high"), differentiable=False, shapes=("shape",))
_randint_op.fitting, _randperm_op.fitting = integers_fit, places_fit


def _floating(name: str, dtype: DType | None) -> DType:
    dtype = dtype or Defaults.dtype
    if not dtype.is_floating_point or dtype in dtypes.FLOAT8:
        raise NotImplementedError(f'"{name}" not implemented for {dtype}')
    return dtype


def _in_parts(op: Op, shape: Any, generator: Generator | None, dtype: DType) -> Tensor:
    """Complex numbers whose parts are drawn by an operation side by side."""
    from eagerjit.ops.complexes import complex as complex_of

    part = dtypes.float64 if dtype is dtypes.complex128 else dtypes.float32
    real, imag = op.call(_state(generator), (*shape, 2), part).unbind(-1)
    return complex_of(real, imag)


@makes
def rand(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [0, 1), in a shape given as sizes or as one sequence of them.

    Of the default dtype unless another floating or complex one is named, drawn from `generator`, or the stream that
    `manual_seed` starts. Raises NotImplementedError for dtypes of integers.
    """
    if dtype is not None and dtype.is_complex:
        return finish(_in_parts(_rand_op, sizes_of(size), generator, dtype), requires_grad)
    out = _rand_op.call(_state(generator), sizes_of(size), _floating("rand", dtype))
    return finish(out, requires_grad)


@makes
def randn(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal numbers; complex ones of variance 1, half of it in each part. Options are those of `rand`.

    By Box and Muller's transform (1958) of uniform numbers.
    """
    if dtype is not None and dtype.is_complex:
        return finish(_in_parts(_randn_op, sizes_of(size), generator, dtype) * math.sqrt(0.5), requires_grad)
    out = _randn_op.call(_state(generator), sizes_of(size), _floating("randn", dtype))
    return finish(out, requires_grad)


@makes
def randint(
    low: Any = 0, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers from low (0) up to but excluding high, in shape `size`, int64 unless another dtype is named.

    Raises RuntimeError unless low < high, TypeError for bounds that are no integers.
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if any(isinstance(x, float) or (isinstance(x, Tensor) and x.ndim) for x in (low, high)):
        raise TypeError("randint(): arguments 'low' and 'high' must be int, not float or Tensor")
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    if not high > low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    drawn = _randint_op.call(_state(generator), sizes_of((size,)), low, high, dtype or dtypes.int64)
    return finish(drawn, requires_grad)


@makes
def rand_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """Uniform numbers with the shape and dtype of input."""
    if not options and not (dtype or input.dtype).is_complex:
        return _rand_op.call(_state(None), tuple(input.shape), _floating("rand", dtype or input.dtype))
    return rand(tuple(input.shape), dtype=dtype or input.dtype, **options)


@makes
def randn_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """Standard normal numbers with the shape and dtype of input."""
    if not options and not (dtype or input.dtype).is_complex:
        return _randn_op.call(_state(None), tuple(input.shape), _floating("randn", dtype or input.dtype))
    return randn(tuple(input.shape), dtype=dtype or input.dtype, **options)


@makes
def randint_like(
    input: Tensor, low: Any = None, high: Any = None, *, dtype: DType | None = None, **options: Any
) -> Tensor:  # fmt: skip
    """Random integers with the shape and dtype of input."""
    if low is None and high is None:
        raise TypeError('randint_like() missing 1 required positional argument: "high"')
    if low is None or high is None:
        low, high = 0, low if high is None else high
    return randint(low, high, tuple(input.shape), dtype=dtype or input.dtype, **options)


@makes
def randperm(
    n: int, *, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The integers below n in random order: a vector of int64 unless another dtype is named."""
    drawn = _randperm_op.call(_state(generator), sizes_of((n,)), dtype or dtypes.int64)
    return finish(drawn, requires_grad)


def _drawing(kind: int, function: Any, op: Op) -> MakeCall:
    return MakeCall(kind, explained(function), (op.call, _DEFAULT_STATE))


rand, rand_like = _drawing(DRAW, rand, _rand_op), _drawing(LIKE + DRAW, rand_like, _rand_op)
randint, randperm = _drawing(RANDINT, randint, _randint_op), _drawing(RANDPERM, randperm, _randperm_op)
randn, randn_like = _drawing(DRAW, randn, _randn_op), _drawing(LIKE + DRAW, randn_like, _randn_op)


def _deviation(std: Tensor) -> Tensor:
    """std, which is refused where it is negative."""
    return required(std >= 0.0, std, "RuntimeError", "normal expects all elements of std >= 0.0")


_deviation_op = Op("normal_deviation", _deviation)


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, out: Tensor | None = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """Normal numbers of a mean and a standard deviation, each a number or a tensor, which broadcast; or in shape
    `size`.

    Raises RuntimeError for a negative deviation, TypeError for two numbers without `size`.
    """
    if isinstance(std, (int, float)) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if isinstance(std, Tensor):
        std = _deviation_op.call(std)
    if size is None:
        if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
            raise TypeError(f"normal(): argument 'mean' (position 1) must be Tensor, not {type(mean).__name__}")
        if options:
            raise TypeError(f"normal() got an unexpected keyword argument '{next(iter(options))}'")
        shaped = mean if isinstance(mean, Tensor) else std
        if isinstance(mean, Tensor) and isinstance(std, Tensor):
            shaped = mean + std
        drawn = randn(tuple(shaped.shape), generator=generator, dtype=shaped.dtype, device=shaped.device) * std + mean
        drawn = drawn.to(mean.dtype) if isinstance(mean, Tensor) else drawn
    else:
        drawn = randn(size, generator=generator, **options) * std + mean
    return drawn if out is None else write_out("normal", drawn, out)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn with probabilities proportional to a vector of weights, or to each row of a matrix: int64.

    Without `replacement` no index occurs twice. Raises RuntimeError for weights that are negative, infinite, NaN or all
    0, for integers, and for more samples than weights without replacement.
    """
    if type(num_samples) is not int and not hasattr(num_samples, "__index__"):
        kind = type(num_samples).__name__
        raise TypeError(f"multinomial(): argument 'num_samples' (position 2) must be int, not {kind}")
    sizes = input.shape
    if not 0 < len(sizes) < 3:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > sizes[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    repeated = replacement and num_samples > 1
    shape = (*sizes[:-1], num_samples) if repeated else tuple(sizes)
    u = _rand_op.call(_state(generator, input.device), shape, dtypes.float64)
    return _multinomial.call(input, u, num_samples, repeated)


def _drawn_categories(weights: Tensor, u: Tensor, count: int, repeated: bool) -> Tensor:
    """Categories by the inverse of the cumulated weights; without repetition those whose exponential clocks of rates
    `weights` ring first."""
    if not weights.dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    rows = as_dtype(weights, dtypes.float64)
    if repeated:
        sums = rows.cumsum(-1)
        found = searching.places(sums, u * sums[..., -1:], True).clamp(max=rows.shape[-1] - 1)
    else:
        clocks = (-u).log1p() / rows.where(rows != 0.0, 1e-300)
        found = ordering.in_order(clocks, clocks.ndim - 1, count, True)[1]
    usual = (rows >= 0.0).logical_and(rows < math.inf).all()
    message = "probability tensor contains either `inf`, `nan` or element < 0"
    found = required(usual, found, "RuntimeError", message)
    some = (rows.sum(-1) > 0.0).all()
    return required(some, found, "RuntimeError", "invalid multinomial distribution (sum of probabilities <= 0)")


_multinomial = Op("multinomial", _drawn_categories, differentiable=False)


# -- in place ---------------------------------------------------------------------------------------------------------


def _unmoved(g: Any, out: Any, input: Any, *arguments: Any) -> Any:
    """What is overwritten has no gradient."""
    return g.new_zeros(input.shape)


def _normal_like(input: Tensor, mean: Any, std: Any, generator_state: Tensor = _DEFAULT_STATE) -> Tensor:
    """Normal numbers in input's shape and dtype."""
    return _randn(generator_state, tuple(input.shape), _floating("normal_", input.dtype)) * std + mean


def _uniform_like(input: Tensor, a: Any, b: Any, generator_state: Tensor = _DEFAULT_STATE) -> Tensor:
    """Uniform numbers in input's shape and dtype."""
    return _rand(generator_state, tuple(input.shape), _floating("uniform_", input.dtype)) * (b - a) + a


_NO_RULES = (_unmoved, None, None, None)
_fill_normal = InplaceOp(Op("normal_like", _normal_like, _NO_RULES, ("mean", "std"))).method()
_fill_uniform = InplaceOp(Op("uniform_like", _uniform_like, _NO_RULES, ("a", "b"))).method()


@planned
def normal_(self: Tensor, mean: Any = 0.0, std: Any = 1.0, generator: Generator | None = None) -> Plan:
    """Fill with normal numbers, complex ones with half the variance in each part. RuntimeError for a negative `std`."""
    if isinstance(std, (int, float)) and std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
    if self.dtype.is_complex:
        return _fill_complex, (self, randn, std, mean, generator)
    return _fill_normal, (self, mean, std, *_source(self, generator))


@planned
def uniform_(self: Tensor, a: Any = 0.0, b: Any = 1.0, generator: Generator | None = None) -> Plan:
    """Fill with uniform numbers in [a, b). RuntimeError where a > b, NotImplementedError for integers."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    if self.dtype.is_complex:
        return _fill_complex, (self, rand, b - a, a * (1 + 1j), generator)
    return _fill_uniform, (self, a, b, *_source(self, generator))


def _fill_complex(self: Tensor, draws: Any, scale: Any, shift: Any, generator: Generator | None) -> Tensor:
    """Fill with scaled and shifted complex numbers."""
    drawn = draws(tuple(self.shape), dtype=self.dtype, generator=generator, device=self.device)
    return self.copy_(drawn * scale + shift)


def _source(target: Tensor, generator: Generator | None) -> tuple[Tensor, ...]:
    """The state to draw from, unless it is the one that operators have by default."""
    chosen = _state(generator, device_of(target))
    return () if chosen is _DEFAULT_STATE else (chosen,)


for _method in (normal_, uniform_):
    setattr(Tensor, _method.__name__, _method)
