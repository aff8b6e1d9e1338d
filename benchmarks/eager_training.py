"""What training loops do beside calling layers: writes that gradients flow through, steps of optimizers, autocast."""

from __future__ import annotations

from typing import Any

PARAMETERS = 20
"""Of a model whose optimizer takes a step; together they have as many elements as the other inputs."""


def training(x: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The operations by name, each with its arguments. They record gradients themselves."""
    torch, side = x.torch, x.side
    leaf = x.a.clone().requires_grad_()

    def written(call: Any) -> Any:
        def function(a: Any, b: Any) -> Any:
            y = a * 1.0
            call(y, b)
            return y

        return function, (leaf, x.b)

    def add(y: Any, b: Any) -> None:
        y += b

    def add_columns(y: Any, b: Any) -> None:
        y[:, 1:] += 1.0

    def assign_row(y: Any, b: Any) -> None:
        y[0] = b[0]

    def cast(function: Any) -> Any:
        def call(a: Any, b: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return function(a, b)

        return call, (x.a, x.b)

    table = {
        "y += b, recording y": written(add),
        "y.relu_(), recording y": written(lambda y, b: y.relu_()),
        "y[:, 1:] += 1, recording y": written(add_columns),
        "y[0] = row, recording y": written(assign_row),
        "autocast, a + b": cast(lambda a, b: a + b),
        "autocast, a @ b": cast(lambda a, b: a @ b),
    }
    for name, kind, options in (
        ("SGD with momentum", "SGD", {"lr": 0.1, "momentum": 0.9}),
        ("Adam", "Adam", {}),
        ("AdamW", "AdamW", {}),
    ):
        table[f"step of {name}"] = (_step(torch, side, kind, options), ())
    parameters = _parameters(torch, side)
    table["clip_grad_norm_"] = (lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0), ())
    return table


def _parameters(torch: Any, side: int) -> list[Any]:
    size = max(side * side // PARAMETERS, 1)
    found = [torch.nn.Parameter(torch.linspace(0.1, 1.0, size)) for _ in range(PARAMETERS)]
    for parameter in found:
        parameter.grad = torch.linspace(0.5, -0.5, size)
    return found


def _step(torch: Any, side: int, kind: str, options: dict[str, Any]) -> Any:
    parameters = _parameters(torch, side)
    optimizer = getattr(torch.optim, kind)(parameters, **options)

    def step() -> Any:
        optimizer.step()
        return parameters[0]

    return step


RECORDING = frozenset(
    f"{call}, recording y" for call in ("y += b", "y.relu_()", "y[:, 1:] += 1", "y[0] = row")
)
"""Calls that record what they write."""
