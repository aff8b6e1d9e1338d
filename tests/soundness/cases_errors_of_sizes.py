"""Errors of operands that do not fit, caught inside: their texts tell the sizes of the call that meets them."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case

OPERATIONS = (
    lambda x, y: x + y,
    lambda x, y: x.expand(2, *y.shape),
    lambda x, y: torch.cat([x, y], 1),
    lambda x, y: x.copy_(y),
    lambda x, y: x @ y,
)


@case(versions=15)
def texts_of_errors_tell_sizes(jit):
    for operation in OPERATIONS:

        @jit
        def f(x, y, operation=operation):
            try:
                operation(x, y)
            except RuntimeError as error:
                return str(error)

        for size in (4, 5, 6, 4):
            yield f(torch.ones(3, 3), torch.ones(size, 3))


@case(versions=1)
def sizes_that_fit_are_not_told(jit):

    @jit
    def f(x, y):
        try:
            return x + y
        except RuntimeError as error:
            return str(error)

    for size in (4, 5, 6, 4):
        yield f(torch.ones(size, 3), torch.ones(size, 3))


@case
def sizes_after_a_write_that_is_refused(jit):

    @jit
    def f(x):
        try:
            x.add_(1)
        except RuntimeError:
            pass
        return torch.ones_like(x, dtype=torch.uint8)

    for sizes in ((3, 4), (2, 5), (4, 6)):
        yield f(torch.ones(1, sizes[1]).expand(sizes))


@case
def an_expanded_tensor_is_refused_before_sizes_and_dtypes(jit):
    writes = lambda x, y: x.mT.add_(y), lambda x, y: x.bitwise_not_(), lambda x, y: x[1:].copy_(y)
    for write in writes:

        @jit
        def f(x, y, write=write):
            try:
                write(x, y)
            except RuntimeError as error:
                return str(error)

        for sizes in ((3, 4), (2, 5)):
            yield f(torch.ones(1, sizes[1]).expand(sizes), torch.ones(7, 7))
            yield f(torch.ones(1, sizes[1])[:, None].expand(1, *sizes), torch.ones(7, 7))


@case(outcome=FELL_BACK)
def a_row_of_an_expanded_tensor_is_written(jit):
    for write in (lambda x: x[0].add_(1), lambda x: x[1:1].add_(1), lambda x: x[0, :3].unfold(0, 2, 1).zero_()):

        @jit
        def f(x, write=write):
            try:
                write(x)
            except RuntimeError as error:
                return str(error)

        yield f(torch.ones(1, 4).expand(3, 4))
