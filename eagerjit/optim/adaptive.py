"""More update rules that scale gradients: Adadelta, Adamax, NAdam and RAdam."""

from __future__ import annotations

from typing import Any

from eagerjit.optim.arithmetic import Tensors, UpdateRule, as_dtype, counted, double, wide, write
from eagerjit.optim.groups import LATER, Group, number, pair, validated, validated_betas
from eagerjit.optim.optimizer import Optimizer
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import ones, zeros_like
from eagerjit.tensors.tensor import Tensor


def _adadelta(
    parameters: Tensors, gradients: Tensors, squares: Tensors, deltas: Tensors, step: Tensor, maximize: bool, lr: Any,
    rho: Any, eps: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    counted(step)
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        g = -g if maximize else g
        g = g + p * as_dtype(weight_decay, kind)
        kept, share = as_dtype(rho, kind), as_dtype(1.0 - double(rho), kind)
        small = as_dtype(eps, kind)
        square = wide(squares[index]) * kept + g * g * share
        before = wide(deltas[index])
        delta = (before + small).sqrt() / (square + small).sqrt() * g
        write(squares[index], square)
        write(deltas[index], before * kept + delta * delta * share)
        write(parameter, p - delta * as_dtype(lr, kind))
    return ()


_ADADELTA_NUMBERS = ("lr", "rho", "eps", "weight_decay")
_adadelta_op = UpdateRule("adadelta_step", _adadelta, _ADADELTA_NUMBERS)


class Adadelta(Optimizer):
    """Steps as large as the recent ones (Zeiler 2012): p -= lr * sqrt(d + eps) / sqrt(s + eps) * g.

    s and d are running averages of the squares of gradients and of steps. ValueError for rho outside [0, 1].
    """

    counters = ("step",)
    later_options = LATER

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: Any = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        validated("learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        validated("epsilon value", eps)
        validated("weight_decay value", weight_decay)
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        how = {"capturable": capturable, "foreach": foreach, "differentiable": differentiable}
        super().__init__(params, {**options, **how})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """Running averages of the squares of gradients and of steps."""
        return {"square_avg": zeros_like(parameter), "acc_delta": zeros_like(parameter)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        numbers = tuple(number(group, name) for name in _ADADELTA_NUMBERS)
        squares, deltas = ([s[name] for s in states] for name in ("square_avg", "acc_delta"))
        step, maximize = states[0]["step"], bool(group["maximize"])
        _adadelta_op.call(parameters, gradients, squares, deltas, step, maximize, *numbers)


def _adamax(
    parameters: Tensors, gradients: Tensors, averages: Tensors, largest: Tensors, step: Tensor, maximize: bool,
    lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    count = counted(step)
    rate = double(lr) / (1.0 - double(beta1) ** count)
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        g = -g if maximize else g
        g = g + p * as_dtype(weight_decay, kind)
        average = wide(averages[index])
        average = average + (g - average) * as_dtype(1.0 - double(beta1), kind)
        size = (wide(largest[index]) * as_dtype(beta2, kind)).maximum(g.abs() + as_dtype(eps, kind))
        write(averages[index], average)
        write(largest[index], size)
        write(parameter, p - as_dtype(rate, kind) * average / size)
    return ()


_ADAM_NUMBERS = ("lr", "beta1", "beta2", "eps", "weight_decay")
_adamax_op = UpdateRule("adamax_step", _adamax, _ADAM_NUMBERS)


class Adamax(Optimizer):
    """Adam with the largest gradient in place of their squares' average (Kingma and Ba 2015, section 7.1).

    u = max(beta2 * u, |g| + eps) and p -= lr / (1 - beta1**t) * m / u.
    """

    counters = ("step",)
    later_options = LATER

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: Any = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ):  # fmt: skip
        _validated_adam(lr, betas, eps, weight_decay)
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "foreach": foreach}
        how = {"maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, {**options, **how})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """The running average of the gradient, and its largest size."""
        return {"exp_avg": zeros_like(parameter), "exp_inf": zeros_like(parameter)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        averages, largest = ([s[name] for s in states] for name in ("exp_avg", "exp_inf"))
        step, maximize = states[0]["step"], bool(group["maximize"])
        _adamax_op.call(parameters, gradients, averages, largest, step, maximize, *_adam_numbers(group))


def _validated_adam(lr: Any, betas: Any, eps: float, weight_decay: float) -> None:
    validated("learning rate", lr)
    validated("epsilon value", eps)
    validated_betas(betas)
    validated("weight_decay value", weight_decay)


def _adam_numbers(group: Group) -> tuple[Any, ...]:
    return (number(group, "lr"), *pair(group, "betas"), number(group, "eps"), number(group, "weight_decay"))


def _moments(
    parameter: Tensor, gradient: Tensor, average: Tensor, square: Tensor, decoupled: bool, maximize: bool, lr: Any,
    beta1: Any, beta2: Any, weight_decay: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(the decayed parameter, its gradient, and the new averages of it and of its square, which are written)."""
    p, g = wide(parameter), wide(gradient)
    kind = p.dtype
    g = -g if maximize else g
    if decoupled:
        p = p * as_dtype(1.0 - double(lr) * weight_decay, kind)
    else:
        g = g + p * as_dtype(weight_decay, kind)
    first, second = wide(average), wide(square)
    first = first + (g - first) * as_dtype(1.0 - double(beta1), kind)
    second = second * as_dtype(beta2, kind) + g * g * as_dtype(1.0 - double(beta2), kind)
    write(average, first)
    write(square, second)
    return p, g, first, second


def _nadam(
    parameters: Tensors, gradients: Tensors, averages: Tensors, squares: Tensors, products: Tensors, step: Tensor,
    decoupled: bool, maximize: bool, lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any, momentum_decay: Any,
) -> tuple[()]:  # fmt: skip
    count = counted(step)
    rate, decay = double(lr), double(momentum_decay)
    correction = 1.0 - double(beta2) ** count
    momentum = double(beta1) * (1.0 - 0.5 * double(0.96) ** (count * decay))
    following = double(beta1) * (1.0 - 0.5 * double(0.96) ** ((count + 1.0) * decay))
    for index, parameter in enumerate(parameters):
        options = (decoupled, maximize, lr, beta1, beta2, weight_decay)
        p, g, first, second = _moments(parameter, gradients[index], averages[index], squares[index], *options)
        kind = p.dtype
        product = double(products[index]) * momentum
        write(products[index], product)
        bottom = (second / as_dtype(correction, kind)).sqrt() + as_dtype(eps, kind)
        now = as_dtype(rate * (1.0 - momentum) / (1.0 - product), kind)
        later = as_dtype(rate * following / (1.0 - product * following), kind)
        write(parameter, p - now * g / bottom - later * first / bottom)
    return ()


_nadam_op = UpdateRule("nadam_step", _nadam, (*_ADAM_NUMBERS, "momentum_decay"))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    counters = ("step", "mu_product")
    later_options = LATER | {"decoupled_weight_decay": False}

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: Any = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        _validated_adam(lr, betas, eps, weight_decay)
        validated("momentum_decay value", momentum_decay)
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        flags = {"decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}
        how = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**options, "momentum_decay": momentum_decay, **flags, **how})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """Running averages of the gradient and of its square, and the product of momenta so far."""
        averages = {"exp_avg": zeros_like(parameter), "exp_avg_sq": zeros_like(parameter)}
        return {"mu_product": ones((), dtype=dtypes.float32, device=parameter.device), **averages}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        tables = ([s[name] for s in states] for name in ("exp_avg", "exp_avg_sq", "mu_product"))
        flags = (bool(group["decoupled_weight_decay"]), bool(group["maximize"]))
        numbers = (*_adam_numbers(group), number(group, "momentum_decay"))
        _nadam_op.call(parameters, gradients, *tables, states[0]["step"], *flags, *numbers)


def _radam(
    parameters: Tensors, gradients: Tensors, averages: Tensors, squares: Tensors, step: Tensor, decoupled: bool,
    maximize: bool, lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    count = counted(step)
    rate, b2 = double(lr), double(beta2)
    correction1, correction2 = 1.0 - double(beta1) ** count, 1.0 - b2**count
    limit = 2.0 / (1.0 - b2) - 1.0
    length = limit - 2.0 * count * b2**count / correction2
    reliable = length > 5.0
    safe = length.where(reliable, 6.0)
    top = (safe - 4.0) * (safe - 2.0) * limit
    rectified = (top / ((limit - 4.0) * (limit - 2.0) * safe)).sqrt() * correction2.sqrt()
    for index, parameter in enumerate(parameters):
        options = (decoupled, maximize, lr, beta1, beta2, weight_decay)
        p, _, first, second = _moments(parameter, gradients[index], averages[index], squares[index], *options)
        kind = p.dtype
        scale = as_dtype(rectified, kind) / (second.sqrt() + as_dtype(eps, kind))
        first = first / as_dtype(correction1, kind) * as_dtype(rate, kind)
        write(parameter, p - (first * scale).where(reliable, first))
    return ()


_radam_op = UpdateRule("radam_step", _radam, _ADAM_NUMBERS)


class RAdam(Optimizer):
    """Adam that scales steps only once the average of squares is reliable (Liu et al. 2020)."""

    counters = ("step",)
    later_options = LATER | {"decoupled_weight_decay": False}

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: Any = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        _validated_adam(lr, betas, eps, weight_decay)
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        how = {"foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**options, **how, "differentiable": differentiable})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """Running averages of the gradient and of its square."""
        return {"exp_avg": zeros_like(parameter), "exp_avg_sq": zeros_like(parameter)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        averages, squares = ([s[name] for s in states] for name in ("exp_avg", "exp_avg_sq"))
        flags = (bool(group["decoupled_weight_decay"]), bool(group["maximize"]))
        step = states[0]["step"]
        _radam_op.call(parameters, gradients, averages, squares, step, *flags, *_adam_numbers(group))
