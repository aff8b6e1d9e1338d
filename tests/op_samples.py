"""Sample arguments of every public op: what the op table's tests run it with.

Tensors of float64 are differentiated, unless their position is among a sample's constants. Elementwise ops are drawn
from the domains their primitives declare, in-place ones take the samples of the ops they write.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from typing import Any, NamedTuple

import numpy as np
from op_samples_namespace import COMPLEX, namespace_samples

import eagerjit as torch
import eagerjit.nn
import eagerjit.optim
from eagerjit.calling.dispatch import OPS
from eagerjit.compiler.ops import TABLE
from eagerjit.ops.aliasing import ViewOp
from eagerjit.ops.bessel import BESSEL
from eagerjit.ops.inplace import InplaceOp


def _with_ops(package: Any) -> None:
    """Import the modules that declare ops: every one is in the table then, whatever has been used."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


for _package in ("array_api", "distributions", "nn", "ops", "optim"):
    _with_ops(importlib.import_module(f"eagerjit.{_package}"))
for _module in ("fft", "linalg", "special"):
    importlib.import_module(f"eagerjit.{_module}")

SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 2))


class Sample(NamedTuple):
    """One call: its arguments, and the positions of tensors that the op defines no gradient for."""

    arguments: tuple[Any, ...]
    constants: tuple[int, ...] = ()


def draw(name: str, shape: tuple[int, ...], low: float = 0.2, high: float = 1.8, dtype: str = "float64") -> Any:
    """Numbers that depend on the name only; distinct and away from the integers for all that can be told."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return torch.tensor(generator.uniform(low, high, shape)).to(getattr(torch, dtype))


def integers(*values: Any) -> Any:
    """An int64 tensor of these rows."""
    return torch.tensor(np.array(values, np.int64))


def booleans(*values: Any) -> Any:
    """A bool tensor of these rows."""
    return torch.tensor(np.array(values, bool))


def declared(name: str) -> list[Sample]:
    """A sample of an elementwise op from its primitive's domain; other shapes have tests of their own."""
    primitive = TABLE[name]
    dtype = {"logical": "bool", "bitwise": "int64"}.get(primitive.promotion, "float64")
    tensors = (draw(f"{name}{i}", (2, 3), *domain, dtype) for i, domain in enumerate(primitive.domain))
    return [Sample(tuple(tensors))]


def elementwise(count: int, *rest: Any, low: float = 0.2, high: float = 1.8) -> list[Sample]:
    """Samples of `count` tensors of one shape, with the same further arguments."""
    return [Sample((*(draw(f"{i}", s, low, high) for i in range(count)), *rest)) for s in SHAPES]


def reductions(*rest: Any) -> list[Sample]:
    """A matrix along its last dimension and with it kept; rows without elements."""
    matrix = draw("reduced", (2, 3))
    return [Sample((matrix, 1, *rest)), Sample((matrix, 0, *rest)), Sample((draw("", (0, 3)), 1, *rest))]


def optimizer(lists: int, *rest: Any) -> list[Sample]:
    """Two parameters, their gradients and the lists of what the optimizer keeps."""
    tensors = [[draw(f"{i}a", (2, 2)), draw(f"{i}b", ())] for i in range(lists)]
    return [Sample((*tensors, *rest))]


M, N, V = draw("m", (2, 3)), draw("n", (2, 3)), draw("v", (3,))
STATE = integers(7, 0)
CLASSES, FLAGS, HALVES = integers(2, 0), booleans([True, False, True], [False, True, True]), draw("p", (2, 3), 0.2, 0.8)
COLUMNS = integers([0, 2], [1, 1])
COORDINATES = integers(0, 1, 2, 2), integers(1, 0, 0, 1)
BY_ROWS = integers(0, 1, 2, 4), integers(1, 0, 0, 1), None
BY_COLUMNS = integers(0, 2, 4), integers(1, 2, 0, 2), integers(1, 2, 0, 3)
"""A sparse matrix (3, 2): where its entries are, and their order by rows and by columns."""
IMAGE = draw("image", (1, 2, 4, 5), -1.0, 1.0)

LOSS = [Sample((M, N, reduction, 1.0)) for reduction in ("mean", "sum", "none")]
SIGNED = ("abs neg relu gelu silu leaky_relu elu selu softplus hardtanh hardsigmoid hardswish mish logsigmoid softsign "
          "erfc asinh frac deg2rad rad2deg sinc celu hardshrink softshrink tanhshrink square").split()  # fmt: skip

