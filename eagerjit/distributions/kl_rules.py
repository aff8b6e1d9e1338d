"""Which divergence is for which two classes of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

RULES: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}
_registered = 0


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Mark a function (p, q) as the divergence for two classes and their subclasses."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"Expected type_p and type_q to be Distribution subclasses but got {kind}")

    def mark(function: Any) -> Any:
        global _registered
        RULES[type_p, type_q] = function
        _registered += 1
        return function

    return mark


def rule_of(kind: type, other: type) -> Callable[[Any, Any], Tensor]:
    """The rule that is closest to two classes. Raises NotImplementedError where there is none."""
    before = _registered
    if state.tracer is not None and (journal := state.tracer.journal) is not None:
        journal.checks.append(lambda: _registered == before)
    found = [
        (kind.__mro__.index(a) + other.__mro__.index(b), rule)
        for (a, b), rule in RULES.items()
        if issubclass(kind, a) and issubclass(other, b)
    ]
    if not found:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {kind.__name__} and q type {other.__name__}"
        )
    return min(found, key=lambda pair: pair[0])[1]
