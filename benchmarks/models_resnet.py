"""ResNet-18 (He et al. 2015, laid out as in torchvision) on small images, for any library with PyTorch's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and first stride
IMAGES, SIDE, CLASSES = 16, 32, 10
RATE, MOMENTUM = 0.001, 0.9


def blocks() -> Iterator[tuple[str, int, int, int]]:
    """Name, channels in, channels out and stride of every residual block."""
    inputs = 64
    for number, (channels, stride) in enumerate(STAGES, 1):
        for position in (0, 1):
            yield f"layer{number}.{position}", inputs, channels, stride if position == 0 else 1
            inputs = channels


def parameters() -> dict[str, np.ndarray]:
    """Return the model's parameters by the names that PyTorch gives them."""
    generator = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {}

    def convolution(name: str, inputs: int, outputs: int, kernel: int) -> None:
        spread = (2 / (outputs * kernel * kernel)) ** 0.5
        shape = (outputs, inputs, kernel, kernel)
        values[f"{name}.weight"] = spread * generator.standard_normal(shape, dtype=np.float32)

    def norm(name: str, channels: int) -> None:
        values[f"{name}.weight"] = np.ones(channels, np.float32)
        values[f"{name}.bias"] = np.zeros(channels, np.float32)

    convolution("conv1", 3, 64, 7)
    norm("bn1", 64)
    for name, inputs, outputs, stride in blocks():
        convolution(f"{name}.conv1", inputs, outputs, 3)
        norm(f"{name}.bn1", outputs)
        convolution(f"{name}.conv2", outputs, outputs, 3)
        norm(f"{name}.bn2", outputs)
        if stride != 1 or inputs != outputs:
            convolution(f"{name}.downsample.0", inputs, outputs, 1)
            norm(f"{name}.downsample.1", outputs)
    bound = STAGES[-1][0] ** -0.5
    values["fc.weight"] = generator.uniform(-bound, bound, (CLASSES, STAGES[-1][0])).astype(np.float32)
    values["fc.bias"] = generator.uniform(-bound, bound, CLASSES).astype(np.float32)
    return values


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Return images and the classes to predict."""
    generator = np.random.default_rng(1)
    images = generator.standard_normal((IMAGES, 3, SIDE, SIDE), dtype=np.float32)
    return images, generator.integers(0, CLASSES, IMAGES)


def build(torch: Any) -> Any:
    """Return the model, as a PyTorch user writes it."""
    nn = torch.nn

    class BasicBlock(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

        def forward(self, x):
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += x if self.downsample is None else self.downsample(x)
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            made = {name: BasicBlock(inputs, outputs, stride) for name, inputs, outputs, stride in blocks()}
            self.layer1, self.layer2, self.layer3, self.layer4 = (
                nn.Sequential(made[f"layer{n}.0"], made[f"layer{n}.1"]) for n in (1, 2, 3, 4)
            )
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(STAGES[-1][0], CLASSES)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    return ResNet()