SAMPLES: dict[str, list[Sample]] = {
    **{name: elementwise(1, low=-1.8, high=1.9) for name in SIGNED},
    **{name: elementwise(2) for name in "fmod xlogy fmax fmin copysign div_trunc floor_divide isclose".split()},
    **{name: elementwise(3) for name in "addcmul addcdiv lerp".split()},
    **{name: LOSS for name in "huber_loss l1_loss mse_loss smooth_l1_loss".split()},
    **{name: reductions() for name in "all amax amin any argmax argmin logsumexp mean prod sum".split()},
    **{name: reductions(1) for name in "std var".split()},
    **{name: reductions() for name in "cumsum softmax log_softmax".split()},
    "acosh": elementwise(1, low=1.2, high=3.0),
    "atanh": elementwise(1, low=-0.9, high=0.9),
    "logit": [*elementwise(1, low=0.1, high=0.9), Sample((HALVES, 0.3))],
    "add_scaled": [*elementwise(2, 0.3), Sample((M, V, -2.0))],
    "clamp": [*elementwise(1, 0.5, 1.0), Sample((M, None, 1.0)), Sample((M, N, None))],
    "threshold": elementwise(1, 1.0, 0.25),
    "cov_weights": [Sample((V, "aweights"))],
    "prelu": [Sample((M - 1.0, draw("slope", (1,)))), Sample((M - 1.0, V))],
    "nan_to_num": [*elementwise(1, 0.0, 9.0, -9.0),
                   Sample((torch.tensor([float("nan"), 1.0]).double(), 0.5, 9.0, -9.0))],
    "masked_fill": [Sample((M, FLAGS, 2.0)), Sample((M, FLAGS, draw("fill", ())))],
    "where": [Sample((FLAGS, M, N)), Sample((FLAGS, M, 2.0))],
    "cast": [Sample((M, torch.float64)), Sample((M, torch.int64)), Sample((draw("", ()), torch.float32), (0,))],
    "pow": [*elementwise(2), Sample((M, 3)), Sample((M, 0.5)), Sample((M, 2.0))],
    "pow_of_many": [Sample((M.abs() + 0.5, p)) for p in (1.7, -0.3)],
    "clone": elementwise(1),
    "row_major": elementwise(1),
    "ordered": [Sample((M, (1, 0))), Sample((IMAGE, (0, 2, 3, 1)))],
    "cumprod": [*reductions(), Sample((M * torch.tensor([1.0, 0.0, 1.0]).double(), 1)), Sample((draw("", ()), 0))],
    "copy": [Sample((M, N)), Sample((M, V))],
    "fill": [Sample((M, 2.0)), Sample((M, draw("fill", ())))],
    "norm": [Sample((M, p, 1, False)) for p in (1.0, 2.0, 3.0)],
    "norm_of_many": [Sample((M, p, 1, False)) for p in (1.7, 2.2)],
    "matmul": [Sample((M, draw("r", (3, 2)))), Sample((V, V + 1.0)), Sample((draw("b", (2, 2, 3)), V)),
               Sample((draw("", (0, 3)), draw("r", (3, 2)))), Sample((draw("", (2, 0)), draw("", (0, 2))))],
    "convolution": [
        Sample((draw("x", (2, 4, 4, 3)), draw("w", (2, 2, 3, 2)), draw("b", (2,)), (2, 1), (1, 0), (1, 2), 2)),
        Sample((draw("x", (1, 1, 3)), draw("w", (1, 1, 2)), None, (1,), (0,), (1,), 1)),
        Sample((draw("x", (0, 1, 3)), draw("w", (1, 1, 2)), None, (1,), (0,), (1,), 1))],
    "convolution_input": [
        Sample((draw("y", (2, 2, 2, 2)), draw("w", (2, 2, 3, 2)), draw("b", (4,)), (4, 3), (2, 1), (1, 0), (1, 1), 2)),
        Sample((draw("y", (1, 1, 2)), draw("w", (1, 1, 2)), None, (4,), (2,), (0,), (1,), 1))],
    "convolution_weight": [
        Sample((draw("y", (2, 2, 2, 2)), draw("x", (2, 4, 4, 3)), (3, 2), (2, 1), (1, 0), (1, 1), 2))],
    "pad": [Sample((M, (1, 2, 0, 1), "constant", 0.5)), Sample((M, (1, -1), "constant", 0.0)),
            *(Sample((draw("p", (1, 2, 3)), (1, 2), mode, 0)) for mode in ("reflect", "replicate", "circular"))],
    "replace_block": [Sample((draw("b", (3, 4)), draw("s", (2, 2)), (1, 0), (1, 3))),
                      Sample((draw("b", (3, 4)), draw("", (0, 2)), (0, 0), (1, 1)))],
    "running_statistic": [Sample((draw("r", (3,)), draw("s", (3,)), 1.25, 0.1)),
                          Sample((draw("r", (2, 3)), draw("s", (2, 3)), None, 0.75))],
    "window_sum": [Sample((IMAGE, (2, 2), (3, 2), (2, 2), (1, 0))), Sample((IMAGE, (1, 1), (4, 5), (1, 1), (0, 0)))],
    "block_sum": [Sample((IMAGE, (2, 5)))],
    "block_spread": [Sample((draw("g", (1, 2, 2, 2)), (3, 2)))],
    "block_mean": [Sample((IMAGE, (4, 1)))],
    "window_spread": [Sample((draw("g", (1, 2, 2, 2)), (4, 5), (3, 2), (2, 2), (1, 0)))],
    "max_pool": [Sample((IMAGE, (3, 2), (2, 2), (1, 0), (1, 2), True)),
                 Sample((IMAGE, (4, 5), (1, 1), (0, 0), (1, 1), False))],
    "max_pool_values": [Sample((IMAGE, (3, 2), (2, 2), (1, 0), (1, 2), True))],
    "avg_pool": [Sample((IMAGE, (3, 2), (2, 2), (1, 0), True, False, None)),
                 Sample((IMAGE, (3, 2), (2, 2), (1, 0), False, True, 5))],
    "adaptive_avg_pool_spread": [Sample((IMAGE, (7, 9))), Sample((IMAGE, (2, 3)))],
    "adaptive_avg_pool": [Sample((IMAGE, (3, 2))), Sample((IMAGE, (2, 5))), Sample((IMAGE, (1, 1)))],
    "adaptive_max_pool": [Sample((IMAGE, (3, 2))), Sample((IMAGE, (2, 1)))],
    "depthwise_convolution": [
        Sample((IMAGE, draw("w", (2, 1, 3, 2)), draw("b", (2,)), (3, 2), (2, 1), (1, 0), (1, 2)))],
    "depthwise_convolution_input": [
        Sample((draw("y", (1, 2, 2, 3)), draw("w", (2, 1, 3, 2)), (4, 5), (3, 2), (2, 1), (1, 0), (1, 2)))],
    "depthwise_convolution_weight": [
        Sample((draw("y", (1, 2, 2, 3)), IMAGE, (3, 2), (2, 1), (1, 0), (1, 2)))],
    "columns": [Sample((IMAGE, (3, 2), (1, 2), (1, 0), (2, 1)))],
    "image_of_columns": [Sample((draw("c", (1, 12, 6)), (4, 5), (3, 2), (1, 2), (1, 0), (2, 1)))],
    "interpolate": [
        *(Sample((IMAGE, (3, 7), mode, False, None, None)) for mode in ("nearest", "bilinear", "bicubic")),
        Sample((IMAGE, (8, 10), "nearest-exact", False, 2.0, 2.0))],
    "repeated_points": [Sample((IMAGE, (2, 3))), Sample((IMAGE, (1, 2)))],
    "smooth_line": [Sample((IMAGE, 3, 3, 1.7, (5, 3), False)), Sample((IMAGE, 2, 8, 0.5, (5, 9), True))],
    "unsmooth_line": [Sample((IMAGE, 3, 9, 1.8, (5, 3), False)), Sample((IMAGE, 2, 2, 0.5, (5, 9), True))],
    "resized_line": [Sample((IMAGE, 3, 7, 1.5, False, "bilinear")), Sample((IMAGE, 2, 8, None, True, "bicubic")),
                     Sample((IMAGE, 3, 3, None, False, "nearest"))],
    "unresized_line": [Sample((IMAGE, 3, 3, 1.5, False, "linear")), Sample((IMAGE, 2, 9, None, True, "bicubic")),
                       Sample((IMAGE, 3, 3, None, False, "nearest-exact"))],
    "pixel_shuffle": [Sample((draw("x", (2, 4, 1, 3)), 2))],
    "pixel_unshuffle": [Sample((draw("x", (2, 4, 6)), 2))],
    "grid_sample": [Sample((IMAGE, draw("grid", (1, 2, 3, 2), -1.3, 1.3), mode, border, False))
                    for mode, border in (("bilinear", "zeros"), ("bilinear", "border"), ("bicubic", "reflection"))],
    "addmm": [Sample((draw("c", (2, 2)), M, draw("r", (3, 2)), 0.5, 2.0))],
    "linear": [Sample((M, draw("w", (2, 3)), draw("b", (2,)))), Sample((M, draw("w", (2, 3)))), Sample((V, N))],
    "attention_weights": [Sample((draw("s", (2, 2, 3)), None, False, 0.5)), Sample((M, FLAGS, False, 1.0)),
                          Sample((M, N, False, 0.5)), Sample((M, None, True, 0.5)), Sample((M, None, True, 0.5, True))],
    "flash_attention": [
        Sample((draw("q", (2, 3, 2)), draw("k", (2, 4, 2)), draw("v", (2, 4, 3)), None, False, 0.5)),
        Sample((draw("q", (3, 2)), draw("k", (3, 2)), draw("v", (3, 2)), None, True, 1.5)),
    ],
    "flash_gradients": [
        Sample((draw("g", (3, 2)), draw("q", (3, 2)), draw("k", (3, 2)), draw("v", (3, 2)), None,
                draw("l", (3,)), draw("d", (3,)), True, 1.5)),
    ],
    "attention": [Sample((draw("q", (2, 3, 2)), draw("k", (2, 4, 2)), draw("v", (2, 4, 3)), None, False, 0.5)),
                  Sample((draw("q", (3, 2)), draw("k", (3, 2)), draw("v", (3, 2)), None, True, 1.5)),
                  Sample((draw("q", (2, 2)), draw("k", (3, 2)), draw("v", (3, 1)), None, True, 1.0, True)),
                  Sample((draw("q", (2, 2)), draw("k", (3, 2)), draw("v", (3, 1)), N, False, 1.0))],
    "layer_norm": [Sample((M, (3,), V, V + 1.0)), Sample((M, (2, 3)))],
    "rms_norm": [Sample((M, (3,), V, 1e-5)), Sample((M, (3,), None, 1e-5))],
    "batch_norm": [Sample((draw("x", (3, 2)), draw("w", (2,)), draw("b", (2,)), 1e-5)),
                   Sample((draw("x", (2, 2, 3)), None, None, 0.1))],
    "known_norm": [Sample((draw("x", (3, 2)), draw("m", (2,)), HALVES[0, :2], None, None, 1e-5)),
                   Sample((IMAGE, draw("m", (2,)), HALVES[0, :2], draw("w", (2,)), draw("b", (2,)), 0.1))],
    "group_norm": [Sample((draw("x", (2, 4, 2)), 2, draw("w", (4,)), draw("b", (4,)), 1e-5)),
                   Sample((IMAGE, None, None, None, 1e-5))],
    "binary_cross_entropy": [Sample((HALVES, HALVES * 0.5, None, "mean")),
                             Sample((HALVES, HALVES * 0.5, M, "sum"), (2,))],
    "binary_cross_entropy_with_logits": [
        Sample((M, HALVES, None, None, "mean")), Sample((M, HALVES, N, V, "none"), (2, 3))],
    "kl_div": [Sample((M, N, "mean", False)), Sample((M, N, "batchmean", True))],
    "cross": [Sample((draw("a", (2, 3)), draw("b", (2, 3)), 1)), Sample((draw("a", (3, 2)), draw("b", (3, 1)), 0))],
    "cross_entropy": [Sample((M, CLASSES)), Sample((M, CLASSES, V, 0, "sum", 0.1), (2,)), Sample((V, integers(1)[0]))],
    "nll_loss": [Sample((M, CLASSES)), Sample((M, CLASSES, V, -100, "none"), (2,))],
    "soft_cross_entropy": [Sample((M, HALVES, None, "mean", 0.0)), Sample((M, HALVES, V, "sum", 0.1))],
    "embedding": [Sample((draw("e", (3, 2)), COLUMNS, None)), Sample((draw("e", (3, 2)), COLUMNS, 1), (0,))],
    "sparse_product": [
        Sample((draw("v", (4,)), draw("x", (2, 3)), *COORDINATES, *BY_ROWS, *BY_COLUMNS)),
        Sample((draw("v", (4,)), draw("x", (3, 1)), *COORDINATES[::-1], *BY_COLUMNS, *BY_ROWS)),
    ],
    "sparse_product_of_entries": [Sample((draw("values", (4,)), draw("dense", (2, 3)), *COORDINATES, 3, 2))],
    "one_hot": [Sample((integers(2, 0), (3,))), Sample((integers([0, 1], [1, 1]), (2,))), Sample((integers(), (4,)))],
    "take_rows": [Sample((M, integers(1, 0, -1))), Sample((M, draw("", (0,)).long())), Sample((V, integers(1)[0]))],
    "add_rows": [Sample((M, integers(1, 1), N)), Sample((M, integers(-1), N[:1]))],
    "put_rows": [Sample((M, integers(1, 0), N)), Sample((M, integers(-1), N[:1]))],
    "add_along": [Sample((M, 1, integers(2, -3), N[:, :2])), Sample((M, 0, integers(1, 1), N, False))],
    "put_along": [Sample((M, 1, integers(2, -3), N[:, :2])), Sample((M, 0, integers(1, 0), N, False))],
    "gather": [Sample((M, 1, COLUMNS)), Sample((draw("", ()), 0, integers(0)[0]))],
    "scatter_add": [Sample((M, 1, COLUMNS, draw("s", (2, 2)))),
                    Sample((draw("", ()), 0, integers(0)[0], draw("s", ())))],
    "slice_scatter": [Sample((M, draw("s", (2, 2)), 1, 0, 3, 2))],
    "cat": [Sample(([M, N], 0)), Sample(([M, N, draw("", (2, 0))], 1))],
    "tril": [Sample((M,)), Sample((M, 1))],
    "triu": [Sample((M,)), Sample((M, -1))],
    "sort": [Sample((M, 1, False)), Sample((M, 0, True)), Sample((draw("", ()), 0, False))],
    "argsort": [Sample((M, 1, False)), Sample((M, 0, True)), Sample((draw("", ()), 0, False))],
    "kthvalue": [Sample((M, 2, 1)), Sample((M, 1, 0))],
    "median": [Sample((M, 1, False)), Sample((M, 0, True)), Sample((integers([3, 1, 2], [0, 0, 5]), 1, False))],
    "topk": [Sample((M, 2, 1, True)), Sample((M, 1, 1, False)), Sample((draw("", ()), 1, 0, True))],
    **{f"{name}_with_index": [Sample((M, 1, False)), Sample((M, -2, True)), Sample((draw("", ()), 0, False))]
       for name in ("amax", "amin")},
    "flip": [Sample((M, (0, -1))), Sample((V, (0,))), Sample((M, ()))],
    "roll": [Sample((M, (1, 2), (0, 1))), Sample((V, (2,), (0,)))],
    "repeat": [Sample((M, (2, 1, 3))), Sample((V, (0, 2))), Sample((draw("", ()), (2,)))],
    "repeat_interleave": [Sample((M, (3,), 1)), Sample((M, (1,), 0)), Sample((V, (0,), 0))],
    "stack": [Sample(([M, N], 0)), Sample(([M, N, M], -1)), Sample(([draw("", ())], 0))],
    "einsum": [Sample(("ij,kj->ik", M, N)), Sample(("ii->i", draw("q", (3, 3)))), Sample(("i,ij,j->", V[:2], M, V))],
    "addbmm": [Sample((draw("a", (2, 2)), draw("b", (2, 2, 3)), draw("c", (2, 3, 2)), 0.5, 2.0))],
    "baddbmm": [Sample((draw("a", (2, 2)), draw("b", (2, 2, 3)), draw("c", (2, 3, 2)), 0.5, 2.0))],
    "bmm": [Sample((draw("b", (2, 2, 3)), draw("c", (2, 3, 2))))],
    "filled": [Sample((1.5, (2, 3), torch.float32)), Sample((-2, (1, 4, 0), torch.int64))],
    "long_arange": [Sample((0, 1, 5, torch.int64)), Sample((0.5, 0.25, 4, torch.float32))],
    "linspace": [Sample((0.0, 1.0, 5, torch.float32)), Sample((2.5, -1.0, 4, torch.float64)),
                 Sample((0.0, 9.0, 3, torch.int64))],
    "scatter_any": [Sample((M, 1, torch.tensor([[2, 0], [1, 2]]), draw("s", (2, 2)))), Sample((M, 1, COLUMNS, 2.0)),
                    Sample((draw("", ()), 0, integers(0)[0], 1.0))],
    "index": [Sample((M, (integers(1, -1, 0),), (0,))), Sample((M, (integers(1, 0), integers(-1, 2)), (0, 1))),
              Sample((draw("t", (2, 3, 4)), (integers(2, 0),), (1,))),
              Sample((draw("t", (2, 3, 2)), (integers(1, 0), integers(1, 1)), (0, 2)))],
    "with_rows": [Sample((M, integers(1), V)), Sample((M, integers(0, -1), 2.0)), Sample((M, integers(0, 1), N))],
    "select_masked": [Sample((M, FLAGS, int(FLAGS.sum()))), Sample((V, V > 0.0, 3))],
    "outer": [Sample((V, V[:2]))],
    "normalize": [Sample((M, 2, 1, 1e-12)), Sample((M, 1, 0, 1e-3))],
    "linear_index": [Sample(((integers(0, -1), integers(2, 1)), (2, 3)))],
    "arange": [Sample((0, 1, 5, torch.int64)), Sample((0.5, 0.25, 4, torch.float32)), Sample((3, -1, 0, torch.int64))],
    "alias": elementwise(1),
    "view": [Sample((M, (3, 2))), Sample((draw("", (0, 2)), (2, 0))), Sample((draw("", ()), (1,)))],
    "permute": [Sample((M, (1, 0))), Sample((draw("", ()), ()))],
    "expand": [Sample((V, (2, 3))), Sample((draw("", ()), (2,))), Sample((V, (0, 3)))],
    "slice": [Sample((M, 1, 0, 3, 2)), Sample((M, 0, 1, 1, 1))],
    "select": [Sample((M, 0, 1)), Sample((V, 0, 2))],
    "diagonal": [Sample((M, 0, 0, 1)), Sample((M, -1, 0, 1)), Sample((draw("", (0, 2)), 0, 0, 1))],
    "unfold": [Sample((M, 1, 2, 1)), Sample((V, 0, 1, 2)), Sample((draw("u", (0, 3)), 1, 2, 1))],
    "as_strided": [Sample((M, ((2, 2), (1, 2), 1), ((2, 3), (3, 1), 0), 6))],
    "view_dtype": [Sample((M, torch.int32, torch.float32)), Sample((M, torch.int16, torch.float32)),
                   Sample((integers(1, -2, 3, 7), torch.float64, torch.int64)),
                   Sample((FLAGS, torch.uint8, torch.bool)),
                   Sample((draw("", (2, 4)).to(torch.bfloat16), torch.int64, torch.bfloat16))],
    "state_bytes": [Sample((STATE,))],
    "state_words": [Sample((STATE.repeat(4).to(torch.uint8),))],
    "rand": [Sample((STATE, (2, 3), torch.float32)), Sample((STATE, (), torch.float64)),
             Sample((STATE, (0,), torch.float32))],
    "randn": [Sample((STATE, (2, 3), torch.float32)), Sample((STATE, (), torch.float64))],
    "randint": [Sample((STATE, (2, 3), -3, 9, torch.int64))],
    "randperm": [Sample((STATE, (7,), torch.int64)), Sample((STATE, (1,), torch.float32))],
    "normal_like": [Sample((M, 0.5, 2.0, STATE)), Sample((V, 0, 1, STATE))],
    "uniform_like": [Sample((M, -0.5, 2.0, STATE)), Sample((V, 0, 1, STATE))],
    "dropout": [Sample((M, STATE, 0.5, 2.0))],
    "sgd_step": [*optimizer(3, torch.tensor(1.0), True, False, 0.1, 0.9, 0.0, 0.01),
                 *optimizer(2, [], None, False, True, 0.1, 0.0, 0.0, 0.0)],
    "adam_step": [*optimizer(5, torch.tensor(1.0), True, False, 0.1, 0.9, 0.99, 1e-8, 0.01)],
    "rmsprop_step": [*optimizer(5, torch.tensor(1.0), False, 0.1, 0.99, 4.0, 0.01, 0.9)],
    "adagrad_step": [*optimizer(3, torch.tensor(1.0), False, 0.1, 0.01, 0.01, 1e-8)],
    "adadelta_step": [*optimizer(4, torch.tensor(1.0), True, 0.1, 0.9, 1e-6, 0.01)],
    "adamax_step": [*optimizer(4, torch.tensor(1.0), False, 0.1, 0.9, 0.99, 1e-8, 0.01)],
    "nadam_step": [*optimizer(5, torch.tensor(1.0), True, False, 0.1, 0.9, 0.99, 1e-8, 0.01, 0.004)],
    "radam_step": [*optimizer(4, torch.tensor(9.0), False, True, 0.1, 0.9, 0.99, 1e-8, 0.01)],
    "rprop_step": [*optimizer(4, torch.tensor(1.0), False, 0.5, 1.2, 1e-6, 50.0)],
    "asgd_step": [*optimizer(3, [M[0, 0], M[0, 1]], [N[0, 0], N[0, 1]], torch.tensor(1.0), True, 0.1, 1e-4, 0.75, 1.0,
                             0.01)],
    "muon_step": [Sample(([M, N], [N, M], [M * 0.5, N * 0.5], (1.0, 0.5), True, (3.4445, -4.775, 2.0315), 2, 1e-7, 0.1,
                          0.01, 0.9))],
    "adafactor_step": [Sample(([M, V], [N, V * 2.0], [M[:, :1]], [N[:1]], [V * 0.5], torch.tensor(1.0), False,
                               (1e-7, 1e-7), 0.1, -0.8, 1e-3, 1.0, 0.01))],
    **{f"special_{name}": elementwise(1, low=0.3, high=60.0) for name in BESSEL},
    "orthogonal_polynomial": [
        Sample((M, integers([0, 1, 2], [5, 7, 3]).double(), (1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0), False))
    ],
    "standard_gamma": [Sample((M, HALVES), (1,))],
    "von_mises_samples": [Sample((M, N * 3.0, HALVES))],
    "gamma_slope": [Sample((M, N)), Sample((M, N + 5.0))],
    **{name: [Sample((M * s, HALVES)) for s in (1.0, 30.0)] for name in ("poisson", "poisson_samples")},
    "binomial_samples": [Sample((M.ceil() + n, HALVES, HALVES.flip(1))) for n in (4.0, 90.0)],
}  # fmt: skip

