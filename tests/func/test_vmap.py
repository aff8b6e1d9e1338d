"""What vmap does beyond arithmetic: random numbers, writes, structure, errors, networks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import eagerjit
from eagerjit import nn
from eagerjit.func import functional_call, grad, jacfwd, jacrev, stack_module_state, vmap

X = eagerjit.tensor(np.arange(12.0).reshape(4, 3))


def rand(*shape):
    return eagerjit.rand(*shape, dtype=eagerjit.float64)


def test_the_dimension_of_a_single_result_may_be_a_tuple() -> None:
    assert vmap(lambda x: x * 2, out_dims=(1,))(X).tolist() == (X * 2).T.tolist()
    assert vmap(lambda x: x * 2, out_dims=(1,), chunk_size=1)(X).tolist() == (X * 2).T.tolist()
    assert vmap(lambda x: (x * 2,), out_dims=(1,))(X)[0].tolist() == (X * 2).T.tolist()
    with pytest.raises(ValueError, match="not compatible with the structure"):
        vmap(lambda x: x * 2, out_dims=(1, 0))(X)


def test_structures_and_keywords():
    def f(pair, *, scale):
        a, b = pair["a"], pair["b"]
        return {"sum": a + b * scale, "pair": (a, [b])}

    out = vmap(f, in_dims=({"a": 0, "b": None},), out_dims={"sum": 1, "pair": 0})({"a": X, "b": X[0]}, scale=X[2])
    assert out["sum"].shape == (3, 4)
    assert (out["sum"].T.numpy() == (X + X[0] * X[2]).numpy()).all()
    assert (out["pair"][1][0].numpy() == X[0].expand(4, 3).numpy()).all()


def test_the_function_sees_one_example():
    seen = []

    def f(x):
        seen.append((tuple(x.shape), x.ndim, x.numel(), len(x)))
        return x.sum()

    vmap(f)(X)
    assert seen == [((3,), 1, 3, 3)]


def test_sizes_compile_nothing_new():
    mapped = eagerjit.jit(vmap(lambda x: x.softmax(0) * x.shape[0]), fullgraph=True)
    for size in (4, 5, 7):
        x = eagerjit.randn(size, 3)
        np.testing.assert_allclose(mapped(x).numpy(), (x.softmax(1) * 3).numpy(), rtol=1e-6)
    assert mapped.cache_info().compiles == 1


def test_shared_results_are_repeated_or_kept():
    out, kept = vmap(lambda x, w: (w * 2, w + 1), (0, None), (0, None))(X, X[0])
    assert out.shape == (4, 3)
    assert kept.shape == (3,)
    with pytest.raises(ValueError, match="out_dims is None"):
        vmap(lambda x: x, out_dims=None)(X)


@pytest.mark.parametrize("compiled", [False, True])
def test_randomness(compiled):
    def f(x):
        return x * 0 + rand(3) + rand(3)

    def draw(randomness):
        mapped = vmap(f, randomness=randomness)
        return eagerjit.jit(mapped, fullgraph=True) if compiled else mapped

    eagerjit.manual_seed(0)
    same = draw("same")(X).numpy()
    eagerjit.manual_seed(0)
    assert (same == (rand(3) + rand(3)).numpy()).all()
    eagerjit.manual_seed(0)
    mapped = draw("different")
    first, second = mapped(X).numpy(), mapped(X).numpy()
    assert len(np.unique([first, second])) == 24
    eagerjit.manual_seed(0)
    expected = rand(4, 3) + rand(4, 3)
    assert (first == expected.numpy()).all()


def test_randomness_is_an_error_by_default():
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x + eagerjit.rand(3))(X)


def test_nested_randomness_draws_for_every_example():
    f = vmap(vmap(lambda x: x * 0 + eagerjit.rand(()), randomness="different"), randomness="different")
    first, second = f(X).numpy(), f(X).numpy()
    assert len(np.unique([first, second])) == 24


def test_dropout_in_training():
    x = eagerjit.ones(5, 100)
    out = vmap(lambda x: nn.functional.dropout(x, 0.5), randomness="different")(x).numpy()
    assert set(np.unique(out)) == {0.0, 2.0}
    assert not (out[0] == out[1]).all()


def test_writes_to_examples_reach_the_batch():
    x = X.clone()
    out = vmap(lambda x: x.mul_(2)[0])(x)
    assert (x.numpy() == 2 * X.numpy()).all()
    assert (out.numpy() == 2 * X[:, 0].numpy()).all()


def test_writes_to_shared_tensors():
    shared = eagerjit.zeros(3)
    vmap(lambda x: (shared.add_(1), x)[1])(X)
    assert shared.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="shared by all"):
        vmap(lambda x: shared.add_(x))(X)


def test_a_view_of_an_example_writes_to_it():
    def f(x):
        y = x * 1
        y[1:] = 0
        return y

    assert (vmap(f)(X).numpy()[:, 1:] == 0).all()
    assert (vmap(f)(X).numpy()[:, 0] == X[:, 0].numpy()).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_values_that_all_examples_share(compiled):
    def f(x, w):
        return x * w.item() if w > 0 else x

    mapped = vmap(f, (0, None))
    mapped = eagerjit.jit(mapped, fullgraph=False) if compiled else mapped
    assert (mapped(X, eagerjit.tensor(2.0)).numpy() == 2 * X.numpy()).all()
    assert (mapped(X, eagerjit.tensor(-2.0)).numpy() == X.numpy()).all()


def test_operations_of_numpy():
    def f(x):
        s = x.cumsum(0).sort(0, descending=True)
        return s.values * x.sum(), s.indices, eagerjit.topk(x, 2).values, x.sum().sort().values

    x = eagerjit.randn(5, 4)
    expected = [eagerjit.stack(found) for found in zip(*map(f, x), strict=True)]
    for found, wanted in zip(vmap(f)(x), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)
    twice = vmap(vmap(lambda x: x.cumsum(0)))(x.reshape(5, 2, 2))
    assert (twice.numpy() == x.reshape(5, 2, 2).cumsum(2).numpy()).all()

    def loss(x):
        return (x.cumsum(0).sort(0).values[1:] ** 2).sum()

    each = vmap(grad(loss))(x).numpy()
    np.testing.assert_allclose(each, eagerjit.stack([grad(loss)(row) for row in x]).numpy(), rtol=1e-5, atol=1e-5)
    leaf = x.clone().requires_grad_()
    vmap(loss)(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), each, rtol=1e-5, atol=1e-5)


ONE_BY_ONE = {
    "histc": lambda x, y: eagerjit.histc(x, 4, 0, 12),
    "histogram": lambda x, y: eagerjit.histogram(x, 3).bin_edges,
    "isin": lambda x, y: eagerjit.isin(x, y),
    "isin of what is shared": lambda x, y: eagerjit.isin(X, y),
    "frexp": lambda x, y: eagerjit.frexp(x).exponent,
    "lu": lambda x, y: eagerjit.linalg.lu(eagerjit.outer(x, y) + eagerjit.eye(3)).P,
    "searchsorted": lambda x, y: eagerjit.searchsorted(x, y),
    "searchsorted matrices": lambda x, y: eagerjit.searchsorted(x, X + y, right=True),
    "searchsorted in what is shared": lambda x, y: eagerjit.searchsorted(X[1], y.reshape(3, 1)),
    "bucketize": lambda x, y: eagerjit.bucketize(X, x),
    "rfft": lambda x, y: eagerjit.fft.rfft(x),
    "rfftn": lambda x, y: eagerjit.fft.rfftn(eagerjit.outer(x, y)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_operations_of_numpy_that_take_no_batches(name, compiled):
    f, y = ONE_BY_ONE[name], X.flip(0, 1) + 0.5
    batched = vmap(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is complex runs eagerly
        found = (eagerjit.jit(lambda x, y: batched(x, y)) if compiled else batched)(X, y)
    wanted = eagerjit.stack([f(a, b) for a, b in zip(X, y, strict=True)])
    assert found.dtype is wanted.dtype
    if name == "rfftn":  # real lines are transformed in pairs: which are pairs depends on how many there are
        assert eagerjit.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    else:
        assert found.tolist() == wanted.tolist()


def test_operations_of_numpy_on_no_examples():
    assert tuple(vmap(lambda x: eagerjit.histc(x, 5, 0, 1))(X[:0]).shape) == (0, 5)


@pytest.mark.parametrize("name", ["unique", "unique_consecutive", "nonzero"])
def test_sizes_that_depend_on_values(name):
    with pytest.raises(RuntimeError, match="depends on values"):
        vmap(getattr(eagerjit, name))(X)


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
def test_an_index_out_of_range(in_dims):
    table, index = eagerjit.zeros(4, 4), eagerjit.full((4, 4), 4, dtype=eagerjit.int64)
    given = [t if d == 0 else t[0] for t, d in zip((table, index), in_dims, strict=True)]
    with pytest.raises(IndexError):
        vmap(lambda t, i: t[i], in_dims)(*given)


def test_errors():
    shared = eagerjit.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="data-dependent"):
        vmap(lambda x: x if x.sum() > 0 else -x)(X)
    with pytest.raises(ValueError, match="same size"):
        vmap(lambda x, y: x.sum() + y.sum())(X, X.T)
    with pytest.raises(ValueError, match="None as the respective in_dim"):
        vmap(lambda x, y: x * y)(X, 2.0)
    with pytest.raises(ValueError, match="only return Tensors"):
        vmap(lambda x: 1)(X)
    with pytest.raises(ValueError, match="structure"):
        vmap(lambda x, y: x, in_dims=(0, (0, 0)))(X, X)
    with pytest.raises(ValueError, match="no inputs"):
        vmap(lambda: X)()
    with pytest.raises(ValueError, match="dimensionality"):
        vmap(lambda x: x, in_dims=2)(X)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x, randomness="some")
    with pytest.raises(RuntimeError, match="inside of vmap"):
        vmap(lambda x: (shared * x).sum().backward())(X)


def test_constants_in_another_shape():
    """A gradient of constants alone, viewed in a shape whose places are no affine function of the loops'."""
    index = eagerjit.tensor([[0, 1, 1]])
    x = eagerjit.randn(4, 2, 3)
    found = vmap(grad(lambda x: (x.scatter(0, index, x[:1] * 2) * 1.5).sum()))(x)
    assert found.tolist() == [[[3.0, 4.5, 4.5], [1.5, 0.0, 0.0]]] * 4


