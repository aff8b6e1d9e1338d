"""Saving and loading, with PyTorch on the other side; damaged and hostile files are refused."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import datetime
import enum
import functools
import io
import os
import pickle
import pickletools
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
from eagerjit.calling.dispatch import OPS
from eagerjit.runtime import dtypes
from eagerjit.runtime.public_names import by_public_name
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
    b"\x00\xff",
    [],
    (),
    {},
    [1, (2, [3])],
    {"a": {1: None, (1, "b"): 2.0}},
    OrderedDict([("b", 1), ("a", 2)]),
    Counter("aab"),
    defaultdict(list, a=[1]),
    {1, 2},
    bytearray(b"ab"),
    complex(1, 2),
    list(range(3000)),
]


def round_trip(value: Any, **options: Any) -> Any:
    buffer = io.BytesIO()
    ej.save(value, buffer)
    return ej.load(io.BytesIO(buffer.getvalue()), **options)


def from_torch(value: Any, **options: Any) -> Any:
    """What eagerjit reads of a file that PyTorch wrote."""
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return ej.load(buffer)


def to_torch(value: Any) -> Any:
    """What PyTorch reads, without running anything, of a file that eagerjit wrote."""
    buffer = io.BytesIO()
    ej.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


FORMATS = [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}]
formats = pytest.mark.parametrize("options", FORMATS, ids=["zip", "before 1.6", "protocol 4"])


@pytest.mark.parametrize(
    "value", [*VALUES, ej.float16, ej.device("cpu"), ej.zeros(2, 3).shape], ids=lambda v: repr(v)[:30]
)
def test_plain_values(value: Any) -> None:
    found = round_trip(value)
    assert found == value and type(found) is type(value)


@formats
@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:30])
def test_plain_values_from_torch(value: Any, options: Any) -> None:
    found = from_torch(value, **options)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("value", [v for v in VALUES if not isinstance(v, defaultdict)], ids=lambda v: repr(v)[:30])
def test_plain_values_to_torch(value: Any) -> None:
    assert to_torch(value) == value


def test_values_that_are_the_librarys_own() -> None:
    value = [torch.float16, torch.device("cpu"), torch.Size([2, 3]), torch.bool]
    assert from_torch(value) == [ej.float16, ej.device("cpu"), ej.Size([2, 3]), ej.bool]
    assert to_torch([ej.float16, ej.device("cpu"), ej.Size([2, 3]), ej.bool]) == value
    assert to_torch([np.float32(2.5), np.int64(3), np.bool_(True)]) == [2.5, 3, True]


def test_numpy_values_from_torch() -> None:
    found = from_torch({"n": np.float64(2.5), "a": np.arange(6, dtype=np.int16).reshape(2, 3), "b": np.array([True])})
    assert found["n"] == 2.5 and isinstance(found["n"], np.float64)
    np.testing.assert_array_equal(found["a"], np.arange(6, dtype=np.int16).reshape(2, 3), strict=True)
    np.testing.assert_array_equal(round_trip(np.eye(3)), np.eye(3), strict=True)


@formats
@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_tensors(dtype: str, shape: tuple[int, ...], options: Any) -> None:
    theirs = torch.randint(0, 2, shape).to(getattr(torch, dtype))
    ours = from_torch(theirs, **options)
    assert ours.dtype is getattr(ej, dtype) and tuple(ours.shape) == shape and ours.tolist() == theirs.tolist()
    ours.zero_()
    back = to_torch(from_torch(theirs))
    assert back.dtype is theirs.dtype and torch.equal(back, theirs)


def test_nan() -> None:
    assert np.isnan(round_trip(float("nan")))


@formats
def test_views_share_memory(options: Any) -> None:
    x = torch.arange(12.0)
    base, matrix, part = from_torch([x, x.view(3, 4).T, x[5:7]], **options)
    base.add_(1)
    assert matrix.tolist() == x.add(1).view(3, 4).T.tolist() and part.tolist() == [6, 7]
    assert base._version == matrix._version == part._version == 1
    ours = ej.arange(12.0)
    for base, matrix, part in (
        round_trip([ours, ours.view(3, 4).T, ours[5:7]]),
        to_torch([ours, ours.view(3, 4).T, ours[5:7]]),
    ):
        base.add_(1)
        assert matrix.tolist() == x.add(1).view(3, 4).T.tolist() and part.tolist() == [6, 7]
    assert ours.tolist() == list(range(12))


SHARED: dict[str, Any] = {
    "two that overlap": lambda t, x: [x[:6], x[4:]],
    "one of a lost one": lambda t, x: [x[2:6]],
    "expanded": lambda t, x: [x[:3].unsqueeze(1).expand(3, 4)],
    "strided": lambda t, x: [t.as_strided(x, (3, 3), (1, 1), 2), x.view(3, 4).t(), x],
    "an element and nothing": lambda t, x: [x[3], x[:0], x],
    "detached": lambda t, x: [x, x.detach()[1:], x.data[2:]],
    "of Parameters": lambda t, x: [t.nn.Parameter(x[1:]), x[2:]],
    "part of a complex one": lambda t, x: [t.complex(x, x + 1).imag],
    "other bits": lambda t, x: [x.view(t.int32)[1:]],
    "complex and its part": lambda t, x: (lambda z: [z, z.real])(t.complex(x, x + 1)),
    "numbers and their bits": lambda t, x: [x, x.view(t.int32)],
}


@pytest.mark.parametrize("name", SHARED)
def test_memory_is_that_of_all_views(name: str) -> None:
    """Strides, places and what a write reaches, whichever library wrote and read; also when saved a second time."""
    found = []
    for source in (torch, ej):
        for target in (torch, ej):
            for saved_again in (False, True):
                try:
                    file = io.BytesIO()
                    source.save(SHARED[name](source, source.arange(12.0)), file)
                    file.seek(0)
                    loaded = target.load(file, weights_only=False)
                    if saved_again:
                        file = io.BytesIO()
                        target.save(loaded, file)
                        file.seek(0)
                        loaded = target.load(file)
                except RuntimeError as error:
                    found.append(type(error))
                    continue
                seen = [
                    (tuple(v.shape), v.stride(), v.storage_offset(), v.untyped_storage().nbytes(), v.tolist())
                    for v in loaded
                ]
                loaded[0].detach().zero_()
                found.append([*seen, [v.tolist() for v in loaded]])
    assert all(one == found[0] for one in found)


def test_what_tensors_are_besides_their_values() -> None:
    x = torch.arange(12.0).view(3, 4).T[1:]
    found, parameter, frozen, leaf, expanded = from_torch(
        [x, torch.nn.Parameter(x), torch.nn.Parameter(x, False), x.clone().requires_grad_(), torch.ones(1).expand(3, 2)]
    )
    assert found.tolist() == x.tolist() and found.stride() == x.stride()
    assert isinstance(parameter, ej.nn.Parameter) and parameter.requires_grad and not frozen.requires_grad
    assert leaf.requires_grad and leaf.is_leaf and expanded.stride() == (0, 0) and expanded.tolist() == [[1, 1]] * 3
    back = to_torch([found, parameter, frozen, leaf, expanded, leaf * 2, ej.from_numpy(np.ones((2, 3), order="F"))])
    assert back[0].tolist() == x.tolist() and isinstance(back[1], torch.nn.Parameter) and not back[2].requires_grad
    assert back[3].requires_grad and back[5].requires_grad and back[5].is_leaf and back[6].tolist() == [[1] * 3] * 2


ROWS = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)


def networks(library: Any) -> tuple[Any, Any]:
    """A network and an optimizer that has made a step."""
    library.manual_seed(0)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4), library.nn.Linear(4, 1))
    optimizer = library.optim.AdamW(
        [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}], eps=0.1
    )
    step(library, model, optimizer)
    return model, optimizer


def step(library: Any, model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(library.tensor(ROWS)).square().sum().backward()
    optimizer.step()


def checkpoint(model: Any, optimizer: Any) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


@pytest.mark.parametrize("options", FORMATS[:2], ids=["zip", "before 1.6"])
def test_training_goes_on_in_the_other_library(options: Any) -> None:
    model, optimizer = networks(torch)
    saved = from_torch(checkpoint(model, optimizer), **options)
    ours, our_optimizer = networks(ej)
    ours.load_state_dict(saved["model"])
    our_optimizer.load_state_dict(saved["optimizer"])
    back = to_torch(checkpoint(ours, our_optimizer))
    theirs, their_optimizer = networks(torch)
    theirs.load_state_dict(back["model"])
    their_optimizer.load_state_dict(back["optimizer"])
    for library, m, o in ((torch, model, optimizer), (ej, ours, our_optimizer), (torch, theirs, their_optimizer)):
        step(library, m, o)
        for name, value in m.state_dict().items():
            expected = model.state_dict()[name]
            np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=0, atol=1e-5, err_msg=name)
    for mine, other in zip(theirs.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_whole_modules() -> None:
    model, _ = networks(torch)
    model.eval()
    buffer = io.BytesIO()
    torch.save(model, buffer)
    with pytest.raises(LoadError, match=r"asks for torch\.nn\.modules\.container\.Sequential"):
        ej.load(io.BytesIO(buffer.getvalue()))
    found = ej.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found(ej.from_numpy(x)).detach().numpy(), expected, rtol=1e-6)
    again = round_trip(found, weights_only=False)
    assert ej.equal(again(ej.from_numpy(x)), found(ej.from_numpy(x))) and not again.training


def test_jitted_modules() -> None:
    inner = ej.jit(ej.nn.Linear(2, 2), fullgraph=True)
    for model in (inner, ej.nn.Sequential(inner, ej.nn.ReLU())):
        again = round_trip(model, weights_only=False)
        assert ej.equal(again(ej.ones(1, 2)), model(ej.ones(1, 2)))
        compiled = again if model is inner else again[0]
        assert compiled.cache_info().compiles == 1 and compiled.options.fullgraph
        with pytest.raises(LoadError, match=r"asks for"):
            round_trip(model)


class Record:
    """A class of a program."""

    def __init__(self, value: Any):
        self.value = value


def test_classes_that_a_program_allows() -> None:
    buffer = io.BytesIO()
    torch.save({"record": Record(3), "options": argparse.Namespace(lr=0.1)}, buffer)
    load = lambda **options: ej.load(io.BytesIO(buffer.getvalue()), **options)  # noqa: E731
    with pytest.raises(pickle.UnpicklingError, match=r"test_serialization\.Record.*add_safe_globals\(\[Record\]\)"):
        load()
    assert load(weights_only=False)["record"].value == 3
    with ej.serialization.safe_globals([Record, argparse.Namespace]):
        assert ej.serialization.get_safe_globals() == [Record, argparse.Namespace]
        found = load()
    assert found["record"].value == 3 and found["options"].lr == 0.1
    with pytest.raises(LoadError):
        load()
    ej.serialization.add_safe_globals([(Record, f"{__name__}.Record")])
    assert load(weights_only=False)["record"].value == 3
    ej.serialization.clear_safe_globals()
    assert not ej.serialization.get_safe_globals()


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    ej.save([ej.ones(1000), 1], path)
    assert ej.load(str(path))[1] == 1 and os.listdir(tmp_path) == ["x.pt"]
    mapped = ej.load(path, mmap=True)[0]
    mapped.add_(1)
    assert mapped.sum().item() == 2000 and ej.load(path)[0].sum().item() == 1000
    torch_mapped = torch.load(path, mmap=True)[0]
    assert torch_mapped.sum() == 1000
    torch.save(torch.ones(7), tmp_path / "theirs.pt")
    assert ej.load(tmp_path / "theirs.pt", mmap=True).sum().item() == 7
    for library in (ej, torch):
        with pytest.raises(RuntimeError, match="Parent directory"):
            library.save(1, tmp_path / "absent" / "x.pt")
        with pytest.raises(FileNotFoundError):
            library.load(tmp_path / "missing")
    ej.save(1, "/dev/null")


VIEWS_OF_ARRAYS: dict[str, Any] = {
    "steps": lambda t, a: [t.from_numpy(a[1:4, 1::2])],
    "a view of a view": lambda t, a: [(x := t.from_numpy(a[1:, ::2])), x[1:, 1:], x.T[2]],
    "a column": lambda t, a: [t.from_numpy(a[:, 3])],
    "one element": lambda t, a: [t.from_numpy(a[3:4, 2:3]), t.from_numpy(a)[2, 3]],
    "other order": lambda t, a: [t.from_numpy(a.T[2:])],
    "none": lambda t, a: [t.from_numpy(a[2:2])],
    "a Parameter": lambda t, a: [t.nn.Parameter(t.from_numpy(a[1:])[1:, 2:]), t.nn.Parameter(t.from_numpy(a)[2:])],
    "parts of one array": lambda t, a: [t.from_numpy(a), t.from_numpy(a[1:]), t.from_numpy(a[:, 1:])],
}


@pytest.mark.parametrize("name", VIEWS_OF_ARRAYS)
def test_views_of_arrays_are_saved_as_they_lie(name: str) -> None:
    """A file holds what a tensor's own memory reaches: not all of the array that NumPy's view is part of."""
    seen = []
    for library in (ej, torch):
        tensors = VIEWS_OF_ARRAYS[name](library, np.arange(40.0).reshape(5, 8))
        buffer = io.BytesIO()
        library.save(tensors, buffer)
        for found in (tensors, library.load(io.BytesIO(buffer.getvalue()))):
            places = [(t.stride(), t.storage_offset(), t.untyped_storage().nbytes(), t.tolist()) for t in found]
            seen.append((places, len({t.untyped_storage().data_ptr() for t in found})))
    assert seen[1:] == seen[:-1]


def test_arrays_that_numpy_has_strided_keep_their_memory() -> None:
    strides = []
    for library in (ej, torch):
        buffer = io.BytesIO()
        narrow = np.ones((3, 1), np.float32)
        wide = library.from_numpy(np.lib.stride_tricks.as_strided(narrow, (3, 4), (4, 0)))
        library.save([wide, library.from_numpy(narrow)], buffer)
        found = library.load(io.BytesIO(buffer.getvalue()))[0]
        strides.append(found.stride())
    assert strides == [(1, 0), (1, 0)]


def test_options(tmp_path: Path) -> None:
    for library in (torch, ej):
        path = tmp_path / f"{library.__name__}.pt"
        library.save(library.ones(1), path, _use_new_zipfile_serialization=False, _disable_byteorder_record=True)
        assert library.load(path, encoding="utf-8").item() == 1
        for call in (lambda t, p: t.save(1, p, compress=True), lambda t, p: t.load(p, compress=True)):
            with pytest.raises(TypeError, match="compress"):
                call(library, path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    ej.save(1, path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        ej.save({"function": lambda: None}, path)
    assert ej.load(path) == 1 and os.listdir(tmp_path) == ["x.pt"]


def test_places() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    for where in ("cpu", ej.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert ej.load(io.BytesIO(buffer.getvalue()), map_location=where).sum().item() == 2
    on_gpu = rewritten(
        buffer.getvalue(), lambda text: text.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    )
    with pytest.raises(RuntimeError, match=r"device cuda:0.*map_location"):
        ej.load(io.BytesIO(on_gpu))
    assert ej.load(io.BytesIO(on_gpu), map_location="cpu").sum().item() == 2
    assert ej.load(io.BytesIO(on_gpu), map_location={"cuda:0": "cpu"}).sum().item() == 2


def test_pickle_and_copies_of_tensors_and_modules() -> None:
    x = ej.arange(6.0).view(2, 3).T
    model = ej.nn.Linear(2, 3)
    for made in (pickle.loads(pickle.dumps((x, model))), copy.deepcopy((x, model)), copy.copy((x, model))):
        assert ej.equal(made[0], x) and ej.equal(made[1](x), model(x))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert ej.equal(pickle.loads(pickle.dumps(x, protocol)), x)
    shallow = copy.copy(x)
    shallow.add_(1)
    assert ej.equal(shallow, x)


# -- damaged files ----------------------------------------------------------------------------------------------------


def content() -> bytes:
    buffer = io.BytesIO()
    ej.save({"a": ej.arange(40.0), "b": [1, "x"]}, buffer)
    return buffer.getvalue()


def old_content() -> bytes:
    buffer = io.BytesIO()
    torch.save({"a": torch.arange(40.0), "b": [1, "x"]}, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def rewritten(data: bytes, change: Any, record: str = "archive/data.pkl", **options: Any) -> bytes:
    """An archive with another content of one record, sums included."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", **options) as target:
        for name in source.namelist():
            target.writestr(name, change(source.read(name)) if name == record else source.read(name))
    return buffer.getvalue()