SIGNS = torch.tensor([1.0, -1.0]).double()
REDUCTIONS = ("mean", "sum", "none")
LOSSES: dict[str, list[Sample]] = {
    "cosine_embedding_loss": [Sample((r, M, N, SIGNS, 0.1), (3,)) for r in REDUCTIONS],
    "hinge_embedding_loss": [Sample((r, M[:, 0], SIGNS, 3.0), (2,)) for r in REDUCTIONS],
    "margin_ranking_loss": [Sample((r, M[:, 0], N[:, 0], SIGNS, 0.3), (3,)) for r in REDUCTIONS],
    "soft_margin_loss": [Sample((r, M[:, 0], SIGNS), (2,)) for r in REDUCTIONS],
    "triplet_margin_loss": [Sample((r, M[:, 0], N[:, 0], 1.0)) for r in REDUCTIONS],
    "multi_margin_loss": [Sample((r, M, CLASSES, None, p, 1.1)) for r in REDUCTIONS for p in (1, 2)],
    "multilabel_margin_loss": [Sample((r, M, integers([2, -1, 0], [0, 1, -1]))) for r in REDUCTIONS],
    "multilabel_soft_margin_loss": [Sample((r, M, HALVES, w), (2, 3)) for r in REDUCTIONS for w in (None, V)],
    "poisson_nll_loss": [Sample((M, N, log, True, 1e-8, r), (1,)) for r in REDUCTIONS for log in (True, False)],
    "gaussian_nll_loss": [Sample((M, N, HALVES, full, 1e-6, r)) for r in REDUCTIONS for full in (True, False)],
    "ctc_step": [Sample((M, N, FLAGS, booleans(True, False)))],
}  # fmt: skip
SAMPLES |= LOSSES

