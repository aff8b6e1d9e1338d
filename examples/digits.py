"""Classify scikit-learn's handwritten digits (1,797 images of 8x8 pixels), at least 97% of the unseen ones right.

    python examples/digits.py

Without scikit-learn the digits are drawn: those of a small typeface, moved about and under noise.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import eagerjit as torch
from eagerjit import nn
from eagerjit.nn import functional as F

EPOCHS, BATCH = 40, 64
TYPEFACE = """
.##. ..#. .##. ###. #..# #### .### #### .##. .##.
#..# .##. #..# ...# #..# #... #... ...# #..# #..#
#..# ..#. ..#. .##. #### ###. ###. ..#. .##. .###
#..# ..#. .#.. ...# ...# ...# #..# .#.. #..# ...#
.##. .### #### ###. ...# ###. .##. .#.. .##. .##.
"""


def drawn_digits(count: int = 1797) -> tuple[np.ndarray, np.ndarray]:
    """Images of 8x8 numbers from 0 to 16, one per row, and the digits that they show."""
    generator = np.random.default_rng(0)
    lines = [line.split() for line in TYPEFACE.split("\n") if line]
    shapes = np.array([[[mark == "#" for mark in line[digit]] for line in lines] for digit in range(10)])
    labels = generator.integers(0, 10, count)
    images = generator.uniform(0, 5, (count, 8, 8))
    for image, label in zip(images, labels, strict=True):
        down, right = generator.integers(0, 4), generator.integers(0, 5)
        image[down : down + 5, right : right + 4] += shapes[label] * generator.uniform(8, 11)
    return images.reshape(count, 64), labels


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images to learn from, images to be asked about, and what each of them shows."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        print("scikit-learn is not installed: these digits are drawn")
        images, labels = drawn_digits()
    else:
        images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels, held_back = images[order] / 16.0, labels[order], len(images) // 4
    return images[held_back:], images[:held_back], labels[held_back:], labels[:held_back]


def main() -> None:
    torch.manual_seed(0)
    split = digits()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_images, test_images = (torch.tensor(part, dtype=torch.float32, device=device) for part in split[:2])
    train_labels, test_labels = (torch.tensor(part, device=device) for part in split[2:])

    model = nn.Sequential(
        nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.2),
        nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.2),
        nn.Linear(256, 10),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)

    @torch.jit
    def training_step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        # The last, smaller batch is left out of its epoch; the shuffle makes it another one each time.
        order = torch.randperm(len(train_images), device=device)
        for first in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[first : first + BATCH]
            loss = training_step(train_images[chosen], train_labels[chosen])
        scheduler.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        predicted = model(test_images).argmax(dim=1)
    accuracy = (predicted == test_labels).float().mean().item()
    print(f"{accuracy:.2%} of {len(test_labels)} test images right, {time.perf_counter() - start:.1f} s")
    if accuracy < 0.97:
        sys.exit("less than 97%: something is wrong")


if __name__ == "__main__":
    main()
