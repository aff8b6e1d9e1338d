"""Neural style losses: an image takes its content from one picture and its texture from another."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from common import arguments, draw_weights, report


def pictures(size=48):
    """A disc on a slope of light, and a texture of diagonal stripes: RGB in [0, 1]."""
    y, x = np.mgrid[0:size, 0:size] / size
    disc = ((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.08).astype(np.float32)
    content = np.stack([disc, x, 1 - y])
    style = np.stack([np.sin(40 * (x + y)), np.sin(40 * (x + y) + 1), np.cos(25 * (x - y))]) / 2 + 0.5
    return [torch.from_numpy(p.astype(np.float32)).unsqueeze(0) for p in (content, style)]


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, img):
        return (img - self.mean) / self.std


def features():
    """Stands for the pretrained network of the papers: random filters make usable textures too."""
    cnn = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(inplace=False), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(inplace=False),
        nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(inplace=False), nn.Conv2d(32, 32, 3, padding=1),
    )  # fmt: skip
    return draw_weights(cnn, 5).eval()


def style_model_and_losses(cnn, style_img, content_img):
    content_losses, style_losses = [], []
    model = nn.Sequential(Normalization([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    i = 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i += 1
        model.add_module(f"{type(layer).__name__}_{len(model)}", layer)
        if isinstance(layer, nn.Conv2d):
            if i == 3:
                content_loss = ContentLoss(model(content_img).detach())
                model.add_module(f"content_loss_{i}", content_loss)
                content_losses.append(content_loss)
            style_loss = StyleLoss(model(style_img).detach())
            model.add_module(f"style_loss_{i}", style_loss)
            style_losses.append(style_loss)
    return model, style_losses, content_losses


def main():
    args = arguments(__doc__, 100)
    content_img, style_img = pictures()
    input_img = content_img.clone()
    model, style_losses, content_losses = style_model_and_losses(features(), style_img, content_img)
    input_img.requires_grad_(True)
    model.requires_grad_(False)
    optimizer = torch.optim.Adam([input_img], lr=0.02)
    for step in range(args.steps):

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = sum(sl.loss for sl in style_losses) * 1e4
            content_score = sum(cl.loss for cl in content_losses)
            loss = style_score + content_score
            loss.backward()
            return loss

        report(step, optimizer.step(closure))
    with torch.no_grad():
        input_img.clamp_(0, 1)
    print(f"mean colour {[round(v, 3) for v in input_img.detach().mean((0, 2, 3)).tolist()]}")


if __name__ == "__main__":
    main()
