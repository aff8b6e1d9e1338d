# ruff: noqa: E501, UP031
"""Random functions over a world of Python objects that changes between calls: jitted, nothing may differ from the plain run.

The world is what a function can see besides its arguments: attributes, items, globals, cells, defaults, class
attributes, properties, methods, Modules, arrays, modes. A script writes the function, calls it, changes the world, and
calls again; it runs twice (`tests.soundness.framework`), and everything that Python code can see is compared.

    python -m tests.property.worlds --count 500 --seed 0
"""

from __future__ import annotations

import itertools
import random

import eagerjit as torch
from eagerjit.utils.hooks import RemovableHandle as Handle
from tests.property.scripts import innermost, loaded, search
from tests.soundness.framework import Run

PRELUDE = """\
import collections, contextlib, dataclasses, functools, types
import numpy as np
import eagerjit as torch

def tensor(k, *sizes):
    return torch.arange(k, k + int(np.prod(sizes)), dtype=torch.float32).reshape(sizes) / 4

class Base:
    kept = 2.0
    shared = tensor(1, 3)
    def method(self, x):
        return x + self.n
class Thing(Base):
    def __init__(self, n):
        self.n, self.t, self.calls = n, tensor(n, 3), 0
        self.inner = types.SimpleNamespace(n=0.5, t=tensor(2, 3))
    @property
    def twice(self):
        self.calls += 1
        return self.n * 2
    def __call__(self, x):
        self.calls += 1
        return x * self.n
    @classmethod
    def of_class(cls, x):
        return x * cls.kept
class Slotted:
    __slots__ = ("n", "t")
    def __init__(self):
        self.n, self.t = 3, tensor(3, 3)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.rate, self.steps = 0.5, 0
        with torch.no_grad():
            self.linear.weight.copy_(tensor(0, 3, 3) / 8)
            self.linear.bias.fill_(0.25)
    def forward(self, x):
        if self.training:
            self.steps += 1
        return self.linear(x) * self.rate + self.mean
@contextlib.contextmanager
def counted(w):
    w.depth += 1
    try:
        yield w.depth
    finally:
        w.depth -= 1
        w.log.append("left")
class Guarded:
    def __init__(self, w, swallow):
        self.w, self.swallow = w, swallow
    def __enter__(self):
        self.w.depth += 1
        return self
    def __exit__(self, kind, error, trace):
        self.w.depth -= 1
        self.w.log.append(kind and kind.__name__)
        return self.swallow
def items_of(w):
    for i, v in enumerate(w.l[:4]):
        w.depth += 1
        yield v
        w.log.append(i)
def helper(x):
    return x + 1
def other_helper(x):
    return x * 3
def third_helper(x, *, by=2):
    return x - by * GT
GN, GT, GL, GD = 2, tensor(1, 3), [1.0, 2.0], {"a": 1.5, "t": tensor(2, 3)}
w = types.SimpleNamespace()
w.n, w.flag, w.t, w.depth, w.log = 3, True, tensor(4, 3), 0, []
w.l, w.lt = [1, 2.5, -1], [tensor(0, 3), tensor(1, 3)]
w.d = {"a": 2, "b": 0.5, "t": tensor(5, 3), "in": {"a": 4, "l": [tensor(6, 3)]}}
w.pair, w.q, w.count = (2, tensor(7, 3)), collections.deque([1, 2], maxlen=3), collections.Counter(a=1)
w.o, w.s, w.net, w.fn = Thing(2), Slotted(), Net(), helper
w.a, w.text, w.state = np.arange(3, dtype=np.float32), "sum", (tensor(8, 3), tensor(9, 3))
w.part = functools.partial(third_helper, by=3)
w.view = w.t[:2]
"""

