"""`torch.export` and `torch.jit.save`: what the recorded program computes is what the model computes, anywhere."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import eagerjit as ej

ROOT = Path(__file__).resolve().parent.parent


def drawn(library: Any, *shape: int) -> Any:
    return library.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def attention(t: Any) -> Any:
    class Attention(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = t.nn.Embedding(5, 4)
            self.head = t.nn.Linear(4, 5, bias=False)
            self.register_buffer("mask", t.tril(t.ones(9, 9)), persistent=False)

        def forward(self, tokens: Any, targets: Any) -> Any:
            x = self.embedding(tokens)
            length = x.shape[1]
            hidden = self.mask[:length, :length] == 0
            x = x + t.nn.functional.softmax((x @ x.mT).masked_fill(hidden, float("-inf")), -1) @ x
            scores = self.head(x)
            return t.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten()), scores

    model = Attention()
    with t.no_grad():
        model.embedding.weight.copy_(drawn(t, 5, 4))
        model.head.weight.copy_(drawn(t, 4, 5).T)
    return model


def nested(t: Any) -> Any:
    class Nested(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = t.nn.Linear(4, 3), t.nn.BatchNorm1d(3)
            self.register_buffer("calls", t.zeros(3))
            self.shift = t.arange(3.0)
            with t.no_grad():
                self.linear.weight.copy_(drawn(t, 3, 4))
                self.linear.bias.copy_(drawn(t, 3))

        def forward(self, x: Any, count: int = 2, *, more: Any) -> Any:
            y = self.norm(self.linear(x)).relu().clone()
            y[:, 0] += more["scale"][0].sum()
            self.calls += 1
            first, second = y.split(2, dim=1) if count == 2 else (y, y)
            best = x.topk(2)[0] + self.shift[:2]
            return {"first": first.reshape(x.shape[0] * 2, -1), "rest": (second, 3, None)}, [best]

    return Nested()


def tokens(t: Any, *shape: int) -> Any:
    return t.from_numpy(np.random.default_rng(0).integers(0, 5, shape))


def nested_call(t: Any, rows: int = 4) -> tuple[Any, Any]:
    return (drawn(t, rows, 4), 2), {"more": {"scale": (t.ones(2), 5)}}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return leaves(list(value.values()))
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (list, tuple)) else [value]


def assert_alike(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        if isinstance(b, torch.Tensor):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-5)
        else:
            assert a == b


def through_file(program: Any, library: Any = ej) -> Any:
    file = io.BytesIO()
    library.export.save(program, file)
    file.seek(0)
    return library.export.load(file)


class Case(NamedTuple):
    make: Callable[[Any], Any]
    call: Callable[[Any], tuple[Any, Any]]
    dynamic: Callable[[Any], Any]
    other: Callable[[Any], tuple[Any, Any]]
    """A call that the sizes which differ allow."""




def attention_call(t: Any, rows: int = 2, length: int = 6) -> tuple[Any, Any]:
    return (tokens(t, rows, length),) * 2, {}


CASES = {
    "static": Case(attention, attention_call, lambda t: None, attention_call),
    "dynamic": Case(
        attention, attention_call,
        lambda t: ({0: t.export.Dim("batch"), 1: t.export.Dim("length", max=8)},) * 2,
        lambda t: attention_call(t, 1, 8),
    ),
    "nested": Case(nested, nested_call, lambda t: None, nested_call),
    "nested and dynamic": Case(
        nested, nested_call,
        lambda t: {"x": {0: t.export.Dim("rows")}, "count": None, "more": {"scale": (None, None)}},
        lambda t: nested_call(t, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("saved", [False, True])
def test_programs_compute_what_models_do(case: Case, saved: bool) -> None:
    found = []
    for t in (ej, torch):
        model = case.make(t)
        args, kwargs = case.call(t)
        program = t.export.export(model, args, kwargs, dynamic_shapes=case.dynamic(t))
        program = through_file(program, t) if saved else program
        module = program.module()
        args, kwargs = case.other(t)
        results = [module(*args, **kwargs), module(*args, **kwargs)]
        sum(x.sum() for x in leaves(results) if isinstance(x, t.Tensor) and x.requires_grad).backward()
        gradients = {name: p.grad for name, p in module.named_parameters()}
        signature = program.graph_signature
        found.append((
            results, gradients, dict(module.state_dict()), sorted(program.state_dict), list(signature.parameters),
            list(signature.buffers), [s.kind.name for s in signature.input_specs], list(signature.user_inputs),
        ))  # fmt: skip
        if t is ej and not saved:
            fresh = case.make(t)
            assert all(map(ej.equal, *([x for x in leaves(r) if isinstance(x, ej.Tensor)] for r in (results, [
                fresh(*args, **kwargs), fresh(*args, **kwargs)]))))  # fmt: skip
            compiled = ej.jit(case.make(t))
            assert ej.equal(leaves(compiled(*args, **kwargs))[0], leaves(results)[0])
    for ours, theirs in zip(*found, strict=True):
        assert_alike(ours, theirs)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: ((drawn(t, 6, 4), 2), {"more": {"scale": (t.ones(2), 5)}}),
        lambda t: ((drawn(t, 4, 4), 3), {"more": {"scale": (t.ones(2), 5)}}),
        lambda t: ((drawn(t, 4, 4), 2), {"more": {"scale": (t.ones(3), 5)}}),
    ],
)
def test_other_calls_are_refused(change: Any) -> None:
    messages = []
    for t in (ej, torch):
        args, kwargs = nested_call(t)
        module = t.export.export(nested(t), args, kwargs).module()
        args, kwargs = change(t)
        with pytest.raises(AssertionError) as caught:
            module(*args, **kwargs)
        messages.append(str(caught.value).partition("  #")[0])
    assert messages[0] == messages[1] or "scale" in messages[0]


class Branch(ej.nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] > 3 else x


def test_tied_parameters_stay_tied() -> None:
    model = attention(ej)
    model.head.weight = model.embedding.weight
    args = (tokens(ej, 2, 6),) * 2
    program = ej.export.export(model, args)
    assert list(program.graph_signature.parameters) == ["embedding.weight", "head.weight"]
    for module in (program.module(), through_file(program).module()):
        assert module.head.weight is module.embedding.weight
        module(*args)[0].backward()
        gradient, model.embedding.weight.grad = module.head.weight.grad, None
        model(*args)[0].backward()
        assert ej.equal(gradient, model.embedding.weight.grad)
    assert program.module().head.weight is model.head.weight


def test_what_sizes_decided_is_checked() -> None:
    dims = ({0: ej.export.Dim("rows")},)
    program = through_file(ej.export.export(Branch(), (ej.ones(5),), dynamic_shapes=dims))
    assert program.range_constraints == {"rows": (0, None)}
    assert ej.equal(program.module()(ej.ones(4)), ej.full((4,), 2.0))
    with pytest.raises(AssertionError, match="Guard failed: 3 < rows"):
        program.module()(ej.ones(2))
    same = ej.export.Dim("rows", max=6)
    two = ej.export.export(Sum(), (ej.ones(3), ej.ones(3)), dynamic_shapes=({0: same}, {0: same})).module()
    with pytest.raises(AssertionError, match=r"y.size\(\)\[0\] == 4"):
        two(ej.ones(4), ej.ones(1))
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] <= 6"):
        two(ej.ones(7), ej.ones(7))
    with pytest.raises(AssertionError, match=r"x.dtype == torch.float32"):
        two(ej.ones(4).double(), ej.ones(4))


class Sum(ej.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y


class Drawn(ej.nn.Module):
    def forward(self, x: Any) -> Any:
        return ej.nn.functional.dropout(x, 0.5), ej.rand(3), ej.randn_like(x)


def test_random_numbers_are_those_of_the_default_generator() -> None:
    module = through_file(ej.export.export(Drawn(), (ej.ones(4, 3),))).module()
    for function in (module, ej.jit(module)):
        found = []
        for f in (Drawn(), function):
            ej.manual_seed(1)
            found.append([*f(ej.ones(4, 3)), *f(ej.ones(4, 3)), ej.rand(2)])
        assert all(map(ej.equal, *found))


class Refused(ej.nn.Module):
    def __init__(self, function: Callable[[Any], Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Point(NamedTuple):
    x: Any


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "decided a branch"),
        (lambda x: x[x > 0], "number of non-zero elements"),
        (lambda x: x.add_(1), "an argument is written to"),
        (lambda x: Point(x), "not a Point"),
        (lambda x: x.numpy(), ""),
        (lambda x: ej.rand(3, generator=ej.Generator()) + x, "generator other than the default"),
    ],
)
def test_what_cannot_be_a_graph_says_so(function: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"torch.export.export: .*{message}"):
        ej.export.export(Refused(function), (ej.ones(3),))


def test_wrong_uses_are_errors() -> None:
    model = ej.nn.Linear(2, 2)
    for error, call in (
        (ValueError, lambda: ej.export.export(lambda x: x, (ej.ones(2),))),
        (TypeError, lambda: ej.export.export(model, ej.ones(2))),
        (TypeError, lambda: ej.export.export(model, (ej.ones(2),), unknown=1)),
        (RuntimeError, lambda: ej.export.export(model, (ej.ones(3, 2),), dynamic_shapes={"x": None})),
        (RuntimeError, lambda: ej.export.export(model, (ej.ones(3, 2),), dynamic_shapes=({4: ej.export.Dim("d")},))),
        (RuntimeError, lambda: ej.export.export(model, (ej.ones(2),))(ej.ones(2))),
        (NotImplementedError, lambda: ej.export.export(model, (ej.ones(2),)).module().eval()),
        (TypeError, lambda: ej.export.save(model, io.BytesIO())),
    ):
        with pytest.raises(error):
            call()
    changed = ej.export.export(model, (ej.ones(2),))
    node = changed.graph.output_node()
    with changed.graph.inserting_before(node):
        node.args = ((changed.graph.call_function(lambda x: x, node.args[0]),),)
    with pytest.raises(TypeError, match="other processes may not have"):
        ej.export.save(changed, io.BytesIO())


def test_graphs_are_torch_fx_graphs() -> None:
    program = ej.export.export(ej.nn.Sequential(ej.nn.Linear(2, 3), ej.nn.ReLU()), (ej.ones(4, 2),))
    functions = [n.target for n in program.graph.nodes if n.op == "call_function"]
    assert functions == [ej.ops.aten.linear.default, ej.ops.aten.relu.default]
    assert tuple([*program.graph.nodes][-2].meta["val"].shape) == (4, 3)
    assert "torch.ops.aten.linear.default(input" in str(program)
    assert "p_0_weight: PARAMETER target='0.weight'" in str(program)
    assert program.run_decompositions() is program
    assert [name for name, _ in program.named_parameters()] == ["0.weight", "0.bias"]
    extra = {"notes.txt": ""}
    file = io.BytesIO()
    ej.export.save(program, file, extra_files={"notes.txt": "hello"})
    file.seek(0)
    ej.export.load(file, extra_files=extra)
    assert extra == {"notes.txt": "hello"}


# -- loops and branches ------------------------------------------------------------------------------------------------

LOADED = """
import torch

