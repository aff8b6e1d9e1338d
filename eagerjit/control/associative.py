"""`associative_scan`: all partial combinations of a tensor's elements, in a tree of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit import pytree
from eagerjit.func.batching import vmap
from eagerjit.ops.index import cat, stack
from eagerjit.tensors.tensor import Tensor


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """The combinations x0, f(x0, x1), f(f(x0, x1), x2), ... of the elements of xs along `dim`, as long as xs.

    xs is a tensor or a nesting of tensors of one length, and `combine_fn` an associative function of two such elements.
    Neighbours are combined first, their results again in pairs, and so on, as in Blelloch, "Prefix sums and their
    applications" (1990): about 2 log2(n) calls. With `combine_mode="generic"` the function sees single elements; with
    "pointwise", for tensors on a GPU alone, many at once. Raises ValueError for other arguments.
    """
    elements: list[Any] = []
    structure = pytree.flatten(xs, elements)
    dim = _checked(combine_fn, elements, dim, reverse, combine_mode)
    every = vmap(combine_fn) if combine_mode == "generic" else combine_fn

    def combined(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        leaves: list[Any] = []
        found = pytree.flatten(every(pytree.unflatten(structure, left), pytree.unflatten(structure, right)), leaves)
        if found != structure:
            raise RuntimeError("associative_scan: Expected combine_fn to return what is nested as its arguments are")
        return leaves

    moved = [x.movedim(dim, 0) for x in elements]
    results = _scanned(combined, [x.flip(0) for x in moved] if reverse else moved)
    results = [x.flip(0) for x in results] if reverse else results
    return pytree.unflatten(structure, [x.movedim(0, dim) for x in results])


def _checked(combine_fn: Any, elements: list[Any], dim: Any, reverse: Any, combine_mode: Any) -> int:
    """The dimension counted from the first."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not elements:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in elements):
        raise ValueError("xs leaves must be a Tensor")
    if combine_mode == "pointwise" and any(x.device.type == "cpu" for x in elements):
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    rank = elements[0].ndim
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    dim %= rank
    if any(x.ndim <= dim or x.shape[dim] == 0 for x in elements):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    return dim


def _scanned(combined: Callable[[list[Tensor], list[Tensor]], list[Tensor]], elements: list[Tensor]) -> list[Tensor]:
    """The partial combinations along the first dimension: those of pairs are every second one."""
    length = elements[0].shape[0]
    if length < 2:
        return elements
    odd = _scanned(combined, combined([x[: length - 1 : 2] for x in elements], [x[1::2] for x in elements]))
    first = [x[:1] for x in elements]
    if length == 2:
        return [cat.call((x, y)) for x, y in zip(first, odd, strict=True)]
    later = combined([x[: (length - 1) // 2] for x in odd], [x[2::2] for x in elements])
    even = [cat.call((x, y)) for x, y in zip(first, later, strict=True)]
    return [_interleaved(x, y) for x, y in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    n = odd.shape[0]
    pairs = stack((even[:n], odd), 1).flatten(0, 1)
    return pairs if even.shape[0] == n else cat.call((pairs, even[n:]))
