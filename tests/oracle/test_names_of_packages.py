"""Names beside the tensor library itself that packages ask for, against PyTorch's."""

from __future__ import annotations

import collections
import importlib
import pkgutil
import re
from typing import Any

import pytest
import torch
import torch.utils._foreach_utils
import torch.utils._pytree

import eagerjit
import eagerjit._C
import eagerjit._dynamo
import eagerjit.ao.quantization
import eagerjit.library
import eagerjit.nn.parallel
import eagerjit.utils._pytree

LIBRARIES = (torch, eagerjit)
Pair = collections.namedtuple("Pair", "first second")
NESTED: Any = [1, (2, 3), {"a": 4}, Pair(5, [6]), collections.deque([7], maxlen=3), collections.OrderedDict(b=8)]


def kinds_of_containers(t: Any) -> Any:
    tree = t.utils._pytree
    yield [tree._get_node_type(part) in tree.SUPPORTED_NODES for part in (*NESTED, "text")]
    for part in NESTED[1:]:
        children, context = (node := tree.SUPPORTED_NODES[tree._get_node_type(part)]).flatten_fn(part)
        yield list(children), node.unflatten_fn(list(children), context)
    leaves, spec = tree.tree_flatten(NESTED)
    yield leaves, tree.tree_unflatten(leaves, spec), spec.num_leaves
    yield tree.LeafSpec() == tree.tree_flatten(3)[1], tree.LeafSpec().is_leaf(), tree.LeafSpec().num_leaves


def storages(t: Any) -> Any:
    x = t.ones(2)
    yield isinstance(x.untyped_storage(), t.UntypedStorage), t.is_storage(x.untyped_storage()), t.is_storage(x)


def keys_of_dispatch(t: Any) -> Any:
    key = t._C.DispatchKey
    both = t._C.DispatchKeySet(key.CPU) | t._C.DispatchKeySet(key.AutocastCPU)
    yield both.has(key.CPU), both.has(key.CUDA), both.add(key.CUDA).has(key.CUDA)


def kind_of_default_device(t: Any) -> Any:
    yield t._C._get_default_device()
    t.set_default_device("meta")
    try:
        yield t._C._get_default_device()
    finally:
        t.set_default_device(None)


def arguments_of_to(t: Any) -> Any:
    x = t.ones(1, dtype=t.float64)
    for args, kwargs in (((x,), {}), (("cpu", t.float16, True), {}), ((t.float16,), {}), ((), {"device": "cpu"})):
        device, dtype, flag, form = t._C._nn._parse_to(*args, **kwargs)
        yield device and device.type, str(dtype), flag, form


def seeds_of_workers(t: Any) -> Any:
    generate = importlib.import_module(WORKERS[t])._generate_state
    yield [generate(seed, worker) for seed in (0, 7, 2**40 + 3) for worker in (0, 5)]


WORKERS = {torch: "torch.utils.data._utils.worker", eagerjit: "eagerjit.utils.data.worker"}
STEPS = (kinds_of_containers, storages, keys_of_dispatch, kind_of_default_device, arguments_of_to, seeds_of_workers)


@pytest.mark.parametrize("steps", STEPS)
def test_as_pytorch_does(steps: Any) -> None:
    theirs, ours = (list(steps(t)) for t in LIBRARIES)
    assert ours == theirs


def test_marks_of_quantization_do_nothing() -> None:
    for kind in ("QuantStub", "DeQuantStub"):
        assert getattr(eagerjit.ao.quantization, kind)()(3) == getattr(torch.ao.quantization, kind)()(3) == 3


def test_one_device_gets_everything() -> None:
    x = eagerjit.ones(2)
    assert eagerjit.nn.parallel.scatter(x, [0])[0] is x is eagerjit.nn.parallel.gather([x], "cpu")
    for call in (lambda: eagerjit.nn.parallel.scatter(x, [0, 1]), lambda: eagerjit.nn.parallel.gather([x, x], "cpu")):
        with pytest.raises(NotImplementedError):
            call()


