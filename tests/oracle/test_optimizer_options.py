"""What optimizers refuse, keep, hook and name, and complex parameters, against PyTorch."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

KINDS = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "Adagrad", "ASGD", "RMSprop", "Rprop", "LBFGS")
START = [[1 + 2j, 0.5 - 1j], [0.3j, 1]]


def trained(library: Any, kind: str, wrap: Callable[[Any], Any] = lambda f: f, start: Any = START) -> Any:
    """Parameter and optimizer after a few steps."""
    parameter = library.nn.Parameter(library.tensor(start))
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(library.optim, kind)([parameter], lr=0.1, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameter.abs() ** 2).sum()
        loss.backward()
        return loss

    def step() -> Any:
        closure()
        optimizer.step()

    for _ in range(3):
        optimizer.step(closure) if kind == "LBFGS" else wrap(step)()
    return parameter.detach(), optimizer


def numbers(value: Any) -> Any:
    return {k: np.array(v.tolist()) for k, v in value.items() if hasattr(v, "tolist")}


@pytest.mark.parametrize("kind", KINDS)
def test_complex_parameters_are_pairs_of_real_ones(kind: str) -> None:
    (ours, mine), (theirs, other) = (trained(library, kind) for library in (ej, torch))
    np.testing.assert_allclose(ours.tolist(), theirs.tolist(), atol=2e-6)
    if kind == "LBFGS":
        return
    wanted, found = (numbers(o.state_dict()["state"][0]) for o in (other, mine))
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
    assert trained(ej, kind, ej.jit)[0].numpy().tobytes() == ours.numpy().tobytes()


def test_groups_are_printed() -> None:
    printed = []
    for library in (ej, torch):
        groups = [{"params": [library.ones(1, requires_grad=True)], "own": n} for n in range(2)]
        printed.append(repr(library.optim.SGD(groups, lr=0.1)))
    assert printed[0] == printed[1]


def test_complex_sums_start_in_both_parts() -> None:
    found = []
    for library in (ej, torch):
        parameter = library.tensor([1 + 2j, -0.5j], dtype=library.complex128, requires_grad=True)
        optimizer = library.optim.Adagrad([parameter], lr=0.1, initial_accumulator_value=0.5)
        parameter.grad = library.tensor([0.3 - 1j, 2 + 0.1j], dtype=library.complex128)
        optimizer.step()
        found.append((parameter.tolist(), optimizer.state[parameter]["sum"].tolist()))
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("kind", (*KINDS, "Adafactor", "Muon"))
def test_options_are_in_their_order(kind: str) -> None:
    found = []
    for library in (ej, torch):
        optimizer = getattr(library.optim, kind)([library.ones(2, 2, requires_grad=True)])
        saved = optimizer.state_dict()
        signature = list(inspect.signature(getattr(library.optim, kind)).parameters)
        found.append((list(optimizer.defaults), list(saved["param_groups"][0]), list(saved["state"]), signature))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["SGD", "RMSprop", "Adagrad"])
def test_state_holds_what_theirs_holds(kind: str) -> None:
    found = []
    for library in (ej, torch):
        used, unused = library.ones(2, requires_grad=True), library.ones(1, requires_grad=True)
        optimizer = getattr(library.optim, kind)([used, unused])
        for _ in range(2):
            used.grad = library.ones(2)
            optimizer.step()
        state = optimizer.state_dict()["state"]
        found.append({n: {k: v.tolist() for k, v in kept.items()} for n, kept in state.items()})
        assert len(optimizer.state) == len(state)
    assert found[0].keys() == found[1].keys()
    for number, kept in found[1].items():
        assert found[0][number].keys() == kept.keys()
        assert all(np.allclose(found[0][number][name], value) for name, value in kept.items())


STATES = [(kind, {}) for kind in (*KINDS, "Adafactor", "Muon", "SparseAdam")] + [
    ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "dampening": 0.3}), ("Adam", {"amsgrad": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
]  # fmt: skip


def described(library: Any, value: Any) -> Any:
    """What is kept, with the dtypes of tensors."""
    if isinstance(value, library.Tensor):
        return str(value.dtype).split(".")[-1], tuple(value.shape), np.round(value.double().tolist(), 4).tolist()
    if isinstance(value, (list, tuple)):
        return [described(library, v) for v in value]
    return {k: described(library, v) for k, v in value.items()} if isinstance(value, dict) else (type(value), value)


def loaded_states(library: Any, kind: str, options: dict[str, Any], dtype: str) -> list[Any]:
    """States after two steps, loaded for parameters of another dtype, and as of a version that counted in numbers."""
    make = getattr(library.optim, kind)
    used = library.ones(2, 2, requires_grad=True)
    first = make([used], **options)
    for _ in range(2):
        used.grad = library.full((2, 2), 0.125)
        used.grad = used.grad.to_sparse() if kind == "SparseAdam" else used.grad
        first.step(lambda: 1.0)
    other = library.ones(2, 2, dtype=getattr(library, dtype), requires_grad=True)
    second, saved = make([other], **options), first.state_dict()
    second.load_state_dict(saved)
    found = [described(library, s.state_dict()) for s in (first, second)]
    found.append([list(kept) for kept in second.state.values()])
    for kept in saved["state"].values():
        kept.update({name: 2 for name in ("step", "mu_product", "eta", "mu") if name in kept})
    second.load_state_dict(saved)
    return [*found, described(library, second.state_dict())]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float32"])
@pytest.mark.parametrize(("kind", "options"), STATES, ids=str)
def test_states_are_loaded_as_theirs(kind: str, options: dict[str, Any], dtype: str) -> None:
    ours, theirs = (loaded_states(library, kind, options, dtype) for library in (ej, torch))
    assert ours == theirs


@pytest.mark.parametrize("wrap", [lambda f: f, ej.jit], ids=["plain", "jitted"])
def test_momentum_with_dampening_starts_anew(wrap: Callable[[Any], Any]) -> None:
    """Where the state is new the first gradient counts in full, and where a buffer is given or loaded it doesn't."""
    found = []
    for library in (ej, torch):
        used = library.ones(2, requires_grad=True)
        optimizer = library.optim.SGD([used], 0.1, momentum=0.9, dampening=0.5)

        def step(x: Any, used: Any = used, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            (used * x).sum().backward()
            optimizer.step()

        run, values = wrap(step) if library is ej else step, []
        for change in range(6):
            for number in range(3):
                run(library.full((2,), number + 1.0))
                values.append(np.round(used.tolist(), 4).tolist())
            if change == 0:
                optimizer.state.clear()
            elif change == 1:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            elif change == 2:
                del optimizer.state[used]["momentum_buffer"]
            elif change == 3:
                optimizer.state[used]["momentum_buffer"] = library.ones(2)
            elif change == 4:
                optimizer.state[used]["momentum_buffer"] = None
        found.append([values, list(optimizer.state[used])])
    assert found[0] == found[1]


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "fused and foreach": lambda o, p: o.Adam([p], fused=True, foreach=True),
    "fused and differentiable": lambda o, p: o.SGD([p], fused=True, differentiable=True),
    "differentiable": lambda o, p: o.Adam([p], differentiable=True).step(),
    "several rates": lambda o, p: o.Adam([p], lr=p.detach()),
    "a rate that is a tensor": lambda o, p: o.Adam([p], lr=p.detach().mean(), foreach=True),
    "several rates of Muon": lambda o, p: o.Muon([p], lr=p.detach()),
    "mixed betas": lambda o, p: o.Adam([p], betas=(p.detach().sum(), 0.9)),
    "betas that are ints": lambda o, p: o.Adam([p], betas=(0, 0.9)),
    "one beta": lambda o, p: o.Adamax([p], betas=(0.9,)),
    "several epsilons": lambda o, p: o.RMSprop([p], eps=p.detach()),
    "an epsilon that is not a number": lambda o, p: o.Adam([p], eps=float("nan")),
    **{
        f"graphs of a CPU: {name}": lambda o, p, name=name: getattr(o, name)([p], capturable=True).step()
        for name in "Adam AdamW RMSprop Adadelta Adamax NAdam RAdam ASGD Rprop".split()
    },
    "start of sums": lambda o, p: o.Adagrad([p], initial_accumulator_value=-1),
    "epsilon of Adagrad": lambda o, p: o.Adagrad([p], eps=-1.0),
    "steps of Muon": lambda o, p: o.Muon([p], ns_steps=100).step(),
    "coefficients of Muon": lambda o, p: o.Muon([p], ns_coefficients=(1.0, 2.0)).step(),
    "no rule": lambda o, p: o.Optimizer([p], {}).step(),
    "a name missing": lambda o, p: o.SGD([("a", p), p.clone().detach()]),
    "a group without names": lambda o, p: o.SGD([("a", p)]).add_param_group({"params": [p.clone().detach()]}),
    "a group with names": lambda o, p: o.SGD([p]).add_param_group({"params": [("a", p.clone().detach())]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    kinds = []
    for library in (ej, torch):
        parameter = library.ones(2, 2, requires_grad=True)
        parameter.grad = library.ones(2, 2)
        with pytest.raises(Exception) as error:
            REFUSED[name](library.optim, parameter)
        kinds.append(error.type)
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("kind", ["Adafactor", "Muon"])
def test_refused_complex_parameters(kind: str) -> None:
    with pytest.raises(RuntimeError, match=f"{kind} does not support complex parameters"):
        trained(ej, kind)


def test_duplicates_warn_and_kept_gradients_allow_results() -> None:
    for library in (ej, torch):
        parameter = library.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="duplicate parameters"):
            library.optim.SGD([parameter, parameter])
        result = parameter * 2
        result.retain_grad()
        library.optim.SGD([result])


def own_optimizer(library: Any) -> Any:
    class Plain(library.optim.Optimizer):
        def __init__(self, params: Any):
            super().__init__(params, {})

        @library.no_grad()
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad, alpha=0.5)
            return closure and closure()

    return Plain


@pytest.mark.parametrize("kind", ["SGD", "LBFGS", "own"])
def test_hooks_of_every_step(kind: str) -> None:
    found = []
    for library in (ej, torch):
        log: list[Any] = []
        parameter = library.ones(2, requires_grad=True)
        parameter.grad = library.ones(2)
        optimizer = (own_optimizer(library) if kind == "own" else getattr(library.optim, kind))([parameter])
        common = inspect.getmodule(library.optim.Optimizer)
        shared = (
            common.register_optimizer_step_pre_hook(lambda o, a, k, log=log: log.append("all before")),
            common.register_optimizer_step_post_hook(lambda o, a, k, log=log: log.append("all after")),
        )
        optimizer.register_step_post_hook(lambda o, a, k, log=log: log.append(("after", len(a), sorted(k))))
        optimizer.register_step_pre_hook(lambda o, a, k, log=log: log.append(("before", a[0] is o, sorted(k))))
        optimizer.step(lambda parameter=parameter: (parameter * 0).sum())
        optimizer.step(closure=lambda parameter=parameter: (parameter * 0).sum())
        for handle in shared:
            handle.remove()
        handle = optimizer.register_step_pre_hook(
            lambda o, a, k, log=log: ((o, lambda: log.append("another") or 2.0), {})
        )
        optimizer.step(lambda log=log: log.append("given"))
        handle.remove()
        optimizer.register_step_pre_hook(lambda o, a, k: 3)
        with pytest.raises(RuntimeError, match="new_args, new_kwargs"):
            optimizer.step(lambda: 0)
        found.append(log)
    assert found[0] == found[1]


def test_hooks_of_states_in_their_order() -> None:
    found = []
    for library in (ej, torch):
        log: list[str] = []
        optimizer = library.optim.SGD([library.ones(2)])
        for kind in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
            register = getattr(optimizer, f"register_{kind}_hook")
            register(lambda *args, kind=kind, log=log: log.append(f"{kind} 1"))
            register(lambda *args, kind=kind, log=log: log.append(f"{kind} 0"), prepend=True)
        saved = copy.deepcopy(optimizer.state_dict())
        saved["state"][7] = {"of": "no parameter"}
        optimizer.load_state_dict(saved)
        found.append((log, optimizer.state[7]))
    assert found[0] == found[1]


def test_hooks_of_own_optimizers_in_compiled_calls() -> None:
    values = []
    for wrap in (lambda f: f, ej.jit):
        log: list[str] = []
        parameter = ej.ones(2, requires_grad=True)
        optimizer = own_optimizer(ej)([parameter])

        @wrap
        def step(parameter: Any = parameter, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            (parameter * parameter).sum().backward()
            optimizer.step()

        step()
        optimizer.register_step_post_hook(lambda o, a, k, log=log: log.append("after"))
        step()
        handle = inspect.getmodule(ej.optim.Optimizer).register_optimizer_step_pre_hook(
            lambda o, a, k, log=log: log.append("all")
        )
        step()
        handle.remove()
        step()
        values.append((parameter.tolist(), log))
    assert values[0] == values[1]
    assert values[0][1] == ["after", "all", "after", "after"]


@pytest.mark.parametrize("wrap", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", "SGD Adam AdamW RMSprop Adadelta Adagrad Adamax NAdam RAdam ASGD Rprop".split())
def test_flags_may_be_numbers(name: str, wrap: Callable[..., Any]) -> None:
    found = []
    for library in (torch, ej):
        parameter = library.ones(2, requires_grad=True)
        more = {"nesterov": 1, "momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(library.optim, name)([parameter], lr=0.1, maximize=1, **more)

        def step(parameter: Any = parameter, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            (parameter * parameter).sum().backward()
            optimizer.step()

        for _ in range(3):
            (wrap(step) if library is ej else step)()
        found.append(parameter.tolist())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "LBFGS"])
def test_a_parameter_given_twice(kind: str, wrap: Callable[[Any], Any]) -> None:
    def trained_twice(library: Any, wrap: Callable[[Any], Any]) -> list[Any]:
        twice, once = library.nn.Parameter(library.arange(3.0)), library.nn.Parameter(library.ones(2))
        with pytest.warns(UserWarning, match="duplicate parameters"):
            optimizer = getattr(library.optim, kind)([twice, twice, once], lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            ((twice**2).sum() + once.sum()).backward()
            optimizer.step()

        run = wrap(step)
        for _ in range(3):
            run()
        counts = [float(state["step"]) for state in optimizer.state.values() if "step" in state]
        return [*twice.tolist(), *once.tolist(), *counts]

    np.testing.assert_allclose(trained_twice(ej, wrap), trained_twice(torch, lambda f: f), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("library", [ej, torch])
def test_loading_lets_classes_complete_what_old_files_lack(library: Any) -> None:
    class Counting(library.optim.SGD):
        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("added", 7)
                for parameter in group["params"]:
                    kept = self.state.get(parameter, {})
                    if isinstance(kept.get("count"), int):
                        kept["count"] = library.tensor(float(kept["count"]))

    def made() -> Any:
        parameter = library.nn.Parameter(library.ones(2))
        return parameter, Counting([parameter], lr=0.5, momentum=0.5)

    parameter, optimizer = made()
    parameter.grad = library.ones(2)
    optimizer.step()
    optimizer.state[parameter]["count"] = 3
    saved = optimizer.state_dict()
    other, resumed = made()
    resumed.load_state_dict(saved)
    assert resumed.param_groups[0]["added"] == 7 and isinstance(resumed.state[other]["count"], library.Tensor)
    other.grad = library.ones(2)
    resumed.step()
    assert other.tolist() == [0.25, 0.25]


@pytest.mark.parametrize("library", [ej, torch])
def test_loaded_counts_of_derived_optimizers_are_apart(library: Any) -> None:
    class Counting(library.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter].setdefault("step", library.tensor(0.0))
                self.state[parameter]["step"] += 1

    def made() -> Any:
        return Counting([library.nn.Parameter(library.ones(n)) for n in (2, 3)], {})

    optimizer, resumed = made(), made()
    optimizer.step()
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    resumed.step()
    assert [float(kept["step"]) for kept in resumed.state.values()] == [2.0, 2.0]


@pytest.mark.parametrize("kind", [*KINDS, "Muon", "Adafactor", "SparseAdam"])
def test_loading_replaces_a_group_whole(kind: str) -> None:
    def loaded(t: Any) -> Any:
        optimizer = getattr(t.optim, kind)([t.nn.Parameter(t.ones(2, 2))], lr=0.1)
        before, parameters = optimizer.param_groups[0], optimizer.param_groups[0]["params"]
        before["own"] = 1
        saved = {"state": {}, "param_groups": [{"lr": [0.5], "params": [7]}]}
        optimizer.load_state_dict(saved)
        group = optimizer.param_groups[0]
        assert group is not before and group["params"] is parameters
        assert group["lr"] is not saved["param_groups"][0]["lr"]
        return {key: value for key, value in group.items() if key != "params"}

    assert loaded(ej) == loaded(torch)


def test_names_of_parameters_stay_where_a_file_has_none() -> None:
    def names(t: Any, **saved: Any) -> Any:
        optimizer = t.optim.SGD([("w", t.nn.Parameter(t.ones(2)))], lr=0.1)
        optimizer.load_state_dict({"state": {}, "param_groups": [{"lr": 0.5, "params": [0], **saved}]})
        return optimizer.param_groups[0]["param_names"]

    assert names(ej) == names(torch) == ["w"]
    assert names(ej, param_names=["v"]) == names(torch, param_names=["v"]) == ["v"]


def test_compiled_steps_after_a_group_lost_its_options() -> None:
    def trained_on(wrap: Callable[[Any], Any]) -> Any:
        parameter = ej.nn.Parameter(ej.ones(3))
        optimizer = ej.optim.SGD([parameter], lr=0.1, nesterov=True, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()

        run = wrap(step)
        run(), run()
        saved = optimizer.state_dict()
        del saved["param_groups"][0]["nesterov"]
        optimizer.load_state_dict(saved)
        run(), run()
        return parameter.tolist()

    assert trained_on(ej.jit) == trained_on(lambda step: step)


def test_groups_given_twice_are_numbered_as_in_pytorch() -> None:
    def numbers(t: Any) -> Any:
        parameters = [t.nn.Parameter(t.ones(1)) for _ in range(3)]
        optimizer = t.optim.SGD([{"params": parameters[:2]}, {"params": parameters[2:]}], lr=0.1)
        optimizer.param_groups.extend(optimizer.param_groups)
        return [group["params"] for group in optimizer.state_dict()["param_groups"]]

    assert numbers(ej) == numbers(torch)
