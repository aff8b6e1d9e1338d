"""Functions of real numbers refuse complex ones, as in PyTorch: nothing is computed of real parts alone."""

import pytest
import torch

import eagerjit

CALLS = {
    "lgamma": lambda t, z: z.lgamma(),
    "digamma": lambda t, z: z.digamma(),
    "polygamma": lambda t, z: z.polygamma(1),
    "mvlgamma": lambda t, z: z.mvlgamma(2),
    "zeta": lambda t, z: t.special.zeta(z, z),
    "i0": lambda t, z: z.i0(),
    "i0e": lambda t, z: t.special.i0e(z),
    "i1": lambda t, z: t.special.i1(z),
    "chebyshev": lambda t, z: t.special.chebyshev_polynomial_t(z, 2),
    "legendre": lambda t, z: t.special.legendre_polynomial_p(z, z),
    "relu": lambda t, z: t.relu(z),
    "max": lambda t, z: z.max(1),
    "erf": lambda t, z: z.erf(),
    "floor": lambda t, z: z.floor(),
    "remainder": lambda t, z: z.remainder(z),
}


def _outcome(t, call):
    z = t.tensor([[1.0 + 2.0j, -3.0 + 0.5j], [0j, 2.0 - 1.0j]])
    try:
        return call(t, z).tolist()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", CALLS)
def test_refused(name):
    expected = _outcome(torch, CALLS[name])
    assert _outcome(eagerjit, CALLS[name]) in (expected, "NotImplementedError") and isinstance(expected, str)


def test_sizes_of_transforms_may_be_one_number():
    for call in (lambda t, x: t.fft.fftn(x, 4), lambda t, x: t.fft.irfftn(x, 3), lambda t, x: t.fft.rfftn(x, 2, 0)):
        x = [[1.0, 2.0, 0.5], [3.0, -1.0, 4.0]]
        found, expected = call(eagerjit, eagerjit.tensor(x)), call(torch, torch.tensor(x))
        assert found.tolist() == [pytest.approx(row, abs=1e-5) for row in expected.tolist()]


def test_the_older_name_of_mm():
    x = [[1.0, 2.0], [3.0, 4.0]]
    for t in (torch, eagerjit):
        assert t.spmm(t.tensor(x), t.tensor(x)).tolist() == [[7.0, 10.0], [15.0, 22.0]]
        assert t.spmm(t.tensor(x).to_sparse(), t.tensor(x)).tolist() == [[7.0, 10.0], [15.0, 22.0]]
