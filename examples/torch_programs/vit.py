"""A vision transformer classifies handwritten digits from patches of 2x2 pixels."""

import torch
from common import arguments, digits, draw_weights, report
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = map(lambda t: t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3), qkv)
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        out = torch.einsum("bhij,bhjd->bhid", self.attend(dots), v)
        return self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, d))


class ViT(nn.Module):
    def __init__(self, patch=2, dim=64, depth=2, mlp=128, classes=10):
        super().__init__()
        self.patches = nn.Unfold(patch, stride=patch)
        self.embed = nn.Linear(patch * patch, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embedding = nn.Parameter(torch.zeros(1, 17, dim))
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            feed = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))
            self.layers.append(nn.ModuleList([Attention(dim), feed]))
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, img):
        x = self.embed(self.patches(img).transpose(1, 2))
        cls_tokens = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls_tokens, x), dim=1)
        x += self.pos_embedding[:, : x.shape[1]]
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.mlp_head(x[:, 0])


def main():
    args = arguments(__doc__, 300)
    images, labels = digits()
    model = draw_weights(ViT())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=300)
    loss_fn = nn.CrossEntropyLoss()
    for step in range(args.steps):
        first = step * 64 % 1408
        loss = loss_fn(model(images[first : first + 64]), labels[first : first + 64])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        report(step, loss)
    model.eval()
    with torch.no_grad():
        right = (model(images[1472:]).argmax(1) == labels[1472:]).float().mean()
    print(f"{right.item():.1%} of the unseen digits right")


if __name__ == "__main__":
    main()
