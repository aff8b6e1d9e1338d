"""One launch for kernels that do the same to different tensors, as an optimizer's step or sums of columns: for GPUs."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.build import Built
from eagerjit.compiler.lower.emit import Amount, Argument, Pointer, Temporary
from eagerjit.compiler.lower.placement import Work
from eagerjit.runtime.records import record, replace

MOST_PARAMS = 400
"""Arguments of a kernel at most: a launch takes 4096 bytes of them."""
MOST_BETWEEN = 16
"""Other kernels at most that equal ones are looked for behind."""


@record
class Part:
    """One piece of work: the memory that it writes and all that it uses; where it may be joined its kernel, and what
    those that join it have in common."""

    work: Work
    written: set[Argument]
    used: set[Argument]
    built: Built | None = None
    common: tuple[object, ...] = ()

    def apart(self, other: Part) -> bool:
        """Whether neither reads or writes what the other one writes."""
        return not (self.written & other.used or other.written & self.used)


def merged(work: list[Work], phase: Callable[[Work], int], memory: Callable[[Node], Node]) -> list[Work]:
    """The work with equal kernels as one, where nothing that lies between them or among them depends on them.

    `memory` tells the node that stands for a node's memory: several may follow each other in one.
    """
    rest = [_part(w, memory) for w in work]
    done: list[Work] = []
    while rest:
        first, *rest = rest
        run = [first]
        between: list[Part] = []
        most = 1 if first.built is None else MOST_PARAMS // (len(first.built.kernel.params) + 1)
        for place, part in enumerate(rest):
            if len(between) > MOST_BETWEEN or len(run) >= most or phase(part.work) != phase(first.work):
                break
            if part.common == first.common and all(map(part.apart, between)) and all(map(part.apart, run)):
                run.append(part)
            else:
                between.append(part)
            taken = place + 1
        if len(run) > 1:
            rest = [*between, *rest[taken:]]
        done += _joined(run)
    return done


def _part(work: Work, memory: Callable[[Node], Node]) -> Part:
    built = work.built

    def whole(argument: Argument) -> Argument:
        return Pointer(memory(argument.root)) if isinstance(argument, Pointer) else argument

    if built is None:
        results: set[Argument] = {Pointer(memory(node)) for node in work.results}
        return Part(work, results, results | {Pointer(memory(node)) for node in work.reads})
    written, used = set(map(whole, _written(built))), set(map(whole, built.arguments))
    vector = _vector_loop(built)
    if vector is None:
        return Part(work, written, used)
    if isinstance(vector.start, str):
        flat = _with_extent(built)
        return Part(work, written, used, flat, (loops.body_text(flat.kernel),))
    if not _finishes(built):
        return Part(work, written, used)
    # Tasks share a block: of equal sizes it is the same for all, and so is the order of a sum.
    amounts = [a for a in built.arguments if isinstance(a, Amount)]
    return Part(work, written, used, built, (loops.body_text(built.kernel), built.tasks, *amounts))


def _vector_loop(built: Built) -> loops.Loop | None:
    """The one loop within a kernel's tasks, if it has no other and checks nothing.

    It starts at a name where tasks are blocks of one index.
    """
    tasks = next((s for s in built.kernel.body if isinstance(s, loops.Loop) and s.kind == "tasks"), None)
    if tasks is None or built.temporaries or built.scratch != 0:
        return None
    statements = list(loops.walk(built.kernel.body))
    inner = [s for s in statements if isinstance(s, loops.Loop) and s is not tasks]
    if len(inner) != 1 or any(isinstance(s, loops.Check | loops.Product) for s in statements):
        return None
    reduces = any(isinstance(s, loops.Init) for s in statements)
    return None if inner[0].kind != "vector" or (reduces and inner[0].start != 0) else inner[0]


def _finishes(built: Built) -> bool:
    """Whether a kernel combines partial results, of which there are few."""
    statements = list(loops.walk(built.kernel.body))
    read = {s.param for s in statements if isinstance(s, loops.Load)}
    pairs = zip(built.kernel.params, built.arguments, strict=True)
    partial = all(isinstance(a, Temporary) for p, a in pairs if p.name in read)
    return partial and any(isinstance(s, loops.Init) for s in statements)


def _with_extent(built: Built) -> Built:
    """The kernel with its number of elements as an argument, where it was a constant."""
    (tasks,) = (s for s in built.kernel.body if isinstance(s, loops.Loop))
    constants = {s.name: s for s in tasks.body if isinstance(s, loops.Let) and s.op == "const" and s.dtype == "i64"}
    ends = {a for s in tasks.body if isinstance(s, loops.Let) and s.op == "minimum" for a in s.args}
    found = [constants[name] for name in sorted(ends & constants.keys())]
    if not found:
        return built
    params = [loops.Param(s.name, "size", "i64") for s in found]
    body = tuple(s for s in tasks.body if s not in found)
    statements = [replace(s, body=body) if s is tasks else s for s in built.kernel.body]
    kernel = replace(built.kernel, params=(*built.kernel.params, *params), body=tuple(statements))
    return replace(built, kernel=kernel, arguments=[*built.arguments, *(Amount(int(s.value or 0)) for s in found)])


def _written(built: Built) -> set[Argument]:
    statements = list(loops.walk(built.kernel.body))
    stored = {s.param for s in statements if isinstance(s, loops.Store)}
    whole = any(isinstance(s, loops.Whole | loops.Product) for s in statements)  # they write without a store
    pairs = zip(built.kernel.params, built.arguments, strict=True)
    return {a for p, a in pairs if p.name in stored or (whole and p.kind == "memory")}


def _joined(run: list[Part]) -> list[Work]:
    """One kernel for all: arguments that they share stay one, the others are numbered."""
    members = [part.built for part in run if part.built is not None]
    if len(members) < 2:
        return [part.work for part in run]
    first = members[0]
    params: list[loops.Param] = []
    arguments: list[Argument] = []
    different: list[str] = []
    for position, param in enumerate(first.kernel.params):
        own = [m.arguments[position] for m in members]
        if all(a == own[0] for a in own):
            params.append(param)
            arguments.append(own[0])
            continue
        different.append(param.name)
        params += [loops.Param(f"{param.name}_{j}", param.kind, param.dtype) for j in range(len(members))]
        arguments += own
    params += [loops.Param(f"tasks_{j}", "size", "i64") for j in range(len(members))]
    arguments += [Amount(m.tasks) for m in members]
    statement = loops.Several(first.kernel, tuple(different), len(members))
    kernel = loops.Kernel(first.kernel.name, tuple(params), (statement,), first.kernel.contract)
    tasks: sizes.Expr = 0
    work: sizes.Expr = 0
    for m in members:
        tasks, work = sizes.add(tasks, m.tasks), sizes.add(work, m.work)
    sources = tuple(dict.fromkeys(s for m in members for s in m.sources))
    built = Built(kernel, arguments, tasks, work, 0, sources, first.reasons)
    reads = [root for part in run for root in part.work.reads]
    return [Work(run[0].work.step, built, [node for part in run for node in part.work.results], reads)]
