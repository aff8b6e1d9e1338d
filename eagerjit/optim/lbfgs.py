"""L-BFGS: Newton's method with the curvature of the last steps (Nocedal and Wright 2006, algorithms 7.4 and 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.modes import enable_grad, no_grad
from eagerjit.ops.index import cat
from eagerjit.optim.arithmetic import real
from eagerjit.optim.groups import validated
from eagerjit.optim.optimizer import Optimizer
from eagerjit.state import state as thread
from eagerjit.tensors.creation import zeros_like
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

Objective = Callable[[Tensor, float, Tensor], tuple[float, Tensor]]
_CARRIED = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")
"""What one call of `step` leaves to the next, in the order of PyTorch's states."""


class LBFGS(Optimizer):
    """Quasi-Newton steps over all parameters at once; `step` needs a closure that computes loss and gradients anew.

    The direction comes from the last `history_size` changes of parameters and gradients (Liu and Nocedal 1989); with
    `line_search_fn` "strong_wolfe" its length is searched for, else it is `lr`. Raises ValueError for several groups,
    TypeError for a `step` without closure, RuntimeError for other searches. A jitted function that calls `step` runs
    eagerly.
    """

    def __init__(
        self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None,
    ):  # fmt: skip
        validated("learning rate", lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """All gradients as one vector, zeros where there is none."""
        parts = [real(zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self._params]
        return cat.call(parts, 0) if len(parts) > 1 else parts[0].clone()

    def _move(self, length: float, direction: Tensor) -> None:
        start = 0
        for p in map(real, self._params):
            count = p.numel()
            p.add_(direction[start : start + count].view_as(p) * length)
            start += count

    def _measured(self, closure: Callable[[], Any], start: list[Tensor], length: float, d: Tensor) -> Any:
        """(loss, gradient) a step away; the parameters stay where they are."""
        self._move(length, d)
        loss = float(closure())
        gradient = self._gradient()
        for p, before in zip(self._params, start, strict=True):
            p.copy_(before)
        return loss, gradient

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Several iterations; returns the first loss. Raises TypeError without a closure."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        if thread.tracer is not None:
            raise TraceBreak("LBFGS decides in Python how far it goes", user_line())
        evaluate: Callable[[], Any] = enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        flat = gradient.abs().max().item() <= group["tolerance_grad"]
        if flat:
            return first_loss
        memory = {key: state[key] for key in _CARRIED if key in state}
        iteration = 0
        while iteration < group["max_iter"]:
            iteration += 1
            state["n_iter"] += 1
            direction = self._direction(state, memory, gradient, group["history_size"])
            memory["prev_flat_grad"], previous = gradient.clone(), loss
            length = group["lr"]
            if state["n_iter"] == 1:
                length = min(1.0, 1.0 / gradient.abs().sum().item()) * group["lr"]
            slope = gradient.dot(direction).item()
            memory |= {"d": direction, "t": length, "prev_loss": previous}
            if slope > -group["tolerance_change"]:
                break
            count = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [p.clone() for p in self._params]

                def objective(_: Any, t: float, d: Tensor, start: list[Tensor] = start) -> tuple[float, Tensor]:
                    return self._measured(evaluate, start, t, d)

                limit = group["max_eval"] - evaluations
                found = strong_wolfe(objective, length, direction, loss, gradient, slope, limit=limit)
                loss, gradient, length, count = found
                memory["t"] = length
                self._move(length, direction)
                flat = gradient.abs().max().item() <= group["tolerance_grad"]
            else:
                self._move(length, direction)
                if iteration != group["max_iter"]:
                    loss = float(evaluate())
                    gradient = self._gradient()
                    flat = gradient.abs().max().item() <= group["tolerance_grad"]
                    count = 1
            evaluations += count
            state["func_evals"] += count
            if evaluations >= group["max_eval"] or flat:
                break
            change = (direction * length).abs().max().item()
            if min(change, abs(loss - previous)) < group["tolerance_change"] or change <= group["tolerance_change"]:
                break
        state.update((key, memory[key]) for key in _CARRIED)
        return first_loss

    def _direction(
        self, state: dict[str, Any], memory: dict[str, Any], gradient: Tensor, history: int
    ) -> Tensor:
        """-gradient times the approximate inverse Hessian."""
        if state["n_iter"] == 1:
            memory.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        change = gradient - memory["prev_flat_grad"]
        moved = memory["d"] * memory["t"]
        curvature = change.dot(moved)
        changes, moves, weights = memory["old_dirs"], memory["old_stps"], memory["ro"]
        if curvature.item() > 1e-10:
            if len(changes) == history:
                for kept in (changes, moves, weights):
                    kept.pop(0)
            changes.append(change)
            moves.append(moved)
            weights.append(1.0 / curvature)
            memory["H_diag"] = curvature / change.dot(change)
        out = -gradient
        shares = state.setdefault("al", [None] * history)
        for i in range(len(changes) - 1, -1, -1):
            shares[i] = moves[i].dot(out) * weights[i]
            out = out - changes[i] * shares[i]
        out = out * memory["H_diag"]
        for i in range(len(changes)):
            out = out + moves[i] * (shares[i] - changes[i].dot(out) * weights[i])
        return out


# -- line search ------------------------------------------------------------------------------------------------------


def cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Where the cubic through two points with these values and slopes is smallest, within bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if x1 <= x2:
        found = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        found = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(found, low), high)


Point = tuple[float, float, Tensor, float]
"""(length, loss, gradient, slope) somewhere along the direction."""


def strong_wolfe(
    objective: Objective, t: float, d: Tensor, f: float, g: Tensor, slope: float, c1: float = 1e-4, c2: float = 0.9,
    tolerance: float = 1e-9, limit: int = 25,
) -> tuple[float, Tensor, float, int]:  # fmt: skip
    """(loss, gradient, length, evaluations) of a step that satisfies the strong Wolfe conditions, if one is found."""
    extent = d.abs().max().item()

    def at(length: float) -> Point:
        loss, gradient = objective(d, length, d)
        return length, loss, gradient, gradient.dot(d).item()

    before: Point = (0.0, f, g, slope)
    now, evaluations, rounds = at(t), 1, 0
    bracket: list[Point] = []
    done = False
    while rounds < limit:
        if now[1] > f + c1 * now[0] * slope or (rounds > 1 and now[1] >= before[1]):
            bracket = [before, now]
        elif abs(now[3]) <= -c2 * slope:
            bracket, done = [now], True
        elif now[3] >= 0:
            bracket = [before, now]
        if bracket:
            break
        bounds = (now[0] + 0.01 * (now[0] - before[0]), now[0] * 10)
        length = cubic_minimum(before[0], before[1], before[3], now[0], now[1], now[3], bounds)
        before, now = now, at(length)
        evaluations += 1
        rounds += 1
    if not bracket:
        bracket = [(0.0, f, g, slope), now]
    stuck = False
    while not done and rounds < limit:
        (a, fa, _, sa), (b, fb, _, sb) = bracket
        if abs(b - a) * extent < tolerance:
            break
        length = cubic_minimum(a, fa, sa, b, fb, sb)
        left, right = min(a, b), max(a, b)
        margin = 0.1 * (right - left)
        if min(right - length, length - left) < margin:
            if stuck or length >= right or length <= left:
                length = right - margin if abs(length - right) < abs(length - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = at(length)
        evaluations += 1
        rounds += 1
        low = 0 if bracket[0][1] <= bracket[1][1] else 1
        if now[1] > f + c1 * now[0] * slope or now[1] >= bracket[low][1]:
            bracket[1 - low] = now
            continue
        if abs(now[3]) <= -c2 * slope:
            done = True
        elif now[3] * (bracket[1 - low][0] - bracket[low][0]) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = now
    best = min(bracket, key=lambda point: point[1])
    return best[1], best[2], best[0], evaluations
