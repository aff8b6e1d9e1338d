"""Tensors from outside that are written: whether that is an error depends on the history that a call finds."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


def refused(x):
    try:
        x *= 2
    except RuntimeError as error:
        return str(error)


def leaf():
    return torch.ones(4, 3, requires_grad=True)


def made_without_gradients(base):
    with torch.no_grad():
        return base[::2]


@case(outcome=FELL_BACK)
def a_view_of_a_leaf_and_then_one_of_a_result_are_written(jit):
    f = jit(refused)
    for x in (leaf()[::2], (leaf() * 1)[::2], leaf()[::2]):
        yield f(x)


@case(outcome=FELL_BACK)
def an_output_of_unbind_and_then_a_row_are_written(jit):
    f = jit(refused)
    for x in ((leaf() * 1).unbind()[0], (leaf() * 1)[0], leaf()[0]):
        yield f(x)


@case(outcome=FELL_BACK)
def a_tensor_and_then_a_view_made_without_gradients_are_written(jit):
    f = jit(refused)
    made = made_without_gradients(leaf()), made_without_gradients(leaf() * 1)
    for x in (torch.ones(4, 3)[::2], made[0], leaf().detach()[::2], made[1]):
        yield f(x)


@case(outcome=FELL_BACK)
def a_part_of_a_view_made_without_gradients_is_written(jit):
    f = jit(lambda x: refused(x[0]))
    for x in (torch.ones(4, 3)[::2], made_without_gradients(leaf()), torch.ones(4, 3)[::2]):
        yield f(x)


@case(outcome=FELL_BACK)
def a_view_made_without_gradients_and_then_a_tensor_are_written(jit):
    f = jit(refused)
    for x in (made_without_gradients(leaf()), torch.ones(4, 3)[::2]):
        yield f(x)


@case(versions=1)
def a_view_made_without_gradients_is_written_without_them(jit):
    f = jit(torch.no_grad()(refused))
    for x in (torch.ones(4, 3)[::2], made_without_gradients(leaf()), leaf().detach()[::2]):
        yield f(x)


@case(versions=1)
def detached_views_are_written(jit):
    f = jit(lambda x: x.detach().mul_(2))
    for x in (torch.ones(4, 3)[::2], made_without_gradients(leaf()), leaf().detach()[::2]):
        yield f(x)


@case(outcome=FELL_BACK)
def requires_grad_of_a_leaf_and_then_of_a_result_is_cleared(jit):

    @jit
    def f(x):
        try:
            x.requires_grad_(False)
        except RuntimeError as error:
            return str(error)
        return (x * 2).detach()

    for x in (leaf(), leaf(), leaf() * 1, torch.ones(4, 3), leaf()):
        yield f(x), x.requires_grad


@case(outcome=FELL_BACK)
def requires_grad_of_a_result_and_then_of_a_leaf_is_cleared(jit):

    @jit
    def f(x):
        try:
            x.requires_grad = False
        except RuntimeError:
            return 1

    for x in (leaf() * 1, leaf()):
        yield f(x), x.requires_grad


@case
def a_view_that_requires_a_gradient_from_the_first_call_on(jit):
    rows = torch.ones(12).reshape(4, 3)

    @jit
    def f(x):
        y = rows * 2
        rows.requires_grad_()
        (x * y).sum().backward()

    for _ in range(3):
        f(leaf())
        yield rows.grad


def written(part):
    try:
        part.mul_(2)
    except RuntimeError as error:
        return str(error)
    return part


@case(versions=1)
def one_of_several_views_of_a_result_is_returned_and_written(jit):
    f = jit(lambda x: (x * 2).split(2)[0])
    for x in (leaf(), leaf() * 1):
        yield written(f(x))


@case(versions=1)
def a_view_of_one_of_several_is_returned_and_written(jit):
    f = jit(lambda x: max((x * 2).unbind(), key=torch.sum)[1:])
    for x in (leaf(), leaf() * 1):
        yield written(f(x))


@case(versions=1)
def one_of_several_views_and_what_it_views_are_returned_and_written(jit):

    @jit
    def f(x):
        y = x * 2
        return y, y.chunk(2)[1].t()

    for x in (leaf(), leaf() * 1):
        y, part = f(x)
        yield written(part), written(y)


@case(versions=2)
def one_of_several_views_of_what_is_given_is_returned_and_written(jit):
    f = jit(lambda x: x.split(2)[0].t())
    for x in (leaf() * 1, leaf() * 1, torch.ones(4, 3)):
        yield written(f(x))


@case(versions=1)
def one_of_several_views_is_returned_and_its_gradient_taken(jit):
    f = jit(lambda x: (x * x).split(2)[1])
    for _ in range(2):
        x = leaf()
        part = f(x)
        (part * 3).sum().backward()
        yield x.grad, part


@case(versions=1)
def what_has_no_gradient_is_detached_in_place(jit):
    f = jit(lambda x: x.detach_() * 2)
    for _ in range(3):
        yield f(torch.ones(3))


@case(outcome=FELL_BACK)
def what_has_a_history_is_detached_in_place(jit):
    f = jit(lambda x: x.detach_() * 2)
    for x in (leaf() * 1, leaf() * 1, leaf()):
        yield f(x), x.requires_grad, x.grad_fn is None


@case(outcome=FELL_BACK)
def what_has_no_history_and_then_has_one_is_detached_in_place(jit):

    @jit
    def f(x):
        try:
            x.detach_()
        except RuntimeError as error:
            return str(error)
        return x * 2

    for x in (torch.ones(4, 3), leaf() * 1, leaf(), torch.ones(4, 3)[1:], leaf()[1:]):
        yield f(x), x.requires_grad


@case(outcome=FELL_BACK)
def a_leaf_and_then_a_result_is_told_to_keep_its_gradient(jit):

    @jit
    def f(x):
        x.retain_grad()
        return x * 2

    for made in (lambda x: x, lambda x: x * 1):
        x = made(leaf())
        f(x).sum().backward()
        yield x.grad


@case(outcome=FELL_BACK)
def a_result_and_then_a_leaf_is_given_a_hook_that_leaves_have(jit):
    seen = []

    @jit
    def f(x):
        try:
            x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum()))
        except RuntimeError as error:
            return str(error), x * 2
        return "", x * 2

    for x in (leaf() * 1, leaf()):
        text, y = f(x)
        y.sum().backward()
        yield text, seen
