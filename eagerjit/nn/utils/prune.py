"""Pruning: parameters multiplied by masks of zeros and ones before every call of their Module.

A pruned parameter `name` becomes the parameter `name_orig` and the buffer `name_mask`; `name` itself is an attribute,
their product, which the method that chose the mask computes before every call: it stays among the Module's hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagerjit.nn.module import Module
from eagerjit.random import rand, randperm
from eagerjit.tensors.creation import ones_like
from eagerjit.tensors.tensor import Parameter, Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod:
    """A way to choose a mask; subclasses define `compute_mask` and `PRUNING_TYPE`.

    PRUNING_TYPE    "unstructured" (single elements), "structured" (slices along a dimension) or "global"
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str = ""

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the attribute that forward reads."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor: `default_mask` with further zeros."""
        raise NotImplementedError

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        mask, original = (getattr(module, f"{self._tensor_name}_{kind}") for kind in ("mask", "orig"))
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a Module; what was pruned before stays pruned."""
        made: BasePruningMethod = cls(*args, **kwargs)
        made._tensor_name = name
        previous = _method(module, name)
        if previous is not None:
            container = previous if isinstance(previous, PruningContainer) else PruningContainer(previous)
            container.add_pruning_method(made)
            made = container
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if tuple(scores.shape) != tuple(original.shape):
            raise AssertionError("importance_scores should have the same shape as parameter")
        default = ones_like(original) if previous is None else getattr(module, f"{name}_mask").detach().clone()
        if previous is None and not isinstance(original, Parameter):
            raise TypeError(f"{type(original).__name__} is no Parameter, and only these are pruned")
        mask = made.compute_mask(scores.detach(), default)
        if previous is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        else:
            _drop_hook(module, name)
        module.register_buffer(f"{name}_mask", mask)
        made(module, None)
        module.register_forward_pre_hook(made)
        return made

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        default = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module: Module) -> None:
        """Make the pruned parameter one without a mask again: zeros stay."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several ways to prune one parameter, each applied to what the ones before left."""

    def __init__(self, *args: BasePruningMethod):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """One more way. Raises TypeError for something else, ValueError for another parameter's."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask by the way added last, among what the mask so far keeps."""
        method = self._pruning_methods[-1]
        kept = default_mask == 1
        if method.PRUNING_TYPE == "global":
            return _combined(method, t, default_mask, slice(None))
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            others = [d for d in range(t.ndim) if d != dim]
            alive = kept.sum(others) > 0
            return _combined(method, t, default_mask, (slice(None),) * dim + (alive,))
        if method.PRUNING_TYPE != "unstructured":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        return _combined(method, t, default_mask, kept)


def _combined(method: BasePruningMethod, t: Tensor, default_mask: Tensor, key: Any) -> Tensor:
    """The mask so far, with the part at `key` as a method says."""
    mask = default_mask.clone()
    mask[key] = method.compute_mask(t[key], default_mask=default_mask[key]).to(mask.dtype)
    return mask


def _checked(amount: Any) -> Any:
    """A share in [0, 1] or a whole number. Raises TypeError and ValueError for others."""
    if not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, int) and amount < 0) or (isinstance(amount, float) and not 0.0 <= amount <= 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0.0, 1.0] or a non-negative integer")
    return amount


def _count(amount: Any, size: int) -> int:
    """How many of `size` an amount is. Raises ValueError for more than there are."""
    if isinstance(amount, int):
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return amount
    return round(amount * size)


class Identity(BasePruningMethod):
    """Prunes nothing, so that a parameter gets a mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far."""
        return default_mask


class _Amount(BasePruningMethod):
    def __init__(self, amount: Any):
        self.amount = _checked(amount)


class RandomUnstructured(_Amount):
    """Prunes elements chosen at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far with as many further zeros."""
        mask, count = default_mask.clone(), _count(self.amount, t.numel())
        if count:
            mask.view(-1)[randperm(t.numel(), device=t.device)[:count]] = 0
        return mask


class L1Unstructured(_Amount):
    """Prunes the elements of the least absolute value."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far with zeros at the least elements."""
        mask, count = default_mask.clone(), _count(self.amount, t.numel())
        if count:
            mask.view(-1)[t.abs().reshape(-1).topk(count, largest=False).indices] = 0
        return mask


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1):
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far with zeros in the slices of the least scores."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to a multidimensional tensor. Found tensor of shape "
                f"{tuple(t.shape)} with {t.ndim} dims"
            )
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {tuple(t.shape)}")
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        alive = default_mask.new_zeros(size)
        alive[self._scores(t).topk(size - count).indices] = 1
        return default_mask * alive.reshape([-1 if d == self.dim % t.ndim else 1 for d in range(t.ndim)])


class RandomStructured(_Structured):
    """Prunes slices along a dimension, chosen at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices along a dimension of the least norm."""

    def __init__(self, amount: Any, n: Any, dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        others = tuple(d for d in range(t.ndim) if d != self.dim % t.ndim)
        return t.norm(p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far times the given one."""
        return default_mask * self.mask.to(default_mask.dtype)


def _applies(cls: type[BasePruningMethod], doc: str) -> Callable[..., Module]:
    def prune(module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Module:
        cls.apply(module, name, *args, importance_scores=importance_scores, **kwargs)
        return module

    prune.__doc__ = f"{doc}; returns the Module."
    return prune


identity = _applies(Identity, "Give a parameter a mask of ones")
random_unstructured = _applies(RandomUnstructured, "Prune elements of a parameter at random: an amount or a share")
l1_unstructured = _applies(L1Unstructured, "Prune a parameter's elements of least absolute value: an amount or a share")
random_structured = _applies(RandomStructured, "Prune slices of a parameter along dim at random")


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices of a parameter along dim of least n-norm; returns the Module."""
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is 0; returns the Module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters as if they were one: (Module, name) pairs, by an unstructured method."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs: Sequence[tuple[Module, str]] = list(parameters)
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    scores = [given.get(pair, getattr(*pair)) for pair in pairs]
    masks = [getattr(m, f"{n}_mask", None) for m, n in pairs]
    flat = _flat(scores)
    default = _flat([ones_like(s) if mask is None else mask for s, mask in zip(scores, masks, strict=True)])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(flat.detach(), default)
    start = 0
    for (module, name), score in zip(pairs, scores, strict=True):
        custom_from_mask(module, name, mask=final[start : start + score.numel()].view(tuple(score.shape)))
        start += score.numel()


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    from eagerjit.nn.utils import parameters_to_vector

    return parameters_to_vector(tensors)


def _method(module: Module, name: str) -> BasePruningMethod | None:
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return hook
    return None


def _drop_hook(module: Module, name: str) -> None:
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            del module._forward_pre_hooks[key]


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter one without a mask again, its zeros kept. Raises ValueError for one not pruned."""
    method = _method(module, name)
    if method is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    method.remove(module)
    _drop_hook(module, name)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the Module, or of one in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values()
    )
