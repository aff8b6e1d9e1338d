"""`torch.library.Library`: operators that are declared by a schema first, and given functions for kinds of devices."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

from eagerjit.library import OPERATORS, CustomOpDef
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor

_KINDS = ("DEF", "IMPL", "FRAGMENT")
_SCHEMA = re.compile(r"^\s*([\w.:]*)\s*\((.*)\)\s*->\s*(.+)$", re.S)
_SHAPES_ALONE = ("Meta", "FakeTensor")


class Schema:
    """`name(Tensor x, int n=3, *, bool flag=True) -> Tensor` taken apart. Raises RuntimeError for other texts."""

    def __init__(self, text: str, name: str = ""):
        found = _SCHEMA.match(text)
        if found is None:
            raise RuntimeError(f"expected a schema such as name(Tensor x) -> Tensor, but got {text!r} for {name!r}")
        self.name = (name or found.group(1)).partition(".")[0]
        self.mutated: list[str] = []
        self.signature = inspect.Signature(list(_parameters(found.group(2), self.mutated)))
        self.may_alias = "(" in found.group(3).strip("()")


def _parameters(text: str, mutated: list[str]) -> Any:
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for part in re.split(r",(?![^\[\(]*[\]\)])", text):
        words = part.strip()
        if words == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif words:
            declared, equals, default = words.partition("=")
            value = _literal(default) if equals else inspect.Parameter.empty
            if "!" in declared:
                mutated.append(declared.split()[-1])
            yield inspect.Parameter(declared.split()[-1], kind, default=value)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except ValueError:
        raise RuntimeError(f"a schema's default must be a number, a text or a list of these, but got {text}") from None


class DeclaredOp(CustomOpDef):
    """An operator that was declared by a schema: functions come later, and gradients go through them.

    What is registered for gradients (`register_autograd`, `impl` for "Autograd") takes their place.
    """

    def __init__(self, name: str, schema: Schema):
        def missing(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"Could not run '{name}': no function was registered for these arguments' device")

        missing.__signature__ = schema.signature  # type: ignore[attr-defined]
        self._with_gradient: Callable[..., Any] | None = None
        self._through = True
        self.may_alias = schema.may_alias
        super().__init__(name, missing, schema.mutated)

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """`CustomOpDef.register_autograd`: gradients no longer go through the functions."""
        self._through = backward == self._no_gradient
        super().register_autograd(backward, setup_context=setup_context)

    def give(self, function: Callable[..., Any], key: str) -> None:
        """A function for a dispatch key: a kind of device, "Autograd", or one of those that stand for all devices."""
        if key.startswith("Autograd"):
            self._with_gradient = function
        elif key.startswith("Composite") or not key:
            self._function = function
        elif key not in _SHAPES_ALONE:
            self._kernels[key.lower()] = function

    def _computed(self, *values: Any) -> Any:
        if not self._through:
            return super()._computed(*values)
        recorded = mode.grad_mode() and any(isinstance(v, Tensor) and v.requires_grad for v in values)
        kinds = {v.device.type for v in values if isinstance(v, Tensor)}
        chosen = next((self._kernels[k] for k in kinds if k in self._kernels), self._function)
        positional, keywords = self._split(values)
        return (self._with_gradient if recorded and self._with_gradient else chosen)(*positional, **keywords)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._through:
            return super().__call__(*args, **kwargs)
        return self._run(*self.bound(args, kwargs).arguments.values())


def declare(name: str, schema: Schema) -> DeclaredOp:
    """A new operator. Raises RuntimeError for a name that there is."""
    if name in OPERATORS:
        raise RuntimeError(
            f"Tried to register an operator ({name}) with the same name and overload name multiple times."
        )
    made = OPERATORS[name] = DeclaredOp(name, schema)
    return made


class Library:
    """Operators of a namespace: `define` declares one by a schema, `impl` gives it a function.

    kind          "DEF" or "FRAGMENT" for new operators, "IMPL" for functions of known ones
    dispatch_key  what `impl` takes where it is given none: a kind of device, "CompositeExplicitAutograd", "Autograd"
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "aten" and kind == "DEF":
            raise RuntimeError("Only a single TORCH_LIBRARY can be used to register the namespace aten")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._names: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an operator, `name(Tensor x) -> Tensor`; gives its name."""
        if self.kind == "IMPL":
            raise RuntimeError("define: a Library of kind IMPL declares no operators")
        found = Schema(schema)
        self._names.append(f"{self.ns}::{found.name}")
        declare(self._names[-1], found)
        return found.name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:  # fmt: skip
        """A function for an operator. Raises TypeError for no function, RuntimeError for no such operator."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        name = op_name if isinstance(op_name, str) else op_name._qualname
        name = name if "::" in name else f"{self.ns}::{name}"
        operator = OPERATORS.get(name.partition(".")[0])
        if not isinstance(operator, DeclaredOp):
            raise RuntimeError(f"impl: no operator {name} was declared by a schema: Library.define does that")
        operator.give(fn, dispatch_key or self.dispatch_key)

    def _destroy(self) -> None:
        """Forget the operators that were declared."""
        for name in self._names:
            OPERATORS.pop(name, None)
