"""A residual network with batch normalization classifies handwritten digits enlarged to 16x16."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import arguments, digits, draw_weights, report


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, widths=(16, 32, 64), blocks=1, classes=10):
        super().__init__()
        self.in_planes = widths[0]
        self.conv1 = nn.Conv2d(1, widths[0], kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.layers = nn.Sequential(*(self._make_layer(w, blocks, 1 + (i > 0)) for i, w in enumerate(widths)))
        self.linear = nn.Linear(widths[-1], classes)

    def _make_layer(self, planes, num_blocks, stride):
        layers = []
        for s in [stride] + [1] * (num_blocks - 1):
            layers.append(BasicBlock(self.in_planes, planes, s))
            self.in_planes = planes * BasicBlock.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layers(out)
        out = F.avg_pool2d(out, 4)
        out = out.view(out.size(0), -1)
        return self.linear(out)


def main():
    args = arguments(__doc__, 200)
    images, labels = digits()
    images = F.interpolate(images, scale_factor=2, mode="bilinear", align_corners=False)
    model = draw_weights(ResNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=5e-4, nesterov=True)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=50)
    decay = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[120, 160], gamma=0.1)
    scheduler = torch.optim.lr_scheduler.ChainedScheduler([warmup, decay])
    criterion = nn.CrossEntropyLoss()
    model.train()
    for step in range(args.steps):
        first = step * 64 % 1408
        optimizer.zero_grad()
        loss = criterion(model(images[first : first + 64]), labels[first : first + 64])
        loss.backward()
        optimizer.step()
        scheduler.step()
        report(step, loss.item())
    model.eval()
    with torch.no_grad():
        _, predicted = model(images[1472:]).max(1)
    print(f"{predicted.eq(labels[1472:]).sum().item() / predicted.size(0):.1%} of the unseen digits right")


if __name__ == "__main__":
    main()
