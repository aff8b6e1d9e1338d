"""Flows with exact densities, and differential equations whose gradient is an equation of its own."""

import itertools

import torch
import torch.nn as nn
import torch.optim as optim
from inputs import fx
from torch.distributions import Independent, Normal


class ActNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.initialized.item() == 0:
            with torch.no_grad():
                self.loc.data.copy_(-x.mean(0))
                self.log_scale.data.copy_(-torch.log(x.std(0) + 1e-6))
                self.initialized.fill_(1)
        return torch.exp(self.log_scale) * (x + self.loc), self.log_scale.sum().expand(x.shape[0])

    def inverse(self, z):
        return z * torch.exp(-self.log_scale) - self.loc


class InvertibleLinear(nn.Module):
    def __init__(self, d):
        super().__init__()
        q, _ = torch.linalg.qr(fx(d, d, seed=5))
        p, lower, upper = torch.linalg.lu(q)
        s = torch.diag(upper)
        self.register_buffer("p", p)
        self.register_buffer("sign", torch.sign(s))
        self.register_buffer("mask", torch.tril(torch.ones(d, d), -1))
        self.lower, self.logs = nn.Parameter(lower), nn.Parameter(torch.log(torch.abs(s)))
        self.upper = nn.Parameter(torch.triu(upper, 1))

    def weight(self):
        lower = self.lower * self.mask + torch.eye(len(self.mask))
        return self.p @ lower @ (self.upper * self.mask.t() + torch.diag(self.sign * torch.exp(self.logs)))

    def forward(self, x):
        return x @ self.weight(), self.logs.sum().expand(x.shape[0])

    def inverse(self, z):
        return z @ torch.inverse(self.weight())


class Coupling(nn.Module):
    def __init__(self, d, mask, h=8):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(d, h), nn.LeakyReLU(), nn.Linear(h, d), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(d, h), nn.LeakyReLU(), nn.Linear(h, d))

    def parts(self, x):
        kept = x * self.mask
        return kept, self.s(kept) * (1 - self.mask), self.t(kept) * (1 - self.mask)

    def forward(self, x):
        kept, s, t = self.parts(x)
        return kept + (1 - self.mask) * (x * torch.exp(s) + t), s.sum(-1)

    def inverse(self, z):
        kept, s, t = self.parts(z)
        return kept + (1 - self.mask) * ((z - t) * torch.exp(-s))


def glow():
    d = 4
    masks = [torch.tensor([1.0, 0, 1, 0]), torch.tensor([0, 1.0, 0, 1])]
    flows = nn.ModuleList([m for mask in masks for m in (ActNorm(d), InvertibleLinear(d), Coupling(d, mask))])
    opt = optim.Adamax(flows.parameters(), lr=5e-3)
    prior = Independent(Normal(torch.zeros(d), torch.ones(d)), 1)
    x = fx(16, d) @ fx(d, d, seed=1)

    def step(i):
        z, log_det = x, torch.zeros(x.shape[0])
        for flow in flows:
            z, change = flow(z)
            log_det = log_det + change
        loss = -(prior.log_prob(z) + log_det).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            z = x
            for flow in flows:
                z, _ = flow(z)
            for flow in reversed(flows):
                z = flow.inverse(z)
        return loss.item() + 10 * torch.allclose(z, x, atol=1e-3)

    return [flows], step


def rk4_step(f, t, dt, y):
    k1 = f(t, y)
    k2 = f(t + dt / 2, tuple(a + dt / 2 * k for a, k in zip(y, k1, strict=True)))
    k3 = f(t + dt / 2, tuple(a + dt / 2 * k for a, k in zip(y, k2, strict=True)))
    k4 = f(t + dt, tuple(a + dt * k for a, k in zip(y, k3, strict=True)))
    return tuple(a + dt / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4, strict=True))


class OdeintAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, t, flat_params):
        ctx.func = func
        ys = [y0]
        for t0, t1 in itertools.pairwise(t):
            ys.append(rk4_step(lambda s, y: (func(s, y[0]),), t0, t1 - t0, (ys[-1],))[0])
        ans = torch.stack(ys)
        ctx.save_for_backward(t, flat_params, ans)
        return ans

    @staticmethod
    def backward(ctx, g):
        t, flat, ans = ctx.saved_tensors
        func, params = ctx.func, tuple(ctx.func.parameters())

        def augmented(s, state):
            with torch.enable_grad():
                s, y = s.detach().requires_grad_(True), state[0].detach().requires_grad_(True)
                value = func(s, y)
                along_t, along_y, *along = torch.autograd.grad(value, (s, y, *params), -state[1], allow_unused=True)
            along = [torch.zeros_like(p) if v is None else v for p, v in zip(params, along, strict=True)]
            along_t = torch.zeros_like(s) if along_t is None else along_t
            return value, along_y, along_t, torch.cat([v.reshape(-1) for v in along])

        adjoint, in_params, in_t = g[-1], torch.zeros_like(flat), torch.zeros(())
        for i in range(len(t) - 1, 0, -1):
            state = (ans[i], adjoint, in_t, in_params)
            _, adjoint, in_t, in_params = rk4_step(augmented, t[i], t[i - 1] - t[i], state)
            adjoint = adjoint + g[i - 1]
        return None, adjoint, None, in_params


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.nfe = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), 0

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y**3) + 0.1 * torch.sin(t)


def neural_ode():
    func = ODEFunc()
    opt = optim.RMSprop(func.parameters(), lr=1e-3)
    y0, t, target = fx(6, 2), torch.linspace(0.0, 1.0, 4), fx(4, 6, 2, seed=3)

    def step(i):
        opt.zero_grad()
        flat = torch.cat([p.contiguous().view(-1) for p in func.parameters()])
        loss = torch.mean(torch.abs(OdeintAdjoint.apply(func, y0, t, flat) - target))
        loss.backward()
        opt.step()
        nfe, func.nfe = func.nfe, 0
        return loss.item() + nfe

    return [func], step