def test_shapes_of_operators_that_are_not_there() -> None:
    function = eagerjit.library.register_fake("absent::operator")(lambda x: x)
    assert function(3) == 3 and "absent::operator" not in eagerjit.library.OPERATORS


def test_records_of_files(tmp_path: Any) -> None:
    path = str(tmp_path / "saved.pt")
    eagerjit.save({"weight": eagerjit.ones(2)}, path)
    theirs, ours = (t.PyTorchFileReader(path) for t in LIBRARIES)
    assert sorted(ours.get_all_records()) == sorted(theirs.get_all_records())
    assert all(ours.get_record(name) == theirs.get_record(name) for name in theirs.get_all_records())
    for reader in (theirs, ours):
        with pytest.raises(RuntimeError, match="file not found"):
            reader.get_record("absent")


def test_storages_of_files(tmp_path: Any) -> None:
    path, results = tmp_path / "bytes", []
    for t in LIBRARIES:
        path.write_bytes(bytes(range(40)))
        storage = t.UntypedStorage.from_file(str(path), nbytes=40)
        inside = t.asarray(storage[8:24], dtype=t.uint8)
        found = [len(storage), storage[3], storage[-1], len(storage[5:2]), inside.view(dtype=t.int32).tolist()]
        inside[0] = 77
        found += [storage[8], path.read_bytes()[8], len(t.UntypedStorage.from_file(str(path)))]
        shared = t.UntypedStorage.from_file(str(path), True, 48).untyped()
        t.asarray(shared, dtype=t.uint8)[1] = 99
        results.append([*found, path.stat().st_size, path.read_bytes()[1], shared[47]])
        for wrong in (
            lambda t=t: t.UntypedStorage.from_file(str(tmp_path / "absent"), nbytes=1),
            lambda t=t: t.UntypedStorage.from_file(str(path), nbytes=300),
            lambda storage=storage: storage[::2],
        ):
            with pytest.raises(RuntimeError):
                wrong()
    assert results[0] == results[1]


def test_the_name_of_extra_state() -> None:
    theirs, ours = (t.nn.modules.module._EXTRA_STATE_KEY_SUFFIX for t in LIBRARIES)
    assert ours == theirs


def lists_in_groups(t: Any) -> Any:
    group = importlib.import_module(f"{t.__name__}.utils._foreach_utils")._group_tensors_by_device_and_dtype
    tensors = [t.ones(2), t.ones(3, dtype=t.float64), t.zeros(1)]

    def shown(found: Any) -> Any:
        return sorted(
            (str(dtype), [[None if x is None else x.tolist() for x in part] for part in parts], places)
            for (_, dtype), (parts, places) in found.items()
        )

    yield shown(group([tensors, [None] * 3, []], with_indices=True))
    yield shown(group([tensors, tensors]))
    for wrong in ([], [[]], [[None]], [tensors, tensors[:1]]):
        try:
            yield shown(group(wrong))
        except RuntimeError:
            yield "refused"


def sizes_as_a_tensor(t: Any) -> Any:
    for shape in ((), (2, 3), (0,)):
        made = t._shape_as_tensor(t.ones(shape))
        yield made.tolist(), str(made.dtype)


def options_of_printing(t: Any) -> Any:
    with importlib.import_module(f"{t.__name__}._tensor_str").printoptions(precision=2):
        yield repr(t.ones(1) / 3)
    yield repr(t.ones(1) / 3)


def values_to_come(t: Any) -> Any:
    yield t.jit.fork(lambda a, b=1: a + b, 2, b=3).wait(), t.jit.wait(t.jit.fork(abs, -1))


def numbers_where_nothing_is_recorded(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    with t.no_grad():
        yield x.numpy().tolist()
    for call in (x.numpy, lambda: x.numpy(force=False)):
        with pytest.raises(RuntimeError, match="requires grad"):
            call()


def modules_with_other_parameters(t: Any) -> Any:
    from_name = importlib.import_module(f"{t.__name__}.nn.utils.stateless")._reparametrize_module
    layer = t.nn.BatchNorm1d(2)
    layer.again = layer.weight
    given = {"weight": t.full((2,), 2.0), "running_mean": t.zeros(2), "num_batches_tracked": t.tensor(3)}
    for options in ({}, {"tie_weights": True}):
        with from_name(layer, given, **options):
            yield layer.weight.tolist(), layer.again.tolist(), layer(t.ones(3, 2)).shape
        yield {name: value.tolist() for name, value in given.items()}, layer.running_mean.tolist()
    for wrong in ({"strict": True}, {"tie_weights": True}):
        with pytest.raises((RuntimeError, ValueError)) as error:
            from_name(layer, {**given, "again": t.ones(2)}, **wrong).__enter__()
        yield type(error.value), str(error.value).splitlines()[0]


def buffers_that_are_replaced(t: Any) -> Any:
    class Counting(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", t.zeros(1))

        def forward(self, x: Any) -> Any:
            self.calls = self.calls + x
            return self.calls

    layer = Counting()
    given = {"calls": t.full((1,), 5.0)}
    for dicts in (given, (given, {})):
        yield t.func.functional_call(layer, dicts, t.ones(1)).tolist(), given["calls"].tolist(), layer.calls.tolist()


def samples_of_gammas(t: Any) -> Any:
    for draw, name in ((t._standard_gamma, "gamma_cpu"), (t._sample_dirichlet, "dirichlet")):
        for shape in ((2, 3), (0, 3), (3, 0), ()):
            for dtype in (t.float32, t.float64):
                drawn = draw(t.full(shape, 2.0, dtype=dtype))
                yield str(drawn.dtype), tuple(drawn.shape), bool((drawn > 0).all())
        first, second = (draw(t.ones(5), generator=t.Generator().manual_seed(1)) for _ in range(2))
        yield first.equal(second)
        for dtype in (t.float16, t.int32, t.bool):
            with pytest.raises(NotImplementedError) as error:
                draw(t.ones(2, dtype=dtype))
            yield str(error.value) == f'"{name}" not implemented for ' + str(error.value).rpartition(" ")[2]
    concentration = t.tensor([0.5, 2.0], requires_grad=True)
    t._standard_gamma(concentration).sum().backward()
    yield bool((concentration.grad > 0).all()), t._sample_dirichlet(t.ones(4, 3)).sum(-1).round(decimals=5).tolist()


@pytest.mark.parametrize(
    "steps",
    [
        lists_in_groups, sizes_as_a_tensor, options_of_printing, values_to_come, numbers_where_nothing_is_recorded,
        modules_with_other_parameters, buffers_that_are_replaced, samples_of_gammas,
    ],
)
def test_smaller_names_do_as_pytorchs(steps: Any) -> None:
    theirs, ours = (list(steps(t)) for t in LIBRARIES)
    assert ours == theirs


def test_bases_of_layers() -> None:
    for t in LIBRARIES:
        assert issubclass(t.nn.ZeroPad2d, t.nn.ConstantPad2d) and t.nn.ZeroPad2d(1).value == 0
        assert issubclass(t.nn.ConstantPad1d, t.nn.modules.padding._ConstantPadNd)
        assert issubclass(t.nn.MaxPool3d, t.nn.modules.pooling._MaxPoolNd)
        assert issubclass(t.nn.AdaptiveAvgPool1d, t.nn.modules.pooling._AdaptiveAvgPoolNd)
        assert issubclass(t.nn.ConvTranspose2d, t.nn.modules.conv._ConvTransposeNd)


def test_types_of_arguments() -> None:
    theirs, ours = (importlib.import_module(f"{t.__name__}.nn.common_types") for t in LIBRARIES)
    for name in (name for name in vars(theirs) if name.endswith("_t")):
        expected, actual = (re.sub(r"[\w.]+\.Tensor", "Tensor", repr(getattr(types, name))) for types in (theirs, ours))
        assert actual == expected, name


def test_whether_a_device_was_used() -> None:
    assert eagerjit.cuda._initialized is eagerjit.cuda.is_initialized()


def test_no_mode_of_tensors_without_values_is_left() -> None:
    for t in LIBRARIES:
        fake = importlib.import_module(f"{t.__name__}._subclasses.fake_tensor")
        with fake.unset_fake_temporarily():
            assert not fake.is_fake(t.ones(1))


def test_what_a_file_names_that_is_not_given(tmp_path: Any) -> None:
    path = tmp_path / "x.pt"
    torch.save({"kept": torch.ones(2), "other": collections.Counter("ab"), "pair": Pair(1, 2)}, path)
    theirs, ours = (sorted(t.serialization.get_unsafe_globals_in_checkpoint(path)) for t in LIBRARIES)
    assert ours == theirs and any(name.endswith("Pair") for name in ours)
    path.write_bytes(b"something else")
    for t in LIBRARIES:
        with pytest.raises(ValueError, match="Expected input to be a checkpoint"):
            t.serialization.get_unsafe_globals_in_checkpoint(path)


def shapes_as_containers(t: Any) -> Any:
    tree, shape = t.utils._pytree, t.ones(2, 3).shape
    yield tree.tree_map(lambda size: size + 1, shape), tree.tree_leaves([shape, t.Size([])])
    yield [str(path) for path, _ in tree.tree_flatten_with_path({"a": shape})[0]], tree.tree_map(str, t.Size([]))


def tensors_by_number(t: Any) -> Any:
    x, layer = t.ones(2), t.nn.Linear(2, 2)
    yield x._cdata == x._cdata, x._cdata == x.view(2)._cdata, x._cdata == x.data._cdata
    yield layer.weight._cdata == next(layer.parameters())._cdata, type(x._cdata)


def members_of_modules(t: Any) -> Any:
    inner = t.nn.Linear(1, 1, bias=False)
    whole = t.nn.Sequential(inner, t.nn.Sequential(inner), t.nn.BatchNorm1d(1))
    whole.register_parameter("none", None)

    def members(module: Any) -> Any:
        return [*module._parameters.items(), ("kept", None), *module._buffers.items()]

    for options in ({}, {"prefix": "p", "remove_duplicate": False}, {"recurse": False}):
        yield [name for name, _ in whole._named_members(members, **options)]


def classes_of_schedules(t: Any) -> Any:
    schedule = t.optim.lr_scheduler
    yield sorted(schedule.__all__)
    yield sorted(
        name
        for name, kind in vars(schedule).items()
        if isinstance(kind, type) and issubclass(kind, schedule.LRScheduler) and not name.startswith("_")
    )


@pytest.mark.parametrize("steps", [shapes_as_containers, tensors_by_number, members_of_modules, classes_of_schedules])
def test_what_packages_list_and_tell_apart(steps: Any) -> None:
    expected, actual = (list(steps(t)) for t in LIBRARIES)
    assert actual == expected


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(torch.distributions.__path__)])
def test_modules_of_distributions_have_their_classes(module: str) -> None:
    theirs, ours = (getattr(t.distributions, module) for t in LIBRARIES)
    names = {name for name, kind in vars(theirs).items() if getattr(kind, "__module__", "") == theirs.__name__}
    assert not {name for name in names if len(name) > 1 and name[0] != "_" and not hasattr(ours, name)}


def test_what_a_tensor_subclass_carries_along() -> None:
    found = []
    for t in LIBRARIES:

        class Marked(t.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(cls: Any, *call: Any, t: Any = t) -> Any:
                return mark(super().__torch_function__(*call), t, cls)

        def mark(value: Any, t: Any, kind: Any) -> Any:
            if isinstance(value, tuple):
                return t.utils._pytree.tree_map(lambda part: mark(part, t, kind), value)
            return value.as_subclass(kind) if isinstance(value, t.Tensor) else value

        loc = t.zeros(3).as_subclass(Marked)
        density = t.distributions.Normal(loc, 1.0).expand((2, 3)).log_prob(loc)
        found.append((type(density).__name__, loc.shape, density.mean(0).shape))
    assert found[0] == found[1]
