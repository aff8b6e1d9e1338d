"""Every scalar operation in Triton: the CPU's bits, for every dtype; and 32-bit indices where they are enough."""

from __future__ import annotations

import re

import numpy as np
import pytest
import triton_runner
from kernel_runner import NUMPY, elementwise, load, memory, one_task, size
from test_codegen import DTYPES, same, samples

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.scalar import SCALAR_OPS, kind_of
from eagerjit.compiler.codegen.triton import operations
from eagerjit.compiler.codegen.triton.source import TritonKernel
from eagerjit.compiler.loops import Kernel, Let, Load, Loop, Store

COUNT = 400
GAMMA = ("gamma_series", "gamma_fraction", "gamma_series_slope", "gamma_fraction_slope")
DRAWS = ("gamma_draw", "von_mises_draw", "poisson_draw", "binomial_draw")
ARITHMETIC = [
    (name, dtype)
    for name, op in SCALAR_OPS.items()
    for dtype in (*DTYPES, "u32", "u64")
    if kind_of(dtype) in op.kinds
    and name not in ("cast", "bitcast", "where", *GAMMA, *DRAWS)
]


Case = tuple[str, tuple[str, ...], str]
"""An operation, the dtypes of its arguments, and its result's."""


def compare(name: str, cases: list[Case], values: list[list[np.ndarray]]) -> None:
    """The CPU's and Triton's results of one kernel that does all of these."""
    params, body = [], []
    for k, (op, inputs, output) in enumerate(cases):
        params += [memory(f"in{k}_{i}", d) for i, d in enumerate(inputs)] + [memory(f"out{k}", output)]
        body += [Load(f"x{k}_{i}", f"in{k}_{i}", (("i", 1),), d) for i, d in enumerate(inputs)]
        body.append(Let(f"y{k}", op, tuple(f"x{k}_{i}" for i in range(len(inputs))), output))
        body.append(Store(f"out{k}", (("i", 1),), f"y{k}"))
    same_results(one_task(name, [*params, size("n")], Loop("vector", "i", 0, "n", tuple(body))), cases, values)


def same_results(kernel: Kernel, cases: list[Case], values: list[list[np.ndarray]]) -> None:
    """Run a kernel on both targets."""
    results = [[np.zeros(COUNT, NUMPY[output]) for _, _, output in cases] for _ in range(2)]
    arguments = [[a for v, r in zip(values, out, strict=True) for a in (*v, r)] for out in results]
    load([kernel])[kernel.name](*arguments[0], COUNT)
    triton_runner.run(kernel, *arguments[1], COUNT)
    for case, inputs, expected, actual in zip(cases, values, *results, strict=True):
        wrong = ~same(actual, expected)
        assert not wrong.any(), [case, [a[wrong][0] for a in inputs], actual[wrong][0], expected[wrong][0]]


@pytest.mark.parametrize("name", sorted({name for name, _ in ARITHMETIC}))
def test_operations(name):
    op = SCALAR_OPS[name]
    dtypes = [dtype for other, dtype in ARITHMETIC if other == name]
    cases = [(name, (d,) * op.arity, "bool" if op.result == "bool" else d) for d in dtypes]
    compare(f"all_{name}", cases, [[samples(d, COUNT) for d in inputs] for _, inputs, _ in cases])


@pytest.mark.parametrize("source", [*DTYPES, "u32", "u64"])
def test_conversions_and_choices(source):
    cases: list[Case] = [("cast", (source,), target) for target in (*DTYPES, "u32", "u64")]
    for target in (*DTYPES, "u32", "u64"):
        if NUMPY[source].itemsize == NUMPY[target].itemsize and "bool" not in (source, target):
            cases.append(("bitcast", (source,), target))
    cases.append(("where", ("bool", source, source), source))
    compare(f"from_{source}", cases, [[samples(d, COUNT) for d in inputs] for _, inputs, _ in cases])


