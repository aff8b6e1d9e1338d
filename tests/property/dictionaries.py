# ruff: noqa: E501
"""Random functions of dictionaries that other code changes between the calls: jitted, nothing may differ.

Dictionaries of several classes, under keys of many kinds, lie where a function can find one: attributes of objects,
classes, Modules and optimizers, globals, cells, defaults, optimizers' groups and states, other dictionaries. What lies
in them are tensors, views of each other, parameters, numbers, texts, lists, dictionaries and None. A script writes a
function that reads and changes them, and calls it while they change, are replaced, and become the same one. (No key is
a tuple: which of two equal tuples a result holds is not kept.)

    python -m tests.property.dictionaries --count 500 --seed 0
"""

from __future__ import annotations

import random

from tests.property import worlds
from tests.property.scripts import search

PRELUDE = """\
import collections, enum, types
import eagerjit as torch

def tensor(k):
    return torch.arange(k, k + 2, dtype=torch.float32) / 4
class Color(enum.Enum):
    RED, BLUE = 1, 2
class Level(enum.IntEnum):
    LOW, HIGH = 0, 1
class Key:
    def __repr__(self): return "a key"
class Known:
    def __init__(self, n): self.n = n
    def __repr__(self): return f"known {self.n}"
    def __hash__(self): return hash(self.n)
    def __eq__(self, other): return isinstance(other, Known) and self.n == other.n
class Own(dict):
    pass
class Counting(dict):
    reads = 0
    def __getitem__(self, key):
        Counting.reads += 1
        return super().__getitem__(key)
    def __missing__(self, key): return 1.5
class Holder:
    d = {"a": tensor(1), "b": 2.0}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p, self.q = torch.nn.Parameter(tensor(2)), torch.nn.Parameter(tensor(3))
        self.register_buffer("m", tensor(4))
        self.d = {"a": self.p, "b": 1.0, "m": self.m}
KO, KT, KM, KK = Key(), tensor(0), torch.nn.Identity(), Known(1)
GD = {"a": tensor(2), "b": 0.5, None: 3}
w = types.SimpleNamespace(log=[])
w.d, w.e = {"a": tensor(3), "b": 2.0}, {"a": tensor(4), 0: tensor(5)}
w.n = {"k": {"a": tensor(6)}, "l": {}}
w.o, w.c, w.f = collections.OrderedDict(a=tensor(7), b=1), collections.Counter(a=2), collections.defaultdict(float, a=1.5)
w.own, w.counting = Own(a=tensor(8), b=2), Counting(a=tensor(9), b=3)
w.net = Net()
w.opt = torch.optim.SGD(w.net.parameters(), lr=0.5, momentum=0.5)
w.opt.extra = {"a": tensor(1), "b": 0.5}
"""

PLACES = (
    "w.d w.d w.d w.e w.e w.n['k'] w.n['l'] w.o w.c w.f w.own w.counting GD GD cell_d cell_d Holder.d w.net.d w.net.d w.opt.extra "
    "w.opt.param_groups[0] w.opt.state w.opt.state[w.net.p] default_d"
).split()
KEYS = (
    "'a' 'a' 'a' 'b' 'b' 'c' 0 1 True 1.5 None b'x' Color.RED Color.BLUE Level.LOW Level.HIGH KO KT KM KK "
    "Known(1) w.net.p 'lr' 'momentum' 'momentum_buffer'"
).split()
NUMBERS = "0 1 2 3 -1 0.5 2.0 -0.0 True".split()


