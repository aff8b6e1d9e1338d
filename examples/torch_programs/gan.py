"""A deep convolutional GAN draws handwritten digits."""

import numpy as np
import torch
import torch.nn as nn
from common import arguments, digits, draw_weights, report

LATENT, FEATURES, BATCH = 16, 16, 64


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(LATENT, FEATURES * 4, 2, 1, 0, bias=False),
            nn.BatchNorm2d(FEATURES * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(FEATURES * 4, FEATURES * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(FEATURES * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(FEATURES * 2, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, FEATURES, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(FEATURES, FEATURES * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(FEATURES * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(FEATURES * 2, 1, 2, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


def main():
    args = arguments(__doc__, 300)
    images, _ = digits()
    images = images * 2 - 1
    random = np.random.default_rng(2)
    netG, netD = draw_weights(Generator(), 1), draw_weights(Discriminator(), 2)
    criterion = nn.BCELoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
    for step in range(args.steps):
        first = step * BATCH % 1728
        real = images[first : first + BATCH]
        noise = torch.from_numpy(random.standard_normal((BATCH, LATENT, 1, 1), dtype=np.float32))
        label = torch.full((BATCH,), 1.0)
        # the discriminator: log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        # the generator: log(D(G(z)))
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        report(step, errD_real + errD_fake + errG)


if __name__ == "__main__":
    main()
