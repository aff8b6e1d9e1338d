"""Machine code of kernels, made once in a process for all programs that have the same ones.

An operation and a compiled function that calls it alone, two versions of a function that differ in what they guard, a
call that is recorded once more, a function before and after one of its lines was edited: their graphs differ where most
of their kernels do not. Kernels are the same if they print the same but for their names, so in machine code their names
are digests. What a program lacks is compiled as one object, or as several side by side if it is long; of the objects
that are known it takes those of which it needs half or more. In memory an object lies once, however many programs run
it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from eagerjit.runtime import cache, cpu, threads
from eagerjit.runtime.once import lock, once
from eagerjit.runtime.records import replace

if TYPE_CHECKING:
    from eagerjit.compiler.loops import Kernel

MOST = 16 << 20
"""Bytes that are kept; what was used least recently goes first."""

MANY = 4
"""Kernels from which on it is worth to look for an earlier program's on the disk."""

SHARE = 4096
"""Characters of kernels from which on it is worth to compile them beside others, in a thread of their own."""


class Object(NamedTuple):
    """Kernels compiled together, and their symbols."""

    code: bytes
    symbols: tuple[str, ...]


class Code(NamedTuple):
    """A program's machine code: objects, and for each kernel which of them defines it, as which of its symbols."""

    objects: tuple[Object, ...]
    places: tuple[tuple[int, int], ...]


_known: OrderedDict[tuple[str, ...], Object] = OrderedDict()
_holding: dict[str, set[tuple[str, ...]]] = {}
"""The objects that are kept, by their symbols, and of which a kernel is one."""
_bytes = 0  # of all that are kept

_loaded: WeakValueDictionary[tuple[str, ...], cpu.LoadedObject] = WeakValueDictionary()


def machine_code(kernels: Sequence[Kernel], earlier: Callable[[], Code | None] = lambda: None) -> Code:
    """Machine code of kernels; `earlier` finds that of a program which may have had some of them."""
    emit_module, body_text = _emission()
    width = cpu.vector_width_bits()
    texts = [body_text(kernel) for kernel in kernels]
    names = [symbol(width, text) for text in texts]
    wanted = dict(zip(names, kernels, strict=True))
    objects, missing = _found(wanted)
    if len(missing) >= MANY:
        known = earlier()
        if known is not None:
            _keep(known.objects)
            objects, missing = _found(wanted)
    if missing:
        lengths = dict(zip(names, map(len, texts), strict=True))
        shares = _shares({name: lengths[name] for name in missing}, threads.get_num_threads())
        modules = (emit_module([replace(wanted[name], name=name) for name in share], width) for share in shares)
        codes = cpu.compile_texts(modules) if len(shares) > 1 else map(cpu.compile_text, modules)
        made = [Object(cpu.linked(code)[0], tuple(share)) for code, share in zip(codes, shares, strict=True)]
        objects += made
        _keep(made)
    places = {name: (i, j) for i, one in enumerate(objects) for j, name in enumerate(one.symbols)}
    return Code(tuple(objects), tuple(places[name] for name in names))


@once
def _emission() -> Any:
    """What writes kernels as text, imported under the lock, which a fork waits for."""
    from eagerjit.compiler.codegen.llvm import emit_module
    from eagerjit.compiler.loops import body_text

    return emit_module, body_text


def symbol(width: int, body: str) -> str:
    """What machine code for vectors of so many bits calls a kernel with this body."""
    return f"kernel.{cache.content_key(str(width), body)[:32]}"


def _shares(lengths: dict[str, int], most: int) -> list[list[str]]:
    """Kernels by the lengths of their texts in parts that take equally long to compile, `most` or fewer."""
    count = max(1, min(most, sum(lengths.values()) // SHARE))
    shares: list[list[str]] = [[] for _ in range(count)]
    totals = [0] * count
    for name in sorted(lengths, key=lengths.__getitem__, reverse=True):
        lightest = totals.index(min(totals))
        shares[lightest].append(name)
        totals[lightest] += lengths[name]
    return [share for share in shares if share]


def _found(wanted: Collection[str]) -> tuple[list[Object], list[str]]:
    """Known objects of which half or more is wanted, those that give most first, and what none of them defines."""
    missing = dict.fromkeys(wanted)
    found: list[Object] = []
    with lock:
        candidates = {key for name in wanted for key in _holding.get(name, ())}
        for key in sorted(candidates, key=lambda key: (-len(missing.keys() & set(key)), key)):
            if 2 * len(missing.keys() & set(key)) >= len(key):
                missing = {name: None for name in missing if name not in key}
                _known.move_to_end(key)
                found.append(_known[key])
    return found, list(missing)


def _keep(objects: Sequence[Object]) -> None:
    global _bytes
    with lock:
        for one in objects:
            if one.symbols not in _known:
                _bytes += len(one.code)
                _known[one.symbols] = one
                for name in one.symbols:
                    _holding.setdefault(name, set()).add(one.symbols)
        while _bytes > MOST:
            key, forgotten = _known.popitem(last=False)
            _bytes -= len(forgotten.code)
            for name in key:
                _holding[name].discard(key)
                if not _holding[name]:
                    del _holding[name]


def loaded(one: Object) -> cpu.LoadedObject:
    """The object in memory, that which other programs run if there are any."""
    with lock:
        found = _loaded.get(one.symbols)
        if found is None:
            found = _loaded[one.symbols] = cpu.load_object(one.code, exported=one.symbols)
        return found


def forget() -> None:
    """Forget all machine code: whatever is compiled next is compiled anew."""
    global _bytes
    with lock:
        _known.clear()
        _holding.clear()
        _loaded.clear()
        _bytes = 0
