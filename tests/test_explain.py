"""What a jitted function tells of itself: graphs, kernels, guards, times, counts and reasons.

`EAGERJIT_UPDATE_GOLDEN=1 pytest tests/test_explain.py` writes the texts in `golden` anew; read the difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_calls import CALLS, GOLDEN

import eagerjit as torch
from eagerjit.compiler.lower.assemble import compile_trace
from eagerjit.compiler.lower.build import Blocking
from eagerjit.compiler.text import node_names, parse_graph, print_graph
from eagerjit.compiler.verify import verify
from eagerjit.jit import JitFunction, jit
from eagerjit.runtime import cpu

HERE = Path(__file__).resolve()
Function = torch.nn.functional


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.project, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = Function.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(Function.gelu(self.up(self.after(x))))


class Model(torch.nn.Module):
    def __init__(self, tokens: int, width: int, length: int):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(tokens, width), torch.nn.Embedding(length, width)
        self.block, self.norm = Block(width, 2), torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, tokens, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.block(x)))


@pytest.fixture(scope="module")
def step() -> Any:
    """A compiled training step that takes tokens and targets."""
    torch.manual_seed(0)
    model = Model(11, 8, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @jit(fullgraph=True)
    def step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        loss = Function.cross_entropy(model(tokens).view(-1, 11), targets.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    step(*batch(2))
    return step


def batch(size: int) -> tuple[Any, Any]:
    return torch.randint(0, 11, (size, 6)), torch.randint(0, 11, (size, 6))


@pytest.fixture(scope="module")
def training(step: Any) -> Any:
    """The report on that step."""
    found = step.explain(*batch(3))
    assert step.cache_info().compiles == 1
    return found


def test_every_launch_of_a_training_step_names_lines_of_the_user(training: Any) -> None:
    assert len(training.kernels) > 20
    for kernel in training.kernels:
        assert kernel.lines and all(line.rpartition(":")[0] == str(HERE) for line in kernel.lines), kernel
    named = {int(line.rpartition(":")[2]) for kernel in training.kernels for line in kernel.lines}
    source = HERE.read_text().splitlines()
    for text in ("self.project(", "scaled_dot_product_attention(", "Function.gelu(", "optimizer.step()", "self.token("):
        assert any(text in source[number - 1] for number in named), text


def test_graphs_of_a_training_step_parse_back(step: Any, training: Any) -> None:
    hints = step.variants[-1].report.trace.hints
    for graph in (training.graph, training.optimized):
        again = parse_graph(str(graph))
        verify(again, hints)
        assert str(again) == str(graph) == print_graph(graph)
        assert len(again.nodes) == len(graph.nodes) and len(again.writes) == len(graph.writes) > 0


def test_kernels_of_a_training_step_are_code(training: Any) -> None:
    own = [k for k in training.kernels if k.kernel is not None]
    assert len(own) < len(training.kernels)  # matrix products are not ours
    for kernel in own[::8]:
        assert kernel.ir.startswith(f"kernel {kernel.name}(")
        assert cpu.compile_text(kernel.source)
        assert kernel.kernel.name in kernel.assembly


def test_the_report_of_a_training_step_fits_a_screen(training: Any) -> None:
    text = str(training)
    assert len(text.splitlines()) < 100 and max(map(len, text.splitlines())) < 200
    for heading in ("operations recorded", "launches", "guards:", "arena of", "times: "):
        assert heading in text
    for part in (".optimized", ".kernels", ".guards", ".memory_plan"):
        assert f"more in {part} ..." in text
    assert any(": i64[s0, s1], contiguous" in g for g in training.guards)
    assert "grad mode is on" in training.guards
    assert training.timings["total"] > 0 and training.timings["load"] > 0


def test_inputs_and_guards_go_by_the_user_s_names() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    tables = {"scale": [torch.ones(1), torch.ones(4)]}

    @jit
    def step(batch: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(batch["image"]) * tables["scale"][1]).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step({"image": torch.ones(5, 3)})
    found = step.explain({"image": torch.ones(5, 3)})
    names = set(found.inputs.values())
    assert {"batch['image']", "tables['scale'][1]", "optimizer.param_groups[0]['lr']"} <= names
    assert {f"model.{name}" for name in dict(model.named_parameters())} <= names
    assert "optimizer.state[model.1.weight]['exp_avg']" in names
    assert "batch['image']: f32[s0, 3], contiguous, requires_grad=False" in found.guards
    assert "model.0.weight: f32[4, 3], contiguous, requires_grad=True" in found.guards
    assert any("argument(leaf=0)" in line and line.endswith(" batch['image']") for line in str(found).splitlines())


def test_objects_without_end_are_walked_through_once() -> None:
    ring: dict[str, Any] = {"x": torch.ones(2)}
    ring["self"] = ring
    chain: list[Any] = []
    for _ in range(30_000):
        chain = [chain]
    holder = types.SimpleNamespace(chain=chain, ring=ring)

    @jit
    def read(y: Any) -> Any:
        return y + holder.ring["x"]

    read(torch.ones(2))
    assert "holder.ring['x']" in set(read.explain(torch.ones(2)).inputs.values())


def test_a_call_whose_result_needs_a_gradient_reports_that_too() -> None:
    @jit
    def loss(x: Any) -> Any:
        return (x.exp() * x).sum()

    found = loss.explain(torch.ones(3, requires_grad=True))
    assert found.backward is not None and found.backward.name.endswith("loss, backward")
    assert found.backward.kernels and all(str(HERE) in k.lines[0] for k in found.backward.kernels)
    assert "loss_backward" in str(found.backward)
    assert ".backward: " in str(found) and "gradient of result 0: f32[]" in str(found.backward)
    assert loss.explain(torch.ones(3)).backward is None


def test_inputs_of_gradients_are_named_by_the_call_they_belong_to() -> None:
    weight = torch.ones(4, 4, requires_grad=True)

    @jit
    def loss(x: Any, calls: Any) -> Any:
        hidden = torch.tanh(x @ weight)
        calls.add_(1)
        return calls, (hidden * hidden).sum(), hidden.exp()

    found = loss.explain(torch.ones(3, 4), torch.zeros(2))
    assert found.backward is not None
    nodes = {name: node for node, name in node_names(found.optimized).items()}
    inputs = {n.attributes["leaf"]: n for n in found.backward.optimized.inputs}
    names = found.backward.inputs
    assert [names[0], names[1]] == ["gradient of result 1", "gradient of result 2"] and "weight" not in names.values()
    kept = {leaf: name.removesuffix(" of loss") for leaf, name in names.items() if name.endswith(" of loss")}
    assert kept and all(nodes[name].type == inputs[leaf].type for leaf, name in kept.items())
    assert all(nodes[name].source == inputs[leaf].source for leaf, name in kept.items())


def test_explaining_makes_no_call() -> None:
    @jit
    def bump(x: Any) -> None:
        x.add_(1)

    x = torch.zeros(3)
    bump.explain(x)
    assert x.tolist() == [0, 0, 0] and x._version == 0
    bump(x)
    assert x.tolist() == [1, 1, 1] and bump.cache_info().compiles == 1


def test_explaining_what_cannot_be_compiled_says_why() -> None:
    with pytest.raises(Exception, match=r"io\.open") as caught:
        jit(lambda x: x * len(open(os.devnull).read())).explain(torch.ones(3))
    assert str(HERE) in str(caught.value)


def test_counts_and_reasons_of_recompiles() -> None:
    @jit
    def scaled(x: Any, by: Any) -> Any:
        return x * by

    scaled(torch.ones(3), 2.0)
    scaled(torch.ones(5), 3.0)
    assert scaled.cache_info().compiles == 1 and scaled.cache_info().recompiles == 0
    calls = [(torch.ones(2, 2), 2.0), (torch.ones(2, 2).double(), 2.0), (torch.ones(2, 3).t(), 2.0), (torch.ones(4), 2)]
    reasons = ["x was f32[s0], is f32[s0, s1]", "x was f32[s0, s1], is f64[s0, s1]", "strides"]
    reasons.append("by was a float, is an int")
    for count, (call, reason) in enumerate(zip(calls, reasons, strict=True), 1):
        scaled(*call)
        info = scaled.cache_info()
        assert (info.compiles, info.recompiles, len(info.reasons)) == (count + 1, count, count)
        text = str(info.reasons[-1]).replace(" (contiguous, requires_grad=False)", "")
        assert reason in text, text
    for call in calls:
        scaled(*call)
    assert scaled.cache_info().compiles == 5


def test_reasons_name_the_random_state() -> None:
    class Noisy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.noise = torch.nn.Parameter(torch.ones(2)), True

        def loss(self, x: Any) -> Any:
            return (self.weight * x + (torch.randn(2) if self.noise else 0)).sum()

    model = Noisy()
    model.loss = jit(model.loss)  # type: ignore[method-assign]
    model.loss(torch.ones(2))
    model.noise = False
    model.loss(torch.ones(2))
    (reason,) = model.loss.cache_info().reasons
    assert str(reason).startswith("the random state was i64[2]")


def test_reasons_name_an_object_that_is_another_one() -> None:
    class Batch:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __del__(self) -> None:
            del self.x

    total = jit(lambda scale, batch: batch.x.sum() * scale)
    for x in (torch.ones(2), torch.ones(2) + 1.0):
        assert total(2.0, Batch(x)).item() == 2.0 * x.sum().item()
    (reason,) = total.cache_info().reasons
    assert str(reason) == "batch was a certain Batch, is another one"


class Averaging(torch.optim.Optimizer):
    """An optimizer as programs write them."""

    def __init__(self, parameters: Any):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if len(state) == 0:
                state["average"] = torch.zeros_like(parameter)
            parameter.sub_(state["average"].lerp_(parameter.grad, 0.1))


def test_reasons_name_tensors_that_are_keys() -> None:
    weight = torch.nn.Parameter(torch.ones(3, 3))
    optimizer = Averaging([weight])

    @jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (weight * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(torch.ones(3))
    assert [r.what for r in step.cache_info().reasons] == ["optimizer.state[weight]['average']"]


def test_calls_served_in_python_are_counted() -> None:
    @jit
    def first(pair: Any) -> Any:
        return pair[0] + pair[1]

    for _ in range(3):
        first((np.ones(3), np.ones(3)))  # arrays in containers become tensors there
    assert first.cache_info().compiles == 1 and first.cache_info().hits >= 2


def test_a_function_of_numbers_is_compiled_once_for_all_of_them() -> None:
    @jit
    def line(x: Any, slope: float, steps: int) -> Any:
        return x * slope + steps

    for slope, steps in ((0.5, 2), (-3.0, 7), (1e-3, -4), (0.0, 100)):
        expected = torch.ones(3) * slope + steps
        assert line(torch.ones(3), slope, steps).tolist() == expected.tolist()
    assert line.cache_info().compiles == 1
    found = line.explain(torch.ones(3), 9.0, 9)
    assert "slope: any float" in found.guards and "steps: any int, n1" in found.guards
    assert line.cache_info().compiles == 1


def test_sizes_that_code_looked_at_are_guards_that_name_the_line() -> None:
    @jit
    def padded(x: Any) -> Any:
        return x * 2 if x.shape[0] > 4 else x  # looked at

    padded(torch.ones(3))
    number = next(i for i, text in enumerate(HERE.read_text().splitlines(), 1) if text.endswith("# looked at"))
    guards = padded.explain(torch.ones(3)).guards
    assert any(f"# test_explain.py:{number}" in g and "s0" in g for g in guards), guards
    padded(torch.ones(9))
    (reason,) = padded.cache_info().reasons
    assert f"test_explain.py:{number}" in str(reason)


PROGRAM = """
import eagerjit as torch
weight = torch.ones(4, 3, requires_grad=True)

