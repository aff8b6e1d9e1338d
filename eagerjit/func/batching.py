"""`vmap`: a function of one example becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from eagerjit import pytree
from eagerjit.func.examples import Examples, refusal, spread
from eagerjit.func.holders import example_of, for_all, is_holder, placed, tensors_of
from eagerjit.func.nesting import flatten_for_vmap
from eagerjit.func.repeated import transformed
from eagerjit.recording.numbers import TracedFloat
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak

Dims = Any


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Maps a function over a dimension of its arguments, without a loop: the function sees one example at a time.
    All examples share arguments given by keyword.

    `in_dims` says which dimension of each argument holds the examples, None for arguments that all examples share;
    `out_dims` where results have it. Both may be nested as the arguments and results are. `randomness` is "error",
    "same" or "different"; `chunk_size` computes that many examples at once.
    Raises RuntimeError where the function looks at values, and ValueError for dimensions that do not fit.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    options = {"in_dims": in_dims, "out_dims": out_dims, "randomness": randomness, "chunk_size": chunk_size}
    return transformed(partial(vmap, **options), func, plain_vmap(func, **options))


def plain_vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`vmap`, whose every call records the function."""

    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        structure = flatten_for_vmap((args, kwargs), leaves)
        dims = _input_dims(in_dims, args, kwargs, leaves)
        moved = [x if d is None or is_holder(x) else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        size = _batch_size(moved, dims)
        call = partial(_mapped, func, structure, dims, out_dims, randomness)
        if chunk_size is None or size <= chunk_size:
            return call(moved, size)
        return _in_chunks(call, moved, dims, out_dims, int(size), chunk_size)

    return mapped


def _input_dims(in_dims: Dims, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> list[Any]:
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap(f, in_dims={in_dims}, ...): expected `in_dims` to be int or a (potentially nested) tuple matching "
            f"the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            "vmap(f)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs."
        )
    dims = spread(in_dims, args, f"in_dims={in_dims}") + spread(None, kwargs, "in_dims")
    out: list[Any] = []
    for x, d in zip(leaves, dims, strict=True):
        if d is None:
            out.append(None)
            continue
        if not (isinstance(x, Tensor) or is_holder(x)):
            raise ValueError(
                f"vmap(f, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but the input is of type "
                f"{type(x)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -x.ndim <= d < x.ndim:
            raise ValueError(
                f"vmap(f, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for some input, but that input is a Tensor "
                f"of dimensionality {x.ndim} so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}."
            )
        out.append(d % x.ndim)
    return out


def _batch_size(moved: list[Any], dims: list[Any]) -> Any:
    found = [x.shape[d if is_holder(x) else 0] for x, d in zip(moved, dims, strict=True) if d is not None]
    if not found:
        raise ValueError("vmap: at least one Tensor input must be mapped over: in_dims are all None")
    for size in found[1:]:
        if size != found[0]:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{[int(s) for s in found]} for the mapped dimension"
            )
    return found[0]


def _mapped(
    func: Callable[..., Any],
    structure: Any,
    dims: list[Any],
    out_dims: Dims,
    randomness: str,
    moved: list[Any],
    size: Any,
) -> Any:
    """Record the function on one example, batch the recording and run it."""
    name = getattr(func, "__name__", "function")
    examples = Examples(f"vmap_{name}", size, randomness)
    with examples:
        args, kwargs = pytree.unflatten(structure, _arguments(examples, moved, dims))
        try:
            result = func(*args, **kwargs)
        except TraceBreak as problem:
            raise refusal(problem, examples) from None
        outputs: list[Any] = []
        shape = flatten_for_vmap(result, outputs)
        parts = [_parts(x) for x in outputs]
        places = spread(_single(out_dims, shape), result, f"out_dims={out_dims}")
        writes = examples.writes()
        with examples.suspended():
            targets = [(p, examples.lifted[p]) for p, _ in writes]
            for position, target in targets:
                examples.lifted[position] = target.clone()  # a gradient will need what is overwritten
            values = examples.results([*(t for part in parts for t in part), *(t for _, t in writes)])
            found = iter(values)
            own = [[next(found) for _ in part] for part in parts]
            results = [
                for_all(examples, x, of_x, name, size, dim) if is_holder(x) else placed(*of_x[0], dim, size)
                for x, of_x, dim in zip(outputs, own, places, strict=True)
            ]
    _write_back(examples, targets, [*found])
    return pytree.unflatten(shape, results)


def _arguments(examples: Examples, moved: list[Any], dims: list[Any]) -> list[Any]:
    """What the function is called with: one example of what is mapped."""
    made = []
    for x, dim in zip(moved, dims, strict=True):
        if dim is not None and is_holder(x):
            with examples.suspended():
                x = example_of(examples, x, dim)
        elif dim is not None:
            x = examples.argument(x)
        made.append(x)
    return made


def _single(out_dims: Dims, shape: pytree.Structure) -> Dims:
    """The dimension of a result that is alone, which may be said as a tuple of one."""
    alone = shape == pytree.LEAF and isinstance(out_dims, tuple) and len(out_dims) == 1
    return out_dims[0] if alone else out_dims


def _parts(output: Any) -> list[Tensor]:
    """The tensors that a result consists of."""
    if is_holder(output):
        return tensors_of(output)
    if isinstance(output, TracedFloat):
        raise RuntimeError("vmap: a number that .item() gave is not a result: it differs between examples")
    if not isinstance(output, Tensor):
        raise ValueError(f"vmap(f, ...): `f` must only return Tensors, got type {type(output)} as a return.")
    return [output]


def _write_back(examples: Examples, targets: list[tuple[int, Tensor]], values: list[tuple[Tensor, bool]]) -> None:
    """In-place writes of the function: to its examples, and to tensors that all examples share."""
    before = mode.set_grad_mode(mode.grad_mode() and any(v._requires_grad for v, _ in values))
    try:
        for (position, target), (value, has_batch) in zip(targets, values, strict=True):
            if has_batch and position not in examples.mapped:
                raise RuntimeError(
                    "vmap: inplace arithmetic(self, *extra_args) is not possible because self is shared by all "
                    "examples and what would be written differs between them"
                )
            target.copy_(value)
    finally:
        mode.set_grad_mode(before)


def _in_chunks(
    call: Callable[..., Any], moved: list[Any], dims: list[Any], out_dims: Dims, size: int, chunk_size: int
) -> Any:
    """The results of consecutive parts of the batch, joined."""
    from eagerjit import cat

    parts: list[list[Any]] = []
    results: Any = None
    shape: Any = None
    for start in range(0, size, chunk_size):
        stop = min(start + chunk_size, size)
        part = slice(start, stop)
        pieces = [
            x if d is None else x[(slice(None),) * d + (part,)] if is_holder(x) else x[part]
            for x, d in zip(moved, dims, strict=True)
        ]
        results = call(pieces, stop - start)
        leaves: list[Any] = []
        shape = flatten_for_vmap(results, leaves)
        parts.append(leaves)
    places = spread(_single(out_dims, shape), results, f"out_dims={out_dims}")
    joined = [
        p[0] if d is None else cat(list(p), d) for p, d in zip(zip(*parts, strict=True), places, strict=True)
    ]
    return pytree.unflatten(shape, joined)
