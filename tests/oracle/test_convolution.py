"""Convolutions and their transposes against PyTorch: values, gradients, second gradients, layers, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw

import eagerjit as ej

CALLS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "1d": ("conv1d", (3, 4, 7), (6, 4, 3), {"padding": 2, "stride": 2}),
    "1d one tap": ("conv1d", (2, 4, 7), (6, 4, 1), {}),
    "1d unbatched": ("conv1d", (4, 7), (6, 4, 3), {}),
    "2d": ("conv2d", (3, 4, 7, 6), (6, 4, 3, 3), {"padding": 1}),
    "2d groups": ("conv2d", (3, 4, 7, 6), (6, 2, 3, 2), {"padding": (1, 0), "stride": 2, "groups": 2}),
    "2d depthwise": ("conv2d", (3, 4, 7, 6), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    "depthwise, strided lines": ("conv2d", (3, 4, 7, 9), (4, 1, 3, 4), {"padding": 1, "stride": (1, 2), "groups": 4}),
    "depthwise, dilated": ("conv2d", (2, 4, 9, 8), (4, 1, 3, 2), {"stride": (2, 1), "dilation": 2, "groups": 4}),
    "3d depthwise": ("conv3d", (2, 3, 5, 4, 6), (3, 1, 2, 3, 2), {"stride": (2, 1, 1), "padding": 1, "groups": 3}),
    "2d multiplied depthwise": ("conv2d", (2, 3, 7, 6), (6, 1, 3, 3), {"groups": 3, "stride": (1, 2)}),
    "2d same": ("conv2d", (3, 4, 7, 6), (6, 4, 3, 3), {"padding": "same", "dilation": (1, 3)}),
    "2d same, even kernel": ("conv2d", (2, 4, 7, 6), (6, 4, 4, 2), {"padding": "same"}),
    "2d valid": ("conv2d", (3, 4, 7, 6), (6, 4, 3, 3), {"padding": "valid"}),
    "2d wide padding": ("conv2d", (2, 3, 4, 4), (2, 3, 2, 2), {"padding": 3}),
    "2d no images": ("conv2d", (0, 4, 7, 6), (6, 4, 3, 3), {"padding": 1}),
    "2d all ones": ("conv2d", (1, 1, 1, 1), (1, 1, 1, 1), {}),
    "2d many images": ("conv2d", (40, 3, 5, 4), (2, 3, 3, 3), {"padding": 1, "stride": 2}),
    "3d": ("conv3d", (2, 3, 5, 4, 6), (2, 3, 2, 3, 1), {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
    "transposed 1d": ("conv_transpose1d", (2, 4, 5), (4, 3, 3), {"stride": 3}),
    "transposed 2d": ("conv_transpose2d", (2, 4, 5, 3), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1,
                                                                       "groups": 2}),
    "transposed, room behind": (
        "conv_transpose2d", (4, 8, 15, 15), (8, 8, 2, 2), {"padding": 2, "dilation": 2, "output_padding": 1},
    ),
    "transposed, room behind points": (
        "conv_transpose2d", (4, 8, 15, 15), (8, 8, 1, 1), {"dilation": 2, "output_padding": 1},
    ),
    "transposed, dilated": ("conv_transpose2d", (2, 4, 5, 3), (4, 3, 3, 3), {"dilation": 2, "output_padding": 1}),
    "transposed 3d": ("conv_transpose3d", (2, 4, 5, 2, 3), (4, 3, 3, 2, 1), {"stride": (1, 2, 3)}),
}  # fmt: skip


def arguments(name: str, dtype: str = "float64") -> list[np.ndarray]:
    """Input, weight and bias of a call."""
    function, input_, weight, options = CALLS[name]
    rows = weight[1] * options.get("groups", 1) if "transpose" in function else weight[0]
    return [draw(shape, dtype, -1, 1, i) for i, shape in enumerate((input_, weight, (rows,)))]


def call(name: str) -> Callable[..., Any]:
    function, _, _, options = CALLS[name]
    return lambda library, *tensors: getattr(library.nn.functional, function)(*tensors, **options)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name: str) -> None:
    compare(call(name), *arguments(name))
    compare(call(name), *arguments(name, "float32")[:2], tolerance=1e-4)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", ["1d", "2d groups", "2d depthwise", "2d same", "3d", "transposed 2d"])
def test_second_gradients(name: str) -> None:
    found = []
    for library in (ej, torch):
        tensors = [library.tensor(a).requires_grad_() for a in arguments(name)]
        out = call(name)(library, *tensors)
        first = library.autograd.grad(out.sin().sum(), tensors, create_graph=True)
        second = library.autograd.grad(sum((g * g).sum() for g in first), tensors)
        found.append([t.detach().numpy() for t in second])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layouts", [("transposed", "contiguous"), ("contiguous", "strided")])
def test_any_strides(layouts: tuple[str, str]) -> None:
    compare(call("2d"), *arguments("2d")[:2], layouts=layouts)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "int32"])
def test_other_dtypes(dtype: str) -> None:
    x, w = (draw(shape, dtype, -3, 3, 1) for shape in ((2, 3, 5, 5), (4, 3, 3, 3)))
    compare(lambda t, x, w: t.conv2d(x, w), x, w, dtypes=[dtype] * 2, tolerance=6e-2 if "float" in dtype else None)


def test_batch_sizes_share_one_version_and_jitted_is_eager() -> None:
    weight, bias = (ej.tensor(a).requires_grad_() for a in arguments("2d groups", "float32")[1:])
    options = CALLS["2d groups"][3]

    def step(x: Any) -> Any:
        out = ej.nn.functional.conv2d(x, weight, bias, **options)
        (out * out).sum().backward()
        return out

    jitted = ej.jit(step)
    for images in (2, 3, 5, 17):
        x = ej.tensor(draw((images, 4, 7, 6), "float32", -1, 1, images)).requires_grad_()
        found = []
        for function in (step, jitted):
            weight.grad = bias.grad = x.grad = None
            out = function(x)
            found.append([t.detach().numpy().copy() for t in (out, x.grad, weight.grad, bias.grad)])
        assert all((a == b).all() for a, b in zip(*found, strict=True))
    assert jitted.cache_info().compiles == 1


def test_threads_change_nothing() -> None:
    x, w = ej.rand(6, 16, 20, 20), ej.rand(32, 16, 3, 3)
    x.requires_grad_(), w.requires_grad_()
    found = []
    before = ej.get_num_threads()
    try:
        for threads in (1, 2, 3):
            ej.set_num_threads(threads)
            out = ej.nn.functional.conv2d(x, w, padding=1)
            found.append([out.detach().numpy(), *(g.numpy() for g in ej.autograd.grad(out.sum(), (x, w)))])
    finally:
        ej.set_num_threads(before)
    assert all((a == b).all() for other in found[1:] for a, b in zip(found[0], other, strict=True))


LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Conv1d": (lambda n: n.Conv1d(3, 6, 3, groups=3, dilation=2), (2, 3, 9)),
    "Conv1d valid": (lambda n: n.Conv1d(3, 6, 3, padding="valid"), (3, 9)),
    "Conv2d reflect": (lambda n: n.Conv2d(3, 4, 3, padding="same", padding_mode="reflect"), (2, 3, 6, 5)),
    "Conv2d circular": (lambda n: n.Conv2d(3, 4, (3, 2), padding="same", padding_mode="circular"), (2, 3, 6, 5)),
    "Conv2d replicate": (lambda n: n.Conv2d(4, 6, 3, 1, (1, 2), 2, padding_mode="replicate"), (2, 4, 6, 5)),
    "Conv2d groups": (lambda n: n.Conv2d(4, 6, 3, 2, 1, groups=2, bias=False), (2, 4, 6, 5)),
    "Conv3d": (lambda n: n.Conv3d(2, 3, (1, 2, 3), padding=1), (2, 2, 4, 4, 4)),
    "ConvTranspose1d": (lambda n: n.ConvTranspose1d(4, 4, 3, 2, groups=2), (2, 4, 5)),
    "ConvTranspose2d": (lambda n: n.ConvTranspose2d(3, 4, (3, 2), 2, 1, output_padding=1, bias=False, dilation=2),
                        (2, 3, 4, 4)),
    "ConvTranspose3d": (lambda n: n.ConvTranspose3d(2, 2, 2, 2), (1, 2, 2, 3, 2)),
}  # fmt: skip


def check_layer(make: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    """One layer of both libraries: how it prints, its state, its results and gradients, and jitted."""
    torch.manual_seed(0)
    theirs, ours = make(torch.nn), make(ej.nn)
    assert repr(ours) == repr(theirs)
    ours.load_state_dict({name: ej.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    array = draw(shape, "float32", -1, 1, 3)
    x, y = torch.tensor(array, requires_grad=True), ej.tensor(array).requires_grad_()
    expected, found = theirs(x), ours(y)
    seed = draw(tuple(expected.shape), "float32", -1, 1, 4)
    expected.backward(torch.tensor(seed))
    found.backward(ej.tensor(seed))
    pairs = [(found, expected), (y.grad, x.grad)]
    pairs += [(p.grad, q.grad) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True)]
    for a, b in pairs:
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert (ej.jit(ours)(y) == found).all()


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    check_layer(*LAYERS[name])


def test_output_size_chooses_the_output_padding() -> None:
    for library in (ej, torch):
        layer = library.nn.ConvTranspose2d(2, 3, 3, 2, 1)
        assert tuple(layer(library.rand(1, 2, 4, 4), output_size=(8, 7)).shape) == (1, 3, 8, 7)
        with pytest.raises(ValueError, match="output size"):
            layer(library.rand(1, 2, 4, 4), output_size=(9, 7))


@pytest.mark.parametrize("make", [
    lambda n: n.LazyConv2d(4, 3),
    lambda n: n.LazyConvTranspose2d(4, 3, bias=False, groups=2),
])  # fmt: skip
def test_lazy_layer(make: Callable[[Any], Any]) -> None:
    layers = []
    for library in (ej, torch):
        layer = make(library.nn)
        before = repr(layer)
        layer(library.rand(1, 2, 5, 5))
        layers.append([before, repr(layer), {k: tuple(v.shape) for k, v in layer.state_dict().items()}])
    assert layers[0] == layers[1]


def residual_network(library: Any) -> Any:
    """Two residual blocks as in ResNet-18, with a shortcut that changes size."""
    nn = library.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1:
                shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            out += x if self.downsample is None else self.downsample(x)
            return self.relu(out)

    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def test_residual_network_trains_as_in_pytorch_and_jitted_bit_for_bit() -> None:
    torch.manual_seed(0)
    images, classes = draw((6, 3, 33, 32), "float32", -1, 1, 1), draw((6,), "int64", 0, 4, 2)
    state = {name: value.numpy().copy() for name, value in residual_network(torch).state_dict().items()}
    runs = []
    for library, compile_ in ((torch, None), (ej, None), (ej, ej.jit)):
        network = residual_network(library)
        network.load_state_dict({name: library.tensor(value) for name, value in state.items()})
        optimizer = library.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)

        def step(x: Any, y: Any, library: Any = library, network: Any = network, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = library.nn.functional.cross_entropy(network(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compile_(step) if compile_ else step
        losses = [run(library.tensor(images), library.tensor(np.abs(classes))).numpy() for _ in range(4)]
        runs.append([*losses, *(value.numpy() for value in network.state_dict().values())])
    theirs, eager, jitted = runs
    assert all((a == b).all() for a, b in zip(eager, jitted, strict=True))
    for ours, expected in zip(eager, theirs, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-3, atol=2e-4)


def test_verified() -> None:
    weight, kernel = ej.rand(4, 3, 3, 3), ej.rand(4, 1, 3, 3)

    def function(x: Any) -> Any:
        out = ej.nn.functional.conv2d(x, weight, stride=2, padding=1).relu()
        return ej.max_pool2d(ej.nn.functional.conv2d(out, kernel, padding=1, groups=4), 2).sum()

    assert ej.jit(function).verify(ej.rand(2, 3, 12, 11).requires_grad_()).ok


X, W = (2, 4, 5, 5), (6, 4, 3, 3)
WRONG: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any], str]] = {
    "channels": (X, (6, 3, 3, 3), lambda t, x, w: t.conv2d(x, w), "[6, 3, 3, 3]"),
    "input dimensions": ((2, 4), W, lambda t, x, w: t.conv2d(x, w), "[2, 4]"),
    "weight dimensions": (X, (6, 4, 3), lambda t, x, w: t.conv2d(x, w), ""),
    "large kernel": (X, (6, 4, 7, 7), lambda t, x, w: t.conv2d(x, w), "(7 x 7)"),
    "indivisible groups": (X, (5, 2, 3, 3), lambda t, x, w: t.conv2d(x, w, groups=2), "[5, 2, 3, 3]"),
    "no groups": (X, W, lambda t, x, w: t.conv2d(x, w, groups=0), "groups"),
    "no stride": (X, W, lambda t, x, w: t.conv2d(x, w, stride=0), "stride"),
    "no dilation": (X, W, lambda t, x, w: t.conv2d(x, w, dilation=0), "dilation"),
    "negative padding": (X, W, lambda t, x, w: t.conv2d(x, w, padding=-1), "padding"),
    "bias size": (X, W, lambda t, x, w: t.conv2d(x, w, w.sum((1, 2, 3))[:5]), "[5]"),
    "bias dtype": (X, W, lambda t, x, w: t.conv2d(x, w, w.sum((1, 2, 3)).float()), "bias type"),
    "weight dtype": (X, W, lambda t, x, w: t.conv2d(x, w.float()), ""),
    "same with stride": (X, W, lambda t, x, w: t.conv2d(x, w, padding="same", stride=2), "same"),
    "padding name": (X, W, lambda t, x, w: t.conv2d(x, w, padding="foo"), "foo"),
    "three strides": (X, W, lambda t, x, w: t.conv2d(x, w, stride=(1, 2, 3)), "[1, 2, 3]"),
    "float stride": (X, W, lambda t, x, w: t.conv2d(x, w, stride=1.5), ""),
    "transposed channels": (X, W, lambda t, x, w: t.conv_transpose2d(x, w), "[6, 4, 3, 3]"),
    "large output padding": (X, (4, 6, 3, 3), lambda t, x, w: t.conv_transpose2d(x, w, output_padding=1), "output"),
    "nothing left": ((1, 4, 1, 1), (4, 6, 2, 2), lambda t, x, w: t.conv_transpose2d(x, w, padding=3), "(-4 x -4)"),
    "bad layer groups": (X, W, lambda t, x, w: t.nn.Conv2d(3, 4, 3, groups=2), "groups"),
    "bad layer mode": (X, W, lambda t, x, w: t.nn.Conv2d(3, 4, 3, padding_mode="foo"), "foo"),
    "bad layer padding": (X, W, lambda t, x, w: t.nn.Conv2d(3, 4, 3, padding="foo"), "foo"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name: str) -> None:
    shape, weight, function, phrase = WRONG[name]
    arrays = [draw(s, "float64", -1, 1, 1) for s in (shape, weight)]
    with pytest.raises(Exception) as theirs:
        function(torch, *map(torch.tensor, arrays))
    with pytest.raises(type(theirs.value)) as ours:
        function(ej, *map(ej.tensor, arrays))
    assert phrase in str(ours.value)
