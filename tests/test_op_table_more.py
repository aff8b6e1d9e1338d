"""Every public op on sample arguments: it runs, jitted it gives the same bits, and its gradients are the slopes."""

from __future__ import annotations

from typing import Any

import pytest
from op_samples import CONSTRAINED, ELSEWHERE, Sample, function, leaves, rebuilt, samples

import eagerjit as torch
from eagerjit.autograd.check import gradcheck, gradgradcheck
from eagerjit.calling.dispatch import OPS
from eagerjit.jit import jit

NAMES = sorted(OPS.keys() - ELSEWHERE.keys())


def over_tensors(name: str, sample: Sample) -> Any:
    """The call as a function of its tensors, all else being fixed."""
    call = function(name)
    return lambda *tensors: call(*rebuilt(sample.arguments, iter(tensors)))


def bits(result: Any) -> list[Any]:
    """All that a result is: types, shapes and bytes."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [(r.dtype, tuple(r.shape), r.contiguous()._data.tobytes()) for r in results]


@pytest.mark.parametrize("name", NAMES)
def test_every_op_has_samples(name):
    assert samples(name), f"tests/op_samples.py has no sample arguments for {name}"


@pytest.mark.parametrize("name", NAMES)
def test_jitted_is_eager(name):
    for sample in samples(name):
        plain, tensors = over_tensors(name, sample), leaves(sample.arguments)
        before = bits(tensors)
        eager = bits(plain(*tensors))
        assert bits(jit(plain, fullgraph=True)(*tensors)) == eager
        assert bits(plain(*tensors)) == eager and bits(tensors) == before


def wanted(sample: Sample) -> list[Any]:
    """The tensors of a call, those of float64 that are not constants requiring a gradient."""
    constants = {id(t) for i in sample.constants for t in leaves([sample.arguments[i]])}
    return [
        t.clone().requires_grad_() if t.dtype is torch.float64 and id(t) not in constants else t
        for t in leaves(sample.arguments)
    ]


DIFFERENTIABLE = [n for n in NAMES if getattr(OPS[n], "functional", OPS[n]).differentiable and n not in CONSTRAINED]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    checked = 0
    for sample in samples(name):
        call, tensors = over_tensors(name, sample), wanted(sample)
        if any(r._requires_grad for r in leaves([call(*tensors)])):
            assert gradcheck(call, tuple(tensors))
            assert gradgradcheck(call, tuple(tensors))
            checked += 1
    assert checked, f"no sample of {name} has a gradient"
