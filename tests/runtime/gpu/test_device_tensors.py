"""Tensors that lie on a device: PyTorch programs with device="cuda", on a fake device and on a GPU."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from machines import Machine

import eagerjit as ej
from eagerjit import nn
from eagerjit.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.usefixtures("tensors")


def ones(*shape: int) -> Any:
    return ej.ones(*shape, device="cuda")


# -- where tensors are ------------------------------------------------------------------------------------------------


def test_names_of_places() -> None:
    x = ones(3)
    assert x.device == ej.device("cuda", 0) == ej.device("cuda:0") == ej.device(0) and str(x.device) == "cuda:0"
    assert x.is_cuda and not x.is_cpu and x.get_device() == 0 and x.type() == "torch.cuda.FloatTensor"
    here = x.cpu()
    assert here.device == ej.device("cpu") and not here.is_cuda and here.get_device() == -1
    assert x.cuda() is x and x.to("cuda:0") is x and x.to(x) is x and here.cpu() is here and here.to("cpu") is here
    assert x.to("cpu", ej.float64).dtype is ej.float64 and here.to(x).is_cuda
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        ones(1).to("cuda:7")


def test_creation() -> None:
    for made, values in (
        (ej.zeros(2, device="cuda"), [0, 0]), (ej.full((2,), 1.5, device="cuda"), [1.5, 1.5]),
        (ej.full((2,), True, device="cuda"), [True, True]), (ej.ones(2, dtype=ej.int64, device="cuda"), [1, 1]),
        (ej.full((2,), 0.1, dtype=ej.float64, device="cuda"), [0.1, 0.1]), (ej.tensor([1, 2], device="cuda"), [1, 2]),
        (ej.arange(3, device="cuda"), [0, 1, 2]), (ej.eye(2, device="cuda"), [[1, 0], [0, 1]]),
        (ej.as_tensor(np.ones(2), device="cuda"), [1, 1]), (ej.linspace(0, 1, 3, device="cuda"), [0, 0.5, 1]),
        (ej.fft.fftfreq(2, device="cuda"), [0, -0.5]), (ej.fft.rfftfreq(2, device="cuda"), [0, 0.5]),
        (ones(2).new_zeros(1), [0]), (ones(2).new_tensor([3.0]), [3]), (ones(2).new_full((1,), 4), [4]),
        (ej.full((3,), 0.5, dtype=ej.bfloat16, device="cuda"), [0.5] * 3),
        (ej.full((3,), 1 - 2j, dtype=ej.complex64, device="cuda"), [1 - 2j] * 3),
        (ej.full((3,), 0.1 - 2j, dtype=ej.complex128, device="cuda"), [0.1 - 2j] * 3),
        (ej.full((3,), -7, dtype=ej.int16, device="cuda"), [-7] * 3), (ej.full((0,), 0.1, device="cuda"), []),
        (ej.zeros_like(ones(2)), [0, 0]), (ej.full_like(ones(1), 2), [2]), (ej.tensor(ones(1)), [1]),
    ):  # fmt: skip
        assert made.is_cuda and made.tolist() == values
    assert ej.empty(2, 3, device="cuda").shape == (2, 3) and ej.empty(0, device="cuda").tolist() == []
    leaf = ej.zeros(2, device="cuda", requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    assert not ej.zeros_like(ones(2), device="cpu").is_cuda


def test_default_devices() -> None:
    with ej.device("cuda"):
        made = [ej.ones(2), ej.arange(3), ej.tensor([1.0]), ej.randn(2), nn.Linear(2, 2).weight]
        assert all(x.is_cuda for x in [*made, nn.BatchNorm1d(2).running_mean])
        assert not ej.ones(2, device="cpu").is_cuda and not ej.zeros_like(ej.ones(2, device="cpu")).is_cuda
        call = ej.jit(lambda: ej.ones(2) + 1, fullgraph=True)
        assert call().is_cuda and call().is_cuda
    assert not ej.ones(2).is_cuda and not call().is_cuda
    ej.set_default_device("cuda")
    try:
        assert ej.get_default_device() == ej.device("cuda", 0) and ej.eye(2).is_cuda
    finally:
        ej.set_default_device(None)
    assert not ej.eye(2).is_cuda and ej.device("cuda")(lambda: ej.zeros(1))().is_cuda


def test_other_places_refuse_to_mix() -> None:
    x, here = ones(3), ej.ones(3)
    message = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for call in (
        lambda: x + here, lambda: here.add_(x), lambda: x.add_(here), lambda: ej.cat([x, here]), lambda: x @ here,
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(RuntimeError, match=message):
        ej.jit(lambda a, b: a * b)(x, here)
    assert (x + ej.tensor(2.0)).tolist() == [3, 3, 3] and (ej.tensor(2.0) * x).is_cuda and (x + 1).is_cuda


def test_results_and_indices_lie_with_their_tensors() -> None:
    x, here, at = ej.arange(6.0, device="cuda").reshape(2, 3), ej.arange(6.0).reshape(2, 3), ej.tensor([1, 0])
    for call in (
        lambda: ej.add(x, x, out=ej.empty(2, 3)), lambda: ej.add(here, here, out=ej.empty(2, 3, device="cuda")),
        lambda: ej.sum(x, 0, out=ej.empty(3)), lambda: x.masked_select(here > 1), lambda: here.masked_select(x > 1),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            call()
    for index in (
        lambda: here[at.cuda()], lambda: here[x > 1], lambda: here[at, at.cuda()],
        lambda: here.__setitem__(at.cuda(), 0.0), lambda: here.index_put_((at.cuda(),), ej.ones(3)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"either on cpu or on the same device as the indexed tensor \(cpu\)"):
            index()
    assert here[ej.tensor(1, device="cuda")].tolist() == [3, 4, 5] and x[at].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x.index_put((at,), ej.tensor(7.0)).tolist() == [[7] * 3] * 2
    with pytest.raises(RuntimeError, match="meshgrid expects all tensors to have the same device"):
        ej.meshgrid(x[0], here[0], indexing="ij")


def test_copies_on_the_host_have_memory_of_their_own() -> None:
    """What a view shows once or several times is copied alone, in order, as compiled calls do."""
    x = ej.arange(6.0, device="cuda").reshape(2, 3)
    views: tuple[Callable[[Any], Any], ...] = (
        lambda t: t.T, lambda t: t[:, ::2], lambda t: t.expand(2, 2, 3), lambda t: t[:, 1], lambda t: t.flip(0)[:, :2],
    )  # fmt: skip
    for view in views:
        for move in (lambda t: t.cpu(), lambda t: t.to("cpu", copy=True), lambda t: t.to("cpu", non_blocking=True)):
            plain, compiled = move(view(x)), ej.jit(lambda t, move=move, view=view: move(view(t)))(x)
            ej.cuda.synchronize()
            assert plain.is_contiguous() and plain.stride() == compiled.stride()
            assert plain.tolist() == compiled.tolist() == view(x).tolist()
            assert plain.untyped_storage().nbytes() == plain.nbytes
            assert plain.add_(1).tolist() == (view(x) + 1).tolist()


# -- values -----------------------------------------------------------------------------------------------------------


def test_numpy_never_sees_the_memory() -> None:
    x = ones(2)
    for read in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy. Use Tensor\.cpu\(\)"):
            read()
    for touch in (
        lambda a: a + 1, lambda a: np.sum(a), lambda a: a.copy(), lambda a: a.__setitem__(0, 1), lambda a: a.tolist(),
        lambda a: a[[0]], lambda a: np.concatenate([a, a]), lambda a: list(a), lambda a: a == a, lambda a: bool(a[0]),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            touch(x._data)
    assert x.numpy(force=True).tolist() == [1, 1]


def test_values_come_to_the_host_where_they_are_asked_for() -> None:
    x = ej.arange(4.0, device="cuda")
    assert x.tolist() == [0, 1, 2, 3] and x[2].item() == 2 and float(x[1]) == 1 and int(x[3]) == 3 and bool(x[1])
    assert len(x) == 4 and [y.item() for y in x] == [0, 1, 2, 3] and 2 in x and f"{x[1]:.1f}" == "1.0"
    assert repr(x.reshape(2, 2)) == "tensor([[0., 1.],\n        [2., 3.]], device='cuda:0')"
    assert repr(ones(1).requires_grad_()) == "tensor([1.], device='cuda:0', requires_grad=True)"


def test_writing() -> None:
    x = ej.zeros(3, device="cuda")
    x += 1
    x[0] = 5
    x[1:] *= 2
    x.add_(ej.tensor(1.0))
    assert x.tolist() == [6, 3, 3]
    x[x > 4] = 0
    x[ej.tensor([1])] = 7.0
    x[2] = x[1]
    assert x.tolist() == [0, 7, 7]
    y = ej.zeros(2, 3, device="cuda")
    y.t()[:, 0].copy_(ej.arange(3.0))
    y[1] = ej.ones(3)
    assert y.tolist() == [[0, 1, 2], [1, 1, 1]]
    here = ej.zeros(3)
    here.copy_(y[0])
    assert here.tolist() == [0, 1, 2] and not here.is_cuda
    y.resize_(2, 4)
    assert y.is_cuda and y.reshape(-1)[:6].tolist() == [0, 1, 2, 1, 1, 1]
    out = ej.empty(3, device="cuda")
    assert ej.add(x, x, out=out) is out and out.tolist() == [0, 14, 14]


def test_views_share_memory() -> None:
    x = ej.arange(12.0, device="cuda").reshape(3, 4)
    for view, values in (
        (x.t()[0], [0, 4, 8]), (x[1:, None, 2], [[6], [10]]), (x.diagonal(), [0, 5, 10]), (x.view(-1)[::5], [0, 5, 10]),
        (x.unfold(1, 2, 2)[0], [[0, 1], [2, 3]]), (x.as_strided((2, 2), (4, 1), 5), [[5, 6], [9, 10]]),
        (x[0].expand(2, 4)[1], [0, 1, 2, 3]), (x.chunk(3)[2][0], [8, 9, 10, 11]), (x[..., -1], [3, 7, 11]),
    ):  # fmt: skip
        assert view.tolist() == values and view._data.memory is x._data.memory
    x.diagonal().zero_()
    assert x.trace().item() == 0


def test_indexing_with_tensors_of_either_place() -> None:
    x = ej.arange(12.0, device="cuda").reshape(3, 4)
    assert x[ej.tensor([2, 0])].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[ej.tensor([2, 0], device="cuda"), ej.tensor([1, 1])].tolist() == [9, 1]
    assert x[x > 9].tolist() == [10, 11] and x[(x > 9).cpu()].tolist() == [10, 11]
    assert ej.nonzero(x > 10).tolist() == [[2, 3]] and x.repeat_interleave(ej.tensor([0, 0, 1]), 0).shape == (1, 4)


def test_what_no_kernel_computes() -> None:
    u, s, _ = ej.linalg.svd(ej.eye(3, device="cuda"))
    c = ej.tensor([1 + 2j], device="cuda")
    found = (ej.unique(ones(2)), ej.fft.fft(ones(4)), ej.poisson(ones(3)), ones(3).sort()[1])
    assert all(x.is_cuda for x in (*found, u, s, c * c, c.real, c.abs()))
    assert (c * c).tolist() == [-3 + 4j] and s.tolist() == [1, 1, 1]


# -- gradients --------------------------------------------------------------------------------------------------------


def test_gradients_lie_where_tensors_do() -> None:
    w, b, s = ones(3, 2).requires_grad_(), ej.ones(2).requires_grad_(), ej.tensor(2.0, requires_grad=True)

    def loss(x: Any) -> Any:
        return ((x @ w) * s + b.cuda()).sum()

    for call in (loss, ej.jit(loss, fullgraph=True)):
        w.grad = b.grad = s.grad = None
        for _ in range(2):
            call(ones(4, 3)).backward()
        assert w.grad.is_cuda and w.grad.tolist() == [[16, 16]] * 3
        assert not b.grad.is_cuda and b.grad.tolist() == [8, 8] and not s.grad.is_cuda and s.grad.item() == 48
    y = ones(2).requires_grad_()
    y.register_hook(lambda g: g * 2)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [6, 6]
    assert ej.autograd.gradcheck(lambda t: (t * t).sum(), (ones(2).double().requires_grad_(),))


def test_function_transforms() -> None:
    x = ej.arange(3.0, device="cuda")
    assert ej.func.grad(lambda t: (t * t).sum())(x).tolist() == [0, 2, 4]
    assert ej.vmap(lambda t: t * 2 + ej.ones((), device=t.device))(x).tolist() == [1, 3, 5]
    assert ej.func.jacrev(lambda t: t * t)(x).tolist() == [[0, 0, 0], [0, 2, 0], [0, 0, 4]]
    assert ej.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)).tolist() == [1, 2, 3]


def trained(place: str, compile: Callable[..., Any], optimizer: Callable[..., Any]) -> tuple[list[float], list[Any]]:
    """Losses and parameters of a few steps of a small network."""
    ej.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(place)
    chosen = optimizer(model.parameters())
    x, y = ej.linspace(-1, 1, 24).reshape(4, 6).to(place), ej.arange(4, device=place) % 3

    def step() -> Any:
        chosen.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        chosen.step()
        return loss

    run = compile(step)
    losses = [run().item() for _ in range(3)]
    return losses, [p.detach().cpu().numpy() for p in model.parameters()]


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_training(kind: str) -> None:
    options = {"AdamW": {"lr": 0.1}, "SGD": {"lr": 0.1, "momentum": 0.9}}[kind]
    expected = trained("cpu", lambda f: f, lambda p: getattr(ej.optim, kind)(p, **options))
    for compile in (lambda f: f, lambda f: ej.jit(f, fullgraph=True)):
        losses, parameters = trained("cuda", compile, lambda p: getattr(ej.optim, kind)(p, **options))
        np.testing.assert_allclose(losses, expected[0], rtol=1e-4)
        for a, b in zip(parameters, expected[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


# -- compiled calls ---------------------------------------------------------------------------------------------------


def test_a_call_is_compiled_for_the_place() -> None:
    call, x = ej.jit(lambda x: (x + ej.ones(3, device=x.device), x.device, x.is_cuda), fullgraph=True), ej.ones(3)
    for place in (x, x.cuda(), x, x.cuda()):
        result, where, on_device = call(place)
        assert result.device == where == place.device and on_device == place.is_cuda and result.tolist() == [2, 2, 2]
    assert call.cache_info().compiles == 2


def test_moving_inside_of_a_call() -> None:
    both = ej.jit(lambda x: ((x.to("cuda") * 2).cpu() + 1, x.cuda() * 2, x + 1), fullgraph=True)
    for step in range(2):
        a, b, c = both(ej.full((3,), float(step)))
        assert [a.is_cuda, b.is_cuda, c.is_cuda] == [False, True, False]
        assert a.tolist() == [2.0 * step + 1] * 3 and b.tolist() == [2.0 * step] * 3 and c.tolist() == [step + 1.0] * 3


def test_numbers_and_counts_of_a_call() -> None:
    assert [ej.jit(lambda x: x.sum().item() * 2, fullgraph=True)(ones(3)) for _ in range(2)] == [6, 6]
    branch = ej.jit(lambda x: x if x.sum() > 0 else -x)
    assert branch(-ones(2)).tolist() == branch(ones(2)).tolist() == [1, 1]
    selected = ej.jit(lambda x: x[x > 0], fullgraph=True)
    for values in ([1.0, -1.0], [3.0, 2.0]):
        assert selected(ej.tensor(values, device="cuda")).tolist() == [v for v in values if v > 0]


def test_a_call_writes_where_tensors_lie() -> None:
    def write(x: Any, y: Any) -> None:
        x[1] = y
        x[2:] += 1
        x.t()[0].mul_(2)

    there, here = ones(4, 3), ej.ones(4, 3)
    ej.jit(write, fullgraph=True)(there, ej.zeros(3, device="cuda"))
    write(here, ej.zeros(3))
    assert there.tolist() == here.tolist()


DRAWS: dict[str, Any] = {
    "rand": lambda place, g: ej.rand(3, device=place, generator=g),
    "randn": lambda place, g: ej.randn(3, device=place, generator=g, dtype=ej.complex64),
    "randint": lambda place, g: ej.randint(5, (3,), device=place, generator=g),
    "randperm": lambda place, g: ej.randperm(3, device=place, generator=g),
    "normal": lambda place, g: ej.normal(ej.ones(3, device=place), 1.0, generator=g),
    "normal of numbers": lambda place, g: ej.normal(0.0, 1.0, (3,), device=place, generator=g),
    "out": lambda place, g: ej.rand(3, out=ej.empty(3, device=place), generator=g),
    "default": lambda place, g: _by_default(place, lambda: ej.rand(3, generator=g)),
    "multinomial": lambda place, g: ej.multinomial(ej.ones(3, device=place), 2, generator=g),
    "bernoulli": lambda place, g: ej.bernoulli(ej.full((3,), 0.5, device=place), generator=g),
    "poisson": lambda place, g: ej.poisson(ej.ones(3, device=place), generator=g),
    "normal_": lambda place, g: ej.ones(3, device=place).normal_(generator=g),
    "complex uniform_": lambda place, g: ej.ones(3, device=place, dtype=ej.complex64).uniform_(generator=g),
    "random_": lambda place, g: ej.ones(3, device=place).random_(generator=g),
    "exponential_": lambda place, g: ej.ones(3, device=place).exponential_(generator=g),
    "orthogonal_": lambda place, g: nn.init.orthogonal_(ej.empty(2, 2, device=place), generator=g),
    "sparse_": lambda place, g: nn.init.sparse_(ej.empty(3, 3, device=place), 0.4, generator=g),
}  # fmt: skip


def _by_default(place: str, make: Any) -> Any:
    with ej.device(place):
        return make()


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_generators_of_another_device_are_refused(name: str, place: str) -> None:
    other = {"cpu": "cuda", "cuda": "cpu"}[place]
    with pytest.raises(RuntimeError, match=f"Expected a '{place}' device type for generator but found '{other}'"):
        DRAWS[name](place, ej.Generator(device=other))
    draws = [DRAWS[name](place, ej.Generator(device=place).manual_seed(1)) for _ in range(2)]
    assert draws[0].tolist() == draws[1].tolist() and draws[0].device.type == place


def test_data_are_shuffled_by_generators_of_any_device() -> None:
    data = list(range(8))
    for place in ("cpu", "cuda"):
        for default in ("cpu", "cuda"):
            with ej.device(default):
                given = [ej.Generator(device=place).manual_seed(2) for _ in range(2)]
                loaders = [ej.utils.data.DataLoader(data, 8, shuffle=True, generator=g) for g in given]
                orders = [next(iter(loader)).tolist() for loader in loaders]
                assert orders[0] == orders[1] and sorted(orders[0]) == data
                parts = ej.utils.data.random_split(data, [3, 5], generator=ej.Generator(device=place))
                assert sorted([*parts[0], *parts[1]]) == data
                assert sorted(ej.utils.data.SubsetRandomSampler(data, generator=given[0])) == data


def test_random_numbers_are_the_cpu_s() -> None:
    x = ones(10)
    for draw in (lambda place: nn.functional.dropout(x.to(place), 0.5), lambda place: ej.randn(3, device=place)):
        drawn = []
        jitted = ej.jit(draw, fullgraph=True)
        for call, place in ((draw, "cpu"), (draw, "cuda"), (jitted, "cuda")):
            ej.manual_seed(3)
            drawn.append([call(place).tolist() for _ in range(3)])
        assert drawn[0] == drawn[1] == drawn[2] and drawn[0][0] != drawn[0][1]
    generators = [ej.Generator(device=place).manual_seed(1) for place in ("cpu", "cuda")]
    a, b = (ej.rand(4, device=g.device, generator=g) for g in generators)
    assert b.is_cuda and a.tolist() == b.tolist()
    draws = []
    for place in ("cpu", "cuda"):
        ej.manual_seed(0)
        draws.append(ej.randint(-(2**62), 2**62, (3,), device=place).tolist())  # bounds of 64 bits
    assert draws[0] == draws[1]
    assert sorted(ej.randperm(4, device="cuda").tolist()) == [0, 1, 2, 3] and ej.multinomial(x, 2).is_cuda


@pytest.mark.parametrize("compile", [lambda f: f, lambda f: ej.jit(f, fullgraph=True)], ids=["plain", "compiled"])
def test_a_checkpoint_draws_the_same_numbers_again(compile: Callable[..., Any]) -> None:
    def part(x: Any) -> Any:
        return nn.functional.dropout(x).sin()

    run = compile(lambda x: ej.utils.checkpoint.checkpoint(part, x, use_reentrant=False))
    for _ in range(3):
        x = ones(40).requires_grad_()
        out = run(x)
        out.sum().backward()
        assert ((x.grad == 0) == (out == 0)).all()


def test_kept_values_lie_on_the_cpu_on_request() -> None:
    x = ones(1000).requires_grad_()
    with ej.autograd.graph.save_on_cpu():
        middle = x.exp()
        out = middle.sin()
    before = ej.cuda.memory_allocated()
    del middle
    assert ej.cuda.memory_allocated() < before
    out.sum().backward()
    assert x.grad.is_cuda and x.grad.cpu().allclose(x.detach().cpu().exp().cos() * x.detach().cpu().exp())


@pytest.mark.parametrize("compile", [lambda f: f, lambda f: ej.jit(f, fullgraph=True)], ids=["plain", "compiled"])
def test_what_is_drawn_in_a_fork_is_drawn_again(compile: Callable[..., Any]) -> None:
    def forked(x: Any, devices: Any) -> Any:
        with ej.random.fork_rng(devices):
            first = ej.rand(3, device=x.device), ej.rand(3)
        return *first, ej.rand(3, device=x.device), ej.rand(3)

    run = compile(forked)
    for devices, again in ((None, True), ([0], True), (["cuda:0"], True), ([], False)):
        there, here, there_then, here_then = run(ones(1), devices)
        assert (there.tolist() == there_then.tolist()) == again and here.tolist() == here_then.tolist()


# -- the rest of a program --------------------------------------------------------------------------------------------


def test_copies_and_files() -> None:
    x, model = ej.arange(6.0, device="cuda").reshape(2, 3), nn.Linear(2, 2).cuda()
    for made in (copy.deepcopy(x.t()), pickle.loads(pickle.dumps(x.t())), x.t().clone()):
        assert made.is_cuda and made.tolist() == x.t().tolist()
    twin = copy.deepcopy(model)
    assert twin.weight.is_cuda and twin.weight is not model.weight and twin.weight.tolist() == model.weight.tolist()
    file = io.BytesIO()
    ej.save({"model": model.state_dict(), "part": x[1], "whole": x}, file)
    for location, is_cuda in (
        (None, True), ("cpu", False), ("cuda", True), ({"cuda:0": "cpu"}, False), (lambda s, where: s, False),
        (lambda s, where: s.cuda(0), True), (ej.device("cpu"), False),
    ):  # fmt: skip
        file.seek(0)
        found = ej.load(file, map_location=location)
        assert found["model"]["weight"].is_cuda == is_cuda and found["part"].tolist() == [3, 4, 5]
        found["whole"].zero_()
        assert found["part"].tolist() == [0, 0, 0]
    here = nn.Linear(2, 2)
    here.load_state_dict(model.state_dict())
    assert not here.weight.is_cuda and here.weight.tolist() == model.weight.tolist()


def test_optimizer_states_go_to_their_parameters() -> None:
    model = nn.Linear(2, 2).cuda()
    optimizer = ej.optim.AdamW(model.parameters())
    model(ones(1, 2)).sum().backward()
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    there, here = ej.optim.AdamW(model.parameters()), ej.optim.AdamW(nn.Linear(2, 2).parameters())
    for again, is_cuda in ((there, True), (here, False)):
        again.load_state_dict(saved)
        assert all(state["exp_avg"].is_cuda == is_cuda for state in again.state.values())


def test_memory_is_counted() -> None:
    before = ej.cuda.memory_allocated()
    x = ej.empty(1 << 16, device="cuda")
    assert ej.cuda.memory_allocated() - before == 1 << 18
    view = x[1:]
    del x
    assert ej.cuda.memory_allocated() - before == 1 << 18
    del view
    assert ej.cuda.memory_allocated() == before and ej.cuda.max_memory_allocated() >= 1 << 18


def test_pinned_memory_and_streams() -> None:
    x = ej.arange(3.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned and not ones(1).is_pinned()
    assert ej.zeros(2, pin_memory=True).is_pinned() and ej.tensor([1.0], pin_memory=True).is_pinned()
    there = pinned.cuda(non_blocking=True)
    back = there.to("cpu", non_blocking=True)
    ej.cuda.synchronize()
    assert back.tolist() == [0, 1, 2]
    side = ej.cuda.Stream()
    side.wait_stream(ej.cuda.current_stream())
    with ej.cuda.stream(side):
        doubled = there * 2
    there.record_stream(side)
    ej.cuda.current_stream().wait_stream(side)
    assert doubled.tolist() == [0, 2, 4]
    for a, b in DataLoader(TensorDataset(ej.ones(4, 2), ej.arange(4)), batch_size=2, pin_memory=True):
        assert a.is_pinned() and b.is_pinned() and a.cuda(non_blocking=True).tolist() == [[1, 1], [1, 1]]


def test_memory_of_a_device_is_shared_as_it_is() -> None:
    x = ones(3)
    assert x.is_shared() and x.share_memory_() is x and x.is_cuda and x.tolist() == [1, 1, 1]
    assert nn.Linear(2, 2).cuda().share_memory().weight.is_cuda


def test_lazy_modules_are_made_once() -> None:
    """In a recording too, whose watching ends no initialization half way."""
    made = []
    for compile in (lambda m: m, ej.jit):
        ej.manual_seed(0)
        model = nn.Sequential(nn.LazyLinear(3), nn.Dropout(0.5), nn.LazyLinear(2)).cuda()
        with warnings.catch_warnings(), ej.device("cuda"):
            warnings.simplefilter("ignore")  # the second one gets its parameters after numbers were drawn
            made.append([compile(model)(ones(2, 4)).tolist(), model[2].weight.tolist()])
        ej.cuda.manual_seed(7)
        assert ej.cuda.initial_seed() == 7
    assert made[0] == made[1]


def test_default_types_of_old() -> None:
    ej.set_default_tensor_type("torch.cuda.DoubleTensor")
    try:
        made = [ej.zeros(2), ej.Tensor([1.0]), ej.rand(2), ej.tensor(1.0)]
        assert all(t.is_cuda and t.dtype is ej.float64 for t in made) and not ej.FloatTensor([1.0]).is_cuda
    finally:
        ej.set_default_tensor_type("torch.FloatTensor")
    assert not ej.zeros(2).is_cuda and ej.zeros(2).dtype is ej.float32
    with ej.device("cuda"):
        ej.set_default_tensor_type(ej.FloatTensor)
        assert ej.zeros(2).is_cuda


def test_workers_leave_devices_alone(target: Machine) -> None:
    ej.randn(1, device="cuda")
    target.device.platform.forked = True  # as in a process that was forked
    try:
        ej.manual_seed(1)
    finally:
        target.device.platform.forked = False
    assert ej.rand(2).tolist() != ej.rand(2, device="cuda").tolist()


def test_autocast_and_scaling() -> None:
    x, w = ones(2, 3), ones(3, 2)
    jitted = ej.jit(lambda a: a @ w)
    with ej.autocast("cuda", dtype=ej.bfloat16):
        assert (x @ w).dtype is jitted(x).dtype is ej.bfloat16 and ej.is_autocast_enabled()
        assert (x.cpu() @ w.cpu()).dtype is ej.float32 and not ej.is_autocast_enabled("cpu")
        with ej.autocast("cuda", enabled=False):
            assert (x @ w).dtype is ej.float32
    assert (x @ w).dtype is jitted(x).dtype is ej.float32
    model = nn.Linear(3, 2).cuda()
    optimizer, scaler = ej.optim.SGD(model.parameters(), lr=0.1), ej.amp.GradScaler("cuda", init_scale=64.0)
    for _ in range(2):
        optimizer.zero_grad()
        with ej.autocast("cuda"):
            loss = model(x).float().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.is_enabled() and scaler.get_scale() == 64 and model.weight.grad.tolist() == [[2, 2, 2]] * 2


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerjit.cuda.present.has_compiler", lambda: False)
    with pytest.raises(RuntimeError, match=r"cuda:0: Triton"):
        ej.ones(1).cuda()


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_graphs_overwrite_nothing_that_is_held(target: Machine) -> None:
    call, w, held = ej.jit(lambda x, w: (x * 2 + w).relu(), cuda_graphs=True, fullgraph=True), ones(4), []
    for step in range(6):
        held.append(call(ej.full((4,), float(step), device="cuda"), w))
        assert held[-1].tolist() == [2.0 * step + 1] * 4
    assert [x.tolist() for x in held] == [[2.0 * step + 1] * 4 for step in range(6)]


def test_a_training_step_as_a_graph(target: Machine) -> None:
    losses = []
    for graphs in (False, True):
        ej.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3)).cuda()
        optimizer = ej.optim.AdamW(model.parameters(), lr=0.05)
        x, y = ej.linspace(-1, 1, 24, device="cuda").reshape(4, 6), ones(4, 3)

        def step(model: Any = model, optimizer: Any = optimizer, x: Any = x, y: Any = y) -> Any:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        call = ej.jit(step, fullgraph=True, cuda_graphs=graphs)
        losses.append([call().item() for _ in range(6)])
    assert losses[0] == losses[1] and losses[0][5] < losses[0][0]
    if target.library is not None:
        assert sum(name == "cuGraphLaunch" for name, *_ in target.library.calls) >= 3
