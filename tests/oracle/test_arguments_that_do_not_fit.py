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
    "a number for a dtype": lambda t, x, i: t.log_softmax(x, 0, dtype=1),
    "a number for the dtype of a sum": lambda t, x, i: x.cumsum(0, dtype=1),
    "a text for a dtype": lambda t, x, i: t.nn.functional.softmax(x, 0, dtype="float64"),
    "a tensor for a dtype": lambda t, x, i: t.promote_types(x, t.float32),
    "a number for a dtype to promote": lambda t, x, i: t.promote_types(t.float32, 1),
    "a tensor to cast": lambda t, x, i: t.can_cast(x, t.float32),
    "numbers to stack": lambda t, x, i: t.stack([x, 1]),
    "a number to multiply": lambda t, x, i: t.chain_matmul(x, 1.0),
    "a number beside a tensor": lambda t, x, i: t.atleast_3d(x, 5),
    "is_set_to": lambda t, x, i: x.is_set_to(1.0),
    "an empty kernel": lambda t, x, i: t.nn.functional.conv1d(x[None, :1], x[:1, None, :0]),
    "places of the largest": lambda t, x, i: t.adaptive_max_pool1d(x, 2)[1],
    "the largest": lambda t, x, i: t.nn.functional.adaptive_max_pool1d(x, 2),
    "the log of one": lambda t, x, i: t.lgamma(t.ones(2, dtype=t.float64)) * 1e300,
    "a tuple to interpolate to": lambda t, x, i: x.lerp_((0,), 1),
    "a text to fill with": lambda t, x, i: x.fill_("a"),
    "a list to fill with": lambda t, x, i: x.fill_([1.0]),
    "filled where several are one": lambda t, x, i: x[:, :1].expand(2, 4).fill_(5),
    "zeros where several are one": lambda t, x, i: x[:1].expand(3, 3)[1:].zero_(),
    "added where several are one": lambda t, x, i: x[:, :1].expand(2, 4).add_(5),
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


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float32", "float64"), ("float64", "float32")])
def test_huber_keeps_the_dtype_of_its_input(dtypes):
    found, expected = (
        t.nn.functional.huber_loss(*(t.ones(3, dtype=getattr(t, name)) for name in dtypes)) for t in (eagerjit, torch)
    )
    assert str(found.dtype) == str(expected.dtype)


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
