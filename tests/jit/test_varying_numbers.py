"""How many versions a function has whose Python numbers change in every call."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

import eagerjit as ej
import eagerjit.nn.functional as F
from eagerjit.ops.pointwise import POINTWISE

KEPT = SimpleNamespace(temperature=1.0)


class Slotted:
    __slots__ = "offsets", "rate"

    def __init__(self) -> None:
        self.offsets, self.rate = ej.zeros(3), 1.0


SLOTTED = Slotted()


def compared(x: Any, i: int) -> Any:
    return x * 2 if 0.1 * 0.9**i > 0.05 else x + 1


def scheduled(x: Any, i: int) -> Any:
    return x * (0.5 * (1 + math.cos(math.pi * i / 100)))


def bounded(x: Any, i: int) -> Any:
    return x * max(0.25, min(1.0, i / 10))


def every_tenth(x: Any, i: int) -> Any:
    return x * i if i % 10 == 0 else x + i


def corrected(x: Any, i: int) -> Any:
    return x / (1 - 0.9 ** (i + 1)), x / math.sqrt(1 - 0.999 ** (i + 1))


def rows_and_columns(x: Any, i: int) -> Any:
    row, column = divmod(i, 7)
    return x * row + column, x + divmod(i * 0.3, 2)[1]


def rounded(x: Any, i: int) -> Any:
    return x * round(i * 0.37), x + round(i + 0), x - round((x.sum() * i).item() * 0.3)


def of_bits(x: Any, i: int) -> Any:
    aligned = (i + 7) & ~7
    return x * aligned + (i >> 1), x - (i << 2) + (i | 1), x + (i ^ 4) * ~i, x * 2 if i & 1 else x


def to_powers_of_two(x: Any, i: int) -> Any:
    return x * (1 << (i + 1).bit_length())


def kept(x: Any, i: int) -> Any:
    return x / KEPT.temperature


def kept_in_slots(x: Any, i: int) -> Any:
    return x * SLOTTED.rate + SLOTTED.offsets


def annealed(x: Any, i: int) -> Any:
    return (x + 1) ** (0.55 + i / 100), (x + 1) ** -(0.51 + i / 100)


def options_of_losses(x: Any, i: int) -> Any:
    rate, target = 0.95**i, x.flip(0) - 1
    near = F.huber_loss(x, target, delta=rate), F.smooth_l1_loss(x, target, beta=rate)
    far = F.margin_ranking_loss(x, target, -x.sign(), margin=rate), F.hinge_embedding_loss(x, x.sign(), margin=rate)
    likely = F.gaussian_nll_loss(x, target, x, eps=rate), F.poisson_nll_loss(x, target, log_input=False, eps=rate)
    return near, far, likely, F.triplet_margin_loss(x, target, x + 1, margin=rate)


def options_of_layers(x: Any, i: int) -> Any:
    rate, square = 0.95**i, x.expand(3, 3)
    attended = F.scaled_dot_product_attention(square, square, square, scale=rate)
    return attended, (x / 0).nan_to_num(rate, 2 * rate, -rate), ej.fake_quantize_per_tensor_affine(x, rate, 0, 0, 9)


def clipped(x: Any, i: int) -> Any:
    parameter = x.clone().requires_grad_()
    parameter.square().sum().backward()
    return ej.nn.utils.clip_grad_norm_(parameter, 0.95**i), parameter.grad


def orders_of_norms(x: Any, i: int) -> Any:
    order = 1.55 + i / 100
    distances = F.pairwise_distance(x, x + 1, order), ej.dist(x, x + 1, order)
    return distances, x.norm(order), F.normalize(x, order, 0), ej.renorm(x[:, None], order, 0, 1)


def drawn(x: Any, i: int) -> Any:
    ej.manual_seed(i)
    return F.alpha_dropout(x, 0.9 * 0.95**i, training=True), x.clone().geometric_(0.9 * 0.95**i)


def before_operators(x: Any, i: int) -> Any:
    base = 1.5 + i / 8
    return base**x, (i + 1) ** x, base % (x + 1), base // (x + 1), (i + 1) % (x + 1), (i + 1) // (x + 1)


def in_bins(x: Any, i: int) -> Any:
    rate, edges = 0.95**i, ej.arange(5)
    found = ej.bucketize(rate, x), ej.searchsorted(x, i, right=True), ej.bucketize(i, edges), ej.bucketize(rate, edges)
    return found, ej.histc(x, 4, -rate, 2 * rate), ej.histc(x, 3, max=i + 1)


@pytest.mark.parametrize(
    ("function", "most"),
    [(compared, 3), (scheduled, 2), (bounded, 4), (every_tenth, 2), (corrected, 2), (kept, 2), (rows_and_columns, 2),
     (rounded, 2), (of_bits, 2), (to_powers_of_two, 6), (kept_in_slots, 2),
     (before_operators, 2), (annealed, 2), (options_of_losses, 2), (options_of_layers, 2), (clipped, 2), (drawn, 2),
     (orders_of_norms, 2), (in_bins, 2)],
)  # fmt: skip
def test_versions(function: Any, most: int) -> None:
    jitted = ej.jit(function)
    x = ej.arange(3.0)
    for i in range(40):
        KEPT.temperature = SLOTTED.rate = 0.95**i
        SLOTTED.offsets = ej.full((3,), 0.1 * i)
        found, expected = jitted(x, i), function(x, i)
        assert str(found) == str(expected) and jitted.cache_info().eager_calls == 0
    assert jitted.cache_info().compiles <= most


EXPONENTS = (1.7, 1.9, 1.6, 0.0, 0.5, 1.5, 2.5, 3.0, 4.0, -0.5, -2.25, 1e-17, 2.00000001)


def test_exponents_that_need_no_power_function_are_told_apart() -> None:
    """Derivatives of any order have the plain call's bits, where the exponent becomes such a one on the way too."""

    def derivatives(power: Any, exponent: float) -> list[Any]:
        x = ej.tensor([0.3, 1.7, 2.9], requires_grad=True)
        found = [power(x, exponent)]
        while len(found) < 4 and found[-1].requires_grad:
            (gradient,) = ej.autograd.grad(found[-1].sum(), x, create_graph=True, allow_unused=True)
            found.append(ej.zeros(3) if gradient is None else gradient)
        return [part.tolist() for part in found]

    jitted = ej.jit(lambda x, exponent: x**exponent)
    for exponent in EXPONENTS:
        plain = derivatives(lambda x, exponent: x**exponent, exponent)
        assert str(derivatives(jitted, exponent)) == str(plain), exponent
    assert jitted.cache_info().compiles < len(EXPONENTS)
    assert not jitted.cache_info().eager_calls