@pytest.mark.parametrize("make", [content, old_content])
def test_truncated_files_are_refused(make: Any) -> None:
    whole = make()
    for size in range(1, len(whole), 3):
        with pytest.raises(LoadError):
            ej.load(io.BytesIO(whole[:size]))


def test_flipped_bits_change_nothing_or_are_noticed() -> None:
    whole = content()
    noticed = 0
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1 << (position % 8)
        try:
            found = ej.load(io.BytesIO(bytes(changed)))
        except LoadError:
            noticed += 1
        else:
            assert found["b"] == [1, "x"] and ej.equal(found["a"], ej.arange(40.0)), position
    assert noticed > 400


@pytest.mark.parametrize("seed", range(4))
def test_pickles_of_random_bytes_are_data_or_an_error(seed: int) -> None:
    generator = np.random.default_rng(seed)
    whole = content()
    (text,) = [zipfile.ZipFile(io.BytesIO(whole)).read("archive/data.pkl")]
    codes = np.array([ord(op.code) for op in pickletools.opcodes], np.uint8)
    for _ in range(150):
        changed = bytearray(text)
        for position in generator.integers(2, len(text), generator.integers(1, 6)):
            changed[position] = int(generator.choice(codes)) if generator.random() < 0.7 else generator.integers(256)
        try:
            ej.load(io.BytesIO(rewritten(whole, lambda _, changed=changed: bytes(changed))), weights_only=False)
        except LoadError:
            continue


