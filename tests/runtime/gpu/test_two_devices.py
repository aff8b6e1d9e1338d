"""Tensors on two devices of one machine, a fake one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_driver import FakeLibrary
from machines import interpreted

import eagerjit as ej
from eagerjit import nn
from eagerjit.cuda import execution
from eagerjit.runtime.gpu.devices import using


@pytest.fixture(autouse=True)
def library() -> Iterator[FakeLibrary]:
    made = FakeLibrary(devices=2)
    with using(made.driver()):
        before, execution.compile = execution.compile, interpreted(made)
        try:
            yield made
            made.finish()
        finally:
            execution.compile = before


def test_each_computes_what_lies_on_it() -> None:
    a, b = (ej.ones(3, device=f"cuda:{index}") for index in range(2))
    assert (b * 2).device == ej.device("cuda:1") and ej.randn(2, device="cuda:1").get_device() == 1
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cuda:1!"):
        a + b
    call = ej.jit(lambda x: x * 2 + 1, fullgraph=True)
    assert [call(x).get_device() for x in (a, b, a, b)] == [0, 1, 0, 1] and call.cache_info().compiles == 2
    with ej.cuda.device(1):
        assert ej.zeros(2, device="cuda").get_device() == 1
    model = nn.Linear(3, 2).to("cuda:1")
    model(b).sum().backward()
    assert model.weight.grad is not None and model.weight.grad.get_device() == 1


def test_copies_between_them() -> None:
    x = ej.arange(6.0, device="cuda:0").reshape(2, 3).t()
    there = x.cuda(1)
    assert there.get_device() == 1 and there.tolist() == x.tolist()
    x.copy_(there * 5)
    assert x.get_device() == 0 and x.tolist() == [[0, 15], [5, 20], [10, 25]]
