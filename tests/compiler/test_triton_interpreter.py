"""Triton's interpreter, as it is changed while it runs a kernel: types of blocks are those that Triton makes."""

from __future__ import annotations

from typing import Any

import pytest
from triton.language import core

from eagerjit.runtime.gpu import interpreter

ELEMENTS = [core.float32, core.int1, core.pointer_type(core.float64), core.pointer_type(core.int8, 3)]
SHAPES: list[Any] = [
    [4], [2, 16], core.tuple([2, 16]), [core.constexpr(2), 16], core.tuple([core.constexpr(8), core.constexpr(1)]), [1],
]  # fmt: skip


def told(block: Any) -> tuple[Any, ...]:
    """All that a type says of itself."""
    kinds = [type(size) for size in block.shape]
    return block.element_ty, block.shape.values, kinds, str(block.shape.type), block.numel, block.name, block.mangle()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    monkeypatch.setattr(interpreter, "_shapes", {})
    return interpreter._shapes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_types_of_blocks(element: Any, shape: Any, known: dict[Any, Any]) -> None:
    expected = core.block_type(element, shape)
    with interpreter._exact_interpreter():
        made = [core.block_type(element, shape) for _ in range(3)]
    for found in made:
        assert found == expected and found.element_ty is element and told(found) == told(expected)
    made[0].shape.values.append(0)  # what is done to one shape is done to no other
    assert told(made[1]) == told(core.block_type(element, shape))


def test_a_shape_is_looked_at_once(known: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    check = core.validate_block_shape
    monkeypatch.setattr(core, "validate_block_shape", lambda shape: [seen.append(list(shape)), check(shape)][1])
    with interpreter._exact_interpreter():
        for element in ELEMENTS:
            for shape in ([2, 8], [core.constexpr(2), 8], [16]):
                core.block_type(element, shape)
    assert seen == [[2, 8], [16]]


def test_what_is_no_shape_is_refused(known: dict[Any, Any]) -> None:
    with interpreter._exact_interpreter():
        for _ in range(2):
            core.block_type(core.int32, [16, 1])
            for shape, error in (([], TypeError), ([16.0, 1], TypeError), ([3], ValueError), ([2**30], ValueError)):
                with pytest.raises(error):
                    core.block_type(core.int32, shape)
            assert core.block_type(core.int32, [16, True]).name == "<['16', 'True'], int32>"
            assert core.block_type(core.int32, [16, 1]).name == "<['16', '1'], int32>"
