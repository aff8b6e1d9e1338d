"""Optimizers, learning rate schedules and helpers over parameters against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from networks import networks
from oracle import draw, same

import eagerjit as ej

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "SGD dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "SGD nesterov": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    "SGD maximize": ("SGD", {"lr": 0.001, "maximize": True}),
    "Adam": ("Adam", {"lr": 0.05}),
    "Adam decay": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    "Adam amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True, "eps": 1e-3}),
    "AdamW": ("AdamW", {"lr": 0.05}),
    "AdamW maximize": ("AdamW", {"lr": 0.05, "maximize": True}),
    "RMSprop": ("RMSprop", {"lr": 0.01}),
    "RMSprop centered": ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "Adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.01}),
    "Adadelta": ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.01}),
    "Adamax": ("Adamax", {"lr": 0.05, "weight_decay": 0.01}),
    "Adamax maximize": ("Adamax", {"maximize": True}),
    "NAdam": ("NAdam", {"lr": 0.05}),
    "NAdam decay": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ("RAdam", {"lr": 0.05, "betas": (0.9, 0.8)}),
    "RAdam decay": ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam long": ("RAdam", {"lr": 0.05, "weight_decay": 0.1}),
    "Rprop": ("Rprop", {"lr": 0.01, "step_sizes": (1e-4, 0.03)}),
    "Adafactor": ("Adafactor", {"lr": 0.05}),
    "Adafactor decay": (
        "Adafactor", {"lr": 0.5, "weight_decay": 0.1, "d": 1.5, "eps": (1e-4, 1e-2), "beta2_decay": -0.5},
    ),
    "Adafactor maximize": ("Adafactor", {"maximize": True}),
    "ASGD": ("ASGD", {"lr": 0.05, "lambd": 0.1, "t0": 3.0, "weight_decay": 0.01}),
}


def steps(library: Any, network: Any, optimizer: Any, count: int, start: int = 0) -> None:
    for step in range(start, start + count):
        optimizer.zero_grad()
        x = library.tensor(draw((4, 3), "float64", -1, 1, step))
        loss = network(x).square().sum()
        if step % 4 == 2:
            loss = network.inner(x).square().sum()  # the head has no gradient in this step
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("dampening", [0.0, 0.3])
def test_momentum_switched_on_between_steps(dampening: float) -> None:
    ours, theirs = (n.double() for n in networks())
    pairs = (
        (ej, ours, ej.optim.SGD(ours.parameters(), lr=0.1)),
        (torch, theirs, torch.optim.SGD(theirs.parameters(), lr=0.1)),
    )
    for library, network, optimizer in pairs:
        steps(library, network, optimizer, 3)
        optimizer.param_groups[0].update(momentum=0.9, dampening=dampening)
        steps(library, network, optimizer, 4, 3)
        optimizer.param_groups[0]["weight_decay"] = 0.1
        steps(library, network, optimizer, 2, 7)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(mine, other)


def test_options_in_a_dictionary_of_the_program() -> None:
    found = []
    for library in (ej, torch):
        weight = library.nn.Parameter(library.ones(2))
        optimizer = library.optim.SGD([weight], lr=0.125)
        optimizer.param_groups = [{**group} for group in optimizer.param_groups]
        for momentum in (0.0, 0.0, 0.5, 0.5, 0.0):
            optimizer.param_groups[0]["momentum"] = momentum
            weight.grad = library.ones(2)
            optimizer.step()
            found.append(weight.tolist())
    assert found[:5] == found[5:]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    kind, options = OPTIMIZERS[name]
    ours, theirs = (n.double() for n in networks())
    mine, other = (
        getattr(ej.optim, kind)(ours.parameters(), **options),
        getattr(torch.optim, kind)(theirs.parameters(), **options),
    )
    steps(ej, ours, mine, 10)
    steps(torch, theirs, other, 10)
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p, q, 1e-6, key)
    saved, expected = mine.state_dict(), other.state_dict()
    assert saved["param_groups"] == expected["param_groups"]
    for number, state in expected["state"].items():
        if state:
            mine_state = {k: tuple(v.shape) for k, v in saved["state"][number].items()}
            assert mine_state == {k: tuple(v.shape) for k, v in state.items() if v is not None}
    again = copy.deepcopy(ours)
    taken = getattr(ej.optim, kind)(again.parameters(), lr=9.0)
    for optimizer, state in ((taken, saved), (mine, saved), (other, expected)):
        optimizer.load_state_dict(state)
    steps(ej, ours, mine, 3, 10)
    steps(ej, again, taken, 3, 10)
    steps(torch, theirs, other, 3, 10)
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p, q, 1e-6, key)
    assert all(ej.equal(p, q) for p, q in zip(ours.parameters(), again.parameters(), strict=True))


MUON: dict[str, dict[str, Any]] = {
    "plain": {},
    "match": {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw", "nesterov": False},
    "decay": {"lr": 0.01, "weight_decay": 0.5, "momentum": 0.5, "ns_steps": 3},
}


@pytest.mark.parametrize("name", MUON)
def test_muon(name: str) -> None:
    results = []
    for library in (ej, torch):
        weights = [library.tensor(draw(s, "float32", -1, 1, 3), requires_grad=True) for s in ((5, 3), (3, 4), (4, 4))]
        optimizer = library.optim.Muon(weights, **MUON[name])
        for step in range(5):
            optimizer.zero_grad()
            x = library.tensor(draw((7, 5), "float32", -1, 1, step))
            (x @ weights[0] @ weights[1] @ weights[2]).square().mean().backward()
            optimizer.step()
        results.append([*weights, *(optimizer.state[w]["momentum_buffer"] for w in weights)])
        assert all(list(optimizer.state[w]) == ["momentum_buffer"] for w in weights)
    same(*results, 5e-3)  # directions are computed in bfloat16


REFUSED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Muon": lambda optim, vector, matrix: optim.Muon([vector]),
    "Adjust": lambda optim, vector, matrix: optim.Muon([matrix], adjust_lr_fn="no"),
    "Learning": lambda optim, vector, matrix: optim.Muon([matrix], lr=-1.0),
    "Clipping": lambda optim, vector, matrix: optim.Adafactor([vector], d=0.5),
    "epsilon": lambda optim, vector, matrix: optim.Adafactor([vector], eps=(-1.0, 0.1)),
    "beta2": lambda optim, vector, matrix: optim.Adafactor([vector], beta2_decay=0.5),
}


@pytest.mark.parametrize("word", REFUSED)
def test_wrong_options_of_muon_and_adafactor(word: str) -> None:
    for library in (ej, torch):
        with pytest.raises(ValueError, match=word):
            REFUSED[word](library.optim, library.ones(3), library.ones(2, 2))


def test_adam_takes_over_a_torch_state() -> None:
    ours, theirs = networks()
    mine, other = ej.optim.Adam(ours.parameters(), lr=0.1), torch.optim.Adam(theirs.parameters(), lr=0.1)
    for network in (ours, theirs):
        network.double()
    steps(torch, theirs, other, 3)
    state = other.state_dict()
    state["state"] = {i: {k: ej.tensor(v.numpy()) for k, v in s.items()} for i, s in state["state"].items()}
    mine.load_state_dict(state)
    ours.load_state_dict({k: ej.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    steps(ej, ours, mine, 3, 3)
    steps(torch, theirs, other, 3, 3)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p, q, 1e-6)


def test_parameter_groups_and_hooks() -> None:
    for library, network in zip((ej, torch), networks(), strict=True):
        optimizer = library.optim.SGD(
            [{"params": network.inner.parameters()}, {"params": network.head.parameters(), "lr": 0.0}], lr=0.1
        )
        before = network.head.weight.detach().clone()
        calls: list[str] = []
        optimizer.register_step_pre_hook(lambda o, a, k, calls=calls: calls.append("pre"))
        optimizer.register_step_post_hook(lambda o, a, k, calls=calls: calls.append("post"))
        loss = optimizer.step(
            lambda network=network, library=library: (value := network(library.ones(1, 3)).sum(), value.backward())[0]
        )
        assert loss is not None and calls == ["pre", "post"]
        assert library.equal(network.head.weight, before)
        with pytest.raises(ValueError):
            optimizer.add_param_group({"params": [network.head.weight]})
        with pytest.raises(ValueError):
            library.optim.Adam(network.parameters(), lr=-1)
        with pytest.raises(ValueError):
            library.optim.SGD([], lr=0.1)
        with pytest.raises(TypeError):
            library.optim.SGD(network.head.weight, lr=0.1)
        with pytest.raises(ValueError):
            library.optim.SGD([network.head.weight * 1], lr=0.1)


def test_steps_compile_once() -> None:
    from eagerjit.calling.dispatch import OPS

    network = ej.nn.Linear(3, 2)
    optimizer = ej.optim.AdamW(network.parameters(), lr=0.1)
    counts = []
    for step in range(4):
        network(ej.ones(2, 3)).sum().backward()
        optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
        optimizer.step()
        counts.append(sum(map(len, OPS["adam_step"].programs.values())))
    assert counts == [counts[0]] * 4


SCHEDULERS: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, [lambda step: 0.9, lambda step: 1 - 0.05 * step]),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5]),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 8, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 4, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 1.0, 4),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 3),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, 13),
    "OneCycleLR fixed momentum": lambda s, o: s.OneCycleLR(o, [0.5, 0.2], 13, cycle_momentum=False),
    "OneCycleLR three phases": lambda s, o: s.OneCycleLR(o, 0.5, 13, three_phase=True),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(o, 0.5, epochs=3, steps_per_epoch=5, anneal_strategy="linear"),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3),
    "CyclicLR halving": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.2], 2, 3, mode="triangular2"),
    "CyclicLR falling": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "CyclicLR own": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 3), s.ExponentialLR(o, 0.5)], [3]),
    "SequentialLR of three": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.CosineAnnealingLR(o, 4), s.StepLR(o, 2)], [2, 6]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]),
    "two at once": lambda s, o: (s.CosineAnnealingLR(o, 20), s.LinearLR(o, 0.1, 1.0, 5))[1],
    "SWALR": lambda s, o: _swa(s).SWALR(o, 0.05, 4),
    "SWALR linear": lambda s, o: _swa(s).SWALR(o, [0.05, 0.5], 4, "linear"),
}


def _swa(schedulers: Any) -> Any:
    return (ej if schedulers is ej.optim.lr_scheduler else torch).optim.swa_utils


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_scheduler(name: str, kind: str) -> None:
    rates = []
    for library in (ej, torch):
        weights = [library.nn.Parameter(library.ones(1)) for _ in range(2)]
        options = {"momentum": 0.9} if kind == "SGD" else {}
        groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.4}]
        optimizer = getattr(library.optim, kind)(groups, lr=0.2, **options)
        scheduler = SCHEDULERS[name](library.optim.lr_scheduler, optimizer)
        seen = []
        for _ in range(12):
            for group in optimizer.param_groups:
                momentum = group.get("momentum", group.get("betas", (0.0,)))
                seen += [group["lr"], momentum[0] if isinstance(momentum, tuple) else momentum]
            seen += list(scheduler.get_last_lr())
            optimizer.step()
            scheduler.step()
        rates.append(seen)
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "CosineAnnealingLR", "LinearLR", "PolynomialLR"])
def test_scheduler_goes_to_an_epoch(name: str) -> None:
    rates = []
    for library in (ej, torch):
        optimizer = library.optim.SGD([library.nn.Parameter(library.ones(1))], lr=0.2)
        scheduler = SCHEDULERS[name](library.optim.lr_scheduler, optimizer)
        seen = []
        for epoch in (3, 1, 6):
            scheduler.step(epoch)
            seen.append(scheduler.get_last_lr()[0])
        rates.append(seen)
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "max", "patience": 1}, {"threshold_mode": "abs", "threshold": 0.2, "patience": 0, "cooldown": 2},
     {"patience": 0, "factor": 0.5, "min_lr": 0.06}],
)  # fmt: skip
def test_plateau(options: dict[str, Any]) -> None:
    rates = []
    for library in (ej, torch):
        optimizer = library.optim.SGD([library.nn.Parameter(library.ones(1))], lr=0.2)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 2, **options})
        seen = []
        for loss in (1.0, 0.9, 0.95, 0.91, 0.9, 0.89, 0.89, 0.5, 0.6, 0.7, 0.8):
            scheduler.step(library.tensor(loss))
            seen.append(scheduler.get_last_lr()[0])
        rates.append(seen)
        with pytest.raises(ValueError):
            library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=1.0)
    assert rates[0] == rates[1]


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("kind", ["mean", "exponential", "exponential of all"])
def test_averaged_model(kind: str, use_buffers: bool) -> None:
    found = []
    for library in (ej, torch):
        swa = library.optim.swa_utils
        network = library.nn.Sequential(library.nn.Linear(3, 2), library.nn.BatchNorm1d(2))
        with library.no_grad():
            for index, p in enumerate(network.parameters()):
                p.copy_(library.tensor(draw(tuple(p.shape), "float32", -1, 1, index)))
        options = {
            "mean": {},
            "exponential": {"avg_fn": swa.get_ema_avg_fn(0.8)},
            "exponential of all": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)},
        }[kind]
        average = swa.AveragedModel(network, use_buffers=use_buffers, **options)
        x = library.tensor(draw((4, 3), "float32", -1, 1, 9))
        for _ in range(3):
            network(x)
            with library.no_grad():
                for p in network.parameters():
                    p.mul_(1.5)
            average.update_parameters(network)
        before = [(f"{k} before", np.array(v)) for k, v in average.state_dict().items()]
        swa.update_bn([(x,), (x * 2,)], average)
        found.append([*before, *((k, np.array(v)) for k, v in average.state_dict().items())])
        assert average(x).shape == (4, 2)
    for (a, x), (b, y) in zip(*found, strict=True):
        assert a == b
        np.testing.assert_allclose(x, y, rtol=1e-5, err_msg=a)


def test_scheduler_state() -> None:
    """A schedule goes on where a saved one was, together with its optimizer."""
    rates = []
    for library in (ej, torch):
        optimizers = [library.optim.SGD([library.nn.Parameter(library.ones(1))], lr=0.2) for _ in range(2)]
        first, second = (library.optim.lr_scheduler.CosineAnnealingLR(o, 10) for o in optimizers)
        for _ in range(3):
            first.step()
        optimizers[1].load_state_dict(optimizers[0].state_dict())
        second.load_state_dict(first.state_dict())
        first.step()
        second.step()
        rates.append([first.get_last_lr(), second.get_last_lr(), second.last_epoch])
    assert rates[0] == rates[1] and rates[0][0] == rates[0][1]


@pytest.mark.parametrize("norm", [2.0, 1.0, float("inf")])
def test_clipping(norm: float) -> None:
    totals = []
    for library, network in zip((ej, torch), networks(), strict=True):
        network(library.ones(2, 3)).square().sum().backward()
        total = library.nn.utils.clip_grad_norm_(network.parameters(), 0.5, norm)
        totals.append([total.item(), *(p.grad.numpy() for p in network.parameters())])
        library.nn.utils.clip_grad_value_(network.parameters(), 0.01)
        assert max(p.grad.abs().max().item() for p in network.parameters()) <= 0.0100001
    for a, b in zip(*totals, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_parameters_as_vector() -> None:
    ours, _ = networks()
    vector = ej.nn.utils.parameters_to_vector(ours.parameters())
    ej.nn.utils.vector_to_parameters(vector * 2, ours.parameters())
    assert ej.equal(ej.nn.utils.parameters_to_vector(ours.parameters()), vector * 2)


LBFGS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.1, "max_iter": 6},
    "history": {"lr": 0.5, "history_size": 2, "max_iter": 8},  # 20 iterations would make 1e-6 of the last bit
    "strong Wolfe": {"line_search_fn": "strong_wolfe"},
    "long steps": {"lr": 3.0, "line_search_fn": "strong_wolfe", "max_eval": 12},
    "a search that is cut short": {"lr": 40.0, "line_search_fn": "strong_wolfe", "max_eval": 3},
}


@pytest.mark.parametrize("name", LBFGS)
def test_lbfgs(name: str) -> None:
    """Rosenbrock's function in two dimensions, and a quadratic part that couples two parameters."""
    found = []
    for library in (ej, torch):
        x = library.tensor([-1.0, 1.5], dtype=library.float64, requires_grad=True)
        y = library.tensor([[0.5]], dtype=library.float64, requires_grad=True)
        optimizer = library.optim.LBFGS([x, y], **LBFGS[name])

        def closure(x: Any = x, y: Any = y, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 + 5 * (x[1] - x[0] ** 2) ** 2 + (y * x[0] - 1).square().sum()
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(4)]
        state = optimizer.state_dict()["state"][0]
        found.append([losses, x.tolist(), y.tolist(), state["func_evals"], state["n_iter"]])
        with pytest.raises(ValueError):
            library.optim.LBFGS([{"params": [x]}, {"params": [y]}])
        with pytest.raises(TypeError):
            optimizer.step()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "rho": lambda o, p: o.Adadelta([p], rho=2),
    "eta": lambda o, p: o.Rprop([p], etas=(1.5, 1.2)),
    "betas": lambda o, p: o.NAdam([p], betas=(1.0, 0.9)),
    "momentum decay": lambda o, p: o.NAdam([p], momentum_decay=-1),
    "decay": lambda o, p: o.ASGD([p], weight_decay=-1),
    "set": lambda o, p: o.SGD([{"params": {p}}], lr=0.1),
    "no parameter": lambda o, p: o.SGD([3], lr=0.1),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kinds = []
    for library in (ej, torch):
        with pytest.raises(Exception) as error:
            ERRORS[name](library.optim, library.ones(1, requires_grad=True))
        kinds.append(error.type)
    assert kinds[0] is kinds[1]