class Evil:
    """Runs a function when it is loaded by pickle."""

    def __init__(self, *call: Any):
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], tuple(self.call[1:])


@pytest.mark.parametrize("weights_only", [True, None])
@pytest.mark.parametrize(
    "value, text",
    [
        (Evil(os.system, "exit 1"), r"asks for posix\.system"),
        (Evil(eval, "1 / 0"), r"asks for builtins\.eval"),
        (Evil(getattr, 1, "real"), r"asks for builtins\.getattr"),
        (Evil(bytes, 10**12), r"asks for builtins\.bytes"),
        ([os.path.join], r"asks for posixpath\.join"),
    ],
)
def test_functions_are_never_called(value: Any, text: str, weights_only: bool | None) -> None:
    for options in FORMATS:
        buffer = io.BytesIO()
        torch.save(value, buffer, **options)
        with pytest.raises(LoadError, match=text):
            ej.load(io.BytesIO(buffer.getvalue()), weights_only=weights_only)


class Kind(enum.Enum):
    """Keys of a program."""

    FIRST = 1


@dataclasses.dataclass
class Settings:
    """A class of a program whose instances have fields."""

    rate: float
    shape: tuple[int, ...]


class Table(dict):
    """A dictionary of a program."""


@formats
def test_names_of_python_2_are_known(options: Any) -> None:
    for value in (int, [int, {"kind": int}], range(3)):
        file = io.BytesIO()
        ej.save(value, file, **options)
        assert ej.load(io.BytesIO(file.getvalue()), weights_only=False) == value
        assert torch.load(io.BytesIO(file.getvalue()), weights_only=False) == value


