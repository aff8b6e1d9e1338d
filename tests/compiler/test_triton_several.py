"""Kernels that do the same to several tensors in one launch: optimizers against eager steps, sums against their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import several
from eagerjit.compiler.lower import several as lowering
from eagerjit.jit import jit

SHAPES = [(7, 5), (5,), (1500,), (3, 1700), (1,), (40, 40), (2, 3, 4)]
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
}


def trained(make: Any, wrap: Any) -> list[np.ndarray]:
    """Parameters after three steps."""
    random = np.random.default_rng(1)
    parameters = [torch.nn.Parameter(torch.tensor(random.normal(size=s)).float()) for s in SHAPES]
    gradients = [torch.tensor(random.normal(size=s)).float() for s in SHAPES]
    optimizer = make(parameters)

    def step() -> None:
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = g
        optimizer.step()

    step()
    run = wrap(step)
    for _ in range(2):
        run()
    return [p.detach().numpy().copy() for p in parameters]


def names(made: list[Any]) -> list[str]:
    return [launch.source.name for m in made for launch in m.launched]


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_one_launch(name: str, far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parameters that have elements in a row; those of one element have no loop, and share nothing."""
    if far:
        monkeypatch.setattr(several, "INT32", 0)
    expected = trained(OPTIMIZERS[name], lambda step: step)
    with gpu_kernels.interpreted() as made:
        actual = trained(OPTIMIZERS[name], lambda step: jit(step, fullgraph=True))
    assert [a.tobytes() for a in actual] == [e.tobytes() for e in expected]
    found = [launch for m in made for launch in m.launched if "start" in launch.source.text]
    blocks = sum(-(-int(np.prod(s)) // gpu_kernels.GPU.flat) for s in SHAPES)
    assert found and {launch.programs for launch in found} == {blocks - 1}


def test_few_arguments_make_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [torch.ones(n) for n in range(2, 12)]

    def double(*given: Any) -> list[Any]:
        return [x.exp() * 2.0 for x in given]

    launched = []
    for most in (400, 16):
        monkeypatch.setattr(lowering, "MOST_PARAMS", most)
        with gpu_kernels.interpreted() as made:
            results = jit(double, fullgraph=True)(*tensors)
        assert all(r._data.tobytes() == e._data.tobytes() for r, e in zip(results, double(*tensors), strict=True))
        launched.append(len(names(made)))
    assert launched == [1, 3]


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_sums_of_columns_are_finished_together(far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sums of one kernel, in parts: what combines the parts is one launch, of the same bits."""
    x, y = (torch.tensor(np.random.default_rng(n).normal(size=(200, 70))).float() for n in (4, 5))

    def sums(x: Any, y: Any) -> list[Any]:
        z = (x * y).tanh()
        return [z.sum(0), (z * x).sum(0), (z * y).sum(0)]

    if far:
        monkeypatch.setattr(several, "INT32", 0)
    results, launched = [], []
    for most in (400, 0):
        monkeypatch.setattr(lowering, "MOST_PARAMS", most)
        with gpu_kernels.interpreted() as made:
            results.append([r._data for r in jit(sums, fullgraph=True)(x, y)])
        launched.append([launch.programs for m in made for launch in m.launched])
    assert list(map(len, launched)) == [2, 4] and launched[0][1] == sum(launched[1][1:])
    for together, alone, eager in zip(*results, sums(x, y), strict=True):
        assert together.tobytes() == alone.tobytes()
        np.testing.assert_allclose(together, eager._data, rtol=1e-4, atol=1e-5)


def test_sums_of_everything_are_finished_together() -> None:
    """The sum of a mean, and of how many it is the mean."""
    random = np.random.default_rng(6)
    given = torch.tensor(random.normal(size=(20000, 3))).float(), torch.tensor(random.integers(0, 3, 20000))
    with gpu_kernels.interpreted() as made:
        loss = jit(torch.nn.functional.cross_entropy, fullgraph=True)(*given)
    np.testing.assert_allclose(loss._data, torch.nn.functional.cross_entropy(*given)._data, rtol=1e-5)
    assert sum("finish" in name for name in names(made)) == 1


def test_sums_of_other_sizes_are_finished_apart() -> None:
    """Their parts are as many as there are rows for: the order of a sum is that of its own sizes."""
    given = [torch.ones(rows, 70) for rows in (200, 200, 300)]
    with gpu_kernels.interpreted() as made:
        results = jit(lambda *given: [x.sum(0) for x in given], fullgraph=True)(*given)
    assert [r._data.tolist() for r in results] == [[float(len(x))] * 70 for x in given]
    assert sum("finish" in name for name in names(made)) == 3


def test_what_depends_on_each_other_stays_apart() -> None:
    def chained(x: Any, y: Any) -> Any:
        first = (x @ x).sum() + x
        second = first.sum() + x
        y += second.sum()
        return first, second, y

    def run(wrap: Any) -> list[bytes]:
        x, y = torch.tensor(np.arange(9.0).reshape(3, 3)).float(), torch.ones(3, 3)
        return [r._data.tobytes() for r in wrap(chained)(x, y)]

    with gpu_kernels.interpreted() as made:
        actual = run(lambda f: jit(f, fullgraph=True))
    assert actual == run(lambda f: f) and not any("start" in m.text for e in made for m in sources(e))


def test_what_a_scan_gives_is_not_read_before() -> None:
    def both(g: Any, x: Any) -> Any:
        return g * x, g * x.cumsum(0)

    given = [torch.tensor(np.arange(1.0, 7.0)).float(), torch.tensor(np.arange(2.0, 8.0)).float()]
    with gpu_kernels.interpreted():
        actual = [r._data.tobytes() for r in jit(both, fullgraph=True)(*given)]
    assert actual == [r._data.tobytes() for r in both(*given)]


def sources(executable: Any) -> list[Any]:
    return [launch.source for launch in executable.launched]


def test_machine_code_reads_wide_pieces() -> None:
    """That all tensors are aligned is known after one of them is chosen."""
    tensors = [torch.ones(16 * n) for n in range(2, 6)]
    with gpu_kernels.interpreted() as made:
        jit(lambda *given: [x.exp() for x in given], fullgraph=True)(*tensors)
    (launch,) = [launch for m in made for launch in m.launched]
    for architecture in (80, 90):
        assert "ld.global.v4" in gpu_kernels.binary(launch, architecture).ptx


def test_what_a_convolution_writes_is_read_after_it() -> None:
    """Both gradients are converted from float32: the second is there after the first."""
    random = np.random.default_rng(2)
    x, w, g = (torch.tensor(random.normal(size=s)).bfloat16() for s in ((2, 2, 6, 7), (3, 2, 3, 3), (2, 3, 4, 5)))

    def gradients(x: Any, w: Any, g: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad(torch.nn.functional.conv2d(x, w), (x, w), g)

    with gpu_kernels.interpreted():
        found = jit(gradients, fullgraph=True)(x, w, g)
    for a, b in zip(found, gradients(x, w, g), strict=True):
        np.testing.assert_allclose(a.float().numpy(), b.float().numpy(), rtol=2e-2, atol=2e-2)


def test_equal_parts_of_a_result_are_one_launch() -> None:
    x = torch.tensor(np.random.default_rng(3).normal(size=(3, 5)))
    calls = {
        1: lambda x: torch.cat([x, x * 2, x + 1, x.exp()], 1),
        2: lambda x: torch.stack([x * number for number in range(10)]),
        3: lambda x: torch.cat([x, x, x[:, :2], x], 1),
    }
    for count, call in calls.items():
        expected = call(x)
        with gpu_kernels.interpreted() as made:
            actual = jit(call, fullgraph=True)(x)
        names = [launch.source.name for m in made for launch in m.launched]
        assert actual._data.tobytes() == expected._data.tobytes()
        assert sum("_cat" in name for name in names) == count, names


def test_parts_are_computed_where_they_go() -> None:
    """Of memory and numbers; what several kernels read, and what one computes of others, is read from memory."""
    random = np.random.default_rng(7)
    x, y = (torch.tensor(random.normal(size=(3, 5))).float() for _ in range(2))
    calls: list[tuple[int, Any]] = [
        (1, lambda x, y: torch.cat([x + y, x * 2, y.T.contiguous().T, torch.ones_like(x) + 2.0, y // 0.0], 1)),
        (2, lambda x, y: torch.cat([x.sin().exp(), x + 1], 1)),
        (2, lambda x, y: (z := x + 1, torch.cat([z, z - y], 1))),
    ]
    for count, call in calls:
        with gpu_kernels.interpreted() as made:
            actual = jit(call, fullgraph=True)(x, y)
        for a, e in zip(*(r if isinstance(r, tuple) else (r,) for r in (actual, call(x, y))), strict=True):
            assert a._data.tobytes() == e._data.tobytes()
        assert len(names(made)) == count, names(made)


def test_gradients_of_parts_are_put_side_by_side_at_once() -> None:
    """Each is added to zero on its way, which makes another number of -0.0 alone."""
    given = [torch.tensor([[-0.0, 0.0, float("nan"), -1.0, float("inf")]] * 3) for _ in range(3)]

    def gradient(*given: Any) -> Any:
        x = torch.zeros(3, 15, requires_grad=True)
        return torch.autograd.grad(x.split(5, 1), [x], given)[0]

    with gpu_kernels.interpreted() as made:
        actual = jit(gradient, fullgraph=True)(*given)
    assert actual._data.tobytes() == gradient(*given)._data.tobytes()
    assert names(made) == ["k0_cat_0"]
