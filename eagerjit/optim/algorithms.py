"""Update rules. Each is one op over lists of tensors, which computes what PyTorch computes, in the same order."""

from __future__ import annotations

from typing import Any

from eagerjit.optim.arithmetic import Tensors, UpdateRule, as_dtype, counted, double, wide, write
from eagerjit.optim.groups import LATER, LATER_WAYS, Group, number, pair, validated, validated_betas, validated_ways
from eagerjit.optim.optimizer import Optimizer
from eagerjit.tensors.creation import zeros_like
from eagerjit.tensors.tensor import Tensor

# -- gradient descent -------------------------------------------------------------------------------------------------


def _sgd(
    parameters: Tensors, gradients: Tensors, buffers: Tensors, step: Tensor | None, nesterov: bool, maximize: bool,
    lr: Any, momentum: Any, dampening: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    started = None if step is None else counted(step) > 1.0
    rate, inertia, decay = double(lr), double(momentum), double(weight_decay)
    share = 1.0 - double(dampening)
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        g = -g if maximize else g
        g = g + p * as_dtype(decay, p.dtype)
        if buffers:
            buffer = wide(buffers[index]) * as_dtype(inertia, p.dtype) + g * as_dtype(share, p.dtype)
            buffer = buffer if started is None else buffer.where(started, g)
            write(buffers[index], buffer)
            g = g + buffer * as_dtype(inertia, p.dtype) if nesterov else buffer
        write(parameter, p - g * as_dtype(rate, p.dtype))
    return ()


_SGD_NUMBERS = ("lr", "momentum", "dampening", "weight_decay")
_sgd_op = UpdateRule("sgd_step", _sgd, _SGD_NUMBERS)


class SGD(Optimizer):
    """Gradient descent: p -= lr * g, with momentum p -= lr * v of v = momentum * v + (1 - dampening) * g.

    Momentum as in Sutskever et al. 2013 but for where lr stands; with `nesterov` p -= lr * (g + momentum * v). The
    first v is g; `weight_decay` adds weight_decay * p to g. Raises ValueError for negative options and for Nesterov's
    momentum without momentum or with dampening.
    """

    later_options = LATER_WAYS | {"nesterov": False, "fused": False}

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: Any = None, differentiable: bool = False,
        fused: Any = None,
    ):  # fmt: skip
        validated("learning rate", lr)
        validated("momentum value", momentum)
        validated("weight_decay value", weight_decay)
        validated_ways(fused, foreach, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        how = {"foreach": foreach, "differentiable": differentiable, "fused": fused}
        self._counts: dict[Tensor, Tensor] = {}
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize, **how})

    def counts_steps(self, group: Group) -> bool:
        """The first step is another one only with dampening; programs don't see this count in the state."""
        return bool(group["momentum"] != 0 and group["dampening"] != 0)

    def count_from(self, parameter: Tensor, step: Tensor) -> None:
        self._counts[parameter] = step

    def _kept(self, parameter: Tensor) -> dict[str, Any]:
        kept = super()._kept(parameter)
        return {**kept, "step": self._counts[parameter]} if parameter in self._counts else kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state; what has a momentum buffer has had its first step."""
        self._counts.clear()
        super().load_state_dict(state_dict)

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """A momentum buffer, where there is momentum."""
        return {"momentum_buffer": zeros_like(parameter)} if group["momentum"] != 0 else {}

    def has_state(self, group: Group, parameter: Tensor) -> bool:
        """Momentum may be switched on between steps."""
        return group["momentum"] == 0 or self._kept(parameter).get("momentum_buffer") is not None

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        numbers = tuple(number(group, name) for name in _SGD_NUMBERS)
        buffers = [s["momentum_buffer"] for s in states] if group["momentum"] != 0 else []
        step = states[0].get("step") if self.counts_steps(group) else None
        _sgd_op.call(parameters, gradients, buffers, step, bool(group["nesterov"]), bool(group["maximize"]), *numbers)

    def update_sparse(
        self, group: Group, parameters: Tensors, gradients: list[Any], states: list[Any], alone: bool
    ) -> None:
        """One step; momentum makes it dense."""
        from eagerjit.sparse import updates
        from eagerjit.sparse.conversion import to_dense

        if group["weight_decay"] != 0:
            raise RuntimeError("add(sparse, dense) is not supported: weight_decay with sparse gradients")
        if group["momentum"] != 0:
            for p, g, s in zip(parameters, gradients, states, strict=True):
                own = {**s, "step": s["step"].clone()} if "step" in s else s
                self.update(group, [p], [to_dense(g)], [own])
            if alone and "step" in states[0]:
                states[0]["step"].add_(1)
            return
        for parameter, gradient in zip(parameters, gradients, strict=True):
            updates.descend(parameter, gradient, float(number(group, "lr")), bool(group["maximize"]))


# -- Adam -------------------------------------------------------------------------------------------------------------


def _adam(
    parameters: Tensors, gradients: Tensors, averages: Tensors, squares: Tensors, largest: Tensors, step: Tensor,
    decoupled: bool, maximize: bool, lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any,
) -> tuple[()]:  # fmt: skip
    count = counted(step)
    b1, b2, rate = double(beta1), double(beta2), double(lr)
    step_size = rate / (1.0 - b1**count)
    correction = (1.0 - b2**count).sqrt()
    shrink = 1.0 - rate * weight_decay
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        g = -g if maximize else g
        if decoupled:
            p = p * as_dtype(shrink, kind)
        else:
            g = g + p * as_dtype(weight_decay, kind)
        average, square = wide(averages[index]), wide(squares[index])
        average = average + (g - average) * as_dtype(1.0 - b1, kind)
        square = square * as_dtype(b2, kind) + g * g * as_dtype(1.0 - b2, kind)
        write(averages[index], average)
        write(squares[index], square)
        if largest:
            square = wide(largest[index]).maximum(square)
            write(largest[index], square)
        bottom = square.sqrt() / as_dtype(correction, kind) + as_dtype(eps, kind)
        write(parameter, p - as_dtype(step_size, kind) * average / bottom)
    return ()


_adam_op = UpdateRule("adam_step", _adam, ("lr", "beta1", "beta2", "eps", "weight_decay"))


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), optionally with AMSGrad (Reddi et al. 2018).

    m += (1 - beta1) * (g - m), v = beta2 * v + (1 - beta2) * g**2, and at step t p -= lr * m / (1 - beta1**t) / (sqrt(v
    / (1 - beta2**t)) + eps); AMSGrad takes the largest v so far. `weight_decay` adds weight_decay * p to g, or with
    `decoupled_weight_decay` is AdamW's. Raises ValueError for negative options, betas outside [0, 1) and tensors as
    options where `foreach` does not take them.
    """

    counters = ("step",)
    later_options = LATER | {"amsgrad": False, "decoupled_weight_decay": False, "fused": None}

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: Any = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: Any = None,
        decoupled_weight_decay: bool = False,
    ):  # fmt: skip
        validated("learning rate", lr)
        validated("epsilon value", eps)
        validated_betas(betas)
        validated("weight_decay value", weight_decay)
        if not any(all(isinstance(beta, kind) for beta in betas[:2]) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        if foreach and not capturable and isinstance(lr, Tensor):
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        for index, beta in enumerate(betas):
            if foreach and not capturable and isinstance(beta, Tensor):
                raise ValueError(f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True")
            if isinstance(beta, Tensor) and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{index}] must be 1-element")
        shares = tuple(beta.reshape(()) if isinstance(beta, Tensor) and beta.ndim else beta for beta in betas)
        options = {"lr": lr, "betas": shares, "eps": eps, "weight_decay": weight_decay}
        validated_ways(fused, foreach, differentiable)
        how = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused}
        flags = {"amsgrad": amsgrad, "maximize": maximize, **how, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**options, **flags})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """Running averages of the gradient and of its square."""
        made = {"exp_avg": zeros_like(parameter), "exp_avg_sq": zeros_like(parameter)}
        return {**made, "max_exp_avg_sq": zeros_like(parameter)} if group["amsgrad"] else made

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        averages, squares = ([s[name] for s in states] for name in ("exp_avg", "exp_avg_sq"))
        largest = [s["max_exp_avg_sq"] for s in states] if group["amsgrad"] else []
        flags = (bool(group["decoupled_weight_decay"]), bool(group["maximize"]))
        options = (number(group, "lr"), *pair(group, "betas"), number(group, "eps"), number(group, "weight_decay"))
        _adam_op.call(parameters, gradients, averages, squares, largest, states[0]["step"], *flags, *options)