def test_trusted_files_hold_objects_of_any_class() -> None:
    numbers = np.random.RandomState(3)
    table = Table(a=torch.ones(2))
    table.name = "table"
    value = {
        "settings": Settings(0.5, (2, 3)), "queue": deque([1, torch.zeros(1)], 5), Kind.FIRST: Kind.FIRST,
        "when": datetime.datetime(2020, 1, 2), "table": table, "numbers": numbers, "path": Path("a") / "b",
        "called": Evil(os.path.join, "a", "b"), "function": os.path.join, "set": {Kind.FIRST}, "object": object(),
        "ordered": OrderedDict([(Kind.FIRST, 1)]), "partial": functools.partial(os.path.join, "a"),
    }  # fmt: skip
    for options in FORMATS:
        buffer = io.BytesIO()
        torch.save(value, buffer, **options)
        found = ej.load(io.BytesIO(buffer.getvalue()), weights_only=False)
        assert found["settings"] == value["settings"] and found["when"] == value["when"]
        assert found["queue"].maxlen == 5 and found["queue"][1].tolist() == [0.0]
        assert type(found["table"]) is Table and found["table"].name == "table" and found["table"]["a"].sum() == 2
        assert found["called"] == "a/b" and found["function"] is os.path.join and found["partial"]("b") == "a/b"
        assert found[Kind.FIRST] is Kind.FIRST and found["set"] == {Kind.FIRST} and type(found["object"]) is object
        assert found["ordered"] == value["ordered"] and found["path"] == value["path"]
        assert found["numbers"].get_state()[1].tolist() == numbers.get_state()[1].tolist()
        with pytest.raises(LoadError, match="asks for"):
            ej.load(io.BytesIO(buffer.getvalue()))


