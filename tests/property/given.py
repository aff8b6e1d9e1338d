# ruff: noqa: E501
"""Random functions of objects and texts, in the world of `worlds`: others in each call, the same again, or ones that the world holds.

    python -m tests.property.given --count 500 --seed 0
"""

from __future__ import annotations

import functools

from tests.property import worlds
from tests.property.scripts import search

PRELUDE = """\
class Given(Thing):
    def __init__(self, n, name="cat"):
        super().__init__(n)
        self.items, self.d, self.name, self.flag = [n, 2.5], {"t": tensor(n, 3), "a": n}, name, n % 2 == 0
class Holding(Given):
    def __init__(self, n, name="dog"):
        super().__init__(n, name)
        self.inner = Given(n + 1)
class Named(dict):
    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)
    def __setattr__(self, name, value):
        self[name] = value
    def __call__(self, x):
        return x * self.n
    method = __call__
def named(n, name="eel"):
    made = Named(vars(Given(n, name)))
    return made
def apply(self, x):
    return x - self.n
FIELDS = ("n", "t", "name", "flag", "items", "d", "inner")
Fields = dataclasses.make_dataclass("Fields", FIELDS, eq=False, namespace={"__call__": apply, "method": apply})
def fields(n, name="fox"):
    return Fields(n, tensor(n, 3), name, True, [n], {"t": tensor(1, 3), "a": 2}, types.SimpleNamespace(n=n, t=tensor(2, 3)))
w.held, w.last, w.seen, w.names, w.by = [Given(1), Holding(2), named(3), fields(4)], None, [], [], {}
"""

NUMBERS = (
    "b.n",
    "b.items[0]",
    "len(b.items)",
    "b.inner.n",
    "len(b.name)",
    "b.d['a']",
    "getattr(b, 'n')",
    "w.by.get(b.name, 1)",
)
TENSORS = ("b.t", "b.inner.t", "b.d['t']")
QUESTIONS = (
    "b is w.o", "b is w.last", "b is w.held[0]", "b == w.last", "b in w.seen", "b.name == 'cat'", "b.name in w.names", "b.flag", "hasattr(b, 'extra')",
    "isinstance(b, Thing)", "b.inner is w.o", "w.last is None", "b.name", "len(w.seen) > 2",
)  # fmt: skip
STATEMENTS = (
    "w.last = b|w.seen.append(b)|w.log.append(b.name)|w.names.append(b.name)|w.log.append(f'{b.name}: {b.n}')|w.log.append(b.name + '!')|x = b(x)|"
    "x = b.method(x)|b.t.add_(1)|w.o = b|b = Given(2)|b, w.last = w.held[1], b|w.log.append(b is w.last)|w.log.append(id(b) == id(w.last))|"
    "b.inner = types.SimpleNamespace(n=3, t=tensor(1, 3))|b.inner = w.o|b.items = [4]|b.name = 'new'|b.flag = not b.flag|del b.extra|b.items.pop()|"
    "w.held[0] = b|w.held[0].n += 1|w.held[1].t = x.detach()|b.d = dict(b.d)|w.log.append(sorted(b.d))|w.log.append(type(b).__name__)|"
    "(b.t * 2).sum().backward() if b.t.requires_grad else None|w.last.n = 5"
).split("|")
CHANGES = (
    "w.held[0].n = 4|w.held[1].t = tensor(3, 3)|w.held[2].name = 'cat'|w.held[3].items.append(1)|w.last = w.held[0]|w.o = w.held[1]|w.seen.clear()|"
    "w.held[0].name = 'o'|w.held[1].inner.n = 7|w.held[0] = Given(9)|w.names.append('n2')|w.by['n1'] = 3|Given.kept = 5.0|Given.method = Base.method"
).split("|")
OBJECTS = (
    "Given({k})", "Given({k}, 'n{k}')", "Given({k}, 'm{k}')", "Holding({k}, 'h{k}')", "named({k}, 'd{k}')", "fields({k}, 'f{k}')", "w.held[0]", "w.held[1]",
    "w.held[2]", "w.held[3]", "w.last or Given(2)", "w.o if hasattr(w.o, 'items') else Given({k})",
)  # fmt: skip


class Generator(worlds.Generator):
    """Writes one script: its function has a second argument."""

    def number(self) -> str:
        return self.random.choice(NUMBERS) if self.random.random() < 0.3 else super().number()

    def tensor(self) -> str:
        return self.random.choice(TENSORS) if self.random.random() < 0.3 else super().tensor()

    def question(self) -> str:
        return self.random.choice(QUESTIONS) if self.random.random() < 0.4 else super().question()

    def statement(self, depth: int) -> list[str]:
        """Lines of one statement, of which many have to do with the object."""
        choose = self.random.choice
        if self.random.random() > 0.4:
            return super().statement(depth)
        if self.random.random() > 0.4:
            return [choose(STATEMENTS)]
        number = f"{choose(('b.n', 'b.extra', 'b.items[0]', 'b.inner.n', 'w.by[b.name]'))} {choose(('=', '=', '+='))} {self.number()}"
        tensor = f"{choose(('b.t', 'b.inner.t'))} = {choose(('x.detach()', 'tensor(2, 3)', self.tensor()))}"
        return [choose((number, tensor, "b.d['k'] = " + self.number(), f"b.items.append({self.number()})"))]

    def change(self) -> str:
        """What happens between calls, little of it: versions are to serve several."""
        chance = self.random.random()
        return "None" if chance < 0.6 else self.random.choice(CHANGES) if chance < 0.8 else super().change()

    def script(self, body: list[str], calls: int) -> str:
        choose, lines, made = self.random.choice, list[str](), 0
        kinds = [*(choose(OBJECTS) for _ in range(2)), "Given({k}, 'n{k}')"]
        for line in super().script(body, calls).splitlines():
            if line.startswith("        r = f("):
                x = f"tensor({made}, 3)" if self.random.random() < 0.7 else line[len("        r = f(") : -1]
                line, made = f"        r = f({x}, {choose(kinds).format(k=made)})", made + 1
            elif line.startswith("        return ") and self.random.random() < 0.4:
                line = f"        return {choose(('b', 'x, b.name', 'x, b', 'b.t', '[b.name, b.inner]'))}"
            lines.append(line.replace("plain(x, default_n", "plain(x, b, default_n"))
        return PRELUDE + "\n".join(lines) + "\n"


difference = functools.partial(worlds.difference, calls=10, generator=Generator)

if __name__ == "__main__":
    search(__doc__ or "", lambda seed, length: Generator(seed, length, 10).source[len(worlds.PRELUDE) + len(PRELUDE) :], difference, 4)
