"""`out=` of every dtype and of other shapes: the values, the errors and the warnings of PyTorch's."""

import warnings

import numpy as np
import pytest
import torch

import eagerjit

DTYPES = "float16 bfloat16 float32 float64 int64 int32 uint8 bool complex64 complex128".split()
CALLS = """
abs(x) ceil(x) sign(x) neg(x) exp(x) round(x) nan_to_num(x) isposinf(x) signbit(x) clamp(x,0,1) conj_physical(x)
add(x,y) div(x,y) float_power(x,y) heaviside(x,y) maximum(x,y) eq(x,y) logical_and(x,y) pow(x,2) polygamma(1,y)
sum(x,1) sum(i,1) prod(x,1) mean(x,1) amax(x,1) argmax(x,1) any(x,1) all(i,1) cumsum(x,1) cumprod(i,0) logsumexp(x,1)
sum(x,1,dtype=t.float64) cumsum(x,0,dtype=t.float64) mean(x,1,dtype=t.float64) norm(x,2,1) quantile(x,0.5,dim=1)
mm(x,y.T) matmul(x,y.T) mv(x,y[0]) dot(x[0],y[0]) addmm(t.ones(3,3),x,y.T) outer(x[0],y[0]) inner(x,y)
tensordot(x,y.T,1)
where(x>0,x,y) cat([x,y]) stack([i,i]) gather(x,0,j) index_select(x,0,j[0]) take(x,j) masked_select(x,x>0) nonzero(x)
tril(x) scatter(x,0,j,y) scatter_add(x,0,j,y) bucketize(x,y[0]) softmax(x,1) complex(x,y) linalg.multi_dot([x,y.T,x])
linalg.vector_norm(x) linalg.svdvals(x) abs(i) mm(i,i.T) bitwise_not(i) fft.rfft(x) zeros(3) addcmul(x,x,y)
clamp(x,y) clamp(x,max=y) clamp(x,y,y) clip(i,j) clamp_min(x,y) clamp_max(x,y) clamp_max(i,max=j) clamp_min(x,0)
max(i) min(x) max(x>0) max(i,j) min(x,y) abs(complex(x,y)) absolute(complex(x,y)) abs(complex(x,y).cdouble())
pow(1,x) pow(1.0,i) pow(2,x) pow(1,complex(x,y))
alias_copy(x) detach_copy(x) diagonal_copy(x) expand_copy(x,(2,3,4)) permute_copy(x,(1,0)) select_copy(x,0,1) t_copy(x)
squeeze_copy(x) transpose_copy(i,0,1) unfold_copy(x,1,2,1) unsqueeze_copy(x,0) view_copy(x,(12,))
index_reduce(x,0,j[0,:3],y,'amax') nn.functional.linear(x,y) nn.functional.gelu(x)
nn.functional.softplus(x) nn.functional.softshrink(x)
linalg.solve_triangular(x[:,:3],x,upper=True) linalg.lu_solve(x[:,:3],t.tensor([1,2,3]).int(),y)
""".split()


def _call(m, text, **options):
    values = {
        "t": m,
        "x": m.tensor([[0.1, -0.2, 0.3, 1.0], [2.0, 0.5, -1.0, 0.25], [1.5, 0.75, 0.1, -0.4]]),
        "y": m.tensor([[1.0, 2.0, 3.0, 4.0], [0.2, 0.5, 1.0, 2.5], [0.5, 0.75, 0.3, 0.4]]),
        "i": m.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [3, 2, 1, 3]]),
        "j": m.tensor([[0, 1, 2, 0]]),
        "complex": m.complex,
        "options": options,
    }
    return eval(f"t.{text[:-1]}, **options)", values)


def _outcome(m, text, shape, dtype):
    out = m.zeros(shape, dtype=getattr(m, dtype))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            result = _call(m, text, out=out)
        except Exception as error:
            return type(error).__name__
    assert result is out
    return str(out.dtype), tuple(out.shape), [w.category for w in found], np.asarray(out.to(m.complex128).tolist())


def _agree(text, shape, dtype):
    expected, found = _outcome(torch, text, shape, dtype), _outcome(eagerjit, text, shape, dtype)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected, dtype
        return
    assert found[:3] == expected[:3], dtype
    low = dtype in ("float16", "bfloat16")
    np.testing.assert_allclose(found[3], expected[3], rtol=1e-2 if low else 1e-5, atol=1e-2 if low else 1e-6)


@pytest.mark.parametrize("text", CALLS)
def test_dtypes(text):
    shape = tuple(_call(torch, text).shape)
    for dtype in DTYPES:
        _agree(text, shape, dtype)


@pytest.mark.parametrize("text", CALLS)
def test_other_shapes(text):
    dtype = str(_call(torch, text).dtype).removeprefix("torch.")
    for shape in ((0,), (7,), (2, 9)):
        _agree(text, shape, dtype)


@pytest.mark.parametrize("source, target", [("bfloat16", "float32"), ("float32", "float64"), ("float32", "complex128")])
@pytest.mark.parametrize("name", ["mean", "sum", "nanmean"])
def test_averages_are_rounded_to_what_is_written(name, source, target):
    if name == "nanmean" and target == "complex128":
        return

    def written(m):
        out = m.empty((), dtype=getattr(m, target))
        return getattr(m, name)(m.tensor([2.0, 2.0, 3.0], dtype=getattr(m, source)), 0, out=out).item()

    assert written(eagerjit) == written(torch)


ONE_OF_TWO = {
    "max": lambda t, x, out: t.max(x, 1, out=out),
    "sort": lambda t, x, out: t.sort(x, out=out),
    "topk": lambda t, x, out: t.topk(x, 2, 1, out=out),
    "kthvalue": lambda t, x, out: t.kthvalue(x, 1, 1, out=out),
    "median": lambda t, x, out: t.median(x, 1, out=out),
    "mode": lambda t, x, out: t.mode(x, 1, out=out),
    "cummax": lambda t, x, out: t.cummax(x, 1, out=out),
}


@pytest.mark.parametrize("second", ["ones", None, "zz"])
@pytest.mark.parametrize("name", ONE_OF_TWO)
def test_nothing_is_written_where_one_of_several_is_refused(name, second):
    kinds = []
    for t in (torch, eagerjit):
        first = t.full((2, 3), 7.0)
        with pytest.raises((RuntimeError, TypeError)) as refused:
            ONE_OF_TWO[name](t, t.arange(6.0).reshape(2, 3), (first, t.ones(2, 3) if second == "ones" else second))
        kinds.append(refused.type)
    assert kinds[0] is kinds[1]
    assert first.tolist() == [[7.0] * 3] * 2
