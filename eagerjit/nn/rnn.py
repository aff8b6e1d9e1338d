"""Recurrent networks: RNN, LSTM and GRU over whole sequences, and their cells."""

from __future__ import annotations

import math
import numbers
from typing import Any

from eagerjit.effects.cautions import caution
from eagerjit.nn import functional as F
from eagerjit.nn import init
from eagerjit.nn.module import Module
from eagerjit.nn.utils.rnn import PackedSequence, step_sizes
from eagerjit.ops.counted import measured
from eagerjit.ops.index import cat
from eagerjit.ops.recurrent import layer
from eagerjit.state import state as thread
from eagerjit.tensors.creation import empty
from eagerjit.tensors.tensor import Parameter, Tensor

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _draw(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNBase(Module):
    """Several recurrent layers, in one direction or in both.

    Parameters have PyTorch's names and shapes: `weight_ih_l0`, `weight_hh_l0_reverse`, `bias_ih_l1`, ...
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        _check_options(num_layers, dropout)
        _check_kinds({"bias": bias, "batch_first": batch_first}, {"input_size": input_size, "hidden_size": hidden_size})
        _check_sizes(num_layers, hidden_size, proj_size, mode)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._all_weights: list[list[str]] = []
        width = (proj_size or hidden_size) * (2 if bidirectional else 1)
        for index in range(num_layers):
            for suffix in self._directions(index):
                rows = _GATES[mode] * hidden_size
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, width if index else input_size),
                    "weight_hh": (rows, proj_size or hidden_size),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                self._all_weights.append([f"{kind}_{suffix}" for kind in shapes])
                for kind, shape in shapes.items():
                    setattr(self, f"{kind}_{suffix}", Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _directions(self, index: int) -> list[str]:
        """The suffixes of a layer's parameters, one per direction."""
        return [f"l{index}", f"l{index}_reverse"] if self.bidirectional else [f"l{index}"]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters by layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform within 1 / sqrt(hidden_size)."""
        _draw(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters are used where they lie."""

    # -- checks -------------------------------------------------------------------------------------------------------

    def _checked(self, input: Tensor) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.ndim}D instead")

    def _check_width(self, data: Tensor) -> None:
        kind = self.weight_ih_l0.dtype
        if data.dtype is not kind and thread.casting is None:
            raise ValueError(f"RNN input dtype ({data.dtype}) does not match weight dtype ({kind}).")
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}"
            )

    def _widths(self) -> tuple[int, ...]:
        """The features of each part of the state."""
        first = self.proj_size or self.hidden_size
        return (first, self.hidden_size) if self.mode == "LSTM" else (first,)

    def _state(self, data: Tensor, batch: Any, given: Any, batched: bool, order: Tensor | None) -> list[Tensor]:
        """The initial state, each part (layers * directions, batch, features)."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(layers, batch, width) for width in self._widths()]
        if given is None:
            return [data.new_zeros(shape) for shape in shapes]
        parts = list(given) if self.mode == "LSTM" else [given]
        if any(part.ndim != (3 if batched else 2) for part in parts):
            names = "hx and cx" if self.mode == "LSTM" else "hx"
            kind = "batched 3-D" if batched else "unbatched 2-D"
            found = ", ".join(f"{part.ndim}-D" for part in parts)
            raise RuntimeError(
                f"For {kind} input, {names} should also be {3 if batched else 2}-D but got ({found}) tensors"
            )
        parts = parts if batched else [part.unsqueeze(1) for part in parts]
        for index, (part, shape) in enumerate(zip(parts, shapes, strict=True)):
            if tuple(part.shape) != shape:
                label = "" if self.mode != "LSTM" else f"[{index}]"
                raise RuntimeError(f"Expected hidden{label} size {shape}, got {list(part.shape)}")
        return parts if order is None else [part.index_select(1, order) for part in parts]

    # -- computing ----------------------------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(results of all steps, final state) of sequences (steps, batch, features), unbatched ones, or packed ones.

        With `batch_first` sequences are (batch, steps, features). The state is (layers * directions, batch, features).
        """
        if isinstance(input, PackedSequence):
            sizes = step_sizes(input)
            self._check_width(input.data)
            batch = sizes[0]
            if isinstance(batch, Tensor):
                batch = measured(batch, "the first step has so many sequences")
            parts = self._state(input.data, batch, hx, True, input.sorted_indices)
            out, final = self._layers(input.data, parts, sizes)
            if input.unsorted_indices is not None:
                final = [part.index_select(1, input.unsorted_indices) for part in final]
            return input._with(out), self._shown(final)
        self._checked(input)
        batched = input.ndim == 3
        x = input if batched else input.unsqueeze(1)
        x = x.transpose(0, 1) if batched and self.batch_first else x
        self._check_width(x)
        out, final = self._layers(x, self._state(x, x.shape[1], hx, batched, None), None)
        if not batched:
            return out.squeeze(1), self._shown([part.squeeze(1) for part in final])
        return out.transpose(0, 1) if self.batch_first else out, self._shown(final)

    def _shown(self, parts: list[Tensor]) -> Any:
        return tuple(parts) if self.mode == "LSTM" else parts[0]

    def _layers(self, x: Tensor, initial: list[Tensor], sizes: Any) -> tuple[Tensor, list[Tensor]]:
        """(results of all steps, final state) of all layers."""
        finals: list[list[Tensor]] = [[] for _ in initial]
        for index in range(self.num_layers):
            outs = []
            for direction, suffix in enumerate(self._directions(index)):
                position = len(finals[0])
                state = [part[position] for part in initial]
                out, *final = self._direction(x, state, suffix, sizes, direction == 1)
                outs.append(out)
                for found, part in zip(finals, final, strict=True):
                    found.append(part.unsqueeze(0))
            x = outs[0] if len(outs) == 1 else cat.call(outs, outs[0].ndim - 1)
            if self.dropout and index < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, [cat.call(found, 0) if len(found) > 1 else found[0] for found in finals]

    def _direction(
        self, x: Tensor, state: list[Tensor], suffix: str, sizes: Any, reverse: bool
    ) -> tuple[Tensor, ...]:
        def weight(kind: str) -> Any:
            return getattr(self, f"{kind}_{suffix}")

        first, second = (weight("bias_ih"), weight("bias_hh")) if self.bias else (None, None)
        projection = weight("weight_hr") if self.proj_size else None
        weights = (weight("weight_ih"), weight("weight_hh"), first, second, projection)
        return _run(self.mode, x, state, *weights, sizes, reverse, self.mode == "GRU")

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        shown += [f"proj_size={self.proj_size}"] if self.proj_size else []
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        shown += [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        return ", ".join(shown)


def _check_options(num_layers: Any, dropout: Any) -> None:
    if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout and num_layers == 1:
        caution(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}"
        )


