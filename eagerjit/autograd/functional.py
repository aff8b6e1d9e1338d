"""Jacobians, Hessians and their products with vectors, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from eagerjit import pytree
from eagerjit.func.jacobians import columns, rows
from eagerjit.func.repeated import known, transformed
from eagerjit.func.transforms import Run, Starts, run, start
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor


def _started(name: str, inputs: Any, create_graph: bool) -> tuple[Any, Starts]:
    """The inputs as they were nested, and aliases of them; results are connected to the inputs with `create_graph`."""
    single = isinstance(inputs, Tensor)
    if not single and not isinstance(inputs, (tuple, list)):
        raise TypeError(f"The inputs given to {name} must be either a Tensor or a tuple of Tensors")
    return single, start(name, (inputs,) if single else tuple(inputs), connect=create_graph)


def _evaluated(name: str, func: Callable[..., Any], starts: Starts, strict: bool) -> Run:
    done = run(name, lambda: func(*starts.arguments()), starts)
    if strict and not all(o._requires_grad for o in done.outputs):
        raise RuntimeError(
            f"{name}: an output of the user-provided function is independent of the inputs (strict=True)"
        )
    return done


def _vectors(name: str, v: Any, like: list[Tensor]) -> list[Tensor]:
    """The vectors that a product is taken with; ones for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{name}: the vector v can only be None if the other side is a single element")
        return [like[0].detach().new_ones(like[0].shape)]
    given = [v] if isinstance(v, Tensor) else list(v)
    if len(given) != len(like):
        raise RuntimeError(f"{name}: v has {len(given)} tensors, expected {len(like)}")
    for x, t in zip(given, like, strict=True):
        if tuple(x.shape) != tuple(t.shape):
            raise RuntimeError(f"{name}: v has a tensor of shape {list(x.shape)}, expected {list(t.shape)}")
    return given


def _one(single: bool, values: list[Any]) -> Any:
    return values[0] if single else tuple(values)


def _released(create_graph: bool, value: Any) -> Any:
    """Results, without history unless it was asked for."""
    if create_graph:
        return value
    leaves: list[Any] = []
    structure = pytree.flatten(value, leaves)
    return pytree.unflatten(structure, [x.detach() if x._requires_grad else x for x in leaves])


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d output / d input, of the output's shape followed by the input's; a tuple per input (and per output).

    All rows (or, with the strategy "forward-mode", all columns) are computed at once, whatever `vectorize` says.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Got: {strategy}')
    return _jacobian_of(func, create_graph, strict, strategy == "forward-mode")(inputs)


def _jacobian_of(func: Callable[..., Any], create_graph: bool, strict: bool, forward: bool) -> Callable[..., Any]:
    """A function from inputs to the Jacobian there."""

    def plain(inputs: Any) -> Any:
        single, starts = _started("jacobian", inputs, create_graph)
        done = _evaluated("jacobian", func, starts, strict)
        found = [_one(single, row) for row in (columns if forward else rows)(done)]
        result = found[0] if done.structure == pytree.LEAF else tuple(found)
        return _released(create_graph, result)

    again = partial(_jacobian_of, create_graph=create_graph, strict=strict, forward=forward)
    return transformed(again, func, plain)


def _gradient(func: Callable[..., Any], name: str, strict: bool) -> Callable[..., tuple[Tensor, ...]]:
    """The gradient of a function with a single result."""

    def gradient(*arguments: Tensor) -> tuple[Tensor, ...]:
        starts = start(name, arguments)
        done = _evaluated(name, func, starts, strict)
        if len(done.outputs) != 1 or done.outputs[0].numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        return tuple(done.pull([done.outputs[0].detach().new_ones(done.outputs[0].shape)]))

    return known(partial(_gradient, name=name, strict=strict), func, gradient)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a scalar function."""
    values = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    gradient = _gradient(func, "hessian", strict)
    blocks = jacobian(gradient, values, create_graph, False, vectorize, outer_jacobian_strategy)
    return blocks[0][0] if isinstance(inputs, Tensor) else blocks


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of v with the Jacobian)."""
    single, starts = _started("vjp", inputs, create_graph)
    done = _evaluated("vjp", func, starts, strict)
    return _products(done, single, create_graph, done.pull(_vectors("vjp", v, done.outputs)))


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of the Jacobian with v)."""
    _, starts = _started("jvp", inputs, create_graph)
    done = _evaluated("jvp", func, starts, strict)
    pushed = done.push(_vectors("jvp", v, starts.leaves))
    return _products(done, done.structure == pytree.LEAF, create_graph, pushed)


def _products(done: Run, single: bool, create_graph: bool, found: list[Tensor]) -> tuple[Any, Any]:
    return _released(create_graph, done.result()), _released(create_graph, _one(single, found))


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of v with the Hessian)."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict, reverse=True)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of the Hessian with v): forward mode over reverse mode."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict, reverse=False)


def _hessian_product(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, reverse: bool
) -> tuple[Any, Any]:
    single, starts = _started(name, inputs, create_graph)
    values: list[Any] = []

    def noted(*arguments: Tensor) -> Any:
        values.append(func(*arguments))
        return values[-1]

    before = mode.set_grad_mode(True)
    try:
        gradient = _gradient(noted, name, strict)
        done = run(name, lambda: gradient(*starts.arguments()), starts)
        vectors = _vectors(name, v, starts.leaves)
        found = done.pull(vectors) if reverse else done.push(vectors)
    finally:
        mode.set_grad_mode(before)
    value = done.released(values[0])
    return _released(create_graph, value), _released(create_graph, _one(single, found))