H, C, GATES, CANDIDATES = draw("h", (2, 2)), draw("c", (2, 2)), draw("gates", (2, 8)), draw("candidates", (2, 6))
TO_GATES, TO_CANDIDATES = draw("w", (8, 2)), draw("w", (6, 2))
STEPS, SEQUENCE = draw("steps", (3, 2, 8)), draw("sequence", (3, 2, 2))
RECURRENT: dict[str, list[Sample]] = {
    "lstm_step": [Sample((GATES, H, C, TO_GATES, None)), Sample((GATES, H[:, :1], C, TO_GATES[:, :1], None, H[:1]))],
    "lstm_step_gradient": [Sample((H + 1.0, C, H * 2.0, H, C, H - 0.5, C - 0.5, H * 0.5, C * 0.5, H - C, C, TO_GATES))],
    "lstm_step_plain": [Sample((GATES, H, C, TO_GATES, draw("b", (8,))))],
    "gru_step": [Sample((CANDIDATES, H, TO_CANDIDATES, b)) for b in (None, draw("b", (6,)))],
    "gru_step_plain": [Sample((CANDIDATES, H, TO_CANDIDATES, None))],
    "gru_step_gradient": [Sample((H + 1.0, C, H, H - 0.5, H * 0.5, C * 0.5, H - C, C, TO_CANDIDATES))],
    **{f"rnn_{name}_step": [Sample((H, C, H - 0.5, None))] for name in ("tanh", "relu")},
    **{f"rnn_{name}_step_gradient": [Sample((H + 1.0, C, C, H - 0.5, C * 2.0))] for name in ("tanh", "relu")},
    "recurrent_layer": [
        Sample(("LSTM", STEPS, (H, C), TO_GATES, None, None, True, False)),
        Sample(("LSTM", STEPS, (H, C), TO_GATES, None, None, False)),
        Sample(("GRU", STEPS[..., :6], (H,), TO_CANDIDATES, draw("b", (6,)), None, True)),
        Sample(("RNN_TANH", SEQUENCE[0], (H[:1],), C, None, (1, 1), False)),
    ],
    "recurrent_layer_gradient": [
        Sample(("LSTM", SEQUENCE, (H, C), STEPS, (C, H), TO_GATES, False, None, True,
                (SEQUENCE - 0.5, SEQUENCE * 0.5, draw("kept", (4, *SEQUENCE.shape))))),
        Sample(("RNN_RELU", SEQUENCE[:, 0], (H,), SEQUENCE[:, 1], (C,), C - 0.5, True, (2, 1), False,
                (SEQUENCE[:, 0] - 0.5,))),
    ],
}  # fmt: skip
SAMPLES |= RECURRENT

