"""Kernels that read every step-th element: whole vectors shuffled, gathered ones, and the last, masked step."""

from __future__ import annotations

import pytest

import eagerjit as torch


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_every_step_th_element(step, dtype):
    for count in (1, 3, 16, 33, 100):
        x = (torch.arange(count * step + 2) * 5 % 7).to(getattr(torch, dtype))
        for first in (0, 2):
            stop = first + (count - 1) * step + 1  # the last element read may be the memory's last
            seen = x[first:stop:step]
            expected = x.to(torch.float32).numpy()[first:stop:step] * 2
            assert (seen.to(torch.float32) * 2).tolist() == expected.tolist()
        lines = x[: count * step].reshape(count, step)[:, step - 1]
        expected = x.to(torch.float32).numpy()[step - 1 :: step][:count] + 1
        assert (lines.to(torch.float32) + 1).tolist() == expected.tolist()