class Generator:
    """Writes one script: a function of `x`, and calls of it with the dictionaries changing in between."""

    def __init__(self, seed: int, length: int = 4, calls: int = 8):
        self.random = random.Random(seed)
        few = self.random.random() < 0.7  # functions and changes meet more often where there are few
        self.places = self.random.sample(PLACES, 3) if few else PLACES
        self.keys = self.random.sample(KEYS, 4) if few else KEYS
        self.filled = self.random.random() < 0.7
        body = [line for _ in range(self.random.randint(1, length)) for line in self.statement(2)]
        self.source = PRELUDE + self.script(body, calls)

    def place(self) -> str:
        return self.random.choice(self.places)

    def key(self) -> str:
        return self.random.choice(self.keys)

    def value(self, inside: bool) -> str:
        """An expression: of `x` inside of the function, of what there is outside."""
        choose, d, k = self.random.choice, self.place(), self.key()
        found = [f"{d}.get({k})", f"{d}[{k}]", f"{d}.get({k}, 1)", f"{d}[{k}] * 0.5", f"{d}.get({k}, 0) + 1"]
        if inside:
            made = ["x", "x.sum()", "x.detach()", "x[:1]", f"len({d})", "{}", "[x]", "{'a': x}"]
            return choose(found * 2 + made + [choose(NUMBERS)])
        made = ["tensor(1)", "tensor(2)", "tensor(3).double()", "tensor(1).requires_grad_()", "torch.tensor(1.5)", "w.net.p",
                "w.net.m", f"{d}[{k}][:1]", f"{d}[{k}].clone()", "None", "'text'", "{}", "[]", "[1.0, tensor(1)]", "{'a': tensor(2)}",
                "torch.nn.Parameter(tensor(5))", "float('nan')", "10**20"]  # fmt: skip
        return choose(made * 2 + found + NUMBERS * 2)

    def statement(self, depth: int) -> list[str]:
        """Lines of one statement, with blocks down to a depth."""
        choose, d, e, k, v = self.random.choice, self.place(), self.place(), self.key(), self.value(True)
        simple = (
            f"{d}[{k}] = {v}", f"{d}[{k}] = {v}", f"x = x + number({d}[{k}])", f"x = x + number({d}.get({k}, 0))",
            f"x = x * number({d}.get({k}))", f"{d}[{k}] += {v}", f"{d}[{k}] *= 0.5", f"{d}.update({{{k}: {v}}})",
            f"{d}.update({e})", f"{d}.update({{k: v for k, v in {e}.items() if k != {k}}}, c={v})", f"{d}.update([({k}, {v})])",
            f"{d}.update(c={v})", f"x = x + number({d}.pop({k}, 1))", f"{d}.pop({k})", f"del {d}[{k}]", f"x = x + number({d}.setdefault({k}, {v}))",
            f"x = x + len({d})", f"x = x + ({k} in {d})", f"x = x + total(list({d}.values()))", f"x = x + total([v for k, v in {d}.items() if k != {k}])",
            f"x = x + total(dict({d}).values())", f"y = dict({d}); y[{k}] = {v}; x = x + total(y.values())", f"y = {{**{d}, {k}: {v}}}; x = x + total(y.values())",
            f"y = {d}.copy(); y[{k}] = {v}; w.d = y", f"w.d = dict({d})", f"w.e = {{**{d}, **{e}}}", f"w.d = {d}", f"y = {d} | {e}; x = x + total(y.values())",
            f"w.d |= {{{k}: {v}}}", f"w.d |= {e}", f"x = x + total(v for k, v in sorted({d}.items(), key=lambda i: str(i[0])))",
            f"x = x + sum(v for v in {d}.values() if isinstance(v, float))", f"w.log.append(max({d}, key=lambda k: number({d}[k])))", "w.log.append(max(w.c, key=w.c.get))",
            f"w.log.append(list({d}))", f"w.log.append([type(v).__name__ for v in {d}.values()])", f"w.log.append(next(iter({d}), None))", f"w.log.append({d} is {e})",
            f"w.log.append({d}.get({k}) is {e}.get({k}))", f"w.log.append({d}.keys() == {e}.keys())", f"x = x + len({d}.keys() & {e}.keys())",
            f"{d}.clear()", f"w.log.append({d}.popitem()[0])", f"x = x + number(w.c[{k}])", f"w.c[{k}] += 1", f"w.f[{k}] += number({v})",
            f"w.o.move_to_end({k})", f"{d}[len({d}) % 3] = {v}", f"{d}[{k}].add_(1)", f"{d}[{k}].mul_(0.5)", f"{d}[{k}].append(x.detach())", f"{d}[{k}]['a'] = x",
            f"w.n[{k}] = {{'a': {v}}}", f"w.n.setdefault({k}, {{}})['a'] = {v}", f"{d}[{k}], {e}[{k}] = {e}[{k}], {d}[{k}]", f"w.log.append(repr({d}.get({k})))" if k != "KO" else "pass",
            f"{d}['y'] = x", f"{d}.pop('y', None)", f"y = list({d}.items())[-1:]; x = x + total(v for _, v in y)", f"x = x + total(reversed(list({d}.values())))",
            "w.opt.step()", "w.net.p.grad = x.detach()", "w.opt.zero_grad()", "w.opt.param_groups[0]['lr'] *= 0.5",
            f"x = x + number({d}[{k}] if {k} in {d} else {v})", f"x = x + total(map({d}.get, [{k}, {self.key()}]))", f"w.log.append({d} == {e}) if not any(isinstance(v, torch.Tensor) for v in [*{d}.values(), *{e}.values()]) else None",
        )  # fmt: skip
        if not depth or self.random.random() < 0.7:
            return [choose(simple)]
        block = [f"    {line}" for _ in range(self.random.randint(1, 2)) for line in self.statement(depth - 1)]
        head = choose((
            f"for k, v in list({d}.items()):", f"for k, v in {d}.items():", f"for k, v in sorted({d}.items(), key=lambda i: str(i[0])):", f"for k, v in zip({d}, {d}.values()):",
            f"for k in list({d}):", f"for k in {d}:", f"for k in {d}.keys():", f"if {k} in {d}:", f"if {d}:", f"if {d}.get({k}) is None:", f"if len({d}) > 2:",
            f"if isinstance({d}.get({k}), torch.Tensor):", f"if {d}.get({k}):", "if x.sum() > 1:", "try:",
        ))  # fmt: skip
        if head == "try:":
            return [head, *block, "except KeyError:", *[f"    {line}" for line in self.statement(0)]]
        if head.startswith("for"):
            use = choose((
                f"{d}[k] = number({d}[k]) * 0.5", f"{d}[k] = x", f"x = x + number({d}[k])", f"del {d}[k]", f"{d}.pop(k)", f"{e}[k] = {d}[k]", "w.log.append(k)",
                f"x = x + number({e}.get(k))",
            ))  # fmt: skip
            return [head, f"    {use}", *(block if self.random.random() < 0.5 else [])]
        return [head, *block]

    def change(self) -> str:
        """What other code does between two calls."""
        choose, d, e, k, v = self.random.choice, self.place(), self.place(), self.key(), self.value(False)
        return choose((
            f"{d}[{k}] = {v}", f"{d}[{k}] = {v}", f"{d}[{k}] = {v}", f"{d}[{k}] = {v}", f"{d}.pop({k}, None)", f"{d}.clear()", f"v = {d}.pop({k}); {d}[{k}] = v",
            f"{d}[{k}], {d}[{self.key()}] = {d}[{self.key()}], {d}[{k}]", f"{d}[{k}] = {d}[{self.key()}]", f"{d}[{k}] = {e}[{k}]", f"{d}[{k}].add_(1)",
            f"{d} = dict({d})", f"{d} = {e}", f"{d} = {{k: {d}[k] for k in reversed(list({d}))}}", f"{d} = {d}.copy()", f"{d} = {{}}", f"{d} = collections.OrderedDict({d})",
            f"{d} = Own({d})", f"{d} = collections.defaultdict(float, {d})", f"{d}.update({e})", f"{d}[{k}] = {d}[{k}][:1]", f"{d}[{k}] = {d}[{k}].view(2)", f"{d}[{k}] = {d}",
            f"{d}[{k}].requires_grad_(not {d}[{k}].requires_grad)", f"{d}[{k}] = torch.nn.Parameter({d}[{k}].detach())", "w.net.p = torch.nn.Parameter(tensor(3))", "w.net.m = tensor(6)",
            "w.opt.load_state_dict(w.opt.state_dict())", "w.net.load_state_dict(w.net.state_dict(), assign=True)", "w.net.load_state_dict({k: v + 1 for k, v in w.net.state_dict().items()})",
            "w.opt.param_groups[0]['lr'] = 0.25", "w.net.p.grad = tensor(1)", "w.opt.step()", "KT.add_(1)", "KO = Key()", "KM = torch.nn.Identity()", "KT = tensor(1)",
        ))  # fmt: skip

    def script(self, body: list[str], calls: int) -> str:
        choose = self.random.choice
        names = "GD, KO, KM, KT"
        lines = [
            "def number(v):", "    return v if isinstance(v, (int, float, torch.Tensor)) and not (isinstance(v, int) and abs(v) > 1e9) else 1",
            "def total(values):", "    result = 0", "    for v in values:", "        result = result + number(v)", "    return result",
            "def script(jit):", "    cell_d = {'a': tensor(1), 'b': 1.5, 0: 2}", "    given = {'a': tensor(2), 'b': 3}",
            "    def plain(x, default_d=given):", f"        global {names}", "        nonlocal cell_d", *(f"        {line}" for line in body),
            f"        return {choose(('x', 'x', 'x, w.d', 'w.e', 'x, cell_d', 'GD, x'))}", "    def change(k):", f"        global {names}", "        nonlocal cell_d",
            "        default_d = given",
        ]  # fmt: skip
        if self.filled:
            places = [place for place in self.places if place not in ("w.opt.state", "w.opt.state[w.net.p]")]
            filled = "".join(f"{place}.setdefault({key}, {self.value(False)}); " for place in places for key in self.keys[:4])
            lines.append(f"        if k == 0: {filled}".replace("w.opt.state", "w.opt.extra"))
        steps: list[str] = []
        for number in range(calls):
            acts = [self.change() for _ in range(choose((0, 0, 1, 1, 2, 3)) if number else 0)]
            lines += [f"        if k == {number}:"]
            lines += [
                f"            try: {act}\n            except Exception as e: w.log.append(type(e).__name__)" for act in acts
            ]
            lines += ["            pass"]
            argument = choose((f"tensor({number})", "tensor(1)", "tensor(1).requires_grad_()", "w.net.p", "w.d.get('a', tensor(1))"))
            steps += [f"    try: change({number})\n    except Exception: pass", "    try:", f"        r = f({argument})", "        yield r",
                      "    except Exception as e: yield type(e).__name__, str(e) if type(e) is ValueError else ''",
                      "    yield w.log, w.d, w.e, w.n, w.o, w.c, w.f, w.own, w.counting, w.net, w.net.d, w.opt.extra, [*w.opt.state.values()], "
                      "w.opt.param_groups, Holder.d, cell_d, given, GD, Counting.reads"]  # fmt: skip
        lines += ["        return None", "    f = jit(plain)", *steps]
        return "\n".join(lines) + "\n"


def difference(seed: int, length: int = 4, calls: int = 8) -> tuple[str | None, int, int]:
    """Where the runs of a script part, the calls compiled functions served, and those that ran eagerly."""
    return worlds.difference(seed, length, calls, Generator)


if __name__ == "__main__":
    search(__doc__ or "", lambda seed, length: Generator(seed, length).source[len(PRELUDE) :], difference, 4)
