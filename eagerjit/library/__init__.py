"""Names of `torch.library`: functions of a program as operators under a name, with gradients of their own.

Nothing has to be told how such a function acts on shapes (`register_fake`): compiled functions record its body, as they
record any other code, or run eagerly where they cannot.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.autograd.function import Function
from eagerjit.pytree import Structure, flatten, unflatten
from eagerjit.runtime import mode
from eagerjit.state import set_counting, state
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "CustomOpDef", "custom_op", "define", "impl", "register_autograd", "register_fake", "register_kernel",
    "register_vmap", "triton_op",
]  # fmt: skip
_LATE = {"Library": "eagerjit.library.declared", "opcheck": "eagerjit.library.checks"}
__all__ += _LATE

_BY_KEYWORD = inspect.Parameter.KEYWORD_ONLY

OPERATORS: dict[str, CustomOpDef] = {}
"""By qualified name, "namespace::name"."""


class CustomOpDef:
    """A function under a qualified name; `torch.ops.namespace.name` is the same.

    mutated    names of the arguments that it says it writes to
    may_alias  whether it says that results may share memory with arguments
    """

    may_alias = False

    def __init__(self, name: str, function: Callable[..., Any], mutated: Any = ()):
        self._qualname, self._function = name, function
        self._signature = inspect.signature(function)
        self.mutated = frozenset(self._signature.parameters if mutated == "unknown" else _several(mutated))
        kinds = [p.kind for p in self._signature.parameters.values()]
        self._keywords = [n for n, k in zip(self._signature.parameters, kinds, strict=True) if k is _BY_KEYWORD]
        self._rule_for_examples: Any = None
        self._kernels: dict[str, Callable[..., Any]] = {}
        self.__name__, self.__doc__ = name.rpartition(":")[2], function.__doc__
        self.register_autograd(self._no_gradient)

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: it has no overloads."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = tuple(self.bound(args, kwargs).arguments.values())
        leaves: list[Any] = []
        structure = flatten(values, leaves)
        if not mode.grad_mode() or not any(isinstance(x, Tensor) and x._requires_grad for x in leaves):
            return self._run(*values)
        shape, *parts = self._gradient.apply(structure, *leaves)
        return unflatten(shape, parts)

    def bound(self, args: Any, kwargs: Any) -> inspect.BoundArguments:
        """The arguments by name. Raises RuntimeError for others than the operator has."""
        try:
            found = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise RuntimeError(f"{self._qualname}(): {error}. Declaration: {self._qualname}{self._signature}") from None
        found.apply_defaults()
        return found

    def _run(self, *values: Any) -> Any:
        tracer = state.tracer
        if (counting := state.counting) is not None and tracer is None:
            return self._counted(counting, values)
        if self._rule_for_examples is None or tracer is None or not tracer.single_example:
            return self._computed(*values)
        return tracer.by_own_rule(self._rule_for_examples, self._computed, values)

    def _counted(self, counting: Any, values: tuple[Any, ...]) -> Any:
        """The result, told as that of one operation: what the function computes with is not."""
        set_counting(None)
        try:
            result = self._computed(*values)
        finally:
            set_counting(counting)
        counting.called(self, values, result)
        return result

    def _computed(self, *values: Any) -> Any:
        leaves: list[Any] = []
        structure = flatten(values, leaves)
        kinds = {x.device.type for x in leaves if isinstance(x, Tensor)}
        chosen = next((self._kernels[k] for k in kinds if k in self._kernels), self._function)
        seen = [x.detach() if isinstance(x, Tensor) and x._requires_grad else x for x in leaves]
        positional, keywords = self._split(unflatten(structure, seen))
        return chosen(*positional, **keywords)

    def _no_gradient(self, ctx: Any, *grads: Any) -> Any:
        name = self._qualname.replace("::", ".")
        raise RuntimeError(
            f"Trying to backward through {name}.default but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )

    def _split(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional arguments, and those that are given by keyword alone."""
        count = len(values) - len(self._keywords)
        return values[:count], dict(zip(self._keywords, values[count:], strict=True))

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """backward(ctx, *grads) gives the positional arguments' gradients.

        setup_context(ctx, inputs, output) saves for it; where the operator has arguments that are given by keyword
        alone, it is called as setup_context(ctx, inputs, keyword_only_inputs, output), the third a dictionary.
        The operator's function sees tensors that require no gradients.
        """
        operator = self

        class Operator(Function):
            @staticmethod
            def forward(structure: Structure, *leaves: Any) -> Any:
                result = operator._run(*unflatten(structure, leaves))
                parts: list[Any] = []
                shape = flatten(result, parts)
                return (shape, *parts)

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                (structure, *leaves), (shape, *parts) = inputs, output
                ctx.nested = structure, shape
                ctx.needs_input_grad = unflatten(structure, ctx.needs_input_grad[1:])
                if setup_context is None:
                    return
                given, result = unflatten(structure, leaves), unflatten(shape, parts)
                if operator._keywords:
                    positional, keywords = operator._split(given)
                    setup_context(ctx=ctx, inputs=positional, keyword_only_inputs=keywords, output=result)
                else:
                    setup_context(ctx=ctx, inputs=given, output=result)

            @staticmethod
            def backward(ctx: Any, _: None, *grads: Any) -> Any:
                structure, shape = ctx.nested
                nested = unflatten(shape, grads)
                found = backward(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
                several = isinstance(found, tuple) or (isinstance(found, list) and len(structure[2]) > 1)
                positional = found if several else (found,)
                return (None, *_leaves_of(structure, (*positional, *(None for _ in operator._keywords))))

        Operator.__name__ = self.__name__
        self._gradient = Operator

    def register_fake(self, fn: Any = None, /) -> Any:
        """Nothing: shapes follow from the function. Gives `fn` back, also as a decorator."""
        return fn if fn is not None else _same

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Another function for tensors of some kinds of device; None for all. Also as a decorator."""
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn)
        kinds = ("cpu", "cuda") if device_types is None else _several(device_types)
        self._kernels |= dict.fromkeys(kinds, fn)
        return fn

    def register_vmap(self, func: Any = None, /) -> Any:
        """func(info, in_dims, *args, **kwargs) gives (results, their dimensions of examples) for all examples.

        Without such a rule `vmap` goes through the operator's function. Gives None; without `func`, a decorator.
        """
        if func is None:
            return lambda func: self.register_vmap(func) or func
        operator = self

        def rule(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
            positional, keywords = operator._split(values)
            return func(info, in_dims[: len(positional)], *positional, **keywords)

        self._rule_for_examples = rule
        return None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


class Namespace:
    """`torch.ops.namespace`: the operators whose names begin so."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        found = OPERATORS.get(f"{self._name}::{name}")
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        return found


def _leaves_of(structure: Structure, gradients: Any) -> Any:
    """The gradients of all tensors in the arguments: one that is None for all in a list stands for each of them."""
    for part, gradient in zip(structure[2], gradients, strict=False):
        if type(part) is tuple:
            yield from _leaves_of(part, (None,) * len(part[2]) if gradient is None else gradient)
        else:
            yield gradient
    yield from gradients[len(structure[2]) :]


def _same(function: Any) -> Any:
    return function


def _several(names: Any) -> Sequence[str]:
    return (names,) if isinstance(names, str) else tuple(names)


def custom_op(
    name: str, fn: Any = None, /, *, mutates_args: Any = (), device_types: Any = None, schema: str | None = None,
    tags: Any = None,
) -> Any:  # fmt: skip
    """The function as an operator named "namespace::name"; without a function, what makes one, as a decorator.

    Raises ValueError for a name without a namespace.
    """
    if fn is None:
        return lambda fn: custom_op(name, fn, mutates_args=mutates_args, device_types=device_types)
    if "::" not in name:
        raise ValueError(f"custom_op: the name {name!r} has no namespace: it is written as namespace::name")
    made = OPERATORS[name] = CustomOpDef(name, fn, mutates_args)
    return made


triton_op = custom_op


def operator(op: Any) -> CustomOpDef:
    """The operator with a name. RuntimeError where there is none."""
    if isinstance(op, CustomOpDef):
        return op
    if op not in OPERATORS:
        raise RuntimeError(f"there is no operator {op}: torch.library.custom_op makes one")
    return OPERATORS[op]


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """`CustomOpDef.register_autograd` of an operator, or of the one with a name."""
    operator(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **options: Any) -> Any:
    """Nothing, as `CustomOpDef.register_fake`; also for operators compiled for PyTorch, which are not there."""
    return func if func is not None else _same


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """`CustomOpDef.register_kernel`."""
    return operator(op).register_kernel(device_types, func)



def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Declare the operator "namespace::name" by a schema, `(Tensor x, int n=3) -> Tensor`. Raises ValueError for a name
    without a namespace or no schema, RuntimeError for a name that there is."""
    from eagerjit.library.declared import Schema, declare

    if "::" not in qualname:
        raise ValueError(f"define: the name {qualname!r} has no namespace: it is written as namespace::name")
    try:
        found = Schema(schema, qualname.partition("::")[2])
    except RuntimeError as error:
        raise ValueError(f"define: {error}") from None
    declare(qualname, found)


def impl(qualname: Any, types: Any = "", func: Any = None, *, lib: Any = None) -> Any:
    """A function for an operator on kinds of device, "default" or a dispatch key standing for all; also as a decorator.

    `impl(library, name, key)` is the same for one of a Library.
    """
    from eagerjit.library.declared import DeclaredOp, Library

    if isinstance(qualname, Library):
        key = func or ""
        return _given(lambda function: qualname.impl(types, function, key))
    if func is None:
        return _given(lambda function: impl(qualname, types, function))
    found = operator(qualname)
    if not isinstance(found, DeclaredOp):
        return found.register_kernel(types, func)
    for key in _several(types):
        found.give(func, "" if key == "default" else key)
    return None


def _given(register: Callable[[Any], None]) -> Any:
    """A decorator that registers a function and gives it back."""

    def decorate(function: Any) -> Any:
        register(function)
        return function

    return decorate


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """`CustomOpDef.register_vmap`."""
    return operator(op).register_vmap(func)
