"""Networks trained as they will be used, or where it is flat: quantized, parametrized, with two passes a step."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
import torch.optim as optim
from inputs import fx, ints
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class FakeQuant(nn.Module):
    def __init__(self, bits=8, symmetric=False):
        super().__init__()
        self.bits, self.symmetric, self.observe = bits, symmetric, True
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("zero_point", torch.zeros(1, dtype=torch.int32))

    def observed(self, x, low, high):
        least, most = torch.aminmax(x.detach())
        if self.min_val == float("inf"):
            self.min_val.copy_(least)
            self.max_val.copy_(most)
        else:
            self.min_val += 0.1 * (least - self.min_val)
            self.max_val += 0.1 * (most - self.max_val)
        a, b = self.min_val.clamp(max=0), self.max_val.clamp(min=0)
        if self.symmetric:
            scale, zero_point = torch.max(-a, b) / ((high - low) / 2), torch.zeros(())
        else:
            scale = (b - a) / (high - low)
            zero_point = (low - torch.round(a / scale)).clamp(low, high)
        self.scale.copy_(scale.clamp(min=torch.finfo(torch.float32).eps))
        self.zero_point.copy_(zero_point.int())

    def forward(self, x):
        low, high = (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1) if self.symmetric else (0, 2**self.bits - 1)
        if self.observe:
            self.observed(x, low, high)
        return (torch.clamp(Round.apply(x / self.scale + self.zero_point), low, high) - self.zero_point) * self.scale


class QConvBN(nn.Conv2d):
    def __init__(self, i, o, k, **kwargs):
        super().__init__(i, o, k, bias=False, **kwargs)
        self.bn, self.weight_quant, self.act_quant = nn.BatchNorm2d(o), FakeQuant(symmetric=True), FakeQuant()

    def forward(self, x):
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_quant(self.weight * factor.reshape([-1, 1, 1, 1]))
        y = self._conv_forward(x, weight, None) / factor.reshape([1, -1, 1, 1])
        return self.act_quant(F.relu(self.bn(y)))


def quantized_student():
    student = nn.Sequential(FakeQuant(), QConvBN(3, 4, 3, padding=1), QConvBN(4, 4, 3, stride=2), nn.Flatten())
    student.append(nn.Linear(36, 4))
    teacher = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))
    opt = optim.SGD(student.parameters(), 0.02, momentum=0.9)
    sched = optim.lr_scheduler.CyclicLR(opt, 0.01, 0.05, step_size_up=3)
    x, y, temperature = fx(6, 3, 8, 8), ints(4, 6), 4.0

    def step(i):
        if i == 3:
            for m in student.modules():
                if isinstance(m, FakeQuant):
                    m.observe = False
        with torch.no_grad():
            wanted = F.softmax(teacher.eval()(x) / temperature, dim=1)
        out = student(x)
        distilled = nn.KLDivLoss(reduction="batchmean")(F.log_softmax(out / temperature, dim=1), wanted)
        loss = distilled * temperature**2 * 0.7 + F.cross_entropy(out, y) * 0.3
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        return loss.item() + student[1].act_quant.scale.item()

    return [student, teacher], step


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


def parametrized():
    net = nn.Sequential(weight_norm(nn.Linear(6, 8)), nn.Tanh(), orthogonal(nn.Linear(8, 8)), nn.ReLU())
    net.extend([spectral_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)])
    parametrize.register_parametrization(net[6], "weight", Symmetric())
    prune.l1_unstructured(net[8], name="weight", amount=0.3)
    opt = optim.NAdam(net.parameters(), lr=1e-2)
    x, y = fx(10, 6), ints(3, 10)

    def step(i):
        with parametrize.cached():
            loss = F.cross_entropy(net(x), y)
            loss = loss + 1e-3 * sum(m.weight.pow(2).sum() for m in net if isinstance(m, nn.Linear))
        opt.zero_grad()
        loss.backward()
        opt.step()
        w = net[2].weight
        return loss.item() + 10 * (torch.dist(w.T @ w, torch.eye(8)).item() < 1e-4)

    return [net], step


class SAM(optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self):
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        norm = torch.norm(torch.stack([g.norm(p=2) for g in grads]), p=2)
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                self.state[p]["e_w"] = p.grad * scale.to(p)
                p.add_(self.state[p]["e_w"])
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["e_w"])
        self.base_optimizer.step()
        self.zero_grad()


def disable_running_stats(module):
    if isinstance(module, nn.BatchNorm1d):
        module.backup_momentum, module.momentum = module.momentum, 0


def enable_running_stats(module):
    if isinstance(module, nn.BatchNorm1d) and hasattr(module, "backup_momentum"):
        module.momentum = module.backup_momentum


def sharpness_aware():
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    opt = SAM(net.parameters(), optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    x, y = fx(10, 6), ints(3, 10)

    def step(i):
        net.apply(enable_running_stats)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.first_step()
        net.apply(disable_running_stats)
        F.cross_entropy(net(x), y).backward()
        opt.second_step()
        return loss.item()

    return [net], step
