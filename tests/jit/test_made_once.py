"""Objects that the first call makes and later ones find."""

from __future__ import annotations

import copy
import warnings

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning


class Following(torch.nn.Module):
    """A network and a copy that follows it, made when it is first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = torch.nn.Linear(3, 3), None

    def forward(self, x):
        if self.target is None:
            self.target = copy.deepcopy(self.online).requires_grad_(False)
        with torch.no_grad():
            y = self.target(x)
        return (self.online(x) * y).sum()


def test_a_copy_of_a_module_made_by_the_first_call() -> None:
    model = Following()
    f = torch.jit(lambda x: model(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(4):
            x = torch.ones(2, 3) * i
            assert torch.equal(f(x), model(x))
    info = f.cache_info()
    assert (info.compiles, info.eager_calls) == (1, 0)


def test_a_module_that_every_call_makes() -> None:
    f = torch.jit(lambda x: [torch.nn.Flatten(), x * 2])
    f(torch.ones(2))
    with pytest.warns(JitWarning, match="makes a Flatten that lives on"):
        f(torch.ones(2))
    assert f(torch.ones(2))[1].tolist() == [2.0, 2.0]
