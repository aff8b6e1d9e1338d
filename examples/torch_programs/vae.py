"""A variational autoencoder of handwritten digits."""

import numpy as np
import torch
from common import arguments, digits, draw_weights, report
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, hidden=128, latent=8):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def main():
    args = arguments(__doc__, 600)
    images, _ = digits()
    noise = np.random.default_rng(1)
    model = draw_weights(VAE())
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    for step in range(args.steps):
        first = step * 128 % 1664
        data = images[first : first + 128]
        eps = torch.from_numpy(noise.standard_normal((len(data), 8), dtype=np.float32))
        optimizer.zero_grad()
        recon, mu, logvar = model(data, eps)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        optimizer.step()
        report(step, loss.item() / len(data))
    model.eval()
    with torch.no_grad():
        sample = model.decode(torch.from_numpy(noise.standard_normal((1, 8), dtype=np.float32))).view(8, 8)
    for row in sample.tolist():
        print("".join(" .:-=+*#%@"[min(int(value * 10), 9)] for value in row))


if __name__ == "__main__":
    main()
