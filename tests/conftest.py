"""Random tests draw the same examples in every run (HYPOTHESIS_PROFILE=explore: new ones); tests of a GPU need one."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(autouse=True)
def _same_numbers(request: pytest.FixtureRequest) -> None:
    """A test draws the same numbers, whichever tests have run before."""
    for value in vars(request.module).values():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = _beginnings.setdefault(id(value), value.bit_generator.state)
    if "eagerjit" in sys.modules:
        sys.modules["eagerjit"].manual_seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)


_beginnings: dict[int, Any] = {}
"""States of the generators of test files, by their identity, after their files were imported."""

NEEDS = "gpu"
_deselected: dict[str, int] = {NEEDS: 0}


def why_no_gpu() -> str | None:
    """What is missing for tests on a device; None where nothing is, or a fake one executes PTX in its place."""
    if "EAGERJIT_TESTS_PTX" in os.environ:
        return None
    from eagerjit.runtime.gpu.devices import platform

    try:
        return None if platform().devices else "the driver knows no device"
    except (OSError, AttributeError, RuntimeError) as error:
        return str(error)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are deselected where there is no GPU; there, their files are those that the script runs."""
    marked = [item for item in items if item.get_closest_marker(NEEDS)]
    if not marked or why_no_gpu() is None:
        return
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from benchmarks import gpu_tests

    if missed := {item.path for item in marked} - {*gpu_tests.files()}:
        raise pytest.UsageError(f"benchmarks/gpu.sh would not find the tests for GPUs in {', '.join(map(str, missed))}")
    items[:] = [item for item in items if not item.get_closest_marker(NEEDS)]
    config.hook.pytest_deselected(items=marked)
    _deselected[NEEDS] = len(marked)
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist, whose own output nobody sees
        config.workeroutput[NEEDS] = len(marked)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Every worker has deselected the same tests."""
    _deselected[NEEDS] = max(_deselected[NEEDS], getattr(node, "workeroutput", {}).get(NEEDS, 0))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests need a GPU and why they were not run."""
    if _deselected[NEEDS]:
        terminalreporter.write_line(f"{_deselected[NEEDS]} tests need a GPU and were deselected: {why_no_gpu()}")
