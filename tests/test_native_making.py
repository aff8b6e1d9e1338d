"""Small tensors that native code makes are those that Python and PyTorch make."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit
from eagerjit.runtime import layout
from eagerjit.runtime.making import ZEROS, MakeCall

CALLS: dict[str, Any] = {
    "zeros": [(3,), (2, 3), ((2, 3),), ([2, 3],), ((),), (0, 3), (1, 1, 1), (40, 40), (-1,), (2.0,), (True,), (2, "a")],
    "ones": [(3,), ((2, 3),), (0,), ((),), (32, 32), (31, 33), ()],
    "full": [((2,), 2.5), ([2, 1], 3), ((2,), True), ((2,), -0.0), ((2,), math.nan), ((2,), math.inf), ((2,), 3e38),
             ((2,), 2**60), ((), 0), ((2,), 0.1), ((2,),), (2, 1), ((2, -1), 1)],
    "arange": [(5,), (2, 5), (5, 1, -2), (1, 5, 2), (0, 1, 0.1), (2.5,), (-0.0, 3.0), (0, -1, -0.3), (3, 3),
               (0.1, 0.9, 0.1), (1.0, 2.0, 1e-3), (0, 2**41, 2**36), (2000,), (0,), (5, 1), (1, 5, 0),
               (1.0, math.inf), (True,), ()],
    "linspace": [(0, 1, 5), (-3, 10.5, 8), (2, 1, 1), (0, 1, 0), (0, 1, 1023), (0, 1, 3000), (1, 1, 3), (0, 1, -1),
                 (0, 1)],
    "eye": [(3,), (2, 4), (4, 2), (0,), (2, 0), (50,), (-1,), (2.0,)],
}  # fmt: skip
OPTIONS = ({}, {"dtype": "float64"}, {"dtype": "int64"}, {"dtype": "bfloat16"}, {"dtype": "bool"}, {"device": None})


def outcome(library: Any, function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """(dtype, shape, elements), or the class of the error."""
    named = {k: getattr(library, v) if k == "dtype" else v for k, v in options.items()}
    try:
        made = function(*arguments, **named)
    except Exception as error:
        return type(error).__name__
    return str(made.dtype), tuple(made.shape), made.double().numpy()


def assert_same(a: Any, b: Any, rtol: float) -> None:
    assert type(a) is type(b) and a[:2] == b[:2], (a, b)
    if type(a) is not str:
        np.testing.assert_allclose(a[2], b[2], rtol=rtol, atol=1e-12)
        assert (np.signbit(a[2]) == np.signbit(b[2])).all()


@pytest.mark.parametrize("name", CALLS)
def test_native_code_makes_what_python_and_pytorch_make(name: str) -> None:
    assert layout.ready()
    made = getattr(eagerjit, name)
    for arguments in CALLS[name]:
        for options in OPTIONS:
            native = outcome(eagerjit, made, arguments, options)
            assert_same(native, outcome(eagerjit, made.slow, arguments, options), rtol=0)
            if options.get("dtype") in ("int64", "bfloat16", "bool"):
                continue  # of fractions PyTorch makes what depends on the function
            theirs = outcome(torch, getattr(torch, name), arguments, options)
            if not (native in ("OverflowError", "MemoryError") or (type(native) is type(theirs) is str)):
                assert_same(native, theirs, rtol=1e-6)


@pytest.mark.parametrize("kind", ["zeros", "ones"])
def test_shape_and_dtype_of_another_tensor(kind: str) -> None:
    for like in (eagerjit.arange(6).view(2, 3).T, eagerjit.ones(0), eagerjit.tensor(True), eagerjit.ones(2).double()):
        for options in ({}, {"dtype": eagerjit.float16}, {"requires_grad": False}):
            made = getattr(eagerjit, f"{kind}_like")(like, **options)
            again = getattr(like, f"new_{kind}")(tuple(like.shape), **options)
            assert made.shape == again.shape == like.shape and made.is_contiguous() and again.is_contiguous()
            assert made.dtype is again.dtype is options.get("dtype", like.dtype)
            assert (made == (kind == "ones")).all() and (again == (kind == "ones")).all()
    with pytest.raises(RuntimeError):
        eagerjit.ones(1).new_zeros(-1)
    assert eagerjit.empty_like(eagerjit.ones(2, 3)).shape == eagerjit.ones(1).new_empty(2, 3).shape == (2, 3)


def test_default_dtype_is_that_of_native_code_too() -> None:
    try:
        eagerjit.set_default_dtype(eagerjit.float64)
        assert {
            f.dtype for f in (eagerjit.zeros(2), eagerjit.full((2,), 0.5), eagerjit.arange(0.5), eagerjit.eye(2))
        } == {eagerjit.float64}
        eagerjit.set_default_dtype(eagerjit.float16)
        assert eagerjit.full((2,), 0.1).dtype is eagerjit.arange(0, 1, 0.1).dtype is eagerjit.float16
        assert eagerjit.arange(0, 1, 0.1).tolist() == torch.arange(0, 1, 0.1, dtype=torch.float16).tolist()
    finally:
        eagerjit.set_default_dtype(eagerjit.float32)
    assert eagerjit.zeros(2).dtype is eagerjit.float32


def test_native_code_makes_nothing_where_tensors_are_to_lie_on_a_device() -> None:
    from eagerjit.state import state

    asked: list[tuple[Any, ...]] = []
    call = MakeCall(ZEROS, lambda *size: asked.append(size))
    try:
        state.device = eagerjit.device("cuda", 0)
        call(2, 3)
    finally:
        state.device = None
    assert asked == [(2, 3)] and call(2, 3).shape == (2, 3) and len(asked) == 1
    x = eagerjit.ones(2, requires_grad=True)
    assert (x + x).requires_grad


def test_memory_is_its_own_and_writable() -> None:
    x, y = eagerjit.zeros(4), eagerjit.zeros(4)
    x += 1
    assert y.tolist() == [0.0] * 4 and not x.requires_grad and eagerjit.zeros(2, requires_grad=True).requires_grad


def test_in_a_compiled_call_numbers_of_linspace_are_inputs() -> None:
    jitted = eagerjit.jit(lambda start, end, steps: eagerjit.linspace(start, end, steps).double())
    for start, end, steps in ((0.0, 1.0, 5), (2.0, 7.5, 9), (-1.0, 3.0, 20), (5.0, 1.0, 333)):
        expected = eagerjit.linspace(start, end, steps).double()
        assert jitted(start, end, steps).tolist() == expected.tolist()
    assert jitted.cache_info().compiles == 1


def test_functions_that_make_tensors_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(eagerjit.zeros)) is eagerjit.zeros
