"""Work on images with channels last is done in the order of memory: few kernels, and the bits of row-major images."""

import numpy as np
import pytest

import eagerjit as torch

F = torch.nn.functional
VECTOR = torch.linspace(0.5, 1.5, 16)
WEIGHT = torch.linspace(-1, 1, 16 * 9).reshape(16, 1, 3, 3)

CALLS = {
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1)), 3),
    "cut and padded": (lambda x: F.pad(x, (-1, 2, 0, 1), value=2.0), 3),
    "replicate": (lambda x: F.pad(x, (1, 1, 1, 1), "replicate"), None),
    "reflect": (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), None),
    "cat": (lambda x: torch.cat([x, x], 1), 2),
    "cat and more": (lambda x: torch.cat([x, x * 2], 2).relu() + 1, None),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), 1),
    "max_pool2d padded": (lambda x: F.max_pool2d(x, 3, 2, 1), 4),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), None),
    "interpolate nearest": (lambda x: F.interpolate(x, scale_factor=2), None),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, VECTOR, VECTOR, True), 5),
    "group_norm": (lambda x: F.group_norm(x, 4, VECTOR, VECTOR), None),
    "depthwise": (lambda x: F.conv2d(x, WEIGHT, padding=1, groups=16), None),
    "roll and flip": (lambda x: x.roll(1, 2).flip(1) * x, None),
}


def image(*sizes, dtype=None):
    torch.manual_seed(0)
    return torch.randn(*sizes).to(dtype or torch.float32)


def bits(x) -> bytes:
    return np.ascontiguousarray(x.detach().float().numpy()).tobytes()


@pytest.mark.parametrize("name", CALLS)
def test_bits_are_those_of_row_major_images(name):
    call, kernels = CALLS[name]
    compiled = torch.jit(call)
    for sizes in ((2, 16, 30, 24), (3, 16, 9, 33)):
        x = image(*sizes)
        last = x.contiguous(memory_format=torch.channels_last)
        expected = bits(call(x))
        assert bits(call(last)) == bits(compiled(last)) == bits(compiled(x)) == expected
    if kernels is not None:
        last = image(2, 16, 30, 24).contiguous(memory_format=torch.channels_last)
        assert len(torch.jit(call).explain(last).kernels) == kernels


@pytest.mark.parametrize("name", ["pad", "cat", "interpolate nearest", "max_pool2d padded", "roll and flip"])
def test_dtypes(name):
    call, _ = CALLS[name]
    for dtype in (torch.bfloat16, torch.float64):
        x = image(2, 16, 10, 8, dtype=dtype)
        assert bits(call(x.contiguous(memory_format=torch.channels_last))) == bits(call(x))


def test_between_convolutions_nothing_is_turned():
    weight = torch.linspace(-1, 1, 16 * 16 * 9).reshape(16, 16, 3, 3)

    def call(x):
        y = F.batch_norm(F.conv2d(x, weight, padding=1), None, None, VECTOR, VECTOR, True)
        return F.conv2d(y.relu(), weight, padding=1)

    x = image(2, 16, 12, 10)
    last = x.contiguous(memory_format=torch.channels_last)
    assert torch.jit(call)(last).is_contiguous(memory_format=torch.channels_last)
    assert bits(torch.jit(call)(last)) == bits(torch.jit(call)(x)) == bits(call(last))
    row_major, turned = (len(torch.jit(call).explain(y).kernels) for y in (x, last))
    assert turned == row_major + 2  # the input, and the result


def test_a_permutation_that_users_write_is_moved_too():
    def call(x, i):
        joined = torch.cat([x, x.exp()], 1)
        return joined.permute(2, 0, 1) * 2, joined.gather(1, i).permute(2, 0, 1) + 1

    x, i = image(5, 6, 7), torch.arange(5 * 3 * 7).reshape(5, 3, 7) % 12
    for found, expected in zip(torch.jit(call)(x, i), call(x, i), strict=True):
        assert found.stride() == expected.stride()
        assert bits(found) == bits(expected)
    wrong = i.clone()
    wrong[4, 2, 6], wrong[0, 1, 1] = 12, 13
    for f in (call, torch.jit(call)):
        with pytest.raises(RuntimeError, match="index out of range in gather"):
            f(x, wrong)


def test_what_is_done_in_both_orders_reads_parts_in_both():
    def call(x):
        y = x[:, 1:5] * 2
        return y - y.T

    x = image(4, 8)
    assert bits(torch.jit(call)(x)) == bits(call(x))
