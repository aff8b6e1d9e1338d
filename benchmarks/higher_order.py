"""Gradients of gradients: a gradient penalty, a Hessian-vector product and MAML's inner loop, eager and compiled."""

from __future__ import annotations

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Gradients of gradients (MLP of 3 layers)"
UNIT = "s"
PEERS = ("eagerjit", "eagerjit eager", "torch")
ROUNDS = 3
PHASES = ("calls",)

SIZES = ((64, 32), (128, 64))  # width, batch


def measure(peer: str, phase: str) -> Rows:
    rows = Rows()
    for width, batch in SIZES:
        for name, make in PROGRAMS.items():
            step, values = make(peer, width, batch)
            key = f"{name}, {width} wide, batch {batch}"
            step()
            rows.check[key] = [float(t) for t in values()]
            rows.numbers[key] = seconds_per_call(step)
    return rows


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
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(((torch.arange(float(p.numel())).reshape(p.shape) + i) * 0.37).sin() / width**0.5)
    return made


def data(torch, width: int, batch: int):
    return (torch.arange(float(batch * width)).reshape(batch, width) * 0.11).sin()


def critic_loss(torch, critic, x):
    """A critic's loss with WGAN-GP's penalty."""
    x = x.detach().requires_grad_()
    out = critic(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
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


def hessian_vector(peer: str, width: int, batch: int):
    torch, jit = library(peer)
    model, x = network(torch, width), data(torch, width, batch)
    loss = jit(lambda x: (model(x) ** 2).mean())
    parameters = list(model.parameters())

    def product():
        gradients = torch.autograd.grad(loss(x), parameters, create_graph=True)
        return torch.autograd.grad(gradients, parameters, [p.detach() for p in parameters])

    return product, lambda: [t.sum() for t in product()]


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
    "gradient penalty, model alone": penalty_outside,
    "Hessian-vector product, model alone": hessian_vector,
    "MAML, whole step": maml,
    "MAML, inner loop alone": maml_inner,
}
