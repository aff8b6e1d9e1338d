"""Arguments at the edge of what operations take: the result or the class of error that PyTorch gives."""

import pytest
import torch

import eagerjit

CALLS = {
    "cosine of another rank": lambda t, x, i: t.nn.functional.cosine_similarity(x, x[0], 1),
    "cosine of a broadcast": lambda t, x, i: t.nn.functional.cosine_similarity(x[:, None], x, -1),
    "roll": lambda t, x, i: t.roll(x, 1, (0, 1)),
    "flipud": lambda t, x, i: t.flipud(x[0, 0]),
    "fliplr": lambda t, x, i: t.fliplr(x[0]),
    "repeats": lambda t, x, i: t.repeat_interleave(x, t.tensor([1, 0, 2]), 0),
    "repeats of one row": lambda t, x, i: t.repeat_interleave(x[:1], t.tensor([1, 2]), 0),
    "addcdiv of integers": lambda t, x, i: t.addcdiv(i, i, i),
    "addcdiv by integers": lambda t, x, i: t.addcdiv(x, i, i),
    "addcdiv to integers": lambda t, x, i: t.addcdiv(i, i, x),
    "lerp of integers": lambda t, x, i: t.lerp(i, i, 0.5),
    "lerp of two dtypes": lambda t, x, i: t.lerp(x, i, 0.5),
    "bincount of floats": lambda t, x, i: t.bincount(x[0]),
    "bincount of a matrix": lambda t, x, i: t.bincount(i),
    "logsumexp of flags": lambda t, x, i: t.logsumexp(x > 0, 1),
    "logsumexp of integers": lambda t, x, i: t.logsumexp(i, (0, 1)),
    "tensordot": lambda t, x, i: t.tensordot(x, x, 3),
    "contains": lambda t, x, i: "a" in x,
    "clamp of complex numbers": lambda t, x, i: t.complex(x, x).clamp(0, 1),
    "maximum of complex numbers": lambda t, x, i: t.maximum(t.complex(x, x), x),
    "channels last": lambda t, x, i: x.contiguous(memory_format=t.channels_last),
    "preserved format": lambda t, x, i: x.clone(memory_format=t.preserve_format),
    "exponential": lambda t, x, i: x.clone().exponential_(-1),
    "exponential of integers": lambda t, x, i: i.clone().exponential_(),
    "bernoulli": lambda t, x, i: x.clone().bernoulli_(2.0),
    "random": lambda t, x, i: i.to(t.uint8).random_(300),
    "a bool for the dimension to join": lambda t, x, i: t.cat([x, x], True),
    "a bool for a dimension": lambda t, x, i: (x.cumsum(1), x.cumsum(True)),
    "addmv": lambda t, x, i: t.addmv(x[:, 0], x, x[0], beta=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_outcome(name):
    def outcome(t):
        x, i = t.tensor([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]]), t.tensor([[1, -2, 3], [4, 2, -1]])
        try:
            return CALLS[name](t, x, i).tolist()
        except Exception as error:
            return type(error).__name__

    found, expected = outcome(eagerjit), outcome(torch)
    assert found == (expected if isinstance(expected, str) else pytest.approx(torch.tensor(expected).numpy()))


def test_what_is_not_added_has_a_gradient_of_zeros():
    for name in ("addmv", "addr", "addbmm", "baddbmm", "addmm"):
        shapes = {
            "addmv": ((3,), (3, 4), (4,)), "addr": ((3, 4), (3,), (4,)), "addmm": ((3, 5), (3, 4), (4, 5)),
            "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)), "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        }[name]  # fmt: skip
        operands = [eagerjit.ones(shape, requires_grad=True) for shape in shapes]
        getattr(eagerjit, name)(*operands, beta=0).sum().backward()
        assert operands[0].grad.tolist() == eagerjit.zeros(shapes[0]).tolist()


def test_tensors_that_need_no_broadcast_are_themselves():
    x = eagerjit.ones(2, 3)
    found = eagerjit.broadcast_tensors(x, x[0])
    assert found[0] is x
    assert found[1].shape == x.shape


@pytest.mark.parametrize("sizes", [((30, 1), (10, 4)), ((3,), (2, 4)), ((2, 3, 1), (5, 4, 7)), ((0,), (3,))])
def test_messages_of_expand(sizes):
    """They name the dimension that does not fit, as PyTorch's do."""
    old, new = sizes
    messages = []
    for t in (torch, eagerjit):
        with pytest.raises(RuntimeError) as error:
            t.ones(old).expand(new)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_memory_formats_print_as_in_pytorch():
    for name in ("contiguous_format", "channels_last", "preserve_format"):
        assert repr(getattr(eagerjit, name)) == repr(getattr(torch, name))
