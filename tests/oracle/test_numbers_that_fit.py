"""Numbers written into tensors whose dtype may lack them: the values or the error of PyTorch's."""

import numpy as np
import pytest
import torch

import eagerjit

NUMBERS = [300, -1, 2**40, 1.5, 255.5, 3.395e38, 3.4e38, 1e39, -1e300, float("inf"), float("nan"), True]
DTYPES = ["uint8", "int8", "int32", "int64", "bool", "float16", "bfloat16", "float32", "float64", "complex64"]
FORMS = {
    "full": lambda m, x, mask, n: m.full((3,), n, dtype=x.dtype),
    "full_like": lambda m, x, mask, n: m.full_like(x, n),
    "new_full": lambda m, x, mask, n: x.new_full((2,), n),
    "fill_": lambda m, x, mask, n: x.fill_(n),
    "masked_fill": lambda m, x, mask, n: x.masked_fill(mask, n),
    "masked_fill_": lambda m, x, mask, n: x.masked_fill_(mask, n),
    "index_fill": lambda m, x, mask, n: x.index_fill(0, m.tensor([0]), n),
    "scatter": lambda m, x, mask, n: x.scatter(0, m.tensor([0]), n),
    "pad": lambda m, x, mask, n: m.nn.functional.pad(x, (1, 1), value=n),
    "alpha": lambda m, x, mask, n: m.add(x, 1, alpha=n),
    "item": lambda m, x, mask, n: _assign(x, slice(1, None), n),
    "items": lambda m, x, mask, n: _assign(x, m.tensor([0, 1]), n),
    "masked items": lambda m, x, mask, n: _assign(x, mask, n),
}
MIXED = {
    "where": lambda m, x, mask, n: m.where(mask, x, n),
    "clamp": lambda m, x, mask, n: x.clamp(max=n),
    "clamp_": lambda m, x, mask, n: x.clone().clamp(0, n),
}


def _assign(x, key, number):
    x[key] = number
    return x


def _outcome(m, form, dtype, number):
    x = m.ones(3, dtype=getattr(m, dtype))
    mask = m.tensor([True, False, True])
    try:
        found = form(m, x, mask, number)
    except Exception as error:
        return type(error).__name__
    return str(found.dtype), np.asarray(found.to(m.complex128).tolist())


def _agree(form, dtype, number, ours=None):
    expected, found = _outcome(torch, form, dtype, number), _outcome(eagerjit, ours or form, dtype, number)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", [*FORMS, *MIXED])
def test_numbers_are_refused_as_pytorch_refuses_them(name, number):
    for dtype in DTYPES:
        if (name.startswith("clamp") and dtype in ("bool", "complex64")) or (name, dtype) == ("alpha", "complex64"):
            continue
        form = {**FORMS, **MIXED}[name]
        for before in (1, 0.5, number):  # what native code has learned from others changes nothing
            _outcome(eagerjit, form, dtype, before)
        _agree(form, dtype, number)


@pytest.mark.parametrize("name", ["clamp", "where", "masked_fill", "alpha", "pad"])
@pytest.mark.parametrize("number", [1e300, -float("inf"), 3.4e38])
def test_compiled_calls_refuse_them_too(name, number):
    form = {**FORMS, **MIXED}[name]
    jitted = eagerjit.jit(lambda x, mask, n: form(eagerjit, x, mask, n))
    for dtype in ("float32", "bfloat16", "float64"):
        for before in (1.5, 0.5):
            _outcome(eagerjit, lambda m, *arguments: jitted(*arguments), dtype, before)
        _agree(form, dtype, number, lambda m, *arguments: jitted(*arguments))


def test_data_too_large_is_infinite_and_says_nothing(recwarn):
    for data in (1e300, [1e39, -1e300]):
        for dtype in ("float16", "float32", "complex64"):
            expected, found = (m.tensor(data, dtype=getattr(m, dtype)).tolist() for m in (torch, eagerjit))
            assert found == expected
    assert not recwarn.list
