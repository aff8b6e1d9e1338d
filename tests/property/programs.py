"""Random programs over tensors, run eagerly and jitted: every bit, gradient, error and alias must agree.

Each line also runs on NumPy arrays (`reference`), whose results the eager ones must equal within rounding.

    python -m tests.property.programs --count 1000 --seed 0
"""

from __future__ import annotations

import argparse
import collections
import linecache
import math
import os
import random
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eagerjit as torch
from eagerjit.jit import JitWarning, jit
from eagerjit.runtime import cpu
from eagerjit.runtime.once import once
from tests.property.reference import Reference

SIZES = ({"A": 5, "B": 3, "C": 4}, {"A": 7, "B": 3, "C": 2}, {"A": 2, "B": 5, "C": 4}, {"A": 70, "B": 33, "C": 2})
SPECIAL_SIZES = (
    {"A": 1, "B": 3, "C": 4},
    {"A": 0, "B": 3, "C": 4},
    {"A": 5, "B": 1, "C": 1},
    {"A": 300, "B": 65, "C": 9},
)
SHAPES = ("A", "B", "AB", "AB", "BA", "1B", "A1", "AC", "CB", "ABC", "CAB", "1", "")
UNARY = (
    "neg abs exp tanh sigmoid sin cos square relu floor ceil round sign log1p sqrt rsqrt reciprocal erf isnan clone "
    "detach"
).split()
BINARY = ("+", "-", "*", "/", "+", "*", ">", "<=", "==")
FUNCTIONS = "torch.maximum torch.minimum torch.atan2 torch.pow".split()
DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
LIMIT = 40_000
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, ZeroDivisionError, NameError)


