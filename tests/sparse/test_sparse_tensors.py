"""Sparse tensors made, converted, printed, indexed and computed with: PyTorch's results, layouts and errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit
from tests.sparse.compared import both_texts, compare

DTYPES = ("float32", "float64", "int64", "int32", "bool", "complex64", "float16")
SHAPES = [(4, 3), (1, 1), (5, 0), (6,), (2, 3, 4)]


def dense(t: Any, shape: Any = (4, 3), dtype: str = "float32", seed: int = 0) -> Any:
    """A dense tensor, two thirds of which are zeros."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=shape) * 4) * (rng.random(shape) < 0.4)
    return t.tensor(values.astype("complex64" if dtype == "complex64" else "float64")).to(getattr(t, dtype))


def coo(t: Any, dtype: str = "float32", seed: int = 0, **options: Any) -> Any:
    """A matrix (4, 3) in which a place comes twice."""
    indices = t.tensor([[3, 0, 1, 3, 2], [0, 2, 1, 0, 2]])
    values = dense(t, (5,), dtype, seed) + t.ones(5).to(getattr(t, dtype))
    return t.sparse_coo_tensor(indices, values, (4, 3), **options)


def csr(t: Any, seed: int = 0) -> Any:
    """A matrix (4, 3) by rows."""
    return dense(t, (4, 3), seed=seed).to_sparse_csr()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_conversions(shape: Any, dtype: str) -> None:
    compare(lambda t: dense(t, shape, dtype).to_sparse())
    compare(lambda t: dense(t, shape, dtype).to_sparse().indices())
    compare(lambda t: dense(t, shape, dtype).to_sparse().values())
    compare(lambda t: dense(t, shape, dtype).to_sparse(1))
    compare(lambda t: dense(t, shape, dtype).to_sparse().to_dense())
    compare(lambda t: dense(t, shape, dtype).to_sparse().to(t.float64))
    if len(shape) == 2:
        compare(lambda t: dense(t, shape, dtype).to_sparse_csr())
        compare(lambda t: dense(t, shape, dtype).to_sparse_csr().col_indices())
        compare(lambda t: dense(t, shape, dtype).to_sparse_csc().ccol_indices())
        compare(lambda t: dense(t, shape, dtype).to_sparse_csc().to_sparse_coo().coalesce().values())
        compare(lambda t: dense(t, shape, dtype).to_sparse_csr().to_sparse_csc().row_indices())


TEXTS = {
    "matrix": lambda t: coo(t),
    "coalesced": lambda t: coo(t).coalesce(),
    "integers": lambda t: coo(t, "int64"),
    "small integers": lambda t: coo(t, "int32"),
    "doubles": lambda t: coo(t, "float64"),
    "bools": lambda t: coo(t, "bool").coalesce(),
    "by rows": lambda t: csr(t),
    "by columns": lambda t: dense(t).to_sparse_csc(),
    "hybrid": lambda t: dense(t, (3, 2, 2)).to_sparse(1),
    "empty": lambda t: t.sparse_coo_tensor((2, 3)),
    "empty by name": lambda t: t.sparse_coo_tensor(size=(2, 3), dtype=t.int64),
    "empty hybrid": lambda t: t.sparse_coo_tensor(t.zeros(1, 0, dtype=t.int64), t.zeros(0, 4), (3, 4)),
    "with gradients": lambda t: coo(t, requires_grad=True),
    "parameter": lambda t: t.nn.Parameter(coo(t)),
    "long": lambda t: t.eye(40).to_sparse(),
    "zeros of a layout": lambda t: t.zeros(2, 2, layout=t.sparse_csr),
    "old constructor": lambda t: t.sparse.FloatTensor(t.tensor([[0], [1]]), t.ones(1), t.Size([2, 2])),
    "old constructor of sizes": lambda t: t.sparse.FloatTensor(2, 3),
    "compressed without a size": lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0]),
    "32-bit indices": lambda t: t.sparse_csr_tensor(
        t.tensor([0, 1], dtype=t.int32), t.tensor([0], dtype=t.int32), t.ones(1), (1, 2)
    ),
    "diagonals": lambda t: t.sparse.spdiags(t.arange(9).reshape(3, 3), t.tensor([0, -1, 1]), (3, 3)),
    "transposed": lambda t: coo(t).t(),
    "transposed rows": lambda t: csr(t).t(),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    both_texts(TEXTS[name])


