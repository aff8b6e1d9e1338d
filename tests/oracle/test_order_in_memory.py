"""Strides of results of elementwise work beside PyTorch's, whose results lie in the order of their operands."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

MATRIX = np.random.default_rng(0).uniform(0.1, 0.9, (6, 4)).astype(np.float32)
IMAGE = np.random.default_rng(1).uniform(0.1, 0.9, (2, 3, 4, 5)).astype(np.float32)

LAYOUTS: dict[str, Any] = {
    "row_major": lambda m: m,
    "transposed": lambda m: m.T.contiguous().T,
    "every_other_column": lambda m: m.repeat_interleave(2, 1)[:, ::2],
    "part_of_transposed": lambda m: m.repeat(2, 1).T.contiguous().T[len(m) // 2 : len(m) // 2 + len(m)],
    "every_other_row_of_transposed": lambda m: m.repeat_interleave(2, 0).T.contiguous().T[::2],
    "row": lambda m: m[0],
    "column": lambda m: m[:, :1],
    "spread_row": lambda m: m[:1].expand(m.shape),
    "spread_column": lambda m: m[:, :1].expand(m.shape),
    "number": lambda m: m[0, 0],
    "overlapping": lambda m: m.reshape(-1).as_strided(m.shape, (1, 1)),
}
UNARY = (
    "exp sin sqrt neg abs relu sigmoid tanh reciprocal floor acosh lgamma digamma isnan logical_not clone frac square "
    "logit nan_to_num signbit erf i0 zeros_like ones_like empty_like"
).split()
BINARY = (
    "add mul div pow maximum fmin atan2 hypot xlogy logaddexp eq lt copysign nextafter remainder floor_divide fmod "
    "float_power heaviside"
).split()
FUNCTIONS: dict[str, Any] = {
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "silu": lambda t, x: t.nn.functional.silu(x),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x),
    "softplus": lambda t, x: t.nn.functional.softplus(x),
    "clamp": lambda t, x: x.clamp(0.2, 0.7),
    "double": lambda t, x: x.double(),
    "bool": lambda t, x: x.to(t.bool),
    "addcmul": lambda t, x: t.addcmul(x, x, x),
    "lerp": lambda t, x: t.lerp(x, x + 1, 0.5),
    "where": lambda t, x: t.where(x > 0.5, x, 0.0),
    "masked_fill": lambda t, x: x.masked_fill(x > 0.5, 0.0),
    "frexp": lambda t, x: t.frexp(x)[1],
    "rsub": lambda t, x: 1 - x,
    "flip": lambda t, x: x.flip(-1),
    "sort": lambda t, x: x.sort(0)[0],
    "sort_indices": lambda t, x: x.sort(descending=True)[1],
    "argsort": lambda t, x: x.argsort(),
    "nonzero": lambda t, x: (x > 0.5).nonzero(),
    "argwhere": lambda t, x: t.argwhere(x > 0.5),
    "dropout": lambda t, x: t.nn.functional.dropout(x, 0.5),
    "rand_like": lambda t, x: t.rand_like(x),
    "full_like": lambda t, x: t.full_like(x, 2.0, dtype=t.float64),
    "written": lambda t, x: (x + 1).mul_(2),
    "copied_in_order": lambda t, x: x.clone(memory_format=t.contiguous_format),
    "contiguous": lambda t, x: x.contiguous(),
    "ravel": lambda t, x: x.ravel(),
    "softmax": lambda t, x: t.softmax(x, -1),
    "isreal": lambda t, x: x.isreal(),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=0),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x + 1, reduction="none"),
    "l1_loss": lambda t, x: t.nn.functional.l1_loss(x, x + 1, reduction="none"),
    "smooth_l1_loss": lambda t, x: t.nn.functional.smooth_l1_loss(x, x + 1, reduction="none"),
    "huber_loss": lambda t, x: t.nn.functional.huber_loss(x, x + 1, reduction="none"),
    "logits": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x, reduction="none"),
    "kl_div": lambda t, x: t.nn.functional.kl_div(x, x, reduction="none"),
    "poisson_nll_loss": lambda t, x: t.nn.functional.poisson_nll_loss(x, x, reduction="none"),
    "expanded": lambda t, x: t.permute_copy(x, tuple(range(x.ndim))),
    "power_of_number": lambda t, x: 2.5**x,
    "float_power_of_number": lambda t, x: t.float_power(2, x),
    "angle": lambda t, x: (x * 1j).angle(),
    "renorm": lambda t, x: x.renorm(2, 0, 1.0) if x.ndim > 1 else x,
    "masked_scatter": lambda t, x: x.masked_scatter(x > 0.5, t.ones(24)),
    "logsigmoid": lambda t, x: t.nn.functional.logsigmoid(x),
    "rrelu": lambda t, x: t.nn.functional.rrelu(x),
    "rrelu_drawn": lambda t, x: t.nn.functional.rrelu(x, training=True),
    "mvlgamma": lambda t, x: t.mvlgamma(x + 3, 2),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x, x.shape[-1:]) if x.ndim else x,
    "index_fill": lambda t, x: x.index_fill(-1, t.tensor([0]), 3.0),
}


def _laid(x: Any) -> Any:
    """Shape and strides; those of dimensions of one size differ without meaning."""
    if 0 in x.shape:
        return tuple(x.shape), x.is_contiguous()
    return tuple(x.shape), tuple(s for d, s in zip(x.shape, x.stride(), strict=True) if d != 1), x.is_contiguous()


def _same(call: Any) -> None:
    """Compare the results of a call with torch's names, plain and compiled."""
    expected = call(torch)
    for results in (call(ej), ej.jit(lambda: call(ej))()):
        for made, wanted in zip(results, expected, strict=True):
            assert _laid(made) == _laid(wanted)
            assert made._base is None or wanted._base is not None