class Generator:
    """Writes one program: every line is tried on tensors first, and kept if it runs.

    `values` allows lines that depend on tensors' values: branches, loops, numbers, masks; and random numbers.
    """

    def __init__(self, seed: int, length: int = 10, values: bool = True):
        self.seed, self.random, self.values = seed, random.Random(seed), values
        choose = self.random.choice
        self.shapes = [choose(SHAPES) for _ in range(self.random.randint(1, 4))]
        self.dtypes = [choose(("float32", "float32", "float32", *DTYPES)) for _ in self.shapes]
        self.grads = [d.startswith(("float", "bfloat")) and self.random.random() < 0.5 for d in self.dtypes]
        self.floats = {f"n{i}": choose((0.5, 2.0, -1.25)) for i in range(self.random.randint(0, 1))}
        self.integers = {f"k{i}": choose((0, 1, 2, 3)) for i in range(self.random.randint(0, 1))}
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"torch": torch, **self.floats, **self.integers}
        self.tensors = [f"x{i}" for i in range(len(self.shapes))]
        self.counts: list[str] = []
        for name, tensor in zip(self.tensors, arguments(self, SIZES[0], 0), strict=True):
            self.scope[name] = tensor
        for _ in range(self.random.randint(2, length)):
            self.grow()
        self.returns = self.finish()

    @property
    def source(self) -> str:
        """The program's text."""
        names = [*(f"x{i}" for i in range(len(self.shapes))), *self.floats, *self.integers]
        head = f"def program({', '.join(names)}):"
        body = textwrap.indent("\n".join([*self.lines, f"return {self.returns}"]), "    ")
        return f"{head}\n{body}\n"

    def function(self) -> Callable[..., Any]:
        """The program as a new function."""
        name = f"program_{self.seed}.py"
        source = self.source
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        scope = {"torch": torch}
        exec(compile(source, name, "exec"), scope)
        return scope["program"]

    # -- lines --------------------------------------------------------------------------------------------------------

    def attempt(self, line: str) -> bool:
        """Keep a line if it runs. A RuntimeError and its like are the program's fault, anything else is a bug."""
        names = set(self.scope)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.scope)
        except (*ERRORS, AttributeError):
            return False
        new = [n for n in self.scope if n not in names and isinstance(self.scope[n], torch.Tensor)]
        if any(self.scope[n].numel() > LIMIT for n in new):
            for n in new:
                del self.scope[n]
            return False
        self.lines.append(line)
        self.tensors += new
        self.counts += [n for n in self.scope if n not in names and type(self.scope[n]) is int]
        return True

    def grow(self) -> None:
        """One more line."""
        kinds = ["unary"] * 2 + ["binary"] * 5 + ["scalar"] * 2 + ["reduce"] * 4 + ["view"] * 5 + ["inplace"] * 3
        kinds += ["cast", "where", "index", "matmul", "cat", "softmax"]
        if self.values:
            kinds += ["select", "value", "branch", "loop", "random"]
        for _ in range(5):
            line = getattr(self, f"_{self.random.choice(kinds)}")()
            if line is not None and self.attempt(line):
                return

    def pick(self) -> str:
        return self.random.choice([self.random.choice(self.tensors), *self.tensors[-2:]])

    def new(self) -> str:
        return f"v{len(self.lines)}"

    def dim(self, x: str) -> int:
        rank = max(self.scope[x].ndim, 1)
        return self.random.randrange(-rank, rank)

    def _unary(self) -> str:
        return f"{self.new()} = {self.pick()}.{self.random.choice(UNARY)}()"

    def _binary(self) -> str:
        x, y = self.pick(), self.pick()
        if self.random.random() < 0.2:
            return f"{self.new()} = {self.random.choice(FUNCTIONS)}({x}, {y})"
        return f"{self.new()} = {x} {self.random.choice(BINARY)} {y}"

    def number(self) -> str:
        known = [*self.floats, *self.integers, *self.floats, *self.counts[-1:]]
        sizes = [f"{x}.shape[{self.dim(x)}]" for x in (self.pick(),) if self.scope[x].ndim]
        return self.random.choice([*known, *known, *sizes, "2", "0.5", "-1", "3.0", "True"])

    def _scalar(self) -> str:
        pair = [self.pick(), self.number()]
        self.random.shuffle(pair)
        return f"{self.new()} = {pair[0]} {self.random.choice(('+', '-', '*', '/', '**', '*'))} {pair[1]}"

    def _reduce(self) -> str:
        x = self.pick()
        name = self.random.choice("sum sum sum mean amax amin prod argmax any all var logsumexp".split())
        form = self.random.random()
        if form < 0.3 and name != "logsumexp":
            return f"{self.new()} = {x}.{name}()"
        dim: Any = self.dim(x)
        if form > 0.8 and name in ("sum", "mean", "amax") and self.scope[x].ndim > 1:
            dim = tuple(sorted(self.random.sample(range(self.scope[x].ndim), 2)))
        return f"{self.new()} = {x}.{name}({dim}, keepdim={self.random.random() < 0.6})"

    def _softmax(self) -> str:
        x = self.pick()
        return f"{self.new()} = {x}.{self.random.choice(('softmax', 'log_softmax'))}({self.dim(x)})"

    def view(self, x: str) -> str:
        """An expression that views a tensor."""
        rank = self.scope[x].ndim
        bound = self.random.choice(["1", "2", "-1", *self.integers, f"{x}.shape[0] // 2"])
        dims = self.random.sample(range(rank), rank)
        return self.random.choice(
            [
                f"{x}.t()",
                f"{x}.transpose({self.dim(x)}, {self.dim(x)})",
                f"{x}.permute({', '.join(map(str, dims))})",
                f"{x}.unsqueeze({self.dim(x)})",
                f"{x}.squeeze()",
                f"{x}.reshape(-1)",
                f"{x}.reshape({x}.shape[0], -1)",
                f"{x}.view(-1, {x}.shape[-1])",
                f"{x}.flatten()",
                f"{x}[{bound}:]",
                f"{x}[:{bound}]",
                f"{x}[..., ::2]",
                f"{x}[..., {bound}]",
                f"{x}[{self.random.choice(('0', '-1', *self.integers))}]",
                f"{x}[None]",
                f"{x}.expand(2, {', '.join(['-1'] * rank) or '2'})",
                f"{x}.narrow(0, 0, 1)",
                f"{x}.chunk(2, {self.dim(x)})[0]",
                f"{x}.detach()",
                f"{x}.view_as({x})",
            ]
        )

    def _view(self) -> str:
        return f"{self.new()} = {self.view(self.pick())}"

    def _inplace(self) -> str:
        x, y = self.pick(), self.random.choice([self.pick(), self.number()])
        target = x if self.random.random() < 0.5 else self.view(x)
        return self.random.choice(
            [
                f"{target}.{self.random.choice(('add_', 'mul_', 'sub_', 'add_'))}({y})",
                f"{target}.copy_({y})" if y in self.tensors else f"{target}.fill_({y})",
                f"{target}.{self.random.choice(('zero_', 'neg_', 'abs_', 'tanh_', 'exp_'))}()",
                f"{x}[{self.random.choice(('0', '1:', '..., 0', '..., ::2'))}] = {y}",
                f"{x} += {y}",
            ]
        )

    def _cast(self) -> str:
        return f"{self.new()} = {self.pick()}.to(torch.{self.random.choice(DTYPES)})"

    def _where(self) -> str:
        x, y, z = self.pick(), self.pick(), self.pick()
        choice = self.random.choice
        return f"{self.new()} = torch.where({z} > {choice(('0', z, x))}, {x}, {choice((y, '0.0'))})"

    def _index(self) -> str:
        x = self.pick()
        return f"{self.new()} = " + self.random.choice(
            [
                f"{x}[torch.arange({x}.shape[0]) // 2]",
                f"{x}.gather({self.dim(x)}, ({x} * 0).to(torch.int64))",
                f"{x}.index_select(0, torch.tensor([0, 0]))",
                f"{x}[torch.tensor([0, -1]), ...]",
                f"{x}.masked_fill({x} > 0, 1.5)",
                f"{x}.flip(0)",
                f"{x}.roll(1, {self.dim(x)})",
                f"{x}.tril()",
            ]
        )

    def _matmul(self) -> str:
        x, y = self.pick(), self.pick()
        return f"{self.new()} = {x} @ " + self.random.choice((y, f"{y}.t()", f"{x}.transpose(-1, -2)"))

    def _cat(self) -> str:
        x, y = self.pick(), self.pick()
        name = self.random.choice(("cat", "stack"))
        return f"{self.new()} = torch.{name}([{x}, {self.random.choice((x, y))}], {self.dim(x)})"

    def _select(self) -> str:
        """What depends on values: masks, order, counts."""
        x, y = self.pick(), self.pick()
        return f"{self.new()} = " + self.random.choice(
            [
                f"{x}[{x} > 0]",
                f"{x}[{y} > 0]",
                f"{x}.nonzero()",
                f"{x}.unique()",
                f"{x}.sort({self.dim(x)}).values",
                f"{x}.sort({self.dim(x)}).indices",
                f"{x}.cumsum({self.dim(x)})",
            ]
        )

    def _value(self) -> str:
        """A number of Python's made of values, and what is done with it."""
        x, y, n, v = self.pick(), self.pick(), f"n{len(self.lines)}", self.new()
        return self.random.choice(
            [
                f"{n} = int(({x} > 0).sum())\n{v} = {y}.reshape(-1)[:{n}]",
                f"{n} = int(({x} > 0).sum())\n{v} = {y} * {n}",
                f"{v} = {y} + {x}.amax().item()",
                f"{v} = {y} * float({x}.sum())",
                f"{n} = {x}.argmax().item()\n{v} = {y}.reshape(-1)[{n} // 2]",
                f"{v} = {y} - len({x})",
                f"{n} = ({x} > 0).sum().item() % 3\n{v} = {y}.sum({n})",
            ]
        )

    def condition(self) -> str:
        """A truth value of tensors' values."""
        x, y = self.pick(), self.pick()
        return self.random.choice(
            [
                f"({x} > 0).any()",
                f"{x}.sum() > 0.25",
                f"int(({x} > 0).sum()) % 2 == 0",
                f"({x} > 0).all() or ({y} < 0).any()",
                f"{x}.amax() > {y}.amin()",
                f"not {x}.isnan().any()",
                f"{x}.numel() > 3 and bool(({x} != 0).any())",
                f"{x}.shape[0] > 2",
            ]
        )

    def _branch(self) -> str:
        x, y, v = self.pick(), self.pick(), self.new()
        first, second = f"{v} = {x} * 2", self.random.choice((f"{v} = {y} - 1", f"{v} = {x}.relu()", f"{v} = {y}"))
        return self.random.choice(
            [
                f"if {self.condition()}:\n    {first}\nelse:\n    {second}",
                f"{v} = {x} if {self.condition()} else {y}",
                f"{v} = {x}\nif {self.condition()}:\n    {v} = {v} + {y}",
                f"{v} = {x}.clone()\nif {self.condition()}:\n    {v}.mul_(2)",
                f"try:\n    {v} = {x}.view(3, -1) * 1\nexcept RuntimeError:\n    {v} = {x} + 1",
            ]
        )

    def _loop(self) -> str:
        x, y, v = self.pick(), self.pick(), self.new()
        i = f"i{len(self.lines)}"
        return self.random.choice(
            [
                f"{v} = {x}\nfor {i} in range({self.random.choice(('2', '3', *self.integers))}):\n    {v} = {v} + {i}",
                f"{i} = 0\n{v} = {x}\n"
                f"while {i} < 3 and {v}.sum() < 20:\n    {v} = {v} + {y}.abs().sum() + 1\n    {i} += 1",
                f"{v} = {x}.sum()\nfor {i} in {y}:\n    {v} = {v} + {i}.sum()",
                f"{v} = {x}\nfor {i} in range(min({y}.shape[0], 4)):\n    {v} = {v} * 0.5 + {y}[{i}].sum()",
                f"{v} = {x}.clone()\nfor {i} in range(min(int(({y} > 0).sum()), 3)):\n    {v} += {i}",
            ]
        )

    def _random(self) -> str:
        x = self.pick()
        return f"{self.new()} = " + self.random.choice(
            [
                f"torch.rand_like({x})",
                f"torch.rand(({x}.shape[0], 2))",
                f"torch.randint(0, 5, ({x}.shape[0],))",
                f"torch.nn.functional.dropout({x}, 0.5)",
            ]
        )

    def finish(self) -> str:
        """What the program returns; half of those with gradients run backward first."""
        made = self.tensors[-5:]
        floats = [n for n in made if self.scope[n].requires_grad]
        if floats and self.random.random() < 0.4:
            self.lines.append(f"({' + '.join(f'{n}.double().sum()' for n in floats)}).backward()")
            made = [*(n for n in made if n not in floats), *(f"{n}.detach()" for n in floats)]
        chosen = self.random.sample(made, min(len(made), self.random.randint(1, 3)))
        if self.random.random() < 0.2:
            return "{'out': " + chosen[0] + ", 'rest': [" + ", ".join(chosen[1:]) + "]}"
        return ", ".join(chosen)


