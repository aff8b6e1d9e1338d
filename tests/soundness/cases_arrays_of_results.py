"""Arrays over tensors that the function computes: returned, kept, printed and written."""

from __future__ import annotations

import numpy as np

import eagerjit as torch
from tests.soundness.framework import attempt, case


def ramp(n):
    return torch.arange(float(n))


@case(versions=1)
def an_array_of_a_result(jit):
    kept = []

    @jit
    def f(x):
        y = x * 2
        kept.append(y.detach().cpu().numpy())
        return y.numpy(), y[1:].numpy(), y

    for n in range(3, 7):
        array, part, tensor = f(ramp(n))
        array[1] = 50.0
        yield array, part, tensor, array is part, kept


@case
def arrays_that_are_written_later(jit):
    @jit
    def f(x):
        y = x * 2
        array, other = y.numpy(), y.numpy()
        y.add_(1)
        array[0] = 7.0
        return array, y, other is array, torch.from_numpy(array) * 2

    for n in range(3, 6):
        yield f(ramp(n))


@case
def arrays_of_arguments_and_weights(jit):
    weight = torch.ones(2, 3).requires_grad_()

    @jit
    def f(x):
        x.mul_(2)
        return x.numpy(), weight.detach().numpy(), (x + 1).t().numpy(), weight.sum()

    for n in range(2, 5):
        x = torch.ones(n, 3) * n
        found = f(x)
        found[0][0, 0] = 5.0
        with torch.no_grad():
            weight.add_(1)
        yield found, x, attempt(lambda: weight.numpy())


@case
def what_numpy_computes_of_arguments(jit):
    @jit
    def f(x):
        array = x.numpy()
        return array.mean(), np.sort(array)[0], x * float(array.max()), array.shape

    for n in range(3, 6):
        yield f(ramp(n) * -n)


@case
def arrays_in_containers(jit):
    class Log:
        def __init__(self):
            self.rows, self.last = {}, None

    log = Log()

    @jit
    def f(x):
        y = torch.softmax(x, 0)
        log.rows["y"] = y.numpy()
        log.last = (y.numpy(), y.argmax().numpy())
        return [y.numpy(), {"again": y}]

    for n in range(3, 7):
        yield f(ramp(n)), log


@case(versions=1)
def arithmetic_of_results_is_returned(jit):
    kept = {}

    @jit
    def f(x):
        scaled = (x * 2).numpy() * 255
        kept["shifted"] = x.numpy() * 2 + 1
        return scaled, scaled[0], scaled.T, scaled - scaled[1], torch.from_numpy(kept["shifted"])

    for i in range(3):
        scaled, *parts, tensor = f(torch.arange(6.0).reshape(3, 2) * i)
        scaled += 1.0
        kept["shifted"] += 2.0
        yield scaled, parts, tensor, kept
