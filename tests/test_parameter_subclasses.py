"""Subclasses of Parameter take part in everything that Parameters do."""

from __future__ import annotations

import copy

import numpy as np
import torch

import eagerjit


def _trained(library, jit):
    """Losses and weights of a few steps of a layer whose weight is of a class of its own."""

    class Scaled(library.nn.Parameter):
        def doubled(self):
            return self * 2

    class Layer(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Scaled(library.arange(6.0).view(3, 2) / 10)

        def forward(self, x):
            return library.nn.functional.linear(x, self.weight.doubled())

    layer = Layer()
    assert [type(p).__name__ for p in copy.deepcopy(layer).parameters()] == ["Scaled"]
    optimizer = library.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    called = eagerjit.jit(step) if jit else step
    losses = [called(library.ones(n, 2)).item() for n in (1, 4, 5, 4)]
    assert type(layer.weight) is Scaled and type(layer.weight * 1) is library.Tensor
    return losses, layer.weight.detach().numpy()


def test_training_as_pytorch_does():
    losses, weight = _trained(eagerjit, jit=False)
    expected_losses, expected_weight = _trained(torch, jit=False)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    np.testing.assert_allclose(weight, expected_weight, rtol=1e-6)


def test_compiled_steps_are_the_plain_ones(recwarn):
    losses, weight = _trained(eagerjit, jit=True)
    plain_losses, plain_weight = _trained(eagerjit, jit=False)
    assert losses == plain_losses
    assert weight.tobytes() == plain_weight.tobytes()
    assert not list(recwarn)


def test_classes_that_are_asked():
    class Asked(eagerjit.nn.Parameter):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    made = Asked(eagerjit.ones(2))
    assert made + 1 == "add" and eagerjit.cat([made, made]) == "cat"


def test_a_parameter_made_of_a_traced_tensor_stays_one():
    jitted = eagerjit.jit(lambda x: eagerjit.nn.Parameter(x * 2), fullgraph=True)
    for value in (1.0, 3.0):
        made = jitted(eagerjit.full((2,), value))
        assert type(made) is eagerjit.nn.Parameter and made.requires_grad and made.tolist() == [2 * value] * 2
