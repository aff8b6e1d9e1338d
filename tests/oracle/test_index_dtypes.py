"""Which dtypes index, and which values may be written where tensors index, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import compare

KEYS: dict[str, Any] = {
    "places": lambda t: t.tensor([0, 1]),
    "list": lambda t: [0, 1],
    "single place": lambda t: t.tensor(0),
    "single place behind": lambda t: (slice(None), t.tensor(0)),
    "single place and list": lambda t: (t.tensor(0), [1, 0]),
    "mask of rows": lambda t: t.tensor([True, False, True]),
    "mask": lambda t: t.ones(3, 2, dtype=t.bool),
    "mask of nothing": lambda t: t.zeros(3, dtype=t.bool),
    "mask of new rows": lambda t: (None, t.tensor([True, False, True])),
    "mask and places": lambda t: (t.tensor([True, False, True]), t.tensor([0, 1])),
    "True": lambda t: True,
    "slice": lambda t: slice(0, 2),
    "behind a slice": lambda t: (slice(0, 2), t.tensor([0, 1])),
}
VALUES = {"row": (2,), "one": (1,), "number": ()}
DTYPES = ("float16", "float32", "float64", "int64", "bool")


def written(t: Any, x: Any, key: str, shape: Any, dtype: str) -> Any:
    x[KEYS[key](t)] = t.ones(shape, dtype=getattr(t, dtype))
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_values_of_dtypes(key, values, dtype):
    compare(lambda t, x: written(t, x, key, VALUES[values], dtype), np.zeros((3, 2), np.float32), grad=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("key", ["places", "single place", "mask", "mask of rows"])
def test_index_put(key, accumulate, dtype):
    for shape in VALUES.values():
        compare(
            lambda t, x, s=shape: x.index_put((KEYS[key](t),), t.ones(s, dtype=getattr(t, dtype)), accumulate),
            np.zeros((3, 2), np.float32), grad=False,
        )  # fmt: skip


INDEXED: dict[str, Any] = {
    "read": lambda t, x, i: x[i],
    "read behind": lambda t, x, i: x[:, i],
    "read twice": lambda t, x, i: x[i, i],
    "read single": lambda t, x, i: x[i[1]],
    "read single behind": lambda t, x, i: x[:, i[1]],
    "index_put": lambda t, x, i: x.index_put((i,), t.tensor(1.0)),
    "index_put_": lambda t, x, i: x.index_put_((i,), t.tensor(1.0)),
    "written": lambda t, x, i: x.__setitem__(i, 1.0),
}


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint16", "uint32", "float16", "float32", "complex64"]
)
@pytest.mark.parametrize("name", INDEXED)
def test_indices_of_dtypes(name, dtype):
    def run(t: Any, x: Any) -> Any:
        return INDEXED[name](t, x, t.tensor([0, 1]).to(getattr(t, dtype)))

    compare(run, np.arange(4, dtype=np.float32).reshape(2, 2), grad=False)


@pytest.mark.parametrize("indices", [[None], [None, [0]], [[0], None], [3], [slice(0, 1)]], ids=str)
@pytest.mark.parametrize("name", ["index_put", "index_put_"])
def test_what_is_no_tensor_is_no_index_to_put(name, indices):
    def run(t: Any, x: Any) -> Any:
        return getattr(x, name)([t.tensor(i) if isinstance(i, list) else i for i in indices], t.ones(2))

    compare(run, np.zeros((2, 2), np.float32), grad=False)
