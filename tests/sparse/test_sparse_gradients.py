"""Gradients of sparse tensors and of their values, those that are sparse, and steps along them: as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit
from tests.sparse.compared import compare, outcome

FUNCTIONS = """
t.sparse.mm(a, x) | t.mm(a, x) | a @ x | t.addmm(w, a, x, beta=0.5, alpha=2.0) | a.coalesce() @ x | t.mm(x.t(), a.t())
t.sparse.addmm(w, a, x, beta=0.5, alpha=2.0) | t.mv(a, x[:, 0]) | (a * 2 - a * a).to_dense() @ x | (a + a) @ x
t.sparse.sum(a, 1).to_dense()[:, None] * x.sum() | t.sparse.softmax(a, 1).to_dense() @ x | (a / 4) @ x
t.sparse.log_softmax(a, 0).to_dense() @ x | t.cat([a, a], 1) @ t.cat([x, x]) | a.t().coalesce().t() @ x
a.index_select(0, t.tensor([0, 0, 2, 1, 4])) @ x | t.sparse.sum(a) * x | a.coalesce().values().pow(2).sum() * x
(w[:, :4] + a) @ x | a.coalesce().to_sparse_csr() @ x | (a.to_dense() ** 2) @ x | (-a) @ x | t.sparse.mm(a * 3.0, x)
(a.coalesce() * w[:, :4]) @ x | a.coalesce().abs().to_dense() @ x if t is eagerjit else abs(a.to_dense()) @ x
"""


def inputs(t: Any, dtype: str) -> Any:
    """Values at places of which one comes twice, a matrix of them, and two dense ones."""
    rng = np.random.default_rng(0)
    values = t.tensor(rng.normal(size=7).astype(dtype), requires_grad=True)
    indices = t.tensor([[0, 0, 1, 2, 2, 4, 0], [0, 2, 1, 0, 1, 3, 0]])
    x = t.tensor(rng.normal(size=(4, 5)).astype(dtype), requires_grad=True)
    w = t.tensor(rng.normal(size=(5, 5)).astype(dtype))
    return values, t.sparse_coo_tensor(indices, values, (5, 4)), x, w


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", [e.strip() for line in FUNCTIONS.split("\n") for e in line.split(" | ") if e.strip()])
def test_of_values(text: str, dtype: str) -> None:
    def run(t: Any) -> Any:
        values, a, x, w = inputs(t, dtype)
        y = eval(text, {"t": t, "eagerjit": eagerjit, "a": a, "x": x, "w": w})
        (y * t.arange(y.numel()).reshape(y.shape)).sum().backward()
        return y, values.grad, x.grad

    assert not isinstance(outcome(eagerjit, run), type)
    compare(run)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_of_sparse_leaves(layout: str) -> None:
    def run(t: Any) -> Any:
        _, a, x, _ = inputs(t, "float64")
        leaf = a.detach().coalesce()
        leaf = (leaf if layout == "coo" else leaf.to_sparse_csr()).requires_grad_()
        t.sparse.mm(leaf, x).pow(2).sum().backward()
        first = leaf.grad.to_dense()
        t.sparse.mm(leaf, x).sum().backward()
        return first, leaf.grad, t.autograd.grad(t.sparse.mm(leaf, x).sum(), [leaf, x])

    compare(run)


def test_of_products_of_sparse_leaves() -> None:
    def run(t: Any) -> Any:
        _, a, _, _ = inputs(t, "float64")
        left, right = a.detach().requires_grad_(), a.detach().t().coalesce().requires_grad_()
        t.sparse.sum(t.sparse.mm(left, right)).backward()
        return left.grad, right.grad

    compare(run)


def test_numerically() -> None:
    values, a, x, _ = inputs(eagerjit, "float64")
    sparse = eagerjit.sparse

    def product(v: Any, y: Any) -> Any:
        return sparse.mm(eagerjit.sparse_coo_tensor(a._indices(), v, (5, 4)), y)

    assert eagerjit.autograd.gradcheck(product, (values, x))
    assert eagerjit.autograd.gradgradcheck(product, (values, x))
    shape = a.coalesce().to_sparse_csr()

    def sampled(v: Any, p: Any, q: Any) -> Any:
        matrix = eagerjit.sparse_csr_tensor(shape.crow_indices(), shape.col_indices(), v, (5, 4))
        return sparse.sampled_addmm(matrix, p, q, beta=0.5, alpha=2.0).values()

    dense = [eagerjit.randn(*s, dtype=eagerjit.float64, requires_grad=True) for s in ((6,), (5, 3), (3, 4))]
    assert eagerjit.autograd.gradcheck(sampled, dense)


# -- embeddings -------------------------------------------------------------------------------------------------------
OPTIMIZERS = {
    "descent": lambda o, p: o.SGD(p, lr=0.1),
    "ascent": lambda o, p: o.SGD(p, lr=0.1, maximize=True),
    "momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9),
    "Nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "dampening": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "Adagrad": lambda o, p: o.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adagrad upwards": lambda o, p: o.Adagrad(p, lr=0.1, initial_accumulator_value=0.1, maximize=True),
    "SparseAdam": lambda o, p: o.SparseAdam(p, lr=0.1),
    "SparseAdam upwards": lambda o, p: o.SparseAdam(p, lr=0.1, betas=(0.8, 0.9), eps=1e-3, maximize=True),
    **{name: lambda o, p, name=name: getattr(o, name)(p) for name in (
        "Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD",
    )},
    "decay": lambda o, p: o.SGD(p, lr=0.1, weight_decay=0.1),
    "Adagrad with decay": lambda o, p: o.Adagrad(p, lr=0.1, weight_decay=0.1),
}  # fmt: skip
LAYERS = {
    "rows": lambda t: t.nn.Embedding(7, 3, sparse=True),
    "padding": lambda t: t.nn.Embedding(7, 3, sparse=True, padding_idx=2),
    "greatest norm": lambda t: t.nn.Embedding(7, 3, sparse=True, max_norm=1.0),
    "by frequency": lambda t: t.nn.Embedding(7, 3, sparse=True, scale_grad_by_freq=True),
    "sums": lambda t: t.nn.EmbeddingBag(7, 3, sparse=True, mode="sum"),
    "means": lambda t: t.nn.EmbeddingBag(7, 3, sparse=True, mode="mean"),
    "maxima": lambda t: t.nn.EmbeddingBag(7, 3, sparse=True, mode="max"),
}


def trained(t: Any, layer: str, optimizer: str) -> Any:
    """A table after some steps, two gradients of which are added up; with the state."""
    module = LAYERS[layer](t)
    with t.no_grad():
        module.weight.copy_(t.tensor(np.random.default_rng(1).normal(size=(7, 3)).astype("float32")))
    found = OPTIMIZERS[optimizer](t.optim, list(module.parameters()))
    rng, gradients = np.random.default_rng(3), []
    for step in range(5):
        found.zero_grad()
        numbers = t.tensor(rng.integers(0, 7, size=(4, 2)))
        module(numbers).pow(2).sum().backward()
        if step % 2:
            module(numbers[:2]).sum().backward()
        gradients.append(module.weight.grad.coalesce().to_dense())
        assert module.weight.grad.is_sparse
        found.step()
    kept = found.state_dict()["state"].get(0, {})
    return module.weight, gradients, [v for k, v in sorted(kept.items()) if k != "step" and "momentum" not in k]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps(optimizer: str) -> None:
    compare(lambda t: trained(t, "rows", optimizer))


@pytest.mark.parametrize("layer", LAYERS)
def test_tables(layer: str) -> None:
    compare(lambda t: trained(t, layer, "SparseAdam"))


def assigned(t: Any, optimizer: str) -> Any:
    """A leaf after steps with a sparse gradient that was assigned, not computed."""
    weight = t.arange(6.0).reshape(3, 2).requires_grad_()
    given = t.sparse_coo_tensor(t.tensor([[2, 0]]), t.tensor([[1.0, 2.0], [3.0, 4.0]]), (3, 2))
    found = OPTIMIZERS[optimizer](t.optim, [weight])
    for _ in range(3):
        weight.grad = given
        assert weight.grad is given
        found.step()
    return weight


@pytest.mark.parametrize("optimizer", ["SparseAdam", "Adagrad", "descent"])
def test_gradients_that_are_assigned(optimizer: str) -> None:
    compare(lambda t: assigned(t, optimizer))


def test_gradients_that_do_not_fit_are_refused() -> None:
    def assign(t: Any, given: Any) -> None:
        t.ones(3, requires_grad=True).grad = given.to_sparse()

    compare(lambda t: assign(t, t.ones(2)))
    compare(lambda t: assign(t, t.ones(3, dtype=t.float64)))


def test_compiled_functions_that_assign_sparse_gradients_run_eagerly() -> None:
    leaf, given = eagerjit.ones(2, requires_grad=True), eagerjit.ones(2).to_sparse()

    @eagerjit.jit
    def assign(x: Any) -> Any:
        leaf.grad = given
        return x + 1.0

    with pytest.warns(UserWarning):
        assign(eagerjit.ones(2))
    assert leaf.grad is given


def test_sparse_and_dense_gradients_of_one_table() -> None:
    def run(t: Any) -> Any:
        w = t.arange(10.0).reshape(5, 2).requires_grad_()
        numbers = t.tensor([1, 1, 0])

        def rows() -> Any:
            return t.nn.functional.embedding(numbers, w, sparse=True).sum()

        found = []
        for losses in ((rows, lambda: w.pow(2).sum()), (lambda: w.pow(2).sum(), rows), (rows, rows)):
            w.grad = None
            for loss in losses:
                loss().backward()
            found.append(w.grad)
            w.grad = None
            (losses[0]() + losses[1]()).backward()
            found.append(w.grad)
        w.grad.zero_()
        return found, w.grad, t.autograd.grad(rows(), [w])

    compare(run)


def test_one_group_of_both() -> None:
    def run(t: Any) -> Any:
        found = []
        for make in ("descent", "dampening", "Adagrad"):
            table, scale = t.ones(4, 2, requires_grad=True), t.ones(2, requires_grad=True)
            optimizer = OPTIMIZERS[make](t.optim, [table, scale])
            for _ in range(3):
                optimizer.zero_grad()
                (t.nn.functional.embedding(t.tensor([0, 2, 2]), table, sparse=True) * scale).pow(2).sum().backward()
                optimizer.step()
            found += [table, scale]
        return found

    compare(run)


def test_weights_of_samples() -> None:
    def run(t: Any) -> Any:
        bag = t.nn.EmbeddingBag(5, 2, sparse=True, mode="sum")
        scales = t.tensor([1.0, 2, 3, 4], requires_grad=True)
        with t.no_grad():
            bag.weight.fill_(0.5)
        bag(t.tensor([1, 2, 4, 1]), t.tensor([0, 2]), per_sample_weights=scales).sum().backward()
        return bag.weight.grad, scales.grad

    compare(run)


def test_refusals() -> None:
    table = eagerjit.ones(3, 2, requires_grad=True)
    table.grad = eagerjit.ones(3, 2)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        eagerjit.optim.SparseAdam([table]).step()
    with pytest.raises(ValueError, match="requires dense parameter"):
        eagerjit.optim.SparseAdam([eagerjit.eye(2).to_sparse()])
    with pytest.raises(ValueError, match="Invalid learning rate"):
        eagerjit.optim.SparseAdam([table], lr=-1.0)


GATHERED = """
x.gather(1, i) | t.gather(x, -1, i, sparse_grad=True) | x.gather(0, i[:, :1], sparse_grad=True)
t.gather(x[0].detach().requires_grad_(), 0, i[1], sparse_grad=True) | x.gather(1, i.int(), sparse_grad=True)
x.gather(1, i, sparse_grad=True) + x.gather(0, i, sparse_grad=True).sum() | x.gather(1, i, sparse_grad=True) + x.sum()
(x * 2).gather(1, i, sparse_grad=True) | x.detach().gather(1, i, sparse_grad=True) + x.sum()
x.gather(1, i[:, :0], sparse_grad=True) | x[0, 0].detach().requires_grad_().gather(0, i[0, 0] * 0, sparse_grad=True)
x.gather(1, i + 7, sparse_grad=True) | x.gather(2, i, sparse_grad=True) | x.gather(0, i[0], sparse_grad=True)
"""


@pytest.mark.parametrize("text", [e.strip() for line in GATHERED.split("\n") for e in line.split(" | ") if e.strip()])
def test_of_what_is_gathered(text: str) -> None:
    def run(t: Any) -> Any:
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        for _ in range(2):
            y = eval(text, {"t": t, "x": x, "i": t.tensor([[0, 0], [1, 0]])})
            y.pow(2).sum().backward()
        if "* 2" in text:  # through an operation the gradient is dense here
            return y, x.grad.to_dense()
        return y, x.grad, x.grad is not None and x.grad.is_sparse

    compare(run)


def test_jitted_functions_with_sparse_gradients_run_eagerly() -> None:
    table = eagerjit.nn.Embedding(5, 2, sparse=True)
    optimizer = eagerjit.optim.SGD(table.parameters(), lr=0.5)

    def step(numbers: Any) -> Any:
        optimizer.zero_grad()
        loss = table(numbers).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = eagerjit.jit(step)
    before = table.weight.detach().clone()
    with pytest.warns(UserWarning, match="sparse"):
        compiled(eagerjit.tensor([0, 1, 1]))
    found, gradient = table.weight.detach().clone(), table.weight.grad
    assert gradient.is_sparse and gradient._nnz() == 3
    with eagerjit.no_grad():
        table.weight.copy_(before)
    step(eagerjit.tensor([0, 1, 1]))
    assert eagerjit.equal(found, table.weight)


def test_hooks_of_sparse_leaves() -> None:
    leaf = eagerjit.eye(3).to_sparse().requires_grad_()
    leaf.register_hook(lambda g: g * 2)
    eagerjit.sparse.mm(leaf, eagerjit.ones(3, 1)).sum().backward()
    assert leaf.grad.to_dense().tolist() == [[2.0, 0, 0], [0, 2.0, 0], [0, 0, 2.0]]


def test_of_functions_with_gradients_of_their_own() -> None:
    def run(t: Any) -> Any:
        class Product(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any, x: Any) -> Any:
                ctx.a = a
                return t.mm(a, x)

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                return None, t.mm(ctx.a.mT, gradient)

        _, a, x, _ = inputs(t, "float64")
        a = a.detach().coalesce()
        (Product.apply(a, x * 2) * 3).sin().sum().backward()
        return x.grad, t.autograd.grad(Product.apply(a, x).pow(2).sum(), x)

    compare(run)
