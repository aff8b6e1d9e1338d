"""The interface of Module and of containers against PyTorch: hooks, names, state dictionaries, conversions, errors."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from networks import networks
from oracle import same

import eagerjit as ej

LIBRARIES = (ej, torch)


def outcomes(function: Callable[[Any], Any]) -> list[Any]:
    """What the function returns with each library, or the class of its error."""
    found = []
    for library in LIBRARIES:
        try:
            found.append(function(library))
        except Exception as error:
            found.append(type(error))
    return found


def agree(function: Callable[[Any], Any]) -> Any:
    """Both libraries return the same text or numbers, or raise errors of the same class."""
    ours, theirs = outcomes(function)
    assert ours == theirs
    return ours


def layers(library: Any, *widths: int) -> list[Any]:
    return [library.nn.Linear(a, b) for a, b in itertools.pairwise(widths)]


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "sequential": lambda t: repr(t.nn.Sequential(*layers(t, 2, 3, 4))),
    "slice": lambda t: repr(t.nn.Sequential(OrderedDict(zip("abc", layers(t, 1, 2, 3, 4), strict=True)))[1:]),
    "insert": lambda t: repr(t.nn.Sequential(*layers(t, 2, 3, 4)).insert(1, t.nn.ReLU())),
    "insert far": lambda t: t.nn.Sequential(*layers(t, 2, 3)).insert(5, t.nn.ReLU()),
    "pop": lambda t: repr(t.nn.Sequential(*layers(t, 2, 3, 4)).pop(0)),
    "add": lambda t: repr(t.nn.Sequential(t.nn.ReLU()) + t.nn.Sequential(t.nn.Tanh())),
    "add list": lambda t: operator.add(t.nn.Sequential(t.nn.ReLU()), [t.nn.Tanh()]),
    "times": lambda t: repr(t.nn.Sequential(t.nn.ReLU()) * 3),
    "times 0": lambda t: t.nn.Sequential(t.nn.ReLU()) * 0,
    "delete": lambda t: repr((lambda m: (m.__delitem__(slice(0, 2)), m)[1])(t.nn.Sequential(*layers(t, 1, 2, 3, 4)))),
    "out of range": lambda t: t.nn.Sequential(t.nn.ReLU())[1],
    "list": lambda t: repr(t.nn.ModuleList(layers(t, 2, 2, 2, 3))),
    "list add": lambda t: repr(operator.add(t.nn.ModuleList([t.nn.ReLU()]), [t.nn.Tanh()])),
    "list slice": lambda t: repr(t.nn.ModuleList(layers(t, 1, 2, 3, 4))[::2]),
    "list extend": lambda t: t.nn.ModuleList().extend(3),
    "list bad": lambda t: t.nn.ModuleList(0),
    "list call": lambda t: t.nn.ModuleList([t.nn.ReLU()])(t.ones(1)),
    "dict": lambda t: repr(t.nn.ModuleDict({"b": t.nn.ReLU(), "a": t.nn.Tanh()})),
    "dict keys": lambda t: list(t.nn.ModuleDict([("b", t.nn.ReLU()), ("a", t.nn.Tanh())]).keys()),
    "dict attribute": lambda t: t.nn.ModuleDict({"training": t.nn.ReLU()}),
    "dict bad": lambda t: t.nn.ModuleDict(3),
    "parameters": lambda t: repr(t.nn.ParameterList([t.ones(2, 3), 5, t.nn.Parameter(t.ones(()))])).replace(
        "eagerjit.", "torch."
    ),
    "parameters slice": lambda t: len(t.nn.ParameterList([t.ones(1), t.ones(2), t.ones(3)])[1:]),
    "parameters bad": lambda t: t.nn.ParameterList(3),
    "parameter dict": lambda t: repr(t.nn.ParameterDict({"b": t.ones(2), "a": 3})).replace("eagerjit.", "torch."),
    "parameter dict use": lambda t: (
        lambda p: (p.setdefault("c", t.ones(4)).numel(), "c" in p, p.get("d"), list(p), p.popitem()[0], len(p))
    )(t.nn.ParameterDict({"b": t.ones(2), "a": t.ones(1)})),
    "parameter dict missing": lambda t: t.nn.ParameterDict({})["x"],
    "parameter dict join": lambda t: [
        n for n, _ in (t.nn.ParameterDict({"a": t.ones(1)}) | t.nn.ParameterDict({"b": t.ones(1)})).named_parameters()
    ],
}


def counting(kind: Any, method: str) -> Any:
    """A class of containers that counts how often they are filled."""

    def filled(self: Any, *given: Any) -> Any:
        self.times = self.__dict__.get("times", 0) + 1
        return getattr(kind, method)(self, *given)

    return type("Counting", (kind,), {method: filled})


@pytest.mark.parametrize("name", ["ModuleList", "ModuleDict", "ParameterList", "ParameterDict"])
@pytest.mark.parametrize("given", [(), (None,), ([],)])
def test_containers_of_nothing_are_not_filled(name: str, given: tuple[Any, ...]) -> None:
    """Derived classes fill themselves in a method that needs what they set after the container's own start."""
    method = "update" if name.endswith("Dict") else "extend"
    agree(lambda t: getattr(counting(getattr(t.nn, name), method)(*given), "times", 0))


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name: str) -> None:
    agree(CONTAINERS[name])


