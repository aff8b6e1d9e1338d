"""Objects that say themselves what `vmap` makes of them, by the functions that PyTorch has for them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.func import functorch_vmap as parts
from eagerjit.utils._pytree import register_pytree_node


class Batch:
    """Tensors whose first dimensions are `shape`."""

    def __init__(self, shape: tuple[int, ...], **tensors: Any):
        self.shape, self.tensors = tuple(shape), tensors

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, place: Any) -> Batch:
        found = {n: t[place] for n, t in self.tensors.items()}
        return type(self)(next(iter(found.values())).shape[: self.ndim], **found)

    def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Batch:
        rest = [d for i, d in enumerate(self.shape) if i != in_dim]
        found = {n: parts._add_batch_dim(t, in_dim, vmap_level) for n, t in self.tensors.items()}
        return type(self)(tuple(rest), **found)

    def _maybe_remove_batch_dim(self, name: str, *, vmap_level: int, batch_size: int, out_dim: int) -> Batch:
        shape = [*self.shape]
        shape.insert(out_dim, batch_size)
        found = {
            n: parts._maybe_remove_batch_dim(name, t, vmap_level, batch_size, out_dim) for n, t in self.tensors.items()
        }
        return type(self)(tuple(shape), **found)


class Listed(Batch):
    """The same, whose tensors are known beforehand."""


register_pytree_node(
    Listed,
    lambda b: ([*b.tensors.values()], (b.shape, [*b.tensors])),
    lambda tensors, context: Listed(context[0], **dict(zip(context[1], tensors, strict=True))),
)


def batch(kind: type[Batch] = Batch, requires_grad: bool = False) -> Batch:
    x = torch.arange(24.0).reshape(3, 2, 4).requires_grad_(requires_grad)
    return kind((3, 2), x=x, y=torch.arange(6).reshape(3, 2))


def doubled(b: Batch) -> Batch:
    x, y = b.tensors["x"], b.tensors["y"]
    return type(b)(b.shape, x=x * 2, y=y, total=x.sum(-1), one=torch.ones(b.shape))


CALLS: dict[str, tuple[Callable[[Batch], Any], tuple[int, ...]]] = {
    "first": (torch.vmap(doubled), (3, 2)),
    "second": (torch.vmap(doubled, 1), (2, 3)),
    "last, to the second place": (torch.vmap(doubled, -1, 1), (3, 2)),
    "both": (torch.vmap(torch.vmap(doubled)), (3, 2)),
}
"""Functions and the shape of what they return."""


@pytest.mark.parametrize("kind", [Batch, Listed])
@pytest.mark.parametrize("name", CALLS)
def test_results_for_all_examples(name: str, kind: type[Batch]) -> None:
    function, shape = CALLS[name]
    given = batch(kind)
    x = given.tensors["x"]
    wanted = x.transpose(0, 1) if shape == (2, 3) else x
    for _ in range(12):  # calls that come often are compiled where they can be
        found = function(given)
        assert type(found) is kind and found.shape == shape
        assert found.tensors["x"].tolist() == (wanted * 2).tolist()
        assert found.tensors["total"].tolist() == wanted.sum(-1).tolist()
        assert found.tensors["one"].tolist() == torch.ones(shape).tolist() and given.tensors["x"] is x


@pytest.mark.parametrize("kind", [Batch, Listed])
def test_gradients(kind: type[Batch]) -> None:
    given = batch(kind, requires_grad=True)
    found = torch.vmap(lambda b, w: kind((2,), z=b.tensors["x"] ** 2 * w), (0, None))(given, torch.tensor(3.0))
    found.tensors["z"].sum().backward()
    x = given.tensors["x"]
    assert x.grad.tolist() == (6 * x).tolist()
    gradient = torch.vmap(torch.func.grad(lambda w, b: (b.tensors["x"] * w).sum()), (0, 0))(torch.ones(3), given)
    assert gradient.tolist() == x.sum((1, 2)).tolist()


def test_beside_tensors_and_unchanged() -> None:
    given, shared = batch(), batch()
    found, total, same = torch.vmap(lambda b, s: (b, b.tensors["x"].sum() + s.tensors["x"][0, 0, 0], s), (0, None))(
        given, shared
    )
    assert found.tensors["x"].tolist() == given.tensors["x"].tolist() and total.shape == (3,)
    assert same.shape == (3, 3, 2) and same.tensors["x"].shape == (3, 3, 2, 4)
    pieces = torch.vmap(lambda b: b.tensors["x"].sum(), chunk_size=2)(given)
    assert pieces.tolist() == given.tensors["x"].sum((1, 2)).tolist()


def test_waiting_until_the_function_runs() -> None:
    class Late(Batch):
        """One whose tensors stand for one example when they are asked for."""

        def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Any:
            return lambda name: parts._add_batch_dim(self.tensors[name] * 1, in_dim, vmap_level)

    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    found = torch.vmap(lambda asked: asked("x").sum() + asked("x")[0])(Late((3,), x=x))
    assert found.tolist() == [1.0, 7.0, 13.0]
    found.sum().backward()
    assert x.grad.tolist() == [[2.0, 1.0]] * 3


def test_compiled_around_it() -> None:
    function = torch.jit(lambda b: torch.vmap(doubled)(b).tensors["total"] + 1)
    given = batch()
    with pytest.warns(UserWarning, match="vmap takes objects apart that hold tensors"):
        for step in range(3):
            given.tensors["x"] += step
            assert function(given).tolist() == (given.tensors["x"].sum(-1) + 1).tolist()


def test_nothing_is_kept() -> None:
    seen: list[Any] = []

    def function(b: Batch) -> Any:
        seen.append(weakref.ref(b.tensors["x"]))
        return b.tensors["x"].sum()

    given = batch()
    for _ in range(3):
        torch.vmap(function)(given)
    assert [r() for r in seen] == [None] * 3


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="_add_batch_dim: there is no vmap that asks for it"):
        parts._add_batch_dim(torch.ones(2), 0, 1)
    with pytest.raises(RuntimeError, match="_remove_batch_dim: there is no vmap"):
        parts._remove_batch_dim(torch.ones(2), 1, 2, 0)
    with pytest.raises(ValueError, match="in_dim=2 for some input"):
        torch.vmap(doubled, 2)(batch())
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        torch.vmap(lambda b, x: x)(batch(), torch.ones(4))
    with pytest.raises(ValueError, match="must only return Tensors"):
        torch.vmap(lambda b: Batch((), x="text"))(batch())
    assert parts._get_name(doubled) == "doubled" and "3" in parts._get_name(3)  # type: ignore[arg-type]