EXPRESSIONS = """
coo(t).indices() | coo(t).values() | coo(t)._indices() | coo(t)._values() | coo(t).coalesce() | coo(t)._nnz()
coo(t).is_coalesced() | coo(t).sparse_dim() | coo(t).dense_dim() | coo(t).size() | coo(t).size(1) | coo(t).numel()
coo(t).dim() | coo(t).stride() | coo(t).is_contiguous() | coo(t).type() | len(coo(t)) | coo(t).is_sparse
coo(t).is_sparse_csr | csr(t).is_sparse_csr | csr(t).is_sparse | coo(t).crow_indices() | csr(t).indices()
csr(t).coalesce() | t.ones(3).indices() | t.ones(3).values() | t.ones(3).crow_indices() | t.ones(3)._nnz()
t.ones(3).is_coalesced() | t.ones(3).coalesce() | t.ones(3).sparse_dim() | t.ones(3).dense_dim() | csr(t).stride()
t.eye(3).to_sparse(3) | t.sparse_coo_tensor([[0, 5], [1, 2]], t.ones(2)) | coo(t).item() | bool(coo(t)) | coo(t).numpy()
t.sparse_coo_tensor([[0, 1], [1, 2]], t.ones(3)) | t.sparse_coo_tensor([[0, -1], [1, 2]], t.ones(2))
t.sparse_coo_tensor([0, 1], t.ones(2)) | t.sparse_coo_tensor([[0, 1]], t.ones(2, 3), (4, 2))
t.sparse_coo_tensor([[0, 1]], t.ones(2, 3), (4,))
t.sparse_coo_tensor([[0, 9]], t.ones(2), (3,), check_invariants=True)
t.sparse_coo_tensor([[0, 0]], t.ones(2), is_coalesced=True, check_invariants=True)
t.sparse_csr_tensor([0, 1, 2], [0, 7], [1.0, 2.0], (2, 3), check_invariants=True)
t.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 3), check_invariants=True)
t.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 3), check_invariants=True)
t.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 3), check_invariants=True)
coo(t).half() | coo(t).double() | coo(t).long() | coo(t).bool() | coo(t).to(t.float64) | coo(t).cpu() | coo(t).clone()
coo(t).detach() | t.zeros_like(coo(t)) | t.zeros_like(csr(t)) | t.ones_like(coo(t)) | coo(t).new_zeros(2, 2)
coo(t).new_zeros(2, requires_grad=True).requires_grad | csr(t).new_zeros(2, 2, layout=t.strided)
coo(t).norm(keepdim=True)
coo(t).clone(memory_format=t.preserve_format) | t.zeros_like(coo(t), memory_format=t.contiguous_format)
dense(t).to_sparse(blocksize=(1, 1)) | coo(t).to_sparse(layout=t.sparse_csr, blocksize=(1, 1))
coo(t).new_tensor([1.0]) | t.tensor(coo(t)) | coo(t).to_dense(dtype=t.float64) | t.zeros(2, 3, layout=t.sparse_coo)
coo(t) + coo(t) | coo(t) + coo(t).coalesce() | coo(t).coalesce() + dense(t).to_sparse() | coo(t) - dense(t).to_sparse()
coo(t) + dense(t) | dense(t) + coo(t) | dense(t) - coo(t) | coo(t) - dense(t) | coo(t) + 1 | 1 + coo(t) | 1 - coo(t)
t.add(coo(t), coo(t), alpha=2) | t.add(dense(t), coo(t), alpha=3) | coo(t) + coo(t).double()
dense(t).double() + coo(t)
dense(t) + coo(t).double() | csr(t) + csr(t, 1) | csr(t) + dense(t) | dense(t) + csr(t)
coo(t) + t.sparse_coo_tensor((3, 3)) | dense(t, (3, 3)) + coo(t)
coo(t) * 2 | 2 * coo(t) | coo(t) * 2.5 | coo(t, "int64") * 2 | coo(t) * t.tensor(2.0) | coo(t) * coo(t)
coo(t) * dense(t).to_sparse() | coo(t) * dense(t) | dense(t) * coo(t) | coo(t) * t.arange(3.0) | csr(t) * 2
csr(t) * csr(t)
coo(t) * dense(t, (4, 1)) | coo(t) * t.sparse_coo_tensor((4, 3)) | t.mul(coo(t), 3) | coo(t).mul(coo(t))
coo(t) / 2 | coo(t) / t.tensor(2.0) | coo(t) / coo(t) | coo(t) / dense(t) | 2 / coo(t) | coo(t) // 2
coo(t, "int64") / 2
coo(t) ** 2 | coo(t).pow(3) | coo(t).square() | coo(t) ** 0 | -coo(t) | abs(coo(t)) | +coo(t)
coo(t).sum() | coo(t).sum(0) | coo(t).sum((0, 1)) | t.sparse.sum(coo(t)) | t.sparse.sum(coo(t), 1)
t.sparse.sum(coo(t, "int32")) | t.sparse.sum(coo(t), dtype=t.float64)
t.sparse.sum(dense(t, (3, 2, 2)).to_sparse(1), 1)
t.sparse.sum(dense(t, (3, 2, 2)).to_sparse(1), (0, 2)) | csr(t).sum() | csr(t).sum(1) | csr(t).sum(1, keepdim=True)
csr(t).sum(0, keepdim=True) | coo(t).norm() | coo(t).mean() | coo(t).max() | coo(t).any()
t.sparse.softmax(coo(t), 1) | t.sparse.softmax(coo(t), 0) | t.sparse.log_softmax(coo(t), 1)
t.sparse.softmax(dense(t, (3, 4, 2)).to_sparse(2), 2) | t.sparse.softmax(dense(t, (3, 4, 2)).to_sparse(2), 0)
coo(t)[0] | coo(t)[3] | coo(t)[-1] | coo(t)[3, 0] | coo(t)[:, 0] | coo(t)[..., 2] | coo(t)[None] | coo(t)[0:2]
coo(t)[9]
coo(t)[t.tensor([0, 1])] | csr(t)[0] | csr(t)[0, 0] | coo(t)[0, 0, 0] | dense(t, (3, 2, 2)).to_sparse(1)[1]
coo(t).select(0, 3) | coo(t).select(1, 2) | coo(t).index_select(0, t.tensor([3, 0, 3])) | coo(t).narrow_copy(0, 1, 2)
coo(t).index_select(1, t.tensor([0, 0])) | coo(t).index_select(0, t.tensor([7])) | coo(t).narrow_copy(0, 3, 2)
t.cat([coo(t), coo(t)]) | t.cat([coo(t), coo(t)], 1) | t.stack([coo(t), coo(t)]) | t.cat([coo(t), dense(t)])
t.cat([coo(t), t.sparse_coo_tensor((2, 2))]) | t.stack([coo(t), coo(t)], 2) | coo(t).unsqueeze(0) | coo(t).unbind(1)
t.cat([dense(t, (3, 2)).to_sparse(1), dense(t, (3, 4)).to_sparse(1)], 1)
coo(t).t() | coo(t).T | coo(t).transpose(0, 1) | coo(t).permute(1, 0) | dense(t, (2, 3, 4)).to_sparse().permute(2, 0, 1)
dense(t, (2, 3, 4)).to_sparse(1).transpose(0, 2) | str(csr(t).t().layout)
coo(t) @ dense(t, (3, 2)) | dense(t, (2, 4)) @ coo(t) | coo(t) @ t.arange(3.0) | t.arange(4.0) @ coo(t)
t.mm(coo(t), dense(t, (3, 2))) | t.sparse.mm(coo(t), dense(t, (3, 2))) | t.mv(coo(t), t.arange(3.0))
t.sparse.mm(dense(t, (2, 4)), coo(t)) | t.mm(coo(t), dense(t, (2, 2))) | t.mm(coo(t), dense(t, (3, 2)).double())
csr(t) @ dense(t, (3, 2)) | dense(t, (2, 4)) @ csr(t) | csr(t) @ t.arange(3.0)
dense(t).to_sparse_csc() @ dense(t, (3, 2))
t.sparse.mm(coo(t), coo(t).t()) | coo(t) @ coo(t).t() | csr(t) @ dense(t, (3, 4)).to_sparse_csr() | coo(t) @ coo(t)
t.addmm(dense(t, (4, 2)), coo(t), dense(t, (3, 2))) | coo(t).matmul(dense(t, (3, 2))) | coo(t).mm(dense(t, (3, 2)))
t.addmm(dense(t, (4, 2)), coo(t), dense(t, (3, 2)), beta=2, alpha=3)
t.sparse.addmm(dense(t, (4, 2)), coo(t), dense(t, (3, 2)), beta=0.5, alpha=3)
t.hspmm(coo(t), dense(t, (3, 2))) | t.smm(coo(t), t.ones(3, 2)).to_dense() | t.dsmm(coo(t), dense(t, (3, 2)))
t.bmm(t.stack([coo(t), coo(t)]), dense(t, (2, 3, 2))) | coo(t) @ dense(t, (2, 3, 2)) | t.spmm(coo(t), dense(t, (3, 2)))
t.sparse.sampled_addmm(csr(t), dense(t, (4, 2)), dense(t, (2, 3)), beta=0.5, alpha=2)
t.sparse.sampled_addmm(csr(t), dense(t, (4, 2)), dense(t, (3, 3))) | t.nn.functional.linear(t.ones(2, 3), coo(t))
dense(t).sparse_mask(coo(t).coalesce()) | coo(t).coalesce().sparse_mask(coo(t).coalesce())
dense(t).sparse_mask(csr(t)) | t.ones(2, 2).sparse_mask(coo(t).coalesce()) | t.einsum("ij,jk", coo(t), dense(t, (3, 2)))
coo(t) == coo(t) | t.equal(coo(t), coo(t)) | coo(t) > 0 | coo(t).reshape(12) | coo(t).view(12) | coo(t).exp()
coo(t).nonzero() | coo(t).contiguous() | coo(t).tolist() | coo(t).data_ptr() | coo(t).nbytes | coo(t).sigmoid()
coo(t).copy_(dense(t)) | dense(t).copy_(coo(t)) | coo(t).copy_(dense(t).to_sparse()) | dense(t).add_(coo(t))
dense(t).add_(coo(t), alpha=2) | dense(t).sub_(coo(t)) | dense(t).mul_(coo(t)) | coo(t).add_(coo(t)) | coo(t).zero_()
coo(t).mul_(3) | coo(t).div_(2) | coo(t).neg_() | coo(t).coalesce().sqrt_() | coo(t).sin_() | coo(t).coalesce().abs_()
coo(t).requires_grad_().is_leaf | (coo(t).requires_grad_() * 2).is_leaf | t.is_tensor(coo(t))
isinstance(coo(t), t.Tensor)
t.sparse_coo_tensor(t.zeros(2, 0), [], (3, 3)) + t.eye(3).to_sparse() | t.sparse_coo_tensor((3, 3)) @ t.ones(3, 2)
t.sparse_coo_tensor((0, 3)) @ t.ones(3, 2) | t.sparse_coo_tensor((3, 0)) @ t.ones(0, 2) | coo(t) @ t.ones(3, 0)
"""
NAMES = {"coo": coo, "csr": csr, "dense": dense}