def arguments(program: Generator, sizes: dict[str, int], variant: int) -> list[Any]:
    """Tensors for a program: the same for the same variant; their memory and aliases differ between variants."""
    chooser = random.Random(program.seed * 1000 + variant)
    generator = np.random.default_rng(program.seed * 1000 + variant)
    out: list[Any] = []
    for text, dtype, grad in zip(program.shapes, program.dtypes, program.grads, strict=True):
        shape = tuple(sizes.get(c, 1) for c in text)
        kind = chooser.choice(("plain", "plain", "transposed", "strided", "again", "view")) if variant else "plain"
        earlier = [t for t in out if tuple(t.shape) == shape and str(t.dtype).endswith("." + dtype)]
        if kind == "again" and earlier:
            out.append(earlier[-1])
            continue
        if kind == "view" and earlier and not earlier[-1].requires_grad:
            out.append(earlier[-1].view_as(earlier[-1]))
            continue
        values = generator.standard_normal((math.prod(d * 2 + 1 for d in shape),)) * 2
        whole = torch.tensor(values).to(getattr(torch, dtype))
        tensor = laid_out(whole, shape, kind)
        out.append(tensor.requires_grad_() if grad else tensor)
    return out


def laid_out(whole: Any, shape: tuple[int, ...], kind: str) -> Any:
    """A tensor of this shape in the memory of another."""
    if kind == "transposed" and len(shape) > 1:
        dims = tuple(range(len(shape)))[::-1]
        return whole[: math.prod(shape)].reshape(shape[::-1]).permute(dims).detach()
    if kind == "strided":
        wide = whole.reshape(tuple(2 * d + 1 for d in shape))
        return wide[tuple(slice(1, 1 + 2 * d, 2) for d in shape)].detach() if shape else wide.detach()
    return whole[: math.prod(shape)].reshape(shape).clone()


