"""The models as a PyTorch user writes them, for any library with that API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import models_data as data
from benchmarks import models_resnet


def build(model: str, torch: Any) -> Any:
    """Return the model with the common initial parameters."""
    nn, functional = torch.nn, torch.nn.functional

    class MLP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second, third, classes = data.MLP_SIZES
            self.layers = nn.Sequential(
                nn.Linear(first, second), nn.ReLU(), nn.Linear(second, third), nn.ReLU(), nn.Linear(third, classes)
            )

        def forward(self, x):
            return self.layers(x)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = data.WIDTH
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project_in, self.project_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, time, width = x.shape
            query, key, value = (
                part.view(batch, time, data.HEADS, width // data.HEADS).transpose(1, 2)
                for part in self.project_in(self.norm1(x)).split(width, dim=2)
            )
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.project_out(mixed.transpose(1, 2).reshape(batch, time, width))
            return x + self.feed(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(data.VOCABULARY, data.WIDTH)
            self.positions = nn.Embedding(data.CONTEXT, data.WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(data.LAYERS)])
            self.norm = nn.LayerNorm(data.WIDTH)
            self.head = nn.Linear(data.WIDTH, data.VOCABULARY)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    built = models_resnet.build(torch) if model == "ResNet" else {"MLP": MLP, "GPT": GPT}[model]()
    values = {name: torch.tensor(value) for name, value in data.parameters(model).items()}
    built.load_state_dict(values, strict=model != "ResNet")  # what its norms have seen so far is no parameter
    return built


def make_step(model: str, torch: Any, peer: str, compiler: Callable | None) -> tuple[Callable, tuple]:
    """Return the training step, compiled where a compiler is given, and its batch."""
    built = build(model, torch)
    common: dict[str, Any] = {"lr": data.LEARNING_RATE, "betas": data.BETAS, "eps": data.EPSILON}
    if model == "ResNet":
        optimizer = torch.optim.SGD(built.parameters(), lr=models_resnet.RATE, momentum=models_resnet.MOMENTUM)
    elif model == "MLP":
        optimizer = torch.optim.Adam(built.parameters(), **common)
    else:
        optimizer = torch.optim.AdamW(built.parameters(), weight_decay=data.DECAY, **common)

    def loss_of(inputs, targets):
        logits = built(inputs)
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    update = optimizer.step
    if peer == "torch.compile":
        # What its documentation advises: the loss and the optimizer's update, each compiled; backward follows the loss.
        loss_of, update = compiler(loss_of), compiler(optimizer.step)

    def step(inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(inputs, targets)
        loss.backward()
        update()
        return loss

    batch = tuple(torch.tensor(array) for array in data.batch(model))
    return (compiler(step) if peer == "eagerjit" else step), batch
