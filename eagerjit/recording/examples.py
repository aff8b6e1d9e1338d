"""What a recording does for tensors that stand for one of many examples; any other recording does nothing special."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Examples:
    """How ops are recorded."""

    single_example = False
    """Whether tensors stand for one of many examples."""

    def outside_of(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of an op for every example, where tensors stand for one of many."""
        raise NotImplementedError

    def by_own_rule(self, rule: Callable[..., Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The results of a function that has a rule for many examples."""
        raise NotImplementedError