# -- one call, and what came of it ------------------------------------------------------------------------------------


def tensors_of(value: Any) -> list[Any]:
    """The tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [t for part in parts for t in tensors_of(part)]


def bits(tensor: Any) -> Any:
    """A tensor for comparison: dtype, sizes, strides and every bit but the payload of NaN."""
    if tensor is None:
        return None
    array = np.ascontiguousarray(tensor.detach()._data)
    if array.dtype.kind in "fV" and array.size:
        array = np.where(array != array, array.dtype.type(np.nan), array)
    return str(tensor.dtype), tuple(tensor.shape), array.tobytes()


def observe(function: Callable[..., Any], tensors: Sequence[Any], numbers: Sequence[Any]) -> dict[str, Any]:
    """Everything that a call does: results, changes to its arguments, gradients, aliases, errors."""
    seen: dict[str, Any] = {}
    torch.manual_seed(len(numbers))
    try:
        result = function(*tensors, *numbers)
    except ERRORS as error:
        # An eager operation serves many lines (subscripts name themselves); a jitted function's message names the one.
        return {"error": (type(error), re.sub(r" \((\S+\.py:\d+|index)\)", "", str(error)))}
    outputs = tensors_of(result)
    seen["structure"] = structure(result)
    seen["outputs"] = [bits(t) for t in outputs]
    seen["strides"] = [[s for s, d in zip(t.stride(), t.shape, strict=True) if d > 1 and t.numel()] for t in outputs]
    seen["requires_grad"] = [t.requires_grad for t in outputs]
    seen["same objects"] = [[i for i, x in enumerate((*tensors, *outputs)) if x is t] for t in outputs]
    seen["arguments"] = [bits(t) for t in tensors]
    seen["gradients inside"] = [bits(t.grad) if t.is_leaf else None for t in tensors]
    try:
        # A leaf that gets gradients from inside and outside a call gets them in sums of another order.
        parts = [t for t in outputs if t.requires_grad and not any(t is x for x in tensors)]
        loss = sum(((t.double() * (1 + i)).sum() for i, t in enumerate(parts)), torch.zeros(()))
        if loss.requires_grad:
            loss.backward()
            seen["gradients"] = [bits(t.grad) if t.is_leaf else None for t in tensors]
    except ERRORS as error:
        seen["backward error"] = (type(error), str(error).partition("(recorded")[0])
    with torch.no_grad():
        for k, t in enumerate((*tensors, *outputs)):
            if t.numel() == 0:
                continue
            try:
                t.detach().add_(1) if t.dtype is not torch.bool else t.detach().logical_not_()
            except RuntimeError as error:
                seen[f"write {k}"] = str(error)
        seen["after writes"] = [bits(t) for t in (*tensors, *outputs)]
    seen["random numbers"] = torch.rand(2).tolist()
    return seen


def structure(value: Any) -> Any:
    """A result with its tensors left out."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, dict):
        return {k: structure(v) for k, v in value.items()}
    return [type(value), [structure(v) for v in value]] if isinstance(value, (tuple, list)) else value


