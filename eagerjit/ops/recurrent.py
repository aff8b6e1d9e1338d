"""Recurrent layers: steps over a sequence, with a gradient that multiplies all steps at once.

A layer gets its inputs already projected for all steps (one matrix product). Going back, every step yields the gradient
of its gates; the weight's gradient is then one product over all of them, not a sum of one small product per step.

A compiled call runs the steps one by one as a plain call does: whatever the length of a sequence, nothing is compiled.
One that runs on a GPU has them as kernels of its own, for a length each: launches cost more than steps there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from eagerjit.autograd.node import any_requires_grad, record
from eagerjit.autograd.rules import derived_gradient
from eagerjit.compiled import compilation
from eagerjit.ops import pieces, views
from eagerjit.ops.host import HostOp
from eagerjit.ops.index import cat
from eagerjit.ops.recurrent_cells import CELLS, Cell
from eagerjit.runtime import mode
from eagerjit.runtime.parameters import parameters
from eagerjit.state import set_casting, set_tracer, state
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor, new_tensor

# -- sequences --------------------------------------------------------------------------------------------------------

Sizes = Sequence[int] | Tensor | None
"""How many of packed sequences each step has: numbers, or a tensor of them, which a compiled call learns as it runs."""


def _numbers(sizes: Sizes) -> Sequence[int] | None:
    return sizes.tolist() if isinstance(sizes, Tensor) else sizes


def _rows(x: Tensor, sizes: Sequence[int] | None) -> list[Tensor]:
    """The steps of a sequence: (steps, batch, ...), or packed (all rows, ...) with the batch size of every step."""
    plain = state.tracer is None and not mode.grad_mode()
    if sizes is None:
        return [new_tensor(x._data[i, ...]) for i in range(x.shape[0])] if plain else list(pieces.unbind(x, 0))
    ends = np.cumsum(sizes).tolist()
    if plain:
        return [new_tensor(x._data[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
    return [views.narrow(x, 0, end - size, size) for end, size in zip(ends, sizes, strict=True)]


def _joined(rows: list[Tensor], packed: bool) -> Tensor:
    """The inverse of `_rows`."""
    if state.tracer is not None or mode.grad_mode() or not rows[0].is_cpu:
        return cat.call(rows if packed else [r.unsqueeze(0) for r in rows], 0)
    # However many steps there are, nothing is compiled for their number.
    arrays = [row._data for row in rows]
    shape = arrays[0].shape
    out = rows[0].new_empty((sum(a.shape[0] for a in arrays), *shape[1:]))
    np.concatenate(arrays, 0, out=out._data)
    return out if packed else new_tensor(out._data.reshape(len(rows), *shape))


def _resized(
    parts: list[Tensor], now: int, wanted: int, source: Sequence[Tensor], ended: list[list[Tensor]]
) -> list[Tensor]:
    """Rows of sequences that end leave for `ended`, those of sequences that begin come from `source`."""
    if wanted < now:
        for part, gone in zip(parts, ended, strict=True):
            gone.append(views.narrow(part, 0, wanted, now - wanted))
        return [views.narrow(part, 0, 0, wanted) for part in parts]
    if wanted > now:
        return [
            cat.call([part, views.narrow(s, 0, now, wanted - now)], 0) if now else views.narrow(s, 0, 0, wanted)
            for part, s in zip(parts, source, strict=True)
        ]
    return parts


def _complete(parts: list[Tensor], ended: list[list[Tensor]]) -> list[Tensor]:
    return [cat.call([p, *reversed(e)], 0) if e else p for p, e in zip(parts, ended, strict=True)]


class _Steps(NamedTuple):
    """What going back wants to know: per step the state before and after, and what the cell kept."""

    before: list[list[Tensor]]
    after: list[list[Tensor]]
    kept: list[list[Tensor]]


def _forward(
    cell: Cell, x: Tensor, initial: Sequence[Tensor], weights: Sequence[Tensor | None], sizes: Sequence[int] | None,
    reverse: bool, keep: bool = True,
) -> tuple[tuple[Tensor, ...], _Steps]:  # fmt: skip
    """((results of all steps, *final state), what each step knew); nothing of that unless `keep`."""
    rows = _rows(x, sizes)
    order = range(len(rows) - 1, -1, -1) if reverse else range(len(rows))
    count = len(initial)
    if len(rows) > 1:  # a product reads a transposed weight as it lies; only one that is used again is worth a copy
        weights = (weights[0].t().contiguous().t(), *weights[1:])  # type: ignore[union-attr]
    current, now = list(initial), 0
    ended: list[list[Tensor]] = [[] for _ in initial]
    steps = _Steps([[] for _ in rows], [[] for _ in rows], [[] for _ in rows])
    results: list[Any] = [None] * len(rows)
    step = cell.step if keep else cell.plain
    for t in order:
        if sizes is not None:
            current, now = _resized(current, now, sizes[t], initial, ended), sizes[t]
        found = step.call(rows[t], *current, *weights)
        found = found if type(found) is tuple else (found,)
        before, current = current, list(found[:count])
        if keep:
            steps.before[t], steps.after[t], steps.kept[t] = before, current, list(found[count:])
        results[t] = current[0]
    out = _joined(results, sizes is not None)
    return (out, *(final.clone() for final in _complete(current, ended))), steps


def _backward(
    cell: Cell, steps: _Steps, g_out: Tensor, g_final: Sequence[Tensor], weight: Tensor, biased: bool,
    sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Tensor, list[Tensor], Tensor, Tensor | None]:  # fmt: skip
    """Gradients of (x, initial state, weight, bias)."""
    g_rows = _rows(g_out, sizes)
    order = range(len(g_rows)) if reverse else range(len(g_rows) - 1, -1, -1)
    packed = sizes is not None
    current, now = list(g_final), 0
    begun: list[list[Tensor]] = [[] for _ in g_final]
    g_x: list[Any] = [None] * len(g_rows)
    g_gates: list[Any] = [None] * len(g_rows)
    count = len(current)
    for t in order:
        if sizes is not None:
            current, now = _resized(current, now, sizes[t], g_final, begun), sizes[t]
        values = (*steps.before[t], *steps.after[t], *steps.kept[t], weight)
        found = cell.gradient.call(g_rows[t], *current, *values)
        current = list(found[-count:])
        g_x[t], g_gates[t] = found[0], found[-count - 1]
    gates = _joined(g_gates, packed)
    alike = g_x[0] is g_gates[0]
    flat = gates.reshape(-1, gates.shape[-1])
    before = _joined([b[0] for b in steps.before], packed)
    g_weight = flat.t().matmul(before.reshape(-1, before.shape[-1]).to(flat.dtype))
    g_bias = flat.sum(0) if biased else None
    return gates if alike else _joined(g_x, packed), _complete(current, begun), g_weight, g_bias


# -- in compiled calls ------------------------------------------------------------------------------------------------


@contextmanager
def _eagerly() -> Iterator[None]:
    """What runs inside is a plain call without gradients, wherever it is called from."""
    tracer, casting, grad = set_tracer(None), set_casting(None), mode.set_grad_mode(False)
    try:
        yield
    finally:
        mode.set_grad_mode(grad)
        set_casting(casting)
        set_tracer(tracer)


class StepsOp(HostOp):
    """A function of tensors that runs one step after the other.

    A call compiled for the host calls it, so that a length compiles nothing; one for a GPU records what the steps do.
    """

    def __init__(self, name: str, steps: Callable[..., tuple[Tensor, ...]], types: Callable[..., Any]):
        def called(*arguments: Any) -> tuple[np.ndarray, ...]:
            with _eagerly():
                return tuple(t._data for t in steps(*map(_as_tensors, arguments)))

        called.takes = parameters(steps)  # type: ignore[attr-defined]
        super().__init__(name, called, differentiable=False, types=types, on_host="on a CPU: a loop over steps")
        self.steps = steps

    def _call(self, *arguments: Any) -> Any:
        tracer = state.tracer
        for_gpu = compilation.backend is not None or (tracer is not None and tracer.device is not None)
        return self.steps(*arguments) if for_gpu else super()._call(*arguments)


def _as_tensors(argument: Any) -> Any:
    """An argument with tensors for arrays."""
    if isinstance(argument, np.ndarray):
        return new_tensor(argument)
    return tuple(map(_as_tensors, argument)) if type(argument) is tuple else argument


def _all_steps(
    kind: str, x: Tensor, initial: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, sizes: Sizes,
    reverse: bool, keep: bool = True,
) -> tuple[Tensor, ...]:  # fmt: skip
    """(results of all steps, *final state), and if `keep` the rest of the state after every step, what steps kept."""
    sizes = _numbers(sizes)
    results, steps = _forward(CELLS[kind], x, initial, (weight, bias), sizes, reverse, keep)
    if not keep:
        return results
    packed = sizes is not None
    more = [_joined([after[i] for after in steps.after], packed) for i in range(1, len(initial))]
    if count := CELLS[kind].keeps:
        kept = _joined([kept[i] for i in range(count) for kept in steps.kept], packed)
        more.append(kept.reshape(count, *x.shape[:-1], kept.shape[-1]))
    return (*results, *more)


def _forward_types(
    kind: str, x: Tensor, initial: Any, weight: Tensor, bias: Any, sizes: Any, reverse: bool, keep: bool = True
) -> list[Any]:
    rows = tuple(x.shape)[:-1]
    found = [(initial[0].dtype, (*rows, initial[0].shape[-1])), *((part.dtype, tuple(part.shape)) for part in initial)]
    if not keep:
        return found
    found += [(part.dtype, (*rows, part.shape[-1])) for part in initial[1:]]
    keeps = CELLS[kind].keeps
    return found + ([(x.dtype, (keeps, *rows, initial[-1].shape[-1]))] if keeps else [])


def _all_gradients(
    kind: str, g_out: Tensor, g_final: tuple[Tensor, ...], x: Tensor, initial: tuple[Tensor, ...], weight: Tensor,
    biased: bool, sizes: Sizes, reverse: bool, known: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of (x, *initial state, weight[, bias]); `known` is what the forward function gave, but the end."""
    sizes = _numbers(sizes)
    cell, count = CELLS[kind], len(initial)
    after = [list(parts) for parts in zip(*[_rows(t, sizes) for t in known[:count]], strict=True)]
    parts_kept = [_rows(part, sizes) for part in _rows(known[count], None)] if cell.keeps else []
    kept = [[part[t] for part in parts_kept] for t in range(len(after))]
    steps = _Steps(_states_before(after, list(initial), sizes, reverse), after, kept)
    g_x, g_initial, *rest = _backward(cell, steps, g_out, g_final, weight, biased, sizes, reverse)
    return tuple(t for t in (g_x, *g_initial, *rest) if t is not None)