def test_a_user_defined_optimizer() -> None:
    def build(library: Any) -> Any:
        class Signs(library.optim.Optimizer):
            def __init__(self, params: Any, lr: float = 0.1):
                super().__init__(params, {"lr": lr})

            @library.no_grad()
            def step(self, closure: Any = None) -> Any:
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        state = self.state[p]
                        if len(state) == 0:
                            state["step"], state["mean"] = 0, library.zeros_like(p)
                        state["step"] += 1
                        state["mean"].mul_(0.9).add_(p.grad, alpha=0.1)
                        p.add_(state["mean"].sign(), alpha=-group["lr"])

        return Signs

    found = []
    for library, network in zip((ej, torch), (n.double() for n in networks()), strict=True):
        optimizer = build(library)(network.named_parameters())
        steps(library, network, optimizer, 4)
        again = build(library)(network.parameters(), lr=3.0)
        again.load_state_dict(optimizer.state_dict())
        steps(library, network, again, 2, 4)
        state = again.state_dict()
        found.append([[p.tolist() for p in network.parameters()], state["state"][0]["step"], state["param_groups"]])
        assert optimizer.param_groups[0]["param_names"][0] == next(network.named_parameters())[0]
    for a, b in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert found[0][1:] == found[1][1:]


def test_jitted_steps() -> None:
    """Every optimizer, jitted: the same bits, and nothing compiled again when rates and momenta change."""
    for kind, options in (("Adadelta", {}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("Rprop", {}), ("ASGD", {})):
        values = []
        for wrap in (lambda f: f, ej.jit):
            ej.manual_seed(0)
            network = ej.nn.Linear(3, 2)
            optimizer = getattr(ej.optim, kind)(network.parameters(), **options)

            def step(x: Any, network: Any = network, optimizer: Any = optimizer) -> None:
                optimizer.zero_grad()
                network(x).square().sum().backward()
                optimizer.step()

            function = wrap(step)
            for index in range(5):
                optimizer.param_groups[0]["lr"] = 0.1 / (index + 1)
                if "betas" in optimizer.param_groups[0]:
                    optimizer.param_groups[0]["betas"] = (0.9 - 0.01 * index, 0.99)
                function(ej.tensor(draw((4, 3), "float32", -1, 1, index)))
            values.append([p.detach().numpy().tobytes() for p in network.parameters()])
        assert values[0] == values[1], kind
        assert len(function.variants) <= 2, kind


TENSOR_RATES: dict[str, Callable[[Any, Any], Any]] = {
    "cycle": lambda s, o: s.CyclicLR(o, 0.25, 1.0, 2, cycle_momentum=False),
    "one after the other": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.5)], [2]),
}