def calls(program: Generator) -> list[tuple[dict[str, int], int, list[Any]]]:
    """(sizes, variant, numbers) of the calls to make of one program."""
    chooser = random.Random(program.seed + 7)
    plans = [(SIZES[0], 0), (SIZES[0], 1), (SIZES[1], 2)]
    plans += [(chooser.choice(SIZES), 3), (chooser.choice(SPECIAL_SIZES), 4)]
    out = []
    for sizes, variant in [*plans, (SIZES[1], 5)]:
        floats = [v if variant < 2 else chooser.choice((v, 0.25, 3.5, -0.0)) for v in program.floats.values()]
        integers = [v if variant < 2 else chooser.choice((v, 0, 1, 2, -1)) for v in program.integers.values()]
        out.append((sizes, variant, [*floats, *integers]))
    return out


def misfit(program: Generator, tensors: Sequence[Any], numbers: Sequence[Any]) -> str | None:
    """The first line of a program whose eager results are not those of NumPy; None if there is none."""
    torch.manual_seed(len(numbers))
    names = [*(f"x{i}" for i in range(len(tensors))), *program.floats, *program.integers]
    scope: dict[str, Any] = {"torch": torch, **dict(zip(names, [*tensors, *numbers], strict=True))}
    reference = Reference(scope)
    for line in program.lines:
        if line.endswith(".backward()"):
            continue
        try:
            exec(line, scope)
        except ERRORS:
            return None
        found = reference.step(line, scope)
        if found is not None:
            return f"{line}: {found}"
    return None


