"""`scan` and `map`: loops over the elements of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerjit import pytree
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.control.body import BodyTracer, generators_drawn_from, number, record
from eagerjit.control.scanning import Scan
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.tensors.tensor import Tensor, new_tensor


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """(last carry, ys): runs `carry, y = combine_fn(carry, x)` for every element of xs along `dim`, in order.

    init and xs are tensors or nestings of tensors; numbers in init become tensors of no dimension. A carry keeps its
    nesting, shapes and dtypes. Every y is stacked along `dim`. `reverse` goes from the last element to the first.
    Raises RuntimeError for a function that returns another carry, or writes tensors from outside in place.
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    elements, structure = _elements("scan", xs)
    if not elements:
        return init, []
    rank = elements[0].ndim
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    dim %= rank
    if any(x.ndim <= dim for x in elements):
        raise RuntimeError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    moved = [x.movedim(dim, 0) if dim else x for x in elements]
    carry, ys = scan_over("scan", combine_fn, init, moved, structure, _length("scan", moved), reverse)
    if dim:
        leaves: list[Any] = []
        shape = pytree.flatten(ys, leaves)
        ys = pytree.unflatten(shape, [y.movedim(0, dim) if dim < y.ndim else y for y in leaves])
    return carry, ys


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """The results of `f(x, *args)` for every element of xs along the first dimension, stacked.

    xs is a tensor or a nesting of tensors. Raises RuntimeError where their first sizes differ.
    """
    elements, structure = _elements("map", xs)
    if not elements or any(x.ndim == 0 for x in elements):
        raise RuntimeError("map: xs must be tensors of at least one dimension")
    length = _length("map", elements)
    return scan_over("map", lambda carry, x: (carry, f(x, *args)), (), elements, structure, length, False)[1]


def _elements(name: str, xs: Any) -> tuple[list[Tensor], Any]:
    leaves: list[Any] = []
    structure = pytree.flatten(xs, leaves)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: All xs leaves must be a Tensor but got {x}")
    return leaves, structure


def _length(name: str, elements: Sequence[Tensor]) -> Any:
    lengths = [x.shape[0] for x in elements]
    if any(n != lengths[0] for n in lengths[1:]):
        raise RuntimeError(f"{name}: xs have different lengths: {[int(n) for n in lengths]}")
    return lengths[0]


def carried(name: str, init: Any) -> tuple[list[Tensor], Any]:
    """A carry's tensors and its nesting; numbers become tensors."""
    leaves: list[Any] = []
    structure = pytree.flatten(init, leaves)
    for x in leaves:
        if not isinstance(x, (Tensor, bool, int, float, SymbolicInt, TracedFloat)):
            raise RuntimeError(f"{name}: All init leaves must be a Tensor but got {x}")
    return [x if isinstance(x, Tensor) else number(x) for x in leaves], structure


def check_carry(
    name: str, tracer: BodyTracer, init: Sequence[TensorType], structure: Any, found: Any, outputs: Sequence[Tensor]
) -> None:
    """Refuse a body that gives back another nesting, shape or dtype than it was given."""
    if found != structure:
        raise RuntimeError(
            f"{name}: Expected the carry that its function returns to be nested as the one it is given, "
            f"but got {len(outputs)} leaves nested differently instead of {len(init)}"
        )
    for position, (given, output) in enumerate(zip(init, outputs, strict=True)):
        type_ = tracer.value(output).type
        if type_.dtype is given.dtype and len(type_.shape) == len(given.shape) and output.shape == _shape(given):
            continue
        raise RuntimeError(
            f"{name}: Expected init and carry to have same metadata, but leaf {position} is a {given.dtype} of shape "
            f"{tracer.shape(given.shape)} and becomes a {type_.dtype} of shape {tracer.shape(type_.shape)}"
        )


def _shape(type_: TensorType) -> tuple[Any, ...]:
    return tuple(d if isinstance(d, int) else SymbolicInt(d) for d in type_.shape)


def scan_over(
    name: str, function: Callable[[Any, Any], Any], init: Any, elements: list[Tensor], structure: Any, length: Any,
    reverse: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """(last carry, stacked results), with everything that the body reads handed to it."""
    starts, nesting = carried(name, init)
    tracer = BodyTracer(name)
    with tracer:
        carry_types = [tracer.type_outside(x) for x in starts]
        types = [tracer.type_outside(x) for x in elements]
        carries = [tracer.parameter(t) for t in carry_types]
        parts = [tracer.parameter(TensorType(t.dtype, tuple(t.shape[1:]))) for t in types]

        def step() -> Any:
            result = function(pytree.unflatten(nesting, carries), pytree.unflatten(structure, parts))
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise RuntimeError(f"{name}: its function must return (carry, y), got {type(result).__name__}")
            return tuple(result)

        (_, _, (found, stacked)), leaves = record(name, step)
        check_carry(name, tracer, carry_types, nesting, found, leaves[: len(starts)])
        states = generators_drawn_from(name, tracer)
        leaves = tracer.isolate(leaves)
        ends = [new_tensor(tracer.value(t)) for _, t in states]
    own = [n for n, _ in states]
    given: list[Node] = [t[0] for t in tracer.parameters]
    fixed = [n for n in tracer.inputs if n not in given and n not in own]
    inputs = [*given[: len(starts)], *own, *given[len(starts) :], *fixed]
    lifted = dict(zip(tracer.inputs, tracer.lifted, strict=True))
    outputs = [*leaves[: len(starts)], *ends, *leaves[len(starts) :]]
    made = Scan(name, tracer, inputs, outputs, len(starts) + len(own), len(elements), length, reverse)
    results = made.call([*starts, *(t.clone() for _, t in states), *elements, *(lifted[n] for n in fixed)])
    for (_, state), result in zip(states, results[len(starts) :], strict=False):
        state.copy_(result)
    last = pytree.unflatten(nesting, results[: len(starts)])
    return last, pytree.unflatten(stacked, results[len(starts) + len(own) :])
