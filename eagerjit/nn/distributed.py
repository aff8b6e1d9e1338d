"""A Module that several processes train together: gradients become the average of all processes'."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from eagerjit.autograd.callbacks import at_end_of_walk
from eagerjit.autograd.modes import no_grad
from eagerjit.distributed import exchange
from eagerjit.distributed.collectives import ReduceOp
from eagerjit.distributed.groups import ProcessGroup, Work, world
from eagerjit.distributed.nn import all_reduce
from eagerjit.nn.batch import move_statistic
from eagerjit.nn.module import Module
from eagerjit.ops.index import cat
from eagerjit.runtime import dtypes, mode
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor

FIRST_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20
"""Gradients of the last layers, which come first, are few at first, so that sending them begins early."""


class GradBucket:
    """Gradients that go round together, as one flat tensor; what hooks are given."""

    def __init__(self, index: int, parameters: list[Any], is_last: bool):
        self._index, self._parameters, self._is_last = index, parameters, is_last
        self._flat: Any = None
        self.missing = {id(p) for p in parameters}
        self.work: Any = None

    def index(self) -> int:
        """Its number."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last one to be filled."""
        return self._is_last

    def parameters(self) -> list[Any]:
        """The parameters whose gradients these are."""
        return self._parameters

    def buffer(self) -> Tensor:
        """The gradients, one after the other."""
        return self._flat

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the gradients."""
        self._flat = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients as views of the flat tensor."""
        parts = self._flat.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]

    def fill(self) -> None:
        """Take the gradients there are; zeros for others."""
        flat = [creation.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        self._flat = cat.call([g.detach().reshape(-1) for g in flat], 0)

    def empty(self, used: set[int]) -> None:
        """Give parameters their gradients, those that some process has used."""
        for p, gradient in zip(self._parameters, self.gradients(), strict=True):
            if id(p) not in used:
                continue
            if p.grad is None:
                p.grad = gradient.clone()
            else:
                p.grad.detach().copy_(gradient)
        self.begin()

    def begin(self) -> None:
        """Wait for the gradients of another pass."""
        self._flat, self.work = None, None
        self.missing = {id(p) for p in self._parameters}


class DistributedDataParallel(Module):
    """A Module of which every process of a group has a copy, with data of its own.

    Copies start with the parameters and buffers of the first process. At the end of a backward pass the `.grad` of all
    parameters that require gradients are the averages of all processes'. They go round in buckets of about
    `bucket_cap_mb` MiB while backward goes on. `find_unused_parameters`: what a pass does not reach in one process
    counts as zeros; without it, a pass that leaves some out is an error in the next forward. Raises ValueError without
    a group, RuntimeError for a Module without parameters that require gradients.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, **others: Any,
    ):  # fmt: skip
        super().__init__()
        asked = [name for name, value in others.items() if value not in (None, False)]
        if asked:
            raise NotImplementedError(f"DistributedDataParallel has no {', '.join(asked)}")
        self.process_group = world() if process_group is None else process_group
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids, output_device
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.require_backward_grad_sync = True
        left_out = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._shared = [b for n, b in module.named_buffers() if n not in left_out]
        trained = [p for n, p in module.named_parameters() if p.requires_grad and n not in left_out]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        if init_sync:
            copied = [p for n, p in module.named_parameters() if n not in left_out]
            self._from_first([*copied, *self._shared])
        self._hook: tuple[Any, Callable[[Any, GradBucket], Any]] | None = None
        self._buckets = _buckets(trained, BUCKET_BYTES if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20)))
        self._begun = False
        self._next = 0
        self._unfinished: list[str] = []
        for bucket in self._buckets:
            for p in bucket.parameters():
                p.register_post_accumulate_grad_hook(self._arrived(bucket))

    def _from_first(self, tensors: list[Any]) -> None:
        """Tensors become those of the first process."""
        works = [exchange.broadcast(t, group=self.process_group, async_op=True, group_src=0) for t in tensors]
        for work in works:
            assert work is not None
            work.wait()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the Module gives."""
        if mode.grad_mode() and self.require_backward_grad_sync:
            self._check_last()
            if self.broadcast_buffers and self.training and self._shared:
                self._from_first(self._shared)
        return self.module(*inputs, **kwargs)

    def _check_last(self) -> None:
        if self._begun:  # the pass before ended in an error
            self._begun, self._next = False, 0
            for bucket in self._buckets:
                bucket.begin()
        if not self._unfinished:
            return
        names, self._unfinished = self._unfinished, []
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error "
            "indicates that your module has parameters that were not used in producing loss. You can enable unused "
            "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
            f"`torch.nn.parallel.DistributedDataParallel`. Parameters which did not receive grad for rank "
            f"{self.process_group.rank()}: {', '.join(names)}"
        )

    # -- gradients ----------------------------------------------------------------------------------------------------

    def _arrived(self, bucket: GradBucket) -> Callable[[Any], None]:
        def arrived(parameter: Any) -> None:
            if not self.require_backward_grad_sync:
                return
            if not self._begun:
                self._begun = True
                at_end_of_walk(self._finish)
            bucket.missing.discard(id(parameter))
            self._send(False)

        return arrived

    def _send(self, all_of_them: bool) -> None:
        """Send buckets that are full, in their order, which is that of all processes."""
        while self._next < len(self._buckets) and (all_of_them or not self._buckets[self._next].missing):
            bucket = self._buckets[self._next]
            bucket.fill()
            bucket.work = self._average(bucket)
            self._next += 1

    def _average(self, bucket: GradBucket) -> Any:
        if self._hook is not None:
            state, hook = self._hook
            return hook(state, bucket)
        bucket.buffer().div_(self.process_group.size())
        return exchange.all_reduce(bucket.buffer(), group=self.process_group, async_op=True)

    def _finish(self) -> None:
        """The end of a backward pass: what is left goes round, and all have their gradients."""
        missing = {i for bucket in self._buckets for i in bucket.missing}
        if missing and not self.find_unused_parameters:
            self._unfinished = [n for n, p in self.module.named_parameters() if id(p) in missing]
        self._send(True)
        used = self._used(missing)
        for bucket in self._buckets:
            if isinstance(bucket.work, Work):
                bucket.work.wait()
            else:
                found = bucket.work.wait()
                bucket.set_buffer(found[0] if isinstance(found, (list, tuple)) else found)
            bucket.empty(used)
        self._begun, self._next = False, 0

    def _used(self, missing: set[int]) -> set[int]:
        """The parameters that a pass has reached in some process."""
        trained = [id(p) for bucket in self._buckets for p in bucket.parameters()]
        if not self.find_unused_parameters:
            return set(trained)
        flags = creation.tensor([i not in missing for i in trained], dtype=dtypes.int32)
        exchange.all_reduce(flags, ReduceOp.MAX, self.process_group)
        return {i for i, flag in zip(trained, flags.tolist(), strict=True) if flag}

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the context gradients are added up in this process; the first backward after it averages the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let hook(state, bucket) reduce gradients: it returns a Future of the flat tensor, averaged."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._hook = state, hook

    def train(self, mode: bool = True) -> DistributedDataParallel:
        """The Module's training mode."""
        super().train(mode)
        return self