def difference(seed: int, length: int = 10, most: int = 6) -> tuple[str | None, list[str]]:
    """What differs between the eager and the jitted program of this number (None: nothing), and the warnings given.

    `most` calls are made of it, each also compared with NumPy.
    """
    program = Generator(seed, length)
    eager, jitted = program.function(), jit(program.function())
    given: list[str] = []
    for sizes, variant, numbers in calls(program)[:most]:
        found = misfit(program, arguments(program, sizes, variant), numbers)
        if found is not None:
            return f"against NumPy\n{program.source}sizes {sizes}, variant {variant}, numbers {numbers}\n{found}", given
        expected = observe(eager, arguments(program, sizes, variant), numbers)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", JitWarning)
            actual = observe(jitted, arguments(program, sizes, variant), numbers)
        given += [str(w.message) for w in caught if issubclass(w.category, JitWarning)]
        if actual != expected:
            keys = [k for k in {"error": 0, **actual, **expected} if expected.get(k) != actual.get(k)]
            details = [f"{k}: {short(expected.get(k))} eager, {short(actual.get(k))} jitted" for k in keys[:3]]
            call = f"sizes {sizes}, variant {variant}, numbers {numbers}"
            kinds = [(tuple(t.shape), t.stride(), str(t.dtype)) for t in arguments(program, sizes, variant)]
            return f"{keys[0]}\n{program.source}{call}\n{kinds} {program.grads}\n" + "\n".join(details), given
    return None, given


def short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 300 else text[:300] + "..."


@once
def hasty_machine() -> Any:
    """A target machine that generates code in half the time and does not make it fast."""
    binding = cpu._binding()
    features = binding.get_host_cpu_features().flatten()
    target = binding.Target.from_default_triple()
    how = {"opt": 0, "reloc": "pic", "codemodel": "default", "jit": True}
    return target.create_target_machine(cpu=cpu.cpu_name(), features=features, **how)


def main() -> int:
    """Run many programs and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=10)
    parser.add_argument("--calls", type=int, default=6, help="calls of each program")
    parser.add_argument("--hasty", action="store_true", help="compile in half the time, and without the disk cache")
    options = parser.parse_args()
    if options.hasty:
        os.environ["EAGERJIT_CACHE"] = "0"
        cpu._target_machine = hasty_machine
    kinds: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    started = time.perf_counter()
    for seed in range(options.seed, options.seed + options.count):
        try:
            found, given = difference(seed, options.length, options.calls)
        except Exception as error:
            found, given = f"{type(error).__name__}: {error}\n", []
        refused.update(w.partition(".py:")[2].partition(": ")[2][:100] for w in given)
        if found is not None:
            kind = found.partition("\n")[0][:100]
            kinds[kind] += 1
            if kinds[kind] <= 2:
                print(f"-- program {seed}: {found}")
    done = f"{options.count} programs from seed {options.seed} in {time.perf_counter() - started:.0f} s"
    print(f"{done}, {sum(kinds.values())} differ: {dict(kinds)}")
    print(f"{sum(refused.values())} ran eagerly: {refused.most_common(12)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
