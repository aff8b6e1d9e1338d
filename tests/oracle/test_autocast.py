"""Mixed precision against PyTorch: which ops compute in which dtype, gradients, jitted calls, and the scaler."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from oracle import array_of, draw, dtype_name, same

import eagerjit as ej

OPS: dict[str, Callable[..., Any]] = {
    "matmul": lambda t, x, y: x @ y,
    "mm": lambda t, x, y: t.mm(x, y),
    "bmm": lambda t, x, y: t.bmm(x[None], y[None]),
    "linear": lambda t, x, y: t.nn.functional.linear(x, y, y[0]),
    "addmm": lambda t, x, y: t.addmm(x[0], x, y),
    "addbmm": lambda t, x, y: t.addbmm(x[0], x[None], y[None]),
    "baddbmm": lambda t, x, y: t.baddbmm(x[0], x[None], y[None]),
    "einsum": lambda t, x, y: t.einsum("ij,jk->ik", x, y),
    "attention": lambda t, x, y: t.nn.functional.scaled_dot_product_attention(
        x[None, None], y[None, None], x[None, None]
    ),
    "conv1d": lambda t, x, y: t.nn.functional.conv1d(x[None], y[:, :, None]),
    "conv2d": lambda t, x, y: t.nn.functional.conv2d(x[None, None], y[None, None, :2, :2]),
    "add": lambda t, x, y: x + y,
    "mixed": lambda t, x, y: (x @ y) + x,
    "softmax": lambda t, x, y: (x @ y).softmax(-1),
    "layer norm": lambda t, x, y: t.nn.functional.layer_norm(x @ y, (4,)),
    "relu": lambda t, x, y: (x @ y).relu(),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x @ y),
    "sum": lambda t, x, y: (x @ y).sum(),
    "prod": lambda t, x, y: (x @ y).prod(0),
    "exp": lambda t, x, y: (x @ y).exp(),
    "mse": lambda t, x, y: t.nn.functional.mse_loss(x @ y, x),
    "l1": lambda t, x, y: t.nn.functional.l1_loss(x @ y, y),
    "cross entropy": lambda t, x, y: t.nn.functional.cross_entropy(x @ y, t.tensor([0, 1, 2, 3])),
    "nll": lambda t, x, y: t.nn.functional.nll_loss(x @ y, t.tensor([0, 1, 2, 3])),
    "bce logits": lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x @ y, y.sigmoid()),
    "kl": lambda t, x, y: t.nn.functional.kl_div((x @ y).log_softmax(-1), y.softmax(-1), reduction="sum"),
    "cat": lambda t, x, y: t.cat([x @ y, x]),
    "stack": lambda t, x, y: t.stack([x, x @ y]),
    "fft": lambda t, x, y: t.fft.fft(x @ y).real,
    "inverse of rfft": lambda t, x, y: t.fft.irfft(t.fft.rfft(x @ y), n=4),
    "linalg.inv": lambda t, x, y: t.linalg.inv((x @ y) + 4 * t.eye(4).bfloat16()),
    "inverse": lambda t, x, y: ((x @ y) + 4 * t.eye(4).bfloat16()).inverse(),
    "solve": lambda t, x, y: t.linalg.solve(3 * t.eye(4) + y, x @ y),
    "cholesky": lambda t, x, y: t.linalg.cholesky((x @ x.mT) + t.eye(4)),
    "svdvals": lambda t, x, y: t.linalg.svdvals(x @ y),
    "quantile": lambda t, x, y: t.quantile(x @ y, 0.3),
    "trace": lambda t, x, y: (x @ y).trace(),
    "polar": lambda t, x, y: t.polar((x @ y).exp(), x @ y).imag,
    "complex": lambda t, x, y: t.view_as_complex((x @ y).view(4, 2, 2)).real,
    "mv": lambda t, x, y: x.mv(y[0]),
    "dot": lambda t, x, y: t.dot(x[0], y[0]),
    "bilinear": lambda t, x, y: t.nn.functional.bilinear(x, y, t.ones(2, 4, 4)),
    "prelu": lambda t, x, y: t.nn.functional.prelu(x, y[0, :1]),
    "index_copy": lambda t, x, y: t.index_copy(x, dim=0, index=t.tensor([1]), source=(x @ y)[:1]),
    "grid_sample": lambda t, x, y: t.nn.functional.grid_sample((x @ y)[None, None], y.view(1, 2, 4, 2)),
    "reflection": lambda t, x, y: t.nn.functional.pad((x @ y)[None], (1, 2), mode="reflect"),
    "constant border": lambda t, x, y: t.nn.functional.pad((x @ y)[None], (1, 2)),
    "fake quantization": lambda t, x, y: t.fake_quantize_per_tensor_affine(x @ y, 0.1, 0, -9, 9),
    "double": lambda t, x, y: x.double() @ y.double(),
    "integers": lambda t, x, y: x.long() @ y.long(),
    "nested off": lambda t, x, y: off(t, lambda: (x @ y) * 2),
    "decorated": lambda t, x, y: t.autocast("cpu", dtype=t.float16)(lambda: x @ y)(),
}  # fmt: skip
ARRAYS = [draw((4, 4), "float32", -1, 1, seed) for seed in (1, 2)]


def off(library: Any, function: Callable[[], Any]) -> Any:
    with library.autocast("cpu", enabled=False):
        return function()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_dtypes(name: str) -> None:
    found = []
    for library in (ej, torch):
        x, y = (library.tensor(a, requires_grad=True) for a in ARRAYS)
        with library.autocast("cpu", dtype=library.bfloat16):
            out = OPS[name](library, x, y)
        if out.requires_grad:
            out.float().sum().backward()
        found.append([out.float(), x.grad, y.grad, dtype_name(out)])
    assert found[0][3] == found[1][3]
    for a, b in zip(found[0][:3], found[1][:3], strict=True):
        if b is not None:
            same(a, b, 0.06)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("inside", [True, False])
def test_jitted(name: str, inside: bool) -> None:
    """autocast in the function, and around calls of it."""

    def function(x: Any, y: Any) -> Any:
        if not inside:
            return OPS[name](ej, x, y)
        with ej.autocast("cpu"):
            return OPS[name](ej, x, y)

    def around(f: Callable[..., Any], x: Any, y: Any) -> Any:
        if inside:
            return f(x, y)
        with ej.autocast("cpu"):
            return f(x, y)

    bits = []
    for f in (function, ej.jit(function)):
        for _ in range(2):
            x, y = (ej.tensor(a, requires_grad=True) for a in ARRAYS)
            out = around(f, x, y)
            if out.requires_grad:
                out.float().sum().backward()
            grads = [None if t.grad is None else array_of(t.grad).tobytes() for t in (x, y)]
            bits.append((dtype_name(out), array_of(out).tobytes(), *grads))
    assert len(set(bits)) == 1


def test_a_compiled_call_looks_at_autocast() -> None:
    f = ej.jit(lambda x: x @ x)
    x = ej.randn(3, 3)
    kinds = []
    for _ in range(2):
        kinds.append(f(x).dtype)
        with ej.autocast("cpu"):
            kinds.append(f(x).dtype)
            with ej.autocast("cpu", dtype=ej.float16):
                kinds.append(f(x).dtype)
    assert kinds == [ej.float32, ej.bfloat16, ej.float16] * 2
    assert len(f.variants) == 3


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "Transformer"])
def test_networks(kind: str) -> None:
    def build(n: Any) -> Any:
        return n.TransformerEncoderLayer(4, 2, 8, 0.0) if kind == "Transformer" else getattr(n, kind)(4, 4)

    ours, theirs = build(ej.nn), build(torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    found = []
    for library, network in ((ej, ours), (torch, theirs)):
        x = library.tensor(draw((5, 2, 4), "float32", -1, 1, 1), requires_grad=True)
        with torch.backends.mkldnn.flags(enabled=False):  # it has no LSTM of bfloat16 for processors without AVX-512
            with library.autocast("cpu"):
                out = network(x)
            out = out[0] if isinstance(out, tuple) else out
            out.float().square().sum().backward()
        found.append([out.float(), x.grad])
    same(*found, 0.05)
    assert all(p.grad.dtype is ej.float32 for p in ours.parameters())


@pytest.mark.parametrize("given", [None, "float32", "bfloat16"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell", "GRU"])
def test_states_of_recurrent_layers(kind: str, dtype: str, given: str | None) -> None:
    """Gates are computed in the lower precision, and the state keeps its dtype but in plain cells."""
    ours, theirs = (getattr(library.nn, kind)(4, 4) for library in (ej, torch))
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})

    def outcome(library: Any, layer: Any) -> list[Any]:
        x = library.tensor(draw((5, 2, 4) if kind == "GRU" else (2, 4), "float32", -1, 1, 1))
        h = library.tensor(draw((1, 2, 4) if kind == "GRU" else (2, 4), "float32", -1, 1, 2))
        leaves = [x.to(getattr(library, dtype)).requires_grad_()]
        leaves += [] if given is None else [h.to(getattr(library, given)).requires_grad_()]
        state = None if given is None else (leaves[1], leaves[1] * 0.5) if kind == "LSTMCell" else leaves[1]
        with library.autocast("cpu"):
            out = layer(leaves[0], state)
        parts = out if isinstance(out, tuple) else (out,)
        loss = sum(part.float().square().sum() for part in parts)
        gradients = library.autograd.grad(loss, [*leaves, *parameters[library]])
        return [*parts, *gradients]

    parameters = {ej: [*ours.parameters()], torch: [*theirs.parameters()]}
    found, expected = outcome(ej, ours), outcome(torch, theirs)
    assert [str(t.dtype) for t in found] == [str(t.dtype) for t in expected]
    same([t.float() for t in found], [t.float() for t in expected], 0.08)
    jitted = [t.detach().float().numpy().tobytes() for t in outcome(ej, ej.jit(ours))]
    assert jitted == [t.detach().float().numpy().tobytes() for t in found]


def test_training_step_jitted() -> None:
    bits = []
    for wrap in (lambda f: f, ej.jit):
        ej.manual_seed(0)
        network = ej.nn.Sequential(ej.nn.Linear(4, 8), ej.nn.GELU(), ej.nn.Linear(8, 3))
        optimizer = ej.optim.AdamW(network.parameters(), lr=0.01)
        scaler = ej.amp.GradScaler("cpu", enabled=False)

        def step(x: Any, y: Any, network: Any = network, optimizer: Any = optimizer, scaler: Any = scaler) -> Any:
            optimizer.zero_grad()
            with ej.autocast(device_type="cpu", dtype=ej.bfloat16):
                loss = ej.nn.functional.cross_entropy(network(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        function = wrap(step)
        losses = [function(ej.tensor(ARRAYS[0]), ej.tensor([0, 1, 2, 1])) for _ in range(3)]
        bits.append([t.detach().numpy().tobytes() for t in (*losses, *network.parameters())])
    assert bits[0] == bits[1]


STATES: dict[str, Callable[[Any], Any]] = {
    "off": lambda t: (t.is_autocast_enabled("cpu"), t.is_autocast_cpu_enabled(), t.is_autocast_enabled()),
    "dtype": lambda t: str(t.get_autocast_dtype("cpu")).rpartition(".")[2],
    "cpu dtype": lambda t: str(t.get_autocast_cpu_dtype()).rpartition(".")[2],
    "gpu dtype": lambda t: str(t.get_autocast_gpu_dtype()).rpartition(".")[2],
    "available": lambda t: t.amp.is_autocast_available("cpu"),
    "no device": lambda t: t.autocast("abacus"),
    "no string": lambda t: t.autocast(t.float32),
    "dtype that is none": lambda t: t.autocast("cpu", dtype=t.float64)._enabled,
    "cuda": lambda t: t.autocast("cuda")._enabled,
    "cuda.amp": lambda t: t.cuda.amp.autocast()._enabled,
    "cpu.amp": lambda t: t.cpu.amp.autocast(True)._enabled,
    "cuda.amp's modules": lambda t: (
        t.cuda.amp.autocast_mode.autocast is t.cuda.amp.autocast,
        t.cuda.amp.grad_scaler.GradScaler is t.cuda.amp.GradScaler,
        t.cuda.amp.common.amp_definitely_not_available(),
    ),
    "cuda scaler": lambda t: t.cuda.amp.GradScaler(enabled=True).is_enabled(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STATES)
def test_state(name: str) -> None:
    found = []
    for library in (ej, torch):
        try:
            found.append(STATES[name](library))
        except Exception as error:
            found.append(type(error))
    assert found[0] == found[1]


def test_other_devices_warn() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ej.autocast("cuda")
        ej.amp.GradScaler()
        ej.amp.GradScaler(enabled=False)
    assert len(seen) == 2


def test_scaler() -> None:
    found = []
    for library in (ej, torch):
        weight = library.nn.Parameter(library.ones(2))
        optimizer = library.optim.SGD([weight], lr=0.1)
        scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        seen: list[Any] = []
        for step, factor in enumerate((1.0, 2.0, float("inf"), 1.0, 1.0)):
            optimizer.zero_grad()
            loss = scaler.scale((weight * factor).sum())
            loss.backward()
            if step == 1:
                scaler.unscale_(optimizer)
                library.nn.utils.clip_grad_norm_([weight], 1.0)
            scaler.step(optimizer)
            scaler.update()
            seen += [weight.tolist(), scaler.get_scale()]
        with pytest.raises((RuntimeError, AssertionError)):
            scaler.update()
        seen.append(scaler.state_dict())
        again = library.amp.GradScaler("cpu")
        again.load_state_dict(scaler.state_dict())
        seen.append(again.get_scale())
        idle = library.amp.GradScaler("cpu", enabled=False)
        seen += [idle.state_dict(), idle.get_scale(), idle.scale(3)]
        found.append(seen)
    for a, b in zip(*found, strict=True):
        if isinstance(b, list):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        else:
            assert a == b


def test_scaler_refuses_twice() -> None:
    for library in (ej, torch):
        weight = library.nn.Parameter(library.ones(2))
        optimizer = library.optim.SGD([weight], lr=0.1)
        scaler = library.amp.GradScaler("cpu")
        scaler.scale(weight.sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError):
            scaler.step(optimizer)


def orders_of_scaling(library: Any, calls: tuple[str, ...]) -> list[Any]:
    """What each of these calls does to a gradient, or raises."""
    weight = library.nn.Parameter(library.ones(2))
    optimizer = library.optim.SGD([weight], lr=0.5)
    scaler = library.amp.GradScaler("cpu", init_scale=8.0)
    work: dict[str, Callable[[], Any]] = {
        "scale": lambda: scaler.scale([weight.sum()]) and None,
        "backward": lambda: scaler.scale(weight.sum()).backward(),
        "unscale": lambda: scaler.unscale_(optimizer),
        "step": lambda: scaler.step(optimizer),
        "update": lambda: scaler.update(),
    }
    seen: list[Any] = []
    for call in calls:
        try:
            work[call]()
            seen.append(None if weight.grad is None else weight.grad.tolist())
        except (RuntimeError, AssertionError) as error:
            seen.append((type(error), str(error)))
    return [*seen, weight.tolist()]


@pytest.mark.parametrize("first", ("backward", "unscale", "step", "update"))
def test_calls_of_a_scaler_in_any_order(first: str) -> None:
    for others in product(("backward", "unscale", "step", "update"), repeat=3):
        for calls in ((first, *others), ("scale", first, *others)):
            assert orders_of_scaling(ej, calls) == orders_of_scaling(torch, calls), calls


def test_custom_function() -> None:
    def run(library: Any) -> Any:
        class Product(library.autograd.Function):
            @staticmethod
            @library.amp.custom_fwd(device_type="cpu", cast_inputs=library.float32)
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(x, y)
                return x @ y

            @staticmethod
            @library.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any) -> Any:
                x, y = ctx.saved_tensors
                return g @ y.t(), x.t() @ g

        x, y = (library.tensor(a, requires_grad=True) for a in ARRAYS)
        with library.autocast("cpu"):
            out = Product.apply(x, y)
        out.sum().backward()
        return dtype_name(out), x.grad

    (a, x), (b, y) = run(ej), run(torch)
    assert a == b == "float32"
    same(x, y, 1e-4)


def test_schedules_and_scalers_are_compiled() -> None:
    """Their counts are Python's: a jitted function that steps them counts on in every call."""
    for build in ("schedule", "scaler"):
        weight = ej.nn.Parameter(ej.ones(2))
        optimizer = ej.optim.SGD([weight], lr=1.0)
        schedule = ej.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        scaler = ej.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)

        def step(build: str = build, o: Any = optimizer, s: Any = schedule, c: Any = scaler, w: Any = weight) -> None:
            o.zero_grad()
            if build == "schedule":
                w.sum().backward()
                o.step()
                s.step()
            else:
                c.scale(w.sum()).backward()
                c.step(o)
                c.update()

        function = ej.jit(step)
        for _ in range(3):
            function()
        assert not function.cache_info().eager_calls and function.cache_info().compiles <= 2
        assert optimizer.param_groups[0]["lr"] == (0.125 if build == "schedule" else 1.0)
        assert scaler.get_scale() == (4.0 if build == "schedule" else 32.0)