def test_a_base_is_an_input_of_plain_powers() -> None:
    x = ej.arange(3.0, requires_grad=True)
    counts = []
    for i in range(6):
        (gradient,) = ej.autograd.grad(((1.1 + i) ** x).sum(), x)
        assert gradient.tolist() == pytest.approx([math.log(1.1 + i) * (1.1 + i) ** k for k in range(3)])
        counts.append(sum(map(len, POINTWISE["pow"].programs.values())))
    assert len(set(counts)) == 1


def test_a_recompile_names_an_int_that_decides() -> None:
    jitted = ej.jit(lambda x, n: x * hash(n / 3))
    for n in (5, 7):
        jitted(ej.arange(3.0), n)
    (reason,) = jitted.cache_info().reasons
    assert str(reason).startswith(("n was 5, is 7", "n1 == 7"))  # compiled just now, or found on disk


INTEGERS = (0, 1, -1, 5, -7, 255, 256, -256, 2**40 + 3, 2**62 - 1, 2**63 - 1, -(2**63))
MASKS = (0, 1, 7, 6, 5, 0xFF00, -1, -2, -8, -3, 2**40, 2**63 - 1, 2**64 - 1, True)


@pytest.mark.parametrize("mask", MASKS)
def test_bits_are_those_of_pythons_integers(mask: int) -> None:
    masked = ej.jit(lambda n: (n & mask, mask & n, n | mask, mask | n, n ^ mask, mask ^ n, ~n, n.bit_length()))
    shifted = ej.jit(lambda n: (n << mask % 70, n >> mask % 70))
    for n in INTEGERS:
        expected = n & mask, mask & n, n | mask, mask | n, n ^ mask, mask ^ n, ~n, n.bit_length()
        assert masked(n) == expected and shifted(n) == (n << mask % 70, n >> mask % 70)
    with pytest.raises(ValueError, match="negative shift count"):
        ej.jit(lambda n: n << -1)(3)


