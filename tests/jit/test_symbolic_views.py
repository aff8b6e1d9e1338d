"""What models do with sizes compiles once for all batch sizes, lengths and image sizes, results and gradients exact."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.nn import functional as F

WIDTH, HEADS, WORDS = 32, 4, 50
torch.manual_seed(0)
LINEAR, ATTEND = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
HEAD, POSITIONS = nn.Linear(WIDTH, WORDS), nn.Embedding(64, WIDTH)
CAUSAL, ENCODING = torch.tril(torch.ones(64, 64)), torch.randn(64, WIDTH)
CLASS = nn.Parameter(torch.randn(1, 1, WIDTH))
CONVOLUTION = nn.Conv2d(3, 8, 3, padding=1)


def attention(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))).softmax(-1) @ v


def heads_of_a_split(x: Any) -> Any:
    b, t, c = x.size()
    q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in ATTEND(x).split(WIDTH, dim=2))
    return attention(q, k, v).transpose(1, 2).contiguous().view(b, t, c)


def heads_of_chunks(x: Any) -> Any:
    b, t, c = x.shape
    q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in ATTEND(x).chunk(3, dim=-1))
    return attention(q, k, v).transpose(1, 2).reshape(b, t, c)


def heads_of_a_permutation(x: Any) -> Any:
    b, t, c = x.shape
    q, k, v = ATTEND(x).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
    return attention(q, k, v).transpose(1, 2).reshape(b, t, c)


def heads_of_slices(x: Any) -> Any:
    b, t, c = x.shape
    both = ATTEND(x)
    parts = both[..., :c], both[..., c : 2 * c], both[..., 2 * c :]
    q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in parts)
    return attention(q, k, v).transpose(1, 2).reshape(b, t, c)


def masked(x: Any) -> Any:
    t = x.size(1)
    scores = (x @ x.transpose(-2, -1)).masked_fill(CAUSAL[:t, :t] == 0, float("-inf"))
    return F.softmax(scores, -1) @ x


def next_words(x: Any) -> Any:
    logits = HEAD(x)
    targets = torch.ones(x.size(0), x.size(1) - 1, dtype=torch.long)
    return F.cross_entropy(logits[:, :-1].reshape(-1, WORDS), targets.reshape(-1))


def words(x: Any) -> Any:
    logits = HEAD(x)
    b, t, v = logits.shape
    return F.cross_entropy(logits.view(b * t, v), torch.zeros(b * t, dtype=torch.long))


def rotary(x: Any) -> Any:
    _, t, c = x.shape
    angles = torch.outer(torch.arange(t).float(), 1.0 / (100 ** (torch.arange(0, c, 2).float() / c)))
    even, odd = x[..., ::2], x[..., 1::2]
    rotated = [even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()]
    return torch.stack(rotated, -1).flatten(-2)


def grouped(x: Any) -> Any:
    b, t, c = x.shape
    means = x.view(b, t, 8, c // 8).mean(-1, keepdim=True)
    return means.expand(-1, -1, -1, c // 8).reshape(b, t, c)


SEQUENCES: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        heads_of_a_split, heads_of_chunks, heads_of_a_permutation, heads_of_slices, masked, next_words, words, rotary,
        grouped,
    )
}  # fmt: skip
SEQUENCES |= {
    "flat": lambda x: LINEAR(x.view(-1, WIDTH)).view(x.size(0), x.size(1), WIDTH),
    "time first": lambda x: LINEAR(x.permute(1, 0, 2).reshape(-1, WIDTH)),
    "positions": lambda x: x + POSITIONS(torch.arange(x.size(1))) + ENCODING[: x.size(1)],
    "class token": lambda x: torch.cat([CLASS.expand(x.shape[0], -1, -1), x], 1)[:, 0],
    "halves": lambda x: torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1),
    "gated": lambda x: x.chunk(2, -1)[0] * torch.sigmoid(x.chunk(2, -1)[1]),
    "running mean": lambda x: x.cumsum(1) / torch.arange(1, x.size(1) + 1).view(1, -1, 1),
    "distances": lambda x: (x.unsqueeze(2) - x.unsqueeze(1)).pow(2).sum(-1),
    "steps": lambda x: x[:, ::2] * x.size(1),
    "middle": lambda x: x[:, x.size(1) // 2] + x[:, -1],
    "windows": lambda x: x.unfold(1, 3, 1).sum(-1),
    "padded": lambda x: F.pad(x, (0, 0, 1, 1))[:, : x.size(1)],
}


def patches(x: Any) -> Any:
    b, c, h, w = x.shape
    rows = x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5)
    return rows.reshape(b, (h // 4) * (w // 4), c * 16)


IMAGES: dict[str, Callable[[Any], Any]] = {
    "patches": patches,
    "pooled": lambda x: F.max_pool2d(F.relu(CONVOLUTION(x)), 2).mean((2, 3)),
    "flat": lambda x: x.view(x.size(0), -1).sum(1),
    "cropped": lambda x: x[:, :, x.size(2) // 4 : -(x.size(2) // 4)],
    "doubled": lambda x: torch.cat([x, F.avg_pool2d(x, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)], 1),
    "shuffled": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "larger": lambda x: F.interpolate(x, scale_factor=2),
    "normalized": lambda x: F.group_norm(CONVOLUTION(x), 2),
}


def outcome(function: Callable[[Any], Any], x: Any) -> list[Any]:
    x = x.clone().requires_grad_()
    result = function(x)
    (grad,) = torch.autograd.grad((result * result).sum(), x)
    return [tuple(result.shape), result.detach().numpy().tobytes(), grad.numpy().tobytes()]


@pytest.mark.parametrize("name", [*SEQUENCES, *(f"images {n}" for n in IMAGES)])
def test_one_version_for_all_sizes(name: str) -> None:
    image = name.startswith("images ")
    function = IMAGES[name.removeprefix("images ")] if image else SEQUENCES[name]
    jitted = torch.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for b, t in ((2, 8), (3, 12), (4, 16), (5, 20)):
            x = torch.randn(b, 3, t, t + 4) if image else torch.randn(b, t, WIDTH)
            assert outcome(jitted, x) == outcome(function, x)
    assert jitted.cache_info().compiles == 1, [str(r) for r in jitted.cache_info().reasons]


def rows_of(n: int) -> Any:
    """A tensor whose last two dimensions lie together and whose first has gaps."""
    return torch.arange(n * 40.0).reshape(n, 10, 4)[:, :6]


def joined_and_cut(x: Any) -> Any:
    y = x.reshape(x.shape[0], 4, 6)
    y.add_(1)
    return y


def cut_in_two(x: Any) -> Any:
    y = x.transpose(1, 2).view(x.shape[0], x.shape[2], 3, 2)
    y[0].mul_(2)
    return y


def copied(x: Any) -> Any:
    y = x.transpose(0, 1).reshape(-1, x.shape[2])
    y.add_(1)
    return y


@pytest.mark.parametrize("function", [joined_and_cut, cut_in_two, copied])
def test_what_is_a_view_and_what_a_copy_is_as_in_the_plain_call(function: Callable[[Any], Any]) -> None:
    jitted = torch.jit(function)
    for n in (2, 3, 5):
        found, expected = rows_of(n), rows_of(n)
        mine, plain = jitted(found), function(expected)
        assert mine.tolist() == plain.tolist() and mine.stride() == plain.stride()
        assert mine.data_ptr() - found.data_ptr() == plain.data_ptr() - expected.data_ptr() or function is copied
        assert found.tolist() == expected.tolist()
    assert jitted.cache_info().compiles == 1
