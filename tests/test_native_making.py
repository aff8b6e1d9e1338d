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
    "zeros": [(3,), (2, 3), ((2, 3),), ([2, 3],), ((),), (0, 3), (1, 1, 1), (40, 40), (300, 301), (5000, -1), (0, 5000),
              (-1,), (2.0,), (True,), (2, "a")],
    "ones": [(3,), ((2, 3),), (0,), ((),), (32, 32), (31, 33), ((70_001,),), ()],
    "full": [((2,), 2.5), ([2, 1], 3), ((2,), True), ((2,), -0.0), ((2,), math.nan), ((2,), math.inf), ((2,), 3e38),
             ((2,), 2**60), ((), 0), ((2,), 0.1), ((2,),), (2, 1), ((2, -1), 1)],
    "arange": [(5,), (2, 5), (5, 1, -2), (1, 5, 2), (0, 1, 0.1), (2.5,), (-0.0, 3.0), (0, -1, -0.3), (3, 3),
               (0.1, 0.9, 0.1), (1.0, 2.0, 1e-3), (0, 2**41, 2**36), (2000,), (0,), (5, 1), (1, 5, 0),
               (1.0, math.inf), (True,), ()],
    "linspace": [(0, 1, 5), (-3, 10.5, 8), (2, 1, 1), (0, 1, 0), (0, 1, 1023), (0, 1, 3000), (1, 1, 3), (0, 1, -1),
                 (0, 1)],
    "eye": [(3,), (2, 4), (4, 2), (0,), (2, 0), (50,), (-1,), (2.0,)],
}  # fmt: skip
DATA: list[Any] = [
    1.5, 2, True, -0.0, math.nan, math.inf, 2**62, 2**63, -(2**63), 10**30, None, "a", [], (), [[]], [1.0, 2.0],
    (1, 2), [True, False], [1, 2.5], [True, 1], [1, None], [[1, 2], [3, 4]], [(1.0,), [2]], [[1, 2], [3]], [[1], 2],
    [1, [2]], [[[1.0, 2.0]], [[3.0, 4.0]]], [[True, False]], [0.1] * 2000, [2**53 + 1, 0.5], [2**60 + 1], range(3),
    [range(2)], np.float32(2), [np.float64(0.5), 1], [[0.5, -0.0], [1, 2]],
]  # fmt: skip
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


@pytest.mark.parametrize("options", [*OPTIONS, {"dtype": "float32"}, {"requires_grad": False}], ids=str)
def test_tensors_of_data(options: dict[str, Any]) -> None:
    for data in DATA:
        native = outcome(eagerjit, eagerjit.tensor, (data,), options)
        assert_same(native, outcome(eagerjit, eagerjit.tensor.slow, (data,), options), rtol=0)
        if not options and type(native) is not str:
            assert_same(native, outcome(torch, torch.tensor, (data,), options), rtol=0)


def test_arrays_are_shared() -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = eagerjit.from_numpy(a)
    x += 1
    assert a[0, 0] == 1.0 and np.shares_memory(a, x.numpy()) and x.dtype is eagerjit.float64
    for other in (
        a.T,
        a[:, 1],
        a.astype(np.float32)[::2],
        np.zeros(()),
        np.zeros((0, 2), np.bool_),
        np.zeros(3, np.complex64),
    ):
        assert eagerjit.from_numpy(other).tolist() == other.tolist()
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        eagerjit.from_numpy(frozen).add_(1)
    for wrong in (a[::-1], a.astype(">f8"), [1.0], np.array(["a"])):
        with pytest.raises((TypeError, ValueError)):
            eagerjit.from_numpy(wrong)


@pytest.mark.parametrize("library", [eagerjit, torch], ids=["eagerjit", "torch"])
def test_conversions_give_the_tensor_itself_where_nothing_changes(library: Any) -> None:
    x, y = library.ones(2, 3), library.ones(2, dtype=library.float64)
    cpu, double, single = library.device("cpu"), library.float64, library.float32
    for _ in range(3):
        same = [
            x.to("cpu"), x.to(single), x.to(cpu), x.to(x), x.to(device=cpu, dtype=single), x.to("cpu", single, True),
            x.cpu(), x.float(), x.contiguous(), x.to(dtype=None), x.contiguous(memory_format=library.contiguous_format),
        ]  # fmt: skip
        assert all(made is x for made in same)
        other = [x.to(double), x.to(y), x.to("cpu", double), x.to(device="cpu", dtype=double), x.double(), x.to(float)]
        assert all(made.dtype == double and (made == 1).all() for made in other)
        copied = [x.to(single, copy=True), x.to(single, False, True), x.to("cpu", single, False, True)]
        assert all(made is not x and made.dtype == single for made in copied)
        assert x.T.contiguous().is_contiguous() and x.long().dtype == library.int64
    z = library.ones(2, requires_grad=True)
    assert z.to(single) is z and z.double().requires_grad and z.to(single, copy=True).requires_grad


@pytest.mark.parametrize("kind", ["zeros", "ones"])
def test_shape_and_dtype_of_another_tensor(kind: str) -> None:
    for like in (eagerjit.arange(6).view(2, 3).T, eagerjit.ones(0), eagerjit.tensor(True), eagerjit.ones(2).double()):
        for options in ({}, {"dtype": eagerjit.float16}, {"requires_grad": False}):
            made = getattr(eagerjit, f"{kind}_like")(like, **options)
            again = getattr(like, f"new_{kind}")(tuple(like.shape), **options)
            assert made.shape == again.shape == like.shape and again.is_contiguous()
            assert made.stride() == like.stride()
            assert made.dtype is again.dtype is options.get("dtype", like.dtype)
            assert (made == (kind == "ones")).all() and (again == (kind == "ones")).all()
    with pytest.raises(RuntimeError):
        eagerjit.ones(1).new_zeros(-1)
    assert eagerjit.empty_like(eagerjit.ones(2, 3)).shape == eagerjit.ones(1).new_empty(2, 3).shape == (2, 3)


def test_draws_of_integers_are_those_of_python() -> None:
    def draws(call: Any) -> list[Any]:
        eagerjit.manual_seed(3)
        made = [call(eagerjit.randint)(10, (3,)), call(eagerjit.randint)(-3, 4, [2, 2], dtype=eagerjit.int32)]
        made += [call(eagerjit.randperm)(n) for n in (0, 1, 7)] + [call(eagerjit.randperm)(5, dtype=eagerjit.float32)]
        return [(x.dtype, x.tolist()) for x in made] + [
            call(eagerjit.rand)(2, 3).tolist(),
            call(eagerjit.randn)(4).tolist(),
        ]

    assert draws(lambda f: f) == draws(lambda f: f) == draws(lambda f: f.slow)
    assert sorted(eagerjit.randperm(50).tolist()) == list(range(50))
    for wrong in ((3, 3, (2,)), (0, 5, 3), (0.5, 5, (3,)), (5,), (0, 5, (-1,))):
        with pytest.raises((TypeError, RuntimeError)):
            eagerjit.randint(*wrong)


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
