"""Arguments that are rarely given: no dimensions, complex ends, whole exponents, several ellipses, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import agree, same

import eagerjit

CALLS: tuple[Callable[[Any], Any], ...] = (
    lambda t: reversed(t.arange(12).reshape(3, 2, 2)),
    lambda t: reversed(t.tensor(3)),
    *(lambda t, name=name, dim=dim, dtype=dtype: getattr(t.eye(3, dtype=getattr(t, dtype)), name)(dim)
      for name in ("any", "all") for dim in ((), [], None, (0,)) for dtype in ("float32", "uint8", "bool")),
    lambda t: t.ones(2, 3).all(dim=(), keepdim=True),
    lambda t: t.zeros(0, 2).any(()),
    *(lambda t, p=p, dim=dim: t.norm_except_dim(t.tensor([-1.0, 2.0, 3.0]), p, dim) for p in (1, 2) for dim in (0, -1)),
    lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 4), "bias").parametrizations.bias.original0.shape,
    *(lambda t, dtype=dtype, n=n: t.logspace(1.191, 3.9, n, dtype=getattr(t, dtype))
      for dtype in ("int64", "uint8", "float32", "complex64") for n in (0, 1, 2)),
    lambda t: t.logspace(0, 1j, 3),
    lambda t: t.logspace(0, 1j, 3, 2, dtype=t.complex128),
    lambda t: t.logspace(0, 1j, 3, dtype=t.float32),
    lambda t: t.logspace(0, 1, 3, 1j),
    *(lambda t, n=n: t.linspace(0, 1 + 1j, n) for n in (0, 1, 2, 5)),
    lambda t: t.linspace(1j, 1 + 1j, 4, dtype=t.complex128),
    lambda t: t.linspace(1j, 1 + 1j, 4, dtype=t.float32),
    lambda t: t.linspace(t.tensor(1j), t.tensor(1.0), 3),
)  # fmt: skip

CALLS += (
    *(lambda t, n=n: (t.fft.fftfreq(n), t.fft.rfftfreq(n)) for n in (0, 1, 7, 8)),
    *(lambda t, n=n: t.fft.fftfreq(n, 0) for n in (-1, 0, 3)),
    lambda t: t.fft.rfftfreq(3, 0.0),
    *(lambda t, shape=shape, p=p: t.linalg.cond(t.ones(shape), p)
      for shape in ((0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 3, 3)) for p in (None, 2, -2, "fro")),
    *(lambda t, dtype=dtype: t.tensor(1, dtype=getattr(t, dtype)).sum_to_size([]) for dtype in ("int16", "bool")),
    *(lambda t, name=name, dim=dim, rest=rest: getattr(t.ones(2, 2), name)(
          dim, t.zeros(0, dtype=t.int64), *rest(t))
      for dim in (1, 5) for name, rest in (
          ("gather", lambda t: ()), ("scatter", lambda t: (1.0,)), ("scatter", lambda t: (t.ones(3),)),
          ("scatter_", lambda t: (1.0,)), ("scatter_", lambda t: (t.ones(2, 2),)),
          ("scatter_add", lambda t: (t.ones(2, 2),)), ("scatter_reduce", lambda t: (t.ones(2, 2), "sum")))),
    lambda t: t.ones(2, 2).gather(1, t.zeros(0, 3, 4, dtype=t.int64)),
    *(lambda t, size=size, n=n: t.nn.CrossMapLRN2d(size, 0.02, 0.5, 2)(t.arange(4.0 * n).reshape(1, n, 2, 2))
      for size in (1, 2, 3, 5) for n in (1, 2, 4, 9)),
    *(lambda t, args=args, names=names: t.arange(3.0).broadcast_to(*args, **names)
      for args, names in (((2, 3), {}), (([2, 3],), {}), ((3,), {}), ((), {"size": (2, 3)}), ((2, -1), {}), ((), {}))),
    lambda t: t.broadcast_to(t.arange(3.0), (2, 3)),
    lambda t: t.tensor(1.0).broadcast_to(()),
    lambda t: t.nn.CrossMapLRN2d(3)(t.ones(2, 3)),
    lambda t: repr(t.nn.CrossMapLRN2d(3)),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(number: int) -> None:
    agree(CALLS[number])


EXPONENTS = [0, 1, -1, 2, 25, -24, 40, 130, -140, 200, 276, 1023, 1100, -1100, 2098, 5000, -(2**31)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
@pytest.mark.parametrize("exponents", ["int64", "int32", "int8", "float32", "float64"])
def test_ldexp(dtype: str, exponents: str) -> None:
    limit = 2**7 if exponents == "int8" else 2**40
    of_two = [e for e in EXPONENTS if abs(e) < (limit if exponents.startswith("int") else 100)]
    least = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}.get(dtype, 0)
    for x in (1.0, -3.0, 2.0 ** max(least, -1022), 0.0, float("inf")):
        if dtype == "int64" and x == float("inf"):
            continue
        agree(lambda t, x=x: t.ldexp(
            t.tensor([x] * len(of_two), dtype=t.float64).to(getattr(t, dtype)),
            t.tensor(of_two, dtype=getattr(t, exponents)),
        ))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_differentiates_and_writes(dtype: str) -> None:
    x = eagerjit.tensor([1.0, 3.0], dtype=getattr(eagerjit, dtype), requires_grad=True)
    eagerjit.ldexp(x, eagerjit.tensor([3, -2])).sum().backward()
    assert x.grad.tolist() == [8.0, 0.25] and x.grad.dtype is x.dtype
    same(eagerjit.ones(2).half().ldexp_(eagerjit.tensor([20, 2])), torch.ones(2).half().ldexp_(torch.tensor([20, 2])))


def test_jitted_ldexp() -> None:
    x, k = eagerjit.randn(20, dtype=eagerjit.float64), eagerjit.arange(-1000, 1000, 100)
    assert eagerjit.jit(lambda x, k: x.ldexp(k))(x, k).equal(x.ldexp(k))


NAMED: tuple[Callable[[Any], Any], ...] = (
    lambda t: t.nan_to_num(t.tensor([float("nan"), float("inf")]), nan=None, posinf=1.0),
    *(lambda t, limits=limits: t.linalg.pinv(t.tensor([[2.0, 1.0], [1.0, 4.0]]).double(), *limits)
      for limits in ((1e-3,), (1e-3, True), (0.9,))),
    *(lambda t, limits=limits: t.linalg.matrix_rank(t.tensor([[2.0, 1.0], [1.0, 4.0]]), *limits)
      for limits in ((3.0,), (1e-3, True), (3.0, True))),
    lambda t: t.linalg.matrix_rank(t.tensor([[1.0, 5.0], [1.0, 1.0]]), hermitian=True),
    lambda t: t.linalg.matrix_rank(t.tensor([[1.0, 5.0j], [1.0j, 1.0]]), hermitian=True),
    lambda t: t.linalg.matrix_rank(t.ones(2, 3), hermitian=True),
    lambda t: t.linalg.matrix_rank(t.zeros(2, 0, 0), hermitian=True),
    lambda t: t.lu(t.tensor([[[1.0, 2.0], [2.0, 4.0]], [[3.0, 1.0], [0.0, 1.0]]]), get_infos=True),
    lambda t: t.lu(t.eye(2), out=(t.zeros(2, 2), t.zeros(2).int())),
    lambda t: (lambda out: t.lu(t.eye(2) * 2, out=out) and out)((t.zeros(2, 2), t.zeros(2).int())),
    lambda t: t.lu(t.eye(2), out=(t.zeros(2, 2),)),
    *(lambda t, name=name: getattr(t.linalg, name)(t.eye(2), driver="gesvd") for name in ("svd", "svdvals")),
    lambda t: t.round_(t.tensor([15.0, 26.0]), decimals=-1),
    *(lambda t, name=name: (getattr(t, name)(t.tensor([1.0, 3.0]), other=t.tensor([2.0, 2.0])),
                            getattr(t.tensor([1.0, 3.0]), name)(other=t.tensor(2.0))) for name in ("max", "min")),
    lambda t: tuple(t.tensor([1.0, 2.0]).histogram()),
    lambda t: t.tensor_split(t.arange(4), indices=[1]) + t.arange(4).tensor_split(sections=2),
    lambda t: t.tensor_split(t.arange(4), tensor_indices_or_sections=t.tensor([1, 3])),
    lambda t: t.tensor_split(t.arange(4)),
    lambda t: t.tensor_split(t.arange(4), 2, sections=2),
    *(lambda t, name=name, parts=parts: getattr(t, name)(t.arange(16).reshape(2, 2, 4), **parts)
      for name in ("hsplit", "vsplit", "dsplit") for parts in ({"sections": 2}, {"indices": [1]})),
    lambda t: t.isin(t.tensor([1.0, 2.0]), test_element=1.0),
    lambda t: t.isin(element=1.0, test_elements=t.tensor([1.0])),
    lambda t: t.isin(t.tensor([1.0])),
    lambda t: str(t.result_type(t.tensor([1]), other=3.0)),
    lambda t: str(t.result_type(scalar=1.0, tensor=t.tensor([1]))),
    lambda t: str(t.result_type(scalar1=1, scalar2=True)),
    lambda t: t.result_type(t.tensor([1]), second=True),
    lambda t: t.dot(t.tensor([2.0]), tensor=t.tensor([3.0])),
    lambda t: t.ones(2).copy_(other=t.zeros(2)),
    lambda t: t.rsub(t.ones(2), 1, 2),
    lambda t: t.ones(2).subtract_(1, 2),
    lambda t: t.nn.functional.elu_(t.tensor([-1.0, 2.0]), 1.0, 2.0),
    lambda t: t.nn.functional.elu_(t.tensor([-1.0, 2.0]), 0.5, 2.0, 3.0),
    lambda t: t.nn.functional.elu_(t.tensor([-1.0, 2.0]), alpha=0.5),
    lambda t: t.nn.functional.hardtanh_(t.tensor([2.0]), 3.0, 1.0),
    lambda t: t.nn.functional.hardtanh(t.tensor([2.0]), 3.0, 1.0),
    lambda t: t.nn.functional.hardtanh(t.tensor([2.0]), 3.0, 1.0, inplace=True),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_names_and_positions(number: int) -> None:
    agree(NAMED[number])


OF_NUMBERS: tuple[Callable[[Any], Any], ...] = (
    lambda d: d.Gamma(1.0, 1.0).log_prob(1.0),
    lambda d: d.Gamma(1.0, 1.0).log_prob(-1.0),
    lambda d: d.Chi2(2.0).log_prob(1),
    lambda d: d.Gumbel(0.0, 1.0).cdf(1.0),
    lambda d: d.Gumbel(0.0, 1.0).log_prob(1.0),
    lambda d: d.Gumbel(0.0, 1.0).icdf(0.5),
    lambda d: d.Poisson(2.0, validate_args=False).log_prob(1.0),
    lambda d: d.Poisson(2.0).log_prob(1.0),
)


@pytest.mark.parametrize("number", range(len(OF_NUMBERS)))
def test_distributions_of_numbers(number: int) -> None:
    agree(lambda t: OF_NUMBERS[number](t.distributions))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize(
    "name", ["HalfNormal", "HalfCauchy", "Chi2", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Gamma"]
)
def test_distributions_shown(name: str, shape: tuple[int, ...]) -> None:
    def shown(t: Any) -> str:
        ones = t.ones(shape if "Hot" not in name else (*shape, 2))
        return repr(getattr(t.distributions, name)(*(ones,) * (1 + (name == "Gamma"))))

    assert shown(eagerjit) == shown(torch)


KEYS: tuple[Any, ...] = (
    (..., ...), (..., 0, ...), (0, ..., ...), (0, ..., ..., 0), (0, ..., 0, ...), (..., ..., None), (..., ..., 0),
    (..., slice(0, 1), ...), (0, 0, ..., ...), (0, 0, ..., 0, ...), (..., [0, 1], ..., ...), (None, ..., ...),
)  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_several_ellipses(key: Any, rank: int) -> None:
    agree(lambda t: t.arange(2.0**rank).reshape((2,) * rank)[key])

    def written(t: Any) -> Any:
        x = t.zeros((2,) * rank)
        x[key] = 1.0
        return x

    agree(written)
