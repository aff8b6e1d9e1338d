"""The networks of the GPU's training benchmark, for any library with PyTorch's API.

Six of them are those of Table 1 of "PyTorch: An Imperative Style, High-Performance Deep Learning Library": AlexNet,
VGG-19, ResNet-50, MobileNet, GNMT and NCF. The seventh is GPT-2 with 124M parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """How large a network and its batch are; `width` divides the channels, so that a test can run a thin one."""

    batch: int
    image: int = 224
    classes: int = 1000
    width: int = 1
    length: int = 0
    layers: int = 0
    vocabulary: int = 0


SIZES = {
    "AlexNet": Sizes(batch=1024),
    "VGG-19": Sizes(batch=128),
    "ResNet-50": Sizes(batch=256),
    "MobileNet": Sizes(batch=256),
    "GNMT": Sizes(batch=128, length=32, layers=4, vocabulary=32320),
    "NCF": Sizes(batch=1 << 20, vocabulary=138493, layers=26744),
    "GPT-2": Sizes(batch=8, length=1024, layers=12, vocabulary=50304),
}
BFLOAT16 = {"GPT-2"}
"""What is trained under autocast; the others are float32 whose products may round their inputs to TF32."""


def alexnet(torch: Any, sizes: Sizes) -> Any:
    """Krizhevsky 2014, as torchvision has it, without dropout."""
    nn = torch.nn
    a, b, c, d, hidden = (n // sizes.width for n in (64, 192, 384, 256, 4096))
    return nn.Sequential(
        nn.Conv2d(3, a, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(a, b, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(b, c, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(c, d, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(d, d, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d(6), nn.Flatten(),
        nn.Linear(d * 36, hidden), nn.ReLU(inplace=True),
        nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, sizes.classes),
    )  # fmt: skip


def vgg19(torch: Any, sizes: Sizes) -> Any:
    """Simonyan and Zisserman 2015, without dropout."""
    nn = torch.nn
    layers, inputs = [], 3
    for channels, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, channels // sizes.width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = channels // sizes.width
        layers.append(nn.MaxPool2d(2))
    hidden = 4096 // sizes.width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(inputs * 49, hidden), nn.ReLU(inplace=True),
        nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, sizes.classes),
    )  # fmt: skip


def normed(torch: Any, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
    """A convolution that keeps the size but for its stride, and its norm."""
    nn = torch.nn
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


def resnet50(torch: Any, sizes: Sizes) -> Any:
    """He et al. 2015, strides in the 3x3 convolutions as in torchvision."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, inner: int, stride: int):
            super().__init__()
            outputs = 4 * inner
            self.main = nn.Sequential(
                *normed(torch, inputs, inner, 1), nn.ReLU(inplace=True), *normed(torch, inner, inner, 3, stride),
                nn.ReLU(inplace=True), *normed(torch, inner, outputs, 1),
            )  # fmt: skip
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Sequential(*normed(torch, inputs, outputs, 1, stride))

        def forward(self, x):
            return torch.relu(self.main(x) + self.shortcut(x))

    first = 64 // sizes.width
    layers, inputs = [*normed(torch, 3, first, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], first
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = first << stage
        for block in range(count):
            layers.append(Bottleneck(inputs, inner, 2 if stage and not block else 1))
            inputs = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, sizes.classes))


def mobilenet(torch: Any, sizes: Sizes) -> Any:
    """Howard et al. 2017: convolutions per channel, each followed by one across channels."""
    nn = torch.nn
    inputs = 32 // sizes.width
    layers = [*normed(torch, 3, inputs, 3, 2), nn.ReLU(inplace=True)]
    plan = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
    for channels, stride in plan:
        outputs = channels // sizes.width
        layers += [*normed(torch, inputs, inputs, 3, stride, inputs), nn.ReLU(inplace=True)]
        layers += [*normed(torch, inputs, outputs, 1), nn.ReLU(inplace=True)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, sizes.classes))


def gnmt(torch: Any, sizes: Sizes) -> Any:
    """Wu et al. 2016 in its second version: LSTMs with residuals, the first one both ways, and additive attention."""
    nn, hidden = torch.nn, 1024 // sizes.width

    class Stack(nn.Module):
        def __init__(self, inputs: int):
            super().__init__()
            sizes_in = [inputs] + [hidden] * (sizes.layers - 2)
            self.layers = nn.ModuleList([nn.LSTM(n, hidden, batch_first=True) for n in sizes_in])

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                y = layer(x)[0]
                x = y + x if i else y
            return x

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(sizes.vocabulary, hidden)
            self.both = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
            self.encoder = Stack(2 * hidden)
            self.first = nn.LSTM(hidden, hidden, batch_first=True)
            self.query, self.key = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
            self.score = nn.Linear(hidden, 1, bias=False)
            self.decoder = Stack(2 * hidden)
            self.head = nn.Linear(hidden, sizes.vocabulary)

        def forward(self, source, target):
            seen = self.encoder(self.both(self.embedding(source))[0])
            state = self.first(self.embedding(target))[0]
            mixed = torch.tanh(self.query(state).unsqueeze(2) + self.key(seen).unsqueeze(1))
            weights = torch.softmax(self.score(mixed).squeeze(-1), -1)
            return self.head(self.decoder(torch.cat([state, weights @ seen], -1)))

    return Translator()


