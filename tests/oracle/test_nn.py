"""Modules and optimizers against PyTorch: results, gradients, state and how they print."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import draw, same

import eagerjit as ej

MODULES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Linear": (lambda n: n.Linear(5, 3), (4, 5)), "Linear no bias": (lambda n: n.Linear(5, 3, bias=False), (2, 4, 5)),
    "LayerNorm": (lambda n: n.LayerNorm(5), (4, 5)), "LayerNorm plain": (lambda n: n.LayerNorm((4, 5), elementwise_affine=False), (4, 5)),
    "LayerNorm no bias": (lambda n: n.LayerNorm(5, bias=False), (4, 5)), "RMSNorm": (lambda n: n.RMSNorm(5, eps=1e-3), (4, 5)),
    "GELU": (lambda n: n.GELU(), (4, 5)), "GELU tanh": (lambda n: n.GELU("tanh"), (4, 5)), "ReLU": (lambda n: n.ReLU(), (4, 5)),
    "ReLU inplace": (lambda n: n.Sequential(n.Linear(5, 5), n.ReLU(inplace=True)), (4, 5)), "ReLU6": (lambda n: n.ReLU6(), (4, 5)),
    "Tanh": (lambda n: n.Tanh(), (4, 5)), "Sigmoid": (lambda n: n.Sigmoid(), (4, 5)), "SiLU": (lambda n: n.SiLU(), (4, 5)),
    "ELU": (lambda n: n.ELU(0.5), (4, 5)), "LeakyReLU": (lambda n: n.LeakyReLU(0.2), (4, 5)), "Softplus": (lambda n: n.Softplus(), (4, 5)),
    "Hardtanh": (lambda n: n.Hardtanh(), (4, 5)), "Softmax": (lambda n: n.Softmax(dim=1), (4, 5)), "LogSoftmax": (lambda n: n.LogSoftmax(1), (4, 5)),
    "Identity": (lambda n: n.Identity(3, a=1), (4, 5)), "Flatten": (lambda n: n.Flatten(), (4, 5, 2)), "Unflatten": (lambda n: n.Unflatten(1, (5, 1)), (4, 5)),
    "Dropout eval": (lambda n: n.Dropout(0.3).eval(), (4, 5)), "GLU": (lambda n: n.GLU(), (4, 6)), "Mish": (lambda n: n.Mish(), (4, 5)),
    "Sequential": (lambda n: n.Sequential(n.Linear(5, 8), n.Tanh(), n.LayerNorm(8), n.Linear(8, 2)), (4, 5)),
    "named": (lambda n: n.Sequential(OrderedDict([("a", n.Linear(5, 4)), ("b", n.GELU())])), (4, 5)),
}  # fmt: skip


def both(build: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The same module of both libraries with the same parameters."""
    ours, theirs = build(ej.nn), build(torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    return ours, theirs


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    build, shape = MODULES[name]
    ours, theirs = both(build)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    array = draw(shape, "float32", -2, 2, 1)
    x, y = ej.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    a, b = ours(x), theirs(y)
    same(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    same(x.grad, y.grad, 1e-4, "input")
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-4, key)


def test_embedding_module() -> None:
    ours, theirs = both(lambda n: n.Embedding(6, 3, padding_idx=1))
    assert repr(ours) == repr(theirs)
    assert not ours.weight[1].any()
    index = [[0, 1], [5, 0]]
    a, b = ours(ej.tensor(index)), theirs(torch.tensor(index))
    same(a, b)
    a.sum().backward()
    b.sum().backward()
    same(ours.weight.grad, theirs.weight.grad)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "MSELoss": lambda n, t: n.MSELoss(), "L1Loss": lambda n, t: n.L1Loss(reduction="sum"), "SmoothL1Loss": lambda n, t: n.SmoothL1Loss(beta=0.5),
    "HuberLoss": lambda n, t: n.HuberLoss(delta=0.3), "BCELoss": lambda n, t: n.BCELoss(), "KLDivLoss": lambda n, t: n.KLDivLoss(reduction="batchmean"),
    "BCEWithLogitsLoss": lambda n, t: n.BCEWithLogitsLoss(pos_weight=t.tensor([1.0, 2.0, 3.0])), "CrossEntropyLoss": lambda n, t: n.CrossEntropyLoss(t.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss_module(name: str) -> None:
    a, b = draw((4, 3), "float32", 0.1, 0.9, 1), draw((4, 3), "float32", 0.1, 0.9, 2)
    ours, theirs = LOSSES[name](ej.nn, ej), LOSSES[name](torch.nn, torch)
    assert repr(ours) == repr(theirs)
    same(ours(ej.tensor(a), ej.tensor(b)), theirs(torch.tensor(a), torch.tensor(b)))


class Network:
    """The same user-written network for both libraries."""

    @staticmethod
    def build(library: Any) -> Any:
        nn = library.nn

        class Inner(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(library.ones(3))
                self.register_buffer("count", library.zeros(1))
                self.register_buffer("scratch", library.zeros(2), persistent=False)
                self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
                self.table = nn.ModuleDict({"act": nn.Tanh()})
                self.extra = nn.ParameterList([nn.Parameter(library.zeros(3))])

            def forward(self, x: Any) -> Any:
                self.count += 1
                for layer in self.layers:
                    x = self.table["act"](layer(x)) * self.scale + self.extra[0]
                return x

        class Outer(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = Inner()
                self.shared = self.inner.layers[0]
                self.head = nn.Linear(3, 2, bias=False)

            def forward(self, x: Any) -> Any:
                return self.head(self.inner(x))

        return Outer()


def networks() -> tuple[Any, Any]:
    ours, theirs = Network.build(ej), Network.build(torch)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    return ours, theirs


def test_structure() -> None:
    ours, theirs = networks()
    assert repr(ours) == repr(theirs).replace("[torch.", "[eagerjit.")
    for method in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [n for n, _ in getattr(ours, method)()] == [n for n, _ in getattr(theirs, method)()], method
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert list(ours.state_dict(prefix="p.")) == list(theirs.state_dict(prefix="p."))
    assert ours.get_submodule("inner.layers.1") is ours.inner.layers[1]
    assert ours.get_parameter("inner.layers.1.weight") is ours.inner.layers[1].weight
    with pytest.raises(AttributeError):
        ours.get_submodule("inner.nothing")
    with pytest.raises(AttributeError):
        _ = ours.nothing


def test_training_flag_and_apply() -> None:
    ours, _ = networks()
    assert all(m.training for m in ours.modules())
    assert not any(m.training for m in ours.eval().modules())
    seen: list[str] = []
    ours.train().apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Outer" and seen.count("Linear") == 4
    ours.requires_grad_(False)
    assert not any(p.requires_grad for p in ours.parameters())


def test_state_dict_round_trip() -> None:
    ours, _ = networks()
    other, _ = networks()
    x = ej.tensor(draw((2, 3), "float32", -1, 1, 1))
    result = other.load_state_dict(ours.state_dict())
    assert result.missing_keys == [] and result.unexpected_keys == []
    assert ej.equal(ours(x), other(x))
    state = ours.state_dict()
    ours.head.weight.data.zero_()
    assert not state["head.weight"].any(), "state_dict shares memory"


@pytest.mark.parametrize("change", ["missing", "unexpected", "size", "none"])
def test_load_state_dict_errors(change: str) -> None:
    messages = []
    for library, network in zip((ej, torch), networks(), strict=True):
        state = dict(network.state_dict())
        if change == "missing":
            del state["head.weight"]
        elif change == "unexpected":
            state["more"] = library.zeros(1)
        elif change == "size":
            state["head.weight"] = library.zeros(1, 3)
        try:
            network.load_state_dict(state)
            messages.append("")
        except RuntimeError as error:
            messages.append(str(error).replace("eagerjit.Size", "torch.Size"))
        relaxed = network.load_state_dict({k: v for k, v in state.items() if change != "size" or k != "head.weight"}, strict=False)
        assert (relaxed.missing_keys == ["head.weight"]) == (change in ("missing", "size"))
    assert messages[0] == messages[1]


def test_assignment_rules() -> None:
    for library, network in zip((ej, torch), networks(), strict=True):
        with pytest.raises(TypeError):
            network.head.weight = library.zeros(2, 3)
        with pytest.raises(TypeError):
            network.inner.count = 3
        with pytest.raises(KeyError):
            network.register_buffer("a.b", library.zeros(1))
        network.head.weight = None
        assert network.head.weight is None and "head.weight" not in network.state_dict()
        network.head.weight = library.nn.Parameter(library.ones(2, 3))
        assert "head.weight" in dict(network.named_parameters())
        del network.head
        assert "head.weight" not in network.state_dict()

        class Early(library.nn.Module):
            def __init__(self) -> None:
                self.layer = library.nn.Linear(1, 1)

        with pytest.raises(AttributeError):
            Early()


def test_conversion_keeps_parameters() -> None:
    ours, _ = networks()
    weight = ours.head.weight
    ours(ej.zeros(1, 3)).sum().backward()
    ours.double()
    assert ours.head.weight is weight and weight.dtype is ej.float64 and weight.grad.dtype is ej.float64
    assert ours.inner.count.dtype is ej.float64
    assert ours.to(ej.float32).head.weight.dtype is ej.float32
    ours.zero_grad()
    assert weight.grad is None


def test_deepcopy() -> None:
    ours, _ = networks()
    twin = copy.deepcopy(ours)
    assert twin.shared is twin.inner.layers[0] and twin.head.weight is not ours.head.weight
    twin.head.weight.data.zero_()
    assert ours.head.weight.any()


@pytest.mark.parametrize("kind", ["pre", "forward", "backward", "replace", "replace gradient"])
def test_hooks(kind: str) -> None:
    outcomes = []
    for library, network in zip((ej, torch), networks(), strict=True):
        seen: list[Any] = []
        head = network.head
        if kind == "pre":
            handle = head.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        elif kind == "forward":
            handle = head.register_forward_hook(lambda m, args, out, seen=seen: seen.append((len(args), tuple(out.shape))))
        elif kind == "backward":
            handle = head.register_full_backward_hook(
                lambda m, gi, go, seen=seen: seen.append(([g is not None for g in gi], [round(g.sum().item(), 4) for g in go]))
            )
        elif kind == "replace":
            handle = head.register_forward_hook(lambda m, args, out: out * 3)
        else:
            handle = head.register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi))
        x = library.tensor(draw((2, 3), "float32", -1, 1, 1), requires_grad=True)
        out = network(x)
        out.sum().backward()
        handle.remove()
        outcomes.append((seen, out.detach().numpy(), x.grad.numpy(), network(x).detach().numpy()))
    assert outcomes[0][0] == outcomes[1][0]
    for a, b in zip(outcomes[0][1:], outcomes[1][1:], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}), "SGD momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "SGD dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}), "SGD nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "SGD maximize": ("SGD", {"lr": 0.001, "maximize": True}), "Adam": ("Adam", {"lr": 0.05}), "Adam decay": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    "Adam amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True, "eps": 1e-3}), "AdamW": ("AdamW", {"lr": 0.05}), "AdamW maximize": ("AdamW", {"lr": 0.05, "maximize": True}),
    "RMSprop": ("RMSprop", {"lr": 0.01}), "RMSprop centered": ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "Adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.01}),
}  # fmt: skip


