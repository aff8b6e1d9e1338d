"""Attention with functions of positions, against PyTorch's forward and gradients of the same written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import flex_attention as theirs

import eagerjit
from eagerjit.nn.attention import flex_attention as ours

LENGTH = 16
SCORES: dict[str, Any] = {
    "none": lambda t, bias: None,
    "alibi": lambda t, bias: lambda s, b, h, i, j: s + bias[h] * (i - j),
    "relative": lambda t, bias: lambda s, b, h, i, j: s + bias[(i - j) % 4],
    "soft cap": lambda t, bias: lambda s, b, h, i, j: t.tanh(s / 5) * 5,
}
MASKS: dict[str, Any] = {
    "none": lambda t: None,
    "causal": lambda t: lambda b, h, i, j: i >= j,
    "documents": lambda t: (lambda of: lambda b, h, i, j: of[i] == of[j])(t.tensor([0] * 6 + [1] * 10)),
    "nothing": lambda t: lambda b, h, i, j: j < 0,
}


def numbers(t: Any, heads: int, grad: bool) -> list[Any]:
    g = np.random.default_rng(0)
    shapes = [(2, 4, LENGTH, 8), (2, heads, LENGTH, 8), (2, heads, LENGTH, 8), (4,)]
    return [t.tensor(g.standard_normal(s).astype(np.float32), requires_grad=grad) for s in shapes]


def attention(t: Any, module: Any, score: str, mask: str, heads: int) -> Any:
    def function(query: Any, key: Any, value: Any, bias: Any) -> Any:
        mod, block = MASKS[mask](t), None
        if mod is not None:
            block = module.create_block_mask(mod, None, None, LENGTH, LENGTH, device="cpu", BLOCK_SIZE=4)
        return module.flex_attention(
            query, key, value, score_mod=SCORES[score](t, bias), block_mask=block, enable_gqa=heads < 4
        )

    return function


def written_out(score: str, mask: str) -> Any:
    def function(query: Any, key: Any, value: Any, bias: Any) -> Any:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        b, h, i, j = torch.meshgrid(*map(torch.arange, (2, 4, LENGTH, LENGTH)), indexing="ij")
        s = query @ key.mT / 8**0.5
        score_mod, mask_mod = SCORES[score](torch, bias), MASKS[mask](torch)
        s = s if score_mod is None else score_mod(s, b, h, i, j)
        s = s if mask_mod is None else s.masked_fill(~mask_mod(b, h, i, j), -torch.inf)
        return torch.nan_to_num(s.softmax(-1)) @ value

    return function


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("heads", (4, 2))
def test_values_and_gradients(score: str, mask: str, heads: int) -> None:
    with torch.no_grad():
        expected = attention(torch, theirs, score, mask, heads)(*numbers(torch, heads, False))
    given = numbers(torch, heads, True)
    (written_out(score, mask)(*given) ** 2).sum().backward()
    function, found = attention(eagerjit, ours, score, mask, heads), []
    for call in (function, eagerjit.jit(function)):
        own = numbers(eagerjit, heads, True)
        out = call(*own)
        (out**2).sum().backward()
        found.append([out.detach().numpy(), *(x.grad.numpy() for x in own if x.grad is not None)])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    np.testing.assert_allclose(found[0][0], expected.numpy(), atol=2e-6)
    if mask != "nothing":
        for x, actual in zip((x for x in given if x.grad is not None), found[0][1:], strict=True):
            np.testing.assert_allclose(actual, x.grad.numpy(), rtol=1e-5, atol=2e-5)


def test_block_masks() -> None:
    made = []
    for _t, module in ((torch, theirs), (eagerjit, ours)):
        window = module.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 200)
        mask = module.create_block_mask(window, 1, 2, 512, 512, device="cpu")
        lists = [mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist(), mask.q_num_blocks.tolist()]
        made.append([mask.sparsity(), *lists, mask.to_dense().tolist(), tuple(mask.shape), tuple(mask[0, :1].shape)])
    assert made[0] == made[1]


def test_lse_and_errors() -> None:
    query, key, value, _ = numbers(eagerjit, 4, False)
    out, lse = ours.flex_attention(query, key, value, return_lse=True)
    expected = (query @ key.mT / 8**0.5).logsumexp(-1)
    assert eagerjit.allclose(lse, expected, atol=1e-6) and out.shape == query.shape
    with pytest.raises(ValueError, match="enable_gqa=True"):
        ours.flex_attention(query, key[:, :2], value[:, :2])
    with pytest.raises(NotImplementedError, match="4D"):
        ours.flex_attention(query[0], key[0], value[0])
    with pytest.raises(ValueError, match="q_len=16"):
        mask = ours.create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8)
        ours.flex_attention(query, key, value, block_mask=mask)


@pytest.mark.parametrize("full", (True, False))
@pytest.mark.parametrize("sizes", (None, (250, 300)))
def test_masks_of_blocks(full: bool, sizes: Any) -> None:
    made = []
    for t, module in ((torch, theirs), (eagerjit, ours)):
        mask = module.create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 256, 384, device="cpu", BLOCK_SIZE=(64, 128))
        lists = [mask.kv_num_blocks, mask.kv_indices, *((mask.full_kv_num_blocks, mask.full_kv_indices) * full)]
        again = module.BlockMask.from_kv_blocks(
            *lists, BLOCK_SIZE=(64, 128), mask_mod=mask.mask_mod, seq_lengths=sizes
        )
        kept = [again.kv_num_blocks, again.kv_indices, again.q_num_blocks, again.q_indices, again.full_kv_num_blocks]
        kept += [again.full_q_indices, again.to_dense(), again[:, :1].kv_num_blocks, again[0].full_kv_num_blocks]
        lists_kept = [x if x is None else x.tolist() for x in kept]
        made.append([again.BLOCK_SIZE, tuple(again.shape), again.seq_lengths, lists_kept])
        without = module.BlockMask.from_kv_blocks(*lists[:2], compute_q_blocks=False)
        assert without.q_num_blocks is None and tuple(without.shape)[-2:] == (512, 384)
        with pytest.raises(AssertionError):
            module.BlockMask.from_kv_blocks(*lists[:2], full_kv_num_blocks=lists[0])
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            module.BlockMask.from_kv_blocks(t.ones(()), t.ones(3))
    assert made[0] == made[1]


def test_attention_sees_what_blocks_say() -> None:
    numbers, indices = eagerjit.tensor([[[1, 2]]]), eagerjit.tensor([[[[2, 0, 1], [1, 0, 2]]]])
    mask = ours.BlockMask.from_kv_blocks(
        numbers.int(), indices.int(), (numbers - 1).int(), indices.flip(-1).int(), 4, lambda b, h, i, j: i % 4 >= j % 4
    )
    part = [[[0, 0, 1], [1, 1, 0]], [[0, 0, 0], [0, 0, 1]]]
    in_part, whole = (np.kron(np.array(p), np.ones((4, 4))) > 0 for p in part)
    causal = np.tile(np.tril(np.ones((4, 4))) > 0, (2, 3))
    shown = eagerjit.tensor(in_part & causal | whole)
    query, key = eagerjit.randn(1, 1, 8, 4), eagerjit.randn(1, 1, 12, 4)
    found = ours.flex_attention(query, key, key, block_mask=mask)
    expected = eagerjit.nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=shown)
    assert eagerjit.allclose(found, expected, atol=1e-5)
