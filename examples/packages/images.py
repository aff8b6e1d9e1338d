"""kornia and pytorch-metric-learning: filters, colours, warps and losses of images, losses of embeddings."""

import kornia
import torch
from common import numbers
from pytorch_metric_learning import losses, miners

filters, geometry, enhance = kornia.filters, kornia.geometry, kornia.enhance
grid = torch.ones(1, 16, 16, dtype=torch.int64)
FUNCTIONS = {
    "gray": kornia.color.rgb_to_grayscale, "hsv": kornia.color.rgb_to_hsv, "lab": kornia.color.rgb_to_lab,
    "blur": lambda x: filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), "sobel": filters.sobel,
    "median": lambda x: filters.median_blur(x, (3, 3)), "canny": lambda x: filters.canny(x)[0],
    "rotate": lambda x: geometry.transform.rotate(x, torch.tensor([30.0])),
    "warp": lambda x: geometry.transform.warp_perspective(x, torch.eye(3)[None] + 0.01, (16, 16)),
    "pyramid": geometry.transform.pyrdown, "ssim": lambda x: kornia.metrics.ssim(x, x.flip(-1), 5),
    "dilation": lambda x: kornia.morphology.dilation(x, torch.ones(3, 3)), "hue": lambda x: enhance.adjust_hue(x, 0.3),
    "equalize": lambda x: enhance.equalize(x.detach()), "corners": kornia.feature.harris_response,
    "sift": lambda x: kornia.feature.SIFTDescriptor(16)(x.mean(1, keepdim=True)),
    "dice": lambda x: kornia.losses.dice_loss(x, grid), "variation": kornia.losses.total_variation,
    "focal": lambda x: kornia.losses.focal_loss(x, grid, 0.5, reduction="mean"),
}  # fmt: skip
for name, function in FUNCTIONS.items():
    x = numbers(1, 3, 16, 16).sigmoid().requires_grad_()
    total = function(x).double().square().sum()
    if total.requires_grad:
        total.backward()
    print(name, total.item(), 0.0 if x.grad is None else x.grad.double().abs().sum().item())

labels = numbers(12, below=3)
for kind in (losses.TripletMarginLoss, losses.ContrastiveLoss, losses.NTXentLoss, losses.SupConLoss, losses.CircleLoss):
    x = numbers(12, 8).requires_grad_()
    loss = kind()(x, labels)
    loss.backward()
    print(kind.__name__, loss.item(), x.grad.abs().sum().item())
print("mined", *[found.sum().item() for found in miners.MultiSimilarityMiner()(numbers(12, 8), labels)])
