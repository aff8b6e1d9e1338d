"""Losses against PyTorch: values, gradients, reductions old and new, errors, and their modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import array_of, compare, draw, same

import eagerjit as ej

CLASSES = np.array([2, 0, 3, 1, 1])
SIGNS = np.array([1, -1, -1, 1, 1])
LISTED = np.array([[1, 3, -1, 0], [0, -1, 2, 2], [3, 2, 1, 0], [-1, 0, 0, 0], [2, -1, -1, -1]])

LOSSES: dict[str, Callable[..., Any]] = {
    "hinge": lambda t, x, y, w: t.nn.functional.hinge_embedding_loss(x, t.tensor(SIGNS).unsqueeze(1), 0.7),
    "ranking": lambda t, x, y, w: t.nn.functional.margin_ranking_loss(x, y, t.tensor(SIGNS).unsqueeze(1), 0.2),
    "ranking dims": lambda t, x, y, w: t.nn.functional.margin_ranking_loss(x, y, t.tensor(SIGNS)),
    "soft margin": lambda t, x, y, w: t.nn.functional.soft_margin_loss(x, y.detach().sign(), reduction="sum"),
    "soft margin target": lambda t, x, y, w: t.nn.functional.soft_margin_loss(x, y.sign()),
    "cosine": lambda t, x, y, w: t.nn.functional.cosine_embedding_loss(x, y, t.tensor(SIGNS), 0.1),
    "cosine single": lambda t, x, y, w: t.nn.functional.cosine_embedding_loss(
        x[0], y[0], t.tensor(-1), reduction="none"
    ),
    "cosine dims": lambda t, x, y, w: t.nn.functional.cosine_embedding_loss(x[0], y[0], t.tensor(SIGNS)),
    "triplet": lambda t, x, y, w: t.nn.functional.triplet_margin_loss(x, y, y * 0.5, margin=2.0),
    "triplet swap": lambda t, x, y, w: t.nn.functional.triplet_margin_loss(
        x, y, y * 0.5, p=1.5, swap=True, reduction="none"
    ),
    "triplet margin": lambda t, x, y, w: t.nn.functional.triplet_margin_loss(x, y, y, margin=0.0),
    "triplet dims": lambda t, x, y, w: t.nn.functional.triplet_margin_loss(x, y[0], y),
    "triplet distance": lambda t, x, y, w: t.nn.functional.triplet_margin_with_distance_loss(
        x, y, y * 0.5, distance_function=lambda a, b: (a - b).abs().amax(-1), swap=True
    ),
    "multi margin": lambda t, x, y, w: t.nn.functional.multi_margin_loss(x, t.tensor(CLASSES)),
    "multi margin 2": lambda t, x, y, w: t.nn.functional.multi_margin_loss(
        x, t.tensor(CLASSES), 2, 0.5, w.detach(), reduction="none"
    ),
    "multi margin single": lambda t, x, y, w: t.nn.functional.multi_margin_loss(x[0], t.tensor(2)),
    "multi margin p": lambda t, x, y, w: t.nn.functional.multi_margin_loss(x, t.tensor(CLASSES), 3),
    "multi margin size": lambda t, x, y, w: t.nn.functional.multi_margin_loss(x, t.tensor(CLASSES[:2])),
    "multi margin weight": lambda t, x, y, w: t.nn.functional.multi_margin_loss(x, t.tensor(CLASSES), weight=w),
    "multilabel margin": lambda t, x, y, w: t.nn.functional.multilabel_margin_loss(x, t.tensor(LISTED)),
    "multilabel margin none": lambda t, x, y, w: t.nn.functional.multilabel_margin_loss(
        x, t.tensor(LISTED), reduction="none"
    ),
    "multilabel margin single": lambda t, x, y, w: t.nn.functional.multilabel_margin_loss(x[1], t.tensor(LISTED[1])),
    "multilabel soft": lambda t, x, y, w: t.nn.functional.multilabel_soft_margin_loss(x, y.sigmoid(), w),
    "multilabel soft sum": lambda t, x, y, w: t.nn.functional.multilabel_soft_margin_loss(
        x, y.sigmoid(), reduction="sum"
    ),
    "poisson": lambda t, x, y, w: t.nn.functional.poisson_nll_loss(x, y.abs() * 3),
    "poisson full": lambda t, x, y, w: t.nn.functional.poisson_nll_loss(x, y.detach().abs() * 3, full=True),
    "poisson rates": lambda t, x, y, w: t.nn.functional.poisson_nll_loss(
        x.abs(), y.detach().abs(), log_input=False, eps=1e-4, reduction="none"
    ),
    "gaussian": lambda t, x, y, w: t.nn.functional.gaussian_nll_loss(x, y, (x * y).abs() * 0.1, eps=0.05),
    "gaussian full": lambda t, x, y, w: t.nn.functional.gaussian_nll_loss(x, y, y[:, :1].exp(), full=True),
    "gaussian rows": lambda t, x, y, w: t.nn.functional.gaussian_nll_loss(x, y, y[:, 0].exp(), reduction="sum"),
    "gaussian number": lambda t, x, y, w: t.nn.functional.gaussian_nll_loss(x, y, 2.0),
    "gaussian negative": lambda t, x, y, w: t.nn.functional.gaussian_nll_loss(x, y, -2.0),
    "gaussian size": lambda t, x, y, w: t.nn.functional.gaussian_nll_loss(x, y, y[:2]),
    "mse weight": lambda t, x, y, w: t.nn.functional.mse_loss(x, y, weight=y.exp()),
    "l1 weight": lambda t, x, y, w: t.nn.functional.l1_loss(x, y, weight=y.exp(), reduction="sum"),
    "l1 weight mean": lambda t, x, y, w: t.nn.functional.l1_loss(x, y, weight=y.exp()),
    "huber weight": lambda t, x, y, w: t.nn.functional.huber_loss(x, y, weight=y.exp()),
    "mse weight size": lambda t, x, y, w: t.nn.functional.mse_loss(x, y, weight=w),
    "bce weight": lambda t, x, y, w: t.nn.functional.binary_cross_entropy(x.sigmoid(), y.sigmoid(), w),
    "bce fixed weight": lambda t, x, y, w: t.nn.functional.binary_cross_entropy(x.sigmoid(), y.sigmoid(), w.detach()),
    "logits weight": lambda t, x, y, w: t.nn.functional.binary_cross_entropy_with_logits(x, y.sigmoid(), w),
    "logits pos_weight": lambda t, x, y, w: t.nn.functional.binary_cross_entropy_with_logits(x, y, pos_weight=w),
    "cross entropy weight": lambda t, x, y, w: t.nn.functional.cross_entropy(x, t.tensor(CLASSES), w),
    "soft cross entropy weight": lambda t, x, y, w: t.nn.functional.cross_entropy(x, y.softmax(1), w),
    "nll weight": lambda t, x, y, w: t.nn.functional.nll_loss(x, t.tensor(CLASSES), w),
    "averaged": lambda t, x, y, w: t.nn.functional.mse_loss(x, y, size_average=False),
    "not reduced": lambda t, x, y, w: t.nn.functional.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduce=False),
    "average of classes": lambda t, x, y, w: t.nn.functional.cross_entropy(x, t.tensor(CLASSES), size_average=True),
    "no reduction": lambda t, x, y, w: t.nn.functional.soft_margin_loss(x, y.detach(), reduction="median"),
}  # fmt: skip

ARRAYS = [draw((5, 4), "float32", -2, 2, 1), draw((5, 4), "float32", -2, 2, 2), draw((4,), "float32", 0.2, 2, 3)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loss(name: str, dtype: str) -> None:
    compare(LOSSES[name], *(a.astype(dtype) for a in ARRAYS), tolerance=1e-4 if dtype == "float32" else 1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_loss_jitted(name: str) -> None:
    def step(x: Any, y: Any, w: Any) -> Any:
        loss = LOSSES[name](ej, x, y, w)
        loss.sum().backward()
        return loss

    found = []
    for function in (step, ej.jit(step)):
        tensors = [ej.tensor(a, requires_grad=True) for a in ARRAYS]
        try:
            results = [function(*tensors), *(t.grad for t in tensors)]
            found.append([None if r is None else array_of(r).tobytes() for r in results])
        except Exception as error:
            found.append([type(error)])
    assert found[0] == found[1]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("classes", [[1, 1], [1, 0]])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_classes_have_no_slope_twice(reduction: str, classes: list[int], smoothing: float) -> None:
    found = []
    for library in (ej, torch):
        x = library.tensor([[1.0, 2, 3], [2, 1, 0]], dtype=library.float64, requires_grad=True)
        how = {"ignore_index": 1, "reduction": reduction, "label_smoothing": smoothing}
        loss = library.nn.functional.cross_entropy(x, library.tensor(classes), **how)
        (slope,) = library.autograd.grad(loss.sum(), x, create_graph=True)
        found.append((loss.tolist(), slope.tolist(), library.autograd.grad((slope * x).sum(), x)[0].tolist()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


CTC: dict[str, Callable[..., Any]] = {
    "plain": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 2, 2], [3, 1, 0]]), t.tensor([7, 5]), t.tensor([3, 2])
    ),
    "none": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 2, 2], [3, 1, 0]]), (7, 6), (3, 1), reduction="none"
    ),
    "joined": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([1, 2, 2, 3, 1]), t.tensor([7, 7]), t.tensor([3, 2]), blank=0, reduction="sum"
    ),
    "blank": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 2], [0, 1]]), t.tensor([7, 7]), t.tensor([2, 2]), blank=3
    ),
    "impossible": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 1, 1], [2, 1, 0]]), t.tensor([4, 7]), t.tensor([3, 2]), reduction="none", zero_infinity=True
    ),
    "no labels": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 2], [0, 0]]), t.tensor([7, 7]), t.tensor([2, 0]), reduction="none"
    ),
    "single": lambda t, x: t.nn.functional.ctc_loss(x[:, 0], t.tensor([1, 2]), t.tensor(7), t.tensor(2)),
    "no targets": lambda t, x: t.nn.functional.ctc_loss(
        x, t.zeros(2, 0, dtype=t.int64), t.tensor([7, 5]), t.tensor([0, 0]), blank=1, reduction="none"
    ),
    "none joined": lambda t, x: t.nn.functional.ctc_loss(
        x, t.zeros(0, dtype=t.int64), t.tensor([7, 0]), t.tensor([0, 0])
    ),
    "bad blank": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 2], [0, 1]]), t.tensor([7, 7]), t.tensor([2, 2]), blank=9
    ),
    "one step": lambda t, x: t.nn.functional.ctc_loss(
        x[:1], t.tensor([[1], [0]]), t.tensor([1, 1]), t.tensor([1, 0]), reduction="none"
    ),
    "no steps": lambda t, x: t.nn.functional.ctc_loss(
        x[:0], t.tensor([[1], [2]]), t.tensor([0, 0]), t.tensor([1, 1])
    ),
    "bad lengths": lambda t, x: t.nn.functional.ctc_loss(
        x, t.tensor([[1, 2], [0, 1]]), t.tensor([7]), t.tensor([2, 2])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CTC)
def test_ctc(name: str) -> None:
    compare(lambda t, x: CTC[name](t, x.log_softmax(-1)), draw((7, 2, 4), "float64", -2, 2, 1), tolerance=1e-8)


def test_ctc_that_cannot_be() -> None:
    arguments = lambda t: (t.tensor([[1, 1, 1]]), t.tensor([4]), t.tensor([3]))  # noqa: E731
    for library in (ej, torch):
        x = library.zeros(4, 1, 3).log_softmax(-1)
        assert library.nn.functional.ctc_loss(x, *arguments(library)).item() == float("inf")


MODULES: dict[str, Callable[[Any, Any], Any]] = {
    "CrossEntropyLoss": lambda n, t: n.CrossEntropyLoss(ignore_index=1)(t.ones(5, 4), t.tensor(CLASSES)),
    "NLLLoss": lambda n, t: n.NLLLoss(t.ones(4))(t.ones(5, 4), t.tensor(CLASSES)),
    "BCELoss": lambda n, t: n.BCELoss(size_average=False)(t.ones(2) * 0.3, t.ones(2)),
    "BCEWithLogitsLoss": lambda n, t: n.BCEWithLogitsLoss(pos_weight=t.ones(2) * 3)(t.ones(2), t.ones(2)),
    "PoissonNLLLoss": lambda n, t: n.PoissonNLLLoss(full=True)(t.ones(2), t.ones(2) * 3),
    "GaussianNLLLoss": lambda n, t: n.GaussianNLLLoss(full=True)(t.ones(2), t.zeros(2), t.ones(2) * 3),
    "HingeEmbeddingLoss": lambda n, t: n.HingeEmbeddingLoss(0.5)(t.ones(2), t.tensor([1, -1])),
    "MultiLabelMarginLoss": lambda n, t: n.MultiLabelMarginLoss()(t.ones(5, 4), t.tensor(LISTED)),
    "MultiLabelSoftMarginLoss": lambda n, t: n.MultiLabelSoftMarginLoss(t.ones(4))(t.ones(5, 4), t.ones(5, 4)),
    "SoftMarginLoss": lambda n, t: n.SoftMarginLoss(reduction="sum")(t.ones(2), t.ones(2)),
    "CosineEmbeddingLoss": lambda n, t: n.CosineEmbeddingLoss(0.1)(t.ones(5, 4), t.ones(5, 4), t.tensor(SIGNS)),
    "MarginRankingLoss": lambda n, t: n.MarginRankingLoss(0.1)(t.ones(5), t.zeros(5), t.tensor(SIGNS)),
    "MultiMarginLoss": lambda n, t: n.MultiMarginLoss(2, 0.5)(t.ones(5, 4), t.tensor(CLASSES)),
    "MultiMarginLoss p": lambda n, t: n.MultiMarginLoss(3),
    "TripletMarginLoss": lambda n, t: n.TripletMarginLoss(0.5, swap=True)(t.ones(5, 4), t.zeros(5, 4), t.ones(5, 4)),
    "TripletMarginWithDistanceLoss": lambda n, t: n.TripletMarginWithDistanceLoss(margin=0.5)(
        t.ones(5, 4), t.zeros(5, 4), t.ones(5, 4)
    ),
    "CTCLoss": lambda n, t: n.CTCLoss(blank=1)(
        t.zeros(5, 1, 3).log_softmax(2), t.tensor([[2]]), t.tensor([5]), t.tensor([1])
    ),
    "SmoothL1Loss": lambda n, t: n.SmoothL1Loss(None, None, "sum", 2.0)(t.ones(2), t.zeros(2)),
    "HuberLoss": lambda n, t: n.HuberLoss("sum", 0.3)(t.ones(2), t.zeros(2)),
    "KLDivLoss": lambda n, t: n.KLDivLoss(reduction="batchmean", log_target=True)(t.ones(2, 2), t.zeros(2, 2)),
    "L1Loss": lambda n, t: n.L1Loss(reduce=False)(t.ones(2), t.zeros(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    outcomes = []
    for library in (ej, torch):
        try:
            outcomes.append(MODULES[name](library.nn, library))
        except Exception as error:
            outcomes.append(type(error))
    if isinstance(outcomes[1], type):
        assert outcomes[0] is outcomes[1]
    else:
        same(*outcomes)


def test_reductions_of_old_warn() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert ej.nn.MSELoss(size_average=False).reduction == "sum"
    assert len(seen) == 1


def test_losses_share_a_base() -> None:
    assert issubclass(ej.nn.NLLLoss, ej.nn.modules.loss._WeightedLoss)
    assert issubclass(ej.nn.MSELoss, ej.nn.modules.loss._Loss)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_ctc_of_large_scores_and_of_no_numbers(scale: float, zero_infinity: bool) -> None:
    """Sequences with NaN, of scores that are far from logarithms of probabilities, and without an alignment."""

    def outcome(t: Any) -> Any:
        logs = t.tensor(draw((4, 3, 3), "float64", -2, 1, 3)).float() * scale
        logs[0, 1, 0] = float("nan")
        logs.requires_grad_()
        loss = t.nn.functional.ctc_loss(
            logs, t.tensor([[1, 2], [2, 1], [2, 2]]), t.tensor([4, 4, 2]), t.tensor([2, 2, 2]),
            reduction="none", zero_infinity=zero_infinity,
        )  # fmt: skip
        (slope,) = t.autograd.grad(loss[[0, 2]].sum(), logs)
        return loss.detach().numpy(), slope.numpy()[:, [0, 2] if zero_infinity else [0]]

    (found, slope), (expected, slope_expected) = outcome(ej), outcome(torch)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if scale == 1.0:
        np.testing.assert_allclose(slope, slope_expected, rtol=1e-4, atol=1e-6)
