"""Files of safetensors, with the safetensors package on the other side."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

import eagerjit as ej
from eagerjit.serialization import LoadError
from eagerjit.serialization import safetensors as ours

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def tensors(library: Any) -> dict[str, Any]:
    """A tensor of every dtype, and some shapes."""
    made = {d: library.arange(6).view(2, 3).to(getattr(library, d)) for d in DTYPES}
    return {**made, "0-d": library.tensor(2.5), "empty": library.ones(0, 3), "view": library.arange(6.0).view(2, 3).T}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, x in found.items():
        y = expected[name]
        assert str(x.dtype).split(".")[1] == str(y.dtype).split(".")[1] and tuple(x.shape) == tuple(y.shape)
        assert x.tolist() == y.tolist()


def test_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    ours.save_file(tensors(ej), path, {"format": "pt"})
    same(safetensors.torch.load_file(path), tensors(ej))
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"}
    written = {name: t.contiguous() for name, t in tensors(torch).items()}
    safetensors.torch.save_file(written, path, {"a": "b"})
    found = ours.load_file(path)
    same(found, tensors(torch))
    found["float32"].add_(1)
    with ours.safe_open(path, framework="pt", device="cpu") as file:
        assert sorted(file.keys()) == sorted(tensors(ej)) and file.metadata() == {"a": "b"}
        assert file.get_tensor("float32").tolist() == [[0, 1, 2], [3, 4, 5]]
        assert file.get_slice("int64")[:, 1:].tolist() == [[1, 2], [4, 5]]
        with pytest.raises(LoadError, match="does not contain tensor nothing"):
            file.get_tensor("nothing")
    same(ours.load(safetensors.torch.save(written)), written)
    same(safetensors.torch.load(ours.save(tensors(ej))), tensors(ej))


def test_modules(tmp_path: Path) -> None:
    first, second = ej.nn.Linear(2, 3), ej.nn.Linear(2, 3)
    ours.save_model(first, tmp_path / "m")
    ours.load_model(second, tmp_path / "m")
    assert ej.equal(first.weight, second.weight) and ej.equal(first.bias, second.bias)


@pytest.mark.parametrize("value, error", [({"a": 1}, TypeError), ({1: ej.ones(1)}, TypeError)])
def test_other_values_are_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ours.save(value)


def file(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "short": b"1234567",
    "huge header": struct.pack("<Q", 2**60) + b"{}",
    "no JSON": file(b"{nothing"),
    "deep JSON": file(b"[" * 100_000),
    "a list": file([]),
    "no entry": file({"a": 3}, bytes(8)),
    "no dtype": file({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
    "unknown dtype": file({"a": entry(dtype="X9")}, bytes(8)),
    "dtype of a kind": file({"a": entry(dtype=[])}, bytes(8)),
    "other size": file({"a": entry(shape=[3])}, bytes(8)),
    "huge size": file({"a": entry(shape=[2**62, 2**62])}, bytes(8)),
    "negative size": file({"a": entry(shape=[-2])}, bytes(8)),
    "size of text": file({"a": entry(shape=["2"])}, bytes(8)),
    "negative place": file({"a": entry(data_offsets=[-8, 0])}, bytes(8)),
    "truncated": file({"a": entry()}, bytes(7)),
    "too long": file({"a": entry()}, bytes(9)),
    "overlap": file({"a": entry(), "b": entry()}, bytes(8)),
    "gap": file({"a": entry(), "b": entry(data_offsets=[9, 17])}, bytes(17)),
    "name twice": file(
        b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    ),
    "many dimensions": file({"a": entry(shape=[1] * 200 + [2])}, bytes(8)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        ours.load(HOSTILE[name])
    (tmp_path / "x").write_bytes(HOSTILE[name])
    with pytest.raises(LoadError, match="cannot be loaded"):
        ours.load_file(tmp_path / "x")