NAMES: dict[str, Callable[[Any, Any], Any]] = {
    "duplicates": lambda t, n: [k for k, _ in n.named_parameters(remove_duplicate=False)],
    "modules with duplicates": lambda t, n: [k for k, _ in n.named_modules(remove_duplicate=False)],
    "prefix": lambda t, n: [k for k, _ in n.named_parameters("p", recurse=False)],
    "submodule of no module": lambda t, n: n.get_submodule("inner.scale"),
    "no parameter": lambda t, n: n.get_parameter("inner.nothing"),
    "parameter that is none": lambda t, n: n.get_parameter("inner.count"),
    "buffer": lambda t, n: tuple(n.get_buffer("inner.count").shape),
    "no buffer": lambda t, n: n.get_buffer("inner.scale"),
    "set submodule": lambda t, n: (n.set_submodule("inner.layers.1", t.nn.Linear(3, 3, bias=False)),
                                  repr(n.inner.layers))[1],
    "set nowhere": lambda t, n: n.set_submodule("inner.nowhere.1", t.nn.ReLU()),
    "set strict": lambda t, n: n.set_submodule("inner.nowhere", t.nn.ReLU(), strict=True),
    "child": lambda t, n: setattr(n, "head", 3),
    "parameter twice": lambda t, n: n.register_parameter("head", t.nn.Parameter(t.ones(1))),
    "parameter name": lambda t, n: n.register_parameter(3, None),
    "parameter no leaf": lambda t, n: n.register_parameter("x", t.nn.Parameter(t.ones(1)) * 2),
    "module name": lambda t, n: n.add_module("a.b", t.nn.ReLU()),
    "module twice": lambda t, n: n.add_module("training", t.nn.ReLU()),
    "no module": lambda t, n: n.add_module("a", 3),
    "buffer class": lambda t, n: (setattr(n, "b", t.nn.Buffer(t.ones(2), persistent=False)), "b" in n.state_dict(),
                                  [k for k, _ in n.named_buffers()])[1:],
    "to integers": lambda t, n: n.to(t.int64),
    "train flag": lambda t, n: n.train(3),
    "to": lambda t, n: str(n.to("cpu", t.float64, non_blocking=True).head.weight.dtype).rpartition(".")[2],
    "type": lambda t, n: str(n.type(t.float16).inner.count.dtype).rpartition(".")[2],
    "to empty": lambda t, n: tuple(n.to_empty(device="cpu").head.weight.shape),
    "share": lambda t, n: n.share_memory() is n,
    "load a list": lambda t, n: n.load_state_dict([1]),
    "load numbers": lambda t, n: n.load_state_dict({k: 3 for k in n.state_dict()}),
    "metadata": lambda t, n: dict(n.state_dict()._metadata),
    "destination": lambda t, n: list(n.state_dict(destination=OrderedDict(x=1), prefix="q.")),
    "keep vars": lambda t, n: n.state_dict(keep_vars=True)["head.weight"] is n.head.weight,
    "matched": lambda t, n: repr(n.load_state_dict(n.state_dict())),
    "incompatible": lambda t, n: repr(n.load_state_dict({"a": t.ones(1)}, strict=False)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_and_state(name: str) -> None:
    ours, theirs = networks()
    agree(lambda library: NAMES[name](library, ours if library is ej else theirs))


def test_assign_replaces_parameters() -> None:
    for library, network in zip(LIBRARIES, networks(), strict=True):
        network.head.weight.requires_grad_(False)
        before = network.head.weight
        state = {k: v.double() for k, v in network.state_dict().items()}
        network.load_state_dict(state, assign=True)
        assert network.head.weight is not before and network.head.weight.dtype is library.float64
        assert isinstance(network.head.weight, library.nn.Parameter) and not network.head.weight.requires_grad
        assert network.inner.count is state["inner.count"]


def with_extra_state(library: Any) -> Any:
    class Counting(library.nn.Module):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    return Counting()


def test_extra_state() -> None:
    def run(library: Any) -> Any:
        a, b = library.nn.Sequential(with_extra_state(library)), library.nn.Sequential(with_extra_state(library))
        a[0].count = 5
        b.load_state_dict(a.state_dict())
        relaxed = b.load_state_dict({}, strict=False)
        return list(a.state_dict()), b[0].count, relaxed.missing_keys

    assert agree(run) == (["0._extra_state"], 5, ["0._extra_state"])


def test_state_hooks() -> None:
    def run(library: Any) -> Any:
        seen: list[Any] = []
        network = library.nn.Sequential(library.nn.Linear(2, 1, bias=False))
        network.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("before", prefix, keep)))
        network[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state.update({prefix + "more": 1}))
        state = network.state_dict()

        def rename(module: Any, state: Any, prefix: str, *rest: Any) -> None:
            state[prefix + "weight"] = state.pop(prefix + "old", state.get(prefix + "weight"))

        network[0].register_load_state_dict_pre_hook(rename)
        handle = network.register_load_state_dict_post_hook(lambda m, keys: keys.unexpected_keys.clear())
        seen.append(repr(network.load_state_dict({"0.old": library.ones(1, 2), "strange": library.ones(1)})))
        handle.remove()
        return seen, list(state)

    agree(run)


