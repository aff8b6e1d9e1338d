"""Gradients of and with respect to tensors that consist of parts: those of their values."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd import api
from eagerjit.tensors.parted import PartedTensor
from eagerjit.tensors.tensor import Tensor


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _values(tensors: Any) -> list[Any]:
    return [t._entries if isinstance(t, PartedTensor) else t for t in _listed(tensors)]


def _starts(outputs: list[Any], grads: Any) -> Any:
    """Gradients of such outputs as gradients of their values."""
    if grads is None:
        return None
    pairs = zip(outputs, _listed(grads), strict=True)
    return [o.values_of(g) if isinstance(o, PartedTensor) and g is not None else g for o, g in pairs]


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *rest: Any, **options: Any) -> Any:
    """`autograd.grad`: gradients of such inputs are tensors of their kind, with values in the same places."""
    roots, targets = _listed(outputs), _listed(inputs)
    found = api.grad(_values(roots), _values(targets), _starts(roots, grad_outputs), *rest, **options)
    pairs = zip(targets, found, strict=True)
    return tuple(t.with_values(g) if isinstance(t, PartedTensor) and g is not None else g for t, g in pairs)


def backward(tensors: Any, grad_tensors: Any = None, *rest: Any, **options: Any) -> None:
    """`autograd.backward` of such tensors, or into some."""
    roots = _listed(tensors)
    if options.get("inputs") is not None:
        options["inputs"] = _values(options["inputs"])
    api.backward(_values(roots), _starts(roots, grad_tensors), *rest, **options)


def register_hook(self: PartedTensor, hook: Any) -> Any:
    """Calls hook(gradient) with gradients of the tensor's kind, whose result takes their place."""

    def called(gradient: Tensor) -> Any:
        found = hook(self.with_values(gradient))
        return None if found is None else self.values_of(found)

    return self._entries.register_hook(called)


def retain_grad(self: PartedTensor) -> None:
    """Keep the gradient, although the tensor is no leaf."""
    self._entries.retain_grad()


HANDLERS: dict[str, Any] = {f.__name__: f for f in (grad, backward, register_hook, retain_grad)}