def test_incomplete_gamma_functions():
    """Where they are used: the series up to x = a + 1, the fraction from there on."""
    generator = np.random.default_rng(2)
    a = np.exp(generator.uniform(-3, 1, COUNT))
    inputs = [[a, (a + 1) * generator.uniform(0, 1, COUNT)], [a, a + 1 + generator.exponential(9, COUNT)]]
    compare("incomplete_gamma", [(name, ("f64", "f64"), "f64") for name in GAMMA], inputs * 2)


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
def test_numbers_drawn_until_one_is_accepted(dtype):
    """Where probabilities are added up and where draws are rejected; what is no parameter."""
    generator = np.random.default_rng(3)
    size = np.exp(generator.uniform(-4, 8, COUNT))
    size[:6] = 0.0, -1.0, np.inf, np.nan, 1e-30, 10.0
    chance = generator.uniform(0, 1, COUNT)
    chance[6:10] = 0.0, 1.0, np.nan, 1.5
    size, chance, u = (x.astype(NUMPY[dtype]) for x in (size, chance, generator.uniform(0, 1, COUNT)))
    cases = [(name, (dtype,) * 2, dtype) for name in DRAWS[:3]] + [(DRAWS[3], (dtype,) * 3, dtype)]
    compare(f"draws_{dtype}", cases, [[size, u], [size, u], [size, u], [size, chance, u]])


def test_huge_angles():
    generator = np.random.default_rng(1)
    cases, values = [], []
    for dtype, highest in (("f32", 127), ("f64", 1023)):
        x = np.exp2(generator.uniform(-40, highest, COUNT)) * generator.choice([-1.0, 1.0], COUNT)
        cases += [(function, (dtype,), dtype) for function in ("sin", "cos", "tan")]
        values += [[x.astype(NUMPY[dtype])]] * 3
    compare("huge_angles", cases, values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants(dtype):
    """Constants have the dtype's value exactly, whichever operation they meet."""
    numbers = {"bool": [True], "i": [-7, 3], "u": [200, 1], "f": [0.1, -0.0, float("inf"), 1e-40]}
    cases, params, body = [], [], []
    for number in numbers["bool" if dtype == "bool" else dtype[0].replace("b", "f")]:
        for op in ("add", "mul", "maximum"):
            k = len(cases)
            cases.append((op, (dtype,), dtype))
            params += [memory(f"x{k}", dtype), memory(f"out{k}", dtype)]
            body += [
                Load(f"a{k}", f"x{k}", (("i", 1),), dtype),
                Let(f"c{k}", "const", (), dtype, number),
                Let(f"y{k}", op, (f"a{k}", f"c{k}"), dtype),
                Store(f"out{k}", (("i", 1),), f"y{k}"),
            ]
    kernel = one_task(f"constants_{dtype}", [*params, size("n")], Loop("vector", "i", 0, "n", tuple(body)))
    same_results(kernel, cases, [[samples(dtype, COUNT)] for _ in cases])


def test_indices_have_64_bits_where_needed():
    kernel = TritonKernel(elementwise("copy", "cast", ["f32"], "f32"))
    assert not kernel.launch(1, {"n": 2**31 - 4096}).wide
    assert kernel.launch(1, {"n": 2**31}).wide


def test_every_loop_has_a_condition_of_its_own():
    """Made last of what the loop carries: Triton 3.6 takes the results of a loop for its arguments by their number."""
    text = operations.function("binomial_draw", ("f64",) * 3, "f64").text
    conditions = re.findall(r"while (\w+):", text)
    assert len(conditions) == 2 == len(set(conditions))
    for name in conditions:
        before, _, _ = text.partition(f"while {name}:")
        assert before.rstrip().endswith(f"{name} = True") and before.count(f"{name} = ") == 1


def test_triton_is_patched_once_for_all_programs_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its interpreter does so for every call of a function, which takes as long as what the call computes."""
    from triton.runtime import interpreter

    patched, patch = [], interpreter._patch_lang
    monkeypatch.setattr(interpreter, "_patch_lang", lambda function: patched.append(function) or patch(function))
    x = torch.arange(42000.0).reshape(600, 70)
    with gpu_kernels.interpreted() as made:
        results = torch.jit(lambda x: x.sum(-1))(x)
    assert results.equal(x.sum(-1))
    launches = sum(len(m.launched) for m in made)
    assert 0 < len(patched) <= len(set(patched)) * launches
