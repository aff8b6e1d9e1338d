"""Tiles of matrix products: what the model chooses, and products in every kind of tile against the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import convolution, product
from eagerjit.compiler.codegen.triton.tiles import Tile, choose, gpu, ranked
from eagerjit.jit import jit
from eagerjit.runtime.gpu.precision import precision

Function = torch.nn.functional
RANDOM = np.random.default_rng(5)
SHAPES = [(8192, 8192, 8192), (1, 4096, 4096), (768, 768, 65536), (50257, 768, 4096), (33, 17, 5), (128, 128, 10**6)]


@pytest.mark.parametrize("architecture", [80, 86, 90])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "tf32", "float64"])
def test_tiles_fit_the_gpu(dtype: str, architecture: int) -> None:
    """Shared memory, the registers of results, and no more rows or columns than there are, but for the least."""
    short, size = {"bfloat16": ("bf16", 2), "float64": ("f64", 8)}.get(dtype, ("f32", 4))
    for m, n, k in SHAPES:
        tile = choose(m, n, k, 1, short, dtype == "tf32", architecture)
        assert (tile.rows + tile.columns) * tile.depth * size * tile.stages <= gpu(architecture).shared
        assert tile.rows * tile.columns // (32 * tile.warps) * max(size, 4) <= 512
        assert tile.rows < max(2 * m, 32) and tile.columns < max(2 * n, 32)
        assert min(tile.rows, tile.columns, tile.depth) >= 16


def test_large_products_have_large_tiles_and_thin_ones_are_split() -> None:
    assert choose(8192, 8192, 8192, 1, "bf16") == Tile(128, 256, 64, 8, 4)
    for m, n, k in ((768, 768, 65536), (1, 4096, 4096), (128, 128, 10**6)):
        for architecture in (80, 90):
            tile = choose(m, n, k, 1, "bf16", False, architecture)
            programs = -(-m // tile.rows) * -(-n // tile.columns) * tile.split
            assert tile.split > 1 and programs > gpu(architecture).processors // 3
    for choice in (choose(768, 768, 8192, 1, "bf16"), choose(3072, 768, 8192, 1, "bf16")):
        assert choice.split == 1 and choice.rows * choice.columns <= 64 * 128, "parts of a sum cost more than waiting"
    assert choose(8192, 768, 3072, 1, "bf16") == Tile(64, 256, 64, 4, 4), "128 x 256 would keep half of a round idle"
    assert choose(4096, 4096, 4096, 1, "f32", True) == Tile(256, 128, 32, 8, 4)
    assert choose(4096, 4096, 4096, 1, "f32", True, 80).rows == 128
    tile = choose(768, 768, 65536, 1, "bf16", addressed=True)
    assert tile.rows * tile.columns <= 128 * 128 and tile.split > 1
    best = ranked(512, 512, 512, 1, "f32", False, 90, 4)
    assert best[0] == choose(512, 512, 512, 1, "f32") and len(set(best)) == 4


TILES = [Tile(16, 16, 16, 4, 3, 3), Tile(32, 64, 16, 4, 3), Tile(64, 16, 32, 4, 2, 2), Tile(16, 32, 16, 4, 3, 4, 2)]
CALLS: dict[str, Any] = {
    "alone": lambda x, w, b: x @ w.T,
    "bias and GELU": lambda x, w, b: Function.gelu(Function.linear(x, w, b), approximate="tanh"),
    "several results": lambda x, w, b: (lambda y: (y * 2.0, y.sigmoid() + b.exp()))(x @ w.T),
    "batched": lambda x, w, b: (x.view(2, 10, 100) @ w.T.expand(2, 100, 40)).relu() * 0.5,
}


def close(actual: Any, expected: Any) -> bool:
    a, e = (x._data.astype(np.float64) for x in (actual, expected))
    limit = 2e-2 if expected.dtype is torch.bfloat16 else 4e-6
    return a.shape == e.shape and bool(np.all(np.abs(a - e) <= limit * np.abs(e).max()))


@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t.rows}x{t.columns} split {t.split}")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_in_tiles(dtype: str, tile: Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "choose", lambda *sizes: tile)
    monkeypatch.setattr(product, "PART", 2)
    x, w, b = (torch.tensor(RANDOM.normal(size=s)).to(getattr(torch, dtype)) for s in ((20, 100), (40, 100), (40,)))
    for call in CALLS.values():
        expected = call(x, w, b)
        with gpu_kernels.interpreted() as made:
            actual, again = (jit(call, fullgraph=True)(x, w, b) for _ in range(2))
        both = zip(*((r if isinstance(r, tuple) else (r,)) for r in (actual, again, expected)), strict=True)
        assert all(close(a, e) and a._data.tobytes() == o._data.tobytes() for a, o, e in both)
        found = [launch.constants for m in made for launch in m.launched if "DEPTH" in launch.constants]
        assert [constants.get("SPLIT", 1) for constants in found] == [tile.split] * 2


def test_16_bit_convolutions_are_read_as_they_are() -> None:
    x, w = (torch.tensor(RANDOM.normal(size=s)).to(torch.float16) for s in ((2, 3, 6, 6), (4, 3, 3, 3)))
    expected = Function.conv2d(x, w, padding=1)
    with gpu_kernels.interpreted() as made:
        actual = jit(lambda x, w: Function.conv2d(x, w, padding=1), fullgraph=True)(x, w)
    assert np.allclose(actual._data, expected._data, rtol=1e-3, atol=1e-3)
    types = [launch.signature for m in made for launch in m.launched if "GROUPS" in launch.constants]
    assert [list(t.values())[:3] for t in types] == [["*fp16", "*fp16", "*fp32"]]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("split", [1, 3])
def test_programs_share_the_sum_of_a_convolution(split: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "choose", lambda *sizes, addressed: Tile(16, 16, 16, 4, 2, split))
    x, w, g = (torch.tensor(RANDOM.normal(size=s)) for s in ((3, 4, 9, 8), (6, 4 // groups, 3, 2), (3, 6, 5, 8)))

    def gradients(x: Any, w: Any, g: Any) -> Any:
        given = [x.detach().requires_grad_(), w.detach().requires_grad_()]
        y = Function.conv2d(*given, stride=(2, 1), padding=(1, 1), dilation=(1, 2), groups=groups)
        return y, *torch.autograd.grad(y, given, g)

    expected = gradients(x, w, g)
    with gpu_kernels.interpreted() as made:
        actual, again = (jit(gradients, fullgraph=True)(x, w, g) for _ in range(2))
    both = zip(actual, again, expected, strict=True)
    assert all(close(a, e) and a._data.tobytes() == o._data.tobytes() for a, o, e in both)
    found = [launch.constants for m in made for launch in m.launched if "GROUPS" in launch.constants]
    assert [constants.get("SPLIT", 1) for constants in found] == [split] * len(found) and len(found) >= 3


def test_the_weight_of_a_large_convolution_is_for_the_whole_device() -> None:
    """64 channels of 112 x 112: a result of few tiles, each a sum over all positions of all images."""
    tile = choose(64, 576, 128 * 112 * 112, 1, "f32", True, 90, addressed=True)
    assert -(-64 // tile.rows) * -(-576 // tile.columns) * tile.split > 100


@pytest.fixture
def allowed() -> Any:
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.set_float32_matmul_precision("highest")


def launches(call: Any, *arguments: Any) -> list[Any]:
    with gpu_kernels.interpreted() as made:
        jit(call, fullgraph=True)(*arguments)
    return [launch for m in made for launch in m.launched]


def test_tf32_is_a_choice(allowed: None) -> None:
    assert torch.get_float32_matmul_precision() == "high"
    x = torch.ones(64, 64)
    (fast,) = launches(lambda x: x @ x, x)
    torch.set_float32_matmul_precision("highest")
    assert not torch.backends.cuda.matmul.allow_tf32 and not precision.tf32
    (exact,) = launches(lambda x: x @ x, x)
    assert [launch.constants["TF32"] for launch in (fast, exact)] == [1, 0]
    found = ["tf32" in gpu_kernels.binary(launch, 80).ptx for launch in (fast, exact)]
    assert found == [True, False]


@pytest.mark.parametrize(("dtype", "count"), [(torch.bfloat16, 2), (torch.float32, 1)], ids=["halves", "floats"])
def test_what_takes_longer_than_a_product_of_halves_is_a_kernel_of_its_own(dtype: Any, count: int) -> None:
    x = torch.ones(16, 16, dtype=dtype)
    assert len(launches(lambda x, w: Function.gelu(x @ w, approximate="tanh"), x, x)) == count
    assert len(launches(lambda x, w: torch.relu(x @ w) + x, x, x)) == 1


def test_machine_code_of_a_large_product_with_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tile of a large product: tensor cores, loads ahead, and no register of what follows in memory."""
    x = torch.ones(16, 16, dtype=torch.bfloat16)
    monkeypatch.setattr(product, "choose", lambda *sizes: choose(8192, 8192, 8192, 1, "bf16"))
    (large,) = launches(lambda x, w, b: Function.leaky_relu(Function.linear(x, w, b)).clamp(-2, 3) + x, x, x, x[0])
    assert (large.constants["ROWS"], large.constants["COLUMNS"], large.constants["PART"]) == (128, 256, 32)
    found = gpu_kernels.binary(large, 90)
    assert [word in found.ptx for word in ("wgmma.mma_async", "cp.async.cg.shared.global")] == [True, True]
    assert found.shared <= gpu(90).shared and found.registers <= 255 and found.spilled == 0
