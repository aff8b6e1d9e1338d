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