@pytest.mark.parametrize("text", [e for line in EXPRESSIONS.strip().split("\n") for e in line.split(" | ")])
def test_expression(text: str) -> None:
    compare(lambda t: eval(text, {**NAMES, "t": t}))


WRITTEN = """
t.mm(coo(t), dense(t, (3, 2)), out=out(t.zeros(4, 2))) | t.mm(coo(t), dense(t, (3, 2)), out=out(t.zeros(0)))
t.addmm(dense(t, (4, 2)), csr(t), dense(t, (3, 2)), out=out(t.zeros(4, 2)))
t.mv(csr(t), t.ones(3), out=out(t.zeros(4)))
t.bmm(coo(t).unsqueeze(0), dense(t, (1, 3, 2)), out=out(t.zeros(1, 4, 2))) | t.cat([coo(t), coo(t)], out=out(coo(t)))
t.sparse.sampled_addmm(csr(t), dense(t, (4, 2)), dense(t, (2, 3)), out=out(csr(t, 1)))
t.stack([coo(t)], out=out(coo(t)))
t.add(coo(t), coo(t), out=out(t.zeros(4, 3).to_sparse())) | t.sub(coo(t), dense(t).to_sparse(), out=out(coo(t)))
t.mul(coo(t), 2, out=out(coo(t))) | t.div(coo(t), 2, out=out(coo(t))) | t.pow(coo(t), 2, out=out(coo(t)))
t.sin(coo(t), out=out(coo(t))) | t.neg(csr(t), out=out(csr(t))) | t.sin(coo(t), out=out(dense(t)))
t.index_select(coo(t), 0, t.tensor([1]), out=out(coo(t))) | t.sum(coo(t), 0, out=out(coo(t)))
"""


