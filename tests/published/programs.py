"""Programs in the way people write them for PyTorch, cut down to five steps whose losses are printed.

`python programs.py save FOLDER` leaves the initial weights there, `load FOLDER` and `compiled FOLDER` start from these.
"""

import collections
import contextlib
import copy
import math
import os
import random
import sys
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
import torch.optim as optim
from carried_state import char_rnn, quantile_ensemble, vqvae
from densities import glow, neural_ode
from extensions import exported_teacher, numpy_extension
from inputs import fx, ints
from language_models import adapted_decoder
from robust_training import parametrized, quantized_student, sharpness_aware
from sequences import crf_tagger, windowed_decoder
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, OneCycleLR
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


def dcgan():
    nz, ngf, ndf, nc = 8, 8, 8, 3
    netG = nn.Sequential(
        nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
        nn.BatchNorm2d(ngf * 4),
        nn.ReLU(True),
        nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ngf * 2),
        nn.ReLU(True),
        nn.ConvTranspose2d(ngf * 2, nc, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    netD = nn.Sequential(
        nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ndf * 2),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    optD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    real = torch.tanh(fx(4, 3, 16, 16))
    z = fx(4, nz, 1, 1, seed=3)

    def step(i):
        netD.zero_grad()
        b_size = real.size(0)
        label = torch.full((b_size,), 1.0, dtype=torch.float)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        fake = netG(z)
        label.fill_(0.0)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optD.step()
        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        optG.step()
        return errD.item() + errG.item() + D_x

    return [netG, netD], step


class DoubleConv(nn.Module):
    def __init__(self, i, o, mid=None):
        super().__init__()
        mid = mid or o
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, mid, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, o, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class UpB(nn.Module):
    def __init__(self, i, o, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(i, o, i // 2)
        else:
            self.up = nn.ConvTranspose2d(i, i // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(i, o)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dY = x2.size()[2] - x1.size()[2]
        dX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dX // 2, dX - dX // 2, dY // 2, dY - dY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, bil):
        super().__init__()
        f = 2 if bil else 1
        self.inc = DoubleConv(3, 4)
        self.d1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.d2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 16 // f))
        self.u1 = UpB(16, 8 // f, bil)
        self.u2 = UpB(8, 4, bil)
        self.outc = nn.Conv2d(4, 2, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.d1(x1)
        x3 = self.d2(x2)
        return self.outc(self.u2(self.u1(x3, x2), x1))


def dice_coeff(input, target, reduce_batch_first=False, epsilon=1e-6):
    sum_dim = (-1, -2) if input.dim() == 2 or not reduce_batch_first else (-1, -2, -3)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


def unet():
    m = UNet(True).to(memory_format=torch.channels_last)
    opt = optim.RMSprop(m.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9, foreach=True)
    sch = optim.lr_scheduler.ReduceLROnPlateau(opt, "max", patience=1)
    x = fx(2, 3, 13, 15)
    t = ints(2, 2, 13, 15)
    crit = nn.CrossEntropyLoss()
    gs = torch.amp.GradScaler("cpu", enabled=False)

    def step(i):
        with torch.autocast("cpu", enabled=False):
            p = m(x.to(dtype=torch.float32, memory_format=torch.channels_last))
            loss = crit(p, t)
            loss += 1 - dice_coeff(
                F.softmax(p, dim=1).float().flatten(0, 1),
                F.one_hot(t, 2).permute(0, 3, 1, 2).float().flatten(0, 1),
                True,
            )
        opt.zero_grad(set_to_none=True)
        gs.scale(loss).backward()
        gs.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        gs.step(opt)
        gs.update()
        sch.step(loss)
        return loss.item()

    return [m], step


class SinPos(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        e = math.log(10000) / (half - 1)
        e = torch.exp(torch.arange(half, device=t.device) * -e)
        e = t[:, None] * e[None, :]
        return torch.cat((e.sin(), e.cos()), dim=-1)


class ResT(nn.Module):
    def __init__(self, c, td):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(td, c * 2))
        self.c1 = nn.Conv2d(c, c, 3, padding=1)
        self.n = nn.GroupNorm(4, c)
        self.c2 = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x, t):
        s, b = self.mlp(t)[:, :, None, None].chunk(2, dim=1)
        h = F.silu(self.n(self.c1(x)) * (s + 1) + b)
        return x + self.c2(h)


class Diff(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(SinPos(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
        self.inp = nn.Conv2d(1, 8, 1)
        self.b = nn.ModuleList([ResT(8, 16), ResT(8, 16)])
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x, t):
        t = self.time(t)
        x = self.inp(x)
        for b in self.b:
            x = b(x, t)
        return self.out(x)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


def ddpm():
    T = 20
    betas = torch.linspace(1e-4, 0.02, T)
    alphas = 1.0 - betas
    ac = torch.cumprod(alphas, dim=0)
    sac = torch.sqrt(ac)
    s1 = torch.sqrt(1.0 - ac)
    m = Diff()
    ema = copy.deepcopy(m).eval().requires_grad_(False)
    opt = torch.optim.Adam(m.parameters(), lr=1e-2)
    x0 = fx(4, 1, 8, 8)
    n = fx(4, 1, 8, 8, seed=2)

    def step(i):
        t = torch.tensor([1, 5, 9, 19]) - (i % 2)
        xt = extract(sac, t, x0.shape) * x0 + extract(s1, t, x0.shape) * n
        loss = F.smooth_l1_loss(n, m(xt, t))
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), m.parameters(), strict=True):
                p.copy_(p * 0.9 + q * 0.1)
        return loss.item()

    return [m, ema], step


class Enc(nn.Module):
    def __init__(self, v, e, h):
        super().__init__()
        self.emb = nn.Embedding(v, e, padding_idx=0)
        self.rnn = nn.GRU(e, h, bidirectional=True)
        self.fc = nn.Linear(2 * h, h)

    def forward(self, src, lens):
        p = pack_padded_sequence(self.emb(src), lens.cpu(), enforce_sorted=False)
        o, h = self.rnn(p)
        o, _ = pad_packed_sequence(o)
        return o, torch.tanh(self.fc(torch.cat((h[-2], h[-1]), dim=1)))


class Attn(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.attn = nn.Linear(3 * h, h)
        self.v = nn.Linear(h, 1, bias=False)

    def forward(self, hid, enc, mask):
        L = enc.shape[0]
        hid = hid.unsqueeze(1).repeat(1, L, 1)
        enc = enc.permute(1, 0, 2)
        e = torch.tanh(self.attn(torch.cat((hid, enc), dim=2)))
        a = self.v(e).squeeze(2)
        a = a.masked_fill(mask == 0, -1e10)
        return F.softmax(a, dim=1)


class Dec(nn.Module):
    def __init__(self, v, e, h):
        super().__init__()
        self.emb = nn.Embedding(v, e)
        self.attn = Attn(h)
        self.rnn = nn.GRU(e + 2 * h, h)
        self.out = nn.Linear(e + 3 * h, v)

    def forward(self, inp, hid, enc, mask):
        emb = self.emb(inp.unsqueeze(0))
        a = self.attn(hid, enc, mask).unsqueeze(1)
        w = torch.bmm(a, enc.permute(1, 0, 2)).permute(1, 0, 2)
        o, hid = self.rnn(torch.cat((emb, w), dim=2), hid.unsqueeze(0))
        assert (o == hid).all()
        return self.out(torch.cat((o.squeeze(0), w.squeeze(0), emb.squeeze(0)), dim=1)), hid.squeeze(0), a.squeeze(1)


def seq2seq():
    enc, dec = Enc(20, 6, 8), Dec(20, 6, 8)
    opt = optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=1e-2)
    crit = nn.CrossEntropyLoss(ignore_index=0)
    lens = torch.tensor([5, 3, 4])
    src = ints(19, 5, 3) + 1
    trg = ints(19, 6, 3, seed=1) + 1
    for j, length in enumerate(lens):
        src[length:, j] = 0
        trg[length + 1 :, j] = 0
    rnd = random.Random(0)

    def step(i):
        opt.zero_grad()
        eo, h = enc(src, lens)
        mask = (src != 0).permute(1, 0)
        outputs = torch.zeros(6, 3, 20)
        inp = trg[0, :]
        for t in range(1, 6):
            o, h, _ = dec(inp, h, eo, mask)
            outputs[t] = o
            teacher = rnd.random() < 0.5
            top1 = o.argmax(1)
            inp = trg[t] if teacher else top1
        loss = crit(outputs[1:].view(-1, 20), trg[1:].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(enc.parameters()) + list(dec.parameters()), 1)
        opt.step()
        return loss.item()

    return [enc, dec], step


Transition = collections.namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory:
    def __init__(self, cap):
        self.memory = collections.deque(maxlen=cap)
        self.r = random.Random(0)

    def push(self, *a):
        self.memory.append(Transition(*a))

    def sample(self, n):
        return self.r.sample(list(self.memory), n)

    def __len__(self):
        return len(self.memory)


def dqn():
    def mk():
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    pol, tgt = mk(), mk()
    tgt.load_state_dict(pol.state_dict())
    tgt.eval()
    opt = optim.AdamW(pol.parameters(), lr=1e-2, amsgrad=True)
    mem = ReplayMemory(50)
    g = np.random.default_rng(0)
    for k in range(30):
        mem.push(
            torch.tensor(g.normal(size=(1, 4)), dtype=torch.float32),
            torch.tensor([[int(g.integers(2))]], dtype=torch.long),
            None if k % 7 == 0 else torch.tensor(g.normal(size=(1, 4)), dtype=torch.float32),
            torch.tensor([float(g.normal())]),
        )

    def step(i):
        b = Transition(*zip(*mem.sample(12), strict=True))
        mask = torch.tensor(tuple(map(lambda s: s is not None, b.next_state)), dtype=torch.bool)
        nf = torch.cat([s for s in b.next_state if s is not None])
        s, a, r = torch.cat(b.state), torch.cat(b.action), torch.cat(b.reward)
        q = pol(s).gather(1, a)
        nv = torch.zeros(12)
        with torch.no_grad():
            nv[mask] = tgt(nf).max(1).values
        exp = (nv * 0.99) + r
        loss = nn.SmoothL1Loss()(q, exp.unsqueeze(1))
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(pol.parameters(), 100)
        opt.step()
        td, pd = tgt.state_dict(), pol.state_dict()
        for k in pd:
            td[k] = pd[k] * 0.1 + td[k] * 0.9
        tgt.load_state_dict(td)
        return loss.item()

    return [pol, tgt], step


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.FloatTensor(i, o))
        self.bias = nn.Parameter(torch.FloatTensor(o))
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, x, ei, deg):
        s = torch.mm(x, self.weight)
        src, dst = ei
        n = deg[src].pow(-0.5) * deg[dst].pow(-0.5)
        msg = s.index_select(0, src) * n.unsqueeze(-1)
        out = torch.zeros(x.size(0), s.size(1), dtype=s.dtype).index_add_(0, dst, msg)
        return out + self.bias

    def __repr__(self):
        return self.__class__.__name__


def gcn():
    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.g1 = GCNLayer(5, 8)
            self.g2 = GCNLayer(8, 3)
            self.att = nn.Parameter(torch.ones(6))

        def forward(self, x, ei, deg):
            x = F.relu(self.g1(x, ei, deg))
            x = F.dropout(x, 0.0, training=self.training)
            x = self.g2(x, ei, deg)
            e = F.leaky_relu((x[ei[0]] * x[ei[1]]).sum(-1), 0.2)
            mx = torch.full((10,), float("-inf")).scatter_reduce(0, ei[1], e.detach(), "amax", include_self=False)
            a = torch.exp(e - mx[ei[1]])
            den = torch.zeros(10).scatter_add(0, ei[1], a)
            a = a / (den[ei[1]] + 1e-16)
            return F.log_softmax(
                torch.zeros(10, 3).scatter_add(0, ei[1].unsqueeze(-1).expand(-1, 3), a.unsqueeze(-1) * x[ei[0]]), dim=1
            )

    m = GCN()
    opt = optim.Adam(m.parameters(), lr=0.01, weight_decay=5e-4)
    x = fx(10, 5)
    ei = ints(10, 2, 24)
    ei = torch.cat([ei, torch.arange(10).repeat(2, 1)], 1)
    deg = torch.zeros(10).scatter_add_(0, ei[1], torch.ones(ei.size(1)))
    y = ints(3, 10)
    idx = torch.LongTensor(range(6))

    def step(i):
        m.train()
        opt.zero_grad()
        out = m(x, ei, deg)
        loss = F.nll_loss(out[idx], y[idx])
        loss.backward()
        opt.step()
        return loss.item() + out.max(1)[1].type_as(y).eq(y).double().sum().item() * 1e-5

    return [m], step


class MoE(nn.Module):
    def __init__(self, d=8, n=4, k=2):
        super().__init__()
        self.k, self.n = k, n
        self.gate = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(d, 16), nn.SiLU(), nn.Linear(16, d)) for _ in range(n)])

    def forward(self, x):
        b, s, d = x.shape
        xf = x.view(-1, d)
        lo = self.gate(xf)
        rw = F.softmax(lo, dim=1, dtype=torch.float)
        rw, sel = torch.topk(rw, self.k, dim=-1)
        rw /= rw.sum(dim=-1, keepdim=True)
        rw = rw.to(xf.dtype)
        out = torch.zeros((b * s, d), dtype=xf.dtype)
        em = F.one_hot(sel, num_classes=self.n).permute(2, 1, 0)
        for e in range(self.n):
            idx, top = torch.where(em[e])
            if top.shape[0] == 0:
                continue
            cur = xf[None, top].reshape(-1, d)
            out.index_add_(0, top, (self.experts[e](cur) * rw[top, idx, None]).to(xf.dtype))
        p = F.softmax(lo, -1)
        aux = (em.float().mean(dim=(1, 2)) * p.mean(0)).sum() * self.n
        return out.reshape(b, s, d), aux