def steps(library: Any, network: Any, optimizer: Any, count: int, start: int = 0) -> None:
    for step in range(start, start + count):
        optimizer.zero_grad()
        x = library.tensor(draw((4, 3), "float64", -1, 1, step))
        loss = network(x).square().sum()
        if step % 4 == 2:
            loss = network.inner(x).square().sum()  # the head has no gradient in this step
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    kind, options = OPTIMIZERS[name]
    ours, theirs = (n.double() for n in networks())
    mine, other = getattr(ej.optim, kind)(ours.parameters(), **options), getattr(torch.optim, kind)(theirs.parameters(), **options)
    steps(ej, ours, mine, 10)
    steps(torch, theirs, other, 10)
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p, q, 1e-6, key)
    saved = mine.state_dict()
    assert set(saved) == {"state", "param_groups"} and saved["param_groups"][0]["params"] == other.state_dict()["param_groups"][0]["params"]
    again = copy.deepcopy(ours)
    taken = getattr(ej.optim, kind)(again.parameters(), lr=9.0)
    taken.load_state_dict(saved)
    steps(ej, ours, mine, 3, 10)
    steps(ej, again, taken, 3, 10)
    assert all(ej.equal(p, q) for p, q in zip(ours.parameters(), again.parameters(), strict=True))


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
        optimizer = library.optim.SGD([{"params": network.inner.parameters()}, {"params": network.head.parameters(), "lr": 0.0}], lr=0.1)
        before = network.head.weight.detach().clone()
        calls: list[str] = []
        optimizer.register_step_pre_hook(lambda o, a, k, calls=calls: calls.append("pre"))
        optimizer.register_step_post_hook(lambda o, a, k, calls=calls: calls.append("post"))
        loss = optimizer.step(lambda network=network, library=library: (value := network(library.ones(1, 3)).sum(), value.backward())[0])
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
    from eagerjit.dispatch import OPS

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
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda step: 0.9**step), "StepLR": lambda s, o: s.StepLR(o, 3, 0.5), "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5]),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9), "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 7, 0.01), "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 1.0, 4),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 3), "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, 12, cycle_momentum=False),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(o, 0.5, epochs=3, steps_per_epoch=4, anneal_strategy="linear", cycle_momentum=False),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 3), s.ExponentialLR(o, 0.5)], [3]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler(name: str) -> None:
    rates = []
    for library in (ej, torch):
        weight = library.nn.Parameter(library.ones(1))
        optimizer = library.optim.SGD([weight], lr=0.2)
        scheduler = SCHEDULERS[name](library.optim.lr_scheduler, optimizer)
        seen = [optimizer.param_groups[0]["lr"]]
        for _ in range(10):
            optimizer.step()
            scheduler.step()
            seen.append(scheduler.get_last_lr()[0])
        rates.append(seen)
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9)