@pytest.mark.parametrize("name", [*UNARY, *FUNCTIONS])
def test_results_of_one_operand(name: str) -> None:
    call = FUNCTIONS.get(name) or (lambda t, x: getattr(t, name)(x))
    _same(lambda t: [call(t, laid(t.tensor(MATRIX))) for laid in LAYOUTS.values()])


@pytest.mark.parametrize("first", LAYOUTS)
def test_sums_of_two_operands(first: str) -> None:
    _same(lambda t: [LAYOUTS[first](t.tensor(MATRIX)) + laid(t.tensor(MATRIX)) for laid in LAYOUTS.values()])


def test_calls_in_any_sequence() -> None:
    """Programs of some layouts serve others that they fit, and no others."""
    cases = [(rows, *pair) for rows in (2, 3, 4) for pair in itertools.product(LAYOUTS.values(), repeat=2)]
    compiled = ej.jit(lambda x, y: x + y)
    for rows, first, second in (cases[i] for i in np.random.default_rng(3).permutation(len(cases))):
        matrix = MATRIX[:rows, :3]
        expected, plain, jitted = (
            add(first(t.tensor(matrix)), second(t.tensor(matrix)))
            for t, add in ((torch, torch.add), (ej, ej.add), (ej, compiled))
        )
        assert _laid(plain) == _laid(expected) == _laid(jitted)


@pytest.mark.parametrize("name", BINARY)
def test_results_of_two_operands(name: str) -> None:
    def call(t: Any) -> Any:
        x, y = t.tensor(MATRIX), t.tensor(MATRIX).T.contiguous().T
        return [getattr(t, name)(a, b) for a, b in ((x, y), (y, x), (y, x[0]), (y, y), (x[:, :1], y))]

    _same(call)


MIXED = "add div maximum atan2 lt".split()


@pytest.mark.parametrize("dtypes", ["float32 float64", "int32 float32", "int64 int32"])
@pytest.mark.parametrize("name", MIXED)
def test_operands_of_two_dtypes(name: str, dtypes: str) -> None:
    """Those that are cast count as copies: what is spread has steps of its own then."""
    layouts = ("transposed", "row", "spread_row", "spread_column")

    def call(t: Any) -> Any:
        first, second = (t.tensor(MATRIX * 9 + 1).to(getattr(t, dtype)) for dtype in dtypes.split())
        pairs = [(LAYOUTS[a](first), LAYOUTS[b](second)) for a, b in itertools.product(layouts, repeat=2)]
        return [getattr(t, name)(*pair) for x, y in pairs for pair in ((x, y), (y, x))]

    _same(call)


THREE = {
    "addcmul": lambda t, x, y, z: t.addcmul(x, y, z),
    "addcdiv": lambda t, x, y, z: t.addcdiv(x, y, z),
    "clamp": lambda t, x, y, z: t.clamp(x, y, z),
    "where": lambda t, x, y, z: t.where(x > 2, y, z),
    "xlogy": lambda t, x, y, z: t.xlogy(x, y),
    "copysign": lambda t, x, y, z: t.copysign(z, x),
    "pow": lambda t, x, y, z: x**y,
    "floor_divide": lambda t, x, y, z: x // y,
    "div_trunc": lambda t, x, y, z: t.div(x, y, rounding_mode="trunc"),
    "hypot": lambda t, x, y, z: t.hypot(x, y),
    "fmax": lambda t, x, y, z: t.fmax(x, y),
    "nextafter": lambda t, x, y, z: t.nextafter(x, y),
    "igamma": lambda t, x, y, z: t.special.gammainc(x, y),
    "zeta": lambda t, x, y, z: t.special.zeta(x, y),
    "gcd": lambda t, x, y, z: t.gcd(x, y.long()),
}


