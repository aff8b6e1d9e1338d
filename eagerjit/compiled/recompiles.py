"""Why a function was compiled again: which of the things that it depends on is another than before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from eagerjit import pytree
from eagerjit.compiled.fallback import JitWarning
from eagerjit.compiled.names import Names
from eagerjit.compiled.options import Options
from eagerjit.compiler.signature import FloatLeaf, IntLeaf, ObjectGuard, SameGuard, TensorLeaf, WriteGuard
from eagerjit.runtime import log
from eagerjit.runtime.mode import GRAD_OFF
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record
from eagerjit.runtime.source import warn

if TYPE_CHECKING:
    from eagerjit.compiled.variants import Variant


@record(frozen=True)
class Recompile:
    """What changed, from what, to what, and the user's line that read it."""

    what: str
    old: str
    new: str
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.what} was {self.old}, is {self.new}{where}"


@record
class CacheInfo:
    """What a jitted function has done: versions compiled, calls that Python saw them serve, and why it recompiled."""

    compiles: int = 0
    hits: int = 0
    recompiles: int = 0
    eager_calls: int = 0
    reasons: list[Recompile] = field(default_factory=list)


_FEW, _LONG = 8, 10_000
"""Versions that a function may have before each must have served so many calls too, where they are of so many
operations together; four times as many where they are of fewer."""


def goes_astray(known: list[Variant], served: int) -> bool:
    """Whether calls take ever new ways through a function, so that compiling them costs more than it gains.

    `served` counts the calls that fitted a version.
    """
    if len(known) < _FEW or served >= _FEW * len(known):
        return False
    is_long = sum(len(variant.report.traced.nodes) for variant in known) >= _LONG
    return len(known) >= _FEW * (1 if is_long else 4)


def note_recompile(info: CacheInfo, reason: Recompile, function: Any, options: Options) -> None:
    """Count a recompile; warn or raise if that is what the user asked for."""
    times = 1 + sum(r.what == reason.what for r in info.reasons)
    message = f"{function.__qualname__} is compiled again: {reason}"
    if times > 1:
        message += f" (change number {times} of {reason.what})"
    if options.on_recompile == "error":
        raise RuntimeError(message)
    info.recompiles += 1
    info.reasons.append(reason)
    if log.RECOMPILE:
        log.write("recompile", f"{function.__name__}: {reason}")
    if options.on_recompile == "warn":
        warn(message, JitWarning)


def recompile(function: Callable[..., Any], known: list[Variant], new: Variant) -> Recompile:
    """The first thing in which a new version of a function differs from the known one most like it."""
    alike = [v for v in known if v.structure == new.structure]
    if not alike:
        return Recompile("the structure of the arguments", _nesting(known[-1].structure), _nesting(new.structure))
    names = Names(function, new.report.trace, new.report.objects)
    facts = _facts(new, names)
    found = [(_differences(_facts(v, names), facts), v) for v in alike]
    (surely, maybe), closest = min(reversed(found), key=lambda one: len(one[0][0]))
    return surely[0] if surely else _replaced(closest, new, names, maybe)


def _replaced(old: Variant, new: Variant, names: Names, maybe: list[Recompile]) -> Recompile:
    """The first object in whose place there is another one that looks the same, or what may matter where none is."""
    before = {what: found for what, found, _ in _objects(old, names)}
    for what, now, source in _objects(new, names):
        if what in before and before[what] is not now:
            return Recompile(what, _shown(before[what]), "another one", source)
    return maybe[0] if maybe else Recompile("the state that it reads", "another", "new")


def _objects(variant: Variant, known: Names) -> Iterator[tuple[str, Any, str]]:
    """The objects that a version is bound to: their descriptions, themselves, and the lines."""
    trace, objects = variant.report.trace, variant.report.objects
    names = known.leaves(variant.structure, trace, objects)
    for b in trace.bindings:
        if isinstance(b, ObjectGuard) and b.op is Op.IS:
            name, source = names.get(b.leaf, (f"value {b.leaf}", ""))
            yield name, objects[b.object], source


