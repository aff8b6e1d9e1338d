"""PyTorch computes on one thread, so that both libraries share the machine fairly; a test leaves no settings of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def distributions_check_arguments() -> None:
    """torch.compile turns that off for the process."""
    torch.distributions.Distribution.set_default_validate_args(True)
