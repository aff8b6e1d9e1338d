"""Primitives on the tape, while the body of an op is differentiated."""

from __future__ import annotations

from functools import partial
from typing import Any

from eagerjit.autograd.node import GradNode
from eagerjit.autograd.rules import fit
from eagerjit.compiled.evaluated import conjugated, has_complex
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.compiler.sizes import Size
from eagerjit.recording.numbers import wrap

RULES: dict[Primitive, tuple[Any, ...]] = {}
"""Derivative rules of primitives that are made of ops, as `Primitive.derivative` has them."""


class PrimitiveCall:
    """What the tape knows of one primitive, while the body of an op is differentiated."""

    rules = None

    def __init__(self, primitive: Primitive, attributes: dict[str, Any]):
        self.name, self.derivative = primitive.name, RULES.get(primitive, primitive.derivative)
        self.variadic, self.wirtinger = "variadic" in primitive.traits, "wirtinger" in primitive.traits
        self.attributes = {name: _seen(value) for name, value in attributes.items()}

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients from the primitive's own rules."""
        (out,) = node.outputs()
        inputs = node.inputs or ()
        if self.variadic:
            return self.derivative[0](grads[0], out, *inputs, **self.attributes)  # type: ignore[misc]
        rules = self.derivative or (None,) * len(inputs)
        if not self.wirtinger and has_complex((*inputs, *grads)):
            rules = tuple(r and partial(_conjugated, r) for r in rules)
        return [
            fit(rule(grads[0], out, *inputs, **self.attributes), x) if rule is not None and needed else None
            for rule, x, needed in zip(rules, inputs, needs, strict=True)
        ]


def _seen(attribute: Any) -> Any:
    """An attribute as rules see it: sizes as numbers."""
    if isinstance(attribute, tuple):
        return tuple(map(_seen, attribute))
    return wrap(attribute) if isinstance(attribute, Size) else attribute


def _conjugated(rule: Any, g: Any, out: Any, *inputs: Any, **attributes: Any) -> Any:
    return conjugated(rule, g, out, inputs, **attributes)
