"""Storages: the memory under tensors as bytes and elements, compared with PyTorch's."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch

import eagerjit as ej


def written(t: Any, write: Any) -> Any:
    """A tensor of which a storage was written."""
    x = t.arange(3.0)
    write(x)
    return x.tolist()


def pair(t: Any) -> Any:
    """The storages of a tensor's memory."""
    x = t.arange(6.0)
    return x.untyped_storage(), x[2:].storage()


def places(t: Any, *tensors: Any) -> Any:
    """Where each lies in its storage, how large that is, and whether it is the first one's."""
    first, *_ = storages = [x.untyped_storage() for x in tensors]
    return [(x.storage_offset(), len(s), s._cdata == first._cdata) for x, s in zip(tensors, storages, strict=True)]


def given(t: Any) -> Any:
    """Tensors that were given the memory of a view, and what was taken of them before they were given other memory."""
    x, y = t.ones(2), t.arange(6.0)
    x.data = y[3:]
    kept = x.data
    before = places(t, y, x, x[1:], kept)
    x.data = t.ones(4)
    return before, places(t, y, x, kept), kept.as_strided((6,), (1,), 0).tolist()


CALLS: dict[str, Any] = {
    "data of views": lambda t: (lambda x: places(t, x, x[1:].data, x[1:].data[1:], x[2:].data.detach(), x.data))(
        t.arange(6.0)),
    "data of leaves": lambda t: (lambda x: places(t, x, x.data, x[1:].data))(t.arange(6.0)[2:].requires_grad_()),
    "data of parameters": lambda t: (lambda x: places(t, x, t.nn.Parameter(x[1:]), t.nn.Parameter(x[1:]).data))(
        t.arange(6.0)),
    "data on meta": lambda t: t.empty(6, device="meta")[2:].data.storage_offset(),
    "data given": given,
    "text": lambda t: [repr(s) for s in pair(t)],
    "places": lambda t: [(str(s.device), s.is_cuda, s.is_sparse, s.is_shared()) for s in pair(t)],
    "sizes": lambda t: [(len(s), s.size(), s.nbytes(), s.element_size()) for s in pair(t)],
    "elements": lambda t: [(s[5], s.tolist(), list(s)) for s in pair(t)],
    "parts": lambda t: pair(t)[0][4:8].tolist(),
    "beyond": lambda t: pair(t)[0][100],
    "steps": lambda t: pair(t)[0][::2],
    "elements set": lambda t: written(t, lambda x: x.storage().__setitem__(1, 7.0)),
    "bytes set": lambda t: written(t, lambda x: x.untyped_storage().__setitem__(slice(0, 8), 0)),
    "filled": lambda t: written(t, lambda x: x.storage().fill_(2.0)),
    "copied": lambda t: written(t, lambda x: x.untyped_storage().copy_(t.ones(3).untyped_storage())),
    "copies": lambda t: [(s.clone().tolist(), copy.deepcopy(s).data_ptr() == s.data_ptr()) for s in pair(t)],
    "moved": lambda t: [s.cpu().data_ptr() == s.data_ptr() for s in pair(t)[:1]],
    "made": lambda t: (t.UntypedStorage(8).nbytes(), t.UntypedStorage([1, 2]).tolist(), t.UntypedStorage().nbytes()),
    "made of text": lambda t: t.UntypedStorage("ab"),
    "made typed": lambda t: t.TypedStorage([1.0, 2.0], dtype=t.float64).tolist(),
    "made over bytes": lambda t: t.TypedStorage(wrap_storage=pair(t)[0], dtype=t.float32).tolist(),
    "old names": lambda t: (t.FloatStorage(3).size(), t.LongStorage([3]).tolist(), str(t.HalfStorage.dtype)),
    "instances": lambda t: [isinstance(pair(t)[1], k) for k in (t.FloatStorage, t.LongStorage, t.TypedStorage)],
    "is_storage": lambda t: [t.is_storage(x) for x in (*pair(t), t.ones(1))],
    "types": lambda t: (t.ones(1).storage_type() is t.FloatStorage, [s.type() for s in pair(t)]),
    "other dtypes": lambda t: [getattr(pair(t)[1], k)().tolist() for k in "double long int bool byte half".split()],
    "set_": lambda t: [t.tensor([]).set_(s, 1, (2, 2), (1, 2)).tolist() for s in pair(t)],
    "tensors over": lambda t: (t.FloatTensor(pair(t)[1]).tolist(), t.Tensor(pair(t)[1]).tolist()),
    "shared": lambda t: (t.ones(2).share_memory_().untyped_storage().is_shared(),
                         t.UntypedStorage(4).share_memory_().is_shared()),
    "the same": lambda t: (lambda x: (x.untyped_storage() == x[1:].untyped_storage(),
                                      x.untyped_storage()._cdata == x[1:].untyped_storage()._cdata))(t.ones(3)),
    "on meta": lambda t: (lambda s: (str(s.device), s.data_ptr(), s.nbytes(), repr(s)))(
        t.empty(2, device="meta").untyped_storage()),
    "read on meta": lambda t: t.empty(2, device="meta").untyped_storage().tolist(),
    "made on meta": lambda t: str(t.UntypedStorage(8, device="meta").device),
}  # fmt: skip


def outcome(call: Any, library: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(library)
        except (RuntimeError, IndexError, TypeError) as error:
            return type(error)


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name: str) -> None:
    assert outcome(CALLS[name], ej) == outcome(CALLS[name], torch)
