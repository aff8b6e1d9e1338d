"""Update rules that look at parameters as matrices: Muon and Adafactor."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from eagerjit.ops.linear import addmm
from eagerjit.optim.arithmetic import Tensors, UpdateRule, as_dtype, counted, double, wide, write
from eagerjit.optim.groups import Group, number, validated
from eagerjit.optim.optimizer import Optimizer
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import zeros, zeros_like
from eagerjit.tensors.limits import finfo
from eagerjit.tensors.tensor import Tensor


def _orthogonal(update: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Nearly the orthogonal matrix next to one, in bfloat16: Newton and Schulz' iteration of degree five."""
    a, b, c = coefficients
    x = as_dtype(update, dtypes.bfloat16)
    tall = update.shape[0] > update.shape[1]
    x = x.mT if tall else x
    length = as_dtype((as_dtype(x, dtypes.float32) ** 2).sum().sqrt(), dtypes.bfloat16)
    x = x / length.clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = addmm.call(x, addmm.call(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _muon(
    parameters: Tensors, gradients: Tensors, averages: Tensors, ratios: tuple[float, ...],
    nesterov: bool, coefficients: tuple[float, float, float], steps: int, eps: float, lr: Any, weight_decay: Any,
    momentum: Any,
) -> tuple[()]:  # fmt: skip
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        kept = as_dtype(momentum, kind)
        average = wide(averages[index])
        average = average + (g - average) * as_dtype(1.0 - double(momentum), kind)
        write(averages[index], average)
        update = g + (average - g) * kept if nesterov else average
        direction = as_dtype(_orthogonal(update, coefficients, steps, eps), kind)
        p = p * as_dtype(1.0 - double(lr) * weight_decay, kind)
        write(parameter, p - as_dtype(double(lr) * ratios[index], kind) * direction)
    return ()


_muon_op = UpdateRule("muon_step", _muon, ("lr", "weight_decay", "momentum"))


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal before each step (Jordan et al. 2024); for matrices only."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        options = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov}
        how = {"ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, {**options, **how})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            if parameter.ndim != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}"
                )

    def counts_steps(self, group: Group) -> bool:
        """Nothing depends on their count."""
        return False

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """The running average of the gradient."""
        if parameter.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(parameter)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        if group["ns_steps"] >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(group["ns_coefficients"]) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        ratios = tuple(_ratio(group["adjust_lr_fn"], *map(int, p.shape)) for p in parameters)
        numbers = tuple(number(group, name) for name in ("lr", "weight_decay", "momentum"))
        how = bool(group["nesterov"]), tuple(group["ns_coefficients"]), group["ns_steps"], group["eps"]
        averages = [s["momentum_buffer"] for s in states]
        _muon_op.call(parameters, gradients, averages, ratios, *how, *numbers)


def _ratio(how: str | None, rows: int, columns: int) -> float:
    """What the learning rate is multiplied by for a matrix of this shape."""
    return 0.2 * math.sqrt(max(rows, columns)) if how == "match_rms_adamw" else math.sqrt(max(1, rows / columns))


def _lerp(start: Tensor, end: Tensor, share: Tensor) -> Tensor:
    return start + (end - start) * share


def _root_mean_square(x: Tensor) -> Tensor:
    return double((x * x).mean().sqrt())


def _adafactor(
    parameters: Tensors, gradients: Tensors, rows: Tensors, columns: Tensors, variances: Tensors, step: Tensor,
    maximize: bool, smallest: tuple[float, ...], lr: Any, beta2_decay: Any, eps2: Any, d: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    row_of, column_of, variance_of = iter(rows), iter(columns), iter(variances)
    count = counted(step)
    share = count ** double(beta2_decay)
    rate = double(lr).minimum(count.rsqrt())
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind, least = p.dtype, smallest[index]
        part = as_dtype(share, kind)
        g = -g if maximize else g
        alpha = double(eps2).maximum(_root_mean_square(p)) * rate
        p = p * as_dtype(1.0 - double(lr) * weight_decay, kind)
        if g.ndim > 1:
            row_before, column_before = next(row_of), next(column_of)
            row = _lerp(wide(row_before), (g * g).mean(-1, keepdim=True), part)
            column = _lerp(wide(column_before), (g * g).mean(-2, keepdim=True), part)
            write(row_before, row)
            write(column_before, column)
            estimate = row * column / row.mean(-2, keepdim=True).clamp(min=least)
        else:
            before = next(variance_of)
            estimate = _lerp(wide(before), g * g, part)
            write(before, estimate)
        update = estimate.clamp(min=least * least).rsqrt() * g
        clipped = (_root_mean_square(update) / double(d)).maximum(double(1.0))
        write(parameter, p - as_dtype(alpha / clipped, kind) * update)
    return ()


_ADAFACTOR_NUMBERS = ("lr", "beta2_decay", "eps2", "d", "weight_decay")
_adafactor_op = UpdateRule("adafactor_step", _adafactor, _ADAFACTOR_NUMBERS)


class Adafactor(Optimizer):
    """Adam's second moments as products of rows' and columns', steps relative to the parameter's size (Shazeer and
    Stern 2018)."""

    counters = ("step",)
    later_options: ClassVar[dict[str, Any]] = {"foreach": None}

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: Any = None, maximize: bool = False,
    ):  # fmt: skip
        validated("learning rate", lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        validated("weight_decay value", weight_decay)
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, {**options, "foreach": foreach, "maximize": maximize})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """Running averages of squared gradients: of rows and of columns of matrices, of each element else."""
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if parameter.ndim < 2:
            return {"variance": zeros_like(parameter)}
        like = {"dtype": parameter.dtype, "device": parameter.device}
        *batch, m, n = parameter.shape
        return {"row_var": zeros((*batch, m, 1), **like), "col_var": zeros((*batch, 1, n), **like)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        first, second = group["eps"]
        numbers = (number(group, "lr"), number(group, "beta2_decay"), second, number(group, "d"))
        smallest = tuple(finfo(p.dtype).eps if first is None else float(first) for p in parameters)
        tables = ([s[name] for s in states if name in s] for name in ("row_var", "col_var", "variance"))
        how = states[0]["step"], bool(group["maximize"]), smallest
        _adafactor_op.call(parameters, gradients, *tables, *how, *numbers, number(group, "weight_decay"))
