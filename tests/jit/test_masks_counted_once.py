"""A mask that selects several times is counted once: each count is compiled and run while a function is recorded."""

import re

import eagerjit as torch


def selecting(x, c):
    mask = x > 0
    x = x.clone()
    x[mask] = x[mask] * 2 + c[mask]
    c = c.clone()
    c[mask] += 1
    return x, c, mask.nonzero()


def different(x, c):
    low, high = 1.0 / (x * 0.0 + 0.0) > 0, 1.0 / (x * 0.0 * -1.0 + -0.0) > 0
    mask = x > 0
    first = x[mask]
    mask[0] = True
    return x[low], x[high], first, x[mask], x[x > 1], x[x > 1.0], x[(x > 0) == True], x[(x > 0) == 1]  # noqa: E712


def test_counted_once():
    function = torch.jit(selecting)
    for seed in range(4):
        torch.manual_seed(seed)
        x, c = torch.randn(7), torch.randn(7)
        for found, expected in zip(function(x, c), selecting(x, c), strict=True):
            assert torch.equal(found, expected)
    assert len(set(re.findall(r"\bd\d+\b", str(function.explain(x, c))))) == 1


def test_other_masks_are_counted_too():
    function = torch.jit(different)
    for values in ([-1.0, 2.0, 0.5, -3.0], [3.0, -2.0, 0.5, 4.0], [-1.0, -2.0, -0.5, -4.0]):
        x = torch.tensor(values)
        for found, expected in zip(function(x, x), different(x, x), strict=True):
            assert found.tolist() == expected.tolist()
