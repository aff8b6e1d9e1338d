"""Results that lie in the order of their operands: what is asked of their memory, and written to parts of it."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


def spread(x):
    """Every other element of twice as many along the last dimension."""
    return torch.stack([x, x], -1).flatten(-2)[..., ::2]


def layouts(n, m):
    return [ramp(n, m), ramp(m, n).t(), spread(ramp(n, m)), ramp(1, m).expand(n, m), ramp(n, 1).expand(n, m)]


@case
def windows_of_turned_results(jit):
    def read(x):
        y = x * 2
        return y.as_strided((3,), (1,), 2), y.as_strided((2, 2), (1, 3))

    def written(x):
        y = x * 2
        y.as_strided((3,), (1,), 2).add_(100)
        return y, y.t() + 1

    def scattered(x):
        return torch.as_strided_scatter(x + 1, x.new_zeros(2, 2), (2, 2), (1, 3), 1)

    for function in (read, written, scattered):
        f = jit(function)
        for n, m in ((4, 3), (3, 5)):
            for x in layouts(n, m):
                yield f(x)


@case
def gradients_of_windows_of_turned_results(jit):
    f = jit(lambda x: (x.sin() * 2).as_strided((3, 2), (1, 3), 1).exp())
    for x in (ramp(4, 3), ramp(3, 4).t(), ramp(5, 4).t()):
        x.requires_grad_()
        f(x).sum().backward()
        yield x.grad


@case
def parts_replaced_after_the_whole(jit):
    def by_steps(x):
        x.mul_(2)
        x[::2] = 1

    def at_indices(x, i):
        x.clamp_(0, 2).index_fill_(0, i, 7)

    f, g = jit(by_steps), jit(at_indices)
    for n in (4, 7):
        for x in (ramp(n), spread(ramp(n)), ramp(3, n).t(), spread(ramp(n, 2))):
            f(x)
            g(x, torch.tensor([1, 3]))
            yield x


@case
def parts_of_a_written_diagonal(jit):
    def f(x):
        diagonal = x.diagonal(1)
        most = diagonal[:-1]
        diagonal.mul_(2)
        return most[1:], most, diagonal

    f = jit(f)
    for n in (4, 5):
        for x in (ramp(n, n), ramp(n, n).t(), spread(ramp(n, n))):
            found = f(x)
            yield found, x
            found[0].add_(1)
            yield found, x


@case
def a_view_of_all_sizes_that_are_learned_later(jit):
    def f(x):
        turned = x.permute(0, 2, 1)
        windows = turned.unfold(-1, 2, 1)
        whole = turned.squeeze()
        shown = windows.view_as(windows)
        return turned, whole, shown, shown.sum()

    f = jit(f)
    for x in (ramp(2, 2, 2).permute(2, 1, 0), ramp(2, 2, 2), ramp(3, 2, 2).permute(2, 1, 0)):
        yield f(x)


@case
def parts_of_complex_numbers_of_one_column(jit):
    f = jit(lambda x: torch.polar(x.abs(), x)[:, ::2].expand(2, 2))
    for x in (ramp(2, 2), ramp(2, 1), ramp(2, 2).t()):
        yield f(x)


@case(outcome=FELL_BACK)
def views_overwritten_before_a_gradient_reads_them(jit):
    views = {"row": lambda y: y[0], "turned": lambda y: y.t(), "part": lambda y: y[1:], "all": lambda y: y.view(-1)}
    for view in views.values():
        for op in (torch.sin, torch.square, lambda v: v * v):
            def work(x, view=view, op=op):
                seen = view(x * 2)
                result = op(seen)
                seen.mul_(2)
                return result

            f = jit(work)
            x = ramp(3, 4).requires_grad_()
            result = f(x)
            try:
                result.sum().backward()
            except RuntimeError as error:
                yield "modified by an inplace operation" in str(error), result
            yield x.grad


@case(outcome=FELL_BACK)
def strides_along_dimensions_of_one_element(jit):
    ways = lambda x: x.diagonal().stride(), lambda x: x.T.stride(), lambda x: (x * 2).stride(-1)
    for way in (*ways, lambda x: x.expand(3, -1).stride()):
        f = jit(way)
        for x in (torch.ones(3, 1), torch.ones(1, 6)[:, 1::2].T, torch.ones(3, 2)[:, :1]):
            yield f(x)


@case
def strides_along_longer_dimensions(jit):
    f = jit(lambda x: (x.stride(0), (x * 2).T.stride(-1)))
    for x in (torch.ones(3, 1), torch.ones(4, 1), torch.ones(3, 2)[:, :1]):
        yield f(x)
