"""Gradients of gradients: a penalty, a Hessian-vector product, MAML and function transforms, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Rows, seconds_per_call
from benchmarks.higher_order_transforms import TRANSFORMS, program

TITLE = "Gradients of gradients (MLP of 3 layers, and a convolutional critic), and function transforms"
UNIT = "s"
PEERS = ("eagerjit", "eagerjit eager", "torch")
ROUNDS = 3
PHASES = ("calls",)

SIZES = ((64, 32), (128, 64))  # width, batch
CRITICS = ((64, 16), (64, 256), (256, 16), (256, 64), (512, 16), (512, 256))  # further ones for the model alone
IMAGES = (16, 64)  # batches of 28 x 28
ALONE = "gradient penalty, model alone"
PRODUCTS = 12  # of batch x width x width: 2 forward, 2 in the gradient, 4 in its own, 4 in that of the call


def measure(peer: str, phase: str) -> Rows:
    rows = Rows()

    def add(key: str, step: Callable[[], Any], values: Callable[[], Any]) -> None:
        step()
        rows.check[key] = [float(t.detach()) for t in values()]
        rows.numbers[key] = seconds_per_call(step)

    for width, batch in SIZES:
        for name, make in PROGRAMS.items():
            add(row(name, width, batch), *make(peer, width, batch))
    for width, batch in CRITICS:
        add(row(ALONE, width, batch), *penalty_outside(peer, width, batch))
    for batch in IMAGES:
        add(f"{ALONE}, convolutions, batch {batch}", *penalty_of_images(peer, batch))
    for name in TRANSFORMS:
        add(name, *program(*library(peer), name))
    return rows


def row(name: str, width: int, batch: int) -> str:
    return f"{name}, {width} wide, batch {batch}"


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """How fast the products of a step with the model alone are, all other work counted as theirs."""
    lines = []
    for width, batch in sorted({*SIZES, *CRITICS}):
        key, operations = row(ALONE, width, batch), PRODUCTS * 2 * batch * width**2
        rates = [f"{peer} {operations / found[key] / 1e9:.0f}" for peer, found in medians.items() if key in found]
        lines.append(f"{key}: {operations / 1e6:.1f} million operations in products, GFLOP/s: {', '.join(rates)}")
    return lines


def library(peer: str):
    """The library and what compiles in it: nothing, but for eagerjit's compiled run."""
    if peer == "torch":
        import torch

        return torch, lambda function: function
    import eagerjit as torch

    return torch, torch.jit if peer == "eagerjit" else lambda function: function


def network(torch, width: int):
    """A network with weights that every library can make."""
    nn = torch.nn
    made = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    return filled(torch, made, width)


def filled(torch, made, fan: int):
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(((torch.arange(float(p.numel())).reshape(p.shape) + i) * 0.37).sin() / fan**0.5)
    return made


def data(torch, width: int, batch: int):
    return (torch.arange(float(batch * width)).reshape(batch, width) * 0.11).sin()


def critic_loss(torch, critic, x):
    """A critic's loss with WGAN-GP's penalty."""
    x = x.detach().requires_grad_()
    out = critic(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    if g.ndim > 2:
        g = g.flatten(1)
    return out.mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()


def penalty(torch, critic, x):
    """The loss, and its gradients in the parameters."""
    loss = critic_loss(torch, critic, x)
    loss.backward()
    return loss.detach()


def penalty_outside(peer: str, width: int, batch: int):
    torch, jit = library(peer)
    model, x = network(torch, width), data(torch, width, batch)
    critic = jit(lambda x: model(x))

    def step():
        model.zero_grad()
        return penalty(torch, critic, x)

    return step, lambda: [p.grad.sum() for p in model.parameters()]


def penalty_of_images(peer: str, batch: int):
    torch, jit = library(peer)
    nn = torch.nn
    layers = nn.Conv2d(1, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 3, 2, 1), nn.LeakyReLU(0.2)
    model = filled(torch, nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 7 * 7, 1)), 12)
    x, critic = data(torch, 28 * 28, batch).reshape(batch, 1, 28, 28), jit(lambda x: model(x))

    def step():
        model.zero_grad()
        return penalty(torch, critic, x)

    return step, lambda: [p.grad.sum() for p in model.parameters()]


def penalty_function(peer: str, width: int, batch: int):
    torch, jit = library(peer)
    model, x = network(torch, width), data(torch, width, batch)
    loss = jit(lambda x: critic_loss(torch, model, x))

    def step():
        model.zero_grad()
        loss(x).backward()

    return step, lambda: [p.grad.sum() for p in model.parameters()]


def penalty_inside(peer: str, width: int, batch: int):
    torch, jit = library(peer)
    model, x = network(torch, width), data(torch, width, batch)

    def step(x):
        model.zero_grad()
        return penalty(torch, model, x)

    compiled = jit(step)
    return lambda: compiled(x), lambda: [p.grad.sum() for p in model.parameters()]


def hessian_vector(peer: str, width: int, batch: int, whole: bool = True):
    """The Hessian of a loss times the parameters; compiled as a whole, or the loss alone."""
    torch, jit = library(peer)
    model, x = network(torch, width), data(torch, width, batch)
    parameters = list(model.parameters())

    def plain(x):
        return (model(x) ** 2).mean()

    loss = plain if whole else jit(plain)

    def product(x):
        gradients = torch.autograd.grad(loss(x), parameters, create_graph=True)
        return torch.autograd.grad(gradients, parameters, [p.detach() for p in parameters])

    call = jit(product) if whole else product
    return lambda: call(x), lambda: [t.sum() for t in call(x)]


def hessian_vector_loss(peer: str, width: int, batch: int):
    return hessian_vector(peer, width, batch, whole=False)


def maml(peer: str, width: int, batch: int, whole: bool = True):
    """Three inner steps and the outer gradient; compiled as a whole, or the inner steps alone."""
    torch, jit = library(peer)
    model, x = network(torch, width), data(torch, width, batch)
    w0, b0, _, _, w2, b2 = model.parameters()
    names = [w0, b0, w2, b2]

    def loss(weights, x):
        a, b, c, d = weights
        return ((torch.tanh(x @ a + b) @ c.t() + d) ** 2).mean()

    def inner(weights, x):
        for _ in range(3):
            found = torch.autograd.grad(loss(weights, x), weights, create_graph=True)
            weights = [w - 0.1 * g for w, g in zip(weights, found, strict=True)]
        return weights

    adapt = inner if whole else jit(inner)

    def outer(x):
        model.zero_grad()
        total = loss(adapt(names, x), x + 1)
        total.backward()
        return total.detach()

    step = jit(outer) if whole else outer
    return lambda: step(x), lambda: [p.grad.sum() for p in names]


def maml_inner(peer: str, width: int, batch: int):
    return maml(peer, width, batch, whole=False)


PROGRAMS = {
    "gradient penalty, whole step": penalty_inside,
    "gradient penalty, loss alone": penalty_function,
    ALONE: penalty_outside,
    "Hessian-vector product, whole step": hessian_vector,
    "Hessian-vector product, loss alone": hessian_vector_loss,
    "MAML, whole step": maml,
    "MAML, inner loop alone": maml_inner,
}
