"""The array API's functions that join, split and rearrange: against array-api-strict, compiled, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from array_oracle import (
    COMPLEX,
    CUBE,
    EMPTY,
    INTEGERS,
    MATRIX,
    SCALAR,
    SMALL,
    TRUTH,
    VECTOR,
    Case,
    check,
    check_compiled,
    check_gradient,
    check_sizes,
    first_of_each,
    tensors,
)

import eagerjit as ej
from eagerjit import array_api as xp

COUNTS = np.array([2, 0, 3])

CASES: dict[str, Case] = {
    "broadcast_arrays": (lambda t, x, y, z: t.broadcast_arrays(x, y, z), [MATRIX, MATRIX[:, :1], SCALAR]),
    "broadcast_arrays of one": (lambda t, x: t.broadcast_arrays(x), [INTEGERS]),
    "broadcast_arrays empty": (lambda t, x, y: t.broadcast_arrays(x, y), [EMPTY, VECTOR[:1]]),
    "broadcast_to": (lambda t, x: t.broadcast_to(x, (2, 5, 4)), [VECTOR]),
    "broadcast_to inner": (lambda t, x: t.broadcast_to(x, (3, 4)), [MATRIX[:, :1]]),
    "broadcast_to of 0-d": (lambda t, x: t.broadcast_to(x, (2, 0)), [SCALAR]),
    "broadcast_to same": (lambda t, x: t.broadcast_to(x, ()), [SCALAR]),
    "concat": (lambda t, x, y: t.concat([x, y]), [MATRIX, MATRIX[:1]]),
    "concat tuple": (lambda t, x, y: t.concat((x, y), axis=-1), [CUBE, CUBE[..., :1]]),
    "concat one": (lambda t, x: t.concat([x]), [TRUTH]),
    "concat flattened": (lambda t, x, y, z: t.concat([x, y, z], axis=None), [CUBE, VECTOR, SCALAR]),
    "concat promotes": (lambda t, x, y: t.concat([x, y], axis=None), [SMALL, INTEGERS]),
    "concat floats": (lambda t, x, y: t.concat([x, y]), [MATRIX, MATRIX.astype(np.float64)]),
    "concat empty": (lambda t, x, y: t.concat([x, y]), [EMPTY, MATRIX[:, :3].astype(np.float64)]),
    "concat complex": (lambda t, x: t.concat([x, x], axis=1), [COMPLEX]),
    "expand_dims": (lambda t, x: t.expand_dims(x, axis=0), [MATRIX]),
    "expand_dims positional": (lambda t, x: t.expand_dims(x, 2), [MATRIX]),
    "expand_dims last": (lambda t, x: t.expand_dims(x, axis=-1), [MATRIX]),
    "expand_dims first": (lambda t, x: t.expand_dims(x, axis=-3), [MATRIX]),
    "expand_dims 0-d": (lambda t, x: t.expand_dims(x, axis=-1), [SCALAR]),
    "flip": (lambda t, x: t.flip(x), [CUBE]),
    "flip one": (lambda t, x: t.flip(x, axis=-2), [CUBE]),
    "flip two": (lambda t, x: t.flip(x, axis=(0, -1)), [CUBE]),
    "flip 0-d": (lambda t, x: t.flip(x), [SCALAR]),
    "flip empty": (lambda t, x: t.flip(x), [EMPTY]),
    "flip complex": (lambda t, x: t.flip(x, axis=0), [COMPLEX]),
    "moveaxis": (lambda t, x: t.moveaxis(x, 0, -1), [CUBE]),
    "moveaxis several": (lambda t, x: t.moveaxis(x, (0, 1), (-1, 0)), [CUBE]),
    "permute_dims": (lambda t, x: t.permute_dims(x, (2, 0, 1)), [CUBE]),
    "permute_dims keyword": (lambda t, x: t.permute_dims(x, axes=(1, 0)), [INTEGERS]),
    "permute_dims 0-d": (lambda t, x: t.permute_dims(x, ()), [SCALAR]),
    "repeat": (lambda t, x: t.repeat(x, 2), [MATRIX]),
    "repeat axis": (lambda t, x: t.repeat(x, 3, axis=-1), [CUBE]),
    "repeat none": (lambda t, x: t.repeat(x, 0, axis=1), [MATRIX]),
    "repeat counts": (lambda t, x, n: t.repeat(x, n, axis=0), [MATRIX, COUNTS]),
    "repeat counts inside": (lambda t, x, n: t.repeat(x, n, axis=1), [CUBE, COUNTS]),
    "repeat counts flattened": (lambda t, x, n: t.repeat(x, n), [VECTOR[:3], COUNTS.astype(np.int32)]),
    "repeat one count": (lambda t, x, n: t.repeat(x, n, axis=1), [MATRIX, COUNTS[:1]]),
    "repeat empty": (lambda t, x: t.repeat(x, 2, axis=0), [EMPTY]),
    "reshape": (lambda t, x: t.reshape(x, (4, 3)), [MATRIX]),
    "reshape inferred": (lambda t, x: t.reshape(x, (-1, 2)), [CUBE]),
    "reshape keyword": (lambda t, x: t.reshape(x, shape=(24,), copy=None), [CUBE]),
    "reshape copy": (lambda t, x: t.reshape(x, (2, 6), copy=True), [MATRIX]),
    "reshape no copy": (lambda t, x: t.reshape(x, (2, 6), copy=False), [MATRIX]),
    "reshape transposed": (lambda t, x: t.reshape(t.permute_dims(x, (1, 0)), (12,)), [MATRIX]),
    "reshape 0-d": (lambda t, x: t.reshape(x, (1, 1)), [SCALAR]),
    "reshape to 0-d": (lambda t, x: t.reshape(x, ()), [VECTOR[:1]]),
    "reshape empty": (lambda t, x: t.reshape(x, (3, 0, 2)), [EMPTY]),
    "roll": (lambda t, x: t.roll(x, 5), [MATRIX]),
    "roll back": (lambda t, x: t.roll(x, -1, axis=1), [MATRIX]),
    "roll far": (lambda t, x: t.roll(x, 11, axis=-1), [MATRIX]),
    "roll one shift": (lambda t, x: t.roll(x, 1, axis=(0, 2)), [CUBE]),
    "roll shifts": (lambda t, x: t.roll(x, (1, -2), axis=(0, -1)), [CUBE]),
    "roll 0-d": (lambda t, x: t.roll(x, 3), [SCALAR]),
    "roll empty": (lambda t, x: t.roll(x, 1, axis=0), [EMPTY]),
    "squeeze": (lambda t, x: t.squeeze(x, 0), [MATRIX[:1]]),
    "squeeze several": (lambda t, x: t.squeeze(t.reshape(x, (1, 4, 1)), axis=(0, -1)), [VECTOR]),
    "squeeze nothing": (lambda t, x: t.squeeze(x, axis=()), [MATRIX[:1]]),
    "stack": (lambda t, x, y: t.stack([x, y]), [MATRIX, MATRIX + 1]),
    "stack inside": (lambda t, x, y: t.stack((x, y), axis=1), [MATRIX, MATRIX]),
    "stack last": (lambda t, x, y: t.stack([x, y], axis=-1), [INTEGERS, INTEGERS]),
    "stack promotes": (lambda t, x, y: t.stack([x, y]), [INTEGERS, INTEGERS.astype(np.int64)]),
    "stack 0-d": (lambda t, x, y: t.stack([x, y]), [SCALAR, SCALAR.astype(np.float32)]),
    "tile": (lambda t, x: t.tile(x, (2, 3)), [MATRIX]),
    "tile fewer": (lambda t, x: t.tile(x, (2,)), [CUBE]),
    "tile more": (lambda t, x: t.tile(x, (2, 1, 2)), [VECTOR]),
    "tile nothing": (lambda t, x: t.tile(x, ()), [MATRIX]),
    "tile zero": (lambda t, x: t.tile(x, (0, 2)), [MATRIX]),
    "unstack": (lambda t, x: t.unstack(x), [CUBE]),
    "unstack last": (lambda t, x: t.unstack(x, axis=-1), [MATRIX]),
    "unstack empty": (lambda t, x: t.unstack(x), [EMPTY]),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_strict_namespace(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_compiled_gives_the_same_bits(name: str) -> None:
    check_compiled(CASES[name])


@pytest.mark.parametrize("name", first_of_each(CASES))
def test_compiled_serves_other_sizes(name: str) -> None:
    check_sizes(CASES[name])


GRADIENTS: dict[str, tuple[Any, Any, list[np.ndarray]]] = {
    "broadcast_to": (lambda x: xp.broadcast_to(x, (3, 4)), lambda x: x.expand(3, 4), [VECTOR]),
    "broadcast_arrays": (
        lambda x, y: xp.broadcast_arrays(x, y)[0] * y,
        lambda x, y: torch.broadcast_tensors(x, y)[0] * y,
        [VECTOR, CUBE[0]],
    ),
    "concat": (lambda x, y: xp.concat([x, y]), lambda x, y: torch.cat([x, y]), [MATRIX, MATRIX]),
    "flip": (lambda x: xp.flip(x), lambda x: x.flip(0, 1), [MATRIX]),
    "moveaxis": (lambda x: xp.moveaxis(x, 0, 2), lambda x: x.movedim(0, 2), [CUBE]),
    "repeat": (
        lambda x, n: xp.repeat(x, n, axis=0),
        lambda x, n: x.repeat_interleave(n, 0),
        [MATRIX, COUNTS],
    ),
    "reshape": (lambda x: xp.reshape(x, (12,), copy=True), lambda x: x.reshape(12), [MATRIX]),
    "roll": (lambda x: xp.roll(x, 5), lambda x: x.roll(5), [MATRIX]),
    "stack": (lambda x, y: xp.stack([x, y], axis=1), lambda x, y: torch.stack([x, y], 1), [MATRIX, MATRIX]),
    "tile": (lambda x: xp.tile(x, (2, 2)), lambda x: x.tile(2, 2), [MATRIX]),
    "unstack": (lambda x: xp.unstack(x, axis=1)[2], lambda x: x.unbind(1)[2], [MATRIX]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    check_gradient(*GRADIENTS[name])


WRONG: dict[str, tuple[Any, Any]] = {
    "broadcast_to that does not fit": (lambda v, m: xp.broadcast_to(v, (3, 5)), RuntimeError),
    "broadcast_to fewer dimensions": (lambda v, m: xp.broadcast_to(m, (4,)), RuntimeError),
    "broadcast_to a negative size": (lambda v, m: xp.broadcast_to(v, (-1, 4)), ValueError),
    "broadcast_arrays that do not fit": (lambda v, m: xp.broadcast_arrays(v, m[:, :2]), RuntimeError),
    "concat of nothing": (lambda v, m: xp.concat([]), ValueError),
    "concat of other ranks": (lambda v, m: xp.concat([v[:0], m]), ValueError),
    "concat of other shapes": (lambda v, m: xp.concat([m, m[:, :2]]), RuntimeError),
    "concat of 0-d": (lambda v, m: xp.concat([v.sum()]), IndexError),
    "concat at no axis": (lambda v, m: xp.concat([m, m], axis=2), IndexError),
    "concat of numbers": (lambda v, m: xp.concat([1.0, 2.0]), TypeError),
    "expand_dims before the first": (lambda v, m: xp.expand_dims(m, axis=-4), IndexError),
    "expand_dims behind the last": (lambda v, m: xp.expand_dims(m, axis=3), IndexError),
    "flip at no axis": (lambda v, m: xp.flip(m, axis=2), IndexError),
    "moveaxis repeated": (lambda v, m: xp.moveaxis(m, (0, 0), (0, 1)), ValueError),
    "moveaxis to one place": (lambda v, m: xp.moveaxis(m, (0, 1), (1, 1)), ValueError),
    "moveaxis to fewer places": (lambda v, m: xp.moveaxis(m, (0, 1), 0), ValueError),
    "moveaxis at no axis": (lambda v, m: xp.moveaxis(m, 2, 0), IndexError),
    "permute_dims of fewer": (lambda v, m: xp.permute_dims(m, (0,)), ValueError),
    "permute_dims repeated": (lambda v, m: xp.permute_dims(m, (0, 0)), ValueError),
    "repeat a negative number": (lambda v, m: xp.repeat(v, -1), ValueError),
    "repeat negative numbers": (lambda v, m: xp.repeat(v, ej.tensor([1, -1, 0, 2])), RuntimeError),
    "repeat one negative number": (lambda v, m: xp.repeat(v, ej.tensor([-1])), RuntimeError),
    "repeat too few": (lambda v, m: xp.repeat(m, ej.tensor([1, 2]), axis=0), ValueError),
    "repeat real numbers": (lambda v, m: xp.repeat(v, v), TypeError),
    "reshape to another size": (lambda v, m: xp.reshape(m, (5, 2)), RuntimeError),
    "reshape with two unknowns": (lambda v, m: xp.reshape(m, (-1, -1)), RuntimeError),
    "reshape that must copy": (lambda v, m: xp.reshape(m.mT, (12,), copy=False), ValueError),
    "roll several without axes": (lambda v, m: xp.roll(m, (1, 2)), ValueError),
    "roll several along one": (lambda v, m: xp.roll(m, (1, 2), axis=0), ValueError),
    "squeeze a larger axis": (lambda v, m: xp.squeeze(m, 0), ValueError),
    "squeeze at no axis": (lambda v, m: xp.squeeze(m, 2), IndexError),
    "stack of nothing": (lambda v, m: xp.stack([]), ValueError),
    "stack of other shapes": (lambda v, m: xp.stack([m, m[:2]]), RuntimeError),
    "stack at no axis": (lambda v, m: xp.stack([m, m], axis=3), IndexError),
    "tile negative": (lambda v, m: xp.tile(v, (-1,)), ValueError),
    "unstack 0-d": (lambda v, m: xp.unstack(v.sum()), IndexError),
    "unstack at no axis": (lambda v, m: xp.unstack(m, axis=-3), IndexError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise(name: str) -> None:
    call, error = WRONG[name]
    with pytest.raises(error):
        call(*tensors([VECTOR, MATRIX]))


def test_reshape_copies_as_it_is_told() -> None:
    (x,) = tensors([MATRIX])
    assert xp.reshape(x, (12,), copy=True).data_ptr() != x.data_ptr()
    assert xp.reshape(x, (12,), copy=False).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (12,)).data_ptr() == x.data_ptr()


def test_broadcast_arrays_is_a_list_and_unstack_a_tuple() -> None:
    (x,) = tensors([MATRIX])
    assert type(xp.broadcast_arrays(x, x)) is list
    assert xp.broadcast_arrays() == []
    assert type(xp.unstack(x)) is tuple
