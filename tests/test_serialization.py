"""Saving and loading: everything comes back, and damaged or hostile files are refused."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.runtime import dtypes
from eagerjit.serialization import LoadError

VALUES: list[Any] = [
    None,
    True,
    3,
    -(2**70),
    2.5,
    float("inf"),
    float("-inf"),
    "text \u2603",
    "",
    [],
    (),
    {},
    [1, (2, [3])],
    {"a": {1: None, (1, "b"): 2.0}},
    OrderedDict([("b", 1), ("a", 2)]),
    {1, 2},
    ej.float16,
    ej.device("cpu"),
    ej.zeros(2, 3).shape,
    {"float": [1]},
]


def round_trip(value: Any) -> Any:
    buffer = io.BytesIO()
    ej.save(value, buffer)
    return ej.load(io.BytesIO(buffer.getvalue()))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values(value: Any) -> None:
    found = round_trip(value)
    assert found == value and type(found) is type(value)


def test_nan() -> None:
    assert np.isnan(round_trip(float("nan")))


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_tensors(dtype: str, shape: tuple[int, ...]) -> None:
    x = ej.randint(0, 2, shape).to(getattr(ej, dtype))
    y = round_trip(x)
    assert y.dtype is x.dtype and tuple(y.shape) == shape and ej.equal(x, y)
    y.zero_()


def test_strided_and_parameters() -> None:
    x = ej.arange(12.0).view(3, 4).T[1:]
    found, parameter, leaf, result = round_trip(
        [x, ej.nn.Parameter(x), x.clone().requires_grad_(), x.requires_grad_() * 2]
    )
    assert ej.equal(found, x) and isinstance(parameter, ej.nn.Parameter)
    assert parameter.requires_grad and leaf.requires_grad and not result.requires_grad and result.is_leaf


def test_shared_memory_stays_shared() -> None:
    x = ej.ones(3)
    a, b = round_trip((x, x.detach()))
    a.add_(1)
    assert ej.equal(a, b)


def test_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    model = ej.nn.Sequential(ej.nn.Linear(3, 4), ej.nn.LayerNorm(4))
    optimizer = ej.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = ej.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        model(ej.ones(2, 3)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    ej.save({"m": model.state_dict(), "o": optimizer.state_dict(), "s": scheduler.state_dict()}, path)
    saved = ej.load(path)
    other = ej.nn.Sequential(ej.nn.Linear(3, 4), ej.nn.LayerNorm(4))
    other_optimizer = ej.optim.AdamW(other.parameters())
    other_scheduler = ej.optim.lr_scheduler.StepLR(other_optimizer, 2)
    other.load_state_dict(saved["m"])
    other_optimizer.load_state_dict(saved["o"])
    other_scheduler.load_state_dict(saved["s"])
    for m, o, s in ((model, optimizer, scheduler), (other, other_optimizer, other_scheduler)):
        o.zero_grad()
        m(ej.ones(2, 3)).square().sum().backward()
        o.step()
        s.step()
    assert all(ej.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    ej.save(1, path)
    with pytest.raises(TypeError, match="cannot save"):
        ej.save({"model": ej.nn.Linear(1, 1)}, path)
    assert ej.load(path) == 1 and os.listdir(tmp_path) == ["x.pt"]


def content() -> bytes:
    buffer = io.BytesIO()
    ej.save({"a": ej.arange(40.0), "b": [1, "x"]}, buffer)
    return buffer.getvalue()


def test_truncated_files_are_refused() -> None:
    whole = content()
    for size in range(0, len(whole) - 64, 7):
        with pytest.raises(LoadError):
            ej.load(io.BytesIO(whole[:size]))


def test_flipped_bits_are_noticed() -> None:
    whole = content()
    end = len(whole) - (-40 * 4 % 64)  # what follows is padding
    for position in range(end):
        changed = bytearray(whole)
        changed[position] ^= 1 << (position % 8)
        with pytest.raises(LoadError):
            ej.load(io.BytesIO(bytes(changed)))


def forged(header: Any, data: bytes = b"") -> io.BytesIO:
    """A file with a valid frame around any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(struct.pack("<8sIIQ", b"eagerjit", 1, zlib.crc32(text), len(text)) + text + data)


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "float32", "shape": [2], "offset": 0, "bytes": 8, "crc": zlib.crc32(bytes(8)), **changes}


HOSTILE: list[Any] = [
    b"not json",
    [],
    7,
    {},
    {"root": 1},
    {"root": {"unknown": [1]}, "tensors": []},
    {"root": {"tensor": [0, False]}, "tensors": []},
    {"root": {"tensor": [-1, False]}, "tensors": [entry()]},
    {"root": {"tensor": ["0", False]}, "tensors": [entry()]},
    {"root": [1], "tensors": []},
    {"root": {"list": 5}, "tensors": []},
    {"root": {"dict": [[1]]}, "tensors": []},
    {"root": {"dict": [[{"list": []}, 1]]}, "tensors": []},
    {"root": {"dtype": "object"}, "tensors": []},
    {"root": {"float": "x"}, "tensors": []},
    {"root": None, "tensors": [entry(dtype="object")]},
    {"root": None, "tensors": [entry(shape=[2**62, 4])]},
    {"root": None, "tensors": [entry(shape=[-2])]},
    {"root": None, "tensors": [entry(offset=4)]},
    {"root": None, "tensors": [entry(offset=-8)]},
    {"root": None, "tensors": [entry(bytes=7)]},
    {"root": None, "tensors": [entry(crc=1)]},
    {"root": None, "tensors": [entry(shape="2")]},
    {"root": None, "tensors": [{}]},
    {"root": {"device": "cuda"}, "tensors": []},
    b'{"tensors": [], "root": ' + b'{"list": [' * 100_000 + b"]}" * 100_000 + b"}",
    {"root": {"set": [{"list": []}]}, "tensors": []},
]


@pytest.mark.parametrize("header", HOSTILE, ids=lambda h: str(h)[:40])
def test_hostile_headers_are_refused(header: Any) -> None:
    with pytest.raises(LoadError):
        ej.load(forged(header, bytes(8)))


def test_other_files_are_refused(tmp_path: Path) -> None:
    for data in (
        b"",
        b"PK\x03\x04" + bytes(100),
        bytes(1000),
        struct.pack("<8sIIQ", b"eagerjit", 9, 0, 0),
        struct.pack("<8sIIQ", b"eagerjit", 1, 0, 2**60),
    ):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(LoadError):
            ej.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        ej.load(tmp_path / "missing")