def saved_again(module, x):
    torch.export.save(torch.export.export(module, (x,)), "again.pt")
    return "again.pt"

for name, (x, results, gradient) in torch.load("calls.pt").items():
    module = torch.export.load(f"{name}.pt").module()
    torch.manual_seed(0)
    found = module(x)
    assert all(map(torch.equal, found, results)), name
    sum(y.sum() for y in found).backward()
    assert torch.allclose(module.weight.grad, gradient, rtol=1e-5), name
    for function in (torch.jit(module), torch.export.load(saved_again(module, x)).module()):
        torch.manual_seed(0)
        assert all(map(torch.equal, function(x), results)), name
"""


class Structured(ej.nn.Module):
    def __init__(self, function: Callable[[Any, Any], Any]):
        super().__init__()
        self.function = function
        self.weight = ej.nn.Parameter(ej.eye(3) + 0.25)

    def forward(self, x: Any) -> Any:
        return self.function(x, self.weight)


def scanned(x: Any, weight: Any) -> Any:
    def step(h: Any, e: Any) -> Any:
        h = ej.control.cond(h.sum() > e.sum(), lambda h: ej.tanh(h @ weight), lambda h: h - e, (h,))
        return h, ej.linalg.solve(weight, h) + ej.rand(3)

    return ej.control.scan(step, ej.zeros(3), x, reverse=True)


def repeated(x: Any, weight: Any) -> Any:
    def step(h: Any) -> Any:
        (grown,) = ej.control.while_loop(lambda h: h.sum() < 5, lambda h: (h @ weight + 1,), (h,))
        return grown * h

    (last,) = ej.control.while_loop(lambda h: h.sum() < 50, lambda h: (h * 1.5 + 1,), (x,))
    return ej.control.map(step, x), last @ weight


@pytest.mark.parametrize("dynamic", [False, True])
def test_loops_and_branches_run_in_other_processes(tmp_path: Path, dynamic: bool) -> None:
    calls = {}
    for name, function in (("scan", scanned), ("while", repeated)):
        model = Structured(function)
        sizes = ({0: ej.export.Dim("n")},) if dynamic else None
        ej.export.save(ej.export.export(model, (drawn(ej, 4, 3),), dynamic_shapes=sizes), tmp_path / f"{name}.pt")
        x = drawn(ej, 7 if dynamic else 4, 3)
        ej.manual_seed(0)
        results = model(x)
        sum(y.sum() for y in results).backward()
        calls[name] = x, [y.detach() for y in results], model.weight.grad
    ej.save(calls, tmp_path / "calls.pt")
    (tmp_path / "program.py").write_text(LOADED)
    command = [sys.executable, "-m", "eagerjit", "run", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr


def test_changed_loops_are_refused() -> None:
    file = io.BytesIO()
    ej.export.save(ej.export.export(Structured(repeated), (drawn(ej, 4, 3),)), file)
    found = ej.load(io.BytesIO(file.getvalue()))
    found["program"] = re.sub("(scan|while)_[0-9a-f]{24}", r"\1_" + "0" * 24, found["program"])
    changed = io.BytesIO()
    ej.save(found, changed)
    changed.seek(0)
    with pytest.raises(RuntimeError, match="which this version of eagerjit lacks"):
        ej.export.load(changed)


# -- traced Modules ---------------------------------------------------------------------------------------------------

PROGRAM = """
import torch
model, (x, y) = torch.jit.load("traced.pt"), torch.load("call.pt")
assert torch.equal(model(x), y) and not model.training and isinstance(model, torch.jit.ScriptModule)
assert model(x[:1]).shape == (1, 2) and model.eval() is model
torch.jit.save(model, "again.pt")
again = torch.jit.load("again.pt", map_location="cpu")
again(x).sum().backward()
assert again.conv.weight.grad.shape == (4, 1, 3, 3) and "linear" in again.code
"""


class Network(ej.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = ej.nn.Conv2d(1, 4, 3), ej.nn.BatchNorm2d(4)
        self.dropout, self.linear = ej.nn.Dropout(0.5), ej.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        return ej.softmax(self.linear(self.dropout(x)).view(x.size(0), -1), -1)


def test_traced_modules_load_without_their_code(tmp_path: Path) -> None:
    model = Network().eval()
    traced = ej.jit.trace(model, ej.randn(1, 1, 8, 8))
    x = ej.randn(5, 1, 9, 7)
    assert isinstance(traced, ej.jit.ScriptModule) and ej.equal(traced(x), model(x))
    assert list(traced.state_dict()) == list(model.state_dict()) and traced.conv is model.conv
    assert traced.train().training and model.linear.training and not traced.eval().linear.training
    traced.save(tmp_path / "traced.pt")
    ej.save((x, model(x)), tmp_path / "call.pt")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "eagerjit", "run", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr


def test_what_was_not_traced_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"save torch.jit.trace"):
        ej.jit.save(Network(), tmp_path / "x.pt")
    ej.save({"a": ej.ones(1)}, tmp_path / "x.pt")
    for load in (ej.jit.load, ej.export.load):
        with pytest.raises(RuntimeError, match="not written by eagerjit"):
            load(tmp_path / "x.pt")
    loaded = io.BytesIO()
    ej.jit.trace(Sum(), example_kwarg_inputs={"x": ej.ones(2, 1), "y": ej.ones(1, 3)}).save(loaded)
    loaded.seek(0)
    module = ej.jit.load(loaded)
    assert module(x=ej.ones(4, 1), y=ej.ones(1, 5)).shape == (4, 5)
    with pytest.raises(TypeError, match="forward\\(\\) takes x, y"):
        module(ej.ones(2, 1))
    with pytest.raises(AssertionError, match=r"x.dim\(\) == 2"):
        module(ej.ones(3), ej.ones(1, 3))