def test_rounding_and_quotients_are_pythons() -> None:
    rounds, divides = ej.jit(lambda x: round(x)), ej.jit(divmod)
    for x in (0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1e10, 1e17, 1e300, 3.49999):
        assert (type(rounds(x)), rounds(x)) == (int, round(x))
        for y in (2.5, -3.0, 1e-300, 7, math.inf):
            assert repr(divides(x, y)) == repr(divmod(x, y))
    for x, error in ((math.nan, ValueError), (math.inf, OverflowError)):
        with pytest.raises(error):
            rounds(x)
    with pytest.raises(ZeroDivisionError) as plain:
        divmod(1.0, 0.0)
    with pytest.raises(ZeroDivisionError, match=re.escape(str(plain.value))):
        divides(1.0, 0.0)


def test_python_numbers_are_conditions_of_a_full_graph_too() -> None:
    jitted = ej.jit(lambda x, rate: x * rate if rate > 0.5 else x + rate, fullgraph=True)
    for rate in (1.0, 0.25, 0.75, 0.1, 0.6):
        assert jitted(ej.ones(2), rate).tolist() == (ej.ones(2) * rate if rate > 0.5 else ej.ones(2) + rate).tolist()
    assert jitted.cache_info().compiles == 2


def test_a_number_taken_from_a_tensor_is_compared_in_the_compiled_call() -> None:
    jitted = ej.jit(lambda x: x * 2 if x.sum().item() > 1.0 else x - 1)
    for i in range(12):
        x = ej.full((3,), 0.1 * i)
        assert jitted(x).tolist() == (x * 2 if x.sum().item() > 1.0 else x - 1).tolist()
    assert jitted.cache_info().compiles == 2


def test_numbers_are_compared_under_vmap() -> None:
    def one(x: Any, rate: Any) -> Any:
        return (x * rate if rate > 0.5 else x + rate) * 0.9**rate

    jitted = ej.jit(lambda x, rate: ej.vmap(lambda row: one(row, rate))(x))
    gradient = ej.jit(lambda x, rate: ej.vmap(ej.func.grad(lambda row: (one(row, rate) ** 2).sum()))(x))
    for rate in (0.7, 0.2, 0.9, 0.1, 0.6):
        x = ej.arange(6.0).reshape(3, 2)
        assert jitted(x, rate).tolist() == one(x, rate).tolist()
        expected = ej.vmap(ej.func.grad(lambda row, rate=rate: (one(row, rate) ** 2).sum()))(x)
        assert gradient(x, rate).tolist() == expected.tolist()
    assert jitted.cache_info().eager_calls == gradient.cache_info().eager_calls == 0


def test_steps_of_windows() -> None:
    """How far apart windows lie decides the order of what is computed of them."""

    def doubled(x: Any, step: int) -> Any:
        return x.unfold(1, 2, step) * 2

    x = ej.arange(24.0).view(4, 6).T.contiguous().T
    jitted = ej.jit(doubled)
    for step in (2, 1, 3, 2, 4):
        found, expected = jitted(x, step), doubled(x, step)
        assert str(found) == str(expected) and found.stride() == expected.stride()
    assert jitted.cache_info().compiles <= 3 and not jitted.cache_info().eager_calls


def test_ends_and_steps_of_ranges_of_floats() -> None:
    """How many elements there are is a number of the call; times of solvers are such."""

    def times(x: Any, end: float, step: float) -> Any:
        down = ej.arange(end, step - 1.0, -step, dtype=ej.float64)
        return (ej.arange(0.0, end, step) * x).sum(), down, ej.arange(end)

    jitted, x = ej.jit(times), ej.tensor(2.0)
    for i in range(12):
        given = x, 1.0 + 0.3 * i, 0.1 + 0.01 * i
        assert str([t.tolist() for t in jitted(*given)]) == str([t.tolist() for t in times(*given)])
    assert jitted.cache_info().compiles <= 4 and not jitted.cache_info().eager_calls
    for given in ((x, math.inf, 0.1), (x, math.nan, 0.1), (x, 2.0, 0.0), (x, -1.0, 0.5)):
        with pytest.raises(RuntimeError) as expected:
            times(*given)
        with pytest.raises(RuntimeError, match=re.escape(str(expected.value))):
            jitted(*given)
