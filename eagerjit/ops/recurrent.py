"""Recurrent layers: steps over a sequence, each one fused op, with a gradient that multiplies all steps at once.

A layer gets its inputs already projected for all steps (one matrix product). Going back, every step yields the gradient
of its gates; the weight's gradient is then one product over all of them, not a sum of one small product per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eagerjit.autograd.node import any_requires_grad, record
from eagerjit.autograd.rules import derived_gradient
from eagerjit.dispatch import Op
from eagerjit.ops import views
from eagerjit.ops.index import cat
from eagerjit.runtime import mode
from eagerjit.state import state
from eagerjit.tensor import Tensor, new_tensor


class Cell(NamedTuple):
    """One kind of step.

    step        (x, *state, weight, bias[, projection]) -> (*new state, what its gradient wants to know)
    gradient    (g_out, *g_state, x, *state, *new state, kept, weight) -> (g_x, g_gates, *gradients of the state before)
    """

    name: str
    step: Op
    gradient: Op


def _parts(gates: Tensor, count: int) -> list[Tensor]:
    width = gates.shape[-1] // count
    return [views.narrow(gates, -1, index * width, width) for index in range(count)]


# -- LSTM -------------------------------------------------------------------------------------------------------------


def _lstm_step(
    x: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, with forget gates; a projection makes results of fewer features."""
    gates = x + h.matmul(weight.t())
    i, f, a, o = _parts(gates, 4)
    new = f.sigmoid() * c + i.sigmoid() * a.tanh()
    out = o.sigmoid() * new.tanh()
    return out if projection is None else out.matmul(projection.t()), new, gates