def moe():
    m = MoE()
    head = nn.Linear(8, 3)
    opt = optim.SGD(list(m.parameters()) + list(head.parameters()), lr=0.1, momentum=0.9, nesterov=True)
    x, y = fx(2, 6, 8), ints(3, 2, 6)

    def step(i):
        o, aux = m(x)
        loss = F.cross_entropy(head(o).permute(0, 2, 1), y) + 0.01 * aux
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()

    return [m, head], step


class LoRA(nn.Module):
    def __init__(self, i, o, rank=2, alpha=4):
        super().__init__()
        self.A = nn.Parameter(torch.zeros((rank, o)))
        self.B = nn.Parameter(torch.zeros((i, rank)))
        nn.init.normal_(self.A, mean=0, std=1)
        self.scale = alpha / rank
        self.enabled = True

    def forward(self, W):
        return W + torch.matmul(self.B, self.A).view(W.shape) * self.scale if self.enabled else W


def lora():
    m = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 4))
    for layer in m:
        if isinstance(layer, nn.Linear):
            parametrize.register_parametrization(layer, "weight", LoRA(*layer.weight.shape))
    for n, p in m.named_parameters():
        if "parametrizations.weight.0" not in n:
            p.requires_grad = False
    opt = optim.Adam(filter(lambda p: p.requires_grad, m.parameters()), lr=1e-1)
    x, y = fx(8, 6), ints(4, 8)

    def step(i):
        opt.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        opt.step()
        if i == 3:
            with parametrize.cached():
                return m(x).sum().item()
        return loss.item()

    return [m], step


