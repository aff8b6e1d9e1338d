"""Linear layers of small weights, compared with PyTorch's."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
import eagerjit.ao.quantization


def drawn(t: Any, *shape: int, scale: float = 1.0) -> Any:
    return t.from_numpy((np.random.default_rng(sum(shape)).normal(size=shape) * scale).astype(np.float32))


def model(t: Any, width: int = 5, scale: float = 1.0) -> Any:
    made = t.nn.Sequential(t.nn.Linear(width, 7), t.nn.ReLU(), t.nn.Sequential(t.nn.Linear(7, 3, bias=False)))
    with t.no_grad():
        for parameter in made.parameters():
            parameter.copy_(drawn(t, *parameter.shape, scale=scale))
    return made


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dtype", ["qint8", "float16"])
@pytest.mark.parametrize(
    ("width", "scale", "given"),
    [
        (5, 1.0, lambda t: drawn(t, 4, 5)),
        (5, 1.0, lambda t: drawn(t, 2, 3, 5).abs()),
        (5, 1.0, lambda t: -drawn(t, 1, 5).abs()),
        (5, 1.0, lambda t: t.zeros(3, 5)),
        (5, 1.0, lambda t: drawn(t, 4, 5, scale=1e-6)),
        (5, 0.0, lambda t: drawn(t, 4, 5)),
        (5, 1e3, lambda t: drawn(t, 4, 5, scale=1e4)),
        (3000, 1.0, lambda t: drawn(t, 4, 3000)),
    ],
)
def test_results(dtype: str, width: int, scale: float, given: Any) -> None:
    found = []
    for t in (ej, torch):
        small = t.ao.quantization.quantize_dynamic(model(t, width, scale), {t.nn.Linear}, dtype=getattr(t, dtype))
        result = small(given(t))
        assert not small.training
        found.append((result.detach().numpy(), str(small)))
        if t is ej:
            assert not result.requires_grad
            assert ej.equal(ej.jit(small)(given(t)), result)
    assert found[0][1] == found[1][1]
    size = np.abs(found[1][0]).max()
    # A step of the hidden layer's values may be another one where they lie between two.
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4, atol=max(1e-6, 1e-3 * size))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("wanted", [None, {"0"}, {"2"}, {"0", "2.0"}])
def test_what_is_converted(wanted: Any) -> None:
    found = []
    for t in (ej, torch):
        whole = model(t)
        attention = t.nn.Sequential(whole, t.nn.MultiheadAttention(4, 2))
        spec = wanted and {f"0.{name}" for name in wanted}
        small = t.ao.quantization.quantize_dynamic(attention, spec)
        kinds = [type(part).__name__ for part in small.modules()]
        found.append([kind for kind in kinds if kind != "LinearPackedParams"])
        assert type(whole[0]) is t.nn.Linear
        t.ao.quantization.quantize_dynamic(attention, inplace=True)
        assert type(whole[0]) is not t.nn.Linear
    assert found[0] == found[1]


def test_saving_and_copies() -> None:
    small = eagerjit.ao.quantization.quantize_dynamic(model(ej))
    other = eagerjit.ao.quantization.quantize_dynamic(model(ej, scale=2.0))
    file = io.BytesIO()
    ej.save(small.state_dict(), file)
    file.seek(0)
    other.load_state_dict(ej.load(file))
    x = drawn(ej, 4, 5)
    assert ej.equal(other(x), small(x)) and ej.equal(copy.deepcopy(small)(x), small(x))
    assert small[0].stored.dtype is ej.int8 and type(ej.nn.Sequential(small)[0][0]).__name__ == "Linear"


def test_what_there_is_not_says_so() -> None:
    quantize = eagerjit.ao.quantization.quantize_dynamic
    recurrent = ej.nn.ModuleDict({"rnn": ej.nn.LSTM(3, 3), "out": ej.nn.Linear(3, 2)})
    with pytest.raises(NotImplementedError, match=r"rnn is a LSTM.*qconfig_spec=\{torch.nn.Linear\}"):
        quantize(recurrent)
    assert "DynamicQuantizedLinear" in str(quantize(recurrent, {ej.nn.Linear}))
    with pytest.raises(ValueError, match=r"not torch.int8"):
        quantize(recurrent, dtype=ej.int8)
    with pytest.raises(TypeError, match="set of classes"):
        quantize(recurrent, {"out": None})
