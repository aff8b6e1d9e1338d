"""Values don't depend on how operands lie in memory: a call on a view has the bits of the call on a contiguous copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch

SIZES = (1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 65, 100)
BLOCK = 8192
"""Elements that a long row is reduced by."""

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.float32, torch.complex64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)

VIEWS: tuple[Callable[[Any, int, int], Any], ...] = (
    lambda x, d, k: x.transpose(d, -1),
    lambda x, d, k: x.transpose(0, d),
    lambda x, d, k: x.permute(*range(1, x.ndim), 0),
    lambda x, d, k: x.narrow(d, 0, (x.shape[d] + 1) // 2),
    lambda x, d, k: x.transpose(0, d)[::k].transpose(0, d),
    lambda x, d, k: x.transpose(0, d)[k:].transpose(0, d),
    lambda x, d, k: x.flip(d),
    lambda x, d, k: x.unsqueeze(d).expand(*x.shape[:d], k, *x.shape[d:]),
    lambda x, d, k: x.reshape(-1, 24).t() if x.numel() % 24 == 0 else x.mT,
)

OF_ALL: tuple[Callable[[Any, int], Any], ...] = (
    lambda x, d: x.sum(d),
    lambda x, d: x.prod(d),
    lambda x, d: (x + x).sum(),
    lambda x, d: x.roll(1, d),
    lambda x, d: torch.cat([x, x], d),
    lambda x, d: x.cumsum(d),
    lambda x, d: x.index_select(d, torch.arange(5) % max(x.shape[d], 1)) if x.shape[d] else x,
    lambda x, d: torch.zeros_like(x).index_add_(d, torch.zeros(x.shape[d], dtype=torch.int64), x),
    lambda x, d: x.clone().copy_(x.flip(d)),
)
OF_ORDERED: tuple[Callable[[Any, int], Any], ...] = (
    lambda x, d: x.amax(d) if x.shape[d] else x,
    lambda x, d: tuple(x.max(d)) if x.shape[d] else x,
    lambda x, d: x.argmin(d) if x.shape[d] else x,
    lambda x, d: tuple(x.sort(d, stable=True)),
    lambda x, d: (x > 0).any(d),
    lambda x, d: torch.where(x > 1, x, x * 2),
)
OF_FLOATS: tuple[Callable[[Any, int], Any], ...] = (
    lambda x, d: x.mean(d, keepdim=True) - x,
    lambda x, d: x.var(d),
    lambda x, d: x.softmax(d),
    lambda x, d: x.logsumexp(d),
    lambda x, d: torch.linalg.vector_norm(x, 2, d),
    lambda x, d: (x * 0.5).tanh().exp(),
    lambda x, d: (x.sum(d, keepdim=True) * x).amin((0, d) if d else 0) if x.numel() else x,
)


def functions_of(dtype: Any) -> tuple[Callable[[Any, int], Any], ...]:
    """What tensors of a dtype are given to."""
    if dtype.is_complex:
        return OF_ALL
    if dtype is torch.bool:
        return (*OF_ALL, *OF_ORDERED[4:5])
    return (*OF_ALL, *OF_ORDERED, *(OF_FLOATS if dtype in FLOATS else ()))


def numbers(draw: random.Random, dtype: Any) -> Any:
    """A tensor of 2 to 4 dimensions; now and then rows or columns are longer than a block of a reduction."""
    shape = [BLOCK + draw.choice((-1, 0, 1, 40)), draw.choice((1, 3, 17))]
    while draw.random() < 0.8 or torch.Size(shape).numel() > 200_000:
        shape = [draw.choice(SIZES) for _ in range(draw.choice((2, 2, 3, 4)))]
    draw.shuffle(shape)
    found = torch.randn(shape, generator=torch.Generator().manual_seed(draw.randrange(1 << 30)))
    return (found if dtype.is_floating_point or dtype.is_complex else (found * 2).abs().round()).to(dtype)


def bits(found: Any) -> list[tuple[Any, Any, bytes]]:
    """Dtypes, shapes and bytes of a result."""
    results = found if isinstance(found, tuple) else (found,)
    return [(x.dtype, x.shape, x.contiguous().numpy(force=True).tobytes()) for x in results]


@pytest.mark.parametrize("seed", range(60))
def test_a_view_has_the_bits_of_its_copy(seed: int) -> None:
    draw = random.Random(seed)
    dtype = draw.choice(DTYPES)
    x = numbers(draw, dtype)
    steps = [(draw.choice(VIEWS), draw.random(), draw.choice((2, 3, 4, 5))) for _ in range(draw.choice((1, 1, 2)))]
    function, place = draw.choice(functions_of(dtype)), draw.random()

    def view(x: Any) -> Any:
        for make, where, number in steps:
            x = make(x, int(where * x.ndim), number)
        return x

    def call(x: Any) -> Any:
        return function(x, int(place * x.ndim))

    expected = bits(call(view(x).contiguous()))
    assert bits(call(view(x))) == expected
    assert bits(torch.jit(lambda x: call(view(x)))(x)) == expected


def test_products_of_complex_numbers() -> None:
    """Their parts round by the order of the factors."""
    parts = torch.randn(2, 15, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = torch.complex(parts[0], parts[1]).t()
    for dim in (0, 1):
        assert bits(x.prod(dim)) == bits(x.contiguous().prod(dim))


def test_parts_of_complex_numbers_that_no_stride_reaches() -> None:
    """A part of flipped numbers is read where it is needed, but not through a reshape."""
    x = torch.randn(3, 4, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))
    for function in (
        lambda x: x.flip(1).diagonal(0, 0, 1) != 0,
        lambda x: x.flip(1).permute(2, 0, 1).reshape(5, 12).abs(),
    ):
        assert bits(torch.jit(function)(x)) == bits(function(x))
