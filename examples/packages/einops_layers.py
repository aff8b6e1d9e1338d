"""einops: rearranged, reduced and repeated tensors, and its layers in a network."""

from common import filled, numbers, train
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

x = numbers(2, 3, 8, 8)
print("rearrange", *rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4).sum(-1).flatten().tolist())
print("reduce", *reduce(x, "b c (h 2) (w 2) -> b c", "max").flatten().tolist())
print("repeat", repeat(x, "b c h w -> b (c r) h w", r=2).square().mean().item())
print("einsum", einsum(x, x, "b c h w, b d h w -> b c d").sum().item())
network = filled(nn.Sequential(
    Rearrange("b c h w -> b (h w) c"), nn.Linear(3, 5), Reduce("b n c -> b c", "mean"),
    EinMix("b c -> b d", weight_shape="c d", bias_shape="d", c=5, d=4),
))  # fmt: skip
train("network", network, lambda: network(x).square().mean())