def _differences(old: dict[str, _Fact], new: dict[str, _Fact]) -> tuple[list[Recompile], list[Recompile]]:
    """What differs, and what does but for the old version need not: sizes that were symbols there."""
    surely: list[Recompile] = []
    maybe: list[Recompile] = []
    for what in dict.fromkeys((*new, *old)):
        before, now = old.get(what, _NOTHING), new.get(what, _NOTHING)
        if before.text != now.text:
            kind = maybe if before.admits(now) else surely
            kind.append(Recompile(what, before.text, now.text, (new.get(what) or before).source))
    return surely, maybe


def _nesting(structure: Any) -> str:
    if type(structure) is not tuple:
        return "*" if structure == pytree.LEAF else getattr(structure, "__name__", "again")
    if structure == pytree.ONLY_ADDED_TO:
        return "list"
    kind, keys, children = structure
    parts = [_nesting(c) for c in children]
    if keys is not None:
        named = pytree.steps_of(structure) if type(keys) is pytree.Derived else keys
        parts = [f"{k}={p}" for k, p in zip(named, parts, strict=True)]
    return f"{kind.__name__}({', '.join(parts)})"


class _Fact(NamedTuple):
    """Something that a version depends on, and the line that read it; of a tensor its sizes, and the rest."""

    text: str
    source: str
    sizes: tuple[Any, ...] | None = None
    rest: Any = None

    def admits(self, other: _Fact) -> bool:
        """Whether a tensor that another version takes would do for this one, for all that is known of sizes here."""
        mine, theirs = self.sizes, other.sizes
        if mine is None or theirs is None or self.rest != other.rest or len(mine) != len(theirs):
            return False
        return all(type(a) is not int or a == b for a, b in zip(mine, theirs, strict=True))


_NOTHING = _Fact("nothing", "")


def _facts(variant: Variant, known: Names) -> dict[str, _Fact]:
    """What a version depends on, by descriptions."""
    trace, objects = variant.report.trace, variant.report.objects
    names = known.leaves(variant.structure, trace, objects)
    out: dict[str, _Fact] = {}
    for b in trace.bindings:
        name, source = names.get(b.leaf, (f"value {b.leaf}", ""))
        match b:
            case TensorLeaf(_, node, strides, grad):
                layout = "contiguous" if strides is None else f"strides {list(map(str, strides))}"
                needs = "" if grad == 2 else f", requires_grad={bool(grad)}"
                rest = node.type.dtype, layout, needs
                out[name] = _Fact(f"{node.type} ({layout}{needs})", source, tuple(node.type.shape), rest)
            case FloatLeaf():
                out[name] = _Fact("a float", source)
            case IntLeaf(_, size):
                out[name] = _Fact(str(size) if isinstance(size, int) else "an int", source)
            case ObjectGuard(_, Op.LACKS, constant):
                out[f"{name} has {objects[constant]}"] = _Fact("False", source)
            case ObjectGuard(_, Op.TYPE_IS, constant):
                out[f"the class of {name}"] = _Fact(objects[constant].__name__, source)
            case ObjectGuard(_, _, constant):
                out[name] = _Fact(_shown(objects[constant]), source)
            case SameGuard(_, other, expected):
                second = names.get(other, (f"value {other}", ""))[0]
                out[f"{name} is {second}"] = _Fact(str(expected), source)
            case WriteGuard():
                out[f"{name} is no view made without gradients"] = _Fact("True", source)
    for leaf, kind in variant.asked.kinds.items():
        out[f"the class of {names[leaf][0]}"] = _Fact(kind.__name__, names[leaf][1])
    for g in trace.guards:
        out[f"{g.a} {g.relation} {g.b}"] = _Fact(str(g.holds), g.source)
    for position, q in enumerate(trace.questions):
        if q.size is None:
            out[f"the number that question {position} asks for"] = _Fact(str(q.bits), q.node.source)
    if trace.grad_mode is not None:
        out["grad mode"] = _Fact("off" if trace.grad_mode & GRAD_OFF else "on", "")
    return out


def _shown(value: Any) -> str:
    kinds = str, int, float, bool, tuple, type(None)
    plain = isinstance(value, kinds) or (type(value) is list and all(isinstance(x, kinds) for x in value))
    text = repr(value) if plain else f"a certain {type(value).__name__}"
    return text if len(text) < 60 else text[:57] + "..."
