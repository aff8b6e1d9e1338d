"""Memory of a device shared with other libraries: DLPack and the CUDA array interface."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
import torch
from machines import Machine

import eagerjit as ej
from eagerjit.tensors import dlpack

pytestmark = pytest.mark.usefixtures("tensors")


class Shown:
    """An array of another library, which shows what a tensor does."""

    def __init__(self, tensor: Any, **changes: Any):
        self.tensor, self.__cuda_array_interface__ = tensor, {**tensor.__cuda_array_interface__, **changes}


class Exporting:
    """An array of another library that has DLPack alone, works in a stream, and notes for which it is asked."""

    def __init__(self, tensor: Any, own: Any):
        self.tensor, self.own, self.streams = tensor, own, []

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        with ej.cuda.stream(self.own):
            return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def matrix(dtype: Any = ej.float32) -> Any:
    return ej.arange(6).reshape(2, 3).to("cuda", dtype)


INTEGERS = "uint8 int8 int16 int32 int64 uint16 uint32 uint64".split()
OTHERS = "bool float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", INTEGERS + OTHERS)
def test_dtypes_there_and_back(name: str) -> None:
    x = matrix(getattr(ej, name))
    for shared in (ej.from_dlpack(x), ej.from_dlpack(ej.utils.dlpack.to_dlpack(x))):
        assert shared.data_ptr() == x.data_ptr() and shared.dtype is x.dtype and shared.is_cuda
        assert shared.tolist() == x.tolist()
    described = x.__cuda_array_interface__
    assert described == {
        "typestr": "<f2" if name == "bfloat16" else np.dtype(name).str, "shape": (2, 3), "strides": None,
        "data": (x.data_ptr(), False), "version": 2,
    }  # fmt: skip
    if name != "bfloat16":
        assert ej.as_tensor(Shown(x), device="cuda").tolist() == x.tolist()


def shown(x: Any) -> Any:
    return ej.as_tensor(Shown(x), device="cuda")


@pytest.mark.parametrize("share", [ej.from_dlpack, shown])
def test_memory_is_shared_and_kept(target: Machine, share: Any) -> None:
    x = matrix()
    views = [share(view) for view in (x, x.T, x[:, 1:], x[:0], x[0, 2].expand(4), x[1, 2])]
    assert [v.tolist() for v in views] == [
        [[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]], [[1, 2], [4, 5]], [], [2] * 4, 5,
    ]  # fmt: skip
    assert views[1].stride() == (1, 3) and views[2].stride() == (3, 1) and views[4].stride() == (0,)
    views[0].add_(1)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]] and (views[0] + x).sum().item() == 42
    before = ej.cuda.memory_allocated()
    del x
    assert views[1].tolist() == [[1, 4], [2, 5], [3, 6]] and ej.cuda.memory_allocated() == before
    del views
    gc.collect()
    assert ej.cuda.memory_allocated() < before and not dlpack._exported


def test_a_capsule_that_nobody_takes() -> None:
    capsule = matrix().__dlpack__()
    assert len(dlpack._exported) == 1
    del capsule
    assert not dlpack._exported
    capsule = ej.utils.dlpack.to_dlpack(matrix())
    ej.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="used already"):
        ej.from_dlpack(capsule)


def test_streams_wait_for_each_other(target: Machine) -> None:
    side, x = ej.cuda.Stream(), matrix()
    side.wait_stream(ej.cuda.current_stream())
    with ej.cuda.stream(side):
        x = x + 1
    source = Exporting(x, side)
    shared = ej.from_dlpack(source)
    assert source.streams == [1] and shared.tolist() == [[1, 2, 3], [4, 5, 6]]
    with ej.cuda.stream(side):
        doubled = ej.from_dlpack(source) * 2
    assert source.streams[1] == side.cuda_stream
    shown = ej.as_tensor(Shown(doubled, stream=side.cuda_stream, version=3), device="cuda")
    assert (shown + 1).tolist() == [[3, 5, 7], [9, 11, 13]]
    with pytest.raises(BufferError, match="per-thread"):
        x.__dlpack__(stream=2)
    with pytest.raises(AssertionError, match="unsupported stream"):
        x.__dlpack__(stream=0)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream="1")


def test_where_data_of_a_device_goes() -> None:
    shown = Shown(matrix())
    assert ej.as_tensor(shown).is_cpu and ej.tensor(shown).tolist() == [[0, 1, 2], [3, 4, 5]]
    copied = ej.tensor(shown, device="cuda", dtype=ej.float64, requires_grad=True)
    assert copied.is_cuda and copied.dtype is ej.float64 and copied.is_leaf and copied.requires_grad
    assert copied.data_ptr() != shown.tensor.data_ptr()
    with ej.device("cuda"):
        assert ej.as_tensor(shown).data_ptr() == shown.tensor.data_ptr() == ej.asarray(shown).data_ptr()
        assert ej.tensor(shown).data_ptr() != shown.tensor.data_ptr()
    x = matrix()
    assert ej.from_dlpack(x, device="cpu").tolist() == x.tolist()
    assert ej.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert ej.from_dlpack(x, device="cuda").data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match="without copying"):
        ej.from_dlpack(x, device="cpu", copy=False)


def test_what_is_refused() -> None:
    x = matrix()
    with pytest.raises(BufferError, match="require gradient"):
        x.requires_grad_().__dlpack__()
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = x.__cuda_array_interface__
    x = x.detach()
    with pytest.raises(TypeError, match="read only"):
        ej.as_tensor(Shown(x, data=(x.data_ptr(), True)))
    with pytest.raises(ValueError, match="strides"):
        ej.as_tensor(Shown(x, strides=(13, 4)))
    with pytest.raises(TypeError, match=">f4"):
        ej.as_tensor(Shown(x, typestr=">f4"))
    with pytest.raises(ValueError, match="not memory of a CUDA device"):
        ej.as_tensor(Shown(x, data=(ctypes.addressof(ctypes.c_int()), False)))
    with pytest.raises(BufferError, match="cannot export"):
        x.__dlpack__(dl_device=(1, 0))
    for library in (ej, torch):
        assert not hasattr(library.ones(2), "__cuda_array_interface__")
        with pytest.raises(AttributeError, match="non-CUDA tensor type"):
            _ = library.ones(2).__cuda_array_interface__
