# ruff: noqa: E501
"""Random views of views, written through each other: jitted as the plain call.

A script makes tensors and views of them, calls a function that makes more views, writes through them and returns some,
writes to what it got, and goes back through it all. Numbers are small whole ones.
Compared are values, strides, memory shared, versions, histories, gradients and the kind of errors. How far into its
memory a result begins is not: what a result views ends with the compiled call unless something else views it too.

    python -m tests.property.aliases --count 500 --seed 0
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import eagerjit
from tests.property.scripts import innermost, loaded, search

VIEWS = (
    (
        "[0]|[-1]|[1:]|[:2]|[::2]|[..., 0]|[..., 1:]|[:, 1]|[None]|[..., None]|[1:3, 1:]|[:, ::2]|.t()|.T|.mT|.view(-1)|.reshape(-1)|.flatten()|"
        ".reshape(2, -1)|.view(3, -1)|.unsqueeze(0)|.unsqueeze(-1)|.squeeze()|.expand(2, *%s.shape)|.diagonal()|.narrow(0, 1, 2)|.narrow(-1, 0, 1)|"
        ".select(0, 1)|.unfold(0, 2, 1)|.unfold(-1, 2, 2)|.detach()|.chunk(2)[0]|.chunk(2, -1)[1]|.split(2)[-1]|.split([1, 3])[1]|.unbind()[1]|"
        ".transpose(0, -1)|.permute(1, 0)|.movedim(0, -1)|.swapaxes(0, 1)|.contiguous()|.clone()|.data|.view_as(%s)|.expand_as(%s)|"
        ".to(torch.float32)|.as_strided((2, 2), (1, 2))|.as_strided((2, 3), (3, 1), 1)|.ravel()|.broadcast_to(2, *%s.shape)|.tensor_split(2)[1]|"
        ".hsplit(2)[0]|.view(torch.int32)|.flip(0)|.positive()|.reshape_as(%s)|.unflatten(0, (2, -1))|.atleast_2d()|.alias()|.real|.hsplit(2)[1]"
    )
    .replace(".alias()", ".view(%s.shape)")
    .replace(".atleast_2d()", "[()]")
    .split("|")
)
WRITES = (
    "$.add_(2)|$.mul_(3)|$.add_(@)|$.sub_(@)|$.mul_(@)|$.copy_(@)|$.zero_()|$.fill_(4)|$[0] = 7|$[0] = @|$[1:] = @[1:]|$[..., 0] += 1|$ += @|$ *= 2|"
    "$[:] = @|$[1:] += $[:-1]|$.t_()|$.squeeze_()|$.unsqueeze_(0)|$.transpose_(0, -1)|$.detach_()|$.masked_fill_($ > 3, 1)|$.neg_()|"
    "$.index_add_(0, torch.tensor([0, 1]), @[:2])|$.index_fill_(0, torch.tensor([1]), 5)|torch.add(@, 1, out=$)|torch.mul(@, @, out=$)|"
    "$.data.add_(1)|$.detach().mul_(2)|$.clamp_(0, 6)|$.abs_()|$.requires_grad_()|$[$ > 4] = 0|$.as_strided_((2, 2), (1, 2))|$.swapaxes_(0, 1)|"
    "$.scatter_(0, torch.zeros(1, 1, dtype=torch.int64), 9)|$.relu_()|$.index_copy_(0, torch.tensor([1]), @[:1])|$.put_(torch.tensor([0]), torch.tensor([8.]))|"
    "$.lerp_(@, 2.0)|$.addcmul_(@, @)|$[torch.tensor([0, 1])] = 6|$[0, 0] = @.sum()|$.sub_(@, alpha=2)|$.fill_diagonal_(3)|$.tril_()|$.cumsum_(0)|"
    "$.where_ if 0 else $.copy_(@ * 2)|$.square_()|$.data = @.detach()|$.set_(@.detach())|$.masked_scatter_($ > 2, @.detach().reshape(-1))|$.view(-1)[2] = 3|"
    "$.t()[0] = 2|$[0].add_(@[1])|$.resize_(2, 2)|torch.cat([@, @], out=$)|$.diagonal().add_(1)|$.expand(2, *$.shape)[0].add_(1)|$.unbind()[0].mul_(2)"
).split("|")
PURE = "@ * 2|@ + @|@ - 1|@.sum(0)|@ * @|torch.cat([@, @])|@.sum()|torch.stack([@, @])|torch.where(@ > 2, @, @)|@.max()|@.float()|@ * @.detach()|@.roll(1)|@.repeat(2, 1)".split(
    "|"
)


class Generator:
    """Writes one script, of a function of x and y."""

    def __init__(self, seed: int, length: int = 6, calls: int = 4):
        self.random = random.Random(seed)
        choose = self.random.choice
        captured = ["b"]
        setup = [choose(("b = torch.arange(24.).reshape(4, 6)", "b = leaf * 2", "b = torch.arange(24.).reshape(6, 4).t()", "b = torch.arange(16.).reshape(4, 4)",
                         "b = (leaf * 1)[:, :4]"))]  # fmt: skip
        for i in range(self.random.randint(1, 3)):
            self.names = captured
            made = choose(captured)
            setup += [f"try: c{i} = {self.view(made)}", f"except Exception: c{i} = {made}"]
            captured.append(f"c{i}")
        self.names = ["x", "y", *captured]
        body: list[str] = []
        for number in range(self.random.randint(2, length)):
            body += self.line(number)
        returned = ", ".join(self.random.choices(self.names[-4:] + self.names, k=self.random.randint(1, 3)))
        lines = ["def script(torch, jit, show):", "    leaf = torch.ones(4, 6, requires_grad=True)", "    out = []",
                 *(f"    {line}" for line in setup), "    def plain(x, y):", *(f"        {line}" for line in body), f"        return [{returned}]",
                 "    f = jit(plain)"]  # fmt: skip
        every = ", ".join(["leaf", *captured])
        for _ in range(calls):
            arguments = [choose(("torch.arange(24.).reshape(4, 6) - 3", "torch.arange(24.).reshape(6, 4).t()", "torch.ones(4, 6, requires_grad=True) * 3", "torch.ones(4, 6)",
                                 "torch.full((4, 6), 2., requires_grad=True)", *captured, *captured, "b.detach()", "torch.ones(6)", "torch.arange(16.).reshape(4, 4)")) for _ in "xy"]  # fmt: skip
            if self.random.random() < 0.2:
                arguments = ["p", choose(("p", "p[0]", "p.t()", "p[1:]", "p.detach()"))]
            after = choose(([], [], ["r[0].add_(1)"], ["r[-1].mul_(2)"], ["b.add_(1)"], ["r[0].sum().backward(retain_graph=True)"], ["(r[0] * r[-1]).sum().backward()"],
                            ["r[0][0] = 5"], ["r[0].t_()"], ["r[0].detach().zero_()"], ["b.detach_()"], ["sum(t.sum() for t in r).backward()"]))  # fmt: skip
            lines += ["    p = torch.arange(24.).reshape(4, 6)", f"    try: u, w = {', '.join(arguments)}", "    except Exception as e: continue_ = False", "    else: continue_ = True", "    r = None",
                      "    try:", "        if continue_: r = f(u, w)", "    except Exception as e: out.append(type(e).__name__)",
                      f"    out.append(show([r, u, w, {every}] if continue_ else None))",
                      *(["    try:", *(f"        {line}" for line in after), "    except Exception as e: out.append(type(e).__name__)",
                         f"    out.append(show([r, u, w, {every}] if continue_ else None))"] if after else [])]  # fmt: skip
        # what a call has written outside would differ after an error; a script ends with its state shown
        self.source = "\n".join([*lines, "    return out"]) + "\n"

    def view(self, name: str) -> str:
        text: str = self.random.choice(VIEWS)
        return name + text.replace("%s", self.random.choice(self.names))

    def line(self, number: int) -> list[str]:
        choose, kind = self.random.choice, self.random.random()
        pick = lambda: choose([*self.names, *self.names[-3:]])  # noqa: E731
        if kind < 0.4:
            made = [f"v{number} = {self.view(pick())}"]
            self.names.append(f"v{number}")
        elif kind < 0.8:
            target, text = pick(), choose(WRITES).replace("$", "\0")
            if text.startswith("\0 ") and target in ("b", "c0", "c1", "c2"):
                text = "\0.add_(1)"
            made = [self.operands(text, pick).replace("\0", target)]
        elif kind < 0.93:
            made = [f"v{number} = {self.operands(choose(PURE), pick)}"]
            self.names.append(f"v{number}")
        else:
            made = [choose((f"{pick()}.sum().backward(retain_graph=True)", f"v{number} = {pick()} * {pick()}._version", f"assert {pick()}.requires_grad",
                            f"v{number} = {pick()} * ({pick()} is {pick()})", f"v{number} = {pick()} + {pick()}.is_contiguous()",
                            f"v{number} = {pick()} * {pick()}.stride(0)", f"v{number} = {pick()} + {pick()}.storage_offset()", f"v{number} = {pick()} * {pick()}.is_leaf"))]  # fmt: skip
            if made[0].startswith("v"):
                self.names.append(f"v{number}")
        wrapped = self.random.random()
        if wrapped < 0.12:
            return [
                choose(("with torch.no_grad():", "with torch.no_grad():", "with torch.enable_grad():")),
                *(f"    {line}" for line in made),
            ]
        if wrapped < 0.2 and not made[0].startswith("v"):
            return ["try:", *(f"    {line}" for line in made), "except RuntimeError:", "    pass"]
        return made

    def operands(self, text: str, pick: Callable[[], str]) -> str:
        while "@" in text:
            text = text.replace("@", pick(), 1)
        return text


def shown(tensors: Sequence[Any] | None) -> Any:
    """Everything a program can see of tensors, and what they have in common."""
    if tensors is None:
        return None
    memory: dict[int, int] = {}
    objects: dict[int, int] = {}

    def one(t: Any) -> Any:
        if isinstance(t, list):
            return [one(x) for x in t]
        if t is None:
            return None
        number = objects.setdefault(id(t), len(objects))
        try:
            t.detach().tolist()
        except RuntimeError as error:  # a view of several whose base was overwritten
            return number, type(error).__name__
        storage = t.untyped_storage()
        where = memory.setdefault(storage.data_ptr(), len(memory)) if t.numel() else None
        grad = one(t.grad) if t.is_leaf and t.grad is not None else None
        return {
            "object": number, "dtype": str(t.dtype).rpartition(".")[2], "shape": tuple(t.shape), "stride": tuple(t.stride()) if t.numel() else None,
            "values": t.detach().tolist(), "memory": where, "leaf": t.is_leaf,
            "requires_grad": t.requires_grad, "version": t._version, "grad": grad and {k: grad[k] for k in ("shape", "values")},
        }  # fmt: skip

    return [one(t) for t in tensors]


def run(seed: int, library: Any, jit: Callable[[Any], Any], length: int = 6) -> Any:
    """What a script shows in a library."""
    script = loaded(f"aliases_{seed}", Generator(seed, length).source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return script(library, jit, shown)


def difference(seed: int, length: int = 6) -> tuple[str | None, int, int]:
    """Where a script's runs part, the versions compiled and the calls that ran eagerly."""
    made: list[Any] = []

    def jit(function: Any) -> Any:
        made.append(eagerjit.jit(function))
        return made[-1]

    eager = run(seed, eagerjit, lambda f: f, length)
    jitted = run(seed, eagerjit, jit, length)
    infos = [f.cache_info() for f in made]
    counts = sum(i.compiles for i in infos), sum(i.eager_calls for i in infos)
    if eager != jitted:
        return innermost_of(eager, jitted), *counts
    return None, *counts


def innermost_of(a: Any, b: Any) -> str:
    """`innermost` of what is shown, dictionaries as pairs."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return ["tensor", *((k, plain(v)) for k, v in x.items())]
        return [plain(i) for i in x] if isinstance(x, (list, tuple)) else x

    return innermost(plain(a), plain(b))


if __name__ == "__main__":
    search(__doc__ or "", lambda seed, length: Generator(seed, length).source, difference, 6)