@pytest.mark.parametrize("name", TENSOR_RATES)
def test_schedulers_write_rates_that_are_tensors(name: str) -> None:
    found = []
    for library in (ej, torch):
        rate = library.tensor(1.0)
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=rate)
        scheduler = TENSOR_RATES[name](library.optim.lr_scheduler, optimizer)
        rates = []
        for _ in range(4):
            optimizer.step()
            scheduler.step()
            assert optimizer.param_groups[0]["lr"] is rate
            rates.append(rate.item())
        found.append(rates)
    assert found[0] == pytest.approx(found[1])


def test_a_measured_quantity_reduces_a_rate_that_is_a_tensor() -> None:
    for library in (ej, torch):
        rate = library.tensor(1.0)
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=rate)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        scheduler.step(1.0)
        scheduler.step(2.0)
        assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.5


def test_schedulers_warn_of_an_epoch_and_refuse_other_objects() -> None:
    for library in (ej, torch):
        schedulers = library.optim.lr_scheduler
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)])
        scheduler = schedulers.StepLR(optimizer, 2)
        optimizer.step()
        with pytest.warns(UserWarning, match="epoch parameter"):
            scheduler.step(3)
        with pytest.raises(TypeError):
            schedulers.SequentialLR(optimizer, [scheduler, 3], [2])
        with pytest.raises(TypeError):
            schedulers.ChainedScheduler([scheduler]).step(2)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Rprop", "NAdam", "RAdam", "ASGD"])
