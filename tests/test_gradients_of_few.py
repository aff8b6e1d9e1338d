"""Operations whose gradients are their own, rather than made of those of a dozen others."""

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.nn import functional

CASES = {
    "MedianBackward0": lambda x: x.median(1, keepdim=True)[0],
    "KthvalueBackward0": lambda x: x.kthvalue(2, 1, keepdim=True)[0],
    "CrossBackward0": lambda x: torch.linalg.cross(x[:, :3], x[:, 1:4]),
    "AdaptiveAvgPoolBackward0": lambda x: functional.adaptive_avg_pool1d(x[None], 3),
}


@pytest.mark.parametrize("name", CASES)
def test_one_operation_is_on_the_tape(name):
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    node, names = CASES[name](x).grad_fn, []
    while node.next_functions:
        names.append(node.name())
        node = node.next_functions[0][0]
    assert name in names and len(names) <= 3
    assert torch.autograd.gradcheck(CASES[name], (x,)) and torch.autograd.gradgradcheck(CASES[name], (x,))


def test_no_gradient_is_scattered_where_every_place_knows_its_windows():
    x = torch.randn(2, 3, 10, 7, requires_grad=True)
    gradient = torch.jit(lambda g: torch.autograd.grad(functional.adaptive_avg_pool2d(x, (3, 4)), x, g)[0])
    assert "scatter_add" not in str(gradient.explain(torch.ones(2, 3, 3, 4)).graph)


@pytest.mark.parametrize("name", ["median", "nanmedian", "kthvalue"])
def test_complex_numbers_have_no_order(name):
    arguments = (1, 0) if name == "kthvalue" else (0,)
    with pytest.raises(NotImplementedError, match=f"{name}.*complex64"):
        getattr(torch, name)(torch.ones(3, dtype=torch.complex64), *arguments)


def test_of_several_that_are_no_numbers_the_median_is_the_first():
    x = torch.tensor([[1.0, float("nan"), 3.0, float("nan")], [float("nan")] * 4])
    assert x.median(1).indices.tolist() == torch.jit(lambda x: x.median(1).indices)(x).tolist() == [1, 0]


def test_gradients_of_determinants_of_all_kinds_of_matrices(monkeypatch):
    """Those from inverses agree with those from singular values, which singular matrices have alone."""
    from eagerjit.ops import determinants

    torch.manual_seed(0)
    a = torch.randn(7, 4, 4, dtype=torch.float64)
    a[2], a[3, 1], a[4, 0] = 0.0, a[3, 0], a[4, 1] * (1 + 1e-14)
    a[5] = 1e-70 * a[5]
    for matrices in (a, a[:2], a[0], a[3], a.to(torch.complex128) * (1 + 2j), a[:, :0, :0], a.float()):
        array = matrices.numpy()
        exact = determinants._cofactors_of_any(array)
        found = determinants._cofactor_array(array)
        assert np.allclose(found, exact, rtol=1e-6 if array.itemsize > 4 else 1e-2, atol=1e-30)
    asked = []
    monkeypatch.setattr(determinants, "_cofactors_of_any", lambda x: asked.append(x.shape) or x)
    determinants._cofactor_array(a[:2].numpy())
    assert not asked