def test_forward_hooks_in_order() -> None:
    def run(library: Any) -> Any:
        class Scaled(library.nn.Module):
            def forward(self, x: Any, factor: Any = 1.0) -> Any:
                if factor == 0:
                    raise ArithmeticError
                return x * factor

        seen: list[Any] = []
        module = Scaled()
        module.register_forward_hook(lambda m, a, r: seen.append("second"))
        module.register_forward_hook(lambda m, a, k, r: r + k["factor"], prepend=True, with_kwargs=True)
        module.register_forward_pre_hook(lambda m, a, k: (a, {"factor": 3.0}), with_kwargs=True)
        out = module(library.ones(2), factor=2.0).tolist()
        module.register_forward_pre_hook(lambda m, a, k: (a, {"factor": 0.0}), with_kwargs=True)
        module.register_forward_hook(lambda m, a, r: seen.append(("always", r)) or "changed", always_call=True)
        module.register_forward_hook(lambda m, a, r: seen.append(r) or seen[99], always_call=True)
        try:
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                module(library.ones(2))
        except ArithmeticError:
            seen.append("raised")
        return out, seen, ["silenced" in str(w.message) for w in found]

    agree(run)


def test_backward_pre_hook() -> None:
    def run(library: Any) -> Any:
        seen: list[Any] = []
        module = library.nn.Linear(2, 1, bias=False)
        library.nn.init.ones_(module.weight)
        module.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        module.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
        x = library.ones(1, 2, requires_grad=True)
        module(x).sum().backward()
        return seen, x.grad.tolist(), module.weight.grad.tolist()

    agree(run)


def test_pickle_and_copies() -> None:
    ours, _ = networks()
    again = pickle.loads(pickle.dumps(copy.deepcopy(ours.head)))
    assert ej.equal(again.weight, ours.head.weight) and repr(again) == repr(ours.head)
    assert again.state_dict().keys() == ours.head.state_dict().keys()


