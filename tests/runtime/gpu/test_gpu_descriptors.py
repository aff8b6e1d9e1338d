"""Products whose factors' blocks a GPU loads by itself: the same bits, and maps that say where the factors are."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import fake_maps
import numpy as np
import pytest
from device_programs import devices
from fake_driver import FakeLibrary
from machines import GPU, box

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import product
from eagerjit.compiler.codegen.triton.source import Launch
from eagerjit.compiler.codegen.triton.tiles import HOPPER, Tile, choose
from eagerjit.cuda import execution
from eagerjit.jit import jit
from eagerjit.runtime.gpu import compiler, descriptors, timeline
from eagerjit.runtime.gpu.launch import BYTES
from eagerjit.runtime.records import replace

RANDOM = np.random.default_rng(3)
Function = ej.nn.functional


def numbers(*shape: int, dtype: Any = None) -> Any:
    return ej.tensor(RANDOM.normal(size=shape)).to(dtype or ej.bfloat16)


CALLS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "as they lie": (lambda x, w: x @ w, [(40, 72), (72, 24)]),
    "turned": (lambda x, w: x.T @ w.T, [(72, 40), (24, 72)]),
    "with what follows": (lambda x, w, b: Function.leaky_relu(x @ w + b) + b, [(40, 72), (72, 24), (24,)]),
    "batched": (lambda x, w: x @ w.mT, [(3, 24, 72), (3, 40, 72)]),
    "one factor for all": (lambda x, w: x @ w.expand(3, 72, 24), [(3, 40, 72), (72, 24)]),
    "heads side by side": (
        lambda x: (lambda q, k: q @ k.mT)(*(x.view(2, 24, 2, 3, 16).permute(3, 0, 2, 1, 4)[:2])), [(2, 24, 96)]
    ),
}  # fmt: skip


def launched(call: Any, *arguments: Any, architecture: int = 90) -> tuple[list[Launch], list[bytes]]:
    """The launches of the products of a call, and the bits of its result."""
    original = product.ProductKernel.launch

    def launch(kernel: Any, tasks: int, sizes: Any, *rest: Any) -> Launch:
        return original(kernel, tasks, sizes, architecture)

    product.ProductKernel.launch = launch  # type: ignore[method-assign]
    try:
        with gpu_kernels.interpreted() as made:
            result = jit(call, fullgraph=True)(*arguments)
    finally:
        product.ProductKernel.launch = original  # type: ignore[method-assign]
    found = [launch for m in made for launch in m.launched if "DEPTH" in launch.constants]
    return found, [result._data.tobytes()]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "LEAST_BYTES", 0)


@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("name", CALLS)
def test_the_bits_are_those_of_computed_addresses(name: str, split: int, small: None, monkeypatch: Any) -> None:
    monkeypatch.setattr(product, "choose", lambda *sizes: Tile(16, 32, 16, 4, 3, split))
    call, shapes = CALLS[name]
    arguments = [numbers(*shape) for shape in shapes]
    described, bits = launched(call, *arguments)
    plain, expected = launched(call, *arguments, architecture=80)
    assert [len(launch.descriptors) for launch in (*described, *plain)] == [2, 0]
    assert bits == expected


SUMS_ALONG_NEIGHBOURS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "a linear layer's": (lambda x, w: x @ w.T, [(40, 72), (24, 72)]),
    "with what follows": (lambda x, w, b: Function.leaky_relu(x @ w.T + b), [(40, 72), (24, 72), (24,)]),
    "batched": CALLS["batched"],
}


@pytest.fixture
def tf32() -> Iterator[None]:
    ej.set_float32_matmul_precision("high")
    yield
    ej.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("name", SUMS_ALONG_NEIGHBOURS)
def test_factors_that_are_rounded_to_tf32(name: str, split: int, small: None, tf32: None, monkeypatch: Any) -> None:
    """The same bits, and a block's sums along neighbours, as tensor cores take 32-bit factors."""
    monkeypatch.setattr(product, "choose", lambda *sizes: Tile(16, 32, 16, 4, 3, split))
    call, shapes = SUMS_ALONG_NEIGHBOURS[name]
    arguments = [numbers(*shape, dtype=ej.float32) for shape in shapes]
    described, bits = launched(call, *arguments)
    plain, expected = launched(call, *arguments, architecture=80)
    assert [len(launch.descriptors) for launch in (*described, *plain)] == [2, 0]
    assert all(d.block[-1] == 16 and d.shape[-1] == 72 for d in described[0].descriptors)
    assert bits == expected


