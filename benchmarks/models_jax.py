"""The same models and optimizers for JAX, the whole step in one jax.jit."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import numpy as jnp

from benchmarks import models_data as data
from benchmarks import models_resnet


def linear(values: dict, name: str, x):
    return x @ values[f"{name}.weight"].T + values[f"{name}.bias"]


def norm(values: dict, name: str, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * values[f"{name}.weight"] + values[f"{name}.bias"]


def mlp(values: dict, x):
    for index in (0, 2):
        x = jax.nn.relu(linear(values, f"layers.{index}", x))
    return linear(values, "layers.4", x)


def gpt(values: dict, tokens):
    x = values["tokens.weight"][tokens] + values["positions.weight"][: tokens.shape[1]]
    for index in range(data.LAYERS):
        block = f"blocks.{index}"
        batch, time, width = x.shape
        joined = linear(values, f"{block}.project_in", norm(values, f"{block}.norm1", x))
        query, key, value = (
            part.reshape(batch, time, data.HEADS, width // data.HEADS) for part in jnp.split(joined, 3, axis=-1)
        )
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + linear(values, f"{block}.project_out", mixed.reshape(batch, time, width))
        hidden = jax.nn.gelu(linear(values, f"{block}.feed.0", norm(values, f"{block}.norm2", x)), approximate=False)
        x = x + linear(values, f"{block}.feed.2", hidden)
    return linear(values, "head", norm(values, "norm", x))


def convolution(values: dict, name: str, x, stride: int = 1):
    weight = values[f"{name}.weight"]
    pad = weight.shape[2] // 2
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2)


def batch_norm(values: dict, name: str, x):
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    scale, shift = (values[f"{name}.{part}"].reshape(-1, 1, 1) for part in ("weight", "bias"))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def resnet(values: dict, x):
    """The network while training; nothing keeps what its norms have seen."""
    x = jax.nn.relu(batch_norm(values, "bn1", convolution(values, "conv1", x, 2)))
    window, border = (1, 1, 3, 3), [(0, 0), (0, 0), (1, 1), (1, 1)]
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, (1, 1, 2, 2), border)
    for name, _, _, stride in models_resnet.blocks():
        out = jax.nn.relu(batch_norm(values, f"{name}.bn1", convolution(values, f"{name}.conv1", x, stride)))
        out = batch_norm(values, f"{name}.bn2", convolution(values, f"{name}.conv2", out))
        if f"{name}.downsample.0.weight" in values:
            x = batch_norm(values, f"{name}.downsample.1", convolution(values, f"{name}.downsample.0", x, stride))
        x = jax.nn.relu(out + x)
    return linear(values, "fc", x.mean((2, 3)))


def make_step(model: str) -> tuple[Callable, tuple]:
    """Return the training step, which keeps its state to itself, and its batch."""
    forward = {"MLP": mlp, "GPT": gpt, "ResNet": resnet}[model]
    decay = data.DECAY if model == "GPT" else 0.0
    (beta1, beta2), rate = data.BETAS, data.LEARNING_RATE

    def loss_of(values, inputs, targets):
        logits = forward(values, inputs)
        logits = jax.nn.log_softmax(logits.reshape(-1, logits.shape[-1]))
        return -jnp.take_along_axis(logits, targets.reshape(-1, 1), axis=1).mean()

    def update(state, inputs, targets):
        values, first, second, count = state
        loss, gradients = jax.value_and_grad(loss_of)(values, inputs, targets)
        if model == "ResNet":
            first = jax.tree.map(lambda m, g: models_resnet.MOMENTUM * m + g, first, gradients)
            return (jax.tree.map(lambda p, m: p - models_resnet.RATE * m, values, first), first, second, count), loss
        count = count + 1
        first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, first, gradients)
        second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, second, gradients)

        def moved(p, m, v):
            scale = jnp.sqrt(v / (1 - beta2**count)) + data.EPSILON
            return p * (1 - rate * decay) - rate * (m / (1 - beta1**count)) / scale

        return (jax.tree.map(moved, values, first, second), first, second, count), loss

    compiled = jax.jit(update, donate_argnums=0)
    values = {name: jnp.asarray(value) for name, value in data.parameters(model).items()}
    zeros = jax.tree.map(jnp.zeros_like, values)
    state = (values, zeros, jax.tree.map(jnp.zeros_like, values), jnp.zeros((), jnp.float32))

    def step(inputs, targets):
        nonlocal state
        state, loss = compiled(state, inputs, targets)
        jax.block_until_ready(state)
        return loss

    return step, tuple(jnp.asarray(array) for array in data.batch(model))
