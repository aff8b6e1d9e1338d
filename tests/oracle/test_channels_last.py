"""What is computed of tensors with channels last beside PyTorch: strides and values, plain, compiled, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_memory_formats import IMAGES, LAYOUTS, VOLUMES, check, compare

import eagerjit as ej

RANDOM = np.random.default_rng(2)


def _weight(t: Any, *sizes: int, last: bool = False, dtype: str = "float32") -> Any:
    count = int(np.prod(sizes))
    made = (t.arange(count).reshape(sizes) % 7 - 3).to(getattr(t, dtype)) / 8
    return LAYOUTS["channels_last"](made) if last else made


def _functional(name: str, *args: Any, **options: Any) -> Any:
    return lambda t, x: getattr(t.nn.functional, name)(x, *args, **options)


def _statistics(t: Any) -> tuple[Any, Any]:
    return t.full((4,), 0.5), t.full((4,), 2.0)


OF_IMAGES: dict[str, Any] = {
    "conv2d": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 8, 4, 3, 3), t.ones(8), padding=1),
    "conv2d of a weight": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 8, 4, 3, 3, last=True)),
    "conv2d strided": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 8, 4, 3, 3), stride=2, padding="valid"),
    "conv2d same": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 8, 4, 3, 2), padding="same"),
    "conv2d 1x1": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 8, 4, 1, 1)),
    "conv2d grouped": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 8, 2, 3, 3, last=True), groups=2),
    "conv2d per channel": lambda t, x: t.nn.functional.conv2d(x, _weight(t, 4, 1, 3, 3), groups=4, padding=1),
    "conv2d double": lambda t, x: t.nn.functional.conv2d(x.double(), _weight(t, 8, 4, 3, 3, dtype="float64")),
    "conv2d complex": lambda t, x: t.nn.functional.conv2d(x * 1j, _weight(t, 8, 4, 3, 3, dtype="complex64")),
    "conv2d of one": lambda t, x: t.nn.functional.conv2d(x[0], _weight(t, 8, 4, 3, 3)),
    "conv_transpose2d": lambda t, x: t.nn.functional.conv_transpose2d(x, _weight(t, 4, 8, 3, 3), t.ones(8), stride=2),
    "conv_transpose2d of a weight": lambda t, x: t.nn.functional.conv_transpose2d(x, _weight(t, 4, 8, 3, 3, last=True)),
    "max_pool2d": _functional("max_pool2d", 2),
    "max_pool2d padded": _functional("max_pool2d", 3, 2, 1),
    "max_pool2d places": lambda t, x: t.nn.functional.max_pool2d(x, 2, return_indices=True)[1],
    "max_pool2d of one": lambda t, x: t.nn.functional.max_pool2d(x[0], 2),
    "max_unpool2d": lambda t, x: t.nn.functional.max_unpool2d(
        x, t.arange(x.shape[2] * 5).reshape(1, 1, -1, 5).expand(x.shape), 2
    ),
    "avg_pool2d": _functional("avg_pool2d", 2),
    "adaptive_avg_pool2d": _functional("adaptive_avg_pool2d", (4, 3)),
    "adaptive_avg_pool2d even": _functional("adaptive_avg_pool2d", (3, 5)),
    "adaptive_max_pool2d": _functional("adaptive_max_pool2d", 3),
    "adaptive_max_pool2d of one": lambda t, x: t.nn.functional.adaptive_max_pool2d(x[0], 3),
    "lp_pool2d": _functional("lp_pool2d", 2, 2),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, *_statistics(t), t.ones(4), t.ones(4), True),
    "batch_norm known": lambda t, x: t.nn.functional.batch_norm(x, *_statistics(t)),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x, 2, t.ones(4), t.ones(4)),
    "instance_norm": _functional("instance_norm"),
    "layer_norm": _functional("layer_norm", (5,)),
    "rms_norm": _functional("rms_norm", (5,)),
    "local_response_norm": _functional("local_response_norm", 2),
    **{
        f"interpolate {mode}": _functional("interpolate", scale_factor=2, mode=mode)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
    },
    "interpolate to less": _functional("interpolate", size=(3, 4), mode="bilinear", align_corners=True),
    "interpolate smoothly": _functional("interpolate", size=(3, 4), mode="bilinear", antialias=True),
    "interpolate bytes": lambda t, x: t.nn.functional.interpolate((x * 255).byte(), size=(9, 8)),
    "pad": _functional("pad", (1, 2, 0, 1)),
    "pad cut": _functional("pad", (-1, 1, -1, 0)),
    "pad nothing": _functional("pad", (0, 0, 0, 0)),
    "pad reflect": _functional("pad", (1, 1, 2, 1), mode="reflect"),
    "pad replicate": _functional("pad", (1, 1, 2, 1), mode="replicate"),
    "pad circular": _functional("pad", (1, 1, 2, 1), mode="circular"),
    "pixel_unshuffle": lambda t, x: t.nn.functional.pixel_unshuffle(x[:, :, :4, :4], 2),
    "pixel_shuffle": lambda t, x: t.nn.functional.pixel_shuffle(t.cat([x, x], 1), 2),
    "channel_shuffle": _functional("channel_shuffle", 2),
    "cat": lambda t, x: t.cat([x, x * 2], 1),
    "cat many": lambda t, x: t.cat([x] * 9),
    "cat mixed": lambda t, x: t.cat([x, x.contiguous()], 2),
    "cat dtypes": lambda t, x: t.cat([x, x.double()]),
    "cat with nothing": lambda t, x: t.cat([t.empty(0), x]),
    "stack": lambda t, x: t.stack([x[0], x[1]]),
    "roll": lambda t, x: x.roll((1, 2), (1, 3)),
    "flip": lambda t, x: x.flip(1),
    "softmax": lambda t, x: x.softmax(1),
    "gate": lambda t, x: t.sigmoid(t.nn.functional.adaptive_avg_pool2d(x, 1)) * x,
    "bias": lambda t, x: t.arange(4.0).reshape(4, 1, 1) + x,
    "layers": lambda t, x: t.nn.functional.max_pool2d(
        t.nn.functional.conv2d(x, _weight(t, 8, 4, 3, 3), padding=1).relu() + 1, 2
    ),
}
OF_VOLUMES: dict[str, Any] = {
    "conv3d": lambda t, x: t.nn.functional.conv3d(x, _weight(t, 8, 4, 3, 3, 3), padding=1),
    "conv3d of a weight": lambda t, x: t.nn.functional.conv3d(x, _weight(t, 8, 4, 3, 3, 3, last=True)),
    "conv3d double": lambda t, x: t.nn.functional.conv3d(x.double(), _weight(t, 8, 4, 3, 3, 3, dtype="float64")),
    "conv_transpose3d": lambda t, x: t.nn.functional.conv_transpose3d(x, _weight(t, 4, 8, 3, 3, 3)),
    "max_pool3d": _functional("max_pool3d", 2),
    "avg_pool3d": _functional("avg_pool3d", 2),
    "adaptive_avg_pool3d": _functional("adaptive_avg_pool3d", 2),
    "adaptive_max_pool3d": _functional("adaptive_max_pool3d", 2),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, *_statistics(t), training=True),
    "group_norm": _functional("group_norm", 2),
    "interpolate nearest": _functional("interpolate", scale_factor=2),
    "interpolate trilinear": _functional("interpolate", scale_factor=2, mode="trilinear"),
    "pad": _functional("pad", (1, 1, 0, 2, 1, 0)),
    "pad replicate": _functional("pad", (1, 1, 0, 2, 1, 0), mode="replicate"),
    "cat": lambda t, x: t.cat([x, x], 1),
}
LINES = IMAGES[:, :, 0]
OF_LINES: dict[str, Any] = {
    "max_pool1d": _functional("max_pool1d", 3, 2, 1),
    "max_pool1d places": lambda t, x: t.nn.functional.max_pool1d(x, 2, 1, return_indices=True)[1],
    "max_pool1d of one": lambda t, x: t.nn.functional.max_pool1d(x[0], 2),
    "avg_pool1d": _functional("avg_pool1d", 2, 1),
    "avg_pool1d of one": lambda t, x: t.nn.functional.avg_pool1d(x[0], 2),
    "adaptive_avg_pool1d": _functional("adaptive_avg_pool1d", 3),
    "adaptive_avg_pool1d of one": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x[0], 3),
    "adaptive_max_pool1d": _functional("adaptive_max_pool1d", 3),
    "adaptive_max_pool1d of one": lambda t, x: t.nn.functional.adaptive_max_pool1d(x[0], 3),
    "lp_pool1d": _functional("lp_pool1d", 2, 2),
    "conv1d": lambda t, x: t.nn.functional.conv1d(x, _weight(t, 8, 4, 3), padding=1),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, *_statistics(t), training=True),
    "group_norm": _functional("group_norm", 2),
    "interpolate": _functional("interpolate", scale_factor=2, mode="linear"),
    "pad replicate": _functional("pad", (1, 2), mode="replicate"),
    "trend": lambda t, x: t.nn.functional.avg_pool1d(x, 3, 1, 1).permute(0, 2, 1).view(2, -1),
}


@pytest.mark.parametrize("name", OF_IMAGES)
def test_of_images(name: str) -> None:
    layouts = {k: v for k, v in LAYOUTS.items() if k != "turned" or name in ("conv2d", "batch_norm", "pad", "cat")}
    compare(OF_IMAGES[name], IMAGES, layouts=layouts, tolerance=1e-4)


@pytest.mark.parametrize("name", OF_VOLUMES)
def test_of_volumes(name: str) -> None:
    layouts = {k: v for k, v in LAYOUTS.items() if k in ("row_major", "channels_last")}
    compare(OF_VOLUMES[name], VOLUMES, layouts=layouts, tolerance=1e-4)


@pytest.mark.parametrize("name", OF_LINES)
def test_of_lines(name: str) -> None:
    layouts = {k: v for k, v in LAYOUTS.items() if k == "channels_last" or (k == "row_major" and name != "trend")}
    compare(OF_LINES[name], LINES, layouts=layouts, tolerance=1e-4)


@pytest.mark.parametrize("name", ["max_pool1d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d", "conv1d"])
def test_gradients_of_lines(name: str) -> None:
    for layout in ("row_major", "channels_last"):
        for weights in ("row_major", "channels_last"):
            found = []
            for t in (torch, ej):
                x = LAYOUTS[layout](t.tensor(LINES)).requires_grad_()
                y = OF_LINES[name](t, x)
                g = LAYOUTS[weights](((t.arange(y.numel()) % 11).float() / 8).reshape(y.shape))
                found.append((y, t.autograd.grad(y, x, g)[0]))
            for made, wanted in zip(found[1], found[0], strict=True):
                check(made, wanted, 1e-4)


FOLLOWED = (
    "max_pool2d,max_pool2d padded,avg_pool2d,adaptive_avg_pool2d,adaptive_avg_pool2d even,adaptive_max_pool2d,"
    "batch_norm,batch_norm known,group_norm,pad reflect,conv2d,conv2d per channel,conv2d grouped,conv_transpose2d,roll"
).split(",")
"""Functions whose gradients lie with channels last where the input or what comes in does."""


@pytest.mark.parametrize("name", FOLLOWED)
def test_gradients_of_images(name: str) -> None:
    for layout in ("row_major", "channels_last"):
        found = []
        for t in (torch, ej):
            x = LAYOUTS[layout](t.tensor(IMAGES)).requires_grad_()
            y = OF_IMAGES[name](t, x)
            g = LAYOUTS[layout](((t.arange(y.numel()) % 11).float() / 8).reshape(y.shape))
            found.append(t.autograd.grad(y, x, g)[0])
        check(found[1], found[0], 1e-4)


@pytest.mark.parametrize("layouts", [("channels_last", "row_major"), ("row_major", "channels_last")])
def test_gradients_of_convolutions(layouts: tuple[str, str]) -> None:
    """Both are laid out with channels last where one of the operands is; in `.grad` they lie as the leaves do."""

    def call(t: Any, x: Any, w: Any) -> Any:
        return t.nn.functional.conv2d(x, w, stride=2, padding=1).square().sum()

    taken, left = [], []
    weight = RANDOM.uniform(-1, 1, (6, 4, 3, 3)).astype(np.float32)
    for t, f in ((torch, call), (ej, call), (ej, ej.jit(call))):
        x, w = (LAYOUTS[n](t.tensor(a)).requires_grad_() for n, a in zip(layouts, (IMAGES, weight), strict=True))
        taken.append(t.autograd.grad(f(t, x, w), (x, w)))
        f(t, x, w).backward()
        left.append((x.grad, w.grad))
    for made, wanted in zip(taken[1], taken[0], strict=True):
        check(made, wanted, 1e-4)
    for found in left[1:]:
        for made, wanted in zip(found, left[0], strict=True):
            check(made, wanted, 1e-4)


def test_a_network_trained() -> None:
    def step(t: Any, model: Any, x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    found = []
    for t in (torch, ej):
        first, second = t.nn.Conv2d(4, 8, 3, padding=1), t.nn.Conv2d(8, 4, 2)
        model = t.nn.Sequential(first, t.nn.BatchNorm2d(8), t.nn.ReLU(), t.nn.MaxPool2d(2), second)
        for p in model.parameters():
            p.data = ((t.arange(p.numel()) % 5 - 2).float() / 8 + 0.1).reshape(p.shape)
        model.to(memory_format=t.channels_last)
        optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        run = step if t is torch else ej.jit(step)
        for _ in range(3):
            for layout in ("channels_last", "row_major"):
                optimizer.zero_grad()
                run(t, model, LAYOUTS[layout](t.tensor(IMAGES)))
                optimizer.step()
        found.append([*model.parameters(), *(p.grad for p in model.parameters())])
        momentum = [optimizer.state[p]["momentum_buffer"] for p in model.parameters()]
        assert all(m.stride() == p.stride() for m, p in zip(momentum, model.parameters(), strict=True))
    for made, wanted in zip(found[1], found[0], strict=True):
        check(made, wanted, 1e-3)
