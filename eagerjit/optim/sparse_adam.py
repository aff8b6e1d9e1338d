"""Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.autograd.modes import enable_grad, no_grad
from eagerjit.guards.epochs import Table
from eagerjit.optim.groups import validated_betas
from eagerjit.optim.hooks import hooked
from eagerjit.optim.optimizer import Optimizer
from eagerjit.tensors.creation import zeros_like
from eagerjit.tensors.tensor import Tensor


class SparseAdam(Optimizer):
    """Adam that changes only the rows, and their averages, which a sparse gradient has.

    Raises RuntimeError for dense gradients, ValueError for sparse or complex parameters.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        validated_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for kind, refused in (("Sparse", lambda p: p.is_sparse), ("Complex", lambda p: p.is_complex())):
            places = [
                [i, j] for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"]) if refused(p)
            ]
            needs = "requires dense parameter tensors" if kind == "Sparse" else "does not support complex parameters"
            if places:
                raise ValueError(f"{kind} params at indices {places}: SparseAdam {needs}")

    @hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; returns what the closure, run first, returns."""
        from eagerjit.sparse.updates import adam

        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if not p.grad.is_sparse:
                        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                    kept = self._started(p)
                    kept["step"] += 1
                    options = group["betas"], float(group["lr"]), group["eps"], group.get("maximize", False)
                    adam(p, p.grad, kept["exp_avg"], kept["exp_avg_sq"], *options, kept["step"])
        return loss

    def _started(self, parameter: Tensor) -> dict[str, Any]:
        """The state of a parameter, made at its first step."""
        if not self.state.get(parameter):
            averages = {"exp_avg": zeros_like(parameter), "exp_avg_sq": zeros_like(parameter)}
            self.state[parameter] = Table({"step": 0, **averages})
        return self.state[parameter]  # type: ignore[no-any-return]
