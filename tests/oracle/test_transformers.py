"""Attention of several heads and transformers against PyTorch, with the same weights, and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import array_of, draw, same

import eagerjit as ej

HEADS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
    "widths": {"kdim": 3, "vdim": 5},
    "bias of keys": {"add_bias_kv": True, "add_zero_attn": True},
    "zero key": {"add_zero_attn": True},
}
HIDDEN = np.array([[False, False, True, False, True], [False, True, False, False, False]])
CALLS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "weights": lambda t: {},
    "no weights": lambda t: {"need_weights": False},
    "by head": lambda t: {"average_attn_weights": False},
    "padding": lambda t: {"key_padding_mask": t.tensor(HIDDEN)},
    "float padding": lambda t: {"key_padding_mask": t.tensor(HIDDEN) * -2.0, "need_weights": False},
    "mask": lambda t: {"attn_mask": t.ones(3, 5).triu(1).bool()},
    "mask by head": lambda t: {"attn_mask": t.tensor(draw((4, 3, 5), "float32", -1, 1, 9)), "need_weights": False},
    "both masks": lambda t: {"attn_mask": t.ones(3, 5).triu(2).bool(), "key_padding_mask": t.tensor(HIDDEN)},
    "causal": lambda t: {"attn_mask": t.ones(3, 5).triu(1).bool(), "is_causal": True, "need_weights": False},
}


def both(build: Callable[[Any], Any]) -> tuple[Any, Any]:
    ours, theirs = build(ej.nn), build(torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    return ours, theirs


def compare_modules(ours: Any, theirs: Any, arrays: list[np.ndarray], call: Callable[..., Any]) -> None:
    """Results, gradients of inputs and of parameters are the same."""
    results, inputs = [], []
    for library, network in ((ej, ours), (torch, theirs)):
        tensors = [library.tensor(a, requires_grad=True) for a in arrays]
        found = call(library, network, *tensors)
        found = list(found) if isinstance(found, tuple) else [found]
        sum((r * r).sum() for r in found if r is not None).backward()
        results.append(found)
        inputs.append(tensors)
    same(*results, 1e-5)
    for a, b in zip(*inputs, strict=True):
        same(a.grad, b.grad, 1e-4, "input")
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-4, key)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", HEADS)
def test_heads(kind: str, call: str) -> None:
    options = HEADS[kind]
    ours, theirs = both(lambda n: n.MultiheadAttention(6, 2, **options))
    widths = (6, options.get("kdim", 6), options.get("vdim", 6))
    shapes = [(n, 2, w) for n, w in zip((3, 5, 5), widths, strict=True)]
    if options.get("batch_first"):
        shapes = [(b, n, w) for n, b, w in shapes]
    arrays = [draw(s, "float32", -1, 1, i) for i, s in enumerate(shapes)]
    compare_modules(ours, theirs, arrays, lambda t, m, q, k, v: m(q, k, v, **CALLS[call](t)))


@pytest.mark.parametrize("form", ["self", "memory", "unbatched"])
def test_shared_inputs(form: str) -> None:
    ours, theirs = both(lambda n: n.MultiheadAttention(6, 2, batch_first=True))
    arrays = [draw((4, 6) if form == "unbatched" else (2, 4, 6), "float32", -1, 1, i) for i in range(2)]
    second = {"self": 0, "memory": 1, "unbatched": 0}[form]
    compare_modules(
        ours, theirs, arrays[: second + 1], lambda t, m, *x: m(x[0], x[second], x[second], average_attn_weights=False)
    )


def stacked(nn: Any, kind: str) -> Any:
    """Two layers, one after the other."""
    return getattr(nn, f"Transformer{kind}")(getattr(nn, f"Transformer{kind}Layer")(4, 2, 8, 0.0), 2)


ERRORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "causal without mask": lambda t, m, x: m(x, x, x, is_causal=True),
    "padding dtype": lambda t, m, x: m(x, x, x, key_padding_mask=t.ones(2, 3).long()),
    "mask dtype": lambda t, m, x: m(x, x, x, attn_mask=t.ones(3, 3).long()),
    "mask shape": lambda t, m, x: m(x, x, x, attn_mask=t.ones(2, 3)),
    "mask rank": lambda t, m, x: m(x, x, x, attn_mask=t.ones(1, 1, 3, 3)),
    "width": lambda t, m, x: m(t.ones(3, 2, 5), x, x),
    "rank": lambda t, m, x: m(x[0, 0], x, x),
    "lengths": lambda t, m, x: m(x, x[:2], x),
    "padding shape": lambda t, m, x: m(x, x, x, key_padding_mask=t.ones(1, 3).bool()),
    "heads": lambda t, m, x: t.nn.MultiheadAttention(5, 2),
    "no heads": lambda t, m, x: t.nn.MultiheadAttention(0, 2),
    "activation": lambda t, m, x: t.nn.TransformerEncoderLayer(4, 2, activation="sin"),
    "batches": lambda t, m, x: t.nn.Transformer(4, 2, 1, 1, 8)(x, x[:, :1]),
    "features": lambda t, m, x: t.nn.Transformer(8, 2, 1, 1, 8)(x, x),
    "causal stack without mask": lambda t, m, x: stacked(t.nn, "Encoder")(x, is_causal=True),
    "causal decoder without mask": lambda t, m, x: stacked(t.nn, "Decoder")(x, x, tgt_is_causal=True),
    "attention rank": lambda t, m, x: t.nn.functional.scaled_dot_product_attention(x[0, 0], x[0, 0], x[0, 0]),
    "attention mask": lambda t, m, x: t.nn.functional.scaled_dot_product_attention(x, x, x, t.ones(2, 2).long()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kinds = []
    for library in (ej, torch):
        with pytest.raises(Exception) as error:
            ERRORS[name](library, library.nn.MultiheadAttention(4, 2), library.ones(3, 2, 4))
        kinds.append(error.type)
    assert kinds[0] is kinds[1]


def test_hidden_from_all() -> None:
    """A query that may look at nothing gets zeros, and gradients of zero."""
    arrays = [draw((1, 2, 3, 4), "float32", -1, 1, i) for i in range(3)]
    mask = np.array([[True, False, True], [False, False, False], [True, True, True]])
    found = []
    for library in (ej, torch):
        tensors = [library.tensor(a, requires_grad=True) for a in arrays]
        out = library.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=library.tensor(mask))
        out.square().sum().backward()
        found.append([out, *(t.grad for t in tensors)])
    same(*found, 1e-5)
    assert not found[0][0][0, 0, 1].any()


LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm first": {"norm_first": True, "batch_first": True},
    "gelu": {"activation": "gelu", "layer_norm_eps": 1e-3},
    "no bias": {"bias": False},
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    options = LAYERS[name]
    ours, theirs = both(lambda n: n.TransformerEncoderLayer(6, 2, 8, 0.0, **options))
    x, memory = (draw((4, 4, 6), "float32", -1, 1, i) for i in range(2))
    hidden = HIDDEN[[0, 1, 1, 0], :4]
    compare_modules(
        ours, theirs, [x], lambda t, m, x: m(x, t.ones(4, 4).triu(1).bool(), t.tensor(hidden))
    )
    compare_modules(
        *both(lambda n: n.TransformerDecoderLayer(6, 2, 8, 0.0, **options)),
        [x, memory],
        lambda t, m, x, y: m(
            x, y, t.ones(4, 4).triu(1).bool(), tgt_key_padding_mask=t.tensor(hidden),
            memory_key_padding_mask=t.tensor(hidden),
        ),
    )  # fmt: skip


def transformer(nn: Any) -> Any:
    return nn.Transformer(6, 2, 2, 2, 8, dropout=0.0, batch_first=True, norm_first=True)


def translated(library: Any, network: Any, source: Any, target: Any) -> Any:
    mask = network.generate_square_subsequent_mask(target.shape[1])
    return network(source, target, tgt_mask=mask, tgt_is_causal=True, src_key_padding_mask=library.tensor(HIDDEN))


@pytest.mark.filterwarnings("ignore")
def test_transformer() -> None:
    ours, theirs = both(transformer)
    same(ours.generate_square_subsequent_mask(3), theirs.generate_square_subsequent_mask(3))
    arrays = [draw((2, 5, 6), "float32", -1, 1, 1), draw((2, 3, 6), "float32", -1, 1, 2)]
    compare_modules(ours, theirs, arrays, translated)
    narrow = [draw((3, 2, 4), "float32", -1, 1, 3)]
    compare_modules(
        *both(lambda n: stacked(n, "Encoder")), narrow,
        lambda t, m, x: m(x, t.ones(3, 3).triu(1).bool(), is_causal=True),
    )  # fmt: skip
    compare_modules(
        *both(lambda n: stacked(n, "Decoder")), narrow,
        lambda t, m, x: m(x, x, t.ones(3, 3).triu(1).bool(), tgt_is_causal=True),
    )  # fmt: skip
    stack = both(lambda n: n.TransformerEncoder(n.TransformerEncoderLayer(6, 3, 8, 0.0), 2, n.LayerNorm(6)))
    compare_modules(*stack, arrays[:1], lambda t, m, x: m(x, mask=t.ones(2, 2).triu(1) * -1e9))


def test_jitted() -> None:
    network = transformer(ej.nn)
    arrays = [draw((2, 5, 6), "float32", -1, 1, 1), draw((2, 3, 6), "float32", -1, 1, 2)]

    def step(source: Any, target: Any) -> Any:
        loss = translated(ej, network, source, target).square().mean()
        loss.backward()
        return loss

    bits = []
    for function in (step, ej.jit(step, fullgraph=True)):
        network.zero_grad()
        loss = function(*(ej.tensor(a) for a in arrays))
        bits.append([array_of(t).tobytes() for t in (loss, *(p.grad for p in network.parameters()))])
    assert bits[0] == bits[1]


def test_layers_of_a_stack_are_copies() -> None:
    layer = ej.nn.TransformerEncoderLayer(4, 2, 8)
    stack = ej.nn.TransformerEncoder(layer, 2)
    assert ej.equal(stack.layers[0].linear1.weight, layer.linear1.weight)
    assert stack.layers[0].linear1.weight is not stack.layers[1].linear1.weight


def test_a_compiled_call_serves_all_lengths() -> None:
    stack = ej.nn.TransformerEncoder(ej.nn.TransformerEncoderLayer(4, 2, 8, 0.1, batch_first=True), 2)
    compiled = ej.jit(lambda x: stack(x, ej.nn.Transformer.generate_square_subsequent_mask(x.size(1)), is_causal=True))
    for length in (3, 7, 5):
        compiled(ej.ones(2, length, 4)).sum().backward()
    assert len(compiled.variants) == 1
