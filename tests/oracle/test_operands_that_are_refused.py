"""Arguments that PyTorch refuses by their kind or their range: the same classes here, eager and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "start beyond the end": lambda t, x: x.narrow(0, 5, 1),
    "start before the beginning": lambda t, x: x.narrow(0, -5, 1),
    "negative length": lambda t, x: x.narrow(0, 1, -1),
    "too long": lambda t, x: x.narrow(0, 2, 5),
    "median of bools": lambda t, x: (x > 1).median(),
    "median of bools along a dimension": lambda t, x: (x > 1).median(0),
    "a number that is subtracted from": lambda t, x: t.rsub(2, x),
    "negative relative tolerance": lambda t, x: t.isclose(x, x, rtol=-0.5),
    "negative absolute tolerance": lambda t, x: t.isclose(x, x, atol=-0.5),
    "tolerance that is no number": lambda t, x: t.allclose(x, x, float("nan")),
    "extremes written in another dtype": lambda t, x: t.aminmax(x, out=(t.ones((), dtype=t.float64), t.ones(()))),
    "a part written in another dtype": lambda t, x: t.slice_scatter(x, x[:1], 0, 0, 1, out=t.ones(3, dtype=t.int64)),
    "pooled without channels": lambda t, x: t.nn.functional.adaptive_max_pool2d(x[None], (1, 1)),
    "largest of integers": lambda t, x: t.nn.functional.adaptive_max_pool1d(x[None].long(), 1),
    "largest of integers in windows": lambda t, x: t.nn.functional.adaptive_max_pool2d(x[None, None].to(t.uint8), 2),
    "margins of no classes": lambda t, x: t.nn.functional.multilabel_margin_loss(x[:0], x[:0].long()),
    "sparse window": lambda t, x: t.signal.windows.hann(3, layout=t.sparse_coo),
    "window without coefficients": lambda t, x: t.signal.windows.general_cosine(3, a=None),
    "degrees that are complex": lambda t, x: t.deg2rad(t.complex(x, x)),
    "negative count": lambda t, x: t.nonzero_static(x, size=-1),
    "count that is no integer": lambda t, x: t.nonzero_static(x, size=2.5),
    **{
        f"a number in place of a tensor: {name}": lambda t, x, name=name: getattr(t, name)(x, 1)
        for name in "minimum maximum atan2 hypot fmax logaddexp nextafter logical_and ldexp gcd lcm".split()
    },
    **{
        f"a number alone: {name}": lambda t, x, name=name: getattr(t, name)(1.5)
        for name in "exp sqrt abs sigmoid isnan round ceil sign logical_not reciprocal lgamma".split()
    },
    **{
        f"a number first: {name}": lambda t, x, name=name: getattr(t, name)(1, x)
        for name in "fmod eq ge atan2 minimum copysign".split()
    },
    **{
        f"another dtype: {name}": call
        for name, call in {
            "bias of linear": lambda t, x: t.nn.functional.linear(x, t.ones(2, 3), t.ones(2).double()),
            "addmm": lambda t, x: t.addmm(t.ones(1, 1).double(), x[None], x[:, None]),
            "addmv": lambda t, x: t.addmv(t.ones(1).double(), x[None], x),
            "baddbmm": lambda t, x: t.baddbmm(t.ones(1, 1, 1).double(), x[None, None], x[None, :, None]),
            "addbmm": lambda t, x: t.addbmm(t.ones(1, 1).bfloat16(), x[None, None], x[None, :, None]),
            "bias of bilinear": lambda t, x: t.nn.functional.bilinear(x, x, t.ones(1, 3, 3), t.ones(1).double()),
            "weights of layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (3,), t.ones(3).bfloat16()),
            "one of two for layer_norm": lambda t, x: t.nn.functional.layer_norm(
                x.bfloat16(), (3,), t.ones(3), t.ones(3).bfloat16()
            ),
            "weights of group_norm": lambda t, x: t.nn.functional.group_norm(x[None], 1, t.ones(3).double()),
            "weights of batch_norm": lambda t, x: t.nn.functional.batch_norm(
                x.expand(2, 3), None, None, t.ones(3).double(), training=True
            ),
            "statistics of batch_norm": lambda t, x: t.nn.functional.batch_norm(
                x.expand(2, 3), t.ones(3).double(), t.ones(3).double()
            ),
            "weights of lerp": lambda t, x: x.lerp(x, x.double()),
            "weight of prelu": lambda t, x: t.nn.functional.prelu(x, t.ones(1).double()),
            "integers' cosine": lambda t, x: t.nn.functional.cosine_similarity(x.long(), x.long(), 0),
            "product of int8": lambda t, x: t._int_mm(x[None], x[:, None]),
        }.items()
    },
    "a number in place": lambda t, x: x.clone().atan2_(1),
    "a huge number in place of a tensor": lambda t, x: t.log(2**70),
    **{
        f"no flag: {flag!r}": lambda t, x, flag=flag: x.sum(0, keepdim=flag)
        for flag in (1, 1.5, None, "zz", [], np.bool_(True))
    },
    **{
        f"no flag of {name}": call
        for name, call in {
            "topk": lambda t, x: x.topk(1, 0, 1),
            "sort": lambda t, x: x.sort(0, 1),
            "norm": lambda t, x: x.norm(2, 0, keepdim=1),
            "svd": lambda t, x: t.linalg.svd(x[None], full_matrices=1),
            "avg_pool1d": lambda t, x: t.nn.functional.avg_pool1d(x[None], 2, 1, 0, 1),
            "batch_norm": lambda t, x: t.nn.functional.batch_norm(x.expand(2, 3), None, None, training=1),
        }.items()
    },
    **{
        f"no tensor for {name}": call
        for name, call in {
            "numel": lambda t, x: t.numel([1]),
            "is_floating_point": lambda t, x: t.is_floating_point(1.0),
            "Unfold": lambda t, x: t.nn.Unfold(2)([1, 2]),
            "Dropout": lambda t, x: t.nn.Dropout(0.5)([1.0]),
            "Bilinear": lambda t, x: t.nn.Bilinear(3, 3, 2)("a", x),
            "TripletMarginLoss": lambda t, x: t.nn.TripletMarginLoss()(1, x, x),
            "einsum": lambda t, x: t.einsum("i->i", 5),
            "broadcast_tensors": lambda t, x: t.broadcast_tensors(x, 1),
            "cartesian_prod": lambda t, x: t.cartesian_prod(x, 1j),
            "multi_dot": lambda t, x: t.linalg.multi_dot([x, 1j]),
            "copy_": lambda t, x: x.clone().copy_([1]),
            "bias": lambda t, x: t.nn.functional.linear(x, x[None], 1.5),
        }.items()
    },
    **{f"no dtype: {dtype!r}": lambda t, x, dtype=dtype: x.sum(dtype=dtype) for dtype in ("float32", 0, {})},
    "an int that is complex": lambda t, x: int(t.complex(x, x + 1)[0]),
    "a float that is complex": lambda t, x: float(t.complex(x, x + 1)[0]),
    "random elements of 8 bits": lambda t, x: t.rand(2, dtype=t.float8_e4m3fn),
    "more parts than can be counted": lambda t, x: t.tensor_split(x, 2**63),
    **{
        f"no number for {name}": call
        for name, call in {
            "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x, x),
            "celu": lambda t, x: t.nn.functional.celu(x, x),
            "elu": lambda t, x: t.nn.functional.elu(x, "zz"),
            "softplus": lambda t, x: t.nn.functional.softplus(x, 1, x),
            "threshold": lambda t, x: t.nn.functional.threshold(x, 0.1, x),
            "logit": lambda t, x: t.logit(x, x),
            "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (3,), eps=x),
            "add": lambda t, x: x.add(x, alpha=None),
            "add_": lambda t, x: x.clone().add_(2, alpha=[1]),
            "addcmul": lambda t, x: x.addcmul(x, x, value=x),
            "addmm": lambda t, x: t.addmm(x, x[None], t.eye(3), beta=x),
        }.items()
    },
    "a dimension twice": lambda t, x: x[None, None].squeeze((0, 0)),
    "a subscript that is no letter": lambda t, x: t.einsum("i1", x[None]),
    "a tensor to stack": lambda t, x: t.stack(x),
    "gradients of nothing": lambda t, x: t.autograd.grad(x.clone().requires_grad_().sum(), []),
    "the largest of bools": lambda t, x: (x > 1).topk(1),
    "an array to compare with": lambda t, x: t.equal(x, np.ones(3)),
    "random integers beyond a dtype": lambda t, x: [t.randint(n, (2,), dtype=t.uint8) for n in (200, 300)],
    "random integers below a dtype": lambda t, x: t.randint(-5, 5, (2,), dtype=t.uint8),
    "random integers for bools": lambda t, x: t.randint(3, (2,), dtype=t.bool),
    "places beyond a dtype": lambda t, x: [t.randperm(n, dtype=t.uint8) for n in (200, 300)],
    "a tensor as a flag": lambda t, x: x.argmax(0, keepdim=x > 1),
    "elements of 8 bits as a flag": lambda t, x: x.argmax(0, keepdim=x.to(t.float8_e4m3fn)),
    "elements of 8 bits as a dtype": lambda t, x: t.softmax(x, 0, dtype=x.to(t.float8_e4m3fn)),
    **{
        f"no integer for {name}": call
        for name, call in {
            "select": lambda t, x: x.select(0, True),
            "narrow": lambda t, x: x.narrow(0, True, 1),
            "chunk": lambda t, x: x.chunk(True),
            "split": lambda t, x: x.split(True),
            "matrix_power": lambda t, x: t.linalg.matrix_power(t.eye(3), np.float32(2)),
            "mvlgamma": lambda t, x: t.mvlgamma(x + 5, True),
            "bincount": lambda t, x: t.bincount(x.long(), minlength=2.5),
            "cov": lambda t, x: t.cov(x, correction=1.5),
            "fft": lambda t, x: t.fft.fft(x, dim=[]),
            "softmax": lambda t, x: x.softmax(t.tensor([0])),
            "unbind": lambda t, x: x.unbind(t.tensor([0])),
            "polygamma": lambda t, x: t.polygamma(2.0, x + 1),
            "hsplit": lambda t, x: t.hsplit(x, np.int64(2)),
            "kthvalue": lambda t, x: x.kthvalue(1, t.tensor([0])),
            "transpose": lambda t, x: x[None].transpose(0, np.array(1)),
        }.items()
    },
    **{
        f"no flag of {name}": lambda t, x, name=name: getattr(t, name)(2, requires_grad=1)
        for name in "zeros ones empty rand randn eye".split()
    },
    "rows that do not fit": lambda t, x: t.zeros(2, 3).index_reduce(0, t.arange(2), t.ones(2, 1), "mean"),
    "the absolute loss of flags": lambda t, x: t.nn.functional.l1_loss(x, x > 1),
    "a norm of complex order": lambda t, x: t.linalg.vector_norm(x, 1j),
    "shapes of polynomials": lambda t, x: t.special.chebyshev_polynomial_t(x, t.ones(2)),
    "an integral of bools": lambda t, x: t.trapezoid(x > 1, x),
    "no differences of what does not fit": lambda t, x: t.diff(x[None], 0, prepend=t.ones(2, 1)),
    "weights of a histogram": lambda t, x: t.histogramdd(x[:, None], 2, weight=t.ones(3, 1)),
    "a number as weights of a histogram": lambda t, x: t.histogramdd(x[:, None], [2], weight=-1),
    "a flag as an offset": lambda t, x: t.triu(x[None], np.bool_(True)),
    "a place in no dimensions": lambda t, x: x[0].index_put((t.tensor(0),), t.tensor(2.0)),
    "a mask in no dimensions": lambda t, x: x[0].index_put((t.tensor(True),), t.tensor(2.0)),
    "no places at all": lambda t, x: x.index_put((), t.tensor(2.0)),
    "more places than dimensions": lambda t, x: x.index_put((t.tensor(0), t.tensor(1)), t.tensor(2.0)),
    "a place behind a mask of all": lambda t, x: x[None].index_put((t.ones(1, 3) > 0, t.tensor(0)), t.tensor(2.0)),
    "classes of none": lambda t, x: t.nn.functional.one_hot(x[:0].long(), 0),
    "fewer classes than none": lambda t, x: t.nn.functional.one_hot(x.long(), -2),
    "a class too large": lambda t, x: t.nn.functional.one_hot(x.long(), 2),
    "a class below 0": lambda t, x: t.nn.functional.one_hot(x.long() - 1, 5),
    **{
        f"beyond 64 bits: {name}": call
        for name, call in {
            "size": lambda t, x: t.zeros(2**63),
            "sizes": lambda t, x: x.new_ones((2, 2**70)),
            "view": lambda t, x: x.view(2**63),
            "layer": lambda t, x: t.nn.Linear(3, 2**70),
            "index": lambda t, x: x[2**63],
            "dimension": lambda t, x: x.softmax(2**63),
            "negative dimension": lambda t, x: x.transpose(0, -(2**70)),
            "count": lambda t, x: x.topk(2**63),
            "offset": lambda t, x: t.diag(x, 2**70),
            "kernel": lambda t, x: t.nn.functional.max_pool1d(x[None], 2**70),
        }.items()
    },
}


@pytest.mark.parametrize("jit", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CALLS)
def test_as_pytorch_refuses(name: str, jit: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as expected:
        CALLS[name](torch, torch.arange(3.0))
    for _ in range(2):
        with pytest.raises(expected.type):
            jit(lambda x: CALLS[name](ej, x))(ej.arange(3.0))


FOUND: dict[str, Callable[[Any], Any]] = {
    "wider weights of layer_norm": lambda t: t.nn.functional.layer_norm(
        t.arange(3.0).half(), (3,), t.ones(3) * 2, t.ones(3)
    ),
    "a cosine with integers": lambda t: t.nn.functional.cosine_similarity(t.arange(3.0), t.arange(1, 4), 0),
    "a product of int8": lambda t: t._int_mm(t.full((2, 300), 127, dtype=t.int8), t.full((300, 2), -128).to(t.int8)),
    "a complex number": lambda t: t.ones(2) * t.tensor(1 + 2j).item(),
    "Python's type for a dtype": lambda t: t.ones(2).sum(dtype=float) + t.ones(2).softmax(0, dtype=float),
    "copy of a number": lambda t: t.ones(2).copy_(2.5),
    "fewer": lambda t: t.nonzero_static(t.tensor([[1.0, 0, 2], [0, 0, 3]]), size=2),
    "more": lambda t: t.nonzero_static(t.tensor([[1.0, 0, 2], [0, 0, 3]]), size=5, fill_value=-7),
    "none": lambda t: t.nonzero_static(t.tensor([[1.0, 0, 2], [0, 0, 3]]), size=0),
    "bools": lambda t: t.tensor([True, False, True]).nonzero_static(size=4),
    "of no dimensions": lambda t: t.nonzero_static(t.tensor(3.0), size=2),
    "empty": lambda t: t.nonzero_static(t.zeros(0, 3), size=1),
    "cube": lambda t: t.nonzero_static(t.arange(24).reshape(2, 3, 4).transpose(0, 2) % 5, size=9),
    "polygamma": lambda t: t.polygamma(1, t.tensor([float("inf"), 2.0])),
    "polygamma of order 3": lambda t: t.polygamma(3, t.tensor([float("inf"), 0.25])),
    "start in a tensor": lambda t: t.arange(6).narrow(0, t.tensor(2), 3),
    "dropout of a vector, not in training": lambda t: t.nn.functional.feature_alpha_dropout(t.arange(3.0), 0.5, False),
    "normalised elsewhere": lambda t: t.nn.functional.normalize(t.ones(2, 3), out=t.empty(0, dtype=t.float64)),
    "a part replaced elsewhere": lambda t: t.slice_scatter(t.zeros(3), t.ones(2), 0, 0, 2, out=t.empty(0)),
    "variance of fewer than are subtracted": lambda t: t.var(t.arange(5.0), correction=7),
    "deviation of fewer than are subtracted": lambda t: t.std(t.arange(12.0).reshape(3, 4), 0, correction=7),
    "variance of constants": lambda t: t.var_mean(t.ones(5, 6), 1, correction=8)[0],
    "NumPy's number of repeats": lambda t: t.tensor([3, 4]).repeat_interleave(np.int64(2)),
    "NumPy's number of parts": lambda t: t.arange(5).tensor_split(np.int64(3))[1],
    "NumPy's size of a triangle": lambda t: t.tril_indices(4, np.int32(5)),
    "NumPy's number of classes": lambda t: t.nn.functional.one_hot(t.tensor([1, 0]), np.int64(4)),
    "an outer product alone, of another dtype": lambda t: t.addr(t.ones(1, 1).double(), t.ones(1), t.ones(1), beta=0),
    "a tensor as an order": lambda t: t.polygamma(t.tensor(4), t.ones(2, 2)),
    "a tensor as an order of a flag": lambda t: t.polygamma(t.tensor(4), t.tensor(True)),
    **{
        f"{name} of flags": lambda t, name=name: getattr(t.nn.functional, name)(t.arange(3.0), t.arange(3.0) > 1)
        for name in "mse_loss smooth_l1_loss huber_loss".split()
    },
    "mse_loss of halves and flags": lambda t: t.nn.functional.mse_loss(t.arange(3) > 1, t.arange(3.0).half()),
    "a view resized": lambda t: t.arange(25)[3].resize_(2, 2),
    "a view of another dtype resized": lambda t: t.arange(8.0).view(t.int32)[3].resize_(2, 2),
    "part of a view resized": lambda t: t.arange(25)[3:9:2].resize_as_(t.zeros(2, 5)),
    "a diagonal far away": lambda t: t.ones(3, 3).diagonal(2**40),
    "a diagonal below": lambda t: t.ones(3, 3).diagonal(-(2**63)),
    "a norm of a huge order": lambda t: t.linalg.vector_norm(t.ones(2), 1e300),
    "the norm of a huge order": lambda t: (t.ones(2) + 1).norm(1e30),
    "a mean of halves": lambda t: t.normal(t.zeros(3).half(), t.zeros(3)),
    "a deviation of halves": lambda t: t.normal(t.tensor(1.5), t.zeros(3).half()),
    "a mask without dimensions": lambda t: t.zeros(2, 3).index_put((t.tensor(True),), t.tensor(2.0)),
    "a mask without dimensions that does not hold": lambda t: t.zeros(3).index_put((t.tensor(False),), t.tensor(2.0)),
    "such a mask and a place": lambda t: t.zeros(2, 3).index_put((t.tensor(True), t.tensor(1)), t.tensor(2.0), True),
    "middle of a range": lambda t: t.arange(6).narrow(0, 6, 0),
}


@pytest.mark.parametrize("jit", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FOUND)
def test_values_as_in_pytorch(name: str, jit: Callable[..., Any]) -> None:
    expected, found = FOUND[name](torch), jit(lambda: FOUND[name](ej))()
    assert tuple(found.shape) == tuple(expected.shape)
    assert str(found.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


MADE: dict[str, Callable[[Any], Any]] = {
    "arange": lambda t: t.arange(3.0, requires_grad=True),
    "eye": lambda t: t.eye(2, requires_grad=True),
    "empty": lambda t: t.empty(2, requires_grad=True),
    "linspace": lambda t: t.linspace(0, 1, 3, requires_grad=True),
}


@pytest.mark.parametrize("name", MADE)
def test_made_in_compiled_calls_to_require_gradients(name: str) -> None:
    jitted = ej.jit(lambda: MADE[name](ej))
    for _ in range(2):
        assert jitted().requires_grad and jitted().is_leaf == MADE[name](torch).is_leaf
