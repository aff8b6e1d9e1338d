"""Learning rates that change from step to step.

Most schedules say how a rate follows from the one before, so that several of them can change one optimizer's rates;
`_get_closed_form_lr` is the rate of a step whatever was before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from eagerjit.effects.cautions import caution
from eagerjit.optim.optimizer import Optimizer
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line


def refuse_trace() -> None:
    """Compiled code would not go to the next step: a schedule is Python's. Asked before anything has changed."""
    if state.tracer is not None and state.tracer.journal is None:
        raise TraceBreak("a learning rate schedule counts its steps in Python", user_line())


def _warn_of_epoch() -> None:
    """Say that a step needs no epoch."""
    caution("the epoch parameter of `scheduler.step()` is not necessary and is deprecated")


class LRScheduler:
    """Base class: `get_lr()` gives the learning rates of step `last_epoch`.

    `step()` goes to the next one, after the optimizer's step; the rates are written to the optimizer's groups. Making
    one takes step 0. Raises TypeError for what is no Optimizer, KeyError where it resumes (`last_epoch` not -1) and
    groups have no "initial_lr". A jitted function that calls `step` runs eagerly.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler with "
                    f"last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a "
                    "checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a "
                    "fresh training run (not recommended)"
                )
        self.base_lrs: list[float] = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = True
        self._get_lr_called_within_step = False  # PyTorch's states have it
        self._last_lr: list[float] = []
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """The learning rates of step `last_epoch`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The learning rates set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step (or to `epoch`) and set its learning rates."""
        if epoch is not None:
            _warn_of_epoch()
        self._go(epoch)

    def _go(self, epoch: int | None) -> None:
        """Go to the next step, or to a given one."""
        refuse_trace()
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if closed is None else closed()
        self._set(rates)

    def _set(self, rates: Iterable[Any]) -> None:
        """Make these the groups' learning rates."""
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_rate(group, rate)
        self._last_lr = self._current()

    def _current(self) -> list[float]:
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


def _set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set a group's learning rate; one that is a tensor stays that tensor."""
    if type(before := group["lr"]) is not float and isinstance(before, Tensor):
        before.fill_(rate)
    else:
        group["lr"] = float(rate)


def _copied(rate: Any) -> Any:
    """A rate that stays what it is when a tensor's is set."""
    return rate.clone() if type(rate) is not float and isinstance(rate, Tensor) else rate


def _saved_function(function: Any) -> dict[str, Any] | None:
    """The attributes of an object that is called, None for a plain function."""
    return None if isinstance(function, FunctionType) else dict(function.__dict__)


class _OfFunctions(LRScheduler):
    """A schedule of one function per group; functions are saved only if they are objects with attributes."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        count = len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas: list[Callable[[int], float]] = list(lr_lambda) if several else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions."""
        state = super().state_dict()
        state["lr_lambdas"] = [_saved_function(f) for f in state.pop("lr_lambdas")]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict.get("lr_lambdas", ()), strict=False):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_OfFunctions):
    """The initial learning rate times a function of the step, or one function per group, else ValueError."""

    def get_lr(self) -> list[float]:
        """initial * lambda(step)."""
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_OfFunctions):
    """The learning rate before times a function of the step."""

    def get_lr(self) -> list[float]:
        """before * lambda(step)."""
        if self._is_initial:
            return self._current()
        return [rate * factor(self.last_epoch) for rate, factor in zip(self._current(), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Times gamma every step_size steps: initial * gamma**(step // step_size)."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, times gamma where a period ends."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return [rate * self.gamma for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at every milestone, a number of steps; milestones that occur twice count twice."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, times gamma for every milestone reached now."""
        reached = next((count for milestone, count in self.milestones.items() if milestone == self.last_epoch), 0)
        return [rate * self.gamma**reached for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor for the first total_iters steps. Raises ValueError for a factor outside [0, 1]."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1):
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, times factor at first and divided by it at the end."""
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [rate * (1.0 / self.factor) for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes linearly from start_factor to end_factor in total_iters steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ):  # fmt: skip
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, times what the factor grows by."""
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._current()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        growth = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [rate * growth for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma at every step: initial * gamma**step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, times gamma."""
        return self._current() if self._is_initial else [rate * self.gamma for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial learning rate times (1 - step / total_iters) ** power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, times what the factor falls by."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return [rate * (now / before) ** self.power for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial learning rate to eta_min in T_max steps, and back (Loshchilov and Hutter 2017).

    eta_min + (initial - eta_min) * (1 + cos(pi * step / T_max)) / 2.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates before, moved along the cosine."""
        if self._is_initial:
            return self._current()
        low = self.eta_min
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - low) * rise for base, rate in zip(self.base_lrs, self._current(), strict=True)]
        now, before = (1 + math.cos(math.pi * e / self.T_max) for e in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (rate - low) + low for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0, T_0 * T_mult, T_0 * T_mult**2, ... steps, each from the start (Loshchilov and Hutter 2017).

    `step` takes fractions of steps too.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at the present place of the present cosine."""
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by a step, or to a place."""
        refuse_trace()
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _go(self, epoch: float | None) -> None:
        self.step(epoch)


from eagerjit.optim.lr_cycles import (  # noqa: E402  programs list this module's names; those derive from LRScheduler
    ChainedScheduler,
    CyclicLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)  # fmt: skip

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
