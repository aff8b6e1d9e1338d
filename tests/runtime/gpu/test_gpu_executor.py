"""Compiled calls on a device, against the CPU: on a fake device with Triton's interpreter, and on a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeLibrary
from machines import Machine, compile_for, interpreted

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.cuda.execution import layouts, offloaded
from eagerjit.nn import functional as F
from eagerjit.runtime.binding import new_tensor
from eagerjit.runtime.gpu import arrays
from eagerjit.runtime.gpu.cubin import parameters
from eagerjit.runtime.gpu.devices import using
from eagerjit.runtime.gpu.errors import AcceleratorError
from eagerjit.runtime.gpu.launch import Kernel, added
from eagerjit.runtime.gpu.stream import current_stream


def data(*shape: int, seed: int = 0) -> Any:
    return ej.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def numbers(result: Any) -> list[np.ndarray]:
    """What a call returned, as arrays."""
    return [np.array(x.detach().numpy()) for x in (result if isinstance(result, tuple | list) else (result,))]


def both(target: Machine, function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> tuple[Any, Any, Any]:
    """The results of a function on the device and on the CPU, and the device's executables."""
    expected = numbers(ej.jit(function)(*make()))
    with offloaded(target.device, compile_for(target)) as made:
        call = ej.jit(function)
        found = [numbers(call(*make())) for _ in range(2)]
        assert call.cache_info().compiles >= 1
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    return found[0], expected, made


