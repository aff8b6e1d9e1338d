"""Which of NumPy's functions and methods compute from their arguments alone, and which write one of them.

Others may call functions of the user's, draw random numbers, or warn in ways that depend on values.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_NAMES = (
    "all allclose amax amin any append argmax argmin argpartition argsort argwhere around array_equal atleast_1d "
    "atleast_2d average bincount broadcast_to choose clip column_stack compress concatenate convolve copy corrcoef "
    "correlate count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum delete diag diagflat diagonal "
    "diff digitize dot dstack ediff1d einsum expand_dims extract flatnonzero flip fliplr flipud full_like gradient "
    "histogram histogram2d histogram_bin_edges hstack in1d inner insert interp intersect1d isclose isin kron lexsort "
    "linspace max mean median meshgrid min moveaxis nonzero ones_like outer pad partition percentile polyfit polyval "
    "prod ptp quantile ravel repeat reshape resize roll rollaxis rot90 round searchsorted select setdiff1d setxor1d "
    "sort split squeeze stack std sum swapaxes take take_along_axis tensordot tile trace transpose trapezoid trapz "
    "tri tril triu union1d unique unwrap vander var vdot vsplit hsplit array_split vstack where zeros_like"
)


@functools.cache
def _functions() -> set[Any]:
    """What gives new arrays, or views, of its arguments."""
    found = {getattr(np, name) for name in _NAMES.split() if hasattr(np, name)}
    for package in (np.linalg, np.fft):
        members = (getattr(package, name) for name in package.__all__)
        found.update(member for member in members if callable(member) and not isinstance(member, type))
    return found


_WRITING = {np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis}

CREATING: frozenset[Any] = frozenset(
    (np.zeros, np.ones, np.full, np.empty, np.arange, np.linspace, np.eye, np.identity, np.tri)
)
"""What makes arrays of numbers."""

METHODS = frozenset(
    "all any argmax argmin argpartition argsort choose clip compress conj conjugate cumprod cumsum diagonal dot "
    "flatten item max mean min nonzero prod ptp ravel repeat round searchsorted squeeze std sum swapaxes take "
    "tobytes tolist trace var".split()
)
"""Methods of arrays that give something new, or a view."""

WRITING_METHODS = frozenset("fill partition put sort".split())
"""Methods of arrays that write them."""

NUMBER_METHODS = frozenset("astype clip conj conjugate is_integer max mean min prod round std sum tolist var".split())
"""Methods of NumPy's numbers."""


def computes(function: Any, options: dict[str, Any]) -> bool:
    """Whether a function computes from its arguments alone, with these options."""
    return function in _functions() and not options.keys() & {"out", "overwrite_input", "copy", "like", "subok"}


def writes_first(function: Any) -> bool:
    """Whether a function writes its first argument, and gives nothing."""
    return function in _WRITING


def is_elementwise(ufunc: Any) -> bool:
    """Whether a ufunc is one of NumPy's or SciPy's, rather than made of a function of the user's."""
    return any(getattr(package, ufunc.__name__, None) is ufunc for package in (np, sys.modules.get("scipy.special")))


class Changed:
    """A function that writes its first argument, as one that gives the changed copy of it."""

    def __init__(self, write: Callable[..., Any]):
        self.write, self.__name__ = write, getattr(write, "__name__", "out")

    def __call__(self, array: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
        """The array as it would be; raises ValueError for one that may not be written."""
        if not array.flags.writeable:
            raise ValueError("assignment destination is read-only")
        changed = array.copy(order="K")
        self.write(changed, *args, **kwargs)
        return changed


def filling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with `out=` as one that writes its first argument."""

    def fill(out: np.ndarray, *args: Any, **kwargs: Any) -> None:
        function(*args, out=out, **kwargs)

    return fill