def test_buffers_are_saved_by_class() -> None:
    for library in LIBRARIES:
        module = library.nn.Module()
        module.table = library.nn.Buffer(library.ones(3))
        assert isinstance(module.table, library.nn.Buffer) and list(module.state_dict()) == ["table"]
        assert not isinstance(library.ones(3), library.nn.Buffer)


def test_repr_of_parameters() -> None:
    ours, theirs = (repr(t.nn.Parameter(t.ones(2))) for t in LIBRARIES)
    assert ours == theirs


def test_jitted_call_with_hooks() -> None:
    module = ej.nn.Sequential(ej.nn.Linear(3, 2), ej.nn.Tanh())
    module[0].register_forward_hook(lambda m, a, k, r: r * 2, with_kwargs=True)
    x = ej.randn(4, 3)
    compiled = ej.jit(module)
    assert ej.equal(compiled(x), module(x))
    module[0].register_forward_pre_hook(lambda m, a: (a[0] + 1,), prepend=True)
    assert ej.equal(compiled(x), module(x))


def test_converted_state() -> None:
    ours, theirs = networks()
    same(ours.half().head.weight, theirs.half().head.weight)
    same(ours.bfloat16().inner.scale, theirs.bfloat16().inner.scale)


def test_complex_dtypes_of_modules() -> None:
    found = []
    for library in LIBRARIES:
        module = library.nn.Linear(2, 3)
        module.register_buffer("phase", library.ones(2, dtype=library.complex64))
        module.register_buffer("count", library.ones(2, dtype=library.int64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kinds = [
                [str(t.dtype).split(".")[-1] for t in module.to(dtype).state_dict().values()]
                for dtype in (library.complex64, library.complex128, library.float32, library.bfloat16)
            ]
        found.append(kinds)
        with pytest.raises(TypeError):
            module.to(library.int32)
    assert found[0] == found[1]


@pytest.mark.parametrize("library", LIBRARIES)
def test_moving_to_the_host_calls_no_other_method_of_the_module(library: Any) -> None:
    class Placed(library.nn.Linear):
        def to(self, device: Any) -> Any:
            return self.cpu()

    placed = Placed(2, 3)
    assert placed.to("cpu") is placed is placed.cpu()


@pytest.mark.parametrize("library", [ej, torch])
def test_replicas_have_tables_of_their_own_and_no_parameters(library: Any) -> None:
    class Counting(library.nn.BatchNorm1d):
        pass

    module = library.nn.Sequential(Counting(3), library.nn.ReLU())
    module.shared = {"found": 1}
    replica, part = module._replicate_for_data_parallel(), module[0]._replicate_for_data_parallel()
    assert type(part) is Counting and part._is_replica and not hasattr(module[0], "_is_replica")
    assert replica.shared is module.shared and replica.training and list(replica._modules) == ["0", "1"]
    replica[1], part.num_batches_tracked = library.nn.Tanh(), library.tensor(7)
    assert isinstance(module[1], library.nn.ReLU) and int(module[0].num_batches_tracked) == 0
    assert not part._parameters and sorted(module[0]._parameters) == ["bias", "weight"]
    with pytest.raises(AttributeError, match="weight"):
        part(library.ones(2, 3))
    part._parameters.update(weight=library.ones(3) * 2, bias=library.zeros(3))
    assert part.eval()(library.ones(1, 3)).tolist() == module[0].eval()(library.ones(1, 3)).mul(2).tolist()


@pytest.mark.parametrize("name", ["register_buffer", "register_parameter", "add_module"])
def test_parts_before_init(name: str) -> None:
    def told(library: Any) -> Any:
        class Early(library.nn.Module):
            def __init__(self) -> None:
                part = {"add_module": library.nn.Identity(), "register_buffer": library.ones(2)}
                getattr(self, name)("x", part.get(name, library.nn.Parameter(library.ones(2))))

        with pytest.raises(AttributeError) as error:
            Early()
        return str(error.value) if name != "add_module" else None

    assert told(ej) == told(torch)