def normalized_together(norm: Any, input: Tensor, group: Any) -> Tensor:
    """Mean 0 and variance 1 per channel over all processes' batches, with the gradients of that."""
    dims, shape = [d for d in range(input.ndim) if d != 1], [1, -1] + [1] * (input.ndim - 2)
    own = creation.ones(1, dtype=input.dtype) * (input.numel() // max(input.shape[1], 1))
    sums = all_reduce(cat.call([input.sum(dims), own], 0), group=group)
    count = sums[-1]
    mean = sums[:-1] / count
    centered = input - mean.view(shape)
    variance = all_reduce((centered * centered).sum(dims), group=group) / count
    if norm.training and norm.running_mean is not None and norm.running_var is not None:
        _move_statistics(norm, mean.detach(), variance.detach(), float(count))
    out = centered * (variance + norm.eps).rsqrt().view(shape)
    out = out if norm.weight is None else out * norm.weight.view(shape)
    return out if norm.bias is None else out + norm.bias.view(shape)


def _move_statistics(norm: Any, mean: Tensor, variance: Tensor, count: float) -> None:
    with no_grad():
        norm.num_batches_tracked.add_(1)
        momentum = 1.0 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
        move_statistic(norm.running_mean, mean, None, momentum)
        move_statistic(norm.running_var, variance, count / max(count - 1.0, 1.0), momentum)


def _buckets(parameters: list[Any], most: int) -> list[GradBucket]:
    """Parameters in the order in which their gradients come, the last ones first, by dtype, in buckets of a size."""
    groups: list[list[Any]] = []
    open_: dict[Any, tuple[list[Any], int]] = {}
    for p in reversed(parameters):
        group, size = open_.get(p.dtype, ([], 0))
        if not group:
            groups.append(group)
        group.append(p)
        size += p.numel() * p.element_size()
        full = size >= (min(FIRST_BYTES, most) if len(groups) == 1 else most)
        open_[p.dtype] = ([], 0) if full else (group, size)
    return [GradBucket(i, group, i == len(groups) - 1) for i, group in enumerate(groups)]