@pytest.mark.parametrize("name", THREE)
def test_operands_that_are_spread_and_cast(name: str) -> None:
    def call(t: Any) -> Any:
        spread = (t.arange(4, dtype=t.int32) % 5 + 1).reshape(1, 4, 1).expand(2, 4, 3)
        turned = [t.arange(24.0).reshape(4, 3, 2).permute(2, 0, 1) + 1, t.arange(24.0).reshape(3, 4, 2).mT.mT.mT + 1]
        triples = (spread, turned[0], turned[0] + 1), (spread, turned[0], spread), (spread, spread, turned[0])
        return [THREE[name](t, *triple) for triple in (triples if name in ("addcmul", "clamp") else triples[:1])]

    _same(call)


KEPT = {
    "index_fill": lambda t, x: x.index_fill(1, t.tensor([0]), 3.0),
    "select_scatter": lambda t, x: x.select_scatter(x.select(1, 0), 1, 1),
    "slice_scatter": lambda t, x: x.slice_scatter(x[:1], 0, 1, 2),
    "diagonal_scatter": lambda t, x: x.diagonal_scatter(x.diagonal()),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x, x.shape[-1:]),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
def test_results_with_replaced_parts(name: str, order: tuple[int, ...]) -> None:
    def call(t: Any) -> Any:
        x = t.tensor(IMAGE).permute(order)
        leaf = x.detach().requires_grad_()
        result = KEPT[name](t, leaf)
        (result * result.detach()).sum().backward()
        return [KEPT[name](t, x), result, leaf.grad]

    _same(call)
    for made, wanted in zip(call(ej), call(torch), strict=True):
        np.testing.assert_allclose(made.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_four_dimensions() -> None:
    def call(t: Any) -> Any:
        x = t.tensor(IMAGE)
        parts = [x, x[:, :, 1:3], x[:1], x[..., :1].expand(2, 3, 4, 5)]
        return [p.permute(order) * p.permute(order) for p in parts for order in itertools.permutations(range(4))]

    _same(call)


def test_nothing_is_row_major() -> None:
    _same(lambda t: [t.ones(s).movedim(0, -1) + 1 for s in ((0, 3), (3, 0), (2, 0, 4))])


def test_a_result_shares_no_memory() -> None:
    x = ej.tensor(MATRIX)
    first, second = ej.jit(lambda x: (x.T + 1, x.T + 1))(x)
    first.zero_()
    assert second.equal(x.T + 1)
    for call in (ej.clone, ej.floor, ej.ceil):
        whole = ej.ones(3, 2, dtype=ej.int64).T
        call(whole).add_(1)
        assert whole.eq(1).all()


def test_histories_name_copies() -> None:
    for t in (torch, ej):
        x = t.ones(2, 3, requires_grad=True)
        assert [y.grad_fn.name() for y in (x.clone(), x.T.contiguous())] == ["CloneBackward0"] * 2


def test_repetitions_lie_in_memory_of_their_own() -> None:
    _same(lambda t: [t.tensor(MATRIX)[:, 1:2].repeat(1, 2).fill_diagonal_(0), t.tensor(MATRIX).T[:1].repeat(2, 1)])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)])
def test_copies_of_arrays(order: tuple[int, ...]) -> None:
    _same(lambda t: [t.tensor(a, dtype=t.float64) for a in (IMAGE.transpose(order), IMAGE[:, :, ::2].transpose(order))])
    array = IMAGE.transpose(order)
    expected = [f(torch) for f in (lambda t: t.tensor(array), lambda t: t.as_tensor(array) + 1)]
    for call in (lambda a: [ej.tensor(a), ej.as_tensor(a) + 1], ej.jit(lambda a: [ej.tensor(a), ej.as_tensor(a) + 1])):
        assert [*map(_laid, call(array))] == [*map(_laid, expected)]


def test_numbers_whose_parts_broadcast() -> None:
    parts = MATRIX.T, MATRIX[0, 0], MATRIX[:, 0], MATRIX.T[:1], MATRIX.T[:, :1]

    def call(t: Any, first: Any, second: Any) -> list[Any]:
        numbers = t.complex(t.tensor(first), t.tensor(second))
        added = numbers.reshape(-1)[0] + t.tensor(MATRIX).T
        return [numbers, numbers.mT if numbers.ndim > 1 else numbers, added, added.T * 2]

    for first, second in itertools.product(parts, repeat=2):
        expected = call(torch, first, second)
        for results in (call(ej, first, second), ej.jit(call)(ej, first, second)):
            assert [*map(_laid, results)] == [*map(_laid, expected)]
            for made, wanted in zip(results, expected, strict=True):
                np.testing.assert_allclose(made.numpy(), wanted.numpy())
                np.testing.assert_allclose(ej.jit(ej.sum)(made).item(), wanted.sum().item(), rtol=1e-5)


def test_complex_and_meta() -> None:
    _same(lambda t: [t.complex(t.tensor(MATRIX).T, t.tensor(MATRIX).T) * 2j])
    _same(lambda t: [t.complex(t.tensor(MATRIX), t.tensor(MATRIX)).T.asinh()])
    made = [t.empty((6, 4), device="meta").T.exp() * 2 for t in (torch, ej)]
    assert _laid(made[0]) == _laid(made[1])