class AdamW(Adam):
    """Adam with weight decay apart from the gradient: p *= 1 - lr * weight_decay first (Loshchilov and Hutter 2019)."""

    later_options = Adam.later_options | {"decoupled_weight_decay": True}

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: Any = None,
        capturable: bool = False, differentiable: bool = False, fused: Any = None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, foreach=foreach, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip


# -- scaled gradients -------------------------------------------------------------------------------------------------


def _rmsprop(
    parameters: Tensors, gradients: Tensors, squares: Tensors, buffers: Tensors, means: Tensors, step: Tensor,
    maximize: bool, lr: Any, alpha: Any, eps: Any, weight_decay: Any, momentum: Any,
) -> tuple[()]:  # fmt: skip
    counted(step)
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        p, g = wide(parameter), wide(gradient)
        kind = p.dtype
        g = -g if maximize else g
        g = g + p * as_dtype(weight_decay, kind)
        share = as_dtype(1.0 - double(alpha), kind)
        square = wide(squares[index]) * as_dtype(alpha, kind) + g * g * share
        write(squares[index], square)
        if means:
            mean = wide(means[index])
            mean = mean + (g - mean) * share
            write(means[index], mean)
            square = square - mean * mean
        update = g / (square.sqrt() + as_dtype(eps, kind))
        if buffers:
            update = wide(buffers[index]) * as_dtype(momentum, kind) + update
            write(buffers[index], update)
        write(parameter, p - update * as_dtype(lr, kind))
    return ()


