"""Names of `torch.distributed.optim`, in a group of one."""

from __future__ import annotations

from typing import Any

from eagerjit.optim import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state processes divide among them: in a group of one, the optimizer itself."""

    def __new__(cls, params: Any, optimizer_class: Any, *, process_group: Any = None, **options: Any) -> Any:
        from eagerjit.distributed import get_world_size

        get_world_size()
        own = {"parameters_as_bucket_view", "overlap_with_ddp"}
        return optimizer_class(params, **{k: v for k, v in options.items() if k not in own})
