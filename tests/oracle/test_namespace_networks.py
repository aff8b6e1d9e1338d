"""Functions of networks that PyTorch has in its main namespace too, with arguments of their own, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import compare, draw

CASES: dict[str, Any] = {
    "embedding": lambda t, x: t.embedding(x, t.tensor([1, 2, 1])),
    "embedding padding": lambda t, x: t.embedding(x, t.tensor([1, 2, 1]), 2, True),
    "embedding no padding": lambda t, x: t.embedding(x, t.tensor([1, 2, 1]), padding_idx=-2),
    "embedding order": lambda t, x: t.embedding(t.tensor([1]), x),
    **{
        f"embedding_bag {mode}": lambda t, x, mode=mode: t.embedding_bag(
            x, t.tensor([1, 2, 3, 3]), t.tensor([0, 2, 2]), mode=mode
        )
        for mode in range(4)
    },
    **{
        f"embedding_bag padded {mode}": lambda t, x, mode=mode: t.embedding_bag(
            x, t.tensor([1, 2, 3, 3]), t.tensor([0, 2, 2, 4]), False, mode, False, None, True, 3
        )
        for mode in range(3)
    },
    "embedding_bag scaled": lambda t, x: t.embedding_bag(
        x, t.tensor([1, 3]), t.tensor([0]), per_sample_weights=t.tensor([0.5, 2.0])
    ),
    "embedding_bag scaled mean": lambda t, x: t.embedding_bag(
        x, t.tensor([1, 3]), t.tensor([0]), mode=1, per_sample_weights=t.tensor([0.5, 2.0])
    ),
    "batch_norm": lambda t, x: t.batch_norm(x, x[0], x[1], None, None, True, 0.1, 1e-5, False),
    "batch_norm known": lambda t, x: t.batch_norm(
        x, x[0], None, x.detach()[1], x.detach()[2].exp(), False, 0.1, 1e-5, cudnn_enabled=True
    ),
    "instance_norm": lambda t, x: t.instance_norm(x[None], x[:, 0], x[:, 1], None, None, True, 0.1, 1e-5, False),
    "layer_norm": lambda t, x: t.layer_norm(x, [3], x[0], None, 1e-5, False),
    "layer_norm enabled": lambda t, x: t.layer_norm(x, [3], cudnn_enable=True),
    "group_norm": lambda t, x: t.group_norm(x[None], 2, x[:, 0], None, 1e-5, False),
    "group_norm enabled": lambda t, x: t.group_norm(x[None], 2, cudnn_enabled=True),
    "dropout none": lambda t, x: t.dropout(x, 0.0, True),
    "dropout": lambda t, x: t.dropout(x, 1.5, True),
    "alpha_dropout": lambda t, x: t.alpha_dropout(x, 1.5, True),
    "feature_alpha_dropout": lambda t, x: t.feature_alpha_dropout(x, -0.5, False),
    "feature_alpha_dropout of all of a vector": lambda t, x: t.feature_alpha_dropout(x[0], 1.0, True),
    "alpha_dropout of integers": lambda t, x: t.alpha_dropout(x.detach().long(), 0.5, True),
    "feature_dropout": lambda t, x: t.feature_dropout(x, 1.5, True),
    "feature_dropout none": lambda t, x: t.feature_dropout(x, 0.0, True) + t.feature_dropout(x, 0.5, False),
    "feature_dropout all": lambda t, x: t.feature_dropout(x, 1.0, True),
    "feature_dropout of a vector": lambda t, x: t.feature_dropout(x[0], 0.5, True),
    "feature_dropout of integers": lambda t, x: t.feature_dropout(x.detach().long(), 0.5, True),
    "dropout without numbers": lambda t, x: t.dropout(x),
    "ctc_loss": lambda t, x: t.ctc_loss(
        x[:, None].log_softmax(2), t.tensor([[1]]), t.tensor([4]), t.tensor([1]), 0, 1, True
    ),
    "poisson_nll_loss": lambda t, x: t.poisson_nll_loss(x, x.detach().abs(), True, False, 1e-8, 2),
    "poisson_nll_loss without options": lambda t, x: t.poisson_nll_loss(x, x),
    "cross entropy of one logit": lambda t, x: t.binary_cross_entropy_with_logits(x.detach()[:1, :1], x.sigmoid()),
    "cross entropy of one target": lambda t, x: t.binary_cross_entropy_with_logits(x, x.detach()[0].sigmoid()),
    "reduction's name": lambda t, x: t.kl_div(x, x, "mean"),
}

LOSSES: dict[str, Any] = {
    "kl_div": lambda t, x, *r: t.kl_div(x, x.detach().exp(), *r),
    "kl_div of logs": lambda t, x, *r: t.kl_div(x, x.detach() - 1.0, *r, log_target=True),
    "hinge": lambda t, x, *r: t.hinge_embedding_loss(x, x.detach().sign(), 0.5, *r),
    "ranking": lambda t, x, *r: t.margin_ranking_loss(x, x * 2, x.detach().sign(), 0.5, *r),
    "triplet": lambda t, x, *r: t.triplet_margin_loss(x, x * 2, x + 1.0, 1.0, 2, 1e-6, False, *r),
    "cosine": lambda t, x, *r: t.cosine_embedding_loss(x, x * x, x.detach()[:, 0].sign(), 0.1, *r),
    "cross entropy": lambda t, x, *r: t.binary_cross_entropy_with_logits(x, x.detach().sigmoid(), None, None, *r),
}


@pytest.mark.parametrize("name", CASES)
def test_function(name):
    compare(CASES[name], draw((4, 3), "float32", -2, 2, 0))


@pytest.mark.parametrize("reduction", [(), (0,), (1,), (2,), (3,)], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name, reduction):
    compare(lambda t, x: LOSSES[name](t, x, *reduction), draw((4, 3), "float32", -2, 2, 0))
