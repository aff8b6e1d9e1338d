"""Causal masks by the corner that their diagonal begins or ends in."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from eagerjit.effects.cautions import caution
from eagerjit.runtime import dtypes, layout
from eagerjit.runtime.once import once
from eagerjit.tensors.creation import ones
from eagerjit.tensors.tensor import Tensor, plain_function

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner that the mask's diagonal goes through: of the first query and key, or of the last ones."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor, taken=False):
    """A mask [queries, keys] for `scaled_dot_product_attention`: which keys are not later than a query."""

    __torch_function__ = plain_function  # type: ignore[assignment]
    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"a variant is one of CausalVariant, and not {variant!r}")
        if variant is CausalVariant.LOWER_RIGHT and seq_len_q > seq_len_kv:
            caution("queries before the first key see none of the keys")
        _accept()
        shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        made = ones((seq_len_q, seq_len_kv), dtype=dtypes.bool_).tril(shift).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"CausalBias({self.variant.name}, seq_len_q={self.seq_len_q}, seq_len_kv={self.seq_len_kv})"


@once
def _accept() -> None:
    """Let ops take masks; with the first of them, as nothing that is imported may wait for the library's lock."""
    layout.accept(CausalBias)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask [queries, keys] by which the first query sees the first key alone, as with `is_causal`."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size))


def causal_lower_right(*size: int) -> CausalBias:
    """The mask [queries, keys] by which the last query sees all keys."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size))


def _two(size: tuple[int, ...]) -> tuple[int, ...]:
    if len(size) != 2:
        raise AssertionError(f"a mask has numbers of queries and of keys, and not {size}")
    return size
