"""Views that compiled code has no strides for: windows, parts of complex numbers, views of what the call made."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case
def windows_of_what_was_made(jit):
    f = jit(lambda x: (x + 1).unfold(0, 2, 1))
    g = jit(lambda x: (x * 2).as_strided((2, 2), (1, 1)))
    h = jit(lambda x: (x @ x.mT).diagonal())
    for n in (4, 5):
        for function, x in ((f, ramp(n)), (g, ramp(n)), (h, ramp(n, n))):
            x.requires_grad_()
            r = function(x)
            (r * r).sum().backward()
            yield r, x.grad, r._version
            r.detach()[0] = 7.0
            yield r, r._version


@case
def windows_of_arguments(jit):
    f = jit(lambda x: x.unfold(0, 2, 1))
    g = jit(lambda x: (x.unfold(0, 2, 1), x.unfold(0, 3, 2)))
    for n in (4, 6):
        for function in (f, g):
            x = ramp(n)
            found = function(x)
            yield found, x, x._version
            x[1] = 9.0
            yield found


@case
def parts_of_complex_arguments(jit):
    f = jit(torch.view_as_complex)
    g = jit(lambda z: torch.view_as_real(z).add_(1))
    h = jit(lambda z: z.real.mul_(2))
    for n in (3, 4):
        z = torch.complex(ramp(n), ramp(n))
        for function, x in ((f, ramp(n, 2)), (g, z), (h, z.clone())):
            r = function(x)
            yield r, x, x._version
            r[0] = 9.0
            yield r, x, x._version


@case
def windows_that_are_written(jit):
    @jit
    def of_what_was_made(x):
        y = x * 1
        windows = y.unfold(0, 2, 2)
        windows.add_(1)
        y[0] = 9
        return windows

    @jit
    def of_the_argument(x):
        windows = x.unfold(0, 2, 2)
        windows.mul_(3)
        x[1] = 8
        return windows

    for n in (4, 6):
        for f in (of_what_was_made, of_the_argument):
            x = ramp(n)
            r = f(x)
            yield r, r._version, x._version
            r[0, 0] = 5
            yield r, x


@case
def windows_beside_another_view(jit):
    f = jit(lambda x: (lambda y: (y.unfold(0, 2, 1), y[1:]))(x * 2))
    for n in (4, 5):
        windows, rest = f(ramp(n))
        yield windows, rest
        rest.add_(1)
        yield windows, rest, windows._version


@case
def strides_of_dimensions_of_one(jit):
    functions = [
        lambda x: (x * 2).transpose(0, 1),
        lambda x: (x + 1).permute(1, 2, 0),
        lambda x: (x + 1)[:, None].transpose(0, 1).squeeze(0),
        lambda x: (x + 1).transpose(0, 1).reshape(1, x.shape[1], -1),
    ]
    for f in map(jit, functions):
        for sizes in ((2, 3, 4), (5, 1, 4), (1, 5, 4), (5, 1, 1)):
            yield f(ramp(*sizes))


@case
def parts_of_complex_numbers_are_assigned(jit):
    @jit
    def of_a_copy(z):
        w = z * 2
        w.real = w.imag * 2
        w.imag += 1
        w.imag[0] = 7.0
        return w.abs(), w

    @jit
    def of_the_argument(z):
        z.real = z.imag
        z.imag -= 1
        return z.real + 1

    for n in (3, 4):
        z = torch.complex(ramp(n), ramp(n) + 1)
        yield of_the_argument(z), z, z._version
        z.requires_grad_()
        size, w = of_a_copy(z)
        size.sum().backward()
        yield w, z.grad, w._version


@case
def views_through_data_that_get_another_shape(jit):
    @jit
    def f(x, w):
        w.grad.data.transpose_(0, 1).mul_(2)
        turned = x.data
        turned.t_()
        turned[0] += 1.0
        x += 1.0
        deeper = turned.data.unsqueeze_(0)
        deeper.swapaxes_(0, 1).squeeze_()
        deeper += w.detach().t_()
        return turned, deeper, x * 2, w.grad.data.unsqueeze_(-1)

    for i in range(3):
        x = torch.arange(6.0).reshape(2, 3) + i
        w = torch.ones(2, 3, requires_grad=True)
        (w * x).sum().backward()
        turned, deeper, doubled, column = f(x, w)
        turned.mul_(10)
        column.add_(1)
        yield x, turned, deeper, doubled, w.grad, turned.stride(), turned.shape, x._version, w.grad._version


@case
def views_with_gradients_that_get_another_shape(jit):
    @jit
    def f(x, w):
        y = x * w
        row, rest = y[0], y[1:].detach()
        row.unsqueeze_(0)
        row *= w.sum()
        rest.t_()
        kept = row * 1.0
        row.squeeze_().mul_(3)
        return y, row, kept, rest.sum()

    for i in range(3):
        x = (torch.arange(6.0).reshape(2, 3) + i).requires_grad_()
        w = torch.tensor([1.0, -2.0, i], requires_grad=True)
        y, row, kept, total = f(x, w)
        (y * y).sum().add(row.sum() * kept.sum()).backward()
        yield y, row, kept, total, x.grad, w.grad, row.shape, row._version


@case
def views_of_another_shape_that_live_on(jit):
    class Holder:
        pass

    holder = Holder()

    @jit
    def f(x):
        holder.view = x.data.t_()
        holder.rows = [x.detach().unsqueeze_(0)]
        return holder.view + 1

    for i in range(3):
        x = torch.arange(6.0).reshape(2, 3) + i
        result = f(x)
        x += 1
        yield result, holder.view, holder.rows
        holder.rows[0].zero_()
        yield x, holder.view


@case(outcome=FELL_BACK)
def values_with_a_gradient_overwritten_through_a_turned_view(jit):
    @jit
    def f(x):
        y = x.exp()
        y.data.t_().mul_(2)
        return y

    for i in range(2):
        x = (torch.arange(6.0).reshape(2, 3) / 6 + i).requires_grad_()
        y = f(x)
        y.sum().backward()
        yield y, x.grad


def numbers(*sizes):
    return torch.complex(ramp(*sizes), ramp(*sizes) * 2)


@case
def copies_of_views_without_strides(jit):
    for view, x in (
        (lambda x: x.real, numbers(4, 6)), (lambda x: x.t().imag, numbers(4, 6)), (torch.diagonal, ramp(4, 6)),
        (lambda x: x.unfold(1, 2, 2), ramp(4, 6)), (lambda x: x.unfold(0, 3, 1)[:, 1:], ramp(4, 6)),
        (lambda x: torch.view_as_real(x.t()), numbers(4, 6)),
        (lambda x: torch.view_as_complex(x.view(4, 3, 2)).t(), ramp(4, 6)),
        (lambda x: x.t().view(torch.int32), ramp(4, 6)), (lambda x: x.real[:1].expand(3, 6), numbers(4, 6)),
    ):  # fmt: skip
        for change in (torch.Tensor.contiguous, lambda v: v.reshape(-1), lambda v: v.unsqueeze(0).contiguous()):
            f = jit(lambda x, view=view, change=change: change(view(x)))
            g = jit(lambda x, view=view, change=change: change(view(x * 1)))
            for given in (x.clone(), x[:, :4].clone()):
                yield attempt(f, given), given
                found = attempt(g, given)
                if isinstance(found, torch.Tensor):
                    found.zero_()
                yield found, given


@case
def writes_to_copies_of_views_without_strides(jit):
    views = (lambda x: x.real, numbers(3, 4)), (torch.diagonal, ramp(3, 4)), (lambda x: x.t().imag, numbers(3))
    for view, x in views:
        f = jit(lambda x, view=view: view(x).contiguous())
        for _ in range(2):
            f(x).fill_(5.0)
            yield x


@case
def layouts_of_views_without_strides(jit):
    def told(v):
        return v.stride(), v.is_contiguous()

    f = jit(lambda x: (told(x.diagonal()), told(x.unfold(1, 2, 2)), told(x.unfold(0, 2, 1)[1:].movedim(0, -1))))
    g = jit(lambda x: (told(x.real), told(x.t().imag), told(torch.view_as_real(x.t())), told(x.real[:1].expand(3, 6))))
    h = jit(lambda x: told((x * 1).as_strided((2, 3), (1, 2))))
    for n in (4, 5):
        yield f(ramp(n, 6)), g(numbers(n, 6)), h(ramp(n, 6))


@case
def strides_given_to_what_was_made(jit):
    def f(x):
        made = x * 1
        made.as_strided_((2, 2), (1, 2), 1)
        return made, made + 1

    f = jit(f)
    for n in (3, 4):
        found = f(ramp(n, n))
        found[0].mul_(3)
        yield found


@case(outcome=FELL_BACK)
def data_of_views_without_strides(jit):
    f = jit(lambda x: x.diagonal().data)
    x = ramp(3, 3)
    for _ in range(2):
        f(x).fill_(7.0)
        yield x


@case
def rows_of_inner_dimensions_lie_in_order(jit):
    places = torch.tensor([2, 0])
    f = jit(lambda x, y: (x.index_copy(1, places, y), x.index_add(1, places, y), x.index_fill(1, places, 2.0)))
    g = jit(lambda x, y: torch.diagonal_scatter(x, y, 1, 1, 2))
    for n in (3, 5):
        yield f(ramp(n, 4), ramp(n, 2) + 1), g(ramp(2, n, n), ramp(2, n - 1))


@case
def gradients_of_parts_lie_in_order(jit):
    f = jit(lambda x, y: torch.autograd.grad(torch.complex(x, y).abs().sum(), (x, y)))
    for n in (3, 5):
        yield f(ramp(n).requires_grad_(), torch.tensor(0.5).requires_grad_())


@case
def made_tensors_turned_in_place(jit):
    @jit
    def f(x):
        y, z = x * 2, x * 3
        rows = y.t_(), y[0], list(y.stride()), y.is_contiguous(), y.contiguous()
        return rows, (x * 4).transpose_(0, 1).mul_(2), z.unsqueeze_(1).swapaxes_(0, 2), z.is_contiguous()

    for rows in (2, 3, 4):
        turned, scaled, third, contiguous = f(torch.arange(6.0 * rows).reshape(rows, 6))
        turned[0].zero_()
        yield turned, scaled, list(scaled.stride()), third, list(third.stride()), contiguous


@case
def windows_of_no_integers(jit):
    for size, step in ((True, 1), (1.0, 1), (2, 2.0), (2, 1)):
        for function in (torch.Tensor.unfold, torch.unfold_copy):
            yield attempt(jit(lambda x, f=function, n=size, s=step: f(x, 0, n, s)), torch.arange(6.0).reshape(3, 2))


@case
def expansions_that_repeat_nothing_are_written(jit):
    @jit
    def in_front(x):
        placed = torch.eye(3).expand(*x.shape[:-2], 3, 3).contiguous()
        placed[..., :2, 2:] = x[..., :2, 2:] * 2
        return placed

    @jit
    def of_argument(x, w):
        y = x * 1
        y.expand(x.shape[0], 3, 3).mul_(w)[0, 1] += w[0]
        return y, x.expand(1, 1, 3, 3).add_(1)

    for batch in (1, 2, 1):
        x, w = torch.ones(batch, 3, 3), torch.full((3, 3), 2.0, requires_grad=True)
        yield in_front(x * w)
        attempt(in_front, x[:0])
        if result := attempt(of_argument, x, w):
            result[0].sum().backward()
        yield x, w.grad


@case(versions=6)
def shapes_changed_in_place_are_counted(jit):
    w = torch.ones(3, 4)
    made = jit(lambda x: [(x * 2).t_().swapaxes_(0, 1)])
    of_a_part = jit(lambda x: (x[1:].t_(), x * 1))
    apart = jit(lambda x: (x.detach().unsqueeze_(0), x.data.t_(), w[0].unsqueeze_(-1)))
    written = jit(lambda x: (x.add_(1), x[1:].squeeze_().mul_(2)))
    for x in (torch.arange(12.0).reshape(3, 4), torch.ones(2, 5)):
        for f in (made, of_a_part, apart, written):
            results = f(x)
            yield [t._version for t in (*results, x, w)], results


@case(outcome=FELL_BACK)
def what_a_gradient_reads_is_turned(jit):
    f = jit(lambda x: ((y := x * 2) * y, y.t_())[0].sum())
    for n in (2, 3):
        x = torch.ones(n, 3, requires_grad=True)
        yield attempt(f(x).backward), x.grad


@case
def views_kept_and_dropped_while_their_base_is_written(jit):
    """A view that anything still holds has the history of what was written since: a list, a generator, a closure, an
    object's attribute, a view of it, a call's argument."""

    class Holder:
        part = None

    def rows(out):
        for row in range(3):
            view = out[row]
            yield row, view
            view.mul_(2)

    def written(out, view, x):
        out[0] = x * 5
        return view.sum() * 2

    @jit
    def f(x):
        out, listed, holder = torch.zeros(4, 2), [], Holder()
        for row, view in rows(out):
            out[row] = x * (row + 1)
            listed += [out[row]] if row else []
            out[row] = out[row] * 3 + view
        holder.part = out[3]
        within = out[1:][0]
        last = (lambda view: lambda: view * 2)(out[2])
        out[1:] = x * x
        total = written(out, out[0], x)
        return total + sum(v.sum() for v in listed) + holder.part.sum() * 3 + within.sum() * 5 + last().sum(), out

    for n in (1.0, 2.0):
        x = torch.tensor([n, 3.0], requires_grad=True)
        total, out = f(x)
        (total + out.prod(0).sum()).backward()
        yield total, out, x.grad


@case
def rows_read_by_products_before_others_are_written(jit):
    """As solvers of differential equations keep their stages."""

    def stages(y, weights):
        k = y.new_empty((3, *y.shape))
        k[0] = -0.5 * y
        for i in (1, 2):
            step = torch.einsum("j,jbf->bf", weights[:i], k[:i])
            k[i] = torch.tensordot(weights[:1, None], k[:1], 1)[0] - 0.5 * (y + step)
        return torch.einsum("j,jbf->bf", weights, k)

    f = jit(stages)
    for i in (1, 2, 3):
        y, weights = torch.linspace(1, 2, 4).reshape(2, 2).requires_grad_(), torch.tensor([0.2, 0.3, 0.5 * i])
        f(y, weights).square().sum().backward()
        yield y.grad
