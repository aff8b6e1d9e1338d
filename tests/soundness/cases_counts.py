"""Sizes that depend on values: masks, positions, different elements, counts, and operations that NumPy computes."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import attempt, case


def numbers(*sizes):
    torch.manual_seed(3)
    return [torch.randn(n) for n in sizes]


@case(versions=1)
def a_mask_selects(jit):
    f = jit(lambda x: x[x > 0] * 2)
    for x in numbers(10, 12, 33):
        x.requires_grad_()
        f(x).sum().backward()
        yield x.grad


@case(versions=1)
def two_masks_that_happen_to_select_as_many(jit):
    f = jit(lambda x, a, b: (x[a] * x[b]).exp())
    x, places = torch.arange(20.0).requires_grad_(), torch.arange(20)
    for first, second in ((5, 5), (6, 6), (5, 7), (7, 5), (8, 8)):
        out = attempt(f, x, places < first, places < second)
        yield out
        if isinstance(out, torch.Tensor):
            out.sum().backward()
            yield x.grad


@case(versions=1)
def a_count_that_happens_to_be_a_size_of_an_argument(jit):
    f = jit(lambda x, places: torch.bincount(places, minlength=x.shape[0]).clamp(min=1) * x)
    for x in numbers(10, 10, 12, 33):
        x.requires_grad_()
        f(x, torch.arange(30) % 7).sum().backward()
        yield x.grad


@case(versions=3)
def a_mask_that_selects_one_or_nothing(jit):
    f = jit(lambda x, least: x[x >= least].exp())
    x = torch.arange(8.0).requires_grad_()
    for least in (3.0, 7.0, 9.0, -1.0, 7.0):
        f(x, least).sum().backward()
        yield x.grad


@case(versions=1)
def a_mask_of_what_a_mask_selected(jit):
    def f(x):
        kept = x[x > 0]
        above = kept[kept > kept.mean()]
        return above - above.mean(), torch.arange(above.numel()), kept.shape[0] * above.shape[0]

    f = jit(f)
    for x in numbers(20, 30, 40):
        f(x)


@case(versions=1)
def a_mask_assigned(jit):
    def f(x):
        y = x.clone()
        y[y > 0] = y[y > 0] * 2 + 1
        return y

    f = jit(f)
    for x in numbers(20, 30):
        x.requires_grad_()
        f(x).exp().sum().backward()
        yield x.grad


@case(versions=1)
def a_mask_written_in_the_argument(jit):
    def f(x):
        mask = x > 0
        x.mul_(2)
        x[mask] = x[mask].exp()
        return mask.sum()

    f = jit(f)
    for x in numbers(20, 30):
        f(x)
        f(x)


@case(versions=1)
def positions_of_elements(jit):
    f = jit(lambda x: (x.nonzero(), (x > 0).nonzero(as_tuple=True), torch.argwhere(x > 0).float().mean()))
    for x in numbers(24, 36):
        f(x.reshape(4, -1))


@case(versions=2)
def a_branch_on_a_count(jit):
    def f(x):
        count = x[x > 0].numel()
        return x + count if count > 10 else x - 1

    f = jit(f)
    for x in numbers(10, 12, 60, 70, 14):
        f(x)


@case(versions=1)
def different_elements(jit):
    f = jit(lambda x: x.round().unique(return_inverse=True, return_counts=True))
    for x in numbers(30, 40, 50):
        f(x)


@case(versions=1)
def counts_of_integers(jit):
    f = jit(lambda x: torch.bincount(x, minlength=3) + 1)
    for size in (10, 20, 30):
        f(torch.arange(size) // 2)


@case(versions=1)
def elements_repeated(jit):
    f = jit(lambda x, counts: x.repeat_interleave(counts) * 2)
    for k, x in enumerate(numbers(6, 7)):
        x.requires_grad_()
        f(x, torch.arange(x.numel()) + k).sum().backward()
        yield x.grad


@case(versions=1)
def a_slice_up_to_an_item(jit):
    f = jit(lambda x, n: (x[: n.item()].sum(), x * n.item()))
    x = torch.arange(10.0)
    for n in (3, 5, 8):
        f(x, torch.tensor(n))


@case(versions=1)
def a_loss_over_what_is_not_padding(jit):
    def f(logits, targets):
        rows = torch.arange(logits.shape[0])
        return -logits.log_softmax(-1)[rows, targets][targets != 0].mean()

    f = jit(f)
    for n in (8, 9, 16):
        torch.manual_seed(n)
        logits = torch.randn(n, 5).requires_grad_()
        f(logits, torch.randint(0, 5, (n,))).backward()
        yield logits.grad


@case(versions=1)
def sorted_and_accumulated(jit):
    def f(x):
        values, order = x.sort(descending=True)
        return values.cumsum(0), order, x.topk(3).values.prod(), x.median(), x.argsort()

    f = jit(f)
    for x in numbers(5, 8):
        x.requires_grad_()
        sums, _, product, middle, _ = f(x)
        (sums.sum() + product * middle).backward()
        yield x.grad


@case
def a_count_is_an_error(jit):
    def f(x):
        if x.sum() > 100:
            raise ValueError(f"{x[x > 0].numel()} are too many")
        return torch.bincount(x)

    f = jit(f)
    for x in (torch.arange(4), torch.arange(50), torch.tensor([1, -1]), torch.arange(4)):
        try:
            f(x)
        except (RuntimeError, ValueError) as error:
            yield str(error)


@case(versions=1)
def a_list_of_the_elements(jit):
    def f(x, n):
        first, second = x.tolist()
        shift = sum(n.tolist())
        return x * first + second + shift, n.tolist()[1]

    f = jit(f)
    for k in range(3):
        f(torch.tensor([1.5, 2.0]) + k, torch.arange(3) * k)


@case
def a_list_of_truths(jit):
    f = jit(lambda x: [v for v, large in zip(x.unbind(), (x > 1).tolist(), strict=True) if large])
    for k in range(3):
        f(torch.tensor([0.5, 1.5, 2.0]) - k)


@case(versions=1)
def a_view_up_to_an_item_is_returned(jit):
    f = jit(lambda x, lengths: x[:, : lengths.max().item()])
    for lengths in ([1, 2], [3, 0], [2, 2]):
        x = torch.ones(2, 3)
        yield f(x, torch.tensor(lengths)), x


@case(versions=4)
def rows_that_tensors_choose_are_returned(jit):
    table = torch.nn.Parameter(torch.arange(15.0).reshape(5, 3))

    @jit
    def f(x, i):
        doubled = x * 2
        return x[i], x.narrow(0, i.item(), 1).T, table[i], doubled, doubled[i.item() :], x[x[:, 0].argmax()]

    for number in (1, 2, 3, 2, 4):
        x = torch.arange(15.0).sin().reshape(5, 3).requires_grad_()
        row, column, found, doubled, rest, best = f(x, torch.tensor(number))
        (row.sum() + column.square().sum() + found.sum() + rest.sum() + best.exp().sum()).backward()
        yield row, column, found, doubled, rest, best, x.grad, table.grad
    x = torch.arange(15.0).sin().reshape(5, 3)
    for number in (1, 2, -1, 0):
        row, *_, rest, best = f(x, torch.tensor(number))
        row.add_(10.0)
        rest.mul_(2.0)
        yield x, row._base is x, row._version, x._version, best
    yield type(attempt(f, x, torch.tensor(7)))
