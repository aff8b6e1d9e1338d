"""Errors of operands that do not fit, caught inside: their texts tell the sizes of the call that meets them."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case

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