def _states_before(
    after: list[list[Tensor]], initial: list[Tensor], sizes: Sequence[int] | None, reverse: bool
) -> list[list[Tensor]]:
    """The state before every step, from those after them."""
    before: list[list[Tensor]] = [[] for _ in after]
    current, now = list(initial), 0
    for t in range(len(after) - 1, -1, -1) if reverse else range(len(after)):
        if sizes is not None:
            current, now = _resized(current, now, sizes[t], initial, [[] for _ in initial]), sizes[t]
        before[t], current = current, after[t]
    return before


def _backward_types(
    kind: str, g_out: Tensor, g_final: Any, x: Tensor, initial: Any, weight: Tensor, biased: bool, *rest: Any
) -> list[Any]:
    found = [(t.dtype, tuple(t.shape)) for t in (x, *initial, weight)]
    return found + ([(weight.dtype, tuple(weight.shape)[:1])] if biased else [])


_forward_call = StepsOp("recurrent_layer", _all_steps, _forward_types)
_backward_call = StepsOp("recurrent_layer_gradient", _all_gradients, _backward_types)


# -- the tape ---------------------------------------------------------------------------------------------------------


def _reads(g: Any, out: Any, *inputs: Any) -> Any:
    """Going back reads every input, and copies of the results."""
    return inputs


