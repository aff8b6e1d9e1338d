"""Modules and optimizers against PyTorch: results, gradients, state and how they print."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from networks import networks
from oracle import draw, same

import eagerjit as ej

MODULES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Linear": (lambda n: n.Linear(5, 3), (4, 5)),
    "Linear no bias": (lambda n: n.Linear(5, 3, bias=False), (2, 4, 5)),
    "LayerNorm": (lambda n: n.LayerNorm(5), (4, 5)),
    "LayerNorm plain": (lambda n: n.LayerNorm((4, 5), elementwise_affine=False), (4, 5)),
    "LayerNorm no bias": (lambda n: n.LayerNorm(5, bias=False), (4, 5)),
    "RMSNorm": (lambda n: n.RMSNorm(5, eps=1e-3), (4, 5)),
    "GELU": (lambda n: n.GELU(), (4, 5)),
    "GELU tanh": (lambda n: n.GELU("tanh"), (4, 5)),
    "ReLU": (lambda n: n.ReLU(), (4, 5)),
    "ReLU inplace": (lambda n: n.Sequential(n.Linear(5, 5), n.ReLU(inplace=True)), (4, 5)),
    "ReLU6": (lambda n: n.ReLU6(), (4, 5)),
    "Tanh": (lambda n: n.Tanh(), (4, 5)),
    "Sigmoid": (lambda n: n.Sigmoid(), (4, 5)),
    "SiLU": (lambda n: n.SiLU(), (4, 5)),
    "ELU": (lambda n: n.ELU(0.5), (4, 5)),
    "LeakyReLU": (lambda n: n.LeakyReLU(0.2), (4, 5)),
    "Softplus": (lambda n: n.Softplus(), (4, 5)),
    "Hardtanh": (lambda n: n.Hardtanh(), (4, 5)),
    "Softmax": (lambda n: n.Softmax(dim=1), (4, 5)),
    "LogSoftmax": (lambda n: n.LogSoftmax(1), (4, 5)),
    "Identity": (lambda n: n.Identity(3, a=1), (4, 5)),
    "Flatten": (lambda n: n.Flatten(), (4, 5, 2)),
    "Unflatten": (lambda n: n.Unflatten(1, (5, 1)), (4, 5)),
    "Dropout eval": (lambda n: n.Dropout(0.3).eval(), (4, 5)),
    "GLU": (lambda n: n.GLU(), (4, 6)),
    "BatchNorm1d": (lambda n: n.BatchNorm1d(5), (4, 5)),
    "BatchNorm1d eval": (lambda n: n.BatchNorm1d(5).eval(), (4, 5, 3)),
    "BatchNorm2d": (lambda n: n.BatchNorm2d(3, momentum=None), (2, 3, 4, 5)),
    "BatchNorm2d plain": (lambda n: n.BatchNorm2d(3, affine=False, track_running_stats=False), (2, 3, 4, 5)),
    "GroupNorm": (lambda n: n.GroupNorm(2, 4), (3, 4, 5)),
    "CELU": (lambda n: n.CELU(0.5), (4, 5)),
    "Softshrink": (lambda n: n.Softshrink(), (4, 5)),
    "Mish": (lambda n: n.Mish(), (4, 5)),
    "Sequential": (lambda n: n.Sequential(n.Linear(5, 8), n.Tanh(), n.LayerNorm(8), n.Linear(8, 2)), (4, 5)),
    "named": (lambda n: n.Sequential(OrderedDict([("a", n.Linear(5, 4)), ("b", n.GELU())])), (4, 5)),
}


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
    for (key, p), q in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        same(p, q, 1e-5, key)


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
    "MSELoss": lambda n, t: n.MSELoss(),
    "L1Loss": lambda n, t: n.L1Loss(reduction="sum"),
    "SmoothL1Loss": lambda n, t: n.SmoothL1Loss(beta=0.5),
    "HuberLoss": lambda n, t: n.HuberLoss(delta=0.3),
    "BCELoss": lambda n, t: n.BCELoss(),
    "KLDivLoss": lambda n, t: n.KLDivLoss(reduction="batchmean"),
    "BCEWithLogitsLoss": lambda n, t: n.BCEWithLogitsLoss(pos_weight=t.tensor([1.0, 2.0, 3.0])),
    "CrossEntropyLoss": lambda n, t: n.CrossEntropyLoss(t.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_module(name: str) -> None:
    a, b = draw((4, 3), "float32", 0.1, 0.9, 1), draw((4, 3), "float32", 0.1, 0.9, 2)
    ours, theirs = LOSSES[name](ej.nn, ej), LOSSES[name](torch.nn, torch)
    assert repr(ours) == repr(theirs)
    same(ours(ej.tensor(a), ej.tensor(b)), theirs(torch.tensor(a), torch.tensor(b)))


def test_structure() -> None:
    ours, theirs = networks()
    assert repr(ours) == repr(theirs)
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
            messages.append(str(error))
        relaxed = network.load_state_dict(
            {k: v for k, v in state.items() if change != "size" or k != "head.weight"}, strict=False
        )
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

        early = object.__new__(library.nn.Linear)
        with pytest.raises(AttributeError):
            early.layer = library.nn.Linear(1, 1)


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
            handle = head.register_forward_hook(
                lambda m, args, out, seen=seen: seen.append((len(args), tuple(out.shape)))
            )
        elif kind == "backward":
            handle = head.register_full_backward_hook(
                lambda m, gi, go, seen=seen: seen.append(
                    ([g is not None for g in gi], [round(g.sum().item(), 4) for g in go])
                )
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


@pytest.mark.parametrize(
    "name",
    [
        "kaiming_uniform_",
        "kaiming_normal_",
        "xavier_uniform_",
        "xavier_normal_",
        "trunc_normal_",
        "uniform_",
        "normal_",
    ],
)
def test_initial_values(name: str) -> None:
    """The spread of initial values is PyTorch's; the values themselves are another generator's."""
    ej.manual_seed(0)
    torch.manual_seed(0)
    ours = getattr(ej.nn.init, name)(ej.nn.Parameter(ej.empty(200, 300)))
    theirs = getattr(torch.nn.init, name)(torch.nn.Parameter(torch.empty(200, 300)))
    assert abs(ours.std().item() / theirs.std().item() - 1) < 0.02
    assert abs(ours.mean().item() - theirs.mean().item()) < 0.02
    assert abs(ours.max().item() / theirs.max().item() - 1) < 0.2 and ours.requires_grad


OVERWRITTEN = {
    "batch_norm": lambda f, x, w: f.batch_norm(x, None, None, w, w, True),
    "group_norm": lambda f, x, w: f.group_norm(x, 2, w, w),
    "instance_norm": lambda f, x, w: f.instance_norm(x, weight=w, bias=w),
    "max_pool2d": lambda f, x, w: f.max_pool2d(x, 2) * w.reshape(-1, 1, 1).exp(),
    "known statistics": lambda f, x, w: f.batch_norm(x, w.detach(), w.detach().abs() + 1, w, w),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_results_that_gradients_do_not_read_may_be_overwritten(name):
    """Several results are kept for a gradient, the first one not: a ReLU in place after a norm is usual."""
    found = []
    for library, compiled in ((torch, False), (ej, False), (ej, True)):

        def layer(x, w, library=library):
            return OVERWRITTEN[name](library.nn.functional, x, w)

        x = (library.arange(128).reshape(2, 4, 4, 4) * 0.37).sin().requires_grad_()
        w = (library.arange(4) * 0.3).requires_grad_()
        out = (ej.jit(layer) if compiled else layer)(x, w)
        out.relu_().pow(2).sum().backward()
        found.append((x.grad.numpy(), w.grad.numpy()))
    theirs, eager, jitted = found
    for a, b, c in zip(theirs, eager, jitted, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
        assert (b == c).all()


@pytest.mark.parametrize("amounts", [(-4, 5), (5, -4), (-4, 2), (2, -4), (-3, 2)])
def test_replicated_borders_of_cuts_of_more_than_there_is(amounts):
    found, expected = (
        library.nn.functional.pad(library.arange(6.0).reshape(1, 2, 3), amounts, "replicate")
        for library in (ej, torch)
    )
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["constant", "reflect", "circular"])
def test_cuts_of_more_than_there_is_are_refused(mode):
    with pytest.raises(RuntimeError, match="padding"):
        ej.nn.functional.pad(ej.ones(1, 2, 3), (2, -4), mode)
