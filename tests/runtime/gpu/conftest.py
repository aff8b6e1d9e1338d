"""A fake device for each test, and a look at the end at whether anything is still queued wrongly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_driver import FakeLibrary
from machines import GPU, Machine, compile_for, interpreted, machine

from eagerjit.cuda import execution
from eagerjit.runtime.gpu.devices import Device, Platform, using
from eagerjit.runtime.gpu.precision import precision


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    """How exactly factors are multiplied is as before after each test: benchmarks choose it for their process."""
    before = precision.name
    yield
    precision.name = before


@pytest.fixture
def library() -> FakeLibrary:
    """The driver behind `platform`."""
    return FakeLibrary()


@pytest.fixture
def platform(library: FakeLibrary) -> Iterator[Platform]:
    """The process's devices: one fake one. What is still queued at the end is done, and checked."""
    with using(library.driver()) as found:
        yield found
        library.finish()


@pytest.fixture
def device(platform: Platform) -> Device:
    return platform.device(0)


@pytest.fixture
def cuda(library: FakeLibrary, platform: Platform) -> Iterator[Platform]:
    """Devices that tensors can lie on: kernels run by Triton's interpreter."""
    before, execution.compile = execution.compile, interpreted(library)
    try:
        yield platform
    finally:
        execution.compile = before


@pytest.fixture(params=["fake", pytest.param(GPU, marks=pytest.mark.gpu)])
def target(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A device, fake or a GPU. What is still queued at the end is done, and checked."""
    with machine(request.param) as found:
        yield found
        found.finish()


@pytest.fixture
def tensors(target: Machine) -> Iterator[Machine]:
    """A device that tensors can lie on, fake or a GPU."""
    before, execution.compile = execution.compile, compile_for(target)
    try:
        yield target
    finally:
        execution.compile = before
