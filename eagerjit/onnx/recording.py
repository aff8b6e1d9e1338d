"""A model's call that ONNX can say: tensors alone are returned, and sizes may be other ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.export.recording import Axes, Recorded, recorded

ASKED = "torch.onnx.export"


def recorded_tensors(
    model: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], axes: Sequence[Axes]
) -> Recorded:
    """Record a call. RuntimeError where it cannot be recorded, or returns something else than tensors.

    Where sizes differ from call to call a second recording of larger tensors tells whether the graph serves them too.
    """
    found = recorded(ASKED, model, args, kwargs, axes)
    wrong = next((x for x in found.leaves if not isinstance(x, Node) and x is not None), None)
    if wrong is not None:
        name = getattr(model, "__name__", type(model).__name__)
        raise RuntimeError(f"{ASKED}: {name} returns a {type(wrong).__name__}, not tensors alone")
    if any(axes):
        try:
            same = found.text() == recorded(ASKED, model, args, kwargs, axes, 2).text()
        except Exception as error:  # whatever the model raises for other sizes
            warnings.warn(f"{ASKED}: twice the sizes could not be tried: {error}", stacklevel=4)
        else:
            if not same:
                _warn(found)
    return found


def _warn(found: Recorded) -> None:
    """Say what the graph takes for granted of sizes that differ from call to call."""
    names = {symbol: sizes.symbol(name) for symbol, (_, _, name) in found.varying.items()}
    guards = [guard.replaced({**found.known, **names}) for guard in found.guards]
    relied = [str(guard) for guard in guards if not guard.is_certain()]
    warnings.warn(
        f"{ASKED}: larger tensors make another graph, so that the exported one may be right only where "
        f"{' and '.join(relied) or 'sizes are those of the example'}",
        stacklevel=5,
    )