NUMBERS = (
    "w.n w.l[0] w.l[-1] w.d['a'] w.d['in']['a'] w.pair[0] w.o.n w.o.inner.n w.o.kept Thing.kept Base.kept w.s.n w.net.rate "
    "w.net.steps w.depth GN GL[0] GD['a'] cell_n default_n w.o.twice len(w.l) len(w.log) len(w.lt) w.q[0] w.count['a'] "
    "w.d.get('b',1) getattr(w,'n') int(w.a[0]) w.o.calls w.flag w.net.training third_helper.__kwdefaults__['by']"
).split()
TENSORS = (
    "w.t w.lt[0] w.lt[-1] w.d['t'] w.d['in']['l'][0] w.pair[1] w.o.t w.o.inner.t w.o.shared Base.shared w.s.t w.net.mean "
    "w.net.linear.bias GT GD['t'] cell_t default_t w.state[0] w.state[1] w.view torch.as_tensor(w.a)"
).split()
CALLS = (
    "w.fn(x)|helper(x)|w.o(x)|w.o.method(x)|Thing.of_class(x)|w.net(x)|getattr(x,w.text)()|third_helper(x)|w.part(x)|inner(x)|"
    "deeper(x, 2)|Base.method(w.o, x)|torch.nn.functional.dropout(x, 0.5, w.net.training)|super(Thing, w.o).method(x)|"
    "functools.reduce(lambda p, q: p * q, w.l[:2], x)|sum(w.lt, x)|(lambda y, k=w.n: y * k)(x)"
).split("|")
ASSIGNED_NUMBERS = (
    "w.n w.l[0] w.l[-1] w.d['a'] w.d['in']['a'] w.o.n w.o.inner.n w.o.kept Thing.kept Base.kept w.s.n w.net.rate w.net.steps "
    "w.depth GN GL[0] GD['a'] cell_n w.q[0] w.count['a'] w.d['b'] w.flag third_helper.__kwdefaults__['by']"
).split()
ASSIGNED_TENSORS = (
    "w.t w.lt[0] w.lt[-1] w.d['t'] w.d['in']['l'][0] w.o.t w.o.inner.t w.o.shared Base.shared w.s.t w.net.mean GT GD['t'] "
    "cell_t w.view"
).split()
VALUES = "0 1 2 3 -1 0.5 2.0 -0.0 1.0 True False 7 0.25".split()
CHANGES = (
    "w.l.append(1.5)|w.l.insert(0,2)|w.l.pop() if len(w.l) > 1 else None|w.l.reverse()|w.l = [3, 4]|w.lt.append(tensor(3, 3))|"
    "w.lt = [tensor(2, 3)]|w.lt.reverse()|w.d['b'] = 4|w.d.pop('b', None)|w.d = dict(w.d)|w.d['in'] = {'a': 1, 'l': [tensor(1, 3)]}|"
    "w.pair = (5, tensor(2, 3))|w.o = Thing(4)|w.o.__class__ = Thing if type(w.o) is not Thing else Sub|"
    "Thing.method = lambda self, x: x - self.n|Base.method = lambda self, x: x * 2 + self.n|w.s = Slotted()|w.net.eval()|w.net.train()|"
    "w.net.linear = torch.nn.Linear(3, 3, bias=True) if 0 else w.net.linear|w.net.linear.weight.data.mul_(2)|"
    "w.net.linear.bias = torch.nn.Parameter(tensor(3, 3))|w.net.mean = tensor(1, 3)|w.net.linear.requires_grad_(False)|"
    "w.net.linear.bias.requires_grad_(True)|w.fn = other_helper|w.fn = helper|w.fn = w.o|w.fn = w.net|set_global('helper', other_helper)|"
    "w.text = 'cumsum' if 0 else 'exp'|w.text = 'neg'|w.a[0] += 1|w.a = w.a * 2|w.a.fill(3)|w.state = w.state[::-1]|"
    "w.part = functools.partial(third_helper, by=w.n)|w.view = w.t[1:]|w.view = w.lt[0][:2]|w.t = w.lt[0]|w.lt[0] = w.t|"
    "w.t.requires_grad_(not w.t.requires_grad) if w.t.is_leaf else None|torch.set_grad_enabled(not torch.is_grad_enabled())|"
    "torch.set_default_dtype(torch.float64)|torch.set_default_dtype(torch.float32)|torch.manual_seed(3)|w.q.append(5)|w.q.rotate()|"
    "w.count['a'] += 1|w.count.clear()|third_helper.__kwdefaults__ = {'by': 5}|f.__defaults__ = (2.5, tensor(4, 3))|"
    "w.o.method = lambda x: x * 5|del w.o.n; w.o.n = 1|w.o.inner = types.SimpleNamespace(n=1, t=tensor(1, 3))|GL.append(1)|"
    "setattr(Thing, 'twice', property(lambda self: self.n * 4))|Base.kept = 3.5|w.lt[0].add_(1)|w.t.mul_(2)|w.view.add_(1) if not w.view.requires_grad else None|"
    "w.d['t'] = w.d['t'].double()|w.o.t = tensor(2, 1)|w.o.t = w.t[None]|w.n = torch.tensor(2.0)|w.n = 2|w.o.kept = 1.25|"
    "Thing.__call__ = lambda self, x: x - 7|w.net.forward = lambda x: x * 9|w.net.register_forward_hook(lambda m, i, o: o + w.n)|"
    "w.lt.__setitem__(0, w.lt[0].clone())|w.d['in']['l'].append(1)|w.log.clear()|w.log = []|w.l.__setitem__(0, 2**40)|w.n = 10**20|w.n = -3|"
    "w.n = float('nan')|w.l[0] = float('inf')|w.n = 'text'|w.t = None|w.t = tensor(3, 3)|w.t = 2.0|w.o.n = tensor(1, 3)|w.o.n = 3|helper.__code__ = other_helper.__code__|"
    "torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled())|w.count.update(b=2)|w.d.update(a=7)|w.flag = not w.flag"
).split("|")


