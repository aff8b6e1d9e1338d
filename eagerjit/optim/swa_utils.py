"""Averages of a network's parameters over training (Izmailov et al. 2018), and the schedule that goes with them."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.nn.batch import _BatchNorm
from eagerjit.nn.module import Module
from eagerjit.optim.lr_scheduler import LRScheduler
from eagerjit.optim.optimizer import Optimizer
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import tensor
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """(average, value, count) -> exponential moving average."""
    _check_decay(decay)

    @no_grad()
    def update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return update


def get_swa_avg_fn() -> Average:
    """(average, value, count) -> the mean of all values."""

    @no_grad()
    def update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _multi(function: Average) -> Callable[[Any, Any, Any], None]:
    """The same average for lists, in place."""

    @no_grad()
    def update(averaged: Any, current: Any, num_averaged: Any) -> None:
        for a, b in zip(averaged, current, strict=True):
            a.copy_(function(a, b, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """(averages, values, count): exponential moving averages, in place."""
    return _multi(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """(averages, values, count): means of all values, in place."""
    return _multi(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a module whose parameters are averages; `update_parameters` takes one more set of them in.

    Of all sets alike (Izmailov et al. 2018), or as `avg_fn` or `multi_avg_fn` has them: `get_ema_avg_fn` makes one.
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None, use_buffers: bool = False,
    ):  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, module: Module) -> list[Tensor]:
        found = module.parameters()
        return list(itertools.chain(found, module.buffers()) if self.use_buffers else found)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the parameters of a module into the averages."""
        own = [p.detach() for p in self._averaged(self.module)]
        given = [p.detach() for p in self._averaged(model)]
        if int(self.n_averaged) == 0:
            for mine, value in zip(own, given, strict=True):
                mine.copy_(value)
        elif self.multi_avg_fn is None:
            average = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
            for mine, value in zip(own, given, strict=True):
                mine.copy_(average(mine, value, self.n_averaged))
        else:
            for dtype in dict.fromkeys(mine.dtype for mine in own):
                pairs = [(a, b) for a, b in zip(own, given, strict=True) if a.dtype is dtype]
                self.multi_avg_fn([a for a, _ in pairs], [b for _, b in pairs], self.n_averaged)
        if not self.use_buffers:
            for mine, value in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(value.detach())
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of all BatchNorms anew, from one pass over the data."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    model.train()
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given if device is None else given.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present learning rate to swa_lr in anneal_epochs steps, then constant."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):  # fmt: skip
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                f"swa_lr must have the same length as optimizer.param_groups: swa_lr has {len(rates)}, "
                f"optimizer.param_groups has {len(groups)}"
            )
        for rate, group in zip(rates, groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: float) -> float:
        """How much of swa_lr there is in the rate of a step."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[float]:
        """The rates before, taken apart and put together with the share of this step."""
        step = self._step_count - 1
        groups = self.optimizer.param_groups
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        found = []
        for group, rate in zip(groups, self._current(), strict=True):
            first = group["swa_lr"] if before == 1 else (rate - before * group["swa_lr"]) / (1 - before)
            found.append(group["swa_lr"] * now + first * (1 - now))
        return found
