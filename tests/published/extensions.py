"""What lies outside of the library: a layer that NumPy computes, and a teacher that is an exported program."""

import io

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from inputs import fx
from numpy.lib.stride_tricks import sliding_window_view
from torch.autograd import Function


class ScipyConv2dFunction(Function):
    @staticmethod
    def forward(ctx, input, filter, bias):
        input, filter, bias = input.detach(), filter.detach(), bias.detach()
        windows = sliding_window_view(input.numpy(), filter.shape)
        result = np.einsum("ijkl,kl->ij", windows, filter.numpy())
        result += bias.numpy()
        ctx.save_for_backward(input, filter)
        return torch.as_tensor(result, dtype=input.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        grad_output = grad_output.detach()
        input, filter = ctx.saved_tensors
        grad_output = grad_output.numpy()
        grad_bias = np.sum(grad_output, keepdims=True)
        padded = np.pad(grad_output, filter.shape[0] - 1)
        grad_input = np.einsum("ijkl,kl->ij", sliding_window_view(padded, filter.shape), filter.numpy()[::-1, ::-1])
        grad_filter = np.einsum("ijkl,kl->ij", sliding_window_view(input.numpy(), grad_output.shape), grad_output)
        return torch.from_numpy(grad_input), torch.from_numpy(grad_filter), torch.from_numpy(grad_bias)


class ScipyConv2d(nn.Module):
    def __init__(self, filter_width, filter_height):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(filter_width, filter_height))
        self.bias = nn.Parameter(torch.randn(1, 1))

    def forward(self, input):
        return ScipyConv2dFunction.apply(input, self.filter, self.bias)


def numpy_extension():
    module = nn.Sequential(ScipyConv2d(3, 3), nn.Tanh(), ScipyConv2d(2, 2))
    optimizer = optim.SGD(module.parameters(), lr=0.05)

    def step(i):
        optimizer.zero_grad()
        loss = module(fx(10, 10, seed=i)).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return [module], step


class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, width, 3), nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


def exported_teacher():
    teacher, student = Classifier(8), Classifier(3)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(teacher.eval(), (fx(4, 1, 8, 8),), dynamic_shapes=({0: batch},))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    optimizer = optim.AdamW(student.parameters(), lr=1e-2)

    def step(i):
        x = fx(6 + i, 1, 8, 8, seed=i)
        loaded.load_state_dict(teacher.state_dict())
        with torch.no_grad():
            targets = F.softmax(loaded(x) / 2, dim=-1)
        optimizer.zero_grad()
        loss = F.kl_div(F.log_softmax(student(x) / 2, dim=-1), targets, reduction="batchmean") * 4
        loss.backward()
        optimizer.step()
        return loss

    return [teacher, student], step