COPIED = ("unfold", "real", "imag", "view_as_real", "view_as_complex", "view_dtype", "as_strided")
"""Views of an argument that a compiled call makes when it has run; what is computed of these is compiled."""

ELSEWHERE = {"move": "a copy between devices, which drivers make"}
"""Ops that no samples on one device can show, and what they do; tests of devices have them."""

CONSTRAINED = (
    "linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh", "linalg_ldl_factor", "linalg_svd",
    "linalg_svd_of_values", "standard_gamma", "fake_quantize", "floor_divide", "floor_divide_", "bernoulli_p",
    "heaviside",
    *COMPLEX, *(f"{name}_" for name in COMPLEX),
)  # fmt: skip
"""Ops whose gradients hold for symmetric matrices, for results up to a sign, in the mean of samples, as if nothing were
rounded, are refused, or are complex: see the oracle tests."""

SAMPLES |= namespace_samples(Sample, draw, elementwise, reductions)

WRITES = {
    "rand": (0,), "randn": (0,), "randint": (0,), "randperm": (0,), "dropout": (1,), "normal_like": (3,),
    "uniform_like": (3,),
    "sgd_step": (0, 2, 3), "adam_step": (0, 2, 3, 4, 5), "rmsprop_step": (0, 2, 3, 4, 5), "adagrad_step": (0, 2, 3),
    **{f"{name}_step": (0, 2, 3, 4) for name in ("adadelta", "adamax", "radam", "rprop")},
    **{f"{name}_step": (0, 2, 3, 4, 5) for name in ("nadam", "asgd", "adafactor")}, "muon_step": (0, 2),
}  # fmt: skip
"""Arguments that ops write into: generators' states, and what optimizers keep."""