def test_scheduler_state() -> None:
    optimizer = ej.optim.SGD([ej.nn.Parameter(ej.ones(1))], lr=0.2)
    scheduler = ej.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(3):
        scheduler.step()
    other = ej.optim.lr_scheduler.CosineAnnealingLR(ej.optim.SGD([ej.nn.Parameter(ej.ones(1))], lr=0.2), 10)
    other.load_state_dict(scheduler.state_dict())
    scheduler.step()
    other.step()
    assert scheduler.get_last_lr() == other.get_last_lr()


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


@pytest.mark.parametrize("name", ["kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_", "trunc_normal_", "uniform_", "normal_"])
def test_initial_values(name: str) -> None:
    """The spread of initial values is PyTorch's; the values themselves are another generator's."""
    ej.manual_seed(0)
    torch.manual_seed(0)
    ours = getattr(ej.nn.init, name)(ej.nn.Parameter(ej.empty(200, 300)))
    theirs = getattr(torch.nn.init, name)(torch.nn.Parameter(torch.empty(200, 300)))
    assert abs(ours.std().item() / theirs.std().item() - 1) < 0.02
    assert abs(ours.mean().item() - theirs.mean().item()) < 0.02
    assert abs(ours.max().item() / theirs.max().item() - 1) < 0.2 and ours.requires_grad
