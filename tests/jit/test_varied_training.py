"""A training loop whose sizes and learning rate never stay the same: few versions, named, and the plain loop's bits."""

from __future__ import annotations

from typing import Any

import eagerjit as torch

WIDTH, VOCABULARY = 8, 11


def losses(jitted: bool) -> tuple[list[float], list[Any]]:
    """Every loss of the loop, and the functions that made them."""
    torch.manual_seed(0)
    embedding, head = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
    model = torch.nn.Sequential(embedding, torch.nn.LayerNorm(WIDTH), torch.nn.Dropout(0.1), head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)

    def loss_of(tokens: Any) -> Any:
        logits = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))

    def train(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(tokens)
        loss.backward()
        optimizer.step()
        return loss

    def evaluate(tokens: Any) -> Any:
        with torch.no_grad():
            return loss_of(tokens)

    functions = [torch.jit(train), torch.jit(evaluate)] if jitted else [train, evaluate]
    out = []
    for epoch in range(4):
        model.train()
        for batch in range(1 + epoch * 16, 17 + epoch * 16):
            length = 16 + (batch * 37) % 113
            tokens = torch.arange(batch * length).reshape(batch, length) * 7 % VOCABULARY
            out.append(functions[0](tokens).item())
            schedule.step()
        model.eval()
        out.append(functions[1](torch.arange(4 * (16 + epoch)).reshape(4, -1) % VOCABULARY).item())
    return out, functions


def test_few_versions_that_are_named_and_the_same_losses() -> None:
    plain, _ = losses(False)
    compiled, functions = losses(True)
    assert compiled == plain
    for function in functions:
        info = function.cache_info()
        assert info.compiles <= 3 and info.eager_calls == 0
        assert len(info.reasons) == info.compiles - 1
        assert all(r.what and r.old != r.new for r in info.reasons)