def swa():
    m = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    ema = AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    sw = AveragedModel(m)
    opt = optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    sch = OneCycleLR(opt, max_lr=0.2, total_steps=10)
    swl = SWALR(opt, swa_lr=0.05)
    x, y = fx(16, 5), fx(16, 1, seed=1)

    def step(i):
        opt.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        opt.step()
        ema.update_parameters(m)
        if i >= 3:
            sw.update_parameters(m)
            swl.step()
        else:
            sch.step()
        return loss.item() + opt.param_groups[0]["lr"] * 1e-2

    return [m], step


def resume():
    def build():
        torch.manual_seed(3)
        m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        opt = optim.NAdam(m.parameters(), lr=1e-2)
        sch = CosineAnnealingWarmRestarts(opt, T_0=2)
        return m, opt, sch

    st = dict(zip("mos", build(), strict=True))
    m0 = st["m"]
    x, y = fx(8, 4), ints(2, 8)

    def step(i):
        m, opt, sch = st["m"], st["o"], st["s"]
        for k, (bx, by) in enumerate(zip(x.chunk(4), y.chunk(4), strict=True)):
            ctx = getattr(m, "no_sync", contextlib.nullcontext) if k < 3 else contextlib.nullcontext
            with ctx():
                loss = F.cross_entropy(m(bx), by) / 4
                loss.backward()
        opt.step()
        sch.step()
        opt.zero_grad()
        if i == 2:
            path = os.path.join(tempfile.mkdtemp(), "ckpt.pt")
            torch.save(
                {
                    "epoch": i,
                    "model_state_dict": m.state_dict(),
                    "optimizer_state_dict": opt.state_dict(),
                    "sched": sch.state_dict(),
                    "rng": torch.get_rng_state(),
                    "loss": loss,
                },
                path,
            )
            c = torch.load(path, map_location="cpu", weights_only=True)
            n = build()
            n[0].load_state_dict(c["model_state_dict"])
            n[1].load_state_dict(c["optimizer_state_dict"])
            n[2].load_state_dict(c["sched"])
            torch.set_rng_state(c["rng"])
            st.update(zip("mos", n, strict=True))
        return loss.item() * 4 + opt.param_groups[0]["lr"]

    return [m0], step