@pytest.mark.parametrize("text", [e for line in WRITTEN.strip().split("\n") for e in line.split(" | ")])
def test_out(text: str) -> None:
    def written(t: Any) -> Any:
        outs: list[Any] = []
        result = eval(text, {**NAMES, "t": t, "out": lambda out: outs.append(out) or out})
        return result is outs[0], result

    compare(written)


def test_out_beside_a_tensor_without_memory() -> None:
    """Where tensors may lie elsewhere, a sparse one is asked where it lies."""
    eagerjit.empty(1, device="meta")
    compare(lambda t: t.add(coo(t), coo(t), out=t.zeros(4, 3).to_sparse()))


UNARY = """abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan log1p neg rad2deg relu round
    sgn sign sin sinh sqrt square tan tanh trunc nan_to_num positive signbit""".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    compare(lambda t: getattr(t, name)(coo(t) * 0.0625))
    if name not in ("square", "nan_to_num"):  # which PyTorch has of coordinates alone
        compare(lambda t: getattr(csr(t) * 0.0625, name)())


@pytest.mark.parametrize("make", [coo, csr, lambda t: dense(t).to_sparse(1), lambda t: dense(t).to_sparse_csc()])
def test_copies_and_files(make: Any, tmp_path: Any) -> None:
    tensor = make(eagerjit)
    eagerjit.save({"a": tensor}, tmp_path / "saved")
    torch.save({"a": make(torch)}, tmp_path / "theirs")
    copies = [
        copy.copy(tensor), copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)),
        eagerjit.load(tmp_path / "saved")["a"], eagerjit.load(tmp_path / "theirs")["a"],
    ]  # fmt: skip
    for found in copies:
        assert repr(found) == repr(tensor)
    assert repr(torch.load(tmp_path / "saved")["a"]) == repr(make(torch))