class Generator:
    """Writes one script: a function of `x`, and calls of it with the world changing in between."""

    def __init__(self, seed: int, length: int = 5, calls: int = 7):
        self.random = random.Random(seed)
        self.fresh = 0
        body = [line for _ in range(self.random.randint(2, length)) for line in self.statement(2)]
        self.source = PRELUDE + self.script(body, calls)

    def number(self) -> str:
        choose = self.random.choice
        one = choose(NUMBERS) if self.random.random() < 0.8 else choose(VALUES)
        return f"({one} {choose('+-*')} {choose(NUMBERS)})" if self.random.random() < 0.2 else one

    def tensor(self) -> str:
        return self.random.choice(TENSORS) if self.random.random() < 0.7 else "x"

    def question(self) -> str:
        choose = self.random.choice
        return choose((
            f"{self.number()} > {choose(VALUES)}", f"{self.number()} == {choose(VALUES)}", f"x.sum() > {choose(VALUES)}",
            f"{self.tensor()}.max() > 2", "w.flag", "torch.is_grad_enabled()", "'b' in w.d", f"{self.tensor()} is {self.tensor()}",
            f"isinstance({choose(NUMBERS)}, int)", "hasattr(w.o, 'extra')", f"{self.tensor()}.requires_grad", "w.fn is helper",
            f"{self.tensor()}.shape[0] == 3", "w.o.n and w.flag", f"{choose(NUMBERS)} in w.l", f"not {self.number()}", "len(w.log) % 3",
        ))  # fmt: skip

    def statement(self, depth: int) -> list[str]:
        """Lines of one statement, with blocks down to a depth."""
        choose = self.random.choice
        kinds = (
            ["compute"] * 5
            + ["assign"] * 3
            + ["assign_tensor"] * 2
            + ["inplace"] * 2
            + ["contain", "call", "call", "effect"]
        )
        if depth:
            kinds += ["branch", "branch", "loop", "protect", "context", "generate", "raises"]
        kind = choose(kinds)
        if kind == "compute":
            return [choose((
                f"x = x {choose('+-*/')} {self.tensor()}", f"x = x {choose('+-*')} {self.number()}", f"x = {self.number()} {choose('+-*')} x",
                f"x = torch.where({self.tensor()} > 1, x, {self.number()})", "x = x.sin()", f"x = x + {self.tensor()}.sum()",
                f"x = torch.stack([x, {self.tensor()}]).mean(0)", f"x = x + torch.full((3,), {self.number()})", "x = x + torch.rand(3)",
                f"x = x + torch.tensor([{self.number()}, 1, 2])",
            ))]  # fmt: skip
        if kind == "assign":
            return [f"{choose(ASSIGNED_NUMBERS)} {choose(('=', '+=', '*=', '=', '-='))} {self.number()}"]
        if kind == "assign_tensor":
            value = choose(
                (
                    "x",
                    "x.detach()",
                    f"{self.tensor()} * 0.5",
                    f"{self.tensor()}",
                    "x.detach().clone()",
                    f"{self.tensor()}.detach() + {self.number()}",
                )
            )
            return [f"{choose(ASSIGNED_TENSORS)} = {value}"]
        if kind == "inplace":
            return [choose((
                f"{self.tensor()}.add_({self.number()})", f"{self.tensor()}.mul_(0.5)", f"{self.tensor()}[0] = {self.number()}",
                f"{self.tensor()}[1:] -= {self.tensor()}[1:]", f"{choose(ASSIGNED_TENSORS)} += x.detach()", f"{self.tensor()}.copy_(x.detach())",
                f"{self.tensor()}.detach().add_(1)", "w.a[1] = w.n", "w.a += 1", f"{self.tensor()}.data = x.detach() * 2",
            ))]  # fmt: skip
        if kind == "contain":
            return [choose((
                f"w.l.append({self.number()})", "w.l.pop()", f"w.lt.append({self.tensor()})", "w.lt.pop(0)", f"w.d['b'] = {self.number()}",
                "del w.d['b']", f"w.d.setdefault('c', {self.number()})", f"w.q.append({self.number()})", "w.log.append(x.detach())",
                f"w.pair = ({self.number()}, {self.tensor()})", "w.state = (x.detach(), w.state[0])", f"w.count[{choose(VALUES)}] += 1",
                f"w.d['in'] = {{'a': {self.number()}, 'l': [{self.tensor()}]}}", "w.o = Thing(w.depth)", "w.l.sort(key=str)",
                f"w.o.extra = {self.number()}", f"w.lt[:] = [{self.tensor()}]", "w.l = w.l + [1]", "w.l += [2]", f"w.log.append({self.number()})",
                "w.fn = third_helper", f"setattr(w.o, 'n', {self.number()})", "w.lt[0], w.t = w.t, w.lt[0]",
            ))]  # fmt: skip
        if kind == "call":
            return [f"x = {choose(CALLS)}"]
        if kind == "effect":
            return [choose((
                f"print({self.number()})", "w.log.append(len(w.log))", "(x * x).sum().backward() if x.requires_grad else None", "torch.manual_seed(1)",
                "w.net.train(w.flag)", "w.net.zero_grad()", f"w.net.linear.weight.data.mul_({self.number()})", f"w.log.append({self.tensor()}._version)",
                f"w.log.append({self.tensor()}.sum().item())", f"w.log.append(float({self.number()}))", f"w.log.append('%s' % {self.number()})",
                f"assert {self.question()}, 'no'", "torch.set_grad_enabled(w.flag)", "x = x.detach().requires_grad_()",
            ))]  # fmt: skip

        def block() -> list[str]:
            lines = [line for _ in range(self.random.randint(1, 2)) for line in self.statement(depth - 1)]
            return [f"    {line}" for line in lines]

        if kind == "branch":
            return [f"if {self.question()}:", *block(), *(["else:", *block()] if self.random.random() < 0.5 else [])]
        if kind == "loop":
            self.fresh += 1
            v = f"v{self.fresh}"
            head = choose((f"for {v} in list(w.l)[:3]:", f"for {v} in range(2):", f"for {v} in w.lt[:2]:", f"for {v} in sorted(map(str, w.d)):",
                           f"for {v} in (w.n, GN):", f"for {v} in tuple(w.d.values())[:2]:"))  # fmt: skip
            use = choose((f"    x = x + {v}", "    pass", f"    w.log.append({v})"))
            return [head, use, *block(), *choose(([], ["    break"], ["    if w.depth > 3: break"]))]
        if kind == "protect":
            raised = choose(
                (
                    [],
                    ["    raise ValueError(w.n)"],
                    [f"    if {self.question()}: raise KeyError('k')"],
                    ["    w.missing"],
                    ["    x.reshape(7, 2)"],
                    ["    1 / w.n"],
                )
            )
            after = choose((["finally:", *block()], ["except Exception as e:", "    w.log.append(type(e).__name__)", *block()],
                            ["except ValueError:", *block(), "else:", *block()], ["except KeyError:", "    pass", "finally:", *block()]))  # fmt: skip
            return ["try:", *block(), *raised, *after]
        if kind == "context":
            head = choose(("with counted(w) as depth:", "with Guarded(w, True):", "with Guarded(w, False):", "with torch.no_grad():", "with torch.enable_grad():",
                           "with contextlib.suppress(ValueError):", "with torch.autocast('cpu', enabled=w.flag):"))  # fmt: skip
            return [
                head,
                *block(),
                *choose(
                    ([], [], ["    raise ValueError('in')"], [f"    if {self.question()}: raise ValueError('in')"])
                ),
            ]
        if kind == "generate":
            return [
                choose(("for v in items_of(w):", "for v in (k for k in w.l[:4] if k):", "for v in items_of(w):")),
                "    x = x + v",
                *block(),
                *choose(([], ["    break"])),
            ]
        return [
            f"if {self.question()}:",
            *block(),
            f"    raise {choose(('ValueError', 'RuntimeError', 'KeyError'))}({self.number()})",
        ]

    def script(self, body: list[str], calls: int) -> str:
        choose = self.random.choice
        result = choose(
            (
                "x",
                "x",
                "x, w.t",
                "[x, w.n]",
                "x, w.view",
                "{'x': x, 'l': w.lt}",
                "x.sum()",
                "x[:2]",
                "w.o",
                "x, w.state",
            )
        )
        lines = ["class Sub(Thing):", "    kept = 4.0", "def script(jit):", "    cell_n, cell_t = 2.0, tensor(3, 3)",
                 "    def set_global(name, value): globals()[name] = value",
                 "    def inner(x): return x * cell_n + cell_t",
                 "    def deeper(x, k): return x + GN if k == 0 else deeper(x * cell_n, k - 1) + w.depth",
                 "    def plain(x, default_n=1.5, default_t=tensor(2, 3)):",
                 "        global GN, GT", "        nonlocal cell_n, cell_t",
                 *(f"        {line}" for line in body), f"        return {result}",
                 "    def change(k):", "        global GN, GT, GL", "        nonlocal cell_n, cell_t"]  # fmt: skip
        steps: list[str] = []
        for k in range(calls):
            acts = []
            for _ in range(choose((0, 0, 1, 1, 2, 3)) if k else 0):
                acts.append(self.change())
            lines += [
                f"        if k == {k}:",
                *(f"            try: {a}\n            except Exception as e: w.log.append(type(e).__name__)" for a in acts),
                "            pass",
            ]
            argument = choose(
                (
                    "tensor(%d, 3)" % k,
                    "tensor(%d, 3).requires_grad_()" % k,
                    "tensor(%d, 3)" % k,
                    "w.t",
                    "w.lt[0]",
                    "tensor(%d, 2, 3)" % k,
                    "tensor(1, 1)",
                    "w.o.t",
                    "GT",
                )
            )
            steps += [f"    change({k})", "    try:", f"        r = f({argument})", "        yield r",
                      *choose(([], ["        r.sum().backward()"], ["        r[0].add_(1)"], [])),
                      "    except Exception as e: yield type(e).__name__, str(e) if type(e) is ValueError else ''",
                      "    yield w, GN, GT, GL, GD, cell_n, cell_t, Base.shared, Base.kept, Thing.__dict__.get('kept'), torch.is_grad_enabled(), torch.get_default_dtype(), third_helper.__kwdefaults__"]  # fmt: skip
        lines += ["        return None", "    f = plain", "    torch.set_grad_enabled(True); torch.set_default_dtype(torch.float32)", "    f = jit(plain)", *steps,
                  "    torch.set_grad_enabled(True); torch.set_default_dtype(torch.float32); torch.use_deterministic_algorithms(False)"]  # fmt: skip
        return "\n".join(lines).replace("f.__defaults__ = (2.5", "plain.__defaults__ = (2.5") + "\n"

    def change(self) -> str:
        choose = self.random.choice
        if self.random.random() < 0.45:
            return f"{choose(ASSIGNED_NUMBERS)} = {choose(VALUES)}"
        if self.random.random() < 0.3:
            return f"{choose(ASSIGNED_TENSORS)} = {choose(('tensor(2, 3)', 'tensor(1, 3)', 'tensor(3, 3).requires_grad_()', choose(TENSORS)))}"
        return choose(CHANGES)


def run(seed: int, jitted: bool, length: int = 5, calls: int = 7, generator: type[Generator] = Generator) -> Run:
    """The log of a script's run."""
    Handle._numbers = itertools.count()
    script = loaded(f"world_{seed}", generator(seed, length, calls).source)
    try:
        return Run(jitted)(script)
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def difference(
    seed: int, length: int = 5, calls: int = 7, generator: type[Generator] = Generator
) -> tuple[str | None, int, int]:
    """Where the runs of a script part, the calls compiled functions served, and those that ran eagerly."""
    eager, jitted = (run(seed, jits, length, calls, generator) for jits in (False, True))
    infos = [f.cache_info() for f in jitted.functions]
    found = None if eager.log == jitted.log else innermost(eager.log, jitted.log)
    return found, sum(i.hits for i in infos), sum(i.eager_calls for i in infos)


if __name__ == "__main__":
    search(__doc__ or "", lambda seed, length: Generator(seed, length, 7).source[len(PRELUDE) :], difference, 5)