def wgangp():
    G = nn.Sequential(
        nn.Linear(4, 16),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Linear(16, 16),
        nn.BatchNorm1d(16, 0.8),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Linear(16, 6),
        nn.Tanh(),
    )
    D = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1))
    og = optim.Adam(G.parameters(), 1e-2, betas=(0.5, 0.9))
    od = optim.Adam(D.parameters(), 1e-2, betas=(0.5, 0.9))
    real, z, al = fx(8, 6), fx(8, 4, seed=1), torch.sigmoid(fx(8, 1, seed=2))

    def gp(D, real, fake):
        inter = (al * real + ((1 - al) * fake)).requires_grad_(True)
        d = D(inter)
        f = torch.ones(8, 1)
        g = torch.autograd.grad(
            outputs=d, inputs=inter, grad_outputs=f, create_graph=True, retain_graph=True, only_inputs=True
        )[0]
        g = g.view(g.size(0), -1)
        return ((g.norm(2, dim=1) - 1) ** 2).mean()

    def step(i):
        od.zero_grad()
        fake = G(z)
        dl = -torch.mean(D(real)) + torch.mean(D(fake)) + 10 * gp(D, real.data, fake.data)
        dl.backward()
        od.step()
        og.zero_grad()
        gl = -torch.mean(D(G(z)))
        gl.backward()
        og.step()
        return dl.item() + gl.item()

    return [G, D], step


PROGRAMS = [dcgan, unet, ddpm, seq2seq, dqn, gcn, moe, lora, swa, resume, wgangp]
PROGRAMS += [char_rnn, quantile_ensemble, vqvae, adapted_decoder, glow, neural_ode]
PROGRAMS += [quantized_student, parametrized, sharpness_aware, numpy_extension, exported_teacher]
PROGRAMS += [windowed_decoder, crf_tagger]


def main(mode, folder):
    torch.manual_seed(0)
    for program in PROGRAMS:
        models, step = program()[:2]
        path = os.path.join(folder, f"{program.__name__}.pt")
        if mode == "save":
            torch.save([model.state_dict() for model in models], path)
        else:
            for model, state in zip(models, torch.load(path), strict=True):
                model.load_state_dict(state)
        if mode == "compiled":
            step = torch.compile(step)
        print(program.__name__, *(float(step(i)) for i in range(5)))


if __name__ == "__main__":
    main(*sys.argv[1:])
