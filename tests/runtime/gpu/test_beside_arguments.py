"""What a function makes for itself, such as random numbers and positions, lies with its arguments, not by default."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit import distributions, nn
from eagerjit.distributions import transforms

Function = nn.functional
VALUES = [0.3, -0.7, 1.1]


pytestmark = pytest.mark.usefixtures("tensors")


def packed(x: Any) -> Any:
    lengths = ej.tensor([2, 4], device="cpu")
    return nn.utils.rnn.pack_padded_sequence(x.new_ones(4, 2, 3), lengths, enforce_sorted=False)


def ctc(x: Any, lengths: Any) -> Any:
    scores = (x + ej.arange(15.0, device=x.device).reshape(5, 1, 3)).log_softmax(2)
    return Function.ctc_loss(scores, ej.tensor([1, 2], device="cpu"), lengths, lengths.new_tensor([2]))


def masked(x: Any, method: str) -> Any:
    layer = nn.Linear(3, 3).to(x.device)
    ej.manual_seed(0)
    options = {"dim": 0} if method == "random_structured" else {}
    getattr(nn.utils.prune, method)(layer, "weight", 0.3, **options)
    return layer.weight_mask


D = distributions
CASES: dict[str, Callable[[Any], Any]] = {
    "Normal": lambda x: D.Normal(x, 1.0).rsample((2,)),
    "Normal, log_prob": lambda x: D.Normal(0.0, x.exp()).log_prob(x),
    "Uniform": lambda x: D.Uniform(x, x + 1).sample(), "Laplace": lambda x: D.Laplace(x, 1.0).sample(),
    "Gumbel": lambda x: D.Gumbel(x, 1.0).sample(), "Gumbel, cdf": lambda x: D.Gumbel(x, 1.0).cdf(1.0),
    "Cauchy": lambda x: D.Cauchy(x, 1.0).sample(), "Geometric": lambda x: D.Geometric(x.sigmoid()).sample(),
    "Bernoulli": lambda x: D.Bernoulli(x.sigmoid()).enumerate_support(),
    "Categorical": lambda x: D.Categorical(logits=x).enumerate_support(),
    "OneHotCategorical": lambda x: D.OneHotCategorical(logits=x).sample(),
    "OneHotCategorical, all": lambda x: D.OneHotCategorical(logits=x).enumerate_support(),
    "Binomial": lambda x: D.Binomial(3, x.sigmoid()).entropy(), "Gamma": lambda x: D.Gamma(x.exp(), 1.0).log_prob(1.0),
    "Multinomial": lambda x: D.Multinomial(3, x.sigmoid()).sample(),
    "Multinomial, entropy": lambda x: D.Multinomial(3, x.sigmoid()).entropy(),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x, ej.eye(3, device=x.device)).sample(),
    "ContinuousBernoulli": lambda x: D.ContinuousBernoulli(x.sigmoid()).sample(),
    "GeneralizedPareto": lambda x: D.GeneralizedPareto(x, 1.0, 0.5).sample(),
    "RelaxedBernoulli": lambda x: D.RelaxedBernoulli(0.5, x.sigmoid()).rsample(),
    "RelaxedOneHotCategorical": lambda x: D.RelaxedOneHotCategorical(0.5, x.sigmoid()).rsample(),
    "Transformed": lambda x: D.TransformedDistribution(D.Normal(x, 1.0), [transforms.ExpTransform()]).sample(),
    "Independent": lambda x: D.Independent(D.Normal(x, 1.0), 1).entropy(),
    "kl_divergence": lambda x: D.kl_divergence(D.Normal(x, 1.0), D.Normal(0.0, x.exp())),
    "random_": lambda x: x.clone().random_(), "geometric_": lambda x: x.clone().geometric_(0.5),
    "log_normal_": lambda x: x.clone().log_normal_(), "randn_like": ej.randn_like,
    "normal": lambda x: ej.normal(x, 1.0),
    "orthogonal_": lambda x: nn.init.orthogonal_(x[None] * x[:, None]),
    "eye_": lambda x: nn.init.eye_(x[None] * x[:, None]),
    "random_unstructured": lambda x: masked(x, "random_unstructured"),
    "random_structured": lambda x: masked(x, "random_structured"),
    "combinations": ej.combinations, "pdist": lambda x: Function.pdist(x[:, None]),
    "affine_grid": lambda x: Function.affine_grid(x.new_ones(1, 2, 3), (1, 1, 3, 3), align_corners=False),
    "fractional_max_pool2d": lambda x: Function.fractional_max_pool2d(x.new_ones(1, 1, 6, 6), 2, output_size=3),
    "ctc_loss": lambda x: ctc(x, ej.tensor([5], device=x.device)),
    "ctc_loss, lengths on the host": lambda x: ctc(x, ej.tensor([5], device="cpu")),
    "pack_padded_sequence": lambda x: packed(x).data,
    "pad_packed_sequence": lambda x: nn.utils.rnn.pad_packed_sequence(packed(x))[0],
    "LSTM": lambda x: nn.LSTM(3, 4).to(x.device)(packed(x))[0].data,
    "index_put": lambda x: x.index_put((ej.tensor([1, 0], device="cpu"),), ej.tensor(2.0, device="cpu")),
    "type_as": lambda x: ej.ones(2, dtype=ej.int64, device="cpu").type_as(x),
    "new_empty_strided": lambda x: x.new_empty_strided((3,), (1,)).fill_(2.0), "new": lambda x: x.new(VALUES),
    "new, of sizes": lambda x: x.new(2).fill_(1.0),
}  # fmt: skip


def drawn(name: str, place: str, default: str | None) -> Any:
    """A function's result for a tensor that lies somewhere, while what programs make lies elsewhere by default."""
    x = ej.tensor(VALUES, device=place)
    ej.manual_seed(0)
    ej.set_default_device(default)
    try:
        return CASES[name](x)
    finally:
        ej.set_default_device(None)


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_lies_with_arguments(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, there, here = drawn(name, "cpu", None), drawn(name, "cuda", None), drawn(name, "cpu", "cuda")
    assert there.is_cuda and not here.is_cuda
    assert there.dtype is here.dtype is expected.dtype
    for found in (there.cpu(), here):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_device_draws_its_own_numbers() -> None:
    """`torch.cuda.manual_seed` decides what is drawn there."""
    x = ej.tensor(VALUES, device="cuda")
    for draw in (lambda: x.clone().random_(), lambda: x.clone().log_normal_(), lambda: D.Normal(x, 1.0).sample()):
        ej.cuda.manual_seed(1)
        first = draw().tolist()
        ej.cuda.manual_seed(1)
        ej.rand(3)
        assert draw().tolist() == first


@pytest.mark.parametrize("devices", [None, [0], ["cuda:0"], [ej.device("cuda")], []])
@pytest.mark.parametrize("has_drawn", [False, True])
def test_streams_are_forked(devices: Any, has_drawn: bool) -> None:
    ej.manual_seed(3)
    if has_drawn:
        ej.rand(2, device="cuda")

    def drawn(place: str) -> Any:
        return ej.rand(3, device=place).tolist()

    def draws() -> Any:
        with ej.random.fork_rng(devices=devices):
            ej.rand(5, device="cuda"), ej.rand(5), ej.cuda.manual_seed(9), drawn("cuda")
        return drawn("cpu"), drawn("cuda")

    found = draws()
    ej.manual_seed(3)
    if has_drawn:
        ej.rand(2, device="cuda")
    assert found[0] == drawn("cpu") and (found[1] == drawn("cuda")) == (devices != [])
    compiled = ej.jit(draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it comes to a device only in the context it is not compiled
        compiled()
    for call in (draws, compiled, compiled):
        ej.manual_seed(3)
        if has_drawn:
            ej.rand(2, device="cuda")
        assert call() == found


def test_packed_sequences_move() -> None:
    here = packed(ej.tensor(VALUES))
    there = here.cuda()
    assert there.is_cuda and not here.is_cuda and here.cpu() is here and there.cuda() is there
    assert there.sorted_indices.is_cuda and there.unsorted_indices.is_cuda and not there.batch_sizes.is_cuda
    assert there.cpu().data.tolist() == here.data.tolist() and not there.cpu().sorted_indices.is_cuda
    assert nn.utils.rnn.pad_packed_sequence(there)[0].is_cuda and here.pin_memory().is_pinned()
    with pytest.raises(RuntimeError, match="'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0"):
        nn.utils.rnn.pack_padded_sequence(here.data[None], ej.tensor([6], device="cuda"))


@pytest.mark.parametrize("has_drawn", [False, True])
def test_a_checkpoint_draws_the_same_again(has_drawn: bool) -> None:
    """The gradient is that of the dropout of the first run, also of the first that ever drew on the device."""

    def step(x: Any) -> Any:
        kept = ej.utils.checkpoint.checkpoint(lambda t: Function.dropout(t, 0.5) * t, x, use_reentrant=False)
        ej.rand(3, device="cuda")
        kept.sum().backward()
        return kept.detach(), x.grad, ej.rand(2, device="cuda")

    found = []
    for call in (step, ej.jit(step, fullgraph=True)):
        ej.manual_seed(5)
        if has_drawn:
            ej.rand(1, device="cuda")
        x = ej.ones(40, device="cuda").requires_grad_()
        out, gradient, later = call(x)
        assert gradient.tolist() == (2 * out).tolist() and 0 < out.count_nonzero() < 40
        found.append((out.tolist(), later.tolist()))
    assert found[0] == found[1]
