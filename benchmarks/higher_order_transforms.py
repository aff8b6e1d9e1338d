"""Function transforms as programs call them: per-sample gradients, ensembles, derivatives of small networks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any


def network(torch, *widths: int):
    """A network of layers with tanh between them, with weights that every library can make."""
    nn = torch.nn
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.Tanh())]
    made = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(((torch.arange(float(p.numel())).reshape(p.shape) + i) * 0.37).sin() / widths[0] ** 0.5)
    return made


def data(torch, *shape: int):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(float(count)).reshape(shape) * 0.11).sin()


def per_sample_gradients(torch):
    model, func = network(torch, 32, 64, 64, 10), torch.func
    x, y = data(torch, 64, 32), torch.arange(64) % 10

    def loss(parameters, x, y):
        out = func.functional_call(model, parameters, (x[None],))
        return torch.nn.functional.cross_entropy(out, y[None])

    def step():
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        return func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)

    return step


def ensemble(torch, gradients: bool = False):
    models = [network(torch, 32, 64, 10) for _ in range(8)]
    parameters, buffers = torch.func.stack_module_state(models)
    x = data(torch, 64, 32)

    def call(parameters, buffers, x):
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    def forward():
        return torch.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)

    def step():
        return torch.autograd.grad((forward() ** 2).mean(), list(parameters.values()))

    return step if gradients else forward


def ensemble_gradients(torch):
    return ensemble(torch, gradients=True)


def jacobian(torch):
    model, x = network(torch, 8, 32, 8), data(torch, 8)
    return lambda: torch.func.jacrev(model)(x)


def batch_of_jacobians(torch):
    model, x = network(torch, 8, 32, 8), data(torch, 32, 8)
    return lambda: torch.func.vmap(torch.func.jacrev(model))(x)


def hessian(torch):
    model, x = network(torch, 8, 32, 1), data(torch, 8)
    return lambda: torch.func.hessian(lambda x: model(x).squeeze())(x)


def laplacians(torch):
    model, x, func = network(torch, 2, 32, 32, 1), data(torch, 64, 2), torch.func

    def laplacian(x):
        return func.hessian(lambda x: model(x).squeeze())(x).diagonal().sum()

    return lambda: func.vmap(laplacian)(x)


def laplacian_loss(torch):
    model, x, func = network(torch, 2, 32, 32, 1), data(torch, 64, 2), torch.func

    def u(parameters, x):
        return func.functional_call(model, parameters, (x,)).squeeze()

    def step():
        model.zero_grad()
        found = func.vmap(func.hessian(u, argnums=1), in_dims=(None, 0))(dict(model.named_parameters()), x)
        (found.diagonal(dim1=1, dim2=2).sum(1) ** 2).mean().backward()
        return [p.grad for p in list(model.parameters())[:-1]]

    return step


def gradient_of_vmap(torch):
    w, x, func = data(torch, 8, 8), data(torch, 32, 8), torch.func

    def loss(w):
        return func.vmap(lambda x: torch.tanh(w @ x).sum())(x).mean()

    return lambda: func.grad(loss)(w)


def newton_step(torch):
    x, func = data(torch, 6), torch.func

    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    return lambda: x - torch.linalg.solve(func.hessian(rosenbrock)(x), func.grad(rosenbrock)(x))


def functional_jacobian(torch):
    model, x = network(torch, 8, 32, 8), data(torch, 8)
    return lambda: torch.autograd.functional.jacobian(model, x)


TRANSFORMS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "vmap(grad) of 64 samples, MLP of 3 layers": per_sample_gradients,
    "vmap of 8 models": ensemble,
    "vmap of 8 models, and their gradients": ensemble_gradients,
    "jacrev of an MLP, 8 to 8": jacobian,
    "vmap(jacrev) of 32 samples": batch_of_jacobians,
    "hessian of an MLP, 8 to 1": hessian,
    "vmap of Laplacians of 64 points": laplacians,
    "a loss of Laplacians, and its gradients": laplacian_loss,
    "grad of vmap": gradient_of_vmap,
    "a Newton step": newton_step,
    "autograd.functional.jacobian": functional_jacobian,
}


def program(torch, jit, name: str):
    """(step, the sums of what it computes)."""
    step = jit(TRANSFORMS[name](torch))

    def sums():
        found = step()
        tensors = found.values() if isinstance(found, dict) else found if isinstance(found, (list, tuple)) else [found]
        return [t.sum() for t in tensors]

    return step, sums