def samples(name: str) -> list[Sample]:
    """The samples of an op by name; none where nobody has written any."""
    op = OPS[name]
    if isinstance(op, InplaceOp):
        return [s for s in samples(op.functional.name) if _keeps_shape(op.functional, s)]
    if name in SAMPLES:
        return SAMPLES[name]
    return declared(name) if name in TABLE and TABLE[name].domain else []


def _keeps_shape(op: Any, sample: Sample) -> bool:
    """Whether the result fits into the first argument, which is a matrix: one shape is enough for a write."""
    target = sample.arguments[0]
    if target.ndim != 2 or target.numel() == 0:
        return False
    return op.name in WRITES or op.call(*sample.arguments).shape == target.shape


UP_TO_SIGNS = ("linalg_eigh", "linalg_svd", "linalg_svd_of_values")
"""Ops whose results are vectors that may point either way."""


def comparable(name: str) -> Any:
    """An op's function, or its results' squares where machines may choose their signs."""
    call = function(name)
    return (lambda *given: tuple(x * x for x in call(*given))) if name in UP_TO_SIGNS else call


def function(name: str) -> Any:
    """The op as a function that leaves its arguments as they are and returns all that it computes or writes."""
    op = OPS[name]
    if isinstance(op, ViewOp):
        return (lambda *arguments: op(*arguments).clone()) if name in COPIED else op
    if isinstance(op, InplaceOp):
        method, also = op.method(), WRITES.get(op.functional.name, ())
        return lambda target, *rest: method(
            target.clone(), *(_copied(a) if i in also else a for i, a in enumerate(rest, start=1))
        )
    written = WRITES.get(name, ())
    if not written:
        return op.call

    def run(*arguments: Any) -> Any:
        fresh = [_copied(a) if i in written else a for i, a in enumerate(arguments)]
        results = op.run(tuple(fresh))
        results = list(results) if isinstance(results, tuple) else [results]
        return tuple(results + leaves([fresh[i] for i in written]))

    return run


def _copied(argument: Any) -> Any:
    if isinstance(argument, list):
        return [x.clone() for x in argument]
    return argument.clone() if isinstance(argument, torch.Tensor) else argument


def leaves(arguments: Any) -> list[Any]:
    """The tensors among arguments, those in lists too."""
    found: list[Any] = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            found += leaves(argument)
    return found


def rebuilt(arguments: Any, tensors: Any) -> list[Any]:
    """The arguments with their tensors taken from an iterator."""
    out: list[Any] = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            out.append(next(tensors))
        elif isinstance(argument, (list, tuple)) and leaves(argument):
            out.append(type(argument)(rebuilt(argument, tensors)))
        else:
            out.append(argument)
    return out
