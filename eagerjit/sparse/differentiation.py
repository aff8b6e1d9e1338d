"""Gradients of and with respect to sparse tensors: those of their values."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd import api
from eagerjit.sparse.tensor import SparseTensor, like
from eagerjit.tensors.tensor import Tensor


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _values(tensors: Any) -> list[Any]:
    return [t._entries if isinstance(t, SparseTensor) else t for t in _listed(tensors)]


def _starts(outputs: list[Any], grads: Any) -> Any:
    """Gradients of sparse outputs as gradients of their values."""
    if grads is None:
        return None
    pairs = zip(outputs, _listed(grads), strict=True)
    return [g.sparse_mask(o)._entries if isinstance(o, SparseTensor) and g is not None else g for o, g in pairs]


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *rest: Any, **options: Any) -> Any:
    """`autograd.grad`: gradients of sparse inputs are sparse tensors with their places."""
    roots, targets = _listed(outputs), _listed(inputs)
    found = api.grad(_values(roots), _values(targets), _starts(roots, grad_outputs), *rest, **options)
    pairs = zip(targets, found, strict=True)
    return tuple(like(t, g) if isinstance(t, SparseTensor) and g is not None else g for t, g in pairs)


def backward(tensors: Any, grad_tensors: Any = None, *rest: Any, **options: Any) -> None:
    """`autograd.backward` of sparse tensors, or into some."""
    roots = _listed(tensors)
    if options.get("inputs") is not None:
        options["inputs"] = _values(options["inputs"])
    api.backward(_values(roots), _starts(roots, grad_tensors), *rest, **options)


def register_hook(self: SparseTensor, hook: Any) -> Any:
    """Calls hook(gradient) with sparse gradients, whose result takes their place."""

    def called(gradient: Tensor) -> Any:
        found = hook(like(self, gradient))
        return None if found is None else found.sparse_mask(self)._entries

    return self._entries.register_hook(called)


def retain_grad(self: SparseTensor) -> None:
    """Keep the gradient, although the tensor is no leaf."""
    self._entries.retain_grad()


HANDLERS: dict[str, Any] = {f.__name__: f for f in (grad, backward, register_hook, retain_grad)}
