"""Sample arguments of the ops behind functions that are used now and then."""

from __future__ import annotations

from typing import Any

import numpy as np

import eagerjit as torch
import eagerjit.array_api.sets
import eagerjit.ops.distances
import eagerjit.sparse.updates
from eagerjit.ops.float8 import FORMATS

PLACES = torch.tensor(np.array([[0, 2], [1, 1]], np.int64))
WHOLE = torch.tensor(np.array([[6, -4, 9], [8, 12, 5]], np.int64))
FEW = torch.tensor(np.array([[1, 2, 3], [2, 1, 4]], np.int64))
ORDERED = torch.tensor(np.array([1, 1, 2, 2, 3, 4], np.int64))
PLACED = torch.tensor(np.array([0, 4, 1, 3, 2, 5], np.int64))
PIVOTS = torch.tensor(np.array([[1, 2, 3], [1, 3, 3]], np.int32))
CODES = torch.tensor(np.array([[0x38, 0xC1, 0x07], [0x80, 0x3A, 0xB5]], np.uint8))
WIDE, BITS = (torch.float32, None), (torch.float8_e4m3fn, FORMATS[torch.float8_e4m3fn])
FRESH = torch.tensor(np.array([True, False, True, False, True, True]))


COMPLEX = """complex conj real imag view_as_real view_as_complex complex_abs complex_sign complex_var complex_std
complex_pow complex_isclose complex_asinh complex_acosh complex_atanh complex_exp2 complex_silu complex_logaddexp
complex_convolution complex_convolution_input complex_logcumsumexp linalg_eig fft_full fft_half fft_whole""".split()