def test_programs_keep_state_of_their_own(name: str) -> None:
    """Beside the parameters', and of parameters that had no step yet: a wrapper's perturbed weights come and go."""

    def trained(t: Any) -> Any:
        (parameter, other) = (t.nn.Parameter(t.tensor([1.0, 2.0])) for _ in range(2))
        optimizer, restored = (getattr(t.optim, name)([p], lr=0.1) for p in (parameter, other))
        for _ in range(3):
            optimizer.state[parameter]["before"] = parameter.detach().clone()
            parameter.grad = optimizer.state[parameter].pop("before") * 2
            optimizer.step()
        optimizer.state["kept"], optimizer.state["count"] = t.tensor(3), 7
        saved = optimizer.state_dict()
        restored.load_state_dict(saved)
        own = restored.state["kept"].item(), restored.state["count"]
        return parameter.tolist(), (sorted(map(str, saved["state"])), own)

    (found, kept), (expected, theirs) = trained(ej), trained(torch)
    assert kept == theirs and np.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_parameters_given_twice_are_numbered_as_in_pytorch() -> None:
    def numbers(t: Any) -> Any:
        first, second = (t.nn.Parameter(t.ones(1)) for _ in range(2))
        return t.optim.SGD([first, first, second], lr=0.1).state_dict()["param_groups"][0]["params"]

    with pytest.warns(UserWarning):
        assert numbers(ej) == numbers(torch)