@pytest.mark.parametrize("missing", [b"nowhere\nthing\n", b"os\nnothing\n", b"torch.nn\nNothing\n", b"\nthing\n"])
def test_what_trusted_files_name_and_is_not_here(missing: bytes) -> None:
    with pytest.raises(LoadError, match=r"asks for .*, which is not here"):
        ej.load(io.BytesIO(pickled(b"\x80\x02c" + missing + b".")), weights_only=False)


def pickled(body: bytes) -> bytes:
    """An archive with one memory of 40 floats, whose pickle is this."""
    return rewritten(content(), lambda text: body)


_MEMORY = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x28tQ"


def tensor_pickle(rest: bytes = b"K\x00K\x02\x85K\x01\x85\x89N") -> bytes:
    """A pickle of a tensor of 40 floats, described by offset, size and so on."""
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + _MEMORY + rest + b"tR."


_TUPLES = b"".join(b"\x86q" + bytes([i]) + b"h" + bytes([i]) for i in range(1, 60))

HOSTILE: dict[str, bytes] = {
    "no pickle": b"not a pickle",
    "empty": b"",
    "end missing": b"\x80\x02K\x01",
    "nothing on the stack": b"\x80\x02.",
    "no mark": b"\x80\x02K\x01t.",
    "no memo": b"\x80\x02h\x07.",
    "huge text": b"\x80\x02X\xff\xff\xff\xff.",
    "huge bytes": b"\x80\x05\x8e" + struct.pack("<Q", 2**62) + b".",
    "huge bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "huge number": b"\x80\x02\x8b" + struct.pack("<i", -5) + b".",
    "huge memo index": b"\x80\x02K\x01r\xff\xff\xff\xff0.",
    "long decimal": b"\x80\x02L" + b"9" * 10_000 + b"L\n.",
    "call of a number": b"\x80\x02K\x01)R.",
    "call of a dtype": b"\x80\x02ctorch\nfloat32\n)R.",
    "call of a class": b"\x80\x02ctorch\nTensor\n)R.",
    "object of a class": b"\x80\x02ctorch\nTensor\n)\x81.",
    "append to a dict": b"\x80\x02}K\x01a.",
    "items of a list": b"\x80\x02]K\x01K\x02s.",
    "unhashable key": b"\x80\x02}]K\x02s.",
    "slow key": b"\x80\x02}K\x01q\x00h\x00" + _TUPLES + b"0K\x02s.",
    "extension": b"\x80\x02\x82\x01.",
    "unknown id": b"\x80\x02K\x01Q.",
    "old id": b"\x80\x02Pabc\n.",
    "missing memory": tensor_pickle().replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x009"),
    "path as memory": tensor_pickle().replace(b"X\x01\x00\x00\x000", b"X\x0c\x00\x00\x00../../passwd"),
    "unknown memory": tensor_pickle().replace(b"FloatStorage", b"QInt8Storage"),
    "memory too small": tensor_pickle().replace(b"K\x28tQ", b"K\x29tQ"),
    "huge memory": tensor_pickle().replace(b"K\x28tQ", b"\x8a\x08" + struct.pack("<q", 2**60) + b"tQ"),
    "beyond its end": tensor_pickle(rest=b"K\x00K\x29\x85K\x01\x85\x89N"),
    "offset beyond": tensor_pickle(rest=b"K\x27K\x02\x85K\x01\x85\x89N"),
    "negative offset": tensor_pickle(rest=b"J\xff\xff\xff\xffK\x02\x85K\x01\x85\x89N"),
    "negative size": tensor_pickle(rest=b"K\x00J\xff\xff\xff\xff\x85K\x01\x85\x89N"),
    "negative stride": tensor_pickle(rest=b"K\x05K\x02\x85J\xff\xff\xff\xff\x85\x89N"),
    "ranks differ": tensor_pickle(rest=b"K\x00K\x02\x85K\x01K\x01\x86\x89N"),
    "size of text": tensor_pickle(rest=b"K\x00X\x01\x00\x00\x00a\x85K\x01\x85\x89N"),
    "huge sizes": tensor_pickle(rest=b"K\x00\x8a\x08" + struct.pack("<q", 2**62) + b"K\x08\x86K\x00K\x00\x86\x89N"),
    "many dimensions": tensor_pickle(rest=b"K\x00(" + b"K\x01" * 200 + b"t(" + b"K\x01" * 200 + b"t\x89N"),
    "tensor without memory": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x00))\x89NtR.",
    "parameter of a number": b"\x80\x02ctorch._utils\n_rebuild_parameter\n(K\x01\x88}tR.",
    "state of a tensor": tensor_pickle()[:-1] + b"}b.",
    "array of objects": b"\x80\x02cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.",
    "array of an odd size": (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85X\x01\x00\x00\x00btR"
        b"(K\x01K\x09\x85cnumpy\ndtype\nX\x02\x00\x00\x00f8\x85R\x89X\x01\x00\x00\x00atb."
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(name: str) -> None:
    with pytest.raises(LoadError, match="the file cannot be loaded"):
        ej.load(io.BytesIO(pickled(HOSTILE[name])), weights_only=False)


def test_the_pattern_of_the_hostile_pickles_is_sound() -> None:
    assert ej.load(io.BytesIO(pickled(tensor_pickle()))).tolist() == [0, 1]


def zipped(*records: tuple[str, bytes], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, data in records:
            archive.writestr(name, data)
    return buffer.getvalue()


def overlapping() -> bytes:
    """An archive whose directory names one record's bytes 200 times."""
    names = [f"a/data/{i}" for i in range(200)]
    items = b"".join(
        f"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX{struct.pack('<I', len(str(i))).decode()}{i}".encode()
        + b"X\x03\x00\x00\x00cpuM\x00\x40tQ"
        for i in range(200)
    )
    data = zipped(("a/data.pkl", b"\x80\x02]" + b"(" + items + b"e."), *((name, bytes(1 << 16)) for name in names[:1]))
    first = zipfile.ZipFile(io.BytesIO(data)).getinfo(names[0])
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name in names[1:]:
            info = copy.copy(first)
            info.filename = info.orig_filename = name
            archive.filelist.append(info)
            archive.NameToInfo[name] = info
        archive._didModify = True  # type: ignore[attr-defined]
    return buffer.getvalue()


FILES: dict[str, tuple[bytes, str]] = {
    "zeros": (bytes(1000), "no file of torch.save"),
    "text": (b"hello world, this is text" * 9, "no file of torch.save"),
    "zip without a directory": (b"PK\x03\x04" + bytes(100), "no complete zip archive"),
    "another archive": (zipped(("hello.txt", b"x")), "without a record data.pkl"),
    "TorchScript": (zipped(("a/data.pkl", b"\x80\x02N."), ("a/constants.pkl", b"")), "TorchScript"),
    "other byte order": (zipped(("a/data.pkl", b"\x80\x02N."), ("a/byteorder", b"big")), "byte order"),
    "compressed": (zipped(("a/data.pkl", bytes(1 << 24)), compression=zipfile.ZIP_DEFLATED), "compressed"),
    "overlapping records": (overlapping(), "overlap"),
    "other pickle": (pickle.dumps({"a": 1}, 2), "no file of torch.save"),
    "old version": (pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(7, 2), "unknown version"),
    "old, huge memory": (
        b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
        + tensor_pickle().replace(b"K\x28tQ", b"\x8a\x08" + struct.pack("<q", 2**60) + b"NtQ"),
        "truncated",
    ),
}


def test_empty_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    for library in (ej, torch):
        with pytest.raises(EOFError):
            library.load(tmp_path / "x")
        with pytest.raises(RuntimeError, match="mmap"):
            library.load(tmp_path / "x", mmap=True)


@pytest.mark.parametrize("name", FILES)
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    data, text = FILES[name]
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(LoadError, match=text):
        ej.load(tmp_path / "x")
    with pytest.raises(LoadError):
        ej.load(tmp_path / "x", mmap=True)


@pytest.mark.parametrize(
    "function",
    [
        ej.mul, ej.add, ej.relu, ej.cat, ej.zeros, ej.softmax, ej.nn.functional.gelu,
        ej.nn.functional.conv2d, ej.special.erf, ej.Tensor.view, ej.Tensor.exp_, ej.Tensor.__add__,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_public_functions_are_pickled_by_name(function):
    assert pickle.loads(pickle.dumps(function)) == function


class WithFunctions(ej.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = ej.nn.Linear(3, 3)
        self.steps = [ej.relu, ej.nn.functional.gelu, ej.add]

    def forward(self, x):
        x = self.linear(x)
        return self.steps[2](self.steps[0](x), self.steps[1](x))


def test_what_holds_functions_is_saved(tmp_path):
    module, x = WithFunctions(), ej.randn(2, 3)
    assert pickle.loads(pickle.dumps(module))(x).equal(module(x))
    ej.save(module.steps, tmp_path / "steps.pt")
    assert ej.load(tmp_path / "steps.pt") == module.steps


def test_an_operator_that_nobody_can_name_is_an_error():
    with pytest.raises(pickle.PicklingError, match="no module has it"):
        pickle.dumps(OPS["mul"].operator(reflected=True))


@pytest.mark.parametrize("place", [("os", "system"), ("eagerjit", "load"), ("eagerjit.hub", "os.system")])
def test_a_name_in_a_file_finds_no_other_functions(place):
    with pytest.raises(pickle.UnpicklingError):
        by_public_name(*place)
