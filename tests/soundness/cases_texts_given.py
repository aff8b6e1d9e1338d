"""Texts among the arguments that are others in every call: carried along, and tied to where code looks at them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import json
import os
import re
import types
import typing

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case

NAMES = ("cat", "dog", "eel", "cat", "", "fox", "ant", "dog", "42", "1.5")


def ones(*shape):
    return torch.ones(*shape)


def compared(jit, functions, names=NAMES):
    """What functions of a tensor and a text give, call after call."""
    for position, function in enumerate(functions):
        compiled = jit(function)
        for name in names:
            try:
                yield position, name, compiled(ones(2), name)
            except Exception as error:
                yield position, name, type(error), str(error)


@case(versions=12)
def texts_that_are_carried_along(jit):
    yield from compared(jit, [
        lambda x, name: x * 2,
        lambda x, name: (x * 2, name, [name], {"name": name}),
        lambda x, name: {"x": x * 2, **{"name": name}},
        lambda x, name: (isinstance(name, str), type(name) is str, name is None, hasattr(name, "shape"), x),
    ])  # fmt: skip


@case(versions=3)
def batches_with_names(jit):
    f = jit(lambda batch: {k: v * 2 if isinstance(v, torch.Tensor) else v for k, v in batch.items()})
    for i, name in enumerate(NAMES):
        yield f({"x": ones(3), "path": name, "captions": [name + "a", f"{i}"]})


@case(versions=4)
def objects_with_names(jit):
    class Sample:
        def __init__(self, x, name):
            self.x, self.name = x, name

    def f(sample):
        sample.x = sample.x * 2
        return sample.x.sum(), sample

    compiled = jit(f)
    for name in NAMES:
        yield [compiled(sample)[1] is sample for sample in [Sample(ones(2), name)]]


@case(versions=18)
def texts_made_of_texts(jit):
    yield from compared(jit, [
        lambda x, name: (x, f"<{name}>", f"{name}: {x.shape[0]}", name + "!", "!" + name, "{} {}".format(name, 2)),  # noqa: UP032
        lambda x, name: (x, "%s-%d" % (name, 3), "%s" % name, "/".join(["data", name, "x"])),  # noqa: UP031
        lambda x, name: (x, name.upper(), name.replace("a", "b"), name.strip("c"), name.center(9), name.title()),
        lambda x, name: (x, str(name), "".join([name, name]), name.removeprefix("c")),
        lambda x, name: (x, f"{name!s}", format(name), f"{name}{name}"),
    ])  # fmt: skip


@case
def texts_that_code_looks_at(jit):
    yield from compared(jit, [
        lambda x, name: x * 2 if name == "cat" else x * 3,
        lambda x, name: x * 2 if "cat" == name else x * 3,
        lambda x, name: x * len(name),
        lambda x, name: x * 2 if name else x * 3,
        lambda x, name: x * 2 if not name.strip("42") else x * 3,
        lambda x, name: x * sum(1 for letter in name if letter == "o"),
        lambda x, name: x * 2 if name in ("dog", "eel") else x * 3,
        lambda x, name: x * 2 if "o" in name else x * 3,
        lambda x, name: x * 2 if name.endswith("x") else x * 3,
        lambda x, name: x * 2 if name < "d" else x * 3,
        lambda x, name: x * ord(name[0]),
        lambda x, name: x * float(name),
        lambda x, name: x * int(name),
        lambda x, name: x * hash(name) * 0,
        lambda x, name: (x, name[::-1], name * 2, name.split("o"), name.partition("a"), repr(name), f"{name!r:>9}"),
        lambda x, name: (x, name.encode(), name.isdigit(), name.find("o"), name.count("a"), f"{name:>6}"),
    ])  # fmt: skip


@case
def texts_in_patterns_and_containers(jit):
    def matched(x, name):
        match name:
            case "cat" | "dog":
                return x * 2
            case str(text) if text:
                return x * 3
            case _:
                return x

    yield from compared(jit, [
        matched,
        lambda x, name: (x, sorted([name, "d", "a"]), max(name, "b"), [name, "b"].index("b")),
        lambda x, name: (x, {name: 1, "cat": 2}, dict(zip([name, "cat"], [1, 2], strict=True)).get("cat")),
        lambda x, name: (x, len({name, "cat"}), sorted({name, "dog"}), collections.Counter([name, "cat"])["cat"]),
        lambda x, name: (x, [name] == ["cat"], (name, 1) == ("cat", 1), ["cat"].count(name)),
        lambda x, name: (x, json.dumps({"name": name}), json.dumps([name])),
        lambda x, name: (x, os.path.join("data", name), os.path.basename(name)),
        lambda x, name: (x, bool(re.match("c.t", name)), re.sub("a", "o", name)),
        lambda x, name: (x, list(map(len, [name, "ab"])), any(n == "cat" for n in [name]), list(name)),
    ])  # fmt: skip


@case
def an_error_that_code_catches_of_a_text(jit):
    def tried(function):
        def f(x, name):
            try:
                return x, function([name])
            except (TypeError, ValueError, KeyError) as error:
                return x * 3, type(error).__name__
        return f

    yield from compared(jit, [
        tried(json.dumps), tried(lambda held: np.array(held).dtype.kind), tried(lambda held: "".join(held)),
        tried(lambda held: {"cat": 1}[held[0]]), tried(lambda held: int(held[0])), tried(lambda held: bytes(held)),
        tried(lambda held: os.fspath(held[0])), tried(lambda held: str.join("-", held)),
    ])  # fmt: skip


@case
def texts_as_keys_outside(jit):
    known = {"cat": 2, "dog": 3}
    totals, kept = collections.defaultdict(float), types.SimpleNamespace(name=None)

    def counted(x, name):
        totals[name] += 1
        return x * totals[name]

    def stored(x, name):
        kept.name, kept.last = name, x.sum()
        return x

    def assigned(x, name):
        known[name] = 5
        return x * known["cat"]

    yield from compared(jit, [lambda x, name: x * known.get(name, 7), lambda x, name: x * known[name]])
    yield from compared(jit, [counted])
    yield dict(totals)
    yield from compared(jit, [stored])
    yield vars(kept)
    yield from compared(jit, [assigned])
    yield known


@case
def texts_that_name_attributes(jit):
    options = types.SimpleNamespace(cat=2, dog=3)

    def assigned(x, name):
        setattr(options, name, x.shape[0])
        return x

    yield from compared(jit, [
        lambda x, name: x * getattr(options, name, 9), lambda x, name: x * options.__dict__.get(name, 8), assigned,
    ])  # fmt: skip
    yield vars(options)


@case
def texts_that_say_what_an_operation_does(jit):
    functions = [
        lambda x, name: torch.einsum(name, x[None], x[:, None]),
        lambda x, name: x.to(name),
        lambda x, name: torch.nn.functional.cross_entropy(x[None], torch.tensor([1]), reduction=name),
        lambda x, name: torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode=name),
    ]
    texts = ["ij,jk->ik", "ij,jk", "ij,jk->ki", "cpu", "cuda:99", "mean", "sum", "none", "linear", "nearest", "area"]
    yield from compared(jit, functions, [*texts, *texts[::-1]])


@case
def texts_printed(jit):
    def f(x, name):
        print(name, x.shape[0], f"[{name}]")
        return x * 2

    yield from compared(jit, [f])


@case(versions=6)
def gradients_beside_texts(jit):
    f = jit(lambda batch: ((batch["x"] ** 2).sum(), batch["id"]))
    for name in NAMES:
        x = ones(3).requires_grad_()
        loss, told = f({"x": x, "id": name})
        loss.backward()
        yield x.grad, told


@case
def the_same_text_in_two_places(jit):
    f = jit(lambda x, a, b: x * 2 if a == b else (x * 3 if a is None else x))
    for name in NAMES:
        yield f(ones(2), name, name), f(ones(2), name, name + "x"), f(ones(2), None, name)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x, name):
        return {"out": self.inner(x), "name": name}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = Layer(), None

    def forward(self, x, name):
        self.last = name
        return self.layer(x, name=name)


@case(versions=24)
def texts_handed_on(jit):
    layer, outer, inner = Layer(), Outer(), jit(lambda x, name: (x * 2, name + "!"))
    layer.register_forward_hook(lambda module, args, out: {**out, "hooked": args[1]})

    class Called:
        def __call__(self, x, name):
            return x, name

        @torch.no_grad()
        def method(self, x, name):
            return x, name

    @contextlib.contextmanager
    def named(name):
        yield name

    def entered(x, name):
        with named(name) as found:
            return x, found

    called = Called()
    yield from compared(jit, [
        lambda x, name: layer(x, name), lambda x, name: outer(x, name), lambda x, name: inner(x, name),
        lambda x, name: inner(x, name=f"{name}?"), lambda x, name: called(x, name),
        lambda x, name: called.method(x, name), entered, lambda x, name: (x, getattr(called, "lacking", name)),
    ])  # fmt: skip
    yield outer.last


@case
def texts_that_what_is_called_looks_at(jit):
    inner = jit(lambda x, name: x * 2 if name == "cat" else x * 3)
    layers = nn.ModuleDict({"cat": nn.Linear(2, 2), "dog": nn.Linear(2, 2)})

    class Chosen(nn.Module):
        def forward(self, x, name):
            return layers[name](x)

    chosen, flat = Chosen(), nn.Flatten(0)

    @functools.singledispatch
    def told(name, x):
        return x

    told.register(str, lambda name, x: x * len(name))
    yield from compared(jit, [
        lambda x, name: inner(x, name), lambda x, name: chosen(x, name), lambda x, name: told(name, x),
        lambda x, name: flat(name), lambda x, name: layers["cat"](x, name), lambda x, name: nn.functional.relu(name),
    ])  # fmt: skip


@case(versions=3)
def texts_put_in_dictionaries(jit):
    def f(x, name):
        kept = {}
        kept.setdefault("a", name)
        kept.update(b=name)
        kept.update({"c": name})
        kept.__setitem__("d", name)
        dict.setdefault(kept, "e", name)
        return x, kept, kept.get("a", "none"), kept.get("z", name), kept.pop("b", 1), kept.pop("y", name)

    yield from compared(jit, [f])


@case
def texts_that_are_keys_of_methods(jit):
    known = {"cat": 2}

    def f(x, name):
        mine = {"cat": 1, "dog": 2}
        found = known.get(name, 1), dict.get(known, name), mine.setdefault(name, 5), mine.pop(name), mine.pop(name, 7)
        return x, found, mine

    yield from compared(jit, [f])


@case(versions=3)
def texts_kept_outside_by_methods(jit):
    known = {"a": "none"}

    def f(x, name):
        known.update(b=name)
        known.__setitem__("d", name)
        return x * 2

    compiled = jit(f)
    for name in NAMES:
        yield compiled(ones(2), name), dict(known)


@case(versions=12)
def records_made_with_texts(jit):
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: typing.Any
        name: str = ""

    class Named(typing.NamedTuple):
        x: typing.Any
        name: str

    yield from compared(jit, [
        lambda x, name: Frozen(x * 2, name), lambda x, name: dataclasses.replace(Frozen(x), name=name),
        lambda x, name: Named(x, name)._replace(x=x * 2),
    ])  # fmt: skip
    compiled = jit(lambda batch: batch._replace(x=batch.x * 2))
    for name in NAMES:
        yield compiled(Named(ones(2), name))


@case
def texts_that_name_what_object_sets(jit):
    options = types.SimpleNamespace(cat=2)

    def f(x, name):
        object.__setattr__(options, name or "none", x.shape[0])
        return x * options.cat

    yield from compared(jit, [f])
    yield vars(options)


@case(versions=12)
def fields_replaced_by_texts(jit):
    class Named(typing.NamedTuple):
        x: typing.Any
        name: str = ""

    class Shouting(collections.namedtuple("Shouting", "x name")):
        def _replace(self, **fields):
            return super()._replace(**fields | {"x": self.x + len(fields)})

    yield from compared(jit, [
        lambda x, name: Named(x * 2)._replace(name=name),
        lambda x, name: Named._replace(Named(x * 2), name=name, x=x),
        lambda x, name: Shouting(x * 2, "")._replace(name=name),
        lambda x, name: [part._replace(name=f"{name}!") for part in (Named(x), Named(x + 1))],
    ])  # fmt: skip


@case
def fields_replaced_by_texts_that_are_looked_at(jit):
    Named = collections.namedtuple("Named", "x name")
    yield from compared(jit, [
        lambda x, name: x * len(Named(x, "")._replace(name=name).name),
        lambda x, name: x * (2 if Named(x, "")._replace(name=name).name == "cat" else 3),
        lambda x, name: x * {"cat": 2}.get(Named(x, "")._replace(name=name)[1], 3),
        lambda x, name: (x, Named(1, "")._replace(name=name) == (1, "dog"), Named(x, "")._replace(name=name).index(x)),
        lambda x, name: Named(x, "")._replace(names=name),
    ])  # fmt: skip
