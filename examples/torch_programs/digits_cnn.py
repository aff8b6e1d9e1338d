"""A small convolutional network learns handwritten digits."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import arguments, digits, draw_weights, report
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, 1, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, 1)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 3 * 3, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(self.dropout(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(model, device, loader, optimizer, scheduler, steps):
    model.train()
    model.dropout.eval()  # libraries draw random numbers of their own
    step = 0
    while step < steps:
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            report(step, loss.item())
            step += 1
            if step == steps:
                break
        scheduler.step()


def test(model, device, loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    count = len(loader.dataset)
    print(f"test set: average loss {test_loss / count:.4f}, {correct}/{count} right ({100.0 * correct / count:.1f}%)")


def main():
    args = arguments(__doc__, 400)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = digits()
    train_loader = DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=64, drop_last=True)
    test_loader = DataLoader(TensorDataset(images[1400:], labels[1400:]), batch_size=200)
    model = draw_weights(Net()).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    train(model, device, train_loader, optimizer, StepLR(optimizer, step_size=5, gamma=0.7), args.steps)
    test(model, device, test_loader)


if __name__ == "__main__":
    main()