def ncf(torch: Any, sizes: Sizes) -> Any:
    """He et al. 2017: factors of users and items multiplied, beside a perceptron of them."""
    nn = torch.nn
    factors, hidden = 64 // sizes.width, [n // sizes.width for n in (256, 256, 128, 64)]

    class Recommender(nn.Module):
        def __init__(self):
            super().__init__()
            users, items = sizes.vocabulary, sizes.layers
            self.users, self.items = nn.Embedding(users, factors), nn.Embedding(items, factors)
            self.deep_users, self.deep_items = nn.Embedding(users, hidden[0] // 2), nn.Embedding(items, hidden[0] // 2)
            pairs = itertools.pairwise(hidden)
            self.deep = nn.Sequential(*[m for a, b in pairs for m in (nn.Linear(a, b), nn.ReLU())])
            self.head = nn.Linear(factors + hidden[-1], 1)

        def forward(self, user, item):
            product = self.users(user) * self.items(item)
            deep = self.deep(torch.cat([self.deep_users(user), self.deep_items(item)], -1))
            return self.head(torch.cat([product, deep], -1)).squeeze(-1)

    return Recommender()


def gpt2(torch: Any, sizes: Sizes) -> Any:
    """Radford et al. 2019, the smallest: 12 layers of width 768, 12 heads, weights of the head those of the tokens."""
    nn, functional = torch.nn, torch.nn.functional
    width, heads = 768 // sizes.width, 12

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project_in, self.project_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
            )

        def forward(self, x):
            batch, length, _ = x.shape
            query, key, value = (
                part.view(batch, length, heads, width // heads).transpose(1, 2)
                for part in self.project_in(self.norm1(x)).split(width, dim=2)
            )
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.feed(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(sizes.vocabulary, width), nn.Embedding(sizes.length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, sizes.vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


BUILD: dict[str, Callable[..., Any]] = {
    "AlexNet": alexnet, "VGG-19": vgg19, "ResNet-50": resnet50, "MobileNet": mobilenet, "GNMT": gnmt, "NCF": ncf,
    "GPT-2": gpt2,
}  # fmt: skip


def build(name: str, torch: Any, sizes: Sizes) -> Any:
    """The network, with the same parameters in every library."""
    network = BUILD[name](torch, sizes)
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) < 2:
                value = np.full(shape, 0.0 if "bias" in key else 1.0, np.float32)
            else:
                is_table = any(word in key for word in ("tokens", "positions", "embedding", "users", "items"))
                spread = 0.02 if is_table else (1 / np.prod(shape[1:])) ** 0.5
                value = spread * generator.standard_normal(shape, dtype=np.float32)
            parameter.copy_(torch.from_numpy(value))
    return network


def batch(name: str, sizes: Sizes) -> tuple[np.ndarray, ...]:
    """The network's inputs, and last its targets."""
    generator = np.random.default_rng(1)
    if name == "GNMT":
        words = generator.integers(0, sizes.vocabulary, (3, sizes.batch, sizes.length))
        return words[0], words[1], words[2]
    if name == "NCF":
        users, items = (generator.integers(0, n, sizes.batch) for n in (sizes.vocabulary, sizes.layers))
        return users, items, generator.integers(0, 2, sizes.batch).astype(np.float32)
    if name == "GPT-2":
        words = generator.integers(0, sizes.vocabulary, (sizes.batch, sizes.length + 1))
        return words[:, :-1].copy(), words[:, 1:].copy()
    images = generator.standard_normal((sizes.batch, 3, sizes.image, sizes.image), dtype=np.float32)
    return images, generator.integers(0, sizes.classes, sizes.batch)


Drawn = tuple[Any, tuple[np.ndarray, ...]]


def draw(name: str, torch: Any, sizes: Sizes) -> Drawn:
    """The network and its batch, on the host."""
    return build(name, torch, sizes), batch(name, sizes)


def make_step(
    name: str, torch: Any, sizes: Sizes, device: str, compiler: Callable[..., Any] | None, whole: bool,
    drawn: Drawn | None = None,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:  # fmt: skip
    """The training step, compiled where a compiler is given (`whole`: all of it in one), and its batch."""
    (network, arrays), functional = drawn or draw(name, torch, sizes), torch.nn.functional
    network = network.to(device)
    make = torch.optim.SGD if name not in ("NCF", "GNMT", "GPT-2") else torch.optim.Adam
    options = {"lr": 1e-3, "momentum": 0.9} if make is torch.optim.SGD else {"lr": 1e-4}
    optimizer = make(network.parameters(), **options)

    def loss_of(*given):
        *inputs, targets = given
        with torch.autocast(device, torch.bfloat16, enabled=name in BFLOAT16):
            logits = network(*inputs)
            if name == "NCF":
                return functional.binary_cross_entropy_with_logits(logits, targets)
            return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    update = optimizer.step
    if compiler is not None and not whole:
        loss_of, update = compiler(loss_of), compiler(optimizer.step)

    def step(*given):
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        update()
        return loss

    given = tuple(torch.from_numpy(array).to(device) for array in arrays)
    return (compiler(step) if compiler is not None and whole else step), given
