"""The steps of recurrent layers, each one fused op, and their gradients.

Under autocast a state may be wider than the gates, which have the weight's dtype.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from eagerjit.calling.dispatch import Op
from eagerjit.ops import views
from eagerjit.ops.index import cat
from eagerjit.ops.pointwise import as_dtype
from eagerjit.tensors.tensor import Tensor


class Cell(NamedTuple):
    """One kind of step.

    step        (x, *state, weight, bias[, projection]) -> (*new state, what its gradient wants to know)
    plain       the same without what its gradient wants to know
    keeps       how much a step keeps for its gradient: tensors as wide as the state, of the gates' dtype
    gradient    (g_out, *g_state, *state, *new state, *kept, weight) -> (g_x, g_gates, *gradients of the state before)
    """

    name: str
    step: Op
    plain: Op
    gradient: Op
    keeps: int


def _parts(gates: Tensor, count: int, state: Tensor) -> list[Tensor]:
    """The gates one by one, each as wide as the state: so that one loop goes through all."""
    width = state.shape[-1]
    return [views.narrow(gates, -1, index * width, width) for index in range(count)]


def _summed(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What the gates are functions of: a bias costs nothing here, where a pass over all projected inputs would."""
    gates = x + as_dtype(h, weight.dtype).matmul(weight.t())
    return gates if bias is None else gates + bias


# -- LSTM -------------------------------------------------------------------------------------------------------------


def _lstm_step(
    x: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Hochreiter and Schmidhuber 1997, with forget gates; a projection makes results of fewer features."""
    i, f, a, o = _parts(_summed(x, h, weight, bias), 4, c)
    i, f, a, o = i.sigmoid(), f.sigmoid(), a.tanh(), o.sigmoid()
    new = f * c + i * a
    out = o * new.tanh()
    return out if projection is None else out.matmul(projection.t()), new, i, f, a, o


def _lstm_gradient(
    g_out: Tensor, g_h: Tensor, g_c: Tensor, h: Tensor, c: Tensor, new_h: Tensor, new_c: Tensor,
    i: Tensor, f: Tensor, a: Tensor, o: Tensor, weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
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
    g_gates = as_dtype(g_gates, weight.dtype)
    return g_gates, as_dtype(g_gates.matmul(weight), h.dtype), inner * f


# -- GRU --------------------------------------------------------------------------------------------------------------


def _gru_gates(x: Tensor, h: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(reset, update, candidate, the recurrent part of the candidate)."""
    xr, xz, xn = _parts(x, 3, h)
    hr, hz, hn = _parts(recurrent, 3, h)
    reset, update = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    return reset, update, (xn + reset * hn).tanh(), hn


def _gru_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Cho et al. 2014; the reset gate is applied after the recurrent product."""
    recurrent = as_dtype(h, weight.dtype).matmul(weight.t())
    recurrent = recurrent if bias is None else recurrent + bias
    reset, update, new, hn = _gru_gates(x, h, recurrent)
    return (h - new) * update + new, reset, update, new, hn


def _gru_gradient(
    g_out: Tensor, g_h: Tensor, h: Tensor, new_h: Tensor, reset: Tensor, update: Tensor, new: Tensor, hn: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    g = g_out + g_h
    g_update = g * (h - new) * update * (1.0 - update)
    g_new = g * (1.0 - update) * (1.0 - new * new)
    g_reset = g_new * hn * reset * (1.0 - reset)
    g_gates = as_dtype(cat.body([g_reset, g_update, g_new * reset], 1), weight.dtype)
    return as_dtype(cat.body([g_reset, g_update, g_new], 1), weight.dtype), g_gates, g * update + g_gates.matmul(weight)


# -- plain ------------------------------------------------------------------------------------------------------------


def _tanh_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Elman 1990."""
    return (_summed(x, h, weight, bias).tanh(),)


def _tanh_gradient(
    g_out: Tensor, g_h: Tensor, h: Tensor, new_h: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    g = (g_out + g_h) * (1.0 - new_h * new_h)
    return g, g.matmul(weight)


def _relu_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Elman 1990, with max(., 0)."""
    return (_summed(x, h, weight, bias).relu(),)


def _relu_gradient(
    g_out: Tensor, g_h: Tensor, h: Tensor, new_h: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    g = (g_out + g_h).where(new_h > 0, 0.0)
    return g, g.matmul(weight)


def _cell(name: str, step: Any, gradient: Any, keeps: int) -> Cell:
    with_all = Op(f"{name}_step", step)
    plain = Op(f"{name}_step_plain", _without_last(step, keeps)) if keeps else with_all
    return Cell(name, with_all, plain, Op(f"{name}_step_gradient", gradient), keeps)


def _without_last(step: Any, count: int) -> Any:
    @functools.wraps(step)
    def plain(*arguments: Any) -> tuple[Tensor, ...]:
        return tuple(step(*arguments)[:-count])

    return plain


CELLS = {
    "LSTM": _cell("lstm", _lstm_step, _lstm_gradient, 4),
    "GRU": _cell("gru", _gru_step, _gru_gradient, 4),
    "RNN_TANH": _cell("rnn_tanh", _tanh_step, _tanh_gradient, 0),
    "RNN_RELU": _cell("rnn_relu", _relu_step, _relu_gradient, 0),
}
