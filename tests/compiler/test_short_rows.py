"""Reductions of rows of few elements, several rows at a time: the bits of any other kernel."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch

REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "mean of squares": lambda x: (x * x).mean(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 1.0).any(-1),
    "all": lambda x: (x > 0.0).all(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "product of sines": lambda x: x.sin().prod(-1) + x.sin().amax(-1),
}


OF_INTEGERS = "sum prod amax amin argmax argmin any all".split()


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16])
def test_short_rows(name, dtype) -> None:
    if name not in OF_INTEGERS and not dtype.is_floating_point:
        return
    rng = np.random.default_rng(0)
    function = REDUCTIONS[name]
    compiled = torch.jit(lambda x: function(x))
    for extent in (*range(1, 10), 15, 16, 17, 33):
        for rows in (1, 7, 15, 16, 17, 40):
            values = rng.standard_normal((rows, extent)) * 3
            if dtype.is_floating_point:
                values[::5, ::2], values[3::7, -1] = np.nan, -0.0
            x = torch.from_numpy(values).abs().to(dtype) if dtype is torch.uint8 else torch.from_numpy(values).to(dtype)
            wanted = torch.stack([function(row) for row in x])
            turned, twice = x.t().contiguous().t(), x[None].expand(2, -1, -1)
            for found in (function(x), compiled(x), function(turned), function(twice)[1]):
                same = found.double().nan_to_num(1e9).numpy(), wanted.double().nan_to_num(1e9).numpy()
                assert same[0].tobytes() == same[1].tobytes()


def test_a_position_out_of_rows_that_lie_apart() -> None:
    x = torch.arange(5 * 6 * 4, dtype=torch.float32).reshape(5, 6, 4)
    assert x[:, 1:3, :3].amax(-1).tolist() == x.numpy()[:, 1:3, :3].max(-1).tolist()
    assert x.transpose(0, 1)[..., ::2].sum(-1).tolist() == x.numpy().transpose(1, 0, 2)[..., ::2].sum(-1).tolist()