# Without sums the bits are the CPU's.
EXACT: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "chain": (lambda x: ej.tanh(2 * x + 1) * ej.exp(-x * x) + ej.log1p(abs(x)), lambda: (data(1000),)),
    "broadcast": (lambda x, y: (x + y, x * 2.5 - y), lambda: (data(7, 1), data(1, 9, seed=1))),
    "transposed": (lambda x: x.t() + 1, lambda: (data(33, 5),)),
    "strided leaf": (lambda x: x * 3, lambda: (data(20, 6)[::2, 1:4],)),
    "flipped leaf": (lambda x: x.flip(0) - x, lambda: (data(12),)),
    "numbers": (lambda x, a, n: x * a + n, lambda: (data(50), 0.3, 7)),
    "integers": (lambda x: (x // 3, x % 5, x.to(ej.float64) / 7), lambda: (ej.arange(-20, 20),)),
    "mask": (lambda x: ej.where(x > 0, x, -x), lambda: (data(77),)),
    "maximum": (lambda x: (x.amax(1), x.argmax(1)), lambda: (data(9, 40),)),
    "views": (lambda x: (lambda y: (y, y[1:], y.t()))(x + 1), lambda: (data(4, 6),)),
    "view of an input": (lambda x: (x[1:], x * 1), lambda: (data(4, 6),)),
    "sorted": (lambda x: ej.sort(x * 2)[0] + 1, lambda: (data(5, 11),)),
    "lookup": (lambda w, i: w[i] * 2, lambda: (data(10, 4), ej.tensor([3, 0, 9]))),
    "counted": (lambda x: x[x > 0] * 2, lambda: (data(60),)),
    "empty": (lambda x: x + 1, lambda: (ej.zeros(0, 3),)),
    "scalar": (lambda x: x * 2 + 1, lambda: (ej.tensor(3.0),)),
}  # fmt: skip
CLOSE: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "sum": (lambda x: (x.sum(), x.sum(0), x.mean(1)), lambda: (data(130, 70),)),
    "softmax": (lambda x: ej.softmax(x, -1), lambda: (data(13, 200),)),
    "matmul": (lambda x, w: (x @ w).relu(), lambda: (data(8, 20), data(20, 6, seed=1))),
    "batched matmul": (lambda x, w: x.transpose(1, 2) @ w, lambda: (data(3, 5, 4), data(3, 5, 2, seed=1))),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1) + 1, lambda: (data(2, 3, 8, 8), data(4, 3, 3, 3, seed=1))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda: tuple(data(2, 2, 6, 4, seed=s) for s in range(3)),
    ),
    "norm": (lambda x: F.layer_norm(x, (40,)), lambda: (data(6, 40),)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_the_cpu_s_bits(target: Machine, name: str) -> None:
    found, expected, made = both(target, *EXACT[name])
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert made


@pytest.mark.parametrize("name", CLOSE)
def test_the_cpu_s_numbers(target: Machine, name: str) -> None:
    found, expected, _ = both(target, *CLOSE[name])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def training(compile: Callable[..., Any]) -> tuple[list[float], list[np.ndarray]]:
    """Losses and parameters of a few steps of a small network."""
    ej.manual_seed(0)
    model = ej.nn.Sequential(ej.nn.Linear(12, 16), ej.nn.GELU(), ej.nn.Linear(16, 4))
    optimizer = ej.optim.AdamW(model.parameters(), lr=0.01)
    x, y = data(32, 12), ej.tensor(np.arange(32) % 4)

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compile(step)
    losses = [run().item() for _ in range(6)]
    return losses, [np.array(p.detach().numpy()) for p in model.parameters()]


def test_a_training_step(target: Machine) -> None:
    expected, weights = training(ej.jit)
    with offloaded(target.device, compile_for(target)) as made:
        losses, own = training(ej.jit)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(own, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0] and any(executable.launches for executable in made)


def test_another_size_compiles_nothing(target: Machine) -> None:
    with offloaded(target.device, compile_for(target)) as made:
        call = ej.jit(lambda x: (x * 2).sum(1))
        for rows, columns in ((4, 5), (6, 3000), (50, 2), (3, 40000)):
            x = data(rows, columns)
            np.testing.assert_allclose(call(x).numpy(), (x.numpy() * 2).sum(1), rtol=1e-3, atol=1e-3)
    assert len(made) == 1


def test_a_condition_on_a_value(target: Machine) -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    with offloaded(target.device, compile_for(target)):
        call = ej.jit(function)
        for value in (1.0, -1.0, 2.0, -3.0):
            assert call(ej.full((5,), value)).tolist() == function(ej.full((5,), value)).tolist()
    assert call.cache_info().compiles == 2


def test_writes_reach_the_arguments(target: Machine) -> None:
    def function(x: Any, y: Any) -> Any:
        x[1] = 7
        y.add_(x.sum())
        return x * 2

    with offloaded(target.device, compile_for(target)):
        call = ej.jit(function)
        for _ in range(2):
            base = ej.zeros(4, 6)
            x, y = base[:, ::2], ej.ones(3)
            result = call(x, y)
            assert x.tolist() == [[0.0] * 3, [7.0] * 3, [0.0] * 3, [0.0] * 3] and y.tolist() == [22.0] * 3
            assert base.sum().item() == 21 and result.tolist()[1] == [14.0] * 3 and x._version > 0


def test_a_failed_check_is_an_error_after_the_writes_before_it(target: Machine) -> None:
    def function(w: Any, i: Any, y: Any) -> Any:
        y += 1
        return w[i]

    with offloaded(target.device, compile_for(target)):
        call = ej.jit(function)
        w, y = data(10, 4), ej.zeros(2)
        call(w, ej.tensor([1, 2]), y)
        with pytest.raises(IndexError, match="index"):
            call(w, ej.tensor([1, 10]), y)
        assert y.tolist() == [2.0, 2.0]
        assert call(w, ej.tensor([1, 9]), y).shape == (2, 4) and y.tolist() == [3.0, 3.0]


# -- tensors on the device --------------------------------------------------------------------------------------------


def resident(target: Machine, tensor: Any) -> Any:
    return new_tensor(arrays.upload(tensor.numpy(), current_stream(target.device)))


def test_results_stay_where_the_arguments_are(target: Machine) -> None:
    x, y = data(100), data(100, seed=1)
    with offloaded(target.device, compile_for(target)):
        call = ej.jit(lambda x, y: (x * y + 1, (x - y)[10:]))
        here = [value.numpy() for value in call(x, y)]
        a, b = resident(target, x), resident(target, y)
        call(a, b)
        before = len(target.library.calls) if target.library else 0
        first, second = call(a, b)
        again = call(first, first)[0]
    assert all(arrays.memory_of(t._data) is not None for t in (first, second, again))
    if target.library is not None:
        names = {name for name, *_ in target.library.calls[before:]}
        assert not [
            name for name in names if "Synchronize" in name or "Host" in name or "toH" in name or "HtoD" in name
        ]
    stream = current_stream(target.device)
    assert (arrays.download(first._data, stream) == here[0]).all()
    assert (arrays.download(second._data, stream) == here[1]).all()
    assert (arrays.download(again._data, stream) == here[0] * here[0] + 1).all()


def test_writes_to_what_lies_on_the_device(target: Machine) -> None:
    def function(x: Any) -> Any:
        x += 1
        return x * 2

    with offloaded(target.device, compile_for(target)):
        call = ej.jit(function)
        a = resident(target, ej.zeros(5))
        for step in range(1, 4):
            result = call(a)
            assert (arrays.download(a._data, current_stream(target.device)) == step).all()
            assert (arrays.download(result._data, current_stream(target.device)) == 2 * step).all()


# -- failures, and compiling without a device -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chain", "writes", "matmul", "counted"])
def test_a_device_lost_at_any_call(name: str) -> None:
    def write(x: Any) -> Any:
        x += 1
        return x * 2

    function, make = {**EXACT, **CLOSE, "writes": (write, lambda: (data(20),))}[name]
    library = FakeLibrary()
    with using(library.driver()) as platform, offloaded(platform.device(0), interpreted(library)):
        call = ej.jit(function)
        call(*make())
        start = len(library.calls)
        call(*make())
        calls = len(library.calls) - start
    assert calls > 2
    for at in range(0, calls, max(calls // 8, 1)):
        library = FakeLibrary()
        with using(library.driver()) as platform, offloaded(platform.device(0), interpreted(library)):
            call = ej.jit(function)
            call(*make())
            arguments, statistics = make(), platform.device(0).allocator.statistics
            kept = statistics.current("allocated_bytes")  # tables of functions
            before = [(np.array(t.numpy()), t._version) for t in arguments]
            library.fail("*", 719, after=at, sticky=True)
            with pytest.raises(AcceleratorError):
                call(*arguments)
            for tensor, (values, version) in zip(arguments, before, strict=True):
                assert (tensor.numpy() == values).all() and tensor._version == version
        platform.device(0).allocator.collect()
        assert statistics.current("allocated_bytes") == kept


def test_binaries_have_the_parameters_that_are_passed() -> None:
    library = FakeLibrary()
    seen: list[Any] = []

    def noting(launch: Any, device: Any) -> Kernel:
        seen.append(launch)
        return interpreted(library)(launch, device)

    with using(library.driver()) as platform, offloaded(platform.device(0), noting):
        ej.jit(lambda x, a: ej.softmax(x * a, -1).sum(0))(data(9, 40), 0.5)
    for launch in seen:
        for architecture in (80, 90):
            binary = gpu_kernels.binary(launch, architecture)
            assert binary.cubin[:4] == b"\x7fELF" and binary.name == re.sub(r"^k\d+_", "k_", launch.source.name)
            assert added(binary.name, layouts(launch), binary.parameters) == 2  # Triton's two scratch buffers
    with pytest.raises(RuntimeError, match="does not say which parameters absent has"):
        parameters(binary.cubin, "absent")
    with pytest.raises(RuntimeError, match="was compiled to take parameters of"):
        added(binary.name, layouts(launch)[1:], binary.parameters)