def test_machine_code_of_a_large_product_in_tf32(small: None, tf32: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "choose", lambda *sizes: choose(4096, 4096, 4096, 1, "f32", True))
    monkeypatch.setattr(Launch, "grid", (1, 1))
    x = numbers(64, 64, dtype=ej.float32)
    for call in (lambda x: x @ x.T, lambda x: Function.leaky_relu(x @ x.T) + x):
        (launch,), _ = launched(call, x)
        binary = gpu_kernels.binary(launch, 90)
        assert launch.resident == 0 and "k8.f32.tf32.tf32" in binary.ptx and "cp.async.bulk.tensor" in binary.ptx
        assert binary.shared <= HOPPER.shared and binary.registers <= 255 and binary.spilled == 0


def test_programs_that_are_alone_have_several_tiles(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two multiprocessors with room for a program each."""
    monkeypatch.setattr(product, "choose", lambda *sizes: Tile(16, 16, 16, 4, 3))
    monkeypatch.setattr(product, "room", lambda *tile: (1, 1 << 17))
    for name in ("as they lie", "batched", "with what follows"):
        call, shapes = CALLS[name]
        arguments = [numbers(*shape) for shape in shapes]
        _, expected = launched(call, *arguments)
        with monkeypatch.context() as fewer:
            fewer.setattr(product, "gpu", lambda number: replace(HOPPER, processors=2))
            fewer.setattr(Launch, "grid", property(lambda launch: launch.grid_on(2)))
            (several,), bits = launched(call, *arguments)
            assert several.resident == 1 and several.grid == (2, 1) and several.programs > 2
        assert "num_programs" in several.source.text and bits == expected


def test_machine_code_of_a_large_product(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of several tiles a program, with what follows: no register in memory, and room for blocks and results."""
    monkeypatch.setattr(product, "choose", lambda *sizes: choose(8192, 8192, 8192, 1, "bf16"))
    monkeypatch.setattr(product, "gpu", lambda number: replace(HOPPER, processors=0))
    monkeypatch.setattr(Launch, "grid", (1, 1))
    x = numbers(64, 64)

    def with_more(x: Any) -> Any:
        return Function.leaky_relu(x @ x + x[0]) + x

    calls = [lambda x: x @ x, lambda x: x.T @ x.T, with_more, lambda x: (x @ x).float() * 2]
    for call in calls:
        (launch,), _ = launched(call, x)
        binary = gpu_kernels.binary(launch, 90)
        assert launch.resident == 1 and launch.constants["COLUMNS"] == 256
        assert all(word in binary.ptx for word in ("cp.async.bulk.tensor", "wgmma.mma_async"))
        assert binary.shared <= HOPPER.shared and binary.registers <= 255 and binary.spilled == 0
        if call is calls[0]:
            wide = replace(launch, constants=launch.constants | {"WIDE": 1})
            assert "bulk.tensor" in gpu_kernels.binary(wide, 90).ptx


def test_fewer_steps_ahead_where_blocks_leave_no_room(device: Any, library: FakeLibrary, monkeypatch: Any) -> None:
    x = numbers(256, 256)
    (launch,), _ = launched(lambda x: x @ x, x)
    stages: list[int] = []

    def binary(launch: Launch, architecture: int) -> Any:
        stages.append(launch.stages)
        image = library.define("k0_matmul", (), lambda *given: None)
        sizes = tuple(BYTES[kind] for kind in execution.layouts(launch))
        boxes = tuple(map(box, launch.descriptors))
        return compiler.Binary("k0_matmul", "", "", image, 80000 * launch.stages, 4, 32, 0, sizes, boxes)

    monkeypatch.setattr(gpu_kernels, "binary", binary)
    kernel = execution.compiled(replace(launch, stages=4), device)
    assert stages == [4, 3, 2] and kernel.shared == 160000


def test_factors_that_no_map_describes() -> None:
    x = numbers(256, 256)
    cases = {
        "described": (lambda x: x @ x, 2),
        "rows that 16 bytes do not divide": (lambda x: numbers(256, 257)[:, :256] @ x, 0),
        "neighbours apart": (lambda x: x[:, ::2] @ x[::2], 0),
        "small": (lambda x: x[:, :8] @ x[:8], 0),
        "float32": (lambda x: (w := numbers(256, 256, dtype=ej.float32)) @ w.T, 0),
    }
    for name, (call, count) in cases.items():
        found, _ = launched(call, x)
        assert [len(launch.descriptors) for launch in found] == [count], name
    ej.set_float32_matmul_precision("high")
    try:
        singles = {"sums along neighbours": (lambda w: w @ w.T, 2), "sums across": (lambda w: w @ w, 0)}
        for name, (call, count) in singles.items():
            found, _ = launched(call, numbers(256, 256, dtype=ej.float32))
            assert [len(launch.descriptors) for launch in found] == [count], name
    finally:
        ej.set_float32_matmul_precision("highest")
    unaligned = numbers(256 * 256 + 1)
    found, _ = launched(lambda x: x[1:].view(256, 256) @ x[:-1].view(256, 256), unaligned)
    assert not found[0].descriptors


def test_maps_are_made_where_factors_lie_elsewhere(library: FakeLibrary, cuda: Any) -> None:
    """The fake driver checks a map's fields, its kernel whether it is that of the factor."""
    pairs = [(numbers(256, 256), numbers(256, 256)) for _ in range(2)]
    there = [tuple(x.to("cuda") for x in pair) for pair in pairs]
    expected = [x.float() @ w.float() for x, w in pairs]

    counts = []
    for (x, w), wanted in zip([*there, there[1]], [*expected, expected[1]], strict=True):
        before = encoded(library)
        result = x @ w
        counts.append(encoded(library) - before)
        assert ej.allclose(result.cpu().float(), wanted, rtol=2e-2, atol=0.2)
    assert counts == [4, 2, 0]  # at the first launch the driver is asked whether it makes them at all
    compiled = jit(lambda x, w: (x @ w.T).relu(), fullgraph=True)
    for x, w in there:
        assert ej.equal(compiled(x, w).cpu(), (x @ w.T).relu().cpu())


def encoded(library: FakeLibrary) -> int:
    return sum(call[0] == "cuTensorMapEncodeTiled" for call in library.calls)


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> descriptors.Maps:
    monkeypatch.setattr(descriptors.maps, "refused", False)
    return descriptors.maps


@pytest.mark.parametrize("why", ["status", "absent"])
@pytest.mark.parametrize("watched", [False, True])
def test_a_driver_that_makes_no_maps(
    library: FakeLibrary, cuda: Any, maps: descriptors.Maps, why: str, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels load blocks without them then, in native calls and in those that Python queues; one warning says so."""
    if why == "status":
        library.fail("cuTensorMapEncodeTiled", 801, times=1 << 30)
    else:
        monkeypatch.delattr(fake_maps.Maps, "cuTensorMapEncodeTiled")
    x, w = numbers(256, 256), numbers(256, 256)
    there, expected = (x.to("cuda"), w.to("cuda")), x.float() @ w.float()
    with timeline.recording(cuda.device(0)) if watched else contextlib.nullcontext():
        with pytest.warns(RuntimeWarning, match="this driver makes no tensor maps"):
            result = there[0] @ there[1]
        count = encoded(library)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = there[1] @ there[0]
            given = [y.view(1, 2, 256, 128).contiguous() for y in there]
            attended = Function.scaled_dot_product_attention(given[0], given[1], given[1])
    assert maps.refused and encoded(library) == count and not (why == "absent" and count)
    assert ej.allclose(result.cpu().float(), expected, rtol=2e-2, atol=0.2)
    assert ej.allclose(other.cpu().float(), w.float() @ x.float(), rtol=2e-2, atol=0.2)
    assert attended.shape == (1, 2, 256, 128)


def test_maps_are_not_wanted(
    library: FakeLibrary, cuda: Any, maps: descriptors.Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EAGERJIT_TENSOR_MAPS", "0")
    x, w = numbers(256, 256), numbers(256, 256)
    plain = (x.to("cuda") @ w.to("cuda")).cpu()
    assert encoded(library) == 0
    monkeypatch.setenv("EAGERJIT_TENSOR_MAPS", "1")
    assert ej.equal(plain, ej.jit(lambda x, w: x @ w)(x.to("cuda"), w.to("cuda")).cpu()) and encoded(library)


def test_kernels_do_not_ask_maps_for_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "choose", lambda *sizes: Tile(64, 128, 64, 4, 3))
    x = numbers(256, 256)
    (launch,), _ = launched(lambda x: x @ x, x)
    binary = gpu_kernels.binary(launch, 90)
    layouts = execution.layouts(launch)
    unread = [i for i, kind in enumerate(layouts) if kind == "i32" and "map" in layouts[max(i - 2, 0) : i]]
    assert unread == [1, 2, 6, 7] and layouts[:5] == ["map", "i32", "i32", "i64", "i64"]
    for i in (1, 2, 3, 4, 6, 7, 8, 9):
        assert f"[{binary.name}_param_{i}]" not in binary.ptx
    assert all(word in binary.ptx for word in ("cp.async.bulk.tensor", "wgmma.mma_async", "mbarrier"))
    assert len(binary.boxes) == 2 and binary.spilled == 0


LARGE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "as they lie": (lambda x, w: x @ w, [(520, 776), (776, 1032)]),
    "turned": (lambda x, w: x.T @ w.T, [(776, 520), (1032, 776)]),
    "batched": (lambda x, w: x @ w.mT, [(6, 264, 328), (6, 520, 328)]),
    "shared sums": (lambda x, w: x.T @ w, [(16384, 128), (16384, 136)]),
    "several tiles": (lambda x, w: Function.leaky_relu(x @ w), [(2056, 512), (512, 4104)]),
    "attention": (
        lambda q, k, v: Function.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 3, 500, 128)] * 3
    ),
    "wide attention": (
        lambda q, k, v: Function.scaled_dot_product_attention(q, k, v, is_causal=True), [(1, 2, 333, 256)] * 3
    ),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", LARGE)
def test_on_a_gpu(name: str) -> None:
    """Results and gradients beside those of the CPU, within what bfloat16 rounds."""
    call, shapes = LARGE[name]
    given = [numbers(*shape) / 8 for shape in shapes]

    def run(place: str) -> list[Any]:
        there = [x.detach().to(place).requires_grad_() for x in given]
        result = call(*there)
        gradients = ej.autograd.grad((result.float() * 2).sum(), there)
        return [x.detach().cpu().float() for x in (result, *gradients)]

    with devices(GPU):
        found = run("cuda")
    for a, e in zip(found, run("cpu"), strict=True):
        assert (a - e).abs().max().item() <= 0.03 * e.abs().max().item()


def test_attention_on_a_device_has_room_for_what_follows_its_maps(library: FakeLibrary, cuda: Any) -> None:
    """Four maps of four dimensions: eight numbers each."""
    given = [numbers(2, 3, 352, 64) for _ in range(3)]

    def gradients(place: str) -> list[Any]:
        there = [x.to(place).requires_grad_() for x in given]
        result = Function.scaled_dot_product_attention(*there, is_causal=True)
        return [x.cpu().float() for x in ej.autograd.grad((result.float() * 2).sum(), there)]

    for a, e in zip(gradients("cuda"), gradients("cpu"), strict=True):
        assert (a - e).abs().max().item() <= 0.03 * e.abs().max().item()
    assert encoded(library) == 2 * (3 + 4 + 4)