def test_gradients_flow_through():
    x, w = X.clone().requires_grad_(), X[0].clone().requires_grad_()
    vmap(lambda x: (x * w).sin().sum())(x).sum().backward()
    grads = x.grad.numpy(), w.grad.numpy()
    x.grad = w.grad = None
    (x * w).sin().sum().backward()
    np.testing.assert_allclose(grads[0], x.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(grads[1], w.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_no_gradients_without_need(compiled):
    w = X[0].clone().requires_grad_()

    def f(x):
        with eagerjit.no_grad():
            return x * w

    mapped = eagerjit.jit(vmap(f)) if compiled else vmap(f)
    assert not mapped(X).requires_grad
    assert vmap(lambda x: x * w)(X).requires_grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(eagerjit.tanh(self.first(x)))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_per_example(compiled):
    net = Net()
    x, target = eagerjit.randn(6, 3), eagerjit.randint(2, (6,))

    def loss(parameters, x, target):
        out = functional_call(net, parameters, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(out, target.unsqueeze(0))

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    each = vmap(grad(loss), in_dims=(None, 0, 0))
    found = (eagerjit.jit(each, fullgraph=True) if compiled else each)(parameters, x, target)
    for i in range(6):
        net.zero_grad()
        nn.functional.cross_entropy(net(x[i : i + 1]), target[i : i + 1]).backward()
        for name, p in net.named_parameters():
            np.testing.assert_allclose(found[name][i].numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_ensemble_of_models():
    models = [Net() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert all(p.requires_grad and p.is_leaf for p in parameters.values())
    x = eagerjit.randn(5, 3)
    base = Net()
    out = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, x)
    expected = eagerjit.stack([m(x) for m in models])
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    out.sum().backward()
    assert all(p.grad is not None for p in parameters.values())


def test_functional_call_replaces_and_restores():
    net = Net()
    before = net.first.weight
    zeros = {"first.weight": eagerjit.zeros(8, 3), "first.bias": eagerjit.zeros(8)}
    out = functional_call(net, zeros, eagerjit.ones(3))
    assert (out.detach().numpy() == net.second.bias.detach().numpy()).all()
    assert net.first.weight is before
    with pytest.raises(AttributeError, match="third"):
        functional_call(net, {"third.weight": before}, eagerjit.ones(3))
    with pytest.raises(RuntimeError, match="Missing"):
        functional_call(net, zeros, eagerjit.ones(3), strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(net, (zeros, zeros), eagerjit.ones(3))


def test_functional_call_ties_weights():
    net = Net()
    net.tied = net.first
    out = functional_call(net, {"tied.weight": eagerjit.zeros(8, 3), "tied.bias": eagerjit.zeros(8)}, eagerjit.ones(3))
    assert (out.detach().numpy() == net.second.bias.detach().numpy()).all()


def test_modules_and_jitted_functions_inside():
    net = Net()
    jitted = eagerjit.jit(lambda x: net(x).sum())
    expected = jacrev(lambda x: net(x).sum(1))(eagerjit.ones(4, 3)).detach().numpy()
    each = vmap(grad(jitted))(eagerjit.ones(4, 3)).detach().numpy()
    np.testing.assert_allclose(each, expected[np.arange(4), np.arange(4)], rtol=1e-5)


def _constant_factor(x):
    with eagerjit.no_grad():
        found = x * 2
    return found * x


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: x.detach() * x, lambda x: x),
        (lambda x: x.detach() * x * x, lambda x: 2 * x * x),
        (_constant_factor, lambda x: 2 * x),
        (lambda x: eagerjit.stack([(x * x).detach(), x]).prod(0), lambda x: x * x),
        (lambda x: (x * 1).add_(x.detach() * 3), eagerjit.ones_like),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_end_where_the_function_ends_them(function, slope, compiled):
    wanted = slope(X)

    def of_all(x):
        return vmap(function)(x).sum()

    def of_all_beside(x):
        return vmap(lambda one: (function(x) * one).sum())(eagerjit.ones(2, dtype=X.dtype)).sum() / 2

    for f in (of_all, of_all_beside):
        gradient = grad(eagerjit.jit(f) if compiled else f)
        assert (gradient(X).numpy() == wanted.numpy()).all()


def test_jacobians_of_compiled_functions_that_end_gradients():
    f = eagerjit.jit(lambda x: (x.detach() * x * x + x).sum())
    x = X[0]
    for outer in (jacrev, jacfwd):
        for inner in (jacrev, jacfwd):
            assert (outer(inner(f))(x).numpy() == (2 * x).diag().numpy()).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_convolutions_of_examples_that_do_not_lie_in_order(compiled):
    weight = eagerjit.tensor([[[1.0, -2.0]]], dtype=eagerjit.float64)

    def one(x, weight=weight):
        return nn.functional.conv1d(x[None, None], weight)[0, 0]

    def squares(x, weight=weight):
        return vmap(lambda row: one(row, weight).square().sum())(x).sum()

    mapped = eagerjit.jit(vmap(one)) if compiled else vmap(one)
    for x in (X, X.T, X[0].expand(4, 3), X[::2, 1:]):
        assert (mapped(x).numpy() == (x[:, :-1] - 2 * x[:, 1:]).numpy()).all()
        rows = x[:, None]
        for position in (0, 1):
            found = grad(eagerjit.jit(squares) if compiled else squares, argnums=position)(x, weight)
            plain = grad(lambda a, w: nn.functional.conv1d(a, w).square().sum(), argnums=position)(rows, weight)
            assert np.allclose(found.numpy().ravel(), plain.numpy().ravel(), rtol=1e-12)
    twice = grad(lambda x: vmap(grad(lambda row: one(row).square().sum()))(x).sum())
    assert (twice(X).numpy() == [-2.0, 2.0, 4.0]).all()


def test_gradients_of_random_examples():
    dropout = nn.Dropout(0.5)
    x = eagerjit.ones(4, 6, requires_grad=True)
    out = vmap(lambda row: dropout(row) * row, randomness="different")(x)
    eagerjit.rand(3)
    out.sum().backward()
    assert (x.grad.numpy() == 2 * out.detach().numpy()).all()


def test_gradients_of_running_sums_of_examples():
    def f(row):
        return (eagerjit.logcumsumexp(row, 0) * row).sum()

    def total(x):
        return vmap(f)(x).sum()

    inside = vmap(grad(f))(X / 4)
    for function in (total, eagerjit.jit(total)):
        assert np.allclose(grad(function)(X / 4).numpy(), inside.numpy(), rtol=1e-12)


class FiveTimes(eagerjit.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 5


def test_gradients_of_their_own_are_asked():
    assert (vmap(FiveTimes.apply)(X).numpy() == (X * X).numpy()).all()
    assert (vmap(grad(lambda row: FiveTimes.apply(row).sum()))(X).numpy() == 5.0).all()
    for function in (lambda x: vmap(FiveTimes.apply)(x).sum(), eagerjit.jit(lambda x: vmap(FiveTimes.apply)(x).sum())):
        assert (grad(function)(X).numpy() == 5.0).all()


def test_batch_normalisation_without_running_statistics() -> None:
    def outcome(library):
        network = library.nn.Sequential(library.nn.Linear(2, 3), library.nn.BatchNorm1d(3))
        with library.no_grad():
            for p in network.parameters():
                p.copy_(library.arange(float(p.numel())).reshape(p.shape) * 0.3)
        assert library.func.replace_all_batch_norm_modules_(network) is network
        parameters, x = dict(network.named_parameters()), library.arange(12.0).reshape(3, 2, 2).sin()
        found = library.vmap(lambda x: library.func.functional_call(network, parameters, (x,)))(x)
        return [name for name, _ in network.named_buffers()], str(network), found.detach().numpy()

    *described, result = outcome(eagerjit)
    *expected, numbers = outcome(torch)
    assert described == expected
    np.testing.assert_allclose(result, numbers, rtol=1e-3, atol=1e-5)