def test_buffers_and_parameters() -> None:
    def state(t: Any) -> Any:
        module = t.nn.Module()
        module.register_buffer("graph", coo(t).coalesce())
        module.weight = t.nn.Parameter(coo(t).coalesce())
        other = t.nn.Module()
        other.register_buffer("graph", t.sparse_coo_tensor((4, 3)))
        other.weight = t.nn.Parameter(coo(t, seed=1).coalesce())
        other.double()
        other.load_state_dict(module.state_dict())
        return [*other.state_dict().values(), [p.requires_grad for p in other.parameters()], list(other.state_dict())]

    compare(state)


def test_places_outside_are_an_error_where_they_are_read() -> None:
    tensor = eagerjit.sparse_coo_tensor([[0, 9]], eagerjit.ones(2), (3,))
    for use in (tensor.to_dense, lambda: eagerjit.ones(3) + tensor, tensor.coalesce):
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            use()
    matrix = eagerjit.sparse_csr_tensor([0, 1, 2], [0, 7], [1.0, 2.0], (2, 3))
    with pytest.raises(IndexError, match="index 7"):
        matrix @ eagerjit.ones(3, 2)
    with pytest.raises(RuntimeError, match="crow_indices"):
        eagerjit.sparse_csr_tensor([0, 9, 2], [0, 1], [1.0, 2.0], (2, 3)) @ eagerjit.ones(3, 2)


