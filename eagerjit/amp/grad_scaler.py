"""GradScaler: losses scaled up so that float16 gradients do not vanish, steps left out where they overflow."""

from __future__ import annotations

import enum
import warnings
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.cuda.present import found
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.creation import full
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line


class OptState(enum.Enum):
    """What was done to an optimizer's gradients since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients before the optimizer's step, and skips steps with infinite gradients.

    The scale grows by growth_factor after growth_interval steps without infinities, and shrinks by backoff_factor with
    each that has some. Without `enabled` everything passes unchanged.
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        self._device, self._enabled = str(device), bool(enabled)
        if self._enabled and self._device != "cpu" and found() is None:
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale, self._has_scaled = full((), float(init_scale), dtype=dtypes.float32), False
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._stages: dict[int, OptState] = {}
        self._infinite: dict[int, bool] = {}

    def _refuse_trace(self) -> None:
        """Compiled code would not keep the counts."""
        if state.tracer is not None and state.tracer.journal is None:
            raise TraceBreak("a GradScaler counts its steps in Python", user_line())

    def _check_has_scaled(self, name: str) -> None:
        if not self._has_scaled:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or "
                "outputs) earlier in the iteration."
            )

    def scale(self, outputs: Any) -> Any:
        """A tensor, or several in any nesting of lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._has_scaled = True
            return outputs * self._scale.to(outputs.dtype)
        if isinstance(outputs, (list, tuple)):
            parts = [self.scale(x) for x in outputs]
            return type(outputs)(*parts) if hasattr(outputs, "_fields") else type(outputs)(parts)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale; `step` does it where it was not done.

        AssertionError where nothing has been scaled yet, as of `step` and `update`.
        """
        if not self._enabled:
            return
        self._refuse_trace()
        self._check_has_scaled("unscale_")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage == OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage == OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = 1.0 / self._scale.double()
        infinite = None
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is None:
                    continue
                if grad.dtype is dtypes.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                overflown = grad.isfinite().all().logical_not()
                infinite = overflown if infinite is None else infinite.logical_or(overflown)
                grad.mul_(inverse.to(grad.dtype))
        if infinite is not None:
            self._infinite[id(optimizer)] = bool(infinite)
        self._stages[id(optimizer)] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(*args) unless a gradient is infinite; returns what it returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        self._refuse_trace()
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_has_scaled("step")
        if self._stages.get(id(optimizer), OptState.READY) == OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if self._stages.get(id(optimizer), OptState.READY) == OptState.READY:
            self.unscale_(optimizer)
        if id(optimizer) not in self._infinite:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if self._infinite[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = OptState.STEPPED
        return result

    @no_grad()
    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to what the steps since the last update found, or set it."""
        if not self._enabled:
            return
        self._refuse_trace()
        self._check_has_scaled("update")
        if new_scale is not None:
            self._scale.fill_(float(new_scale))
        elif not self._infinite:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._infinite.values()):
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale.mul_(self._growth_factor)
                self._growth_tracker = 0
        self._stages.clear()
        self._infinite.clear()

    # -- options ------------------------------------------------------------------------------------------------------

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale, 1.0 if it is off."""
        return self._scale.item() if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Let the scale grow by another factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Let the scale shrink by another factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps come before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Let another number of good steps come before the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and its options; empty if it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state. Raises RuntimeError for one that was saved while off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale.fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
