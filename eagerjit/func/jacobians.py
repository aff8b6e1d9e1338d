"""Jacobians and Hessians: a product with the Jacobian mapped over the unit vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from eagerjit import pytree
from eagerjit.func.batching import plain_vmap
from eagerjit.func.repeated import transformed
from eagerjit.func.transforms import Run, chosen, run, start_at
from eagerjit.tensors.tensor import Tensor


def _basis(tensors: list[Tensor]) -> list[Tensor]:
    """Per tensor the unit vectors of all tensors' elements, of shape (elements of all, *shape)."""
    from eagerjit.tensors.creation import arange

    counts = [t.numel() for t in tensors]
    total = sum(counts)
    out = []
    first: Any = 0
    rows = arange(total, device=tensors[0].device).unsqueeze(1)
    for t, count in zip(tensors, counts, strict=True):
        hit = arange(count, device=t.device).unsqueeze(0) + first == rows.to(t.device)
        out.append(hit.to(t.dtype).reshape(total, *t.shape))
        first = first + count
    return out


def _split(stacked: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """Rows that belong to each tensor's elements."""
    out = []
    first: Any = 0
    for t in tensors:
        out.append(stacked.slice(0, first, first + t.numel(), 1))
        first = first + t.numel()
    return out


def _evaluated(name: str, func: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: Any) -> Run:
    starts, given = start_at(name, argnums, args)
    _check_real(name, "input", starts.leaves)
    done = run(name, lambda: func(*given, **kwargs), starts, has_aux)
    _check_real(name, "output", done.outputs)
    return done


def _check_real(name: str, what: str, tensors: list[Tensor]) -> None:
    """Refuse complex tensors: of several conventions for their derivatives none is meant."""
    for index, tensor in enumerate(tensors):
        if tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what}s to be real but received complex tensor at flattened input idx: {index}"
            )


def _nested(done: Run, argnums: Any, blocks: list[list[Tensor]], has_aux: bool) -> Any:
    """blocks[output][input] nested as the outputs are, each nested as the inputs are."""
    found = [chosen(argnums, done.starts.restore(row)) for row in blocks]
    result = pytree.unflatten(done.structure, found)
    return (result, done.released_aux()) if has_aux else result


def rows(done: Run, chunk_size: int | None = None) -> list[list[Tensor]]:
    """The Jacobian per output and input, in reverse mode."""
    leaves, outputs = done.starts.leaves, done.outputs
    pulled = plain_vmap(lambda *c: tuple(done.pull(list(c))), chunk_size=chunk_size)(*_basis(outputs))
    per_input = [_split(r, outputs) for r in pulled]
    return [
        [part.reshape((*o.shape, *x.shape)) for part, x in zip(parts, leaves, strict=True)]
        for o, parts in zip(outputs, zip(*per_input, strict=True), strict=True)
    ]


def columns(done: Run, randomness: str = "error") -> list[list[Tensor]]:
    """The Jacobian per output and input, in forward mode."""
    leaves = done.starts.leaves
    pushed = plain_vmap(lambda *t: tuple(done.push(list(t))), randomness=randomness)(*_basis(leaves))
    return [
        [p.movedim(0, -1).reshape((*o.shape, *x.shape)) for p, x in zip(_split(column, leaves), leaves, strict=True)]
        for o, column in zip(done.outputs, pushed, strict=True)
    ]


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that computes the Jacobian, of the output's shape followed by the input's, all rows at once."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        done = _evaluated("jacrev", func, argnums, has_aux, args, kwargs)
        done.require_differentiable("jacrev")
        return _nested(done, argnums, rows(done, chunk_size), has_aux)

    options = {"argnums": argnums, "has_aux": has_aux, "chunk_size": chunk_size}
    return transformed(partial(jacrev, **options), func, plain)


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that computes the Jacobian as `jacrev` does, all columns at once."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        done = _evaluated("jacfwd", func, argnums, has_aux, args, kwargs)
        return _nested(done, argnums, columns(done, randomness), has_aux)

    options = {"argnums": argnums, "has_aux": has_aux, "randomness": randomness}
    return transformed(partial(jacfwd, **options), func, plain)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that computes second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)
