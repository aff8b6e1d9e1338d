"""Conditions that kernels check."""

from __future__ import annotations

import numpy as np

from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.compiler.ops.elementwise import where
from eagerjit.runtime.program import Failure


def _require_reference(condition: np.ndarray, x: np.ndarray, same: np.ndarray, error: str, message: str) -> np.ndarray:
    if not np.all(condition):
        raise Failure(error, message).error(())
    return np.where(condition, x, same)


require = declare(
    Primitive(
        "require",
        "elementwise",
        lambda condition, x, same, **attributes: where.type_rule(condition, x, same),
        _require_reference,
        "x, given twice; where the condition does not hold, the call ends with the exception `error`.",
        scalar="where",
        derivative=(None, lambda g, out, condition, x, same, **attributes: g, None),
        traits=frozenset({"exact", "requires"}),
    )
)
