"""Parametrizations, weight and spectral norm, initial values and clipping against PyTorch, and jitted."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import array_of, draw, same

import eagerjit as ej

NORMS: dict[str, Callable[[Any], Any]] = {
    "weight norm": lambda n: n.utils.weight_norm(n.Linear(3, 4)),
    "weight norm of all": lambda n: n.utils.weight_norm(n.Linear(3, 4), dim=None),
    "weight norm of columns": lambda n: n.utils.weight_norm(n.Linear(3, 4), dim=1),
    "weight norm of a convolution": lambda n: n.Sequential(
        n.Unflatten(1, (1, 3)), n.utils.weight_norm(n.Conv1d(1, 4, 2))
    ),
    "spectral norm": lambda n: n.utils.spectral_norm(n.Linear(3, 4)),
    "spectral norm eval": lambda n: n.utils.spectral_norm(n.Linear(3, 4), n_power_iterations=3).eval(),
    "parametrized weight norm": lambda n: n.utils.parametrizations.weight_norm(n.Linear(3, 4)),
    "parametrized spectral norm": lambda n: n.utils.parametrizations.spectral_norm(n.Linear(3, 4)),
    "matrix exponential": lambda n: n.utils.parametrizations.orthogonal(n.Linear(3, 4), orthogonal_map="matrix_exp"),
    "Cayley": lambda n: n.utils.parametrizations.orthogonal(n.Linear(3, 2), orthogonal_map="cayley"),
    "Householder": lambda n: n.utils.parametrizations.orthogonal(n.Linear(3, 5), orthogonal_map="householder"),
    "no base": lambda n: n.utils.parametrizations.orthogonal(
        n.Linear(3, 4), orthogonal_map="cayley", use_trivialization=False
    ),
    "symmetric": lambda n: n.utils.parametrize.register_parametrization(n.Linear(3, 3), "weight", symmetric(n)),
    "two": lambda n: n.utils.parametrize.register_parametrization(
        n.utils.parametrizations.weight_norm(n.Linear(3, 3)), "weight", symmetric(n)
    ),
}


def symmetric(nn: Any) -> Any:
    class Symmetric(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).t()

    return Symmetric()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str) -> None:
    ours, theirs = NORMS[name](ej.nn), NORMS[name](torch.nn)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    results = []
    for library, network in ((ej, ours), (torch, theirs)):
        x = library.tensor(draw((2, 3), "float32", -1, 1, 1), requires_grad=True)
        out = [network(x), network(x)]
        sum(o.square().sum() for o in out).backward()
        results.append([*out, x.grad])
    same(*results, 1e-4)
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-3, key)
    for (key, p), q in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        same(p, q, 1e-4, key)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NORMS)
def test_norms_jitted(name: str) -> None:
    module, twin = NORMS[name](ej.nn), NORMS[name](ej.nn)
    twin.load_state_dict(module.state_dict())
    bits = []
    for network, wrap in ((module, lambda f: f), (twin, ej.jit)):

        def step(x: Any, network: Any = network) -> Any:
            loss = network(x).square().sum()
            loss.backward()
            return loss

        function = wrap(step)
        losses = [function(ej.tensor(draw((2, 3), "float32", -1, 1, i))) for i in range(2)]
        values = [*losses, *(p.grad for p in network.parameters()), *network.buffers()]
        bits.append([array_of(v).tobytes() for v in values])
    assert bits[0] == bits[1]


def test_parametrized_modules_are_copied() -> None:
    for library in (ej, torch):
        for apply in (library.nn.utils.parametrizations.orthogonal, library.nn.utils.parametrizations.weight_norm):
            module = apply(library.nn.Linear(3, 2))
            made = copy.deepcopy(module)
            assert library.equal(made.weight, module.weight)
            before = module.weight.detach().clone()
            with library.no_grad():
                made.parametrizations.weight.original0.zero_() if hasattr(
                    made.parametrizations.weight, "original0"
                ) else made.parametrizations.weight.original.zero_()
            assert library.equal(module.weight, before)
            assert type(made).__name__ == "ParametrizedLinear"


@pytest.mark.filterwarnings("ignore")
def test_norms_are_removed_and_copied() -> None:
    for library in (ej, torch):
        utils = library.nn.utils
        for apply, remove in (
            (utils.weight_norm, utils.remove_weight_norm),
            (utils.spectral_norm, utils.remove_spectral_norm),
        ):
            module = apply(library.nn.Linear(3, 2))
            with pytest.raises(RuntimeError):
                apply(module)
            module(library.ones(1, 3))
            with pytest.raises(RuntimeError, match="deepcopy"):
                copy.deepcopy(module)
            with library.no_grad():
                x = library.ones(1, 3)
                module.eval()(x)
                assert library.equal(copy.deepcopy(module)(x), module(x))
            before = module.weight.detach().clone()
            remove(module)
            assert library.allclose(module.weight, before) and isinstance(module.weight, library.nn.Parameter)
            assert sorted(module.state_dict()) == ["bias", "weight"]
            with pytest.raises(ValueError):
                remove(module)
    module = ej.nn.utils.weight_norm(ej.nn.Linear(3, 2))
    again = pickle.loads(pickle.dumps(module))
    assert ej.equal(again.weight, module.weight) and list(again.state_dict()) == list(module.state_dict())


def lengths_and_directions(t: Any) -> tuple[Any, Any]:
    layer = t.nn.utils.weight_norm(t.nn.Linear(3, 2))
    return layer, layer.weight_g


def singular_value(t: Any) -> tuple[Any, Any]:
    layer = t.nn.utils.spectral_norm(t.nn.Linear(3, 2)).eval()
    return layer, layer.weight_orig


def pruned(t: Any) -> tuple[Any, Any]:
    importlib.import_module(f"{t.__name__}.nn.utils.prune").identity(layer := t.nn.Linear(3, 2), "weight")
    return layer, layer.weight_orig


COMPUTED = [lengths_and_directions, singular_value, pruned]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", COMPUTED, ids=lambda make: make.__name__)
def test_weights_computed_before_calls_stay_until_the_next(make: Callable[[Any], Any]) -> None:
    """They are plain attributes: what they are computed of may change, and so may they."""
    found = []
    for t in (ej, torch):
        layer, source = make(t)
        first, x = layer.weight, t.ones(1, 3)
        seen = [type(layer).__name__, "weight" in layer.__dict__, layer.weight is first, first.requires_grad]
        with t.no_grad():
            source.mul_(2)
        seen += [layer.weight is first]
        layer(x)
        second = layer.weight
        seen += [second is first, second is layer.weight, second.requires_grad, second.grad_fn is not None]
        layer.weight = t.zeros(2, 3)
        seen += [layer(x).equal(layer.bias[None]), layer.weight.equal(second)]
        layer.weight.sum().backward()
        with t.no_grad():
            layer(x)
        found.append([*seen, source.grad is not None, layer.weight.requires_grad])
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", COMPUTED, ids=lambda make: make.__name__)
def test_weights_computed_in_compiled_calls_are_kept(make: Callable[[Any], Any]) -> None:
    bits = []
    for wrap in (lambda f: f, ej.jit(fullgraph=True)):
        ej.manual_seed(0)
        layer, _ = make(ej)
        layer(ej.ones(1, 3))
        optimizer = ej.optim.SGD(layer.parameters(), 0.1)

        @wrap
        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            before = layer.weight.sum()
            loss = layer(x).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return before, loss, layer.weight.sum()

        found: list[Any] = []
        for i in range(5):
            found += [*step(ej.tensor(draw((2, 3), "float32", -1, 1, i))), layer.weight, layer.weight.grad_fn is None]
            if i == 2:
                layer.weight = ej.ones(2, 3)
        bits.append([array_of(v).tobytes() if isinstance(v, ej.Tensor) else v for v in found])
    assert bits[0] == bits[1]


def test_orthogonal_is_orthogonal() -> None:
    for kind in ("matrix_exp", "cayley", "householder"):
        for based in (True, False):
            for shape in ((4, 4), (5, 3), (3, 5)):
                module = ej.nn.utils.parametrizations.orthogonal(
                    ej.nn.Linear(*shape, bias=False), orthogonal_map=kind, use_trivialization=based
                )
                w = module.weight.detach()
                product = w @ w.t() if w.shape[0] <= w.shape[1] else w.t() @ w
                assert ej.allclose(product, ej.eye(min(shape)), atol=1e-5), (kind, based, shape)
                if based or kind == "householder":
                    target = ej.nn.init.orthogonal_(ej.empty(*w.shape))
                    module.weight = target
                    assert ej.allclose(module.weight, target, atol=1e-5)


def test_parametrized_modules() -> None:
    for library in (ej, torch):
        p = library.nn.utils.parametrize
        module = library.nn.Linear(3, 3)
        weight = module.weight
        p.register_parametrization(module, "weight", symmetric(library.nn))
        assert type(module).__name__ == "ParametrizedLinear" and isinstance(module, library.nn.Linear)
        assert p.type_before_parametrizations(module) is library.nn.Linear
        assert (
            p.is_parametrized(module) and p.is_parametrized(module, "weight") and not p.is_parametrized(module, "bias")
        )
        assert module.parametrizations.weight.original is weight
        assert library.equal(module.weight, module.weight.t())
        with p.cached():
            assert module.weight is module.weight
        with pytest.raises(RuntimeError):
            module.weight = library.ones(3, 3)
        made = module.weight.detach().clone()
        p.remove_parametrizations(module, "weight")
        assert type(module) is library.nn.Linear and library.equal(module.weight, made) and module.weight is weight
        with pytest.raises(ValueError):
            p.register_parametrization(module, "nothing", symmetric(library.nn))
        with pytest.raises(ValueError):
            p.remove_parametrizations(module, "weight")
        with pytest.raises(ValueError):
            p.register_parametrization(module, "weight", library.nn.Linear(3, 2))


@pytest.mark.filterwarnings("ignore")
def test_initial_values() -> None:
    for library in (ej, torch):
        init = library.nn.init
        for shape in ((4, 6), (6, 4), (5, 2, 3)):
            w = init.orthogonal_(library.empty(*shape), gain=2.0).reshape(shape[0], -1)
            product = w @ w.t() if w.shape[0] <= w.shape[1] else w.t() @ w
            assert library.allclose(product, 4 * library.eye(product.shape[0]), atol=1e-4)
        assert (init.sparse_(library.empty(10, 4), 0.3) == 0).sum().item() == 12
        assert init.xavier_uniform(library.empty(3, 3)).abs().max() <= 1
        assert init.constant(library.empty(2), 3.0).tolist() == [3.0, 3.0]
        assert init._calculate_fan_in_and_fan_out(library.empty(2, 3, 4)) == (12, 8)
        drawn = init.trunc_normal_(library.empty(20000), mean=0.5, std=2.0, a=-1.0, b=1.0)
        assert -1 <= drawn.min() and drawn.max() <= 1 and abs(drawn.mean().item() - 0.03) < 0.03
        for name, arguments in (
            ("orthogonal_", (library.empty(3),)), ("dirac_", (library.empty(3),)), ("eye_", (library.empty(3),)),
            ("sparse_", (library.empty(3), 0.1)), ("xavier_normal_", (library.empty(3),)),
            ("calculate_gain", ("sin",)), ("calculate_gain", ("leaky_relu", "a")),
            ("kaiming_normal_", (library.empty(3, 3), 0, "fan")),
        ):  # fmt: skip
            with pytest.raises(ValueError):
                getattr(init, name)(*arguments)
    for kind in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert ej.nn.init.calculate_gain(kind) == torch.nn.init.calculate_gain(kind)
    same(ej.nn.init.dirac_(ej.empty(4, 2, 3), 2), torch.nn.init.dirac_(torch.empty(4, 2, 3), 2))


def test_clipping() -> None:
    found = []
    for library in (ej, torch):
        p = library.nn.Parameter(library.ones(3))
        p.grad = library.tensor([3.0, 4.0, 0.0])
        utils = library.nn.utils
        total = utils.get_total_norm([p.grad])
        utils.clip_grads_with_norm_(p, 1.0, total)
        found.append([total, p.grad])
        p.grad = library.tensor([float("nan"), 4.0, 0.0])
        with pytest.raises(RuntimeError):
            utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
        assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    same(*found)


def test_attention_backends() -> None:
    for library in (ej, torch):
        attention = library.nn.attention
        with attention.sdpa_kernel([attention.SDPBackend.MATH, attention.SDPBackend.FLASH_ATTENTION]):
            x = library.ones(1, 1, 2, 4)
            assert np.allclose(library.nn.functional.scaled_dot_product_attention(x, x, x).numpy(), 1.0)
        with pytest.raises(AssertionError), attention.sdpa_kernel("math"):
            pass


def test_fusion() -> None:
    results = []
    for library in (ej, torch):
        nn, found = library.nn, []
        for layer, norm, x, fuse in (
            (nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), (2, 3), "linear"),
            (nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4), (2, 3, 5), "conv"),
        ):
            state = {
                k: library.tensor(draw(tuple(v.shape), "float32", 0.1, 1, 3)) for k, v in layer.state_dict().items()
            }
            layer.load_state_dict(state)
            norm.load_state_dict({
                k: library.tensor(draw(tuple(v.shape), "float32", 0.1, 1, i)) if v.ndim else v
                for i, (k, v) in enumerate(norm.state_dict().items())
            })  # fmt: skip
            merge = getattr(nn.utils, f"fuse_{fuse}_bn_eval")
            with pytest.raises(AssertionError):
                merge(layer, norm)
            data = library.tensor(draw(x, "float32", -1, 1, 9))
            layer.eval(), norm.eval()
            fused = merge(layer, norm)
            assert library.allclose(fused(data), norm(layer(data)), atol=1e-5)
            found.append(fused(data))
        results.append(found)
    same(*results, 1e-5)


def test_places_of_modules() -> None:
    from eagerjit.nn.modules.conv import _ConvNd
    from eagerjit.nn.modules.pooling import MaxPool2d

    assert issubclass(ej.nn.Conv2d, _ConvNd) and MaxPool2d is ej.nn.MaxPool2d
    assert ej.nn.modules.padding.ZeroPad2d is ej.nn.ZeroPad2d and ej.nn.modules.flatten.Flatten is ej.nn.Flatten


FILES = """activation adaptive batchnorm channelshuffle conv distance flatten fold padding pixelshuffle pooling
upsampling dropout instancenorm linear loss normalization rnn sparse transformer""".split()


@pytest.mark.parametrize("file", FILES)
def test_classes_that_a_file_lists(file: str) -> None:
    listed = []
    for t in (ej, torch):
        place = getattr(t.nn.modules, file)
        classes = [name for name, value in vars(place).items() if isinstance(value, type) and name in place.__all__]
        listed.append((sorted(place.__all__), sorted(classes)))
    assert listed[0] == listed[1] and listed[0][0] == listed[0][1]


def test_functions_of_the_namespace() -> None:
    x, y = (draw((3, 4), "float32", -1, 1, seed) for seed in (1, 2))
    for name in ("cosine_similarity", "pairwise_distance"):
        same(*(getattr(t, name)(t.tensor(x), t.tensor(y)) for t in (ej, torch)))
    for name in ("celu", "selu", "rrelu", "pdist", "selu_"):
        same(*(getattr(t, name)(t.tensor(x)) for t in (ej, torch)))
    same(*(t.group_norm(t.tensor(x), 2) for t in (ej, torch)))
    same(*(t.rms_norm(t.tensor(x), (4,)) for t in (ej, torch)), 1e-4)
    same(*(t.norm_except_dim(t.tensor(x), 2, 1) for t in (ej, torch)))