@torch.jit
def loss(x, c):
    return (torch.nn.functional.linear(x, weight).tanh() * c).sum()

loss(torch.ones(5, 3), 2.0).backward()
y = (torch.ones(7) * 2 + weight.grad.sum()).exp()
print(y.sum().item(), weight.grad.sum().item())
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    environment = {"EAGERJIT_CACHE_DIR": str(tmp_path), "EAGERJIT_CACHE": "1", "EAGERJIT_LOG": "compile"}
    environment["PYTHONPATH"] = str(HERE.parent.parent)

    def run() -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-c", PROGRAM]
        given = {**os.environ, **environment}
        return subprocess.run(call, env=given, capture_output=True, text=True, check=True, timeout=120)

    first, second = run(), run()
    assert first.stdout == second.stdout
    lines = second.stderr.splitlines()
    assert len(lines) == len(first.stderr.splitlines()) > 4
    assert all("compiled in" in text for text in first.stderr.splitlines())
    assert all("from the disk cache" in text for text in lines), second.stderr


def _text(function: JitFunction, arguments: tuple[Any, ...]) -> str:
    """Graphs and kernels of a call without source lines, for vectors of 256 bits."""
    found = function.explain(*arguments)
    report = function.variants[-1].report
    kernels = "\n\n".join(str(k).rstrip() for k in compile_trace(report.trace, Blocking(8)).kernels)
    parts = {"recorded": str(found.graph), "optimized": str(found.optimized), "kernels": kernels}
    text = "\n\n".join(f"== {name} ==\n{part.rstrip()}" for name, part in parts.items()) + "\n"
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" +# .*$", "", text, flags=re.MULTILINE))


@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_kernels_are_those_kept_as_text(name: str) -> None:
    function, arguments = CALLS[name]
    text = _text(jit(function, fullgraph=True), arguments)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("EAGERJIT_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()
    assert str(HERE.parent.parent) not in text