_RMSPROP_NUMBERS = ("lr", "alpha", "eps", "weight_decay", "momentum")
_rmsprop_op = UpdateRule("rmsprop_step", _rmsprop, _RMSPROP_NUMBERS)


class RMSprop(Optimizer):
    """Gradients divided by the root of the running average of their squares (Tieleman and Hinton 2012, lecture 6.5).

    s = alpha * s + (1 - alpha) * g**2 and p -= lr * g / (sqrt(s) + eps); `centered` subtracts the square of the average
    gradient from s (Graves 2013), `momentum` accumulates the quotients. Raises ValueError for negative options.
    """

    counters = ("step",)
    later_options = LATER | {"momentum": 0, "centered": False}

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: Any = None,
        maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        for name, value in (("learning rate", lr), ("epsilon value", eps), ("momentum value", momentum)):
            validated(name, value)
        validated("weight_decay value", weight_decay)
        validated("alpha value", alpha)
        options = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        how = {"capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable}
        super().__init__(params, {**options, "weight_decay": weight_decay, **how})

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """The running average of squares; a momentum buffer and the average gradient where asked for."""
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return {name: zeros_like(parameter) for name in names}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        numbers = tuple(number(group, name) for name in _RMSPROP_NUMBERS)
        names = ("square_avg", "momentum_buffer", "grad_avg")
        squares, buffers, means = ([s[name] for s in states if name in s] for name in names)
        how = states[0]["step"], bool(group["maximize"])
        _rmsprop_op.call(parameters, gradients, squares, buffers, means, *how, *numbers)


def _adagrad(
    parameters: Tensors, gradients: Tensors, sums: Tensors, step: Tensor, maximize: bool, lr: Any, lr_decay: Any,
    weight_decay: Any, eps: Any,
) -> tuple[()]:  # fmt: skip
    count = counted(step)
    rate = double(lr) / (1.0 + (count - 1.0) * lr_decay)
    for parameter, gradient, total in zip(parameters, gradients, sums, strict=True):
        p, g = wide(parameter), wide(gradient)
        g = -g if maximize else g
        g = g + p * as_dtype(weight_decay, p.dtype)
        squares = wide(total) + g * g
        write(total, squares)
        write(parameter, p - as_dtype(rate, p.dtype) * g / (squares.sqrt() + as_dtype(eps, p.dtype)))
    return ()


_ADAGRAD_NUMBERS = ("lr", "lr_decay", "weight_decay", "eps")
_adagrad_op = UpdateRule("adagrad_step", _adagrad, _ADAGRAD_NUMBERS)


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of their squares (Duchi et al. 2011).

    p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + eps). Raises ValueError for negative options.
    """

    counters = ("step",)
    later_options = LATER_WAYS | {"fused": None}

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: Any = None, *, maximize: bool = False,
        differentiable: bool = False, fused: Any = None,
    ):  # fmt: skip
        for name, value in (("learning rate", lr), ("lr_decay value", lr_decay), ("weight_decay value", weight_decay)):
            validated(name, value)
        validated("initial_accumulator_value value", initial_accumulator_value)
        validated("epsilon value", eps)
        validated_ways(fused, foreach, differentiable)
        options = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        started = {"initial_accumulator_value": initial_accumulator_value}
        how = {"foreach": foreach, "maximize": maximize, "differentiable": differentiable, "fused": fused}
        super().__init__(params, {**options, **started, **how})
        for group in self.param_groups:
            self._prepare(group, group["params"], [])

    def new_state(self, group: Group, parameter: Tensor) -> dict[str, Tensor]:
        """The sum of squares, of real and imaginary parts each."""
        start = group["initial_accumulator_value"]
        return {"sum": zeros_like(parameter).fill_(complex(start, start) if parameter.is_complex() else start)}

    def update(self, group: Group, parameters: Tensors, gradients: Tensors, states: list[Any]) -> None:
        """One step."""
        numbers = tuple(number(group, name) for name in _ADAGRAD_NUMBERS)
        sums, step = [s["sum"] for s in states], states[0]["step"]
        _adagrad_op.call(parameters, gradients, sums, step, bool(group["maximize"]), *numbers)

    def update_sparse(
        self, group: Group, parameters: Tensors, gradients: list[Any], states: list[Any], alone: bool
    ) -> None:
        """One step for the rows of the gradients."""
        from eagerjit.sparse import updates

        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        count = states[0]["step"].item() + 1
        rate, decay, eps = (float(number(group, name)) for name in ("lr", "lr_decay", "eps"))
        for p, g, s in zip(parameters, gradients, states, strict=True):
            updates.adagrad(p, g, s["sum"], rate, decay, eps, bool(group["maximize"]), count)
        if alone:
            states[0]["step"].add_(1)