def namespace_samples(make: Any, draw: Any, elementwise: Any, reductions: Any) -> dict[str, list[Any]]:
    """The samples by the op's name."""
    matrix, vector, values = draw("m", (2, 3)), draw("v", (3,)), draw("s", (2, 2))
    edges = torch.tensor([0.5, 1.0, 1.5]).double()
    found: dict[str, list[Any]] = {
        **{name: elementwise(2) for name in ("logaddexp", "logaddexp2", "hypot", "xlog1py")},
        **{name: elementwise(1) for name in ("entr", "lgamma", "digamma", "i0", "i0e", "i1", "i1e", "frexp")},
        **{name: [make((WHOLE, FEW))] for name in ("gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift")},
        **{name: reductions() for name in ("cummax", "cummin", "logcumsumexp")},
        **{name: [make((matrix, matrix + 0.5), (0,))] for name in ("igamma", "igammac")},
        "distances": [make((matrix, values[:, :1] * matrix[:1] + 0.3, p)) for p in (1.0, 1.5, 2.0, 3.0, float("inf"))],
        "sparse_adagrad": [make((matrix, matrix * matrix + 0.5, 0.1, 1e-8))],
        "sparse_adam": [make((matrix, matrix * 0.5, matrix * matrix + 0.5, 0.9, 0.99, 0.1, 1e-8))],
        **{name: [make((matrix, None, 0.5, 1)), make((matrix, vector, 1, -1)), make((vector, None, 2, 0))] for name in
           ("trapezoid", "cumulative_trapezoid")},
        "per_step": [make((matrix, 0.5)), make((vector[0], 3))],
        "nansum": reductions(),
        "equal": [make((matrix, matrix)), make((matrix, matrix + 1.0))],
        "allclose": [make((matrix, matrix + 1e-9, 1e-5, 1e-8, False)), make((matrix, matrix + 1.0, 1e-5, 1e-8, True))],
        "block_diag": [make(([matrix, values],)), make(([matrix],))],
        "diag_embed": [make((vector, offset)) for offset in (0, 1, -2)] + [make((matrix, 1))],
        "pair_distances": [
            make((matrix, torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]), p)) for p in (1.0, 1.5, 2.0, 3.0)
        ],
        "triangle_indices": [make(((5,), 3, 2, 0, 1, 2, True)), make(((9,), 4, 3, 0, 2, 2, False))],
        "euclidean_distances": [make((matrix, matrix * 2 + 0.5))],
        "erfinv": elementwise(1, low=-0.9, high=0.9),
        **{name: [make((draw("u", (2, 3), 0.1, 0.9), draw("v", (3,), 0.0, 1.0)))] for name in ("bernoulli", "below")},
        "bernoulli_p": [make((FRESH, ORDERED.double()))],
        "ctc_lengths": [make((FEW, 4))],
        "quantile_fractions": [make((draw("u", (3,), 0.1, 0.9), "quantile"))],
        "fake_quantize": [make((matrix, torch.tensor(0.25), torch.tensor(-2), -8, 4))],
        "normal_deviation": [make((matrix,))],
        "sound_factors": [make((draw("s", (2, 3, 3)),))],
        "polygamma": [make((1, matrix)), make((2, matrix))],
        "zeta": [make((vector + 1.0, matrix), (0,))],
        "nextafter": elementwise(2),
        "scaled_product": [
            make((CODES, CODES.t(), *(vector[i : i + 1].float() for i in (0, 1)), None, *FORMATS.values(), *WIDE)),
            make(
                (CODES, CODES.t(), matrix[:, :1].float(), matrix[:1, :2].float(), vector[:2], *FORMATS.values(), *BITS)
            ),
        ],
        "count_nonzero": [make((matrix,)), make((matrix, 1))],
        "multinomial": [make((matrix, draw("u", (2, 2), 0.1, 0.9), 2, True)), make((matrix, matrix * 0.4, 2, False))],
        "mode": [make((matrix, 1)), make((vector, 0))],
        **{name: [make((matrix,)), make((vector,))] for name in
           ("median_of_all", "nanmedian_of_all", "max_of_all", "min_of_all")},
        "heaviside": [make((matrix - 1.0, vector))],
        "length": [make((matrix, 0.01))],
        "product_alone": [make((values, vector))],
        "pick": [make((matrix, 1, PLACES))],
        "scatter": [make((matrix, 1, torch.tensor(np.array([[0, 2], [1, 0]])), values))],
        "scatter_combine": [make((matrix, 1, PLACES, values, c)) for c in ("mul", "maximum", "minimum")],
        "searchsorted": [make((edges, matrix, False)), make((edges, vector, True))],
        "histc": [make((matrix, 4, 0.0, 2.0)), make((matrix, 3, 0.0, 0.0))],
        "histogram": [make((matrix, 4, 0.0, 2.0, None, False)), make((matrix, edges, 0.0, 0.0, matrix, True))],
        "bincount_bins": [make((FEW.reshape(-1), 3))],
        "bincount": [make((FEW.reshape(-1), None, 5)), make((FEW.reshape(-1), draw("w", (6,)), 5))],
        "nonzero": [make((WHOLE, 6)), make((vector, 3))],
        "repeated_positions": [make((FEW[0], 6))],
        "held": [make((WHOLE,)), make((vector,))],
        "unique_starts": [make((FEW,)), make((matrix,))],
        "unique": [make((ORDERED, PLACED, FRESH, 4, *w)) for w in ((True, False), (False, True), (False, False))],
        "unique_first": [make((torch.tensor([0, 2, 1, 0, 2]), 3))],
        "isin": [make((WHOLE, FEW, False)), make((matrix, vector, True))],
        "unique_consecutive_starts": [make((FEW, 0)), make((FEW.reshape(-1), 0))],
        "unique_consecutive": [
            make((FEW, torch.tensor([True, True, False]), 1, 2, True, True)),
            make((ORDERED, FRESH, 0, 4, False, False)),
        ],
        "linear_recurrence": [make((matrix, matrix + 0.5, 0)), make((vector, vector * 2.0, 0))],
        "element_before": [make((matrix, 1)), make((vector, 0))],
    }
    square = torch.tensor(np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.0]]))
    batch = torch.stack([square, square * 2.0])
    both = [make((square,)), make((batch,)), make((square[:0, :0],))]
    alone = "inv cholesky inv_ex cholesky_ex slogdet det lu_factor svdvals matrix_exp".split()
    found |= {f"linalg_{name}": both for name in alone}
    found |= {
        "linalg_solve": [make((square, square + 0.1)), make((batch, square[:, :2]))],
        "linalg_cofactor": [make((square, None)), make((square, square + 0.1)), make((batch, batch * square[0]))],
        "linalg_solve_ex": [make((square, square + 0.1)), make((batch, batch + 0.1))],
        "linalg_solve_triangular": [make((square, square, True, False)), make((batch, batch, False, True))],
        "linalg_qr": [make((square, "reduced")), make((matrix, "reduced"))],
        "linalg_eigh": [make((square, "L"), (0,)), make((batch, "U"), (0,))],
        "linalg_eigvalsh": [make((square, "L"), (0,)), make((batch, "U"), (0,))],
        "linalg_eig": [make((square,))],
        "linalg_svd": [make((matrix, False), (0,))],
        "linalg_svd_of_values": [make((matrix, False), (0,))],
        "linalg_pinv": [
            make((matrix, 0.0, 1e-12, False)),
            make((batch, 0.0, 1e-12, False)),
            make((batch, 0.0, 1e-12, True), (0,)),
        ],
        "linalg_lstsq": [make((matrix, matrix, 1e-12))],
        "linalg_ldl_factor": [make((square, False)), make((batch, True))],
        "linalg_ldl_solve": [
            make((square, PIVOTS[0], square + 0.1, False), (0,)),
            make((batch, PIVOTS, batch + 0.1, True), (0,)),
        ],
        "sound_pivots": [make((batch, PIVOTS * 0))],
        "lu_permutation": [make((torch.tensor(np.array([2, 3, 3], np.int32)), 3))],
    }
    numbers = torch.tensor(np.array([[1 + 2j, 0.5 - 1j], [2j, -1 + 0j]]))
    found |= {name: [make((numbers,))] for name in COMPLEX if "_" not in name or "complex" in name}
    found |= {name: [make((numbers, numbers + 1))] for name in ("complex_pow", "complex_isclose", "complex_logaddexp")}
    image, kernel = numbers.reshape(1, 1, 2, 2), numbers.reshape(1, 1, 4, 1)[:, :, :2]
    how = (2, 1), (1, 0), (1, 1), 1
    found |= {
        "complex_convolution": [make((image, kernel, numbers[0, :1], *how)), make((image, kernel, None, *how))],
        "complex_convolution_input": [make((image, kernel, numbers[0, :1], (2, 2), *how))],
    }
    found["complex_logcumsumexp"] = [make((numbers, dim)) for dim in (0, 1)]
    found |= {"view_as_real": [make((numbers,))], "fft_full": [make((numbers, (0, 1), True, 0.5))]}
    found |= {"fft_frequencies": [make((5, 3, 5, 0.2, torch.float32)), make((4, 4, 6, 0.5, torch.float64))]}
    found |= {"fft_half": [make((matrix, (0, 1), 1.0))], "fft_whole": [make((numbers, (0, 1), 3, 1.0))]}
    found |= {name: elementwise(1, low=-3.0, high=3.0) for name in ("ndtr", "erfcx", "direct_erfcx", "log_ndtr")}
    found["ndtri"] = elementwise(1, low=0.02, high=0.98)
    found |= {"complex": [make((matrix, matrix * 2.0))], "view_as_complex": [make((values,))]}
    return found
