"""Softmax over many classes in clusters, the rare ones with fewer features (Grave et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eagerjit.nn.containers import ModuleList, Sequential
from eagerjit.nn.layers import Linear
from eagerjit.nn.module import Module
from eagerjit.ops.index import cat
from eagerjit.ops.normalization import log_softmax
from eagerjit.tensors.tensor import Tensor


class AdaptiveOutput(NamedTuple):
    """The log probability of every target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of n_classes classes: those below the first cutoff directly, the others by cluster."""

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        ends = list(cutoffs)
        if not ends:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            ends != sorted(ends) or min(ends) <= 0 or max(ends) > n_classes - 1 or len(set(ends)) != len(ends)
            or any(int(c) != c for c in ends)
        ):  # fmt: skip
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*ends, n_classes]
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for index in range(self.n_clusters):
            width = int(in_features // div_value ** (index + 1))
            count = self.cutoffs[index + 1] - self.cutoffs[index]
            first = Linear(in_features, width, False, device, dtype)
            self.tail.append(Sequential(first, Linear(width, count, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for module in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            module.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes, (batch, n_classes)."""
        head = log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for index, cluster in enumerate(self.tail):
            position = self.shortlist_size + index
            parts.append(log_softmax(cluster(input), 1) + head[:, position : position + 1])
        return cat.call(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of every example."""
        return self.log_prob(input).argmax(1)

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveOutput:
        batched = target_.ndim > 0
        if batched:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.ndim != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.shape}"
                )
        elif input_.ndim != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input_.shape}")
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output = self.log_prob(input).gather(1, target.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return AdaptiveOutput(output if batched else output.squeeze(0), loss)
