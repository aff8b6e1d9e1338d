"""Options of the library's layers that change between calls: slopes, momenta, shares of what is dropped."""

from __future__ import annotations

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case

VALUES = (0.5, 0.4, 0.32, 0.25, 0.2, 0.5)
X = torch.tensor([[-1.0, 0.3, 2.0], [1.0, -2.0, 0.1], [0.5, 0.25, -0.75]])


def calls(jit, layer, name, values=VALUES):
    """Results, gradients and buffers of a layer whose option is another one in every call."""

    @jit
    def f(x):
        return layer(x * 2)

    for value in values:
        setattr(layer, name, value)
        x = X.clone().requires_grad_()
        out = f(x)
        out.square().sum().backward()
        yield out.detach(), x.grad, list(layer.buffers()), layer


@case(versions=3)
def slopes_of_activations(jit):
    yield from calls(jit, nn.LeakyReLU(), "negative_slope")


@case(versions=9)
def options_that_an_activation_finds_by_name(jit):
    for layer, name in ((nn.ELU(), "alpha"), (nn.Softplus(), "beta"), (nn.Hardtanh(), "max_val")):
        yield from calls(jit, layer, name)


@case(versions=5)
def momenta_of_running_statistics(jit):
    """A schedule of them, none, which averages all batches alike, and whole ones."""
    yield from calls(jit, nn.BatchNorm1d(3), "momentum", (*VALUES, None, 0.1, 0, 1, 0.3, None, 0.2))


@case(versions=3)
def a_share_of_what_is_dropped(jit):
    torch.manual_seed(0)
    yield from calls(jit, nn.Dropout(), "p")


@case(versions=6)
def shares_of_what_is_dropped_with_nothing_and_all_among_them(jit):
    torch.manual_seed(0)
    yield from calls(jit, nn.Dropout(), "p", (*VALUES, 0.0, 0.1, 1.0, 0.3, 0, 0.7))


@case(versions=12)
def what_norms_add_to_variances(jit):
    for layer in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.BatchNorm1d(3), nn.RMSNorm(3)):
        yield from calls(jit, layer, "eps")


@case(versions=5)
def a_schedule_of_momenta_in_a_training_step(jit):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LeakyReLU(0.1), nn.Linear(4, 1))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_((torch.arange(float(p.numel())).reshape(p.shape) + i).sin())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(6):
        net[1].momentum, net[2].negative_slope = 0.5 * 0.8**epoch, 0.1 * 0.9**epoch
        net.train(epoch != 4)
        yield step(X).detach(), list(net.state_dict().values())
