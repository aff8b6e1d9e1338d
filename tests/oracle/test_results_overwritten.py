"""Results overwritten in place before the gradient asks for them, and results that are no views of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

IMAGES = np.random.default_rng(1).normal(size=(2, 4, 8, 8)).astype(np.float32)
ROWS = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)

LAYERS: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda n: n.Conv2d(4, 4, 3),
    "transposed convolution": lambda n: n.ConvTranspose2d(4, 4, 3),
    "batch norm": lambda n: n.BatchNorm2d(4),
    "batch norm, eval": lambda n: n.BatchNorm2d(4).eval(),
    "group norm": lambda n: n.GroupNorm(2, 4),
    "instance norm": lambda n: n.InstanceNorm2d(4, affine=True),
    "layer norm": lambda n: n.LayerNorm(8),
    "RMS norm": lambda n: n.RMSNorm(8),
    "local response": lambda n: n.LocalResponseNorm(2),
    "max pool": lambda n: n.MaxPool2d(2),
    "overlapping max pool": lambda n: n.MaxPool2d(3, 1, 1),
    "adaptive max pool": lambda n: n.AdaptiveMaxPool2d(2),
    "average pool": lambda n: n.AvgPool2d(2),
    "upsampling": lambda n: n.Upsample(scale_factor=2, mode="bilinear"),
    "pixel shuffle": lambda n: n.PixelShuffle(2),
    "GELU": lambda n: n.GELU(),
    "SiLU": lambda n: n.SiLU(),
    "sigmoid": lambda n: n.Sigmoid(),
    "softmax": lambda n: n.Softmax(1),
}
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda t, x: x.sort(1)[0],
    "topk": lambda t, x: x.topk(2, 1)[0],
    "cummax": lambda t, x: x.cummax(1)[0],
    "kthvalue": lambda t, x: x.kthvalue(2, 1)[0],
    "mode": lambda t, x: x.mode(1)[0],
    "max": lambda t, x: x.max(1)[0],
    "quotient": lambda t, x: x / x.abs().sum(1, keepdim=True),
    "normalize": lambda t, x: t.nn.functional.normalize(x),
    "exp": lambda t, x: x.exp(),
    "product": lambda t, x: x * x,
    "matmul": lambda t, x: x @ x.t(),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "relu_": lambda t, y: t.nn.functional.relu_(y),
    "mul_": lambda t, y: y.mul_(2),
    "clamp_": lambda t, y: y.clamp_(0, 1),
}


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: x.sum(1),
    "sum of all": lambda t, x: x.sum(),
    "mean": lambda t, x: x.mean(0, keepdim=True),
    "sort": lambda t, x: x.sort(1)[0],
    "topk": lambda t, x: x.topk(2, 1)[0],
    "median": lambda t, x: x.median(1)[0],
    "linear": lambda t, x: t.nn.functional.linear(x, t.ones(3, 6)),
    "matmul": lambda t, x: x @ t.ones(6, 2),
    "cat": lambda t, x: t.cat([x, x]),
    "softmax": lambda t, x: x.softmax(1),
    "square": lambda t, x: x * x,
    "exp": lambda t, x: x.exp(),
    "log": lambda t, x: x.abs().log(),
    "amax": lambda t, x: x.amax(1),
    "norm": lambda t, x: x.norm(dim=1),
}


def outcome(t: Any, make: Callable[[Any, Any], Any], data: Any, write: Any, wrap: Any = None) -> Any:
    """The gradient after a result was overwritten; RuntimeError where it is refused."""
    x = t.tensor(data, requires_grad=True)
    try:
        y = make(t, x * 1)
        write(t, y)
        y.pow(2).sum().backward()
    except RuntimeError as error:
        assert "inplace" in str(error) or "in-place" in str(error)
        return RuntimeError
    return x.grad.numpy()


def compare(make: Any, data: Any, write: Any) -> None:
    found, expected = (outcome(t, make, data, write) for t in (eagerjit, torch))
    if expected is RuntimeError:
        assert found is RuntimeError
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str, write: str) -> None:
    torch.manual_seed(0)
    source = LAYERS[layer](torch.nn)
    state = {name: value.numpy().copy() for name, value in source.state_dict().items()}

    def made(t: Any, x: Any) -> Any:
        module = LAYERS[layer](t.nn)
        module.load_state_dict({name: t.tensor(value) for name, value in state.items()})
        return module(x)

    compare(made, IMAGES, WRITES[write])


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str, write: str) -> None:
    compare(FUNCTIONS[function], ROWS, WRITES[write])


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("function", READERS)
def test_arguments(function: str, write: str) -> None:
    """An argument that is overwritten after the call."""

    def made(t: Any, x: Any) -> Any:
        y = READERS[function](t, x)
        WRITES[write](t, x)
        return y

    compare(made, ROWS, lambda t, y: y)


@pytest.mark.parametrize("layer", ["batch norm", "group norm", "max pool", "instance norm"])
def test_compiled(layer: str) -> None:
    """Forward in a compiled function, the overwriting and the gradient in and outside of it."""
    module = LAYERS[layer](eagerjit.nn)
    inside = eagerjit.jit(lambda x: module(x).relu_().pow(2).sum(), fullgraph=True)
    outside = eagerjit.jit(lambda x: module(x), fullgraph=True)
    found = []
    for run in (lambda x: module(x).relu_().pow(2).sum(), inside, lambda x: outside(x).relu_().pow(2).sum()):
        x = eagerjit.tensor(IMAGES, requires_grad=True)
        run(x * 1).backward()
        found.append(x.grad)
    assert eagerjit.equal(found[0], found[1]) and eagerjit.equal(found[0], found[2])


FRESH: dict[str, Callable[[Any, Any], Any]] = {
    "repeat": lambda t, x: x.repeat(2, 1),
    "repeat once": lambda t, x: x.repeat(1, 1),
    "tile": lambda t, x: x.tile(2, 1),
    "repeat_interleave": lambda t, x: x.repeat_interleave(2, 0),
    "pixel_shuffle": lambda t, x: t.nn.functional.pixel_shuffle(x.view(1, 3, 1), 1),
    "pixel_unshuffle": lambda t, x: t.nn.functional.pixel_unshuffle(x.view(3, 1, 1), 1),
    "channel_shuffle": lambda t, x: t.nn.functional.channel_shuffle(x.view(1, 3, 1), 1),
    "unfold": lambda t, x: t.nn.functional.unfold(x.view(1, 3, 1, 1), 1),
    "sum": lambda t, x: x.sum(0),
    "flip": lambda t, x: x.flip(0),
    "cat": lambda t, x: t.cat([x]),
    "expand": lambda t, x: x.expand(2, 3),
    "reshape": lambda t, x: x.reshape(3),
}


@pytest.mark.parametrize("name", FRESH)
def test_memory_of_results(name: str) -> None:
    seen = []
    for t, compiled in ((torch, False), (eagerjit, False), (eagerjit, True)):

        def run(x: Any, t: Any = t) -> Any:
            y = FRESH[name](t, x)
            x.add_(1.0)
            return y + 0

        call = eagerjit.jit(run, fullgraph=True) if compiled else run
        seen.append(call(t.ones(1, 3)).flatten().tolist())
        if not compiled and name != "expand":
            x = t.ones(1, 3)
            FRESH[name](t, x).add_(1.0)
            seen[-1] += x.flatten().tolist()
        else:
            seen[-1] += seen[0][len(seen[-1]) :]
    assert seen[0] == seen[1] == seen[2]
