"""Tensors that calls are given: a leaf or a result, with hooks or without, a Parameter or none, a view or not."""

from __future__ import annotations

import copy
import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def leaf():
    return torch.arange(4.0).requires_grad_()


def doubled(x):
    x.register_hook(lambda g: g * 2)
    return x


def frozen():
    return torch.nn.Parameter(torch.ones(4), requires_grad=False)


@case(outcome=FELL_BACK)
def backward_to_a_leaf_and_then_to_what_was_computed_before(jit):
    f = jit(lambda x: (x * x).sum().backward())
    for operation in (lambda x: x, lambda x: x * 2, lambda x: x):
        x = leaf()
        f(operation(x))
        yield x.grad


@case(outcome=FELL_BACK)
def backward_to_kept_state_that_is_a_leaf_and_then_is_not(jit):
    state = types.SimpleNamespace(hidden=None)

    @jit
    def f(x):
        (x * state.hidden).sum().backward()
        state.hidden = state.hidden.detach().requires_grad_()

    for operation in (lambda x: x, lambda x: x * 2, lambda x: x):
        x = leaf()
        state.hidden = operation(x)
        f(torch.ones(4))
        yield x.grad, state


@case(outcome=FELL_BACK)
def gradients_to_an_argument_and_then_to_one_with_a_hook(jit):
    f = jit(lambda x: torch.autograd.grad((x * x).sum(), x)[0])
    for x in (leaf(), doubled(leaf()), leaf()):
        yield f(x)


@case(outcome=FELL_BACK)
def gradients_to_a_result_and_then_to_one_with_a_hook(jit):
    f = jit(lambda x: torch.autograd.grad((x * x).sum(), x)[0])
    for x in (leaf() * 1, doubled(leaf() * 1), leaf() * 1):
        yield f(x)


@case(outcome=FELL_BACK)
def backward_to_an_argument_with_a_hook_and_then_to_one_without(jit):
    f = jit(lambda x: (x * x).sum().backward())
    for x in (doubled(leaf()), leaf(), doubled(leaf())):
        f(x)
        yield x.grad


@case(versions=2)
def gradients_to_leaves_and_to_results(jit):
    f = jit(lambda x: torch.autograd.grad((x * x).sum(), x)[0])
    for x in (leaf(), leaf() * 1, leaf(), leaf() * 1):
        yield f(x)


@case(versions=2)
def the_class_of_an_argument_is_asked(jit):
    f = jit(lambda x: (type(x).__name__, isinstance(x, torch.nn.Parameter), x * 2))
    for x in (leaf(), torch.nn.Parameter(torch.ones(4)), leaf(), torch.nn.Parameter(torch.ones(4))):
        yield f(x)


@case(versions=2)
def the_class_of_an_argument_without_a_gradient_is_asked(jit):
    f = jit(lambda x: {torch.nn.Parameter: 1}.get(x.__class__, 0))
    for x in (frozen(), torch.ones(4), frozen()):
        yield f(x)


@case(versions=2)
def an_argument_that_is_a_parameter_is_copied(jit):
    f = jit(lambda x: copy.deepcopy(x))
    for x in (leaf(), torch.nn.Parameter(torch.ones(4)), leaf()):
        yield f(x), type(f(x)).__name__


@case(outcome=FELL_BACK)
def a_result_and_then_a_leaf_is_copied(jit):

    @jit
    def f(x):
        try:
            return copy.deepcopy(x)
        except RuntimeError:
            return x * 2

    for x in (leaf() * 1, leaf()):
        yield f(x)


@case(outcome=FELL_BACK)
def a_result_and_then_a_leaf_is_optimized(jit):

    @jit
    def f(x):
        try:
            torch.optim.SGD([x], lr=0.5).step()
        except ValueError as error:
            return str(error)

    for make in (lambda x: x * 1, lambda x: x):
        x = make(leaf())
        if x.is_leaf:
            x.grad = torch.ones(4)
        yield f(x), x


@case(versions=1)
def leaves_are_asked_whether_they_are(jit):
    f = jit(lambda x: x.is_leaf)
    for _ in range(2):
        yield f(leaf())


@case(outcome=FELL_BACK)
def leaves_and_then_a_result_are_asked_whether_they_are(jit):
    f = jit(lambda x: (x.is_leaf, x.output_nr, x.retains_grad))
    for x in (leaf(), leaf().unbind()[1], leaf()):
        yield f(x)


@case(outcome=FELL_BACK)
def a_tensor_and_then_a_view_is_asked_for_its_base(jit):
    f = jit(lambda x: (x._base is None, x[0]._base is x, x._is_view()))
    for x in (torch.ones(4), torch.ones(5)[1:], leaf()):
        yield f(x)


@case(outcome=FELL_BACK)
def the_gradient_of_an_argument_is_read_where_it_lies(jit):
    f = jit(lambda x: x._grad is None)
    for given in (False, True):
        x = leaf()
        x.grad = torch.ones(4) if given else None
        yield f(x)


@case(outcome=FELL_BACK)
def a_method_of_an_argument_is_returned(jit):
    f = jit(lambda x: x.add)
    for n in (1.0, 2.0):
        yield f(torch.full((2,), n))(1)


@case(outcome=FELL_BACK)
def a_method_of_an_argument_is_kept(jit):
    state = types.SimpleNamespace()

    @jit
    def f(x):
        state.act = x.mul
        return x + 1

    for n in (1.0, 2.0):
        f(torch.full((2,), n))
        yield state.act(3)


@case(versions=1)
def samples_given_are_collated(jit):
    f = jit(lambda x, y: torch.utils.data.default_collate([{"x": x, "n": 1}, {"x": y, "n": 2}]))
    for n in (1.0, 2.0):
        yield f(torch.full((2,), n), torch.ones(2))


@case(versions=2)
def an_argument_becomes_a_parameter_of_a_module(jit):
    module = torch.nn.Module()

    @jit
    def f(x):
        module.weight = x
        return module.weight * 2

    for make in (lambda: torch.nn.Parameter(torch.ones(4)), frozen):
        yield attempt(f, make()), module


@case(versions=3)
def what_lies_in_an_attribute_requires_a_gradient_no_more(jit):
    state = types.SimpleNamespace()
    f = jit(lambda: state.x.requires_grad_(False) * 2)
    for make in (lambda: torch.ones(4), lambda: torch.ones(4), leaf, leaf, leaf):
        state.x = make()
        yield f(), state


@case(outcome=FELL_BACK)
def a_leaf_and_then_a_result_is_asked_whether_it_is_one_for_every_example(jit):
    f = jit(lambda x, rows: torch.vmap(lambda row: row * (1 if x.is_leaf else 2))(rows))
    for x in (leaf(), leaf() * 1, leaf()):
        yield f(x, torch.ones(2, 4))


@case(outcome=FELL_BACK)
def gradients_to_an_argument_with_a_hook_for_every_example(jit):
    f = jit(lambda x, rows: torch.vmap(lambda row: row * torch.autograd.grad((x * x).sum(), x)[0])(rows))
    for x in (leaf(), doubled(leaf()), leaf()):
        yield f(x, torch.ones(2, 4))