def _lstm_gradient(
    g_out: Tensor, g_h: Tensor, g_c: Tensor, x: Tensor, h: Tensor, c: Tensor, new_h: Tensor, new_c: Tensor,
    gates: Tensor, weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    i, f, a, o = _parts(gates, 4)
    i, f, a, o = i.sigmoid(), f.sigmoid(), a.tanh(), o.sigmoid()
    squashed = new_c.tanh()
    g = g_out + g_h
    inner = g_c + g * o * (1.0 - squashed * squashed)
    g_gates = cat.body(
        [
            inner * a * i * (1.0 - i), inner * c * f * (1.0 - f), inner * i * (1.0 - a * a),
            g * squashed * o * (1.0 - o),
        ],
        1,
    )  # fmt: skip
    return g_gates, g_gates.matmul(weight), inner * f


# -- GRU --------------------------------------------------------------------------------------------------------------


def _gru_gates(x: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(reset, update, candidate, the recurrent part of the candidate)."""
    xr, xz, xn = _parts(x, 3)
    hr, hz, hn = _parts(recurrent, 3)
    reset, update = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    return reset, update, (xn + reset * hn).tanh(), hn


def _gru_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Cho et al. 2014; the reset gate is applied after the recurrent product."""
    recurrent = h.matmul(weight.t())
    recurrent = recurrent if bias is None else recurrent + bias
    _, update, new, _ = _gru_gates(x, recurrent)
    return (h - new) * update + new, recurrent


def _gru_gradient(
    g_out: Tensor, g_h: Tensor, x: Tensor, h: Tensor, new_h: Tensor, recurrent: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    reset, update, new, hn = _gru_gates(x, recurrent)
    g = g_out + g_h
    g_update = g * (h - new) * update * (1.0 - update)
    g_new = g * (1.0 - update) * (1.0 - new * new)
    g_reset = g_new * hn * reset * (1.0 - reset)
    g_gates = cat.body([g_reset, g_update, g_new * reset], 1)
    return cat.body([g_reset, g_update, g_new], 1), g_gates, g * update + g_gates.matmul(weight)


# -- plain ------------------------------------------------------------------------------------------------------------


def _tanh_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Elman 1990."""
    return ((x + h.matmul(weight.t())).tanh(),)


def _tanh_gradient(
    g_out: Tensor, g_h: Tensor, x: Tensor, h: Tensor, new_h: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    g = (g_out + g_h) * (1.0 - new_h * new_h)
    return g, g.matmul(weight)


def _relu_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Elman 1990, with max(., 0)."""
    return ((x + h.matmul(weight.t())).relu(),)


def _relu_gradient(
    g_out: Tensor, g_h: Tensor, x: Tensor, h: Tensor, new_h: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    g = (g_out + g_h).where(new_h > 0, 0.0)
    return g, g.matmul(weight)


def _cell(name: str, step: Any, gradient: Any) -> Cell:
    return Cell(name, Op(f"{name}_step", step), Op(f"{name}_step_gradient", gradient))


CELLS = {
    "LSTM": _cell("lstm", _lstm_step, _lstm_gradient),
    "GRU": _cell("gru", _gru_step, _gru_gradient),
    "RNN_TANH": _cell("rnn_tanh", _tanh_step, _tanh_gradient),
    "RNN_RELU": _cell("rnn_relu", _relu_step, _relu_gradient),
}


# -- sequences --------------------------------------------------------------------------------------------------------


def _rows(x: Tensor, sizes: Sequence[int] | None) -> list[Tensor]:
    """The steps of a sequence: (steps, batch, ...), or packed (all rows, ...) with the batch size of every step."""
    plain = state.tracer is None and not mode.grad_mode()
    if sizes is None:
        return [new_tensor(a) for a in x._data] if plain else list(views.unbind(x, 0))
    ends = np.cumsum(sizes).tolist()
    if plain:
        return [new_tensor(x._data[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
    return [views.narrow(x, 0, end - size, size) for end, size in zip(ends, sizes, strict=True)]


def _joined(rows: list[Tensor], packed: bool) -> Tensor:
    """The inverse of `_rows`."""
    if state.tracer is not None or mode.grad_mode():
        return cat.call(rows if packed else [r.unsqueeze(0) for r in rows], 0)
    # However many steps there are, nothing is compiled for their number.
    first = rows[0]
    shape = (sum(r.shape[0] for r in rows),) if packed else (len(rows), first.shape[0])
    out = first.new_empty((*shape, *first.shape[1:]))
    array, start = out._data, 0
    for index, row in enumerate(rows):
        count = row.shape[0]
        array[slice(start, start + count) if packed else index] = row._data
        start += count
    return out


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
    reverse: bool,
) -> tuple[tuple[Tensor, ...], _Steps]:  # fmt: skip
    """((results of all steps, *final state), what each step knew)."""
    rows = _rows(x, sizes)
    order = range(len(rows) - 1, -1, -1) if reverse else range(len(rows))
    count = len(initial)
    current, now = list(initial), 0
    ended: list[list[Tensor]] = [[] for _ in initial]
    steps = _Steps([[] for _ in rows], [[] for _ in rows], [[] for _ in rows])
    for t in order:
        if sizes is not None:
            current, now = _resized(current, now, sizes[t], initial, ended), sizes[t]
        found = cell.step.call(rows[t], *current, *weights)
        found = found if type(found) is tuple else (found,)
        steps.before[t], steps.after[t], steps.kept[t] = current, list(found[:count]), list(found[count:])
        current = steps.after[t]
    out = _joined([after[0] for after in steps.after], sizes is not None)
    return (out, *(final.clone() for final in _complete(current, ended))), steps


def _backward(
    cell: Cell, steps: _Steps, g_out: Tensor, g_final: Sequence[Tensor], x: Tensor, weight: Tensor, biased: bool,
    sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Tensor, list[Tensor], Tensor, Tensor | None]:  # fmt: skip
    """Gradients of (x, initial state, weight, bias)."""
    rows, g_rows = _rows(x, sizes), _rows(g_out, sizes)
    order = range(len(rows)) if reverse else range(len(rows) - 1, -1, -1)
    packed = sizes is not None
    current, now = list(g_final), 0
    begun: list[list[Tensor]] = [[] for _ in g_final]
    g_x: list[Any] = [None] * len(rows)
    g_gates: list[Any] = [None] * len(rows)
    count = len(current)
    for t in order:
        if sizes is not None:
            current, now = _resized(current, now, sizes[t], g_final, begun), sizes[t]
        values = (rows[t], *steps.before[t], *steps.after[t], *steps.kept[t], weight)
        found = cell.gradient.call(g_rows[t], *current, *values)
        current = list(found[-count:])
        g_x[t], g_gates[t] = found[0], found[-count - 1]
    gates = _joined(g_gates, packed)
    alike = g_x[0] is g_gates[0]
    flat = gates.reshape(-1, gates.shape[-1])
    before = _joined([b[0] for b in steps.before], packed)
    g_weight = flat.t().matmul(before.reshape(-1, before.shape[-1]))
    g_bias = flat.sum(0) if biased else None
    return gates if alike else _joined(g_x, packed), _complete(current, begun), g_weight, g_bias


def _reads(g: Any, out: Any, *inputs: Any) -> Any:
    """Going back reads every input, and copies of the results."""
    return inputs


class _LayerCall:
    """What the tape knows of one call of a layer."""

    rules = (_reads,) * 8

    def __init__(self, cell: Cell, steps: _Steps, sizes: Sequence[int] | None, reverse: bool):
        self.name, self.cell, self.steps, self.sizes, self.reverse = cell.name, cell, steps, sizes, reverse

    def body(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """The layer as ops that are recorded one by one."""
        *initial, weight, bias = rest
        return _forward(self.cell, x, initial, (weight, bias), self.sizes, self.reverse)[0]

    def backward(self, node: Any, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients of (x, *initial state, weight, bias)."""
        if create_graph:
            return derived_gradient(self, needs, len(grads))(*grads, *node.outputs(), *node.inputs)  # type: ignore[arg-type]
        x, *_, weight, bias = node.inputs
        g_x, g_initial, g_weight, g_bias = _backward(
            self.cell, self.steps, grads[0], grads[1:], x, weight, bias is not None, self.sizes, self.reverse
        )
        found = (g_x, *g_initial, g_weight, g_bias)
        return [g if needed else None for g, needed in zip(found, needs, strict=True)]


def layer(
    kind: str, x: Tensor, initial: Sequence[Tensor], weight: Tensor, bias: Tensor | None = None,
    projection: Tensor | None = None, sizes: Sequence[int] | None = None, reverse: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """One layer in one direction: (results of all steps, *final state).

    kind        a name in CELLS
    x           projected inputs (steps, batch, gates), or packed (all rows, gates)
    initial     the state before the first step, each (batch, features)
    bias        added to the recurrent product where that is not the same as adding it to x: in a GRU
    projection  of an LSTM, multiplied with every result
    sizes       of packed inputs, the batch size of every step, never growing
    """
    if (sizes is None and x.shape[0] == 0) or (sizes is not None and not sizes):
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    cell = CELLS[kind]
    if state.casting is not None:
        x, weight, *initial = state.casting.lower((x, weight, *initial))
        bias, projection = (b if b is None else state.casting.lower((b,))[0] for b in (bias, projection))
    if projection is not None:
        return _forward(cell, x, initial, (weight, bias, projection), sizes, reverse)[0]
    arguments = (x, *initial, weight, bias)
    needed = mode.grad_mode() and any_requires_grad(arguments)
    before = mode.set_grad_mode(False)
    try:
        result, steps = _forward(cell, x, initial, (weight, bias), sizes, reverse)
    finally:
        mode.set_grad_mode(before)
    if needed:
        record(_LayerCall(cell, steps, sizes, reverse), arguments, result)
    return result
