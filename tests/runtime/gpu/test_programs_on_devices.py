"""Programs whose parts are rarely on a GPU, number by number against the CPU: sparse tensors, transforms, resizing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit import nn

Function = nn.functional


pytestmark = pytest.mark.usefixtures("tensors")


def filled(place: str, *shape: int, seed: int = 0, dtype: Any = ej.float32) -> Any:
    return ej.tensor(np.random.default_rng(seed).normal(size=shape)).to(place, dtype)


def sparse(place: str, layout: str, dtype: Any = ej.float32) -> Any:
    """A matrix (9, 7) with rows of no, one and many values."""
    rows, columns = [8, 1, 1, 3, 3, 3, 3, 3, 0, 5], [0, 6, 2, 1, 0, 3, 5, 6, 2, 2]
    matrix = ej.sparse_coo_tensor([rows, columns], filled(place, 10, seed=1, dtype=dtype), (9, 7), device=place)
    return matrix if layout == "coo" else matrix.coalesce().to_sparse_csr()


def products(place: str, layout: str, columns: int, dtype: Any) -> list[Any]:
    """A sparse matrix times a dense one, and both gradients."""
    matrix, dense = sparse(place, layout, dtype), filled(place, 7, columns, dtype=dtype).requires_grad_()
    values = matrix.detach().coalesce().requires_grad_() if layout == "coo" else matrix
    out = values @ dense
    out.square().sum().backward()
    return [out, dense.grad, *([values.grad.to_dense()] if layout == "coo" else [])]


def transposed(place: str) -> list[Any]:
    matrix = sparse(place, "coo").coalesce()
    return [matrix.t() @ filled(place, 9, 5), filled(place, 4, 9) @ matrix, matrix @ filled(place, 7)]


def jitted_product(place: str) -> list[Any]:
    matrix = sparse(place, "csr")
    matrix @ filled(place, 7, 1)  # the fake device's work is Python code, which a recording would see
    call = ej.jit(lambda dense: (matrix @ dense).relu().sum(1))
    return [call(filled(place, 7, n)) for n in (3, 3, 5)]


def recommender(place: str) -> list[Any]:
    """An embedding with sparse gradients, trained by SparseAdam."""
    table = nn.Embedding(11, 3, sparse=True).to(place)
    with ej.no_grad():
        table.weight.copy_(filled(place, 11, 3))
    optimizer = ej.optim.SparseAdam(table.parameters(), lr=0.1)
    at = ej.tensor([[1, 4, 1], [0, 10, 4]], device=place)
    for _ in range(3):
        optimizer.zero_grad()
        table(at).square().sum().backward()
        optimizer.step()
    return [table.weight, table.weight.grad.coalesce().values()]


def coalesced(place: str) -> list[Any]:
    matrix = ej.sparse_coo_tensor([[2, 0, 2], [1, 1, 1]], filled(place, 3), (3, 2), device=place)
    both = (matrix + matrix * 2).coalesce()
    return [both.to_dense(), both.indices(), both.values(), matrix.to_dense().to_sparse().values()]


def spectra(place: str) -> list[Any]:
    x = filled(place, 3, 12)
    found = ej.fft.rfft(x)
    return [found.real, found.imag, ej.fft.irfft(found, n=12), ej.fft.fft2(x).abs()]


def resized(place: str) -> list[Any]:
    x = filled(place, 1, 2, 5, 7)
    modes = (("nearest", None), ("bilinear", False), ("bicubic", True), ("area", None))
    found = [Function.interpolate(x, size=(9, 4), mode=m, align_corners=a) for m, a in modes]
    return [*found, Function.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)]


def per_example(place: str) -> list[Any]:
    weight = filled(place, 4, 3)

    def loss(w: Any, x: Any) -> Any:
        return (w @ x).tanh().square().sum()

    examples = filled(place, 5, 3, seed=2)
    gradients = ej.func.vmap(ej.func.grad(loss), in_dims=(None, 0))
    return [gradients(weight, examples), ej.jit(gradients)(weight, examples)]


def draws(place: str) -> list[Any]:
    ej.manual_seed(3)
    with ej.device(place):
        found = [ej.randn(6), ej.randint(0, 9, (5,)), ej.randperm(7), ej.rand(3).bernoulli()]
    return [*found, ej.quasirandom.SobolEngine(2).draw(4).to(place)]


def without_memory(place: str) -> list[Any]:
    """A module made on meta, given memory later."""
    with ej.device("meta"):
        model = nn.Linear(3, 2)
    model = model.to_empty(device=place)
    with ej.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    return [model(ej.ones(4, 3, device=place))]


def rows_of_a_table(place: str) -> list[Any]:
    """A gradient whose rows come from more entries than are compared with each other."""
    table = filled(place, 50, 6).requires_grad_()
    at = ej.tensor(np.random.default_rng(1).integers(0, 50, 300)).to(place)
    (Function.embedding(at, table) * filled(place, 300, 6, seed=2)).sum().backward()
    return [table.grad]


PROGRAMS: dict[str, Callable[[str], list[Any]]] = {
    **{
        f"{layout} times {columns}, {dtype}": lambda place, layout=layout, columns=columns, dtype=dtype: products(
            place, layout, columns, getattr(ej, dtype)
        )
        for layout, columns, dtype in (
            ("coo", 5, "float32"), ("coo", 1, "float64"), ("csr", 200, "float32"), ("csr", 3, "bfloat16"),
        )
    },
    **{
        f.__name__: f for f in (
            transposed, jitted_product, recommender, coalesced, spectra, resized, per_example, draws, without_memory,
            rows_of_a_table,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_the_cpus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("eagerjit.compiler.loops", "eagerjit.compiler.codegen.triton.ordered"):
        monkeypatch.setattr(f"{module}.FEW", 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        expected, found = PROGRAMS[name]("cpu"), PROGRAMS[name]("cuda")
    assert all(x.is_cuda for x in found)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        assert np.allclose(a.detach().double().cpu().numpy(), b.detach().double().numpy(), rtol=1e-5, atol=1e-6)


def test_models_on_a_device_are_exported() -> None:
    pytest.importorskip("onnx")
    model, x = ej.nn.Sequential(ej.nn.Linear(3, 2), ej.nn.BatchNorm1d(2)).to("cuda"), ej.rand(4, 3, device="cuda")
    found = ej.onnx.export(model, x).model_proto.graph
    assert [node.op_type for node in found.node] == ["Gemm", "BatchNormalization", "Identity"]
    assert model[0].weight.is_cuda and model.training


def test_operators_of_packages() -> None:
    """torchvision's and torchaudio's, which lie here."""
    for file in ("torchvision/_C.so", "torchaudio/lib/libtorchaudio.so"):
        ej.ops.load_library(file)
    vision, audio = ej.ops.torchvision, ej.ops.torchaudio
    corner = np.random.default_rng(0).random((20, 2)) * 8
    boxes = ej.tensor(np.concatenate([corner, corner + 3], 1), dtype=ej.float32)
    rois = ej.cat([ej.zeros(20, 1), boxes], 1)
    x, scores = filled("cpu", 1, 4, 9, 9), ej.arange(20.0)
    offset, weight = filled("cpu", 1, 18, 9, 9, seed=1), filled("cpu", 2, 4, 3, 3, seed=2)

    def results(place: str) -> list[Any]:
        def here(t: Any) -> Any:
            return t.to(place)

        padded = ej.zeros(1, 2, 302, device=place)
        audio._lfilter_core_loop(
            filled(place, 1, 2, 300), ej.tensor([[0.1, -0.5, 1.0], [0.2, 0.1, 1.0]], device=place), padded
        )
        return [
            vision.nms(here(boxes), here(scores), 0.3), vision.roi_align(here(x), here(rois), 0.9, 2, 2, -1, True),
            vision.roi_pool(here(x), here(rois), 0.9, 2, 2)[0], vision.ps_roi_pool(here(x), here(rois), 0.9, 2, 2)[0],
            vision.deform_conv2d(
                here(x), here(weight), here(offset), ej.zeros(1, 1, device=place), ej.zeros(2, device=place),
                1, 1, 1, 1, 1, 1, 1, 1, False,
            ), padded,
        ]  # fmt: skip

    for found, expected in zip(results("cuda"), results("cpu"), strict=True):
        assert found.is_cuda
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
