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
    keeps       whether a step keeps something for its gradient: as wide as the gates
    gradient    (g_out, *g_state, x, *state, *new state, kept, weight) -> (g_x, g_gates, *gradients of the state before)
    """

    name: str
    step: Op
    plain: Op
    gradient: Op
    keeps: bool


def _parts(gates: Tensor, count: int) -> list[Tensor]:
    width = gates.shape[-1] // count
    return [views.narrow(gates, -1, index * width, width) for index in range(count)]


def _summed(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What the gates are functions of: a bias costs nothing here, where a pass over all projected inputs would."""
    gates = x + as_dtype(h, weight.dtype).matmul(weight.t())
    return gates if bias is None else gates + bias


# -- LSTM -------------------------------------------------------------------------------------------------------------


def _lstm_step(
    x: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, with forget gates; a projection makes results of fewer features."""
    gates = _summed(x, h, weight, bias)
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
    g_gates = as_dtype(g_gates, weight.dtype)
    return g_gates, as_dtype(g_gates.matmul(weight), h.dtype), inner * f


# -- GRU --------------------------------------------------------------------------------------------------------------


def _gru_gates(x: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(reset, update, candidate, the recurrent part of the candidate)."""
    xr, xz, xn = _parts(x, 3)
    hr, hz, hn = _parts(recurrent, 3)
    reset, update = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    return reset, update, (xn + reset * hn).tanh(), hn


def _gru_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Cho et al. 2014; the reset gate is applied after the recurrent product."""
    recurrent = as_dtype(h, weight.dtype).matmul(weight.t())
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
    g_gates = as_dtype(cat.body([g_reset, g_update, g_new * reset], 1), weight.dtype)
    return as_dtype(cat.body([g_reset, g_update, g_new], 1), x.dtype), g_gates, g * update + g_gates.matmul(weight)


# -- plain ------------------------------------------------------------------------------------------------------------


def _tanh_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Elman 1990."""
    return (_summed(x, h, weight, bias).tanh(),)


def _tanh_gradient(
    g_out: Tensor, g_h: Tensor, x: Tensor, h: Tensor, new_h: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    g = (g_out + g_h) * (1.0 - new_h * new_h)
    return g, g.matmul(weight)


def _relu_step(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Elman 1990, with max(., 0)."""
    return (_summed(x, h, weight, bias).relu(),)


def _relu_gradient(
    g_out: Tensor, g_h: Tensor, x: Tensor, h: Tensor, new_h: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    g = (g_out + g_h).where(new_h > 0, 0.0)
    return g, g.matmul(weight)


def _cell(name: str, step: Any, gradient: Any, keeps: bool) -> Cell:
    with_all = Op(f"{name}_step", step)
    plain = Op(f"{name}_step_plain", _without_last(step)) if keeps else with_all
    return Cell(name, with_all, plain, Op(f"{name}_step_gradient", gradient), keeps)


def _without_last(step: Any) -> Any:
    @functools.wraps(step)
    def plain(*arguments: Any) -> tuple[Tensor, ...]:
        return tuple(step(*arguments)[:-1])

    return plain


CELLS = {
    "LSTM": _cell("lstm", _lstm_step, _lstm_gradient, True),
    "GRU": _cell("gru", _gru_step, _gru_gradient, True),
    "RNN_TANH": _cell("rnn_tanh", _tanh_step, _tanh_gradient, False),
    "RNN_RELU": _cell("rnn_relu", _relu_step, _relu_gradient, False),
}