class _LayerCall:
    """What the tape knows of one call of a layer."""

    rules = (_reads,) * 8
    has_two_gradients = True
    """One with a history is derived from the body; the other one computes in another order, and faster."""

    def __init__(self, kind: str, known: Any, sizes: Sizes, reverse: bool):
        self.kind, self.cell, self.sizes, self.reverse = kind, CELLS[kind], sizes, reverse
        self.name = self.cell.name
        self.known = known
        """The steps as they were, or in a trace what the forward function gives."""

    def body(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """The layer as ops that are recorded one by one."""
        *initial, weight, bias = rest
        return _forward(self.cell, x, initial, (weight, bias), _numbers(self.sizes), self.reverse)[0]

    def backward(self, node: Any, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients of (x, *initial state, weight, bias)."""
        if create_graph:
            return derived_gradient(self, needs, len(grads))(*grads, *node.outputs(), *node.inputs)  # type: ignore[arg-type]
        x, *initial, weight, bias = node.inputs
        biased, g_out, g_final = bias is not None, grads[0], grads[1:]
        if isinstance(self.known, _Steps):
            how = (weight, biased, _numbers(self.sizes), self.reverse)
            g_x, g_initial, *rest = _backward(self.cell, self.known, g_out, g_final, *how)
            found = [g_x, *g_initial, *rest]
        else:
            call = (tuple(g_final), x, tuple(initial), weight, biased, self.sizes, self.reverse, self.known)
            found = [*_backward_call.run((self.kind, g_out, *call)), None]
        return [g if needed else None for g, needed in zip(found, needs, strict=False)]


def layer(
    kind: str, x: Tensor, initial: Sequence[Tensor], weight: Tensor, bias: Tensor | None = None,
    projection: Tensor | None = None, sizes: Sizes = None, reverse: bool = False, wide: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """One layer in one direction: (results of all steps, *final state).

    kind        a name in CELLS
    x           projected inputs (steps, batch, gates), or packed (all rows, gates)
    initial     the state before the first step, each (batch, features)
    bias        added to the recurrent product: in a GRU that of the product alone, else that of x as well
    projection  of an LSTM, multiplied with every result
    sizes       of packed inputs, the batch size of every step, never growing
    wide        whether the state keeps its dtype under autocast on a CPU
    """
    steps = x.shape[0] if sizes is None else sizes.shape[0] if isinstance(sizes, Tensor) else len(sizes)
    if steps == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    cell = CELLS[kind]
    if state.casting is not None:
        x, weight, *lowered = state.casting.lower((x, weight, *initial))
        initial = initial if wide and x.is_cpu else lowered
        bias, projection = (b if b is None else state.casting.lower((b,))[0] for b in (bias, projection))
    else:
        initial = _fitting(cell.name, initial, weight)
    is_called = projection is None and _is_called(steps)
    if projection is not None:
        return _forward(cell, x, initial, (weight, bias, projection), _numbers(sizes), reverse)[0]
    arguments = (x, *initial, weight, bias)
    needed = mode.grad_mode() and any_requires_grad(arguments)
    before = mode.set_grad_mode(False)
    try:
        if is_called:
            found = _forward_call.run((kind, x, tuple(initial), weight, bias, sizes, reverse, needed))
            count = 1 + len(initial)
            result = found[:count]
            known = new_tensor(found[0]._data), *found[count:]  # whatever is written over the result
        else:
            sizes = numbers = _numbers(sizes)
            result, known = _forward(cell, x, initial, (weight, bias), numbers, reverse, needed)
    finally:
        mode.set_grad_mode(before)
    if needed:
        record(_LayerCall(kind, known, sizes, reverse), arguments, result)
    return result


def _fitting(name: str, initial: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
    """An initial state in the weight's dtype, which an LSTM's memory alone is brought to, from a narrower one."""
    h, *memory = initial
    for part in (h, *(c for c in memory if result_type(c, weight) is not weight.dtype)):
        if part.dtype is not weight.dtype:
            got = f"{TYPE_NAMES[part.dtype]} and {TYPE_NAMES[weight.dtype]}"
            raise RuntimeError(f"{name}: mat1 and mat2 must have the same dtype, but got {got}")
    return [h, *(c.to(weight.dtype) for c in memory)]


def _is_called(steps: Any) -> bool:
    """Whether a trace records the layer as one call: not its steps, unless there is one, or it is to be batched."""
    tracer = state.tracer
    return tracer is not None and not tracer.single_example and steps != 1
