"""Update rules of other kinds: signs of gradients (Rprop), and averages of the parameters (ASGD)."""

from __future__ import annotations

from typing import Any

from eagerjit.optim.arithmetic import Tensors, UpdateRule, as_dtype, counted, double, wide, write
from eagerjit.optim.groups import LATER, Group, number, pair, validated
from eagerjit.optim.optimizer import Optimizer
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import full, ones, zeros_like
from eagerjit.tensors.tensor import Tensor


def _rprop(
    parameters: Tensors, gradients: Tensors, previous: Tensors, sizes: Tensors, step: Tensor, maximize: bool,
    shrink: Any, grow: Any, smallest: Any, largest: Any,
) -> tuple[()]:  # fmt: skip
    counted(step)
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        g = -g if maximize else g
        agreement = g * wide(previous[index])
        turned = agreement < 0
        factor = as_dtype(shrink, kind).where(turned, as_dtype(grow, kind).where(agreement > 0, 1.0))
        size = wide(sizes[index]) * factor
        size = size.maximum(as_dtype(smallest, kind)).minimum(as_dtype(largest, kind))
        g = g.where(turned.logical_not(), 0.0)
        write(previous[index], g)
        write(sizes[index], size)
        write(parameter, p - g.sign() * size)
    return ()


_rprop_op = UpdateRule("rprop_step", _rprop, ("shrink", "grow", "smallest", "largest"))


class Rprop(Optimizer):
    """Steps whose sizes grow while a gradient keeps its sign (Riedmiller and Braun 1993)."""

    counters = ("step",)
    later_options = LATER

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: Any = None,
        maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        validated("learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        options = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes)}
        how = {"foreach": foreach, "maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, {**options, **how})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """The gradient before, and the sizes of steps."""
        rate = float(group["lr"])
        each = complex(rate, rate) if parameter.is_complex() else rate
        sizes = full(tuple(parameter.shape), each, dtype=parameter.dtype, device=parameter.device)
        return {"prev": zeros_like(parameter), "step_size": sizes}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        previous, sizes = ([s[name] for s in states] for name in ("prev", "step_size"))
        numbers = (*pair(group, "etas"), *pair(group, "step_sizes"))
        step, maximize = states[0]["step"], bool(group["maximize"])
        _rprop_op.call(parameters, gradients, previous, sizes, step, maximize, *numbers)


def _asgd(
    parameters: Tensors, gradients: Tensors, averages: Tensors, rates: Tensors, shares: Tensors, step: Tensor,
    maximize: bool, lr: Any, lambd: Any, alpha: Any, t0: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    count = counted(step)
    following = double(lr) / (1.0 + double(lambd) * lr * count) ** double(alpha)
    later = 1.0 / (count - t0).maximum(double(1.0))
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        g = -g if maximize else g
        g = g + p * as_dtype(weight_decay, kind)
        rate, share = double(rates[index]), double(shares[index])
        p = p * as_dtype(1.0 - double(lambd) * rate, kind) - g * as_dtype(rate, kind)
        average = wide(averages[index])
        write(averages[index], (average + (p - average) * as_dtype(share, kind)).where(share != 1.0, p))
        write(rates[index], following)
        write(shares[index], later)
        write(parameter, p)
    return ()


_ASGD_NUMBERS = ("lr", "lambd", "alpha", "t0", "weight_decay")
_asgd_op = UpdateRule("asgd_step", _asgd, _ASGD_NUMBERS)


class ASGD(Optimizer):
    """Gradient descent that averages the parameters (Polyak and Juditsky 1992)."""

    counters = ("step", "eta", "mu")
    later_options = LATER

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: Any = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ):  # fmt: skip
        validated("learning rate", lr)
        validated("weight_decay value", weight_decay)
        options = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        how = {"foreach": foreach, "maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, {**options, **how})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """The average of the parameter, the present rate, and the share of the next value in the average."""
        rate = full((), float(group["lr"]), dtype=dtypes.float32, device=parameter.device)
        return {"eta": rate, "mu": ones((), dtype=dtypes.float32, device=parameter.device), "ax": zeros_like(parameter)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        tables = ([s[name] for s in states] for name in ("ax", "eta", "mu"))
        numbers = tuple(number(group, name) for name in _ASGD_NUMBERS)
        _asgd_op.call(parameters, gradients, *tables, states[0]["step"], bool(group["maximize"]), *numbers)
