"""`torch.library.opcheck`: whether a program's operator does what it says of itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit import pytree
from eagerjit.autograd import grad
from eagerjit.generator import fork_rng
from eagerjit.jit import jit
from eagerjit.library import CustomOpDef, operator
from eagerjit.tensors.tensor import Tensor, storage_of
from eagerjit.testing import assert_close


class OpCheckError(Exception):
    """What an operator does otherwise than it says."""


def _tensors(value: Any) -> list[Tensor]:
    leaves: list[Any] = []
    pytree.flatten(value, leaves)
    return [x for x in leaves if isinstance(x, Tensor)]


def _copied(value: Any) -> Any:
    leaves: list[Any] = []
    structure = pytree.flatten(value, leaves)
    copies = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in leaves]
    return pytree.unflatten(structure, copies)


class _Call:
    """A call of an operator with arguments of its own."""

    def __init__(self, function: Callable[..., Any], given: dict[str, Any]):
        self.given = _copied(given)
        with fork_rng():
            self.results = _tensors(function(**self.given))

    def gradients(self) -> tuple[Any, ...]:
        """The gradients of the results' sums for the arguments that require them."""
        leaves = [x for x in _tensors(self.given) if x.requires_grad]
        roots = [r.sum() for r in self.results if r.requires_grad]
        return grad(roots, leaves, allow_unused=True) if leaves and roots else ()


def _check_schema(op: CustomOpDef, given: dict[str, Any], **limits: Any) -> None:
    call = _Call(op, given)
    for name, before in given.items():
        if name in op.mutated:
            continue
        try:
            assert_close(_tensors(call.given[name]), _tensors(before), rtol=0, atol=0, equal_nan=True)
        except AssertionError:
            raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated") from None
    own = {id(storage_of(x)) for x in _tensors(call.given)}
    if not op.may_alias and any(id(storage_of(r)) in own for r in call.results):
        raise RuntimeError(f"{op._qualname}: a result shares the memory of an argument; its clone would not")


def _check_gradients(op: CustomOpDef, given: dict[str, Any], **limits: Any) -> None:
    _Call(op, given).gradients()


def _check_compiled(op: CustomOpDef, given: dict[str, Any], **limits: Any) -> None:
    """Whether a compiled call does what the plain one does."""
    plain, compiled = _Call(op, given), _Call(jit(lambda **options: op(**options)), given)
    for found, expected in ((compiled.results, plain.results), (compiled.gradients(), plain.gradients())):
        assert_close(list(found), list(expected), equal_nan=True, **limits)


_CHECKS: dict[str, Callable[..., None]] = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_gradients,
    "test_faketensor": _check_compiled,  # which records on types alone
    "test_aot_dispatch_static": _check_compiled,
    "test_aot_dispatch_dynamic": _check_compiled,
}
_USUAL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, test_utils: str | Sequence[str] = _USUAL,
    raise_exception: bool = True, atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Whether the operator does with these arguments what it says: "SUCCESS" or an exception for each check.

    test_schema                 it writes to no argument but those that it names, and gives none back
    test_autograd_registration  it has a gradient where arguments require one
    the others                  compiled functions call it with the plain call's results and gradients
    Raises ValueError for other checks, and OpCheckError for the first that fails, unless `raise_exception` is false.
    """
    checks = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(checks) <= _CHECKS.keys():
        raise ValueError(f"opcheck(op, ..., {test_utils=}), expected test_utils to be subset of {tuple(_CHECKS)}")
    chosen = operator(op)
    found: dict[str, Any] = {}
    given = dict(chosen.bound(args, kwargs or {}).arguments)
    for name in checks:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a call that cannot be compiled runs plainly
                _CHECKS[name](chosen, given, atol=atol, rtol=rtol)
            found[name] = "SUCCESS"
        except Exception as error:  # whatever the operator raises is what is wrong with it
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            found[name] = error
    return found