@pytest.mark.parametrize("older", [True, False])
def test_checkpoints_are_made_again_in_the_same_precision(older: bool) -> None:
    """backward runs outside of the context."""
    found: list[list[Any]] = []
    for t, kept in ((torch, True), (ej, True), (ej, False)):
        x, w, v = (t.tensor(draw((4, 4), "float32", -1, 1, seed), requires_grad=True) for seed in (1, 2, 3))

        def part(x: Any, t: Any = t, w: Any = w, v: Any = v) -> Any:
            assert t.is_autocast_enabled("cpu")
            return (t.nn.functional.layer_norm(x @ w, (4,)).relu() @ v).tanh()

        with t.autocast("cpu", dtype=t.bfloat16):
            out = t.utils.checkpoint.checkpoint(part, x * 2, use_reentrant=older) if kept else part(x * 2)
            loss = (out @ w).float().square().mean()
        loss.backward()
        assert not t.is_autocast_enabled("cpu")
        found.append([loss, x.grad, w.grad, v.grad])
    for theirs, ours, plain in zip(*found, strict=True):
        same(ours, theirs, 0.05)
        assert array_of(ours).tobytes() == array_of(plain).tobytes()


@pytest.mark.parametrize("order", [2, 3])
def test_higher_gradients_outside_of_autocast(order: int) -> None:
    found = []
    for f in (third := lambda x: (x @ x).exp().sum(), ej.jit(third)):
        x = ej.tensor(ARRAYS[0], requires_grad=True)
        with ej.autocast("cpu", dtype=ej.bfloat16):
            value = f(x)
        for _ in range(order):
            (value,) = ej.autograd.grad(value.sum(), x, create_graph=True)
        found.append(array_of(value).tobytes())
    assert found[0] == found[1]
