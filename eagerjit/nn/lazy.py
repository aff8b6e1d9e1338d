"""Modules whose sizes the first call tells: parameters have no shape before it."""

from __future__ import annotations

import functools
from typing import Any

from eagerjit.generator import default_streams
from eagerjit.nn import batch
from eagerjit.nn.layers import Linear
from eagerjit.nn.module import Module
from eagerjit.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from eagerjit.runtime import mode
from eagerjit.state import state, untraced
from eagerjit.tensors.creation import empty
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line


class LazyModuleMixin:
    """Base of lazy modules: `initialize_parameters(*args)` gives them their shapes at the first call.

    After it the module is one of `cls_to_become`.
    """

    cls_to_become: type[Any] | None = None

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        own = self.__dict__
        return any(map(is_lazy, (*own["_parameters"].values(), *own["_buffers"].values())))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "_compiled_call_impl" not in self.__dict__:
            self._infer_parameters(*args, **kwargs)
        return Module.__call__(self, *args, **kwargs)  # type: ignore[arg-type]  # the class may be another one now

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        self._infer_parameters(*args, **kwargs)
        return Module._call_impl(self, *args, **kwargs)  # type: ignore[arg-type]  # the class may be another one now

    def _infer_parameters(self, *args: Any, **kwargs: Any) -> None:
        tracer = state.tracer
        if tracer is None:
            self.initialize_parameters(*args, **kwargs)
        else:
            # Done here and now, once: what a compiled call draws, it would draw anew at every call.
            if any(id(stream.state) in tracer.written for stream in default_streams()):
                raise TraceBreak("a lazy module gets its parameters after random numbers were drawn", user_line())
            sizes = [(tuple(map(int, a.shape)), a.dtype) if isinstance(a, Tensor) else None for a in args]
            observation = pause_observation()
            try:
                with untraced():
                    shaped = [a if s is None else empty(s[0], dtype=s[1]) for a, s in zip(args, sizes, strict=True)]
                    self.initialize_parameters(*shaped, **kwargs)
            finally:
                resume_observation(observation)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become  # type: ignore[assignment]
        mode.bump_epoch()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """What has no shape yet is saved as it is."""
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        own = self.__dict__
        for name, value in (*own["_parameters"].items(), *own["_buffers"].items()):
            if is_lazy(value):
                destination[prefix + name] = value

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Shapes come from the values that are loaded, too."""
        own = self.__dict__
        for name, value in (*own["_parameters"].items(), *own["_buffers"].items()):
            saved = state_dict.get(prefix + name)
            if is_lazy(value) and saved is not None and not is_lazy(saved):
                value.materialize(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]

    def _take(self, name: str, key: str, target: Any, value: Any, assign: bool) -> str:
        """There is nothing to load where neither has a shape."""
        return "" if is_lazy(target) and is_lazy(value) else super()._take(name, key, target, value, assign)  # type: ignore[misc, no-any-return]


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that learns in_features at its first call."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            self.in_features = int(input.shape[-1])
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        elif self.in_features == 0:
            self.in_features = int(self.weight.shape[-1])


class _LazyNorm(LazyModuleMixin):
    """A normalisation that learns its channels at its first call; `channels` is the input's dimension of them."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype)  # type: ignore[call-arg]
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            from eagerjit.tensors.creation import tensor

            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, device=device)

    def reset_parameters(self) -> None:
        """weight 1, bias 0, no statistics, once they have shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any) -> None:  # type: ignore[override]
        if not self.has_uninitialized_params():
            return
        self._check_input_dim(input)  # type: ignore[attr-defined]
        single = isinstance(self, batch._InstanceNorm) and input.ndim == self.rank - 1
        self.num_features = int(input.shape[0 if single else 1])
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = getattr(self, name)
            if is_lazy(value):
                value.materialize((self.num_features,))
        self.reset_parameters()


@functools.cache
def _lazy(name: str) -> type:
    """The lazy kind of a normalisation."""
    full: type[Module] = getattr(batch, name.removeprefix("Lazy"))
    members = {"cls_to_become": full, "__doc__": f"A {full.__name__} that learns its channels at its first call."}
    return type(name, (_LazyNorm, full), {**members, "__module__": __name__})


LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (_lazy(f"LazyBatchNorm{n}d") for n in (1, 2, 3))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (_lazy(f"LazyInstanceNorm{n}d") for n in (1, 2, 3))