def _check_kinds(switches: dict[str, Any], sizes: dict[str, Any]) -> None:
    for kind, options in ((bool, switches), (int, sizes)):
        for name, value in options.items():
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")


def _check_sizes(num_layers: Any, hidden_size: int, proj_size: int, mode: str) -> None:
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if proj_size and mode != "LSTM":
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


def _run(
    mode: str, x: Tensor, state: list[Tensor], weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor | None,
    bias_hh: Tensor | None, projection: Tensor | None = None, sizes: Any = None, reverse: bool = False,
    wide: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """One layer in one direction. Only in a GRU the two biases are not simply added, by the steps."""
    if mode != "GRU" and bias_ih is not None and bias_hh is not None:
        bias_ih, bias_hh = None, bias_ih + bias_hh
    return layer(mode, F.linear(x, weight_ih, bias_ih), state, weight_hh, bias_hh, projection, sizes, reverse, wide)


class RNN(RNNBase):
    """h' = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh), or with max(., 0) for `nonlinearity="relu"` (Elman
    1990).

    Shapes, options and errors are those of `LSTM`; the state is h alone. ValueError for other nonlinearities.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", *args: Any,
        **kwargs: Any,
    ):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with the forget gate of Gers et al. 2000.

    i, f, g, o = chunks of weight_ih @ x + bias_ih + weight_hh @ h + bias_hh, all but g through sigmoid, g through tanh;
    c' = f * c + i * g and h' = o * tanh(c'), projected to `proj_size` where that is given (Sak et al. 2014).

    forward(input, (h, c)) takes (steps, batch, features), (batch, steps, features) with `batch_first`, (steps,
    features), or a PackedSequence, and returns (h of all steps in the last layer, (h, c)): with the states (layers *
    directions, batch, size). Both directions lie side by side. `dropout` is between layers, while training. Raises
    ValueError for options that are none, RuntimeError for inputs and states of other sizes.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014).

    r and z = sigmoid(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh), n = tanh(weight_in @ x + bias_in + r *
    (weight_hn @ h + bias_hn)), h' = (1 - z) * n + z * h. Shapes, options and errors are those of `LSTM`; the state is h
    alone.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("GRU", *args, **kwargs)


# -- cells ------------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """One step of a recurrent network."""

    mode = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 1, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform within 1 / sqrt(hidden_size)."""
        _draw(self, self.hidden_size)

    def _step(self, input: Tensor, parts: Any) -> list[Tensor]:
        """The new state."""
        name, count = self._get_name(), 2 if self.mode == "LSTM" else 1
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        if parts is not None and any(part.ndim not in (1, 2) for part in parts):
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {[p.ndim for p in parts]} instead")
        batched = input.ndim == 2
        x = input if batched else input.unsqueeze(0)
        if parts is None:
            parts = [x.new_zeros((x.shape[0], self.hidden_size)) for _ in range(count)]
        elif not batched:
            parts = [part.unsqueeze(0) for part in parts]
        if x.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}")
        for part in parts:
            if tuple(part.shape) != (x.shape[0], self.hidden_size):
                expected = (x.shape[0], self.hidden_size)
                raise RuntimeError(f"hidden has shape {list(part.shape)}, expected {list(expected)}")
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        _, *final = _run(self.mode, x.unsqueeze(0), list(parts), *weights, wide=self.mode in ("GRU", "LSTM"))
        return final if batched else [part.squeeze(0) for part in final]

    def extra_repr(self) -> str:
        bias = "" if self.bias else f", bias={self.bias}"
        kind = self.__dict__.get("nonlinearity", "tanh")
        return f"{self.input_size}, {self.hidden_size}{bias}" + (f", nonlinearity={kind}" if kind != "tanh" else "")


class RNNCell(RNNCellBase):
    """One step of an RNN: (input, h) -> h', (batch, input_size) and (batch, hidden_size), or without batch; see `RNN`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def mode(self) -> str:  # type: ignore[override]
        """The kind of step."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return f"RNN_{self.nonlinearity.upper()}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, None if hx is None else [hx])[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (input, (h, c)) -> (h', c'), each (batch, size) or (size); see `LSTM`."""

    mode = "LSTM"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = self._step(input, hx)
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU: (input, h) -> h', (batch, input_size) and (batch, hidden_size), or without batch; see `GRU`.
    """

    mode = "GRU"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, None if hx is None else [hx])[0]
