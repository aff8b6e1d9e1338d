"""Tensors without dimensions where numbers belong: the result or the class of error that PyTorch gives."""

import pytest
import torch

import eagerjit

CALLS = {
    "topk": lambda t, x, n, f: tuple(x.topk(n, n)),
    "kthvalue": lambda t, x, n, f: tuple(x.kthvalue(n)),
    "sort": lambda t, x, n, f: tuple(x.sort(n)),
    "argmax": lambda t, x, n, f: x.argmax(n),
    "sum": lambda t, x, n, f: x.sum(n),
    "std": lambda t, x, n, f: x.std(n),
    "logsumexp": lambda t, x, n, f: x.logsumexp(n),
    "cumsum": lambda t, x, n, f: x.cumsum(n),
    "cumsum in place": lambda t, x, n, f: x.clone().cumsum_(n),
    "gather": lambda t, x, n, f: x.gather(n, t.tensor([[0, 1], [2, 0]])),
    "cat": lambda t, x, n, f: t.cat([x, x], n),
    "stack": lambda t, x, n, f: t.stack([x, x], n),
    "roll": lambda t, x, n, f: x.roll(n),
    "roll by two": lambda t, x, n, f: x.roll((n, n + 1), (n, 0)),
    "squeeze": lambda t, x, n, f: x[:, :1].squeeze(n),
    "movedim": lambda t, x, n, f: x.movedim(0, n),
    "tensordot": lambda t, x, n, f: t.tensordot(x, x.T, n),
    "fft": lambda t, x, n, f: t.view_as_real(t.fft.fft(x, n + 1)),
    "one_hot": lambda t, x, n, f: t.nn.functional.one_hot(t.tensor([0, 1]), n + 4),
    "normalize": lambda t, x, n, f: t.nn.functional.normalize(x, dim=n),
    "cosine_similarity": lambda t, x, n, f: t.nn.functional.cosine_similarity(x, x + 1, n),
    "layer_norm": lambda t, x, n, f: t.nn.functional.layer_norm(x, (n + 2,)),
    "rms_norm": lambda t, x, n, f: t.nn.functional.rms_norm(x, (n + 2,), eps=f),
    "hardtanh": lambda t, x, n, f: t.nn.functional.hardtanh(x, -f, f),
    "pixel_shuffle": lambda t, x, n, f: t.nn.functional.pixel_shuffle(x.reshape(1, 9, 1, 1), n + 2),
    "Size": lambda t, x, n, f: t.zeros(t.Size([n, n + 1])),
    "a float for a dimension": lambda t, x, n, f: x.sum(f),
    "a vector for a dimension": lambda t, x, n, f: x.cumsum(n.reshape(1)),
    "a leaf for a dimension": lambda t, x, n, f: x.sum(t.tensor(1.0, requires_grad=True)),
    "a flag": lambda t, x, n, f: x.sum(1, n > 0),
    "a dimension out of range": lambda t, x, n, f: x.sum(n + 6),
}


def _outcome(t, call, n=1):
    x = (t.arange(9.0).reshape(3, 3) / 4 - 1).requires_grad_()
    try:
        found = call(t, x, t.tensor(n), t.tensor(0.5))
        found = found if isinstance(found, tuple) else (found,)
        if found[0].requires_grad:
            (found[0] * found[0].cos()).sum().backward()
        return [y.detach().tolist() for y in found], x.grad is not None and x.grad.tolist()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", CALLS)
def test_outcome(name):
    expected = _outcome(torch, CALLS[name])
    for _ in range(2):
        found = _outcome(eagerjit, CALLS[name])
        if isinstance(expected, str):
            assert found == expected
        else:
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_calls_give_the_same(name):
    plain = _outcome(eagerjit, CALLS[name])
    if isinstance(plain, str):
        return
    call = eagerjit.jit(lambda x, n, f: CALLS[name](eagerjit, x, n, f))
    assert _outcome(eagerjit, lambda t, x, n, f: call(x, n, f)) == plain
