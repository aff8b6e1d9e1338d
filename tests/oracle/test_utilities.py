"""Helpers that programs take from torch.nn.grad, torch.utils and torch.utils.checkpoint, compared with PyTorch's."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
import eagerjit.utils.model_zoo
from eagerjit.utils import checkpoint as ours

HOW = ({}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"stride": 2, "groups": 2})


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_convolutions(rank: int, how: dict[str, int]) -> None:
    x, w = numbers(2, 4, *(7, 8, 9)[:rank]), numbers(6, 4 // how.get("groups", 1), *(3,) * rank)
    y = getattr(torch.nn.functional, f"conv{rank}d")(torch.tensor(x), torch.tensor(w), **how)
    g = numbers(*y.shape)
    for of, arguments in (("input", lambda t: (x.shape, t.tensor(w))), ("weight", lambda t: (t.tensor(x), w.shape))):
        found, expected = (
            getattr(t.nn.grad, f"conv{rank}d_{of}")(*arguments(t), t.tensor(g), **how) for t in (ej, torch)
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    assert ej.nn.functional.grad is ej.nn.grad


def test_gradients_of_convolutions_refuse_other_ranks() -> None:
    with pytest.raises(RuntimeError, match="conv2d: sizes"):
        ej.nn.grad.conv2d_input((2, 4, 7), ej.ones(6, 4, 3, 3), ej.ones(2, 6, 5, 5))


def test_swapped_tensors() -> None:
    a, b = ej.nn.Parameter(ej.ones(2)), ej.zeros(3, dtype=ej.float64)
    b.label = "b"
    held = [a]
    ej.utils.swap_tensors(a, b)
    assert held[0].label == "b" and held[0].shape == (3,) and held[0].dtype is ej.float64
    assert type(a) is ej.Tensor and type(b) is ej.nn.Parameter and b.requires_grad and not hasattr(b, "label")


def test_modules_of_classes() -> None:
    class Named:
        pass

    ej.utils.set_module(Named, "elsewhere")
    assert Named.__module__ == "elsewhere"
    with pytest.raises(TypeError, match="should be a string"):
        ej.utils.set_module(Named, 3)


def test_model_zoo(tmp_path: Any) -> None:
    ej.save({"w": ej.ones(2)}, tmp_path / "weights.pth")
    found = ej.utils.model_zoo.load_url("https://example.com/weights.pth", model_dir=str(tmp_path))
    assert found["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("library", [ej, torch])
def test_extensions_are_not_built(library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    tools = importlib.import_module(f"{library.__name__}.utils.cpp_extension")
    assert tools.CUDA_HOME is tools.ROCM_HOME is None and not tools.IS_HIP_EXTENSION
    assert not tools.is_ninja_available() and isinstance(tools.include_paths(), list)
    assert isinstance(tools.library_paths(), list) and tools.BuildExtension.with_options(use_ninja=False)
    with pytest.raises(RuntimeError, match="Ninja is required"):
        tools.verify_ninja_availability()
    (tmp_path / "one.cpp").write_text("int one() { return 1; }")
    for build in (tools.load, lambda **options: tools.load_inline(cpp_sources=["int one() { return 1; }"], name="one")):
        with pytest.raises(RuntimeError):
            build(name="one", sources=[str(tmp_path / "one.cpp")])


def test_makers_of_extensions_refuse() -> None:
    tools = ej.utils.cpp_extension
    for make in (tools.CppExtension, tools.CUDAExtension, tools.SyclExtension):
        with pytest.raises(RuntimeError, match="Error building extension 'one': eagerjit"):
            make("one", ["one.cpp"])
    with pytest.raises(RuntimeError, match="eagerjit has no headers"):
        tools.BuildExtension()


@pytest.mark.parametrize("policy", ["list", "function"])
def test_selective_checkpoints(policy: str) -> None:
    results = []
    for t in (ej, torch):
        tools: Any = t.utils.checkpoint
        x, w = (t.tensor(numbers(4, 4)).requires_grad_() for _ in range(2))
        kept: Any = [t.ops.aten.mm.default]
        if policy == "function":
            kept = lambda *arguments, saved=tools.CheckpointPolicy.PREFER_SAVE, **options: saved  # noqa: E731
        with tools.set_checkpoint_early_stop(False), tools.set_checkpoint_debug_enabled(False):
            out = tools.checkpoint(
                lambda a, b, t=t: t.sigmoid(t.mm(a, b)).sum(), x, w, use_reentrant=False,
                context_fn=lambda tools=tools, kept=kept: tools.create_selective_checkpoint_contexts(kept),
            )  # fmt: skip
        out.backward()
        results.append((out.item(), x.grad.numpy(), w.grad.numpy()))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_beside_their_input(use_reentrant: bool) -> None:
    found = []
    for t in (ej, torch):
        run: Any = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=use_reentrant)
        w: Any = t.linspace(-1.0, 2.0, 5).requires_grad_()
        x, seen = w * 1, []
        x.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        out = x.cos() + run(lambda y, run=run: y + run(lambda z: z + z.sin(), y) * y, x)
        out.sum().backward()
        found.append([w.grad.tolist(), *seen])
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("check", ["default", "none", "strict"])
def test_checkpoints_that_give_something_else(check: str) -> None:
    kinds = []
    for t in (ej, torch):
        tools: Any = t.utils.checkpoint
        runs: list[int] = []

        def part(x: Any, t: Any = t, runs: Any = runs) -> Any:
            runs.append(0)
            return x.sin() if len(runs) == 1 else t.cat([x, x]).sin()

        x = t.ones(2, requires_grad=True)
        with pytest.raises((tools.CheckpointError, RuntimeError, ValueError)) as error:
            tools.checkpoint(part, x, use_reentrant=False, determinism_check=check).sum().backward()
        kinds.append([k.__name__ for k in error.type.__mro__])
    assert kinds[0] == kinds[1]


def test_leaves_made_in_checkpoints() -> None:
    found = []
    for t in (ej, torch):
        w, made = t.tensor([1.0, 2.0, 3.0], requires_grad=True), []

        def part(x: Any, t: Any = t, made: Any = made) -> Any:
            made += [x.detach().requires_grad_(), t.full((3,), 2.0, requires_grad=True), t.nn.Parameter(x.detach())]
            return made[-3] * made[-2].sin() * made[-1].exp() * x

        out = t.utils.checkpoint.checkpoint(part, w * 2, use_reentrant=False)
        out.sum().backward()
        found.append([None if leaf.grad is None else leaf.grad.numpy() for leaf in (w, *made)])
    assert [g is None for g in found[0]] == [g is None for g in found[1]] == [False] * 4 + [True] * 3
    for mine, theirs in zip(*(g[:4] for g in found), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_checkpoints_whose_parameters_are_replaced() -> None:
    """In a functional call the second run has the call's parameters; one that has others would leave gradients out."""
    layer = ej.nn.Linear(2, 2)
    part = functools.partial(ours.checkpoint, layer, use_reentrant=False)
    given = {name: (p.detach() * 2).requires_grad_() for name, p in layer.named_parameters()}
    module = ej.nn.Module()
    module.layer, module.forward = layer, part
    named = {f"layer.{name}": p for name, p in given.items()}
    ej.func.functional_call(module, named, (ej.ones(3, 2),)).sum().backward()
    assert [p.grad.tolist() for p in given.values()] == [[[3.0, 3.0], [3.0, 3.0]], [3.0, 3.0]]
    assert layer.weight.grad is None
    loss = part(ej.ones(3, 2)).sum()
    layer.weight = ej.nn.Parameter(ej.eye(2))
    with pytest.raises(ours.CheckpointError, match=r"does not depend on .* float32 tensor of shape \[2, 2\]"):
        loss.backward()


def test_names_of_checkpoints() -> None:
    assert [p.name for p in ours.CheckpointPolicy] == [p.name for p in torch.utils.checkpoint.CheckpointPolicy]
    for wrong in (3, None, [3]):
        errors = []
        for tools in (ours, torch.utils.checkpoint):
            with pytest.raises((TypeError, ValueError)) as raised:
                tools.create_selective_checkpoint_contexts(wrong)
            errors.append(raised.type)
        assert errors[0] is errors[1]
    x = ej.ones(2, requires_grad=True)
    (cut, number) = ours.detach_variable((x * 2, 3))
    assert cut.is_leaf and cut.requires_grad and number == 3
    ours.CheckpointFunction.apply(lambda a: a * 2.0, True, x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert ours.DefaultDeviceType.get_device_type() == "cuda"
