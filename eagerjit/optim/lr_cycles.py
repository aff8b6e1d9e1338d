"""Schedules of other kinds: cycles, schedules of schedules, and what follows a measured quantity."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.optim.lr_scheduler import LRScheduler, _saved_function, _set_rate, _warn_of_epoch, refuse_trace
from eagerjit.optim.optimizer import Optimizer


def _per_group(optimizer: Optimizer, name: str, value: Any) -> list[float]:
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
                         f"param_groups has {count}.")  # fmt: skip
    return list(value)


class _Cycle(LRScheduler):
    """A schedule that moves the momentum of groups too: an option of that name, or the first beta."""

    use_beta1: bool

    def _begin(self, optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int) -> None:
        """Start at the greatest momentum, unless a schedule goes on."""
        if not any(name in optimizer.defaults for name in ("momentum", "betas")):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        if last_epoch != -1:
            return
        self._set_momenta(optimizer, max_momentum)
        for group, most, least in zip(optimizer.param_groups, max_momentum, base_momentum, strict=True):
            group.update(max_momentum=most, base_momentum=least)

    def _set_momenta(self, optimizer: Optimizer, values: Sequence[float]) -> None:
        """Make these the groups' momenta."""
        for group, value in zip(optimizer.param_groups, values, strict=True):
            if self.use_beta1:
                group["betas"] = (value, *group["betas"][1:])
            else:
                group["momentum"] = value


class OneCycleLR(_Cycle):
    """Up to max_lr, then down to a final rate, and momentum the other way (Smith and Topin 2019)."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ):  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(value, int) or value <= 0:
                    raise ValueError(f"Expected positive integer {name}, but got {value}")
            total_steps = epochs * steps_per_epoch
        elif not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self._schedule_phases = total_steps, _phases(total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, _per_group(optimizer, "max_lr", max_lr), strict=True):
                first = peak / div_factor
                group.update(initial_lr=first, max_lr=peak, min_lr=first / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            high = _per_group(optimizer, "max_momentum", max_momentum)
            low = _per_group(optimizer, "base_momentum", base_momentum)
            self._begin(optimizer, low, high, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates on the way up or down; sets the momenta."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for index, phase in enumerate(self._schedule_phases):
            if step <= phase["end_step"] or index == len(self._schedule_phases) - 1:
                done = (step - start) / (phase["end_step"] - start)
                break
            start = phase["end_step"]
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            ends = [(g[phase["start_momentum"]], g[phase["end_momentum"]]) for g in groups]
            self._set_momenta(self.optimizer, [self._annealed(*pair, done) for pair in ends])
        return [self._annealed(g[phase["start_lr"]], g[phase["end_lr"]], done) for g in groups]

    def _annealed(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "linear":
            return start + (end - start) * done
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


_PHASE = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """What the rate and the momentum are called at both ends of each phase, and its last step."""
    up = (share * total - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    phases: tuple[tuple[Any, ...], ...] = (up, (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
    if three:
        down = (2 * share * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
        phases = (up, down, (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
    return [dict(zip(_PHASE, phase, strict=True)) for phase in phases]


class CyclicLR(_Cycle):
    """Up and down between base_lr and max_lr, in triangles that may shrink (Smith 2017)."""

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: Any = 0.8, max_momentum: Any = 0.9, last_epoch: int = -1,
    ):  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        lows = _per_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lows, strict=True):
                _set_rate(group, rate)
        self.max_lrs = _per_group(optimizer, "max_lr", max_lr)
        up, down = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        self.total_size, self.step_ratio = up + down, up / (up + down)
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        cyclic = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode, self.cycle_momentum = cyclic, cycle_momentum
        if cycle_momentum:
            least = _per_group(optimizer, "base_momentum", base_momentum)
            most = _per_group(optimizer, "max_momentum", max_momentum)
            self._begin(optimizer, least, most, last_epoch)
            self.base_momentums, self.max_momentums = least, most
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a scaling function of one's own the attributes, if it is an object."""
        saved = super().state_dict()
        custom = saved.pop("_scale_fn_custom")
        return {**saved, "_scale_fn_custom": None if custom is None else _saved_function(custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if (custom := state_dict.get("_scale_fn_custom")) is not None:
            self._scale_fn_custom.__dict__.update(custom)

    def scale_fn(self, x: float) -> float:
        """How high the triangle of a cycle is, or the line at a step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float]:
        """The rates at the present place of the cycle; sets the momenta."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            self._set_momenta(self.optimizer, [high - (high - low) * scale for low, high in pairs])
        return [low + (high - low) * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]


class SequentialLR(LRScheduler):
    """Schedulers one after the other, changing at the milestones."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Any], milestones: Sequence[int], last_epoch: int = -1
    ):
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler to be chained, but got no scheduler.")
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"SequentialLR expects schedulers, but got {type(scheduler).__name__} at index {index}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f"SequentialLR does not support `ReduceLROnPlateau` scheduler: index {index}")
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"SequentialLR expects all schedulers to belong to the same optimizer: index {index}")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            _set_rate(group, group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        first = self._schedulers[0]
        first._is_initial = True
        first.step()
        first._is_initial = False
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]  # PyTorch's takes no epoch
        """Step the scheduler whose turn it is."""
        refuse_trace()
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        starts = index > 0 and self._milestones[index - 1] == self.last_epoch
        scheduler._go(0) if starts else scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _go(self, epoch: int | None) -> None:
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """The position, and the schedulers' states."""
        own = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**own, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})


class ChainedScheduler(SequentialLR):
    """Schedulers that change the learning rates together, one after the other at every step."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None):
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        for index, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f"ChainedScheduler does not support `ReduceLROnPlateau` scheduler: index {index}")
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"ChainedScheduler expects all schedulers to belong to the same optimizer: index {index}"
                )
        self.optimizer, self._schedulers = optimizer, list(schedulers)
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        """Step all schedulers."""
        refuse_trace()
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a quantity has not become better for more than `patience` steps.

    `step(quantity)` notes it. Better is less by `threshold` (more, with mode "max"), of the best or with threshold_mode
    "abs" in its unit; after a change `cooldown` steps are not looked at, and no rate falls below `min_lr`. Raises
    ValueError for a factor of 1 or more and for other modes.
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ):  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.optimizer, self.factor = optimizer, factor
        self.default_min_lr = min_lr if not isinstance(min_lr, (list, tuple)) else None
        self.min_lrs = _per_group(optimizer, "min_lr", min_lr)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = self._current()
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Note the quantity, and reduce the learning rates if it has been bad for too long."""
        refuse_trace()
        current = float(metrics)
        if epoch is not None:
            _warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()

    def _reduce_lr(self, epoch: int) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set_rate(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction is too recent for another one."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a quantity is better than the best one by more than the threshold."""
        if self.threshold_mode == "rel":
            return a < best * (1.0 - self.threshold) if self.mode == "min" else a > best * (1.0 + self.threshold)
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold
