"""The meta device: tensors with shapes, dtypes and strides and no memory. Every op says there what it would give."""

from __future__ import annotations

import copy
import io
import pickle
import resource
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from op_samples import ELSEWHERE, Sample, function, leaves, rebuilt, samples

import eagerjit as ej
from eagerjit.calling.dispatch import OPS
from eagerjit.compiled.fallback import JitWarning

MADE_OF_NUMBERS = {"arange", "fft_frequencies", "filled", "linspace", "long_arange", "triangle_indices"}
"""Ops that take no tensor, and so don't know of devices: the functions over them do."""
NAMES = sorted(OPS.keys() - ELSEWHERE.keys() - MADE_OF_NUMBERS)


def types(result: Any) -> list[Any]:
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [(r.dtype, tuple(r.shape)) for r in results]


@pytest.mark.parametrize("name", NAMES)
def test_every_op_gives_types(name: str) -> None:
    for sample in samples(name):
        _same_types(name, sample)


def _same_types(name: str, sample: Sample) -> None:
    call, given = function(name), leaves(sample.arguments)
    found = call(*rebuilt(sample.arguments, iter([t.to("meta") for t in given])))
    assert all(t.is_meta for t in (found if isinstance(found, (tuple, list)) else [found]))
    assert types(found) == types(call(*rebuilt(sample.arguments, iter(given))))


def outcome(call: Any, library: Any) -> Any:
    """What a call gives, as text, or the class of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(call(library))
        except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError, BufferError) as error:
            return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


def of(library: Any, *shape: int, **options: Any) -> Any:
    return library.empty(shape, device="meta", **options)


CALLS: dict[str, Any] = {
    "repr": of,
    "repr of a matrix": lambda t: of(t, 2, 3),
    "repr of integers": lambda t: of(t, 3, dtype=t.int64),
    "repr of doubles": lambda t: of(t, 2, 3, dtype=t.float64),
    "repr of nothing": lambda t: of(t, 0),
    "repr of a parameter": lambda t: t.nn.Parameter(of(t, 2)),
    "format": lambda t: f"{of(t)} {of(t, 2)}",
    "format as a number": lambda t: f"{of(t):.2f}",
    "item": lambda t: of(t).item(),
    "item of several": lambda t: of(t, 2).item(),
    "float": lambda t: float(of(t)),
    "index": lambda t: [1, 2][of(t, dtype=t.int64)],
    "bool": lambda t: bool(of(t)),
    "bool of several": lambda t: bool(of(t, 2)),
    "tolist": lambda t: of(t, 2).tolist(),
    "numpy": lambda t: of(t, 2).numpy(),
    "numpy by force": lambda t: of(t, 2).numpy(force=True),
    "asarray": lambda t: np.asarray(of(t, 2)),
    "contains": lambda t: of(t) in of(t, 2),
    "nonzero": lambda t: of(t, 2).nonzero(),
    "mask": lambda t: of(t, 2)[of(t, 2) > 0],
    "unique": lambda t: of(t, 2).unique(),
    "cpu": lambda t: of(t, 2).cpu(),
    "to": lambda t: of(t, 2).to("cpu"),
    "to meta": lambda t: t.ones(2).to("meta"),
    "to a dtype": lambda t: of(t, 2).to(t.float16),
    "copy here": lambda t: t.ones(2).copy_(of(t, 2)),
    "copy there": lambda t: of(t, 2).copy_(t.ones(2)),
    "mixed": lambda t: of(t, 2) + t.ones(2),
    "mixed the other way": lambda t: t.ones(2) + of(t),
    "with a number of the CPU": lambda t: of(t, 2) * t.tensor(2.0),
    "joined": lambda t: t.cat([of(t, 2), t.ones(2)]),
    "shapes": lambda t: of(t, 2, 3) + of(t, 2),
    "products": lambda t: of(t, 2, 3) @ of(t, 2, 3),
    "data": lambda t: setattr(t.nn.Parameter(t.ones(2)), "data", of(t, 2)),
    "data back": lambda t: setattr(t.nn.Parameter(of(t, 2)), "data", t.ones(2)),
    "set_": lambda t: t.ones(2).set_(of(t, 2)),
    "shared memory": lambda t: of(t, 2).share_memory_(),
    "pinned memory": lambda t: of(t, 2).pin_memory(),
    "dlpack": lambda t: of(t, 2).__dlpack__(),
    "dlpack device": lambda t: of(t, 2).__dlpack_device__(),
    "properties": lambda t: (lambda x: (x.is_meta, x.is_cpu, x.is_cuda, x.device, x.get_device(), x.type()))(of(t, 2)),
    "addresses": lambda t: (of(t, 2).data_ptr(), of(t, 2, 3)[1].data_ptr(), of(t, 2, 3)[1].storage_offset()),
    "strides": lambda t: (of(t, 2, 3).t().stride(), t.empty_strided((2, 3), (1, 2), device="meta").stride()),
    "many": lambda t: of(t, 10**9, 10**5).sum(0),
    "versions": lambda t: (lambda x: (x.add_(1), x[0].mul_(2), x._version)[2])(of(t, 2)),
    "items": lambda t: (lambda x: (x.__setitem__(0, 1.0), x.__setitem__(1, t.ones(3)), x)[2])(of(t, 2, 3)),
    "items at places": lambda t: of(t, 5)[t.tensor([1, 2, 2])],
    "generator": lambda t: of(t, 2).normal_(generator=t.Generator()),
    "deepcopy": lambda t: copy.deepcopy(t.nn.Linear(2, 3, device="meta")).weight,
    "pickle": lambda t: pickle.loads(pickle.dumps(of(t, 3, 2).t())).stride(),
    "to of a module": lambda t: t.nn.Linear(2, 3, device="meta").to("cpu"),
    "to of a module there": lambda t: t.nn.Linear(2, 3).to("meta").weight,
    "to_empty": lambda t: t.nn.Linear(2, 3, device="meta").to_empty(device="cpu").bias.shape,
    "batch normalisation": lambda t: t.nn.BatchNorm1d(3, device="meta").num_batches_tracked,
    "state": lambda t: t.nn.Linear(2, 3).load_state_dict(t.nn.Linear(2, 3, device="meta").state_dict()),
    "set_default_device": lambda t: _by_default(t),
    "made there": lambda t: (t.tensor([1], device="meta"), t.arange(3, device="meta"), t.as_tensor(2.0, device="meta")),
}


def _by_default(t: Any) -> Any:
    t.set_default_device("meta")
    try:
        return t.ones(2), t.nn.Linear(2, 2).weight, t.get_default_device()
    finally:
        t.set_default_device(None)


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name: str) -> None:
    assert outcome(CALLS[name], ej) == outcome(CALLS[name], torch)


def test_mistakes_say_why() -> None:
    with pytest.raises(NotImplementedError, match=r"Cannot copy out of meta tensor; no data!$"):
        of(ej, 2).to("cpu")
    with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        of(ej).item()
    with pytest.raises(RuntimeError, match="Tensor on device cpu is not on the expected device meta!"):
        of(ej, 2) + ej.ones(2)
    with pytest.raises(NotImplementedError, match=r"Please use torch.nn.Module.to_empty\(\) instead"):
        ej.nn.Linear(2, 3, device="meta").to("cpu")


def test_nothing_is_allocated_and_nothing_drawn() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ej.manual_seed(3)
    with ej.device("meta"):
        made = [ej.empty(10**6, 10**4), ej.randn(10**6, 10**4), ej.nn.Linear(10**5, 10**5).weight, ej.rand(10**9)]
        made += [ej.nn.init.trunc_normal_(made[0]) * 2.0, ej.nn.functional.dropout(made[1])]
    assert all(t.is_meta for t in made)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    drawn = ej.rand(3).tolist()
    ej.manual_seed(3)
    assert ej.rand(3).tolist() == drawn


def test_views_share_what_is_no_memory() -> None:
    base = of(ej, 4, 3)
    view = base[1:, 0]
    view.add_(1)
    assert view._base is base and base._version == view._version == 1
    assert base.view(-1).is_set_to(base.view(12)) and not base.is_set_to(of(ej, 4, 3))


def test_networks_train_as_far_as_shapes_go() -> None:
    with ej.device("meta"):
        network = ej.nn.Sequential(
            ej.nn.Conv2d(3, 4, 3), ej.nn.BatchNorm2d(4), ej.nn.ReLU(), ej.nn.MaxPool2d(2), ej.nn.Dropout(),
            ej.nn.Flatten(2), ej.nn.LSTM(9, 5, batch_first=True, bidirectional=True),
        )
        optimizer = ej.optim.AdamW(network.parameters(), foreach=True)
        x = ej.empty(2, 3, 8, 8)
    out = network(x)[0]
    assert out.is_meta and out.shape == (2, 4, 10)
    out.square().mean().backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in network.parameters())
    ej.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    assert all(s["exp_avg"].is_meta for s in optimizer.state.values())


STRUCTURES: dict[str, Any] = {
    "scan": lambda x, w: ej.control.scan(lambda h, e: (ej.tanh(h + e * w), (h * 2).int()), x[0], x, reverse=True),
    "scan of no elements": lambda x, w: ej.control.scan(lambda h, e: (h + e * w, h @ h), w * 2, x[:0]),
    "map": lambda x, w: ej.control.map(lambda e: e[:2] * w[1], x),
    "cond": lambda x, w: ej.control.cond(x.sum() > 0, lambda x: x * w, lambda x: x - 1, (x,)),
    "while_loop": lambda x, w: ej.control.while_loop(lambda h, i: i < 3, lambda h, i: (h * w, i + 1), (x, 0)),
    "associative_scan": lambda x, w: ej.control.associative_scan(ej.add, x * w, 0, combine_mode="generic"),
    "nested": lambda x, w: ej.control.map(
        lambda e: ej.control.while_loop(lambda h: h.sum() < 5, lambda h: (h * w * h + 1,), (e,))[0], x
    ),
    "made inside": lambda x, w: ej.control.map(lambda e: e * w + ej.ones(3, device=x.device) + ej.rand_like(e), x),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_loops_and_branches_give_types(name: str) -> None:
    found = []
    for device in ("cpu", "meta"):
        x, w = ej.ones(4, 3, device=device), ej.ones(3, device=device, requires_grad=True)
        results = leaves(STRUCTURES[name](x, w))
        differentiable = [r for r in results if r.requires_grad]
        sum(r.sum() for r in differentiable).backward()
        assert all(t.device.type in (device, "cpu" * (t.ndim == 0)) for t in (*results, w.grad))
        found.append((types(results), len(differentiable), types(w.grad)))
    assert found[0] == found[1]


def test_compiled_functions_run_eagerly() -> None:
    doubled = ej.jit(lambda x: x * 2.0)
    assert doubled(ej.ones(2)).tolist() == [2.0, 2.0]
    with pytest.warns(JitWarning, match="tensors of the meta device are not compiled"):
        assert doubled(of(ej, 3)).shape == (3,)
    assert doubled(ej.ones(2)).tolist() == [2.0, 2.0]
    with pytest.warns(JitWarning, match="tensors of the meta device are not compiled"):
        assert ej.jit(lambda x: x + ej.ones(4, device="meta").shape[0])(ej.ones(1)).tolist() == [5.0]


def test_states_are_loaded_into_modules_without_memory() -> None:
    saved = ej.nn.Linear(2, 3).state_dict()
    network = ej.nn.Linear(2, 3, device="meta")
    with pytest.warns(UserWarning, match="which is a no-op"):
        network.load_state_dict(saved)
    assert network.weight.is_meta
    network.load_state_dict(saved, assign=True)
    assert ej.equal(network.weight, saved["weight"]) and network.weight.requires_grad


def test_modules_get_other_parameters_on_their_way_there() -> None:
    network = ej.nn.Linear(2, 3)
    weight = network.weight
    assert network.to("meta").weight is not weight and weight.is_cpu
    assert isinstance(network.weight, ej.nn.Parameter) and network.weight.requires_grad


def test_parameters_are_assigned_through_register_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    register = ej.nn.Module.register_parameter

    def without_memory(module: Any, name: str, parameter: Any) -> None:
        register(module, name, parameter)
        if parameter is not None:
            module._parameters[name] = ej.nn.Parameter(parameter.to("meta"), parameter.requires_grad)

    monkeypatch.setattr(ej.nn.Module, "register_parameter", without_memory)
    assert all(p.is_meta for p in ej.nn.Linear(2, 3).parameters())


@pytest.mark.parametrize(("saver", "loader"), [(ej, torch), (torch, ej), (ej, ej)])
def test_files(saver: Any, loader: Any) -> None:
    file = io.BytesIO()
    saver.save({"x": of(saver, 3, 2).t(), "p": saver.nn.Parameter(of(saver, 2)), "y": saver.ones(2)}, file)
    file.seek(0)
    found = loader.load(file, map_location="cpu")
    assert found["x"].is_meta and found["x"].stride() == (1, 2) and found["p"].is_meta and found["y"].is_cpu
    assert isinstance(found["p"], loader.nn.Parameter)
    file.seek(0)
    assert all(t.is_meta for t in loader.load(file, map_location="meta").values())