def test_indices_written_in_place_count() -> None:
    tensor = eagerjit.sparse_coo_tensor([[0, 1], [0, 1]], eagerjit.ones(2), (2, 2))
    ones = eagerjit.tensor([[1.0], [2.0]])
    assert (tensor @ ones).tolist() == [[1.0], [2.0]]
    tensor._indices()[1, 0] = 1
    assert (tensor @ ones).tolist() == [[2.0], [2.0]]


def test_checks_of_all() -> None:
    invariants = eagerjit.sparse.check_sparse_tensor_invariants
    with invariants(), pytest.raises(RuntimeError, match="found index 9"):
        eagerjit.sparse_coo_tensor([[0, 9]], eagerjit.ones(2), (3,))
    assert not invariants.is_enabled()


@pytest.mark.parametrize("name", ["mT", "mH", "H", "adjoint"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_transposes_of_matrices(name: str, dtype: str) -> None:
    def run(t: Any) -> Any:
        values = t.tensor([1.0, 2.0, 3.0]).to(getattr(t, dtype)) * (1 + 2j if dtype == "complex64" else 1)
        matrix = t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values, (2, 3))
        found = getattr(matrix, name)
        return found() if name == "adjoint" else found

    compare(run)


@pytest.mark.parametrize("name", ["mT", "mH", "H"])
@pytest.mark.parametrize("count", [1, 3])
def test_transposes_of_what_are_no_matrices(name: str, count: int) -> None:
    def run(t: Any) -> Any:
        try:
            return getattr(t.sparse_coo_tensor([[0]] * count, [2.0], (2,) * count), name)
        except RuntimeError as error:
            return t.tensor(list(str(error).encode()))

    compare(run)


def old_kinds(t: Any) -> dict[str, Any]:
    """What the method `new` makes of a sparse tensor; None where it raises TypeError."""
    sparse, places = t.eye(2).to_sparse(), t.tensor([[0, 1], [1, 0]])
    given: dict[str, Any] = {
        "nothing": (), "sizes": (2, 3), "a size": (sparse.size(),), "a tuple": ((2, 3),), "a list": ([1.0],),
        "a tensor": (t.ones(2, 2),), "indices": (places,), "and values": (places, t.tensor([1.0, 2.0])),
        "and sizes": (places, t.tensor([1, 2]), t.Size([3, 3])),
    }  # fmt: skip

    def made(arguments: Any) -> Any:
        try:
            found = sparse.new(*arguments)
        except TypeError:
            return None
        return str(found.layout), str(found.dtype), tuple(found.shape), found.to_dense().tolist()

    return {name: made(arguments) for name, arguments in given.items()}


def test_new_makes_sparse_tensors() -> None:
    assert old_kinds(eagerjit) == old_kinds(torch)
