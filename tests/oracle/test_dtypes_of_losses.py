"""Losses and norms of tensors of several dtypes: dtype, numbers and gradients, or class of error, as in PyTorch."""

import pytest
import torch

import eagerjit

LOSSES = {
    "poisson": lambda t, f, a, b: f.poisson_nll_loss(a, b),
    "gaussian": lambda t, f, a, b: f.gaussian_nll_loss(a, b, a.detach().abs() + 1),
    "gaussian variance": lambda t, f, a, b: f.gaussian_nll_loss(a, a, b.abs() + 1),
    "soft labels": lambda t, f, a, b: f.multilabel_soft_margin_loss(a, b),
    "ranking": lambda t, f, a, b: f.margin_ranking_loss(a, a * 2, b),
    "divergence": lambda t, f, a, b: f.kl_div(a, b, reduction="sum"),
    "logits": lambda t, f, a, b: f.binary_cross_entropy_with_logits(a, b),
    "soft margin": lambda t, f, a, b: f.soft_margin_loss(a, b),
    "mse": lambda t, f, a, b: f.mse_loss(a, b),
    "smooth": lambda t, f, a, b: f.smooth_l1_loss(a, b),
    "smooth without squares": lambda t, f, a, b: f.smooth_l1_loss(a, b, beta=0.0),
}
NORMS = {
    "layer": lambda t, f, a, b: f.layer_norm(a, (4,)),
    "rms": lambda t, f, a, b: f.rms_norm(a, (4,)),
    "rms with eps": lambda t, f, a, b: f.rms_norm(a, (4,), eps=0.0),
    "group": lambda t, f, a, b: f.group_norm(a, 3),
    "batch": lambda t, f, a, b: f.batch_norm(a, None, None, training=True),
    "known batch": lambda t, f, a, b: f.batch_norm(a, t.zeros(3).to(a.dtype), t.ones(3).to(a.dtype)),
    "instance": lambda t, f, a, b: f.instance_norm(a),
    "glu": lambda t, f, a, b: f.glu(a),
}
DTYPES = ["int64", "bfloat16", "float32", "float64"]


def _outcome(t, call, first, second):
    x = ((t.arange(24.0).reshape(2, 3, 4) * 2.3).sin() * (9 if first == "int64" else 1)).to(getattr(t, first))
    y = (t.arange(24.0).reshape(2, 3, 4).cos() + 1).to(getattr(t, second))
    try:
        found = call(t, t.nn.functional, x.requires_grad_() if x.is_floating_point() else x, y)
        (found * y[0, 0, : found.shape[-1]].to(found.dtype) if found.ndim else found).sum().backward()
    except Exception as error:
        return type(error).__name__
    return str(found.dtype), found.tolist(), str(x.grad.dtype), x.grad.tolist()


def _agree(call, first, second):
    expected, found = _outcome(torch, call, first, second), _outcome(eagerjit, call, first, second)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    assert (found[0], found[2]) == (expected[0], expected[2])
    rounding = 0.1 if "bfloat16" in (first, second) else 1e-5
    torch.testing.assert_close(found[1::2], expected[1::2], rtol=rounding, atol=rounding)


def _classes(t, x):
    return t.tensor([[0, 1, 2, 0], [2, 1, 0, 0]])


WEIGHTED = {
    "nll": lambda t, f, a, b: f.nll_loss(a, _classes(t, a), b[0, :, 0]),
    "nll of rows": lambda t, f, a, b: f.nll_loss(a[:, :, 0], t.tensor([0, 2]), b[0, :, 0], reduction="none"),
    "cross entropy": lambda t, f, a, b: f.cross_entropy(a, _classes(t, a), b[0, :, 0]),
    "smoothed": lambda t, f, a, b: f.cross_entropy(a, _classes(t, a), b[0, :, 0], label_smoothing=0.1),
    "soft cross entropy": lambda t, f, a, b: f.cross_entropy(a, a.detach(), b[0, :, 0]),
    "margins": lambda t, f, a, b: f.multi_margin_loss(a[:, :, 0], t.tensor([0, 2]), weight=b[0, :, 0]),
}


@pytest.mark.parametrize("first", DTYPES[1:])
@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_classes(name, first):
    for second in DTYPES:
        if name != "margins" or first != "bfloat16":  # which we compute
            _agree(WEIGHTED[name], first, second)


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, first):
    for second in DTYPES[1:]:
        if name != "soft margin" or first != "int64":  # which we compute
            _agree(LOSSES[name], first, second)


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("name", NORMS)
def test_norms(name, first):
    _agree(NORMS[name], first, "float32")


def test_divergence_from_what_is_no_probability():
    for t in (torch, eagerjit):
        found = t.nn.functional.kl_div(t.zeros(3), t.tensor([-0.5, 0.0, 0.5]), reduction="none")
        assert found.isnan().tolist() == [True, False, False]


def test_targets_of_logits_are_floating_point_numbers():
    for t in (torch, eagerjit):
        with pytest.raises(RuntimeError):
            t.nn.functional.binary_cross_entropy_with_logits(t.zeros(3), t.tensor([0, 1, 1]))


def test_class_probabilities():
    for first, second in (("bfloat16", "float32"), ("float32", "float64"), ("float64", "float32")):
        _agree(lambda t, f, a, b: f.cross_entropy(a, b), first, second)


def test_instance_norm_of_an_empty_batch():
    for t in (torch, eagerjit):
        assert tuple(t.nn.InstanceNorm2d(2)(t.zeros(0, 2, 4, 4)).shape) == (0, 2, 4, 4)
